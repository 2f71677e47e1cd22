"""Laws of Isomap and LLE: what they equal in special cases, and what changes nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_s_curve, make_swiss_roll

import nearfold.graph.paths as paths
import nearfold.methods.lle as lle
from nearfold import PCA, ClassicalMDS, Isomap, LocallyLinearEmbedding, NearestNeighbors
from nearfold.methods.local_weights import barycentric_weights

METHODS = ["standard", "modified", "hessian", "ltsa"]
POLICIES = ["error", "bridge", "largest", "each"]


@pytest.fixture(params=["scipy", "kernels"])
def route(request, monkeypatch):
    monkeypatch.setattr(paths, "_SMALL", 0 if request.param == "kernels" else 10**9)


def roll(n=150, seed=0):
    return make_swiss_roll(n, random_state=seed)[0]


def table(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rng.normal(size=(n, d)) * np.linspace(3, 0.5, d) @ Q + rng.normal(size=d)


def distances(A, B):
    return np.sqrt(((A[:, None] - B[None]) ** 2).sum(axis=2))


def rotation(d, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


def assert_same(got, want, rtol=1e-8):
    want = want * np.where((got * want).sum(axis=0) < 0, -1.0, 1.0)
    np.testing.assert_allclose(got, want, atol=rtol * np.abs(want).max())


# ---- Isomap --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_isomap_with_all_neighbours_is_classical_mds_is_pca(route, seed):
    X, Q = table(seed=seed), table(9, seed=seed + 10)
    everyone = Isomap(n_neighbors=59, n_components=3).fit(X)
    within = Isomap(n_neighbors=None, radius=1e3, n_components=3).fit(X)
    mds = ClassicalMDS(3).fit(X)
    given_distances = ClassicalMDS(3, metric="precomputed").fit(distances(X, X))
    pca = PCA(3).fit(X)
    for model in (everyone, within, mds, given_distances):
        assert_same(model.embedding_, pca.transform(X))
    # a new row joined to one neighbour fewer than all may take a detour; with a radius it does not
    turn = np.sign((within.embedding_ * pca.transform(X)).sum(axis=0))
    np.testing.assert_allclose(within.transform(Q), pca.transform(Q) * turn, atol=1e-7)


def test_isomap_with_all_neighbours_under_another_metric_is_its_mds():
    X = table()
    D = np.abs(X[:, None] - X[None]).sum(axis=2)
    with pytest.warns(UserWarning, match="not Euclidean"):
        mds = ClassicalMDS(2, metric="precomputed").fit(D)
    for options in ({"metric": "cityblock"}, {"p": 1}):
        assert_same(Isomap(n_neighbors=59, **options).fit(X).embedding_, mds.embedding_)


@pytest.mark.parametrize("n_components", [1, 2, 4])
def test_isomap_with_all_rows_as_landmarks_is_exact(route, n_components):
    X, Q = roll(180)[:150], roll(180)[150:]
    exact = Isomap(n_neighbors=8, n_components=n_components).fit(X)
    every = Isomap(n_neighbors=8, n_components=n_components, n_landmarks=150).fit(X)
    np.testing.assert_array_equal(np.sort(every.landmarks_), np.arange(150))
    assert_same(every.embedding_, exact.embedding_)
    assert_same(every.transform(Q), exact.transform(Q))


@pytest.mark.parametrize("seed", range(3))
def test_floyds_paths_are_dijkstras(route, seed):
    X = roll(seed=seed)
    floyd = Isomap(n_neighbors=9, path_method="FW").fit(X)
    dijkstra = Isomap(n_neighbors=9, path_method="D").fit(X)
    np.testing.assert_allclose(floyd.dist_matrix_, dijkstra.dist_matrix_, rtol=1e-12)
    assert_same(floyd.embedding_, dijkstra.embedding_)


def test_a_radius_and_a_number_of_neighbours_that_join_the_same_rows_are_one(route):
    angle = 2 * np.pi * np.arange(60) / 60
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    by_number = Isomap(n_neighbors=2).fit(ring)
    by_radius = Isomap(n_neighbors=None, radius=1.5 * np.sin(np.pi / 60) * 2).fit(ring)
    np.testing.assert_array_equal(by_number.dist_matrix_, by_radius.dist_matrix_)
    np.testing.assert_array_equal(by_number.embedding_, by_radius.embedding_)
    # and the geodesics are those of a ring
    steps = np.abs(np.arange(60)[:, None] - np.arange(60))
    want = 2 * np.sin(np.pi / 60) * np.minimum(steps, 60 - steps)
    np.testing.assert_allclose(by_number.dist_matrix_, want, rtol=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_isomap_turns_with_nothing_shifts_with_nothing_and_grows_with_the_data(seed):
    X = roll(seed=seed)
    plain = Isomap(n_neighbors=9).fit(X).embedding_
    turned = Isomap(n_neighbors=9).fit(X @ rotation(3, seed) + [5.0, -3.0, 40.0]).embedding_
    assert_same(turned, plain)
    assert_same(Isomap(n_neighbors=9).fit(7 * X).embedding_, 7 * plain)
    padded = np.column_stack([X, np.zeros((len(X), 2))])
    assert_same(Isomap(n_neighbors=9).fit(padded).embedding_, plain)


def test_isomap_follows_the_order_of_the_rows(route):
    X = roll()
    order = np.random.default_rng(0).permutation(len(X))
    plain, shuffled = Isomap(n_neighbors=9).fit(X), Isomap(n_neighbors=9).fit(X[order])
    np.testing.assert_allclose(
        shuffled.dist_matrix_, plain.dist_matrix_[np.ix_(order, order)], rtol=1e-12
    )
    assert_same(shuffled.embedding_, plain.embedding_[order])


def test_every_row_twice_is_every_row_once(route):
    X = roll()
    once = Isomap(n_neighbors=8).fit(X)
    twice = Isomap(n_neighbors=17).fit(np.vstack([X, X]))  # each neighbour twice, and itself
    np.testing.assert_allclose(twice.dist_matrix_[:150, 150:], once.dist_matrix_, rtol=1e-12)
    assert_same(twice.embedding_[150:], once.embedding_)


def test_geodesics_are_a_metric_at_least_the_straight_distance_and_shrink_with_more_edges(route):
    X = roll()
    straight = distances(X, X)
    before = np.inf
    for k in (8, 12, 25, 149):
        D = Isomap(n_neighbors=k).fit(X).dist_matrix_
        assert (straight * (1 - 1e-12) <= D).all()
        assert (before * np.ones_like(D) * (1 + 1e-12) >= D).all()
        np.testing.assert_allclose(D, D.T, rtol=1e-13)
        for v in range(0, 150, 10):
            assert ((D[:, v, None] + D[v]) * (1 + 1e-12) >= D).all()
        before = D
    np.testing.assert_allclose(before, straight, rtol=1e-9)


def test_isomap_unrolls_what_pca_cannot():
    X, t = make_swiss_roll(1600, random_state=0)  # beyond SciPy's part
    arc = (t * np.sqrt(1 + t**2) + np.arcsinh(t)) / 2  # length along the spiral

    def best(Z):
        return max(abs(np.corrcoef(arc, z)[0, 1]) for z in Z.T)

    assert best(Isomap(n_neighbors=10).fit_transform(X)) > 0.99
    assert best(PCA(2).fit_transform(X)) < 0.7


# ---- LLE -----------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(-6, 6), st.integers(2, 12))
def test_weights_do_not_change_when_the_data_are_turned_shifted_and_scaled(seed, power, k):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 4))
    near = NearestNeighbors(n_neighbors=k).fit(X).kneighbors(return_distance=False)
    moved = (X @ rotation(4, seed) + rng.normal(size=4)) * 10**power
    for reg in (1e-3, 1e-1):
        np.testing.assert_allclose(
            barycentric_weights(moved, moved[near], reg),
            barycentric_weights(X, X[near], reg),
            atol=1e-8,
        )
        np.testing.assert_allclose(
            barycentric_weights(moved, moved[near], reg, by_distance=True),
            barycentric_weights(X, X[near], reg, by_distance=True),
            atol=1e-8,
        )


@pytest.mark.parametrize("method", METHODS)
def test_lle_does_not_change_when_the_data_are_turned_shifted_and_scaled(method):
    X = roll(200)
    plain = LocallyLinearEmbedding(n_neighbors=12, method=method).fit(X)
    moved = (X @ rotation(3, 1) + [5.0, -3.0, 40.0]) * 100
    assert_same(
        LocallyLinearEmbedding(n_neighbors=12, method=method).fit(moved).embedding_,
        plain.embedding_,
        1e-5,
    )


@pytest.mark.parametrize("rows", [0, 10**9])  # the sparse and the dense route
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_components", [1, 3])
def test_lle_is_orthonormal_and_orthogonal_to_the_constant_vector(
    monkeypatch, rows, method, n_components
):
    monkeypatch.setattr(lle, "_DENSE_ROWS", rows)
    X = make_s_curve(250, random_state=0)[0]
    Z = LocallyLinearEmbedding(n_neighbors=14, n_components=n_components, method=method).fit(X)
    Z = Z.embedding_
    np.testing.assert_allclose(Z.T @ Z, np.eye(n_components), atol=1e-9)
    np.testing.assert_allclose(Z.sum(axis=0), 0.0, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_lle_follows_the_order_of_the_rows(method):
    X = roll(200)
    order = np.random.default_rng(0).permutation(200)
    plain = LocallyLinearEmbedding(n_neighbors=12, method=method).fit(X)
    shuffled = LocallyLinearEmbedding(n_neighbors=12, method=method).fit(X[order])
    assert_same(shuffled.embedding_, plain.embedding_[order], 1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_lle_axes_are_ordered_by_what_they_leave(method):
    model = LocallyLinearEmbedding(n_neighbors=14, n_components=3, method=method).fit(roll(200))
    assert (np.diff(model.eigenvalues_) >= 0).all()
    assert (model.eigenvalues_ >= 0).all()
    np.testing.assert_allclose(model.reconstruction_error_, model.eigenvalues_.sum())


@pytest.mark.parametrize("method", ["modified", "hessian", "ltsa"])
def test_variants_unroll_what_pca_cannot(method):
    X, t = make_swiss_roll(900, random_state=0)  # the sparse route's own size
    arc = (t * np.sqrt(1 + t**2) + np.arcsinh(t)) / 2  # length along the spiral

    def explained(Z):
        A = np.column_stack([np.ones(len(Z)), Z])
        rest = arc - A @ np.linalg.lstsq(A, arc, rcond=None)[0]
        return 1 - rest.var() / arc.var()

    unrolled = LocallyLinearEmbedding(n_neighbors=12, method=method).fit_transform(X)
    assert explained(unrolled) > 0.95
    assert explained(PCA(2).fit_transform(X)) < 0.6


# ---- both ----------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [Isomap, LocallyLinearEmbedding])
def test_policies_do_not_matter_where_the_graph_is_whole(estimator):
    X, Q = roll(200)[:150], roll(200)[150:]
    first, *others = (estimator(n_neighbors=10, disconnected=p).fit(X) for p in POLICIES)
    for other in others:
        np.testing.assert_array_equal(other.embedding_, first.embedding_)
        np.testing.assert_array_equal(other.transform(Q), first.transform(Q))


@pytest.mark.parametrize("estimator", [Isomap, LocallyLinearEmbedding])
def test_fit_and_fit_transform_are_one(estimator):
    X = roll()
    np.testing.assert_array_equal(
        estimator(n_neighbors=10).fit_transform(X), estimator(n_neighbors=10).fit(X).embedding_
    )
