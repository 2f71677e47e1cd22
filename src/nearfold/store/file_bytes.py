"""The bytes of a file, of stdin or of an open stream: read in steps that mind the memory budget."""

from __future__ import annotations

import hashlib
import io
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

from nearfold.blocks import require_memory
from nearfold.errors import InputError, NearfoldError, reason
from nearfold.messages import Message
from nearfold.run import steps

_STEP = 2**20
_GROWTH = 1.125  # room that a growing buffer takes in advance
ADVICE = Message("memory.advice.table")
_OTHER_COMPRESSIONS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstandard"}


@dataclass
class FileBytes:
    """What a file holds, decompressed."""

    name: str
    data: bytes
    sha256: str  # of the bytes as they were given, compressed or not
    compression: str | None

    def take(self) -> bytes:
        """The bytes, which are kept here no longer: whoever rewrites them can let them go."""
        data, self.data = self.data, b""
        return data


def read_bytes(path: str | Path | IO[bytes]) -> FileBytes:
    """All bytes of a file, of stdin ("-") or of an open stream, decompressed if they are gzip."""
    if isinstance(path, str | Path):
        if str(path) == "-":
            return _read_stream(sys.stdin.buffer, "stdin", 0)
        return _read_file(Path(path))
    name = getattr(path, "name", None)
    shown = Path(name).name if isinstance(name, str) else str(Message("tables.stream"))
    return _read_stream(path, shown, 0)


def _read_file(path: Path) -> FileBytes:
    try:
        if path.is_dir():
            raise InputError(Message("tables.error.folder", path=str(path)))
        with path.open("rb") as stream:
            return _read_stream(stream, path.name, path.stat().st_size)
    except FileNotFoundError:
        raise InputError(Message("tables.error.no_file", path=str(path))) from None
    except NearfoldError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = reason(error)
        raise InputError(Message("tables.error.unreadable", path=str(path), reason=why)) from None


def _read_stream(stream: IO[bytes], name: str, size: int) -> FileBytes:
    require_memory(size, Message("memory.reading", name=name), ADVICE)
    digest = hashlib.sha256()
    pieces = _pieces(stream, digest, name, max(size, _STEP))
    data = next(pieces, b"")
    if len(data) != size:  # a stream, or a file that changed meanwhile
        data = _join(chain([data], pieces), name)
    if data.startswith(b"\x1f\x8b"):
        return FileBytes(name, _join(_decompress(data, name), name), digest.hexdigest(), "gzip")
    for magic, compression in _OTHER_COMPRESSIONS.items():
        if data.startswith(magic):
            raise InputError(Message("tables.error.compressed", name=name, compression=compression))
    return FileBytes(name, data, digest.hexdigest(), None)


def _pieces(stream: IO[bytes], digest: Any, name: str, first: int) -> Iterator[bytes]:
    """A first piece of this size (all of a file: it is not copied again), then small ones."""
    size = first
    while piece := stream.read(size):
        size = _STEP
        if not isinstance(piece, bytes):
            raise InputError(Message("tables.error.not_binary", name=name))
        digest.update(piece)
        yield piece


def _join(pieces: Iterator[bytes], name: str) -> bytes:
    """All pieces as one; refused as soon as they are too many, however many would follow."""
    whole = io.BytesIO()  # hands its buffer over: there is no second copy at the end
    for piece in steps(pieces, "reading"):
        needed = _GROWTH * (whole.tell() + len(piece))
        require_memory(needed, Message("memory.reading", name=name), ADVICE)
        whole.write(piece)
    return whole.getvalue()


def _decompress(compressed: bytes, name: str) -> Iterator[bytes]:
    """gzip in steps of bounded size: a small file may hold an enormous one."""
    start = 0
    while compressed.startswith(b"\x1f\x8b", start):  # a gzip file may be several, end to end
        inflater = zlib.decompressobj(wbits=31)
        try:
            while not inflater.eof:
                source = inflater.unconsumed_tail or compressed[start : start + _STEP]
                if not inflater.unconsumed_tail:
                    start += len(source)
                piece = inflater.decompress(source, _STEP)
                if not source and not piece:
                    raise InputError(Message("tables.error.cut_gzip", name=name))
                if piece:
                    yield piece
        except zlib.error as error:
            why = reason(error)
            raise InputError(Message("tables.error.bad_gzip", name=name, reason=why)) from None
        start -= len(inflater.unused_data)
