"""How much a Parquet file holds, from its footer alone.

Cells of text, bytes and lists have no fixed size, and a small file may hold an enormous column of
them. The footer (Thrift's compact protocol) says for each column chunk how many values it holds and
how many bytes they take before they are compressed.
"""

from __future__ import annotations

import struct
from typing import Any

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_DEEPEST = 16  # structs within structs: a footer has fewer
_VALUE = 16  # bytes of polars for a value, or for the place of one


def declared_bytes(data: bytes) -> int:
    """Bytes that the columns take once they are read, as far as the footer tells."""
    (length,) = struct.unpack_from("<I", data, len(data) - 8)
    start = len(data) - 8 - length
    if start < 0:
        raise ValueError("the footer is longer than the file")
    footer = _Reader(data, start).struct()
    total = 0
    for group in footer.get(4, []):
        for chunk in group.get(1, []):
            about = chunk.get(3, {})
            values, size = about.get(5, 0), about.get(6, 0)
            if values < 0 or size < 0:
                raise ValueError("a column of negative length")
            total += size + _VALUE * values
    return total


class _Reader:
    """Structs of Thrift's compact protocol, as dictionaries from field numbers to values."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ValueError("the footer is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._integer()
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):  # in a list a truth value takes a byte
            return self._byte()
        if kind == _DOUBLE:
            return self._skip(8)
        if kind == _BINARY:
            return self._skip(self._unsigned())
        if kind in (_LIST, _SET):
            head = self._byte()
            size = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._value(head & 15, depth + 1) for _ in range(self._sane(size))]
        if kind == _MAP:
            size = self._sane(self._unsigned())
            kinds = self._byte() if size else 0
            for _ in range(size):
                self._value(kinds >> 4, depth + 1)
                self._value(kinds & 15, depth + 1)
            return None
        if kind == _STRUCT:
            return self.struct(depth + 1)
        return self._integer()

    def _sane(self, size: int) -> int:
        if size > len(self._data) - self._at:  # every entry takes a byte at least
            raise ValueError("a list longer than the file")
        return size

    def _byte(self) -> int:
        value = self._data[self._at]
        self._at += 1
        return value

    def _skip(self, size: int) -> None:
        self._at += self._sane(size)

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 70:
                raise ValueError("a number of too many digits")

    def _integer(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
