"""LDA against the generalised eigenproblem, scikit-learn, and its solvers among themselves."""

import copy
import itertools
import pickle
from unittest.mock import Mock

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.discriminant_analysis
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg
from sklearn.covariance import OAS, EmpiricalCovariance

import nearfold
from nearfold import LinearDiscriminantAnalysis as LDA
from nearfold.errors import InputError, MemoryBudgetError, NonFiniteError
from nearfold.linalg import batches, fix_signs, moments, within
from nearfold.methods import class_covariance
from nearfold.state import StateError, fields_of

TheirLDA = sklearn.discriminant_analysis.LinearDiscriminantAnalysis
SOLVERS = ["svd", "lsqr", "eigen"]


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


def classes(m=120, d=5, n_classes=4, seed=0, dtype=np.float64, apart=2.0):
    """Classes of unequal size with a common covariance that is not round."""
    rng = np.random.default_rng(seed)
    y = rng.choice(n_classes, m, p=np.arange(1, n_classes + 1) / (n_classes * (n_classes + 1) / 2))
    y[:n_classes] = np.arange(n_classes)
    X = rng.normal(size=(m, d)) @ (rng.normal(size=(d, d)) + 2 * np.eye(d))
    return (X + apart * rng.normal(size=(n_classes, d))[y] * 2 + 1.0).astype(dtype), y


def literal_scatters(X, y, priors=None):
    """S_w and S_b as the page has them, row by row."""
    found, counts = np.unique(y, return_counts=True)
    pi = counts / len(y) if priors is None else np.asarray(priors)
    mu_c = np.array([X[y == c].mean(axis=0) for c in found])
    mu = sum(p * m for p, m in zip(pi, mu_c, strict=True))
    d = X.shape[1]
    S_w, S_b = np.zeros((d, d)), np.zeros((d, d))
    for p, m, c in zip(pi, mu_c, found, strict=True):
        for x in X[y == c]:
            S_w += np.outer(x - m, x - m) * p / np.sum(y == c)
        S_b += p * np.outer(m - mu, m - mu)
    return S_w, S_b


def assert_same_model(got, expected, atol=1e-8):
    for name in ("coef_", "intercept_", "means_", "priors_", "xbar_", "explained_variance_ratio_"):
        a, b = getattr(got, name), getattr(expected, name)
        np.testing.assert_allclose(a, b, rtol=atol, atol=atol * np.abs(b).max(), err_msg=name)
    np.testing.assert_array_equal(got.classes_, expected.classes_)


# ---- the formula ---------------------------------------------------------------------


@pytest.mark.parametrize("priors", [None, [0.1, 0.4, 0.3, 0.2]])
@pytest.mark.parametrize("solver", SOLVERS)
def test_axes_solve_the_generalised_eigenproblem(solver, priors):
    X, y = classes()
    # svd pools the classes as they are, whatever the priors
    S_w = literal_scatters(X, y, None if solver == "svd" else priors)[0]
    S_b = literal_scatters(X, y, priors)[1]
    lam, V = linalg.eigh(S_b, S_w)
    lam, V = lam[::-1][:3], V[:, ::-1][:, :3]
    model = LDA(solver, priors=priors).fit(X, y)
    W = model.scalings_
    assert W.shape == (5, 3)
    np.testing.assert_allclose(fix_signs(W.T), fix_signs(V.T), atol=1e-8)
    np.testing.assert_array_equal(W.T, fix_signs(W.T))
    np.testing.assert_allclose(model.explained_variance_ratio_, lam / lam.sum(), rtol=1e-9)
    residual = S_b @ W - S_w @ W * lam
    assert np.linalg.norm(residual) < 1e-11 * np.linalg.norm(S_b) * np.linalg.norm(W)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", SOLVERS)
def test_within_classes_the_result_is_white(solver, dtype):
    X, y = classes(dtype=dtype)
    Z = LDA(solver).fit(X, y).transform(X)
    assert Z.dtype == dtype
    centred = Z - np.array([Z[y == c].mean(axis=0) for c in range(4)])[y]
    eye = centred.T.astype(float) @ centred / len(y)
    np.testing.assert_allclose(eye, np.eye(3), atol=1e-10 if dtype == np.float64 else 1e-4)


@pytest.mark.parametrize("priors", [None, [0.1, 0.4, 0.3, 0.2]])
def test_probabilities_are_those_of_gaussians(priors):
    X, y = classes()
    model = LDA("eigen", priors=priors).fit(X, y)
    S_w = literal_scatters(X, y, priors)[0]
    pi = np.bincount(y) / len(y) if priors is None else np.array(priors)
    density = np.empty((len(X), 4))
    for c in range(4):
        offset = X - X[y == c].mean(axis=0)
        density[:, c] = pi[c] * np.exp(-0.5 * np.sum(offset @ linalg.inv(S_w) * offset, axis=1))
    expected = density / density.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-9)


