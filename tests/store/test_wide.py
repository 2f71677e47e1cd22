"""Tables of very many columns are read as others are, only faster."""

import io

import numpy as np
import polars as pl
import pytest

from nearfold.store import delimited
from nearfold.store.tables import read_table

WIDTH = delimited.WIDE + 20


def _lines(rng, n, separator=","):
    columns = []
    for j in range(WIDTH):
        kind = j % 7
        if kind == 0:
            cells = [str(v) for v in rng.integers(0, 300 if j % 2 else 200, n)]
        elif kind == 1:
            cells = [f"{v:.6g}" for v in rng.normal(size=n)]
        elif kind == 2:
            cells = [f" {v} " for v in rng.integers(-40_000, 40_000, n)]
        elif kind == 3:
            cells = [["NA", "1.5", "", "-"][v] for v in rng.integers(0, 4, n)]
        elif kind == 4:
            cells = [""] * n
        elif kind == 5:
            cells = [f"{v}" for v in rng.integers(0, 2, n)]
            cells[-1] = str(2**60) if j % 2 else "1e3"
        else:
            cells = ["7"] * n
        columns.append(cells)
    columns[3] = [["red", "NA", "green"][v] for v in rng.integers(0, 3, n)]
    columns[17] = [["true", "False"][v] for v in rng.integers(0, 2, n)]
    columns[8] = [f"{v:03d}" for v in rng.integers(0, 300, n)]
    columns[9] = [str(2**63 + int(v)) for v in rng.integers(0, 300, n)]
    columns[10] = ["1.5"] * (n - 1) + [str(2**53 + 1)]
    columns[-1] = ["x"] + ["3"] * (n - 1)  # a word in the first row only
    names = separator.join(f"n{j}" for j in range(WIDTH))
    return "\n".join([names, *map(separator.join, zip(*columns, strict=True))])


@pytest.mark.parametrize(("separator", "end"), [(",", "\n"), (";", "\r\n"), ("\t", "\n")])
def test_a_wide_table_is_read_as_others_are(monkeypatch, separator, end):
    text = _lines(np.random.default_rng(0), 40, separator).replace("\n", end).encode()
    monkeypatch.setattr(delimited, "_CHUNK", 2**16)  # several chunks
    wide = read_table(io.BytesIO(text))
    monkeypatch.setattr(delimited, "WIDE", 10**9)
    usual = read_table(io.BytesIO(text))
    assert wide.frame.schema == usual.frame.schema
    assert wide.frame.equals(usual.frame, null_equal=True)
    assert wide.source == usual.source
    assert wide.frame["n8"].dtype == wide.frame["n9"].dtype == wide.frame["n10"].dtype == pl.String


def test_wide_tables_of_words_are_read_as_others_are(monkeypatch):
    text = "\n".join([",".join(f"w{j}" for j in range(WIDTH))] * 3).encode()
    wide = read_table(io.BytesIO(text))
    monkeypatch.setattr(delimited, "WIDE", 10**9)
    assert wide.frame.equals(read_table(io.BytesIO(text)).frame)
