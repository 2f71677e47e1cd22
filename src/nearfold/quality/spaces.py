"""The distances from a row to all rows of a table, and their exact order.

Distances come from one matrix product in float64 (for few columns from differences). The product
rounds; where two distances are so close that rounding could have changed their order, both are
measured again from their differences, so the order is that of float64 differences, ties by the
smaller row number, as in `nearfold.neighbors`. Tables of whole numbers (pixels, counts) are centred
by whole numbers, so that their products do not round at all.

Cost: n d per row, and a sort. Memory: what the caller's block of rows takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks import get_memory, spans
from nearfold.errors import InputError
from nearfold.inputs import check_distances, check_rows, refuse_extreme
from nearfold.linalg import pair_squares, square_norms, squared_distance_error, squared_distances
from nearfold.neighbors import is_euclidean
from nearfold.neighbors.distances import Distances
from nearfold.notation import Array, Floats, Ints

NARROW = 8  # columns up to which differences are as fast as a product
_CELLS = 2**17  # values of a tile of the table
_TILE = 1024  # rows of a tile: with it a tile of distances stays in a core's cache
_DOUBT = 1e-7  # a square this small beside those of its rows has lost half its digits
_PLAIN_PAIRS = 10_000_000  # JIT compilation of the sort dominates below this number
_TOGETHER = 32  # pairs measured by one call of another metric
_WHOLE = 2.0**52  # whole numbers below it, and sums of two of them, are exact
_FARTHEST = 1e150  # rows about a centre beyond it are all equal: their differences would overflow


def check_dense(X: Any, name: str) -> Array:
    """A dense, finite table of floats with at least three rows."""
    if sparse.issparse(X):
        raise InputError(
            f"{name} is sparse, and a space is judged on dense rows: reduce it first, or pass "
            f"{name}.toarray() if that fits."
        )
    table = check_rows(X)
    if len(table) < 3:
        raise InputError(f"{name} has {len(table)} rows: a space is judged on three or more.")
    return np.asarray(table)


def check_spaces(X: Any, Z: Any, metric: Any = "euclidean") -> tuple[Space, Space]:
    """The two spaces of the same rows: the original under its metric, the new one Euclidean."""
    X, Z = check_dense(X, "X"), check_dense(Z, "Z")
    if len(X) != len(Z):
        raise InputError(
            f"X has {len(X)} rows and Z has {len(Z)}: both must hold the same rows, in order."
        )
    return Space(X, metric), Space(Z)


class Space:
    """The rows of a table under a metric."""

    def __init__(self, X: Array, metric: Any = "euclidean") -> None:
        self.X = X
        self.n = len(X)
        self.metric = metric
        self.is_euclidean = is_euclidean(metric, 2, None)
        self.by_product = self.is_euclidean and X.shape[1] > NARROW
        if self.is_euclidean:
            self._prepare()
        elif metric == "precomputed":
            check_distances(X)
        else:
            self._other = Distances(X, metric)

    def _prepare(self) -> None:
        """The centre about which products are taken, and a bound of their error."""
        X = self.X
        spread = X.max(axis=0) / 2.0 - X.min(axis=0) / 2.0
        refuse_extreme(float(spread.max(initial=0.0)), np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            centre = X.mean(axis=0, dtype=np.float64)
        self._centre = np.where(np.isfinite(centre), centre, X[0])  # sums of 1e308 overflow
        whole = self._is_whole(spread)
        if whole:
            self._centre = np.rint(self._centre)
        self.rounds = self.by_product and not whole
        # Kept where it fits: the same bits, in the same layout, as centring each tile anew.
        self._kept: Floats | None = None
        if self.by_product and 8.0 * X.size <= get_memory() / 4:
            self._kept = self.centred(slice(None))
        tiles = [square_norms(self.centred(tile)) for tile in self._tiles()]
        self._norms = np.concatenate(tiles)
        reach = np.sqrt(self._norms) + np.sqrt(self._norms.max())
        self.offset = min(float(np.abs(self._centre).max()) * X.shape[1] ** 0.5, _FARTHEST)
        self._error = squared_distance_error(X.shape[1], reach, self.offset)

    def _is_whole(self, spread: Floats) -> bool:
        """Whether all values are whole numbers whose products about a whole centre are exact."""
        if 16 * float(((spread.astype(np.float64) + 1.0) ** 2).sum()) > _WHOLE:
            return False
        return all((part == np.rint(part)).all() for part in (self.X[a] for a in self._tiles()))

    def _tiles(self) -> list[slice]:
        return spans(self.n, min(_TILE, max(64, _CELLS // max(1, self.X.shape[1]))))

    def centred(self, rows: Any) -> Floats:
        """Some rows about the centre, in float64 and C order."""
        if self._kept is not None:
            return self._kept[rows]
        return np.subtract(self.X[rows], self._centre, dtype=np.float64, order="C")

    def measure(self, rows: Ints) -> Floats:
        """How far some rows are from all: (b, n) squared distances, or distances of other metrics.

        `lengths` makes distances of both; `order` takes them as they are.
        """
        if self.metric == "precomputed":
            return np.array(self.X[rows], dtype=np.float64)
        measured = np.empty((len(rows), self.n))
        here = self.centred(rows) if self.by_product else self.X[rows]
        for tile in self._tiles():
            if not self.is_euclidean:
                measured[:, tile] = self._other.between(here, self.X[tile])
            elif self.by_product:
                self._by_product(here, rows, tile, measured[:, tile])
            else:
                squares_by_difference(here, self.X[tile], measured[:, tile])
        measured[np.arange(len(rows)), rows] = 0.0
        return measured if self.is_euclidean else _refuse_undefined(measured, self.metric)

    def _by_product(self, here: Floats, rows: Ints, tile: slice, squares: Floats) -> None:
        a, b = self._norms[rows], self._norms[tile]
        squares[:] = squared_distances(here, self.centred(tile), a, b)
        if self.rounds and squares.min() <= _DOUBT * (a.max() + b.max()):
            i, j = np.nonzero(squares <= _DOUBT * np.add.outer(a, b))
            squares[i, j] = pair_squares(self.X, self.X, rows[i], j + tile.start)
            np.maximum(squares, 0.0, out=squares)

    def pair_lengths(self, a: Ints, b: Ints) -> Floats:
        """Distances of rows a to rows b, pair by pair."""
        if self.is_euclidean:
            parts = spans(len(a), max(1, _CELLS // 4 // self.X.shape[1]))
            squares = [pair_squares(self.X, self.X, a[few], b[few]) for few in parts]
            return np.sqrt(np.concatenate(squares))
        if self.metric == "precomputed":
            return np.asarray(self.X[a, b], dtype=np.float64)
        found = [
            np.diagonal(self._other.between(self.X[a[few]], self.X[b[few]]))
            for few in spans(len(a), _TOGETHER)
        ]
        return _refuse_undefined(np.concatenate(found), self.metric)

    def lengths(self, measured: Floats) -> Floats:
        """Distances from what `measure` gave."""
        return np.sqrt(measured) if self.is_euclidean else measured

    def order(self, row: int, measured: Floats, many: bool) -> Array:
        """All other rows, nearest first, given the row's measure (n,).

        `many`: it will be called so often that compiling a sort pays.
        """
        order = _sort(measured, row, many)
        if self.is_euclidean and self.rounds:
            close = np.diff(measured[order]) <= 2 * self._error[row]
            if close.any():
                self._sort_again(row, order, close)
        return order

    def ranks(self, row: int, measured: Floats, others: Ints) -> Ints:
        """The place (1 is nearest) of some other rows, given the row's measure (n,).

        Counts the nearer rows instead of sorting all; those within rounding are measured again.
        """
        measured[row] = np.inf  # not among its own neighbours
        error = 2 * self._error[row] if self.is_euclidean and self.rounds else 0.0
        places = np.empty(len(others), dtype=np.int64)
        for k, j in enumerate(others):
            nearer = np.count_nonzero(measured < measured[j] - error)
            close = np.flatnonzero(np.abs(measured - measured[j]) <= error)
            places[k] = 1 + nearer + self._nearer_of(row, int(j), close)
        return places

    def _nearer_of(self, row: int, j: int, close: Ints) -> int:
        """How many of the rows that are as far as j up to rounding come before it."""
        if len(close) == 1:  # j itself
            return 0
        if not (self.is_euclidean and self.rounds):
            return int(np.count_nonzero(close < j))
        squares = pair_squares(self.X, self.X, np.full(len(close), row), close)
        own = squares[np.searchsorted(close, j)]
        return int(np.count_nonzero((squares < own) | ((squares == own) & (close < j))))

    def _sort_again(self, row: int, order: Array, close: Array) -> None:
        """Sort the runs in which each distance is close to the next by exact differences."""
        doubtful = np.zeros(len(order), dtype=bool)
        doubtful[:-1] |= close
        doubtful[1:] |= close
        run = np.concatenate([[0], np.cumsum(~close)])[doubtful]
        others = order[doubtful]
        squares = pair_squares(self.X, self.X, np.full(len(others), row), others)
        order[doubtful] = others[np.lexsort((others, squares, run))]


def squares_by_difference(here: Array, there: Array, squares: Floats) -> None:
    """Squared distances of some rows to others, of few columns, into `squares`."""
    here, there = here.astype(np.float64), there.astype(np.float64)
    squares[:] = 0.0
    for c in range(here.shape[1]):
        difference = np.subtract.outer(here[:, c], there[:, c])
        difference *= difference
        squares += difference


def many_pairs(rows: int, n: int) -> bool:
    """Whether so many pairs are sorted that compiling the sort pays."""
    return rows * n > _PLAIN_PAIRS


def _refuse_undefined(distances: Floats, metric: Any) -> Floats:
    if np.isnan(distances).any():
        raise InputError(
            f"metric={metric!r} gives NaN for some pairs of rows (rows that are constant, or all "
            "zero, have no angle): leave those rows out, or use another metric."
        )
    return distances


def _sort(values: Floats, own: int, many: bool) -> Array:
    if many and values.min() >= 0:
        from nearfold.kernels.ranks import sort_others

        order = np.empty(len(values) - 1, dtype=np.int32)
        if sort_others(np.ascontiguousarray(values), own, order):
            return order
    order = np.argsort(values, kind="stable").astype(np.int32)
    return order[order != own]
