"""The places of a few rows by distance from each row, counted instead of sorted.

The place of j from row i is one more than the number of rows that come before it, so counting the
distances below |x_i - x_j| is enough. Squared distances come from products in float32, each pair of
blocks once for both sides. With u the unit roundoff of float32, c columns summed at a time and
rows about their centre scaled to length at most 1, such a square is off by at most

    2 gamma(c + d / c) |a| |b| + 8 u (|a| + |b|)^2,        gamma(m) = m u / (1 - m u)

(the product; rounding of the rows, norms and sums). Only rows this close to a given one are
measured again, from differences in float64; those that are equal up to its rounding are decided as
`Space.order` decides them. The places are therefore those of `Space.ranks`.
"""

from __future__ import annotations

import numpy as np

from nearfold.blocks import get_memory, spans
from nearfold.linalg import pair_squares, square_norms, squared_distance_error
from nearfold.notation import Array, Floats, Ints
from nearfold.quality.spaces import Space, many_pairs
from nearfold.run import map_in_order

_TILE = 512  # rows: a tile of distances stays in a core's cache
_COLUMNS = 1024  # summed by one product: bounds its error
_TIES = 16  # per row and task; where there are more, sorting is no slower
_UNIT = 2.0**-24


def count_places(space: Space, near: Ints, n_jobs: int | None = None) -> Ints | None:
    """The place, from row i, of each row near[i]; None where `Space.ranks` serves better.

    That is where JIT compilation would dominate, the rows in float32 exceed the budget, or too many
    distances are equal up to rounding.
    """
    n, d = space.X.shape
    if not (space.by_product and many_pairs(n, n) and 4.0 * n * d <= get_memory() / 4):
        return None
    screen = _Screen(space, near)
    blocks = spans(n, _TILE)
    pairs = [(a, b) for i, a in enumerate(blocks) for b in blocks[i:]]
    places = np.ones(near.shape, dtype=np.int64)
    for part in map_in_order(
        screen.count, pairs, n_jobs=n_jobs, label="ranking neighbours", total=len(pairs)
    ):
        if part is None:
            return None
        for rows, counts in part:
            places[rows] += counts
    return places


class _Screen:
    """The rows in float32, and the squared distances of the given rows in float64."""

    def __init__(self, space: Space, near: Ints) -> None:
        from nearfold.kernels.nearer import given_squares

        self._X, self._near = np.ascontiguousarray(space.X), near
        n, d = self._X.shape
        blocks = spans(n, _TILE)
        norms = np.concatenate([square_norms(space.centred(rows)) for rows in blocks])
        self._scale = float(np.sqrt(norms.max())) or 1.0
        self._offset = space.offset / self._scale
        self._rows = np.empty((n, d), dtype=np.float32)
        self._norms, self._squares = np.empty(n), np.empty(near.shape)
        for rows in blocks:
            self._rows[rows] = space.centred(rows) / self._scale
            self._norms[rows] = square_norms(self._rows[rows].astype(np.float64))
            given_squares(self._X, near[rows], rows.start, self._squares[rows])
        self._tolerance = 4 * (d + 4) * float(np.finfo(float).eps) if space.rounds else 0.0

    def count(self, pair: tuple[slice, slice]) -> list[tuple[slice, Ints]] | None:
        """What two blocks of rows add to the places of each other's given rows."""
        a, b = pair
        D = self._distances(a, b)
        if a == b:
            np.fill_diagonal(D, np.inf)  # no row has a place from itself
            sides = [(a, self._count_side(D, a, b))]
        else:
            other = self._count_side(np.ascontiguousarray(D.T), b, a)
            sides = [(a, self._count_side(D, a, b)), (b, other)]
        found = [(rows, counts) for rows, counts in sides if counts is not None]
        return found if len(found) == len(sides) else None

    def _distances(self, a: slice, b: slice) -> Array:
        D = np.zeros((a.stop - a.start, b.stop - b.start), dtype=np.float32)
        for columns in spans(self._rows.shape[1], _COLUMNS):
            D += self._rows[a, columns] @ self._rows[b, columns].T
        D *= -2
        D += self._norms[a, None].astype(np.float32)
        D += self._norms[b].astype(np.float32)
        return D

    def _count_side(self, D: Array, rows: slice, others: slice) -> Ints | None:
        from nearfold.kernels.nearer import count_nearer

        squares, near = self._squares[rows], self._near[rows]
        middle, error = squares / self._scale**2, self._error(rows, others)[:, None]
        low = np.nextafter((middle - error).astype(np.float32), np.float32(-np.inf))
        high = np.nextafter((middle + error).astype(np.float32), np.float32(np.inf))
        counts = np.zeros(near.shape, dtype=np.int64)
        ties = np.empty((_TIES * len(D), 3), dtype=np.int64)
        found = count_nearer(
            D, low, high, self._X, near, squares, rows.start, others.start, self._tolerance,
            counts, ties,
        )  # fmt: skip
        if found < 0:
            return None
        self._settle(ties[:found], rows.start, near, counts)
        return counts

    def _error(self, rows: slice, others: slice) -> Floats:
        """A bound of the error of each row's squared distances in a tile."""
        d = self._rows.shape[1]
        here, there = np.sqrt(self._norms[rows]), float(np.sqrt(self._norms[others].max()))
        terms = min(d, _COLUMNS) + -(-d // _COLUMNS)
        product = 2 * terms * _UNIT / (1 - terms * _UNIT) * here * there
        rounding = squared_distance_error(d, here + there, self._offset)
        return np.asarray(product + 8 * _UNIT * (here + there) ** 2 + rounding + 1e-30)

    def _settle(self, ties: Ints, first: int, near: Ints, counts: Ints) -> None:
        """Decide pairs that are equal up to rounding by the differences `Space.order` uses."""
        i, k, j = ties.T
        given = near[i, k]
        X = self._X
        mine, theirs = (pair_squares(X, X, first + i, other) for other in (j, given))
        before = (mine < theirs) | ((mine == theirs) & (j < given))
        np.add.at(counts, (i, k), before)
