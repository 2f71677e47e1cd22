"""Exact Euclidean neighbours in plain NumPy: small problems, and those with no room for a sketch.

    |q - x|^2 = |q|^2 + (|x|^2 - 2 q.x)

about the centre of the data, the bracket by one product; then every pair that could be among the k
nearest within the rounding of that product is measured again as the sum of squared differences,
which alone decides. Ties: smaller row first. The product is made in float32, and in float64 where
that leaves too many pairs to measure (clusters that are far apart beside their size).

The product is off by at most c s^2 + e s, s = |q| + |x|. If it puts k rows within U, the k-th
nearest is at some D_k, and for it and all nearer rows s <= 2 |q| + D_k, D_k^2 <= U + c s^2 + e s:

    (1 - c) s^2 - (4 |q| + e) s + 4 |q|^2 - U <= 0

The larger root bounds s. So rows far out make no difference to the margins of the other queries.

Queries and rows are taken in tiles. Centred rows and their norms are kept between calls where they
are small beside the memory budget; computed again they have the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from nearfold.blocks import get_memory, spans
from nearfold.linalg import pair_squares, square_norms
from nearfold.neighbors.pairs import Pairs, radii
from nearfold.neighbors.selection import NOBODY, start_of_lists
from nearfold.notation import Array, Floats, Ints
from nearfold.run import PerThread, map_in_order, one_blas_thread

_CELLS = 2**18  # values of a tile of rows; of a tile of distances twice as many
_ROWS = 8192  # of a tile, at the most
_FEW = 2**25  # products of numbers that are not worth a pool of threads
_LANES = 64  # groups of columns, at the least, whose least values bound the k-th
_LARGEST_SQUARE = 1e30  # beyond it float32 might overflow

Squares = Callable[[Array, Array, Ints, Ints], Floats]  # |q_i - x_j|^2 of some pairs


class _TooRough(Exception):
    """float32 leaves too many pairs to measure."""


class PlainIndex:
    """Rows to search by brute force, tile against tile: little memory beside the rows.

    `measure` is the function that decides. The fallback for large tables passes the one of the
    compiled search, so that both give the same distances to the last bit.
    """

    def __init__(
        self, X: Array, n_jobs: int | None = None, measure: Squares = pair_squares
    ) -> None:
        self.X = X
        self.n_jobs = n_jobs
        self.measure = measure
        width = max(1, _CELLS // max(1, X.shape[1]))
        # Any point near the data will do; one that rows far out do not move is better.
        some = np.sort(self._placed(X[:: max(1, len(X) // 64)], True), axis=0)
        middle = some[len(some) // 4 : len(some) - len(some) // 4]
        self.centre = middle.mean(axis=0, dtype=np.float64)
        self.offset = float(np.linalg.norm(self.centre))
        self.screen: Any = np.float32  # in which the nearest are looked for
        self._centred: dict[Any, Array] = {}  # by dtype
        self._keeps = 12.0 * X.size <= get_memory() / 8
        self.row_tiles = spans(len(X), _ROWS if self._keeps else min(1024, width))
        longest = self.row_tiles[0].stop if self.row_tiles else 1
        self.query_step = max(1, min(width, 2 * _CELLS // longest))

    def _placed(self, A: Array, is_row: bool) -> Array:
        """Where rows, or queries, lie for the product."""
        return A

    def _distance(self, squares: Floats) -> Floats:
        return np.sqrt(squares)

    def _square(self, distance: Floats) -> Floats:
        return np.minimum(distance, 1e154) ** 2

    def nearest(self, Q: Array | None, k: int, limit: Floats | None = None) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded.

        With a `limit` (m,) rows farther than that are not looked for: see `EuclideanIndex`.
        """
        queries = self.X if Q is None else Q
        distance = np.empty((len(queries), k))
        row = np.empty((len(queries), k), dtype=np.int64)

        def search(span: slice, dtype: Any) -> None:
            m = span.stop - span.start
            best, best_row = start_of_lists(limit, span, k), np.full((m, k), NOBODY)
            for first, rough, square in self._rough_squares(queries[span], dtype, room.get()):
                if Q is None:
                    _leave_out(rough, span.start - first)
                bound = np.fmin(best[:, -1:], _bound_kth(rough, k) + square)
                most = self._with_margin(bound, square, dtype)
                q, x = _pairs_at_most(rough, most, span.start - first if Q is None else None)
                if dtype == np.float32 and len(q) > m * max(4 * k + 16, rough.shape[1] // 16):
                    raise _TooRough
                x += first
                new = self.measure(queries[span], self.X, q, x)
                best, best_row = _merge_best(best, best_row, q, x, new)
            distance[span], row[span] = self._distance(best), best_row

        def screened(span: slice) -> None:
            if self.screen == np.float32:
                try:
                    search(span, np.float32)
                    return
                except _TooRough:
                    self.screen = np.float64
            for part in spans(span.stop - span.start, self._step(np.float64)):
                search(slice(span.start + part.start, span.start + part.stop), np.float64)

        room = self._room(len(queries))
        for _ in self._over_queries(screened, len(queries), self.screen):
            pass
        return distance, row

    def within(self, Q: Array | None, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        queries = self.X if Q is None else Q
        reach = radii(radius, len(queries))
        bound = self._square(reach)[:, None] * (1 + 1e-15)
        pairs = Pairs(len(queries))
        room = self._room(len(queries))

        def search(span: slice) -> list[tuple[Ints, Ints, Floats]]:
            pieces = []
            for first, rough, square in self._rough_squares(queries[span], np.float64, room.get()):
                limit = self._with_margin(bound[span], square, np.float64)
                q, x = _pairs_at_most(rough, limit, span.start - first if Q is None else None)
                x += first
                distance = self._distance(self.measure(queries[span], self.X, q, x))
                keep = distance <= reach[span][q]  # a radius equal to a distance includes it
                pieces.append((q[keep] + span.start, x[keep], distance[keep]))
                pairs.reserve(len(pieces[-1][0]))
            return pieces

        for pieces in self._over_queries(search, len(queries), np.float64):
            pairs.add(*pieces)
        return pairs.sorted()

    def _over_queries(self, search: Callable[[slice], Any], m: int, dtype: Any) -> Iterator[Any]:
        tiles = spans(m, self._step(dtype))
        if len(tiles) == 1 or m * self.X.size <= _FEW:
            with one_blas_thread():
                return iter([search(tile) for tile in tiles])
        next(self._centred_rows(dtype))  # once, before the threads need it
        return map_in_order(search, tiles, n_jobs=self.n_jobs, label="neighbours", total=len(tiles))

    def _step(self, dtype: Any) -> int:
        """Queries of a tile: each dtype takes the same memory."""
        return self.query_step if dtype == np.float32 else -(-self.query_step // 2)

    def _room(self, m: int) -> PerThread:
        """Bytes for a tile of products: fresh memory for each would cost as much as the product."""
        longest = self.row_tiles[0].stop if self.row_tiles else 0
        cells = min(m, self._step(np.float64)) * longest
        return PerThread(partial(np.empty, 8 * cells, dtype=np.uint8))

    def _centred_rows(self, dtype: Any) -> Iterator[Array]:
        """Each tile of rows about the centre, |x|^2 in a last column."""
        kept = self._centred.get(dtype)
        if kept is None and self._keeps:
            kept = self._centred[dtype] = self._about_centre(slice(None), dtype)
        for tile in self.row_tiles:
            yield self._about_centre(tile, dtype) if kept is None else kept[tile]

    @np.errstate(over="ignore")  # of squares in float32, which is looked for
    def _about_centre(self, tile: slice, dtype: Any) -> Array:
        placed = self._placed(self.X[tile], True)
        rows = np.empty((len(placed), placed.shape[1] + 1), dtype=dtype)
        np.subtract(placed, self.centre, out=rows[:, :-1], casting="same_kind")
        rows[:, -1] = square_norms(rows[:, :-1])
        return rows

    def _rough_squares(
        self, queries: Array, dtype: Any, room: Array
    ) -> Iterator[tuple[int, Array, Floats]]:
        """(first row, |x|^2 - 2 q.x, |q|^2) from products, tile of rows by tile."""
        block = self._placed(queries, False) - self.centre
        square = square_norms(block)[:, None]
        if not square.max() < _LARGEST_SQUARE and dtype == np.float32:
            raise _TooRough
        factors = np.empty((block.shape[0], block.shape[1] + 1), dtype=dtype)
        np.multiply(block, -2.0, out=factors[:, :-1], casting="same_kind")
        factors[:, -1] = 1.0
        for tile, rows in zip(self.row_tiles, self._centred_rows(dtype), strict=True):
            if not rows[:, -1].max() < _LARGEST_SQUARE and dtype == np.float32:
                raise _TooRough
            rough = room.view(dtype)[: len(block) * len(rows)].reshape(len(block), -1)
            np.matmul(factors, rows.T, out=rough)
            yield tile.start, rough, square

    def _with_margin(self, bound: Floats, square: Floats, dtype: Any) -> Floats:
        """What a rough square |x|^2 - 2 q.x may be at most if the true one is within `bound`.

        Rounding of the product, and of centring about a point that may be far from zero.
        """
        c = 4 * float(np.finfo(dtype).eps) * (len(self.centre) + 8)
        e = 4 * float(np.finfo(np.float64).eps) * self.offset
        if c > 0.1:
            raise _TooRough
        length = 4 * np.sqrt(square) + e
        constant = 4 * square - np.minimum(bound, 1e300)
        root = np.sqrt(np.maximum(length**2 - 4 * (1 - c) * constant, 0.0))
        reach = (length + root) / (2 * (1 - c))
        # 1e-36 stands for what float32 underflow may take or give.
        return np.asarray(bound + (c * reach + e) * reach + 1e-36 - square)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_centred": {}}


def _leave_out(rough: Array, first: int) -> None:
    """Query i is the row in column first + i: it never counts."""
    column = first + np.arange(len(rough))
    here = np.flatnonzero((column >= 0) & (column < rough.shape[1]))
    rough[here, column[here]] = np.inf


def _bound_kth(rough: Array, k: int) -> Floats:
    """At least the k-th smallest value of each row (m, 1), inf if it has fewer.

    Of the least values of k groups of columns each is at most the largest of them.
    """
    if rough.shape[1] < k:
        return np.full((len(rough), 1), np.inf)
    while k <= _LANES // 4 and rough.shape[1] >= 2 * _LANES:
        layers = min(8, rough.shape[1] // _LANES)  # a few at a time: long inner loops
        lanes = rough.shape[1] // layers
        rough = rough[:, : layers * lanes].reshape(len(rough), layers, lanes).min(axis=1)
    return np.partition(rough, k - 1, axis=1)[:, k - 1 : k].astype(np.float64)


def _pairs_at_most(rough: Array, limit: Floats, own: int | None) -> tuple[Ints, Ints]:
    """(row, column) of values within their row's limit; not the own one, column `own` + row."""
    with np.errstate(over="ignore"):
        within = rough <= limit.astype(rough.dtype)
    q, x = np.divmod(np.flatnonzero(within), rough.shape[1])
    if own is not None:
        keep = x != q + own
        q, x = q[keep], x[keep]
    return q, x


def _merge_best(
    best: Floats, best_row: Ints, q: Ints, x: Ints, square: Floats
) -> tuple[Floats, Ints]:
    """The k best of those kept and those new, by distance, then row; new rows come later."""
    m, k = best.shape
    if not np.bincount(q, minlength=m).min() >= k or best[:, -1].min() < np.inf:
        q = np.concatenate([np.repeat(np.arange(m), k), q])
        x = np.concatenate([best_row.ravel(), x])
        square = np.concatenate([best.ravel(), square])
    order = np.lexsort((square, q))  # stable: rows ascend already
    first = np.searchsorted(q[order], np.arange(m))
    chosen = order[first[:, None] + np.arange(k)]
    return square[chosen], x[chosen]
