"""Exact Euclidean neighbours by pruning: bound every distance cheaply, measure the few left.

The bound. Let W (d, h) have orthonormal columns and put x_h = W^T (x - mu),
x_t = the part of x - mu outside their span. The sketch phi(x) = (x_h, |x_t|) never stretches:

    |q - x|^2 = |q_h - x_h|^2 + |q_t - x_t|^2 >= |q_h - x_h|^2 + (|q_t| - |x_t|)^2
              = |phi(q) - phi(x)|^2

With W the leading principal axes the bound is tight when the data have few strong directions.
It is used twice: psi sketches the whole table on about a hundred axes; phi sketches psi once more,
within each of about sqrt(n) groups of near rows, on a few axes of the group's own.

The stages, for a tile of queries against a group of rows:
  0. queries that the triangle inequality keeps away from the group, by the distance to its centre
     and then by their sketch on its axes, are left out;
  1. phi (ten or twenty axes): one float32 matrix product gives all scores
         s = phi(q).phi(x) - |phi(x)|^2 / 2,   |phi(q) - phi(x)|^2 = |phi(q)|^2 - 2 s
     and a pair lives on only if s reaches the query's cut;
  2. psi: the survivors' bounds, one by one, in float32;
  3. the true squared distance in float64 from the data themselves: this alone decides.

Why float32 screening is exact. A stored sketch is off by at most slack(x) in norm, so a pair
within distance r has stored sketches within reach = r + slack(q) + slack(x). A product of
length L in float32 is off by at most L u |a||b| whatever the order of summation. Both are
added to the threshold before anything is discarded (`pruning_thresholds` in
kernels/screen.py).

Queries are taken in the order of the groups; a tile of them visits the nearest group first, so
thresholds are tight early.

How many axes: the `Plan`, chosen by a cost model from pilot samples. Data without strong
directions, in the table or in its groups, get the plan "all d axes": stage 1 is then the plain
blocked product, nothing lost.

Cost: O(m n h) multiplications in BLAS plus the survivors; memory 4 n (h + D) bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nearfold.blocks import spans
from nearfold.linalg import square_norms
from nearfold.neighbors.grouped import Queries, Work
from nearfold.neighbors.groups import ROW_TILE, group_rows, nearest_centre
from nearfold.neighbors.pairs import Pairs, radii
from nearfold.neighbors.plan import Plan
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
        self, X: Array, *, n_jobs: int | None = None, k_hint: int = 5, plan: Plan | None = None
    ) -> None:
        self.X = X
        self.n_jobs = n_jobs
        rng = np.random.default_rng(0)  # fixed: it moves work about, never a result
        self.sketcher = Sketcher(X, k_hint, plan, rng)
        short = None if plan is None else plan.short
        self.groups, self.centres = group_rows(self.sketcher, X, k_hint, short, rng, n_jobs)
        h = self.groups.basis.shape[2]
        self.plan = Plan(h, self.sketcher.plan.long) if h else Plan(X.shape[1], 0)
        self.centre_square = square_norms(self.centres)
        self.counts = np.zeros(2, dtype=np.int64)  # pairs that reached stage 2, stage 3

    def held_bytes(self) -> float:
        """What the sketches of the rows take."""
        return float(sum(part.nbytes for part in self.groups[1:-1]))

    def _query_tiles(self, Q: Array | None, size: int) -> Iterator[tuple[Ints, Ints, Sketch]]:
        """(rows of Q, rows of X that they are or -1, sketches) of near queries, tile by tile.

        The index's own rows if Q is None.
        """
        if Q is None:
            for place in spans(len(self.X), size):
                own = self.groups.row_of[place]
                yield own, own, self._own_sketch(place)
            return
        for batch in spans(Q.shape[0], max(size, _BATCH_CELLS // self.sketcher.width)):
            sketch = self.sketcher.sketch(Q[batch], self.n_jobs)
            order = np.arange(len(sketch.psi))
            if len(order) > size:
                near = nearest_centre(sketch.psi, self.centres.astype(np.float32))
                order = np.argsort(near, kind="stable")
            for tile in spans(len(order), size):
                chosen = order[tile]
                nobody = np.full(len(chosen), -1)
                yield chosen + batch.start, nobody, sketch.take(chosen)

    def _own_sketch(self, place: slice) -> Sketch:
        if self.groups.basis.shape[2] == 0:
            return self.sketcher.sketch(self.X[place], 1)  # which lie in their own order
        psi = self.groups.psi[place]
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
        return Queries(whole, query_of, own_row, sketch.psi, sketch.norm, sketch.slack, square)

    def _work(self) -> Work:
        m, D, h = _QUERY_TILE, self.sketcher.width, self.groups.basis.shape[2]
        kinds = {"chosen": np.int64, "sizes": np.float64, "slack": np.float64}
        shapes = {
            "chosen": m, "gathered": (m, D), "part": (m, h), "phi": (m, h + 2 if h else D + 1),
            "sizes": m, "slack": m, "scores": m * ROW_TILE,
        }  # fmt: skip
        return Work(**{k: np.empty(shapes[k], dtype=kinds.get(k, np.float32)) for k in shapes})

    def nearest(self, Q: Array | None, k: int, limit: Floats | None = None) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded.

        With a `limit` (m,) rows farther than that are not looked for: see `EuclideanIndex`.
        """
        from nearfold.kernels.groups import search_nearest

        m = self.X.shape[0] if Q is None else Q.shape[0]
        distance = np.empty((m, k))
        row = np.empty((m, k), dtype=np.int64)
        work = PerThread(self._work)

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
            lambda: (self._work(), tuple(np.empty(_FOUND, dtype=kind) for kind in room))
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
