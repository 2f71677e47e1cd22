"""What every metric learner keeps: its peer's parameters, and the laws of M = P P^T."""

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split

import nearfold
from nearfold import KNeighborsClassifier
from nearfold.errors import InputError
from nearfold.registry import METHODS

LEARNERS = [method.name for method in METHODS if method.kind == "metric"]
SUPERVISED = [name for name in LEARNERS if name not in ("Covariance", "MLKR")]

# metric-learn 0.7: parameters and defaults, in order, without those it deprecates.
_PREPROCESSOR = {"preprocessor": None}
_SEED = {"preprocessor": None, "random_state": None}
_VERBOSE = {"verbose": False, **_SEED}
THEIRS = {
    "Covariance": _PREPROCESSOR,
    "ITML": {"gamma": 1.0, "max_iter": 1000, "tol": 1e-3, "prior": "identity", **_VERBOSE},
    "ITML_Supervised": {
        "gamma": 1.0,
        "max_iter": 1000,
        "tol": 1e-3,
        "n_constraints": None,
        "prior": "identity",
        **_VERBOSE,
    },
    "LMNN": {
        "init": "auto",
        "n_neighbors": 3,
        "min_iter": 50,
        "max_iter": 1000,
        "learn_rate": 1e-7,
        "regularization": 0.5,
        "convergence_tol": 1e-3,
        "verbose": False,
        "preprocessor": None,
        "n_components": None,
        "random_state": None,
    },
    "LSML": {"tol": 1e-3, "max_iter": 1000, "prior": "identity", **_VERBOSE},
    "LSML_Supervised": {
        "tol": 1e-3,
        "max_iter": 1000,
        "prior": "identity",
        "n_constraints": None,
        "weights": None,
        **_VERBOSE,
    },
    "SDML": {"balance_param": 0.5, "sparsity_param": 0.01, "prior": "identity", **_VERBOSE},
    "SDML_Supervised": {
        "balance_param": 0.5,
        "sparsity_param": 0.01,
        "prior": "identity",
        "n_constraints": None,
        **_VERBOSE,
    },
    "LFDA": {"n_components": None, "k": None, "embedding_type": "weighted", **_PREPROCESSOR},
    "RCA": {"n_components": None, **_PREPROCESSOR},
    "RCA_Supervised": {"n_components": None, "n_chunks": 100, "chunk_size": 2, **_SEED},
    "MLKR": {"n_components": None, "init": "auto", "tol": None, "max_iter": 1000, **_VERBOSE},
    "MMC": {
        "max_iter": 100,
        "max_proj": 10000,
        "tol": 1e-3,
        "init": "identity",
        "diagonal": False,
        "diagonal_c": 1.0,
        **_VERBOSE,
    },
    "MMC_Supervised": {
        "max_iter": 100,
        "max_proj": 10000,
        "tol": 1e-6,
        "n_constraints": None,
        "init": "identity",
        "diagonal": False,
        "diagonal_c": 1.0,
        **_VERBOSE,
    },
    "SCML": {
        "beta": 1e-5,
        "basis": "triplet_diffs",
        "n_basis": None,
        "gamma": 5e-3,
        "max_iter": 10000,
        "output_iter": 500,
        "batch_size": 10,
        **_VERBOSE,
    },
    "SCML_Supervised": {
        "k_genuine": 3,
        "k_impostor": 10,
        "beta": 1e-5,
        "basis": "lda",
        "n_basis": None,
        "gamma": 5e-3,
        "max_iter": 10000,
        "output_iter": 500,
        "batch_size": 10,
        **_VERBOSE,
    },
}


def make(name, **options):
    cls = getattr(nearfold, name)
    known = inspect.signature(cls).parameters
    seeded = {"random_state": 0} if "random_state" in known else {}
    if name == "RCA_Supervised":
        seeded["n_chunks"] = 60
    return cls(**seeded, **options)


