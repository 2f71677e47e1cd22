"""Principal axes of tables with fewer rows than columns, from inner products or by SVD."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.blocks import spans
from nearfold.linalg.eigen import thin_svd, top_eigenpairs
from nearfold.linalg.implicit import unit_rows
from nearfold.linalg.moments import product_dtype
from nearfold.notation import Array, Floats

COLUMNS = 4096  # multiplied at a time

_quiet = np.errstate(over="ignore", invalid="ignore")  # the caller looks at the total
Axes = tuple[Floats, Floats, float, Floats]  # lam, axes, total, mean


@_quiet
def axes_by_inner_products(X: Array, w: Floats, k: int) -> Axes:
    """The k leading axes, from the (m, m) inner products of the centred, weighted rows."""
    m, d = X.shape
    dtype = product_dtype(X.dtype, d, m)
    mean = np.empty(d)
    G = np.zeros((m, m))
    for part in spans(d, COLUMNS):  # products in the dtype of X, sums in float64
        A, mean[part] = _centred_columns(X[:, part], w, dtype)
        G += A @ A.T
    total = float(np.trace(G))
    if not np.isfinite(total):
        return np.zeros(0), np.zeros((0, d)), np.inf, mean
    pairs = top_eigenpairs(G, min(k, m), name="the matrix of inner products")
    U = pairs.vectors.astype(dtype)
    axes = np.empty((U.shape[1], d), dtype=X.dtype)
    for part in spans(d, COLUMNS):
        axes[:, part] = U.T @ _centred_columns(X[:, part], w, dtype)[0]
    return np.maximum(pairs.values, 0.0), unit_rows(axes), total, mean


def _centred_columns(X: Array, w: Floats, dtype: Any) -> tuple[Array, Floats]:
    """diag(sqrt w) (X - 1 mu^T) of some columns, and their means."""
    mean = w @ X.astype(np.float64) / w.sum()
    A = X - mean
    A -= w @ A / w.sum()  # far from the origin the mean itself is rounded
    A = A.astype(dtype, copy=False)
    return A * np.sqrt(w).astype(dtype)[:, None], mean


@_quiet
def axes_by_svd(X: Array, w: Floats) -> Axes:
    """All axes by the SVD of the centred, weighted rows: for a graded spectrum."""
    A = X.astype(np.float64)
    mean = w @ A / w.sum()
    A -= mean
    A -= w @ A / w.sum()
    A *= np.sqrt(w)[:, None]
    if not np.isfinite(np.einsum("ij,ij->", A, A)):
        return np.zeros(0), A[:0], np.inf, mean
    _, s, axes = thin_svd(A, "the centred rows")
    return s**2, axes, float(s @ s), mean
