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
    r = len(kept.lam)
    stacked = np.empty((r + len(X) + 1, X.shape[1]))
    np.multiply(np.sqrt(kept.lam)[:, None], kept.axes, out=stacked[:r])
    mean = np.asarray(w @ X, dtype=np.float64) / m
    centred, shift = stacked[r:-1], stacked[-1]
    np.subtract(X, mean, out=centred)
    centred *= np.sqrt(w)[:, None]
    np.multiply(np.sqrt(n * m / (n + m)), kept.mean - mean, out=shift)
    total = kept.total + float(np.einsum("ij,ij->", stacked[r:], stacked[r:]))
    _, s, axes = thin_svd(stacked, "the merged batch")
    merged_mean = (n * kept.mean + m * mean) / (n + m)
    n_rows = kept.n_rows + len(X)
    return Principal(
        s[:k] ** 2, axes[:k].copy(), total, merged_mean, n + m, n_rows, "merged", kept.approximation
    )
