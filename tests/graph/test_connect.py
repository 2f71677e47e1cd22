"""Bridges, policies and advice for graphs in pieces, against brute force."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components

import nearfold
import nearfold.graph.bridges as bridges
import nearfold.graph.connect as connect
from nearfold.errors import InputError, NearfoldWarning
from nearfold.graph import (
    OutsideSearch,
    all_geodesics,
    apply_policy,
    from_edges,
    neighbourhood_graph,
    spanning_edges,
)
from nearfold.graph.bridges import bridging_edges, joining_edges
from nearfold.graph.connect import (
    connectivity_advice,
    side_by_side,
    smallest_connecting_k,
    smallest_connecting_radius,
    spanning_ranks,
)
from nearfold.neighbors import build_index, lists


def clouds(sizes=(30, 20, 12, 5), seed=0, spread=30.0, d=3):
    """Clouds of these sizes at random places, their rows shuffled."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(s, d)) + spread * rng.normal(size=d) for s in sizes])
    return X[rng.permutation(len(X))]


def distances(X, metric="euclidean"):
    difference = np.abs(X[:, None] - X[None])
    return difference.sum(axis=2) if metric == "cityblock" else np.sqrt((difference**2).sum(axis=2))


def kruskal(D, label):
    """The minimum spanning tree between pieces: all edges by length, those that join are kept."""
    label = label.copy()
    kept = []
    a, b = np.triu_indices(len(D), 1)
    for e in np.argsort(D[a, b], kind="stable"):
        i, j = a[e], b[e]
        if label[i] != label[j]:
            kept.append((i, j))
            label[label == label[j]] = label[i]
    return np.array(sorted(kept)).reshape(-1, 2)


class Counting(OutsideSearch):
    """Notes which pieces search for their way out."""

    def __init__(self, *args):
        super().__init__(*args)
        self.searched = []

    def shortest_exits(self, label, small):
        self.searched.append(np.flatnonzero(np.isin(label, small)))
        return super().shortest_exits(label, small)

    def nearest_among(self, some, others):
        self.searched.append(some)
        return super().nearest_among(some, others)


def in_pieces(X, k=3, metric="euclidean"):
    """The k-graph of X, its reach, its pieces, and what surrounds them."""
    rows = distances(X) if metric == "precomputed" else X
    index = build_index(rows, metric=metric)
    graph, reach = neighbourhood_graph(index, k, None)
    return graph, reach, graph.components()[1], Counting(index, metric == "precomputed")


def check_tree(X, found, label, metric="euclidean"):
    a, b, length = found
    D = distances(X, "cityblock" if metric == "cityblock" else "euclidean")
    np.testing.assert_array_equal(np.column_stack([a, b]), kruskal(D, label))
    np.testing.assert_allclose(length, D[a, b], rtol=1e-12)


def shortest_of_pairs(D, label):
    """For every two pieces the length of the shortest edge between them."""
    count = label.max() + 1
    return {(i, j): D[np.ix_(label == i, label == j)].min() for i in range(count) for j in range(i)}


def check_pairs(X, found, label, metric="euclidean"):
    a, b, length = found
    D = distances(X, "cityblock" if metric == "cityblock" else "euclidean")
    want = shortest_of_pairs(D, label)
    assert len(a) == len(want)
    pairs = {tuple(sorted((label[i], label[j]), reverse=True)) for i, j in zip(a, b, strict=True)}
    assert pairs == set(want)
    np.testing.assert_allclose(np.sort(length), np.sort(list(want.values())), rtol=1e-12)
    np.testing.assert_allclose(length, D[a, b], rtol=1e-12)


# ---- bridges -------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [40, 2**21])  # searched in many parts, or in one
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "precomputed"])
def test_every_two_pieces_are_joined_by_their_shortest_edge(monkeypatch, cells, metric):
    monkeypatch.setattr(bridges, "_CELLS", cells)
    X = clouds()
    graph, reach, label, around = in_pieces(X, metric=metric)
    check_pairs(X, joining_edges(label, around), label, metric)
    check_pairs(X, bridging_edges(graph, reach, label, around), label, metric)


