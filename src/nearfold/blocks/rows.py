"""One way to see rows: in blocks, wherever they come from.

    ndarray, memmap             sliced, never copied whole
    SciPy sparse matrix         sliced as CSR, never densified
    pandas or polars frame      see frames.py; converted block by block
    .npy                        read block by block, so pages do not pile up in memory
    .parquet, .csv, .tsv        see tables.py; the file may be larger than memory

Every source says how many features it has, their names if they have any, and the dtype its
blocks have (float32 stays float32, all else becomes float64). Where a table is cut depends on
the table alone, never on the memory budget or the number of threads, so results do not either.

`Rows` are immutable. Weights and targets are attached by making new ones, and travel inside the
blocks: a block is all that a worker on another machine needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from nearfold.blocks.executor import Executor
from nearfold.blocks.memory import require_memory
from nearfold.blocks.work import combine_blocks, spans
from nearfold.errors import InputError
from nearfold.notation import Array, Floats, Ints

Statistic = TypeVar("Statistic")

# Large enough that a matrix product on a block runs at full speed and that combining blocks
# costs little beside it; small enough that those in flight on a few threads, with their centred
# copies, fit the smallest memory budget of 64 MB.
BLOCK_BYTES = 8 * 1024**2


@dataclass(frozen=True)
class Block:
    """Some consecutive rows: values, number of the first, and targets and weights if attached."""

    X: Any
    start: int
    y: Array | None = None
    weights: Floats | None = None

    def dense(self) -> Array:
        """The values as an ndarray."""
        return self.X if isinstance(self.X, np.ndarray) else np.asarray(self.X.toarray())


class Rows:
    """A table seen in blocks of rows. Iterate with `blocks()`, as often as needed."""

    n_features: int
    n_rows: int | None
    feature_names: list[str] | None = None
    dtype: np.dtype[Any]
    weights: Floats | None = None
    target: Array | None = None
    block_share = 1  # blocks, in units of BLOCK_BYTES

    @property
    def shape(self) -> tuple[int | None, int]:
        """Rows (None where only the end of a file tells) and columns."""
        return self.n_rows, self.n_features

    def blocks(self, target: str | None = None) -> Iterator[Block]:
        """The blocks in order; `target` names a column to deliver as y instead of X."""
        if target is not None:
            yield from self.with_target(target).blocks()
            return
        seen = 0
        for block in self.read():
            stop = block.start + block.X.shape[0]
            y = block.y if self.target is None else self.target[block.start : stop]
            w = None if self.weights is None else self.weights[block.start : stop]
            if w is not None and len(w) < block.X.shape[0]:
                raise InputError("sample_weight has fewer entries than there are rows.")
            seen = stop
            yield Block(block.X, block.start, y, w)
        if self.weights is not None and len(self.weights) != seen:
            raise InputError(f"sample_weight has {len(self.weights)} entries for {seen} rows.")

    def combined(
        self,
        function: Callable[[Block], Statistic],
        combine: Callable[[Statistic, Statistic], Statistic],
        *,
        label: str = "reading",
        total: int | None = None,
        executor: Executor | None = None,
    ) -> Statistic:
        """One statistic of all blocks: `function` of each, joined pairwise where the rows are.

        Functions live at module level (or are `partial`s of such): they may run elsewhere.
        """
        return combine_blocks(
            self.blocks(), function, combine, label=label, total=total, executor=executor
        )

    def mapped(self, function: Callable[[Block], Statistic]) -> Iterable[Statistic]:
        """`function` of each block, in order: small results, for they all come here."""
        return map(function, self.blocks())

    def read(self) -> Iterator[Block]:
        """The blocks without what was attached; each source implements this."""
        raise TypeError(f"{type(self).__name__} does not say how its blocks are read.")

    def with_weights(self, weights: Floats | None) -> Rows:
        """The same rows; their blocks carry these weights, one per row."""
        return self._changed(weights=weights)

    def with_target(self, target: str | Array) -> Rows:
        """The same rows; their blocks carry targets: one per row, or a column taken by name."""
        if isinstance(target, str):
            raise InputError(f"column {target!r} cannot be taken by name from {self.describe()}.")
        return self._changed(target=target)

    def _changed(self, **attributes: Any) -> Any:
        other = copy(self)
        vars(other).update(attributes)
        return other

    def describe(self) -> str:
        """Say in a few words what the source is, for messages."""
        return f"a table of {self.n_features} columns"

    def block_rows(self) -> int:
        """Rows in a block, from the width of a row."""
        row_bytes = max(1, self.n_features) * self.dtype.itemsize
        return max(16, self.block_share * BLOCK_BYTES // row_bytes)

    def spans(self, n_rows: int) -> list[slice]:
        """Consecutive slices of equal length that cover `n_rows` rows.

        A multiple of four of them, so that a few threads end at about the same time.
        """
        count = -(-n_rows // self.block_rows())
        if count > 1:
            count = -(-count // 4) * 4
        return spans(n_rows, -(-n_rows // max(count, 1)))

    def to_array(self) -> Array:
        """All rows as one array, if they fit the memory budget."""
        row_bytes = self.n_features * self.dtype.itemsize
        if self.n_rows is not None:
            require_memory(
                self.n_rows * row_bytes, f"{self.describe()} as one array", "Read it in blocks."
            )
        parts, held = [], 0
        for part in self._dense_parts():
            parts.append(part)
            held += len(part)
            require_memory(
                held * row_bytes, f"{self.describe()} as one array", "Read it in blocks."
            )
        if len(parts) == 1:
            return np.require(parts[0], requirements="W")  # what comes from a worker may not be
        return np.concatenate(parts) if parts else np.empty((0, self.n_features), self.dtype)

    def _dense_parts(self) -> Iterable[Array]:
        return (block.dense() for block in self.blocks())

    def take(self, numbers: Ints) -> Array:
        """Rows by their numbers, in the order given, as one array."""
        size = 2.0 * len(numbers) * self.n_features * self.dtype.itemsize
        require_memory(size, f"{len(numbers):,} rows of {self.describe()}", "Take fewer rows.")
        order = np.argsort(numbers, kind="stable")
        found = np.concatenate(list(self.mapped(partial(rows_of_block, numbers=numbers[order]))))
        if len(found) < len(numbers):
            raise InputError(f"{self.describe()} has no row {numbers.max()}.")
        rows = np.empty_like(found)
        rows[order] = found
        return rows

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """What `np.asarray` takes: all rows."""
        table = self.to_array()
        return table if dtype is None else table.astype(dtype, copy=False)


def rows_of_block(block: Block, numbers: Ints) -> Array:
    """Those of the rows with these ascending numbers that are in the block."""
    first, last = np.searchsorted(numbers, [block.start, block.start + block.X.shape[0]])
    some = block.X[numbers[first:last] - block.start]
    return some if isinstance(some, np.ndarray) else np.asarray(some.toarray())


class ArrayRows(Rows):
    """Rows of an ndarray, a memmap or a SciPy sparse matrix."""

    block_share = 2  # slices of what is in memory anyway: larger ones cost nothing

    def __init__(self, X: Any, feature_names: list[str] | None = None) -> None:
        self.X = X.tocsr() if sparse.issparse(X) else X
        if self.X.ndim != 2:
            raise InputError(f"a table has rows and columns; this array has shape {X.shape}.")
        self.n_rows, self.n_features = self.X.shape
        self.dtype = floating_dtype(self.X.dtype)
        self.feature_names = feature_names

    def combined(self, function: Any, combine: Any, **options: Any) -> Any:
        """One statistic of all blocks."""
        blocks = self.blocks()
        few = self.n_rows is not None and self.n_rows <= self.block_rows()
        return combine_blocks(list(blocks) if few else blocks, function, combine, **options)

    def read(self) -> Iterator[Block]:
        """Slices of the array."""
        for span in self.spans(self.X.shape[0]):
            block = self.X[span]
            if block.dtype != self.dtype:
                block = block.astype(self.dtype)
            yield Block(block, span.start)

    def take(self, numbers: Ints) -> Array:
        """Rows by their numbers; of all of them, in order, the array itself."""
        if not isinstance(self.X, np.ndarray) or numbers.max(initial=0) >= len(self.X):
            return super().take(numbers)
        whole = np.array_equal(numbers, np.arange(len(self.X)))
        return (self.X if whole else self.X[numbers]).astype(self.dtype, copy=False)

    def describe(self) -> str:
        """What the source is."""
        return f"an array of shape {self.X.shape}"


class MappedRows(Rows):
    """What a function makes of the blocks of other rows, computed as they are iterated.

    `transform` of a file or other streamed table returns one: iterate `blocks()`, or call
    `to_array()` (or `np.asarray`) to hold all of it.
    """

    def __init__(
        self, rows: Rows, function: Callable[[Block], Array], n_features: int, dtype: Any
    ) -> None:
        self._rows = rows
        self._function = function
        self.n_rows = rows.n_rows
        self.n_features = n_features
        self.dtype = floating_dtype(dtype)

    def read(self) -> Iterator[Block]:
        """Each block of the source, mapped; its targets come along."""
        for block in self._rows.blocks():
            yield Block(self._function(block), block.start, block.y)

    def _dense_parts(self) -> Iterable[Array]:
        return self._rows.mapped(self._function)  # of rows on a cluster, computed there

    def describe(self) -> str:
        """What the source is."""
        return f"{self.n_features} columns made from {self._rows.describe()}"


class NpyRows(Rows):
    """Rows of a .npy file, read (not mapped) so that what is done with is not kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            try:
                version = np.lib.format.read_magic(file)
                read_header = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
                shape, fortran, self._stored = read_header(file)
            except (ValueError, AttributeError) as error:
                raise InputError(f"{path} is not a .npy file: {error}") from None
            self._offset = file.tell()
        if len(shape) != 2 or fortran or self._stored.kind not in "fiub":
            raise InputError(
                f"{path} holds {self._stored} of shape {shape}"
                f"{' in column order' if fortran else ''}: "
                "rows are read from numeric two-dimensional arrays in row order."
            )
        self.n_rows, self.n_features = shape
        self.dtype = floating_dtype(self._stored)
        expected = self._offset + shape[0] * shape[1] * self._stored.itemsize
        if path.stat().st_size < expected:
            raise InputError(f"{path} is cut short: its header promises {expected} bytes.")

    def read(self) -> Iterator[Block]:
        """Consecutive parts of the file."""
        assert self.n_rows is not None
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for span in self.spans(self.n_rows):
                count = (span.stop - span.start) * self.n_features
                values = np.fromfile(file, dtype=self._stored, count=count)
                block = values.reshape(-1, self.n_features)
                yield Block(block.astype(self.dtype, copy=False), span.start)

    def describe(self) -> str:
        """What the source is."""
        return str(self._path)


def floating_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """float32 stays float32; everything else is computed in float64."""
    return np.dtype(np.float32 if np.dtype(dtype) == np.float32 else np.float64)
