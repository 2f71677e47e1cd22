"""Arrays in the safetensors layout: a length, a header in JSON, the bytes one after the other.

Written and read here, not by the safetensors library, for two reasons: the library holds all
bytes a second time (in both directions), and it can neither write to nor read from the middle of
a file. The tests read what is written here with the library.

Safetensors knows plain numbers in C order. What it does not know (complex numbers, text, dates,
the other byte order) is stored as bytes with one axis more; Fortran order as the transpose. The
manifest says so, because results may differ in the last bit with the order in memory.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from nearfold.errors import InputError, ModelFileError
from nearfold.messages import Message
from nearfold.notation import Array
from nearfold.run import steps
from nearfold.store.model_error import invalid
from nearfold.store.model_layout import Opened, parse_json

_LENGTH = struct.Struct("<Q")
_LARGEST_HEADER = 32 * 1024**2
_MOST_AXES = 32
_LARGEST_SIDE = 2**48
_CHUNK = 4 * 1024**2
_DTYPE = re.compile(r"[<>|][biufcSUMm]\d{1,9}(\[\d{0,6}[a-zA-Z]{1,2}\])?")
# fmt: off
_NAMES = {
    "|b1": "BOOL", "|u1": "U8", "|i1": "I8", "<i2": "I16", "<u2": "U16", "<f2": "F16",
    "<i4": "I32", "<u4": "U32", "<f4": "F32", "<i8": "I64", "<u8": "U64", "<f8": "F64",
}
# fmt: on
_SIZES = {name: np.dtype(code).itemsize for code, name in _NAMES.items()}


def check_dtype(code: Any) -> np.dtype[Any]:
    """The dtype of a code such as "<f8", if arrays of it can be in a model file."""
    if not isinstance(code, str) or not _DTYPE.fullmatch(code):
        raise invalid("an unknown kind of array")
    dtype = np.dtype(code)
    largest = {"f": 8, "c": 16}.get(dtype.kind, dtype.itemsize)  # long doubles differ by machine
    if dtype.str != code or dtype.itemsize > largest:
        raise invalid(f"arrays of {code}")
    return dtype


def storable(X: Array, where: str) -> Array:
    """X as it will be written: contiguous, in the order nearest to its own."""
    code = X.dtype.str
    portable = X.dtype.kind in "biufcSUMm" and _DTYPE.fullmatch(code)
    if not portable or (X.dtype.kind in "fc" and X.dtype.char in "gG"):
        raise InputError(Message("model.array", place=where, kind=str(X.dtype)))
    if X.dtype.itemsize == 0:  # texts that are all empty
        X = X.astype(X.dtype.kind + "1")
    X = np.asarray(X)
    if X.flags.c_contiguous or X.flags.f_contiguous:
        return X
    copy = X.copy(order="K")
    return copy if copy.flags.f_contiguous else np.ascontiguousarray(copy)


def is_transposed(X: Array) -> bool:
    """Whether X is in Fortran order and not at the same time in C order."""
    return bool(X.flags.f_contiguous and not X.flags.c_contiguous)


def _form(dtype: np.dtype[Any], shape: Sequence[int], transposed: bool) -> tuple[str, list[int]]:
    """The name and the shape under which safetensors holds an array."""
    sides = list(reversed(shape)) if transposed else list(shape)
    name = _NAMES.get(dtype.str)
    return (name, sides) if name else ("U8", [*sides, dtype.itemsize])


@dataclass(frozen=True)
class Payload:
    """The arrays of a model, ready to be written; they are never copied together."""

    header: bytes
    arrays: list[Array]
    n_bytes: int

    def sha256(self) -> str:
        """The hash of all that `write` will write."""
        hasher = hashlib.sha256()
        self._feed(hasher.update, "hashing")
        return hasher.hexdigest()

    def write(self, file: BinaryIO) -> None:
        """Header and arrays, array by array."""
        self._feed(file.write, "saving")

    def _feed(self, take: Callable[[Any], Any], label: str) -> None:
        take(self.header)
        for X in steps(self.arrays, label):
            flat = _as_bytes(X.T if is_transposed(X) else X)
            for start in range(0, len(flat), _CHUNK):
                take(flat[start : start + _CHUNK].data)


def pack_arrays(arrays: list[Array]) -> Payload:
    """The payload of arrays that are `storable`; their names are their numbers."""
    table: dict[str, Any] = {}
    end = 0
    for number, X in enumerate(arrays):
        name, shape = _form(X.dtype, X.shape, is_transposed(X))
        table[str(number)] = {"dtype": name, "shape": shape, "data_offsets": [end, end + X.nbytes]}
        end += X.nbytes
    text = json.dumps(table, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    return Payload(_LENGTH.pack(len(text)) + text, arrays, _LENGTH.size + len(text) + end)


def _as_bytes(X: Array) -> Array:
    """The memory of a contiguous array as a flat array of bytes."""
    return X.reshape(-1).view(np.uint8) if X.size else np.empty(0, np.uint8)


class TensorReader:
    """Reads arrays of a file, each once, after all places and sizes have been checked."""

    def __init__(self, opened: Opened) -> None:
        self._file = opened.file
        size = opened.payload_bytes
        self._file.seek(opened.payload_start)
        if size < _LENGTH.size:
            raise invalid("the arrays have no header")
        (length,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
        if length > min(size - _LENGTH.size, _LARGEST_HEADER):
            raise invalid("the header of the arrays: impossible length")
        table = parse_json(self._file.read(length), "the header of the arrays")
        table.pop("__metadata__", None)
        self._start = opened.payload_start + _LENGTH.size + length
        self._table = {name: _check_entry(entry) for name, entry in table.items()}
        _check_places(self._table, size - _LENGTH.size - length)

    def read(
        self, name: Any, dtype: np.dtype[Any], shape: tuple[int, ...], transposed: bool
    ) -> Array:
        """One array, into memory of its own."""
        entry = self._table.pop(name, None) if isinstance(name, str) else None
        if entry is None:
            raise invalid("an array is missing or used twice")
        kind, sides, begin, end = entry
        if (kind, sides) != _form(dtype, shape, transposed):
            raise invalid("an array is not as the manifest has it")
        if dtype.itemsize * math.prod(shape) != end - begin:
            raise invalid("an array has another size than its place")
        X = np.empty(shape[::-1] if transposed else shape, dtype)
        self._file.seek(self._start + begin)
        if X.size and self._file.readinto(_as_bytes(X).data) != X.nbytes:
            raise ModelFileError(Message("model.shrunk"))
        _check_values(X)
        return X.T if transposed else X


_Entry = tuple[str, list[int], int, int]


def _check_entry(entry: Any) -> _Entry:
    """(kind, shape, begin, end) of a tensor, if they fit each other."""
    try:
        kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        whole = all(type(n) is int and 0 <= n < _LARGEST_SIDE for n in [*shape, begin, end])
        fits = whole and len(shape) <= _MOST_AXES
        if fits and _SIZES[kind] * math.prod(shape) == end - begin:
            return kind, list(shape), begin, end
    except (KeyError, TypeError, ValueError):
        pass
    raise invalid("the header of the arrays: a shape that does not fit")


def _check_places(table: dict[str, _Entry], size: int) -> None:
    """Tensors follow each other without holes or overlaps, up to the end."""
    reached = 0
    for _, _, begin, end in sorted(table.values(), key=lambda entry: entry[2:]):
        if begin != reached:
            raise invalid("the header of the arrays: they overlap")
        reached = end
    if reached != size:
        raise invalid("the header of the arrays: they end at another place")


def _check_values(X: Array) -> None:
    """Bytes that are no value of their type would crash later, far from here."""
    if X.size == 0:
        return
    if X.dtype.kind == "b" and X.view(np.uint8).max() > 1:
        raise invalid("neither true nor false")
    if X.dtype.kind == "U":
        points = X.reshape(-1).view(np.dtype(np.uint32).newbyteorder(X.dtype.byteorder))
        if points.max() > 0x10FFFF:
            raise invalid("letters that do not exist")
