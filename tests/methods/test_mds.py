"""MDS by majorisation against a literal loop, against scikit-learn, and its stress by hand."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.manifold
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.isotonic import IsotonicRegression
from threadpoolctl import threadpool_limits

import nearfold
from nearfold import MDS, ClassicalMDS
from nearfold.errors import (
    ApproximationWarning,
    Cancelled,
    InputError,
    MemoryBudgetError,
    NearfoldError,
    NonFiniteError,
    NotConvergedWarning,
)
from nearfold.methods.smacof import Disparities, nearest_mean
from nearfold.state import StateError, fields_of


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


def table(m=60, d=5, seed=0, dtype=np.float64, offset=0.0):
    return (np.random.default_rng(seed).normal(size=(m, d)) + offset).astype(dtype)


def dissimilarities(m=60, seed=0):
    """Symmetric, not Euclidean, none of them zero but the diagonal."""
    D = np.random.default_rng(seed).uniform(0.5, 3, size=(m, m))
    return np.triu(D, 1) + np.triu(D, 1).T


def start(m=60, k=2, seed=1):
    return np.random.default_rng(seed).uniform(size=(m, k))


def raw_stress(Z, D):
    """sum over i < j of (d - D)^2, pair by pair."""
    m = len(Z)
    return sum(
        (np.linalg.norm(Z[i] - Z[j]) - D[i, j]) ** 2 for i in range(m) for j in range(i + 1, m)
    )


def literal_disparities(Z, D):
    """The monotone function of D closest to the distances of Z, with mean square 1."""
    d, given = pdist(Z), squareform(D, checks=False)
    fitted = IsotonicRegression().fit_transform(given, d)
    return fitted * np.sqrt(len(fitted) / (fitted**2).sum())


def literal_smacof(D, Z, iterations):
    """Metric SMACOF: Z <- B(Z) Z / m."""
    m = len(D)
    for _ in range(iterations):
        d = cdist(Z, Z)
        with np.errstate(divide="ignore", invalid="ignore"):
            B = np.where(d > 0, -D / d, 0.0)
        B[np.diag_indices(m)] = 0
        B[np.diag_indices(m)] = -B.sum(axis=1)
        Z = B @ Z / m
    return Z


def literal_nonmetric(D, Z, iterations):
    m = len(D)
    flat = squareform(D, checks=False)
    wanted = flat * np.sqrt(len(flat) / (flat**2).sum())
    for _ in range(iterations):
        Z = literal_smacof(squareform(wanted), Z, 1)
        wanted = literal_disparities(Z, D)
    assert len(Z) == m
    return Z


def unfinished(model, *args, **options):
    """Fit with too few iterations, which is warned of."""
    with pytest.warns(NotConvergedWarning):
        return model.fit(*args, **options)


def quietly(model, *args, **options):
    """Fit, converged or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        return model.fit(*args, **options)


# ---- the formula ---------------------------------------------------------------------


@pytest.mark.parametrize("m", [60, 420])  # plain and compiled
@pytest.mark.parametrize("iterations", [1, 2, 15])
def test_metric_iterations_are_the_literal_ones(m, iterations):
    D, Z = dissimilarities(m), start(m)
    options = {"max_iter": iterations, "eps": 0, "relax": False}
    model = unfinished(MDS(metric="precomputed", **options), D, init=Z)
    np.testing.assert_allclose(model.embedding_, literal_smacof(D, Z, iterations), atol=1e-10)
    assert model.n_iter_ == iterations
    assert not model.converged_


@pytest.mark.parametrize("m", [60, 420])
@pytest.mark.parametrize("iterations", [1, 2, 15])
def test_nonmetric_iterations_are_the_literal_ones(m, iterations):
    D, Z = dissimilarities(m), start(m)
    model = MDS(metric="precomputed", metric_mds=False, max_iter=iterations, eps=0)
    unfinished(model, D, init=Z)
    np.testing.assert_allclose(model.embedding_, literal_nonmetric(D, Z, iterations), atol=1e-10)


def literal_relaxed(D, Z, iterations):
    """First a plain step, then each time 2 G(a Z) - a Z with the best scale a; a Z at the end."""

    def scaled(Z):
        d = pdist(Z)
        return Z * (d @ squareform(D, checks=False)) / (d @ d)

    Z = scaled(literal_smacof(D, Z, 1))
    for _ in range(iterations - 1):
        Z = scaled(2 * literal_smacof(D, Z, 1) - Z)
    return Z


@pytest.mark.parametrize("m", [60, 420, 431])
@pytest.mark.parametrize("iterations", [1, 2, 15])
def test_relaxed_iterations_are_the_literal_ones(m, iterations):
    D, Z = dissimilarities(m), start(m)
    model = unfinished(MDS(metric="precomputed", max_iter=iterations, eps=0), D, init=Z)
    np.testing.assert_allclose(model.embedding_, literal_relaxed(D, Z, iterations), atol=1e-10)


