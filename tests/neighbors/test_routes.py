"""Every route to the neighbours gives one answer, and breaks ties by one rule."""

import pickle

import neighbors_oracle as oracle
import numpy as np
import pytest
from scipy import sparse
from sklearn import neighbors as sk

from nearfold.errors import InputError, NonFiniteError
from nearfold.neighbors import EuclideanIndex, build_index, exact, is_euclidean, plain
from nearfold.neighbors.external import TreeIndex
from nearfold.neighbors.metric import MetricIndex
from nearfold.neighbors.plain import PlainIndex
from nearfold.neighbors.pruned import PrunedIndex

ROUTES = {
    "plain": PlainIndex,
    "tree": lambda X: TreeIndex(X, 2),
    "brute": lambda X: MetricIndex(
        X, metric="minkowski", p=2, metric_params={"w": np.ones(X.shape[1])}, algorithm="brute"
    ),
    "ball tree": lambda X: MetricIndex(X, metric="euclidean", algorithm="ball_tree"),
    "pruned": lambda X: PrunedIndex(X, axes=0),
    "chosen": EuclideanIndex,
}
every_route = pytest.mark.parametrize("build", ROUTES.values(), ids=ROUTES)
both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def grid(n, d=3, high=4, seed=0, dtype=np.float64):
    """Whole numbers: many duplicates, many equal distances, sums of squares exact."""
    return np.random.default_rng(seed).integers(0, high, (n, d)).astype(dtype)


