"""JSON lines: one object per line, its keys the columns."""

from __future__ import annotations

import json
from functools import partial

from nearfold.blocks import require_memory
from nearfold.messages import Message
from nearfold.store.columnar import plain_columns
from nearfold.store.encodings import to_utf8
from nearfold.store.file_bytes import ADVICE, FileBytes
from nearfold.store.frames import Parsed, guard, uniquely_named

_LOOKED_AT = 2**16  # bytes, in which there must be two lines
_ROOM = 6  # times the text: what polars takes while it reads


def are_json_lines(data: bytes) -> bool:
    """Whether the first lines are objects, two of them at least."""
    if not data[:100].lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{"):
        return False
    lines = data[:_LOOKED_AT].removeprefix(b"\xef\xbb\xbf").split(b"\n")
    lines = [line for line in (lines if len(data) <= _LOOKED_AT else lines[:-1]) if line.strip()]
    try:
        return len(lines) > 1 and all(isinstance(json.loads(line), dict) for line in lines)
    except (ValueError, RecursionError):
        return False


def read_json_lines(file: FileBytes, encoding: str | None) -> Parsed:
    """Read JSON lines; nested objects stay structs."""
    import polars as pl

    data, name, told = to_utf8(file.take(), encoding)
    require_memory(_ROOM * len(data), Message("memory.table_in", name=file.name), ADVICE)
    read = partial(pl.read_ndjson, data, infer_schema_length=None)
    frame = guard(file.name, "JSON lines", lambda: plain_columns(read()))
    frame, notices = uniquely_named(frame)
    return Parsed(frame, notices=(*told, *notices), encoding=name)
