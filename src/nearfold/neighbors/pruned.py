"""Exact Euclidean neighbours by pruning: bound every distance cheaply, measure the few left.

The bound. Let W (d, h) have orthonormal columns and put x_h = W^T (x - mu),
x_t = the part of x - mu outside their span. The sketch phi(x) = (x_h, |x_t|) never stretches:

    |q - x|^2 = |q_h - x_h|^2 + |q_t - x_t|^2 >= |q_h - x_h|^2 + (|q_t| - |x_t|)^2
              = |phi(q) - phi(x)|^2

With W the leading principal axes the bound is tight when the data have few strong directions.

The stages, for a tile of queries against a tile of rows:
  1. short sketch (tens of axes): one float32 matrix product gives all scores
         s = phi(q).phi(x) - |phi(x)|^2 / 2,   |phi(q) - phi(x)|^2 = |phi(q)|^2 - 2 s
     and a pair lives on only if s reaches the query's cut;
  2. long sketch (some more axes): the survivors' bounds, one by one, in float32;
  3. the true squared distance in float64 from the data themselves: this alone decides.

Why float32 screening is exact. A stored sketch is off by at most eta(x) in norm, so a pair
within distance r has stored sketches within reach = r + eta(q) + eta(x). A product of
length L in float32 is off by at most L u |a||b| whatever the order of summation. Both are
added to the threshold before anything is discarded (`pruning_thresholds` in
kernels/screen.py).

Rows are grouped by k-means on their leading axes, queries likewise; a tile of queries visits
the nearest tile of rows first, so thresholds are tight early, and skips tiles that the
triangle inequality rules out altogether.

How many axes: the `Plan`, chosen by a cost model from a pilot sample. Data without strong
directions get the plan "all d axes": stage 1 is then the plain blocked product, nothing lost.

Cost: O(m n h) multiplications in BLAS plus the survivors; memory 4 n (h_short + h_long) bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nearfold.blocks import spans
from nearfold.linalg import square_norms
from nearfold.neighbors.pairs import Pairs, radii
from nearfold.neighbors.plan import Plan
from nearfold.neighbors.sketch import Sketch, Sketcher, group_centres, sort_by_group
from nearfold.notation import Array, Floats, Ints
from nearfold.run import PerThread, map_in_order, thread_count

_ROW_TILE = 512  # with it a tile of scores is 1 MB: it stays in a core's cache
_QUERY_TILE = 512
_SEED_SHARE = 8  # one tile in so many, the nearest ones, gives the first thresholds
_BATCH_CELLS = 2**20  # values of the queries sketched at a time


@dataclass(frozen=True)
class _QueryTile:
    """Some queries that are searched together: near each other, so that they share tiles."""

    Q: Array
    query_of: Ints  # their rows in Q
    own_row: Ints  # the row of X that each of them is, -1 for new rows
    sketch: Sketch


class PrunedIndex:
    """Rows sketched and grouped for exact Euclidean search by `nearest` or `within`."""

    def __init__(
        self, X: Array, *, n_jobs: int | None = None, k_hint: int = 5, plan: Plan | None = None
    ) -> None:
        self.X = X
        self.n_jobs = n_jobs
        rng = np.random.default_rng(0)  # fixed: it moves work about, never a result
        self.sketcher = Sketcher(X, k_hint, plan, rng)
        self.plan = self.sketcher.plan
        self.counts = np.zeros(2, dtype=np.int64)  # pairs that reached stage 2, stage 3
        self._arrange(rng)

    def _arrange(self, rng: np.random.Generator) -> None:
        """Put near rows into the same tile, and compute each tile's centre and radius."""
        n, make = len(self.X), self.sketcher
        lead = make.lead(self.X, self.n_jobs)
        self.group_centres = group_centres(lead, max(1, min(64, n // 512)), rng)
        # Where no axis stands out no grouping will: then the rows stay as they are.
        self.row_of = np.arange(n) if make.whole else sort_by_group(lead, self.group_centres)
        self.square = np.empty(n)
        self.long = np.empty((n, 0 if make.whole else make.plan.long + 1), dtype=np.float32)
        self.tiles = spans(n, _ROW_TILE)

        def arrange(tile: slice) -> tuple[Array, Array, float]:
            rows = make.sketch(self.X, tile if make.whole else self.row_of[tile])
            self.square[tile], self.long[tile] = rows.square, rows.long
            # In float64: what float32 would round here might rule out a tile that is near.
            centre = rows.short[:, :-1].mean(axis=0, dtype=np.float64)
            radius = float(np.sqrt(square_norms(rows.short[:, :-1] - centre).max()))
            # Where queries carry a 1 rows carry their size; transposed, BLAS packs them faster.
            rows.short[:, -1] = -0.5 * rows.square
            return np.ascontiguousarray(rows.short.T), centre, radius

        arranged = list(map_in_order(arrange, self.tiles, n_jobs=self.n_jobs))
        self.tile_rows = [tile_rows for tile_rows, _, _ in arranged]
        self.tile_centre = np.array([centre for _, centre, _ in arranged])
        self.tile_radius = np.array([radius for _, _, radius in arranged])
        self.tile_norm = np.sqrt([self.square[tile].max() for tile in self.tiles])

    def held_bytes(self) -> float:
        """What the sketches of the rows take."""
        return 4.0 * self.sketcher.width * len(self.X) + self.square.nbytes + self.row_of.nbytes

    def _query_tiles(self, Q: Array | None) -> Iterator[_QueryTile]:
        """Queries in coherent tiles; the index's own rows if Q is None."""
        if Q is None:
            for tile, rows in zip(self.tiles, self.tile_rows, strict=True):
                for part in spans(rows.shape[1], _QUERY_TILE):
                    short = np.ascontiguousarray(rows[:, part].T)
                    short[:, -1] = 1.0
                    place = slice(tile.start + part.start, tile.start + part.stop)
                    own = self.row_of[place]
                    sketch = Sketch(short, self.long[place], self.square[place])
                    yield _QueryTile(self.X, own, own, sketch)
            return
        for batch in spans(Q.shape[0], max(_QUERY_TILE, _BATCH_CELLS // self.sketcher.width)):
            sketch = self.sketcher.sketch_all(Q[batch], self.n_jobs)
            lead = sketch.short[:, : self.group_centres.shape[1]]
            order = sort_by_group(lead, self.group_centres)
            for tile in spans(len(order), _QUERY_TILE):
                chosen = order[tile]
                nobody = np.full(len(chosen), -1)
                yield _QueryTile(Q, chosen + batch.start, nobody, sketch.take(chosen))

    def _tile_gaps(self, task: _QueryTile) -> Floats:
        """Lower bounds (queries, tiles) on the sketch distance to any row of a tile."""
        phi = task.sketch.short[:, :-1].astype(np.float64)
        between = (
            task.sketch.square[:, None]
            + square_norms(self.tile_centre)
            - 2 * phi @ self.tile_centre.T
        )
        rounding = 1e-12 * (task.sketch.square[:, None] + self.tile_norm**2)
        return np.sqrt(np.maximum(between - rounding, 0.0)) - self.tile_radius * (1 + 1e-6)

    def _score(self, task: _QueryTile, t: int, buffer: Array) -> Array:
        """Stage 1: the scores of a tile of queries against tile t of the rows."""
        rows = self.tile_rows[t]
        m = len(task.query_of)
        S = buffer[: m * rows.shape[1]].reshape(m, -1)
        return np.matmul(task.sketch.short, rows, out=S)

    def _errors(self, t: int) -> tuple[float, float, float, float]:
        return self.sketcher.product_errors(float(self.tile_norm[t]), len(self.tile_rows[t]))

    def nearest(self, Q: Array | None, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        m = self.X.shape[0] if Q is None else Q.shape[0]
        distance = np.empty((m, k))
        row = np.empty((m, k), dtype=np.int64)
        buffers = PerThread(lambda: np.empty(_QUERY_TILE * _ROW_TILE, dtype=np.float32))

        def search(task: _QueryTile) -> Array:
            best = np.full((len(task.query_of), k), np.inf)
            best_row = np.full(best.shape, np.iinfo(np.int64).max)
            counts = self._screen_all(task, best, best_row, buffers.get())
            order = np.lexsort((best_row, best))
            distance[task.query_of] = np.sqrt(np.take_along_axis(best, order, 1))
            row[task.query_of] = np.take_along_axis(best_row, order, 1)
            return counts

        total = -(-m // _QUERY_TILE)
        for counts in map_in_order(
            search, self._query_tiles(Q), n_jobs=self.n_jobs, label="neighbours", total=total
        ):
            self.counts += counts
        return distance, row

    def _screen_all(self, task: _QueryTile, best: Array, best_row: Array, buffer: Array) -> Array:
        """All tiles, nearest first, into the k best of each query."""
        from nearfold.kernels.screen import screen_nearest

        counts = np.zeros(2, dtype=np.int64)
        eta = self.sketcher.rounding(np.sqrt(task.sketch.square))
        gap = self._tile_gaps(task)
        order = np.argsort(gap.mean(axis=0), kind="stable")
        seeds = 1 if self.sketcher.whole else -(-len(order) // _SEED_SHARE)
        worst = self._first_bounds(task, order[:seeds], best.shape[1], buffer)
        for t in order:
            slack, errors = eta + self.sketcher.rounding(self.tile_norm[t]), self._errors(t)
            if not (gap[:, t] <= np.sqrt(worst) * errors[1] + slack).any():
                continue
            counts += screen_nearest(
                self._score(task, t, buffer), task.sketch.square, slack, errors, task.query_of,
                task.own_row, self.row_of, self.tiles[t].start, task.Q, self.X,
                task.sketch.long, self.long, best, best_row, worst,
            )  # fmt: skip
        return counts

    def _first_bounds(self, task: _QueryTile, tiles: Ints, k: int, buffer: Array) -> Floats:
        """Squared distances that k rows are known to be within, from the k best scores nearby."""
        from nearfold.kernels.screen import bound_kth_distances, collect_best_scores

        bound = np.full((len(task.query_of), k), np.inf)
        place = np.zeros(bound.shape, dtype=np.int64)
        worst = np.full(len(bound), np.inf)
        for t in tiles:
            S = self._score(task, t, buffer)
            collect_best_scores(S, task.own_row, self.row_of, self.tiles[t].start, bound, place)
        bound_kth_distances(task.query_of, self.row_of, task.Q, self.X, bound, place, worst)
        return worst

    def within(self, Q: Array | None, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        from nearfold.kernels.screen import screen_within

        size = _QUERY_TILE * _ROW_TILE
        kinds = (np.float32, np.int32, np.int32, np.float64)  # scores, queries, rows, squares
        buffers = PerThread(lambda: [np.empty(size, dtype=kind) for kind in kinds])
        m = self.X.shape[0] if Q is None else Q.shape[0]
        reach = radii(radius, m)
        pairs = Pairs(m, self.held_bytes() + 20.0 * size * thread_count(self.n_jobs))
        limit = np.minimum(reach, 1e154)  # its square must not overflow

        def search(task: _QueryTile) -> list[tuple[Ints, Ints, Floats]]:
            buffer, *found = buffers.get()
            eta = self.sketcher.rounding(np.sqrt(task.sketch.square))
            gap = self._tile_gaps(task)
            pieces = []
            for t, tile in enumerate(self.tiles):
                slack, errors = eta + self.sketcher.rounding(self.tile_norm[t]), self._errors(t)
                if not (gap[:, t] <= limit[task.query_of] * errors[1] + slack).any():
                    continue
                S = self._score(task, t, buffer)
                count = screen_within(
                    S, task.sketch.square, slack, errors, task.query_of, task.own_row,
                    self.row_of, tile.start, task.Q, self.X, task.sketch.long, self.long,
                    limit[task.query_of], reach[task.query_of], *found,
                )  # fmt: skip
                pairs.reserve(count)
                query, row, square = (part[:count] for part in found)
                pieces.append((query.astype(np.int64), row.astype(np.int64), np.sqrt(square)))
            return pieces

        total = -(-m // _QUERY_TILE)
        for some in map_in_order(
            search, self._query_tiles(Q), n_jobs=self.n_jobs, label="neighbours", total=total
        ):
            pairs.add(*some)
        return pairs.sorted()
