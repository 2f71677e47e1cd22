"""Parquet and Arrow files (also Feather), read by polars once their declared size fits."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nearfold.blocks import require_memory
from nearfold.errors import InputError
from nearfold.store.file_bytes import ADVICE, FileBytes
from nearfold.store.frames import Parsed, guard, unique_names
from nearfold.store.parquet_sizes import declared_bytes

if TYPE_CHECKING:
    import polars as pl

_CONTINUATION, _RECORD_BATCH = 0xFFFFFFFF, 3
_TEXT = 32  # bytes taken for a value whose length is not fixed


def read_columnar(file: FileBytes, kind: str) -> Parsed:
    """Read a Parquet or an Arrow file."""
    what = f"{file.name} cannot be read as {kind.capitalize()}"
    if file.data.startswith(b"FEA1"):
        raise InputError(f"{what}: it is a Feather file of version 1. Save it as version 2.")
    streamed = kind == "arrow" and not file.data.startswith(b"ARROW1")
    with _without_panic_reports():
        frame = guard(what, lambda: _plain(_read_stream(file) if streamed else _read(file, kind)))
    names, notices = unique_names(frame.columns)
    frame.columns = names
    return Parsed(frame, notices=tuple(notices))


@contextmanager
def _without_panic_reports() -> Iterator[None]:
    """Close stderr to the parser while it reads: on a broken file it reports its own panic there,
    in many lines, before Python gets the error that `guard` puts into one.
    """
    try:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # there is no stderr
        yield
        return
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _read(file: FileBytes, kind: str) -> pl.DataFrame:
    import polars as pl

    scan = pl.scan_parquet if kind == "parquet" else pl.scan_ipc
    lazy = scan(io.BytesIO(file.data))
    schema = lazy.collect_schema()
    n_rows = int(lazy.select(pl.len()).collect().item())
    kinds = list(schema.values())
    _require(n_rows, kinds, file)
    if kind == "parquet" and not all(_is_fixed(each) for each in kinds):
        needed = len(file.data) + declared_bytes(file.data)
        require_memory(needed, f"the table in {file.name}", ADVICE)
    return scan(io.BytesIO(file.data)).collect()


def _read_stream(file: FileBytes) -> pl.DataFrame:
    """The streaming form of Arrow, whose batches say one after the other how long they are."""
    import polars as pl

    none = pl.read_ipc_stream(io.BytesIO(file.data), n_rows=0)
    _require(_streamed_rows(file.data), none.dtypes, file)
    return pl.read_ipc_stream(io.BytesIO(file.data))


def _streamed_rows(data: bytes) -> int:
    """The rows all batches of a stream declare, from their headers alone (Arrow's `Message`)."""
    total, at = 0, 0
    while at + 8 <= len(data):
        marker, size = struct.unpack_from("<Ii", data, at)
        if marker != _CONTINUATION or size <= 0:
            break
        message = at + 8 + struct.unpack_from("<I", data, at + 8)[0]
        kind = _field(data, message, 1)
        header = _field(data, message, 2)
        if kind and data[kind] == _RECORD_BATCH and header:
            batch = header + struct.unpack_from("<I", data, header)[0]
            length = _field(data, batch, 0)
            total += struct.unpack_from("<q", data, length)[0] if length else 0
        body = _field(data, message, 3)
        skip = struct.unpack_from("<q", data, body)[0] if body else 0
        if skip < 0:
            raise ValueError("a batch of negative length")
        at += 8 + size + skip
    return total


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffers table is; 0 if it is left out."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    if layout < 0:
        raise ValueError("a broken header")
    size = struct.unpack_from("<H", data, layout)[0]
    slot = 4 + 2 * number
    offset = struct.unpack_from("<H", data, layout + slot)[0] if slot + 2 <= size else 0
    return table + offset if offset else 0


def _require(n_rows: int, kinds: list[Any], file: FileBytes) -> None:
    needed = len(file.data) + n_rows * sum(_width(kind) for kind in kinds)
    require_memory(needed, f"the table in {file.name}", ADVICE)


def _is_fixed(kind: Any) -> bool:
    """Whether all values of a column take the same room."""
    return bool(kind.is_numeric() or kind.is_temporal() or str(kind) == "Boolean")


def _width(kind: Any) -> int:
    sizes = {"Boolean": 1, "Int8": 1, "UInt8": 1, "Int16": 2, "UInt16": 2, "Int32": 4, "UInt32": 4}
    if kind.is_numeric() or kind.is_temporal() or str(kind) in sizes:
        return {**sizes, "Float32": 4, "Int128": 16}.get(str(kind), 8)
    shape = getattr(kind, "shape", None)  # of an array in every cell
    inner = 1
    for size in shape or ():
        inner *= int(size)
    return _TEXT if shape is None else max(_TEXT, 8 * inner)


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Decimals as floats and categories as their words; nested columns stay, to be left out."""
    import polars as pl
    import polars.selectors as cs

    wide = [n for n, kind in frame.schema.items() if str(kind) in ("Int128", "UInt128", "Float16")]
    return frame.with_columns(
        cs.decimal().cast(pl.Float64),
        cs.categorical().cast(pl.String),
        cs.enum().cast(pl.String),
        cs.by_name(wide).cast(pl.Float64),
    )
