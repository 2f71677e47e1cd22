"""Classical MDS against (10.10)-(10.12), against scikit-learn, and every way against the others."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.manifold
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import pairwise_distances

import nearfold
from nearfold import PCA, ClassicalMDS
from nearfold.errors import (
    ApproximationWarning,
    InputError,
    MemoryBudgetError,
    NearfoldError,
    NearfoldWarning,
    NonFiniteError,
)
from nearfold.linalg import fix_signs
from nearfold.methods.landmark_mds import spread_landmarks
from nearfold.state import StateError, fields_of

FOUR_CYCLE = np.array([[0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0]], dtype=float)
TRIANGLE = np.array([[0, 3, 5], [3, 0, 4], [5, 4, 0]], dtype=float)


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


def table(m=80, d=5, seed=0, dtype=np.float64, offset=0.0):
    """Full rank, with standard deviations from 3 to 0.5 along random axes."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (rng.normal(size=(m, d)) * np.linspace(3, 0.5, d) @ Q + offset).astype(dtype)


def literal_mds(D):
    """All eigenvalues of B, largest first, and Z = V lam^(1/2), entry by entry. (10.7)-(10.12)"""
    D = np.asarray(D, dtype=np.float64)
    m = len(D)
    B = np.empty((m, m))
    rows = [sum(D[i, j] ** 2 for j in range(m)) / m for i in range(m)]
    columns = [sum(D[i, j] ** 2 for i in range(m)) / m for j in range(m)]
    grand = sum(rows) / m
    for i in range(m):
        for j in range(m):
            B[i, j] = -0.5 * (D[i, j] ** 2 - rows[i] - columns[j] + grand)
    lam, V = np.linalg.eigh(B)
    lam, V = lam[::-1], V[:, ::-1]
    return lam, V * np.sqrt(np.maximum(lam, 0))