# ---- scikit-learn --------------------------------------------------------------------


def assert_same_use(ours, theirs, X):
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    scores = theirs.decision_function(X)
    assert ours.decision_function(X).shape == scores.shape
    np.testing.assert_allclose(ours.decision_function(X), scores, atol=1e-7 * np.abs(scores).max())
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_components", [None, 1])
@pytest.mark.parametrize("solver", SOLVERS)
def test_agrees_with_scikit_learn(solver, n_components, weighted, n_classes):
    X, y = classes(n_classes=n_classes)
    new, _ = classes(n_classes=n_classes, seed=1)
    priors = None
    if weighted:
        priors = np.arange(n_classes, 0, -1) / (n_classes * (n_classes + 1) / 2)
    options = {"priors": priors, "n_components": n_components, "store_covariance": True}
    ours, theirs = (kind(solver, **options).fit(X, y) for kind in (LDA, TheirLDA))
    names = ["coef_", "intercept_", "means_", "priors_", "covariance_"]
    names += ["xbar_"] if solver == "svd" else []
    # given priors, its S_b of `eigen` is S_t - S_w with other weights: not S_b
    same_axes = solver == "svd" or (solver == "eigen" and not weighted)
    if same_axes:
        names.append("explained_variance_ratio_")
    if solver == "svd" and weighted:
        names.remove("covariance_")  # there it is a second estimate that nothing uses
    for name in names:
        a, b = getattr(ours, name), getattr(theirs, name)
        assert a.shape == b.shape, name
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * np.abs(b).max(), err_msg=name)
    assert_same_use(ours, theirs, new)
    if same_axes:
        Z, expected = ours.transform(new), theirs.transform(new)
        assert Z.shape == expected.shape
        np.testing.assert_allclose(fix_signs(Z.T), fix_signs(expected.T), atol=1e-7)


@pytest.mark.parametrize("priors", [None, [0.1, 0.4, 0.3, 0.2]])
@pytest.mark.parametrize("solver", ["lsqr", "eigen"])
@pytest.mark.parametrize(
    "options",
    [
        {"shrinkage": 0.3},
        {"shrinkage": "auto"},
        {"shrinkage": 0},
        {"shrinkage": 1.0},
        {"covariance_estimator": OAS()},
        {"covariance_estimator": EmpiricalCovariance()},
    ],
    ids=str,
)
def test_shrinkage_agrees_with_scikit_learn(options, solver, priors):
    """The classifier only: the axes differ on purpose, S_b is not S_t - S_w here."""
    X, y = classes()
    ours, theirs = (kind(solver, priors=priors, **options).fit(X, y) for kind in (LDA, TheirLDA))
    for name in ("coef_", "intercept_", "covariance_"):
        a, b = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8 * np.abs(b).max(), err_msg=name)
    assert_same_use(ours, theirs, X)


def test_shrunk_axes_solve_their_own_problem():
    X, y = classes()
    S_w, S_b = literal_scatters(X, y)
    S_w = 0.7 * S_w + 0.3 * np.trace(S_w) / 5 * np.eye(5)
    V = linalg.eigh(S_b, S_w)[1][:, ::-1][:, :3]
    W = LDA("eigen", shrinkage=0.3).fit(X, y).scalings_
    np.testing.assert_allclose(W.T, fix_signs(V.T), atol=1e-8)


# ---- solvers among themselves --------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_all_solvers_agree(dtype, n_classes):
    X, y = classes(m=300, n_classes=n_classes, dtype=dtype)
    models = [LDA(solver).fit(X, y) for solver in SOLVERS]
    tolerance = 1e-8 if dtype == np.float64 else 2e-3
    first = models[0]
    for model in models[1:]:
        for name in ("scalings_", "explained_variance_ratio_"):
            a, b = getattr(model, name), getattr(first, name)
            np.testing.assert_allclose(a, b, atol=tolerance * np.abs(b).max())
        # scores may differ by what all classes share
        a, b = first.predict_proba(X), model.predict_proba(X)
        np.testing.assert_allclose(a, b, atol=tolerance)
        assert model.transform(X).shape == (300, min(5, n_classes - 1))


