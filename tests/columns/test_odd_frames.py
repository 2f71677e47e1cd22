"""Frames nobody should make: each ends in an array or in one line with the column's name."""

import datetime as dt
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearfold.columns.preparation import TablePreparation
from nearfold.columns.schema import infer_schema
from nearfold.errors import InputError

N = 12
WORDS = ["u", "v", "w"] * 4
MOMENTS = pd.date_range("2020-01-01", periods=N, freq="9D")

KNOWN = {  # cells: (kind, number of columns)
    "nullable ints": (pd.array([1, None, 3] * 4, dtype="Int64"), "number", 1),
    "nullable floats": (pd.array([1.5, None, 3] * 4, dtype="Float32"), "number", 1),
    "nullable booleans": (pd.array([True, None, False] * 4, dtype="boolean"), "boolean", 1),
    "booleans and None": ([True, None, False] * 4, "boolean", 1),
    "strings with NA": (pd.array(["u", pd.NA, "v"] * 4, dtype="string"), "category", 3),
    "arrow strings": (pd.array(["u", None, "v"] * 4, dtype="string[pyarrow]"), "category", 3),
    "arrow ints": (pd.array([1, None, 4] * 4, dtype="int64[pyarrow]"), "number", 1),
    "Categorical": (pd.Categorical(["u", None, "v"] * 4), "category", 3),
    "Categorical of ints": (pd.Categorical([1, 2, 3] * 4), "category", 3),
    "ordered": (pd.Categorical(WORDS, categories=["w", "v", "u"], ordered=True), "ordered", 1),
    "sparse": (pd.arrays.SparseArray([0, 0, 1.0] * 4), "number", 1),
    "half floats": (np.arange(N).astype("f2"), "number", 1),
    "long floats": (np.arange(N).astype(np.longdouble), "number", 1),
    "big-endian": (np.arange(N).astype(">f8") / 3, "number", 1),
    "Decimals": ([Decimal("1.5"), None, Decimal("2.25")] * 4, "number", 1),
    "mixed numbers": ([1, 2.5, np.float32(4)] * 4, "number", 1),
    "numbers and words": ([1, "a", 2.5, "a"] * 3, "category", 3),
    "moments": (MOMENTS, "date", 5),
    "moments of a zone": (MOMENTS.tz_localize("Asia/Shanghai"), "date", 5),
    "moments in seconds": (MOMENTS.astype("datetime64[s]"), "date", 5),
    "moments with gaps": ([*MOMENTS[:-1], pd.NaT], "date", 5),
    "dates": ([dt.date(2020, 1, i + 1) for i in range(N)], "date", 1),
    "times": ([dt.time(i) for i in range(N)], "date", 3),
    "spans": (pd.to_timedelta(np.arange(N), unit="h"), "number", 1),
    "vectors": (list(np.arange(24.0).reshape(N, 2)), "embedding", 2),
    "texts of numbers": ([str(i / 3) for i in range(N)], "number", 1),
    "blanks among numbers": (["1.5", "", "2", " "] * 3, "number", 1),
    "one word among numbers": ([*(str(i) for i in range(11)), "n.d."], "number", 1),
}
LEFT_OUT = {
    "complex": [1j, 2j] * 6,
    "objects": [object() for _ in range(N)],
    "sets": [{1}, {2}] * 6,
    "dicts": [{"a": 1}, {"b": 2}] * 6,
    "periods": pd.period_range("2020-01", periods=N, freq="M"),
    "intervals": pd.interval_range(0, N),
    "matrices": [np.eye(2)] * N,
    "uneven": [[1.0], [1.0, 2.0]] * 6,
    "bytes": [b"x", b"y"] * 6,
    "missing": [None] * N,
    "NaN": [np.nan] * N,
    "NaT": [pd.NaT] * N,
    "infinite": [np.inf, -np.inf] * 6,
    "constant": [5] * N,
}


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("name", KNOWN)
def test_columns_of_pandas(name):
    cells, kind, width = KNOWN[name]
    frame = pd.DataFrame({name: cells})
    model = TablePreparation()
    X = model.fit_transform(frame)
    assert model.columns_[0]["kind"] == kind
    assert X.shape == (N, width)
    assert np.isfinite(X).all()
    assert np.array_equal(model.transform(frame), X)
    missing = pd.DataFrame({name: [None, None]})
    assert np.isfinite(model.transform(missing)).all()
    assert model.transform(frame.head(0)).shape == (0, width)
    assert np.allclose(model.transform(frame.tail(1)), X[-1:])


@pytest.mark.parametrize("name", LEFT_OUT)
def test_columns_that_are_left_out(name):
    frame = pd.DataFrame({name: pd.Series(LEFT_OUT[name]), "x": np.arange(N) ** 2.0})
    model = TablePreparation().fit(frame)
    assert model.feature_names_in_.tolist() == ["x"]
    assert all("\n" not in str(line) for line in infer_schema(frame).notices())
    with pytest.raises(InputError) as error:
        TablePreparation().fit(frame[[name]])
    assert name in str(error.value)
    for kind in ("number", "category", "boolean", "date", "image"):
        one_line_or_array(frame, [{"name": name, "kind": kind}], name)
    one_line_or_array(frame, [{"name": name, "kind": "ordered", "levels": ["a"]}], name)
    one_line_or_array(frame, [{"name": name, "kind": "embedding", "width": 2}], name)


def one_line_or_array(frame, specs, name):
    told = attempt(lambda: TablePreparation(columns=specs).fit_transform(frame))
    assert told is None or name in told


