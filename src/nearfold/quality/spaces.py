"""A table as a space: who is how far from whom, and who is nearer, exactly.

A row's distances to all others come from one matrix product in float64 (few columns: from the
differences themselves). The product rounds; where two distances are so close that rounding could
have changed their order, both are measured again from their differences, so the order is that of
float64 differences, equal ones by the smaller row number, as in `nearfold.neighbors`. Tables of
whole numbers (pixels, counts) are moved by whole numbers only: their products do not round at all.

Cost: n d per row, and a sort. Memory: what the caller's block of rows takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks import get_memory
from nearfold.errors import InputError
from nearfold.inputs import check_distances, check_rows, refuse_extreme
from nearfold.neighbors import is_euclidean
from nearfold.neighbors.distances import Distances
from nearfold.notation import Array, Floats, Ints

_FEW = 8  # columns: differences one by one are then as fast as a product, and do not round more
_CELLS = 2**17  # values of a tile of the table
_TILE = 1024  # rows of a tile: with it a tile of distances stays in a core's cache
_DOUBT = 1e-7  # a square this small beside those of its rows has lost half its digits
_PLAIN_PAIRS = 10_000_000  # below it NumPy has sorted before a compiler would be ready
_TOGETHER = 32  # pairs measured by one call of another metric
_WHOLE = 2.0**52  # whole numbers below it, and sums of two of them, are exact
_FARTHEST = 1e150  # a centre beyond it means rows that are all equal: they could not differ there
_EPS = float(np.finfo(np.float64).eps)


def check_table(X: Any, name: str) -> Array:
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
    X, Z = check_table(X, "X"), check_table(Z, "Z")
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
        if self.is_euclidean:
            self._prepare()
        elif metric == "precomputed":
            check_distances(X)
        else:
            self._other = Distances(X, metric)

    def _prepare(self) -> None:
        """The centre that products are taken about, and what they may be off by."""
        X = self.X
        spread = X.max(axis=0) / 2.0 - X.min(axis=0) / 2.0
        refuse_extreme(float(spread.max(initial=0.0)), np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            centre = X.mean(axis=0, dtype=np.float64)
        self._centre = np.where(np.isfinite(centre), centre, X[0])  # sums of 1e308 overflow
        whole = self._is_whole(spread)
        if whole:
            self._centre = np.rint(self._centre)
        self._rounds = X.shape[1] > _FEW and not whole
        self._ready = None
        if X.shape[1] > _FEW and 8.0 * X.size <= get_memory() / 4:
            self._ready = X - self._centre
        sizes = [np.einsum("ij,ij->i", part, part) for part in map(self._tile, self._tiles())]
        self._sizes = np.concatenate(sizes)
        # |error of a square| <= 4 eps ((d + 4) reach^2 + |centre| reach): product, then centring
        reach = np.sqrt(self._sizes) + np.sqrt(self._sizes.max())
        offset = min(float(np.abs(self._centre).max()) * X.shape[1] ** 0.5, _FARTHEST)
        self._margin = 4 * _EPS * ((X.shape[1] + 4) * reach**2 + offset * reach)

    def _is_whole(self, spread: Floats) -> bool:
        """Whether all values are whole numbers whose products about a whole centre are exact."""
        if 16 * float(((spread.astype(np.float64) + 1.0) ** 2).sum()) > _WHOLE:
            return False
        return all((part == np.rint(part)).all() for part in (self.X[a] for a in self._tiles()))

    def _tiles(self) -> list[slice]:
        step = min(_TILE, max(64, _CELLS // max(1, self.X.shape[1])))
        return [slice(a, a + step) for a in range(0, self.n, step)]

    def _tile(self, rows: Any) -> Floats:
        """Some rows about the centre, in float64."""
        if self._ready is not None:
            return self._ready[rows]
        return np.asarray(np.subtract(self.X[rows], self._centre, dtype=np.float64))

    def measure(self, rows: Ints) -> Floats:
        """How far some rows are from all: (b, n) squared distances, or distances of other metrics.

        `lengths` makes distances of both; `order` takes them as they are.
        """
        if self.metric == "precomputed":
            return np.array(self.X[rows], dtype=np.float64)
        measured = np.empty((len(rows), self.n))
        for tile in self._tiles():
            if not self.is_euclidean:
                measured[:, tile] = self._other.between(self.X[rows], self.X[tile])
            elif self.X.shape[1] <= _FEW:
                self._by_difference(rows, tile, measured[:, tile])
            else:
                self._by_product(rows, tile, measured[:, tile])
        measured[np.arange(len(rows)), rows] = 0.0
        return measured if self.is_euclidean else _refuse_undefined(measured, self.metric)

    def _by_difference(self, rows: Ints, tile: slice, squares: Floats) -> None:
        here, there = self.X[rows].astype(np.float64), self.X[tile].astype(np.float64)
        squares[:] = 0.0
        for c in range(self.X.shape[1]):
            difference = np.subtract.outer(here[:, c], there[:, c])
            difference *= difference
            squares += difference

    def _by_product(self, rows: Ints, tile: slice, squares: Floats) -> None:
        np.matmul(self._tile(rows), self._tile(tile).T, out=squares)
        squares *= -2.0
        sizes = np.add.outer(self._sizes[rows], self._sizes[tile])
        squares += sizes
        if self._rounds:
            sizes *= _DOUBT
            doubtful = squares <= sizes
            if doubtful.any():
                a, b = np.nonzero(doubtful)
                squares[a, b] = self.square_lengths(rows[a], b + tile.start)
            np.maximum(squares, 0.0, out=squares)

    def square_lengths(self, a: Ints, b: Ints) -> Floats:
        """Squared Euclidean distances of rows a to rows b, pair by pair, from differences."""
        squares = np.empty(len(a))
        step = max(1, _CELLS // 4 // max(1, self.X.shape[1]))
        for start in range(0, len(a), step):
            few = slice(start, start + step)
            difference = np.subtract(self.X[a[few]], self.X[b[few]], dtype=np.float64)
            squares[few] = np.einsum("ij,ij->i", difference, difference)
        return squares

    def pair_lengths(self, a: Ints, b: Ints) -> Floats:
        """Distances of rows a to rows b, pair by pair."""
        if self.is_euclidean:
            return np.sqrt(self.square_lengths(a, b))
        if self.metric == "precomputed":
            return np.asarray(self.X[a, b], dtype=np.float64)
        found = []
        for start in range(0, len(a), _TOGETHER):  # a small square, of which the diagonal is asked
            few = slice(start, start + _TOGETHER)
            found.append(np.diagonal(self._other.between(self.X[a[few]], self.X[b[few]])))
        return _refuse_undefined(np.concatenate(found), self.metric)

    def lengths(self, measured: Floats) -> Floats:
        """Distances from what `measure` gave."""
        return np.sqrt(measured) if self.is_euclidean else measured

    def order(self, row: int, measured: Floats, many: bool) -> Array:
        """All other rows, nearest first, given the row's measure (n,). `many`: it will be called
        so often that a compiled sort is worth its start.
        """
        order = _sort(measured, row, many)
        if self.is_euclidean and self._rounds:
            close = np.diff(measured[order]) <= 2 * self._margin[row]
            if close.any():
                self._settle(row, order, close)
        return order

    def _settle(self, row: int, order: Array, close: Array) -> None:
        """Sort again, by differences, the runs in which each is close to the next."""
        doubtful = np.zeros(len(order), dtype=bool)
        doubtful[:-1] |= close
        doubtful[1:] |= close
        run = np.concatenate([[0], np.cumsum(~close)])[doubtful]
        others = order[doubtful]
        squares = self.square_lengths(np.full(len(others), row), others)
        order[doubtful] = others[np.lexsort((others, squares, run))]


def many_pairs(rows: int, n: int) -> bool:
    """Whether a compiled sort is worth its start."""
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
