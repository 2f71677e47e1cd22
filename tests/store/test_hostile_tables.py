"""Tables nobody should make: each ends in a result or in one line, and in nothing else."""

import gzip
import io
import string
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearfold import PCA
from nearfold.columns.preparation import TablePreparation
from nearfold.columns.schema import infer_schema
from nearfold.errors import NearfoldError, NearfoldWarning
from nearfold.store.export import write_table
from nearfold.store.tables import read_table

RNG = np.random.default_rng(0)
RESULT, REFUSED = "a result", "one line"


def study(data, **options):
    """Read, judge, prepare, reduce, write: what the whole way ends in."""
    try:
        table = read_table(io.BytesIO(data), **options)
        schema = infer_schema(table.frame)
        for line in map(str, [table.source.describe(), *table.source.notices, *schema.notices()]):
            assert "\n" not in line
            assert len(line) < 600
        X = TablePreparation(columns=[c.spec() for c in schema.features()] or None).fit_transform(
            table.frame
        )
        assert np.isfinite(X).all()
        Z = PCA(1).fit_transform(X)
        assert Z.shape == (table.frame.height, 1)
        assert np.isfinite(Z).all()
        write_table(io.BytesIO(), {"z": Z[:, 0]})
        return RESULT
    except NearfoldError as error:
        message = str(error)
    assert "\n" not in message
    assert 10 < len(message) < 600
    return REFUSED


def quiet_study(data, **options):
    # A warning of ours (a rank, a constant column) is part of a result; any other is an error.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", NearfoldWarning)
        return study(data, **options)


def numbers(rows, columns, separator=",", end="\n", names=None, form="{:.3f}"):
    X = RNG.normal(size=(rows, columns))
    names = names if names is not None else [f"v{j}" for j in range(columns)]
    lines = [separator.join(names), *(separator.join(form.format(v) for v in row) for row in X)]
    return end.join(lines) + end


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def columnar(frame, how="write_parquet"):
    stream = io.BytesIO()
    getattr(frame, how)(stream)
    return stream.getvalue()


PLAIN = numbers(6, 3)
CHINESE = "身高,体重,类别\n1.5,50,好\n1.6,61,坏\n1.7,66,好\n"
TAIWANESE = "身高,體重,類別\n1.5,50,好\n1.6,61,壞\n1.7,66,好\n"
JAPANESE = "身長,体重,ラベル\n1.5,50,よい\n1.6,61,わるい\n1.7,66,よい\n"
WESTERN = "größe,poids,étiquette\n1.5,50,é\n1.6,61,à\n1.7,66,é\n"

