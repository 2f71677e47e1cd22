"""Tables in: CSV, TSV, Parquet, Arrow, Excel, JSON lines, .npy and .npz, also gzip.

They come from a file, from several files by a pattern, from stdin, or from a frame in memory.

What a file is, is told by its first bytes where they tell, else by its name; how a text is laid
out (`layout.py`) and encoded (`encodings.py`) is detected. All of it can be given instead, and
`Source` says what was done. Nothing is allocated before its size is known to fit the budget.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from nearfold.columns.frames import is_frame, show
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.store.file_bytes import FileBytes, read_bytes
from nearfold.store.frames import Parsed

if TYPE_CHECKING:
    import polars as pl

_NAMES = {
    "csv": "CSV",
    "tsv": "TSV",
    "parquet": "Parquet",
    "arrow": "Arrow",
    "npy": ".npy",
    "npz": ".npz",
    "xlsx": "Excel",
    "jsonl": "JSON lines",
}
FORMATS = tuple(_NAMES)
_SUFFIXES = {f".{name}": name for name in FORMATS} | {
    ".txt": "csv",
    ".dat": "csv",
    ".tab": "tsv",
    ".pq": "parquet",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".xlsm": "xlsx",
    ".ndjson": "jsonl",
}
_MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"FEA1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"\x93NUMPY": "npy",
}
_FOREIGN = {
    b"%PDF": "pdf",
    b"\x89PNG": "picture",
    b"\xff\xd8\xff": "picture",
    b"\xd0\xcf\x11\xe0": "xls",
    b"\x89HDF": "hdf5",
    b"NEARFOLD": "model",
    b"\x80\x04\x95": "pickle",
}


@dataclass(frozen=True)
class Source:
    """How a table was read, for showing and for the record."""

    name: str
    format: str
    n_rows: int
    n_columns: int
    sha256: str
    notices: tuple[Message, ...]
    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None
    compression: str | None = None
    header: bool | None = None

    def describe(self) -> Message:
        """One line: what was read and how."""
        rows = Message("words.rows", n=self.n_rows)
        columns = Message("words.columns", n=self.n_columns)
        size = Message("tables.size", rows=rows, columns=columns)
        parts: list[Any] = [size, _NAMES.get(self.format, Message("tables.frame"))]
        parts += [part for part in (self.compression, self.encoding) if part]
        if self.separator and self.n_columns > 1:
            words = {"\t": Message("tables.tabs"), " ": Message("tables.spaces")}
            spelled = words.get(self.separator, f"'{self.separator}'")
            parts.append(Message("tables.separated", separator=spelled))
        if self.decimal == ",":
            parts.append(Message("tables.decimal_comma"))
        if self.header is False:
            parts.append(Message("tables.no_header"))
        return Message("tables.describe", name=self.name, parts=parts)


@dataclass(frozen=True)
class Table:
    """A table and where it came from."""

    frame: pl.DataFrame
    source: Source


def read_table(
    path: Any,
    *,
    format: str | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    na: tuple[str, ...] = (),
) -> Table:
    """Read a table from files, an open binary stream, stdin ("-") or a frame.

    Parameters
    ----------
    path : str, Path, binary stream, or pandas, polars or Arrow frame
        A pattern such as "part-*.parquet" reads all files that match it, in sorted order; their
        columns must be the same. "book.xlsx#Sheet" names a sheet; without it the first one is
        read.
    format : {"csv", "tsv", "parquet", "arrow", "npy", "npz", "xlsx", "jsonl"}, optional
        Default: told by the first bytes, else by the name.
    encoding, separator, decimal, header : optional
        How a text is written (`header`: also a sheet). What is None is detected.
    na : tuple of str
        Words that are missing values in every column. Otherwise empty cells are missing, and
        words such as NA only in a column whose other cells are numbers, dates, true or false.

    Returns
    -------
    Table
        The frame, and a `Source` that says how it was read.

    Raises
    ------
    InputError, MemoryBudgetError
        In one line.
    """
    if isinstance(na, str):
        raise InputError(Message("tables.error.na"))
    if is_frame(path):
        from nearfold.store.frame_source import read_frame

        return read_frame(path, tuple(na))
    if format is not None and format not in FORMATS:
        raise InputError(Message("words.one_of", name="format", value=repr(format), known=FORMATS))
    if decimal not in (None, ".", ","):
        raise InputError(Message("tables.error.decimal", decimal=repr(decimal)))
    options: dict[str, Any] = {"encoding": encoding, "separator": separator, "decimal": decimal}
    options |= {"header": header, "na": tuple(na)}
    from nearfold.store.many_files import matching, read_many

    files = matching(path)
    if files is None:
        return read_one(path, format, options)[0]
    return read_many(str(path), files, lambda each, o: read_one(each, format, options | o))


def read_one(
    path: str | Path | IO[bytes], format: str | None, options: dict[str, Any]
) -> tuple[Table, Parsed]:
    """A table from one file or stream, with what its reader handed back."""
    place, sheet = _without_sheet(path)
    file = read_bytes(place)
    if not file.data:
        raise InputError(Message("tables.error.empty", name=file.name))
    kind = format or _recognise(file)
    if sheet is not None:
        file.name = f"{file.name}#{sheet}"
    parsed = _parse(file, kind, options, sheet)
    frame = parsed.frame
    if frame.width == 0:
        raise InputError(Message("tables.error.no_columns", name=file.name))
    if frame.height == 0:
        below = "_below" if parsed.header else ""
        raise InputError(Message(f"tables.error.no_rows{below}", name=file.name))
    if kind in ("csv", "tsv"):
        kind = "tsv" if parsed.separator == "\t" else "csv"
    source = Source(file.name, kind, *frame.shape, file.sha256, parsed.notices, parsed.encoding,
                    parsed.separator, parsed.decimal, file.compression, parsed.header)  # fmt: skip
    return Table(frame, source), parsed


def suffix_format(name: str) -> tuple[str | None, bool]:
    """The format that a file name promises, and whether it says gzip."""
    lower = name.lower()
    compressed = lower.endswith(".gz")
    return _SUFFIXES.get(Path(lower.removesuffix(".gz")).suffix), compressed


def _without_sheet(path: Any) -> tuple[Any, str | None]:
    """A path such as book.xlsx#Sheet in its two parts."""
    if isinstance(path, str | Path) and "#" in str(path) and not os.path.exists(path):
        place, _, sheet = str(path).rpartition("#")
        if suffix_format(place)[0] == "xlsx":
            return place, sheet
    return path, None


