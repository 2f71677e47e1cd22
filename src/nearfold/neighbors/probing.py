"""Candidates of queries from the cells around them, and a proof for those that missed nothing.

A query probes the p cells whose centres are nearest, by dense products of all queries of a task
with each cell. `Candidates` keeps the best of what was seen, and two numbers from which it is
proven that nothing nearer was left out:

  gap    for every cell c that was not probed |q - c| - R_c; for the cells not even looked at, which
         are far from the centre a of the query's own cell, |a - c| - R_c - |q - a|
  root   the worst score kept: whatever was seen and dropped has no better one

Suppose a row x within distance r of q was missed. Then |x| <= B = |q| + r, stored points are off by
at most 2 u |x| each, and a score of theirs by at most (d + 4) u B^2, where u is the unit roundoff
of float32. So x was not seen only if gap <= r + 8 u B, and dropped only if
root <= ((r + 8 u B)^2 - |q|^2) / 2 + (d + 8) u B^2. Where neither holds the list is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.blocks import spans
from nearfold.linalg import square_norms
from nearfold.neighbors.cells import LARGEST_CELL, Cells, Nearby, U
from nearfold.notation import Array, Floats, Ints
from nearfold.run import PerThread, map_in_order

WALK = 16  # neighbours of each row that a walk follows, and as many that list it
_TASK = 4096  # queries that are searched together, about
_TILE = 512  # queries, or rows, of a tile of products, at the most
_FEW_QUERIES = 128  # of a task where all cells are searched
_WALK_TASK = 2048
_LOOKED_AT = 128  # cells around its own that a query ranks, at least
_NOBODY = -(2**40)  # added to a query's number this is no row


@dataclass(frozen=True)
class Queries:
    """Queries in the space of the cells, those with the same home cell side by side."""

    points: Array  # (m, d) float32
    order: Ints  # (m,) their numbers
    first: Ints  # (cells + 1,) where those of each home cell begin
    size: Floats  # (m,) |q|
    are_rows: bool  # the rows themselves, in the order of the cells

    @classmethod
    def of_rows(cls, cells: Cells) -> Queries:
        """The rows themselves."""
        return cls(cells.points, cells.order, cells.first, _sizes(cells.points), True)

    @classmethod
    def of_points(cls, points: Array, home: Array, count: int) -> Queries:
        """Other points, by their home cells."""
        order = np.argsort(home, kind="stable")
        first = np.append(0, np.cumsum(np.bincount(home, minlength=count)))
        points = points[order]
        return cls(points, order, first, _sizes(points), False)

    def some(self, chosen: Ints) -> Queries:
        """A few of them (ascending places), no longer as rows."""
        first = np.searchsorted(chosen, self.first)
        return Queries(self.points[chosen], self.order[chosen], first, self.size[chosen], False)

    def tasks(self) -> list[tuple[int, int]]:
        """Consecutive home cells with about so many queries together."""
        found, start = [], 0
        for cell in range(1, len(self.first)):
            if cell == len(self.first) - 1 or self.first[cell + 1] - self.first[start] > _TASK:
                found.append((start, cell))
                start = cell
        return found


class _Room:
    """Where a thread puts rows and products: new arrays would cost as much as the products."""

    def __init__(self, d: int) -> None:
        self._rows = np.empty((_TILE, d), dtype=np.float32)
        self._products = np.empty(_TILE * LARGEST_CELL, dtype=np.float32)

    def gather(self, points: Array, chosen: Ints) -> Array:
        """Some of the points, side by side."""
        return np.take(points, chosen, axis=0, out=self._rows[: len(chosen)], mode="clip")

    def products(self, Q: Array, rows: Array) -> Array:
        """Q times the transpose of the rows."""
        out = self._products[: len(Q) * len(rows)].reshape(len(Q), len(rows))
        return np.matmul(Q, rows.T, out=out)


class Candidates:
    """The best candidates of each query so far: a heap of scores, the worst first."""

    def __init__(self, m: int, width: int) -> None:
        self.scores = np.full((m, width), np.inf, dtype=np.float32)
        self.places = np.full((m, width), -1, dtype=np.int32)
        self.gap = np.zeros(m)  # no row that was not seen is nearer
        self._walked: Array | None = None  # the lists of the last round

    def some(self, chosen: Ints) -> Candidates:
        """Those of a few queries."""
        part = Candidates(0, 0)
        part.scores, part.places = self.scores[chosen], self.places[chosen]
        part.gap = self.gap[chosen]
        return part

    def probe(
        self, cells: Cells, queries: Queries, near: Nearby | None, p: int, n_jobs: int | None
    ) -> None:
        """Offer every query the rows of its p nearest cells; of all cells if `near` is None."""
        again = bool((self.places >= 0).any())

        def search(task: tuple[int, int]) -> None:
            assert near is not None
            span = slice(int(queries.first[task[0]]), int(queries.first[task[1]]))
            probed = np.empty((span.stop - span.start, p), dtype=np.int32)
            for cell in range(*task):
                part = slice(int(queries.first[cell]), int(queries.first[cell + 1]))
                if part.stop > part.start:
                    at = slice(part.start - span.start, part.stop - span.start)
                    probed[at], self.gap[part] = choose_cells(cells, queries, near, cell, part, p)
            self._offer_cells(cells, queries, span, probed, again, room.get())

        def see_all(span: slice) -> None:
            self._offer_all(cells, queries, span, again, room.get())

        room = PerThread(lambda: _Room(cells.points.shape[1]))
        tasks: list[Any] = queries.tasks() if near else spans(len(self.gap), _FEW_QUERIES)
        work: Any = search if near else see_all
        for _ in map_in_order(work, tasks, n_jobs=n_jobs, label="neighbours", total=len(tasks)):
            pass

    def _offer_cells(
        self, cells: Cells, queries: Queries, span: slice, probed: Array, again: bool, room: _Room
    ) -> None:
        """Cell after cell, to all queries of a task that probe it."""
        by_cell = np.argsort(probed, axis=None, kind="stable")
        cell_of, query = probed.ravel()[by_cell], by_cell // probed.shape[1]
        starts = np.flatnonzero(np.append(True, np.diff(cell_of) != 0))
        for a, b in zip(starts.tolist(), [*starts[1:].tolist(), len(query)], strict=True):
            cell = int(cell_of[a])
            rows = slice(int(cells.first[cell]), int(cells.first[cell + 1]))
            for few in spans(b - a, _TILE):
                asking = query[a:b][few]
                Q = room.gather(queries.points[span], asking)
                self._offer(cells, queries, span, rows, Q, asking, again, room)

    def _offer_all(
        self, cells: Cells, queries: Queries, span: slice, again: bool, room: _Room
    ) -> None:
        asking = np.arange(span.stop - span.start)
        for rows in spans(len(cells.points), _TILE):
            Q = queries.points[span]
            self._offer(cells, queries, span, rows, Q, asking, again, room)
        self.gap[span] = np.inf

    def _offer(
        self,
        cells: Cells,
        queries: Queries,
        span: slice,
        rows: slice,
        Q: Array,
        asking: Ints,
        again: bool,
        room: _Room,
    ) -> None:
        from nearfold.kernels.walk import offer_tile

        offer_tile(
            room.products(Q, cells.points[rows]), cells.half[rows], asking, rows.start,
            span.start if queries.are_rows else _NOBODY,
            self.scores[span], self.places[span], again,
        )  # fmt: skip

    def walk(self, cells: Cells, n_jobs: int | None) -> int:
        """One round of neighbour descent among the rows themselves; how many entries changed."""
        from nearfold.kernels.walk import reverse_lists, walk

        n, width = self.places.shape
        lists, fresh = np.empty_like(self.places), np.ones((n, width), dtype=np.uint8)

        def nearest_first(span: slice) -> None:
            order = np.argsort(self.scores[span], axis=1, kind="stable")
            lists[span] = np.take_along_axis(self.places[span], order, 1)
            if self._walked is not None:
                known = lists[span][:, :, None] == self._walked[span][:, None, :]
                fresh[span] = ~known.any(axis=2)

        for _ in map_in_order(nearest_first, spans(n, _WALK_TASK), n_jobs=n_jobs):
            pass
        reverse = np.full((n, min(WALK, width)), -1, dtype=np.int32)
        reverse_fresh = np.zeros(reverse.shape, dtype=np.uint8)
        reverse_lists(lists, fresh, reverse, reverse_fresh)
        seen = PerThread(lambda: np.zeros(n, dtype=np.int32))

        def step(span: slice) -> int:
            return int(
                walk(cells.points, cells.half, lists, fresh, reverse, reverse_fresh, span.start,
                     self.scores[span], self.places[span], seen.get())
            )  # fmt: skip

        self._walked = lists
        return sum(map_in_order(step, spans(n, _WALK_TASK), n_jobs=n_jobs))

    def proven(self, span: slice, size: Floats, reach: Floats, d: int) -> Array:
        """Which lists are exact, given |q| and the distance r of the last neighbour."""
        r = reach * (1 + 1e-12)
        B = size + r
        wide = r + 8 * U * B
        dropped = 0.5 * (wide * wide - size * size) + (d + 8) * U * B * B
        # 1e-36 stands for what underflow of float32 may take.
        return np.asarray((self.gap[span] > wide) & (self.scores[span, 0] > dropped + 1e-36))


def choose_cells(
    cells: Cells, queries: Queries, near: Nearby, cell: int, part: slice, p: int
) -> tuple[Array, Floats]:
    """The p cells nearest to each query with this home, and how near a row elsewhere may be."""
    around = near.cells[cell]
    Q, size = queries.points[part], queries.size[part, None]
    score = cells.centre_half[around] - Q @ cells.centres[around].T
    order = np.argpartition(score, min(p, len(around)) - 1, axis=1)
    squares = 2.0 * score.astype(np.float64) + size * size
    error = 2 * (Q.shape[1] + 8) * U * (size + np.sqrt(2.0 * cells.centre_half[around])) ** 2
    gap = np.sqrt(np.maximum(squares - error, 0.0)) - cells.radius[around]
    np.put_along_axis(gap, order[:, :p], np.inf, 1)
    centre = cells.centres[cell].astype(np.float64)
    to_centre = np.sqrt(square_norms(Q.astype(np.float64) - centre)) * (1 + 1e-9)
    return around[order[:, :p]], np.minimum(gap.min(axis=1), near.beyond[cell] - to_centre)


def ranks_of_cells(cells: Cells, queries: Queries, places: Array) -> Array:
    """For each query and each of some rows: how many cells are nearer than the row's own."""
    cell_of = np.searchsorted(cells.first, places, side="right") - 1
    score = cells.centre_half - queries.points @ cells.centres.T
    own = np.take_along_axis(score, cell_of, 1)
    return np.stack([(score < column[:, None]).sum(axis=1) for column in own.T], axis=1)


def cells_looked_at(cells: Cells, p: int) -> int:
    """How many cells around its own a query that probes p of them ranks."""
    return min(cells.count, max(_LOOKED_AT, 3 * p))


def _sizes(points: Array) -> Floats:
    size = np.empty(len(points))
    for span in spans(len(points), _TASK):
        size[span] = np.sqrt(square_norms(points[span].astype(np.float64)))
    return size