GOOD = {
    "plain": PLAIN,
    "one column": "a\n1\n2\n4\n",
    "one column, no header": "1\n2\n4\n",
    "two rows": "a,b\n1,2\n3,5\n",
    "no newline at the end": PLAIN.rstrip("\n"),
    "many newlines at the end": PLAIN + "\n\n\n",
    "newlines before": "\n\n\n" + PLAIN,
    "blank lines between": PLAIN.replace("\n", "\n\n"),
    "duplicate names": numbers(5, 4, names=["a", "a", "a", "a_2"]),
    "empty names": numbers(5, 3, names=["", "", "x"]),
    "names of spaces": numbers(5, 3, names=[" ", "  ", "x"]),
    "names with quotes": numbers(5, 2, names=['"a ""b"""', '"c\nd"']),
    "very long name": numbers(5, 2, names=["n" * 50_000, "b"]),
    "emoji names": numbers(5, 2, names=["😀", "👩‍👩‍👧"]),
    "names that look like code": numbers(5, 2, names=["=cmd|' /C calc'!A0", "__import__('os')"]),
    "10,000 columns": numbers(4, 10_000),
    "10,000 columns of one digit": "\n".join([",".join("19" * 5000)] * 2 + [",".join("37" * 5000)]),
    "5,000 rows": numbers(5000, 2),
    "1e308": "a,b\n1e308,1\n1.1e308,2\n1.2e308,3\n",
    "both ends of 1e308": "a,b\n1e308,1\n-1e308,2\n0,3\n",
    "1e-308": "a,b\n1e-308,1\n2e-308,2\n3e-308,3\n",
    "1e400": "a,b\n1e400,1\n1,2\n2,3\n",
    "inf": "a,b\ninf,1\n-inf,2\n1,3\n2,4\n",
    "NaN": "a,b\nNaN,1\nnan,2\n1,3\n2,4\n",
    "missing words": "a,b\nNA,1\n?,2\n-,3\n1,4\n2,5\nnull,6\nNone,7\n",
    "huge whole numbers": "a,b\n99999999999999999999999999,1\n1,2\n3,4\n",
    "beyond 64 bits": "a,b\n9223372036854775807,1\n18446744073709551616,2\n9,5\n",
    "percent": "a,b\n5%,1%\n6%,2%\n",
    "thousands": "a;b\n1,234;5,678\n2,345;6,789\n",
    "400 digits": f"a,b\n{'9' * 400},1\n1,2\n2,4\n3,3\n",
    "thousand decimals": f"a,b\n0.{'3' * 1000},1\n1,2\n2,4\n",
    "leading zeros": "a,b\n007,1\n008,2\n009,4\n",
    "plus signs": "a,b\n+1,+1.5\n+2,-1.5\n",
    "minus zero": "a,b\n-0,1\n-0.0,2\n1,4\n",
    "true and false": "a,b\ntrue,1\nFALSE,2\nTrue,5\n",
    "spaces around": "a , b\n 1 , 2\n 3 , 5\n",
    "quoted numbers": 'a,b\n"1","2"\n"3","5"\n',
    "single quotes": "a,b\n'x',2\n'y',5\n",
    "stray quotes": 'a,b\n5\'10",2\n6",5\n',
    "unclosed quote": 'a,b\n"1,2\n3,5\n4,6\n',
    "embedded newlines": 'a,b\n"x\ny",2\n"z\n\n",5\n',
    "separators in quotes": 'a,b\n"x,y",2\n",,,",5\n',
    "trailing separators": "a,b,\n1,2,\n3,5,\n",
    "trailing separators, short header": "a,b\n1,2,\n3,5,\n",
    "semicolons": numbers(5, 3, ";"),
    "tabs": numbers(5, 3, "\t"),
    "bars": numbers(5, 3, "|"),
    "spaces": numbers(5, 3, " "),
    "many spaces": numbers(5, 3, "    "),
    "decimal commas": numbers(5, 3, ";").replace(".", ","),
    "decimal commas and tabs": numbers(5, 3, "\t").replace(".", ","),
    "carriage returns": PLAIN.replace("\n", "\r"),
    "both line ends": PLAIN.replace("\n", "\r\n"),
    "mixed line ends": PLAIN.replace("\n", "\r\n", 3),
    "a hint of Excel": "sep=;\n" + numbers(5, 3, ";"),
    "row names of R": "x y\nr1 1 2\nr2 3 5\n",
    "NUL bytes": PLAIN.replace("v1", "v\0" + "1"),
    "a byte order mark in the middle": "a,b\n1,\ufeff2\n3,5\n4,6\n",
    "zero width spaces": "a\u200b,b\n1,2\n3,5\n",
    "right to left": "\u202eabc,b\n1,2\n3,5\n",
    "control characters": "a\x07,b\x1b[31m\n1,2\n3,5\n",
    "some rows all empty": "a,b\n1,2\n,\n3,5\n",
    "an empty column": "a,b,c\n1,,2\n3,,5\n",
    "constant and not": "a,b\n1,7\n2,7\n4,7\n",
    "an id and a number": "id,x\n10,5\n20,3\n30,4\n",
    "comment lines": "#a,b\n1,2\n3,5\n",
    "HTML": "<b>a</b>,<script>alert(1)</script>\n1,2\n3,5\n",
    "a label of one class": "x,label\n1,a\n2,a\n4,a\n",
    "dates only": "d\n2020-01-01\n2020-01-02\n",
    "columns of dates": "d,x\n2020-01-01,1\n2020-01-02,3\n",
    "Ctrl-Z at the end": PLAIN + "\x1a",
    "names that are patterns": numbers(5, 4, names=["*", "^.*$", "^v.$", "v1"]),
    "texts named by patterns": "*,^.*$,x\na,b,1\nc,d,2\ne,f,4\n",
    "numbers in names": "1a,2b\n1,2\n3,5\n",
    "pandas' index": ",0,1\n0,5,6\n1,7,9\n2,8,1\n",
}

