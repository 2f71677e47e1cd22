"""Distance matrices in tiles against row-by-row differences."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nearfold.neighbors import distances
from nearfold.neighbors.distances import Distances

OTHERS = ["cityblock", "chebyshev", "cosine", "correlation", "canberra", "braycurtis"]


def literal(A, B):
    """sqrt sum (a - b)^2, pair by pair, in float64."""
    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    return np.array([[np.sqrt(((a - b) ** 2).sum()) for b in B] for a in A])


def table(n=60, d=4, seed=0, offset=0.0, dtype=np.float64):
    return (np.random.default_rng(seed).normal(size=(n, d)) + offset).astype(dtype)


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(distances, "_SIDE", 16)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_euclidean_is_the_formula_also_far_from_the_origin(offset, dtype, small_tiles):
    X, Q = table(offset=offset, dtype=dtype), table(7, seed=1, offset=offset, dtype=dtype)
    found = Distances(X)
    np.testing.assert_allclose(found.all(), literal(X, X), rtol=1e-8, atol=0)
    np.testing.assert_allclose(found.from_rows(Q), literal(Q, X), rtol=1e-8, atol=0)
    np.testing.assert_allclose(found.between(Q, X[:5]), literal(Q, X[:5]), rtol=1e-8, atol=0)


@pytest.mark.parametrize("near", [1e-3, 1e-6, 1e-9, 1e-12])
def test_near_pairs_keep_their_digits(near):
    X = table()
    Y = X + near * table(seed=1)
    D = Distances(np.vstack([X, Y])).all()
    pairs = D[np.arange(60), np.arange(60) + 60]
    np.testing.assert_allclose(
        pairs, np.linalg.norm(X - Y, axis=1), rtol=1e-3 * 1e-12 / near + 1e-8
    )


@pytest.mark.parametrize("metric", ["euclidean", *OTHERS])
def test_all_is_symmetric_with_a_zero_diagonal_and_of_the_dtype_asked(metric, small_tiles):
    measure = Distances(table(), metric)
    for dtype in (np.float64, np.float32):
        D = measure.all(dtype)
        assert D.dtype == dtype
        np.testing.assert_array_equal(D, D.T)
        np.testing.assert_array_equal(np.diagonal(D), 0)
        assert (D >= 0).all()


@pytest.mark.parametrize("metric", OTHERS)
def test_other_metrics_are_scikit_learns(metric, small_tiles):
    X, Q = table(), table(7, seed=1)
    measure = Distances(X, metric)
    np.testing.assert_allclose(
        measure.all(), sklearn.metrics.pairwise_distances(X, metric=metric), atol=1e-14
    )
    np.testing.assert_allclose(
        measure.from_rows(Q), sklearn.metrics.pairwise_distances(Q, X, metric=metric), atol=1e-14
    )


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_minkowski_takes_p_from_either_place(p):
    X = table()
    want = sklearn.metrics.pairwise_distances(X, metric="minkowski", p=p)
    np.testing.assert_allclose(Distances(X, "minkowski", {"p": p}).all(), want, rtol=1e-8)
    np.testing.assert_allclose(Distances(X, "minkowski", p=p).all(), want, rtol=1e-8)


def test_a_function_is_a_metric(small_tiles):
    X = table(30)

    def most(a, b, times):
        return times * np.abs(a - b).max()

    want = 2 * sklearn.metrics.pairwise_distances(X, metric="chebyshev")
    np.testing.assert_allclose(Distances(X, most, {"times": 2}).all(), want)


@pytest.mark.parametrize("metric", ["seuclidean", "mahalanobis"])
def test_metrics_with_a_scale_of_their_own_take_it_from_the_table(metric, small_tiles):
    X = table() * [1, 5, 10, 0.1]
    want = sklearn.metrics.pairwise_distances(X, metric=metric)
    measure = Distances(X, metric)
    np.testing.assert_allclose(measure.all(), want, rtol=1e-8)
    np.testing.assert_allclose(measure.from_rows(X[:3]), want[:3], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("metric", ["seuclidean", "mahalanobis"])
def test_metrics_with_a_scale_that_is_given(metric, small_tiles):
    X = table() * [1, 5, 10, 0.1]
    params = {
        "seuclidean": {"V": X.var(axis=0, ddof=1)},
        "mahalanobis": {"VI": np.linalg.inv(np.cov(X.T)).T},
    }[metric]
    want = sklearn.metrics.pairwise_distances(X, metric=metric, **params)
    np.testing.assert_allclose(Distances(X, metric, params).all(), want, rtol=1e-8)


def test_sparse_rows():
    X = sparse.random_array((40, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    D = Distances(X).all()
    np.testing.assert_allclose(D, literal(X.toarray(), X.toarray()), atol=1e-7)


def test_duplicates_and_a_constant_table_are_at_zero():
    X = np.repeat(table(10, offset=3.7), 3, axis=0)
    D = Distances(X).all()
    np.testing.assert_array_equal(D == 0, np.equal.outer(np.arange(30) // 3, np.arange(30) // 3))
    np.testing.assert_array_equal(Distances(np.full((5, 2), 0.1)).all(), np.zeros((5, 5)))


def test_a_row_is_at_zero_from_itself_in_any_block():
    X = table(50, 6, offset=1e5)
    for i in (0, 17, 49):
        assert Distances(X).from_rows(X[i : i + 1])[0, i] == 0.0


def test_one_row_and_no_rows():
    X = table(1)
    np.testing.assert_array_equal(Distances(X).all(), [[0.0]])
    assert Distances(X).from_rows(X[:0]).shape == (0, 1)


def test_threads_change_no_bit(small_tiles):
    X = table(90)
    one = Distances(X, n_jobs=1).all()
    for n_jobs in (2, 3, None):
        np.testing.assert_array_equal(Distances(X, n_jobs=n_jobs).all(), one)
        np.testing.assert_array_equal(Distances(X, n_jobs=n_jobs).from_rows(X), one)


def test_many_rows_go_through_many_tiles():
    X = table(1300, 3)
    D = Distances(X).all()
    for i in (0, 511, 512, 1024, 1299):
        np.testing.assert_allclose(D[i], np.linalg.norm(X - X[i], axis=1), rtol=1e-8)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 10**6), st.sampled_from([0, 1, 6]))
def test_any_small_table(n, d, seed, power):
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(n, d)) * 10.0 ** rng.integers(-power, power + 1, size=d)
    np.testing.assert_allclose(Distances(X).all(), literal(X, X), rtol=1e-7, atol=0)


@pytest.mark.parametrize("metric", ["cityblock", "cosine", "euclidean"])
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_sparse_rows_may_have_indices_of_64_bits(form, metric):
    """scikit-learn's sparse loops take 32 bits only."""
    X = sparse.csr_array(np.maximum(table(), 0))
    wide = X.asformat(form)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    expected = Distances(X.toarray(), metric).between(X.toarray(), X.toarray())
    np.testing.assert_allclose(Distances(wide, metric).between(wide, X), expected, atol=1e-7)
