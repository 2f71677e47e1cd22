"""Tables that once took many times the budget, as bytes of about a given size."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable

import numpy as np


def _numbers(size: int, separator: str = ",", end: str = "\n", words: str = "") -> str:
    line = separator.join(f"{i * 37 % 1000 / 8:g}" for i in range(20)) + words + end
    return line * (size // len(line))


def _utf16(size: int) -> bytes:
    return _numbers(size // 2).encode("utf-16")


def _gbk(size: int) -> bytes:
    return ("城市," * 20 + "数据\n" + _numbers(size, words=",北京市朝阳区")).encode("gbk")


def _latin1(size: int) -> bytes:
    return ("größe," * 20 + "é\n" + _numbers(size, words=",Übergröße")).encode("latin-1")


def _wide(size: int) -> bytes:
    width = 20_000
    header = ",".join(f"c{i}" for i in range(width))
    line = ",".join(f"{i * 37 % 1000 / 8:g}" for i in range(width))
    return "\n".join([header, *[line] * (size // len(line))]).encode()


def _lying_npz(size: int) -> bytes:
    """An array that unpacks to three times what its entry declares."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        stream = io.BytesIO()
        np.save(stream, np.zeros((size, 3), dtype=np.uint8))
        archive.writestr("X.npy", stream.getvalue())
    data = bytearray(whole.getvalue())
    true, told = struct.pack("<I", size * 3 + 128), struct.pack("<I", size)
    assert true in data
    return bytes(data.replace(true, told))


def _parquet_lists(size: int) -> bytes:
    import polars as pl

    values = np.zeros(size, dtype=np.int64)
    frame = pl.DataFrame(
        {"x": [1.0, 2.0, 3.0, 4.0], "long": list(np.split(values[: size // 4 * 4], 4))}
    )
    whole = io.BytesIO()
    frame.write_parquet(whole)
    return whole.getvalue()


def _parquet_words(size: int) -> bytes:
    import polars as pl

    words = [f"{i:04d}" + "a" * 2_000 for i in range(size // 2_000)]
    whole = io.BytesIO()
    pl.DataFrame({"x": np.arange(len(words)), "w": words}).write_parquet(whole)
    return whole.getvalue()


def _npy_words(size: int) -> bytes:
    whole = io.BytesIO()
    np.save(whole, np.full((size, 1), b"x", dtype="S1"))
    return whole.getvalue()


def _arrow_stream(size: int) -> bytes:
    import polars as pl

    whole = io.BytesIO()
    pl.DataFrame({"x": np.zeros(size // 8)}).write_ipc_stream(whole)
    return whole.getvalue()


def _parquet_vectors(size: int) -> bytes:
    """Rows of 64 small whole numbers, which become floats."""
    import polars as pl

    rows = np.random.default_rng(0).integers(0, 200, (size // 64, 64)).astype(np.uint8)
    whole = io.BytesIO()
    pl.DataFrame({"v": rows}).with_columns(pl.col("v").arr.to_list()).write_parquet(whole)
    return whole.getvalue()


def _json_lines(size: int) -> bytes:
    line = b'{"v":[' + b",".join([b"0.5"] * 100) + b'],"t":"word","n":5}\n'
    return line * (size // len(line))


def _workbook(size: int) -> bytes:
    import xlsxwriter

    whole = io.BytesIO()
    with xlsxwriter.Workbook(whole) as book:
        sheet = book.add_worksheet()
        for row in range(size // 400):
            for column in range(4):
                sheet.write_string(row, column, f"word {row} {column}")
            sheet.write_number(row, 4, row + 0.25)
    return whole.getvalue()


TABLES: dict[str, Callable[[int], bytes]] = {
    "spaces": lambda size: _numbers(size, separator="  ").encode(),
    "utf-16": _utf16,
    "gbk": _gbk,
    "latin-1": _latin1,
    "20,000 columns": _wide,
    "lying npz": _lying_npz,
    "Parquet lists": _parquet_lists,
    "Parquet words": _parquet_words,
    "npy words": _npy_words,
    "one column": lambda size: b"a\n" + b"1\n" * (size // 2),
    "quoted": lambda size: b'"a","b"\n' + b'"1","2"\n' * (size // 8),
    "blank lines": lambda size: b"a,b\n" + b"1,2\n\n" * (size // 5),
    "crlf": lambda size: _numbers(size, end="\r\n").encode(),
    "cr": lambda size: _numbers(size, end="\r").encode(),
    "NULs": lambda size: _numbers(size, end="\0\n").encode(),
    "Arrow stream": _arrow_stream,
    "Parquet vectors": _parquet_vectors,
    "JSON lines": _json_lines,
    "workbook": _workbook,
    "leading zeros": lambda size: b"id,b\n" + b"007,1\n" * (size // 6),
    "words for missing": lambda size: b"a,b\n" + b"NA,1\n2,3\n" * (size // 9),
    "thousands": lambda size: b"a;b\n" + b"1,234,567;1\n" * (size // 12),
    "words": lambda size: b"a,b\n" + b"p,q\n" * (size // 4),
}