REFUSALS = {
    "nothing": "",
    "a newline": "\n",
    "spaces only": "   \n  \n",
    "a mark only": "\ufeff",
    "a header only": "a,b,c\n",
    "one separator": ",\n",
    "separators only": ",,,\n,,,\n",
    "all null": "a,b\n,\n,\n",
    "all NA": "a,b\nNA,NA\nNA,NA\n",
    "text only": "a,b\nx,y\nz,w\nu,v\n",
    "prose": "It was the best of times.\nIt was the worst.\nIt was wise.\nIt was foolish.\n",
    "constant only": "a,b\n1,2\n1,2\n1,2\n",
    "id only": "id\n1\n2\n3\n",
    "ragged": "a,b\n1,2\n3\n",
    "ragged the other way": "a,b\n1,2\n3,4,5\n6,7\n",
    "codes only": "a\n007\n008\n009\n",
    "long ids only": "a\n9223372036854775808\n18446744073709551616\n9999999999999999999\n",
    "HTML page": "<!doctype html>\n<html><body>404</body></html>\n",
    "JSON": '{"a": [1, 2, 3]}\n',
    "a quote": '"',
    "two quotes": '""',
    "one word": "word",
    "infinite only": "a\ninf\n-inf\n",
}


@pytest.mark.parametrize("name", GOOD)
def test_odd_texts_that_hold_a_table(name):
    outcome = quiet_study(GOOD[name].encode())
    assert outcome == RESULT or "1e" in name  # squares of 1e308 may be refused, with the reason


@pytest.mark.parametrize("name", REFUSALS)
def test_texts_that_hold_none(name):
    assert quiet_study(REFUSALS[name].encode()) == REFUSED


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("text", "encoding"),
    [(text, e) for text in (PLAIN, WESTERN, CHINESE) for e in ("utf-8", "utf-8-sig", "utf-16",
     "utf-16-le", "utf-16-be", "utf-32")]
    + [(CHINESE, "gbk"), (CHINESE, "gb18030"), (TAIWANESE, "big5"), (JAPANESE, "shift_jis"),
       (WESTERN, "latin-1"), (WESTERN, "cp1252"), (PLAIN, "ascii")],
)  # fmt: skip
def test_encodings(text, encoding, packed):
    data = text.encode(encoding)
    assert quiet_study(gzip.compress(data) if packed else data) == RESULT