# ---- degenerate features -------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("scale", [0.0, 1e-12])
def test_a_nearly_constant_feature_does_not_explode(scale, solver, dtype):
    X, y = classes(dtype=dtype)
    noise = scale * np.random.default_rng(3).normal(size=(len(X), 1))
    wide = np.hstack([X, noise.astype(dtype)])
    model, expected = LDA(solver).fit(wide, y), LDA(solver).fit(X, y)
    Z = model.transform(wide)
    assert np.isfinite(Z).all()
    assert np.mean(model.predict(wide) == y) >= np.mean(expected.predict(X) == y) - 0.02
    # unit variance within classes, whatever the scale of the column
    centred = Z - np.array([Z[y == c].mean(axis=0) for c in range(4)])[y]
    np.testing.assert_allclose(centred.T @ centred / len(y), np.eye(3), atol=1e-3)
    if scale == 0.0:
        np.testing.assert_allclose(
            Z, expected.transform(X), atol=1e-8 if dtype == np.float64 else 1e-3
        )


def test_columns_of_very_different_scales_do_not_matter():
    X, y = classes()
    scales = np.array([1e-12, 1e-3, 1.0, 1e5, 1e12])
    model, expected = LDA().fit(X * scales, y), LDA().fit(X, y)
    np.testing.assert_allclose(
        model.predict_proba(X * scales), expected.predict_proba(X), atol=1e-8
    )


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("extra", ["twins", "sum"])
def test_collinear_columns_change_nothing(extra, dtype, solver):
    """A sum of two columns is collinear up to the rounding of the dtype."""
    X, y = classes(m=300, dtype=dtype)
    double = np.hstack([X, X[:, :3] if extra == "twins" else X[:, :1] + X[:, 1:2]])
    model, expected = LDA(solver).fit(double, y), LDA(solver).fit(X.astype(np.float64), y)
    atol = 1e-7 if dtype == np.float64 else 3e-3
    proba = expected.predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(double), proba, atol=atol)
    Z, want = model.transform(double), expected.transform(X)
    np.testing.assert_allclose(fix_signs(Z.T), fix_signs(want.T), atol=atol)


def test_fewer_rows_than_columns():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 12)
    centres = rng.normal(size=(3, 100)) * 2
    X = centres[y] + rng.normal(size=(36, 100))
    new = centres[y] + rng.normal(size=(36, 100))
    ours, theirs = LDA().fit(X, y), TheirLDA().fit(X, y)
    assert np.mean(ours.predict(new) == y) > 0.9
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-7)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-8 * np.abs(theirs.coef_).max())


def test_classes_without_spread_are_told_apart_or_refused():
    """S_w = 0: the quotient is infinite, but every class sits on one point of its own."""
    X, y = np.repeat(np.eye(3), 5, axis=0), np.repeat([0, 1, 2], 5)
    try:
        model = LDA().fit(X, y)
    except InputError:
        return
    np.testing.assert_array_equal(model.predict(X), y)


# ---- accuracy in float32 and with a small tol ----------------------------------------


def nearly_collinear(m, d, n_twins, spread, seed=0):
    """`n_twins` columns that repeat others up to `spread`."""
    rng = np.random.default_rng(seed)
    y = np.arange(m) % 3
    X = rng.normal(size=(m, d)) + rng.normal(size=(3, d))[y]
    twins = X[:, :n_twins] + spread * rng.normal(size=(m, n_twins))
    return np.hstack([X, twins]), y


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("m", "d", "n_twins"), [(400, 8, 3), (900, 150, 140)], ids=["few", "more-than-128"]
)
def test_float32_with_collinear_columns_agrees_with_float64(m, d, n_twins, solver, monkeypatch):
    X, y = nearly_collinear(m, d, n_twins, 2e-3)
    X = X.astype(np.float32)
    calls = []
    measured = within.remeasure
    monkeypatch.setattr(within, "remeasure", lambda *a: calls.append(a) or measured(*a))
    monkeypatch.setattr(moments, "FREE_PRODUCTS", 0)  # as in a large table
    ours, exact = LDA(solver).fit(X, y), LDA(solver).fit(X.astype(np.float64), y)
    assert len(calls) == (n_twins <= 128)  # few: measured again; many: all in float64
    assert ours.coef_.dtype == np.float32
    size = np.abs(exact.scalings_).max()
    np.testing.assert_allclose(ours.scalings_, exact.scalings_, atol=2e-3 * size)
    agree = np.mean(ours.predict(X) == exact.predict(X.astype(np.float64)))
    assert agree > 0.99


