"""Tables out: CSV, TSV (also gzip), Parquet, Arrow, .npy and .npz, to a file or to stdout.

A file is whole or not there. Numbers are written with as many digits as it takes to read the same
number again. Text that a spreadsheet would run as a formula gets an apostrophe before it.
"""

from __future__ import annotations

import gzip
import io
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
from numpy.lib import format as npy_format

from nearfold.columns.frames import show
from nearfold.errors import InputError, reason
from nearfold.messages import Message
from nearfold.notation import Array
from nearfold.store.array_files import native_dtype
from nearfold.store.atomic import write_atomically
from nearfold.store.tables import suffix_format

if TYPE_CHECKING:
    import polars as pl

# What a spreadsheet takes for the beginning of a formula, the full-width forms too.
_FORMULA = r"^[=+\-@\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]"
_WRITTEN = ("csv", "tsv", "parquet", "arrow", "npy", "npz")
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def write_table(
    path: str | Path | IO[bytes],
    columns: Mapping[str, Any],
    *,
    format: str | None = None,
    protect: bool = True,
) -> None:
    """Write columns (name to array, list or polars series) to a file, a stream or stdout ("-").

    The format is that of the file's name, else `format`; CSV for streams. `.csv.gz` and `.tsv.gz`
    are compressed. An .npy file takes numbers only and keeps no names. `protect` neutralises
    cells of CSV and TSV that a spreadsheet would run: "@bob" is written as "'@bob".
    """
    named = isinstance(path, str | Path) and str(path) != "-"
    kind, compressed = _choose_format(str(path) if named else None, format)
    series = _columns(columns)
    if kind in ("npy", "npz"):
        data = _npy_bytes(series) if kind == "npy" else _npz_bytes(series)
        _put(path, lambda stream: stream.write(data))
        return
    frame = _frame(series)
    if kind in ("parquet", "arrow"):
        _put(path, lambda stream: _write_columnar(frame, stream, kind))
        return
    separator = "\t" if kind == "tsv" else ","
    safe = harmless(frame) if protect else frame
    _put(path, lambda stream: _write_text(safe, stream, separator, compressed))


def _choose_format(name: str | None, format: str | None) -> tuple[str, bool]:
    if format is not None and format not in _WRITTEN:
        raise InputError(Message("words.one_of", name="format", value=repr(format), known=_WRITTEN))
    by_name, compressed = suffix_format(name) if name else (None, False)
    kind = format or by_name or (None if name else "csv")
    if kind not in _WRITTEN:
        raise InputError(Message("tables.error.name", name=Path(name or "").name))
    if compressed and kind not in ("csv", "tsv"):
        raise InputError(Message("tables.error.gzip", name=Path(name or "").name))
    return kind, compressed


