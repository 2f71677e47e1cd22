"""Whatever X is given as: the result of the float64 array, or one error that says what is wrong."""

import datetime
import decimal
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import nearfold.inputs
from nearfold import (
    PCA,
    Isomap,
    KernelPCA,
    KNeighborsRegressor,
    LinearDiscriminantAnalysis,
    RadiusNeighborsRegressor,
)
from nearfold.errors import InputError, NonFiniteError
from nearfold.metrics.mmc import MMC
from nearfold.metrics.rca import RCA_Supervised
from nearfold.registry import METHODS, find

X = np.random.default_rng(0).integers(1, 200, (24, 4)) + 30.0 * (np.arange(24) % 3)[:, None]
Y = np.arange(24) % 3
NAMES = list("abcd")
QUERIES = ("transform", "predict", "kneighbors", "partial_fit")


def with_cells(column):
    cells = X.astype(object)
    cells[:, 1] = column
    return cells


def with_column(column):
    return pd.DataFrame(X, columns=NAMES).assign(b=column)


def rows_with_a_mask():
    rows = list(X)
    rows[2] = np.ma.masked_greater(X[2], -1)
    return rows


DAYS = np.datetime64("2020-01-01") + X[:, 1].astype(int)
REFUSED = {
    "dates": (X.astype(int).astype("M8[D]"), "dates are not numbers"),
    "durations": (X.astype(int).astype("m8[s]"), "dates are not numbers"),
    "list of dates": ([list(row) for row in X.astype(int).astype("M8[D]")], "dates"),
    "date objects": (with_cells(list(DAYS)), "row 0, column 1"),
    "duration objects": (with_cells(list(DAYS - DAYS[0])), "row 0, column 1"),
    "Timestamp objects": (with_cells([pd.Timestamp(day) for day in DAYS]), "row 0, column 1"),
    "frame with dates": (with_column(DAYS), r"columns \['b'\] hold dates"),
    "frame with date objects": (with_column([datetime.date(2020, 1, 1)] * 24), "column 'b'"),
    "frame with periods": (with_column(pd.period_range("2020", periods=24)), "column 'b'"),
    "frame with text": (with_column(["u"] * 24), "column 'b': could not convert string"),
    "polars with dates": (
        pl.DataFrame({**{n: X[:, i] for i, n in enumerate(NAMES)}, "b": DAYS}),
        r"columns \['b'\] hold dates",
    ),
    "masked cells": (np.ma.masked_greater(X, 150), "masked cells"),
    "rows with a mask": (rows_with_a_mask(), "masked cells"),
    "complex": (X + 1j, "Complex data not supported"),
    "complex objects": (with_cells([1j] * 24), "row 0, column 1"),
    "words": (with_cells(["word"] * 24), "'word' in row 0, column 1"),
    "huge whole numbers": (with_cells([10**400] * 24), "too large .* row 0, column 1"),
    "huge long doubles": (np.full(X.shape, np.longdouble(10) ** 4000), "96 inf"),
    "missing": (with_cells([None] * 24), "contains 24 NaN"),
    "rows of different lengths": ([list(row) for row in X[:-1]] + [[1.0]], "different lengths"),
    "records": (np.zeros((24, 4), dtype=[("a", float)]), "not numeric"),
}
SAME = {
    "whole numbers": X.astype(np.int16),
    "long doubles": X.astype(np.longdouble),
    "big-endian": X.astype(">f8"),
    "decimals": np.array([[decimal.Decimal(int(v)) for v in row] for row in X]),
    "text of numbers": X.astype(int).astype(str),
    "nullable": pd.DataFrame(X, columns=NAMES).astype("Int64"),
    "nothing masked": np.ma.masked_greater(X, 1e9),
    "list": X.tolist(),
    "list of float32 rows": list(X.astype(np.float32)),
}


