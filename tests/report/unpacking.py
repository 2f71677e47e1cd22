"""Packed arrays read back, slowly and literally, as the page reads them."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%()*+,-./:;=?@^_{|}~"


def read_bytes(text: str) -> bytes:
    """Base 85, one group after the other."""
    out = b""
    for at in range(0, len(text), 5):
        group = text[at : at + 5]
        word = 0
        for letter in group.ljust(5, LETTERS[84]):
            word = 85 * word + LETTERS.index(letter)
        out += word.to_bytes(4, "big")[: len(group) - 1]
    return out


def read_codes(packed: dict[str, Any]) -> np.ndarray:
    data = read_bytes(packed["data"])
    if packed["deflate"]:
        data = zlib.decompress(data, -15)
    width = int(packed["type"][1])
    count = int(np.prod(packed["shape"]))
    octets = np.frombuffer(data, np.uint8)
    parts = octets.reshape(width, count).T if packed["planes"] else octets.reshape(count, width)
    codes = (parts.astype(np.int64) * 256 ** np.arange(width)).sum(axis=1)
    return codes.reshape(packed["shape"])


def read_floats(packed: dict[str, Any]) -> np.ndarray:
    codes = read_codes(packed)
    low, high = np.array(packed["low"]), np.array(packed["high"])
    columns = codes.reshape(len(codes), -1)
    share = np.minimum(columns / (packed["levels"] - 1), 1.0)  # "no value" has a code above
    values = low * (1 - share) + high * share
    if packed["decimals"] is not None:
        values = values.round(packed["decimals"])
    values[columns == packed["missing"]] = np.nan
    return values.reshape(codes.shape)