def _recognise(file: FileBytes) -> str:
    """The format by the first bytes, then by the name; a text of any name may be a table."""
    for magic, kind in _MAGIC.items():
        if file.data.startswith(magic):
            return kind
    for magic, what in _FOREIGN.items():
        if file.data.startswith(magic):
            raise InputError(Message(f"tables.foreign.{what}", name=file.name))
    if file.data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "xlsx" if b"xl/workbook" in file.data else "npz"
    by_name = suffix_format(file.name)[0]
    if by_name is None or by_name == "csv":
        from nearfold.store.json_lines import are_json_lines

        return "jsonl" if are_json_lines(file.data) else "csv"
    return by_name


def _parse(file: FileBytes, kind: str, options: dict[str, Any], sheet: str | None) -> Parsed:
    if kind in ("csv", "tsv"):
        from nearfold.store.delimited import read_delimited

        if kind == "tsv" and options["separator"] is None and b"\t" in file.data[:100_000]:
            options = options | {"separator": "\t"}
        return read_delimited(file, **options)
    if kind == "xlsx":
        from nearfold.store.cells import Rules
        from nearfold.store.workbooks import read_workbook

        text = options.get("text", frozenset())
        _refuse(file, kind, options, "encoding", "separator", "decimal")
        return read_workbook(file, sheet, options["header"], Rules(na=options["na"], text=text))
    if kind == "jsonl":
        from nearfold.store.json_lines import read_json_lines

        _refuse(file, kind, options, "separator", "decimal", "header")
        parsed = read_json_lines(file, options["encoding"])
    else:
        _refuse(file, kind, options, "encoding", "separator", "decimal", "header")
        parsed = _parse_arrays(file, kind)
    from nearfold.store.frame_source import without_words

    return replace(parsed, frame=without_words(parsed.frame, options["na"]))


def _parse_arrays(file: FileBytes, kind: str) -> Parsed:
    if kind in ("npy", "npz"):
        from nearfold.store.array_files import read_npy, read_npz

        return read_npy(file) if kind == "npy" else read_npz(file)
    from nearfold.store.columnar import read_columnar

    return read_columnar(file, kind)


def _refuse(file: FileBytes, kind: str, options: dict[str, Any], *names: str) -> None:
    """Options that mean nothing to this format; those of `read_pairs` are for all of them."""
    for name in names:
        if options[name] is not None and "text" not in options:
            raise InputError(Message("tables.error.option", name=file.name, format=_NAMES[kind],
                                     option=show(name)))  # fmt: skip