@pytest.mark.parametrize("m", [60, 420])
def test_relaxed_steps_end_where_a_plain_one_gains_less_than_eps(m):
    D = dissimilarities(m)
    fast = MDS(metric="precomputed", max_iter=3000).fit(D, init=start(m))
    slow = MDS(metric="precomputed", max_iter=3000, relax=False).fit(D, init=start(m))
    assert fast.converged_
    assert fast.stress_ < slow.stress_
    reached = int(np.argmax(np.array(fast.stress_history_) <= slow.stress_)) + 1
    assert reached < 0.7 * slow.n_iter_
    after = literal_smacof(D, fast.embedding_, 1)
    gain = fast.stress_ - raw_stress(after, D)
    assert 0 <= gain < 1e-6 * (pdist(after) ** 2).sum()


def test_nonmetric_steps_are_never_relaxed():
    D = dissimilarities()
    one, other = (
        quietly(MDS(metric="precomputed", metric_mds=False, relax=relax), D, init=start())
        for relax in (True, False)
    )
    np.testing.assert_array_equal(one.embedding_, other.embedding_)


@pytest.mark.parametrize("max_iter", [1, 3, 300])
def test_metric_stress_is_that_of_the_coordinates_returned(max_iter):
    D = dissimilarities()
    options = {"metric": "precomputed", "max_iter": max_iter}
    raw = quietly(MDS(**options), D)
    one = quietly(MDS(normalized_stress=True, **options), D)
    by_hand = raw_stress(raw.embedding_, D)
    assert raw.stress_ == pytest.approx(by_hand, rel=1e-10)
    size = (pdist(one.embedding_) ** 2).sum()
    assert one.stress_ == pytest.approx(np.sqrt(by_hand / size), rel=1e-10)
    np.testing.assert_array_equal(raw.embedding_, one.embedding_)
    assert raw.stress_history_[-1] == raw.stress_


@pytest.mark.parametrize("max_iter", [1, 3, 300])
def test_nonmetric_stress_is_that_of_the_coordinates_returned(max_iter):
    D = dissimilarities()
    options = {"metric": "precomputed", "metric_mds": False, "max_iter": max_iter}
    one = quietly(MDS(**options), D)
    raw = quietly(MDS(normalized_stress=False, **options), D)
    by_hand = raw_stress(one.embedding_, squareform(literal_disparities(one.embedding_, D)))
    size = (pdist(one.embedding_) ** 2).sum()
    assert one.stress_ == pytest.approx(np.sqrt(by_hand / size), rel=1e-9)
    assert raw.stress_ == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.parametrize("relax", [True, False])
def test_metric_stress_never_rises(relax):
    options = {"metric": "precomputed", "random_state": 0, "relax": relax}
    for init in ("random", "classical_mds"):
        model = quietly(MDS(init=init, **options), dissimilarities())
        assert (np.diff(model.stress_history_) <= 1e-12).all()
        assert len(model.stress_history_) == model.n_iter_


def test_euclidean_distances_are_kept():
    X = table(40, 2)
    for init in ("classical_mds", "random"):
        model = MDS(2, init=init, random_state=0, eps=1e-12, max_iter=3000).fit(X)
        np.testing.assert_allclose(pdist(model.embedding_), pdist(X), atol=1e-3)
    assert MDS(2).fit(X).stress_ == pytest.approx(0, abs=1e-15)


def test_stress_is_less_than_that_of_classical_mds():
    X, _ = load_iris(return_X_y=True)
    X = X @ np.random.default_rng(0).normal(size=(4, 10))
    D = cdist(X, X, "cityblock")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classical = ClassicalMDS(2, metric="precomputed").fit_transform(D)
    model = MDS(2, metric="precomputed").fit(D)
    assert model.stress_ < 0.9 * raw_stress(classical, D)


# ---- scikit-learn --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("m", "normalized"), [(60, True), (60, False), (60, "auto"), (410, "auto")]
)
def test_metric_agrees_with_scikit_learn_from_the_same_start(m, normalized):
    D = dissimilarities(m)
    Z, stress, n_iter = sklearn.manifold.smacof(
        D, init=start(m), n_init=1, return_n_iter=True, normalized_stress=normalized
    )
    options = {"normalized_stress": normalized, "relax": False}
    model = quietly(MDS(metric="precomputed", **options), D, init=start(m))
    assert model.n_iter_ == n_iter
    np.testing.assert_allclose(model.embedding_, Z, atol=1e-7)
    assert model.stress_ == pytest.approx(stress, rel=1e-9)