@pytest.mark.parametrize("shape", ["steep", "skewed"])
def test_float32_products_are_trusted_where_rounding_is_small(shape, monkeypatch):
    """Rounding is relative to the variance of a column, not to that of the first direction."""
    rng = np.random.default_rng(0)
    y = np.arange(3000) % 4
    X = rng.normal(size=(3000, 60)) + 8 * rng.normal(size=(3000, 1)) + rng.normal(size=(4, 60))[y]
    if shape == "skewed":
        X = np.exp(X / 10)
    X = X.astype(np.float32)
    exact = LDA().fit(X.astype(np.float64), y)
    monkeypatch.setattr(moments, "FREE_PRODUCTS", 0)
    passes = []
    read = class_covariance.table_moments
    monkeypatch.setattr(
        class_covariance, "table_moments", lambda *a, **k: passes.append(1) or read(*a, **k)
    )
    monkeypatch.setattr(within, "table_moments", lambda *a, **k: passes.append(2) or read(*a, **k))
    ours = LDA().fit(X, y)
    assert 2 not in passes  # all columns in float64: only where most directions are in doubt
    size = np.abs(exact.scalings_).max()
    np.testing.assert_allclose(ours.scalings_, exact.scalings_, atol=1e-3 * size)


def test_a_batch_in_parts_is_the_batch():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5)).astype(np.float32) + 100
    label = rng.integers(3, size=700)
    whole = moments.block_moments(X, None, label, 3, workspace=np.empty(X.shape))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_FEWEST", 64)
        patch.setattr(batches, "BUFFER_BYTES", 0)
        parts = batches.class_moments(X, label, 3)
    np.testing.assert_array_equal(parts.count, whole.count)
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-14)
    np.testing.assert_allclose(parts.scatter, whole.scatter, rtol=1e-11, atol=1e-9)


def test_float32_products_alone_would_not_do(monkeypatch):
    """What the second measurement is for: without it the axes are wrong."""
    X, y = nearly_collinear(400, 8, 3, 2e-4)
    X = X.astype(np.float32)
    exact = LDA().fit(X.astype(np.float64), y).scalings_
    got = LDA().fit(X, y).scalings_
    monkeypatch.setattr(moments, "FREE_PRODUCTS", 0)
    monkeypatch.setattr(within, "remeasure", lambda found, *_: found)
    rough = LDA().fit(X, y).scalings_
    size = np.abs(exact).max()
    assert np.abs(got - exact).max() < 1e-2 * size
    assert rough.shape != exact.shape or np.abs(rough - exact).max() > 3e-2 * size


def test_a_tiny_tol_takes_the_factor_and_keeps_small_directions(monkeypatch):
    X, y = nearly_collinear(300, 6, 2, 1e-8)
    calls = []
    factored = within.diagonalise_factor
    monkeypatch.setattr(within, "diagonalise_factor", lambda *a: calls.append(a) or factored(*a))
    LDA().fit(X, y)
    assert not calls  # not needed for the default tol
    model = LDA(tol=1e-10).fit(X, y)
    assert calls
    # LDA does not mind a change of basis: differences as columns, well conditioned
    D = np.hstack([X[:, :6], (X[:, 6:] - X[:, :2]) * 1e8])
    expected = LDA().fit(D, y)
    Z, want = model.transform(X), expected.transform(D)
    np.testing.assert_allclose(fix_signs(Z.T), fix_signs(want.T), atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(D), atol=1e-6)
    assert np.abs(LDA().fit(X, y).transform(X) - want).max() > 1e-2  # it matters here


def test_a_tiny_tol_gives_no_axes_of_rounding():
    X, y = nearly_collinear(300, 6, 2, 1e-8)
    assert LDA(tol=1e-10).fit(X, y).scalings_.shape == (8, 2)


def test_a_tiny_tol_on_ordinary_data_changes_nothing():
    X, y = classes()
    assert_same_model(LDA(tol=1e-10).fit(X, y), LDA().fit(X, y))


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_offset_of_1e8(solver):
    X, y = classes()
    far = X + 1e8
    near = far - 1e8
    got, expected = LDA(solver).fit(far, y), LDA(solver).fit(near, y)
    np.testing.assert_allclose(got.scalings_, expected.scalings_, atol=1e-6)
    np.testing.assert_allclose(
        got.explained_variance_ratio_, expected.explained_variance_ratio_, rtol=1e-6
    )


# ---- counts, labels, refusals --------------------------------------------------------


