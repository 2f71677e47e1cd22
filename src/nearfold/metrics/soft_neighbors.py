"""Soft neighbours: the leave-one-out probabilities p_ij of (10.35), never all of them at once.

    p_ij = exp(-|z_i - z_j|^2) / sum_{l != i} exp(-|z_i - z_l|^2),   p_ii = 0               (10.35)

NCA and MLKR both maximise or minimise sums of f(p_i.), whose gradient has the form

    dF/dz_i = 2 sum_j (W_ij + W_ji) (z_j - z_i),   W_ij = p_ij (a value - its mean under p_i.)

A block of rows is compared with all rows: E = exp(-distances - row shift) in one buffer, from
which every sum that is needed is a matrix product with E or E^T: sum_j E_ij [z_j, 1] gives the
normaliser and the mean neighbour together. So a block costs three products, one exp, and no
array of all pairs is ever held; the shift is the row's own nearest distance, so that no row
underflows. Blocks run on the pool of threads and are added up in a fixed order.

Cost: O(m^2 r) time; memory: a block of rows x m per thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.blocks import require_memory
from nearfold.notation import Array, Floats, Ints
from nearfold.run import PerThread, map_in_order

_BLOCK = 128  # rows: their distances to some thousand others stay in the cache
_CELLS = 2**18  # distances of a block where rows are few
_TASKS = 16  # parts of the work, each of several blocks; more would cost more to add up
_ALONE = 2_000_000  # pairs: fewer are not worth a pool of threads
_SPAN = 4096  # rows projected by one task


@dataclass(frozen=True)
class Points:
    """Rows in the learned space, prepared so that one product gives minus squared distances."""

    Z: Array  # (m, r), centred
    left: Array  # (m, r + 1): [2 z, -1]
    right: Array  # (r + 1, m): [z; |z|^2]; left @ right = |z_i|^2 - distance^2
    with_one: Array  # (m, r + 1): [z, 1]

    @classmethod
    def of(cls, Z: Array) -> Points:
        """From the rows as they are; centred, because products of far-off points lose digits."""
        Z = Z - Z.mean(axis=0, dtype=np.float64).astype(Z.dtype)
        one = np.ones((len(Z), 1), dtype=Z.dtype)
        norms = np.einsum("ij,ij->i", Z, Z)[:, None]
        right = np.ascontiguousarray(np.hstack([Z, norms]).T)
        return cls(Z, np.hstack([2 * Z, -one]), right, np.hstack([Z, one]))


def unnormalised(points: Points, rows: Any, itself: Any, out: Array) -> Array:
    """E (b, m): exp(-|z_i - z_j|^2) for the given rows up to a factor per row; 0 for itself.

    `itself`: for each of the rows its own number, to leave out.
    """
    E = np.matmul(points.left[rows], points.right, out=out[: len(itself)])
    E[np.arange(len(itself)), itself] = -np.inf
    E -= E.max(axis=1, keepdims=True)
    return np.asarray(np.exp(E, out=E))  # (10.35), numerator


def block_size(m: int) -> int:
    """How many rows are compared with all m at a time."""
    return max(_BLOCK, _CELLS // m)


def plan_blocks(starts: Ints) -> list[list[tuple[int, int, int]]]:
    """Tasks of blocks (first row, last row, group) that never cross the border of a group."""
    m = int(starts[-1])
    size = block_size(m)
    blocks = [
        (int(i), int(min(i + size, hi)), group)
        for group, (lo, hi) in enumerate(itertools.pairwise(starts))
        for i in range(int(lo), int(hi), size)
    ]
    tasks: list[list[tuple[int, int, int]]] = [[]]
    for block in blocks:
        if sum(b - a for a, b, _ in tasks[-1]) >= m / _TASKS:
            tasks.append([])
        tasks[-1].append(block)
    return tasks


def require_blocks(m: int, r: int, itemsize: int, what: str) -> None:
    """Raise unless the buffers of a pass over all pairs fit the memory budget."""
    need = itemsize * (4.0 * block_size(m) * m + 12.0 * m * (r + 1))
    require_memory(
        need, f"{what}: blocks of {block_size(m)} x {m} distances", "Fit a sample of rows."
    )


def sum_over_blocks(
    points: Points,
    starts: Ints,
    per_block: Callable[[Array, int, int, int, Array], tuple[float, Array]],
) -> tuple[float, Array]:
    """Add up what every block of rows contributes.

    `per_block(E, first, last, group, onto)` returns its part of the value and (last - first, r),
    what it adds to its own rows; what it adds to all other rows it adds onto `onto` (r + 1, m),
    the last line of which counts how often the row itself is to be subtracted.
    """
    m, r = points.Z.shape
    buffers = PerThread(lambda: np.empty((block_size(m), m), dtype=points.Z.dtype))

    def run(task: list[tuple[int, int, int]]) -> tuple[float, list[Array], Array]:
        onto = np.zeros((r + 1, m), dtype=points.Z.dtype)
        value, own = 0.0, []
        for first, last, group in task:
            rows = slice(first, last)
            E = unnormalised(points, rows, np.arange(first, last), buffers.get())
            part, mine = per_block(E, first, last, group, onto)
            value += part
            own.append(mine)
        return value, own, onto

    tasks = plan_blocks(starts)
    total, gradient = 0.0, np.zeros((r + 1, m))
    mine: list[Array] = []
    for value, own, onto in run_tasks(run, tasks, m):
        total += value
        gradient += onto
        mine += own
    others = (gradient[:-1] - gradient[-1] * points.Z.T).T
    return total, np.vstack(mine) + others


def groups_of(label: Ints) -> tuple[Ints, Ints]:
    """The order that sorts rows by label, and where each label's rows start in it."""
    order = np.argsort(label, kind="stable")
    return order, np.concatenate([[0], np.cumsum(np.bincount(label))])


def centred(X: Array, order: Ints) -> Array:
    """The rows in this order about their mean: a shift of X changes nothing that is learned."""
    return np.asarray(X[order] - X.mean(axis=0, dtype=np.float64).astype(X.dtype))


def mean_variance(X: Array) -> float:
    """Of the columns of centred rows: the unit of a penalty that must not know the units of X."""
    return float(np.mean(np.einsum("ij,ij->j", X, X, dtype=np.float64)) / len(X)) or 1.0


def run_tasks(run: Callable[[Any], Any], tasks: list[Any], m: int) -> Iterator[Any]:
    """Results in order; a pool of threads only where there is enough to do."""
    return map_in_order(run, tasks) if m * m > _ALONE else map(run, tasks)


def project(X: Array, L: Floats) -> Array:
    """Z = X L^T, in the dtype of X, spans of rows side by side."""
    P = np.ascontiguousarray(L.T, dtype=X.dtype)
    if len(X) <= _SPAN:
        return np.asarray(X @ P)
    return np.concatenate(list(map_in_order(lambda span: X[span] @ P, _spans(len(X)))))


def pull_back(G: Array, X: Array) -> Floats:
    """G^T X in float64, spans of rows side by side: a gradient over Z as one over L."""
    G = G.astype(X.dtype, copy=False)
    if len(X) <= _SPAN:
        return np.asarray(G.T @ X, dtype=np.float64)
    parts = map_in_order(lambda span: G[span].T @ X[span], _spans(len(X)))
    return sum((np.asarray(part, np.float64) for part in parts), np.zeros((G.shape[1], X.shape[1])))


def _spans(m: int) -> list[slice]:
    return [slice(a, min(a + _SPAN, m)) for a in range(0, m, _SPAN)]