@pytest.mark.parametrize("max_iter", [1, 5, 300])
def test_nonmetric_agrees_with_scikit_learn_without_zeros(max_iter):
    D = dissimilarities()
    Z, _, n_iter = sklearn.manifold.smacof(
        D, metric=False, init=start(), n_init=1, max_iter=max_iter, return_n_iter=True
    )
    model = MDS(metric="precomputed", metric_mds=False, max_iter=max_iter)
    quietly(model, D, init=start())
    assert model.n_iter_ == n_iter
    np.testing.assert_allclose(model.embedding_, Z, atol=1e-7)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("n_init", [1, 4])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_random_starts_are_scikit_learns(metric, n_init):
    X = table()
    options = {"init": "random", "n_init": n_init, "random_state": 3, "metric": metric}
    theirs = sklearn.manifold.MDS(2, **options).fit(X)
    ours = MDS(2, relax=False, **options).fit(X)
    assert ours.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(ours.embedding_, theirs.embedding_, atol=1e-6)
    assert ours.stress_ == pytest.approx(theirs.stress_, rel=1e-8)
    np.testing.assert_allclose(ours.dissimilarity_matrix_, theirs.dissimilarity_matrix_, atol=1e-7)


@pytest.mark.parametrize("metric_mds", [True, False])
def test_the_classical_start_is_scikit_learns(metric_mds):
    X = table()
    options = {"init": "classical_mds", "metric_mds": metric_mds, "n_init": 1}
    theirs = sklearn.manifold.MDS(2, **options).fit(X)
    ours = MDS(2, relax=False, **options).fit(X)
    assert ours.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(pdist(ours.embedding_), pdist(theirs.embedding_), atol=1e-6)
    unnamed = MDS(2, metric_mds=metric_mds, relax=False).fit(X)
    np.testing.assert_array_equal(unnamed.embedding_, ours.embedding_)


@pytest.mark.parametrize("dimensions", [2, 5])
def test_the_classical_start_has_the_signs_of_classical_mds(dimensions):
    """Without a sign rule the axes point wherever the eigenvalue iteration began."""
    D = squareform(pdist(load_iris().data))
    start = ClassicalMDS(dimensions, metric="precomputed").fit_transform(D)
    mds = MDS(dimensions, metric="precomputed")
    found = mds.fit_transform(D).copy()
    np.testing.assert_allclose(found, mds.fit_transform(D, init=start), atol=1e-9)


def test_the_best_of_several_starts_is_kept():
    D = dissimilarities()
    rng = np.random.RandomState(0)
    starts = [rng.uniform(size=120).reshape(60, 2) for _ in range(5)]
    options = {"metric": "precomputed", "eps": 1e-5}
    runs = [MDS(**options).fit(D, init=Z).stress_ for Z in starts]
    best = MDS(init="random", n_init=5, random_state=0, **options).fit(D)
    assert best.stress_ == pytest.approx(min(runs), rel=1e-10)
    assert min(runs) < max(runs)


def test_the_older_names_of_parameters_still_work():
    X = table()
    D = cdist(X, X)
    new = MDS(metric="precomputed", metric_mds=False).fit(D)
    old = MDS(dissimilarity="precomputed", metric=False).fit(D)
    np.testing.assert_array_equal(new.embedding_, old.embedding_)
    np.testing.assert_array_equal(
        MDS(dissimilarity="euclidean").fit(X).embedding_, MDS().fit(X).embedding_
    )


def test_init_decides_the_number_of_components():
    model = quietly(MDS(2), table(), init=start(k=3))
    assert model.embedding_.shape == (60, 3)
    assert len(model.get_feature_names_out()) == 3


# ---- non-metric ----------------------------------------------------------------------


def test_disparities_are_monotone_of_mean_square_one_and_equal_where_given_equal():
    D = np.round(dissimilarities(), 1)  # many ties
    Z = start()
    monotone = Disparities(D)
    for found in (monotone.fit(None), monotone.fit(Z)):
        np.testing.assert_array_equal(found, found.T)
        flat, given = squareform(found), squareform(D)
        assert (flat**2).mean() == pytest.approx(1)
        for level in np.unique(given):
            assert np.ptp(flat[given == level]) == 0
        order = np.argsort(given, kind="stable")
        assert (np.diff(flat[order]) >= -1e-12).all()
    np.testing.assert_allclose(squareform(found), literal_disparities(Z, D), atol=1e-12)


def test_disparities_do_not_shrink_to_nothing():
    model = MDS(metric="precomputed", metric_mds=False, max_iter=3000, eps=1e-10)
    D = dissimilarities()
    quietly(model, D)
    assert (pdist(model.embedding_) ** 2).mean() == pytest.approx(1, rel=0.2)
    assert model.stress_ > 0.01


def test_only_the_order_matters():
    D, Z = dissimilarities(), start()
    np.testing.assert_array_equal(Disparities(D).fit(Z), Disparities(np.expm1(D)).fit(Z))


def test_monotone_distances_of_points_are_embedded_without_stress():
    X = table(25, 2)
    model = MDS(metric="precomputed", metric_mds=False, eps=1e-12, max_iter=5000)
    quietly(model, cdist(X, X) ** 3)
    assert model.stress_ < 0.01
    order = np.corrcoef(
        np.argsort(np.argsort(pdist(X))), np.argsort(np.argsort(pdist(model.embedding_)))
    )
    assert order[0, 1] > 0.999