def normal(n, d, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


def by_rule(D, k, exclude_self=False):
    """The k nearest from a table of distances: by distance, then row."""
    D = np.array(D, dtype=float)
    if exclude_self:
        np.fill_diagonal(D, np.inf)
    row = np.array([np.lexsort((np.arange(len(line)), line))[:k] for line in D])
    return np.take_along_axis(D, row, 1), row


@every_route
@both_dtypes
@pytest.mark.parametrize("k", [1, 4, 30, 299])
def test_ties_go_to_the_smaller_row(build, dtype, k):
    X, Q = grid(300, dtype=dtype), grid(40, seed=1, dtype=dtype)
    index = build(X)
    oracle.assert_same(index.nearest(None, k), oracle.nearest(X, None, k), exact=True)
    oracle.assert_same(index.nearest(Q, k), oracle.nearest(X, Q, k), exact=True)


@every_route
@pytest.mark.parametrize("radius", [0.0, 1.5, *np.sqrt([2, 3, 5, 6, 7]), 100.0, 1e200, np.inf])
def test_within_a_radius(build, radius):
    X, Q = grid(150), grid(40, seed=1)
    index, radius = build(X), float(radius)
    oracle.assert_same(index.within(None, radius), oracle.within(X, None, radius), exact=True)
    oracle.assert_same(index.within(Q, radius), oracle.within(X, Q, radius), exact=True)


@every_route
def test_nobody_within_a_radius(build):
    found = build(grid(20)).within(grid(3) + 1000.0, 1.0)
    assert [len(part) for part in found] == [0, 0, 0]


@every_route
@both_dtypes
@pytest.mark.parametrize("d", [1, 5, 20])
def test_tables_without_ties(build, dtype, d):
    X, Q = normal(280, d, dtype=dtype), normal(50, d, seed=1, dtype=dtype)
    index = build(X)
    want = oracle.nearest(X, Q, 6), oracle.nearest(X, None, 6)
    for Q_, (distance, row) in zip((Q, None), want, strict=True):
        found = index.nearest(Q_, 6)
        np.testing.assert_array_equal(found[1], row)
        np.testing.assert_allclose(found[0], distance, rtol=1e-13)


@pytest.mark.parametrize("k", [1, 63, 64, 65, 100, 149])
def test_plain_search_block_by_block(monkeypatch, k):
    monkeypatch.setattr(plain, "_CELLS", 100)  # blocks of 64 rows, queries one by one
    X, Q = grid(150), grid(5, seed=1)
    index = PlainIndex(X)
    oracle.assert_same(index.nearest(None, k), oracle.nearest(X, None, k), exact=True)
    oracle.assert_same(index.nearest(Q, k), oracle.nearest(X, Q, k), exact=True)
    oracle.assert_same(index.within(None, 1.5), oracle.within(X, None, 1.5), exact=True)


def _far_clusters():
    X = normal(400, 12)
    X[::2] += 1e5  # float32 cannot tell the rows of a cluster apart
    return X


def _outliers():
    X = normal(400, 12)
    X[7] *= 1e6
    return X


@pytest.mark.parametrize(
    ("X", "screen"),
    [
        (normal(400, 12), np.float32),
        (_outliers(), np.float32),  # they widen no margin but their own
        (_far_clusters(), np.float64),
        (1e18 * normal(400, 12), np.float64),  # squares would overflow
        (1e-20 * normal(400, 12), np.float64),  # squares would vanish
        (np.ones((400, 12)), np.float64),
        (normal(9, 220_000), np.float64),  # sums are too long
    ],
    ids=["normal", "outliers", "clusters", "large", "small", "equal", "wide"],
)
def test_plain_search_screens_in_float32_where_that_is_enough(X, screen):
    index = PlainIndex(X)
    for Q in (None, X[:20] * 1.01):
        found, want = index.nearest(Q, 4), oracle.nearest(X, Q, 4)
        np.testing.assert_array_equal(found[1], want[1])
        np.testing.assert_allclose(found[0], want[0], rtol=1e-12)
    assert index.screen == screen


@pytest.mark.parametrize("build", [ROUTES[r] for r in ("plain", "tree", "pruned", "chosen")])
@pytest.mark.parametrize(("dtype", "offset"), [(np.float32, 1e6), (np.float64, 1e8)])
def test_far_from_the_origin(build, dtype, offset):
    X = (10 * normal(300, 5) + offset).astype(dtype)
    oracle.assert_same(build(X).nearest(None, 5), oracle.nearest(X, None, 5))
    oracle.assert_same(build(X).within(None, 9.0), oracle.within(X, None, 9.0))


@pytest.mark.parametrize(
    ("n", "d", "pairs", "kind"),
    [
        (300, 8, 10**9, TreeIndex),
        (300, 9, 10**9, PlainIndex),
        (256, 8, 10**9, PlainIndex),
        (300, 9, 0, PrunedIndex),
        (256, 8, 0, PrunedIndex),
    ],
)
def test_the_route_follows_the_problem(monkeypatch, n, d, pairs, kind):
    monkeypatch.setattr(exact, "_PLAIN_PAIRS", pairs)
    X = grid(n, d)
    index = EuclideanIndex(X)
    assert isinstance(index._route(None), kind)
    oracle.assert_same(index.nearest(None, 3), oracle.nearest(X, None, 3), exact=True)
    oracle.assert_same(index.within(X[:9], 2.0), oracle.within(X, X[:9], 2.0), exact=True)


@pytest.mark.parametrize("scale", [1e300, 1e-300, 2e307, 1e-310])
def test_extreme_units(scale):
    X, Q = normal(60, 4), normal(9, 4, seed=1)
    want, found = EuclideanIndex(X).nearest(Q, 5), EuclideanIndex(X * scale).nearest(Q * scale, 5)
    np.testing.assert_array_equal(found[1], want[1])
    rtol = 1e-9 if scale > 1e-308 else 1e-6  # subnormal numbers have few digits themselves
    np.testing.assert_allclose(found[0] / scale, want[0], rtol=rtol)
    query, row, distance = EuclideanIndex(X * scale).within(None, 1.5 * scale)
    plain = EuclideanIndex(X).within(None, 1.5)
    np.testing.assert_array_equal([query, row], plain[:2])
    np.testing.assert_allclose(distance / scale, plain[2], rtol=rtol)


@pytest.mark.parametrize("size", [1e20, 1e100, 1e160, 1e300])
def test_a_huge_constant_column_does_not_hide_the_others(size):
    """Right, or a clear error: never silent garbage."""
    X = normal(50, 9)
    want = EuclideanIndex(X).nearest(None, 3)
    try:
        found = EuclideanIndex(np.column_stack([np.full(50, size), X])).nearest(None, 3)
    except InputError:
        return
    np.testing.assert_array_equal(found[1], want[1])
    np.testing.assert_allclose(found[0], want[0])


@pytest.mark.parametrize("pairs", [10**9, 0], ids=["plain", "pruned"])
@pytest.mark.parametrize("size", [1e20, 1e60, 1e120, 1e300])
def test_one_wild_row_does_not_spoil_the_others(monkeypatch, size, pairs):
    monkeypatch.setattr(exact, "_PLAIN_PAIRS", pairs)
    X = normal(300, 9)
    want = EuclideanIndex(X).nearest(X[:20], 3)
    try:
        found = EuclideanIndex(np.vstack([X, np.full(9, size)])).nearest(X[:20], 3)
    except InputError:
        return
    np.testing.assert_array_equal(found[1], want[1])
    np.testing.assert_allclose(found[0], want[0])


@pytest.mark.parametrize("size", [1e20, 1e60])
def test_a_wild_query_takes_another_way(monkeypatch, size):
    monkeypatch.setattr(exact, "_PLAIN_PAIRS", 0)
    X = normal(300, 9)
    Q = np.vstack([X[:3], np.full(9, size)])
    distance, row = EuclideanIndex(X).nearest(Q, 2)
    np.testing.assert_array_equal(row[:3, 0], [0, 1, 2])
    np.testing.assert_allclose(distance[3], 3 * size)
    assert EuclideanIndex(X).within(Q, 0.0)[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(("d", "pairs"), [(4, 10**9), (12, 10**9), (12, 0)])
def test_a_stored_index_holds_the_rows_once(monkeypatch, d, pairs):
    monkeypatch.setattr(exact, "_PLAIN_PAIRS", pairs)
    index = EuclideanIndex(normal(2000, d))
    want = index.nearest(None, 3)
    stored = pickle.dumps(index)
    assert len(stored) < index.X.nbytes + 2000
    again = pickle.loads(stored)
    assert again._heavy is None
    assert again._plain is None
    for part, expected in zip(again.nearest(None, 3), want, strict=True):
        np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize(
    ("metric", "p", "params", "answer"),
    [
        ("minkowski", 2, None, True),
        ("euclidean", 3, None, True),
        ("l2", 2, {}, True),
        ("minkowski", 1, None, False),
        ("minkowski", 2, {"w": [1, 2]}, False),
        ("manhattan", 2, None, False),
        (np.dot, 2, None, False),
    ],
)
def test_is_euclidean(metric, p, params, answer):
    assert is_euclidean(metric, p, params) is answer
    assert isinstance(build_index(grid(9), metric="l2"), EuclideanIndex)


METRICS = {
    "manhattan": lambda a, b: np.abs(a - b).sum(),
    "chebyshev": lambda a, b: np.abs(a - b).max(),
    "cosine": lambda a, b: 1 - a @ b / np.sqrt((a @ a) * (b @ b)),
    "hamming": lambda a, b: (a != b).mean(),
    "sqeuclidean": lambda a, b: ((a - b) ** 2).sum(),
}


def table_of(function, Q, X):
    return np.array([[function(q, x) for x in X] for q in Q], dtype=float)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("metric", METRICS)
def test_other_metrics(metric, n_jobs):
    integers = metric != "cosine"  # whose rounding decides ties
    X = grid(120) if integers else normal(120, 6)
    Q = X[::7] if integers else normal(20, 6, seed=1)
    index = build_index(X, metric=metric, n_jobs=n_jobs)
    for Q_, D in ((Q, table_of(METRICS[metric], Q, X)), (None, table_of(METRICS[metric], X, X))):
        distance, row = index.nearest(Q_, 5)
        want = by_rule(D, 5, exclude_self=Q_ is None)
        np.testing.assert_array_equal(row, want[1])
        np.testing.assert_allclose(distance, want[0], atol=1e-12)


@pytest.mark.parametrize("metric", ["cosine", "correlation", "sqeuclidean", "canberra"])
def test_duplicates_under_other_metrics(metric):
    """Their mutual distances may round to a little more than zero."""
    X = np.repeat(normal(40, 30), 6, axis=0)
    _, row = build_index(X, metric=metric).nearest(None, 5)
    for i, found in enumerate(row):
        assert sorted(found) == [j for j in range(i - i % 6, i - i % 6 + 6) if j != i]


def test_minkowski_with_other_powers_and_weights():
    X = normal(60, 4)
    D = table_of(lambda a, b: (np.abs(a - b) ** 3).sum() ** (1 / 3), X, X)
    found = build_index(X, p=3).nearest(None, 4)
    np.testing.assert_array_equal(found[1], by_rule(D, 4, True)[1])
    w = np.array([1.0, 2.0, 0.0, 5.0])
    D = table_of(lambda a, b: np.sqrt((w * (a - b) ** 2).sum()), X, X)
    found = build_index(X, metric_params={"w": w}).nearest(None, 4)
    np.testing.assert_array_equal(found[1], by_rule(D, 4, True)[1])


@both_dtypes
def test_sparse_rows(dtype):
    X, Q = grid(120, high=3, dtype=dtype), grid(30, high=3, seed=1, dtype=dtype)
    index = build_index(sparse.csr_array(X))
    queries = sparse.csr_array(Q)
    oracle.assert_same(index.nearest(None, 4), oracle.nearest(X, None, 4), exact=True)
    oracle.assert_same(index.nearest(queries, 4), oracle.nearest(X, Q, 4), exact=True)
    found, want = index.within(queries, 1.5), oracle.within(X, Q, 1.5)
    oracle.assert_same(found[:2], want[:2], exact=True)
    np.testing.assert_allclose(found[2], want[2], rtol=1e-7)  # scikit-learn's: float32 if X is


def test_missing_values():
    X = grid(80, high=6)
    X[np.random.default_rng(5).random(X.shape) < 0.2] = np.nan
    X = X[np.isfinite(X).any(axis=1)]

    def apart(a, b):
        both = np.isfinite(a) & np.isfinite(b)
        return np.sqrt(3 * ((a - b)[both] ** 2).sum() / both.sum()) if both.any() else np.nan

    D = table_of(apart, X, X)
    kept = np.isfinite(D).all(axis=1)
    X, D = X[kept], D[kept][:, kept]
    distance, row = build_index(X, metric="nan_euclidean").nearest(None, 5)
    want = by_rule(D, 5, exclude_self=True)
    np.testing.assert_array_equal(row, want[1])
    np.testing.assert_allclose(distance, want[0])


@pytest.mark.parametrize("k", [1, 5, 59])
def test_precomputed_distances(k):
    X = grid(60)
    D = table_of(METRICS["manhattan"], X, X)
    index = build_index(D, metric="precomputed")
    for found, expected in zip(index.nearest(None, k), by_rule(D, k, True), strict=True):
        np.testing.assert_array_equal(found, expected)
    for found, expected in zip(index.nearest(D[:9], k), by_rule(D[:9], k), strict=True):
        np.testing.assert_array_equal(found, expected)
    query, row, _ = index.within(None, 1.0)
    near = (D <= 1) & ~np.eye(60, dtype=bool)
    assert sorted(zip(query, row, strict=True)) == list(zip(*np.nonzero(near), strict=True))


def test_precomputed_sparse_distances():
    X = normal(60, 4)
    graph = sk.KNeighborsTransformer(n_neighbors=8).fit_transform(X)  # 9 with self
    index = build_index(graph, metric="precomputed")
    D = table_of(lambda a, b: np.sqrt(((a - b) ** 2).sum()), X, X)
    for k in (1, 5, 8):
        np.testing.assert_array_equal(index.nearest(None, k)[1], by_rule(D, k, True)[1])
        np.testing.assert_array_equal(index.nearest(graph, k)[1], by_rule(D, k)[1])


@pytest.mark.parametrize("k", [9, 10, 20])
def test_precomputed_sparse_distances_that_know_too_few(k):
    """A row without k neighbours is an error, never itself at infinity or a shorter list."""
    graph = sk.KNeighborsTransformer(n_neighbors=8).fit_transform(normal(60, 4))
    with pytest.raises(ValueError, match="neighbors"):
        build_index(graph, metric="precomputed").nearest(None, k)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array])
