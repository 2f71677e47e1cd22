"""Exact Euclidean neighbours in plain NumPy, for problems too small to wait for a compiler.

|q - x|^2 = |q|^2 + |x|^2 - 2 q.x by one product in float64, about the centre of the data;
then every pair that could be among the k nearest within the rounding of that product is
measured again as the sum of squared differences, which alone decides. Ties: smaller row first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nearfold.neighbors.pairs import Pairs, radii
from nearfold.notation import Array, Floats, Ints

_CELLS = 4_000_000  # entries of a block of distances, and of a block of rows
_EPS = float(np.finfo(np.float64).eps)


class PlainIndex:
    """Rows to search by brute force, block against block: little memory beside the rows."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.centre = X[:4096].mean(axis=0, dtype=np.float64)  # any point near the data will do

    def nearest(self, Q: Array | None, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        queries = self.X if Q is None else Q
        distance = np.empty((len(queries), k))
        row = np.empty((len(queries), k), dtype=np.int64)
        for span in self._query_spans(len(queries)):
            m = span.stop - span.start
            best, best_row = np.full((m, k), np.inf), np.full((m, k), len(self.X))
            for first, rough, margin in self._rough_squares(queries, span, Q is None):
                bound = best[:, -1:]
                if rough.shape[1] >= k:
                    bound = np.fmin(bound, np.partition(rough, k - 1, axis=1)[:, k - 1 : k])
                q, x = np.nonzero(rough <= bound + margin)
                x += first
                square = self._true_squares(queries[span], q, x)
                best, best_row = _merge_best(best, best_row, q, x, square)
            distance[span], row[span] = np.sqrt(best), best_row
        return distance, row

    def within(self, Q: Array | None, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        queries = self.X if Q is None else Q
        pairs = Pairs()
        reach = radii(radius, len(queries))
        limit = np.minimum(reach, 1e154)[:, None] ** 2 * (1 + 1e-15)
        for span in self._query_spans(len(queries)):
            for first, rough, margin in self._rough_squares(queries, span, Q is None):
                q, x = np.nonzero(rough <= limit[span] + margin)
                x += first
                square = self._true_squares(queries[span], q, x)
                keep = np.sqrt(square) <= reach[span][q]  # a radius equal to a distance includes it
                pairs.add(q[keep] + span.start, x[keep], square[keep])
        return pairs.sorted()

    def _row_step(self) -> int:
        return max(64, _CELLS // max(1, self.X.shape[1]))

    def _query_spans(self, m: int) -> Iterator[slice]:
        step = max(1, _CELLS // min(max(len(self.X), 1), self._row_step()))
        return (slice(a, min(a + step, m)) for a in range(0, m, step))

    def _rough_squares(
        self, queries: Array, span: slice, exclude_self: bool
    ) -> Iterator[tuple[int, Floats, Floats]]:
        """Squared distances from products, block of rows by block, and what they may be off by.

        Yields (first row, squares, margin): rounding of the product, and of centring about a
        point that may be far from zero.
        """
        d = self.X.shape[1]
        block = queries[span] - self.centre
        size = np.einsum("ij,ij->i", block, block)
        offset = np.linalg.norm(self.centre)
        for first in range(0, len(self.X), self._row_step()):
            rows = self.X[first : first + self._row_step()] - self.centre
            square = np.einsum("ij,ij->i", rows, rows)
            rough = size[:, None] + square - 2 * (block @ rows.T)
            if exclude_self:
                own = np.arange(span.start, span.stop) - first
                here = np.flatnonzero((own >= 0) & (own < len(rows)))
                rough[here, own[here]] = np.nan  # never at most anything, and sorted last
            reach = np.sqrt(size) + np.sqrt(square.max(initial=0.0))
            margin = 4 * _EPS * ((d + 4) * reach**2 + offset * reach)
            yield first, rough, margin[:, None]

    def _true_squares(self, queries: Array, q: Ints, x: Ints) -> Floats:
        square = np.empty(len(q))
        step = self._row_step()
        for start in range(0, len(q), step):
            part = slice(start, start + step)
            difference = np.subtract(queries[q[part]], self.X[x[part]], dtype=np.float64)
            square[part] = np.einsum("ij,ij->i", difference, difference)
        return square


def _merge_best(
    best: Floats, best_row: Ints, q: Ints, x: Ints, square: Floats
) -> tuple[Floats, Ints]:
    """The k best of those kept and those new, by distance, then row."""
    m, k = best.shape
    q = np.concatenate([np.repeat(np.arange(m), k), q])
    x = np.concatenate([best_row.ravel(), x])
    square = np.concatenate([best.ravel(), square])
    order = np.lexsort((x, square, q))
    first = np.searchsorted(q[order], np.arange(m))
    chosen = order[first[:, None] + np.arange(k)]
    return square[chosen], x[chosen]
