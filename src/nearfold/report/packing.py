"""Arrays as short texts inside JSON, for the report's page.

A packed array is a dict that `page/data.js` turns back into a typed array:

    data      the codes, little-endian, in base 85 (five letters for four bytes; base64 needs 5.3)
    type      "u1", "u2" or "u4": bytes per code
    shape     as in NumPy
    planes    the first bytes of all codes come first, then all second bytes, ...
    deflate   the bytes are compressed (raw deflate)
    missing   the code that means "no value", or null

and for numbers that are not counts: `low`, `high` (one per column), `levels` and `decimals`:
code c stands for low + (high - low) c / (levels - 1), rounded to `decimals` unless that is null.

The high bytes of numbers repeat and the low ones do not; apart, in planes, they compress better.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.notation import Array, Floats
from nearfold.study.plain import plain

_MOST_DECIMALS = 6
_MANY_POINTS = 20_000  # from here on positions have 14 bits: steps show at thirtyfold zoom only
# Letters that neither JSON nor HTML writes in another way.
_LETTERS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%()*+,-./:;=?@^_{|}~"


def pack_integers(values: Any) -> dict[str, Any]:
    """Pack row numbers, counts or category codes; -1 means that there is no value."""
    codes = np.asarray(values)
    if codes.dtype.kind == "b":
        codes = codes.astype(np.uint8)
    if codes.dtype.kind not in "iu":
        raise InputError(f"pack_integers takes whole numbers, not {codes.dtype}.")
    low, high = (int(codes.min()), int(codes.max())) if codes.size else (0, 0)
    if low < -1 or high >= 2**32 - 1:
        raise InputError(f"pack_integers takes -1 to 2^32 - 2; the values reach {low} to {high}.")
    missing = high + 1 if low < 0 else None
    if missing is not None:
        codes = np.where(codes < 0, missing, codes)
    return {**_pack_codes(codes, high if missing is None else missing), "missing": missing}


def pack_floats(values: Any, levels: int = 65535) -> dict[str, Any]:
    """Pack numbers as `levels` even steps between the least and the greatest of each column.

    Numbers with few decimals and few steps between them (counts, prices, lengths in millimetres)
    are kept exactly. NaN and inf become "no value".
    """
    X = np.asarray(values)
    if X.dtype.kind not in "fiub":
        raise InputError(f"pack_floats takes numbers, not {X.dtype}.")
    columns = X.reshape(len(X), -1)
    low, high = [], []
    decimals = _common_decimals(columns, levels)
    for column in columns.T:
        finite = column[np.isfinite(column)].astype(np.float64)
        least, most = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
        low.append(float(least))
        step = None if decimals is None else 10.0**-decimals
        high.append(float(most) if step is None else float(least + (levels - 1) * step))
    return _pack_scaled(X, low, high, levels, decimals)


def pack_points(xy: Any) -> dict[str, Any]:
    """Pack (n, 2) positions with one scale for both axes, so that the picture keeps its shape.

    One column is drawn as a line: its second coordinate is 0. Rows that are not finite have no
    place in the picture.
    """
    Z = np.asarray(xy)
    if Z.ndim != 2 or Z.shape[1] not in (1, 2) or Z.dtype.kind not in "fiu":
        raise InputError(f"pack_points takes numbers of shape (n, 2), not {Z.dtype} {Z.shape}.")
    if Z.shape[1] == 1:
        Z = np.hstack([Z, np.zeros_like(Z)])
    placed = Z[np.isfinite(Z).all(axis=1)].astype(np.float64)
    low = placed.min(axis=0) if len(placed) else np.zeros(2)
    high = placed.max(axis=0) if len(placed) else np.zeros(2)
    half = float((high / 2 - low / 2).max())  # halves: the width of 1e308 on both sides is finite
    middle = low / 2 + high / 2
    limit = np.finfo(np.float64).max
    low, high = np.clip(middle - half, -limit, limit), np.clip(middle + half, -limit, limit)
    levels = 65535 if len(Z) < _MANY_POINTS else 16383
    return _pack_scaled(Z, low.tolist(), high.tolist(), levels, None)


def pack_texts(values: list[str]) -> dict[str, Any]:
    """Pack many texts (the ids of rows): numbers after a common prefix, or one compressed list."""
    found = [re.fullmatch(r"(\D*)(0|[1-9][0-9]{0,8})", value) for value in values]
    prefixes = {match[1] if match else None for match in found}
    if len(prefixes) == 1 and None not in prefixes:
        numbers = np.array([int(match[2]) for match in found if match])
        return {"prefix": prefixes.pop(), "numbers": pack_integers(numbers)}
    return {"texts": _encode(_deflate(json.dumps(values).encode("ascii")))}


def packed_size(packed: Any) -> int:
    """How many bytes something packed takes in the page."""
    text = json.dumps(plain(packed), separators=(",", ":"), ensure_ascii=False)
    return len(text.encode("utf-8"))


def _common_decimals(columns: Array, levels: int) -> int | None:
    """The fewest decimals that write all numbers exactly in `levels` steps; None if none do."""
    finite = np.isfinite(columns)
    if not finite.any():
        return None
    known = columns[finite].astype(np.float64)
    largest = np.abs(known).max()
    if not largest < 2**53:  # such numbers have no decimals, nor a width to speak of
        return None
    low = np.where(finite, columns, np.inf).min(axis=0)
    high = np.where(finite, columns, -np.inf).max(axis=0)
    width = float((high - low).max())  # of an empty column: -inf
    # A float32 0.1 is meant as 0.1: digits beyond the type's own are not looked at.
    rounding = 4 * np.finfo(columns.dtype).eps if columns.dtype.kind == "f" else 0.0
    for decimals in range(_MOST_DECIMALS + 1):
        scale = 10.0**decimals
        if width * scale > levels - 1 or largest * scale >= 2**53:
            return None
        if np.abs(known * scale - np.rint(known * scale)).max() <= rounding * largest * scale:
            return decimals
    return None


def _pack_scaled(
    X: Array, low: list[float], high: list[float], levels: int, decimals: int | None
) -> dict[str, Any]:
    """Codes 0 to levels - 1 for low to high of each column, `levels` for what is not finite."""
    if not 2 <= levels <= 65535:
        raise InputError(f"levels={levels}: use 2 to 65535.")
    columns = X.reshape(len(X), -1).astype(np.float64)
    known = np.isfinite(columns)
    least, most = np.asarray(low) / 2, np.asarray(high) / 2  # halves, so that no width overflows
    width = np.where(most > least, most - least, 1.0)
    share: Floats = (np.where(known, columns, 0.0) / 2 - least) / width
    codes = np.rint(np.clip(share, 0.0, 1.0) * (levels - 1)).astype(np.uint16)
    codes[~known] = levels
    any_missing = not known.all()
    packed = _pack_codes(codes.reshape(X.shape), levels if any_missing else levels - 1)
    return {
        **packed,
        "low": low,
        "high": high,
        "levels": levels,
        "decimals": decimals,
        "missing": levels if any_missing else None,
    }


def _pack_codes(codes: Array, largest: int) -> dict[str, Any]:
    """The shortest of plain, compressed, and compressed in planes."""
    width = 1 if largest < 2**8 else 2 if largest < 2**16 else 4
    plain = np.ascontiguousarray(codes, dtype=f"<u{width}")
    octets = plain.reshape(-1).view(np.uint8).reshape(-1, width)
    ways = [(_deflate(octets.tobytes()), True, False), (octets.tobytes(), False, False)]
    if width > 1:
        ways.insert(0, (_deflate(octets.T.tobytes()), True, True))
    data, deflate, planes = min(ways, key=lambda way: len(way[0]))
    return {
        "data": _encode(data),
        "type": f"u{width}",
        "shape": list(codes.shape),
        "deflate": deflate,
        "planes": planes,
    }


def _deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


def _encode(data: bytes) -> str:
    """Base 85, as everywhere: a last group of r bytes becomes r + 1 letters."""
    words = np.frombuffer(data + b"\0" * (-len(data) % 4), dtype=">u4").astype(np.int64)
    digits = words[:, None] // 85 ** np.arange(4, -1, -1) % 85
    text = np.frombuffer(_LETTERS, dtype=np.uint8)[digits].tobytes().decode("ascii")
    return text[: len(text) - (-len(data) % 4)]
