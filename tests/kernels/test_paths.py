"""The compiled shortest paths against SciPy's, to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.csgraph import dijkstra as scipy_dijkstra

from nearfold.graph import from_edges, graph_of_lists
from nearfold.kernels.paths import dijkstra, gather_sources, relax_together
from nearfold.neighbors import build_index


def k_graph(n=120, k=4, seed=0, d=3):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return graph_of_lists(*build_index(X).nearest(None, k))


def random_graph(seed, n=40, edges=70, lengths=(0.0, 1.0, 0.1, 2.7)):
    """Several pieces, many ties, some edges of length zero."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, n, (2, edges))
    return from_edges(a, b, rng.choice(lengths, edges), n)


def scipy_paths(graph):
    """SciPy's Dijkstra; to it a zero is no edge, so zeros are made tiny, and taken back."""
    lengths = np.maximum(graph.lengths, np.finfo(float).tiny)
    matrix = sparse.csr_array((lengths, graph.neighbours, graph.first), shape=(graph.n, graph.n))
    D = scipy_dijkstra(matrix, directed=False)
    return np.where(D < 1e-290, 0.0, D)


def component_of(graph):
    ones = np.ones(len(graph.neighbours))
    matrix = sparse.csr_array((ones, graph.neighbours, graph.first), shape=(graph.n, graph.n))
    return connected_components(matrix, directed=False)[1]


def run_dijkstra(graph, source, dtype=np.float64):
    distance = np.empty(graph.n, dtype=dtype)
    order, parent = np.full(graph.n, -7, np.int32), np.full(graph.n, -7, np.int32)
    reached = dijkstra(
        graph.first,
        graph.neighbours,
        graph.lengths.astype(dtype),
        np.int32(source),
        distance,
        order,
        parent,
    )
    return distance, order[:reached], parent


def run_together(graph, groups, dtype=np.float64):
    D = np.full((graph.n, graph.n), -1.0, dtype=dtype)
    for group in groups:
        group = np.asarray(group, dtype=np.int32)
        relax_together(graph.first, graph.neighbours, graph.lengths.astype(dtype), group, D, group)
    return D


@pytest.mark.parametrize("graph", [k_graph(), random_graph(0), random_graph(1, edges=25)])
def test_dijkstra_is_scipys_to_the_last_bit(graph):
    want = scipy_paths(graph)
    for source in range(graph.n):
        distance, order, parent = run_dijkstra(graph, source)
        np.testing.assert_array_equal(distance, want[source])
        np.testing.assert_array_equal(np.sort(order), np.flatnonzero(np.isfinite(want[source])))
        assert order[0] == source
        assert parent[source] == -1
        assert (np.diff(distance[order]) >= 0).all()


@pytest.mark.parametrize("graph", [k_graph(), random_graph(0)])
def test_each_node_is_settled_after_its_parent_and_over_an_edge_to_it(graph):
    length = {
        (int(a), int(b)): far
        for a, b, far in zip(graph.tails, graph.neighbours, graph.lengths, strict=True)
    }
    distance, order, parent = run_dijkstra(graph, 5)
    settled = {5}
    for v in order[1:].tolist():
        assert parent[v] in settled
        assert distance[v] == distance[parent[v]] + length[int(parent[v]), v]
        settled.add(v)
    unreached = np.setdiff1d(np.arange(graph.n), order)
    np.testing.assert_array_equal(distance[unreached], np.inf)
    np.testing.assert_array_equal(parent[unreached], -1)


def test_a_node_without_edges_reaches_itself():
    graph = from_edges(np.array([0]), np.array([1]), np.array([1.0]), 3)
    distance, order, _ = run_dijkstra(graph, 2)
    np.testing.assert_array_equal(distance, [np.inf, np.inf, 0.0])
    np.testing.assert_array_equal(order, [2])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_sources_relaxed_together_in_any_grouping_give_dijkstras_distances(seed, lanes):
    graph = k_graph(n=40, k=3, seed=seed % 7)
    rng = np.random.default_rng(seed)
    label = component_of(graph)
    groups = []
    for i in range(label.max() + 1):
        nodes = rng.permutation(np.flatnonzero(label == i))
        groups += [nodes[a : a + lanes] for a in range(0, len(nodes), lanes)]
    np.testing.assert_array_equal(run_together(graph, groups), scipy_paths(graph))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(5, 120), st.integers(1, 20), st.integers(1, 60))
def test_gathered_groups_hold_every_node_once_and_never_straddle_pieces(seed, edges, lanes, reach):
    graph = random_graph(seed, edges=edges)
    nodes, begins = gather_sources(graph.first, graph.neighbours, lanes, reach)
    np.testing.assert_array_equal(np.sort(nodes), np.arange(graph.n))
    assert begins[0] == 0
    assert begins[-1] == graph.n
    sizes = np.diff(begins)
    assert (sizes >= 1).all()
    assert (sizes <= lanes).all()
    label = component_of(graph)
    groups = np.split(nodes, begins[1:-1])
    assert all(len(set(label[group])) == 1 for group in groups)
    np.testing.assert_array_equal(run_together(graph, groups), scipy_paths(graph))


def test_gathered_groups_lie_close_together():
    line = np.arange(99)
    graph = from_edges(line, line + 1, np.ones(99), 100)
    nodes, begins = gather_sources(graph.first, graph.neighbours, 10, 1000)
    for group in np.split(nodes, begins[1:-1]):
        assert np.ptp(group) <= 20


def test_the_chosen_rows_are_filled_and_no_others():
    graph = k_graph(n=50)
    D = np.full((4, 50), -1.0)
    sources = np.array([7, 30], dtype=np.int32)
    relax_together(
        graph.first, graph.neighbours, graph.lengths, sources, D, np.array([3, 1], dtype=np.int32)
    )
    want = scipy_paths(graph)
    np.testing.assert_array_equal(D[[3, 1]], want[[7, 30]])
    np.testing.assert_array_equal(D[[0, 2]], -1.0)


def test_other_pieces_are_infinitely_far_never_zero():
    graph = random_graph(2, edges=30)
    label = component_of(graph)
    assert label.max() > 0
    nodes, begins = gather_sources(graph.first, graph.neighbours, 8, 480)
    D = run_together(graph, np.split(nodes, begins[1:-1]))
    np.testing.assert_array_equal(np.isinf(D), label[:, None] != label)


def test_in_float32_sums_are_float32s_own():
    graph = k_graph(n=60)
    nodes, begins = gather_sources(graph.first, graph.neighbours, 16, 960)
    D = run_together(graph, np.split(nodes, begins[1:-1]), np.float32)
    for source in range(graph.n):
        distance, order, parent = run_dijkstra(graph, source, np.float32)
        assert distance.dtype == np.float32
        np.testing.assert_array_equal(D[source], distance)
        for v in order[1:]:
            span = slice(graph.first[v], graph.first[v + 1])
            edge = graph.lengths[span][graph.neighbours[span] == parent[v]].astype(np.float32)
            assert distance[v] == distance[parent[v]] + edge[0]
    np.testing.assert_allclose(D, scipy_paths(graph), rtol=1e-5)