def test_equidistant_clusters_stay_equidistant():
    # three clusters at the corners of a triangle: a spanning tree would double one of its sides
    rng = np.random.default_rng(0)
    corners = 50.0 * np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]])
    X = np.vstack([c + 0.1 * rng.normal(size=(20, 2)) for c in corners])
    with pytest.warns(NearfoldWarning, match="3 pieces"):
        bridged = settled(X, "bridge", k=5)
    D = all_geodesics(bridged.graph, np.float64)
    np.testing.assert_allclose(D[0, [20, 40]], 50.0, rtol=0.02)
    np.testing.assert_allclose(D[20, 40], 50.0, rtol=0.02)


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "precomputed"])
def test_large_pieces_are_joined_from_samples_of_their_rows(monkeypatch, metric):
    monkeypatch.setattr(bridges, "MOST_PAIRS", 100)
    monkeypatch.setattr(bridges, "_SAMPLED", 60)
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(200, 3)) + 12 * c for c in rng.normal(size=(6, 3))])
    graph, reach, label, around = in_pieces(X, k=8, metric=metric)
    assert bridges.sampled(label)
    D = distances(X, "cityblock" if metric == "cityblock" else "euclidean")
    want = shortest_of_pairs(D, label)
    a, b, length = bridging_edges(graph, reach, label, around)
    np.testing.assert_allclose(length, D[a, b], rtol=1e-12)
    pairs = np.sort(np.column_stack([label[a], label[b]]))[:, ::-1]
    exact = [want[tuple(pair)] for pair in pairs.tolist()]
    assert len(a) == len(want)
    assert (length >= np.array(exact) * (1 - 1e-12)).all()
    assert (length / exact).mean() < 1.05
    tree = spanning_edges(graph, reach, label, around)
    assert len(tree[0]) == label.max()
    shortest = D[tuple(kruskal(D, label).T)].sum()
    assert shortest * (1 - 1e-12) <= tree[2].sum() < 1.1 * shortest


@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
def test_sampled_bridges_are_said(monkeypatch):
    monkeypatch.setattr(bridges, "MOST_PAIRS", 100)
    X = clouds()
    model = nearfold.Isomap(n_neighbors=3).fit(X)
    said = "bridges between pieces of the graph sought from samples of their rows"
    assert model.approximation_ == said
    model = nearfold.LocallyLinearEmbedding(n_neighbors=3).fit(X)
    assert model.approximation_ == said


def test_very_many_pieces_are_first_merged_along_the_spanning_tree(monkeypatch):
    monkeypatch.setattr(bridges, "MOST_JOINED", 4)
    X = clouds((12, 11, 10, 9, 8, 7, 6))
    graph, reach, label, around = in_pieces(X)
    count = label.max() + 1
    assert count >= 7
    a, b, length = bridging_edges(graph, reach, label, around)
    assert len(a) == count - 4 + 6
    D = distances(X)
    tree = np.sort(D[tuple(kruskal(D, label).T)])
    assert np.isin(tree[: count - 4].round(9), length.round(9)).all()
    assert graph.with_edges(a, b, length).components()[0] == 1


@pytest.mark.parametrize("few", [0, 8, 64])  # above this size a piece searches by itself
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "precomputed"])
@pytest.mark.parametrize("seed", range(3))
def test_bridges_are_the_minimum_spanning_tree_between_pieces(monkeypatch, few, metric, seed):
    monkeypatch.setattr(bridges, "_FEW", few)
    X = clouds(seed=seed)
    graph, reach, label, around = in_pieces(X, metric=metric)
    assert label.max() >= 3
    check_tree(X, spanning_edges(graph, reach, label, around), label, metric)


@pytest.mark.parametrize("few", [0, 64])
def test_many_small_pieces_are_bridged_too(monkeypatch, few):
    monkeypatch.setattr(bridges, "_FEW", few)
    X = np.random.default_rng(5).uniform(size=(150, 2))
    graph, reach, label, around = in_pieces(X, k=1)
    assert label.max() > 20
    check_tree(X, spanning_edges(graph, reach, label, around), label)


def test_the_largest_piece_never_searches():
    X = clouds((90, 80, 70, 4))
    graph, reach, label, around = in_pieces(X)
    spanning_edges(graph, reach, label, around)
    assert around.searched
    largest = np.flatnonzero(label == 0)
    for rows in around.searched:
        assert not np.isin(largest, rows).any()


def test_nothing_is_searched_where_the_graph_knows_the_way():
    X = clouds((40,))
    graph, reach, label, around = in_pieces(X, k=10)
    assert label.max() == 0
    found = spanning_edges(graph, reach, np.arange(40), around)
    assert around.searched == []
    check_tree(X, found, np.arange(40))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_short_lists_are_not_taken_for_the_whole_truth(k, seed):
    # a row whose list ends inside its piece may be nearer to another one than the graph knows
    X = np.random.default_rng(seed).uniform(size=(60, 2))
    graph, reach, _, around = in_pieces(X, k=k)
    check_tree(X, spanning_edges(graph, reach, np.arange(60), around), np.arange(60))


def test_a_connected_graph_needs_no_bridges():
    X = clouds((40,))
    graph, reach, label, around = in_pieces(X, k=10)
    assert [len(part) for part in spanning_edges(graph, reach, label, around)] == [0, 0, 0]


