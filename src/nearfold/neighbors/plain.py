"""Exact Euclidean neighbours in plain NumPy: small problems, and those with no room for a sketch.

|q - x|^2 = |q|^2 + |x|^2 - 2 q.x by one product in float64, about the centre of the data; then
every pair that could be among the k nearest within the rounding of that product is measured again
as the sum of squared differences, which alone decides. Ties: smaller row first.

Queries and rows are taken in tiles. Centred rows and their norms are kept between calls where they
are small beside the memory budget; a tile computed again has the same values.
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
    squared_distances,
)
from nearfold.neighbors.pairs import Pairs, radii
from nearfold.neighbors.selection import first_k_of_pairs
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order

_CELLS = 2**18  # values of a tile of rows
_QUERIES, _ROWS = 256, 1024  # of a tile of distances, at the most

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
        self.row_tiles = spans(len(X), min(_ROWS, width))
        self.query_step = min(_QUERIES, width)
        self._centred: list[tuple[Floats, Floats]] | None = None
        self._keeps = 8.0 * X.size <= get_memory() / 8

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
            for first, rough, margin in self._rough_squares(queries, span, Q is None):
                bound = best[:, -1:]
                if rough.shape[1] >= k:
                    bound = np.fmin(bound, np.partition(rough, k - 1, axis=1)[:, k - 1 : k])
                q, x = np.nonzero(rough <= bound + margin)
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
            for first, rough, margin in self._rough_squares(queries, span, Q is None):
                q, x = np.nonzero(rough <= limit[span] + margin)
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
        if self._keeps:
            self._centred_rows()  # once, before the threads need it
        return map_in_order(search, tiles, n_jobs=self.n_jobs, label="neighbours", total=len(tiles))

    def _centred_rows(self) -> Iterator[tuple[Floats, Floats]] | list[tuple[Floats, Floats]]:
        """Each tile of rows about the centre, and the squared norms."""

        def centred(tile: slice) -> tuple[Floats, Floats]:
            rows = self._placed(self.X[tile], True) - self.centre
            return rows, square_norms(rows)

        if not self._keeps:
            return map(centred, self.row_tiles)
        if self._centred is None:
            self._centred = [centred(tile) for tile in self.row_tiles]
        return self._centred

    def _rough_squares(
        self, queries: Array, span: slice, exclude_self: bool
    ) -> Iterator[tuple[int, Floats, Floats]]:
        """Squared distances from products, tile of rows by tile, and what they may be off by.

        Yields (first row, squares, margin): rounding of the product, and of centring about a
        point that may be far from zero.
        """
        d = len(self.centre)
        block = self._placed(queries[span], False) - self.centre
        size = square_norms(block)
        offset = float(np.linalg.norm(self.centre))
        for tile, (rows, square) in zip(self.row_tiles, self._centred_rows(), strict=True):
            rough = squared_distances(block, rows, size, square)
            if exclude_self:
                own = np.arange(span.start, span.stop) - tile.start
                here = np.flatnonzero((own >= 0) & (own < len(rows)))
                rough[here, own[here]] = np.nan  # never at most anything, and sorted last
            reach = np.sqrt(size) + np.sqrt(square.max(initial=0.0))
            yield tile.start, rough, squared_distance_error(d, reach, offset)[:, None]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_centred": None}


def _merge_best(
    best: Floats, best_row: Ints, q: Ints, x: Ints, square: Floats
) -> tuple[Floats, Ints]:
    """The k best of those kept and those new, by distance, then row."""
    m, k = best.shape
    q = np.concatenate([np.repeat(np.arange(m), k), q])
    x = np.concatenate([best_row.ravel(), x])
    square = np.concatenate([best.ravel(), square])
    return first_k_of_pairs(q, x, square, m, k)
