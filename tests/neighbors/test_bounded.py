"""Ties, radii and blocks in bounded memory; the same answer however the work is cut."""

import tracemalloc

import neighbors_oracle as oracle
import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

from nearfold import RadiusNeighborsClassifier, set_memory
from nearfold.blocks import get_memory
from nearfold.errors import MemoryBudgetError
from nearfold.neighbors import EuclideanIndex, build_index, exact, external, lists
from nearfold.neighbors.external import TreeIndex
from nearfold.neighbors.lists import nearest_blocks, within_blocks
from nearfold.neighbors.metric import MetricIndex
from nearfold.neighbors.plain import PlainIndex
from nearfold.neighbors.selection import (
    groups_of_counts,
    k_smallest,
    nearest_in_tiles,
    without_own,
)


@pytest.fixture
def small_budget():
    before = get_memory()
    set_memory("64MB")
    yield
    set_memory(before)


def integers(n, d=3, high=3, seed=0):
    return np.random.default_rng(seed).integers(0, high, (n, d)).astype(float)


def by_rule(D, k, exclude_self=False):
    D = np.array(D, dtype=float)
    if exclude_self:
        np.fill_diagonal(D, np.inf)
    row = np.array([np.lexsort((np.arange(len(line)), line))[:k] for line in D])
    return np.take_along_axis(D, row, 1), row


def assert_lists(found, want):
    np.testing.assert_array_equal(found[1], want[1])
    np.testing.assert_allclose(found[0], want[0], atol=1e-12)