def test_bridges_of_pieces_with_duplicates():
    X = np.repeat(clouds((4, 3)), 4, axis=0)  # each row four times: 3 neighbours lead nowhere
    graph, reach, label, around = in_pieces(X, k=3)
    assert label.max() == 6
    a, b, length = spanning_edges(graph, reach, label, around)
    assert len(a) == 6
    D = distances(X)
    np.testing.assert_allclose(np.sort(length), np.sort(D[tuple(kruskal(D, label).T)]))
    assert graph.with_edges(a, b, length).components()[0] == 1


def test_equally_short_bridges_are_built_once():
    x = 0.1 * np.arange(6)
    C, B = np.column_stack([x[:5], np.ones(5)]), np.column_stack([x[4::-1], np.zeros(5)])
    X = np.vstack([C, B, np.column_stack([x, -np.ones(6)])])  # three lines, one apart
    graph, reach, label, around = in_pieces(X, k=2)
    assert label.max() == 2
    assert len(spanning_edges(graph, reach, label, around)[0]) == 2


# ---- what would connect --------------------------------------------------------------


def brute_force_k(X):
    D = distances(X)
    for k in range(1, len(X)):
        A = np.zeros((len(X), len(X)))
        for i in range(len(X)):
            A[i, [j for j in np.argsort(D[i], kind="stable") if j != i][:k]] = 1
        if connected_components(sparse.csr_array(A), directed=False)[0] == 1:
            return k
    raise AssertionError


@pytest.mark.parametrize("seed", range(6))
def test_smallest_connecting_k_is_brute_forces(seed):
    sizes = [(15, 15), (30, 9), (12, 11, 10), (40,), (25, 2), (33, 20)][seed]
    X = clouds(sizes, seed=seed, spread=4.0)
    for asked in (1, 3, 10):
        assert smallest_connecting_k(build_index(X), asked) == brute_force_k(X)


def test_smallest_connecting_k_of_two_far_pieces_is_the_size_of_the_smaller():
    X = clouds((30, 21), spread=1e3)
    assert smallest_connecting_k(build_index(X), 5) == 21
    assert smallest_connecting_k(build_index(X), 5, most=20) is None


@pytest.mark.parametrize("pairs", [2**17, 40])
def test_components_of_every_smaller_graph_from_one_forest(monkeypatch, pairs):
    monkeypatch.setattr(lists, "PAIRS", pairs)  # 40: five rows at a time
    X = np.random.default_rng(0).integers(0, 9, (60, 2)).astype(float)  # with duplicates
    index = build_index(X)
    ranks = spanning_ranks(index, 8)
    near = index.nearest(None, 8)[1]
    for k in range(1, 9):
        graph = np.zeros((60, 60))
        graph[np.arange(60)[:, None], near[:, :k]] = 1
        assert 60 - np.count_nonzero(ranks <= k) == connected_components(graph, directed=False)[0]


def test_smallest_connecting_k_of_two_rows():
    assert smallest_connecting_k(build_index(np.array([[0.0], [1.0]])), 1) == 1


@pytest.mark.parametrize("k", [1, 2, 6])
@pytest.mark.parametrize("seed", range(3))
def test_smallest_connecting_radius_is_brute_forces(seed, k):
    X = clouds((25, 15), seed=seed, spread=3.0)
    graph, reach, _, around = in_pieces(X, k=k)
    radius = smallest_connecting_radius(graph, reach, around)
    D = distances(X)

    def pieces_within(limit):
        return connected_components(sparse.csr_array(limit >= D), directed=False)[0]

    assert pieces_within(radius * (1 + 1e-12)) == 1
    assert pieces_within(radius * (1 - 1e-12)) > 1


def test_radius_that_connects_duplicates_is_zero():
    X = np.ones((6, 2))
    graph, reach, _, around = in_pieces(X, k=2)
    assert smallest_connecting_radius(graph, reach, around) == 0.0


# ---- policies ------------------------------------------------------------------------


def settled(X, policy, k=3, **options):
    graph, reach, _, around = in_pieces(X, k)
    return apply_policy(graph, policy, around, reach, k, **options)


def test_error_says_the_sizes_and_what_would_connect():
    X = clouds((30, 21, 8), spread=1e3)
    with pytest.raises(InputError) as caught:
        settled(X, "error", k=5)
    text = str(caught.value)
    assert "3 pieces (of 30, 21, 8 rows)" in text
    assert f"n_neighbors={brute_force_k(X)} would connect it" in text
    for policy in ("bridge", "largest", "each"):
        assert policy in text


