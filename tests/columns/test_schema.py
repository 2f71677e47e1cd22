"""What each column is taken for, and that whoever knows better is heard."""

import json
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest

from nearfold.columns.kinds import Kind, Role
from nearfold.columns.preparation import TablePreparation
from nearfold.columns.schema import infer_schema
from nearfold.errors import InputError

N = 40
FRAME = pl.DataFrame(
    {
        "id": [100 + 7 * i for i in range(N)],
        "name": [f"n{i}" for i in range(N)],
        "x": [i * 0.5 for i in range(N)],
        "whole": [i * i for i in range(N)],
        "constant": [3] * N,
        "same": ["s"] * N,
        "empty": pl.Series([None] * N, dtype=pl.Float64),
        "nothing": pl.Series([None] * N),
        "percent": [f"{i}%" for i in range(N)],
        "thousands": [f"{i + 1},234" for i in range(N)],
        "nearly": ["abc" if i == 16 else str(i * 1.5) for i in range(N)],
        "label": ["ab"[i % 2] for i in range(N)],
        "day": [date(2020, 1, 1 + i % 9) for i in range(N)],
        "yes": [i % 3 == 0 for i in range(N)],
        "infinite": [float("inf") if i == 3 else i + 0.5 for i in range(N)],
        "gaps": [None if i % 4 == 0 else float("nan") if i == 1 else i + 0.5 for i in range(N)],
        "list": [[i] * (1 + i % 2) for i in range(N)],
        "vector": [[i + 0.5, i + 1.5] for i in range(N)],
        "prose": [f"what was said on day {i}" for i in range(N)],
        "counter": range(N),
    }
)


def column(schema, name):
    return next(c for c in schema.columns if c.name == name)


def features(schema):
    return [c.name for c in schema.features()]


@pytest.mark.parametrize(
    ("name", "role", "kind", "reason"),
    [
        ("id", Role.ID, Kind.ID, "an id, judged by its name; 40 distinct values"),
        ("name", Role.ID, Kind.ID, "a different word in every row"),
        ("x", Role.FEATURE, Kind.NUMBER, "numbers"),
        ("whole", Role.FEATURE, Kind.NUMBER, "numbers"),
        ("constant", Role.EXCLUDED, Kind.NUMBER, "constant: always '3'"),
        ("same", Role.EXCLUDED, Kind.CATEGORY, "constant: always 's'"),
        ("empty", Role.EXCLUDED, Kind.OTHER, "empty"),
        ("nothing", Role.EXCLUDED, Kind.OTHER, "empty"),
        ("percent", Role.ID, Kind.ID, "a different word in every row"),
        ("thousands", Role.ID, Kind.ID, "a different word in every row"),
        ("nearly", Role.FEATURE, Kind.NUMBER, "1 of 40 cells is not a number"),
        ("label", Role.FEATURE, Kind.CATEGORY, "2 distinct values"),
        ("day", Role.FEATURE, Kind.DATE, "dates or times"),
        ("yes", Role.FEATURE, Kind.BOOLEAN, "yes or no"),
        ("infinite", Role.FEATURE, Kind.NUMBER, "numbers"),
        ("gaps", Role.FEATURE, Kind.NUMBER, "numbers"),
        ("list", Role.EXCLUDED, Kind.OTHER, "a kind that cannot be used"),
        ("vector", Role.FEATURE, Kind.EMBEDDING, "a vector of 2 numbers in every row"),
        ("prose", Role.EXCLUDED, Kind.TEXT, "free text with 40 distinct values"),
        ("counter", Role.ID, Kind.ID, "it counts the rows"),
    ],
)
def test_each_column_by_itself(name, role, kind, reason):
    found = column(infer_schema(FRAME), name)
    assert (found.role, found.kind) == (role, kind)
    assert reason in str(found.reason)


def test_counts_and_examples():
    schema = infer_schema(FRAME)
    assert column(schema, "gaps").n_missing == 11
    assert column(schema, "gaps").example == "2.5"
    assert column(schema, "infinite").n_missing == 1  # an infinite number is no number
    assert column(schema, "label").n_distinct == 2
    assert column(schema, "name").example == "n0"


def test_names_of_the_roles():
    schema = infer_schema(FRAME, label="label", exclude=["x"], group="day", time="counter")
    assert features(schema) == ["whole", "nearly", "yes", "infinite", "gaps", "vector"]
    roles = (Role.LABEL, Role.TARGET, Role.ID, Role.GROUP, Role.TIME)
    assert [schema.named(role) for role in roles] == ["label", None, "id", "day", "counter"]
    assert column(schema, "x").role == Role.EXCLUDED
    assert infer_schema(FRAME, target="x").named(Role.TARGET) == "x"
    named = infer_schema(FRAME, id="name")
    assert [c.name for c in named.columns if c.role == Role.ID] == ["name"]
    assert column(named, "counter").role == Role.EXCLUDED


