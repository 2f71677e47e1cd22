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
added to the threshold before anything is discarded (`limits_of` in kernels/sift.py).

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
from typing import Any

import numpy as np

from nearfold.neighbors.pairs import Pairs, radii
from nearfold.neighbors.plan import AXES, SAMPLE, Plan, choose_plan, principal_axes, square_norms
from nearfold.notation import Array, Floats, Ints
from nearfold.run import PerThread, map_in_order, one_blas_thread

_ROW_TILE = 512  # with it a tile of scores is 1 MB: it stays in a core's cache
_QUERY_TILE = 512
_SEED_SHARE = 8  # one tile in so many, the nearest ones, gives the first thresholds
_QUERY_BATCH = 65_536  # queries sketched at a time
_PROJECT_ROWS = 512  # a block of float64 rows that stays in cache while it is projected
_U32 = float(np.finfo(np.float32).eps) / 2
_U64 = float(np.finfo(np.float64).eps) / 2

_LARGEST_SQUARE = 1e30  # beyond it float32 scores might overflow


class OutOfRange(Exception):
    """Some row is so far out that its sketch does not fit float32: search another way."""


@dataclass(frozen=True)
class Sketch:
    """Sketched rows: what the product needs, what the second bound needs, and their sizes."""

    short: Array  # (n, h + 2) float32: x_h, |x_t|, and -|phi|^2 / 2 (rows) or 1 (queries)
    long: Array  # (n, H + 1) float32, or no columns
    square: Array  # (n,) |phi|^2 of the short sketch, float64


@dataclass(frozen=True)
class _QueryTile:
    """Some queries that are searched together: near each other, so that they share tiles."""

    Q: Array
    query_of: Ints  # their rows in Q
    own_row: Ints  # the row of X that each of them is, -1 for new rows
    sketch: Sketch