ARRAYS = {
    "floats": npy(RNG.normal(size=(5, 3))),
    "one row": npy(np.ones((1, 3))),
    "one column": npy(RNG.normal(size=(5, 1))),
    "a vector": npy(RNG.normal(size=5)),
    "four axes": npy(RNG.normal(size=(3, 2, 2, 2))),
    "no rows": npy(np.ones((0, 3))),
    "no columns": npy(np.ones((3, 0))),
    "a scalar": npy(np.float64(1)),
    "NaN": npy(np.full((4, 2), np.nan)),
    "inf": npy(np.full((4, 2), np.inf)),
    "1e308": npy(np.array([[1e308, 1], [-1e308, 2], [0, 4]])),
    "half floats": npy(RNG.normal(size=(5, 3)).astype("f2")),
    "long floats": npy(RNG.normal(size=(5, 3)).astype(np.longdouble)),
    "big-endian": npy(RNG.normal(size=(5, 3)).astype(">f8")),
    "complex": npy(np.ones((3, 2), dtype=complex)),
    "words": npy(np.array([["a", "b"], ["c", "d"]])),
    "bytes": npy(np.array([b"a", b"b"])),
    "days": npy(np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]")),
    "years": npy(np.array(["2020", "2021"], dtype="M8[Y]")),
    "spans": npy(np.array([1, 2], dtype="m8[s]")),
    "not a time": npy(np.array(["NaT"], dtype="M8[s]")),
    "void": npy(np.zeros(3, dtype="V8")),
    "records": npy(np.array([(1, 2.0), (3, 5.0)], dtype=[("a", "i4"), ("b", "f8")])),
    "records in records": npy(np.zeros(3, dtype=[("a", [("b", "f8")])])),
    "arrays in records": npy(np.zeros(3, dtype=[("a", "f8", 2), ("b", "i4")])),
    "objects": npy(np.array([{}, []], dtype=object)),
    "npz": npz(X=RNG.normal(size=(4, 2)), y=[0, 1, 0, 1]),
    "npz of vectors": npz(a=[1, 2, 4], b=[4, 5, 9]),
    "npz of scalars": npz(a=1, b=2),
    "npz of objects": npz(a=np.array([None])),
    "npz of nothing": npz(),
    "npz of names": npz(**{"../../etc/passwd": np.eye(3), "": [1, 2, 3]}),
    "Parquet": columnar(pl.DataFrame({"a": [1, 2, 4], "b": [1.5, 2.5, 0.5]})),
    "Parquet of no rows": columnar(pl.DataFrame({"a": pl.Series([], dtype=pl.Int64)})),
    "Parquet of no columns": columnar(pl.DataFrame()),
    "Parquet of nulls": columnar(pl.DataFrame({"a": [None, None]})),
    "Parquet of lists": columnar(pl.DataFrame({"a": [[1], [2, 3]]})),
    "Parquet of structs": columnar(pl.DataFrame({"a": [{"x": 1}, {"x": 2}], "b": [1, 2]})),
    "Parquet of bytes": columnar(pl.DataFrame({"a": [b"x", b"y"], "b": [3, 5]})),
    "Parquet of times": columnar(
        pl.DataFrame({"a": [1, 2], "b": [3, 4]}).cast({"a": pl.Time, "b": pl.Duration})
    ),
    "Parquet of wide whole numbers": columnar(
        pl.DataFrame({"a": pl.Series([2**63 - 1, 0, 5]).cast(pl.UInt64)})
    ),
    "Parquet of Int128": columnar(pl.DataFrame({"a": pl.Series([1, 2, 4]).cast(pl.Int128)})),
    "Parquet of an unnamed column": columnar(pl.DataFrame({"": [1, 2, 4], "b\nc": [3, 4, 9]})),
    "Arrow": columnar(pl.DataFrame({"a": [1, 2, 4], "c": ["x", "y", "z"]}), "write_ipc"),
    "Arrow stream": columnar(pl.DataFrame({"a": [1.5, 2, 4]}), "write_ipc_stream"),
    "Arrow of categories": columnar(
        pl.DataFrame({"a": pl.Series(["x", "y"], dtype=pl.Categorical), "b": [1, 3]}), "write_ipc"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_odd_arrays_and_columns(name):
    assert quiet_study(ARRAYS[name]) in (RESULT, REFUSED)


@pytest.mark.parametrize("seed", range(60))
def test_damaged_files(seed, capfd):
    rng = np.random.default_rng(seed)
    whole = [d for d in ARRAYS.values() if len(d) > 200] + [
        gzip.compress(CHINESE.encode("gbk") * 9)
    ]
    data = bytearray(whole[seed % len(whole)])
    if seed % 3 == 0:
        del data[rng.integers(len(data)) :]
    for _ in range(1 + seed % 4):
        if data:
            data[rng.integers(len(data))] = rng.integers(256)
    assert quiet_study(bytes(data)) in (RESULT, REFUSED)
    assert capfd.readouterr().err == ""


FORCED = [{"format": f} for f in ("csv", "tsv", "parquet", "arrow", "npy", "npz")]
FORCED += [{"encoding": e} for e in ("utf-16", "ascii", "gb18030", "cp037")]
FORCED += [{"separator": s} for s in ";x 1"] + [{"decimal": ","}, {"header": False}]


@pytest.mark.parametrize("options", FORCED, ids=str)
def test_wrong_options(options):
    for data in (PLAIN.encode(), CHINESE.encode("gbk"), ARRAYS["Parquet"], b"\x00\xff" * 50):
        assert quiet_study(data, **options) in (RESULT, REFUSED)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=200))
def test_any_bytes(data):
    assert quiet_study(data) in (RESULT, REFUSED)


CELL = st.one_of(
    st.text(alphabet=string.printable + "é编号\u2028\ufeff\0", max_size=5),
    st.sampled_from(["1", "2.5", "-3e5", "NA", "", "inf", "1e308", "1,5", "5%", "true", '"', "\r"]),
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(st.lists(CELL, min_size=1, max_size=4), max_size=6),
    separator=st.sampled_from(",;\t| "),
    encoding=st.sampled_from(["utf-8", "utf-16", "gb18030", "utf-8-sig"]),
)
def test_any_text(rows, separator, encoding):
    text = "\n".join(separator.join(row) for row in rows)
    assert quiet_study(text.encode(encoding)) in (RESULT, REFUSED)


def test_there_are_two_hundred_by_hand():
    made = len(GOOD) + len(REFUSALS) + 2 * 25 + len(ARRAYS) + 60 + len(FORCED)
    assert made >= 200