def test_features_that_are_named_are_all_there_are():
    schema = infer_schema(FRAME, features=["nearly", "constant"])
    assert set(features(schema)) == {"nearly", "constant"}
    assert column(schema, "x").reason.id == "columns.not_named"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"label": "lable"}, "no column 'lable'. Did you mean 'label'?"),
        ({"target": "Whole"}, "Did you mean 'whole'?"),
        ({"id": "zzz"}, "There are: 'id', 'name'"),
        ({"features": ["x", "y"]}, "no column 'y'"),
        ({"exclude": ["q"]}, "no column 'q'"),
        ({"group": "q"}, "no column 'q'"),
        ({"label": "x", "target": "x"}, "not both"),
        ({"label": "x", "features": ["x"]}, "as label and as feature"),
        ({"target": "label"}, "must be a number"),
        ({"target": "empty"}, "is empty in every row"),
        ({"label": "nothing"}, "is empty in every row"),
        ({"label": "list"}, "several values"),
        ({"features": ["prose"]}, "cannot be a feature: free text"),
        ({"features": ["id"]}, "cannot be a feature: an id"),
        ({"features": ["empty"]}, "cannot be a feature: empty"),
        ({"features": "x"}, "lists of column names"),
        ({"kinds": {"x": "nombre"}}, "no kind nombre; the kinds are number, category"),
        ({"kinds": {"z": "number"}}, "no column 'z'"),
        ({"kinds": {"x": "date"}}, "column 'x' cannot be read as date or time (numbers)"),
        ({"kinds": {"x": "embedding"}}, "column 'x' cannot be read as embedding"),
        ({"kinds": {"x": "image"}}, "column 'x' cannot be read as image"),
        ({"kinds": {"vector": "category"}}, "column 'vector' cannot be read as category"),
        ({"kinds": {"list": "ordered"}}, "column 'list' cannot be read as ordered"),
        ({"kinds": {"day": "number"}}, "column 'day' cannot be read as number"),
        ({"kinds": {"label": "ordered:a<c"}}, "'label' holds 'b' in row 2, which is not one of"),
        ({"kinds": {"label": "ordered:a<b<a"}}, "levels are not a list of different texts"),
        ({"saved": {"columns": [{"name": "q", "kind": "number"}]}}, "no column 'q'"),
        ({"saved": {"columns": [{"name": "x"}]}}, "schema is not valid"),
        ({"saved": {"columns": ["x"]}}, "schema is not valid"),
        ({"saved": [1]}, "schema is not valid"),
        (
            {"saved": {"columns": [{"name": "x", "kind": "number", "role": "?"}]}},
            "the unknown role",
        ),
        (
            {"saved": {"columns": [{"name": "label", "kind": "ordered", "levels": 5}]}},
            "'label' is not valid: its levels",
        ),
        (
            {"saved": {"columns": [{"name": "day", "kind": "date", "parts": ["year"]}]}},
            "'day' is not valid: its parts",
        ),
    ],
)
def test_what_is_named_must_make_sense(options, says):
    with pytest.raises(InputError) as error:
        infer_schema(FRAME, **options)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_kinds_that_are_named_are_taken():
    kinds = {"whole": "category", "x": "id", "label": "ordered: b < a", "yes": "number"}
    schema = infer_schema(FRAME, kinds=kinds)
    found = {name: column(schema, name) for name in kinds}
    assert [found[name].kind.value for name in kinds] == ["category", "id", "ordered", "number"]
    assert found["label"].spec() == {"name": "label", "kind": "ordered", "levels": ["b", "a"]}
    assert found["whole"].n_distinct == 40
    assert found["x"].role == Role.ID


def test_a_saved_schema_is_read_back():
    schema = infer_schema(FRAME, label="label", kinds={"whole": "category"}, exclude=["day"])
    again = infer_schema(FRAME, saved=json.loads(json.dumps(schema.as_dict())))
    assert [(c.name, c.kind, c.role, c.spec()) for c in again.columns] == [
        (c.name, c.kind, c.role, c.spec()) for c in schema.columns
    ]
    other = infer_schema(FRAME, target="x", saved=schema.as_dict())
    assert other.named(Role.LABEL) is None
    assert column(other, "label").role == Role.FEATURE


def test_an_embedding_that_is_left_out_in_a_saved_schema_stays_out():
    frame = pl.DataFrame({f"emb_{i}": [i + 0.5, i * 1.7] for i in range(20)}).with_columns(
        x=pl.Series([1.0, 2.0])
    )
    saved = infer_schema(frame).as_dict()
    assert [c["name"] for c in saved["columns"]] == ["emb", "x"]
    saved["columns"][0]["role"] = "excluded"
    assert features(infer_schema(frame, saved=saved)) == ["x"]


