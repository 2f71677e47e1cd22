"""Tables in: CSV, TSV, Parquet, Arrow, .npy and .npz, also gzip, from a file or from stdin.

What a file is, is told by its first bytes where they tell, else by its name; how a text is laid
out (`layout.py`) and encoded (`encodings.py`) is detected. All of it can be given instead, and
`Source` says what was done. Nothing is allocated before its size is known to fit the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from nearfold.errors import InputError
from nearfold.store.file_bytes import FileBytes, read_bytes
from nearfold.store.frames import Parsed, count, show

if TYPE_CHECKING:
    import polars as pl

FORMATS = ("csv", "tsv", "parquet", "arrow", "npy", "npz")
_SUFFIXES = {
    ".csv": "csv",
    ".txt": "csv",
    ".dat": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npy": "npy",
    ".npz": "npz",
}
_MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"FEA1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
}
_SPOKEN = {"csv": "CSV", "tsv": "TSV", "parquet": "Parquet", "arrow": "Arrow"}
_SPOKEN |= {"npy": ".npy", "npz": ".npz"}
_FOREIGN = {
    b"%PDF": "a PDF document",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook: save it as CSV",
    b"\x89HDF": "an HDF5 file: save the table as Parquet or .npz",
    b"NEARFOLD": "a Nearfold model, not a table",
    b"\x80\x04\x95": "a Python pickle, which is never opened: save the table as Parquet or .npz",
}


@dataclass(frozen=True)
class Source:
    """How a table was read, for showing and for the record."""

    name: str
    format: str
    encoding: str | None
    separator: str | None
    decimal: str | None
    compression: str | None
    header: bool | None
    n_rows: int
    n_columns: int
    sha256: str
    notices: tuple[str, ...]

    def describe(self) -> str:
        """One line: what was read and how."""
        size = f"{count(self.n_rows, 'row')} x {count(self.n_columns, 'column')}"
        parts = [size, _SPOKEN[self.format]]
        if self.compression:
            parts.append(self.compression)
        if self.encoding:
            parts.append(self.encoding)
        if self.separator and self.n_columns > 1:
            spelled = {"\t": "tabs", " ": "spaces"}.get(self.separator, f"'{self.separator}'")
            parts.append(f"separated by {spelled}")
        if self.decimal == ",":
            parts.append("decimal comma")
        if self.header is False:
            parts.append("no header")
        return f"{self.name}: {', '.join(parts)}"


@dataclass(frozen=True)
class Table:
    """A table and where it came from."""

    frame: pl.DataFrame
    source: Source


def read_table(
    path: str | Path | IO[bytes],
    *,
    format: str | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
) -> Table:
    """Read a table from a file, an open binary stream, or stdin ("-").

    `format` is one of csv, tsv, parquet, arrow, npy, npz; the other options are for text. What is
    None is detected. Raises InputError with one line, or MemoryBudgetError.
    """
    _check_options(format, decimal)
    file = read_bytes(path)
    if not file.data:
        raise InputError(f"{file.name} is empty.")
    kind = format or _recognise(file)
    options = {"encoding": encoding, "separator": separator, "decimal": decimal, "header": header}
    parsed = _parse(file, kind, options)
    frame = parsed.frame
    if frame.width == 0 or frame.height == 0:
        what = "columns" if frame.width == 0 else "rows below its header"
        raise InputError(f"{file.name} holds no {what if parsed.header else what.split()[0]}.")
    if kind in ("csv", "tsv"):
        kind = "tsv" if parsed.separator == "\t" else "csv"
    source = Source(
        name=file.name,
        format=kind,
        encoding=parsed.encoding,
        separator=parsed.separator,
        decimal=parsed.decimal,
        compression=file.compression,
        header=parsed.header,
        n_rows=frame.height,
        n_columns=frame.width,
        sha256=file.sha256,
        notices=parsed.notices,
    )
    return Table(frame, source)


def _check_options(format: str | None, decimal: str | None) -> None:
    if format is not None and format not in FORMATS:
        raise InputError(f"format={format!r}: use one of {', '.join(FORMATS)}.")
    if decimal not in (None, ".", ","):
        raise InputError(f"decimal={decimal!r}: numbers are written with '.' or ','.")


def suffix_format(name: str) -> tuple[str | None, bool]:
    """The format that a file name promises, and whether it says gzip."""
    lower = name.lower()
    packed = lower.endswith(".gz")
    return _SUFFIXES.get(Path(lower.removesuffix(".gz")).suffix), packed


def _recognise(file: FileBytes) -> str:
    """The format by the first bytes, then by the name; a text of any name may be a table."""
    for magic, kind in _MAGIC.items():
        if file.data.startswith(magic):
            return kind
    for magic, what in _FOREIGN.items():
        if file.data.startswith(magic):
            raise InputError(f"{file.name} is {what}.")
    return suffix_format(file.name)[0] or "csv"


def _parse(file: FileBytes, kind: str, options: dict[str, Any]) -> Parsed:
    if kind in ("csv", "tsv"):
        from nearfold.store.delimited import read_delimited

        if kind == "tsv" and options["separator"] is None and b"\t" in file.data[:100_000]:
            options["separator"] = "\t"
        return read_delimited(file, **options)
    unused = [name for name, value in options.items() if value is not None]
    if unused:
        raise InputError(f"{file.name} is {kind}, not text: {show(unused[0])} has no meaning here.")
    if kind in ("npy", "npz"):
        from nearfold.store.array_files import read_npy, read_npz

        return read_npy(file) if kind == "npy" else read_npz(file)
    from nearfold.store.columnar import read_columnar

    return read_columnar(file, kind)
