"""Exact neighbours among rows that lie in parts on a cluster.

Each part has an index of its own, built where the rows are and kept there. A block of queries
visits the part whose centre is nearest first; its k-th distances limit the search in the next
part, theirs in the next two, four, ..., so that pruning survives the cuts. Lists are merged by
distance, then by the number of the row in the whole table: the neighbours are those of one index
of all rows.

A worker that is lost takes its indexes with it; Dask builds them again from the rows.

What needs the rows of neighbours (the weights of LLE, say) is computed there too: a task fetches
them from the parts in which they lie (`mapped`, `fetched`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nearfold.blocks import DaskRows, get_memory, require_memory, spans
from nearfold.blocks.cluster import shared, task
from nearfold.blocks.dask_rows import Reader
from nearfold.errors import InputError, NonFiniteError
from nearfold.inputs import refuse_nonfinite
from nearfold.messages import Message
from nearfold.neighbors.exact import EuclideanIndex, Index, build_index
from nearfold.neighbors.selection import NOBODY, merge_lists, without_own
from nearfold.notation import Array, Floats, Ints

_QUERIES = 4096  # of a block: enough for a part's index to be worth its visit
_FETCHED = 2**22  # values of rows that one task fetches from the parts
_SENT = 2**19  # row numbers sent to the tasks of one computation

Lists = tuple[Floats, Ints]


def index_of_part(
    values: Any, start: int, y: Any, weights: Any, reader: Reader, options: dict[str, Any]
) -> Index:
    """The index of the rows of a part."""
    blocks = [block.dense() for block in reader.blocks(values, start, y, weights)]
    X = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    try:
        return build_index(X, **options)
    except NonFiniteError:
        refuse_nonfinite(X, options.get("names"), start)  # by its number in the whole table
        raise


def index_of_some(index: Index, rows: Ints) -> Index:
    """The index of some rows of a part."""
    return index.part(rows)


def centre_of_part(index: Index) -> Floats:
    """The mean of the rows."""
    return np.asarray(index.X.mean(axis=0, dtype=np.float64))


def rows_of_part(index: Index) -> Array:
    """The rows."""
    return np.asarray(index.X)


class FetchedRows:
    """Some rows of a table, found by their numbers in it (ascending)."""

    def __init__(self, numbers: Ints, rows: Array) -> None:
        self.numbers, self.rows = numbers, rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.rows), int(self.rows.shape[1])

    def __getitem__(self, numbers: Ints) -> Array:
        """Rows by their numbers, in an array of any shape."""
        found: Array = self.rows[np.searchsorted(self.numbers, numbers)]
        return found


def rows_in_part(index: Index, start: int, wanted: Ints) -> tuple[Ints, Array]:
    """Those of the wanted rows (numbers in the whole table, in any shape) that lie in a part."""
    wanted = np.unique(wanted)
    first, last = np.searchsorted(wanted, [start, start + index.n_rows])
    return wanted[first:last], np.asarray(index.X[wanted[first:last] - start])


def join_rows(*pieces: tuple[Ints, Array]) -> FetchedRows:
    """The rows found in several parts, in their order."""
    numbers, rows = zip(*pieces, strict=True)
    return FetchedRows(np.concatenate(numbers), np.concatenate(rows))


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


def joined_lists(found: list[Lists]) -> Lists:
    """The lists of blocks of queries as those of all."""
    return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])


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
        self._rows = rows
        self._n_rows = int(rows.n_rows or 0)
        self._built = rows.tasks(index_of_part, options)
        self.indexes = rows.keep(self._built)
        self.centres = np.array(self._run([task(centre_of_part, one) for one in self.indexes]))
        self.options = options

    def _run(self, tasks: list[Any], label: str = "neighbours") -> list[Any]:
        found: list[Any] = self._rows.run(tasks, label, of=self._built)
        return found

    @property
    def n_rows(self) -> int:
        """Number of rows searched."""
        return self._n_rows

    @property
    def X(self) -> Any:
        """Refused: the rows are on the cluster."""
        raise InputError(Message("cluster.rows_there"))

    def without_structures(self) -> PartitionedIndex:
        """The same: nothing but the tasks of its parts is held here."""
        return self

    def part(self, rows: Ints) -> PartitionedIndex:
        """An index of some of the rows (ascending), which stay where they are."""
        ends = np.searchsorted(rows, [*(part.start for part in self.parts), self.n_rows]).tolist()
        kept = [i for i in range(len(self.parts)) if ends[i] < ends[i + 1]]
        parts, indexes = [], []
        for i in kept:
            mine, part = rows[ends[i] : ends[i + 1]], self.parts[i]
            parts.append(replace(part, start=ends[i], length=len(mine)))
            indexes.append(task(index_of_some, self.indexes[i], mine - part.start))
        other = copy(self)
        vars(other).update(
            parts=tuple(parts), indexes=indexes, centres=self.centres[kept], _n_rows=len(rows)
        )
        return other

    def collected(self) -> Index:
        """The same index in this process, if all rows fit the memory budget."""
        self._require_rows(self.n_rows, Message("cluster.all_rows"))
        X = np.concatenate(self._run([task(rows_of_part, one) for one in self.indexes]))
        return build_index(X, **self.options)

    def _require_rows(self, count: int, what: Message) -> None:
        size = 2.0 * count * self.n_features * self.dtype.itemsize
        require_memory(size, what, Message("cluster.take_sample"))

    def take(self, numbers: Ints) -> FetchedRows:
        """Rows by their numbers, brought here if they fit the memory budget."""
        wanted = np.unique(numbers)
        self._require_rows(len(wanted), Message("cluster.some_rows", n=len(wanted)))
        found: FetchedRows = self._run([self.fetched(wanted)])[0]
        return found

    def fetched(self, wanted: Any) -> Any:
        """A task that fetches rows from the parts in which they lie.

        `wanted` are their numbers (ascending), or a task that finds them: then every part is asked.
        """
        sought = [wanted] * len(self.parts)
        if isinstance(wanted, np.ndarray):
            firsts = np.searchsorted(wanted, [part.start for part in self.parts[1:]])
            sought = np.split(wanted, firsts)
        pieces = [
            task(rows_in_part, index, part.start, some)
            for index, part, some in zip(self.indexes, self.parts, sought, strict=True)
            if not isinstance(some, np.ndarray) or len(some)
        ]
        return task(join_rows, *pieces)

    def mapped(self, function: Callable[..., Array], rows: Ints, near: Ints) -> Array:
        """`function(X, rows, near)` of blocks of rows, joined; it is computed on the cluster.

        X holds these rows and their neighbours `near` (len(rows), k), found by their numbers.
        """
        step = max(1, _FETCHED // ((near.shape[1] + 1) * self.n_features))
        some = max(step, _SENT // near.shape[1])
        found: list[Array] = []
        for part in spans(len(rows), some):
            tasks = []
            for cut in spans(part.stop - part.start, step):
                own, other = rows[part][cut], near[part][cut]
                wanted = np.union1d(own, other)
                tasks.append(task(function, self.fetched(wanted), own, other))
            found += self._run(tasks, "weights")
        return np.concatenate(found)

    def nearest(self, Q: Any, k: int) -> Lists:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        m = self.n_rows if Q is None else len(Q)
        # The lists, and once more while they are joined.
        require_memory(32.0 * m * k, Message("cluster.lists", k=k, m=m), Message("cluster.fewer"))
        if Q is None:
            tasks = self._own_lists(k)
        else:
            cuts = spans(len(Q), _QUERIES)
            tasks = [self.lists(shared(Q[cut]), Q[cut].mean(axis=0), k) for cut in cuts]
        return joined_lists(self._run(tasks))

    def _own_lists(self, k: int) -> list[Any]:
        tasks = []
        for own, centre, part in zip(self.indexes, self.centres, self.parts, strict=True):
            found = self.lists(task(rows_of_part, own), centre, k + 1)
            tasks.append(task(leave_out_own, found, part.start))
        return tasks

    def own_blocks(self, k: int) -> Iterator[tuple[slice, Floats, Ints]]:
        """The lists of the rows themselves, of as many parts at a time as the budget holds."""
        tasks, held = self._own_lists(k), [32.0 * k * part.length for part in self.parts]
        while tasks:
            share = np.cumsum(held[-len(tasks) :])
            some = max(1, int(np.searchsorted(share, get_memory() / 4)))
            first = self.parts[-len(tasks)].start
            distance, row = joined_lists(self._run(tasks[:some]))
            yield slice(first, first + len(row)), distance, row
            del tasks[:some]

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
                task(
                    nearest_in_part, self.indexes[i], self.parts[i].start, Q, k, lists,
                    block=self.parts[i].describe(int(i)),
                )
                for i in order[done : done + wave]
            ]  # fmt: skip
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
        found = self._run(tasks)
        query, row, distance = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.lexsort((row, distance, query))
        return query[order], row[order], distance[order]


def within_part(
    index: Index, start: int, Q: Any, radius: float | Floats
) -> tuple[Ints, Ints, Floats]:
    """The pairs of a part, rows numbered as in the whole table."""
    query, row, distance = index.within(Q, radius)
    return query, row + start, distance


def rows_at(index: Any, numbers: Ints) -> Any:
    """What holds the rows of these numbers, and gives them as `found[numbers]`."""
    return index.take(numbers) if isinstance(index, PartitionedIndex) else index.X