def test_a_zero_dissimilarity_is_the_smallest_not_missing():
    """Two objects said to be the same must end close together."""
    D = dissimilarities(30) + 2
    np.fill_diagonal(D, 0)
    D[3, 7] = D[7, 3] = 0.0
    tiny = D.copy()
    tiny[3, 7] = tiny[7, 3] = 1e-9
    options = {"metric": "precomputed", "metric_mds": False, "normalized_stress": False}
    zero = quietly(MDS(**options), D, init=start(30))
    near = quietly(MDS(**options), tiny, init=start(30))
    np.testing.assert_allclose(zero.embedding_, near.embedding_, atol=1e-5)
    d = cdist(zero.embedding_, zero.embedding_)
    assert d[3, 7] < 0.25 * d.mean()
    wanted = squareform(literal_disparities(zero.embedding_, D))
    assert zero.stress_ == pytest.approx(raw_stress(zero.embedding_, wanted), rel=1e-9)


def test_a_zero_dissimilarity_is_kept_by_metric_mds_too():
    D = dissimilarities(30)
    D[3, 7] = D[7, 3] = 0.0
    model = MDS(metric="precomputed").fit(D, init=start(30))
    assert model.stress_ == pytest.approx(raw_stress(model.embedding_, D), rel=1e-10)
    assert np.isfinite(model.embedding_).all()


# ---- convergence ---------------------------------------------------------------------


@pytest.mark.parametrize("metric_mds", [True, False])
@pytest.mark.parametrize("verbose", [0, 1])
def test_not_converging_is_warned_of_always(metric_mds, verbose, capsys):
    model = MDS(metric="precomputed", metric_mds=metric_mds, max_iter=2, verbose=verbose)
    with pytest.warns(NotConvergedWarning, match="did not converge in max_iter=2.*eps is 1e-06"):
        model.fit(dissimilarities(), init=start())
    assert not model.converged_


def test_converging_is_not_warned_of():
    model = MDS(metric="precomputed").fit(dissimilarities())
    assert model.converged_
    fall = -np.diff(model.stress_history_)
    size = (pdist(model.embedding_) ** 2).sum()
    assert fall[-1] < 1e-6 * size
    assert (fall[:-1] >= 1e-6 * 0.5 * size).all()


# ---- new rows ------------------------------------------------------------------------

ROUTES = {
    "metric": {},
    "random": {"init": "random", "random_state": 0},
    "nonmetric": {"metric_mds": False},
    "cityblock": {"metric": "cityblock"},
    "function": {"metric": lambda a, b: np.abs(a - b).max()},
    "landmarks": {"n_landmarks": 25},
    "nonmetric landmarks": {"n_landmarks": 25, "metric_mds": False},
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("route", ROUTES)
def test_fitted_rows_come_back_and_transform_is_row_wise(route, dtype):
    X, new = table(dtype=dtype), table(9, seed=1, dtype=dtype)
    model = MDS(2, **ROUTES[route]).fit(X)
    assert model.embedding_.dtype == dtype
    atol = 1e-5 if dtype == np.float32 else 1e-8
    if "landmarks" not in route:
        np.testing.assert_allclose(model.transform(X), model.embedding_, rtol=0, atol=atol)
    Z = model.transform(new)
    assert Z.dtype == dtype
    alone = np.vstack([model.transform(row[None]) for row in new])
    np.testing.assert_allclose(Z, alone, rtol=0, atol=atol)


@pytest.mark.parametrize("route", ["landmarks", "nonmetric landmarks"])
def test_fitted_rows_come_back_to_landmark_embeddings(route):
    X = table()
    model = MDS(2, **ROUTES[route]).fit(X)
    np.testing.assert_allclose(model.transform(X), model.embedding_, rtol=0, atol=1e-6)


@pytest.mark.parametrize("metric", ["cosine", "correlation"])
def test_fitted_rows_come_back_also_when_their_distance_rounds(metric):
    X = table()
    model = MDS(2, metric=metric).fit(X)
    np.testing.assert_allclose(model.transform(X), model.embedding_, rtol=0, atol=1e-6)


@pytest.mark.parametrize("metric_mds", [True, False])
@pytest.mark.parametrize("n_landmarks", [None, 25])
def test_new_rows_by_their_dissimilarities(n_landmarks, metric_mds):
    X, new = table(), table(9, seed=1)
    D, D_new = cdist(X, X), cdist(new, X)
    options = {"n_landmarks": n_landmarks, "metric_mds": metric_mds}
    model = MDS(2, metric="precomputed", **options).fit(D)
    features = MDS(2, **options).fit(X)
    np.testing.assert_allclose(model.embedding_, features.embedding_, atol=1e-4)
    Z = model.transform(D_new)
    np.testing.assert_allclose(Z, features.transform(new), atol=1e-3)
    alone = np.vstack([model.transform(row[None]) for row in D_new])
    np.testing.assert_allclose(Z, alone, atol=1e-8)


def test_a_new_row_rests_where_its_stress_is_least():
    X, new = table(), table(6, seed=1)
    model = MDS(2).fit(X)
    Z, D = model.transform(new), cdist(new, X)

    def stress(i, z):
        return ((np.linalg.norm(model.embedding_ - z, axis=1) - D[i]) ** 2).sum()

    for i in range(6):
        d = np.linalg.norm(model.embedding_ - Z[i], axis=1)
        gradient = 2 * ((1 - D[i] / d)[:, None] * (Z[i] - model.embedding_)).sum(axis=0)
        assert np.linalg.norm(gradient) < 1e-4 * D[i].sum()
        for step in 0.1 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]):
            assert stress(i, Z[i]) <= stress(i, Z[i] + step)


