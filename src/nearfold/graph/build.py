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

from nearfold.notation import Array, Floats, Ints


@dataclass(frozen=True)
class Graph:
    """Symmetric, in compressed rows: node v has edges first[v]:first[v + 1]."""

    first: Ints  # (n + 1,)
    neighbours: Array  # (2 x edges,) int32, ascending within a row
    lengths: Floats  # (2 x edges,) float64

    @property
    def n(self) -> int:
        """How many nodes."""
        return len(self.first) - 1

    @property
    def tails(self) -> Array:
        """The node each entry starts from."""
        return np.repeat(np.arange(self.n, dtype=np.int32), np.diff(self.first))

    def components(self) -> tuple[int, Array]:
        """How many pieces there are, and the piece of each node, largest piece first."""
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
    key = np.concatenate([_keys(a, b, n), _keys(b, a, n)])
    both = np.concatenate([length, length])
    order = np.lexsort((both, key))
    key, both = key[order], both[order]
    new = np.ones(len(key), dtype=bool)
    new[1:] = key[1:] != key[:-1]
    new &= key // n != key % n  # an edge to itself shortens nothing
    key, both = key[new], both[new]
    first = np.searchsorted(key, np.arange(n + 1, dtype=np.int64) * n)
    return Graph(first, (key % n).astype(np.int32), both.astype(np.float64))


def graph_of_lists(distance: Floats, row: Ints) -> Graph:
    """The k-graph of neighbour lists (n, k)."""
    n, k = row.shape
    return from_edges(np.repeat(np.arange(n), k), row.ravel(), distance.ravel(), n)


def neighbourhood_graph(
    index: Any, n: int, k: int | None, radius: float | None
) -> tuple[Graph, Floats]:
    """The k-graph or, if a radius is given, the epsilon graph of an index's own rows.

    And how far each row's edges are all there: its k-th distance, or the radius.
    """
    if radius is not None:
        query, row, distance = index.within(None, radius)
        return from_edges(query, row, distance, n), np.full(n, float(radius))
    assert k is not None
    distance, row = index.nearest(None, k)
    return graph_of_lists(distance, row), distance[:, -1].copy()


def graph_of_matrix(G: Any, radius: float = np.inf) -> Graph:
    """The graph of a sparse matrix of distances up to a radius; stored zeros are edges, too."""
    entries = sparse.coo_array(G)
    kept = entries.data <= radius
    lengths = entries.data[kept].astype(np.float64)
    return from_edges(entries.row[kept], entries.col[kept], lengths, G.shape[0])
