"""Neighbour lists: block by block for consumers that need not hold them all, as graphs, as arrays.

Blocks are cut by the number of pairs they hold, which depends on the data and k alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks import require_memory, reserve_memory, spans
from nearfold.errors import MemoryBudgetError
from nearfold.neighbors.exact import Index
from nearfold.neighbors.pairs import radii
from nearfold.neighbors.selection import without_own
from nearfold.notation import Array, Floats, Ints

PAIRS = 2**17  # neighbours held at a time
_FIRST_QUERIES, _MOST_QUERIES = 64, 4096  # of a block of radius queries


def nearest_of(index: Index, Q: Any, chosen: Any, k: int) -> tuple[Floats, Ints]:
    """The k nearest of some queries; of some of the rows themselves, self excluded, if Q is None.

    Rows are searched as queries for one neighbour more, and their own number is dropped.
    """
    if Q is not None:
        return index.nearest(take_rows(Q, chosen), k)
    own = np.arange(index.n_rows)[chosen]
    distance, row = index.nearest(index.X[chosen], k + 1)
    return without_own(distance, row, own)


def nearest_blocks(index: Index, Q: Any, k: int) -> Iterator[tuple[slice, Floats, Ints]]:
    """(queries, distances, rows) for consecutive blocks of the queries, or of the rows."""
    m = index.n_rows if Q is None else Q.shape[0]
    blocks = spans(m, max(1, PAIRS // k))
    if Q is None and hasattr(index, "own_blocks"):  # the rows are in parts on a cluster
        for part, distance, row in index.own_blocks(k):
            for some in spans(len(row), max(1, PAIRS // k)):
                there = slice(part.start + some.start, part.start + some.stop)
                yield there, distance[some], row[some]
        return
    at_once = getattr(index, "searches_at_once", False)
    if len(blocks) == 1 or at_once or (Q is None and sparse.issparse(index.X)):
        # An approximate search has one certificate for all. A sparse graph of precomputed
        # distances may not hold the extra neighbour.
        distance, row = index.nearest(Q, k)
        yield from ((span, distance[span], row[span]) for span in blocks)
        return
    for span in blocks:
        yield (span, *nearest_of(index, Q, span, k))


def within_blocks(
    index: Index, Q: Any, radius: float | Floats
) -> Iterator[tuple[slice, Ints, Ints, Floats]]:
    """(queries, query, row, distance) for consecutive blocks; `query` counts within the block.

    Blocks begin small and grow as long as they hold few pairs; one with more than the memory
    budget holds is searched again in halves.
    """
    m = index.n_rows if Q is None else Q.shape[0]
    reach = radii(radius, m)
    start, size = 0, _FIRST_QUERIES
    while start < m:
        span = slice(start, min(start + size, m))
        try:
            queries = take_rows(index.X if Q is None else Q, span)
            query, row, distance = index.within(queries, reach[span])
        except MemoryBudgetError as error:
            if size == 1:
                raise
            error.with_traceback(None)  # whose frames hold the pairs found so far
            size //= 2
            continue
        start = span.stop
        fits = size * PAIRS // max(1, len(query))
        size = max(1, min(fits, 4 * size, _MOST_QUERIES))
        if Q is None:
            keep = query + span.start != row
            query, row, distance = query[keep], row[keep], distance[keep]
        yield span, query, row, distance


def take_rows(Q: Any, chosen: Any) -> Any:
    """Some rows of an array, a sparse matrix or a frame."""
    return Q.iloc[chosen] if hasattr(Q, "iloc") else Q[chosen]


def all_nearest(index: Index, Q: Any, k: int) -> tuple[Floats, Ints]:
    """The k nearest of all queries, refused if so many lists do not fit the memory budget."""
    m = index.n_rows if Q is None else Q.shape[0]
    needed = 16 * m * k
    require_memory(needed, f"A list of {k} neighbours for {m} rows", "Ask for fewer, or in parts.")
    with reserve_memory(needed):  # the search has what the lists leave
        return index.nearest(Q, k)


def graph_from_lists(distances: Floats | None, rows: Ints, n_columns: int) -> sparse.csr_array:
    """A sparse graph with k entries per row: distances, or ones."""
    m, k = rows.shape
    values = np.ones(m * k) if distances is None else distances.ravel()
    return _graph(values, rows.ravel(), np.arange(0, m * k + 1, k), (m, n_columns))


def graph_from_pairs(
    query: Ints, row: Ints, distance: Floats | None, shape: tuple[int, int]
) -> sparse.csr_array:
    """A sparse graph from pairs sorted by query: distances, or ones."""
    indptr = np.searchsorted(query, np.arange(shape[0] + 1))
    values = np.ones(len(row)) if distance is None else distance
    return _graph(values, row, indptr, shape)


def _graph(values: Array, columns: Ints, indptr: Ints, shape: tuple[int, int]) -> Any:
    # scikit-learn's own consumers of such graphs still expect the matrix class.
    return sparse.csr_matrix((values, columns, indptr), shape=shape)


def split_by_query(values: Array, query: Ints, n_queries: int) -> Array:
    """An object array with one array per query, as scikit-learn returns radius neighbours."""
    parts = np.empty(n_queries, dtype=object)
    bounds = np.searchsorted(query, np.arange(n_queries + 1))
    for i in range(n_queries):
        parts[i] = values[bounds[i] : bounds[i + 1]]
    return parts
