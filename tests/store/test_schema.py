"""What each column is taken for, and that whoever knows better is heard."""

import json
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest

from nearfold.errors import InputError
from nearfold.store.schema import ROLES, infer_schema

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
        "list": [[i] for i in range(N)],
        "counter": range(N),
    }
)


def column(schema, name):
    return next(c for c in schema.columns if c.name == name)


@pytest.mark.parametrize(
    ("name", "role", "kind", "reason"),
    [
        ("id", "id", "whole number", "id: by its name"),
        ("name", "excluded", "text", "text: 40 distinct values"),
        ("x", "feature", "number", "numbers"),
        ("whole", "feature", "whole number", "whole numbers"),
        ("constant", "excluded", "whole number", "constant: always 3"),
        ("same", "excluded", "category", "constant: always s"),
        ("empty", "excluded", "number", "empty"),
        ("nothing", "excluded", "text", "empty"),
        ("percent", "excluded", "text", "a percent sign, such as '0%'"),
        ("thousands", "excluded", "text", "between thousands, such as '1,234'"),
        (
            "nearly",
            "excluded",
            "text",
            "1 of 40 values are not numbers, the first: 'abc' in row 17",
        ),
        ("label", "excluded", "category", "text: 2 distinct values"),
        ("day", "excluded", "date", "date"),
        ("yes", "feature", "boolean", "yes or no, as 1 and 0"),
        ("infinite", "feature", "number", "1 infinite value"),
        ("gaps", "feature", "number", "11 of 40 values missing"),
        ("list", "excluded", "nested", "nested"),
        ("counter", "id", "whole number", "id: it counts the rows"),
    ],
)
def test_each_column_by_itself(name, role, kind, reason):
    found = column(infer_schema(FRAME), name)
    assert (found.role, found.kind) == (role, kind)
    assert reason in found.reason
    assert found.role in ROLES


def test_counts_and_examples():
    schema = infer_schema(FRAME)
    gaps = column(schema, "gaps")
    assert gaps.n_missing == 11
    assert gaps.n_distinct == 29
    assert gaps.example == "2.5"
    assert column(schema, "label").n_distinct == 2
    assert column(schema, "name").example == "n0"


def test_names_of_the_roles():
    schema = infer_schema(FRAME, label="label", exclude=["x"])
    assert schema.features() == ["whole", "yes", "infinite", "gaps"]
    assert (schema.label, schema.target, schema.id) == ("label", None, "id")
    assert column(schema, "x").role == "excluded"
    assert column(schema, "label").reason == "named: 2 classes"
    assert set(schema.excluded()) == set(FRAME.columns) - {"label", *schema.features()}
    assert infer_schema(FRAME, target="x").target == "x"
    named = infer_schema(FRAME, id="name")
    assert named.id == "name"
    assert column(named, "counter").role == "excluded"


def test_features_that_are_named_are_all_there_are():
    schema = infer_schema(FRAME, features=["nearly", "constant", "id"])
    assert set(schema.features()) == {"nearly", "constant", "id"}
    assert "1 other value taken as missing" in column(schema, "nearly").reason
    assert column(schema, "x").reason.startswith("not named")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"label": "lable"}, "no column 'lable'. Did you mean 'label'?"),
        ({"target": "Whole"}, "Did you mean 'whole'?"),
        ({"id": "zzz"}, "There are: 'id', 'name'"),
        ({"features": ["x", "y"]}, "no column 'y'"),
        ({"exclude": ["q"]}, "no column 'q'"),
        ({"label": "x", "target": "x"}, "not both"),
        ({"label": "x", "features": ["x"]}, "as label and as feature"),
        ({"target": "label"}, "must be a number"),
        ({"target": "empty"}, "is empty in every row"),
        ({"label": "nothing"}, "is empty in every row"),
        ({"label": "list"}, "several values"),
        ({"features": ["name"]}, "cannot be a feature"),
        ({"features": ["day"]}, "it is date"),
        ({"features": ["empty"]}, "it is empty"),
        ({"features": "x"}, "lists of column names"),
    ],
)
def test_what_is_named_must_make_sense(options, says):
    with pytest.raises(InputError) as error:
        infer_schema(FRAME, **options)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_few_rows_do_not_make_a_counter():
    small = pl.DataFrame(
        {"x": [1, 2, 3], "y": [3, 1, 2], "user_id": [5, 6, 7], "playerId": [3, 9, 1]}
    )
    roles = {c.name: c.role for c in infer_schema(small).columns}
    assert roles == {"x": "feature", "y": "feature", "user_id": "id", "playerId": "id"}
    repeated = pl.DataFrame({"id": [1, 1, 2], "humid": [3, 4, 5]})
    assert infer_schema(repeated).features() == ["id", "humid"]


def test_uuids_are_ids():
    frame = pl.DataFrame({"u": [f"{i:08x}-0000-4000-8000-{i:012x}" for i in range(5)]})
    assert infer_schema(frame).id == "u"


def test_a_label_is_guessed_by_name_and_only_when_asked():
    assert infer_schema(FRAME).label is None
    assert infer_schema(FRAME, guess_label=True).label == "label"
    assert infer_schema(FRAME, guess_label=True, target="x").label is None
    unlike = pl.DataFrame({"label": range(30), "x": [i % 7 for i in range(30)]})
    assert infer_schema(unlike, guess_label=True).label is None


def test_one_row_is_not_constant():
    assert infer_schema(pl.DataFrame({"a": [1.5], "b": [2]})).features() == ["a", "b"]


def test_constant_beside_infinities_is_kept_with_its_reason():
    found = column(infer_schema(pl.DataFrame({"a": [1.0, 1.0, float("inf")]})), "a")
    assert found.role == "feature"
    assert "1 infinite value" in found.reason


def test_notices_are_few_lines_whatever_the_width():
    wide = pl.DataFrame({f"c{i}": [i, i] for i in range(3000)} | {"t": ["a", "b"], "x": [1.5, 2.5]})
    notices = infer_schema(wide).notices()
    assert len(notices) == 2
    assert notices[0].startswith("3,000 columns are not features (constant): 'c0', 'c1'")
    assert (
        notices[1]
        == "'t' is not a feature (text: 2 distinct values; turn it into numbers yourself)"
    )
    spoilt = infer_schema(FRAME).notices()
    assert any("'gaps': numbers, 11 of 40 values missing" in line for line in spoilt)


def test_it_goes_into_json():
    for some in (FRAME, FRAME.head(1)):
        told = json.loads(json.dumps(infer_schema(some).as_dict()))
        assert len(told["columns"]) == FRAME.width


def test_large_tables_are_not_counted_but_judged_the_same(monkeypatch):
    small = infer_schema(FRAME)
    monkeypatch.setattr("nearfold.store.column_facts._MOST_CELLS", 0)
    large = infer_schema(FRAME)
    differ = [(a.name, a.role, b.role) for a, b in zip(small.columns, large.columns, strict=True)
              if (a.role, a.reason) != (b.role, b.reason)]  # fmt: skip
    assert differ == [("id", "id", "feature")]  # all different, but that is not looked at


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
    kinds = {c.name: (c.role, c.n_missing) for c in infer_schema(frame).columns}
    assert kinds == {
        "a": ("feature", 1),
        "n": ("feature", 1),
        "c": ("excluded", 0),
        "t": ("excluded", 1),
        "b": ("feature", 0),
        "d": ("excluded", 0),
    }
