"""The graph doctor finds what was planted, and is quiet where there is nothing."""

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from sklearn.datasets import make_swiss_roll

import nearfold
from nearfold import diagnose
from nearfold.app.cli import main
from nearfold.errors import InputError
from nearfold.graph import graph_of_lists
from nearfold.graph.doctor import edge_loads, find_circuits, median_lengths, subtree_sizes
from nearfold.graph.paths import tree_from
from nearfold.neighbors import build_index


def k_graph(X, k):
    return graph_of_lists(*build_index(X).nearest(None, k))


def planted_roll(n, count, seed):
    """A swiss roll with some rows moved half way to the next turn."""
    X, t = make_swiss_roll(n, random_state=seed)
    moved = []
    for i in np.random.default_rng(seed).permutation(n):
        outer = t[i] + 2 * np.pi
        if outer < t.max() - 0.3:
            j = np.argmin(9 * (t - outer) ** 2 + (X[:, 1] - X[i, 1]) ** 2)
            X[i] = (X[i] + X[j]) / 2
            moved.append(int(i))
        if len(moved) == count:
            return X, moved
    raise AssertionError


def ends(suspects):
    return {s.a for s in suspects} | {s.b for s in suspects}


@pytest.mark.parametrize(("n", "k", "seed"), [(1600, 10, 0), (2000, 10, 1), (2500, 12, 2)])
def test_planted_short_circuits_are_found_and_clean_rolls_are_quiet(n, k, seed):
    X, moved = planted_roll(n, 3, seed)
    found = diagnose(X, n_neighbors=k)
    assert set(moved) <= ends(found.circuits.short)
    for suspect in found.circuits.short:
        assert suspect.a in moved or suspect.b in moved
        assert suspect.detour > 5
    assert not found.healthy
    clean = diagnose(make_swiss_roll(n, random_state=seed)[0], n_neighbors=k)
    assert clean.healthy
    assert "Nothing suspicious" in str(clean)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_hole_is_found_and_goes_around_it(seed):
    X, _ = make_swiss_roll(2000, random_state=seed, hole=True)
    (hole,) = diagnose(X, n_neighbors=10).holes
    assert 60 < hole.length < 100
    X = np.random.default_rng(seed).random((1500, 2))
    assert diagnose(X, n_neighbors=10).holes == []
    X = X[np.hypot(*(X - 0.5).T) > 0.2]
    (hole,) = diagnose(X, n_neighbors=10).holes
    angle = np.unwrap(np.arctan2(*(X[np.append(hole.rows, hole.rows[0])] - 0.5).T))
    assert abs(angle[-1] - angle[0]) == pytest.approx(2 * np.pi)  # once around


def test_pieces_and_what_connects_them():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(60, 3)), rng.normal(size=(40, 3)) + 30])
    found = diagnose(X, n_neighbors=5)
    np.testing.assert_array_equal(found.sizes, [60, 40])
    gap = np.sqrt(((X[:60, None] - X[60:]) ** 2).sum(axis=2)).min()
    assert found.smallest_radius == pytest.approx(gap)
    assert found.smallest_k == 40  # the smaller piece must look beyond itself
    assert "Pieces: 2, of 60, 40 rows" in str(found)


def test_a_thin_bridge_between_two_regions_is_named():
    rng = np.random.default_rng(1)
    X = np.vstack([rng.random((150, 2)), rng.random((150, 2)) + np.array([4.0, 0.0])])
    graph = k_graph(X, 8)
    assert graph.components()[0] == 2
    joined = graph.with_edges(np.array([3]), np.array([160]), np.array([4.0]))
    found = find_circuits(joined)
    assert [(s.a, s.b) for s in found.thin] in ([(3, 160)], [(160, 3)])
    assert found.short == []


def test_subtree_sizes_and_loads_are_those_of_the_paths():
    X = np.random.default_rng(2).random((80, 2))
    graph = k_graph(X, 5)
    matrix = sparse.csr_array((graph.lengths, graph.neighbours, graph.first), shape=(80, 80))
    sources = np.array([0, 17])
    want = np.zeros(len(graph.lengths))
    keys = {(a, b): i for i, (a, b) in enumerate(zip(graph.tails, graph.neighbours, strict=True))}
    for source in sources:
        before = dijkstra(matrix, directed=False, indices=source, return_predecessors=True)[1]
        for target in range(80):
            v = target
            while before[v] >= 0:
                want[keys[v, before[v]]] += 1
                want[keys[before[v], v]] += 1
                v = before[v]
    np.testing.assert_allclose(edge_loads(graph, sources), want / (2 * 80))
    _, order, parent = tree_from(graph, 0)
    assert subtree_sizes(order, parent)[0] == 80


def test_median_lengths_are_per_row():
    graph = k_graph(np.random.default_rng(3).random((50, 2)), 4)
    for v, median in enumerate(median_lengths(graph)):
        own = np.sort(graph.lengths[graph.first[v] : graph.first[v + 1]])
        assert median == own[(len(own) - 1) // 2]


def test_the_same_whatever_n_jobs():
    X, _ = planted_roll(1600, 2, 0)
    one, two = (str(diagnose(X, n_jobs=n)) for n in (1, 2))
    assert one == two


def test_command_prints_and_draws(tmp_path):
    X, moved = planted_roll(1600, 2, 0)
    table = tmp_path / "roll.csv"
    np.savetxt(table, X, delimiter=",", header="a,b,c", comments="")
    picture = tmp_path / "graph.png"
    done = CliRunner().invoke(main, ["doctor", str(table), "-k", "10", "-o", str(picture)])
    assert done.exit_code == 0, done.output
    assert "Suspected short circuits" in done.output
    assert str(moved[0]) in done.output
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("k", [0, 50, 99])
def test_a_number_of_neighbours_that_cannot_be_is_refused(k):
    with pytest.raises(InputError, match="n_neighbors"):
        diagnose(np.random.default_rng(0).random((50, 2)), n_neighbors=k)


def test_nan_is_refused_and_radius_works():
    X = np.random.default_rng(0).random((200, 2))
    assert len(diagnose(X, radius=0.3).sizes) == 1
    X[3, 1] = np.nan
    with pytest.raises(InputError, match="NaN"):
        diagnose(X)


def test_a_file_beyond_the_budget_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((20_000, 20)))
    nearfold.set_memory("1MB")
    try:
        with pytest.raises(MemoryError, match="needs about"):
            diagnose(tmp_path / "x.npy")
    finally:
        nearfold.set_memory(None)


def test_a_learned_metric_is_the_graph_of_the_transformed_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 4)) * [1, 1, 9, 9], np.arange(90) % 3
    X[:, :2] += 6 * np.column_stack([y, y % 2])
    learner = nearfold.LFDA(n_components=2, k=3).fit(X, y)
    ours = nearfold.diagnose(X, n_neighbors=4, metric=learner)
    want = nearfold.diagnose(learner.transform(X), n_neighbors=4)
    np.testing.assert_array_equal(ours.label, want.label)
    assert ours.smallest_k == want.smallest_k
    assert ours.smallest_radius == pytest.approx(want.smallest_radius)
