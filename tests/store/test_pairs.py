"""Pairs files: any format, ids as they are written, errors with the line."""

import gzip
import io

import numpy as np
import polars as pl
import pytest

from nearfold.errors import InputError
from nearfold.store.pairs import read_pairs

IDS = np.array(["007", "7", "a b", "12"], dtype=object)
EXPECTED = [[0, 1, 1], [2, 3, -1]]


def pairs(data, ids=IDS, **options):
    return read_pairs(io.BytesIO(data.encode() if isinstance(data, str) else data), ids, **options)


@pytest.mark.parametrize("header", ["", "one,two,link\n"])
@pytest.mark.parametrize("separator", list(",;\t|"))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig"])
def test_texts(header, separator, encoding):
    text = (header + "007,7,1\na b,12,-1\n").replace(",", separator)
    assert pairs(text.encode(encoding)).tolist() == EXPECTED
    assert pairs(gzip.compress(text.encode())).tolist() == EXPECTED


@pytest.mark.parametrize("how", ["write_parquet", "write_ipc", "write_ndjson", "write_excel"])
def test_other_formats(how):
    stream = io.BytesIO()
    frame = pl.DataFrame({"p": ["007", "a b"], "q": ["7", "12"], "sign": [1, -1]})
    getattr(frame, how)(stream)
    assert pairs(stream.getvalue()).tolist() == EXPECTED


def test_numbers_match_numbers():
    numbers = np.array([10, 2, 3])
    assert pairs("10,2,1\n3.0,02,0\n", numbers).tolist() == [[0, 1, 1], [2, 1, -1]]
    floats = np.array([10.0, 2.0, 3.5])
    assert pairs("10,2,must-link\n3.5,2,cannot-link\n", floats).tolist() == [[0, 1, 1], [2, 1, -1]]


def test_row_numbers():
    assert pairs("0,1,1\n2,1,-1\n", None, n_rows=3).tolist() == [[0, 1, 1], [2, 1, -1]]
    with pytest.raises(InputError, match=r"line 2: '3' is not a row number from 0 to 2"):
        pairs("0,1,1\n3,1,-1\n", None, n_rows=3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("007,7,1\n\n7,13,1\n", r"line 3: '13' is not an id of the table\."),
        ("a,b,s\n007,7,1\n0012,13,1\n", r"line 3: '0012' is not an id .* \(2 such ids in all\)"),
        ("007,7,1\n7,12,maybe\n", r"line 2: 'maybe' is neither 1"),
        ("007,7\n7,12\n", "has 2 columns"),
        ("a,b,sign\n", "holds no pairs"),
        ("", "is empty"),
    ],
)
def test_errors_name_the_line(text, says):
    with pytest.raises(InputError, match=says) as error:
        pairs(text)
    assert "\n" not in str(error.value)
    if "line" in says:
        assert "行" in error.value.args[0].text("zh")


def test_repeated_ids():
    with pytest.raises(InputError, match="not unique: '1'"):
        pairs("1,2,1\n", np.array([1, 2, 1]))