def wine():
    X, y = load_wine(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def fitted(name, X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(name, **options).fit(X, y)


def test_all_of_metric_learn_is_here():
    assert set(THEIRS) <= set(LEARNERS)


@pytest.mark.parametrize("name", sorted(THEIRS))
def test_parameters_of_metric_learn(name):
    parameters = list(inspect.signature(getattr(nearfold, name)).parameters.values())
    positional = [p for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
    assert {p.name: p.default for p in positional} == THEIRS[name]
    assert [p.name for p in positional] == list(THEIRS[name])
    assert all(p.kind == p.KEYWORD_ONLY for p in parameters if p.name not in THEIRS[name])


@pytest.mark.parametrize("name", LEARNERS)
def test_the_metric_is_positive_semidefinite_and_in_the_fixed_form(name):
    X, y = wine()
    model = fitted(name, X, y)
    M, P_t = model.get_mahalanobis_matrix(), model.components_
    assert (M == M.T).all()
    assert np.linalg.eigvalsh(M)[0] >= -1e-12 * np.trace(M)
    assert model.rank_ == len(P_t) == np.linalg.matrix_rank(P_t)
    gram = P_t @ P_t.T
    np.testing.assert_allclose(gram, np.diag(np.diagonal(gram)), atol=1e-8 * gram.max())
    assert (np.diff(np.diagonal(gram)) <= 1e-12 * gram.max()).all()
    np.testing.assert_allclose(
        model.pair_distance(X[[[0, 1], [5, 90]]]),
        [
            np.linalg.norm(model.transform(X[[i]]) - model.transform(X[[j]]))
            for i, j in ((0, 1), (5, 90))
        ],
        rtol=1e-9,
    )


@pytest.mark.parametrize("name", LEARNERS)
def test_rank_as_asked(name):
    X, y = wine()
    whole = fitted(name, X, y)
    assert whole.truncate(1).components_.shape == (1, 13)
    assert whole.truncate(1).transform(X).shape == (len(X), 1)
    if "rank" in inspect.signature(type(whole)).parameters:
        assert fitted(name, X, y, rank=1).rank_ == 1
    if "n_components" in inspect.signature(type(whole)).parameters:
        assert fitted(name, X, y, n_components=2).components_.shape == (2, 13)


@pytest.mark.parametrize("name", LEARNERS)
def test_order_of_rows_changes_nothing(name):
    X, y = wine()
    X = X + 1e-3 * np.random.default_rng(1).normal(size=X.shape)  # no ties of distances
    shuffled = np.random.default_rng(0).permutation(len(X))
    one, two = fitted(name, X, y), fitted(name, X[shuffled], y[shuffled])
    M, N = one.get_mahalanobis_matrix(), two.get_mahalanobis_matrix()
    np.testing.assert_allclose(N, M, atol=LOOSE.get(name, 1e-6) * np.abs(M).max())


@pytest.mark.parametrize("name", LEARNERS)
def test_a_shift_of_all_rows_changes_nothing(name):
    X, y = wine()
    X = X + 1e-3 * np.random.default_rng(1).normal(size=X.shape)
    M = fitted(name, X, y).get_mahalanobis_matrix()
    N = fitted(name, X + np.linspace(-50, 50, 13), y).get_mahalanobis_matrix()
    np.testing.assert_allclose(N, M, atol=LOOSE.get(name, 1e-6) * np.abs(M).max())


# Where an optimiser without a unique minimum multiplies rounding.
LOOSE = {"MLKR": 1e-2, "NeighborhoodComponentsAnalysis": 1e-2, "LMNN": 1e-2}


@pytest.mark.parametrize("name", LEARNERS)
def test_float32_in_float32_out(name):
    X, y = wine()
    model = fitted(name, X.astype(np.float32), y)
    assert model.components_.dtype == np.float32
    assert model.transform(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("name", LEARNERS)
def test_frames_names_pickles_and_clones(name):
    X, y = wine()
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(13)])
    model = fitted(name, frame, y)
    assert list(model.feature_names_in_) == list(frame.columns)
    names = model.get_feature_names_out()
    assert list(names) == [f"{name.lower()}{i}" for i in range(model.rank_)]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))
    assert not hasattr(clone(model), "components_")


@pytest.mark.parametrize("factor", [1e-200, 1e200])
@pytest.mark.parametrize("name", LEARNERS)
def test_squares_beyond_floats_are_refused_or_right(name, factor):
    X, y = wine()
    plain = fitted(name, X, y)
    try:
        model = fitted(name, factor * X, y)
    except InputError:
        return
    Z, expected = model.transform(factor * X[:9]), plain.transform(X[:9])
    np.testing.assert_allclose(_ratios(Z), _ratios(expected), rtol=1e-3)


def _ratios(Z):
    """Distances of rows in units of the first: what a metric says, whatever its scale."""
    distance = np.linalg.norm(Z[1:] - Z[0], axis=1)
    return distance / distance[0]


@pytest.mark.parametrize("name", [name for name in LEARNERS if name.endswith("_Supervised")])
def test_the_supervised_ones_take_rows_or_their_ids(name):
    X, y = wine()
    plain = name.removesuffix("_Supervised")
    with pytest.raises(ValueError, match=f"For tuples use {plain}|Found array with dim 3"):
        make(name).fit(X[:, None, :], y)
    M = fitted(name, X, y).get_mahalanobis_matrix()
    for rows in (X, np.arange(len(X))):
        again = fitted(name, rows, y, preprocessor=X).get_mahalanobis_matrix()
        np.testing.assert_array_equal(again, M)


# What is told of the noise: without these, some learners fit it or hear too little of it.
OPTIONS = {
    "NeighborhoodComponentsAnalysis": {"trace_penalty": 0.01},
    "LSML": {"n_constraints": 3000},
    "LSML_Supervised": {"n_constraints": 3000},
    "SCML": {"n_basis": 300},
}
# SDML and LSML stay near their prior, the Euclidean distance; a broken learner gains nothing.
MARGIN = {"LSML": 0.05, "LSML_Supervised": 0.05, "SDML": 0.05, "SDML_Supervised": 0.05}


def noisy(load, columns, seed=0):
    """A table with a block of noise columns as wide-ranging as the rest, split in two."""
    X, y = load(return_X_y=True)
    X = X / np.maximum(X.std(axis=0), 1e-3) if load is load_wine else X / X.std()
    rng = np.random.default_rng(seed)
    X = np.hstack([X, rng.normal(size=(len(X), columns)) * (2.5 if load is load_wine else 1.8)])
    return train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)


@pytest.mark.parametrize("name", SUPERVISED)
def test_useful_on_wine_with_noise_columns(name):
    X, X_new, y, y_new = noisy(load_wine, 12)
    before = KNeighborsClassifier().fit(X, y).score(X_new, y_new)
    learner = fitted(name, X, y, **OPTIONS.get(name, {}))
    after = KNeighborsClassifier(metric=learner).fit(X, y).score(X_new, y_new)
    assert before < 0.80
    assert after > before + MARGIN.get(name, 0.10)


@pytest.mark.parametrize("name", SUPERVISED)
def test_useful_on_digits_with_noise_columns(name):
    X, X_new, y, y_new = noisy(load_digits, 40)
    before = KNeighborsClassifier().fit(X, y).score(X_new, y_new)
    learner = fitted(name, X, y, **OPTIONS.get(name, {}))
    after = KNeighborsClassifier(metric=learner).fit(X, y).score(X_new, y_new)
    assert before < 0.75
    assert after > before + MARGIN.get(name, 0.10)
