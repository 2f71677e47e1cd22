"""Places of neighbours by distance among rows that lie in parts on a cluster, counted part by part.

A row's neighbours in the other space are known (n k numbers, in this process). Their distances come
from the parts they lie in; then every part is compared with every other, tile by tile, and counts
how many of its rows come before each of them. The counts of all parts are added. Rows come before
one another as in `Space`: by squares of differences in float64, then by row number; so the places
are those of the same tables in memory.
"""

from __future__ import annotations

from functools import partial
from operator import add
from typing import Any

import numpy as np

from nearfold.blocks import DaskRows, is_dask, require_memory, spans
from nearfold.blocks.cluster import keep, shared, task
from nearfold.blocks.work import combine_pairwise
from nearfold.errors import InputError
from nearfold.inputs import refuse_bad_blocks, refuse_extreme
from nearfold.linalg import pair_squares, square_norms, squared_distance_error, squared_distances
from nearfold.linalg.moments import table_extremes
from nearfold.messages import Message
from nearfold.neighbors import is_euclidean
from nearfold.neighbors.partitioned import PartitionedIndex
from nearfold.notation import Array, Floats, Ints
from nearfold.quality.spaces import NARROW, squares_by_difference

_ROWS, _OTHERS = 256, 1024  # of a tile of distances, which stays in a core's cache
_PAIR_BYTES = 40.0  # of a row and one of its neighbours: lists, numbers, places


def dask_spaces(X: Any, Z: Any, metric: Any) -> tuple[DaskRows, DaskRows]:
    """The rows of both spaces, of which one at least is a Dask table, checked."""
    if not is_euclidean(metric, 2, None):
        raise InputError(Message("cluster.metric", metric=repr(metric)))
    original, embedded = (_checked(_on_dask(table)) for table in (X, Z))
    n, m = original.n_rows or 0, embedded.n_rows or 0
    if n != m:
        raise InputError(Message("cluster.spaces", n=n, m=m))
    if n < 3:
        raise InputError(f"X has {n} rows: a space is judged on three or more.")
    return original, embedded


def _on_dask(table: Any) -> Any:
    from dask.array import from_array

    return table if is_dask(table) else from_array(np.asarray(table), chunks=(50_000, -1))


def _checked(table: Any) -> DaskRows:
    rows = DaskRows(table)
    low, high = table_extremes(rows)
    if not np.isfinite(low + high).all():
        refuse_bad_blocks(rows)
    refuse_extreme(float((high / 2 - low / 2).max(initial=0.0)), np.float64)
    return rows


def places_of_neighbors(rows: DaskRows, others: DaskRows, k: int) -> Ints:
    """The place among `rows`, from each row, of its k nearest of the space of `others`."""
    n = rows.n_rows or 0
    what = Message("cluster.vector", name=f"{k} neighbours", rows=n)
    require_memory(_PAIR_BYTES * n * k, what, Message("cluster.take_sample"))
    near = PartitionedIndex(others, metric="euclidean", k_hint=k).nearest(None, k)[1]
    return count_in_parts(rows, near)


def count_in_parts(rows: DaskRows, near: Ints) -> Ints:
    """The place, from row i, of each row near[i]."""
    made = rows.tasks(dense_part)
    values, found = keep(made), []
    for own, X in zip(rows.parts, values, strict=True):
        mine = near[own.rows]
        given, sides = shared(mine), list(zip(rows.parts, values, strict=True))
        with_some = [
            task(given_squares, X, given, there, part.start, block=own.describe(i))
            for i, (part, there) in enumerate(sides)
            if ((mine >= part.start) & (mine < part.start + part.length)).any()
        ]
        squares = combine_pairwise(with_some, partial(task, add))
        counts = [
            task(count_before, X, own.start, given, squares, there, part.start)
            for part, there in sides
        ]
        found.append(combine_pairwise(counts, partial(task, add)))
    return 1 + np.concatenate(rows.run(found, "ranking neighbours", of=made))