def test_a_new_row_of_a_plane_is_placed_exactly():
    X, new = table(50, 2), table(9, 2, seed=1)
    model = MDS(2).fit(X)
    Z = model.transform(new)
    np.testing.assert_allclose(cdist(Z, model.embedding_), cdist(new, X), atol=1e-5)


def test_a_new_row_of_a_nonmetric_fit_goes_by_the_disparities():
    X, new = table(50, 2), table(6, 2, seed=1)
    model = MDS(2, metric="precomputed", metric_mds=False)
    D = cdist(X, X)
    model.fit(D**2)
    wanted = np.interp(
        cdist(new, X) ** 2,
        np.unique(squareform(D**2, checks=False)),
        literal_disparities(model.embedding_, D**2)[
            np.unique(squareform(D**2, checks=False), return_index=True)[1]
        ],
    )
    Z = model.transform(cdist(new, X) ** 2)
    for z, goal in zip(Z, wanted, strict=True):
        d = np.linalg.norm(model.embedding_ - z, axis=1)
        gradient = 2 * ((1 - goal / d)[:, None] * (z - model.embedding_)).sum(axis=0)
        assert np.linalg.norm(gradient) < 1e-4 * goal.sum()


def test_many_new_rows_are_the_same_compiled_or_not():
    X, new = table(500), table(700, seed=1)
    model = MDS(2, max_iter=100, eps=1e-4).fit(X)
    Z = model.transform(new)
    np.testing.assert_allclose(Z[::100], model.transform(new[::100]), atol=1e-6)


def test_the_start_of_a_new_row_is_near_its_neighbours():
    Z = np.arange(10.0)[:, None] * [1, 2]
    D = np.abs(np.arange(10.0) - 3.0)[None]
    np.testing.assert_array_equal(nearest_mean(D, Z), Z[3:4])
    D = np.abs(np.arange(10.0) - 3.5)[None]
    np.testing.assert_allclose(nearest_mean(D, Z, k=2), [[3.5, 7.0]])


# ---- landmarks and memory ------------------------------------------------------------


def test_landmarks_are_scaled_and_the_others_placed():
    X = table(150)
    model = MDS(2, n_landmarks=40).fit(X)
    assert model.embedding_.shape == (150, 2)
    assert len(set(model.landmarks_.tolist())) == 40
    assert model.approximation_ == "landmark MDS: 40 landmarks of 150 rows"
    among = model.embedding_[model.landmarks_]
    np.testing.assert_allclose(
        model.dissimilarity_matrix_, cdist(X[model.landmarks_], X[model.landmarks_]), atol=1e-7
    )
    assert model.stress_ == pytest.approx(raw_stress(among, model.dissimilarity_matrix_), rel=1e-9)
    exact = MDS(2).fit(X)
    both = [raw_stress(Z, cdist(X, X)) for Z in (model.embedding_, exact.embedding_)]
    assert both[0] < 1.5 * both[1]


def test_with_all_rows_as_landmarks_nothing_is_placed():
    X = table()
    D = cdist(X, X)
    every = MDS(2, metric="precomputed", n_landmarks=60).fit(D)
    exact = MDS(2, metric="precomputed").fit(D)
    assert every.stress_ == pytest.approx(exact.stress_, rel=1e-6)
    np.testing.assert_allclose(pdist(every.embedding_), pdist(exact.embedding_), atol=1e-3)


def test_init_of_landmarks_is_that_of_their_rows():
    X = table(120)
    model = unfinished(MDS(2, n_landmarks=30, max_iter=1, relax=False), X, init=start(120))
    D = cdist(X, X)[np.ix_(model.landmarks_, model.landmarks_)]
    want = literal_smacof(D, start(120)[model.landmarks_], 1)
    np.testing.assert_allclose(model.embedding_[model.landmarks_], want, atol=1e-10)


@pytest.mark.parametrize("options", [{}, {"metric": "cityblock"}, {"metric_mds": False}])
def test_beyond_the_budget_landmarks_are_used_and_said(options):
    X = table(300)
    nearfold.set_memory("600KB")
    with pytest.warns(ApproximationWarning, match=r"distances between 300 rows need.*landmarks"):
        model = MDS(2, **options).fit(X)
    count = len(model.landmarks_)
    said = f"landmark MDS: {count} landmarks of 300 rows (memory budget 600.0 KB)"
    assert model.approximation_ == said
    assert model.embedding_.shape == (300, 2)
    assert np.isfinite(model.embedding_).all()


