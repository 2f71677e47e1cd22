"""Geodesics by every route against Floyd's triple loop."""

import numpy as np
import pytest

import nearfold.graph.paths as paths
from nearfold.errors import InputError
from nearfold.graph import all_geodesics, from_edges, graph_of_lists, tree_from
from nearfold.methods.landmark_mds import spread_landmarks
from nearfold.neighbors import build_index

ROUTES = {"scipy": 10**9, "kernels": 0}


@pytest.fixture(params=ROUTES)
def route(request, monkeypatch):
    monkeypatch.setattr(paths, "_SMALL", ROUTES[request.param])
    return request.param


def floyd(graph):
    """D_ij <- min(D_ij, D_iv + D_vj), one v at a time."""
    D = np.full((graph.n, graph.n), np.inf)
    D[graph.tails, graph.neighbours] = graph.lengths
    np.fill_diagonal(D, 0.0)
    for v in range(graph.n):
        for i in range(graph.n):
            for j in range(graph.n):
                D[i, j] = min(D[i, j], D[i, v] + D[v, j])
    return D


def k_graph(X, k=4):
    return graph_of_lists(*build_index(X).nearest(None, k))


def cloud(n=60, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def with_duplicates(n=20):
    """Every row three times, its copies far apart in the numbering."""
    return np.tile(cloud(n), (3, 1))


def pieces():
    """Three clouds far apart, of 24, 16 and 8 rows, shuffled."""
    X = np.vstack([cloud(24), cloud(16, seed=1) + 100, cloud(8, seed=2) - 100])
    return X[np.random.default_rng(3).permutation(48)]


@pytest.mark.parametrize("k", [3, 6])
def test_are_those_of_floyds_triple_loop(route, k):
    graph = k_graph(cloud(), k)
    D = all_geodesics(graph, np.float64)
    np.testing.assert_allclose(D, floyd(graph), rtol=1e-13)


def test_floyds_way_is_dijkstras():
    graph = k_graph(cloud(), 4)
    np.testing.assert_allclose(
        all_geodesics(graph, np.float64, method="FW"), all_geodesics(graph, np.float64), rtol=1e-13
    )


def test_both_routes_are_one_to_the_last_bit(monkeypatch):
    graph = k_graph(cloud(200), 5)
    found = []
    for most in ROUTES.values():
        monkeypatch.setattr(paths, "_SMALL", most)
        found.append(all_geodesics(graph, np.float64))
    np.testing.assert_array_equal(*found)


def test_pieces_are_infinitely_far_apart(route):
    graph = k_graph(pieces(), 3)
    count, label = graph.components()
    assert count == 3
    D = all_geodesics(graph, np.float64)
    np.testing.assert_array_equal(np.isinf(D), label[:, None] != label)
    np.testing.assert_allclose(D, floyd(graph), rtol=1e-13)


def test_floyds_way_leaves_pieces_infinitely_far_apart():
    graph = k_graph(pieces(), 3)
    label = graph.components()[1]
    D = all_geodesics(graph, np.float64, method="FW")
    np.testing.assert_array_equal(np.isinf(D), label[:, None] != label)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_duplicates_are_at_distance_zero_and_lead_on(route, dtype):
    X = with_duplicates()
    graph = k_graph(X, 6)
    D = all_geodesics(graph, dtype)
    for copy in (20, 40):
        np.testing.assert_array_equal(D[np.arange(20), np.arange(20) + copy], 0.0)
    np.testing.assert_allclose(D, floyd(graph), rtol=20 * np.finfo(dtype).eps)


def test_a_path_may_lead_over_duplicates_only(route):
    # 0 -1- 1 =0= 2 =0= 3 -1- 4
    graph = from_edges(np.arange(4), np.arange(1, 5), np.array([1.0, 0.0, 0.0, 1.0]), 5)
    D = all_geodesics(graph, np.float64)
    np.testing.assert_array_equal(D[0], [0, 1, 1, 1, 2])
    np.testing.assert_array_equal(D[1], [1, 0, 0, 0, 1])


def test_floyds_way_puts_duplicates_at_distance_zero():
    D = all_geodesics(k_graph(with_duplicates(), 6), np.float64, method="FW")
    np.testing.assert_array_equal(D[np.arange(20), np.arange(20) + 20], 0.0)


@pytest.mark.parametrize("method", ["D", "FW"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_dtype_is_the_one_asked_for(route, method, dtype):
    graph = k_graph(cloud(), 4)
    D = all_geodesics(graph, dtype, method=method)
    assert D.dtype == dtype
    np.testing.assert_allclose(D, floyd(graph), rtol=20 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.diagonal(D), 0.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_do_not_depend_on_the_number_of_threads(monkeypatch, dtype):
    monkeypatch.setattr(paths, "_SMALL", 0)
    graph = k_graph(cloud(300), 5)
    one = all_geodesics(graph, dtype, n_jobs=1)
    for n_jobs in (2, 5, None):
        np.testing.assert_array_equal(all_geodesics(graph, dtype, n_jobs=n_jobs), one)


@pytest.mark.parametrize("lanes", [1, 3, 64])
def test_do_not_depend_on_how_sources_are_grouped(monkeypatch, lanes):
    monkeypatch.setattr(paths, "_SMALL", 0)
    graph = k_graph(cloud(150), 4)
    want = all_geodesics(graph, np.float64)
    monkeypatch.setattr(paths, "_LANES", lanes)
    monkeypatch.setattr(paths, "_REACH", 2)
    np.testing.assert_array_equal(all_geodesics(graph, np.float64), want)


def check_tree(graph, source, distance, order, parent):
    """Distances follow the parents; every node comes after its parent; the source is first."""
    want = floyd(graph)[source]
    np.testing.assert_allclose(distance, want, rtol=1e-13)
    reached = np.flatnonzero(np.isfinite(want))
    np.testing.assert_array_equal(np.sort(order), reached)
    assert (np.diff(distance[order]) >= 0).all()
    assert parent[source] == -1
    place = np.full(graph.n, -1)
    place[order] = np.arange(len(order))
    L = np.full((graph.n, graph.n), np.inf)
    L[graph.tails, graph.neighbours] = graph.lengths
    for v in range(graph.n):
        if v == source or np.isinf(want[v]):
            assert parent[v] == -1
        else:
            np.testing.assert_allclose(distance[parent[v]] + L[parent[v], v], distance[v])
            assert place[parent[v]] < place[v]
    assert order[0] == source


@pytest.mark.parametrize("source", [0, 17, 47])
def test_the_tree_from_one_node_is_a_tree_of_shortest_paths(route, source):
    graph = k_graph(pieces(), 3)
    check_tree(graph, source, *tree_from(graph, source))


def test_the_tree_grows_in_order_even_among_duplicates(route):
    graph = k_graph(with_duplicates(), 6)
    check_tree(graph, 50, *tree_from(graph, 50))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_tree_is_in_the_dtype_of_the_lengths(route, dtype):
    graph = k_graph(cloud(), 4)
    distance, _, _ = tree_from(graph, 3, graph.lengths.astype(dtype))
    assert distance.dtype == dtype
    np.testing.assert_allclose(distance, floyd(graph)[3], rtol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("method", ["D", "FW"])
@pytest.mark.parametrize("scale", [1e-300, 1e-295, 1e-200, 1.0, 1e200, 1e300])
def test_lengths_of_any_scale(route, method, scale):
    graph = k_graph(with_duplicates(), 6)
    scaled = from_edges(graph.tails, graph.neighbours, graph.lengths * scale, graph.n)
    D = all_geodesics(graph, np.float64, method=method)
    np.testing.assert_allclose(
        all_geodesics(scaled, np.float64, method=method), D * scale, rtol=1e-12
    )
    np.testing.assert_allclose(tree_from(scaled, 3)[0], D[3] * scale, rtol=1e-12)


def test_lengths_beside_which_others_would_vanish_are_refused():
    graph = from_edges(np.array([0, 1]), np.array([1, 2]), np.array([1e-300, 1.0]), 3)
    with pytest.raises(InputError, match="290 orders of magnitude"):
        all_geodesics(graph, np.float64)


@pytest.mark.parametrize("X", [cloud(200), with_duplicates(50)], ids=["cloud", "duplicates"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lanes", [1, 7, 64])
def test_spread_nodes_are_those_of_whole_trees_to_the_last_bit(monkeypatch, X, dtype, lanes):
    monkeypatch.setattr(paths, "_SMALL", 0)
    monkeypatch.setattr(paths, "_LANES", lanes)
    graph = k_graph(X, 6)
    assert graph.components()[0] == 1
    lengths = graph.lengths.astype(dtype)
    nodes = paths.spread_nodes(graph, lengths, 30)
    D = paths.geodesics_from(graph, lengths, nodes, n_jobs=2)
    want, trees = spread_landmarks(lambda i: tree_from(graph, i, lengths)[0], graph.n, 30, dtype)
    np.testing.assert_array_equal(nodes, want)
    np.testing.assert_array_equal(D, trees)


def test_few_lanes_where_the_budget_is_small(monkeypatch):
    monkeypatch.setattr(paths, "get_memory", lambda: 1e6)
    assert paths._lanes_that_fit(100_000, 4, 2) == 1
    monkeypatch.setattr(paths, "get_memory", lambda: 1e12)
    assert paths._lanes_that_fit(100_000, 4, 2) == 64
    monkeypatch.setattr(paths, "get_memory", lambda: 10 * 4 * 100_000 * 2 * 9.0)
    assert paths._lanes_that_fit(100_000, 4, 2) == 1  # five are too few
