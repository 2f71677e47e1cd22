"""Exact Euclidean neighbours by pruning: bound every distance cheaply, measure the few left.

The bound. Let W (d, h) have orthonormal columns and put x_h = W^T (x - mu),
x_t = the part of x - mu outside their span. The sketch phi(x) = (x_h, |x_t|) never stretches:

    |q - x|^2 = |q_h - x_h|^2 + |q_t - x_t|^2 >= |q_h - x_h|^2 + (|q_t| - |x_t|)^2
              = |phi(q) - phi(x)|^2

With W the leading principal axes the bound is tight when the data have few strong directions.
psi is this sketch on about a hundred axes, in float32; where no axes stand out, all of x - mu.

The stages, for a tile of queries against a group of near rows (there are some sqrt(n) / 2 groups,
found by k-means):
  0. queries that the triangle inequality keeps away from the group, by the distance to its centre
     c, are left out;
  1. psi - c is rounded to digits: psi(x) - c = s b + what is left over, with whole numbers b of a
     byte each and a step s that suits the group's rows, psi(q) - c = s' a + ..., s' = 2^l s. One
     product of integers gives all scores
         S = a.b - floor(|b|^2 / 2^(l+1)),    |s' a - s b|^2 >= s'^2 |a|^2 - 2 s s' S
     and a pair lives on only if S reaches the query's cut;
  2. psi: the survivors' bounds, one by one, in float32;
  3. the true squared distance in float64 from the data themselves: this alone decides.

Why the screening is exact. Products of integers do not round. A stored sketch is off by at most
slack(x) in norm, and digits by the length of what is left over, which is measured when they are
made; so a pair within distance r has |s' a - s b| <= reach = r + what both rows may be off by, and
S >= (s'^2 |a|^2 - reach^2) / (2 s s'). The float32 sum of stage 2 is off by at most (D + 4) u of
itself, which is added to the threshold. (`lowest_score` and `sketch_limit` in kernels/screen.py,
the digits in kernels/groups.py, their product in kernels/digits.py.)

The axes of psi span principal ones, but are turned at random: then all parts of a row are of one
size, and a byte holds each of them to a hundredth or so.

Queries are taken in the order of the groups; a tile of them visits the nearest group first, so
thresholds are tight early.

How many axes: a cost model decides from a pilot sample (plan.py).

Cost: O(m n D) multiplications of bytes plus the survivors; memory 5 n D bytes, or n d where all
columns are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nearfold.blocks import spans
from nearfold.linalg import square_norms
from nearfold.neighbors.grouped import Marked, Queries
from nearfold.neighbors.groups import ROW_TILE, depth_of, group_rows, nearest_centre
from nearfold.neighbors.pairs import Pairs, radii
from nearfold.neighbors.selection import NOBODY, start_of_lists
from nearfold.neighbors.sketch import Sketch, Sketcher
from nearfold.notation import Array, Floats, Ints
from nearfold.run import PerThread, map_in_order, thread_count

_QUERY_TILE = 512  # queries, at the most: fewer, and the rows are read too often
_LEAST_TILE, _LEAST_TILES = 64, 16  # of few queries, so that every thread has work
_SEEDS = 2  # groups, the nearest ones, that give a query its first threshold
_BATCH_CELLS = 2**20  # values of the queries sketched at a time
_FOUND = _QUERY_TILE * ROW_TILE  # pairs within a radius kept at a time: those of a tile must fit


class PrunedIndex:
    """Rows sketched and grouped for exact Euclidean search by `nearest` or `within`."""

    def __init__(
        self, X: Array, *, n_jobs: int | None = None, k_hint: int = 5, axes: int | None = None
    ) -> None:
        self.X = X
        self.n_jobs = n_jobs
        rng = np.random.default_rng(0)  # fixed: it moves work about, never a result
        self.sketcher = Sketcher(X, k_hint, axes, rng)
        self.groups = group_rows(self.sketcher, X, rng, n_jobs)
        self.axes = self.sketcher.axes
        self.centres = self.groups.centres.astype(np.float64)
        self.centre_square = square_norms(self.centres)
        self.counts = np.zeros(2, dtype=np.int64)  # pairs that reached stage 2, stage 3

    def held_bytes(self) -> float:
        """What the sketches of the rows take."""
        return float(sum(part.nbytes for part in self.groups[1:-2]))

    def _query_tiles(self, Q: Array | None, size: int) -> Iterator[tuple[Ints, Ints, Sketch]]:
        """(rows of Q, rows of X that they are or -1, sketches) of near queries, tile by tile.

        The index's own rows if Q is None.
        """
        if Q is None:
            held = np.flatnonzero(self.groups.row_of >= 0)
            for tile in spans(len(held), size):
                own = self.groups.row_of[held[tile]]
                yield own, own, self._own_sketch(held[tile])
            return
        for batch in spans(Q.shape[0], max(size, _BATCH_CELLS // self.sketcher.width)):
            sketch = self.sketcher.sketch(Q[batch], self.n_jobs)
            order = np.arange(len(sketch.psi))
            if len(order) > size:
                near = nearest_centre(sketch.psi, self.groups.centres)
                order = np.argsort(near, kind="stable")
            for tile in spans(len(order), size):
                chosen = order[tile]
                nobody = np.full(len(chosen), -1)
                yield chosen + batch.start, nobody, sketch.take(chosen)

    def _own_sketch(self, places: Ints) -> Sketch:
        if self.sketcher.whole:
            return self.sketcher.sketch(self.X[self.groups.row_of[places]], 1)
        psi = self.groups.psi[places]
        norm = np.sqrt(square_norms(psi.astype(np.float64)))
        return Sketch(psi, norm, self.sketcher.slack(norm, psi[:, -1]))

    def _queries(self, Q: Array | None, task: tuple[Ints, Ints, Sketch]) -> Queries:
        query_of, own_row, sketch = task
        between = sketch.psi.astype(np.float64) @ self.centres.T
        square = np.square(sketch.norm)[:, None] + self.centre_square - 2 * between
        # What the product may have rounded away must not rule out a group.
        square -= 1e-12 * (np.square(sketch.norm)[:, None] + self.centre_square)
        np.maximum(square, 0.0, out=square)
        whole = self.X if Q is None else Q
        return Queries(whole, query_of, own_row, sketch.psi, sketch.slack, square)

    def _room(self) -> Marked:
        m = _QUERY_TILE
        return Marked(
            near=np.empty(m, dtype=np.int64), doubled=np.empty(m, dtype=np.int64),
            first=np.empty(30, dtype=np.int64), chosen=np.empty(m, dtype=np.int64),
            digits=np.zeros((m, depth_of(self.sketcher.width)), dtype=np.int8),
            sizes=np.empty(m), unit=np.empty(m), offset=np.empty(m), slack=np.empty(m),
            start=np.empty(ROW_TILE, dtype=np.int32), cuts=np.empty(m, dtype=np.int32),
            scores=np.empty((m, ROW_TILE), dtype=np.int32),
            bits=np.empty((m, ROW_TILE // 16), dtype=np.uint16),
        )  # fmt: skip

    def nearest(self, Q: Array | None, k: int, limit: Floats | None = None) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded.

        With a `limit` (m,) rows farther than that are not looked for: see `EuclideanIndex`.
        """
        from nearfold.kernels.groups import search_nearest

        m = self.X.shape[0] if Q is None else Q.shape[0]
        distance = np.empty((m, k))
        row = np.empty((m, k), dtype=np.int64)
        work = PerThread(self._room)

        def search(task: tuple[Ints, Ints, Sketch]) -> tuple[int, int]:
            queries = self._queries(Q, task)
            best = start_of_lists(limit, queries.query_of, k)
            best_row = np.full(best.shape, NOBODY)
            order = np.argsort(queries.square.mean(axis=0), kind="stable")
            few = min(len(order), _SEEDS)
            near = np.partition(queries.square, few - 1, axis=1)[:, few - 1]
            counts = search_nearest(self.groups, queries, order, near, work.get(), best, best_row)
            order = np.lexsort((best_row, best))
            distance[queries.query_of] = np.sqrt(np.take_along_axis(best, order, 1))
            row[queries.query_of] = np.take_along_axis(best_row, order, 1)
            return counts

        for counts in self._over_tiles(search, Q, m):
            self.counts += counts
        return distance, row

    def within(self, Q: Array | None, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        from nearfold.kernels.groups import search_within

        m = self.X.shape[0] if Q is None else Q.shape[0]
        reach = radii(radius, m)
        room = (np.int32, np.int32, np.float64)  # queries, rows, squares
        buffers = PerThread(
            lambda: (self._room(), tuple(np.empty(_FOUND, dtype=kind) for kind in room))
        )
        pairs = Pairs(m, self.held_bytes() + 16.0 * _FOUND * thread_count(self.n_jobs))
        limit = np.minimum(reach, 1e154)  # its square must not overflow

        def search(task: tuple[Ints, Ints, Sketch]) -> list[tuple[Ints, Ints, Floats]]:
            queries = self._queries(Q, task)
            work, found = buffers.get()
            near, far = limit[queries.query_of], reach[queries.query_of]
            pieces, group = [], 0
            while group < len(self.centres):
                group, count = search_within(self.groups, queries, group, work, near, far, found)
                pairs.reserve(count)
                query, row, square = (part[:count] for part in found)
                pieces.append((query.astype(np.int64), row.astype(np.int64), np.sqrt(square)))
            return pieces

        for some in self._over_tiles(search, Q, m):
            pairs.add(*some)
        return pairs.sorted()

    def _over_tiles(self, search: Any, Q: Array | None, m: int) -> Iterator[Any]:
        size = min(_QUERY_TILE, max(_LEAST_TILE, m // _LEAST_TILES))
        tiles, total = self._query_tiles(Q, size), -(-m // size)
        if total == 1:  # not worth a pool of threads
            return map(search, tiles)
        return map_in_order(search, tiles, n_jobs=self.n_jobs, label="neighbours", total=total)
