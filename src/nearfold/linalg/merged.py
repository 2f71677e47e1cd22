"""Axes merged batch by batch in O(k d) memory: the fallback where a scatter does not fit."""

from __future__ import annotations

import numpy as np

from nearfold.linalg.eigen import thin_svd
from nearfold.linalg.principal import Principal
from nearfold.notation import Array, Floats
from nearfold.run import one_blas_thread


@one_blas_thread()
def merge_truncated(kept: Principal, X: Array, weights: Floats | None, k: int) -> Principal:
    """Axes of the rows seen and the rows X, from the k axes kept and X: what else was, is lost."""
    w = np.ones(len(X)) if weights is None else weights
    m, n = float(w.sum()), kept.count
    if m == 0.0:
        return kept
    mean = np.asarray(w @ X, dtype=np.float64) / m
    centred = (X - mean) * np.sqrt(w)[:, None]
    shift = np.sqrt(n * m / (n + m)) * (kept.mean - mean)
    stacked = np.vstack([np.sqrt(kept.lam)[:, None] * kept.axes, centred, shift])
    _, s, axes = thin_svd(stacked, "the merged batch")
    total = kept.total + float(np.sum(centred**2) + shift @ shift)
    merged_mean = (n * kept.mean + m * mean) / (n + m)
    n_rows = kept.n_rows + len(X)
    return Principal(
        s[:k] ** 2, axes[:k], total, merged_mean, n + m, n_rows, "merged", kept.approximation
    )
