"""Weighted moments of grouped rows: count, mean, centred scatter; combined pairwise.

For groups g (one group in PCA, one per class in LDA) with weights w_i

    n_g = sum w_i      mu_g = sum w_i x_i / n_g      S = sum_g sum_i w_i (x_i - mu_g)(x_i - mu_g)^T

Two sets of rows A and B combine exactly:

    mu = mu_A + delta n_B / n    S = S_A + S_B + delta delta^T n_A n_B / n    delta = mu_B - mu_A

so nothing is ever computed as E[x x^T] - mu mu^T, which loses every digit when the mean is
large against the spread. The product inside one block runs, and stays, in the input's dtype;
counts, means and combined scatters are float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from nearfold.blocks import require_memory
from nearfold.notation import Array, Floats, Ints
from nearfold.run import PerThread

_SCATTERS_ALIVE = 6  # the sum, those of two blocks, and what an eigensolver copies


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


@dataclass
class Moments:
    """Counts (g,), means (g, d) and the scatter (d, d) about them, pooled over the groups."""

    count: Array
    mean: Array
    scatter: Array
    n_rows: int

    def grow(self, n_groups: int) -> Moments:
        """The same moments with room for groups not seen so far."""
        new = n_groups - len(self.count)
        if new <= 0:
            return self
        count = np.concatenate([self.count, np.zeros(new)])
        mean = np.vstack([self.mean, np.zeros((new, self.mean.shape[1]))])
        return Moments(count, mean, self.scatter, self.n_rows)


class Workspaces:
    """Room for centred copies, one per thread, kept from one block to the next."""

    def __init__(self) -> None:
        self._kept = PerThread(dict)

    def like(self, X: Array) -> Array:
        """An array at least as long as X, with its width and dtype."""
        kept: dict[Any, Array] = self._kept.get()
        kind = (X.shape[1], X.dtype)
        if kind not in kept or len(kept[kind]) < len(X):
            kept[kind] = np.empty(X.shape, X.dtype)
        return kept[kind]


_ROWS_FOR_A_CENTRE = 256  # within a sixteenth of a standard deviation of the mean, say

# NaN, inf and overflow go through to the result, where whoever asked looks for them.
_quiet = np.errstate(invalid="ignore", over="ignore")


@_quiet
def block_moments(
    X: Array,
    weights: Array | None = None,
    group: Ints | None = None,
    n_groups: int = 1,
    workspace: Array | None = None,
) -> Moments:
    """Moments of one block of rows, computed in its dtype (or the workspace's, if given).

    The mean is found twice: once roughly, to centre with (for one group from some of its rows),
    and once as the mean of what was centred, which is small and therefore accurate even in
    float32; the scatter about the rough mean is then corrected by that. A workspace (at least as
    many rows) saves the allocation of the centred copy, a tenth of the time.
    """
    m, d = X.shape
    C = np.empty((m, d), dtype=X.dtype) if workspace is None else workspace[:m]
    w = np.ones(m) if weights is None else np.asarray(weights, dtype=np.float64)
    if group is None:
        count = np.array([w.sum()])
    else:
        count = np.bincount(group, weights=w, minlength=n_groups).astype(np.float64)
    if group is None:
        some = X[:: max(1, m // _ROWS_FOR_A_CENTRE)]
        rough = some.mean(axis=0, dtype=np.float64, keepdims=True).astype(C.dtype)
        np.subtract(X, rough[0], out=C)
    else:
        rough = (_group_sum(X, w, group, n_groups) / _safe(count)[:, None]).astype(C.dtype)
        np.take(rough, group, axis=0, out=C, mode="clip")
        np.subtract(X, C, out=C)
    rest = _group_sum(C, w, group, n_groups) / _safe(count)[:, None]
    if weights is not None:
        C *= np.sqrt(w).astype(C.dtype)[:, None]
    scatter = _add_outer(C.T @ C, rest, -count)
    return Moments(count, rough.astype(np.float64) + rest, scatter, m)


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
    cells = (w.astype(X.dtype), (group, np.arange(m)))
    member = sparse.csr_array(cells, shape=(n_groups, m))
    if n_groups <= 64:  # then BLAS is faster although most of its factors are zero
        return np.asarray(member.toarray() @ X, dtype=np.float64)
    return np.asarray(member @ X, dtype=np.float64)


def _safe(count: Array) -> Array:
    """Counts to divide by: an empty group has mean 0, not NaN."""
    return np.where(count > 0, count, 1.0)


@_quiet
def combine_moments(a: Moments, b: Moments) -> Moments:
    """Moments of the rows of both. The scatter of `a` is overwritten."""
    n_groups = max(len(a.count), len(b.count))
    a, b = a.grow(n_groups), b.grow(n_groups)
    count = a.count + b.count
    share = b.count / _safe(count)
    delta = b.mean - a.mean
    delta[(a.count == 0) | (b.count == 0)] = 0.0
    mean = np.where((a.count > 0)[:, None], a.mean, b.mean) + share[:, None] * delta
    if a.scatter.dtype == np.float64:
        a.scatter += b.scatter
        scatter = a.scatter
    else:  # fresh from float32 blocks: from here on in float64
        scatter = np.add(a.scatter, b.scatter, dtype=np.float64)
    scatter = _add_outer(scatter, delta, a.count * share)
    return Moments(count, mean, scatter, a.n_rows + b.n_rows)


def total_moments(within: Moments) -> Moments:
    """Forget the groups: one mean, and the total scatter S_t = S_w + S_b."""
    count = within.count.sum()
    mean = within.count @ within.mean / count
    offset = within.mean - mean
    between = (offset * within.count[:, None]).T @ offset
    return Moments(np.array([count]), mean[None], within.scatter + between, within.n_rows)
