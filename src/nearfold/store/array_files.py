"""NumPy's own files. Headers are checked against the size of the file before anything is
allocated, and pickled objects are never opened.
"""

from __future__ import annotations

import io
import math
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy_format

from nearfold.blocks import require_memory
from nearfold.columns.frames import show, show_names
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array
from nearfold.store.file_bytes import ADVICE, FileBytes
from nearfold.store.frames import Parsed, guard, unique_names

if TYPE_CHECKING:
    import polars as pl

_READERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
_KINDS = "biufUSMm"  # what a column can be made of
_MOST_MEMBERS = 10_000
_STEP = 2**20  # bytes unpacked at once
_PER_WORD = 96  # bytes of a text on its way from an array to a frame


def read_npy(file: FileBytes) -> Parsed:
    """One array: a row per entry of its first axis, columns x0, x1, ..."""
    what = f"{file.name} cannot be read as .npy"
    array = guard(file.name, ".npy", lambda: _load(file.data, what))
    columns, notices = _columns_of(array)
    frame = guard(file.name, ".npy", lambda: _frame(columns, notices))
    return Parsed(frame, notices=tuple(notices))


def read_npz(file: FileBytes) -> Parsed:
    """The table X (or the only one, or the largest), and vectors of the same length beside it."""
    what = f"{file.name} cannot be read as .npz"
    arrays = guard(file.name, ".npz", lambda: _members(file, what))
    tables = {name: a for name, a in arrays.items() if a.ndim >= 2 or a.dtype.names}
    vectors = {name: a for name, a in arrays.items() if a.ndim == 1 and not a.dtype.names}
    if not tables and not vectors:
        raise InputError(f"{file.name} holds no table and no vector.")
    columns: list[tuple[str, Array]] = []
    notices: list[Message] = []
    if tables:
        chosen = "X" if "X" in tables else max(tables, key=lambda name: tables[name].size)
        columns, notices = _columns_of(tables[chosen])
        length = len(tables[chosen])
    else:
        length = max(len(vector) for vector in vectors.values())
    beside = {name: vector for name, vector in vectors.items() if len(vector) == length}
    columns += beside.items()
    used = {chosen, *beside} if tables else set(beside)
    ignored = [name for name in arrays if name not in used]
    if ignored:
        notices.append(
            Message("tables.unused_arrays", n=len(ignored), names=show_names(ignored, 3))
        )
    frame = guard(file.name, ".npz", lambda: _frame(columns, notices))
    return Parsed(frame, notices=tuple(notices))


def _load(data: bytes, what: str) -> Array:
    """An array whose header agrees with the bytes that are there."""
    stream = io.BytesIO(data)
    version = npy_format.read_magic(stream)
    if version not in _READERS:
        version = (2, 0) if version == (3, 0) else version
        if version not in _READERS:
            raise InputError(f"{what}: its version is unknown.")
    shape, fortran, dtype = _READERS[version](stream)
    if dtype.hasobject:
        raise InputError(f"{what}: it holds Python objects (pickled), which are never opened.")
    start = stream.tell()
    declared = math.prod(shape) * dtype.itemsize
    if declared != len(data) - start or dtype.itemsize == 0:
        raise InputError(
            f"{what}: it declares {declared:,} bytes of data and holds {len(data) - start:,}."
        )
    if not shape or declared == 0:
        held = "nothing" if shape else "a single value, not a table"
        raise InputError(f"{what}: it holds {held} (its shape is {shape}).")
    words = _PER_WORD * math.prod(shape) if dtype.kind in "US" else 0
    require_memory(3 * declared + words, f"the table in {what.split(' cannot')[0]}", ADVICE)
    flat = np.frombuffer(data, dtype=dtype, offset=start)
    return flat.reshape(shape, order="F" if fortran else "C")


def _members(file: FileBytes, what: str) -> dict[str, Array]:
    """The arrays of a zip file, after a look at the sizes it declares."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(file.data))
    except zipfile.BadZipFile as error:
        raise InputError(f"{what}: {str(error).rstrip('.')}.") from None
    entries = archive.infolist()
    if not any(entry.filename.endswith(".npy") for entry in entries):
        raise InputError(f"{what}: it is another zip file.")
    if len(entries) > _MOST_MEMBERS:
        raise InputError(f"{what}: it holds {len(entries):,} arrays.")
    declared = sum(entry.file_size for entry in entries)
    require_memory(len(file.data) + 3 * declared, f"the table in {file.name}", ADVICE)
    arrays = {}
    for entry in entries:
        if not entry.filename.endswith(".npy"):
            continue
        try:
            data = _unpacked(archive, entry)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, _zlib_error()) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise InputError(f"{what}: {show(entry.filename)}: {reason}.") from None
        name = entry.filename.removesuffix(".npy")
        if not _is_single(data):
            arrays[name] = _load(data, what)
    return arrays


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """In steps: read at once, an entry would be unpacked whole, whatever size it declares."""
    whole = io.BytesIO()
    with archive.open(entry) as stream:
        while piece := stream.read(_STEP):
            if whole.tell() + len(piece) > entry.file_size:
                raise zipfile.BadZipFile("it holds more than it declares")
            whole.write(piece)
    return whole.getvalue()


def _zlib_error() -> type[Exception]:
    import zlib

    return zlib.error


def _is_single(data: bytes) -> bool:
    """Whether this is one value without an axis, such as a version number beside the tables."""
    return b"'shape': ()" in data[:256]


def _columns_of(array: Array) -> tuple[list[tuple[str, Array]], list[Message]]:
    """The columns of an array and notices: fields of a record, or one per place in a row."""
    notices: list[Message] = []
    if array.dtype.names:
        fields = array.reshape(-1)
        return [(field, fields[field]) for field in array.dtype.names], notices
    if array.ndim > 2:
        shape = " x ".join(f"{size:,}" for size in array.shape[1:])
        notices.append(Message("tables.array_rows", shape=shape))
    flat = array.reshape(len(array), -1)
    return [(f"x{i}", flat[:, i]) for i in range(flat.shape[1])], notices


def _frame(columns: list[tuple[str, Array]], notices: list[Message]) -> pl.DataFrame:
    import polars as pl

    names, changed = unique_names([name for name, _ in columns])
    notices += changed
    return pl.DataFrame([_series(name, a) for name, (_, a) in zip(names, columns, strict=True)])


def _series(name: str, values: Array) -> pl.Series:
    import polars as pl

    if values.ndim > 1:
        return pl.Series(name, values)
    kind = values.dtype
    if kind.kind not in _KINDS:
        raise InputError(f"column {show(name)} holds {kind}, which is not a number or a text.")
    if kind.kind in "US":
        return pl.Series(name, [_text(value) for value in values.tolist()], dtype=pl.String)
    return pl.Series(name, np.ascontiguousarray(values.astype(_native(kind), copy=False)))


def _text(value: Any) -> str | None:
    text = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
    return text or None


def _native(kind: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype polars knows: this machine's byte order, no half or extended floats."""
    if kind.kind == "f" and kind.itemsize not in (4, 8):
        return np.dtype(np.float32 if kind.itemsize == 2 else np.float64)
    if kind.kind in "Mm" and np.datetime_data(kind)[0] not in ("D", "ms", "us", "ns"):
        return np.dtype(f"{kind.kind}8[us]")
    return kind.newbyteorder("=")
