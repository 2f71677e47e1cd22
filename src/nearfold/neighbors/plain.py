"""Exact Euclidean neighbours in plain NumPy: small problems, and those with no room for a sketch.

|q - x|^2 = |q|^2 + |x|^2 - 2 q.x by one product in float64, about the centre of the data; then
every pair that could be among the k nearest within the rounding of that product is measured again
as the sum of squared differences, which alone decides. Ties: smaller row first.

Queries and rows are taken in tiles. Centred rows and their norms are kept between calls where they
are small beside the memory budget; computed again they have the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nearfold.blocks import get_memory, spans
from nearfold.linalg import (
    pair_squares,
    square_norms,
    squared_distance_error,
)
from nearfold.neighbors.pairs import Pairs, radii
from nearfold.neighbors.selection import first_k_of_pairs
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order

_CELLS = 2**18  # values of a tile: of rows, of distances
_ROWS = 8192  # of a tile, at the most
_LANES = 64  # groups of columns whose least values bound the k-th

Squares = Callable[[Array, Array, Ints, Ints], Floats]  # |q_i - x_j|^2 of some pairs


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
        # Any point near the data will do.
        self.centre = self._placed(X[: min(4096, width)], True).mean(axis=0, dtype=np.float64)
        self._centred: tuple[Floats, Floats] | None = None
        self._keeps = 8.0 * X.size <= get_memory() / 8
        self.row_tiles = spans(len(X), _ROWS if self._keeps else min(1024, width))
        longest = self.row_tiles[0].stop if self.row_tiles else 1
        self.query_step = max(1, min(width, _CELLS // longest))

    def _placed(self, A: Array, is_row: bool) -> Array:
        """Where rows, or queries, lie for the product."""
        return A

    def _distance(self, squares: Floats) -> Floats:
        return np.sqrt(squares)

    def _square(self, distance: Floats) -> Floats:
        return np.minimum(distance, 1e154) ** 2

    def nearest(self, Q: Array | None, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        queries = self.X if Q is None else Q
        distance = np.empty((len(queries), k))
        row = np.empty((len(queries), k), dtype=np.int64)

        def search(span: slice) -> None:
            m = span.stop - span.start
            best, best_row = np.full((m, k), np.inf), np.full((m, k), len(self.X))
            for first, rough, size, margin in self._rough_squares(queries, span):
                if Q is None:
                    _leave_out(rough, span.start - first)
                bound = np.fmin(best[:, -1:] - size, _bound_kth(rough, k))
                q, x = _pairs_at_most(rough, bound + margin, span.start - first, Q is None)
                x += first
                square = self.measure(queries[span], self.X, q, x)
                best, best_row = _merge_best(best, best_row, q, x, square)
            distance[span], row[span] = self._distance(best), best_row

        for _ in self._over_queries(search, len(queries)):
            pass
        return distance, row

    def within(self, Q: Array | None, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        queries = self.X if Q is None else Q
        reach = radii(radius, len(queries))
        limit = self._square(reach)[:, None] * (1 + 1e-15)
        pairs = Pairs(len(queries))

        def search(span: slice) -> list[tuple[Ints, Ints, Floats]]:
            pieces = []
            for first, rough, size, margin in self._rough_squares(queries, span):
                bound = limit[span] - size + margin
                q, x = _pairs_at_most(rough, bound, span.start - first, Q is None)
                x += first
                distance = self._distance(self.measure(queries[span], self.X, q, x))
                keep = distance <= reach[span][q]  # a radius equal to a distance includes it
                pieces.append((q[keep] + span.start, x[keep], distance[keep]))
                pairs.reserve(len(pieces[-1][0]))
            return pieces

        for pieces in self._over_queries(search, len(queries)):
            pairs.add(*pieces)
        return pairs.sorted()

    def _over_queries(self, search: Callable[[slice], Any], m: int) -> Iterator[Any]:
        tiles = spans(m, self.query_step)
        if len(tiles) == 1:  # not worth a pool of threads
            return map(search, tiles)
        next(self._centred_rows())  # once, before the threads need it
        return map_in_order(search, tiles, n_jobs=self.n_jobs, label="neighbours", total=len(tiles))

    def _centred_rows(self) -> Iterator[tuple[Floats, Floats]]:
        """Each tile of rows about the centre, and the squared norms."""
        if self._keeps and self._centred is None:
            self._centred = self._about_centre(slice(None))
        for tile in self.row_tiles:
            if self._centred is None:
                yield self._about_centre(tile)
            else:
                yield self._centred[0][tile], self._centred[1][tile]

    def _about_centre(self, tile: slice) -> tuple[Floats, Floats]:
        rows = self._placed(self.X[tile], True) - self.centre
        return rows, square_norms(rows)

    def _rough_squares(
        self, queries: Array, span: slice
    ) -> Iterator[tuple[int, Floats, Floats, Floats]]:
        """Squared distances from products, tile of rows by tile, and what they may be off by.

        Yields (first row, |x|^2 - 2 q.x, |q|^2, margin): rounding of the product, and of centring
        about a point that may be far from zero.
        """
        d = len(self.centre)
        block = self._placed(queries[span], False) - self.centre
        size = square_norms(block)
        length = np.sqrt(size)
        block *= -2.0  # exact
        offset = float(np.linalg.norm(self.centre))
        for tile, (rows, square) in zip(self.row_tiles, self._centred_rows(), strict=True):
            rough = block @ rows.T
            rough += square
            reach = length + np.sqrt(square.max(initial=0.0))
            margin = squared_distance_error(d, reach, offset)
            yield tile.start, rough, size[:, None], margin[:, None]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_centred": None}


def _leave_out(rough: Floats, first: int) -> None:
    """Query i is the row in column first + i: it never counts."""
    column = first + np.arange(len(rough))
    here = np.flatnonzero((column >= 0) & (column < rough.shape[1]))
    rough[here, column[here]] = np.inf


def _bound_kth(rough: Floats, k: int) -> Floats:
    """At least the k-th smallest value of each row (m, 1), inf if it has fewer.

    Of the least values of k groups of columns each is at most the largest of them.
    """
    m, n = rough.shape
    if n < k:
        return np.full((m, 1), np.inf)
    whole = n - n % _LANES
    if k <= _LANES // 4 and whole >= 4 * _LANES:
        rough = rough[:, :whole].reshape(m, -1, _LANES).min(axis=1)
    return np.partition(rough, k - 1, axis=1)[:, k - 1 : k]


def _pairs_at_most(rough: Floats, bound: Floats, first: int, own: bool) -> tuple[Ints, Ints]:
    """(row, column) of values within their row's bound; not the query's own column."""
    q, x = np.divmod(np.flatnonzero(rough <= bound), rough.shape[1])
    if own:
        keep = x != q + first
        q, x = q[keep], x[keep]
    return q, x


def _merge_best(
    best: Floats, best_row: Ints, q: Ints, x: Ints, square: Floats
) -> tuple[Floats, Ints]:
    """The k best of those kept and those new, by distance, then row."""
    m, k = best.shape
    q = np.concatenate([np.repeat(np.arange(m), k), q])
    x = np.concatenate([best_row.ravel(), x])
    square = np.concatenate([best.ravel(), square])
    return first_k_of_pairs(q, x, square, m, k)
