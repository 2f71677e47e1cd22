"""Pairs found within a radius: gathered piece by piece, within the memory budget, then sorted."""

from __future__ import annotations

from threading import Lock

import numpy as np

from nearfold.blocks import get_memory, require_memory
from nearfold.neighbors.selection import groups_of_counts
from nearfold.notation import Floats, Ints

_PAIR_BYTES = 48  # query, row and distance of a pair, and row and distance in their final place
_SORTED_TOGETHER = 2**18  # pairs

Piece = tuple[Ints, Ints, Floats]  # query, row, distance


class Pairs:
    """A growing list of (query, row, distance) of m queries.

    Threads `reserve` room as they find pairs, so that what is still in their hands counts too.
    `held` bytes of the budget are taken by the index itself.
    """

    def __init__(self, m: int, held: float = 0.0) -> None:
        self._pieces: list[Piece] = []
        self._counts = np.zeros(m, dtype=np.int64)
        self._total = 0
        self._held = held
        self._most = (get_memory() - held) // _PAIR_BYTES
        self._lock = Lock()

    def reserve(self, count: int) -> None:
        """Count some more pairs; refuse when they do not fit."""
        with self._lock:
            self._total += count
        if self._total > self._most:
            require_pairs(self._total, self._held)

    def add(self, *pieces: Piece) -> None:
        """Take pieces that room was reserved for."""
        for piece in pieces:
            asked, found = np.unique(piece[0], return_counts=True)
            self._counts[asked] += found
        self._pieces.extend(pieces)

    def sorted(self) -> Piece:
        """(query, row, distance), sorted by query, distance, row."""
        end = np.cumsum(self._counts)
        total, free = int(end[-1]) if len(end) else 0, end.copy()
        row, distance = np.empty(total, dtype=np.int64), np.empty(total)
        while self._pieces:  # each is let go as soon as its pairs have their place
            query, rows, distances = self._pieces.pop()
            order = np.argsort(query, kind="stable")
            query = query[order]
            first = np.searchsorted(query, query)
            place = free[query] - 1 - (np.arange(len(query)) - first)
            row[place], distance[place] = rows[order], distances[order]
            asked, found = np.unique(query, return_counts=True)
            free[asked] -= found
        query = np.repeat(np.arange(len(end)), self._counts)
        for few in groups_of_counts(self._counts, _SORTED_TOGETHER):
            part = slice(int(end[few.start] - self._counts[few.start]), int(end[few.stop - 1]))
            order = np.lexsort((row[part], distance[part], query[part]))
            row[part], distance[part] = row[part][order], distance[part][order]
        return query, row, distance


def radii(radius: float | Floats, m: int) -> Floats:
    """One radius per query, from one for all or an array of them."""
    return np.array(np.broadcast_to(np.asarray(radius, dtype=np.float64), (m,)))


def require_pairs(count: int, held: float = 0.0) -> None:
    """Refuse if so many pairs do not fit the memory budget beside what is held already."""
    require_memory(
        _PAIR_BYTES * count + held,
        f"A list of {count:,} or more pairs",
        "Use a smaller radius, or parts.",
    )