def _columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Each column as a vector or a series, after a look whether they fit together."""
    import polars as pl

    if not columns:
        raise InputError(Message("tables.error.nothing"))
    arrays: dict[str, Any] = {}
    for name, values in columns.items():
        if isinstance(values, pl.Series):
            arrays[str(name)] = values
            continue
        array = np.asarray(values) if hasattr(values, "dtype") else _from_list(list(values))
        if array.ndim != 1:
            raise InputError(Message("tables.error.axes", name=show(name), n=array.ndim))
        arrays[str(name)] = array
    lengths = {name: len(array) for name, array in arrays.items()}
    first, n = next(iter(lengths.items()))
    for name, length in lengths.items():
        if length != n:
            raise InputError(Message("tables.error.lengths", name=show(name), n=length,
                                     first=show(first), expected=n))  # fmt: skip
    return arrays


def _from_list(values: list[Any]) -> Array:
    """Numbers as numbers; text, gaps and mixtures as they are."""
    plain = all(isinstance(value, bool | int | float | np.generic) for value in values)
    if plain and len({isinstance(value, bool | np.bool_) for value in values}) <= 1:
        array = np.asarray(values)
        if array.dtype != object:
            return array
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _frame(arrays: dict[str, Any]) -> pl.DataFrame:
    import polars as pl

    try:
        return pl.DataFrame([_series(name, array) for name, array in arrays.items()])
    except (pl.exceptions.PolarsError, ValueError, TypeError) as error:
        raise InputError(Message("tables.error.cannot_write", reason=reason(error))) from None


def _series(name: str, array: Any) -> pl.Series:
    import polars as pl

    if isinstance(array, pl.Series):  # as it was read, missing whole numbers too
        return array.alias(name)
    if array.dtype.kind in "biufMm":
        native = array.astype(native_dtype(array.dtype), copy=False)
        return pl.Series(name, np.ascontiguousarray(native))
    return _mixed(name, array.tolist())


def _mixed(name: str, values: list[Any]) -> pl.Series:
    """Python objects: one type of number if they are that, else their text; gaps stay gaps."""
    import polars as pl

    present = [v for v in values if v is not None]
    for kinds, target in ((bool, pl.Boolean), (int, pl.Int64), (float, pl.Float64)):
        if present and all(type(v) is kinds for v in present):
            try:
                return pl.Series(name, values, dtype=target)
            except OverflowError:
                break
    return pl.Series(name, [None if v is None else _text(v) for v in values], dtype=pl.String)


def _text(value: Any) -> str:
    text = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)
    return text.encode("utf-8", errors="replace").decode()  # lone surrogates cannot be written


def harmless(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with an apostrophe before every text and name that would begin a formula."""
    import polars as pl
    import polars.selectors as cs

    text = cs.string()
    runs = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
    safe = frame.with_columns(pl.when(runs).then(text.str.replace("^", "'")).otherwise(text))
    names = pl.Series("", frame.columns, dtype=pl.String)
    begins = names.str.contains(_FORMULA) & ~names.str.contains(_NUMBER)
    safe.columns = [f"'{n}" if b else n for n, b in zip(names, begins, strict=True)]
    return safe


def _write_text(frame: pl.DataFrame, stream: BinaryIO, separator: str, compressed: bool) -> None:
    if not compressed:
        frame.write_csv(stream, separator=separator)
        return
    # Without name and time, so that the same table makes the same file.
    with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as compressor:
        frame.write_csv(cast(Any, compressor), separator=separator)


def _write_columnar(frame: pl.DataFrame, stream: BinaryIO, kind: str) -> None:
    buffer = io.BytesIO()  # a writer of polars may want to seek, which stdout cannot
    frame.write_parquet(buffer) if kind == "parquet" else frame.write_ipc(buffer)
    stream.write(buffer.getbuffer())


def _npy_bytes(arrays: dict[str, Any]) -> bytes:
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise InputError(Message("tables.error.not_numeric", name=show(name)))
    return _array_bytes(np.stack(list(arrays.values()), axis=1))


def _npz_bytes(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            # A fixed date: the same table makes the same file.
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, _array_bytes(_without_objects(name, np.asarray(array))))
    return buffer.getvalue()


def _without_objects(name: str, array: Array) -> Array:
    """Object columns as numbers where they are numbers, else as text."""
    if array.dtype != object:
        return array
    values = _mixed(name, array.tolist())
    if values.dtype.is_numeric() or str(values.dtype) == "Boolean":
        return values.to_numpy()
    return np.asarray([value or "" for value in values.to_list()], dtype=np.str_)


def _array_bytes(array: Array) -> bytes:
    buffer = io.BytesIO()
    npy_format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def _put(path: str | Path | IO[bytes], write: Any) -> None:
    """To a stream as it is, to a file in one step."""
    if not isinstance(path, str | Path):
        write(path)
    elif str(path) == "-":
        try:
            write(sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except OSError as error:
            if "os error 32" in str(error):  # as polars reports a reader that is gone
                raise BrokenPipeError from error
            raise
    else:
        write_atomically(path, write)
