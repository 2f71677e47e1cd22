"""Rows of Parquet and CSV files and of polars LazyFrames, in blocks.

polars parses; we decide how much is in memory. Its own streaming reads ahead without regard to
any budget (measured: a Parquet file of four times the budget was held almost whole), so a
Parquet file is taken in slices, which skip the pages outside of them, and a CSV file in chunks
of bytes that end at the end of a row. Only a LazyFrame, whose query must not be run once per
block, is streamed by polars itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from nearfold.blocks.memory import get_memory
from nearfold.blocks.rows import Block, NamedRows
from nearfold.errors import InputError

# Text, parsed columns, their row-major copies and polars's own buffers are alive at once. polars
# itself takes some 30 MB when first used: a budget near that cannot be held.
_COPIES_ALIVE = 32
_MOST_BYTES = 64 * 1024**2


class TableRows(NamedRows):
    """Rows with named, typed columns; how batches of them are read is left to the subclasses."""

    def __init__(self, lazy: Any, columns: list[str] | None, source: str) -> None:
        self._source = source
        schema = dict(lazy.collect_schema())
        missing = [name for name in columns or [] if name not in schema]
        if missing:
            raise InputError(f"{source} has no column {missing}; it has {list(schema)}.")
        self._schema = {name: schema[name] for name in columns or schema}
        self._lazy = lazy.select(list(self._schema))
        self._use(list(self._schema))
        self.n_rows = None  # known only once it has been read

    def blocks(self, target: str | None = None) -> Iterator[Block]:
        """The blocks in order, the target column apart."""
        import polars as pl

        names = self._use_all_but(target)
        kind = pl.Float32 if self.dtype == np.float32 else pl.Float64
        start = 0
        for batch in self._batches():
            for span in self.spans(batch.height):
                part = batch[span]
                X = part.select(pl.col(names).cast(kind)).to_numpy(order="c")
                y = part[target].to_numpy() if target is not None else None
                yield Block(X, start, y)
                start += X.shape[0]

    def select(self, names: list[str]) -> TableRows:
        """The same rows with these columns only, in this order."""
        chosen = cast(TableRows, super().select(names))
        chosen._lazy = self._lazy.select(names)
        return chosen

    def _batches(self) -> Iterator[Any]:
        raise TypeError(f"{type(self).__name__} does not say how its batches are read.")

    def _batch_bytes(self) -> int:
        return max(2**18, min(_MOST_BYTES, get_memory() // _COPIES_ALIVE))

    def describe(self) -> str:
        """What the source is."""
        return self._source


class LazyRows(TableRows):
    """Rows of a polars LazyFrame: the query runs once, and polars streams its result."""

    def _batches(self) -> Iterator[Any]:
        yield from self._lazy.collect_batches(
            chunk_size=self.block_rows(), maintain_order=True, lazy=True, engine="streaming"
        )


class ParquetRows(TableRows):
    """Rows of a Parquet file, in slices."""

    def __init__(self, path: Path, columns: list[str] | None) -> None:
        import polars as pl

        super().__init__(pl.scan_parquet(path, low_memory=True), columns, str(path))
        self.n_rows = int(self._lazy.select(pl.len()).collect().item())

    def _batches(self) -> Iterator[Any]:
        assert self.n_rows is not None
        step = max(16, self._batch_bytes() // (8 * max(1, len(self._schema))))
        for start in range(0, self.n_rows, step):
            yield self._lazy.slice(start, step).collect()


class CsvRows(TableRows):
    """Rows of a CSV or TSV file, in chunks of bytes."""

    def __init__(self, path: Path, columns: list[str] | None, separator: str) -> None:
        import polars as pl

        self._path = path
        self._separator = separator
        # Looking at many rows keeps a column of whole numbers with a late decimal numeric.
        lazy = pl.scan_csv(path, separator=separator, infer_schema_length=10_000)
        self._file_schema = {
            name: pl.Float64 if kind.is_numeric() and kind.is_float() else kind
            for name, kind in lazy.collect_schema().items()
        }
        super().__init__(lazy, columns, str(path))

    def blocks(self, target: str | None = None) -> Iterator[Block]:
        """The blocks in order, the target column apart."""
        import polars as pl

        # Whole numbers so far may be followed by decimals: features are parsed as floats.
        for name, kind in self._schema.items():
            if name != target and kind.is_numeric():
                self._file_schema[name] = pl.Float64
        yield from super().blocks(target)

    def _batches(self) -> Iterator[Any]:
        import polars as pl

        for text in _whole_rows(self._path, self._batch_bytes()):
            try:
                batch = pl.read_csv(
                    text, has_header=False, schema=self._file_schema, separator=self._separator
                )
            except pl.exceptions.PolarsError as error:
                reason = str(error).splitlines()[0]
                raise InputError(f"{self._path} cannot be read as a table: {reason}") from None
            yield batch.select(list(self._schema))


def _whole_rows(path: Path, size: int) -> Iterator[bytes]:
    """The file without its header, in chunks of about `size` bytes that end at row ends."""
    with path.open("rb") as file:
        file.readline()
        rest = b""
        while more := file.read(size):
            rest += more
            end = rest.rfind(b"\n") + 1
            # A line break inside quotes does not end a row: then look at more of the file.
            if end and rest.count(b'"', 0, end) % 2 == 0:
                yield rest[:end]
                rest = rest[end:]
        if rest.strip():
            yield rest
