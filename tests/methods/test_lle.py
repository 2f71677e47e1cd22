"""LLE and its variants, row by row from the papers, against scikit-learn, and its policies."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.manifold
from scipy import sparse
from scipy.sparse.linalg import eigsh
from sklearn.datasets import load_digits, load_iris, make_swiss_roll

import nearfold
import nearfold.linalg.inverse_iteration as inverse_iteration
import nearfold.methods.lle as lle
import nearfold.methods.local_extension as local_extension
import nearfold.methods.local_weights as local_weights
from nearfold import LocallyLinearEmbedding
from nearfold.errors import (
    InputError,
    MemoryBudgetError,
    NearfoldError,
    NearfoldWarning,
    NonFiniteError,
)
from nearfold.graph import OutsideSearch, apply_policy, graph_of_lists
from nearfold.methods.local_patches import ltsa_blocks
from nearfold.methods.local_weights import (
    NeighbourLists,
    barycentric_weights,
    patch_matrix,
    weight_matrix,
)
from nearfold.state import StateError, fields_of

METHODS = ["standard", "modified", "hessian", "ltsa"]
POLICIES = ["bridge", "largest", "each"]
ROUTES = ["dense", "sparse", "gmres"]


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


def force(route, monkeypatch):
    monkeypatch.setattr(lle, "_DENSE_ROWS", 10**9 if route == "dense" else 0)
    if route == "gmres":
        monkeypatch.setattr(inverse_iteration, "_SURE_ROWS", 0)
        monkeypatch.setattr(inverse_iteration, "MOST_WORK", 0)


@pytest.fixture(params=ROUTES)
def route(request, monkeypatch):
    force(request.param, monkeypatch)
    return request.param


@pytest.fixture(params=["dense", "sparse"])
def factored(request, monkeypatch):
    """For data so degenerate that GMRES falls short, as it then says."""
    force(request.param, monkeypatch)
    return request.param


def roll(n=200, seed=0):
    return make_swiss_roll(n, random_state=seed)[0]


def neighbours(X, k):
    """The k nearest of each row but itself, one row at a time, ties by row number."""
    near = np.empty((len(X), k), dtype=int)
    for i, x in enumerate(X):
        square = ((X - x) ** 2).sum(axis=1)
        square[i] = np.inf
        near[i] = np.argsort(square, kind="stable")[:k]
    return near


def literal_weights(x, N, reg):
    """C_jk = (x - x_j)^T (x - x_k) + reg trace(C) on the diagonal; C w = 1, w summing to one."""
    k = len(N)
    C = (x - N) @ (x - N).T
    w = np.linalg.solve(C + reg * np.trace(C) * np.eye(k), np.ones(k))
    return w / w.sum()


def standard_matrix(X, lists, reg=1e-3):
    W = np.zeros((len(X), len(X)))
    for i, near in enumerate(lists):
        W[i, near] = literal_weights(X[i], X[near], reg)
    A = np.eye(len(X)) - W
    return A.T @ A


def modified_matrix(X, near, d):
    """Zhang and Wang (2007): several weight vectors a row, from its almost null space."""
    n, k = near.shape
    spectra = []
    for i in range(n):
        G = X[near[i]] - X[i]
        lam, V = np.linalg.eigh(G @ G.T)
        spectra.append((np.maximum(lam[::-1], 0), V[:, ::-1]))
    eta = np.median([lam[d:].sum() / lam[:d].sum() for lam, _ in spectra])
    M = np.zeros((n, n))
    for i, (lam, V) in enumerate(spectra):
        s = max(
            [m for m in range(1, k - d + 1) if lam[k - m :].sum() / lam[: k - m].sum() < eta],
            default=1,
        )
        w = literal_weights(X[i], X[near[i]], 1e-3)
        N = V[:, k - s :]
        alpha = np.linalg.norm(N.sum(axis=0)) / np.sqrt(s)
        h = alpha - N.sum(axis=0)
        h = h / np.linalg.norm(h) if np.linalg.norm(h) > 1e-12 else 0 * h
        full = np.zeros((n, s))
        full[near[i]] = (1 - alpha) * np.outer(w, np.ones(s)) + N @ (np.eye(s) - 2 * np.outer(h, h))
        full[i] -= 1
        M += full @ full.T
    return M


def hessian_matrix(X, near, d):
    """Donoho and Grimes (2003): the quadratic part of each patch, by Gram and Schmidt.

    A row that is in nobody's list joins its own patch.
    """
    n = len(X)
    M = np.zeros((n, n))
    listed = {j for rows in near for j in rows}
    for i, rows in enumerate(near):
        if i not in listed:
            rows = [i, *rows]
        P = X[rows] - X[rows].mean(axis=0)
        t = np.linalg.svd(P)[0][:, :d]
        basis = [np.ones(len(rows)), *t.T]
        basis += [t[:, a] * t[:, b] for a in range(d) for b in range(a, d)]
        Q = []
        for v in basis:
            for _ in range(2):
                for q in Q:
                    v = v - q * (q @ v)
            Q.append(v / np.linalg.norm(v))
        H = np.array(Q[1 + d :])
        M[np.ix_(rows, rows)] += H.T @ H
    return M


def ltsa_matrix(X, near, d):
    """Zhang and Zha (2004): I - G G^T, G = [1 / sqrt(k), d left singular vectors of the patch].

    The patch is the row itself and its neighbours.
    """
    n = len(X)
    M = np.zeros((n, n))
    for rows in ([i, *near[i]] for i in range(n)):
        t = np.linalg.svd(X[rows] - X[rows].mean(axis=0))[0][:, :d]
        G = np.column_stack([np.full(len(rows), 1 / np.sqrt(len(rows))), t])
        M[np.ix_(rows, rows)] += np.eye(len(rows)) - G @ G.T
    return M


def literal_matrix(X, near, method, d):
    if method == "standard":
        return standard_matrix(X, near)
    return {"modified": modified_matrix, "hessian": hessian_matrix, "ltsa": ltsa_matrix}[method](
        X, near, d
    )


def literal_bottom(M, d):
    """All eigenvectors of M outside of the constant one; the d smallest."""
    n = len(M)
    Q = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    values, V = np.linalg.eigh(Q.T @ M @ Q)
    return values[:d], Q @ V[:, :d]


def assert_one_subspace(A, B, atol):
    np.testing.assert_allclose(A @ (A.T @ B), B, atol=atol)


def assert_orthonormal(Z, atol=1e-8):
    np.testing.assert_allclose(Z.T @ Z, np.eye(Z.shape[1]), atol=atol)
    np.testing.assert_allclose(Z.sum(axis=0), 0.0, atol=atol * len(Z))


def up_to_sign(got, want):
    return want * np.where((got * want).sum(axis=0) < 0, -1.0, 1.0)


def clouds(sizes=(60, 40, 25), seed=0, spread=40.0):
    """Flat clouds far apart, and which cloud each row is of, shuffled."""
    rng = np.random.default_rng(seed)
    X = np.vstack(
        [rng.uniform(size=(s, 3)) * [6, 4, 1] + spread * rng.normal(size=3) for s in sizes]
    )
    label = np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(len(X))
    return X[order], label[order]


def fit_in_pieces(X, policy, **options):
    with pytest.warns(NearfoldWarning, match="in . pieces"):
        return LocallyLinearEmbedding(disconnected=policy, **{"n_neighbors": 8} | options).fit(X)


# ---- weights -------------------------------------------------------------------------


@pytest.mark.parametrize("reg", [1e-3, 1e-1, 1e-7])
@pytest.mark.parametrize("k", [3, 12])  # fewer and more than features
def test_weights_are_those_of_the_closed_form(reg, k):
    X = np.random.default_rng(0).normal(size=(40, 5))
    near = neighbours(X, k)
    got = barycentric_weights(X, X[near], reg)
    want = [literal_weights(X[i], X[near[i]], reg) for i in range(40)]
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(got.sum(axis=1), 1.0, atol=1e-12)


def test_weights_minimise_the_reconstruction_error():
    """(10.27) by its optimality: the gradient is the same for every weight of a row."""
    X = np.random.default_rng(1).normal(size=(30, 8))
    near = neighbours(X, 5)
    w = barycentric_weights(X, X[near], 0.0)
    for i in range(30):
        N = X[near[i]]
        gradient = 2 * (N - X[i]) @ (w[i] @ N - X[i])
        np.testing.assert_allclose(gradient, gradient.mean(), atol=1e-9)


def test_weights_of_rows_that_are_all_duplicates_are_equal():
    w = barycentric_weights(np.ones((2, 3)), np.ones((2, 4, 3)), 1e-3)
    np.testing.assert_allclose(w, 0.25)
    np.testing.assert_allclose(barycentric_weights(np.ones((2, 3)), np.ones((2, 4, 3)), 0.0), 0.25)


def test_weights_without_regularisation_of_more_neighbours_than_features():
    X = np.random.default_rng(0).normal(size=(50, 2))
    near = neighbours(X, 9)
    w = barycentric_weights(X, X[near], 0.0)
    np.testing.assert_allclose(np.einsum("ij,ijd->id", w, X[near]), X, atol=1e-6)


def test_weights_of_float32_rows_are_solved_in_float64():
    X = (np.random.default_rng(0).normal(size=(40, 5)) + 100).astype(np.float32)
    near = neighbours(X.astype(float), 4)
    got = barycentric_weights(X, X[near], 1e-3)
    assert got.dtype == np.float64
    X = X.astype(np.float64)
    want = [literal_weights(X[i], X[near[i]], 1e-3) for i in range(40)]
    np.testing.assert_allclose(got, want, rtol=1e-9)


# ---- the formulas --------------------------------------------------------------------


@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_is_the_bottom_of_the_literal_matrix(route, method, n_components):
    X = roll(160)
    model = LocallyLinearEmbedding(n_neighbors=12, n_components=n_components, method=method).fit(X)
    assert ("GMRES" in model.route_) == (route == "gmres")
    assert (model.route_ == "dense") == (route == "dense")
    assert model.converged_
    M = literal_matrix(X, neighbours(X, 12), method, n_components)
    values, V = literal_bottom(M, n_components)
    assert_orthonormal(model.embedding_)
    assert_one_subspace(model.embedding_, V, 1e-5)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-4, atol=1e-11)
    np.testing.assert_allclose(model.reconstruction_error_, values.sum(), rtol=1e-4, atol=1e-11)
    off = M @ model.embedding_ - model.embedding_ * model.eigenvalues_
    assert np.linalg.norm(off) <= 1e-8 * np.linalg.norm(M, 2)


def test_the_literal_matrices_have_the_constant_vector_as_a_null_vector():
    X = roll(60)
    for method in METHODS:
        M = literal_matrix(X, neighbours(X, 10), method, 2)
        np.testing.assert_allclose(M.sum(axis=1), 0.0, atol=1e-9)


def test_modified_never_takes_a_tangent_direction_for_null():
    rng = np.random.default_rng(0)
    X = load_iris().data + 1e-3 * rng.normal(size=(150, 4))
    X = X[X[:, 2] > 2.5]  # one piece
    model = LocallyLinearEmbedding(n_neighbors=12, method="modified").fit(X)
    _, V = literal_bottom(modified_matrix(X, neighbours(X, 12), 2), 2)
    assert_one_subspace(model.embedding_, V, 1e-5)


@pytest.mark.parametrize("reg", [1e-1, 1e-3, 1e-5])
def test_regularisation_is_a_fraction_of_the_trace(route, reg):
    X = roll(150)
    model = LocallyLinearEmbedding(n_neighbors=10, reg=reg).fit(X)
    _, V = literal_bottom(standard_matrix(X, neighbours(X, 10), reg), 2)
    assert_one_subspace(model.embedding_, V, 1e-4)


def test_the_sign_is_fixed_and_eigen_solver_dense_is_honoured(monkeypatch):
    X = roll(150)
    monkeypatch.setattr(lle, "_DENSE_ROWS", 0)
    dense = LocallyLinearEmbedding(n_neighbors=10, eigen_solver="dense").fit(X)
    other = LocallyLinearEmbedding(n_neighbors=10, eigen_solver="arpack").fit(X)
    assert (dense.route_, other.route_) == ("dense", "sparse factor of I - W")
    np.testing.assert_allclose(dense.embedding_, other.embedding_, atol=1e-6)
    for Z in (dense.embedding_, other.embedding_):
        assert (Z[np.abs(Z).argmax(axis=0), [0, 1]] > 0).all()


def test_large_tables_take_the_sparse_route_of_their_own():
    X = roll(2300)
    model = LocallyLinearEmbedding(n_neighbors=12).fit(X)
    assert model.route_ == "sparse factor of I - W"
    assert_orthonormal(model.embedding_)
    near = model.nbrs_.kneighbors(return_distance=False)
    W = sparse.lil_array((len(X), len(X)))
    for i in range(len(X)):
        W[i, near[i]] = literal_weights(X[i], X[near[i]], 1e-3)
    A = sparse.eye_array(len(X)) - W.tocsr()
    Z, lam = model.embedding_, model.eigenvalues_
    np.testing.assert_allclose(np.linalg.norm(A @ Z, axis=0) ** 2, lam, rtol=1e-6)
    # far below the norm of M: the residual beside the eigenvalues themselves
    assert np.linalg.norm(A.T @ (A @ Z) - Z * lam) < 1e-3 * lam[0]


# ---- accuracy ------------------------------------------------------------------------


def exact_factor(X, near, method, d, reg):
    """B with M = B^T B, row by row: I - W, or the rows whose squares the variants add up."""
    n, rows = len(X), []

    def add(members, block):
        full = np.zeros((block.shape[1], n))
        full[:, members] = block.T
        rows.append(full)

    for i, members in enumerate(near):
        if method == "standard":
            add([i, *members], np.r_[1.0, -literal_weights(X[i], X[members], reg)][:, None])
        elif method == "ltsa":
            patch = [i, *members]
            U = np.linalg.svd(X[patch] - X[patch].mean(axis=0))[0][:, :d]
            ones = np.full((len(patch), 1), 1.0)
            add(patch, np.linalg.qr(np.column_stack([ones, U]), mode="complete")[0][:, d + 1 :])
        else:
            t = np.linalg.svd(X[members] - X[members].mean(axis=0))[0][:, :d]
            pairs = [t[:, a] * t[:, b] for a in range(d) for b in range(a, d)]
            basis = np.column_stack([np.ones(len(members)), t, *pairs])
            add(members, np.linalg.qr(basis)[0][:, d + 1 :])
    return np.vstack(rows)


def svd_bottom(B, d):
    """The d smallest squared singular values of B outside of the constant vector, by an SVD."""
    n = B.shape[1]
    Q = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    _, s, Vt = np.linalg.svd(np.linalg.qr(B @ Q, mode="r"))
    return s[::-1][:d] ** 2, Q @ Vt[::-1][:d].T


@pytest.mark.parametrize("solver", ["auto", "dense"])
@pytest.mark.parametrize("reg", [1e-3, 1e-6, 1e-8])
@pytest.mark.parametrize("n", [90, 240, 500])
def test_small_tables_are_as_accurate_as_large_ones(n, reg, solver):
    """The eigenvalues go down to 1e-17: those of a matrix A^T A would be rounding."""
    X = roll(n)
    model = LocallyLinearEmbedding(n_neighbors=12, reg=reg, eigen_solver=solver).fit(X)
    values, V = svd_bottom(exact_factor(X, neighbours(X, 12), "standard", 2, reg), 2)
    angles = np.linalg.svd(V.T @ model.embedding_)[1]
    np.testing.assert_allclose(angles, 1.0, atol=1e-7)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-4)


@pytest.mark.parametrize("solver", ["auto", "dense"])
@pytest.mark.parametrize("method", ["hessian", "ltsa"])
@pytest.mark.parametrize("n", [90, 300])
def test_the_variants_span_the_bottom_singular_vectors(n, method, solver):
    X = roll(n)
    model = LocallyLinearEmbedding(n_neighbors=12, method=method, eigen_solver=solver).fit(X)
    values, V = svd_bottom(exact_factor(X, neighbours(X, 12), method, 2, 0.0), 2)
    np.testing.assert_allclose(np.linalg.svd(V.T @ model.embedding_)[1], 1.0, atol=1e-9)
    np.testing.assert_allclose(model.eigenvalues_, values, atol=1e-12)


def test_a_row_in_nobodys_list_is_no_axis_of_its_own():
    X = roll(150)
    unlisted = np.setdiff1d(np.arange(150), neighbours(X, 5))
    assert len(unlisted)
    for method, k in (("ltsa", 5), ("hessian", 6), ("modified", 5)):
        unlisted = np.setdiff1d(np.arange(150), neighbours(X, k))
        Z = LocallyLinearEmbedding(n_neighbors=k, method=method).fit_transform(X)
        assert np.abs(Z).max() < 0.9
        assert np.abs(Z[unlisted]).max(initial=0.0) < 0.5


# ---- scikit-learn --------------------------------------------------------------------


@pytest.mark.parametrize("method", ["standard", "modified"])  # their "ltsa" leaves out the row
def test_spans_scikit_learns_bottom_subspace(factored, method):
    X = roll(400)
    options = {"n_neighbors": 12, "method": method}
    ours = LocallyLinearEmbedding(**options).fit(X)
    theirs = sklearn.manifold.LocallyLinearEmbedding(eigen_solver="dense", **options).fit(X)
    assert_one_subspace(ours.embedding_, theirs.embedding_, 1e-5)
    np.testing.assert_allclose(
        ours.reconstruction_error_, theirs.reconstruction_error_, rtol=1e-4, atol=1e-10
    )


def test_equals_scikit_learn_on_digits():
    X = load_digits().data[:500]
    X = X + 0.01 * np.random.default_rng(0).normal(size=X.shape)
    ours = LocallyLinearEmbedding(n_neighbors=25).fit(X)
    theirs = sklearn.manifold.LocallyLinearEmbedding(n_neighbors=25, eigen_solver="dense").fit(X)
    np.testing.assert_allclose(
        ours.embedding_, up_to_sign(ours.embedding_, theirs.embedding_), atol=1e-7
    )


# ---- new rows ------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_transform_of_the_fitted_rows_is_the_embedding(method, dtype):
    X = roll(200).astype(dtype)
    model = LocallyLinearEmbedding(n_neighbors=10, method=method).fit(X)
    atol = 1e-10 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=atol)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("policy", POLICIES)
def test_transform_of_the_fitted_rows_of_pieces_is_the_embedding(method, policy):
    X, _ = clouds()
    model = fit_in_pieces(X, policy, method=method)
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-9)


@pytest.mark.parametrize("reg", [1e-3, 0.1])
def test_new_rows_are_placed_by_weights_regularised_by_distance(reg):
    X, Q = roll(200)[:150], roll(200)[150:]
    model = LocallyLinearEmbedding(n_neighbors=10, reg=reg).fit(X)
    for q, z in zip(Q, model.transform(Q), strict=True):
        square = ((X - q) ** 2).sum(axis=1)
        near = np.argsort(square)[:10]
        G = X[near] - q
        w = np.linalg.solve(G @ G.T + reg * 10 * np.diag(square[near]), np.ones(10))
        np.testing.assert_allclose(z, w / w.sum() @ model.embedding_[near], atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_transform_is_continuous_at_the_fitted_rows(method):
    X = roll(200)
    model = LocallyLinearEmbedding(n_neighbors=10, method=method).fit(X)
    for step, most in ((1e-3, 1e-2), (1e-6, 1e-5), (1e-9, 1e-8)):
        assert np.abs(model.transform(X + step) - model.embedding_).max() < most


def test_transform_is_row_wise():
    X, Q = roll(200)[:150], roll(200)[150:]
    model = LocallyLinearEmbedding(n_neighbors=10).fit(X)
    alone = np.vstack([model.transform(q[None]) for q in Q])
    np.testing.assert_allclose(model.transform(Q), alone, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_rows_with_duplicates_are_placed_at_the_mean_of_theirs(method):
    X = roll(150)
    X = np.vstack([X, X[:20], X[:5]])
    model = LocallyLinearEmbedding(n_neighbors=12, method=method).fit(X)
    Z = model.embedding_
    want = Z.copy()
    want[:20] = want[150:170] = (Z[:20] + Z[150:170]) / 2
    want[:5] = want[150:155] = want[170:] = (Z[:5] + Z[150:155] + Z[170:]) / 3
    np.testing.assert_allclose(model.transform(X), want, atol=200 * np.finfo(float).eps)


def test_of_many_duplicates_the_first_in_the_lists_decide():
    X = np.vstack([roll(60), np.tile(roll(60)[:1], (8, 1))])
    model = LocallyLinearEmbedding(n_neighbors=6).fit(X)
    want = model.embedding_[[0, 60, 61, 62, 63, 64]].mean(axis=0)
    np.testing.assert_allclose(model.transform(X[:1])[0], want, atol=1e-13)


# ---- a graph in pieces ---------------------------------------------------------------


def test_error_policy_says_sizes_and_the_smallest_connecting_k():
    X, _ = clouds((30, 12), spread=1e3)
    with pytest.raises(InputError, match=r"2 pieces \(of 30, 12 rows\)\. n_neighbors=12 would"):
        LocallyLinearEmbedding(disconnected="error").fit(X)
    LocallyLinearEmbedding(n_neighbors=12, disconnected="error").fit(X)


def shortest_bridges(X, label):
    """All edges by length; those that join two pieces are kept."""
    D = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    kept, label = [], label.copy()
    for e in np.argsort(D, axis=None, kind="stable"):
        i, j = np.unravel_index(e, D.shape)
        if label[i] != label[j]:
            kept.append((i, j))
            label[label == label[j]] = label[i]
    return kept


@pytest.mark.parametrize("method", METHODS)
def test_bridge_policy_adds_the_other_end_to_the_lists_of_both(factored, method):
    X, label = clouds()
    model = fit_in_pieces(X, "bridge", method=method)
    lists = [list(near) for near in neighbours(X, 8)]
    for a, b in shortest_bridges(X, label):
        lists[a].append(b)
        lists[b].append(a)
    np.testing.assert_array_equal(model.label_, label)
    assert_orthonormal(model.embedding_)
    if method == "standard":
        _, V = literal_bottom(standard_matrix(X, lists), 2)
        assert_one_subspace(model.embedding_, V, 1e-4)
    elif method == "ltsa":
        _, V = literal_bottom(ltsa_matrix(X, lists, 2), 2)
        assert_one_subspace(model.embedding_, V, 1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_largest_policy_embeds_the_largest_and_places_the_others_in_it(method):
    X, label = clouds()
    model = fit_in_pieces(X, "largest", method=method)
    alone = LocallyLinearEmbedding(n_neighbors=8, method=method).fit(X[label == 0])
    np.testing.assert_allclose(model.embedding_[label == 0], alone.embedding_, atol=1e-9)
    assert np.isfinite(model.embedding_).all()
    np.testing.assert_allclose(
        model.embedding_[label != 0], alone.transform(X[label != 0]), atol=1e-6
    )
    new = X[label == 1][:5] + 0.1
    np.testing.assert_allclose(model.transform(new), alone.transform(new), atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_each_policy_lays_pieces_side_by_side_without_overlap(route, method):
    X, label = clouds()
    model = fit_in_pieces(X, "each", method=method)
    np.testing.assert_array_equal(model.label_, label)
    right, total = -np.inf, 0.0
    for i in range(3):
        Z = model.embedding_[label == i]
        alone = LocallyLinearEmbedding(n_neighbors=8, method=method).fit(X[label == i])
        np.testing.assert_allclose(Z - Z.mean(axis=0), alone.embedding_, atol=1e-6)
        assert Z[:, 0].min() > right
        right = Z[:, 0].max()
        new = X[label == i][:6] + 0.01
        shift = Z.mean(axis=0)
        np.testing.assert_allclose(model.transform(new), alone.transform(new) + shift, atol=1e-6)
        total += alone.reconstruction_error_
    np.testing.assert_allclose(model.reconstruction_error_, total, rtol=1e-4, atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*eigenvalues are zero:nearfold.errors.NearfoldWarning")
def test_pieces_too_small_for_their_axes_are_padded_with_zeros():
    X = np.vstack([roll(60), [[500.0, 0, 0], [501.0, 0, 0], [500.0, 1.5, 0]]])
    model = fit_in_pieces(X, "each", n_neighbors=2, n_components=3)
    last = model.embedding_[-3:]
    assert np.isfinite(model.embedding_).all()
    np.testing.assert_array_equal(last[:, 2], 0.0)  # three rows span two axes
    assert np.abs(last[:, 1]).max() > 0.1


def two_clusters():
    """Two tight clusters, and rows between them that lead to both and to which nothing leads."""
    rng = np.random.default_rng(0)
    X = 0.01 * rng.normal(size=(16, 6))
    X[:8, 0] -= 1
    X[8:, 0] += 1
    between = 3 * np.vstack([np.eye(6)[1:], -np.eye(6)[1:]])
    return np.vstack([X, between])


def test_the_rows_between_two_clusters_lead_to_both():
    near = neighbours(two_clusters(), 7)
    assert (near[:8] < 8).all()
    assert ((near[8:16] >= 8) & (near[8:16] < 16)).all()
    assert ((near[16:] < 8).any(axis=1) & (near[16:] >= 8).any(axis=1)).any()
    assert (near < 16).all()


def test_several_closed_classes_are_zero_eigenvalues_and_said(route):
    X = two_clusters()
    with pytest.warns(NearfoldWarning, match="1 of the eigenvalues are zero"):
        model = LocallyLinearEmbedding(n_neighbors=7, n_components=2).fit(X)
    assert model.eigenvalues_[0] < 1e-12
    assert model.eigenvalues_[1] > 1e-10
    assert_orthonormal(model.embedding_)
    v = model.embedding_[:, 0]
    np.testing.assert_allclose(v[:8], v[0], atol=1e-6)
    np.testing.assert_allclose(v[8:16], v[8], atol=1e-6)
    assert abs(v[0] - v[8]) > 0.1
    M = standard_matrix(X, neighbours(X, 7))
    np.testing.assert_allclose(M @ v, 0.0, atol=1e-9)
    assert_one_subspace(model.embedding_, literal_bottom(M, 2)[1], 1e-5)


# ---- degenerate data -----------------------------------------------------------------


def plane(n=150, d=5):
    rng = np.random.default_rng(0)
    return rng.uniform(size=(n, 2)) @ rng.normal(size=(2, d))


def line(n=100):
    return np.arange(n, dtype=float)[:, None] ** 1.2 * [[1.0, 2.0, -1.0]]


def distance_from_affine(Z, X):
    """What is left of Z when the best affine map of X is taken off."""
    A = np.column_stack([np.ones(len(X)), X])
    return np.abs(Z - A @ np.linalg.lstsq(A, Z, rcond=1e-10)[0]).max()


@pytest.mark.parametrize(
    ("method", "most"), [("hessian", 1e-6), ("ltsa", 1e-6), ("modified", 0.01)]
)
def test_a_plane_is_mapped_affinely(factored, method, most):
    X = plane()
    model = LocallyLinearEmbedding(n_neighbors=12, method=method).fit(X)
    assert_orthonormal(model.embedding_)
    assert distance_from_affine(model.embedding_, X) < most


def test_standard_maps_a_plane_almost_affinely(factored):
    X = plane()
    model = LocallyLinearEmbedding(n_neighbors=12, reg=1e-5).fit(X)
    assert_orthonormal(model.embedding_)
    assert distance_from_affine(model.embedding_, X) < 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_a_line_is_mapped_to_one_axis_in_order(factored, method):
    X = line()
    model = LocallyLinearEmbedding(n_neighbors=8, n_components=1, method=method).fit(X)
    assert_orthonormal(model.embedding_)
    step = np.diff(model.embedding_[:, 0])
    assert (step > 0).all() or (step < 0).all()


def test_ltsa_blocks_of_flat_patches_are_semi_definite():
    rng = np.random.default_rng(0)
    P = rng.normal(size=(20, 8, 1)) * rng.normal(size=(20, 1, 3))  # patches on lines
    assert np.linalg.eigvalsh(ltsa_blocks(P, 2)).min() > -1e-9


def test_ltsa_of_a_line_with_two_axes_keeps_the_line():
    X = line()
    model = LocallyLinearEmbedding(n_neighbors=8, n_components=2, method="ltsa").fit(X)
    Z = model.embedding_
    along = X[:, 0] - X[:, 0].mean()
    along /= np.linalg.norm(along)
    assert np.linalg.norm(Z.T @ along) > 0.99


@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
@pytest.mark.parametrize("k", [2, 3])
def test_ltsa_with_no_more_neighbours_than_axes_is_refused(k):
    with pytest.raises(InputError):
        LocallyLinearEmbedding(n_neighbors=k, n_components=k, method="ltsa").fit(roll(60))


def test_exact_reconstruction_without_regularisation(factored):
    X = plane()
    model = LocallyLinearEmbedding(n_neighbors=12, reg=0).fit(X)
    assert_orthonormal(model.embedding_)
    assert distance_from_affine(model.embedding_, X) < 1e-6


def test_no_regularisation_where_none_is_needed(factored):
    X = np.random.default_rng(0).normal(size=(150, 20)) * np.linspace(3, 0.3, 20)
    model = LocallyLinearEmbedding(n_neighbors=10, reg=0).fit(X)
    _, V = literal_bottom(standard_matrix(X, neighbours(X, 10), 0.0), 2)
    assert_one_subspace(model.embedding_, V, 1e-6)


@pytest.mark.parametrize("method", ["standard", "modified", "ltsa"])
def test_rows_that_are_all_there_twice(factored, method):
    X = np.repeat(roll(80), 2, axis=0)
    model = LocallyLinearEmbedding(n_neighbors=14, method=method).fit(X)
    assert_orthonormal(model.embedding_)
    _, V = literal_bottom(literal_matrix(X, neighbours(X, 14), method, 2), 2)
    assert_one_subspace(model.embedding_, V, 1e-3)


@pytest.mark.filterwarnings("ignore:.*eigenvalues are zero:nearfold.errors.NearfoldWarning")
@pytest.mark.parametrize("policy", POLICIES)
def test_groups_of_duplicates_larger_than_the_lists(route, policy):
    X = np.vstack([roll(60), np.tile([[60.0, 0, 0]], (9, 1)), np.tile([[0, 90.0, 0]], (7, 1))])
    model = fit_in_pieces(X, policy, n_neighbors=6)
    assert np.isfinite(model.embedding_).all()
    np.testing.assert_array_equal(np.bincount(model.label_)[-2:], [9, 7])
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize("method", METHODS)
def test_constant_rows_give_a_finite_embedding(method):
    model = LocallyLinearEmbedding(n_neighbors=8, method=method).fit(np.full((20, 3), 7.0))
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.transform(np.full((2, 3), 7.0))).all()


def test_three_rows():
    X = roll(3)
    model = LocallyLinearEmbedding(n_neighbors=2, n_components=1).fit(X)
    assert_orthonormal(model.embedding_)


def test_two_rows_are_told_apart():
    model = LocallyLinearEmbedding(n_neighbors=1, n_components=1).fit(roll(2))
    assert_orthonormal(model.embedding_)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("scale", [1e-100, 1e-50, 1e50, 1e100, 1e160, 1e290])
def test_scale_does_not_matter_or_is_refused(scale):
    X = roll(120)
    want = LocallyLinearEmbedding(n_neighbors=10).fit(X).embedding_
    try:
        got = LocallyLinearEmbedding(n_neighbors=10).fit(X * scale).embedding_
    except NearfoldError:
        assert scale > 1e150
        return
    np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-170, 1e-200, 1e-290])
def test_values_whose_squares_vanish_are_placed_or_refused(scale):
    X = roll(120)
    try:
        got = LocallyLinearEmbedding(n_neighbors=10).fit(X * scale).embedding_
    except NearfoldError:
        return
    np.testing.assert_allclose(
        got, LocallyLinearEmbedding(n_neighbors=10).fit(X).embedding_, atol=1e-6
    )


# ---- bad input -----------------------------------------------------------------------


def test_nan_is_refused_with_its_place():
    X = roll(60)
    X[7, 1] = np.nan
    with pytest.raises(NonFiniteError, match=r"column 1: 1; first rows: \[7\]"):
        LocallyLinearEmbedding().fit(X)
    with pytest.raises(NonFiniteError):
        LocallyLinearEmbedding(n_neighbors=10).fit(roll(60)).transform(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_neighbors": 60}, "n_samples = 60, n_neighbors = 60"),
        ({"n_neighbors": 0}, "'n_neighbors' parameter of LocallyLinearEmbedding must be an int"),
        ({"n_neighbors": 2.5}, "'n_neighbors' parameter"),
        ({"n_components": 0}, "'n_components' parameter"),
        ({"n_components": 4}, "output dimension must be less than or equal to input dimension"),
        ({"method": "magic"}, "'method' parameter"),
        ({"eigen_solver": "magic"}, "'eigen_solver' parameter"),
        ({"disconnected": "glue"}, "'disconnected' parameter"),
        ({"reg": -1}, "'reg' parameter"),
        ({"tol": -1}, "'tol' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"hessian_tol": -1}, "'hessian_tol' parameter"),
        ({"modified_tol": None}, "'modified_tol' parameter"),
        ({"neighbors_algorithm": "magic"}, "'neighbors_algorithm' parameter"),
        ({"random_state": "x"}, "'random_state' parameter"),
        ({"n_jobs": 1.5}, "'n_jobs' parameter"),
        ({"method": "hessian", "n_neighbors": 5}, r"n_neighbors must be greater than.*= 5"),
        (
            {"method": "modified", "n_neighbors": 2, "n_components": 3},
            "n_neighbors >= n_components",
        ),
    ],
)
def test_parameters_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LocallyLinearEmbedding(**{"n_neighbors": 10} | options).fit(roll(60))


@pytest.mark.filterwarnings("ignore:.*eigenvalues are zero:nearfold.errors.NearfoldWarning")
def test_an_iteration_that_does_not_converge_is_said(monkeypatch):
    force("gmres", monkeypatch)
    monkeypatch.setattr(inverse_iteration, "_SVD_ROWS", 0)  # where else a dense route would step in
    monkeypatch.setattr(inverse_iteration, "gmres", lambda A, b, M, **_: (M @ b, 7))
    with pytest.warns(NearfoldWarning, match="did not converge"):
        model = LocallyLinearEmbedding(n_neighbors=10).fit(roll(120))
    assert not model.converged_


# ---- dtypes, threads, frames, pickles ------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_float32_stays_float32(route, method):
    X = roll(150)
    small = LocallyLinearEmbedding(n_neighbors=10, method=method).fit(X.astype(np.float32))
    same = LocallyLinearEmbedding(n_neighbors=10, method=method).fit(
        X.astype(np.float32).astype(np.float64)
    )
    assert small.embedding_.dtype == np.float32
    assert small.transform(X[:5].astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(small.embedding_, same.embedding_, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_threads_changes_no_bit(monkeypatch, method):
    monkeypatch.setattr(lle, "_DENSE_ROWS", 0)
    for module in (local_extension, local_weights):
        monkeypatch.setattr(
            module, "spans", lambda n, step: [slice(a, min(a + 37, n)) for a in range(0, n, 37)]
        )
    X, Q = roll(300), roll(50, seed=1)
    one, two, every = (
        LocallyLinearEmbedding(n_neighbors=10, method=method, n_jobs=n_jobs).fit(X)
        for n_jobs in (1, 2, None)
    )
    for other in (two, every):
        np.testing.assert_array_equal(one.embedding_, other.embedding_)
        np.testing.assert_array_equal(one.transform(Q), other.transform(Q))


def test_random_state_changes_nothing(route):
    X = roll(150)
    one, two = (
        LocallyLinearEmbedding(n_neighbors=10, random_state=seed).fit(X).embedding_
        for seed in (0, 1)
    )
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_in_and_out(kind):
    X = roll(80)
    frame = {"pandas": pd, "polars": pl}[kind].DataFrame(dict(zip("abc", X.T, strict=True)))
    model = LocallyLinearEmbedding(n_neighbors=10).set_output(transform=kind)
    Z = model.fit_transform(frame)
    assert list(Z.columns) == ["locallylinearembedding0", "locallylinearembedding1"]
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_array_equal(
        Z.to_numpy(), LocallyLinearEmbedding(n_neighbors=10).fit_transform(X)
    )
    np.testing.assert_allclose(model.transform(frame).to_numpy(), Z.to_numpy(), atol=1e-9)


def test_columns_of_another_name_are_refused():
    X = pd.DataFrame(roll(80), columns=list("abc"))
    model = LocallyLinearEmbedding(n_neighbors=10).fit(X)
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(X.rename(columns={"b": "z"}))


@pytest.mark.parametrize("policy", POLICIES)
def test_pickled_models_place_new_rows_alike(policy):
    X, _ = clouds()
    model = fit_in_pieces(X, policy)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X + 0.1), model.transform(X + 0.1))


# ---- what a fitted model holds -------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", METHODS)
def test_a_fitted_model_is_as_its_state_describes(method, dtype):
    frame = pd.DataFrame(roll(150).astype(dtype), columns=list("abc"))
    for solver in ("auto", "dense", "gmres"):
        model = LocallyLinearEmbedding(n_neighbors=10, method=method, eigen_solver=solver)
        LocallyLinearEmbedding.fitted_state.check(fields_of(model.fit(frame)))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_model_of_pieces_is_as_its_state_describes(policy):
    X, _ = clouds()
    model = fit_in_pieces(X, policy)
    LocallyLinearEmbedding.fitted_state.check(fields_of(model))
    LocallyLinearEmbedding.fitted_state.check(fields_of(pickle.loads(pickle.dumps(model))))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("embedding_", np.zeros((124, 2))),
        ("embedding_", np.full((125, 2), np.nan)),
        ("label_", np.full(125, 3)),
        ("label_", np.full(125, -1)),
        ("pieces_", []),
        ("pieces_", [np.array([0, 125]), np.array([1]), np.array([2])]),
        ("pieces_", [np.array([0]), np.array([], dtype=int), np.array([2])]),
        ("eigenvalues_", np.array([-1.0, 0.0])),
        ("n_features_in_", 4),
        ("index_", np.zeros((125, 3))),
        ("converged_", "yes"),
    ],
)
def test_a_damaged_model_is_refused_by_its_state(field, value):
    X, _ = clouds()
    held = fields_of(fit_in_pieces(X, "each"))
    with pytest.raises(StateError):
        LocallyLinearEmbedding.fitted_state.check({**held, field: value})


# ---- the memory budget -----------------------------------------------------------------


def test_what_does_not_fit_the_budget_is_refused_before_work():
    X = roll(900)
    nearfold.set_memory("8MB")
    with pytest.raises(MemoryBudgetError, match=r"The dense solution for 900 rows needs about"):
        LocallyLinearEmbedding(n_neighbors=10, eigen_solver="dense").fit(X)
    LocallyLinearEmbedding(n_neighbors=10).fit(X)
    nearfold.set_memory("500KB")
    for method in METHODS:
        with pytest.raises(MemoryBudgetError, match=r"LLE of 900 rows needs about"):
            LocallyLinearEmbedding(n_neighbors=10, method=method, eigen_solver="gmres").fit(X)
    nearfold.set_memory("40KB")
    with pytest.raises(MemoryBudgetError, match=r"900 rows with the fewest landmarks \(22\)"):
        LocallyLinearEmbedding(n_neighbors=10).fit(X)


def test_eigen_solver_pins_what_the_budget_would_decide(monkeypatch):
    monkeypatch.setattr(inverse_iteration, "_SURE_ROWS", 0)
    X = np.random.default_rng(0).normal(size=(700, 20))
    free = LocallyLinearEmbedding(n_neighbors=12).fit(X)
    assert (free.route_, free.approximation_) == ("sparse factor of I - W", None)
    pinned = LocallyLinearEmbedding(n_neighbors=12, eigen_solver="gmres").fit(X)
    nearfold.set_memory("2500KB")
    model = LocallyLinearEmbedding(n_neighbors=12).fit(X)
    assert model.approximation_.endswith("(memory budget 2.4 MB)")
    np.testing.assert_array_equal(model.embedding_, pinned.embedding_)
    np.testing.assert_allclose(model.embedding_, free.embedding_, atol=1e-7)
    with pytest.raises(MemoryBudgetError, match="sparse factor"):
        LocallyLinearEmbedding(n_neighbors=12, eigen_solver="arpack").fit(X)


def test_max_iter_and_tol_reach_the_eigensolver(monkeypatch):
    given = {}

    def spy(*args, **options):
        given.update(options)
        return eigsh(*args, **options)

    monkeypatch.setattr(inverse_iteration, "eigsh", spy)
    LocallyLinearEmbedding(n_neighbors=10, max_iter=7, tol=1e-11).fit(roll(150))
    assert (given["maxiter"], given["tol"]) == (7, 1e-11)


# ---- residuals of every eigenpair, scaled by norm, size and eps ------------------------


def collinear(n=120):
    t = np.random.default_rng(0).uniform(0, 10, size=(n, 1))
    return t * [[1.0, -2.0, 0.5]] + [[3.0, 1.0, 0.0]]


PATHOLOGIES = {
    "roll": lambda: roll(150),
    "few": lambda: roll(40),
    "duplicates": lambda: np.vstack([roll(110), roll(110)[:20], roll(110)[:20]]),
    "grid": lambda: (
        np.stack(np.meshgrid(range(6), range(5), range(4)), axis=-1).reshape(-1, 3) * 1.0
    ),
    "collinear": collinear,
    "two clusters": lambda: np.vstack([roll(80), 0.5 * roll(70, seed=1) + 200.0]),
    "offset": lambda: roll(120) + 1e6,
}


@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
@pytest.mark.parametrize("kind", PATHOLOGIES)
@pytest.mark.parametrize("method", METHODS)
def test_residuals(method, kind, scale):
    X = PATHOLOGIES[kind]() * scale
    model = LocallyLinearEmbedding(n_neighbors=9, method=method, tol=0).fit(X)
    distance, near = model.index_.nearest(None, 9)
    bridges = apply_policy(
        graph_of_lists(distance, near), "bridge", OutsideSearch(model.index_), distance[:, -1], 9,
        tree=True,
    ).bridges  # fmt: skip
    lists = NeighbourLists.bridged(near, bridges)
    if method == "standard":
        A = np.eye(len(X)) - weight_matrix(X, lists, 1e-3, None).toarray()
        M = A.T @ A
    else:
        M = patch_matrix(X, lists, 2, method, {"hessian": 1e-4, "modified": 1e-12}, None).toarray()
    Z, lam, n = model.embedding_, model.eigenvalues_, len(X)
    unit = n * np.finfo(float).eps * np.linalg.norm(M, 2)
    assert np.linalg.norm(M @ Z - Z * lam, axis=0).max() <= 20 * unit
    assert np.abs(Z.T @ Z - np.eye(2)).max() <= 10 * n * np.finfo(float).eps
    assert np.abs(Z.sum(axis=0)).max() <= 10 * n * np.finfo(float).eps
    values, _ = literal_bottom(M, 2)
    assert np.abs(lam - values).max() <= 20 * unit


@pytest.mark.parametrize("reg", [1e-8, 1e-11])
def test_beyond_the_dense_rows_small_regularisation_is_as_accurate(reg):
    X = make_swiss_roll(850, random_state=0)[0]
    spans = [
        np.linalg.qr(
            LocallyLinearEmbedding(n_neighbors=10, reg=reg, eigen_solver=solver, random_state=0)
            .fit(X)
            .embedding_
        )[0]
        for solver in ("auto", "dense")
    ]
    assert np.linalg.svd(spans[0].T @ spans[1], compute_uv=False).min() > 1 - 1e-6
