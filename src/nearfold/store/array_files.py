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
from nearfold.messages import Message
from nearfold.notation import Array
from nearfold.store.file_bytes import ADVICE, FileBytes
from nearfold.store.frames import Parsed, guard, unique_names

if TYPE_CHECKING:
    import polars as pl

_READERS = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
    (3, 0): npy_format.read_array_header_2_0,
}
_KINDS = "biufUSMm"  # what a column can be made of
_MOST_MEMBERS = 10_000
_STEP = 2**20  # bytes unpacked at once
_PER_WORD = 96  # bytes of a text on its way from an array to a frame


def read_npy(file: FileBytes) -> Parsed:
    """One array: a row per entry of its first axis, columns x0, x1, ..."""

    def parse() -> Parsed:
        columns, notices = _columns_of(_load(file.data, file.name))
        return _parsed(columns, notices)

    return guard(file.name, ".npy", parse)


def read_npz(file: FileBytes) -> Parsed:
    """The table X (or the only one, or the largest), and vectors of the same length beside it."""
    return guard(file.name, ".npz", lambda: _chosen(_members(file)))


def _chosen(arrays: dict[str, Array]) -> Parsed:
    tables = {name: a for name, a in arrays.items() if a.ndim >= 2 or a.dtype.names}
    vectors = {name: a for name, a in arrays.items() if a.ndim == 1 and not a.dtype.names}
    if not tables and not vectors:
        raise ValueError(Message("tables.npy.no_table"))
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
        names = show_names(ignored, 3)
        notices.append(Message("tables.unused_arrays", n=len(ignored), names=names))
    return _parsed(columns, notices)


def _load(data: bytes, name: str) -> Array:
    """An array whose header agrees with the bytes that are there."""
    stream = io.BytesIO(data)
    version = npy_format.read_magic(stream)
    if version not in _READERS:
        raise ValueError(Message("tables.npy.version"))
    shape, fortran, dtype = _READERS[version](stream)
    if dtype.hasobject:
        raise ValueError(Message("tables.npy.objects"))
    start = stream.tell()
    declared, held = math.prod(shape) * dtype.itemsize, len(data) - start
    if declared != held or dtype.itemsize == 0:
        raise ValueError(Message("tables.npy.size", declared=declared, held=held))
    if not shape:
        raise ValueError(Message("tables.npy.single"))
    if declared == 0:
        raise ValueError(Message("tables.npy.nothing", shape=str(shape)))
    words = _PER_WORD * math.prod(shape) if dtype.kind in "US" else 0
    require_memory(3 * declared + words, Message("memory.table_in", name=name), ADVICE)
    flat = np.frombuffer(data, dtype=dtype, offset=start)
    return flat.reshape(shape, order="F" if fortran else "C")


def _members(file: FileBytes) -> dict[str, Array]:
    """The arrays of a zip file, after a look at the sizes it declares."""
    archive = zipfile.ZipFile(io.BytesIO(file.data))
    entries = archive.infolist()
    members = [entry for entry in entries if entry.filename.endswith(".npy")]
    if not members:
        raise ValueError(Message("tables.npy.zip"))
    if len(entries) > _MOST_MEMBERS:
        raise ValueError(Message("tables.npy.many", n=len(entries)))
    declared = sum(entry.file_size for entry in entries)
    needed = len(file.data) + 3 * declared
    require_memory(needed, Message("memory.table_in", name=file.name), ADVICE)
    arrays = {}
    for entry in members:
        data = _unpacked(archive, entry)
        if not _is_single(data):
            arrays[entry.filename.removesuffix(".npy")] = _load(data, file.name)
    return arrays


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """In steps: read at once, an entry would be unpacked whole, whatever size it declares."""
    whole = io.BytesIO()
    with archive.open(entry) as stream:
        while piece := stream.read(_STEP):
            if whole.tell() + len(piece) > entry.file_size:
                raise ValueError(Message("tables.npy.longer", name=show(entry.filename)))
            whole.write(piece)
    return whole.getvalue()


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


def _parsed(columns: list[tuple[str, Array]], notices: list[Message]) -> Parsed:
    import polars as pl

    names, changed = unique_names([name for name, _ in columns])
    series = [_series(name, array) for name, (_, array) in zip(names, columns, strict=True)]
    return Parsed(pl.DataFrame(series), notices=(*notices, *changed))


def _series(name: str, values: Array) -> pl.Series:
    import polars as pl

    if values.ndim > 1:
        return pl.Series(name, values)
    kind = values.dtype
    if kind.kind not in _KINDS:
        raise ValueError(Message("tables.npy.kind", name=show(name), kind=str(kind)))
    if kind.kind in "US":
        return pl.Series(name, [_text(value) for value in values.tolist()], dtype=pl.String)
    return pl.Series(name, np.ascontiguousarray(values.astype(native_dtype(kind), copy=False)))


def _text(value: Any) -> str | None:
    text = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
    return text or None


def native_dtype(kind: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype polars knows: this machine's byte order, no half or extended floats."""
    if kind.kind == "f" and kind.itemsize not in (4, 8):
        return np.dtype(np.float32 if kind.itemsize == 2 else np.float64)
    if kind.kind in "Mm" and np.datetime_data(kind)[0] not in ("D", "ms", "us", "ns"):
        return np.dtype(f"{kind.kind}8[us]")
    return kind.newbyteorder("=")
