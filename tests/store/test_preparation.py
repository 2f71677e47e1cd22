"""The way from a table to an array: by name, with what was learned from the training rows."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import nearfold
from nearfold.errors import InputError, MemoryBudgetError, NonFiniteError
from nearfold.store.preparation import TablePreparation

FRAME = pl.DataFrame(
    {
        "a": [1, 2, 3, None, 10],
        "b": [0.5, float("inf"), 2.0, 4.0, float("nan")],
        "t": ["x", "y", "z", "w", "v"],
        "c": [7, 7, 7, 7, 7],
        "near": ["1", "2", "bad", "4", "5.5"],
    }
)
CLEAN = pl.DataFrame({"a": [1.0, 2.5, 4.0], "b": [3, 1, 2], "c": [5, 5, 5]})


def test_constant_and_text_columns_are_left_out_of_new_rows_too():
    model = TablePreparation().fit(CLEAN)
    assert list(model.feature_names_in_) == ["a", "b"]
    new = pl.DataFrame({"a": [0.5], "b": [9], "c": [1], "t": ["?"]})
    assert model.transform(new).tolist() == [[0.5, 9.0]]


def test_columns_are_matched_by_name():
    model = TablePreparation().fit(CLEAN)
    shuffled = CLEAN.select("c", "b", "a").with_columns(extra=pl.lit(1))
    assert np.array_equal(model.transform(shuffled), model.transform(CLEAN))
    assert model.differences(CLEAN) == ["1 column not used: 'c'"]
    assert model.differences(shuffled) == [
        "2 columns not used: 'c', 'extra'",
        "the columns are in another order, and were matched by name",
    ]
    known = TablePreparation(features=["a", "b"], excluded={"c": "constant"}).fit(CLEAN)
    assert known.differences(CLEAN) == []
    assert known.differences(CLEAN.drop("b")) == ["1 column missing: 'b'"]


def test_absent_columns_are_listed_with_what_they_may_be_called_now():
    frame = CLEAN.rename({"b": "alpha_beta"})
    model = TablePreparation().fit(frame)
    with pytest.raises(InputError) as error:
        model.transform(frame.rename({"alpha_beta": "alpha beta"}).with_columns(q=pl.lit(1)))
    assert str(error.value) == (
        "the table lacks 1 column of 2: 'alpha_beta'. Did you mean 'alpha beta'? Columns not asked "
        "for: 'alpha beta', 'c', 'q'."
    )


def test_missing_values_are_an_error_that_says_where():
    with pytest.raises(NonFiniteError) as error:
        TablePreparation(features=["a", "b"]).fit_transform(FRAME)
    with pytest.raises(NonFiniteError, match="2 missing values"):
        TablePreparation(features=["a", "b"]).fit(FRAME)
    message = str(error.value)
    assert "2 missing values and 1 infinite value in 3 rows (2, 4, 5)" in message
    assert "columns 'a' (1), 'b' (2)" in message
    assert "missing='median'" in message
    assert "--missing median" in message


@pytest.mark.parametrize(
    ("missing", "a", "b"),
    [("mean", 4.0, 6.5 / 3), ("median", 2.5, 2.0), ("zero", 0.0, 0.0)],
)
def test_gaps_are_filled_with_what_the_training_rows_gave(missing, a, b):
    model = TablePreparation(features=["b", "a"], missing=missing)
    X = model.fit_transform(FRAME)
    assert np.allclose(X, [[0.5, 1], [b, 2], [2, 3], [4, a], [b, 10]], rtol=1e-15)
    assert np.allclose(model.fill_, [b, a] if missing != "zero" else 0)
    new = pl.DataFrame({"a": [None, 100.0], "b": [-float("inf"), 1.0]})
    assert np.allclose(model.transform(new), [[b, a], [1, 100]])  # not of the new rows


def test_rows_with_gaps_are_dropped():
    model = TablePreparation(features=["a", "b"], missing="drop").fit(FRAME)
    assert model.rows_kept(FRAME).tolist() == [True, False, True, False, False]
    assert model.transform(FRAME).tolist() == [[1, 0.5], [3, 2]]
    assert TablePreparation(features=["a"], missing="zero").fit(FRAME).rows_kept(FRAME).all()


def test_a_named_text_column_is_read_as_numbers():
    X = TablePreparation(features=["near"], missing="median").fit_transform(FRAME)
    assert X[:, 0].tolist() == [1, 2, 3, 4, 5.5]
    with pytest.raises(NonFiniteError, match="'near'"):
        TablePreparation(features=["near"]).fit_transform(FRAME)


def test_fills_of_huge_values_do_not_overflow():
    frame = pl.DataFrame({"a": [1.5e308, 1.7e308, None]})
    for missing in ("mean", "median"):
        X = TablePreparation(missing=missing).fit_transform(frame)
        assert X[2, 0] == pytest.approx(1.6e308)


@pytest.mark.parametrize("kind", [pl.UInt8, pl.Int16, pl.UInt16, pl.Float32, pl.Boolean])
def test_short_types_become_float32_and_are_exact(kind):
    frame = pl.DataFrame({"a": [0, 1, 1], "b": [1, 0, 1]}).cast(kind)
    model = TablePreparation()
    X = model.fit_transform(frame)
    assert X.dtype == np.float32
    assert X.flags.c_contiguous
    assert np.array_equal(X, frame.cast(pl.Float64).to_numpy())
    # Rows that come in longer types keep their digits.
    assert model.transform(frame.cast(pl.Float64) + 1e-12).dtype == np.float64


@pytest.mark.parametrize("kind", [pl.Int32, pl.UInt32, pl.Int64, pl.Float64])
def test_long_types_become_float64_and_stay_so(kind):
    frame = pl.DataFrame({"a": [0, 1, 1], "b": [1, 0, 1]})
    model = TablePreparation().fit(frame.cast(kind))
    assert model.dtype_ == "float64"
    assert model.transform(frame.cast(pl.UInt8)).dtype == np.float64


def test_blocks_of_rows_change_nothing(monkeypatch):
    frame = pl.DataFrame({"a": np.arange(50.0), "b": np.arange(50) ** 2})
    whole = TablePreparation().fit_transform(frame)
    monkeypatch.setattr("nearfold.store.preparation._BLOCK", 7)
    assert np.array_equal(TablePreparation().fit_transform(frame), whole)


def test_arrays():
    X = np.array([[1.0, 5.0], [2.0, 5.0], [np.nan, 5.0]])
    model = TablePreparation(missing="mean")
    assert model.fit_transform(X).tolist() == [[1, 5], [2, 5], [1.5, 5]]  # constants are kept
    assert np.isnan(X[2, 0])  # the caller's array is not touched
    assert list(model.get_feature_names_out()) == ["x0", "x1"]
    assert model.transform(pl.DataFrame(X, schema=["p", "q"])).tolist() == [
        [1, 5],
        [2, 5],
        [1.5, 5],
    ]
    named = TablePreparation().fit(CLEAN)
    assert named.transform(np.ones((2, 2))).tolist() == [[1, 1], [1, 1]]
    for wrong in (np.ones((2, 3)), np.ones(2), np.array([["a", "b"]]), "text"):
        with pytest.raises(InputError):
            named.transform(wrong)
    assert TablePreparation().fit(CLEAN).fit(np.ones((2, 7))).n_features_in_ == 7  # a refit forgets
    assert not hasattr(TablePreparation().fit(CLEAN).fit(np.ones((2, 2))), "feature_names_in_")


def test_pandas_frames_give_the_same_array():
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], dtype="Int64"),
            "f": [1.5, np.nan, 2.5],
            "t": ["1", "x", "3"],
            "b": [True, False, True],
        }
    )
    model = TablePreparation(features=["b", "t", "f", "n"], missing="zero")
    expected = [[1, 1, 1.5, 1], [0, 0, 0, 0], [1, 3, 2.5, 3]]
    assert model.fit_transform(frame).tolist() == expected
    assert model.fit_transform(pl.from_pandas(frame)).tolist() == expected
    numbered = TablePreparation().fit_transform(pd.DataFrame(np.eye(3)))
    assert np.array_equal(numbered, np.eye(3))
    with pytest.raises(InputError, match="unique"):
        TablePreparation().fit(pd.DataFrame(np.eye(2), columns=["a", "a"]))


def test_scikit_learns_conventions():
    model = TablePreparation(features=["b", "a"], missing="mean", excluded={"c": "constant"})
    assert clone(model).get_params() == model.get_params()
    assert model.fit(CLEAN) is model
    for kind, frame in (("polars", CLEAN), ("pandas", CLEAN.to_pandas())):
        out = clone(model).set_output(transform=kind).fit(frame).transform(frame)
        assert list(out.columns) == ["b", "a"]
        assert type(out).__module__.startswith(kind)
    pipeline = make_pipeline(TablePreparation(), nearfold.PCA(1)).fit(CLEAN)
    assert pipeline.transform(CLEAN.select("b", "a")).shape == (3, 1)
    assert list(pipeline[:1].get_feature_names_out()) == ["a", "b"]


def test_what_it_keeps_is_plain():
    model = TablePreparation(missing="mean").fit(CLEAN)
    kinds = {name: type(value).__name__ for name, value in vars(model).items()}
    assert kinds == {
        "features": "NoneType",
        "missing": "str",
        "excluded": "NoneType",
        "feature_names_in_": "ndarray",
        "n_features_in_": "int",
        "dtype_": "str",
        "fill_": "ndarray",
    }


@pytest.mark.parametrize(
    ("model", "frame", "says"),
    [
        (TablePreparation(missing="guess"), CLEAN, "use one of error, drop"),
        (TablePreparation(features=[]), CLEAN, "empty"),
        (TablePreparation(features=["a", "a"]), CLEAN, "twice"),
        (TablePreparation(features=["q"]), CLEAN, "lacks 1 column of 1: 'q'"),
        (TablePreparation(), FRAME.select("t", "c"), "no column can be a feature"),
        (TablePreparation(features=["t"], missing="mean"), FRAME, "no value to learn from"),
        (TablePreparation(features=["a"]), CLEAN.head(0), "no rows"),
        (TablePreparation(features=["l"]), pl.DataFrame({"l": [[1]]}), "holds List"),
    ],
)
def test_what_cannot_be_fitted_says_why(model, frame, says):
    with pytest.raises(InputError) as error:
        model.fit(frame)
    assert says in str(error.value)


def test_the_budget_is_kept():
    frame = pl.DataFrame({"a": np.arange(100_000.0)})
    nearfold.set_memory("1MB")
    try:
        with pytest.raises(MemoryBudgetError, match="the table needs about"):
            TablePreparation(features=["a"]).fit(frame)
    finally:
        nearfold.set_memory(None)


def test_names_that_polars_takes_for_patterns():
    frame = pl.DataFrame({"a": [1.0, 2.0], "*": [3.0, 4.0], "^.*$": [5.0, 6.0], "ab": ["7", "8"]})
    X = TablePreparation(features=["*", "^.*$", "ab"]).fit_transform(frame)
    assert X.tolist() == [[3, 5, 7], [4, 6, 8]]
    assert TablePreparation().fit(frame).feature_names_in_.tolist() == ["a", "*", "^.*$"]
