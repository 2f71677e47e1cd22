"""M = P P^T: one form of P, and every use of it says the same distance."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.neighbors
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import nearfold
from nearfold.errors import InputError, NonFiniteError, SolverError
from nearfold.metrics.covariance import Covariance
from nearfold.metrics.mahalanobis import (
    MahalanobisDistance,
    MahalanobisMetric,
    count_kept,
    factor_map,
    factor_metric,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 5)) @ rng.normal(size=(5, 5))
PAIRS = np.stack([X[:-1], X[1:]], axis=1)


class Given(MahalanobisMetric):
    """Has the metric it is given."""

    def __init__(self, M=None, rank=None):
        self.M = M
        self.rank = rank

    def fit(self, X, y=None):
        X = nearfold.inputs.check_table(self, X, reset=True)
        self._set_metric(self.M, X.dtype, self.rank)
        return self


def psd(d=5, rank=5, seed=0, decay=0.5):
    U = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]
    lam = np.where(np.arange(d) < rank, decay ** np.arange(d), 0)
    return (U * lam) @ U.T


def rotation(n, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


# ---- the factor ----------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 10**6), st.floats(-8, 8))
def test_the_factor_has_one_form(d, rank, seed, scale):
    rank = min(d, rank)
    M = psd(d, rank, seed) * 10.0**scale
    P_t = factor_metric(M)
    assert P_t.shape == (rank, d)
    np.testing.assert_allclose(P_t.T @ P_t, M, atol=1e-12 * M.max())
    gram = P_t @ P_t.T  # the eigenvalues, largest first
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12 * M.max())
    assert (np.diff(np.diag(gram)) < 0).all()
    for k in range(3):
        L = rotation(rank, seed + k) @ P_t
        np.testing.assert_allclose(factor_map(L), P_t, atol=1e-9 * np.abs(P_t).max())
    tall = rotation(rank + 3, seed)[:, :rank] @ P_t  # more rows than the rank
    np.testing.assert_allclose(factor_map(tall), P_t, atol=1e-9 * np.abs(P_t).max())


def test_the_factor_has_one_form_where_eigenvalues_are_equal():
    """As for M = I or a projection (LFDA 'orthonormalized'): L and R L are the same metric."""
    Q = rotation(5)[:2]
    a, b = factor_map(Q), factor_map(rotation(2, 1) @ Q)
    np.testing.assert_allclose(a, b, atol=1e-10)


def test_rounding_does_not_add_to_the_rank():
    M = psd(8, 3)
    noise = 1e-16 * np.random.default_rng(0).normal(size=(8, 8))
    assert len(factor_metric(M + noise)) == 3
    assert len(factor_metric(np.diag([1.0, 1e-6, 0.0, -1e-17]))) == 2
    assert len(factor_map(np.diag([1.0, 1e-6, 1e-17]))) == 2


def test_signs_are_fixed():
    P_t = factor_metric(psd())
    assert (P_t[np.arange(5), np.abs(P_t).argmax(axis=1)] > 0).all()


@pytest.mark.parametrize("factor", [factor_metric, factor_map])
def test_what_is_not_finite_is_an_error(factor):
    with pytest.raises(SolverError, match="not finite"):
        factor(np.array([[1.0, np.nan], [np.nan, 1.0]]))


def test_the_metric_zero_is_an_error():
    with pytest.raises(SolverError, match="the metric 0"):
        Given(np.zeros((5, 5))).fit(X)


# ---- low rank ------------------------------------------------------------------------


def test_truncation_by_rank_and_by_share():
    M = psd(decay=0.5)  # eigenvalues 1, 1/2, 1/4, 1/8, 1/16
    model = Given(M).fit(X)
    share = np.cumsum(0.5 ** np.arange(5)) / np.sum(0.5 ** np.arange(5))
    for rank in range(1, 6):
        short = model.truncate(rank)
        assert short.rank_ == rank == model.truncate(float(share[rank - 1])).rank_
        np.testing.assert_array_equal(short.components_, model.components_[:rank])
        np.testing.assert_array_equal(Given(M, rank).fit(X).components_, short.components_)
        if rank < 5:
            assert model.truncate(float(share[rank - 1]) + 1e-6).rank_ == rank + 1
        lam = np.linalg.eigvalsh(M - short.get_mahalanobis_matrix())  # the best of its rank
        assert lam[-1] == pytest.approx(0.5**rank if rank < 5 else 0, abs=1e-12)
    assert model.rank_ == 5  # a copy
    assert model.truncate(99).rank_ == 5
    assert model.truncate(1.0).rank_ == 5
    assert model.truncate(np.int64(2)).rank_ == 2


@pytest.mark.parametrize("rank", [0, -1, 0.0, 1.5, -0.5, np.nan, "two", None, True])
def test_impossible_ranks(rank):
    with pytest.raises(InputError, match="rank="):
        count_kept(factor_metric(psd()), rank)


# ---- distances -----------------------------------------------------------------------


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_use_says_the_same_distance(rank, dtype):
    model = Given(psd(), rank).fit(X.astype(dtype))
    pairs = PAIRS.astype(dtype)
    v = (pairs[:, 0] - pairs[:, 1]).astype(np.float64)
    M = model.get_mahalanobis_matrix()
    expected = np.sqrt(np.einsum("ij,jk,ik->i", v, M, v))
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    close = {"rtol": rtol, "atol": rtol * expected.max()}
    np.testing.assert_allclose(model.pair_distance(pairs), expected, **close)
    np.testing.assert_allclose(model.pair_score(pairs), -expected, **close)
    Z = model.transform(X.astype(dtype))
    assert Z.dtype == model.components_.dtype == dtype
    assert Z.shape == (30, model.rank_)
    np.testing.assert_allclose(np.linalg.norm(Z[:-1] - Z[1:], axis=1), expected, **close)
    distance = model.get_metric()
    np.testing.assert_allclose([distance(u, w) for u, w in pairs], expected, **close)
    squared = [distance(u, w, squared=True) for u, w in pairs]
    np.testing.assert_allclose(squared, expected**2, rtol=10 * rtol, atol=rtol)
    parts = model.explain_pairs(pairs)
    assert parts.shape == (29, 5)
    np.testing.assert_allclose(parts.sum(axis=1), expected**2, rtol=10 * rtol, atol=rtol)


def test_distances_are_a_pseudo_metric():
    distance = Given(psd(rank=2)).fit(X).get_metric()
    for i in range(10):
        u, v, w = X[i], X[i + 1], X[i + 2]
        assert distance(u, u) == 0
        assert distance(u, v) == pytest.approx(distance(v, u))
        assert distance(u, w) <= distance(u, v) + distance(v, w) + 1e-12


def test_the_distance_is_a_callable_that_can_be_pickled():
    model = Covariance().fit(X)
    distance = pickle.loads(pickle.dumps(model.get_metric()))
    assert isinstance(distance, MahalanobisDistance)
    assert distance(X[0], X[1]) == model.get_metric()(X[0].tolist(), X[1].tolist())
    assert distance(X[:1], X[1:2]) == distance(X[0], X[1])  # rows of a table, as in metric-learn
    with pytest.raises(InputError, match="vectors of 5 values"):
        distance(X[0][:3], X[0][:3])
    with pytest.raises(InputError, match="should be 1-D"):
        distance(X[:2], X[:2])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    kept = distance.components.copy()
    model.components_ *= 2  # the distance is its own
    np.testing.assert_array_equal(distance.components, kept)


def test_neighbours_by_the_learner_and_by_its_distance():
    y = np.arange(30) % 3
    model = Covariance().fit(X)
    theirs = sklearn.neighbors.KNeighborsClassifier(3, metric=model.get_metric()).fit(X, y)
    Z = model.transform(X)
    expected = sklearn.neighbors.KNeighborsClassifier(3).fit(Z, y)
    Q = X + 0.1
    np.testing.assert_array_equal(theirs.predict(Q), expected.predict(model.transform(Q)))
    ours = nearfold.KNeighborsClassifier(3, metric=model).fit(X, y)
    np.testing.assert_array_equal(ours.predict(Q), theirs.predict(Q))


# ---- columns -------------------------------------------------------------------------


def test_weights_of_columns():
    M = psd()
    model = Given(M).fit(X)
    np.testing.assert_allclose(model.column_weights(), np.diag(M))
    np.testing.assert_allclose(model.column_pair_weights(), M, atol=1e-14)
    parts = model.column_pair_weights(X)
    i, j = np.triu_indices(30, 1)
    v = X[i] - X[j]
    literal = np.einsum("ni,ij,nj->ij", v, M, v)
    np.testing.assert_allclose(parts, literal / literal.sum(), atol=1e-12)
    np.testing.assert_allclose(model.column_weights(X), parts.sum(axis=1))
    assert model.column_weights(X).sum() == pytest.approx(1)
    mean = model.explain_pairs(np.stack([X[i], X[j]], axis=1)).mean(axis=0)
    np.testing.assert_allclose(model.column_weights(X), mean / mean.sum(), atol=1e-12)
    with pytest.raises(ValueError, match="4 features"):
        model.column_weights(X[:, :4])
    one = Given(np.array([[2.0]])).fit(X[:, :1])
    np.testing.assert_allclose(one.column_weights(X[:, :1]), [1])


def test_weights_of_equal_rows_are_refused_or_finite():
    model = Given(psd()).fit(X)
    try:
        weights = model.column_weights(np.ones((4, 5)))
    except InputError:
        return
    assert np.isfinite(weights).all()


# ---- scikit-learn's words --------------------------------------------------------------


def test_feature_names():
    model = Given(psd(), 2).fit(X)
    assert model.get_feature_names_out().tolist() == ["given0", "given1"]
    assert Covariance().fit(X).truncate(3).get_feature_names_out().tolist() == [
        f"covariance{i}" for i in range(3)
    ]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_in_and_out(frame):
    names = list("abcde")
    rows = frame(dict(zip(names, X.T, strict=True)))
    kind = "pandas" if frame is pd.DataFrame else "polars"
    model = Covariance().set_output(transform=kind).fit(rows)
    Z = model.transform(rows)
    assert isinstance(Z, frame)
    assert list(Z.columns) == [f"covariance{i}" for i in range(5)]
    assert model.feature_names_in_.tolist() == names
    np.testing.assert_allclose(Z.to_numpy(), Covariance().fit_transform(X))
    np.testing.assert_allclose(model.column_weights(rows).sum(), 1)


def test_transform_is_row_wise_and_linear():
    model = Given(psd()).fit(X)
    Z = model.transform(X)
    np.testing.assert_allclose(Z, np.vstack([model.transform(x[None]) for x in X]), atol=1e-13)
    np.testing.assert_allclose(model.transform(2 * X), 2 * Z, atol=1e-12)


def test_nothing_works_before_fit():
    model = Covariance()
    for call in (
        lambda: model.transform(X),
        lambda: model.get_metric(),
        lambda: model.get_mahalanobis_matrix(),
        lambda: model.pair_distance(PAIRS),
        lambda: model.explain_pairs(PAIRS),
        lambda: model.truncate(1),
        lambda: model.column_weights(),
    ):
        with pytest.raises(NotFittedError):
            call()


def test_pairs_are_checked():
    model = clone(Covariance()).fit(X)
    with pytest.raises(InputError, match="3D array of formed tuples expected by Covariance"):
        model.pair_distance(X)
    with pytest.raises(InputError, match="there are no pairs"):
        model.pair_distance(np.zeros((0, 2, 5)))
    with pytest.raises(NonFiniteError):
        model.pair_distance(np.full((1, 2, 5), np.nan))
    with pytest.raises(InputError, match="4 features"):
        model.explain_pairs(PAIRS[:, :, :4])


def test_a_metric_before_a_linear_map():
    metric = Given(psd(3)).fit(X[:, :3])
    A = np.random.default_rng(2).normal(size=(3, 5))
    A[:, 1] = 0.0
    earlier = metric.before(A)
    assert np.allclose(earlier.get_mahalanobis_matrix(), A.T @ psd(3) @ A)
    assert np.allclose(earlier.pair_distance(PAIRS), metric.pair_distance(PAIRS @ A.T))
    assert earlier.unused_columns_.tolist() == [1]
    assert earlier.n_features_in_ == 5
    assert metric.n_features_in_ == 3  # the metric itself is not changed
    with pytest.raises(InputError, match="no column"):
        metric.before(np.zeros((3, 5)))