@pytest.mark.parametrize("algorithm", ["kd_tree", "ball_tree", "brute"])
def test_an_outlier_does_not_widen_the_search_for_ties(monkeypatch, algorithm):
    """One far row used to make every query look at nearly all rows (810,966 of 813,000 pairs)."""
    X = np.vstack([integers(1500, 6, 8), np.full((1, 6), 1e4)])
    seen = []
    original = MetricIndex.within.__globals__["SklearnTree"].pairs_within

    def watch(tree, Q, radius):
        found = original(tree, Q, radius)
        seen.append(len(found[0]))
        return found

    monkeypatch.setattr("nearfold.neighbors.metric.SklearnTree.pairs_within", watch)
    index = build_index(X, metric="manhattan", algorithm=algorithm)
    found = index.nearest(None, 5)
    assert_lists(found, by_rule(cdist(X, X, "cityblock"), 5, True))
    assert sum(seen) < 100_000
    assert max(seen, default=0) <= external._PAIRS


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_memory_does_not_grow_with_ties(metric):
    """Sixteen different rows, 250 times each: every row ties with hundreds."""
    X = np.repeat(np.array([[i, j] for i in range(4) for j in range(4)], dtype=float), 250, axis=0)
    index = build_index(X, metric=metric)
    index.nearest(X[:10], 3)
    tracemalloc.start()
    _, row = index.nearest(None, 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # all tied pairs would be a million
    for i in (0, 1, 249, 250, 3999):
        first = i // 250 * 250
        np.testing.assert_array_equal(row[i], [r for r in range(first, first + 4) if r != i][:3])


def test_one_query_with_more_ties_than_the_buffer(monkeypatch):
    monkeypatch.setattr(external, "_PAIRS", 64)
    monkeypatch.setattr(external, "_ROWS", 50)
    X = integers(600)
    want = oracle.nearest(X, None, 4), oracle.nearest(X, X[:9], 4)
    for index in (TreeIndex(X, 2), build_index(X, metric="euclidean", metric_params={})):
        oracle.assert_same(index.nearest(None, 4), want[0], exact=True)
        oracle.assert_same(index.nearest(X[:9], 4), want[1], exact=True)
    D = cdist(X, X, "chebyshev")
    assert_lists(build_index(X, metric="chebyshev").nearest(None, 4), by_rule(D, 4, True))


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("step", [1, 4, 100])
def test_k_best_in_tiles(k, step):
    D = np.random.default_rng(k).integers(0, 4, (20, 30)).astype(float)
    D[3, 5] = D[4, :28] = np.inf
    own = np.arange(20) + 3
    found = nearest_in_tiles(lambda tile: D[:, tile].copy(), 20, 30, k, step)
    assert_lists(found, by_rule(D, k))
    found = nearest_in_tiles(lambda tile: D[:, tile].copy(), 20, 30, k, step, own)
    for i in range(20):
        others = np.delete(np.arange(30), own[i])
        order = others[np.lexsort((others, D[i, others]))][:k]
        np.testing.assert_array_equal(found[1][i], order)


def test_small_parts_of_the_selection():
    values, columns = k_smallest(np.array([[2.0, 1, 1, 1], [0, 5, 0, 5]]), 2)
    assert columns.tolist() == [[1, 2], [0, 2]]
    assert values.tolist() == [[1, 1], [0, 0]]
    distance, row = without_own(
        np.array([[0.0, 0, 1], [0, 1, 2]]), np.array([[4, 7, 9], [1, 2, 3]]), np.array([7, 8])
    )
    assert row.tolist() == [[4, 9], [1, 2]]
    assert distance.tolist() == [[0, 1], [0, 1]]
    assert groups_of_counts(np.array([5, 5, 20, 1, 1]), 10) == [
        slice(0, 2), slice(2, 3), slice(3, 5),
    ]  # fmt: skip


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan", "precomputed"])
@pytest.mark.parametrize("d", [3, 12])
def test_blocks_change_no_result(monkeypatch, metric, d):
    X = integers(90, d, 5) + 1
    if metric == "precomputed":
        X = cdist(X, X)
    index = build_index(X, metric=metric)
    want = [index.nearest(Q, 4) for Q in (X, None)]
    pairs = [index.within(Q, 1.5) for Q in (X, None)]
    monkeypatch.setattr(lists, "PAIRS", 40)
    for Q, (distance, row), flat in zip((X, None), want, pairs, strict=True):
        blocks = list(nearest_blocks(index, Q, 4))
        assert len(blocks) == 9
        assert_lists(
            (np.vstack([b[1] for b in blocks]), np.vstack([b[2] for b in blocks])), (distance, row)
        )
        blocks = list(within_blocks(index, Q, 1.5))
        query = np.concatenate([b[1] + b[0].start for b in blocks])
        np.testing.assert_array_equal(query, flat[0])
        row = np.concatenate([b[2] for b in blocks])
        if metric == "cosine":  # one product per tile: its rounding may swap rows that tie
            assert sorted(zip(query, row, strict=True)) == sorted(zip(*flat[:2], strict=True))
        else:
            np.testing.assert_array_equal(row, flat[1])


def test_a_block_with_too_many_pairs_is_halved(monkeypatch):
    X = integers(400, 2)
    index = build_index(X)
    original = index.within
    most = []

    def within(Q, radius):
        if len(Q) > 30:
            raise MemoryBudgetError("too many")
        most.append(len(Q))
        return original(Q, radius)

    monkeypatch.setattr(index, "within", within)
    blocks = list(within_blocks(index, X, 1.0))
    assert max(most) <= 30
    assert sum(most) == 400
    rows = np.concatenate([b[2] for b in blocks])
    np.testing.assert_array_equal(rows, original(X, 1.0)[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_fallback_of_the_pruned_search_gives_the_same_bits(monkeypatch, small_budget, dtype):
    """Whether a sketch fits the budget must not show in the result."""
    monkeypatch.setattr(exact, "_PLAIN_PAIRS", 0)
    X = np.random.default_rng(0).standard_normal((700, 33)).astype(dtype)
    roomy = EuclideanIndex(X)
    want = roomy.nearest(None, 5), roomy.within(X[:50], 7.0)
    monkeypatch.setattr("nearfold.neighbors.sketch.get_memory", lambda: 1000)
    tight = EuclideanIndex(X)
    found = tight.nearest(None, 5), tight.within(X[:50], 7.0)
    assert isinstance(tight._heavy, PlainIndex)
    assert not isinstance(roomy._heavy, PlainIndex)
    for a, b in zip(want, found, strict=True):
        for part, expected in zip(b, a, strict=True):
            np.testing.assert_array_equal(part, expected)


def test_centred_rows_kept_or_not_give_the_same_bits():
    X = np.random.default_rng(0).standard_normal((1500, 20))
    kept, not_kept = PlainIndex(X), PlainIndex(X)
    not_kept._keeps = False
    for Q in (None, X[:1] + 0.1, X[:700] + 0.1):
        for a, b in zip(kept.nearest(Q, 3), not_kept.nearest(Q, 3), strict=True):
            np.testing.assert_array_equal(a, b)
    assert kept._centred
    assert not not_kept._centred


def test_too_many_pairs_are_refused_before_they_are_made(small_budget):
    X = np.zeros((4000, 3))
    tracemalloc.start()
    with pytest.raises(MemoryBudgetError, match=r"16,000,000 or more pairs needs about"):
        build_index(X).within(None, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
@pytest.mark.parametrize("n", [60, 300])
def test_sparse_and_dense_queries_of_either_index(metric, n):
    X = integers(n, 4) + (np.arange(n) % 7 == 0)[:, None] + 1.0
    Q = X[::5] + 0.25
    dense = build_index(X, metric=metric)
    thin = build_index(sparse.csr_array(X), metric=metric)
    want = dense.nearest(Q, 3)
    for index in (dense, thin):
        for queries in (Q, sparse.csr_array(Q)):
            distance, _ = index.nearest(queries, 3)
            np.testing.assert_allclose(distance, want[0], atol=1e-7)
            query, _, _ = index.within(queries, 1.1)
            np.testing.assert_array_equal(query, dense.within(Q, 1.1)[0])


@pytest.mark.parametrize(
    "options",
    [{}, {"metric": "manhattan"}, {"metric": "seuclidean"}, {"metric": "precomputed"}],
    ids=str,
)
def test_part_of_an_index(options):
    X = np.random.default_rng(0).standard_normal((80, 4)) * [1, 2, 3, 9]
    rows = np.arange(0, 80, 3)
    name = options.get("metric", "euclidean")
    kind = {"manhattan": "cityblock", "precomputed": "euclidean"}.get(name, name)
    more = {"V": X.var(axis=0, ddof=1)} if name == "seuclidean" else {}  # of all rows
    D = cdist(X, X, kind, **more)
    index = build_index(D if name == "precomputed" else X, **options)
    part = index.part(rows)
    assert part.n_rows == len(rows)
    Q = D[:7][:, rows] if name == "precomputed" else X[:7]
    assert_lists(part.nearest(Q, 3), by_rule(D[:7][:, rows], 3))


@pytest.mark.parametrize("options", [{}, {"metric": "cosine"}], ids=["pruned", "brute"])
def test_pairs_still_in_the_hands_of_threads_count(monkeypatch, small_budget, options):
    monkeypatch.setattr(exact, "_PLAIN_PAIRS", 0)
    index = build_index(np.ones((3000, 12)), **options)
    tracemalloc.start()
    with pytest.raises(MemoryBudgetError, match="or more pairs needs about"):
        index.within(None, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * 64 * 2**20


def test_a_radius_that_reaches_every_row_is_predicted_in_blocks(small_budget):
    X, y = np.zeros((3000, 12)), np.arange(3000) % 3
    model = RadiusNeighborsClassifier(1.0).fit(X, y)
    tracemalloc.start()
    shares = model.predict_proba(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(shares, 1 / 3)
    assert peak < 1.2 * 64 * 2**20