def test_error_lists_only_the_largest_of_many_pieces():
    X = np.repeat(1e3 * np.arange(8.0)[:, None], 6, axis=0) + np.random.default_rng(0).normal(
        size=(48, 1)
    )
    with pytest.raises(InputError, match=r"8 pieces \(of 6, 6, 6, 6, 6, \.\.\. rows\)"):
        settled(X, "error")


def test_a_connected_graph_is_left_alone_whatever_the_policy():
    X = clouds((40,))
    for policy in connect.POLICIES:
        result = settled(X, policy, k=8)
        assert result.bridges is None
        assert len(result.pieces) == 1
        np.testing.assert_array_equal(result.pieces[0], np.arange(40))
        np.testing.assert_array_equal(result.label, 0)


def test_policies_say_what_they_did_and_cover_the_rows_they_should():
    X = clouds((30, 20, 8), spread=1e3)
    graph, _, label, _ = in_pieces(X, 5)
    with pytest.warns(NearfoldWarning, match="joined by 3 bridges, the shortest between pieces"):
        bridged = settled(X, "bridge", k=5)
    assert bridged.graph.components()[0] == 1
    assert len(bridged.graph.lengths) == len(graph.lengths) + 6
    np.testing.assert_array_equal(bridged.label, label)
    check_pairs(X, bridged.bridges, label)
    with pytest.warns(NearfoldWarning, match="joined by 2 bridges"):
        tree = settled(X, "bridge", k=5, tree=True)
    check_tree(X, tree.bridges, label)
    with pytest.warns(NearfoldWarning, match="the largest is embedded"):
        largest = settled(X, "largest", k=5)
    np.testing.assert_array_equal(largest.pieces[0], np.flatnonzero(label == 0))
    assert len(largest.pieces) == 1
    with pytest.warns(NearfoldWarning, match="each is embedded on its own"):
        each = settled(X, "each", k=5)
    assert [len(rows) for rows in each.pieces] == [30, 20, 8]
    np.testing.assert_array_equal(np.sort(np.concatenate(each.pieces)), np.arange(58))


def test_an_unknown_policy_is_refused_even_if_the_graph_is_whole():
    with pytest.raises(InputError, match="disconnected='glue': use one of error, bridge"):
        settled(clouds((40,)), "glue", k=8)


def test_a_graph_without_distances_outside_of_it_cannot_be_bridged():
    graph = from_edges(np.array([0, 2]), np.array([1, 3]), np.ones(2), 4)
    with pytest.raises(InputError, match=r"in 2 pieces .* Give a graph with more edges"):
        apply_policy(graph, "bridge", None, np.ones(4), 1)
    with pytest.raises(RuntimeError):  # what scikit-learn raises
        apply_policy(graph, "error", None, np.ones(4), 1)


def test_advice_for_a_radius_is_a_larger_radius():
    *_, around = in_pieces(clouds((8,)))
    assert "larger radius" in connectivity_advice(around, None)


class OnlyOutside:
    """An index that refuses to search its own rows again."""

    def __init__(self, index):
        self.X, self.n_rows, self.part = index.X, index.n_rows, index.part
        self.index = index

    def nearest(self, Q, k):
        assert Q is not None
        return self.index.nearest(Q, k)


@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
def test_a_warning_costs_no_further_search_of_all_rows():
    X = clouds((30, 20, 8), spread=1e3)
    graph, reach, _, around = in_pieces(X, 5)
    for policy in ("bridge", "largest", "each"):
        apply_policy(graph, policy, OutsideSearch(OnlyOutside(around.index)), reach, 5)


# ---- side by side --------------------------------------------------------------------


def test_side_by_side_leaves_gaps_and_keeps_the_shapes():
    rng = np.random.default_rng(0)
    before = [rng.normal(size=(n, 2)) * s for n, s in ((9, 5.0), (5, 0.1), (1, 1.0), (7, 2.0))]
    after = [Z.copy() for Z in before]
    side_by_side(after)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_allclose(new - new[0], old - old[0], atol=1e-12)
        np.testing.assert_array_equal(new[:, 1], old[:, 1])
    for left, right in pairwise(after):
        assert left[:, 0].max() < right[:, 0].min()


def test_one_embedding_stays_where_it_is():
    Z = np.random.default_rng(0).normal(size=(5, 2))
    after = [Z.copy()]
    side_by_side(after)
    np.testing.assert_array_equal(after[0], Z)


def test_points_without_extent_do_not_coincide():
    after = [np.zeros((2, 1)), np.zeros((1, 1)), np.zeros((1, 1))]
    side_by_side(after)
    assert after[0][0, 0] < after[1][0, 0] < after[2][0, 0]
