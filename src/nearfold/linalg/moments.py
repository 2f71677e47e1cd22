"""Weighted moments of grouped rows: count, mean, centred scatter; combined pairwise.

For groups g (one group in PCA, one per class in LDA) with weights w_i

    n_g = sum w_i      mu_g = sum w_i x_i / n_g      S = sum_g sum_i w_i (x_i - mu_g)(x_i - mu_g)^T

Two sets of rows A and B combine exactly:

    mu = mu_A + delta n_B / n    S = S_A + S_B + delta delta^T n_A n_B / n    delta = mu_B - mu_A

so nothing is ever computed as E[x x^T] - mu mu^T, which loses every digit when the mean is
large against the spread. The product inside one block runs, and stays, in the dtype asked for;
counts, means and combined scatters are float64.

S squares the condition number of the rows. Where that costs too many digits, moments also carry
a triangular `factor` R with R^T R = S, from QR in blocks (TSQR): the rows of both R and the row
delta sqrt(n_A n_B / n) are factored together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg, sparse

from nearfold.blocks import Block, Executor, Rows, require_memory, spans
from nearfold.linalg.eigen import combine_triangles, triangular_factor
from nearfold.notation import Array, Floats, Ints
from nearfold.run import PerThread
from nearfold.state import State, array, number, optional

_SCATTERS_ALIVE = 6  # the sum, those of two blocks, and what an eigensolver copies
_ROWS_FOR_A_CENTRE = 256  # within a sixteenth of a standard deviation of the mean, say
_CELLS = 2**18  # centred at a time where the centred rows are not needed
FREE_PRODUCTS = 2e8  # multiplications that float64 does in some milliseconds

# NaN, inf and overflow go through to the result, where whoever asked looks for them.
_quiet = np.errstate(invalid="ignore", over="ignore")


def scatter_bytes(d: int) -> float:
    """Memory that accumulating and diagonalising a scatter of d features takes at its peak."""
    return 8.0 * _SCATTERS_ALIVE * d * d


def require_scatter_memory(d: int) -> None:
    """Raise MemoryBudgetError if a scatter of d features does not fit the memory budget."""
    require_memory(
        scatter_bytes(d),
        f"The scatter matrix of {d} features",
        "Use fewer features, for example after PCA with a small n_components and "
        "svd_solver='arpack', which needs no scatter.",
    )


def product_dtype(dtype: Any, n_rows: int | None, d: int) -> Any:
    """The dtype to form a scatter in: float64 for float32 rows too where that costs nothing."""
    small = n_rows is not None and float(n_rows) * d * d <= FREE_PRODUCTS
    return np.dtype(np.float64) if small else np.dtype(dtype)


@dataclass(frozen=True)
class Moments:
    """Counts (g,), means (g, d) and the scatter (d, d) about them, pooled over the groups.

    `factor` (r, d), if there is one, satisfies factor^T factor = scatter, more accurately.
    """

    count: Array
    mean: Array
    scatter: Array
    n_rows: int
    factor: Array | None = None

    fitted_state = State(
        count=array("g", least=0),
        mean=array("g d"),
        scatter=array("d d", symmetric=True),
        n_rows=number(0, whole=True),
        factor=optional(array("* d")),
    )

    def grow(self, n_groups: int) -> Moments:
        """The same moments with room for groups not seen so far."""
        new = n_groups - len(self.count)
        if new <= 0:
            return self
        count = np.concatenate([self.count, np.zeros(new)])
        mean = np.vstack([self.mean, np.zeros((new, self.mean.shape[1]))])
        return Moments(count, mean, self.scatter, self.n_rows, self.factor)

    @property
    def total(self) -> float:
        """The trace of the scatter: all the variance there is, times the count."""
        return float(self.scatter.diagonal().sum(dtype=np.float64))

    def triangle(self) -> Floats:
        """Some R (r, d) with R^T R = S: the factor, or a root of the scatter."""
        if self.factor is not None:
            return self.factor
        lam, V = np.linalg.eigh(self.scatter.astype(np.float64, copy=False))
        return np.asarray(np.sqrt(np.maximum(lam, 0.0))[:, None] * V.T)


@dataclass(frozen=True)
class Grouping:
    """How the targets of a block become group numbers: their places among sorted `classes`.

    `weights` are per class, for priors that differ from the frequencies.
    """

    classes: Array
    weights: Floats | None = None

    def of(self, block: Block) -> tuple[Ints, Floats | None]:
        """The group of each row, and its weight."""
        group = np.searchsorted(self.classes, np.asarray(block.y))
        return group, None if self.weights is None else self.weights[group]


class Workspaces:
    """Room for centred copies, one per thread, kept from one block to the next."""

    def __init__(self) -> None:
        self._kept = PerThread(dict)

    def like(self, X: Array, dtype: Any = None) -> Array:
        """An array at least as long as X, with its width, and its dtype unless one is given."""
        kept: dict[Any, Array] = self._kept.get()
        kind = (X.shape[1], np.dtype(X.dtype if dtype is None else dtype))
        if kind not in kept or len(kept[kind]) < len(X):
            kept[kind] = np.empty(X.shape, kind[1])
        return kept[kind]

    def __reduce__(self) -> Any:
        """Buffers stay where they are: another process makes its own."""
        return Workspaces, ()


def table_moments(
    rows: Rows,
    dtype: Any,
    *,
    grouping: Grouping | None = None,
    factor: bool = False,
    total: int | None = None,
    executor: Executor | None = None,
) -> Moments:
    """Moments of all rows, block by block, with products in `dtype` and sums in float64."""
    of_block = partial(
        moments_of_block, dtype=dtype, grouping=grouping, factor=factor, spaces=Workspaces()
    )
    moments = rows.combined(
        of_block, combine_moments, label="scatter", total=total, executor=executor
    )
    scatter = moments.scatter.astype(np.float64, copy=False)
    return Moments(moments.count, moments.mean, scatter, moments.n_rows, moments.factor)


def moments_of_block(
    block: Block, dtype: Any, grouping: Grouping | None, factor: bool, spaces: Workspaces
) -> Moments:
    """Moments of one block, by its own weights or those of its classes."""
    X = block.dense()
    workspace = spaces.like(X, dtype)
    if grouping is None:
        return block_moments(X, block.weights, workspace=workspace, factor=factor)
    group, weights = grouping.of(block)
    return block_moments(X, weights, group, len(grouping.classes), workspace, factor)


@_quiet
def block_moments(
    X: Array,
    weights: Array | None = None,
    group: Ints | None = None,
    n_groups: int = 1,
    workspace: Array | None = None,
    factor: bool = False,
) -> Moments:
    """Moments of one block of rows, computed in its dtype (or the workspace's, if given).

    The mean is found twice: once roughly, to centre with (from some rows if all count alike),
    and once as the mean of what was centred, which is small and therefore accurate even in
    float32; the scatter about the rough mean is then corrected by that. A workspace (at least as
    many rows) saves the allocation of the centred copy, a tenth of the time.
    """
    m, d = X.shape
    C = np.empty((m, d), dtype=X.dtype) if workspace is None else workspace[:m]
    w = np.ones(m) if weights is None else np.asarray(weights, dtype=np.float64)
    if group is None:
        count = np.array([w.sum()])
        if weights is None:
            some = X[:: max(1, m // _ROWS_FOR_A_CENTRE)]
            rough = some.mean(axis=0, dtype=np.float64, keepdims=True).astype(C.dtype)
        else:  # rows that hardly count may lie anywhere
            rough = (_group_sum(X, w, None, 1) / _safe(count)[:, None]).astype(C.dtype)
        np.subtract(X, rough[0], out=C)
    else:
        count = np.bincount(group, weights=w, minlength=n_groups).astype(np.float64)
        rough = (_group_sum(X, w, group, n_groups) / _safe(count)[:, None]).astype(C.dtype)
        np.take(rough, group, axis=0, out=C, mode="clip")
        np.subtract(X, C, out=C)
    rest = _group_sum(C, w, group, n_groups) / _safe(count)[:, None]
    mean = rough.astype(np.float64) + rest
    if factor:
        C -= (rest if group is None else rest[group]).astype(C.dtype)
    if weights is not None:
        C *= np.sqrt(w).astype(C.dtype)[:, None]
    if factor:
        return Moments(count, mean, C.T @ C, m, triangular_factor(C))
    return Moments(count, mean, _add_outer(C.T @ C, rest, -count), m)


def _add_outer(S: Array, rows: Array, weights: Array) -> Array:
    """S + sum_g weights_g rows_g rows_g^T, in place."""
    if len(rows) > 1:
        S += (rows * weights[:, None]).T @ rows
        return S
    # One row: at d = 784 a temporary outer product would cost as much as all the rest.
    add = linalg.blas.dger if S.dtype == np.float64 else linalg.blas.sger
    updated = add(float(weights[0]), rows[0], rows[0], a=S.T, overwrite_a=True)
    return np.asarray(updated.T)


def _group_sum(X: Array, w: Array, group: Ints | None, n_groups: int) -> Floats:
    if group is None:
        return np.asarray(w.astype(X.dtype) @ X, dtype=np.float64).reshape(1, -1)
    m = len(w)
    if n_groups <= 64:  # then BLAS is faster although most of its factors are zero
        dense = np.zeros((n_groups, m), dtype=X.dtype)
        dense[group, np.arange(m)] = w
        return np.asarray(dense @ X, dtype=np.float64)
    cells = (w.astype(X.dtype), (group, np.arange(m)))
    member = sparse.csr_array(cells, shape=(n_groups, m))
    return np.asarray(member @ X, dtype=np.float64)


def _safe(count: Array) -> Array:
    """Counts to divide by: an empty group has mean 0, not NaN."""
    return np.where(count > 0, count, 1.0)


@_quiet
def combine_moments(a: Moments, b: Moments) -> Moments:
    """Moments of the rows of both, which stay as they are."""
    n_groups = max(len(a.count), len(b.count))
    a, b = a.grow(n_groups), b.grow(n_groups)
    count = a.count + b.count
    share = b.count / _safe(count)
    delta = b.mean - a.mean
    delta[(a.count == 0) | (b.count == 0)] = 0.0
    mean = np.where((a.count > 0)[:, None], a.mean, b.mean) + share[:, None] * delta
    weights = a.count * share
    scatter = _add_outer(np.add(a.scatter, b.scatter, dtype=np.float64), delta, weights)
    factor = None
    if a.factor is not None or b.factor is not None:
        between = np.sqrt(weights)[:, None] * delta
        factor = combine_triangles(a.triangle(), b.triangle(), between)
    return Moments(count, mean, scatter, a.n_rows + b.n_rows, factor)


@_quiet
def table_spread(rows: Rows) -> tuple[float, Floats, float]:
    """Count, mean (d,) and total scatter sum w |x - mu|^2 of all rows, without the matrix."""
    count, mean, total = rows.combined(spread_of_block, combine_spreads)
    return count, mean, total


@_quiet
def spread_of_block(block: Block) -> tuple[float, Floats, float]:
    """Count, mean and total scatter of one block, dense or sparse."""
    X = block.X
    w = np.ones(X.shape[0]) if block.weights is None else block.weights
    count = float(w.sum())
    size = count if count > 0 else 1.0
    if not sparse.issparse(X):
        parts = spans(len(X), max(1, _CELLS // X.shape[1]))
        if block.weights is None:
            rough = X[:: max(1, len(X) // _ROWS_FOR_A_CENTRE)].mean(axis=0, dtype=np.float64)
        else:  # rows that hardly count may lie anywhere
            rough = np.sum([w[part] @ X[part] for part in parts], axis=0) / size
        rest, total = np.zeros(X.shape[1]), 0.0
        for part in parts:
            C = X[part] - rough
            rest += w[part] @ C / size
            total += float(w[part] @ np.einsum("ij,ij->i", C, C))
        total -= count * float(rest @ rest)
        return count, rough + rest, max(total, 0.0) if np.isfinite(total) else total
    X = X.tocsr().astype(np.float64)
    mean = np.asarray(w @ X).ravel() / size
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    # sum w (x - mu)^2 over all cells = over the stored ones + w mu^2 over the others
    inside = float(w[row] @ (X.data - mean[X.indices]) ** 2)
    outside = count * float(mean @ mean) - float(w[row] @ mean[X.indices] ** 2)
    return count, mean, inside + (max(outside, 0.0) if np.isfinite(outside) else outside)


@_quiet
def combine_spreads(
    a: tuple[float, Floats, float], b: tuple[float, Floats, float]
) -> tuple[float, Floats, float]:
    """The same for the rows of both."""
    count = a[0] + b[0]
    delta = b[1] - a[1]
    share = b[0] / count if count > 0 else 0.0
    return count, a[1] + share * delta, a[2] + b[2] + a[0] * share * float(delta @ delta)


def table_extremes(rows: Rows) -> tuple[Array, Array]:
    """The least and the largest value of each column; NaN where there is one."""
    low, high = rows.combined(extremes_of_block, combine_extremes)
    return low, high


@_quiet
def extremes_of_block(block: Block) -> tuple[Array, Array]:
    """The same for the rows of a block."""
    X = block.dense()
    return X.min(axis=0), X.max(axis=0)


def combine_extremes(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """The same for the rows of both."""
    return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])