@pytest.mark.parametrize(("d", "n_classes", "most"), [(5, 2, 1), (5, 4, 3), (2, 6, 2), (1, 3, 1)])
@pytest.mark.parametrize("solver", SOLVERS)
def test_at_most_one_axis_less_than_classes(solver, d, n_classes, most):
    X, y = classes(m=200, d=d, n_classes=n_classes)
    model = LDA(solver).fit(X, y)
    assert model.transform(X).shape == (200, most)
    assert model.explained_variance_ratio_.shape == (most,)
    np.testing.assert_allclose(model.explained_variance_ratio_.sum(), 1.0, rtol=1e-10)
    names = [f"lineardiscriminantanalysis{i}" for i in range(most)]
    assert model.get_feature_names_out().tolist() == names
    with pytest.raises(InputError, match="n_components"):
        LDA(solver, n_components=most + 1).fit(X, y)


def test_two_classes_have_one_score():
    X, y = classes(n_classes=2)
    model = LDA().fit(X, y)
    assert model.coef_.shape == (1, 5)
    assert model.decision_function(X).shape == (len(X),)
    assert model.predict_proba(X).shape == (len(X), 2)
    np.testing.assert_array_equal(
        model.predict(X), model.classes_[(model.decision_function(X) > 0) * 1]
    )


def test_labels_may_be_text():
    X, y = classes()
    names = np.array(["ant", "bee", "cat", "dog"])
    model = LDA().fit(X, names[y])
    assert model.classes_.tolist() == names.tolist()
    np.testing.assert_array_equal(model.predict(X), names[LDA().fit(X, y).predict(X)])


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.zeros(6, int), "number of classes has to be greater than one"),
        (np.arange(6), "samples must be more than the number of classes"),
        (np.linspace(0, 1, 6), "continuous"),
    ],
    ids=["one-class", "all-singletons", "continuous"],
)
def test_refused_labels(y, said):
    with pytest.raises(ValueError, match=said):
        LDA().fit(classes(m=6, n_classes=2)[0], y)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"solver": "magic"}, ValueError, "'solver' parameter.*'magic'"),
        ({"shrinkage": 0.1}, NotImplementedError, "shrinkage not supported"),
        ({"solver": "eigen", "shrinkage": 2}, ValueError, "'shrinkage' parameter.*2"),
        ({"solver": "eigen", "shrinkage": "some"}, ValueError, "'shrinkage'.*'some'"),
        ({"n_components": -7}, ValueError, "'n_components'.*-7"),
        ({"tol": -1.0}, ValueError, "'tol'"),
        ({"covariance_estimator": OAS()}, InputError, "covariance estimator"),
        ({"solver": "lsqr", "shrinkage": 0.1, "covariance_estimator": OAS()}, InputError, "one of"),
        ({"priors": [0.5, 0.5]}, InputError, "2 entries"),
        ({"priors": [-0.5, 0.5, 0.5, 0.5]}, InputError, "non-negative"),
    ],
    ids=str,
)
def test_refused_parameters(options, kind, said):
    with pytest.raises(kind, match=said):
        LDA(**options).fit(*classes())