def estimator(method):
    made = method.load()(**method.check_params)
    small = {"max_iter": 5, "output_iter": 5, "random_state": 0, "n_constraints": 20}
    small["radius"] = 200.0 if method.name.startswith("Radius") else None
    names = made.get_params()
    return made.set_params(**{k: v for k, v in small.items() if k in names and v is not None})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_form_is_read_rightly_or_refused(method):
    fitted = estimator(method).fit(X, Y)
    queries = [name for name in QUERIES if hasattr(fitted, name)]
    for values, message in REFUSED.values():
        with pytest.raises((ValueError, TypeError), match=message):
            estimator(method).fit(values, Y)
        for name in queries:
            arguments = (Y,) if name == "partial_fit" else ()
            with pytest.raises((ValueError, TypeError), match=message):
                getattr(clone(fitted).fit(X, Y), name)(values, *arguments)
    for values in SAME.values():
        again = estimator(method).fit(values, Y)
        for name in set(queries) - {"partial_fit"}:
            expected, found = getattr(fitted, name)(X), getattr(again, name)(X)
            if hasattr(expected, "toarray"):
                expected, found = expected.toarray(), found.toarray()
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


WORDS = np.array(["a", "b", "c"])[Y]
NO_LABEL = {
    "string": pd.Series(WORDS, dtype="string").where(Y != 1, pd.NA),
    "whole numbers": pd.Series(Y, dtype="Int64").where(Y != 1, pd.NA),
    "frame": pd.DataFrame({"y": WORDS}).where(Y[:, None] != 1, None),
    "polars": pl.Series([None if y == 1 else y for y in Y.tolist()]),
    "objects": np.where(Y != 1, WORDS.astype(object), None),
    "NaN among words": [np.nan if y == 1 else "ab"[y // 2] for y in Y.tolist()],
    "NA among words": np.where(Y != 1, WORDS.astype(object), pd.NA),
    "masked": np.ma.masked_equal(Y, 1),
}
LABELLED = [m for m in METHODS if estimator(m).__sklearn_tags__().target_tags.required]


@pytest.mark.parametrize("method", LABELLED, ids=lambda method: method.name)
def test_missing_labels_are_refused(method):
    for y in NO_LABEL.values():
        with pytest.raises(InputError, match=r"Input y contains NaN .* 8 rows \(first: \[1, 4"):
            estimator(method).fit(X, y)


@pytest.mark.parametrize("name", ["KNeighborsRegressor", "RadiusNeighborsRegressor", "MLKR"])
def test_dates_are_no_targets(name):
    for y in (DAYS, pd.Series(DAYS), list(DAYS)):
        with pytest.raises(InputError, match=r"Input y holds datetime64.* not numbers"):
            estimator(find(name)).fit(X, y)


@pytest.mark.parametrize("size", [1e300, 1e-200])
def test_targets_whose_squares_leave_the_range_are_refused(size):
    with pytest.raises(InputError, match="squares overflow or vanish"):
        estimator(find("MLKR")).fit(X, Y * size)


def test_an_object_array_with_missing_cells_names_them():
    with pytest.raises(NonFiniteError, match=re.escape("column 1: 24")):
        PCA().fit(with_cells([None] * 24))


@pytest.mark.parametrize("given", [pl.LazyFrame(X), "table.csv"], ids=["lazy", "path"])
def test_what_is_read_in_blocks_is_refused_where_it_cannot_be(given):
    with pytest.raises(InputError, match="Isomap takes a table in memory"):
        Isomap().fit(given)


def test_results_that_overflow_are_refused():
    with pytest.raises(InputError, match=r"overflows float64 \(first rows: \[1\]\)"):
        PCA(2).fit(X).score_samples([X[0], X[1] * 1e300])
    small = X.astype(np.float32)
    with pytest.raises(InputError, match="overflows float32"):
        Isomap().fit(small).transform(small * np.float32(1e30))
    huge = np.full((1, 4), 1e308)
    with pytest.raises(InputError, match="overflows float64"):
        PCA(1, whiten=True).fit(X / 1e9).transform(huge)
    with pytest.raises(InputError, match="overflows float64"):
        LinearDiscriminantAnalysis(solver="lsqr").fit(X / 1e9, Y).predict_proba(huge)
    with pytest.raises(InputError, match="overflows float64"):
        KernelPCA(1, kernel="poly").fit(X).transform(huge)


def test_a_prior_of_zero_is_no_overflow():
    model = LinearDiscriminantAnalysis(priors=[0.0, 0.5, 0.5]).fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(X)[:, 0], 0.0)


def test_subnormal_pairs_are_refused():
    with pytest.raises(InputError, match="multiply the columns"):
        MMC(n_constraints=20).fit(X * 5e-324, Y)


def test_complex_tuples_are_refused():
    with pytest.raises(InputError, match="Complex"):
        MMC().fit(np.ones((4, 2, 3)) + 1j, [1, 1, -1, -1])


WEIGHED = ("KNeighborsClassifier", "RadiusNeighborsRegressor", "PCA")


@pytest.mark.parametrize("name", WEIGHED)
def test_weights_are_numbers(name):
    weights = {
        "missing": np.ma.masked_equal(np.arange(24.0), 3),
        "holds datetime64": np.arange(24).astype("M8[D]"),
        "row 5": ["1"] * 5 + ["word"] * 19,
    }
    for message, given in weights.items():
        with pytest.raises(InputError, match=message):
            estimator(find(name)).fit(X, Y, sample_weight=given)


def test_coordinates_to_map_back_are_checked():
    for model in (PCA(2).fit(X), KernelPCA(2, kernel="rbf", fit_inverse_transform=True).fit(X)):
        for given, message in (
            ([[np.nan, 1.0]], "1 NaN"),
            ([[1.0, 1.0, 1.0]], "3 columns, and the embedding has 2"),
            ([["a", "b"]], "row 0, column 0"),
            ([[1j, 1.0]], "Complex"),
            (np.ma.masked_equal([[1.0, 2.0]], 2), "masked"),
            ([1.0, 2.0], "Expected 2D"),
        ):
            with pytest.raises(ValueError, match=message):
                model.inverse_transform(given)


@pytest.mark.parametrize("size", [np.inf, np.nan])
def test_a_function_of_distances_must_give_finite_weights(size):
    for search in (KNeighborsRegressor(), RadiusNeighborsRegressor(radius=200.0)):
        search.set_params(weights=lambda d: np.where(d == 0, size, 1.0)).fit(X, Y)
        with pytest.raises(InputError, match="NaN or inf"):
            search.predict(X)


@pytest.mark.parametrize("offset", [0.0, 1e9, 1e15])
def test_a_linear_kernel_sees_what_pca_sees_at_any_offset(offset):
    far = X + offset
    lam = KernelPCA(2, kernel="linear").fit(far).eigenvalues_
    np.testing.assert_allclose(lam / 23, PCA(2).fit(far).explained_variance_, rtol=1e-9)
    assert not KernelPCA(2, kernel="linear").fit(np.full((24, 3), 0.1 + offset)).eigenvalues_.any()


def test_plain_tables_need_no_checks_but_ours(monkeypatch):
    """A fit of a few rows should not wait for scikit-learn's; what is not plain still gets them."""
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    learner = RCA_Supervised(n_chunks=5, random_state=0)
    named = learner.fit(pd.DataFrame(X, columns=list("abc")), y).components_
    assert learner.feature_names_in_.tolist() == list("abc")
    with monkeypatch.context() as patch:
        patch.setattr(nearfold.inputs, "validate_data", None)
        np.testing.assert_array_equal(learner.fit(X, y).components_, named)
        assert not hasattr(learner, "feature_names_in_")
        learner.fit(X[:, :2], y).transform(X[:, :2])
        assert learner.n_features_in_ == 2
        with pytest.raises(NonFiniteError):
            learner.fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        learner.fit(X, y[:-1])
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        learner.fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="expecting 3 features"):
        learner.fit(X, y).transform(X[:, :2])
