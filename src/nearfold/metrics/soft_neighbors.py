"""Soft neighbours: the leave-one-out probabilities p_ij of (10.35), never all of them at once.

    p_ij = exp(-|z_i - z_j|^2) / sum_{l != i} exp(-|z_i - z_l|^2),   p_ii = 0               (10.35)

NCA and MLKR both maximise or minimise sums of f(p_i.), whose gradient has the form

    dF/dz_i = 2 sum_j (W_ij + W_ji) (z_j - z_i),   W_ij = p_ij (a value - its mean under p_i.)

A block of rows is compared with all rows: E = exp(-distances - row shift) in one buffer, from
which every sum that is needed is a matrix product with E or E^T: sum_j E_ij [z_j, 1] gives the
normaliser and the mean neighbour together. So a block costs three products, one exp, and no
array of all pairs is ever held; the shift is the row's own nearest distance, so that no row
underflows. Blocks run on the pool of threads and are added up in a fixed order.

Where the space is large beside the unit of exp, almost all of E is below rounding beside the row's
largest entry, which is 1: entries that together are less than 1e-12 of the row (1e-7 in float32),
about the rounding of its sums, are left out. If few are left,
one product in float32, whose error is bounded, finds them; they are measured again in the dtype of
the data, and a compiled loop over them replaces the exp and the other two products.

Cost: O(m^2 r) time; memory: a block of rows x m per thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearfold.blocks import require_memory
from nearfold.inputs import refuse_extreme
from nearfold.notation import Array, Floats, Ints
from nearfold.run import PerThread, map_in_order

_BLOCK = 128  # rows: their distances to some thousand others stay in the cache
_CELLS = 2**18  # distances of a block where rows are few
_TASKS = 16  # parts of the work, each of several blocks; more would cost more to add up
_COMPILED = 2000  # rows; with fewer, the dense way is done before a compiler would be
_FEW = 0.12  # share of entries up to which a sparse E is cheaper: measured
_LEFT_OUT = {8: 1e-12, 4: 1e-7}  # share of a row's sum, by the size of its numbers
_PILOT = 64  # rows from which it is guessed whether few entries count
_ALONE = 4e7  # pairs times dimensions: less is not worth a pool of threads
_SPAN = 1024  # rows projected by one task


@dataclass(frozen=True)
class Points:
    """Rows in the learned space, prepared so that one product gives minus squared distances."""

    Z: Array  # (m, r), centred
    left: Array  # (m, r + 1): [2 z, -1]
    right: Array  # (r + 1, m): [z; |z|^2]; left @ right = |z_i|^2 - distance^2
    with_one: Array  # (m, r + 1): [z, 1]
    rough: tuple[Array, Array] | None  # left and right in float32, to find what counts
    slack: float  # by which two of the rough values may be wrong together

    @classmethod
    def of(cls, Z: Array) -> Points:
        """From the rows as they are; centred, because products of far-off points lose digits."""
        Z = Z - Z.mean(axis=0, dtype=np.float64).astype(Z.dtype)
        one = np.ones((len(Z), 1), dtype=Z.dtype)
        norms = np.einsum("ij,ij->i", Z, Z)[:, None]
        left, right = np.hstack([2 * Z, -one]), np.ascontiguousarray(np.hstack([Z, norms]).T)
        rough = (left.astype(np.float32, copy=False), right.astype(np.float32, copy=False))
        # A sum of r + 1 products of rounded numbers, none larger than 2 |z|^2.
        slack = 8.0 * (Z.shape[1] + 4) * float(np.finfo(np.float32).eps * norms.max())
        points = cls(Z, left, right, np.hstack([Z, one]), rough, slack)
        if len(Z) >= _COMPILED and slack < 10 and points.share_that_counts() <= _FEW:
            return points
        return replace(points, rough=None)

    def share_that_counts(self) -> float:
        """Of the entries of E, estimated from some rows."""
        itself = np.linspace(0, len(self.Z) - 1, _PILOT).astype(np.int64)
        space = Workspace(_PILOT, len(self.Z), np.float32)
        return float(self.may_count(itself, itself, space).mean())

    def may_count(self, rows: Any, itself: Ints, space: Workspace) -> Array:
        """Which entries of E may count, by their rough values."""
        assert self.rough is not None
        T = np.matmul(self.rough[0][rows], self.rough[1], out=space.rough[: len(itself)])
        T[np.arange(len(itself)), itself] = -np.inf
        # All entries below the limit, at most m of them in a row, sum to less than that share.
        drop = np.log(_LEFT_OUT[self.Z.dtype.itemsize] / len(self.Z)) - self.slack
        limit = T.max(axis=1, keepdims=True) + np.float32(drop)
        return np.greater(T, limit, out=space.counts[: len(itself)])


@dataclass(frozen=True)
class Few:
    """The entries of E that count, row after row: value, place in E; where rows start."""

    value: Array
    at: Ints
    first: Ints


@dataclass(frozen=True)
class Targets:
    """What is voted on: a class for each row, or a number."""

    y: Floats
    by_class: bool


class Workspace:
    """What a thread needs for one block; allocating it anew each time costs more than its use."""

    def __init__(self, rows: int, m: int, dtype: Any) -> None:
        self.T = np.empty((rows, m), dtype=dtype)
        self.rough = self.T if dtype == np.float32 else np.empty((rows, m), dtype=np.float32)
        self.counts = np.empty((rows, m), dtype=bool)


def unnormalised(points: Points, rows: Any, itself: Any, space: Workspace) -> Array | Few:
    """E (b, m): exp(-|z_i - z_j|^2) for the given rows up to a factor per row; 0 for itself.

    `itself`: for each of the rows its own number, to leave out.
    """
    if points.rough is not None:
        counts = points.may_count(rows, itself, space)
        if np.count_nonzero(counts) <= _FEW * counts.size:
            return _measured(points, points.Z[rows], counts)
    T = np.matmul(points.left[rows], points.right, out=space.T[: len(itself)])
    T[np.arange(len(itself)), itself] = -np.inf
    T -= T.max(axis=1, keepdims=True)
    return np.asarray(np.exp(T, out=T))  # (10.35), numerator


def _measured(points: Points, Z_rows: Array, counts: Array) -> Few:
    """The entries that count, from their distances as they are."""
    from nearfold.kernels.soft import measure

    at = np.flatnonzero(counts)
    first = np.searchsorted(at, counts.shape[1] * np.arange(len(counts) + 1))
    value = np.empty(len(at), dtype=points.Z.dtype)
    measure(at, first, points.Z, Z_rows, value)
    value -= np.repeat(np.maximum.reduceat(value, first[:-1]), np.diff(first))
    return Few(np.exp(value, out=value), at, first)


def add_few(
    points: Points, E: Few, targets: Targets, rows: Any, onto: Array
) -> tuple[float, Array]:
    """The value of these rows, sum_j W_ij z_j for them, and W^T [z, 1] added onto (m, r + 1)."""
    from nearfold.kernels.soft import add_soft

    mine = np.empty((len(E.first) - 1, points.Z.shape[1]), dtype=points.Z.dtype)
    with_one, y = points.with_one, targets.y
    value = add_soft(
        E.value, E.at, E.first, y, y[rows], targets.by_class, with_one, with_one[rows], mine, onto
    )
    return float(value), mine


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
    targets: Targets,
    dense: Callable[[Array, slice, int, Array], tuple[float, Array]],
) -> tuple[float, Array]:
    """Add up what every block of rows contributes.

    `dense(E, rows, group, onto)` returns its part of the value and, for each of its rows, what it
    adds to them; what it adds to all other rows it adds onto `onto` (r + 1, m), the last line of
    which counts how often the row itself is to be subtracted. Blocks of which few entries count do
    not come to it: `targets` says all that is needed for them.
    """
    m, r = points.Z.shape
    spaces = PerThread(lambda: Workspace(block_size(m), m, points.Z.dtype))

    def run(task: list[tuple[int, int, int]]) -> tuple[float, Array, Any, Any]:
        start, stop = task[0][0], task[-1][1]
        own = np.empty((stop - start, r), dtype=points.Z.dtype)
        onto, onto_few, value = None, None, 0.0
        for first, last, group in task:
            rows, here = slice(first, last), slice(first - start, last - start)
            E = unnormalised(points, rows, np.arange(first, last), spaces.get())
            if isinstance(E, Few):
                onto_few = np.zeros((m, r + 1), own.dtype) if onto_few is None else onto_few
                part, own[here] = add_few(points, E, targets, rows, onto_few)
            else:
                onto = np.zeros((r + 1, m), own.dtype) if onto is None else onto
                part, own[here] = dense(E, rows, group, onto)
            value += part
        return value, own, onto, onto_few

    tasks = plan_blocks(starts)
    total, wide, tall = 0.0, np.zeros((r + 1, m)), np.zeros((m, r + 1))
    mine: list[Array] = []
    for value, own, onto, onto_few in run_tasks(run, tasks, points):
        total += value
        mine.append(own)
        if onto is not None:
            wide += onto
        if onto_few is not None:
            tall += onto_few
    tall += wide.T
    return total, np.concatenate(mine) + tall[:, :-1] - tall[:, -1:] * points.Z


def groups_of(label: Ints) -> tuple[Ints, Ints]:
    """The order that sorts rows by label, and where each label's rows start in it."""
    order = np.argsort(label, kind="stable")
    return order, np.concatenate([[0], np.cumsum(np.bincount(label))])