def test_priors_are_renormalised_with_a_warning():
    with pytest.warns(UserWarning, match="sum to 1"):
        model = LDA(priors=[1, 2, 3, 4]).fit(*classes())
    np.testing.assert_allclose(model.priors_, [0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_singleton_class_is_no_trouble(solver):
    X, y = classes()
    y[y == 0] = 1
    y[5] = 0
    model = LDA(solver).fit(X, y)
    np.testing.assert_allclose(model.means_[0], X[5])
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("n_classes", [2, 4])
def test_log_probabilities_are_finite_where_probabilities_vanish(n_classes):
    X, y = classes(n_classes=n_classes)
    model = LDA().fit(X, y)
    far = X.mean(axis=0) + 1e4 * (X - X.mean(axis=0))
    assert (model.predict_proba(far) == 0).any()
    logs = model.predict_log_proba(far)
    assert np.isfinite(logs).all()
    assert logs.min() < -1000
    near = model.predict_proba(X)
    held = near > 1e-200
    np.testing.assert_allclose(model.predict_log_proba(X)[held], np.log(near[held]), atol=1e-15)


# ---- NaN, inf, overflow, memory ------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("options", [{}, {"solver": "eigen", "shrinkage": "auto"}], ids=str)
def test_nonfinite_values_are_located(options, value):
    X, y = classes()
    good = LDA(**options).fit(X, y)
    X[7, 3] = value
    for call in (
        lambda: LDA(**options).fit(X, y),
        lambda: good.transform(X),
        lambda: good.predict(X),
    ):
        with pytest.raises(NonFiniteError, match=r"column 3: 1; first rows: \[7\]"):
            call()


def test_nonfinite_rows_are_counted_from_the_start_of_the_table():
    X, y = classes(m=4000)
    X[3500, 2] = np.nan
    nearfold.set_memory("200KB")
    with pytest.raises(NonFiniteError, match=r"first rows: \[3500\]"):
        LDA().fit(X, y)


@pytest.mark.parametrize("solver", SOLVERS)
def test_values_whose_squares_overflow_are_refused(solver):
    X, y = classes()
    with pytest.raises(InputError, match="large"):
        LDA(solver).fit(X * 1e300, y)


def test_a_scatter_over_the_budget_is_refused():
    X, y = classes(d=50)
    nearfold.set_memory("100KB")
    with pytest.raises(MemoryBudgetError, match="50 features"):
        LDA().fit(X, y)


# ---- batches and files ---------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    ends=st.lists(st.integers(1, 119), max_size=6).map(sorted),
    solver=st.sampled_from(SOLVERS),
    shrinkage=st.sampled_from([None, 0.3]),
)
def test_batches_equal_the_whole(ends, solver, shrinkage):
    X, y = classes()
    options = {"solver": solver, "shrinkage": None if solver == "svd" else shrinkage}
    model = LDA(**options)
    for part in np.split(np.arange(120), ends):
        if len(part):
            model.partial_fit(X[part], y[part], classes=range(4))
    expected = LDA(**options).fit(X, y)
    assert_same_model(model, expected)
    np.testing.assert_allclose(model.transform(X), expected.transform(X), atol=1e-8)


def test_batches_with_priors_and_float32():
    X, y = classes(dtype=np.float32)
    model = LDA(priors=[0.1, 0.2, 0.3, 0.4])
    for part in np.array_split(np.arange(120), 5):
        model.partial_fit(X[part], y[part], classes=[3, 1, 2, 0])
    expected = LDA(priors=[0.1, 0.2, 0.3, 0.4]).fit(X.astype(np.float64), y)
    assert_same_model(model, expected, atol=1e-4)
    assert model.coef_.dtype == np.float32


@pytest.mark.parametrize("room", [1, 4000, 10**6])
@pytest.mark.parametrize("dtypes", [(np.float64,), (np.float32, np.float64)])
def test_batches_wait_for_each_other(monkeypatch, room, dtypes):
    """In a buffer of 64 rows, of 100 (some batches are larger), or of all."""
    monkeypatch.setattr(batches, "BUFFER_BYTES", room)
    X, y = classes()
    X = X.astype(np.float32).astype(np.float64)
    model, given = LDA(), np.empty((120, 5))
    atol = 1e-4 if np.float32 in dtypes else 1e-8
    ends = [0, 7, 60, 61, 75, 120, 120 + 110, 240]
    for i, (a, b) in enumerate(itertools.pairwise(ends)):
        rows = np.arange(a, b) % 120
        batch = given[: b - a].astype(dtypes[i % len(dtypes)])
        batch[:] = X[rows]
        model.partial_fit(batch, y[rows], classes=range(4))
        batch[:] = -99.0  # the caller may use its array again
        if i == 3:
            assert_same_model(model, LDA().fit(X[:75], y[:75]), atol=atol)
    assert_same_model(model, LDA().fit(np.vstack([X, X]), np.tile(y, 2)), atol=atol)


def test_classes_not_announced_are_refused():
    X, y = classes()
    two = y < 2
    model = LDA().partial_fit(X[two], y[two])
    assert model.classes_.tolist() == [0, 1]
    with pytest.raises(InputError, match=r"\[2, 3\].*`classes`"):
        model.partial_fit(X, y)


def test_announced_classes_may_come_late():
    X, y = classes()
    two = y < 2
    model = LDA().partial_fit(X[two], y[two], classes=range(4))
    assert set(model.predict(X).tolist()) <= {0, 1}
    assert np.isfinite(model.coef_).all()
    model.partial_fit(X[~two], y[~two])
    assert_same_model(model, LDA().fit(X, y))


def test_fit_forgets_the_batches():
    X, y = classes()
    model = LDA().partial_fit(X[:50] * 3, y[:50], classes=range(4)).fit(X, y)
    assert_same_model(model, LDA().fit(X, y))
    model.partial_fit(X, y)
    assert_same_model(model, LDA().fit(X, y))


@pytest.mark.parametrize("options", [{"shrinkage": "auto"}, {"priors": [0.25] * 4}])
def test_what_batches_cannot_give_is_refused(options):
    with pytest.raises(InputError, match="partial_fit"):
        LDA("eigen", **options).partial_fit(*classes())


@pytest.mark.parametrize("labels", ["int", "text", "bool"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "lazy"])
@pytest.mark.parametrize(
    "options", [{}, {"solver": "eigen"}, {"solver": "lsqr", "shrinkage": 0.2}], ids=str
)
def test_a_file_equals_the_array(options, kind, labels, tmp_path):
    X, y = classes(m=1500, n_classes=2 if labels == "bool" else 4)
    values = {"int": np.array([3, 5, 7, 9]), "text": np.array(["fir", "ash", "oak", "elm"])}
    y = values.get(labels, np.array([False, True]))[y]
    names = list("abcde")
    frame = pl.DataFrame(X, schema=names).insert_column(2, pl.Series("label", y))
    path = tmp_path / f"x.{kind}"
    if kind == "parquet":
        frame.write_parquet(path)
    if kind == "csv":
        frame.write_csv(path)
    expected = LDA(**options).fit(X, y)
    nearfold.set_memory("100KB")
    model = LDA(**options).fit(frame.lazy() if kind == "lazy" else path, y="label")
    assert_same_model(model, expected)
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert model.feature_names_in_.tolist() == names
    assert model.n_features_in_ == 5
    X = pd.DataFrame(X, columns=names)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X.to_numpy()))


