"""Columns that name rows or groups of rows are no features, and measures of such names are."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from nearfold.columns.kinds import Kind, Role
from nearfold.columns.schema import infer_schema

RNG = np.random.default_rng(1)
X = RNG.normal(size=200)
BIOPSY = RNG.choice(np.arange(61_634, 14_000_000, 7919), 150)


def judged(name, values):
    schema = infer_schema(pl.DataFrame({name: values, "x": X[: len(values)]}))
    return schema.columns[0].kind, schema


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("ID", np.append(BIOPSY, BIOPSY[:50])),
        ("index", np.tile(np.arange(1, 51), 4)),
        ("Sample Number", np.tile(np.arange(1, 41), 5)),
        ("household id", np.repeat(np.arange(40) * 3 + 1000, 5)),
        ("individual", np.repeat(np.arange(1, 51), 4)),
        ("patient_id", [f"p{i % 60}" for i in range(200)]),
        ("客户编号", np.repeat(np.arange(40) * 3, 5)),
    ],
)
def test_repeated_ids_are_no_features_and_groups_are_suggested(name, values):
    kind, schema = judged(name, values)
    assert kind == Kind.ID
    assert [c.name for c in schema.features()] == ["x"]
    assert any("--group" in str(line) and name in str(line) for line in schema.notices())


def test_groups_are_not_suggested_twice():
    frame = pl.DataFrame({"person_id": np.repeat(np.arange(50), 4), "x": X})
    lines = infer_schema(frame, group="person_id").notices()
    assert not any("--group" in str(line) for line in lines)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Number", RNG.integers(1, 8, 200)),
        ("no", RNG.integers(0, 5, 200)),
        ("number", np.repeat([1, 5, 9, 40], 50)),
        ("sample", RNG.integers(0, 10**6, 200)),
        ("age", RNG.integers(20, 60, 200)),
        ("humid", RNG.integers(20, 90, 200)),
        ("paid", RNG.integers(0, 10**6, 200)),
        ("x10", np.arange(200)[::-1]),
    ],
)
def test_measures_stay_numbers(name, values):
    assert judged(name, values)[0] == Kind.NUMBER


@pytest.mark.parametrize("values", [[3, 7, 8, 9, 11], ["a", "b", "c", "d", "e"]])
def test_an_id_of_few_is_a_category(values):
    kind, schema = judged("store_id", [values[i % 5] for i in range(200)])
    assert kind == Kind.CATEGORY
    assert schema.columns[0].role == Role.FEATURE


def test_few_rows_do_not_make_a_counter():
    small = pl.DataFrame(
        {"x": [1, 2, 3], "y": [3, 1, 2], "user_id": [5, 6, 7], "playerId": [3, 9, 1]}
    )
    roles = {c.name: c.role.value for c in infer_schema(small).columns}
    assert roles == {"x": "feature", "y": "feature", "user_id": "id", "playerId": "id"}
    repeated = infer_schema(pl.DataFrame({"id": [1, 1, 2], "humid": [3, 4, 5]}))
    assert [c.kind for c in repeated.columns] == [Kind.CATEGORY, Kind.NUMBER]


def test_uuids_are_ids():
    frame = pl.DataFrame({"u": [f"{i:08x}-0000-4000-8000-{i:012x}" for i in range(5)]})
    assert infer_schema(frame).named(Role.ID) == "u"


def test_leading_zeros_and_long_numbers_are_names():
    zeros = [f"{i % 40:05d}" for i in range(200)]
    assert judged("zip", zeros)[0] == Kind.CATEGORY
    long = [str(10**19 + i) for i in range(200)]
    assert judged("order", long)[0] == Kind.ID
    assert judged("order", [2**62 + i for i in range(200)])[0] == Kind.ID
    repeated = [str(10**19 + i % 9) for i in range(200)]
    assert judged("order", repeated)[0] == Kind.CATEGORY


@pytest.mark.parametrize("dtype", ["Int64", "float64"])
def test_ids_with_gaps_are_ids(dtype):
    """pandas writes whole numbers with gaps as floats."""
    values = pd.Series(np.arange(1000, 1200)).astype(dtype)
    values[3] = None
    frame = pd.DataFrame({"customer_id": values, "x": X})
    assert infer_schema(frame).columns[0].kind == Kind.ID
    fractions = pd.DataFrame({"customer_id": np.arange(200) + 0.5, "x": X})
    assert infer_schema(fractions).columns[0].kind == Kind.NUMBER
