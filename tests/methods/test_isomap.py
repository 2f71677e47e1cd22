"""Isomap against Floyd's loop and classical MDS, against scikit-learn, and its policies."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.manifold
import sklearn.neighbors
from scipy import sparse
from sklearn.datasets import load_digits, make_swiss_roll
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_limits

import nearfold
import nearfold.graph.paths as paths
from nearfold import Isomap, KNeighborsTransformer
from nearfold.errors import (
    ApproximationWarning,
    InputError,
    NearfoldError,
    NearfoldWarning,
    NonFiniteError,
)
from nearfold.state import StateError, fields_of

POLICIES = ["bridge", "largest", "each"]


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


@pytest.fixture(params=["scipy", "kernels"])
def route(request, monkeypatch):
    monkeypatch.setattr(paths, "_SMALL", 0 if request.param == "kernels" else 10**9)


def roll(n=200, seed=0):
    return make_swiss_roll(n, random_state=seed)[0]


def distances(A, B):
    return np.sqrt(((A[:, None] - B[None]) ** 2).sum(axis=2))


def floyd(L):
    """D_ij <- min(D_ij, D_iv + D_vj) for one v after the other."""
    D = L.copy()
    np.fill_diagonal(D, 0.0)
    for v in range(len(D)):
        for i in range(len(D)):
            D[i] = np.minimum(D[i], D[i, v] + D[v])
    return D


def literal_edges(D, k=None, radius=None):
    """Lengths of the k-graph or of the epsilon graph, inf where there is no edge."""
    L = np.full(D.shape, np.inf)
    for i in range(len(D)):
        others = [j for j in np.argsort(D[i], kind="stable") if j != i]
        for j in others[:k] if k else [j for j in others if D[i, j] <= radius]:
            L[i, j] = L[j, i] = D[i, j]
    return L


def literal_mds(D, k):
    """B = -1/2 J D^2 J; its k largest eigenvalues and vectors; Z = V lam^(1/2)."""
    n = len(D)
    J = np.eye(n) - np.ones((n, n)) / n
    lam, V = np.linalg.eigh(-0.5 * J @ D**2 @ J)
    lam, V = lam[::-1][:k], V[:, ::-1][:, :k]
    return lam, V, V * np.sqrt(lam)


def up_to_sign(got, want):
    """`want` with each column turned towards that of `got`."""
    return want * np.where((got * want).sum(axis=0) < 0, -1.0, 1.0)


def assert_same(got, want, rtol=1e-8):
    """Equal up to the sign of each axis, relative to the size of the whole."""
    np.testing.assert_allclose(got, up_to_sign(got, want), atol=rtol * np.abs(want).max())


def clouds(sizes=(40, 25, 15), seed=0, spread=40.0):
    """Flat clouds far apart, and which cloud each row is of, shuffled."""
    rng = np.random.default_rng(seed)
    X = np.vstack(
        [rng.uniform(size=(s, 3)) * [6, 4, 1] + spread * rng.normal(size=3) for s in sizes]
    )
    label = np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(len(X))
    return X[order], label[order]


def fit_in_pieces(X, policy, **options):
    with pytest.warns(NearfoldWarning, match="pieces"):
        return Isomap(disconnected=policy, **{"n_neighbors": 5} | options).fit(X)


# ---- the formula ---------------------------------------------------------------------


@pytest.mark.parametrize("path_method", ["auto", "D", "FW"])
@pytest.mark.parametrize("graph", [{"n_neighbors": 8}, {"n_neighbors": None, "radius": 9.0}])
def test_is_classical_mds_of_floyds_paths(route, graph, path_method):
    X = roll(150)
    model = Isomap(n_components=3, path_method=path_method, **graph).fit(X)
    D = floyd(literal_edges(distances(X, X), graph["n_neighbors"], graph.get("radius")))
    assert np.isfinite(D).all()
    lam, _, Z = literal_mds(D, 3)
    np.testing.assert_allclose(model.dist_matrix_, D, rtol=1e-12)
    assert_same(model.embedding_, Z)
    np.testing.assert_allclose(model.kernel_pca_.eigenvalues_, lam, rtol=1e-9)
    np.testing.assert_array_equal(model.label_, 0)
    assert model.landmarks_ is None
    assert model.approximation_ is None


def test_reconstruction_error_is_the_norm_of_what_is_left_of_the_centred_kernel():
    X = roll(120)
    model = Isomap(n_neighbors=8).fit(X)
    n = len(X)
    J = np.eye(n) - np.ones((n, n)) / n
    B = -0.5 * J @ model.dist_matrix_**2 @ J
    lam, V, _ = literal_mds(model.dist_matrix_, 2)
    left = np.linalg.norm(B - (V * lam) @ V.T) / n
    np.testing.assert_allclose(model.reconstruction_error(), left, rtol=1e-9)


def test_new_rows_are_centred_with_the_means_of_the_training_geodesics():
    X, Q = roll(200)[:150], roll(200)[150:]
    model = Isomap(n_neighbors=8).fit(X)
    D = floyd(literal_edges(distances(X, X), 8))
    lam, V, _ = literal_mds(D, 2)
    Z = np.empty((len(Q), 2))
    for i, q in enumerate(Q):
        far = distances(q[None], X)[0]
        near = np.argsort(far)[:8]
        geodesic = np.array([min(far[j] + D[j, t] for j in near) for t in range(len(X))])
        a = -0.5 * geodesic**2
        means = (-0.5 * D**2).mean(axis=1)
        Z[i] = V.T @ (a - means) / np.sqrt(lam)
    assert_same(model.transform(Q), Z)


def test_transform_is_row_wise():
    X, Q = roll(200)[:150], roll(200)[150:]
    for options in ({"n_neighbors": 8}, {"n_neighbors": None, "radius": 9.0}, {"n_landmarks": 30}):
        model = Isomap(**{"n_neighbors": 8} | options).fit(X)
        Z = model.transform(Q)
        alone = np.vstack([model.transform(q[None]) for q in Q])
        np.testing.assert_allclose(Z, alone, atol=1e-11 * np.abs(Z).max())


# ---- scikit-learn --------------------------------------------------------------------


def halves(a, b):
    return float(np.abs(a - b).sum() / 2 + np.abs(a - b).max() / 2)


CASES = {
    "k": {"n_neighbors": 10},
    "radius": {"n_neighbors": None, "radius": 8.0},
    "fw": {"n_neighbors": 10, "path_method": "FW"},
    "manhattan": {"n_neighbors": 10, "p": 1},
    "cityblock": {"n_neighbors": 10, "metric": "cityblock"},
    "cosine": {"n_neighbors": 15, "metric": "cosine"},
    "chebyshev radius": {"n_neighbors": None, "radius": 7.0, "metric": "chebyshev"},
    "function": {"n_neighbors": 10, "metric": halves},
    "three axes": {"n_neighbors": 10, "n_components": 3},
}


@pytest.mark.parametrize("case", CASES)
def test_equals_scikit_learn(case):
    X, Q = roll(190)[:160], roll(190)[160:]
    ours, theirs = Isomap(**CASES[case]).fit(X), sklearn.manifold.Isomap(**CASES[case]).fit(X)
    np.testing.assert_allclose(ours.dist_matrix_, theirs.dist_matrix_, rtol=1e-6, atol=1e-12)
    assert_same(ours.embedding_, theirs.embedding_, 1e-6)
    np.testing.assert_allclose(
        ours.reconstruction_error(), theirs.reconstruction_error(), rtol=1e-6
    )
    if case == "three axes":  # both ways of one sign each
        assert ours.embedding_.shape == (160, 3)
    turn = np.where((ours.embedding_ * theirs.embedding_).sum(axis=0) < 0, -1.0, 1.0)
    np.testing.assert_allclose(
        ours.transform(Q), theirs.transform(Q) * turn, atol=1e-6 * np.abs(ours.embedding_).max()
    )


def test_equals_scikit_learn_on_digits():
    X = load_digits().data[:400]
    X = X + 0.01 * np.random.default_rng(0).normal(size=X.shape)  # equal distances are no test
    ours = Isomap(n_neighbors=20).fit(X)
    theirs = sklearn.manifold.Isomap(n_neighbors=20).fit(X)
    np.testing.assert_allclose(ours.dist_matrix_, theirs.dist_matrix_, rtol=1e-9)
    assert_same(ours.embedding_, theirs.embedding_)


def test_kernel_pca_is_the_one_scikit_learn_holds():
    X = roll(120)
    ours = Isomap(n_neighbors=10).fit(X).kernel_pca_
    theirs = sklearn.manifold.Isomap(n_neighbors=10).fit(X).kernel_pca_
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    assert_same(ours.eigenvectors_, theirs.eigenvectors_, 1e-7)


# ---- the fitted rows are where transform puts them ------------------------------------


@pytest.mark.parametrize("extra", [{}, {"n_landmarks": 12}])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("graph", [{"n_neighbors": 5}, {"n_neighbors": None, "radius": 3.0}])
@pytest.mark.parametrize("given", ["features", "distances"])
def test_transform_of_the_fitted_rows_is_the_embedding(given, graph, policy, extra):
    X, _ = clouds()
    if given == "distances":
        X, graph = distances(X, X), graph | {"metric": "precomputed"}
    model = fit_in_pieces(X, policy, **graph, **extra)
    assert (model.landmarks_ is not None) == bool(extra)
    np.testing.assert_allclose(
        model.transform(X), model.embedding_, atol=1e-9 * np.abs(model.embedding_).max()
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_transform_of_the_fitted_rows_of_a_connected_graph(route, dtype):
    X = roll(150).astype(dtype)
    model = Isomap(n_neighbors=8).fit(X)
    np.testing.assert_allclose(
        model.transform(X), model.embedding_, atol=1e4 * np.finfo(dtype).eps * 50
    )


# ---- duplicates ----------------------------------------------------------------------


@pytest.mark.parametrize("graph", [{"n_neighbors": 9}, {"n_neighbors": None, "radius": 9.0}])
@pytest.mark.parametrize("metric", ["minkowski", "precomputed"])
def test_duplicates_are_at_one_place(route, graph, metric):
    X = roll(120)
    X = np.vstack([X, X[::-1]])
    rows = distances(X, X) if metric == "precomputed" else X
    model = Isomap(metric=metric, **graph).fit(rows)
    D = model.dist_matrix_
    assert np.isfinite(D).all()
    pairs = np.arange(240), np.arange(240)[::-1]
    np.testing.assert_array_equal(D[pairs], 0.0)
    np.testing.assert_allclose(model.embedding_, model.embedding_[::-1], atol=1e-9)
    want = floyd(literal_edges(distances(X, X), graph["n_neighbors"], graph.get("radius")))
    np.testing.assert_allclose(D, want, rtol=1e-12)


def test_more_duplicates_than_neighbours_are_a_piece_not_a_hole(route):
    X = np.vstack([roll(60), np.tile([[100.0, 0, 0]], (9, 1))])
    model = fit_in_pieces(X, "each", n_neighbors=6)
    last = model.label_[-1]
    assert (model.label_[-9:] == last).all()
    np.testing.assert_array_equal(model.dist_matrix_[-9:, -9:], 0.0)
    assert np.isfinite(model.embedding_).all()


def test_constant_rows_are_all_at_the_origin(route):
    model = Isomap(n_neighbors=4).fit(np.full((20, 3), 7.0))
    np.testing.assert_array_equal(model.embedding_, 0.0)
    np.testing.assert_array_equal(model.dist_matrix_, 0.0)
    np.testing.assert_array_equal(model.transform(np.full((2, 3), 7.0)), 0.0)
    assert np.isfinite(model.transform(np.zeros((1, 3)))).all()
    assert model.reconstruction_error() == 0.0


# ---- a graph in pieces ---------------------------------------------------------------


def brute_force_k(D):
    for k in range(1, len(D)):
        if np.isfinite(floyd(literal_edges(D, k))).all():
            return k
    raise AssertionError


def test_error_policy_says_sizes_and_the_smallest_connecting_k():
    X, _ = clouds((30, 12))
    with pytest.raises(InputError) as caught:
        Isomap(disconnected="error").fit(X)
    assert "2 pieces (of 30, 12 rows)" in str(caught.value)
    assert f"n_neighbors={brute_force_k(distances(X, X))} would connect it" in str(caught.value)
    with pytest.raises(InputError, match=r"2 pieces \(of 30, 12 rows\).*larger radius"):
        Isomap(n_neighbors=None, radius=3.0, disconnected="error").fit(X)


def test_error_policy_is_content_with_a_connected_graph():
    Isomap(n_neighbors=8, disconnected="error").fit(roll(100))


def literal_bridges(D, label):
    """The shortest edge between every two pieces."""
    L = np.full(D.shape, np.inf)
    for one in range(label.max() + 1):
        for other in range(one):
            between = np.where((label == one)[:, None] & (label == other), D, np.inf)
            i, j = np.unravel_index(between.argmin(), D.shape)
            L[i, j] = L[j, i] = D[i, j]
    return L


@pytest.mark.parametrize("graph", [{"n_neighbors": 5}, {"n_neighbors": None, "radius": 3.0}])
@pytest.mark.parametrize("metric", ["minkowski", "cityblock", "precomputed", "sparse"])
def test_bridge_policy_adds_the_shortest_edges_that_connect(route, graph, metric):
    X, label = clouds()
    D = np.abs(X[:, None] - X[None]).sum(axis=2) if metric == "cityblock" else distances(X, X)
    rows = {"precomputed": D, "sparse": sparse.csr_array(X)}.get(metric, X)
    metric = "minkowski" if metric == "sparse" else metric
    model = fit_in_pieces(rows, "bridge", metric=metric, **graph)
    L = literal_edges(D, graph["n_neighbors"], graph.get("radius"))
    want = floyd(np.minimum(L, literal_bridges(D, label)))
    np.testing.assert_allclose(model.dist_matrix_, want, rtol=1e-9)
    assert_same(model.embedding_, literal_mds(want, 2)[2])
    np.testing.assert_array_equal(np.bincount(model.label_), [40, 25, 15])


@pytest.mark.parametrize("graph", [{"n_neighbors": 5}, {"n_neighbors": None, "radius": 3.0}])
def test_largest_policy_embeds_the_largest_and_places_the_others_in_it(graph):
    X, label = clouds()
    model = fit_in_pieces(X, "largest", **graph)
    inside = X[label == 0]
    alone = Isomap(**graph).fit(inside)
    np.testing.assert_allclose(model.embedding_[label == 0], alone.embedding_, atol=1e-9)
    assert np.isfinite(model.embedding_).all()
    alone.set_params(n_neighbors=5, radius=None)  # a radius reaches nothing from outside
    np.testing.assert_allclose(
        model.embedding_[label != 0], alone.transform(X[label != 0]), atol=1e-9
    )
    D = model.dist_matrix_
    np.testing.assert_allclose(D[np.ix_(label == 0, label == 0)], alone.dist_matrix_)
    assert np.isinf(D[np.ix_(label == 0, label != 0)]).all()


@pytest.mark.parametrize("graph", [{"n_neighbors": 5}, {"n_neighbors": None, "radius": 3.0}])
def test_each_policy_lays_pieces_side_by_side_without_overlap(graph):
    X, label = clouds()
    model = fit_in_pieces(X, "each", **graph)
    np.testing.assert_array_equal(model.label_, label)
    right = -np.inf
    for i in range(3):
        Z = model.embedding_[label == i]
        alone = Isomap(**graph).fit(X[label == i])
        np.testing.assert_allclose(Z - Z.mean(axis=0), alone.embedding_, atol=1e-9)
        assert Z[:, 0].min() > right
        right = Z[:, 0].max()
        new = X[label == i][:6] + 0.01
        shift = [Z[:, 0].mean(), 0.0]
        np.testing.assert_allclose(model.transform(new), alone.transform(new) + shift, atol=1e-9)
    assert np.isinf(model.dist_matrix_[np.ix_(label == 0, label == 1)]).all()


def test_a_row_between_two_pieces_joins_only_the_nearer_one():
    # two lines; the new row has neighbours on both, and is nearer to the second
    x = np.arange(20.0)
    X = np.vstack([np.column_stack([x, 0 * x]), np.column_stack([x[:15], 0 * x[:15] + 8])])
    model = fit_in_pieces(X, "each", n_neighbors=6, n_components=1)
    q = np.array([[7.0, 4.1]])
    far = distances(q, X)[0]
    near = np.argsort(far)[:6]
    mine = near[near >= 20]
    assert near[0] >= 20
    assert 0 < len(mine) < 6
    D = np.abs(x[:15, None] - x[:15])
    lam, V, Z = literal_mds(D, 1)
    geodesic = (far[mine, None] + D[mine - 20]).min(axis=0)
    z = V.T @ (-0.5 * geodesic**2 + 0.5 * (D**2).mean(axis=1)) / np.sqrt(lam)
    second = model.embedding_[20:]
    sign = np.sign((second - second.mean()).T @ Z)[0]
    np.testing.assert_allclose(model.transform(q)[0], sign * z + second.mean(), atol=1e-9)


def test_lonely_rows_of_an_epsilon_graph_are_pieces_of_their_own():
    X = np.vstack([roll(60), [[500.0, 0, 0]], [[0, 900.0, 0]]])
    for policy in POLICIES:
        model = fit_in_pieces(X, policy, n_neighbors=None, radius=12.0)
        assert np.isfinite(model.embedding_).all()
        np.testing.assert_array_equal(np.bincount(model.label_), [60, 1, 1])
        np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-8)


def test_a_radius_below_every_distance_still_bridges():
    with pytest.warns(NearfoldWarning, match="30 pieces") as caught:
        Isomap(n_neighbors=None, radius=1e-9).fit(roll(30))
    assert all(issubclass(w.category, NearfoldWarning) for w in caught)
    assert "nan" not in str(caught[0].message)


# ---- new rows ------------------------------------------------------------------------


def test_a_query_without_a_row_within_the_radius_is_refused_by_number():
    X = roll(100)
    model = Isomap(n_neighbors=None, radius=12.0).fit(X)
    Q = np.vstack([X[:2], [[1e3, 0, 0]], X[2:3], [[0, 1e3, 0]]])
    with pytest.raises(InputError, match=r"2 of 5 rows have no fitted row within radius=12\.0"):
        model.transform(Q)
    with pytest.raises(InputError, match=r"first rows: \[2, 4\]"):
        model.transform(Q)


def test_a_far_query_of_a_k_graph_is_placed():
    assert np.isfinite(Isomap(n_neighbors=8).fit(roll(100)).transform([[1e3, 0, 0]])).all()


def test_regressor_extension_is_five_neighbours_weighted_by_distance():
    X, Q = roll(200)[:150], roll(200)[150:]
    model = Isomap(n_neighbors=8, extension="regressor").fit(X)
    want = (
        sklearn.neighbors.KNeighborsRegressor(5, weights="distance")
        .fit(X, model.embedding_)
        .predict(Q)
    )
    np.testing.assert_allclose(model.transform(Q), want, atol=1e-9)
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-9)
    plain = Isomap(n_neighbors=8).fit(X)
    np.testing.assert_array_equal(model.embedding_, plain.embedding_)
    # both extensions place a new row near where the other does
    assert np.abs(model.transform(Q) - plain.transform(Q)).mean() < 2.0


@pytest.mark.parametrize("n_components", [1, 2])
def test_a_given_regressor_is_cloned_and_trained_on_the_embedding(n_components):
    X, Q = roll(200)[:150], roll(200)[150:]
    given = LinearRegression()
    model = Isomap(
        n_neighbors=8, n_components=n_components, extension="regressor", regressor=given
    ).fit(X)
    assert not hasattr(given, "coef_")
    want = LinearRegression().fit(X, model.embedding_).predict(Q)
    assert model.transform(Q).shape == (50, n_components)
    np.testing.assert_allclose(model.transform(Q), want.reshape(50, n_components), atol=1e-9)


# ---- landmarks -----------------------------------------------------------------------


def literal_landmarks(D, count):
    """From row 0 on, each the farthest from those before it."""
    rows = [0]
    while len(rows) < count:
        nearest = D[:, rows].min(axis=1)
        nearest[rows] = -1
        rows.append(int(nearest.argmax()))
    return np.array(rows)


def test_landmarks_are_spread_and_place_the_others_by_gowers_formula():
    X = roll(150)
    model = Isomap(n_neighbors=8, n_landmarks=25).fit(X)
    D = floyd(literal_edges(distances(X, X), 8))
    rows = literal_landmarks(D, 25)
    np.testing.assert_array_equal(model.landmarks_, rows)
    np.testing.assert_allclose(model.dist_matrix_, D[:, rows], rtol=1e-12)
    among = D[np.ix_(rows, rows)]
    lam, V, _ = literal_mds(among, 12)  # the wanted axes and ten more
    lam, V = lam[lam > 1e-9 * lam[0]], V[:, lam > 1e-9 * lam[0]]
    rough = (-0.5 * D[:, rows] ** 2 + 0.5 * (among**2).mean(axis=1)) @ V / np.sqrt(lam)
    rough -= rough.mean(axis=0)
    U, s, _ = np.linalg.svd(rough, full_matrices=False)
    assert_same(model.embedding_, U[:, :2] * s[:2], 1e-7)
    assert model.approximation_ == "landmark Isomap: 25 landmarks of 150 rows"


def test_few_landmarks_come_close_to_all_geodesics():
    X = roll(600)
    exact, near = Isomap(n_neighbors=10).fit(X), Isomap(n_neighbors=10, n_landmarks=60).fit(X)
    Z, A = exact.embedding_, near.embedding_
    assert np.abs(A - up_to_sign(A, Z)).max() < 0.1 * np.ptp(Z, axis=0).max()


def test_landmarks_among_duplicates_are_never_the_same_row_twice():
    model = Isomap(n_neighbors=3, n_landmarks=12).fit(np.full((20, 2), 3.0))
    assert len(set(model.landmarks_)) == 12
    np.testing.assert_array_equal(model.embedding_, 0.0)


def test_landmarks_have_no_kernel_and_no_reconstruction_error():
    model = Isomap(n_neighbors=8, n_landmarks=20).fit(roll(100))
    assert model.dist_matrix_.shape == (100, 20)
    assert not hasattr(model, "kernel_pca_")
    with pytest.raises(InputError, match="fit without landmarks"):
        model.reconstruction_error()


def test_more_landmarks_than_rows_are_all_rows():
    X = roll(100)
    model, exact = Isomap(n_neighbors=8, n_landmarks=500).fit(X), Isomap(n_neighbors=8).fit(X)
    assert model.landmarks_ is None
    assert model.approximation_ is None
    np.testing.assert_array_equal(model.embedding_, exact.embedding_)


def test_there_must_be_more_landmarks_than_axes():
    with pytest.raises(InputError, match="n_landmarks=2: there must be more than n_components=2"):
        Isomap(n_neighbors=8, n_landmarks=2).fit(roll(100))


def test_beyond_the_memory_budget_landmarks_are_taken_and_said():
    X = roll(400)
    exact = Isomap(n_neighbors=10).fit(X)
    nearfold.set_memory("600KB")
    with pytest.warns(ApproximationWarning, match="the distances between 400 rows need"):
        model = Isomap(n_neighbors=10).fit(X)
    count = len(model.landmarks_)
    assert 2 < count < 400
    said = f"landmark Isomap: {count} landmarks of 400 rows (memory budget 600.0 KB)"
    assert model.approximation_ == said
    assert model.dist_matrix_.nbytes <= 600 * 1024
    Z, A = exact.embedding_, model.embedding_
    assert np.abs(A - up_to_sign(A, Z)).max() < 0.2 * np.ptp(Z, axis=0).max()
    np.testing.assert_allclose(model.transform(X), A, atol=1e-8)


def test_a_budget_for_no_landmarks_is_refused_with_numbers():
    X = roll(2000)
    nearfold.set_memory("200KB")
    with pytest.raises(MemoryError, match=r"needs about .* and the memory budget is 200\.0 KB"):
        Isomap(n_neighbors=5).fit(X)


# ---- what X may be -------------------------------------------------------------------


@pytest.mark.parametrize("graph", [{"n_neighbors": 8}, {"n_neighbors": None, "radius": 9.0}])
def test_distances_instead_of_features(graph):
    X, Q = roll(200)[:150], roll(200)[150:]
    ours = Isomap(**graph).fit(X)
    given = Isomap(metric="precomputed", **graph).fit(distances(X, X))
    np.testing.assert_allclose(given.embedding_, ours.embedding_, atol=1e-8)
    np.testing.assert_allclose(given.transform(distances(Q, X)), ours.transform(Q), atol=1e-8)


def test_a_sparse_graph_of_neighbours_instead_of_features():
    X, Q = roll(200)[:150], roll(200)[150:]
    ours = Isomap(n_neighbors=8).fit(X)
    graph = KNeighborsTransformer(n_neighbors=8).fit(X)
    given = Isomap(n_neighbors=8, metric="precomputed").fit(graph.transform(X))
    np.testing.assert_allclose(given.embedding_, ours.embedding_, atol=1e-8)
    np.testing.assert_allclose(given.transform(graph.transform(Q)), ours.transform(Q), atol=1e-8)


def graph_within(D, radius):
    G = sparse.csr_array(np.where(radius >= D, D, 0.0))
    return sklearn.neighbors.sort_graph_by_row_values(G, warn_when_not_sorted=False)


def test_a_sparse_epsilon_graph_instead_of_features():
    X = roll(150)
    D = distances(X, X)
    ours = Isomap(n_neighbors=None, radius=9.0).fit(X)
    given = Isomap(n_neighbors=None, radius=9.0, metric="precomputed").fit(graph_within(D, 9.0))
    np.testing.assert_allclose(given.embedding_, ours.embedding_, atol=1e-8)


def test_stored_zeros_of_a_sparse_graph_join_duplicates(route):
    X = np.repeat(roll(50), 2, axis=0)
    graph = KNeighborsTransformer(n_neighbors=9).fit_transform(X)
    model = Isomap(n_neighbors=9, metric="precomputed").fit(graph)
    np.testing.assert_array_equal(model.dist_matrix_[np.arange(100), np.arange(100) ^ 1], 0.0)
    np.testing.assert_allclose(model.embedding_, Isomap(n_neighbors=9).fit(X).embedding_, atol=1e-8)


def test_edges_of_a_sparse_graph_beyond_the_radius_are_no_edges():
    X = roll(150)
    D = distances(X, X)
    given = Isomap(n_neighbors=None, radius=9.0, metric="precomputed").fit(graph_within(D, 20.0))
    np.testing.assert_allclose(
        given.dist_matrix_, Isomap(n_neighbors=None, radius=9.0).fit(X).dist_matrix_
    )


def sparse_pieces():
    """A graph of two pieces, of 30 and 12 rows, that knows no distance between them."""
    X, label = clouds((30, 12))
    graph = KNeighborsTransformer(n_neighbors=6).fit_transform(X)
    return graph, label


def test_a_sparse_graph_in_pieces_cannot_be_bridged():
    graph, _ = sparse_pieces()
    with pytest.raises(InputError, match=r"2 pieces \(of 30, 12 rows\).*more edges"):
        Isomap(n_neighbors=5, metric="precomputed").fit(graph)


def test_the_pieces_of_a_sparse_graph_lie_side_by_side():
    graph, label = sparse_pieces()
    model = fit_in_pieces(graph, "each", metric="precomputed")
    assert model.embedding_[label == 0, 0].max() < model.embedding_[label == 1, 0].min()
    np.testing.assert_allclose(model.transform(graph), model.embedding_, atol=1e-8)


@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
@pytest.mark.parametrize("options", [{"n_neighbors": 5}, {"n_neighbors": None, "radius": 9.0}])
def test_rows_outside_the_largest_piece_of_a_sparse_graph_have_no_known_place(options):
    graph, _ = sparse_pieces()
    with pytest.raises(InputError):
        Isomap(metric="precomputed", disconnected="largest", **options).fit(graph)


@pytest.mark.parametrize("policy", POLICIES)
def test_sparse_features_are_dense_ones(policy):
    X, _ = clouds()
    X = np.where(np.abs(X) < 1, 0.0, X)
    dense = fit_in_pieces(X, policy)
    given = fit_in_pieces(sparse.csr_array(X), policy)
    np.testing.assert_allclose(given.embedding_, dense.embedding_, atol=1e-7)
    new = X[:9] + 0.1
    np.testing.assert_allclose(
        given.transform(sparse.csr_array(new)), dense.transform(new), atol=1e-7
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("metric", ["cityblock", halves])
def test_policies_under_other_metrics(policy, metric):
    X, label = clouds((20, 14))
    model = fit_in_pieces(X, policy, metric=metric)
    assert np.isfinite(model.embedding_).all()
    np.testing.assert_array_equal(model.label_, label)
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"n_landmarks": 20}, {"path_method": "FW"}])
def test_float32_stays_float32(route, options):
    X = roll(150)
    small = Isomap(n_neighbors=8, **options).fit(X.astype(np.float32))
    exact = Isomap(n_neighbors=8, **options).fit(X.astype(np.float32).astype(np.float64))
    assert small.embedding_.dtype == small.dist_matrix_.dtype == np.float32
    assert small.transform(X.astype(np.float32)).dtype == np.float32
    assert exact.embedding_.dtype == np.float64
    assert_same(small.embedding_, exact.embedding_, 1e-3)


def test_float32_columns_stay_float32():
    X = pd.DataFrame(roll(100).astype(np.float32), columns=list("abc"))
    model = Isomap(n_neighbors=8).fit(X)
    assert model.embedding_.dtype == np.float32
    assert model.transform(X).dtype == np.float32


@pytest.mark.parametrize("options", [{}, {"n_landmarks": 40}])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_number_of_threads_changes_no_bit(options, dtype):
    X = roll(1700).astype(dtype)  # beyond what SciPy is asked for
    Q = roll(300, seed=1).astype(dtype)
    one, two, all_cores = (
        Isomap(n_neighbors=8, n_jobs=n_jobs, **options).fit(X) for n_jobs in (1, 2, None)
    )
    for other in (two, all_cores):
        np.testing.assert_array_equal(one.dist_matrix_, other.dist_matrix_)
        np.testing.assert_array_equal(one.embedding_, other.embedding_)
        np.testing.assert_array_equal(one.transform(Q), other.transform(Q))


@pytest.mark.parametrize("options", [{}, {"n_landmarks": 40}])
def test_the_number_of_blas_threads_changes_no_bit(options):
    X, found = roll(600), []
    for threads in (1, 2):
        with threadpool_limits(threads):
            model = Isomap(n_neighbors=8, **options).fit(X)
            found.append((model.embedding_, model.transform(X[:200] + 0.1)))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


# ---- bad and tiny input --------------------------------------------------------------


def test_nan_is_refused_with_its_place():
    X = roll(60)
    X[7, 1] = np.nan
    with pytest.raises(NonFiniteError, match=r"column 1: 1; first rows: \[7\]"):
        Isomap().fit(X)
    with pytest.raises(NonFiniteError):
        Isomap(n_neighbors=8).fit(roll(60)).transform(X)
    D = distances(roll(60), roll(60))
    D[3, 4] = np.inf
    with pytest.raises(NonFiniteError):
        Isomap(metric="precomputed").fit(D)


def test_as_many_neighbours_as_rows_are_refused():
    with pytest.raises(InputError, match="n_samples = 30, n_neighbors = 30"):
        Isomap(n_neighbors=30).fit(roll(30))
    with pytest.raises(InputError, match="n_samples = 1, n_neighbors = 5"):
        Isomap().fit(roll(30)[:1])
    assert Isomap(n_neighbors=29).fit(roll(30)).embedding_.shape == (30, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_neighbors": 5, "radius": 1.0}, "Both n_neighbors and radius"),
        ({"n_neighbors": None}, "give n_neighbors, or radius"),
        ({"n_components": 0}, "'n_components' parameter of Isomap"),
        ({"n_components": 1.5}, "'n_components' parameter of Isomap"),
        ({"path_method": "A*"}, "'path_method' parameter of Isomap"),
        ({"eigen_solver": "magic"}, "'eigen_solver' parameter of Isomap"),
        ({"extension": "guess"}, "'extension' parameter of Isomap"),
        ({"disconnected": "glue"}, "'disconnected' parameter of Isomap"),
        ({"neighbors_algorithm": "magic"}, "'neighbors_algorithm' parameter of Isomap"),
        ({"metric": "magic"}, "'metric' parameter of Isomap"),
        ({"p": 0.5}, "'p' parameter of Isomap"),
        ({"tol": -1}, "'tol' parameter of Isomap"),
        ({"regressor": 3}, "'regressor' parameter of Isomap"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Isomap(**options).fit(roll(60))


@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_a_number_of_neighbours_that_is_none_is_refused(k):
    with pytest.raises(ValueError, match="'n_neighbors' parameter of Isomap"):
        Isomap(n_neighbors=k).fit(roll(60))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("radius", [-1.0, np.nan])
def test_a_radius_that_is_none_is_refused(radius):
    with pytest.raises(ValueError, match="radius"):
        Isomap(n_neighbors=None, radius=radius).fit(roll(60))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_handful_of_rows(route, n):
    X = roll(n)
    model = Isomap(n_neighbors=n - 1, n_components=3).fit(X)
    assert model.embedding_.shape == (n, 3)
    np.testing.assert_allclose(
        distances(model.embedding_, model.embedding_), distances(X, X), atol=1e-6
    )
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-8)


def test_axes_beyond_the_rank_are_zero():
    line = np.arange(40.0)[:, None] ** 1.1 * [[1.0, 2.0]]
    model = Isomap(n_neighbors=4, n_components=3).fit(line)
    want = np.sqrt(5) * (line[:, :1] - line[:, 0].mean())
    assert_same(model.embedding_[:, :1], want)
    np.testing.assert_allclose(model.embedding_[:, 1:], 0.0, atol=1e-5)
    np.testing.assert_allclose(model.transform(line), model.embedding_, atol=1e-5)


def scaled_or_refused(scale, dtype=np.float64):
    """Isomap of very large or small values: right, or an error of ours."""
    X = roll(250).astype(dtype)
    want = Isomap(n_neighbors=8).fit(X).embedding_
    try:
        got = Isomap(n_neighbors=8).fit(X * dtype(scale)).embedding_
    except NearfoldError:
        return "refused"
    assert_same(got.astype(np.float64) / scale, want, 1e6 * np.finfo(dtype).eps)
    return "placed"


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_large_and_small_values_are_placed_and_huge_ones_refused():
    assert [scaled_or_refused(s) for s in (1e-60, 1e-20, 1e20, 1e60)] == ["placed"] * 4
    assert [scaled_or_refused(s) for s in (1e160, 1e290)] == ["refused"] * 2
    assert scaled_or_refused(1e25, np.float32) == "refused"


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [
        (1e-90, np.float64),
        (1e-120, np.float64),
        (1e-165, np.float64),
        (1e-290, np.float64),
        (1e-25, np.float32),
    ],
)
def test_tiny_values_are_placed_or_refused(scale, dtype):
    scaled_or_refused(scale, dtype)


def test_a_huge_offset_changes_nothing():
    X = np.round(roll(120) * 2**20) / 2**20
    np.testing.assert_allclose(
        Isomap(n_neighbors=8).fit(X + 2.0**30).embedding_,
        Isomap(n_neighbors=8).fit(X).embedding_,
        atol=1e-8,
    )


# ---- frames, names, pickles ----------------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_in_and_out(kind):
    X = roll(80)
    frame = {"pandas": pd, "polars": pl}[kind].DataFrame(dict(zip("abc", X.T, strict=True)))
    model = Isomap(n_neighbors=8).set_output(transform=kind)
    Z = model.fit_transform(frame)
    assert list(Z.columns) == ["isomap0", "isomap1"]
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.n_features_in_ == 3
    np.testing.assert_array_equal(Z.to_numpy(), Isomap(n_neighbors=8).fit_transform(X))
    np.testing.assert_allclose(model.transform(frame).to_numpy(), Z.to_numpy(), atol=1e-9)


def test_columns_of_another_name_are_refused():
    X = pd.DataFrame(roll(80), columns=list("abc"))
    model = Isomap(n_neighbors=8).fit(X)
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(X.rename(columns={"b": "z"}))
    model.fit(roll(80))
    assert not hasattr(model, "feature_names_in_")
    assert list(model.get_feature_names_out()) == ["isomap0", "isomap1"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("extra", [{}, {"n_landmarks": 10}, {"extension": "regressor"}])
def test_pickled_models_place_new_rows_alike(policy, extra):
    X, _ = clouds()
    model = fit_in_pieces(X, policy, **extra)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X + 0.1), model.transform(X + 0.1))
    np.testing.assert_array_equal(again.dist_matrix_, model.dist_matrix_)


def test_before_the_fit_there_is_nothing():
    model = Isomap()
    assert not hasattr(model, "dist_matrix_")
    assert not hasattr(model, "kernel_pca_")


def test_progress_is_reported_and_fit_again_forgets():
    seen = set()
    X, _ = clouds()
    model = Isomap(n_neighbors=5, disconnected="each", n_landmarks=10)
    with (
        nearfold.progress(lambda label, done, total: seen.add(label)),
        pytest.warns(NearfoldWarning),
    ):
        model.fit(X)
    assert "landmarks" in seen
    model.set_params(n_landmarks=None, n_neighbors=8).fit(roll(80))
    assert model.landmarks_ is None
    assert model.approximation_ is None
    np.testing.assert_array_equal(model.label_, 0)
    np.testing.assert_array_equal(model.embedding_, Isomap(n_neighbors=8).fit(roll(80)).embedding_)


# ---- a learned metric ----------------------------------------------------------------


def stretched():
    """Clouds far apart in two columns, with a third of large noise that a metric can discount."""
    X, label = clouds((40, 25, 15))
    rng = np.random.default_rng(1)
    return np.column_stack([X, 3 * rng.normal(size=len(X))]), label


@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("extension", ["geodesic", "regressor"])
@pytest.mark.parametrize("policy", [*POLICIES, "error"])
@pytest.mark.parametrize("extra", [{}, {"n_landmarks": 12}])
@pytest.mark.parametrize("frame", [False, True])
def test_a_learned_metric_is_isomap_of_the_transformed_rows(
    fitted, extension, policy, extra, frame
):
    X, label = stretched()
    if policy == "error":
        X, label = X[label == 0], np.arange(40) % 3  # a connected graph
    given = pd.DataFrame(X, columns=list("abcd")) if frame else X
    metric = nearfold.LFDA(n_components=2, k=3)
    known = nearfold.LFDA(n_components=2, k=3).fit(given, label)
    options = {"n_neighbors": 6, "disconnected": policy, "extension": extension, **extra}
    model = Isomap(metric=known if fitted else metric, **options).fit(given, label)
    rows = np.asarray(known.transform(given))
    want = Isomap(**options).fit(rows)
    np.testing.assert_allclose(model.dist_matrix_, want.dist_matrix_, rtol=1e-9)
    np.testing.assert_allclose(model.embedding_, want.embedding_, atol=1e-9)
    np.testing.assert_array_equal(model.label_, want.label_)
    new = given.iloc[:7] + 0.05 if frame else given[:7] + 0.05
    np.testing.assert_allclose(
        model.transform(new), want.transform(np.asarray(known.transform(new))), atol=1e-9
    )
    if extension == "geodesic":
        scale = np.abs(model.embedding_).max()
        np.testing.assert_allclose(model.transform(given), model.embedding_, atol=1e-9 * scale)
    assert not hasattr(metric, "components_")


@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
@pytest.mark.parametrize("policy", POLICIES)
def test_a_learned_metric_with_a_radius(policy):
    X, label = stretched()
    known = nearfold.LFDA(n_components=2, k=3).fit(X, label)
    rows = known.transform(X)
    radius = float(np.median(distances(rows[label == 0], rows[label == 0]))) / 2
    options = {"n_neighbors": None, "radius": radius, "disconnected": policy}
    model, want = Isomap(metric=known, **options).fit(X), Isomap(**options).fit(rows)
    np.testing.assert_allclose(model.embedding_, want.embedding_, atol=1e-9)
    np.testing.assert_allclose(model.transform(X), want.transform(rows), atol=1e-9)


def test_the_error_policy_with_a_learned_metric_says_what_connects():
    X, label = stretched()
    known = nearfold.LFDA(n_components=2, k=3).fit(X, label)
    with pytest.raises(InputError, match="would connect it"):
        Isomap(metric=known, disconnected="error").fit(X)


def test_the_search_that_scikit_learn_holds():
    X = roll(80)
    search = Isomap(n_neighbors=6).fit(X).nbrs_
    near = search.kneighbors(return_distance=False)
    assert near.shape == (80, 6)
    np.testing.assert_array_equal(near, np.argsort(distances(X, X), axis=1)[:, 1:7])
    assert not hasattr(Isomap(), "nbrs_")


# ---- clusters and their bridges --------------------------------------------------------


def test_bridged_clusters_are_as_far_apart_as_in_scikit_learn():
    rng = np.random.default_rng(0)
    corners = 50.0 * np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]])
    X = np.vstack([c + 0.1 * rng.normal(size=(20, 2)) for c in corners])
    ours = fit_in_pieces(X, "bridge")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = sklearn.manifold.Isomap(n_neighbors=5).fit(X)
    np.testing.assert_allclose(ours.dist_matrix_, theirs.dist_matrix_, rtol=1e-9)
    assert_same(ours.embedding_, theirs.embedding_, 1e-7)


def test_values_whose_squares_vanish_are_refused_not_put_at_the_origin(route):
    X = roll(100)
    with pytest.raises(InputError, match="so small that their squares vanish"):
        Isomap(n_neighbors=8).fit(X * 1e-295)


def test_max_iter_has_no_effect_and_says_so():
    with pytest.warns(NearfoldWarning, match="max_iter has no effect"):
        model = Isomap(n_neighbors=8, max_iter=3).fit(roll(80))
    np.testing.assert_array_equal(model.embedding_, Isomap(n_neighbors=8).fit(roll(80)).embedding_)


# ---- what a fitted model holds ---------------------------------------------------------


VARIANTS = {
    "k": {},
    "radius": {"n_neighbors": None, "radius": 3.0},
    "landmarks": {"n_landmarks": 12},
    "regressor": {"extension": "regressor"},
    "manhattan": {"p": 1},
    "floyd": {"path_method": "FW"},
}


@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_fitted_model_is_as_its_class_describes(policy, variant):
    X, _ = clouds()
    model = Isomap(disconnected=policy, **{"n_neighbors": 5} | VARIANTS[variant]).fit(X)
    Isomap.fitted_state.check(fields_of(model))
    given = distances(X, X)
    model = Isomap(
        disconnected=policy, metric="precomputed", **{"n_neighbors": 5} | VARIANTS[variant]
    ).fit(given)
    Isomap.fitted_state.check(fields_of(model))


def test_a_damaged_model_is_not():
    def damaged(change):
        model = fit_in_pieces(clouds()[0], "each", n_landmarks=12)
        change(model, vars(model)["_extension"])
        with pytest.raises(StateError):
            Isomap.fitted_state.check(fields_of(model))

    def set_rows(extension, name, value):
        getattr(extension, name)[0] = value

    damaged(lambda model, ext: set_rows(ext, "piece_of_row", 3))
    damaged(lambda model, ext: set_rows(ext, "piece_of_row", -1))
    damaged(lambda model, ext: set_rows(ext, "index_in_piece", 60))
    damaged(lambda model, ext: set_rows(ext.pieces[0], "rows", 80))
    damaged(lambda model, ext: set_rows(ext.pieces[0], "landmarks", 40))
    damaged(lambda model, ext: set_rows(ext.pieces[1].place, "row_means", np.nan))
    damaged(lambda model, ext: setattr(ext.pieces[1], "D", ext.pieces[1].D[:, :5]))
    damaged(lambda model, ext: setattr(model, "label_", model.label_[:5]))
