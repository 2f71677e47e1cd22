"""The neighbourhood graph: rows are nodes, edges join neighbours and have their distance.

A k-graph joins a row to its k nearest, and back: if a is among the nearest of b they are joined,
whether or not b is among those of a. An epsilon graph joins all rows within a radius. Duplicates
are joined by edges of length zero, which a plain sparse matrix would lose; so the graph is kept as
three arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nearfold.blocks import spans
from nearfold.notation import Array, Floats, Ints

_SORTED = 2**18  # entries sorted at a time


@dataclass(frozen=True)
class Graph:
    """Symmetric, in compressed rows: node v has edges first[v]:first[v + 1]."""

    first: Ints  # (n + 1,)
    neighbours: Array  # (2 x edges,) int32, ascending within a row
    lengths: Floats  # (2 x edges,) float64

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.first) - 1

    @property
    def tails(self) -> Array:
        """The node each entry starts from."""
        return np.repeat(np.arange(self.n, dtype=np.int32), np.diff(self.first))

    def components(self) -> tuple[int, Array]:
        """The number of connected components, and that of each node; 0 is the largest."""
        ones = np.ones(len(self.neighbours), dtype=np.int8)
        matrix = sparse.csr_array((ones, self.neighbours, self.first), shape=(self.n, self.n))
        count, label = connected_components(matrix, directed=False)
        return int(count), by_size(label)

    def part(self, nodes: Ints) -> Graph:
        """The graph among some nodes (ascending), renumbered."""
        number = np.full(self.n, -1, dtype=np.int64)
        number[nodes] = np.arange(len(nodes))
        a, b = number[self.tails], number[self.neighbours]
        inside = (a >= 0) & (b >= 0)
        return from_edges(a[inside], b[inside], self.lengths[inside], len(nodes))

    def with_edges(self, a: Ints, b: Ints, length: Floats) -> Graph:
        """The same with more edges."""
        return from_edges(
            np.concatenate([self.tails, a]),
            np.concatenate([self.neighbours, b]),
            np.concatenate([self.lengths, length]),
            self.n,
        )

    def without_edges(self, a: Ints, b: Ints) -> Graph:
        """The same without the edges between a[i] and b[i]."""
        gone = np.concatenate([_keys(a, b, self.n), _keys(b, a, self.n)])
        tails = self.tails
        kept = ~np.isin(_keys(tails, self.neighbours, self.n), gone)
        return from_edges(tails[kept], self.neighbours[kept], self.lengths[kept], self.n)


def _keys(a: Array, b: Array, n: int) -> Ints:
    return np.asarray(a, dtype=np.int64) * n + b


def by_size(label: Array) -> Array:
    """Labels renumbered without gaps, so that 0 is the most frequent one."""
    _, compact, sizes = np.unique(label, return_inverse=True, return_counts=True)
    rank = np.empty(len(sizes), dtype=np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return rank[compact]


def from_edges(a: Array, b: Array, length: Floats, n: int) -> Graph:
    """A graph from edges given in one direction or in both; of several the shortest is kept."""
    entries = 2 * len(a)  # each edge from both its ends, at most
    neighbours, lengths = np.empty(entries, dtype=np.int32), np.empty(entries)
    first = np.zeros(n + 1, dtype=np.int64)
    filled = 0
    # By ranges of nodes, so that sorting holds a part of the edges at a time.
    for nodes in spans(n, max(1, n * _SORTED // max(entries, 1))):
        key, shortest = _entries_from(nodes, a, b, length, n)
        new = slice(filled, filled + len(key))
        neighbours[new], lengths[new] = key % n, shortest
        tails = np.arange(nodes.start, nodes.stop, dtype=np.int64) + 1
        first[nodes.start + 1 : nodes.stop + 1] = filled + np.searchsorted(key, tails * n)
        filled = new.stop
    return Graph(first, neighbours[:filled], lengths[:filled])


def _entries_from(nodes: slice, a: Array, b: Array, length: Floats, n: int) -> tuple[Ints, Floats]:
    """The entries whose tail is one of the nodes, as sorted keys (tail n + head) and lengths."""
    forth = np.flatnonzero((a >= nodes.start) & (a < nodes.stop))
    back = np.flatnonzero((b >= nodes.start) & (b < nodes.stop))
    key = np.concatenate([_keys(a[forth], b[forth], n), _keys(b[back], a[back], n)])
    lengths = np.concatenate([length[forth], length[back]])
    other = key // n != key % n  # an edge to itself shortens nothing
    key, lengths = key[other], lengths[other]
    order = np.argsort(key, kind="stable")  # faster on keys of which half are in order already
    key, lengths = key[order], lengths[order]
    new = np.flatnonzero(np.diff(key, prepend=-1))
    return key[new], np.minimum.reduceat(lengths, new) if len(new) else lengths


def graph_of_lists(distance: Floats, row: Ints) -> Graph:
    """The k-graph of neighbour lists (n, k)."""
    n, k = row.shape
    tails = np.repeat(np.arange(n, dtype=np.int32), k)
    return from_edges(tails, row.ravel(), distance.ravel(), n)


def neighbourhood_graph(index: Any, k: int | None, radius: float | None) -> tuple[Graph, Floats]:
    """The k-graph or, if a radius is given, the epsilon graph of an index's own rows.

    And how far each row's edges are all there: its k-th distance, or the radius.
    """
    n = index.n_rows
    if radius is not None:
        query, row, distance = index.within(None, radius)
        return from_edges(query, row, distance, n), np.full(n, float(radius))
    assert k is not None
    distance, row = index.nearest(None, k)
    return graph_of_lists(distance, row), distance[:, -1].copy()


def graph_of_matrix(G: Any, radius: float = np.inf) -> Graph:
    """The graph of a sparse matrix of distances up to a radius; stored zeros are edges too."""
    entries = sparse.coo_array(G)
    kept = entries.data <= radius
    lengths = entries.data[kept].astype(np.float64)
    return from_edges(entries.row[kept], entries.col[kept], lengths, G.shape[0])