def centred(X: Array, order: Ints) -> Array:
    """The rows in this order about their mean: a shift of X changes nothing that is learned."""
    refuse_extreme(float(np.ptp(X, axis=0).max()), X.dtype)
    return np.asarray(X[order] - X.mean(axis=0, dtype=np.float64).astype(X.dtype))


def mean_variance(X: Array) -> float:
    """Of the columns of centred rows: the unit of a penalty that must not know the units of X."""
    return float(np.mean(np.einsum("ij,ij->j", X, X, dtype=np.float64)) / len(X)) or 1.0


def run_tasks(run: Callable[[Any], Any], tasks: list[Any], points: Points) -> Iterator[Any]:
    """Results in order; a pool of threads only where there is enough to do."""
    m, r = points.Z.shape
    return map_in_order(run, tasks) if m * m * (r + 8.0) > _ALONE else map(run, tasks)


def project(X: Array, L: Floats) -> Array:
    """Z = X L^T, in the dtype of X, spans of rows side by side."""
    P = np.ascontiguousarray(L.T, dtype=X.dtype)
    if len(X) <= 2 * _SPAN:
        return np.asarray(X @ P)
    return np.concatenate(list(map_in_order(lambda span: X[span] @ P, _spans(len(X)))))


def pull_back(G: Array, X: Array) -> Floats:
    """G^T X in float64, spans of rows side by side: a gradient over Z as one over L."""
    G = G.astype(X.dtype, copy=False)
    if len(X) <= 2 * _SPAN:
        return np.asarray(G.T @ X, dtype=np.float64)
    parts = map_in_order(lambda span: G[span].T @ X[span], _spans(len(X)))
    return sum((np.asarray(part, np.float64) for part in parts), np.zeros((G.shape[1], X.shape[1])))


def _spans(m: int) -> list[slice]:
    return [slice(a, min(a + _SPAN, m)) for a in range(0, m, _SPAN)]
