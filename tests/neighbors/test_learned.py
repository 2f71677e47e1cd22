"""A learned metric inside the index: raw rows in, raw rows out."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from nearfold import LFDA, NCA, Covariance, KNeighborsClassifier, NearestNeighbors
from nearfold.errors import InputError
from nearfold.neighbors import LearnedIndex, build_index, is_learner
from nearfold.neighbors.distances import Distances


def table(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.standard_normal((n, d)) * [1, 5, 1, 20] + y[:, None], y


def brute(X, Q, M):
    root = np.linalg.cholesky(M + 1e-12 * np.eye(len(M)))
    return cdist(Q @ root, X @ root)


@pytest.mark.parametrize("fitted_before", [False, True])
def test_raw_queries_give_the_learned_distances(fitted_before):
    X, _ = table()
    Q = table(seed=1)[0][:7]
    learner = Covariance().fit(X) if fitted_before else Covariance()
    index = build_index(X, metric=learner)
    assert isinstance(index, LearnedIndex)
    assert index.n_rows == 120
    np.testing.assert_array_equal(index.X, X)
    assert (index.learner is learner) == fitted_before
    D = brute(X, Q, index.learner.get_mahalanobis_matrix())
    distance, row = index.nearest(Q, 5)
    np.testing.assert_allclose(distance, np.sort(D, axis=1)[:, :5], rtol=1e-6)
    np.testing.assert_array_equal(row, np.argsort(D, axis=1)[:, :5])
    query, row, _ = index.within(Q, 1.5)
    np.testing.assert_array_equal(np.bincount(query, minlength=7), (D <= 1.5).sum(axis=1))


def test_a_part_shares_the_learner():
    X, y = table()
    index = build_index(X, metric=LFDA(), y=y)
    rows = np.flatnonzero(y > 0)
    part = index.part(rows)
    assert part.learner is index.learner
    np.testing.assert_array_equal(part.X, X[rows])
    D = Distances(X, metric=index.learner).from_rows(X[:3])[:, rows]
    np.testing.assert_allclose(part.nearest(X[:3], 2)[0], np.sort(D, axis=1)[:, :2], atol=1e-12)


def test_distances_take_a_learner():
    X, _ = table()
    measure = Distances(X, metric=Covariance())
    D = brute(X, X, measure.learner.get_mahalanobis_matrix())
    np.testing.assert_allclose(measure.all(), D, atol=1e-5)
    np.testing.assert_allclose(measure.from_rows(X[:4]), D[:4], atol=1e-5)


def test_estimators_hold_the_index_in_public():
    X, y = table()
    model = KNeighborsClassifier(3, metric=LFDA()).fit(X, y)
    np.testing.assert_array_equal(model.index_.X, X)
    search = NearestNeighbors(metric=model.index_.learner).fit(X)
    np.testing.assert_array_equal(search.kneighbors(X[:9], 3)[1], model.kneighbors(X[:9])[1])
    np.testing.assert_array_equal(search.index_.nearest(None, 4)[1], search.kneighbors(None, 4)[1])


def test_a_learner_takes_no_metric_params():
    assert is_learner(NCA())
    assert not is_learner("euclidean")
    with pytest.raises(InputError, match="metric_params"):
        build_index(table()[0], metric=Covariance(), metric_params={"w": 1})


@pytest.mark.parametrize("n", [60, 300])
@pytest.mark.parametrize(
    "options",
    [{}, {"metric": "manhattan"}, {"metric": "cosine"}, {"metric": Covariance()}],
    ids=["euclidean", "manhattan", "cosine", "learned"],
)
def test_one_radius_per_query(options, n):
    X, _ = table(n)
    index = build_index(X, **options)
    radii = np.linspace(0.1, 2.0, n)
    query, row, distance = index.within(X, radii)
    for i in (0, n // 3, n - 1):
        _, alone, far = index.within(X[i : i + 1], radii[i])
        np.testing.assert_array_equal(row[query == i], alone)
        np.testing.assert_allclose(distance[query == i], far, atol=1e-12)
