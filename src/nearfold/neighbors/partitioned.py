"""Exact neighbours among rows that lie in parts on a cluster.

Each part has an index of its own, built where the rows are and kept there. A block of queries
visits the part whose centre is nearest first; its k-th distances limit the search in the next
part, theirs in the next two, four, ..., so that pruning survives the cuts. Lists are merged by
distance, then by the number of the row in the whole table: the neighbours are those of one index
of all rows.

A worker that is lost takes its indexes with it; Dask builds them again from the rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from nearfold.blocks import DaskRows, require_memory, spans
from nearfold.blocks.cluster import compute, keep, shared, task
from nearfold.blocks.dask_rows import Reader
from nearfold.blocks.lazy import Call, whole_rows
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.neighbors.exact import EuclideanIndex, Index, build_index
from nearfold.neighbors.selection import NOBODY, merge_lists, without_own
from nearfold.notation import Array, Floats, Ints

_QUERIES = 4096  # of a block: enough for a part's index to be worth its visit

Lists = tuple[Floats, Ints]


def index_of_part(
    values: Any, start: int, y: Any, weights: Any, reader: Reader, options: dict[str, Any]
) -> Index:
    """The index of the rows of a part."""
    blocks = [block.dense() for block in reader.blocks(values, start, y, weights)]
    X = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    return build_index(X, **options)


def centre_of_part(index: Index) -> Floats:
    """The mean of the rows."""
    return np.asarray(index.X.mean(axis=0, dtype=np.float64))


def rows_of_part(index: Index) -> Array:
    """The rows."""
    return np.asarray(index.X)


def nearest_in_part(index: Index, start: int, Q: Any, k: int, before: Lists | None = None) -> Lists:
    """The k nearest rows of a part, with their numbers in the whole table.

    Lists `before` it limit the search.
    """
    few = min(k, index.n_rows)
    if before is not None and isinstance(index, EuclideanIndex):
        distance, row = index.nearest(Q, few, before[0][:, -1])
    else:
        distance, row = index.nearest(Q, few)
    row = np.where(row == NOBODY, NOBODY, row + start)
    if few < k:
        room = ((0, 0), (0, k - few))
        distance = np.pad(distance, room, constant_values=np.inf)
        row = np.pad(row, room, constant_values=NOBODY)
    return distance, row


def leave_out_own(lists: Lists, start: int) -> Lists:
    """Lists of one neighbour more, of the rows of a part, without these rows themselves."""
    distance, row = lists
    return without_own(distance, row, np.arange(start, start + len(row)))


class PartitionedIndex:
    """Rows in parts on a cluster, ready to be searched."""

    searches_at_once = True  # one call for all queries: blocks are cut here

    def __init__(self, rows: DaskRows, **options: Any) -> None:
        self.parts = rows.parts
        self.n_features = rows.n_features
        self.dtype = rows.dtype
        self._n_rows = int(rows.n_rows or 0)
        built = rows.tasks(index_of_part, options)
        self.indexes = keep(built)
        found = rows.run([task(centre_of_part, one) for one in self.indexes], of=built)
        self.centres = np.array(found)
        self.options = options

    @property
    def n_rows(self) -> int:
        """Number of rows searched."""
        return self._n_rows

    @property
    def X(self) -> Any:
        """Refused: the rows are on the cluster."""
        raise InputError(Message("cluster.rows_there"))

    def part(self, rows: Any) -> Index:
        """Refused: the rows are on the cluster."""
        raise InputError(Message("cluster.rows_there"))

    def collected(self) -> Index:
        """The same index in this process, if all rows fit the memory budget."""
        size = float(self.n_rows) * self.n_features * self.dtype.itemsize
        require_memory(2 * size, Message("cluster.all_rows"), Message("cluster.take_sample"))
        X = np.concatenate(compute([task(rows_of_part, one) for one in self.indexes]))
        return build_index(X, **self.options)

    def nearest(self, Q: Any, k: int) -> Lists:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        if Q is None:
            tasks = []
            for own, centre, part in zip(self.indexes, self.centres, self.parts, strict=True):
                found = self.lists(task(rows_of_part, own), centre, k + 1)
                tasks.append(task(leave_out_own, found, part.start))
        else:
            cuts = spans(len(Q), _QUERIES)
            tasks = [self.lists(shared(Q[cut]), Q[cut].mean(axis=0), k) for cut in cuts]
        done = compute(tasks, "neighbours")
        return np.concatenate([d[0] for d in done]), np.concatenate([d[1] for d in done])

    def lists(self, Q: Any, centre: Floats | None, k: int, first: int = 0) -> Any:
        """The neighbour lists of a block of queries (delayed), as a task.

        Parts are visited from the nearest to their centre on or, where it is not known, from the
        `first` on.
        """
        order = np.roll(np.arange(len(self.parts)), -first)
        if centre is not None:
            order = np.argsort(((self.centres - centre) ** 2).sum(axis=1), kind="stable")
        lists: Any = None
        done, wave = 0, 1
        while done < len(order):
            found = [
                task(nearest_in_part, self.indexes[i], self.parts[i].start, Q, k, lists)
                for i in order[done : done + wave]
            ]
            for one in found:
                lists = one if lists is None else task(partial(merge_lists, k=k), lists, one)
            done, wave = done + wave, done + wave
        return lists

    def within(self, Q: Any, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        if Q is None:
            raise InputError(Message("cluster.rows_there"))
        sent = shared(Q)
        tasks = [
            task(within_part, one, part.start, sent, radius)
            for one, part in zip(self.indexes, self.parts, strict=True)
        ]
        found = compute(tasks, "neighbours")
        query, row, distance = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.lexsort((row, distance, query))
        return query[order], row[order], distance[order]


def within_part(
    index: Index, start: int, Q: Any, radius: float | Floats
) -> tuple[Ints, Ints, Floats]:
    """The pairs of a part, rows numbered as in the whole table."""
    query, row, distance = index.within(Q, radius)
    return query, row + start, distance


# ---- methods of an estimator whose index is here, on a Dask table ------------------------------


class FoundLists:
    """In place of an index: the lists of one block of queries, found elsewhere."""

    searches_at_once = True

    def __init__(self, n_rows: int, lists: Lists) -> None:
        self.n_rows, self.lists = n_rows, lists

    def nearest(self, Q: Any, k: int) -> Lists:
        """The lists, which are those of Q."""
        return self.lists


def apply_to_lists(
    estimator: Any,
    index: PartitionedIndex,
    k: int,
    method: str,
    X: Any,
    args: tuple[Any, ...],
    named: dict[str, Any],
) -> Any:
    """A method of an estimator on a Dask array, lazily: lists from all parts, then the method."""
    from dask.array import concatenate, from_delayed

    if hasattr(X, "columns"):
        X = X.to_dask_array()
    X, call = whole_rows(X), Call(method, args, named)
    one = np.ones((1, X.shape[1]), X.dtype), (np.ones((1, k)), np.arange(k)[None])
    example = call_with_lists(*one, estimator, call, index.n_rows)
    parts = example if isinstance(example, tuple) else (example,)
    sent = shared(estimator)
    columns: list[list[Any]] = [[] for _ in parts]
    for number, (Q, length) in enumerate(zip(X.to_delayed().ravel(), X.chunks[0], strict=True)):
        lists = index.lists(Q, None, k, first=number)
        made = task(call_with_lists, Q, lists, sent, call, index.n_rows)
        for i, (column, part) in enumerate(zip(columns, parts, strict=True)):
            piece = task(_result, made, i) if isinstance(example, tuple) else made
            column.append(from_delayed(piece, (length, *part.shape[1:]), part.dtype))
    arrays = tuple(concatenate(column) for column in columns)
    return arrays if isinstance(example, tuple) else arrays[0]


def call_with_lists(Q: Any, lists: Lists, estimator: Any, call: Call, n_rows: int) -> Any:
    """The method for a block of queries whose lists are known."""
    mine: Any = object.__new__(type(estimator))  # tasks of one process share what was sent
    mine.__dict__.update(vars(estimator), index_=FoundLists(n_rows, lists))
    return call(mine, Q)


def _result(results: tuple[Array, ...], i: int) -> Array:
    return results[i]