def test_one_row_is_not_constant():
    frame = pl.DataFrame({"a": [1.5], "b": [2], "c": ["u"], "d": [True]})
    assert features(infer_schema(frame)) == ["a", "b", "c", "d"]


def test_a_column_that_is_constant_beside_infinities_is_constant():
    found = column(infer_schema(pl.DataFrame({"a": [1.0, 1.0, float("inf")]})), "a")
    assert (found.role, found.n_missing) == (Role.EXCLUDED, 1)
    assert found.reason.id == "columns.constant"


def test_notices_are_few_lines_whatever_the_width():
    wide = pl.DataFrame(
        {f"c{i}": [i, i] for i in range(3000)} | {"t": ["a b", "a c"], "x": [1.5, 2.0]}
    )
    notices = [str(line) for line in infer_schema(wide).notices()]
    assert len(notices) == 1
    assert notices[0].startswith("Left out: 'c0', 'c1', 'c2', 'c3', 'c4' and 2,995 more")
    spoilt = [str(line) for line in infer_schema(FRAME).notices()]
    assert any("'nearly': 1 of 40 cells is not a number" in line for line in spoilt)
    assert any("'prose' (free text" in line for line in spoilt)
    assert all("\n" not in line and len(line) < 600 for line in spoilt)


def test_it_goes_into_json_in_both_languages():
    for some in (FRAME, FRAME.head(1)):
        schema = infer_schema(some)
        told = json.loads(json.dumps(schema.as_dict()))
        assert len(told["columns"]) == FRAME.width
        for found in schema.columns:
            assert found.reason.text("zh")
            assert found.use.text("zh")


def test_an_outline_is_short_and_has_all_roles():
    wide = pl.DataFrame(
        {f"c{i}": [i + 0.5, i + 1.5] for i in range(3000)} | {"id": [5, 6], "y": [1, 0]}
    )
    outline = infer_schema(wide, label="y").outline()
    assert len(outline["columns"]) == 1002
    assert outline["n_more"] == 2000
    assert {"id", "label"} <= {c["role"] for c in outline["columns"]}
    small = infer_schema(FRAME)
    assert small.outline() == {**small.as_dict(), "n_more": 0}


@pytest.mark.parametrize("n_rows", [80_000, 90_000])
def test_an_id_is_one_at_any_size(n_rows):
    """Above five million cells distinct values were once not counted."""
    number = np.random.default_rng(0).permutation(n_rows)
    rest = {f"v{j}": np.arange(n_rows, dtype=np.float32) % (7 + j) for j in range(59)}
    schema = infer_schema(pl.DataFrame({"customer_id": number + 10**6, **rest}))
    assert schema.named(Role.ID) == "customer_id"
    assert len(schema.features()) == 59


def test_pandas_frames():
    frame = pd.DataFrame(
        {
            "a": [1.5, np.nan, 3.0],
            "n": pd.array([1, None, 3], dtype="Int64"),
            "c": pd.Categorical(["u", "v", "u"]),
            "t": ["x", None, "z"],
            "b": [True, False, True],
            "d": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"]),
        }
    )
    kinds = {c.name: (c.kind.value, c.role.value, c.n_missing) for c in infer_schema(frame).columns}
    assert kinds == {
        "a": ("number", "feature", 1),
        "n": ("number", "feature", 1),
        "c": ("category", "feature", 0),
        "t": ("category", "feature", 1),
        "b": ("boolean", "feature", 0),
        "d": ("date", "feature", 0),
    }


def test_a_reason_that_holds_for_one_column_is_not_given_for_others():
    frame = pl.DataFrame({"a": ["x"] * 30, "b": ["z"] * 30, "c": [1.5] * 30, "n": range(5, 35)})
    (line,) = [str(n) for n in infer_schema(frame).notices() if "constant" in str(n)]
    assert line == "Left out: 'a', 'b', 'c' (the first: constant: always 'x')"


def test_the_label_is_not_suggested_as_a_group():
    frame = pl.DataFrame({"a": np.arange(60.0) ** 2, "y": [2**62 + i % 2 for i in range(60)]})
    assert any("--group" in str(n) for n in infer_schema(frame).notices())
    assert not any("--group" in str(n) for n in infer_schema(frame, label="y").notices())


def test_two_words_may_be_called_boolean():
    frame = pl.DataFrame({"s": ["Yes", "No", None] * 10, "n": np.arange(30.0) ** 2})
    schema = infer_schema(frame, kinds={"s": "boolean"})
    assert schema.columns[0].kind == Kind.CATEGORY
    model = TablePreparation(columns=[c.spec() for c in schema.features()]).fit(frame)
    assert model.transform(frame).shape[0] == 30
