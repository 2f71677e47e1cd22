"""A Dask array or frame as `Rows`: statistics of its blocks are computed where the blocks are.

    a row chunk of an array, a partition of a frame     one part: one task
    unknown sizes                                       counted, in one pass
    chunks of columns                                   joined, which is said
    empty parts                                         left out
    weights, labels                                     cut like the rows; arrays or Dask's

Within a part the blocks are those of the same rows in memory, and parts are joined pairwise by
their number alone. So neither the number of workers nor that of threads changes a bit, and where
the parts are cut like the blocks of an array in memory the result is that of the array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from nearfold.blocks.cluster import (
    KilledError,
    UnreadableError,
    compute,
    is_dask,
    keep,
    shared,
    task,
)
from nearfold.blocks.frames import FrameRows, NamedRows
from nearfold.blocks.lazy import example_of, whole_rows
from nearfold.blocks.memory import require_memory
from nearfold.blocks.rows import ArrayRows, Block, Rows, floating_dtype
from nearfold.blocks.work import combine_pairwise
from nearfold.errors import BlockError, InputError
from nearfold.messages import Message

Statistic = TypeVar("Statistic")


@dataclass(frozen=True)
class Part:
    """One part of the table: its delayed values, which rows these are, what is attached to them."""

    values: Any
    start: int
    length: int
    y: Any = None
    weights: Any = None

    @property
    def rows(self) -> slice:
        """Which rows of the whole table these are."""
        return slice(self.start, self.start + self.length)

    def describe(self, number: int) -> str:
        """In words, for messages."""
        return f"rows {self.start} to {self.start + self.length - 1} (block {number})"


@dataclass(frozen=True)
class Reader:
    """How a worker sees the values of a part as blocks."""

    dtype: Any
    schema: dict[str, Any] | None = None  # a frame's columns, those to be read
    target: str | None = None

    def blocks(self, values: Any, start: int, y: Any, weights: Any) -> Iterator[Block]:
        """The blocks of a part, numbered as rows of the whole table."""
        rows: Any = self._rows(values)
        if y is not None:
            rows = rows.with_target(np.asarray(y))
        if weights is not None:
            rows = rows.with_weights(_checked_weights(weights))
        for block in rows.blocks():
            X = block.X if block.X.dtype == self.dtype else block.X.astype(self.dtype)
            yield Block(X, block.start + start, block.y, block.weights)

    def _rows(self, values: Any) -> Rows:
        if self.schema is None:
            return ArrayRows(values if sparse.issparse(values) else np.asarray(values))
        frame = FrameRows(values)
        return frame.select(list(self.schema), self.target)


def statistic_of_part(
    values: Any,
    start: int,
    y: Any,
    weights: Any,
    reader: Reader,
    function: Callable[[Block], Statistic],
    combine: Callable[[Statistic, Statistic], Statistic],
) -> Statistic:
    """The statistic of the blocks of a part."""
    return combine_pairwise(map(function, reader.blocks(values, start, y, weights)), combine)


def listed(block: Block, function: Callable[[Block], Statistic]) -> list[Statistic]:
    """The function of a block, as a list to be joined with others."""
    return [function(block)]


class DaskRows(NamedRows):
    """Rows of a Dask array or frame."""

    parts: tuple[Part, ...]
    schema: dict[str, Any]
    block_share = ArrayRows.block_share

    def __init__(self, X: Any) -> None:
        X, meta = _as_table(X)
        lengths = _lengths(X)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(int).tolist()
        self.parts = tuple(
            Part(values, start, length)
            for values, start, length in zip(_values(X), starts, lengths, strict=False)
            if length > 0
        )
        self.n_rows = starts[-1]
        self.collection = X
        if hasattr(meta, "columns"):
            frame = FrameRows(meta)
            vars(self).update(schema=frame.schema, **self._facts(frame.schema))
        else:
            self.schema = {}
            self.n_features, self.dtype = int(X.shape[1]), floating_dtype(meta.dtype)

    @property
    def reader(self) -> Reader:
        """How workers read the parts."""
        return Reader(self.dtype, self.schema or None, self.target_column)

    def with_target(self, target: Any) -> Rows:
        """The same rows with targets: a column by name, an array, or a Dask array or series."""
        if isinstance(target, str):
            return super().with_target(target)
        return self._attach("y", target)

    def with_weights(self, weights: Any) -> Rows:
        """The same rows with weights: an array, or a Dask array or series."""
        return self if weights is None else self._attach("weights", weights)

    def _attach(self, name: str, values: Any) -> Any:
        """What belongs to the rows, cut as they are."""
        pieces = _cut(values, self.parts, self.n_rows or 0, name)
        changed = (
            Part(**{**vars(part), name: piece})
            for part, piece in zip(self.parts, pieces, strict=True)
        )
        return self._changed(parts=tuple(changed))

    def tasks(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """`function(values, start, y, weights, reader, *arguments)` of each part, not yet run."""
        common = [shared(value) for value in (self.reader, *arguments)]
        return [
            task(function, p.values, p.start, p.y, p.weights, *common, block=p.describe(i))
            for i, p in enumerate(self.parts)
        ]

    def run(self, tasks: list[Any], label: str = "reading", of: list[Any] | None = None) -> Any:
        """The results of tasks; an error names the part. `of`: the tasks of the parts behind."""
        with self._naming(of or tasks):
            return compute(tasks, label)

    def keep(self, tasks: list[Any]) -> list[Any]:
        """The tasks of the parts begun; their results stay where they are computed."""
        with self._naming(tasks):
            return keep(tasks)

    @contextmanager
    def _naming(self, tasks: list[Any]) -> Iterator[None]:
        try:
            yield
        except KilledError as error:
            raise BlockError(
                Message("cluster.killed", block=self._part_of(error.key, tasks))
            ) from error
        except UnreadableError:
            self._name_unreadable()
            raise

    def _part_of(self, key: str, tasks: list[Any]) -> str:
        """The part that a task of this key is about, in words."""
        for i, (made, part) in enumerate(zip(tasks, self.parts, strict=False)):
            behind = part.values.dask.cull([part.values.key])
            if key == made.key or key in map(str, behind):
                return part.describe(i)
        return f"a task on {self.describe()}"

    def _name_unreadable(self) -> None:
        """Read the parts one by one, and raise an error that names the first that fails."""
        for i, part in enumerate(self.parts):
            try:
                compute([task(_count_rows, part.values)])
            except UnreadableError as error:
                reason = error.__cause__
                said = f"{type(reason).__name__}: {reason}"
                raise BlockError(
                    Message("cluster.failed", block=part.describe(i), reason=said)
                ) from reason

    def combined(self, function: Any, combine: Any, *, label: str = "reading", **local: Any) -> Any:
        """One statistic of all blocks, joined on the cluster: only the last comes here."""
        statistics = self.tasks(statistic_of_part, function, combine)
        joined = combine_pairwise(statistics, partial(task, combine))
        return self.run([joined], label, of=statistics)[0]

    def mapped(self, function: Callable[[Block], Statistic]) -> Iterable[Statistic]:
        """`function` of each block, in order: small results, for they all come here."""
        found: list[Statistic] = self.combined(partial(listed, function=function), add)
        return found

    def read(self) -> Iterator[Block]:
        """Refused: the blocks stay where they are."""
        raise InputError(Message("cluster.collect", table=self.describe()))

    def to_array(self) -> Any:
        """Refused: nothing is brought here in silence."""
        raise InputError(Message("cluster.collect", table=self.describe()))

    def describe(self) -> str:
        """What the source is."""
        kind = "frame" if self.schema else "array"
        return f"a Dask {kind} of {self.n_rows:,} x {self.n_features}"


def _as_table(X: Any) -> tuple[Any, Any]:
    """X with whole rows, and an empty example of its values."""
    if getattr(X, "ndim", 0) != 2:
        raise InputError(Message("cluster.no_table", kind=type(X).__name__))
    return whole_rows(X) if _is_array(X) else X, example_of(X)


def _values(X: Any) -> list[Any]:
    return list(np.ravel(np.asarray(X.to_delayed(), dtype=object)))


def known_lengths(X: Any, target: Any = None) -> tuple[list[float], int, Any]:
    """Rows of each part (NaN where only counting tells), columns and dtype; nothing is computed.

    `target` may name a column, which is then no feature.
    """
    meta = example_of(X)
    if not hasattr(meta, "columns"):
        return [float(n) for n in X.chunks[0]], int(X.shape[1]), floating_dtype(meta.dtype)
    rows: Rows = FrameRows(meta)
    if isinstance(target, str):
        rows = rows.with_target(target)
    return [np.nan] * X.npartitions, rows.n_features, rows.dtype


def _lengths(X: Any) -> list[int]:
    """Rows of each part; counted where they are not known."""
    known = X.chunks[0] if _is_array(X) else (np.nan,)
    if not np.isnan(known).any():
        return [int(n) for n in known]
    counts = [task(_count_rows, values, block=f"block {i}") for i, values in enumerate(_values(X))]
    return [int(n) for n in compute(counts, "counting")]


def _is_array(X: Any) -> bool:
    from dask.array import Array

    return isinstance(X, Array)


def _count_rows(values: Any) -> int:
    return int(values.shape[0])


def _cut(values: Any, parts: tuple[Part, ...], n_rows: int, name: str) -> list[Any]:
    """What belongs to the rows of each part."""
    word = {"y": "y", "weights": "sample_weight"}[name]
    if not is_dask(values):
        values = np.asarray(values)
        if len(values) != n_rows:
            raise InputError(Message("cluster.lengths", name=word, n=len(values), rows=n_rows))
        return [values[part.rows] for part in parts]
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0] if _is_array(values) else values.iloc[:, 0]
    lengths = _lengths(values)
    if sum(lengths) != n_rows:
        raise InputError(Message("cluster.lengths", name=word, n=sum(lengths), rows=n_rows))
    array = _vector(values, lengths)
    return _values(array.rechunk((tuple(part.length for part in parts),)))


def collect_vector(values: Any, n_rows: int | None, name: str) -> Any:
    """Labels, targets or weights of all rows, brought here if they fit the memory budget.

    Where the number of rows is None and not known to Dask they are counted first.
    """
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0] if _is_array(values) else values.iloc[:, 0]
    width = values.shape[1] if values.ndim == 2 else 1
    n_rows = sum(_lengths(values)) if n_rows is None else n_rows
    what = Message("cluster.vector", name=name, rows=n_rows)
    require_memory(8.0 * n_rows * width, what, Message("cluster.take_sample"))
    return np.concatenate([np.asarray(part) for part in compute(_values(values))])


def _vector(values: Any, lengths: list[int]) -> Any:
    """A Dask array or series as an array whose chunks have these lengths."""
    from dask.array import concatenate, from_delayed

    dtype = np.asarray(example_of(values)).dtype
    pieces = (
        from_delayed(task(np.asarray, piece), (length,), dtype)
        for piece, length in zip(_values(values), lengths, strict=True)
    )
    return concatenate(list(pieces))


def _checked_weights(weights: Any) -> Any:
    found = np.asarray(weights, dtype=np.float64)
    if not (found >= 0).all():
        raise InputError(Message("cluster.weights"))
    return found
