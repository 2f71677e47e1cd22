"""The way from a table to an array: by name, with what was learned from the training rows."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import nearfold
from nearfold.columns.preparation import TablePreparation
from nearfold.errors import InputError, MemoryBudgetError, NonFiniteError

FRAME = pl.DataFrame(
    {
        "a": [1, 2, 3, None, 10],
        "b": [0.5, float("inf"), 2.0, 4.0, float("nan")],
        "t": ["x", "y", "z", "w", "v"],
        "c": [7, 7, 7, 7, 7],
    }
)
NEAR = pl.DataFrame({"near": [*map(str, range(1, 11)), "bad"]})
CLEAN = pl.DataFrame({"a": [1.0, 2.5, 4.0], "b": [3, 1, 2], "c": [5, 5, 5]})


def test_constant_and_text_columns_are_left_out_of_new_rows_too():
    model = TablePreparation().fit(CLEAN)
    assert list(model.feature_names_in_) == ["a", "b"]
    new = pl.DataFrame({"a": [0.5], "b": [9], "c": [1], "t": ["?"]})
    assert model.transform(new).tolist() == [[0.5, 9.0]]


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow", "lazy"])
def test_columns_are_matched_by_name(kind):
    model = TablePreparation().fit(CLEAN)
    shuffled = CLEAN.select("c", "b", "a").with_columns(extra=pl.lit(1))
    new = {
        "polars": shuffled,
        "pandas": shuffled.to_pandas(),
        "pyarrow": shuffled.to_arrow(),
        "lazy": shuffled.lazy(),
    }[kind]
    assert np.array_equal(model.transform(new), model.transform(CLEAN))


def test_absent_columns_are_listed_with_what_they_may_be_called_now():
    frame = CLEAN.rename({"b": "alpha_beta"})
    model = TablePreparation().fit(frame)
    with pytest.raises(InputError) as error:
        model.transform(frame.rename({"alpha_beta": "alpha beta"}).with_columns(q=pl.lit(1)))
    assert str(error.value) == (
        "the table lacks 1 of 2 columns: 'alpha_beta'. Did you mean 'alpha beta'?"
    )


def test_missing_values_are_an_error_that_says_where():
    with pytest.raises(NonFiniteError) as error:
        TablePreparation(columns=["a", "b"], missing="error").fit_transform(FRAME)
    message = str(error.value)
    assert "3 missing values in 3 rows (2, 4, 5)" in message
    assert "by column: 'a' (1), 'b' (2)" in message
    assert "missing='median'" in message
    assert "--missing median" in message
    model = TablePreparation(columns=["a", "b"], missing="error").fit(FRAME.head(1))
    with pytest.raises(NonFiniteError, match="3 missing values"):
        model.transform(FRAME)


@pytest.mark.parametrize(
    ("missing", "a", "b"),
    [("mean", 4.0, 6.5 / 3), ("median", 2.5, 2.0), ("zero", 0.0, 0.0)],
)
def test_gaps_are_filled_with_what_the_training_rows_gave(missing, a, b):
    model = TablePreparation(columns=["b", "a"], missing=missing)
    X = model.fit_transform(FRAME)
    assert np.allclose(X, [[0.5, 1], [b, 2], [2, 3], [4, a], [b, 10]], rtol=1e-15)
    assert np.allclose(model.fill_, [b, a] if missing != "zero" else 0)
    new = pl.DataFrame({"a": [None, 100.0], "b": [-float("inf"), 1.0]})
    assert np.allclose(model.transform(new), [[b, a], [1, 100]])  # not of the new rows


@pytest.mark.parametrize("n", [1, 2, 7, 8, 301])
def test_medians_are_numpys(n):
    rng = np.random.default_rng(n)
    X = np.where(rng.random((n, 40)) < 0.3, np.nan, rng.normal(size=(n, 40)))
    X[0] = rng.normal(size=40)
    for rule, oracle in (("median", np.nanmedian), ("mean", np.nanmean)):
        filled = TablePreparation(missing=rule).fit_transform(X)
        expected = np.where(np.isnan(X), oracle(X, axis=0), X)
        np.testing.assert_allclose(filled, expected, rtol=1e-14, atol=1e-15)
        # Columns that had no gaps have a middle, too: new rows may lack a value.
        whole = TablePreparation(missing=rule).fit(np.nan_to_num(X))
        middle = oracle(np.nan_to_num(X), axis=0)
        np.testing.assert_allclose(whole.transform(np.full((1, 40), np.nan))[0], middle, atol=1e-15)


def test_rows_with_gaps_are_dropped():
    model = TablePreparation(columns=["a", "b"], missing="drop").fit(FRAME)
    assert model.rows_kept(FRAME).tolist() == [True, False, True, False, False]
    assert model.transform(FRAME).tolist() == [[1, 0.5], [3, 2]]
    assert TablePreparation(columns=["a"], missing="zero").fit(FRAME).rows_kept(FRAME).all()


def test_rows_that_are_dropped_teach_nothing():
    """They once took part in means and scales, as zeros."""
    words = ["u", "v", "u", "v", "u", None]
    frame = pl.DataFrame({"a": [100.0, 102, 104, None, 103, 101], "c": words})
    model = TablePreparation(missing="drop", numbers="scale")
    X = model.fit_transform(frame)
    whole = TablePreparation(numbers="scale").fit_transform(frame[[0, 1, 2, 4]])
    assert np.allclose(X, whole)
    assert model.rows_kept(frame).tolist() == [True, True, True, False, True, False]
    with pytest.raises(InputError, match="no rows"):
        model.fit(pl.DataFrame({"a": [1.0, 2.0, None, None], "c": [None, None, "u", "v"]}))


def test_words_among_numbers_count_as_missing_and_are_told():
    model = TablePreparation(columns=["near"])
    assert model.fit_transform(NEAR)[:, 0].tolist() == [*range(1, 11), 5.5]
    known = pl.DataFrame({"near": ["bad", "bad"]})  # a word for missing that the training rows had
    assert model.transform(known)[:, 0].tolist() == [5.5, 5.5]
    assert model.unseen(model.read(known)) == []
    new = pl.DataFrame({"near": ["1.5"] * 19 + ["n/a"]})
    assert model.transform(new)[19, 0] == 5.5
    (told,) = model.unseen(model.read(new))
    assert str(told) == (
        "'near': 1 cell that cannot be read as number (the first: 'n/a' in row 20) counts as "
        "missing"
    )


def test_too_many_words_among_numbers_are_refused():
    model = TablePreparation(columns=["near"]).fit(NEAR)
    with pytest.raises(InputError) as error:
        model.transform(pl.DataFrame({"near": ["1", "1,5", "2,5"]}))
    assert "'near' holds 2 cells that are not numbers (the first: '1,5' in row 2)" in str(
        error.value
    )


def test_fills_of_huge_values_do_not_overflow():
    frame = pl.DataFrame({"a": [1.5e308, 1.7e308, None]})
    for missing in ("mean", "median"):
        X = TablePreparation(missing=missing).fit_transform(frame)
        assert X[2, 0] == pytest.approx(1.6e308)


@pytest.mark.parametrize("size", [1e300, 1e-140, 1.0])
def test_scales_of_extreme_values(size):
    frame = pl.DataFrame({"a": np.array([-1.0, 0.5, 2.0, 0.1]) * size})
    X = TablePreparation(numbers="scale").fit_transform(frame)
    assert X.mean() == pytest.approx(0, abs=1e-12)
    assert X.var() == pytest.approx(1)
    ranged = TablePreparation(numbers="range").fit_transform(frame)
    assert (ranged.min(), ranged.max()) == (0, pytest.approx(1))


def test_new_rows_that_overflow_are_refused_with_the_column():
    frame = pl.DataFrame({"a": [1e-150, 2e-150, 4e-150], "b": [1.0, 2.0, 4.0]})
    model = TablePreparation(numbers="scale").fit(frame)
    with pytest.raises(InputError, match="column 'a' holds values so far from the training rows"):
        model.transform(pl.DataFrame({"a": [1e200], "b": [0.0]}))


def test_scaling_is_the_standard_one_in_blocks(monkeypatch):
    X = np.random.default_rng(0).normal(3, [[1, 50, 1e-3]], size=(500, 3))
    expected = (X - X.mean(axis=0)) / X.std(axis=0)
    for block in (2**20, 7):
        monkeypatch.setattr("nearfold.columns.scaling._BLOCK", block)
        found = TablePreparation(numbers="scale").fit_transform(X)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)  # 3 of 1e-3 wide


def test_a_constant_is_not_blown_up():
    frame = pl.DataFrame({"a": [0.1 + 0.2, 0.3, 0.3], "b": [1e9, 1e9, 1e9]})
    specs = [{"name": name, "kind": "number"} for name in "ab"]
    X = TablePreparation(columns=specs, numbers="scale").fit_transform(frame)
    assert np.abs(X).max() < 1e-15
    ranged = TablePreparation(columns=specs, numbers="range").fit(frame)
    assert ranged.transform(pl.DataFrame({"a": [0.3], "b": [1e9 + 5]}))[0, 1] == 5


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


def test_fills_keep_their_digits_among_short_types():
    """A fill of float64 was once rounded to the type of the new rows, and could overflow."""
    for value in (1e300, 1 / 3):
        model = TablePreparation().fit(pl.DataFrame({"a": [value, value / 2, value * 2]}))
        new = pl.DataFrame({"a": [True, None]})
        assert model.transform(new)[:, 0].tolist() == [1, value]


def test_blocks_of_rows_change_nothing(monkeypatch):
    frame = pl.DataFrame({"a": np.arange(50.0), "c": ["u", "v"] * 25, "b": np.arange(50) ** 2})
    whole = TablePreparation().fit_transform(frame)
    monkeypatch.setattr("nearfold.columns.cells._BLOCK", 7)
    assert np.array_equal(TablePreparation().fit_transform(frame), whole)
    assert whole[:, :2].tolist() == frame.select("a", "b").to_numpy().tolist()


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
    with pytest.raises(InputError, match="an array has no names"):
        TablePreparation(columns=["a"]).fit(X)
    mixed = TablePreparation().fit(pl.DataFrame({"a": [1.0, 2.0], "c": ["u", "v"]}))
    with pytest.raises(InputError, match="a table with names is expected"):
        mixed.transform(np.ones((2, 1)))


def test_pandas_frames_give_the_same_array():
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], dtype="Int64"),
            "f": [1.5, np.nan, 2.5],
            "t": ["1", None, "3"],
            "b": [True, False, True],
        }
    )
    model = TablePreparation(columns=["b", "t", "f", "n"], missing="zero")
    expected = [[1, 1, 1.5, 1], [0, 0, 0, 0], [1, 3, 2.5, 3]]
    assert model.fit_transform(frame).tolist() == expected
    assert model.fit_transform(pl.from_pandas(frame)).tolist() == expected
    numbered = TablePreparation().fit_transform(pd.DataFrame(np.eye(3)))
    assert np.array_equal(numbered, np.eye(3))
    with pytest.raises(InputError, match="unique"):
        TablePreparation().fit(pd.DataFrame(np.eye(2), columns=["a", "a"]))


def test_scikit_learns_conventions():
    model = TablePreparation(columns=["b", "a"], missing="mean")
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
    params = {name: kinds.pop(name) for name in model.get_params()}
    assert params["columns"] == "NoneType"
    assert kinds == {
        "names_": "ndarray",
        "kinds_": "ndarray",
        "details_": "dict",
        "feature_names_in_": "ndarray",
        "n_features_in_": "int",
        "dtype_": "str",
        "fill_": "ndarray",
        "centre_": "ndarray",
        "scale_": "ndarray",
        "levels_": "list",
        "tables_": "list",
    }


def test_each_column_of_the_result_has_a_name_and_an_origin():
    frame = pl.DataFrame(
        {
            "c": ["u", "v", "w"] * 4,
            "a": np.arange(12.0) ** 2,
            "d": pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 12, 1), "1mo", eager=True),
            "v": [[1.0 * i, 2.0] for i in range(12)],
        }
    )
    model = TablePreparation().fit(frame)
    named = zip(model.get_feature_names_out(), model.origin.tolist(), strict=True)
    assert list(named) == [
        ("a", 1), ("d", 2), ("d.month_sin", 2), ("d.month_cos", 2), ("d.weekday_sin", 2),
        ("d.weekday_cos", 2), ("v[0]", 3), ("v[1]", 3), ("c[0]", 0), ("c[1]", 0), ("c[2]", 0),
    ]  # fmt: skip
    assert model.columns_[2]["parts"] == ["month", "weekday"]


@pytest.mark.parametrize(
    ("model", "frame", "says"),
    [
        (TablePreparation(columns=[]), CLEAN, "no column can be a feature"),
        (TablePreparation(columns=["a", "a"]), CLEAN, "twice"),
        (TablePreparation(columns=["q"]), CLEAN, "there is no column 'q'"),
        (TablePreparation(), FRAME.select("t", "c"), "no column can be a feature"),
        (TablePreparation(), pl.DataFrame(), "the table has no columns"),
        (TablePreparation(columns=["t"]), FRAME, "cannot be a feature: a different word"),
        (TablePreparation(columns=["a"]), CLEAN.head(0), "empty: no row has a value"),
        (TablePreparation(columns=["l"]), pl.DataFrame({"l": [[1], [1, 2]]}), "cannot be used"),
        (TablePreparation(columns=[{"name": "a"}]), CLEAN, "not a dict with a name and a kind"),
        (TablePreparation(columns=[{"name": "a", "kind": "id"}]), CLEAN, "of the kind 'id'"),
        (
            TablePreparation(columns=[{"name": "a", "kind": "ordered"}]),
            CLEAN,
            "details are missing",
        ),
        (TablePreparation(columns=[{"name": "q", "kind": "number"}]), CLEAN, "lacks 1 of 1"),
        (TablePreparation(), np.ones((0, 3)), "no rows to learn from"),
        (TablePreparation(), np.ones((3, 0)), "no columns to learn from"),
    ],
)
def test_what_cannot_be_fitted_says_why(model, frame, says):
    with pytest.raises(InputError) as error:
        model.fit(frame)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_rule_for_missing_values_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="missing"):
        TablePreparation(missing="guess").fit(CLEAN)


def test_the_budget_is_kept():
    frame = pl.DataFrame({"a": np.arange(100_000.0)})
    nearfold.set_memory("1MB")
    try:
        with pytest.raises(MemoryBudgetError, match="the table needs about"):
            TablePreparation(columns=["a"]).fit(frame)
    finally:
        nearfold.set_memory(None)


def test_names_that_polars_takes_for_patterns():
    frame = pl.DataFrame({"a": [1.0, 2.0], "*": [3.0, 4.0], "^.*$": [5.0, 6.0], "": ["7", "8"]})
    X = TablePreparation(columns=["*", "^.*$", ""]).fit_transform(frame)
    assert X.tolist() == [[3, 5, 7], [4, 6, 8]]
    assert TablePreparation().fit(frame).feature_names_in_.tolist() == ["a", "*", "^.*$", ""]
