"""A model file from the outside: a header, a manifest in JSON, arrays in the safetensors layout.

    bytes   what
    8       NEARFOLD
    2, 2    version of the format: major, minor (little-endian, as all numbers here)
    4       zero
    8       length of the manifest
    8       length of the arrays
    32      SHA-256 of the manifest
    32      SHA-256 of the 64 bytes above
    ...     the manifest: JSON in UTF-8; it holds the SHA-256 of the arrays
    ...     the arrays: the safetensors layout, so that its tools can read them from there on

So each byte is covered by a hash, and every length is compared with the size of the file before
anything of that length is allocated. The first 96 bytes keep this form in every version.

Versions. A reader opens all minor versions of its major one: keys it does not know are passed
over. A new major version is for files that older readers would misunderstand.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from nearfold.errors import ModelFileError
from nearfold.messages import Message
from nearfold.store.model_error import invalid, one_line

MAGIC = b"NEARFOLD"
MAJOR, MINOR = 1, 0
_HEADER = struct.Struct("<8sHHIQQ32s")
HEADER_BYTES = _HEADER.size + 32
LARGEST_MANIFEST = 16 * 1024**2
MOST_NODES = 300_000  # values in the manifest: some tens of MB as Python objects
_LONGEST_INTEGER = 400  # digits
_DEEPEST = 256  # lists in lists: what comes later may recurse


@dataclass(frozen=True)
class Opened:
    """A model file whose header and manifest have been checked."""

    file: BufferedReader
    version: tuple[int, int]
    manifest: dict[str, Any]
    manifest_bytes: int
    payload_start: int
    payload_bytes: int


def pack_manifest(manifest: dict[str, Any], payload_bytes: int) -> bytes:
    """Header and manifest: all of a file that comes before its arrays."""
    text = json.dumps(manifest, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(text) > LARGEST_MANIFEST or _count_nodes(text) > MOST_NODES:
        most = {"nodes": MOST_NODES, "bytes": LARGEST_MANIFEST}
        raise ModelFileError(Message("model.many_parts", **most))
    digest = hashlib.sha256(text).digest()
    head = _HEADER.pack(MAGIC, MAJOR, MINOR, 0, len(text), payload_bytes, digest)
    return head + hashlib.sha256(head).digest() + text


@contextmanager
def open_checked(path: str | os.PathLike[str]) -> Iterator[Opened]:
    """Open a model file and check its header and its manifest; the arrays are not touched."""
    place = Path(path)
    if not place.exists():
        raise ModelFileError(Message("model.no_file"))
    # Opening a pipe would wait for a writer, and a device may have no end.
    if not stat.S_ISREG(place.stat().st_mode):
        raise ModelFileError(Message("model.no_regular"))
    with place.open("rb") as file:
        yield _check_head(file, os.fstat(file.fileno()).st_size)


def _check_head(file: BufferedReader, size: int) -> Opened:
    head = file.read(HEADER_BYTES)
    if not head.startswith(MAGIC):
        raise ModelFileError(Message(f"model.foreign{_guess(head)}"))
    if len(head) < HEADER_BYTES:
        raise ModelFileError(Message("model.cut_head"))
    if hashlib.sha256(head[: _HEADER.size]).digest() != head[_HEADER.size :]:
        raise ModelFileError(Message("model.damaged.header"))
    _, major, minor, zero, manifest_bytes, payload_bytes, digest = _HEADER.unpack_from(head)
    if major != MAJOR:
        id = "model.too_new" if major > MAJOR else "model.too_old"
        raise ModelFileError(Message(id, major=major, minor=minor, own=MAJOR))
    if zero or manifest_bytes > LARGEST_MANIFEST:
        raise invalid("the header: impossible lengths")
    expected = HEADER_BYTES + manifest_bytes + payload_bytes
    if size != expected:
        id = "model.cut" if size < expected else "model.long"
        raise ModelFileError(Message(id, size=size, expected=expected))
    text = file.read(manifest_bytes)
    if hashlib.sha256(text).digest() != digest:
        raise ModelFileError(Message("model.damaged.manifest"))
    start = HEADER_BYTES + manifest_bytes
    manifest = parse_json(text, "the manifest")
    return Opened(file, (major, minor), manifest, manifest_bytes, start, payload_bytes)


def _guess(head: bytes) -> str:
    kinds = {b"\x80": ".pickle", b"PK\x03\x04": ".zip", b"\x89PNG": ".picture",
             b"\x93NUMPY": ".array"}  # fmt: skip
    empty = "" if head else ".empty"
    return next((id for start, id in kinds.items() if head.startswith(start)), empty)


def check_payload(opened: Opened) -> None:
    """Compare the hash of the arrays with the one in the manifest."""
    stated = opened.manifest.get("payload")
    digest = stated.get("sha256") if isinstance(stated, dict) else None
    opened.file.seek(opened.payload_start)  # and up to the end, where the arrays end
    if hashlib.file_digest(opened.file, "sha256").hexdigest() != digest:
        raise ModelFileError(Message("model.damaged.arrays"))


def parse_json(text: bytes, what: str) -> dict[str, Any]:
    """A JSON object, strictly: UTF-8, no key twice, no NaN, no numbers of a thousand digits."""
    if _count_nodes(text) > MOST_NODES:
        raise invalid(f"{what}: more than {MOST_NODES:,} values")
    try:
        parsed = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_no_key_twice,
            parse_constant=_refuse_constant,
            parse_int=_bounded_integer,
            parse_float=_finite_float,
        )
    except (ValueError, RecursionError) as error:
        raise invalid(f"{what}: {one_line(str(error), 120)}") from error
    if not isinstance(parsed, dict):
        raise invalid(f"{what}: no JSON object")
    if _is_too_deep(parsed):
        raise invalid(f"{what}: nested too deeply")
    return parsed


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        parts = [part.values() if isinstance(part, dict) else part for part in level]
        level = [item for part in parts for item in part if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def _count_nodes(text: bytes) -> int:
    """At least as many as there are values; found before any of them becomes a Python object."""
    return sum(text.count(mark) for mark in (b",", b"[", b"{"))


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _bounded_integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER:
        raise ValueError("an integer is too long")
    return int(text)


def _finite_float(text: str) -> float:
    value = float(text)
    if value - value != 0.0:
        raise ValueError("a number is too large")
    return value
