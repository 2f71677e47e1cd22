"""The neighbourhood graph against dense matrices filled one edge at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import nearfold.graph.build as build
from nearfold.graph import from_edges, graph_of_lists, neighbourhood_graph
from nearfold.graph.build import by_size, graph_of_matrix
from nearfold.neighbors import build_index


def dense(graph):
    """Lengths (n, n), inf where there is no edge."""
    L = np.full((graph.n, graph.n), np.inf)
    for v in range(graph.n):
        for e in range(graph.first[v], graph.first[v + 1]):
            assert L[v, graph.neighbours[e]] == np.inf  # no edge twice
            L[v, graph.neighbours[e]] = graph.lengths[e]
    return L


def literal(a, b, length, n):
    """Edges both ways, the shortest of several, none to itself."""
    L = np.full((n, n), np.inf)
    for i, j, far in zip(a, b, length, strict=True):
        if i != j:
            L[i, j] = L[j, i] = min(L[i, j], far)
    return L


def distances(X):
    return np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))


def literal_k_graph(X, k):
    D = distances(X)
    a, b = [], []
    for i in range(len(X)):
        others = [j for j in np.lexsort((np.arange(len(X)), D[i])) if j != i]
        a += [i] * k
        b += others[:k]
    return literal(a, b, D[a, b], len(X))


edges = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from([0.0, 0.5, 1.0, 2.5])),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(edges)
def test_edges_go_both_ways_and_the_shortest_of_several_is_kept(listed):
    a, b, length = (np.array([e[i] for e in listed]) for i in range(3))
    a, b = a.astype(np.int64), b.astype(np.int64)
    graph = from_edges(a, b, length.astype(float), 8)
    np.testing.assert_array_equal(dense(graph), literal(a, b, length, 8))
    assert graph.first[0] == 0
    assert graph.first[-1] == len(graph.neighbours) == len(graph.lengths)
    for v in range(8):
        assert (np.diff(graph.neighbours[graph.first[v] : graph.first[v + 1]]) > 0).all()


def test_dtypes_are_those_the_kernels_are_compiled_for():
    graph = from_edges(np.array([0]), np.array([1]), np.array([2.0], dtype=np.float32), 3)
    assert graph.first.dtype == np.int64
    assert graph.neighbours.dtype == np.int32
    assert graph.lengths.dtype == np.float64


def test_edges_of_length_zero_are_edges():
    graph = from_edges(np.array([0, 2]), np.array([1, 1]), np.array([0.0, 3.0]), 4)
    np.testing.assert_array_equal(graph.lengths, [0.0, 0.0, 3.0, 3.0])
    assert graph.components()[0] == 2  # 0-1-2, and 3 alone


def test_no_edges_at_all_is_a_graph_of_lonely_nodes():
    none = np.empty(0, dtype=np.int64)
    graph = from_edges(none, none, np.empty(0), 5)
    count, label = graph.components()
    assert count == 5
    np.testing.assert_array_equal(np.sort(label), np.arange(5))


@pytest.mark.parametrize("k", [1, 3, 7, 29])
@pytest.mark.parametrize("grid", [False, True])
def test_k_graph_joins_if_either_is_near_the_other(k, grid):
    rng = np.random.default_rng(k)
    X = rng.integers(0, 4, (30, 2)).astype(float) if grid else rng.normal(size=(30, 3))
    graph, reach = neighbourhood_graph(build_index(X), k, None)
    np.testing.assert_allclose(dense(graph), literal_k_graph(X, k), rtol=1e-12)
    np.testing.assert_allclose(reach, np.sort(distances(X), axis=1)[:, k], rtol=1e-12)


@pytest.mark.parametrize("radius", [0.0, 1.0, 1.5, 100.0])
def test_epsilon_graph_joins_all_within_the_radius_and_exactly_at_it(radius):
    X = np.random.default_rng(0).integers(0, 5, (30, 2)).astype(float)
    graph, reach = neighbourhood_graph(build_index(X), None, radius)
    D = distances(X)
    want = np.where(radius >= D, D, np.inf)
    np.fill_diagonal(want, np.inf)
    np.testing.assert_allclose(dense(graph), want, rtol=1e-12)
    np.testing.assert_array_equal(reach, np.full(30, radius))


@pytest.mark.parametrize("options", [{"k": 2, "radius": None}, {"k": None, "radius": 0.1}])
def test_duplicates_are_joined_by_edges_of_length_zero(options):
    X = np.repeat(np.random.default_rng(0).normal(size=(10, 3)) * 9, 3, axis=0)
    graph, _ = neighbourhood_graph(build_index(X), **options)
    want = np.full((30, 30), np.inf)
    for i in range(0, 30, 3):
        want[i : i + 3, i : i + 3] = 0.0
    np.fill_diagonal(want, np.inf)
    np.testing.assert_array_equal(dense(graph), want)
    assert graph.components()[0] == 10


def test_lists_need_not_be_mutual():
    # 0 and 1 choose each other; 2 chooses 1, which does not choose it
    graph = graph_of_lists(np.array([[1.0], [1.0], [3.0]]), np.array([[1], [0], [1]]))
    np.testing.assert_array_equal(
        dense(graph), [[np.inf, 1, np.inf], [1, np.inf, 3], [np.inf, 3, np.inf]]
    )


def test_stored_zeros_of_a_sparse_matrix_are_edges_and_missing_entries_are_not():
    G = sparse.csr_array(
        (np.array([0.0, 2.0, 5.0, 4.0]), np.array([1, 2, 1, 3]), np.array([0, 2, 2, 3, 4])),
        shape=(4, 4),
    )  # 0-1 of length 0, 0-2 of 2, 2-1 of 5, 3-3
    np.testing.assert_array_equal(
        dense(graph_of_matrix(G)), literal([0, 0, 2], [1, 2, 1], [0.0, 2.0, 5.0], 4)
    )


def test_components_are_numbered_by_size():
    a = np.array([0, 2, 3, 3, 7])
    b = np.array([1, 3, 4, 5, 8])
    count, label = from_edges(a, b, np.ones(5), 9).components()
    assert count == 4
    np.testing.assert_array_equal(np.bincount(label), [4, 2, 2, 1])
    np.testing.assert_array_equal(label[[2, 3, 4, 5]], 0)
    assert label[6] == 3


def test_by_size_keeps_the_order_of_equals():
    np.testing.assert_array_equal(by_size(np.array([1, 0, 2, 2, 1, 0])), [1, 0, 2, 2, 1, 0])
    np.testing.assert_array_equal(by_size(np.array([0, 1, 1, 2, 2, 2])), [2, 1, 1, 0, 0, 0])


@settings(max_examples=30, deadline=None)
@given(edges, edges, st.sets(st.integers(0, 7), min_size=1))
def test_parts_additions_and_removals_are_those_of_the_dense_matrix(listed, more, nodes):
    def arrays(some):
        columns = [np.array([e[i] for e in some], dtype=float) for i in range(3)]
        return columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2]

    graph = from_edges(*arrays(listed), 8)
    L = dense(graph)
    rows = np.array(sorted(nodes))
    np.testing.assert_array_equal(dense(graph.part(rows)), L[np.ix_(rows, rows)])
    a, b, length = arrays(more)
    np.testing.assert_array_equal(
        dense(graph.with_edges(a, b, length)), np.minimum(L, literal(a, b, length, 8))
    )
    L[a, b] = L[b, a] = np.inf
    np.testing.assert_array_equal(dense(graph.without_edges(a, b)), L)


def test_edges_sorted_in_parts_make_the_same_graph(monkeypatch):
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 40, 300), rng.integers(0, 40, 300)
    length = rng.uniform(size=300)
    whole = from_edges(a, b, length, 40)
    monkeypatch.setattr(build, "_SORTED", 37)
    parts = from_edges(a, b, length, 40)
    for name in ("first", "neighbours", "lengths"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
