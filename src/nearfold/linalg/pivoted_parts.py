"""A factor of low rank whose rows lie in parts on a cluster, beside the rows of the table.

The same functions as in pivoted.py, on the rows of a part. What comes here: the diagonal and what
each round takes off it (8 bytes a row), the rows proposed as pivots, sums. The columns of a round
are added where the rows are; a worker that is lost takes its part of F with it, and Dask computes
it again from the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from nearfold.blocks import Block, DaskRows
from nearfold.blocks.cluster import keep, shared, task
from nearfold.blocks.work import combine_pairwise
from nearfold.linalg.pivoted import cut, new_columns, squares_and_sums
from nearfold.notation import Array, Floats, Ints

Kernel = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Piece:
    """Some rows of a part: of the table and of F, and what the last round added."""

    X: Array
    F: tuple[Array, ...]  # the columns of each round: those before are shared, not copied
    squares: Floats
    sums: list[Floats]

    def factor(self, rows: Any) -> Array:
        """Some rows of F."""
        return np.concatenate([columns[rows] for columns in self.F], axis=1)


def pieces_of_part(
    values: Any, start: int, y: Any, weights: Any, reader: Any, dtype: Any
) -> list[Piece]:
    """The blocks of a part, with no column of F."""
    blocks = (block.dense() for block in reader.blocks(values, start, y, weights))
    return [Piece(X, (np.empty((len(X), 0), dtype),), np.zeros(len(X)), []) for X in blocks]


def extended(
    pieces: list[Piece], kernel: Kernel, X: Array, F: Array, L: Floats, step: int
) -> list[Piece]:
    """The pieces with the columns of new pivots, whose rows of the table and of F are given."""
    # What was sent may lie anywhere: of products of misaligned arrays NumPy makes others, by a bit.
    X, F, L = (np.require(A, requirements=["C", "ALIGNED"]) for A in (X, F, L))
    return [_extended(piece, kernel, X, F, L, step) for piece in pieces]


def _extended(piece: Piece, kernel: Kernel, X: Array, F: Array, L: Floats, step: int) -> Piece:
    more = np.empty((len(piece.X), len(L)), F.dtype)
    found = []
    for rows in cut(slice(0, len(more)), step):
        new = new_columns(kernel(piece.X[rows], X), piece.factor(rows), F, L)
        more[rows] = new
        found.append(squares_and_sums(new))
    squares = np.concatenate([squares for squares, _ in found])
    return Piece(piece.X, (*piece.F, more), squares, [reduce(add, (sums for _, sums in found))])


def added_last(pieces: list[Piece]) -> tuple[Floats, Floats]:
    """The squares and sums of the last round."""
    squares = np.concatenate([piece.squares for piece in pieces])
    return squares, combine_pairwise((piece.sums[0] for piece in pieces), add)


def rows_of_pieces(pieces: list[Piece], numbers: Ints) -> tuple[Array, Array]:
    """Rows of the table and of F, by their ascending numbers in the part."""
    found = []
    for piece in pieces:
        here = numbers[(numbers >= 0) & (numbers < len(piece.X))]
        found.append((piece.X[here], piece.factor(here)))
        numbers = numbers - len(piece.X)
    X, F = (np.concatenate(some) for some in zip(*found, strict=True))
    return X, F


def combined_in_part(pieces: list[Piece], function: Any, combine: Any, step: int) -> Any:
    """`function` of the rows of F, joined in turn within a block, and pairwise over the blocks."""
    return combine_pairwise(
        (reduce(combine, _of_steps(piece, function, step)) for piece in pieces), combine
    )


def stacked_in_part(pieces: list[Piece], function: Any, step: int) -> Array:
    """`function` of the rows of F, one below the other."""
    return np.concatenate([one for piece in pieces for one in _of_steps(piece, function, step)])


def _of_steps(piece: Piece, function: Any, step: int) -> Any:
    return (function(piece.factor(rows)) for rows in cut(slice(0, len(piece.X)), step))


class FarFactor:
    """F in parts on a cluster."""

    def __init__(
        self, rows: DaskRows, kernel: Kernel, diagonal: Callable[[Array], Floats], step: int
    ) -> None:
        self.dtype, self._step, self._rows, self._kernel = rows.dtype, step, rows, kernel
        self.diagonal = np.concatenate(list(rows.mapped(partial(_of_block, function=diagonal))))
        self._known: dict[int, tuple[Array, Array]] = {}
        self._made = rows.tasks(pieces_of_part, rows.dtype)
        self._pieces = keep(self._made)
        self._sent = shared(kernel)

    def residual(self, numbers: Ints) -> Array:
        """K - F F^T among these rows."""
        X, F = self._taken(numbers)
        self._known = {int(n): (X[i], F[i]) for i, n in enumerate(numbers)}
        return self._kernel(X, X.copy()) - F @ F.copy().T  # copies: A A^T would be another product

    def extend(self, numbers: Ints, L: Floats) -> tuple[Floats, Floats]:
        """Add the columns of these pivots, which are among the rows last asked for."""
        X, F = (np.array([self._known[int(n)][i] for n in numbers]) for i in (0, 1))
        common = [self._sent, *(shared(value) for value in (X, F, L)), self._step]
        self._pieces = keep([task(extended, pieces, *common) for pieces in self._pieces])
        found = self._run([task(added_last, pieces) for pieces in self._pieces])
        sums = combine_pairwise([part for _, part in found], add)
        return np.concatenate([squares for squares, _ in found]), sums

    def combined(self, function: Any, combine: Any, step: int) -> Any:
        """`function` of the rows of F, `step` at a time, joined."""
        sent = shared(function)
        parts = [task(combined_in_part, pieces, sent, combine, step) for pieces in self._pieces]
        return self._run([combine_pairwise(parts, partial(task, combine))])[0]

    def stacked(self, function: Any, step: int) -> Array:
        """`function` of the rows of F, `step` at a time, one below the other: narrow results."""
        sent = shared(function)
        parts = [task(stacked_in_part, pieces, sent, step) for pieces in self._pieces]
        return np.concatenate(self._run(parts))

    def rows(self, numbers: Ints) -> Array:
        """Rows of F, brought here."""
        return self._taken(numbers)[1]

    def table_rows(self, numbers: Ints) -> Array:
        """Rows of the table, brought here."""
        return self._taken(numbers)[0]

    def _taken(self, numbers: Ints) -> tuple[Array, Array]:
        if len(numbers) == 0:
            return np.empty((0, self._rows.n_features), self.dtype), np.empty((0, 0), self.dtype)
        order = np.argsort(numbers, kind="stable")
        ordered, tasks = numbers[order], []
        for part, pieces in zip(self._rows.parts, self._pieces, strict=True):
            first, last = np.searchsorted(ordered, [part.start, part.start + part.length])
            if last > first:
                tasks.append(task(rows_of_pieces, pieces, ordered[first:last] - part.start))
        X, F = (np.concatenate(some) for some in zip(*self._run(tasks), strict=True))
        back = np.argsort(order, kind="stable")
        return X[back], F[back]

    def _run(self, tasks: list[Any]) -> Any:
        return self._rows.run(tasks, "pivots", of=self._made)


def _of_block(block: Block, function: Callable[[Array], Floats]) -> Floats:
    return function(block.dense())