def test_a_budget_too_small_for_any_way_is_refused_with_numbers():
    nearfold.set_memory("10KB")
    with pytest.raises(
        MemoryBudgetError, match="landmark MDS of 300 rows with the fewest landmarks"
    ):
        MDS(2).fit(table(300))


@pytest.mark.parametrize("count", [0, 2, 61])
def test_n_landmarks_must_be_enough_and_not_too_many(count):
    with pytest.raises(InputError, match=f"n_landmarks={count}: .* at most the 60 rows"):
        MDS(2, n_landmarks=count).fit(table())


@pytest.mark.parametrize("route", ["metric", "nonmetric", "cityblock", "landmarks"])
def test_threads_change_no_bit(route):
    X, new = table(450), table(30, seed=1)
    options = {"max_iter": 12, **ROUTES[route]}
    models = [quietly(MDS(2, n_jobs=n_jobs, **options), X) for n_jobs in (1, 2, 3, None)]
    for other in models[1:]:
        np.testing.assert_array_equal(models[0].embedding_, other.embedding_)
        assert models[0].stress_ == other.stress_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        np.testing.assert_array_equal(models[0].transform(new), models[1].transform(new))


def test_random_state_decides_the_start():
    X = table()

    def fit(seed):
        return MDS(init="random", random_state=seed).fit_transform(X)

    np.testing.assert_array_equal(fit(0), fit(0))
    np.testing.assert_array_equal(fit(np.random.RandomState(1)), fit(np.random.RandomState(1)))
    assert not np.array_equal(fit(0), fit(1))
    np.testing.assert_array_equal(MDS().fit_transform(X), MDS().fit_transform(X))


# ---- frames, pickles -----------------------------------------------------------------


@pytest.mark.parametrize("route", [route for route in ROUTES if route != "function"])
def test_pickle_round_trip(route):
    X, new = table(), table(9, seed=1)
    model = MDS(2, **ROUTES[route]).fit(X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    np.testing.assert_array_equal(again.transform(new), model.transform(new))


def test_clone_keeps_parameters_and_nothing_fitted():
    model = MDS(3, metric_mds=False, n_init=2, eps=1e-4, n_landmarks=20).fit(table())
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "embedding_")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("options", [{}, {"n_landmarks": 20}])
def test_frames_in_and_out(frame, options):
    X, names = table(), list("abcde")
    given = frame(dict(zip(names, X.T, strict=True)))
    kind = "pandas" if frame is pd.DataFrame else "polars"
    model = MDS(2, **options).set_output(transform=kind)
    first = model.fit_transform(given)
    assert list(model.feature_names_in_) == names
    for Z in (first, model.transform(given)):
        assert isinstance(Z, frame)
        assert list(Z.columns) == ["mds0", "mds1"]
    np.testing.assert_allclose(first.to_numpy(), MDS(2, **options).fit_transform(X), atol=1e-9)
    assert list(model.get_feature_names_out()) == ["mds0", "mds1"]
    assert isinstance(model.embedding_, np.ndarray)


def test_columns_renamed_or_missing_are_an_error():
    model = MDS(2).fit(pd.DataFrame(table(), columns=list("abcde")))
    with pytest.raises(ValueError, match="feature names"):
        model.transform(pd.DataFrame(table(), columns=list("abcdx")))
    with pytest.raises(ValueError, match="features"):
        MDS(2).fit(table()).transform(table(d=4))


def test_progress_is_reported_and_can_stop_the_work():
    seen = []
    with nearfold.progress(lambda label, done, total: seen.append((label, done, total))):
        model = MDS(2).fit(table())
    steps = [done for label, done, _ in seen if label == "stress"]
    assert steps == list(range(1, model.n_iter_ + 1))

    def stop(label, done, total):
        if label == "stress" and done == 3:
            raise Cancelled("enough")

    with nearfold.progress(stop), pytest.raises(Cancelled):
        MDS(2, eps=0).fit(table())


# ---- what is refused -----------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_are_named_by_row_and_column(bad):
    X = table()
    X[7, 3] = X[11, 3] = bad
    word = "NaN" if np.isnan(bad) else "inf"
    with pytest.raises(NonFiniteError, match=rf"2 {word} \(column 3: 2; first rows: \[7, 11\]"):
        MDS().fit(X)
    with pytest.raises(NonFiniteError, match=r"column 3: 2; first rows: \[7, 11\]"):
        MDS().fit(table()).transform(X)
    D = dissimilarities()
    D[5, 9] = D[9, 5] = bad
    with pytest.raises(NonFiniteError, match=r"first rows: \[5, 9\]"):
        MDS(metric="precomputed").fit(D)