def test_a_float32_file_with_collinear_columns(tmp_path):
    X, y = nearly_collinear(400, 8, 3, 2e-3)
    X = X.astype(np.float32)
    pl.DataFrame(X).with_columns(label=y).write_parquet(tmp_path / "x.parquet")
    nearfold.set_memory("100KB")
    model = LDA().fit(tmp_path / "x.parquet", y="label")
    exact = LDA().fit(X.astype(np.float64), y)
    assert model.coef_.dtype == np.float32
    size = np.abs(exact.scalings_).max()
    np.testing.assert_allclose(model.scalings_, exact.scalings_, atol=2e-3 * size)


@pytest.mark.parametrize("labels", [[0, 1, None] * 10, ["u", "v", None] * 10], ids=["int", "text"])
def test_a_missing_label_is_refused(labels, tmp_path):
    frame = pl.DataFrame({"a": np.arange(30.0), "label": labels})
    frame.write_parquet(tmp_path / "x.parquet")
    with pytest.raises(InputError, match="label"):
        LDA().fit(tmp_path / "x.parquet", y="label")


def test_a_file_needs_the_name_of_its_labels(tmp_path):
    X, y = classes()
    pl.DataFrame(X).with_columns(label=y).write_parquet(path := tmp_path / "x.parquet")
    with pytest.raises(InputError, match="label column"):
        LDA().fit(path, y)
    with pytest.raises(InputError, match="'nothing'"):
        LDA().fit(path, "nothing")
    with pytest.raises(InputError, match="a file"):
        LDA("eigen", shrinkage="auto").fit(path, "label")


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_in_and_out(kind):
    X, y = classes()
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[kind](
        dict(zip("abcde", X.T, strict=True))
    )
    model = LDA().fit(frame, y)
    assert_same_model(model, LDA().fit(X, y))
    Z = model.set_output(transform=kind).transform(frame)
    assert isinstance(Z, type(frame))
    assert list(Z.columns) == [f"lineardiscriminantanalysis{i}" for i in range(3)]
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[["e", "d", "c", "b", "a"]])


