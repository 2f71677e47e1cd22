"""Several files as one table: all that match a pattern, in sorted order."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearfold.blocks import require_memory, reserve_memory
from nearfold.columns.frames import show
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.store.file_bytes import ADVICE
from nearfold.store.frames import Parsed

if TYPE_CHECKING:
    from nearfold.store.tables import Table

Read = Callable[[str, dict[str, Any]], "tuple[Table, Parsed]"]


def matching(path: Any) -> list[str] | None:
    """The files that a pattern matches; None if it is no pattern, but the name of a file."""
    if not isinstance(path, str | Path) or not glob.has_magic(str(path)) or "\0" in str(path):
        return None
    if Path(path).exists():
        return None
    found = sorted(name for name in glob.glob(str(path)) if Path(name).is_file())
    if not found:
        raise InputError(Message("tables.error.no_match", path=str(path)))
    return found


def read_many(pattern: str, files: list[str], read: Read) -> Table:
    """One table of all files. Its hash is that of the files' hashes, in their order."""
    import polars as pl

    tables = _read_each(files, read, {})
    first = tables[0]
    mixed = frozenset(
        name
        for name in first.frame.columns
        if len({t.frame[name].dtype == pl.String for t in tables if t.frame[name].dtype != pl.Null})
        > 1
    )
    if mixed and first.source.format in ("csv", "tsv", "xlsx"):  # text here, numbers there: text
        del tables
        tables = _read_each(files, read, {"text": mixed})
    elif mixed:
        _refuse_mixed(tables, min(mixed))
    frame = pl.concat([t.frame.select(first.frame.columns) for t in tables], how="vertical_relaxed")
    hashes = "".join(table.source.sha256 for table in tables)
    notices = dict.fromkeys(notice for table in tables for notice in table.source.notices)
    source = replace(
        tables[0].source,
        name=f"{Path(pattern).name} ({len(files):,} files)",
        n_rows=frame.height,
        sha256=hashlib.sha256(hashes.encode()).hexdigest(),
        notices=tuple(notices),
    )
    return replace(tables[0], frame=frame, source=source)


def _read_each(files: list[str], read: Read, options: dict[str, Any]) -> list[Table]:
    tables: list[Table] = []
    held = 0
    for file in files:
        with reserve_memory(held):
            tables.append(read(file, options)[0])
        _check_columns(tables[0], tables[-1])
        size = int(tables[-1].frame.estimated_size())
        held += size
        if len(tables) < len(files):  # the next one takes about as much
            require_memory(held + size, Message("memory.files", n=len(files)), ADVICE)
    return tables


def _check_columns(first: Table, other: Table) -> None:
    """Raise if the columns are not the same, naming one that differs."""
    names = {"name": other.source.name, "first": first.source.name}
    for id, there, here in (("differ", first, other), ("added", other, first)):
        lacking = [c for c in there.frame.columns if c not in here.frame.columns]
        if lacking:
            raise InputError(
                Message(f"tables.error.columns_{id}", column=show(lacking[0]), **names)
            )


def _refuse_mixed(tables: list[Table], column: str) -> None:
    first = tables[0]
    for table in tables:
        kind, other = table.frame[column].dtype, first.frame[column].dtype
        if kind != other:
            raise InputError(
                Message(
                    "tables.error.kinds_differ",
                    column=show(column),
                    name=table.source.name,
                    first=first.source.name,
                    kind=str(kind),
                    other=str(other),
                )
            )