def test_nonfinite_rows_and_queries_are_named(metric, wrap):
    X = grid(20) + 1
    bad = X[:5].copy()
    bad[3, 1] = np.nan
    with pytest.raises(NonFiniteError, match=r"1 NaN \(column 1: 1; first rows: \[3\]\)"):
        build_index(wrap(bad), metric=metric)
    index = build_index(wrap(X), metric=metric)
    with pytest.raises(NonFiniteError, match=r"1 NaN \(column 1: 1; first rows: \[3\]\)"):
        index.nearest(wrap(bad), 2)
    with pytest.raises(NonFiniteError, match=r"1 NaN \(column 1: 1; first rows: \[3\]\)"):
        index.within(wrap(bad), 2.0)


def test_an_index_is_built_once_few_queries_at_a_time_add_up(monkeypatch):
    """And the answers stay the same to the last bit."""
    monkeypatch.setattr(exact, "_LARGE_CELLS", 1000)
    monkeypatch.setattr(exact, "_PLAIN_CELLS", 3 * 400 * 12)
    X, Q = normal(400, 12), normal(1, 12, seed=1)
    index = EuclideanIndex(X)
    kinds, found = [], []
    for _ in range(6):
        kinds.append(type(index._route(Q)))
        found.append(index.nearest(Q, 5))
    assert kinds[0] is PlainIndex
    assert kinds[-1] is PrunedIndex
    for distance, row in found:
        np.testing.assert_array_equal(distance, found[0][0])
        np.testing.assert_array_equal(row, found[0][1])


@pytest.mark.parametrize("k", [1, 5, 16, 17, 300])
@pytest.mark.parametrize("n", [300, 1000])
def test_plain_search_of_many_ties(n, k):
    """A bound from the least values of groups of columns keeps every row that ties."""
    X = grid(n)
    for Q in (None, X[:50]):
        k_ = min(k, n - 1)
        oracle.assert_same(PlainIndex(X).nearest(Q, k_), oracle.nearest(X, Q, k_), exact=True)