def test_transform_is_row_wise():
    X, y = classes()
    model = LDA().fit(X, y)
    Z = np.vstack([model.transform(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_allclose(Z, model.transform(X), atol=1e-12)
    np.testing.assert_array_equal(LDA().fit_transform(X, y), model.transform(X))


# ---- offsets, copies, states ------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("offset", [0.0, 1e2, 1e4, 1e5, 1e6])
@pytest.mark.parametrize("solver", SOLVERS)
def test_float32_far_from_the_origin_predicts_what_float64_predicts(solver, offset, n_classes):
    rng = np.random.RandomState(0)
    y = rng.randint(0, n_classes, 300)
    means = 1.5 * np.array([[0] * 6, [1] * 6, [-1, 1] * 3])
    X = (rng.randn(300, 6) + means[y] + offset * (0.5 + rng.rand(6))).astype(np.float32)
    exact = X.astype(np.float64)  # the same rows: what float32 made of them is not in question
    one, two = LDA(solver).fit(X, y), LDA(solver).fit(exact, y)
    np.testing.assert_array_equal(one.predict(X), two.predict(exact))
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(exact), atol=1e-4)
    np.testing.assert_array_equal(one.predict(X), one.predict(exact))
    assert one.transform(X).dtype == np.float32
    assert one.score(X, y) > 0.75
    # and the scores do not depend on where the origin is
    near = LDA(solver).fit(exact - exact.mean(axis=0), y)
    np.testing.assert_array_equal(near.predict(exact - exact.mean(axis=0)), two.predict(exact))
    if solver == "svd":
        np.testing.assert_allclose(one.transform(X), two.transform(exact), atol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_large_float32_table_far_from_the_origin(solver, monkeypatch):
    """With products in float32, as from some size on."""
    monkeypatch.setattr(moments, "FREE_PRODUCTS", 0)
    X, y = classes(m=600, dtype=np.float64)
    X = (X + 1e4).astype(np.float32)
    one, two = LDA(solver).fit(X, y), LDA(solver).fit(X.astype(np.float64), y)
    assert np.mean(one.predict(X) == two.predict(X.astype(np.float64))) > 0.995


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("read", [False, True])
def test_copies_go_their_own_way(how, read):
    X, y = classes()
    model = LDA().partial_fit(X[:60], y[:60], classes=range(4))
    if read:
        model.predict(X)
    twin = how(model)
    twin.partial_fit(X[:60] * 3, y[:60]).predict(X)
    model.partial_fit(X[60:], y[60:])
    assert_same_model(model, LDA().fit(X, y))
    assert_same_model(twin, LDA().fit(np.vstack([X[:60], 3 * X[:60]]), np.tile(y[:60], 2)))


def test_batches_are_solved_when_read(monkeypatch):
    solved = Mock(side_effect=nearfold.methods.lda.discriminate)
    monkeypatch.setattr(nearfold.methods.lda, "discriminate", solved)
    X, y = classes()
    model = LDA()
    for part in np.array_split(np.arange(120), 6):
        model.partial_fit(X[part], y[part], classes=range(4))
    assert not solved.called
    model.predict(X), model.transform(X)
    assert solved.call_count == 1


def test_batches_of_one_class_have_no_results_yet():
    X, y = classes()
    one = y == 1
    model = LDA().partial_fit(X[one], y[one], classes=range(4))
    assert not hasattr(model, "coef_")
    with pytest.raises(InputError, match="one class only"):
        model.predict(X)
    model.partial_fit(X[~one], y[~one])
    assert_same_model(model, LDA().fit(X, y))


@pytest.mark.parametrize("kind", ["parquet", "csv", "lazy"])
def test_rows_serve_again_after_a_label_was_taken_from_them(kind, tmp_path):
    X, y = classes()
    frame = pl.DataFrame(X, schema=list("abcde")).with_columns(label=y)
    path = tmp_path / f"x.{kind}"
    if kind == "parquet":
        frame.write_parquet(path)
    if kind == "csv":
        frame.write_csv(path)
    rows = nearfold.scan(frame.lazy() if kind == "lazy" else path)
    model = LDA().fit(rows, y="label")
    assert_same_model(model, LDA().fit(X, y))
    pca = nearfold.PCA().fit(rows)
    assert pca.n_features_in_ == 6 == pca.components_.shape[1]
    held = pd.DataFrame(X, columns=list("abcde"))
    np.testing.assert_array_equal(model.predict(rows), model.predict(held))
    Z = model.transform(rows)
    assert isinstance(Z, nearfold.blocks.Rows)
    np.testing.assert_allclose(Z.to_array(), model.transform(held), atol=1e-12)


class PlainCovariance:
    """Neither get_params nor a fit that returns anything."""

    def fit(self, X):
        self.covariance_ = np.cov(X.T, bias=True)


def test_any_object_with_fit_estimates_covariances():
    X, y = classes()
    estimator = PlainCovariance()
    model = LDA("eigen", covariance_estimator=estimator).fit(X, y)
    assert_same_model(model, LDA("eigen").fit(X, y))
    assert not hasattr(estimator, "covariance_")


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("how", ["fit", "frame", "batches", "unread"])
@pytest.mark.parametrize(
    "options", [{}, {"solver": "eigen"}, {"solver": "lsqr", "shrinkage": 0.2}], ids=str
)
def test_the_state_is_as_described(options, how, n_classes):
    X, y = classes(n_classes=n_classes)
    model = LDA(**options)
    if how == "frame":
        X = pd.DataFrame(X, columns=list("abcde"))
    model = model.fit(X, y) if how in ("fit", "frame") else model.partial_fit(X, y)
    if how == "batches":
        model.predict(X)
    LDA.fitted_state.check(fields_of(model))
    for damage in ({"n_features_in_": 4}, {"classes_": np.arange(n_classes + 1)}):
        broken = copy.deepcopy(model)
        vars(broken).update(damage)
        with pytest.raises(StateError):
            LDA.fitted_state.check(fields_of(broken))
