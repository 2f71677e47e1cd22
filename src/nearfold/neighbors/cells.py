"""Cells of near rows for the approximate search: a partition by two levels of k-means.

Rows are stored once more in float32, about their mean, those of a cell side by side. Each cell has
a centre c and a radius R: for a query q no row of it is nearer than |q - c| - R.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfold.blocks import spans
from nearfold.linalg import square_norms
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order, one_blas_thread

CELL = 128  # rows of a cell, about
LARGEST_CELL = 8 * CELL  # of equal rows, say: cut into pieces
_SAMPLE = 64  # rows per centre that k-means looks at
_ROUNDS = 4
_REASSIGN = 32  # nearest cells that a row may move to
_BLOCK = 4096
U = float(np.finfo(np.float32).eps) / 2


@dataclass(frozen=True)
class Nearby:
    """The nearest cells of each cell, and how far from its centre any row of the others is."""

    cells: Array  # (cells, count) int32
    beyond: Floats  # (cells,)


@dataclass(frozen=True)
class Cells:
    """Rows in cells. `order[i]` is the number of the row at place i."""

    order: Ints
    first: Ints  # (cells + 1,) where the places of each cell begin
    points: Array  # (n, d) float32, by place
    half: Array  # (n,) float32: |x|^2 / 2
    centres: Array  # (cells, d) float32
    centre_half: Array
    radius: Floats  # (cells,), from above

    @property
    def count(self) -> int:
        """Number of cells."""
        return len(self.centres)

    def home(self, Q: Array, n_jobs: int | None) -> Array:
        """The cell whose centre is nearest to each query."""
        return _assign(Q, self.centres, n_jobs)

    def nearby(self, count: int, n_jobs: int | None) -> Nearby:
        """The `count` nearest cells of each cell; the cell itself is one of them."""
        C = self.centres.astype(np.float64)
        square = square_norms(C)
        rounding = 4 * len(C[0]) * float(np.finfo(np.float64).eps)

        def nearest(span: slice) -> tuple[Array, Floats]:
            squares = square[span, None] + square - 2 * C[span] @ C.T
            np.put_along_axis(squares, np.arange(self.count)[span, None], -1.0, 1)
            found = np.argpartition(squares, count - 1, axis=1)[:, :count]
            squares -= rounding * (square[span, None] + square)
            gap = np.sqrt(np.maximum(squares, 0.0)) - self.radius
            np.put_along_axis(gap, found, np.inf, 1)
            return found.astype(np.int32), gap.min(axis=1)

        parts = map_in_order(nearest, spans(self.count, 256), n_jobs=n_jobs)
        cells, beyond = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Nearby(cells, beyond)


def make_cells(points: Array, seed: int, n_jobs: int | None) -> Cells:
    """Two levels of k-means, then every row once more to the nearest of the centres around it."""
    n = len(points)
    groups = max(1, int(np.sqrt(n / CELL)))
    rng = np.random.default_rng(seed)
    sample = points[np.sort(rng.permutation(n)[: _SAMPLE * groups])]
    with one_blas_thread():
        group = _assign(points, _k_means(sample, groups, rng), n_jobs)
    members = _members(group, groups)

    def split(g: int) -> tuple[Array, Array]:
        rows = points[members[g]]
        inner = np.random.default_rng([seed, g])
        count = max(1, len(rows) // CELL)
        chosen = np.sort(inner.permutation(len(rows))[: _SAMPLE // 2 * count])
        centres = _k_means(rows[chosen], count, inner)
        return _nearest_centre(rows, centres), centres

    cell = np.empty(n, dtype=np.int32)
    centres: list[Array] = []
    filled = [g for g in range(groups) if len(members[g])]
    for g, (inside, found) in zip(filled, map_in_order(split, filled, n_jobs=n_jobs), strict=True):
        cell[members[g]] = inside + sum(map(len, centres))
        centres.append(found)
    around = np.concatenate(centres)
    cell = _reassign(points, cell, around, n_jobs)
    return _arrange(points, _chain(around)[cell], n_jobs)


def _k_means(sample: Array, count: int, rng: np.random.Generator) -> Array:
    centres = sample[rng.permutation(len(sample))[:count]]
    for _ in range(_ROUNDS):
        nearest = _nearest_centre(sample, centres)
        filled, first = np.unique(np.sort(nearest), return_index=True)
        total = np.add.reduceat(sample[np.argsort(nearest, kind="stable")], first, axis=0)
        centres[filled] = total / np.bincount(nearest)[filled, None].astype(np.float32)
    return centres


def _nearest_centre(rows: Array, centres: Array) -> Array:
    half = 0.5 * square_norms(centres)
    nearest = np.empty(len(rows), dtype=np.int32)
    for span in spans(len(rows), _BLOCK):
        nearest[span] = np.argmin(half - rows[span] @ centres.T, axis=1)
    return nearest


def _assign(rows: Array, centres: Array, n_jobs: int | None) -> Array:
    blocks = [rows[span] for span in spans(len(rows), _BLOCK)]
    parts = map_in_order(lambda block: _nearest_centre(block, centres), blocks, n_jobs=n_jobs)
    return np.concatenate([*parts, np.empty(0, dtype=np.int32)])


def _members(group: Array, count: int) -> list[Ints]:
    """The rows of each group, ascending."""
    ends = np.cumsum(np.bincount(group, minlength=count))
    return np.split(np.argsort(group, kind="stable"), ends[:-1])


def _reassign(points: Array, cell: Array, centres: Array, n_jobs: int | None) -> Array:
    """Every row to the nearest of the centres around its own: groups had cut some off."""
    half = 0.5 * square_norms(centres)
    members, count = _members(cell, len(centres)), min(_REASSIGN, len(centres))
    moved = np.empty_like(cell)

    def move(span: slice) -> None:
        around = half - centres[span] @ centres.T
        around = np.argpartition(around, count - 1, axis=1)[:, :count]
        for near, rows in zip(around, members[span], strict=True):
            moved[rows] = near[_nearest_centre(points[rows], centres[near])]

    for _ in map_in_order(move, spans(len(centres), 64), n_jobs=n_jobs):
        pass
    return moved


def _chain(centres: Array) -> Array:
    """New numbers of the cells, so that those with consecutive ones are near each other.

    What is near in space is then near in memory, on which the speed of a walk depends.
    """
    half = 0.5 * square_norms(centres)
    number = np.full(len(centres), -1)
    last = 0
    for i in range(len(centres)):
        number[last] = i
        half[last] = np.inf
        last = int(np.argmin(half - centres @ centres[last]))
    return number


def _arrange(points: Array, cell: Array, n_jobs: int | None) -> Cells:
    order = np.argsort(cell, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(cell[order]) != 0, True)) + 1
    starts = np.append(0, ends[:-1])
    first = np.array(
        [a for s, e in zip(starts, ends, strict=True) for a in range(s, e, LARGEST_CELL)]
        + [len(points)]
    )
    count, d = len(first) - 1, points.shape[1]
    placed, half = np.empty_like(points), np.empty(len(points), dtype=np.float32)
    centres, radius = np.empty((count, d), dtype=np.float32), np.empty(count)

    def place(span: slice) -> None:
        for cell in range(span.start, span.stop):
            part = slice(first[cell], first[cell + 1])
            rows = points[order[part]].astype(np.float64)
            placed[part], half[part] = rows, 0.5 * square_norms(rows)
            centres[cell] = rows.mean(axis=0)
            rows -= centres[cell]
            radius[cell] = np.sqrt(square_norms(rows).max()) * (1 + 1e-9)

    for _ in map_in_order(place, spans(count, 16), n_jobs=n_jobs):
        pass
    centre_half = 0.5 * square_norms(centres.astype(np.float64))
    return Cells(order, first, placed, half, centres, centre_half.astype(np.float32), radius)
