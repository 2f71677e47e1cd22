"""Tables out: read again they are the same, and a spreadsheet runs nothing in them."""

import csv
import gzip
import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nearfold.errors import InputError
from nearfold.store.export import write_table
from nearfold.store.tables import read_table

COLUMNS = {
    "f": np.array([0.1, -1e300, 5e-324]),
    "g": np.array([0.1, 1e30, -7], dtype=np.float32),
    "i": np.array([1, -2, 2**40], dtype=">i8"),
    "b": np.array([True, False, True]),
    "t": ["a,b", 'q"uote', None],
    "w": ["编号", "line\nbreak", "é"],
    "o": np.array(["x", None, 3], dtype=object),
    "n": [1, None, 3],
}
EXPECTED = {
    "f": [0.1, -1e300, 5e-324],
    "i": [1, -2, 2**40],
    "b": [True, False, True],
    "t": ["a,b", 'q"uote', None],
    "w": ["编号", "line\nbreak", "é"],
    "o": ["x", None, "3"],
    "n": [1, None, 3],
}


def text_of(columns, **options):
    stream = io.BytesIO()
    write_table(stream, columns, **options)
    return stream.getvalue().decode()


@pytest.mark.parametrize(
    "name", ["t.csv", "t.tsv", "t.csv.gz", "t.tsv.gz", "t.parquet", "t.arrow", "t.npz", "T.CSV"]
)
def test_what_is_written_is_read_again(tmp_path, name):
    path = tmp_path / name
    write_table(path, COLUMNS)
    table = read_table(path)
    got = table.frame.to_dict(as_series=False)
    single = np.array(got.pop("g"), dtype=np.float32)
    assert np.array_equal(single, COLUMNS["g"])
    if name == "t.npz":  # NumPy has no missing whole number
        assert np.isnan(got["n"][1])
        got["n"][1] = None
    assert got == EXPECTED
    assert table.source.compression == ("gzip" if name.endswith("gz") else None)
    assert [p.name for p in tmp_path.iterdir()] == [name]  # nothing is left beside it


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from(["f4", "f8"]),
    data=st.data(),
)
def test_floats_round_trip_to_the_last_bit_in_as_few_digits(dtype, data):
    finite = st.floats(allow_nan=False, width=32 if dtype == "f4" else 64)
    x = data.draw(hnp.arrays(dtype, st.integers(1, 20), elements=finite))
    cells = text_of({"x": x}).splitlines()[1:]
    assert np.array_equal(np.array([np.dtype(dtype).type(cell) for cell in cells]), x)
    digits = [len(cell.lower().split("e")[0].strip("-0.").replace(".", "")) for cell in cells]
    shortest = [len(str(v).lower().split("e")[0].strip("-0.").replace(".", "")) for v in x]
    assert all(ours <= most for ours, most in zip(digits, shortest, strict=True) if most > 3)


@pytest.mark.parametrize("sign", list("=+-@\t\r\n＝＋－＠"))
def test_text_a_spreadsheet_would_run_is_neutralised(sign):
    evil = f"{sign}cmd|' /C calc'!A0"
    for format, separator in (("csv", ","), ("tsv", "\t")):
        text = text_of({evil: [evil, "fine", None]}, format=format)
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
        assert rows[0] == ["'" + evil]
        assert rows[1] == ["'" + evil]
        assert rows[2] == ["fine"]


def test_protection_can_be_left_out():
    columns = {"who": ["@bob", "=1"], "=x": [1, 2]}
    assert text_of(columns, protect=False).splitlines() == ["who,=x", "@bob,1", "=1,2"]
    assert text_of(columns).splitlines() == ["who,'=x", "'@bob,1", "'=1,2"]


def test_series_are_written_as_they_were_read():
    table = read_table(io.BytesIO(b"id,n\n007,1\n012,\n"))
    columns = {name: table.frame[name] for name in table.frame.columns}
    assert text_of(columns) == "id,n\n007,1\n012,\n"  # not 7 and not 1.0
    for name in ("npz", "parquet"):
        stream = io.BytesIO()
        write_table(stream, columns, format=name)
        stream.seek(0)
        assert read_table(stream).frame["id"].to_list() == ["007", "012"]


def test_numbers_are_left_alone():
    rows = text_of({"x": np.array([-1.5, 2.0]), "t": ["-5", "+3.5e2"], "u": ["-5 kg", "-"]})
    assert rows.splitlines() == ["x,t,u", "-1.5,-5,'-5 kg", "2.0,+3.5e2,'-"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=8), min_size=1, max_size=5))
def test_no_cell_begins_a_formula(words):
    text = text_of({"w": words})
    for row in csv.reader(io.StringIO(text, newline="")):
        cell = row[0] if row else ""
        harmless = (
            not cell or cell[0] not in "=+-@\t\r\n" or cell.lstrip("+-").replace(".", "").isdigit()
        )
        assert harmless


def test_the_same_table_makes_the_same_bytes(tmp_path):
    for name in ("a.csv.gz", "a.npz"):
        write_table(tmp_path / name, COLUMNS)
        first = (tmp_path / name).read_bytes()
        write_table(tmp_path / name, COLUMNS)
        assert (tmp_path / name).read_bytes() == first
    assert (tmp_path / "a.csv.gz").read_bytes()[4:8] == bytes(4)  # no time
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == text_of(COLUMNS).encode()


def test_npy_is_one_array_of_numbers(tmp_path):
    write_table(tmp_path / "a.npy", {"a": [1.5, 2.5], "b": np.array([3, 4])})
    assert np.load(tmp_path / "a.npy").tolist() == [[1.5, 3.0], [2.5, 4.0]]
    with pytest.raises(InputError, match="'t' is not numeric"):
        write_table(tmp_path / "b.npy", {"t": ["x"]})
    assert not (tmp_path / "b.npy").exists()


def test_npz_names_are_free():
    stream = io.BytesIO()
    write_table(stream, {"file": [1, 2], "a b/c": [3, 4], "编": ["p", "q"]}, format="npz")
    loaded = np.load(io.BytesIO(stream.getvalue()))
    assert sorted(loaded.files) == ["a b/c", "file", "编"]


def test_stdout(monkeypatch):
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    write_table("-", {"a": [1, 2]})
    assert out.getvalue() == b"a\n1\n2\n"


@pytest.mark.parametrize(
    ("name", "columns", "options", "says"),
    [
        ("a.xyz", {"a": [1]}, {}, "its ending does not say"),
        ("a.parquet.gz", {"a": [1]}, {}, "only .csv and .tsv"),
        ("a.csv", {}, {}, "no columns"),
        ("a.csv", {"a": [1], "b": [1, 2]}, {}, "'b' has 2 values, 'a' has 1"),
        ("a.csv", {"a": np.eye(2)}, {}, "2 axes"),
        ("a.csv", {"a": [1]}, {"format": "xls"}, "use one of"),
        ("none/a.csv", {"a": [1]}, {}, ""),
    ],
)
def test_what_cannot_be_written_says_why(tmp_path, name, columns, options, says):
    with pytest.raises(InputError) as error:
        write_table(tmp_path / name, columns, **options)
    assert says in str(error.value)
    assert not list(tmp_path.iterdir())


def test_an_error_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    write_table(path, {"a": [1]})

    def full(frame, stream, separator, compressed):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nearfold.store.export._write_text", full)
    with pytest.raises(InputError, match="No space left"):
        write_table(path, {"a": [2]})
    assert path.read_bytes() == b"a\n1\n"
    assert len(list(tmp_path.iterdir())) == 1