def dense_part(values: Any, start: int, y: Any, weights: Any, reader: Any) -> Array:
    """The rows of a part."""
    return np.concatenate([b.dense() for b in reader.blocks(values, start, y, weights)])


def given_squares(X: Array, near: Ints, there: Array, first: int) -> Floats:
    """Squared distances of the rows X to those given that lie in a part; 0 for the others."""
    i, k = np.nonzero((near >= first) & (near < first + len(there)))
    squares = np.zeros(near.shape)
    squares[i, k] = _exact_squares(X, there, i, near[i, k] - first)
    return squares


def _exact_squares(A: Array, B: Array, i: Ints, j: Ints) -> Floats:
    """Squares of pairs of rows, to the bits of `Space`."""
    if A.shape[1] > NARROW:
        return pair_squares(A, B, i, j)
    here, there = A[i].astype(np.float64), B[j].astype(np.float64)
    squares = np.zeros(len(i))
    for c in range(A.shape[1]):
        squares += (here[:, c] - there[:, c]) ** 2
    return squares


def count_before(
    X: Array, start: int, near: Ints, squares: Floats, there: Array, first: int
) -> Ints:
    """How many rows of a part come before each given row, from each of the rows X."""
    counts = np.zeros(near.shape, dtype=np.int64)
    measure = _Tiles(X, there)
    for a in spans(len(X), _ROWS):
        for b in spans(len(there), _OTHERS):
            D, error = measure.squares(a, b)
            own = np.arange(a.start, a.stop) + start - first - b.start
            inside = np.flatnonzero((own >= 0) & (own < D.shape[1]))
            D[inside, own[inside]] = np.inf  # no row has a place from itself
            counts[a] += _count_tile(
                D, error, X[a], there[b], near[a] - first - b.start, squares[a]
            )
    return counts


def _count_tile(
    D: Floats, error: Floats, here: Array, there: Array, given: Ints, squares: Floats
) -> Ints:
    """Rows of a tile that come before the given ones, numbered from the tile's first row."""
    counts = np.empty(given.shape, dtype=np.int64)
    for k in range(given.shape[1]):
        low, high = (squares[:, k] + side * error for side in (-1, 1))
        counts[:, k] = np.count_nonzero(D < low[:, None], axis=1)
        doubt = np.count_nonzero(D <= high[:, None], axis=1) > counts[:, k]
        some = np.flatnonzero(doubt)
        i, j = np.nonzero((D[some] >= low[some, None]) & (D[some] <= high[some, None]))
        i = some[i]
        exact, mine = _exact_squares(here, there, i, j), squares[i, k]
        before = (exact < mine) | ((exact == mine) & (j < given[i, k]))
        counts[:, k] += np.bincount(i[before], minlength=len(D))
    return counts


class _Tiles:
    """Squared distances of two parts, tile by tile, with a bound of their error for each row."""

    def __init__(self, A: Array, B: Array) -> None:
        self.A, self.B = A, B
        self.narrow = A.shape[1] <= NARROW
        if not self.narrow:
            with np.errstate(over="ignore", invalid="ignore"):
                centre = A.mean(axis=0, dtype=np.float64)
            self.centre = np.where(np.isfinite(centre), centre, A[0])
            self.offset = float(np.abs(self.centre).max()) * A.shape[1] ** 0.5

    def squares(self, a: slice, b: slice) -> tuple[Floats, Floats]:
        """Of the rows in two slices."""
        if self.narrow:
            D = np.empty((a.stop - a.start, b.stop - b.start))
            squares_by_difference(self.A[a], self.B[b], D)
            return D, np.zeros(len(D))
        here, there = self.A[a] - self.centre, self.B[b] - self.centre
        norms = square_norms(here), square_norms(there)
        D = squared_distances(here, there, *norms)
        reach = np.sqrt(norms[0]) + np.sqrt(norms[1].max())
        return D, 2 * squared_distance_error(self.A.shape[1], reach, self.offset)