def quietly(model, *args):
    """Fit a metric that is not Euclidean, which is warned of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the distances are not Euclidean", NearfoldWarning)
        return model.fit(*args)


def same_up_to_sign(Z, W, atol):
    np.testing.assert_allclose(fix_signs(Z.T), fix_signs(W.T), rtol=0, atol=atol)


METRICS = ["cityblock", "cosine", "chebyshev", "canberra", "correlation"]


# ---- the formula ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("metric", ["euclidean", *METRICS])
def test_against_the_formula(metric, k, dtype):
    X = table(dtype=dtype)
    D = cdist(X.astype(float), X.astype(float), metric=metric)
    lam, Z = literal_mds(D)
    model = quietly(ClassicalMDS(k, metric=metric), X)
    eps = np.finfo(dtype).eps
    assert model.embedding_.dtype == model.eigenvalues_.dtype == dtype
    np.testing.assert_allclose(model.eigenvalues_, lam[:k], rtol=0, atol=300 * eps * lam[0])
    k = min(k, 4)  # "correlation" has rank 4
    same_up_to_sign(model.embedding_[:, :k], Z[:, :k], 3000 * eps * np.sqrt(lam[0]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_precomputed_against_the_formula(metric, dtype):
    D = cdist(table(), table(), metric=metric).astype(dtype)
    lam, Z = literal_mds(D)
    model = quietly(ClassicalMDS(3, metric="precomputed"), D)
    eps = np.finfo(dtype).eps
    assert model.embedding_.dtype == dtype
    np.testing.assert_allclose(model.eigenvalues_, lam[:3], rtol=300 * eps)
    same_up_to_sign(model.embedding_, Z[:, :3], 3000 * eps * np.sqrt(lam[0]))


def test_euclidean_distances_come_back_exactly():
    X = table(60, 4)
    D = cdist(X, X)
    for model in (ClassicalMDS(4), ClassicalMDS(4, metric="precomputed")):
        Z = model.fit_transform(X if model.metric == "euclidean" else D)
        np.testing.assert_allclose(cdist(Z, Z), D, atol=1e-11)
        np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose((Z**2).sum(axis=0), model.eigenvalues_, rtol=1e-10)
        assert model.negative_share_ == 0


def test_a_right_triangle():
    Z = ClassicalMDS(2, metric="precomputed").fit_transform(TRIANGLE)
    np.testing.assert_allclose(cdist(Z, Z), TRIANGLE, atol=1e-13)


def test_signs_follow_the_rule_of_the_package():
    X = table()
    for model in (
        quietly(ClassicalMDS(3, metric="cityblock"), X),
        ClassicalMDS(3, n_landmarks=30).fit(X),
    ):
        Z = model.embedding_
        np.testing.assert_array_equal(Z.T, fix_signs(Z.T))


# ---- scikit-learn --------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("metric", ["euclidean", *METRICS, "sqeuclidean", "braycurtis"])
def test_agrees_with_scikit_learn(metric, k):
    X = np.abs(table())
    theirs = sklearn.manifold.ClassicalMDS(k, metric=metric).fit(X)
    ours = quietly(ClassicalMDS(k, metric=metric), X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    scale = np.sqrt(theirs.eigenvalues_[0])
    same_up_to_sign(ours.embedding_, theirs.embedding_, 1e-7 * scale)
    np.testing.assert_allclose(
        ours.dissimilarity_matrix_, theirs.dissimilarity_matrix_, rtol=1e-7, atol=1e-7
    )
    assert ours.n_features_in_ == theirs.n_features_in_


@pytest.mark.parametrize("p", [1, 2, 3])
def test_metric_params(p):
    X = table()
    theirs = sklearn.manifold.ClassicalMDS(2, metric="minkowski", metric_params={"p": p}).fit(X)
    ours = quietly(ClassicalMDS(2, metric="minkowski", metric_params={"p": p}), X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    same_up_to_sign(ours.embedding_, theirs.embedding_, 1e-7)


def test_a_function_is_a_metric():
    X = table(40)
    ours = ClassicalMDS(2, metric=lambda a, b: np.sqrt(((a - b) ** 2).sum())).fit(X)
    same_up_to_sign(ours.embedding_, ClassicalMDS(2).fit_transform(X), 1e-10)


@pytest.mark.parametrize("metric", ["seuclidean", "mahalanobis"])
def test_metrics_with_a_scale_of_their_own(metric):
    X = table() * [1, 10, 1, 0.1, 3]
    theirs = sklearn.manifold.ClassicalMDS(2, metric=metric).fit(X)
    ours = quietly(ClassicalMDS(2, metric=metric), X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-7)
    np.testing.assert_allclose(ours.transform(X), ours.embedding_, atol=1e-7)


# ---- laws ----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(80, 5), (6, 40)])
def test_on_euclidean_distances_it_is_pca(shape):
    X, k = table(*shape), 4
    pca = PCA(k).fit(X)
    Z = pca.transform(X)
    for model, given in (
        (ClassicalMDS(k), X),
        (ClassicalMDS(k, metric="precomputed"), cdist(X, X)),
        (ClassicalMDS(k, n_landmarks=shape[0]), X),
    ):
        model.fit(given)
        same_up_to_sign(model.embedding_, Z, 1e-9)
        np.testing.assert_allclose(model.eigenvalues_, pca.singular_values_**2, rtol=1e-9)


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "cosine"])
def test_with_all_rows_as_landmarks_it_is_exact(metric, k):
    X = table()
    exact = quietly(ClassicalMDS(k, metric=metric), X)
    landmarks = quietly(ClassicalMDS(k, metric=metric, n_landmarks=80), X)
    assert sorted(landmarks.landmarks_.tolist()) == list(range(80))
    same_up_to_sign(landmarks.embedding_, exact.embedding_, 1e-9)
    np.testing.assert_allclose(landmarks.eigenvalues_, exact.eigenvalues_, rtol=1e-9)


def test_landmarks_place_euclidean_rows_exactly():
    X = table(200, 4)
    model = ClassicalMDS(4, n_landmarks=12).fit(X)
    assert len(set(model.landmarks_.tolist())) == 12
    assert "12 landmarks of 200 rows" in model.approximation_
    np.testing.assert_allclose(cdist(model.embedding_, model.embedding_), cdist(X, X), atol=1e-9)
    same_up_to_sign(model.embedding_, ClassicalMDS(4).fit_transform(X), 1e-9)


def test_landmarks_of_other_metrics_come_near():
    X = table(400, 3)
    exact = quietly(ClassicalMDS(2, metric="cityblock"), X)
    some = quietly(ClassicalMDS(2, metric="cityblock", n_landmarks=150), X)
    a, b = cdist(exact.embedding_, exact.embedding_), cdist(some.embedding_, some.embedding_)
    assert np.linalg.norm(a - b) < 0.1 * np.linalg.norm(a)


def test_landmarks_are_spread_by_max_min():
    X = table(60, 3)
    D = cdist(X, X)
    rows, kept = spread_landmarks(lambda i: D[i], 60, 10, np.float64)
    np.testing.assert_array_equal(kept, D[:, rows])
    for i in range(1, 10):
        nearest = D[rows[:i]].min(axis=0)
        assert nearest[rows[i]] == nearest.max()


def test_landmarks_are_never_twice_even_among_duplicates():
    D = np.zeros((7, 7))
    rows, _ = spread_landmarks(lambda i: D[i], 7, 7, np.float64)
    assert sorted(rows.tolist()) == list(range(7))


@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_float32_is_near_float64(metric):
    X = table()
    small = quietly(ClassicalMDS(3, metric=metric), X.astype(np.float32))
    large = quietly(ClassicalMDS(3, metric=metric), X)
    assert small.transform(X.astype(np.float32)).dtype == np.float32
    same_up_to_sign(small.embedding_, large.embedding_, 1e-4)
    assert small.negative_share_ == pytest.approx(large.negative_share_, rel=1e-3)


def test_scaling_the_distances_scales_the_coordinates():
    D = cdist(table(), table())
    for scale in (1e-30, 1e-3, 1e30):
        Z = ClassicalMDS(2, metric="precomputed").fit_transform(scale * D)
        same_up_to_sign(Z / scale, ClassicalMDS(2).fit_transform(table()), 1e-10)


# ---- negative eigenvalues ------------------------------------------------------------


def test_a_four_cycle_is_clamped_and_warned_of():
    with pytest.warns(NearfoldWarning, match=r"not Euclidean.*20\.0%.*coordinates asked") as seen:
        model = ClassicalMDS(4, metric="precomputed").fit(FOUR_CYCLE)
    assert len(seen) == 1
    lam, _ = literal_mds(FOUR_CYCLE)
    np.testing.assert_allclose(lam, [2, 2, 0, -1], atol=1e-14)
    np.testing.assert_allclose(model.eigenvalues_, [2, 2, 0, 0], atol=1e-14)
    assert np.isfinite(model.embedding_).all()
    np.testing.assert_array_equal(model.embedding_[:, 2:], 0)
    assert model.negative_share_ == pytest.approx(-lam[lam < 0].sum() / np.abs(lam).sum())
    Z = model.embedding_  # opposite corners are at 2, neighbours at sqrt 2
    np.testing.assert_allclose(cdist(Z, Z)[0], [0, 2**0.5, 2, 2**0.5], atol=1e-13)
    np.testing.assert_allclose(model.transform(FOUR_CYCLE), Z, atol=1e-13)


@pytest.mark.parametrize("metric", ["cityblock", "chebyshev", "sqeuclidean"])
def test_negative_share_is_that_of_the_full_spectrum(metric):
    X = table(120)
    lam, _ = literal_mds(cdist(X, X, metric=metric))
    share = -lam[lam < 0].sum() / np.abs(lam).sum()
    with pytest.warns(NearfoldWarning, match="not Euclidean"):
        model = ClassicalMDS(2, metric=metric).fit(X)
    assert model.negative_share_ == pytest.approx(share, rel=1e-8)


def test_negative_share_of_many_rows_is_estimated():
    X = table(1100)
    D = cdist(X, X, metric="cityblock")
    B = -0.5 * (D**2 - (D**2).mean(axis=0) - (D**2).mean(axis=1, keepdims=True) + (D**2).mean())
    lam = np.linalg.eigvalsh(B)
    with pytest.warns(NearfoldWarning, match="hold about"):
        model = ClassicalMDS(2, metric="precomputed").fit(D)
    share = -lam[lam < 0].sum() / np.abs(lam).sum()
    assert model.negative_share_ == pytest.approx(share, abs=0.02)


def test_the_largest_eigenvalues_are_algebraic_not_by_magnitude():
    """Two tight groups at a distance of 1, whose members are at a distance of 1.9."""
    half = np.arange(20) % 2
    D = np.where(half[:, None] == half, 1.9, 1.0)
    np.fill_diagonal(D, 0)
    lam, _ = literal_mds(D)
    assert -lam[-1] > lam[0]  # the largest by magnitude is negative
    with pytest.warns(NearfoldWarning, match="not Euclidean"):
        model = ClassicalMDS(3, metric="precomputed").fit(D)
    np.testing.assert_allclose(model.eigenvalues_, lam[:3], rtol=1e-10)
    assert (model.eigenvalues_ > 0).all()


def test_euclidean_distances_are_not_warned_of():
    for dtype in (np.float64, np.float32):
        for offset in (0, 1e3):
            X = table(150, offset=offset)
            D = cdist(X, X).astype(dtype)
            assert ClassicalMDS(5, metric="precomputed").fit(D).negative_share_ == 0
            model = ClassicalMDS(5, metric=lambda a, b: np.linalg.norm(a - b)).fit(X[:40])
            assert model.negative_share_ == 0


def test_landmarks_report_negative_eigenvalues_too():
    with pytest.warns(NearfoldWarning, match="not Euclidean"):
        model = ClassicalMDS(2, metric="precomputed", n_landmarks=4).fit(FOUR_CYCLE)
    assert model.negative_share_ == pytest.approx(0.2)


# ---- new rows ------------------------------------------------------------------------

ROUTES = {
    "pca": {},
    "cityblock": {"metric": "cityblock"},
    "cosine": {"metric": "cosine"},
    "function": {"metric": lambda a, b: np.abs(a - b).max()},
    "landmarks": {"n_landmarks": 25},
    "cityblock landmarks": {"metric": "cityblock", "n_landmarks": 25},
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("route", ROUTES)
def test_fitted_rows_come_back_and_transform_is_row_wise(route, dtype):
    X, new = table(dtype=dtype), table(9, seed=1, dtype=dtype)
    model = quietly(ClassicalMDS(3, **ROUTES[route]), X)
    atol = 1e4 * np.finfo(dtype).eps
    np.testing.assert_allclose(model.transform(X), model.embedding_, rtol=0, atol=atol)
    Z = model.transform(new)
    assert Z.dtype == dtype
    assert Z.shape == (9, 3)
    alone = np.vstack([model.transform(row[None]) for row in new])
    np.testing.assert_allclose(Z, alone, rtol=0, atol=atol)


@pytest.mark.parametrize("n_landmarks", [None, 25])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_new_rows_by_their_distances(metric, n_landmarks):
    X, new = table(), table(9, seed=1)
    D, D_new = cdist(X, X, metric=metric), cdist(new, X, metric=metric)
    model = quietly(ClassicalMDS(3, metric="precomputed", n_landmarks=n_landmarks), D)
    np.testing.assert_allclose(model.transform(D), model.embedding_, atol=1e-11)
    Z = model.transform(D_new)
    alone = np.vstack([model.transform(row[None]) for row in D_new])
    np.testing.assert_allclose(Z, alone, atol=1e-12)
    features = quietly(ClassicalMDS(3, metric=metric, n_landmarks=n_landmarks), X)
    signs = np.sign((features.embedding_ * model.embedding_).sum(axis=0))
    np.testing.assert_allclose(Z, features.transform(new) * signs, atol=1e-9)


def test_new_rows_are_gowers_formula():
    X, new = table(), table(9, seed=1)
    D, D_new = cdist(X, X, "cityblock"), cdist(new, X, "cityblock")
    model = quietly(ClassicalMDS(3, metric="cityblock"), X)
    B_new = -0.5 * (D_new**2 - (D_new**2).mean(axis=1, keepdims=True))
    B_new -= -0.5 * ((D**2).mean(axis=1) - (D**2).mean())  # centred with *training* means
    lam = (model.embedding_**2).sum(axis=0)
    np.testing.assert_allclose(model.transform(new), B_new @ model.embedding_ / lam, atol=1e-10)


def test_a_new_row_of_a_euclidean_space_is_placed_exactly():
    X, new = table(50, 3), table(9, 3, seed=1)
    D = cdist(X, X)
    model = ClassicalMDS(3, metric="precomputed").fit(D)
    Z = model.transform(cdist(new, X))
    np.testing.assert_allclose(cdist(Z, model.embedding_), cdist(new, X), atol=1e-10)


def test_coordinates_beyond_the_rank_stay_zero_for_new_rows():
    X = np.c_[table(40, 2), np.zeros((40, 2))]
    for options in ({}, {"n_landmarks": 20}, {"metric": lambda a, b: np.linalg.norm(a - b)}):
        model = ClassicalMDS(4, **options).fit(X)
        Z = model.transform(X[:5] + np.array([1, 1, 0, 0]))
        assert np.isfinite(Z).all()
        np.testing.assert_allclose(Z[:, 2:], 0, atol=1e-6)


# ---- dissimilarity_matrix_ -----------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"n_landmarks": 20}, {"metric": "cityblock"}])
def test_dissimilarity_matrix_is_that_of_the_rows(options):
    X = table()
    model = quietly(ClassicalMDS(2, **options), X)
    want = pairwise_distances(X, metric=options.get("metric", "euclidean"))
    np.testing.assert_allclose(model.dissimilarity_matrix_, want, atol=1e-7)


def test_dissimilarity_matrix_of_precomputed_distances_is_given_back():
    model = ClassicalMDS(2, metric="precomputed").fit(TRIANGLE)
    np.testing.assert_array_equal(model.dissimilarity_matrix_, TRIANGLE)
    assert not hasattr(ClassicalMDS(), "dissimilarity_matrix_")


@pytest.mark.parametrize("then", [{"metric": "euclidean"}, {"n_landmarks": 20}])
def test_dissimilarity_matrix_is_that_of_the_last_fit(then):
    model = quietly(ClassicalMDS(2, metric="cityblock"), table())
    quietly(model.set_params(**then), table(30))
    assert model.dissimilarity_matrix_.shape == (30, 30)


def test_dissimilarity_matrix_of_a_file_is_there_or_clearly_not(tmp_path):
    np.save(tmp_path / "x.npy", table())
    model = ClassicalMDS(2).fit(tmp_path / "x.npy")
    if hasattr(model, "dissimilarity_matrix_"):
        np.testing.assert_allclose(model.dissimilarity_matrix_, cdist(table(), table()), atol=1e-7)


# ---- frames, pickles, files ----------------------------------------------------------


@pytest.mark.parametrize("route", [r for r in ROUTES if r != "function"])
def test_pickle_round_trip(route):
    X = table()
    model = quietly(ClassicalMDS(3, **ROUTES[route]), X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(again.embedding_, model.embedding_)


def test_the_pca_way_does_not_carry_the_rows():
    X = table(3000, 20)
    assert len(pickle.dumps(ClassicalMDS(2).fit(X))) < X.nbytes / 2


@pytest.mark.parametrize("metric", ["euclidean", nearfold.Covariance()])
@pytest.mark.parametrize("make", [ClassicalMDS, nearfold.MDS])
def test_of_landmark_models_only_the_landmarks_are_carried(make, metric):
    X = table(3000, 20)
    model = make(2, n_landmarks=30, metric=metric).fit(X)
    stored = pickle.dumps(model)
    assert len(stored) < X.nbytes / 2
    again = pickle.loads(stored)
    np.testing.assert_array_equal(again.transform(X[:50]), model.transform(X[:50]))
    np.testing.assert_allclose(again.transform(X[:50]), model.embedding_[:50], atol=1e-6)


def test_clone_keeps_parameters_and_nothing_fitted():
    model = ClassicalMDS(3, metric="cityblock", n_landmarks=7, n_jobs=2)
    quietly(model, table())
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "embedding_")


@pytest.mark.parametrize("options", [{}, {"metric": "cityblock"}, {"n_landmarks": 20}])
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_in_and_out(frame, options):
    names = list("abcde")
    X = table()
    given = frame(dict(zip(names, X.T, strict=True)))
    kind = "pandas" if frame is pd.DataFrame else "polars"
    model = quietly(ClassicalMDS(2, **options).set_output(transform=kind), given)
    assert list(model.feature_names_in_) == names
    assert list(model.get_feature_names_out()) == ["classicalmds0", "classicalmds1"]
    Z = model.transform(given)
    assert isinstance(Z, frame)
    assert list(Z.columns) == ["classicalmds0", "classicalmds1"]
    np.testing.assert_allclose(
        Z.to_numpy(), quietly(ClassicalMDS(2, **options), X).embedding_, atol=1e-10
    )
    assert isinstance(model.embedding_, np.ndarray)


def test_columns_renamed_or_missing_are_an_error():
    names = list("abcde")
    model = ClassicalMDS(2).fit(pd.DataFrame(table(), columns=names))
    with pytest.raises(ValueError, match="feature names"):
        model.transform(pd.DataFrame(table(), columns=list("abcdx")))
    with pytest.raises(ValueError, match="features"):
        ClassicalMDS(2).fit(table()).transform(table(d=4))


def test_a_file_is_read_in_blocks(tmp_path):
    X = table(2500)
    np.save(tmp_path / "x.npy", X)
    nearfold.set_memory("1MB")
    model = ClassicalMDS(2).fit(tmp_path / "x.npy")
    nearfold.set_memory(None)
    np.testing.assert_allclose(model.embedding_, ClassicalMDS(2).fit_transform(X), atol=1e-10)
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-10)
    with pytest.raises(InputError, match="a file needs metric='euclidean'"):
        ClassicalMDS(2, metric="cityblock").fit(tmp_path / "x.npy")


# ---- what is refused -----------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"metric": "cityblock"}, {"n_landmarks": 20}])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_are_named_by_row_and_column(bad, options):
    X = table()
    X[7, 3] = X[11, 3] = bad
    kind = "NaN" if np.isnan(bad) else "inf"
    with pytest.raises(NonFiniteError, match=rf"2 {kind} \(column 3: 2; first rows: \[7, 11\]"):
        ClassicalMDS(2, **options).fit(X)
    model = quietly(ClassicalMDS(2, **options), table())
    with pytest.raises(NonFiniteError, match=r"column 3: 2; first rows: \[7, 11\]"):
        model.transform(X)


def test_nan_in_a_distance_matrix_is_named():
    D = cdist(table(), table())
    D[5, 9] = D[9, 5] = np.nan
    with pytest.raises(NonFiniteError, match=r"column 5: 1, column 9: 1; first rows: \[5, 9\]"):
        ClassicalMDS(2, metric="precomputed").fit(D)


@pytest.mark.parametrize("n", [30, 1100])
def test_matrices_that_are_no_distances_show_the_entry(n):
    X = table(n, 3)
    D = cdist(X, X)
    i, j = n - 5, 3

    def refuse(message, change):
        broken = D.copy()
        change(broken)
        with pytest.raises(InputError, match=message):
            ClassicalMDS(2, metric="precomputed").fit(broken)

    def asymmetric(B):
        B[i, j] += 1

    def negative(B):
        B[i, j] = B[j, i] = -2.5

    def on_diagonal(B):
        B[i, i] = 0.75

    refuse(rf"symmetric: the distance from row {j} to row {i} is {D[j, i]:g}, back", asymmetric)
    refuse(rf"not negative: the one from row {j} to {i} is -2.5", negative)
    refuse(rf"the distance of row {i} to itself is 0.75, not 0", on_diagonal)
    with pytest.raises(InputError, match=f"this one is {n} x {n - 1}"):
        ClassicalMDS(2, metric="precomputed").fit(D[:, 1:])


def test_a_kernel_is_told_from_a_distance():
    X = table(30)
    with pytest.raises(InputError, match="A similarity or a kernel is not a distance"):
        ClassicalMDS(2, metric="precomputed").fit(np.exp(-cdist(X, X)))


def test_asymmetry_of_rounding_is_accepted():
    D = cdist(table(), table())
    D *= 1 + 1e-9 * np.random.default_rng(0).normal(size=D.shape)
    np.fill_diagonal(D, 1e-9)
    model = quietly(ClassicalMDS(2, metric="precomputed"), D)
    same_up_to_sign(model.embedding_, ClassicalMDS(2).fit_transform(table()), 1e-6)


@pytest.mark.parametrize("k", [0, -1, 1.5, "two", None])
def test_n_components_is_a_positive_whole_number(k):
    with pytest.raises(ValueError, match="'n_components' parameter of ClassicalMDS must be"):
        ClassicalMDS(k).fit(table())


@pytest.mark.parametrize("count", [0, 2, 81])
def test_n_landmarks_must_be_enough_and_not_too_many(count):
    with pytest.raises(InputError, match=f"n_landmarks={count}: .* at most the 80 rows"):
        ClassicalMDS(2, n_landmarks=count).fit(table())


# ---- degenerate data -----------------------------------------------------------------

DEGENERATE = [{}, {"metric": "cityblock"}, {"metric": "chebyshev"}]


@pytest.mark.parametrize("options", DEGENERATE)
def test_constant_rows_are_all_at_zero(options):
    X = np.full((12, 3), 0.1)
    model = ClassicalMDS(2, **options).fit(X)
    np.testing.assert_array_equal(model.embedding_, np.zeros((12, 2)))
    np.testing.assert_array_equal(model.eigenvalues_, [0, 0])
    assert model.negative_share_ == 0
    assert np.isfinite(model.transform(X + 1)).all()


@pytest.mark.parametrize("options", DEGENERATE)
def test_one_row(options):
    model = ClassicalMDS(2, **options).fit(table(1))
    np.testing.assert_array_equal(model.embedding_, [[0, 0]])
    assert model.transform(table(1)).shape == (1, 2)
    np.testing.assert_array_equal(
        ClassicalMDS(2, metric="precomputed").fit_transform([[0.0]]), [[0, 0]]
    )


@pytest.mark.parametrize("options", DEGENERATE)
def test_duplicates_stay_together(options):
    X = np.repeat(table(20), 4, axis=0)
    Z = quietly(ClassicalMDS(3, **options), X).embedding_
    np.testing.assert_allclose(Z, np.repeat(Z[::4], 4, axis=0), atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"metric": lambda a, b: np.linalg.norm(a - b)}])
def test_components_beyond_the_rank_and_beyond_the_rows_are_zero(options):
    X = table(6, 3)
    X = np.c_[X, X @ np.ones(3)]
    model = ClassicalMDS(9, **options).fit(X)
    assert model.embedding_.shape == (6, 9)
    np.testing.assert_allclose(model.embedding_[:, 3:], 0, atol=1e-6)
    np.testing.assert_allclose(model.eigenvalues_[3:], 0, atol=1e-12)
    np.testing.assert_allclose(cdist(model.embedding_, model.embedding_), cdist(X, X), atol=1e-7)
    assert len(model.get_feature_names_out()) == 9


@pytest.mark.parametrize("options", [*DEGENERATE, {"n_landmarks": 30}])
def test_a_huge_offset_does_not_matter(options):
    near = quietly(ClassicalMDS(2, **options), table())
    far = quietly(ClassicalMDS(2, **options), table(offset=1e6))
    same_up_to_sign(far.embedding_, near.embedding_, 1e-7)
    np.testing.assert_allclose(far.transform(table(offset=1e6)), far.embedding_, atol=1e-7)


EXTREME = {**ROUTES, "precomputed": {"metric": "precomputed"}}


def right_or_refused(route, scale):
    """The coordinates divided by the scale are right, or there is an error of ours."""
    X, options = table(), EXTREME[route]
    if route == "precomputed":
        X = cdist(X, X)
    want = quietly(ClassicalMDS(2, **options), X).embedding_
    try:
        got = quietly(ClassicalMDS(2, **options), X * scale).embedding_
    except NearfoldError:
        return
    if route != "cosine":
        got = got / scale
    same_up_to_sign(got, want, 1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("route", [route for route in EXTREME if route != "cosine"])
@pytest.mark.parametrize("scale", [1e300, 1e200])
def test_values_whose_squares_overflow_are_right_or_refused(route, scale):
    right_or_refused(route, scale)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("scale", [1e300, 1e200, 1e-20, 1e-200])
def test_cosine_of_extreme_rows_is_right_or_refused(scale):
    right_or_refused("cosine", scale)


def test_values_whose_squares_vanish_are_refused():
    with pytest.raises(InputError, match="squares vanish"):
        ClassicalMDS(2).fit(table() * 1e-200)


@pytest.mark.parametrize(
    "route", ["precomputed", "cityblock", "function", "landmarks", "cityblock landmarks"]
)
def test_distances_whose_squares_vanish_are_right_or_refused(route):
    right_or_refused(route, 1e-200)


def test_equal_distances_are_a_simplex():
    D = 1 - np.eye(50)
    model = ClassicalMDS(49, metric="precomputed").fit(D)
    np.testing.assert_allclose(model.eigenvalues_, 0.5, rtol=1e-10)
    Z = model.embedding_
    np.testing.assert_allclose(cdist(Z, Z), D, atol=1e-7)


def test_equal_distances_of_many_rows_are_a_simplex():
    model = ClassicalMDS(2, metric="precomputed").fit(1 - np.eye(1000))
    np.testing.assert_allclose(model.eigenvalues_, 0.5, rtol=1e-9)


# ---- memory and threads --------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the distances are not Euclidean")
def test_beyond_the_budget_landmarks_are_used_and_said():
    X = table(400)
    exact = quietly(ClassicalMDS(2, metric="cityblock"), X)
    nearfold.set_memory("1MB")  # the distances alone need 1.2 MB
    with pytest.warns(ApproximationWarning, match=r"400 rows need 3\.1 MB.*landmark MDS with"):
        model = ClassicalMDS(2, metric="cityblock").fit(X)
    count = len(model.landmarks_)
    said = f"landmark MDS: {count} landmarks of 400 rows (memory budget 1.0 MB)"
    assert model.approximation_ == said
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-10)
    a, b = cdist(exact.embedding_, exact.embedding_), cdist(model.embedding_, model.embedding_)
    assert np.linalg.norm(a - b) < 0.2 * np.linalg.norm(a)
    with pytest.raises(MemoryBudgetError, match="The distances of 400 rows"):
        model.dissimilarity_matrix_


def test_the_euclidean_way_needs_no_distances_and_precomputed_ones_are_there_already():
    nearfold.set_memory("1MB")
    X = table(400)
    assert ClassicalMDS(2).fit(X).approximation_ is None
    assert ClassicalMDS(2, metric="precomputed").fit(cdist(X, X)).approximation_ is None


def test_a_budget_too_small_for_any_way_is_refused_with_numbers():
    nearfold.set_memory("10KB")
    with pytest.raises(MemoryBudgetError, match=r"fewest landmarks \(4\) needs about 125\.0 KB"):
        ClassicalMDS(2, metric="cityblock").fit(table(400))


@pytest.mark.parametrize("route", [*ROUTES, "precomputed"])
def test_threads_change_no_bit(route):
    X = table(700, 3) if route != "function" else table(60)
    if route == "precomputed":
        X = cdist(X, X, metric="cityblock")
    one, *others = [
        quietly(ClassicalMDS(2, n_jobs=n_jobs, **EXTREME[route]), X) for n_jobs in (1, 2, 3, None)
    ]
    for other in others:
        np.testing.assert_array_equal(one.embedding_, other.embedding_)
        np.testing.assert_array_equal(one.transform(X[:50]), other.transform(X[:50]))


def test_fit_and_fit_transform_are_one_and_twice_is_the_same():
    X, _ = load_iris(return_X_y=True)
    for options in ({}, {"metric": "cityblock"}, {"n_landmarks": 20}):
        a = quietly(ClassicalMDS(2, **options), X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NearfoldWarning)
            Z = ClassicalMDS(2, **options).fit_transform(X)
        np.testing.assert_array_equal(a.embedding_, Z)


def test_progress_is_reported():
    labels = set()
    with nearfold.progress(lambda label, done, total: labels.add(label)):
        quietly(ClassicalMDS(2, metric="cityblock"), table())
        ClassicalMDS(2, n_landmarks=10).fit(table())
    assert {"distances", "landmarks"} <= labels


# ---- learned metrics and state ---------------------------------------------------------


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("options", [{}, {"n_landmarks": 20}])
def test_a_learned_metric_is_mds_of_the_transformed_rows(fitted, options):
    X, y = table(), np.arange(len(table())) % 3
    known = nearfold.LFDA(n_components=2, k=3).fit(X, y)
    metric = known if fitted else nearfold.LFDA(n_components=2, k=3)
    model = quietly(ClassicalMDS(2, metric=metric, **options), X, y)
    want = quietly(ClassicalMDS(2, **options), known.transform(X))
    np.testing.assert_allclose(model.embedding_, want.embedding_, atol=1e-9)
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-8)
    new = table(seed=3)[:5]
    np.testing.assert_allclose(
        model.transform(new), want.transform(known.transform(new)), atol=1e-9
    )
    np.testing.assert_allclose(
        model.dissimilarity_matrix_, cdist(known.transform(X), known.transform(X)), atol=1e-7
    )


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "cityblock"},
        {"n_landmarks": 20},
        {"metric": "cityblock", "n_landmarks": 20},
        {"metric": "precomputed"},
        {"metric": "precomputed", "n_landmarks": 20},
    ],
)
def test_a_fitted_model_is_as_its_class_describes(options):
    X = table()
    rows = cdist(X, X) if options.get("metric") == "precomputed" else X
    model = quietly(ClassicalMDS(2, **options), rows)
    ClassicalMDS.fitted_state.check(fields_of(model))
    model.eigenvalues_ = model.eigenvalues_ * np.nan
    with pytest.raises(StateError, match="eigenvalues_"):
        ClassicalMDS.fitted_state.check(fields_of(model))


def test_landmarks_beyond_the_rows_are_not_as_described():
    model = quietly(ClassicalMDS(2, n_landmarks=20), table())
    model.landmarks_[3] = len(table())
    with pytest.raises(StateError, match="landmarks_"):
        ClassicalMDS.fitted_state.check(fields_of(model))
