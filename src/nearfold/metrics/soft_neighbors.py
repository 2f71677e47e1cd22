"""Soft neighbours: the leave-one-out probabilities p_ij of (10.35), never all of them at once.

    p_ij = exp(-|z_i - z_j|^2) / sum_{l != i} exp(-|z_i - z_l|^2),   p_ii = 0               (10.35)

The mean of a target under them, mean_i = sum_j p_ij t_ij, is what NCA and MLKR are made of:

    ClassVotes    t_ij = [y_i = y_j]   f = sum_i mean_i              NCA: the chance to be right
    Regression    t_ij = y_j           f = sum_i (mean_i - y_i)^2    MLKR: the squared error

and the gradient of both has the form

    df/dz_i = 2 sum_j (W_ij + W_ji) (z_j - z_i),   W_ij = c_i p_ij (t_ij - mean_i)

with c_i = 1, or 2 (mean_i - y_i).

A block of rows is compared with all rows: E = exp(-distances + row shift) in one buffer, from which
every sum that is needed is a matrix product with E or E^T; E [z, 1] gives the normaliser and the
mean neighbour together. The shift is the row's own nearest distance, so that no row underflows.

Where distances are large beside 1 almost all of E is below rounding beside the row's largest entry,
which is 1. Entries that together are less than 1e-12 of the row (1e-7 in float32), about the
rounding of its sums, are then left out: one float32 product, whose error is bounded, finds the
others, which are measured again in the dtype of the data, and a compiled loop over this
SparseSoftmax replaces the exp and the other two products.

Cost: O(m^2 r) time; memory: a block of rows x m per thread (pair_blocks.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from nearfold.metrics.pair_blocks import Block, augmented, block_size, plan_blocks, run_tasks
from nearfold.notation import Array, Floats, Ints
from nearfold.run import PerThread

_COMPILED = 2000  # rows; JIT compilation dominates below this size
_SPARSE = 0.12  # share of entries up to which a sparse E is cheaper: measured
_LEFT_OUT = {8: 1e-12, 4: 1e-7}  # share of a row's sum, by the size of its numbers
_PILOT = 64  # rows from which the share is estimated


@dataclass(frozen=True)
class Points:
    """Rows in the learned space, prepared so that one product gives minus squared distances."""

    Z: Array  # (m, r), centred
    left: Array  # (m, r + 1): [2 z, -1]
    right: Array  # (r + 1, m): [z; |z|^2]; left @ right = |z_i|^2 - distance^2
    with_one: Array  # (m, r + 1): [z, 1]
    rough: tuple[Array, Array] | None  # left and right in float32, to screen the entries of E
    slack: float  # by which two of the rough values may be wrong together

    @classmethod
    def of(cls, Z: Array) -> Points:
        """From any rows; centred, because products of far-off points lose digits."""
        Z = Z - Z.mean(axis=0, dtype=np.float64).astype(Z.dtype)
        one = np.ones((len(Z), 1), dtype=Z.dtype)
        left, right = augmented(Z)
        rough = (left.astype(np.float32, copy=False), right.astype(np.float32, copy=False))
        # A sum of r + 1 products of rounded numbers, none larger than 2 |z|^2.
        slack = 8.0 * (Z.shape[1] + 4) * float(np.finfo(np.float32).eps * right[-1].max())
        points = cls(Z, left, right, np.hstack([Z, one]), rough, slack)
        if len(Z) >= _COMPILED and slack < 10 and points.share_that_counts() <= _SPARSE:
            return points
        return replace(points, rough=None)

    def share_that_counts(self) -> float:
        """The share of the entries of E above rounding, estimated from some rows."""
        rows = np.linspace(0, len(self.Z) - 1, _PILOT).astype(np.int64)
        return float(self.may_count(rows, Workspace(_PILOT, len(self.Z), np.float32)).mean())

    def may_count(self, rows: Ints, space: Workspace) -> Array:
        """Which entries of E may be above rounding, by their float32 values."""
        assert self.rough is not None
        T = np.matmul(self.rough[0][rows], self.rough[1], out=space.rough[: len(rows)])
        T[np.arange(len(rows)), rows] = -np.inf
        # All entries below the limit, at most m of them in a row, sum to less than that share.
        drop = np.log(_LEFT_OUT[self.Z.dtype.itemsize] / len(self.Z)) - self.slack
        limit = T.max(axis=1, keepdims=True) + np.float32(drop)
        return np.greater(T, limit, out=space.counts[: len(rows)])


@dataclass(frozen=True)
class SparseSoftmax:
    """The entries of E above rounding, row after row: value, flat place in E; starts of rows."""

    value: Array
    at: Ints
    first: Ints


class Workspace:
    """Buffers of one thread for a block of rows; allocating them anew costs more than their use."""

    def __init__(self, rows: int, m: int, dtype: Any) -> None:
        self.T = np.empty((rows, m), dtype=dtype)
        self.rough = self.T if dtype == np.float32 else np.empty((rows, m), dtype=np.float32)
        self.counts = np.empty((rows, m), dtype=bool)


@dataclass(frozen=True)
class ClassVotes:
    """t_ij = [y_i = y_j], for rows sorted by class: those of class c are starts[c]:starts[c + 1].

    So the rows of a class are a slice, and no mask of pairs is needed.
    """

    starts: Ints
    by_class = True

    @property
    def y(self) -> Floats:
        """The class of each row, as a float."""
        return np.repeat(np.arange(len(self.starts) - 1.0), np.diff(self.starts))

    def add(self, points: Points, E: Array, rows: Ints, onto: Array) -> tuple[float, Array]:
        """The sum of p_i over some (ascending) rows, W z for them; W^T [z, 1] goes onto `onto`."""
        z1 = points.with_one
        runs = [
            (slice(a, b), slice(self.starts[c], self.starts[c + 1]))
            for c, (a, b) in enumerate(pairwise(np.searchsorted(rows, self.starts)))
            if b > a
        ]
        all_sums, own_sums = E @ z1, np.empty((len(rows), z1.shape[1]), dtype=E.dtype)
        for some, own in runs:
            own_sums[some] = E[some, own] @ z1[own]  # sum over j of the row's class
        s = all_sums[:, -1:]  # (10.35)
        p = own_sums[:, -1:] / s  # (10.36)
        onto -= (z1[rows] * (p / s)).T @ E
        for some, own in runs:
            onto[:, own] += (z1[rows[some]] / s[some]).T @ E[some, own]
        f = float(p.sum(dtype=np.float64))  # (10.37)
        return f, (own_sums - p * all_sums)[:, :-1] / s


@dataclass(frozen=True)
class Regression:
    """t_ij = y_j: the mean of the neighbours' targets predicts the row's own."""

    y: Array
    by_class = False

    def add(self, points: Points, E: Array, rows: Ints, onto: Array) -> tuple[float, Array]:
        """The squared errors of some rows, W z for them; W^T [z, 1] goes onto `onto`."""
        z1, y = points.with_one, self.y
        plain, with_y = E @ z1, E @ (z1 * y[:, None])
        s = plain[:, -1:]
        mean = with_y[:, -1:] / s
        error = mean - y[rows, None]
        scale = 2 * error / s
        A = z1[rows] * scale
        onto += (A.T @ E) * y
        onto -= (A * mean).T @ E
        value = float(np.sum(error**2, dtype=np.float64))
        return value, ((with_y - mean * plain) * scale)[:, :-1]


def soft_neighbors(
    Z: Array, targets: ClassVotes | Regression, rows: Ints | None = None
) -> tuple[float, Array]:
    """f and half its gradient with respect to Z, summed over `rows` (ascending; None: all)."""
    points = Points.of(Z)
    m, r = Z.shape
    rows = np.arange(m) if rows is None else rows
    y = np.asarray(targets.y, dtype=np.float64)
    spaces = PerThread(lambda: Workspace(block_size(m), m, Z.dtype))

    def run(task: list[Block]) -> tuple[float, Array, Array | None, Array | None]:
        begin = task[0][0]
        own = np.empty((task[-1][1] - begin, r), dtype=Z.dtype)
        dense, sparse, value = None, None, 0.0
        for a, b, _ in task:
            E = exponentials(points, rows[a:b], spaces.get())
            if isinstance(E, SparseSoftmax):
                sparse = np.zeros((m, r + 1), Z.dtype) if sparse is None else sparse
                part, W_z = add_sparse(points, E, targets.by_class, y, rows[a:b], sparse)
            else:
                dense = np.zeros((r + 1, m), Z.dtype) if dense is None else dense
                part, W_z = targets.add(points, E, rows[a:b], dense)
            own[a - begin : b - begin] = W_z
            value += part
        return value, own, dense, sparse

    f, onto, start = 0.0, np.zeros((m, r + 1)), 0
    G = np.zeros((m, r))
    tasks = plan_blocks(np.array([0, len(rows)]), m)
    for value, own, dense, sparse in run_tasks(run, tasks, float(m) * len(rows), r):
        f += value
        G[rows[start : start + len(own)]] += own
        start += len(own)
        for part in (None if dense is None else dense.T, sparse):
            if part is not None:
                onto += part
    G += onto[:, :-1]
    G -= onto[:, -1:] * points.Z
    return f, G


def exponentials(points: Points, rows: Ints, space: Workspace) -> Array | SparseSoftmax:
    """E (b, m): exp(-|z_i - z_j|^2) for the given rows up to a factor per row; 0 for j = i."""
    if points.rough is not None:
        counts = points.may_count(rows, space)
        if np.count_nonzero(counts) <= _SPARSE * counts.size:
            return _measured(points, points.Z[rows], counts)
    T = np.matmul(points.left[rows], points.right, out=space.T[: len(rows)])
    T[np.arange(len(rows)), rows] = -np.inf
    T -= T.max(axis=1, keepdims=True)
    return np.asarray(np.exp(T, out=T))  # (10.35)


def _measured(points: Points, Z_rows: Array, counts: Array) -> SparseSoftmax:
    """The entries above rounding, from differences of the rows."""
    from nearfold.kernels.soft import negative_squares

    at = np.flatnonzero(counts)
    first = np.searchsorted(at, counts.shape[1] * np.arange(len(counts) + 1))
    value = np.empty(len(at), dtype=points.Z.dtype)
    negative_squares(at, first, points.Z, Z_rows, value)
    value -= np.repeat(np.maximum.reduceat(value, first[:-1]), np.diff(first))
    return SparseSoftmax(np.exp(value, out=value), at, first)


def add_sparse(
    points: Points, E: SparseSoftmax, by_class: bool, y: Floats, rows: Ints, onto: Array
) -> tuple[float, Array]:
    """What `add` of the targets gives, from a sparse E; `onto` is (m, r + 1) here."""
    from nearfold.kernels.soft import add_soft

    own = np.empty((len(E.first) - 1, points.Z.shape[1]), dtype=points.Z.dtype)
    z1 = points.with_one
    f = add_soft(E.value, E.at, E.first, y, y[rows], by_class, z1, z1[rows], own, onto)
    return float(f), own
