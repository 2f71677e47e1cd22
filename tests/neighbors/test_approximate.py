"""The approximate engine: its recall holds, and what it calls proven is exact."""

import numpy as np
import pytest
from neighbors_oracle import nearest
from scipy.spatial.distance import cdist

from nearfold.errors import ApproximationWarning, InputError, MemoryBudgetError
from nearfold.neighbors import (
    ApproximateIndex,
    Certificate,
    EuclideanIndex,
    approximate,
    approximate_search,
    build_index,
    cells,
    probing,
)
from nearfold.neighbors.approximate_search import Search

K = 6


@pytest.fixture(autouse=True)
def _small_scale(monkeypatch):
    """Cells so small that a few thousand rows have many of them."""
    monkeypatch.setattr(approximate, "_FEW_ROWS", 500)
    monkeypatch.setattr(cells, "CELL", 16)
    monkeypatch.setattr(cells, "LARGEST_CELL", 64)
    monkeypatch.setattr(probing, "_LOOKED_AT", 24)


def separated(n, rng):
    """Clusters far from each other: lists can be proven."""
    centres = 30.0 * rng.standard_normal((n // 100, 10))
    return centres[rng.integers(len(centres), size=n)] + rng.standard_normal((n, 10))


def curve(n, rng):
    """A line in many columns."""
    t = rng.random((n, 1))
    return np.hstack([np.sin(f * t) for f in range(1, 13)])


def grid(n, rng):
    """Whole numbers: many ties, some duplicates."""
    return rng.integers(0, 4, (n, 9)).astype(np.float64)


def duplicates(n, rng):
    """Every row many times."""
    return np.repeat(separated(n // 20, rng), 20, axis=0)[rng.permutation(n // 20 * 20)]


def offset(n, rng):
    """Small differences far from zero."""
    return 1e6 + separated(n, rng)


def tiny(n, rng):
    """Values whose squares float32 could not hold."""
    return 1e-25 * separated(n, rng)


def normal(n, rng):
    """Nothing to go by."""
    return rng.standard_normal((n, 20))


SETS = [separated, curve, grid, duplicates, offset, tiny, normal]


def search_and_watch(monkeypatch, index, Q, k):
    """The lists, and which of them were called proven at the end."""
    seen = []
    original = approximate_search.certify

    def watch(proven, *others):
        seen.append(proven.copy())
        return original(proven, *others)

    monkeypatch.setattr(approximate_search, "certify", watch)
    distance, row = index.nearest(Q, k)
    monkeypatch.setattr(approximate_search, "certify", original)
    return distance, row, seen[-1]


def recall_of(distance, true):
    return float((distance <= true[:, -1:] * (1 + 1e-12)).mean())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", SETS)
def test_recall_holds_and_proven_lists_are_exact(make, dtype, monkeypatch):
    X = make(2500, np.random.default_rng(0)).astype(dtype)
    index = ApproximateIndex(X, recall=0.9)
    distance, row, proven = search_and_watch(monkeypatch, index, None, K)
    want_distance, want = nearest(X, None, K)
    np.testing.assert_array_equal(row[proven], want[proven])
    np.testing.assert_allclose(distance[proven], want_distance[proven], rtol=1e-12)
    found = index.certificate(K)
    assert found.holds
    assert found.asked == 0.9
    assert found.proven == proven.mean()
    true = recall_of(distance, want_distance)
    assert found.low <= true <= found.high
    assert np.all(np.diff(distance, axis=1) >= 0)
    assert not (row == np.arange(len(X))[:, None]).any()
    assert all(len(set(r)) == K for r in row.tolist())
    exact = np.sqrt(((X[:, None].astype(float) - X[row].astype(float)) ** 2).sum(axis=2))
    np.testing.assert_allclose(distance, exact, rtol=1e-10)


def test_some_lists_are_proven_by_balls(monkeypatch):
    X = separated(4000, np.random.default_rng(1))
    index = ApproximateIndex(X)
    proven = search_and_watch(monkeypatch, index, None, K)[2]
    assert 0.1 < proven.mean() < 1.0
    assert index.certificate(K).low > 0.95


@pytest.mark.parametrize("broken", ["gap", "root"])
def test_a_broken_bound_would_be_seen(broken, monkeypatch):
    """The test above has teeth: with a bound that is wrong, lists called proven are not exact."""
    X = curve(4000, np.random.default_rng(2)) + 0.3 * normal(4000, np.random.default_rng(3))[:, :12]
    original = probing.Candidates.proven

    def wrong(self, span, *others):
        if broken == "gap":
            self.gap[span] = np.inf
        else:
            self.scores[span, 0] = np.inf
        return original(self, span, *others)

    monkeypatch.setattr(probing.Candidates, "proven", wrong)
    if broken == "root":  # everything is seen, and what ties with the last neighbour is dropped
        monkeypatch.setattr(approximate_search, "_HARD", 10**9)
        monkeypatch.setattr(approximate_search, "candidates_of", lambda k: k)
        X = grid(4000, np.random.default_rng(2))
    index = ApproximateIndex(X, recall=0.5)
    _, row, proven = search_and_watch(monkeypatch, index, None, K)
    assert (row[proven] != nearest(X, None, K)[1][proven]).any()


@pytest.mark.parametrize("make", [separated, grid, normal])
def test_new_rows(make, monkeypatch):
    rng = np.random.default_rng(4)
    X = make(3000, rng)
    Q = X[rng.permutation(3000)[:1000]] + 0.1 * rng.standard_normal((1000, X.shape[1]))
    index = ApproximateIndex(X)
    assert index.query_certificate is None
    distance, row, proven = search_and_watch(monkeypatch, index, Q, K)
    want_distance, want = nearest(X, Q, K)
    np.testing.assert_array_equal(row[proven], want[proven])
    found = index.query_certificate
    assert found.holds
    assert found.n_queries == 1000
    assert found.low <= recall_of(distance, want_distance) <= found.high


def test_fitted_rows_as_queries_find_themselves():
    X = separated(3000, np.random.default_rng(5))
    distance, row = ApproximateIndex(X).nearest(X, 1)
    assert (distance == 0).mean() > 0.95
    np.testing.assert_array_equal(row[distance[:, 0] == 0, 0], np.flatnonzero(distance[:, 0] == 0))


def test_few_rows_columns_or_queries_are_searched_exactly():
    rng = np.random.default_rng(6)
    for X, Q in [
        (rng.random((400, 12)), None),
        (rng.random((2000, 3)), None),
        (rng.random((2000, 12)), rng.random((50, 12))),
    ]:
        index = ApproximateIndex(X)
        distance, row = index.nearest(Q, K)
        want = EuclideanIndex(X).nearest(Q, K)
        np.testing.assert_array_equal(row, want[1])
        np.testing.assert_array_equal(distance, want[0])
        found = index.certificate(K) if Q is None else index.query_certificate
        assert found.proven == found.recall == found.low == 1.0
        assert found.n_checked == 0


def test_more_neighbours_than_a_cell_has_rows():
    X = curve(4000, np.random.default_rng(7))
    index = ApproximateIndex(X, recall=0.9)
    distance, row = index.nearest(None, 60)
    want = EuclideanIndex(X).nearest(None, 60)[0]
    assert index.certificate(60).holds
    assert recall_of(distance, want) > 0.9
    assert all(len(set(r)) == 60 for r in row.tolist())


def test_equal_rows_are_no_trouble():
    X = np.ones((3000, 12))
    index = ApproximateIndex(X)
    distance, row = index.nearest(None, K)
    assert (distance == 0).all()
    assert all(len(set(r)) == K for r in row.tolist())
    assert index.certificate(K).holds


def test_values_that_float32_cannot_hold_are_searched_exactly():
    X = separated(2000, np.random.default_rng(8)) * 1e200
    index = ApproximateIndex(X)
    np.testing.assert_array_equal(index.nearest(None, K)[1], EuclideanIndex(X).nearest(None, K)[1])
    assert index.certificate(K).proven == 1.0
    plain = ApproximateIndex(separated(2000, np.random.default_rng(8)))
    far = np.full((1000, 10), 1e30)
    want = EuclideanIndex(plain.X).nearest(far, K)[1]
    np.testing.assert_array_equal(plain.nearest(far, K)[1], want)


def test_the_cosine_distance(monkeypatch):
    rng = np.random.default_rng(9)
    X = separated(3000, rng).astype(np.float32)
    index = build_index(X, metric="cosine", algorithm="approximate")
    distance, row, proven = search_and_watch(monkeypatch, index, None, K)
    D = cdist(X.astype(float), X.astype(float), "cosine")
    np.fill_diagonal(D, np.inf)
    np.testing.assert_allclose(distance, np.take_along_axis(D, row, 1), atol=1e-7)
    want = np.sort(D, axis=1)[:, :K]
    assert (distance <= want[:, -1:] + 1e-9).mean() > 0.95
    np.testing.assert_allclose(distance[proven], want[proven], atol=1e-9)
    X[5] = 0.0  # has no angle
    index = build_index(X, metric="cosine", algorithm="approximate")
    np.testing.assert_array_equal(
        index.nearest(None, K)[1], build_index(X, metric="cosine").nearest(None, K)[1]
    )


def test_other_metrics_and_sparse_rows_are_refused_in_one_sentence():
    from scipy import sparse

    X = np.random.default_rng(0).random((50, 4))
    for rows, options in [
        (X, {"metric": "manhattan"}),
        (X, {"metric": "minkowski", "p": 3}),
        (cdist(X, X), {"metric": "precomputed"}),
        (sparse.csr_array(X), {}),
        (X, {"metric": "minkowski", "metric_params": {"w": np.arange(1.0, 5.0)}}),
    ]:
        with pytest.raises(InputError, match="Euclidean, the cosine or a learned metric"):
            build_index(rows, algorithm="approximate", **options)


def test_threads_change_nothing_and_seeds_do():
    X = np.random.default_rng(10).standard_normal((3000, 14)).astype(np.float32)
    X[:, 4:] *= 0.2
    one, two, again = (
        ApproximateIndex(X, recall=0.8, seed=seed, n_jobs=n_jobs)
        for seed, n_jobs in [(0, 1), (0, 2), (1, 2)]
    )
    for Q in (None, X[:1500] + 0.01):
        a, b = one.nearest(Q, K), two.nearest(Q, K)
        np.testing.assert_array_equal(a[0], b[0])
        np.testing.assert_array_equal(a[1], b[1])
    assert one.certificate(K) == two.certificate(K)
    assert one.query_certificate == two.query_certificate
    assert (again.nearest(None, K)[1] != one.nearest(None, K)[1]).any()


def test_calls_before_change_nothing():
    X = np.random.default_rng(11).standard_normal((3000, 14))
    Q = X[:1200] + 0.05
    fresh, used = ApproximateIndex(X, recall=0.8), ApproximateIndex(X, recall=0.8)
    used.nearest(None, K)
    used.nearest(Q, 2 * K)
    np.testing.assert_array_equal(fresh.nearest(Q, K)[1], used.nearest(Q, K)[1])


def test_what_is_not_certified_is_said(monkeypatch):
    monkeypatch.setattr(approximate_search, "_ATTEMPTS", 1)
    monkeypatch.setattr(approximate_search, "_HARD", 1)
    monkeypatch.setattr(Search, "_cells_to_probe", lambda self, pilots: 2)
    monkeypatch.setattr(approximate_search, "_ROUNDS", 0)
    X = normal(4000, np.random.default_rng(12))
    index = ApproximateIndex(X, recall=0.99)
    with pytest.warns(ApproximationWarning, match="not certified"):
        distance, _ = index.nearest(None, K)
    found = index.certificate(K)
    assert not found.holds
    assert found.low <= recall_of(distance, nearest(X, None, K)[0]) <= found.high < 0.99


def test_attempts_go_on_until_the_recall_is_certified(monkeypatch):
    monkeypatch.setattr(Search, "_cells_to_probe", lambda self, pilots: 1)
    monkeypatch.setattr(approximate_search, "_ROUNDS", 0)
    X = normal(4000, np.random.default_rng(13))
    index = ApproximateIndex(X, recall=0.9)
    distance, row = index.nearest(None, K)
    assert index.certificate(K).holds
    assert recall_of(distance, nearest(X, None, K)[0]) > 0.9
    assert all(len(set(r)) == K for r in row.tolist())  # what was found twice is listed once


def test_the_memory_budget_is_respected():
    import nearfold

    X = np.random.default_rng(14).standard_normal((20_000, 200)).astype(np.float32)
    try:
        nearfold.set_memory("8MB")
        with pytest.raises(MemoryBudgetError, match="approximate search"):
            ApproximateIndex(X).nearest(None, K)
    finally:
        nearfold.set_memory(None)


def test_a_certificate_is_frozen():
    found = Certificate(10, 3, 0.5, 0.9, 0.8, 0.95, 0.95, 5, 0.85)
    assert not found.holds
    with pytest.raises(AttributeError):
        found.low = 1.0