def test_matrices_that_are_no_distances_show_the_entry():
    D = dissimilarities()

    def refuse(i, j, value, message, both=False):
        broken = D.copy()
        broken[i, j] = value
        if both:
            broken[j, i] = value
        with pytest.raises(InputError, match=message):
            MDS(metric="precomputed").fit(broken)

    refuse(50, 3, 9.5, "from row 3 to row 50 is .*, back it is 9.5")
    refuse(50, 3, -2.5, "not negative: the one from row 3 to 50 is -2.5", both=True)
    refuse(50, 50, 0.75, "distance of row 50 to itself is 0.75, not 0")
    with pytest.raises(InputError, match="this one is 60 x 59"):
        MDS(metric="precomputed").fit(D[:, 1:])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "'n_components' parameter of MDS must be"),
        ({"n_components": 1.5}, "'n_components' parameter of MDS must be"),
        ({"n_init": 0}, "'n_init' parameter of MDS must be"),
        ({"max_iter": 0}, "'max_iter' parameter of MDS must be"),
        ({"init": "pca"}, "'init' parameter of MDS must be"),
        ({"normalized_stress": "yes"}, "'normalized_stress' parameter of MDS must be"),
        ({"eps": -1}, "'eps' parameter of MDS must be"),
        ({"metric": 3.5}, "'metric' parameter of MDS must be"),
        ({"n_landmarks": "many"}, "'n_landmarks' parameter of MDS must be"),
        ({"relax": "yes"}, "'relax' parameter of MDS must be"),
    ],
)
def test_parameters_without_meaning_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MDS(**options).fit(table())


@pytest.mark.parametrize("init", [np.zeros(60), np.zeros((59, 2)), np.zeros((1, 60, 2))])
def test_a_start_of_the_wrong_shape_is_refused(init):
    with pytest.raises(InputError, match=r"init matrix should be of shape \(60, 2\)"):
        MDS().fit(table(), init=init)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::nearfold.errors.NotConvergedWarning")
def test_a_start_with_nan_is_refused(bad):
    Z = start()
    Z[3, 1] = bad
    with pytest.raises(NearfoldError):
        MDS().fit(table(), init=Z)


# ---- degenerate data -----------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::nearfold.errors.NotConvergedWarning")
@pytest.mark.parametrize("init", ["classical_mds", "random"])
@pytest.mark.parametrize("metric_mds", [True, False])
def test_constant_rows_are_all_at_one_place(metric_mds, init):
    X = np.full((12, 3), 0.1)
    model = MDS(2, metric_mds=metric_mds, init=init, random_state=0).fit(X)
    np.testing.assert_allclose(model.embedding_, 0, atol=1e-12)
    assert model.stress_ == pytest.approx(0, abs=1e-12)


@pytest.mark.filterwarnings("ignore::nearfold.errors.NotConvergedWarning")
@pytest.mark.parametrize("init", ["classical_mds", "random"])
def test_one_row(init):
    model = MDS(2, init=init, random_state=0).fit(table(1))
    np.testing.assert_array_equal(model.embedding_, [[0, 0]])
    assert model.stress_ == 0


@pytest.mark.parametrize("m", [1, 12])
def test_a_stress_of_zero_is_convergence(m):
    model = MDS(2).fit(np.full((m, 3), 0.1))
    assert model.converged_
    assert model.n_iter_ < 5


def test_one_row_of_a_nonmetric_fit():
    model = MDS(2, metric_mds=False).fit(table(1))
    np.testing.assert_array_equal(model.embedding_, [[0, 0]])


def test_two_rows():
    D = np.array([[0, 3.0], [3.0, 0]])
    np.testing.assert_allclose(pdist(MDS(2, metric="precomputed").fit_transform(D)), 3)
    Z = MDS(2, metric="precomputed", metric_mds=False).fit_transform(D)
    np.testing.assert_allclose(pdist(Z), 1)


@pytest.mark.parametrize("metric_mds", [True, False])
def test_duplicates_stay_together_and_come_back(metric_mds):
    X = np.repeat(table(12), 7, axis=0)  # more copies than a new row asks neighbours
    model = MDS(2, metric_mds=metric_mds).fit(X)
    Z = model.embedding_
    np.testing.assert_allclose(Z, np.repeat(Z[::7], 7, axis=0), atol=1e-9)
    np.testing.assert_allclose(model.transform(X), Z, atol=1e-9)


def test_more_components_than_rank_and_than_rows():
    X = np.c_[table(20, 2), np.zeros((20, 2))]
    Z = MDS(4).fit_transform(X)
    np.testing.assert_allclose(pdist(Z), pdist(X), atol=1e-6)
    Z = MDS(6).fit_transform(table(4))
    assert Z.shape == (4, 6)
    np.testing.assert_allclose(pdist(Z), pdist(table(4)), atol=1e-6)


def test_a_huge_offset_does_not_matter():
    near, far = MDS(2).fit(table()), MDS(2).fit(table(offset=1e6))
    np.testing.assert_allclose(pdist(far.embedding_), pdist(near.embedding_), atol=1e-6)
    new = table(5, seed=1)
    np.testing.assert_allclose(
        cdist(far.transform(new + 1e6), far.embedding_),
        cdist(near.transform(new), near.embedding_),
        atol=1e-4,
    )