def attempt(work):
    """None if the work gives finite numbers; else the line that says why not."""
    try:
        assert np.isfinite(work()).all()
        return None
    except InputError as error:
        told = str(error)
    assert "\n" not in told
    assert len(told) < 1000
    return told


@pytest.mark.parametrize("name", KNOWN)
def test_each_kind_of_new_cells_where_others_were(name):
    """Another type in new rows is read if it can be, and refused with the column's name if not."""
    model = TablePreparation().fit(pd.DataFrame({"c": KNOWN[name][0]}))
    for cells in [*(cells for cells, _, _ in KNOWN.values()), *LEFT_OUT.values()]:
        new = pd.DataFrame({"c": pd.Series(cells)})
        told = attempt(lambda new=new: model.transform(new))
        assert told is None or "'c'" in told


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (pd.DataFrame(np.eye(2), columns=["a", "a"]), "two columns are called 'a'"),
        (pd.DataFrame(np.eye(2), columns=[1, "1"]), "two columns are called '1'"),
        (pd.DataFrame(), "no columns"),
        (pl.DataFrame(), "no columns"),
        (pd.DataFrame({"a": []}), "'a': empty"),
        (pl.DataFrame({"a": [None]}), "'a': empty"),
        (pa.table({"a": pa.array([], pa.float64())}), "'a': empty"),
    ],
)
def test_frames_that_hold_nothing_to_learn(frame, says):
    with pytest.raises(InputError) as error:
        TablePreparation().fit(frame)
    assert says in str(error.value)


def test_names_that_are_no_texts():
    numbered = pd.DataFrame({0: [1.0, 2.0], 1: [4.0, 3.0]})
    model = TablePreparation().fit(numbered)
    assert model.feature_names_in_.tolist() == ["0", "1"]
    assert model.transform(numbered[[1, 0]]).tolist() == [[1, 4], [2, 3]]
    assert model.transform(pl.DataFrame({"1": [4.0], "0": [1.0]})).tolist() == [[1, 4]]
    deep = pd.DataFrame(np.eye(2), columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]))
    assert TablePreparation().fit_transform(deep).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("name", ["*", "^a.*$", "", " ", "a\nb", "日本", "x" * 5000, "len()", "0"])
def test_names_are_only_names(name):
    cells = {"ab": [1.0, 2.0] * 2, name: ["u", "v"] * 2, "z" + name: [3.0, 5.0] * 2}
    back = dict(reversed(cells.items()))
    for library in (pl, pd):
        model = TablePreparation()
        assert model.fit_transform(library.DataFrame(cells)).tolist() == [[1, 3, 0], [2, 5, 1]] * 2
        assert model.transform(library.DataFrame(back)).tolist() == [[1, 3, 0], [2, 5, 1]] * 2
        with pytest.raises(InputError) as error:
            model.transform(pl.DataFrame({"ab": [1.0]}))
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 300


def test_one_row():
    frame = pl.DataFrame({"a": [1.5], "c": ["u"], "d": ["2020-01-01"], "b": [True]})
    for params in ({}, {"numbers": "scale"}, {"numbers": "range"}):
        X = TablePreparation(**params).fit_transform(frame)
        assert X.shape == (1, 4)
        assert np.isfinite(X).all()


def test_a_constant_that_is_named_and_moves_later():
    frame = pl.DataFrame({"a": [3.0] * 5, "c": ["u"] * 5})
    for params in ({}, {"numbers": "scale"}, {"numbers": "range"}):
        model = TablePreparation(columns=["a", "c"], **params).fit(frame)
        X = model.transform(pl.DataFrame({"a": [3.0, 4.0], "c": ["u", "v"]}))
        assert X[1, 0] - X[0, 0] == 1
        assert X[0, 1] > 0 == X[1, 1]


def test_what_is_no_frame():
    class Lookalike:
        columns = ("a",)

    for odd in (Lookalike(), pd.Series([1.0]), {"a": [1.0]}, [[1, "a"]], None, 5, object()):
        with pytest.raises(InputError) as error:
            TablePreparation().fit(odd)
        assert "\n" not in str(error.value)


CELL = st.one_of(
    st.none(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
    st.text(max_size=4),
    st.sampled_from(["1", "2.5", "", "2020-01-01", "0012", "nan", "inf", "1e400", "-", "1,5"]),
    st.binary(max_size=3),
    st.dates(),
    st.datetimes(),
    st.lists(st.floats(allow_nan=False), max_size=2),
)
SAME = st.sampled_from(
    [st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans(),
     st.sampled_from(["a", "b", "", " a"]), st.text(max_size=3), st.datetimes(), st.dates(),
     st.lists(st.floats(width=32), min_size=2, max_size=2), CELL]
)  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), n=st.integers(0, 8), numbers=st.sampled_from(["raw", "scale", "range"]))
def test_any_frame(data, n, numbers):
    def column():
        held = data.draw(SAME)
        return [data.draw(st.one_of(st.none(), held)) for _ in range(n)]

    frame = {name: column() for name in ("a", "b")}
    other = {name: column() for name in ("a", "b")}
    for kind in (lambda f: pd.DataFrame(f, dtype=object), lambda f: pl.DataFrame(f, strict=False)):
        try:
            made, new = kind(frame), kind(other)
        except Exception:  # not ours: the library does not take these cells
            continue
        model = TablePreparation(numbers=numbers)
        if attempt(lambda model=model, made=made: model.fit_transform(made)) is None:
            attempt(lambda model=model, new=new: model.transform(new))
