"""Rows of Parquet and CSV files and of polars LazyFrames, in blocks.

polars parses; we decide how much is in memory. Its own streaming reads ahead without regard to
any budget (measured: a Parquet file of four times the budget was held almost whole), so a
Parquet file is taken in slices, which skip the pages outside of them, and a CSV file in chunks
of bytes that end at the end of a row. Only a LazyFrame, whose query must not be run once per
block, is streamed by polars itself. Slices and chunks have a fixed size: blocks depend on the
file alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nearfold.blocks.frames import NamedRows, refuse_text
from nearfold.blocks.memory import get_memory, show_bytes
from nearfold.blocks.rows import Block
from nearfold.blocks.work import spans
from nearfold.errors import InputError

# Text, parsed columns, their row-major copies and polars's own buffers are alive at once. polars
# itself takes some 30 MB when first used: a budget near that cannot be held.
CHUNK_BYTES = 4 * 1024**2
SLICE_BYTES = 8 * 1024**2


class TableRows(NamedRows):
    """Rows with named, typed columns; how batches of them are read is left to the subclasses."""

    def __init__(self, lazy: Any, columns: list[str] | None, source: str) -> None:
        self._source = source
        self._lazy = lazy
        schema = dict(lazy.collect_schema())
        missing = [name for name in columns or [] if name not in schema]
        if missing:
            raise InputError(f"{source} has no column {missing}; it has {list(schema)}.")
        self.schema = {name: schema[name] for name in columns or schema}
        vars(self).update(self._facts(self.schema))
        self.n_rows = None  # known only once it has been read

    def read(self) -> Iterator[Block]:
        """The batches cut into blocks, the target column apart."""
        import polars as pl

        refuse_text(self.schema)
        names, target = list(self.schema), self.target_column
        kind = pl.Float32 if self.dtype == np.float32 else pl.Float64
        start = 0
        for batch in self._batches():
            for span in self.spans(batch.height):
                part = batch[span]
                X = part.select(pl.col(names).cast(kind)).to_numpy(order="c")
                y = None if target is None else part[target].to_numpy()
                yield Block(X, start, y)
                start += X.shape[0]

    def _columns(self) -> list[str]:
        """What must be read: the features and the target."""
        return [*self.schema, *([] if self.target_column is None else [self.target_column])]

    def _batches(self) -> Iterator[Any]:
        raise TypeError(f"{type(self).__name__} does not say how its batches are read.")

    def describe(self) -> str:
        """What the source is."""
        return self._source


class LazyRows(TableRows):
    """Rows of a polars LazyFrame: the query runs once, and polars streams its result."""

    def _batches(self) -> Iterator[Any]:
        import polars as pl

        step, held, waiting = self.block_rows(), 0, []
        stream = self._lazy.select(self._columns()).collect_batches(
            chunk_size=step, maintain_order=True, lazy=True, engine="streaming"
        )
        for batch in stream:  # of whatever size polars found convenient
            waiting.append(batch)
            held += batch.height
            if held < step:
                continue
            joined = pl.concat(waiting)
            whole = held // step * step
            for span in spans(whole, step):
                yield joined[span]
            waiting, held = [joined[whole:]], held - whole
        if held:
            yield pl.concat(waiting)


class ParquetRows(TableRows):
    """Rows of a Parquet file, in slices."""

    def __init__(self, path: Path, columns: list[str] | None) -> None:
        import polars as pl

        super().__init__(pl.scan_parquet(path, low_memory=True), columns, str(path))
        self.n_rows = int(self._lazy.select(pl.len()).collect().item())

    def _batches(self) -> Iterator[Any]:
        assert self.n_rows is not None
        step = max(16, SLICE_BYTES // (8 * max(1, len(self._columns()))))
        for span in spans(self.n_rows, step):
            yield self._lazy.select(self._columns()).slice(span.start, step).collect()


class CsvRows(TableRows):
    """Rows of a CSV or TSV file, in chunks of bytes."""

    def __init__(self, path: Path, columns: list[str] | None, separator: str) -> None:
        import polars as pl

        self._path = path
        self._separator = separator
        # Looking at many rows keeps a column of whole numbers with a late decimal numeric.
        lazy = pl.scan_csv(path, separator=separator, infer_schema_length=10_000)
        self._file_schema = dict(lazy.collect_schema())
        super().__init__(lazy, columns, str(path))

    def _batches(self) -> Iterator[Any]:
        import polars as pl

        # Whole numbers so far may be followed by decimals: features are parsed as floats.
        schema = {
            name: pl.Float64 if kind.is_numeric() and name != self.target_column else kind
            for name, kind in self._file_schema.items()
        }
        for text in whole_rows(self._path, CHUNK_BYTES):
            try:
                batch = pl.read_csv(
                    text, has_header=False, schema=schema, separator=self._separator
                )
            except pl.exceptions.PolarsError as error:
                reason = str(error).splitlines()[0]
                raise InputError(f"{self._path} cannot be read as a table: {reason}") from None
            yield batch.select(self._columns())


class ManyRows(NamedRows):
    """The rows of several files with the same columns, one file after the other."""

    def __init__(self, files: list[TableRows], source: str) -> None:
        first = files[0]
        for other in files[1:]:
            missing = [name for name in first.schema if name not in other.schema]
            if missing or len(other.schema) != len(first.schema):
                raise InputError(
                    f"{other.describe()} has other columns than {first.describe()}: "
                    f"{missing or [name for name in other.schema if name not in first.schema]}."
                )
        self._files, self._source = files, source
        single = all(file.dtype == np.float32 for file in files)
        counts = [file.n_rows for file in files]
        self.n_rows = None if None in counts else sum(n or 0 for n in counts)
        self.schema = first.schema
        vars(self).update(self._facts(self.schema))
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def _with_columns(self, schema: dict[str, Any], target: str | None = None) -> Any:
        files = [file.select(list(schema), target) for file in self._files]
        return self._changed(
            schema=schema,
            target_column=target,
            _files=files,
            feature_names=list(schema),
            n_features=len(schema),
        )

    def read(self) -> Iterator[Block]:
        """The blocks of each file, numbered on."""
        start = 0
        for file in self._files:
            seen = 0
            for block in file.read():
                seen = block.start + len(block.X)
                yield Block(block.X.astype(self.dtype, copy=False), start + block.start, block.y)
            start += seen

    def describe(self) -> str:
        """What the source is."""
        return f"{self._source} ({len(self._files)} files)"


def whole_rows(path: Path, size: int) -> Iterator[bytes]:
    """The file without its header, in chunks of about `size` bytes that end at row ends.

    A line break inside quotes does not end a row. Quotes that are not closed within an eighth of
    the memory budget (or two chunks) are taken for a stray quote and refused, rather than
    reading the rest of the file as one cell.
    """
    longest = max(2 * size, get_memory() // 8)
    line = 2  # of the file, at which `rest` begins
    with path.open("rb") as file:
        file.readline()
        rest = b""
        while more := file.read(size):
            rest += more
            end = rest.rfind(b"\n") + 1
            if end and rest.count(b'"', 0, end) % 2 == 0:
                line += rest.count(b"\n", 0, end)
                yield rest[:end]
                rest = rest[end:]
            elif len(rest) > longest:
                raise InputError(
                    f"{path}: a row after line {line} has no end within {show_bytes(longest)}. "
                    "Is a quotation mark not closed there? Remove it, or double it inside a cell."
                )
        if rest.count(b'"') % 2:
            raise InputError(
                f"{path}: a quotation mark after line {line} is never closed. Remove it, or double "
                "it inside a cell."
            )
        if rest.strip():
            yield rest
