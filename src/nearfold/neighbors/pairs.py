"""Pairs found within a radius: gathered piece by piece, within the memory budget, then sorted."""

from __future__ import annotations

import numpy as np

from nearfold.blocks import get_memory, require_memory
from nearfold.notation import Floats, Ints

PAIR_BYTES = 24 * 3  # query, row and distance, and two copies of them while they are sorted


class Pairs:
    """A growing list of (query, row, squared distance)."""

    def __init__(self) -> None:
        self._pieces = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        self._count = 0
        self._most = get_memory() // PAIR_BYTES

    def add(self, query: Ints, row: Ints, square: Floats) -> None:
        """Take some more; refuse when they would not fit."""
        self._count += len(query)
        if self._count > self._most:
            require_pairs(self._count)
        self._pieces.append((query, row, square))

    def sorted(self) -> tuple[Ints, Ints, Floats]:
        """(query, row, distance), sorted by query, distance, row."""
        query, row, square = (np.concatenate(part) for part in zip(*self._pieces, strict=True))
        order = np.lexsort((row, square, query))
        return query[order], row[order], np.sqrt(square[order])


def radii(radius: float | Floats, m: int) -> Floats:
    """One radius per query, from one for all or an array of them."""
    return np.array(np.broadcast_to(np.asarray(radius, dtype=np.float64), (m,)))


def require_pairs(count: int) -> None:
    """Refuse if so many pairs do not fit the memory budget."""
    require_memory(
        PAIR_BYTES * count, f"A list of {count:,} or more pairs", "Use a smaller radius, or parts."
    )
