"""Neighbours from the trees of SciPy and scikit-learn, under our rule for ties.

Both leave open which of several equally distant rows fills the k-th place; our rule is the smaller
row number. So one neighbour more is queried, and where the k-th and the next are equally far all
rows at that distance are compared. Those are counted first: queries are taken together as long as
their rows fit a small buffer, and one query with more ties than that is decided by brute force, in
tiles. Memory does not grow with the number of ties.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from nearfold.blocks import require_memory, spans
from nearfold.neighbors.pairs import Pairs, radii, require_pairs
from nearfold.neighbors.selection import (
    first_k,
    first_k_of_pairs,
    groups_of_counts,
    nearest_in_tiles,
)
from nearfold.notation import Array, Floats, Ints
from nearfold.run import thread_count

_PAIRS = 2**18  # pairs held at a time
_ROWS = 8192  # rows of a tile of distances


class Backend(Protocol):
    """A tree: what it must answer."""

    n_rows: int

    def query(self, Q: Any, k: int) -> tuple[Floats, Ints]:
        """The k nearest, equal distances in any order."""

    def count_within(self, Q: Any, radius: Floats) -> Ints:
        """Number of rows within one radius per query, or slightly more."""

    def pairs_within(self, Q: Any, radius: Floats) -> tuple[Ints, Ints, Floats]:
        """(query, row, distance) of all pairs within one radius per query."""

    def distances(self, Q: Any, rows: slice) -> Floats:
        """Distances (m, rows)."""


def tree_bytes(n: int, d: int) -> float:
    """What a tree of n rows takes."""
    return 8.0 * n * (d + 2)


class TreeIndex:
    """SciPy's KD-tree: dense rows of few columns under the Euclidean distance."""

    def __init__(self, X: Array, n_jobs: int | None = None) -> None:
        n, d = X.shape
        require_memory(tree_bytes(n, d), "A KD-tree of the rows", "Search among fewer rows.")
        self.X = X
        self.n_rows = n
        self.workers = thread_count(n_jobs)
        # A sliding-midpoint tree is built twice as fast and answers as quickly.
        self.tree = KDTree(X, balanced_tree=False)

    def nearest(self, Q: Array | None, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        return nearest_from(self, self.X if Q is None else Q, k, exclude_self=Q is None)

    def within(self, Q: Array | None, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        return within_from(self, self.X if Q is None else Q, radius, exclude_self=Q is None)

    def query(self, Q: Array, k: int) -> tuple[Floats, Ints]:
        """The k nearest, equal distances in any order."""
        distance, row = self.tree.query(Q, k=np.arange(1, k + 1), workers=self.workers)
        return distance, row

    def count_within(self, Q: Array, radius: Floats) -> Ints:
        """Number of rows within one radius per query, or slightly more."""
        found = self.tree.query_ball_point(
            Q, radius * (1 + 1e-12), workers=self.workers, return_length=True
        )
        return np.asarray(found, dtype=np.int64)

    def pairs_within(self, Q: Array, radius: Floats) -> tuple[Ints, Ints, Floats]:
        """(query, row, distance) of all pairs within one radius per query."""
        found = self.tree.query_ball_point(Q, radius * (1 + 1e-12), workers=self.workers)
        query = np.repeat(np.arange(len(Q)), [len(rows) for rows in found])
        row = np.concatenate([np.asarray(rows, dtype=np.int64) for rows in found] or [query])
        difference = np.subtract(Q[query], self.X[row], dtype=np.float64)
        distance = np.sqrt(np.einsum("ij,ij->i", difference, difference))
        keep = distance <= radius[query]
        return query[keep], row[keep], distance[keep]

    def distances(self, Q: Array, rows: slice) -> Floats:
        """Distances (m, rows)."""
        return np.asarray(cdist(Q, self.X[rows]))


def nearest_from(tree: Backend, Q: Any, k: int, *, exclude_self: bool) -> tuple[Floats, Ints]:
    """The k nearest, equal distances in order of row number, self excluded by its index."""
    m = Q.shape[0]
    distance, row = np.empty((m, k)), np.empty((m, k), dtype=np.int64)
    width = min(k + 1 + exclude_self, tree.n_rows)
    for span in spans(m, max(1, _PAIRS // width)):
        own = np.arange(span.start, span.stop) if exclude_self else None
        distance[span], row[span] = _nearest_of_block(tree, Q[span], k, width, own)
    return distance, row


def _nearest_of_block(
    tree: Backend, Q: Any, k: int, width: int, own: Ints | None
) -> tuple[Floats, Ints]:
    distance, row = tree.query(Q, width)
    if own is not None:
        distance = np.where(row == own[:, None], np.inf, distance)
    distance, row = first_k(distance, row, width)
    if width > k:
        tied = np.flatnonzero(distance[:, k - 1] == distance[:, k])
        if len(tied):
            mine = None if own is None else own[tied]
            distance[tied, :k], row[tied, :k] = _among_ties(
                tree, Q[tied], k, distance[tied, k - 1], mine
            )
    return distance[:, :k], row[:, :k]


def _among_ties(
    tree: Backend, Q: Any, k: int, reach: Floats, own: Ints | None
) -> tuple[Floats, Ints]:
    """The k nearest of queries whose k-th neighbour, at this distance, ties with others."""
    m = Q.shape[0]
    distance, row = np.empty((m, k)), np.empty((m, k), dtype=np.int64)
    radius = reach * (1 + 1e-9)  # widened, so that rounding cannot lose a tied row
    for group in groups_of_counts(tree.count_within(Q, radius), _PAIRS):
        mine = None if own is None else own[group]
        distance[group], row[group] = _resolve(tree, Q[group], k, radius[group], mine)
    return distance, row


def _resolve(
    tree: Backend, Q: Any, k: int, radius: Floats, own: Ints | None
) -> tuple[Floats, Ints]:
    m = Q.shape[0]
    if m == 1 and tree.count_within(Q, radius)[0] > _PAIRS:
        return nearest_in_tiles(lambda tile: tree.distances(Q, tile), 1, tree.n_rows, k, _ROWS, own)
    query, row, distance = tree.pairs_within(Q, radius)
    if own is not None:
        keep = row != own[query]
        query, row, distance = query[keep], row[keep], distance[keep]
    return first_k_of_pairs(query, row, distance, m, k)


def within_from(
    tree: Backend, Q: Any, radius: float | Floats, *, exclude_self: bool
) -> tuple[Ints, Ints, Floats]:
    """All pairs within the radius, by query, then distance, then row; self excluded by index."""
    reach = radii(radius, Q.shape[0])
    counts = tree.count_within(Q, reach)
    require_pairs(int(counts.sum()))
    pairs = Pairs(Q.shape[0])
    for group in groups_of_counts(counts, _PAIRS):
        query, row, distance = tree.pairs_within(Q[group], reach[group])
        query += group.start
        keep = query != row if exclude_self else slice(None)
        pairs.add((query[keep], row[keep], distance[keep]))
    return pairs.sorted()
