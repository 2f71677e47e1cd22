"""Pairs found within a radius: gathered piece by piece, within the memory budget, then sorted."""

from __future__ import annotations

from threading import Lock

import numpy as np

from nearfold.blocks import get_memory, require_memory
from nearfold.notation import Floats, Ints

_PAIR_BYTES = 88  # query, row and distance, twice while they are joined, and their order


class Pairs:
    """A growing list of (query, row, distance).

    Threads `reserve` room as they find pairs, so that what is still in their hands counts too, and
    the pieces are added in order.
    """

    def __init__(self) -> None:
        self._pieces = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        self._count = 0
        self._most = get_memory() // _PAIR_BYTES
        self._lock = Lock()

    def reserve(self, count: int) -> None:
        """Count some more pairs; refuse when they do not fit."""
        with self._lock:
            self._count += count
        if self._count > self._most:
            require_pairs(self._count)

    def add(self, *pieces: tuple[Ints, Ints, Floats]) -> None:
        """Take pieces that room was reserved for."""
        self._pieces.extend(pieces)

    def sorted(self) -> tuple[Ints, Ints, Floats]:
        """(query, row, distance), sorted by query, distance, row."""
        query, row, distance = (np.concatenate(part) for part in zip(*self._pieces, strict=True))
        self._pieces.clear()
        order = np.lexsort((row, distance, query))
        return query[order], row[order], distance[order]


def radii(radius: float | Floats, m: int) -> Floats:
    """One radius per query, from one for all or an array of them."""
    return np.array(np.broadcast_to(np.asarray(radius, dtype=np.float64), (m,)))


def require_pairs(count: int) -> None:
    """Refuse if so many pairs do not fit the memory budget."""
    require_memory(
        _PAIR_BYTES * count, f"A list of {count:,} or more pairs", "Use a smaller radius, or parts."
    )
