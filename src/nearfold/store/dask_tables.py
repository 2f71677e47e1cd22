"""Tables on a Dask cluster: connecting to one, reading files there, writing what comes back.

Parquet keeps its types; CSV is read as pandas reads it, in blocks of bytes. The workers open the
files themselves, under the same path.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearfold.columns.frames import show
from nearfold.errors import InputError, reason
from nearfold.messages import Message
from nearfold.store.atomic import write_atomically
from nearfold.store.export import harmless
from nearfold.store.many_files import matching
from nearfold.store.tables import suffix_format

_PATIENCE = "10s"  # for an answer of the scheduler
_BLOCK = "64MB"  # of text that one task parses
_WRITTEN = ("csv", "tsv", "parquet")


@dataclass(frozen=True)
class DaskTable:
    """A table on the cluster, read lazily."""

    frame: Any  # a Dask frame
    name: str
    format: str
    whole: frozenset[str] = frozenset()  # columns of a CSV that look like whole numbers


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The client of a running cluster; Dask computes there inside the `with` block."""
    try:
        import dask.dataframe  # noqa: F401
        from distributed import Client
    except ImportError:
        raise InputError(Message("cluster.not_installed")) from None
    try:
        # A first try does not become Dask's default, which a failure would leave behind.
        Client(address, timeout=_PATIENCE, set_as_default=False).close()
        client = Client(address, timeout=_PATIENCE)
    except (OSError, TimeoutError, ValueError):
        raise InputError(Message("cluster.no_scheduler", address=address)) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except (OSError, TimeoutError):
            raise InputError(Message("cluster.no_workers", address=address)) from None
        yield client


def open_dask(data: str, options: dict[str, Any], as_text: Iterable[str] = ()) -> DaskTable:
    """A file, or all files that a pattern matches, as a Dask frame; nothing is read but a sample.

    `options` are those of `read_table`; columns of a CSV named in `as_text` are not parsed.
    """
    files = matching(data) or [data]
    kind, compressed = suffix_format(files[0])
    kind = options.get("format") or kind
    if kind not in _WRITTEN:
        raise InputError(Message("cluster.formats", name=Path(data).name))
    paths = [os.path.abspath(file) for file in files]
    name = Path(data).name
    try:
        if kind == "parquet":
            return DaskTable(_read_parquet(paths), name, kind)
        return _read_csv(paths, name, kind, compressed, options, as_text)
    except InputError:
        raise
    except Exception as error:  # pandas, pyarrow and Dask raise what they like
        why = " ".join(str(reason(error)).split())[:200]
        raise InputError(Message("cluster.cannot_open", name=name, why=why)) from None


def _read_parquet(paths: list[str]) -> Any:
    import dask.dataframe as dd

    return dd.read_parquet(paths)


def _read_csv(
    paths: list[str],
    name: str,
    kind: str,
    compressed: bool,
    options: dict[str, Any],
    as_text: Iterable[str],
) -> DaskTable:
    import dask.dataframe as dd

    given: dict[str, Any] = {
        "sep": options.get("separator") or ("\t" if kind == "tsv" else ","),
        "decimal": options.get("decimal") or ".",
        "encoding": options.get("encoding") or "utf-8",
        "na_values": list(options.get("na") or ()),
        "blocksize": None if compressed else _BLOCK,
    }
    if options.get("header") is False:
        raise InputError(Message("cluster.header", name=name))
    first = dd.read_csv(paths, **given)
    whole = {str(c) for c, held in first.dtypes.items() if getattr(held, "kind", "") in "iu"}
    texts = dict.fromkeys((c for c in as_text if c in first.columns), str)
    # What looks whole in the first rows may have gaps or decimals later: read as floats.
    frame = dd.read_csv(paths, dtype=texts, assume_missing=True, **given)
    return DaskTable(frame, name, kind, frozenset(whole - set(texts)))


def check_written(path: str) -> str:
    """The format of an output that is written in blocks: "folder", "csv", "tsv" or "parquet"."""
    if path == "-":
        return "csv"
    if path.endswith(("/", os.sep)) or Path(path).is_dir():
        place = Path(path)
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise InputError(Message("cluster.folder_taken", name=str(place)))
        return "folder"
    kind = suffix_format(path)[0]
    if kind not in _WRITTEN or path.lower().endswith(".gz"):
        raise InputError(Message("cluster.written", name=Path(path).name))
    return str(kind)


def write_blocks(path: str, kind: str, blocks: Iterable[Any], protect: bool) -> int:
    """Write polars frames one after the other into one file or stdout; returns their rows."""
    counted = _Counted(blocks)
    if kind == "parquet":
        write_atomically(path, lambda stream: _put_parquet(stream, counted))
        return counted.rows
    separator = "\t" if kind == "tsv" else ","

    def put(stream: Any) -> None:
        for i, frame in enumerate(counted):
            safe = harmless(frame) if protect else frame
            safe.write_csv(stream, separator=separator, include_header=i == 0)

    if path == "-":
        put(sys.stdout.buffer)
        sys.stdout.buffer.flush()
    else:
        write_atomically(path, put)
    return counted.rows


class _Counted:
    def __init__(self, blocks: Iterable[Any]) -> None:
        self.blocks, self.rows = blocks, 0

    def __iter__(self) -> Iterator[Any]:
        for block in self.blocks:
            self.rows += block.height
            yield block


def _put_parquet(stream: Any, blocks: Iterable[Any]) -> None:
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    writer: Any = None
    for frame in blocks:
        table = frame.to_arrow()
        if writer is None:
            writer = pq.ParquetWriter(stream, table.schema)
        writer.write_table(table.cast(writer.schema))
    if writer is not None:
        writer.close()


def write_part(frame: Any, folder: str, number: int) -> int:
    """Write a block as a file of a folder, from the worker that has it; returns its rows."""
    place = Path(folder) / f"part-{number:05d}.parquet"
    write_atomically(place, frame.write_parquet)
    return int(frame.height)


def check_folder(folder: str, count: int) -> None:
    """Raise if the files that workers wrote are not to be seen from here."""
    found = len(list(Path(folder).glob("part-*.parquet")))
    if found < count:
        raise InputError(Message("cluster.other_disk", name=show(folder), n=found, expected=count))
