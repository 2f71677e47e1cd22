"""The k best of many, in bounded memory: by distance, then by row number.

Every index orders neighbours by (distance, row). Brute force visits the rows in ascending order,
tile by tile, so a row that ties with the k-th best of earlier tiles never replaces it and k values
per query are all that has to be kept, however many rows are equally far.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from nearfold.blocks import spans
from nearfold.notation import Array, Floats, Ints

NOBODY = np.iinfo(np.int64).max  # the row number of a place in a list that no row fills


def start_of_lists(limit: Floats | None, queries: Ints | slice, k: int) -> Floats:
    """Squares (m, k) that rows must not exceed to enter a list: just above a limit's."""
    if limit is None:
        m = len(queries) if isinstance(queries, np.ndarray) else queries.stop - queries.start
        return np.full((m, k), np.inf)
    square = np.nextafter(np.minimum(limit[queries], 1e150) ** 2 * (1 + 1e-15), np.inf)
    return np.repeat(square[:, None], k, axis=1)


def unfilled(distance: Floats, row: Ints) -> tuple[Floats, Ints]:
    """Lists whose places that no row fills are infinitely far."""
    return np.where(row == NOBODY, np.inf, distance), row


def merge_lists(a: tuple[Floats, Ints], b: tuple[Floats, Ints], k: int) -> tuple[Floats, Ints]:
    """The k nearest of two sets of lists, by distance, then row."""
    distance = np.concatenate([a[0], b[0]], axis=1)
    row = np.concatenate([a[1], b[1]], axis=1)
    order = np.lexsort((row, distance))[:, :k]
    return np.take_along_axis(distance, order, 1), np.take_along_axis(row, order, 1)


def k_smallest(D: Floats, k: int) -> tuple[Floats, Ints]:
    """The k smallest of each row of D and their columns, equal ones by column; columns ascend."""
    if D.shape[1] <= k:
        return D, np.broadcast_to(np.arange(D.shape[1]), D.shape)
    kth = np.partition(D, k - 1, axis=1)[:, k - 1 : k]
    below, equal = kth > D, kth == D
    wanted = k - below.sum(axis=1, keepdims=True)
    below |= equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= wanted)
    column = np.nonzero(below)[1].reshape(len(D), k)
    return np.take_along_axis(D, column, 1), column


def nearest_in_tiles(
    distances: Callable[[slice], Floats], m: int, n: int, k: int, step: int, own: Ints | None = None
) -> tuple[Floats, Ints]:
    """The k nearest of n rows to each of m queries, k values per query held at a time.

    `distances(tile)` are those of all m queries to a slice of the rows. `own[i]`, if given, is the
    row that query i must not find. NaN counts as infinitely far.
    """
    best, best_row = np.full((m, k), np.inf), np.full((m, k), n, dtype=np.int64)
    for tile in spans(n, step):
        D = np.asarray(distances(tile), dtype=np.float64)
        if np.isnan(D).any():
            D = np.where(np.isnan(D), np.inf, D)
        if own is not None:
            here = np.flatnonzero((own >= tile.start) & (own < tile.stop))
            D[here, own[here] - tile.start] = np.nan  # ordered after everything, inf too
        live = np.flatnonzero(np.fmin.reduce(D, axis=1, initial=np.inf) < best[:, -1])
        short = np.flatnonzero(best_row[:, -1] == n)  # fewer than k rows so far, inf is welcome
        live = np.union1d(live, short)
        new, column = k_smallest(D[live], k)
        joined = np.concatenate([best[live], new], axis=1)
        rows = np.concatenate([best_row[live], column + tile.start], axis=1)
        joined[np.isnan(joined)] = np.inf
        rows[:, k:][np.isnan(new)] = n
        best[live], best_row[live] = first_k(joined, rows, k)
    return best, best_row


def first_k(distance: Floats, row: Ints, k: int) -> tuple[Floats, Ints]:
    """The first k of lists (m, more), by distance, then row."""
    order = np.lexsort((row, distance))[:, :k]
    return np.take_along_axis(distance, order, 1), np.take_along_axis(row, order, 1)


def first_k_of_pairs(
    query: Ints, row: Ints, distance: Floats, m: int, k: int
) -> tuple[Floats, Ints]:
    """Lists (m, k) from pairs, at least k for each of the m queries, by distance, then row."""
    order = np.lexsort((row, distance, query))
    first = np.searchsorted(query[order], np.arange(m))
    chosen = order[first[:, None] + np.arange(k)]
    return distance[chosen], row[chosen]


def without_own(distance: Floats, row: Ints, own: Ints) -> tuple[Floats, Ints]:
    """Lists of k + 1 without the query's own row; where it is not listed, without the last."""
    m, width = row.shape
    place = np.where((row == own[:, None]).any(axis=1), (row == own[:, None]).argmax(axis=1), -1)
    place[place < 0] = width - 1
    kept = np.arange(width) != place[:, None]
    return distance[kept].reshape(m, -1), row[kept].reshape(m, -1)


def groups_of_counts(counts: Array, most: int) -> list[slice]:
    """0..len(counts) in consecutive slices whose counts add up to at most `most` (or hold one)."""
    cuts, total = [0], 0
    for i, count in enumerate(counts.tolist()):
        if total and total + count > most:
            cuts.append(i)
            total = 0
        total += count
    cuts.append(len(counts))
    return [slice(a, b) for a, b in pairwise(cuts) if b > a]
