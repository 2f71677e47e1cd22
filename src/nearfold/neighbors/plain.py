"""Exact Euclidean neighbours in plain NumPy, for problems too small to wait for a compiler.

|q - x|^2 = |q|^2 + |x|^2 - 2 q.x by one product in float64, about the centre of the data;
then every pair that could be among the k nearest within the rounding of that product is
measured again as the sum of squared differences, which alone decides. Ties: smaller row first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nearfold.notation import Array, Floats, Ints

_CELLS = 4_000_000  # entries of a block of distances, and of a block of differences
_EPS = float(np.finfo(np.float64).eps)


class PlainIndex:
    """Rows to search by brute force."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.centre = X.mean(axis=0, dtype=np.float64) if len(X) else np.zeros(X.shape[1])
        self.centred = X - self.centre
        self.square = np.einsum("ij,ij->i", self.centred, self.centred)

    def nearest(self, Q: Array | None, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        queries = self.X if Q is None else Q
        distance = np.empty((len(queries), k))
        row = np.empty((len(queries), k), dtype=np.int64)
        for span, rough, margin in self._rough_squares(queries, exclude_self=Q is None):
            kth = np.partition(rough, k - 1, axis=1)[:, k - 1 : k]
            q, x = np.nonzero(rough <= kth + margin)
            square = self._true_squares(queries[span], q, x)
            order = np.lexsort((x, square, q))
            first = np.searchsorted(q[order], np.arange(len(rough)))
            chosen = order[first[:, None] + np.arange(k)]
            distance[span] = np.sqrt(square[chosen])
            row[span] = x[chosen]
        return distance, row

    def within(self, Q: Array | None, radius: float) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        queries = self.X if Q is None else Q
        pieces = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        for span, rough, margin in self._rough_squares(queries, exclude_self=Q is None):
            q, x = np.nonzero(rough <= radius**2 + margin)
            square = self._true_squares(queries[span], q, x)
            keep = square <= radius**2
            pieces.append((q[keep] + span.start, x[keep], square[keep]))
        query, row, square = (np.concatenate(part) for part in zip(*pieces, strict=True))
        order = np.lexsort((row, square, query))
        return query[order], row[order], np.sqrt(square[order])

    def _rough_squares(
        self, queries: Array, exclude_self: bool
    ) -> Iterator[tuple[slice, Floats, Floats]]:
        """Blocks of squared distances from the product, with twice what they may be off by."""
        n, d = self.X.shape
        step = max(1, _CELLS // max(n, 1))
        for start in range(0, len(queries), step):
            span = slice(start, min(start + step, len(queries)))
            block = queries[span] - self.centre
            size = np.einsum("ij,ij->i", block, block)
            rough = size[:, None] + self.square - 2 * (block @ self.centred.T)
            if exclude_self:
                rough[np.arange(len(block)), np.arange(span.start, span.stop)] = np.inf
            # Rounding of the product, and of centring about a far-away centre.
            reach = np.sqrt(size) + np.sqrt(self.square.max(initial=0.0))
            offset = np.linalg.norm(self.centre)
            margin = 4 * _EPS * ((d + 4) * reach**2 + offset * reach)
            yield span, rough, margin[:, None]

    def _true_squares(self, queries: Array, q: Ints, x: Ints) -> Floats:
        square = np.empty(len(q))
        step = max(1, _CELLS // max(1, self.X.shape[1]))
        for start in range(0, len(q), step):
            part = slice(start, start + step)
            difference = np.subtract(queries[q[part]], self.X[x[part]], dtype=np.float64)
            square[part] = np.einsum("ij,ij->i", difference, difference)
        return square