def right_or_refused(scale, options):
    """The coordinates divided by the scale are right, or there is an error of ours."""
    X = table()
    if options.get("metric") == "precomputed":
        X = cdist(X, X)
    want = MDS(2, **options).fit(X)
    try:
        got = MDS(2, **options).fit(X * scale)
    except NearfoldError:
        return
    np.testing.assert_allclose(pdist(got.embedding_ / scale), pdist(want.embedding_), atol=1e-3)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("options", [{}, {"metric": "precomputed"}, {"metric": "cityblock"}])
@pytest.mark.parametrize("scale", [1e300, 1e200, 1e100, 1e-100])
def test_extreme_values_are_right_or_refused(scale, options):
    right_or_refused(scale, options)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::nearfold.errors.NotConvergedWarning")
@pytest.mark.parametrize("metric", ["euclidean", "precomputed", "cityblock"])
@pytest.mark.parametrize("scale", [1e300, 1e200])
def test_extreme_values_are_right_or_refused_from_a_random_start(scale, metric):
    right_or_refused(scale, {"metric": metric, "init": "random", "random_state": 0})


@pytest.mark.filterwarnings("ignore::nearfold.errors.NotConvergedWarning")
@pytest.mark.parametrize("metric", ["euclidean", "precomputed", "cityblock"])
def test_distances_whose_squares_vanish_are_right_or_refused(metric):
    right_or_refused(1e-200, {"metric": metric})


def test_float32_is_near_float64():
    X = table()
    small, large = MDS(2).fit(X.astype(np.float32)), MDS(2).fit(X)
    assert small.embedding_.dtype == np.float32
    np.testing.assert_allclose(pdist(small.embedding_), pdist(large.embedding_), atol=1e-3)
    D = cdist(X, X)
    given = MDS(2, metric="precomputed").fit(D.astype(np.float32))
    assert given.embedding_.dtype == np.float32
    assert given.stress_ == pytest.approx(large.stress_, rel=1e-5)


def test_the_matrix_given_is_only_read():
    D = dissimilarities()
    kept = D.copy()
    for metric_mds in (True, False):
        MDS(metric="precomputed", metric_mds=metric_mds).fit(D)
    np.testing.assert_array_equal(D, kept)


def test_fitted_rows_come_back_also_when_their_distance_rounds_in_float32():
    X = table(dtype=np.float32)
    model = MDS(2, metric="cosine").fit(X)
    np.testing.assert_allclose(model.transform(X), model.embedding_, rtol=0, atol=1e-4)


# ---- learned metrics, threads, state ---------------------------------------------------


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("options", [{}, {"n_landmarks": 20}, {"metric_mds": False}])
def test_a_learned_metric_is_mds_of_the_transformed_rows(fitted, options):
    X, y = table(), np.arange(60) % 3
    known = nearfold.LFDA(n_components=2, k=3).fit(X, y)
    metric = known if fitted else nearfold.LFDA(n_components=2, k=3)
    model = quietly(MDS(2, metric=metric, max_iter=50, **options), X, y)
    want = quietly(MDS(2, max_iter=50, **options), known.transform(X))
    np.testing.assert_allclose(model.embedding_, want.embedding_, atol=1e-9)
    new = table(seed=3)[:5]
    np.testing.assert_allclose(
        model.transform(new), want.transform(known.transform(new)), atol=1e-7
    )


@pytest.mark.filterwarnings("ignore::nearfold.errors.NotConvergedWarning")
@pytest.mark.parametrize("n", [60, 450])
@pytest.mark.parametrize("options", [{}, {"metric_mds": False}, {"n_landmarks": 40}])
def test_the_number_of_blas_threads_changes_no_bit(n, options):
    X = table(n)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            model = quietly(MDS(2, max_iter=20, **options), X)
            found.append((model.embedding_, model.transform(X[:9] + 0.1), model.stress_))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metric_mds": False},
        {"n_landmarks": 20},
        {"init": "random", "n_init": 2, "random_state": 0},
        {"metric": "cityblock"},
        {"metric": "precomputed"},
        {"metric": "precomputed", "n_landmarks": 20},
    ],
)
def test_a_fitted_model_is_as_its_class_describes(options):
    X = table()
    rows = cdist(X, X) if options.get("metric") == "precomputed" else X
    model = quietly(MDS(2, max_iter=20, **options), rows)
    MDS.fitted_state.check(fields_of(model))
    model.embedding_ = model.embedding_[:-1]
    with pytest.raises(StateError):
        MDS.fitted_state.check(fields_of(model))


def test_landmarks_beyond_the_rows_are_not_as_described():
    model = quietly(MDS(2, n_landmarks=20, max_iter=20), table())
    model.landmarks_[3] = 60
    with pytest.raises(StateError, match="landmarks_"):
        MDS.fitted_state.check(fields_of(model))


def test_the_old_name_of_the_metric_beside_the_new_one_is_refused():
    with pytest.raises(InputError, match="both `dissimilarity`"):
        MDS(dissimilarity="euclidean", metric="cosine").fit(table())
