"""The principal axes of a table: eigenpairs of its scatter S = sum w (x - mu)(x - mu)^T.

Four exact routes and one approximate, which all end in the same `Principal`:

    scatter     S in blocks, then its eigenpairs: O(m d^2), the product runs at BLAS speed
    factor      R of the QR of the centred rows in blocks (TSQR), then the SVD of R: the same
                order, a few times slower, but does not square the condition number
    dual        m < d: eigenpairs of the inner products of the rows, O(m^2 d)
    implicit    few axes of a large or sparse table, by Lanczos on products with X alone
    randomized  the approximate one, only when asked for

Accuracy. Eigenvalues of S carry an error of about u lam_1 (u: unit roundoff of the products), so
the scatter and dual routes keep half the digits of lam_k as long as lam_k >= sqrt(u) lam_1.
`reliable` tests that; below it float32 input is accumulated again in float64, and float64 input
takes the factor route.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.blocks import Block, combine_blocks
from nearfold.errors import InputError
from nearfold.linalg.eigen import combine_triangles, thin_svd, top_eigenpairs, triangular_factor
from nearfold.linalg.implicit import unit_rows
from nearfold.linalg.moments import Moments, Workspaces, block_moments, combine_moments
from nearfold.notation import Array, Floats


@dataclass
class Principal:
    """Eigenvalues lam (k,) of the scatter, largest first, and axes (k, d); what they come from."""

    lam: Floats
    axes: Floats
    total: float  # trace of the scatter: all the variance there is, kept or not
    mean: Floats
    count: float  # sum of weights
    n_rows: int
    route: str
    approximation: str | None = None

    def head(self, k: int) -> Principal:
        """The first k of them."""
        return Principal(
            self.lam[:k], self.axes[:k], self.total, self.mean, self.count, self.n_rows,
            self.route, self.approximation,
        )  # fmt: skip


def reliable(lam: Floats, k: int, dtype: Any) -> bool:
    """Whether the k-th eigenvalue of a scatter computed in `dtype` has half its digits."""
    if k == 0 or len(lam) == 0 or lam[0] <= 0:
        return True
    return bool(lam[min(k, len(lam)) - 1] >= np.sqrt(np.finfo(dtype).eps) * lam[0])


def table_moments(
    blocks: Iterable[Block], weights: Floats | None, dtype: Any, total: int | None = None
) -> Moments:
    """Moments of all rows, block by block."""

    spaces = Workspaces()

    def of_block(block: Block) -> Moments:
        X = block.X if isinstance(block.X, np.ndarray) else block.X.toarray()
        w = None if weights is None else weights[block.start : block.start + X.shape[0]]
        if w is not None and len(w) < len(X):
            raise InputError("sample_weight has fewer entries than there are rows.")
        if X.dtype != dtype:
            X = X.astype(dtype)
        return block_moments(X, w, workspace=spaces.like(X))

    moments = combine_blocks(blocks, of_block, combine_moments, label="scatter", total=total)
    if weights is not None and len(weights) != moments.n_rows:
        raise InputError(f"sample_weight has {len(weights)} entries for {moments.n_rows} rows.")
    moments.scatter = moments.scatter.astype(np.float64, copy=False)
    return moments


def from_scatter(moments: Moments, k: int, route: str = "scatter") -> Principal:
    """The k leading axes from the moments."""
    S = moments.scatter
    pairs = top_eigenpairs(S, k, name="the scatter matrix")
    lam = np.maximum(pairs.values, 0.0)  # rounding may leave a zero slightly negative
    return Principal(
        lam, np.ascontiguousarray(pairs.vectors.T), float(np.trace(S)), moments.mean[0],
        float(moments.count[0]), moments.n_rows, route,
    )  # fmt: skip


def from_factor(
    blocks: Callable[[], Iterable[Block]], weights: Floats | None, moments: Moments
) -> Principal:
    """All axes by QR in blocks; the mean is known from `moments`."""
    mean = moments.mean[0]

    def of_block(block: Block) -> Array:
        X = block.X if isinstance(block.X, np.ndarray) else block.X.toarray()
        X = X.astype(np.float64) - mean
        if weights is not None:
            X *= np.sqrt(weights[block.start : block.start + X.shape[0]])[:, None]
        return triangular_factor(X)

    R = combine_blocks(blocks(), of_block, combine_triangles, label="factor")
    _, s, axes = thin_svd(R, "the triangular factor")
    return Principal(
        s**2, axes, float(s @ s), mean, float(moments.count[0]), moments.n_rows, "factor"
    )


@np.errstate(over="ignore", invalid="ignore")  # the caller looks at the total
def from_inner_products(X: Array, weights: Floats | None, k: int) -> Principal:
    """The k leading axes of a wide table, from the (m, m) inner products of its rows."""
    m, d = X.shape
    w = np.ones(m) if weights is None else weights
    mean = np.asarray(w @ X, dtype=np.float64) / w.sum()
    A = X - mean.astype(X.dtype)
    if weights is not None:
        A *= np.sqrt(w).astype(X.dtype)[:, None]
    G = np.zeros((m, m))
    for start in range(0, d, 4096):  # float32 products, float64 sums
        part = A[:, start : start + 4096]
        G += part @ part.T
    if not np.isfinite(np.trace(G)):
        return Principal(np.zeros(0), A[:0], np.inf, mean, float(w.sum()), m, "dual")
    pairs = top_eigenpairs(G, min(k, m), name="the matrix of inner products")
    axes = unit_rows((A.T @ pairs.vectors.astype(X.dtype)).T)
    lam = np.maximum(pairs.values, 0.0)
    return Principal(lam, axes, float(np.trace(G)), mean, float(w.sum()), m, "dual")


@np.errstate(over="ignore", invalid="ignore")
def from_svd(X: Array, weights: Floats | None) -> Principal:
    """All axes by the SVD of the centred rows: for wide tables with a graded spectrum."""
    w = np.ones(X.shape[0]) if weights is None else weights
    mean = np.asarray(w @ X, dtype=np.float64) / w.sum()
    A = (X - mean) * np.sqrt(w)[:, None]
    _, s, axes = thin_svd(A, "the centred rows")
    return Principal(s**2, axes, float(s @ s), mean, float(w.sum()), X.shape[0], "svd")
