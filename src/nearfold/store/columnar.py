"""Parquet and Arrow files (also Feather), read by polars once their declared size fits.

On a damaged file the parser may report a panic of its own on stderr, before the one line that we
make of it. Silencing that would mean to close stderr for all threads of the process.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

from nearfold.blocks import get_memory, require_memory
from nearfold.columns.frames import show
from nearfold.messages import Message
from nearfold.store.file_bytes import ADVICE, FileBytes
from nearfold.store.frames import Parsed, guard, uniquely_named
from nearfold.store.parquet_sizes import declared_bytes

if TYPE_CHECKING:
    import polars as pl

_TEXT = 32  # bytes taken for a value whose length is not fixed
_SIZES = {"Boolean": 1, "Int8": 1, "UInt8": 1, "Int16": 2, "UInt16": 2, "Int32": 4, "UInt32": 4,
          "Float32": 4, "Int128": 16}  # fmt: skip
_DIGITS = 15  # decimal digits that a float always keeps


def read_columnar(file: FileBytes, kind: str) -> Parsed:
    """Read a Parquet or an Arrow file."""
    streamed = kind == "arrow" and not file.data.startswith(b"ARROW1")
    read = _read_stream if streamed else _read
    frame = guard(file.name, kind.capitalize(), lambda: plain_columns(read(file, kind)))
    frame, notices = uniquely_named(frame)
    return Parsed(frame, notices=tuple(notices))


def _read(file: FileBytes, kind: str) -> pl.DataFrame:
    import polars as pl

    scan = pl.scan_parquet if kind == "parquet" else pl.scan_ipc
    lazy = scan(io.BytesIO(file.data))
    schema = lazy.collect_schema()
    n_rows = int(lazy.select(pl.len()).collect().item())
    kinds = list(schema.values())
    _require(n_rows * sum(map(_width, kinds)), file)
    if kind == "parquet" and not all(_is_fixed(each) for each in kinds):
        _require(declared_bytes(file.data), file)
    return scan(io.BytesIO(file.data)).collect()


def _read_stream(file: FileBytes, kind: str) -> pl.DataFrame:
    """The streaming form of Arrow, which says nowhere how many rows it holds: no more are asked
    for than fit.
    """
    import polars as pl

    if file.data.startswith(b"FEA1"):
        raise ValueError(Message("tables.error.feather"))
    _require(len(file.data), file)  # polars copies an uncompressed one
    width = sum(map(_width, pl.read_ipc_stream(io.BytesIO(file.data), n_rows=0).dtypes))
    fitting = max(0, get_memory() - 2 * len(file.data)) // max(1, width)
    frame = pl.read_ipc_stream(io.BytesIO(file.data), n_rows=fitting + 1)
    if frame.height > fitting:
        _require(len(file.data) + width * frame.height, file)
    return frame


def _require(more: float, file: FileBytes) -> None:
    require_memory(len(file.data) + more, Message("memory.table_in", name=file.name), ADVICE)


def _is_fixed(kind: Any) -> bool:
    """Whether all values of a column take the same room."""
    return bool(kind.is_numeric() or kind.is_temporal() or str(kind) == "Boolean")


def _width(kind: Any) -> int:
    """Bytes of a value."""
    if _is_fixed(kind):
        return _SIZES.get(str(kind), 8)
    return max(_TEXT, 8 * math.prod(getattr(kind, "shape", ())))  # an array in every cell


def plain_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns in the types that the rest of the package knows, none of them rounded.

    Lists of numbers that are all of one length become arrays of floats; other nested columns and
    bytes stay as they are.
    """
    import polars as pl

    return pl.DataFrame([_plain(column) for column in frame.get_columns()])


def _plain(column: pl.Series) -> pl.Series:
    import polars as pl

    kind = column.dtype
    if kind == pl.Categorical:
        return column.cast(pl.String)
    if kind in (pl.Int128, pl.UInt128):
        return column.cast(pl.Int64 if _fits(column, 2**63 - 1) else pl.String)
    if kind == pl.Float16:
        return column.cast(pl.Float32)
    if isinstance(kind, pl.Decimal):
        exact = _fits(column, 10 ** (_DIGITS - kind.scale))
        return column.cast(pl.Float64 if exact else pl.String)
    if isinstance(kind, pl.List | pl.Array) and kind.inner is not None and kind.inner.is_numeric():
        return _plain_list(column)
    return column


def _fits(column: pl.Series, most: float) -> bool:
    low, high = column.min(), column.max()
    return low is None or bool(-most <= low and high <= most)  # type: ignore[operator]


def _plain_list(column: pl.Series) -> pl.Series:
    import polars as pl

    kind: Any = column.dtype
    inner = kind.inner if kind.inner in (pl.Float32, pl.Float64) else pl.Float64
    if inner != kind.inner:
        needed = (1 + 8 / _width(kind.inner)) * int(column.estimated_size())
        require_memory(needed, Message("memory.as_floats", name=show(column.name)), ADVICE)
    if isinstance(kind, pl.Array):
        return column.cast(pl.Array(inner, kind.shape))
    lengths = column.list.len().drop_nulls()
    if lengths.n_unique() != 1 or lengths[0] == 0:
        return column
    return column.cast(pl.List(inner)).list.to_array(int(lengths[0]))