class PrunedIndex:
    """Rows prepared for exact Euclidean search; ask `nearest` or `within` of it."""

    def __init__(
        self, X: Array, *, n_jobs: int | None = None, k_hint: int = 5, plan: Plan | None = None
    ) -> None:
        n, d = X.shape
        self.X = X
        self.n_jobs = n_jobs
        rng = np.random.default_rng(0)  # fixed: it moves work about, never a result
        sample = X[np.sort(rng.permutation(n)[:SAMPLE])].astype(np.float64)
        self.centre = sample.mean(axis=0).astype(X.dtype)  # so that centring rounds once
        sample -= self.centre
        # Sketches are float32: a power of two (exact) keeps their squares well inside its range.
        self.scale = float(2.0 ** -np.frexp(np.abs(sample).max(initial=0.0) or 1.0)[1])
        guide = (sample * self.scale).astype(np.float32)  # it guides the work, float32 will do
        # One thread: waking BLAS's own for so little leaves them spinning into the search.
        with one_blas_thread():
            axes = principal_axes(guide, max(1, min(d // 2, AXES[-1])))
            self.plan = plan or choose_plan(guide, axes, n, k_hint)
        self.whole = self.plan.short >= d
        # The bounds need orthonormal axes, so these are made so in float64.
        self.basis = np.linalg.qr(axes[:, : self.plan.long].astype(np.float64))[0] * self.scale
        self.counts = np.zeros(2, dtype=np.int64)  # pairs that reached stage 2, stage 3
        self._arrange(self._sketch(X), rng)

    def _arrange(self, rows: Sketch, rng: np.random.Generator) -> None:
        """Put near rows into the same tile, and know each tile's centre and radius."""
        n = len(rows.square)
        lead = rows.short[:, :8]
        self.group_centres = _group_centres(lead, max(1, min(64, n // 512)), rng)
        # Where no axis stands out no grouping will: then the rows stay as they are.
        self.row_of = np.arange(n) if self.whole else _sort_by_group(lead, self.group_centres)
        self.square = rows.square[self.row_of]
        self.long = np.empty_like(rows.long)
        self.tiles = list(_spans(n, _ROW_TILE))

        def arrange(tile: slice) -> tuple[Array, Array, float]:
            chosen = self.row_of[tile]
            self.long[tile] = rows.long[chosen]
            short = rows.short[chosen]
            # In float64: what float32 would round here might rule out a tile that is near.
            centre = short[:, :-1].mean(axis=0, dtype=np.float64)
            radius = float(np.sqrt(square_norms(short[:, :-1] - centre).max()))
            # Where queries carry a 1 rows carry their size; transposed, BLAS packs them faster.
            short[:, -1] = -0.5 * self.square[tile]
            return np.ascontiguousarray(short.T), centre, radius

        arranged = list(map_in_order(arrange, self.tiles, n_jobs=self.n_jobs))
        self.tile_rows = [tile_rows for tile_rows, _, _ in arranged]
        self.tile_centre = np.array([centre for _, centre, _ in arranged])
        self.tile_radius = np.array([radius for _, _, radius in arranged])
        self.tile_norm = np.sqrt([self.square[tile].max() for tile in self.tiles])

    def _sketch(self, Q: Array) -> Sketch:
        """Sketch rows in float64, store in float32."""
        m, d = Q.shape
        h = self.plan.short
        short = np.ones((m, d + 1 if self.whole else h + 2), dtype=np.float32)
        long = np.empty((m, 0 if self.whole else self.plan.long + 1), dtype=np.float32)
        square = np.empty(m)

        @np.errstate(over="ignore", invalid="ignore")  # looked for below, in `square`
        def project(span: slice) -> None:
            block = Q[span] - self.centre
            if self.whole:
                np.multiply(block, self.scale, out=short[span, :-1], casting="same_kind")
            else:
                block = block.astype(np.float64, copy=False)
                part = block @ self.basis
                size = square_norms(block) * self.scale**2
                short[span, :h] = part[:, :h]
                short[span, h] = np.sqrt(np.maximum(size - square_norms(part[:, :h]), 0.0))
                long[span, :-1] = part
                long[span, -1] = np.sqrt(np.maximum(size - square_norms(part), 0.0))
            square[span] = square_norms(short[span, :-1].astype(np.float64))

        spans = (slice(a, a + _PROJECT_ROWS) for a in range(0, m, _PROJECT_ROWS))
        for _ in map_in_order(project, spans, n_jobs=self.n_jobs):
            pass
        if not square.max(initial=0.0) < _LARGEST_SQUARE:
            raise OutOfRange
        return Sketch(short, long, square)

    def _eta(self, norm: Any) -> Any:
        """How far, in norm, a stored sketch of a row of this norm may be from the true one.

        Rounding to float32, once when centred and once when stored; and the tail's norm, the
        square root of a difference |x|^2 - |W^T x|^2 in float64, whose terms are off by at most
        (d + 2) u |x|^2 and 2 sqrt(h) d u |x|^2.
        """
        if self.whole:
            return 3 * _U32 * norm
        d, h = self.basis.shape
        return (3 * _U32 + np.sqrt(4 * d * (np.sqrt(h) + 2) * _U64)) * norm

    def _query_tiles(self, Q: Array | None) -> Iterator[_QueryTile]:
        """Queries in coherent tiles; the index's own rows if Q is None."""
        if Q is None:
            for tile, rows in zip(self.tiles, self.tile_rows, strict=True):
                for part in _spans(rows.shape[1], _QUERY_TILE):
                    short = np.ascontiguousarray(rows[:, part].T)
                    short[:, -1] = 1.0
                    place = slice(tile.start + part.start, tile.start + part.stop)
                    own = self.row_of[place]
                    sketch = Sketch(short, self.long[place], self.square[place])
                    yield _QueryTile(self.X, own, own, sketch)
            return
        for batch in _spans(Q.shape[0], _QUERY_BATCH):
            sketch = self._sketch(Q[batch])
            order = _sort_by_group(sketch.short[:, :8], self.group_centres)
            for tile in _spans(len(order), _QUERY_TILE):
                chosen = order[tile]
                nobody = np.full(len(chosen), -1)
                yield _QueryTile(Q, chosen + batch.start, nobody, _take(sketch, chosen))

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

    def _errors(self, t: int) -> tuple[float, ...]:
        """The constants of `limits_of`: what a pair of tile t may be off by."""
        # Decided distances are rounded too, and the axes are orthonormal up to rounding.
        growth = self.scale * (1 + 16 * (self.X.shape[1] + 4) * _U64)
        product_error = (self.tile_rows[t].shape[0] + 1) * _U32
        long_error = (self.long.shape[1] + 4) * _U32
        return float(self.tile_norm[t]), growth, product_error, long_error

    def nearest(self, Q: Array | None, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        m = self.X.shape[0] if Q is None else Q.shape[0]
        distance = np.empty((m, k))
        row = np.empty((m, k), dtype=np.int64)
        buffers = PerThread(lambda: np.empty(_QUERY_TILE * _ROW_TILE, dtype=np.float32))

        def search(task: _QueryTile) -> Array:
            best = np.full((len(task.query_of), k), np.inf)
            best_row = np.full(best.shape, np.iinfo(np.int64).max)
            counts = self._sift_all(task, best, best_row, buffers.get())
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

    def _sift_all(self, task: _QueryTile, best: Array, best_row: Array, buffer: Array) -> Array:
        """All tiles, nearest first, into the k best of each query."""
        from nearfold.kernels.sift import sift_nearest

        counts = np.zeros(2, dtype=np.int64)
        eta = self._eta(np.sqrt(task.sketch.square))
        gap = self._tile_gaps(task)
        order = np.argsort(gap.mean(axis=0), kind="stable")
        seeds = 1 if self.whole else -(-len(order) // _SEED_SHARE)
        worst = self._first_bounds(task, order[:seeds], best.shape[1], buffer)
        for t in order:
            slack, errors = eta + self._eta(self.tile_norm[t]), self._errors(t)
            if not (gap[:, t] <= np.sqrt(worst) * errors[1] + slack).any():
                continue
            counts += sift_nearest(
                self._score(task, t, buffer), task.sketch.square, slack, errors, task.query_of,
                task.own_row, self.row_of, self.tiles[t].start, task.Q, self.X,
                task.sketch.long, self.long, best, best_row, worst,
            )  # fmt: skip
        return counts

    def _first_bounds(self, task: _QueryTile, tiles: Ints, k: int, buffer: Array) -> Floats:
        """Squared distances that k rows are known to be within, from the k best scores nearby."""
        from nearfold.kernels.sift import collect_best_scores, measure_worst

        bound = np.full((len(task.query_of), k), np.inf)
        place = np.zeros(bound.shape, dtype=np.int64)
        worst = np.full(len(bound), np.inf)
        for t in tiles:
            S = self._score(task, t, buffer)
            collect_best_scores(S, task.own_row, self.row_of, self.tiles[t].start, bound, place)
        measure_worst(task.query_of, self.row_of, task.Q, self.X, bound, place, worst)
        return worst

    def within(self, Q: Array | None, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        from nearfold.kernels.sift import sift_within

        size = _QUERY_TILE * _ROW_TILE
        buffers = PerThread(
            lambda: (
                np.empty(size, dtype=np.float32),
                np.empty(size, dtype=np.int64),
                np.empty(size, dtype=np.int64),
                np.empty(size),
            )
        )

        m = self.X.shape[0] if Q is None else Q.shape[0]
        reach = radii(radius, m)
        limit = np.minimum(reach, 1e154)  # its square must not overflow

        def search(task: _QueryTile) -> list[tuple[Ints, Ints, Floats]]:
            buffer, *found = buffers.get()
            eta = self._eta(np.sqrt(task.sketch.square))
            gap = self._tile_gaps(task)
            pieces = []
            for t, tile in enumerate(self.tiles):
                slack, errors = eta + self._eta(self.tile_norm[t]), self._errors(t)
                if not (gap[:, t] <= limit[task.query_of] * errors[1] + slack).any():
                    continue
                S = self._score(task, t, buffer)
                count = sift_within(
                    S, task.sketch.square, slack, errors, task.query_of, task.own_row,
                    self.row_of, tile.start, task.Q, self.X, task.sketch.long, self.long,
                    limit[task.query_of], reach[task.query_of], *found,
                )  # fmt: skip
                pieces.append(tuple(part[:count].copy() for part in found))
            return pieces

        total = -(-m // _QUERY_TILE)
        pairs = Pairs()
        for some in map_in_order(
            search, self._query_tiles(Q), n_jobs=self.n_jobs, label="neighbours", total=total
        ):
            for piece in some:
                pairs.add(*piece)
        return pairs.sorted()


def _take(sketch: Sketch, chosen: Any) -> Sketch:
    return Sketch(sketch.short[chosen], sketch.long[chosen], sketch.square[chosen])


def _spans(n: int, step: int) -> Iterator[slice]:
    return (slice(a, min(a + step, n)) for a in range(0, n, step))


def _group_centres(lead: Array, groups: int, rng: np.random.Generator) -> Floats:
    """A few rounds of k-means on a sample: good enough to put near rows side by side."""
    sample = lead[np.sort(rng.permutation(len(lead))[:SAMPLE])].astype(np.float64)
    centres = sample[rng.permutation(len(sample))[:groups]]
    for _ in range(5):
        nearest = np.argmin(square_norms(centres) - 2 * sample @ centres.T, axis=1)
        count = np.bincount(nearest, minlength=groups)
        for axis in range(centres.shape[1]):
            total = np.bincount(nearest, weights=sample[:, axis], minlength=groups)
            np.divide(total, count, out=centres[:, axis], where=count > 0)
    return np.asarray(centres[np.argsort(centres[:, 0], kind="stable")], dtype=np.float32)


def _sort_by_group(lead: Array, centres: Array) -> Ints:
    """Row numbers, the rows of a group together."""
    group = np.empty(len(lead), dtype=np.int32)
    half = 0.5 * square_norms(centres)
    for span in _spans(len(lead), 16_384):
        group[span] = np.argmax(lead[span] @ centres.T - half, axis=1)
    return np.argsort(group, kind="stable")
