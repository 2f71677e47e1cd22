"""Bottom eigenpairs of M = (I - W)^T (I - W) by every route against all eigenvalues at once."""

import re

import numpy as np
import pytest
from scipy import sparse

import nearfold
import nearfold.linalg.inverse_iteration as inverse_iteration
from nearfold.errors import MemoryBudgetError, SolverError
from nearfold.linalg.inverse_iteration import (
    bottom_of_dense,
    bottom_of_factor,
    bottom_of_gram,
    bottom_of_symmetric,
    closed_classes,
)

ROUTES = ["direct", "gmres"]


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


@pytest.fixture(params=ROUTES)
def route(request, monkeypatch):
    monkeypatch.setattr(inverse_iteration, "_SURE_ROWS", 0)
    if request.param == "gmres":
        monkeypatch.setattr(inverse_iteration, "MOST_WORK", 0)
    return request.param


def walk(n, k=6, seed=0, negative=True):
    """Weights of LLE's kind: k a row, summing to one, some negative, of points along a curve."""
    rng = np.random.default_rng(seed)
    W = np.zeros((n, n))
    for i in range(n):
        near = np.argsort(np.abs(np.arange(n) - i) + 0.1 * rng.random(n))[1 : k + 1]
        w = rng.uniform(-0.3 if negative else 0.1, 1.0, k)
        W[i, near] = w / w.sum()
    return W


def scattered(n, k=8, seed=0):
    """Positive weights of rows anywhere."""
    rng = np.random.default_rng(seed)
    W = np.zeros((n, n))
    for i in range(n):
        near = rng.choice(np.delete(np.arange(n), i), k, replace=False)
        w = rng.uniform(0.1, 1.0, k)
        W[i, near] = w / w.sum()
    return W


def blocks(sizes, **options):
    W = np.zeros((sum(sizes), sum(sizes)))
    start = 0
    for i, n in enumerate(sizes):
        W[start : start + n, start : start + n] = walk(n, seed=i, **options)
        start += n
    return W


def literal_bottom(W, k):
    """Eigenpairs of M on the complement of the constant vector."""
    n = len(W)
    A = np.eye(n) - W
    Q = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    values, V = np.linalg.eigh(Q.T @ (A.T @ A) @ Q)
    return values[:k], Q @ V[:, :k]


def assert_bottom(pairs, W, k, limit=1e-6):
    n = len(W)
    values, V = literal_bottom(W, k)
    assert pairs.vectors.shape == (n, k)
    np.testing.assert_allclose(pairs.values, values, rtol=1e-6, atol=1e-13)
    np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(k), atol=1e-9)
    np.testing.assert_allclose(pairs.vectors.sum(axis=0), 0.0, atol=1e-7)
    assert (np.diff(pairs.values) >= 0).all()
    # compared as subspaces: equal eigenvalues turn freely
    np.testing.assert_allclose(pairs.vectors @ (pairs.vectors.T @ V), V, atol=limit)
    M = (np.eye(n) - W).T @ (np.eye(n) - W)
    off = np.linalg.norm(M @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
    assert off.max() <= 1e-9 * np.linalg.norm(M, 2)


# ---- M = (I - W)^T (I - W) -----------------------------------------------------------


@pytest.mark.parametrize("n", [40, 150])
@pytest.mark.parametrize("k", [1, 3])
def test_bottom_pairs_are_those_of_all_eigenvalues(route, n, k):
    W = walk(n)
    pairs = bottom_of_gram(sparse.csr_array(W), k, 1e-9)
    assert ("GMRES" in pairs.route) == (route == "gmres")
    assert pairs.converged
    assert pairs.null == 0
    assert_bottom(pairs, W, k)


def test_small_systems_are_factored_without_counting(monkeypatch):
    monkeypatch.setattr(inverse_iteration, "MOST_WORK", 0)  # would forbid it
    assert bottom_of_gram(sparse.csr_array(walk(50)), 2, 1e-9).route == "sparse factor of I - W"


def test_memory_budget_decides_between_factor_and_gmres(monkeypatch):
    monkeypatch.setattr(inverse_iteration, "_SURE_ROWS", 0)
    W = scattered(400)  # its factor fills in
    pairs = bottom_of_gram(sparse.csr_array(W), 2, 1e-9)
    assert (pairs.route, pairs.approximation) == ("sparse factor of I - W", None)
    nearfold.set_memory("1500KB")
    pairs = bottom_of_gram(sparse.csr_array(W), 2, 1e-9)
    assert "GMRES" in pairs.route
    assert re.search(r"which needs 1\.9 MB \(memory budget 1\.5 MB\)", pairs.approximation)
    assert_bottom(pairs, W, 2)
    with pytest.raises(MemoryBudgetError, match="sparse factor and its work space needs"):
        bottom_of_gram(sparse.csr_array(W), 2, 1e-9, "factor")
    nearfold.set_memory("200KB")
    with pytest.raises(MemoryBudgetError, match="GMRES"):
        bottom_of_gram(sparse.csr_array(W), 2, 1e-9)
    nearfold.set_memory(None)
    chosen = bottom_of_gram(sparse.csr_array(W), 2, 1e-9, "gmres")  # pinned, whatever the budget
    np.testing.assert_array_equal(chosen.vectors, pairs.vectors)
    assert chosen.approximation is None


@pytest.mark.parametrize("pieces", [2, 3, 4])
def test_as_many_null_vectors_as_components(route, pieces):
    sizes = [30, 22, 17, 12][:pieces]
    W = blocks(sizes)
    k = pieces + 1  # the null vectors but for the constant one, and two more
    pairs = bottom_of_gram(sparse.csr_array(W), k, 1e-9)
    assert pairs.null == pieces - 1
    np.testing.assert_array_equal(pairs.values[: pieces - 1], 0.0)
    assert_bottom(pairs, W, k)
    label = np.repeat(np.arange(pieces), sizes)
    for v in pairs.vectors[:, : pieces - 1].T:
        for i in range(pieces):
            np.testing.assert_allclose(v[label == i], v[label == i].mean(), atol=1e-8)


def two_classes(between=6):
    """Two closed classes, and rows that lead to both but to which nothing leads."""
    inside = blocks([20, 15], negative=False)
    rng = np.random.default_rng(9)
    W = np.zeros((35 + between, 35 + between))
    W[:35, :35] = inside
    for i in range(35, 35 + between):
        near = np.r_[rng.choice(20, 3, replace=False), 20 + rng.choice(15, 3, replace=False)]
        w = rng.uniform(0.1, 1, 6)
        W[i, near] = w / w.sum()
    return W


def test_closed_classes_give_null_vectors_although_the_graph_is_connected(route):
    W = two_classes()
    pairs = bottom_of_gram(sparse.csr_array(W), 3, 1e-9)
    assert pairs.null == 1
    assert pairs.values[0] == 0.0
    assert_bottom(pairs, W, 3)
    v = pairs.vectors[:, 0]
    np.testing.assert_allclose(v[:20], v[0], atol=1e-9)
    np.testing.assert_allclose(v[20:35], v[20], atol=1e-9)
    np.testing.assert_allclose(v[35:], W[35:] @ v, atol=1e-9)  # harmonic in between
    assert abs(v[0] - v[20]) > 0.1


def test_more_null_vectors_than_asked_for(route):
    W = blocks([12, 11, 10, 9])
    pairs = bottom_of_gram(sparse.csr_array(W), 2, 1e-9)
    assert pairs.null == 2
    np.testing.assert_array_equal(pairs.values, 0.0)
    A = np.eye(42) - W
    np.testing.assert_allclose(A @ pairs.vectors, 0.0, atol=1e-8)
    np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(2), atol=1e-9)
    np.testing.assert_allclose(pairs.vectors.sum(axis=0), 0.0, atol=1e-7)


def literal_closed_classes(W):
    """Sets of rows that reach each other and nothing else, by powers of the pattern."""
    reach = (W != 0) | np.eye(len(W), dtype=bool)
    for _ in range(len(W)):
        reach = (reach.astype(int) @ reach.astype(int)) > 0
    mutual = reach & reach.T
    return {
        tuple(np.flatnonzero(mutual[i])) for i in range(len(W)) if (mutual[i] == reach[i]).all()
    }


@pytest.mark.parametrize("seed", range(10))
def test_closed_classes_are_those_of_reachability(seed):
    rng = np.random.default_rng(seed)
    W = np.where(rng.random((14, 14)) < rng.choice([0.06, 0.1, 0.2]), 1.0, 0.0)
    np.fill_diagonal(W, 0.0)
    W[:, 3][W.sum(axis=1) == 0] = 1.0
    found = closed_classes(sparse.csr_array(W))
    assert {tuple(rows) for rows in found} == literal_closed_classes(W)


def test_same_result_every_time(route):
    W = sparse.csr_array(walk(80))
    np.testing.assert_array_equal(
        bottom_of_gram(W, 2, 1e-9).vectors, bottom_of_gram(W, 2, 1e-9).vectors
    )


# ---- a symmetric M -------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3])
def test_symmetric_bottom_pairs_are_those_of_all_eigenvalues(route, k):
    W = walk(120)
    A = np.eye(120) - W
    pairs = bottom_of_symmetric(sparse.csr_array(A.T @ A), k, 1e-9)
    assert ("GMRES" in pairs.route) == (route == "gmres")
    values, V = literal_bottom(W, k)
    np.testing.assert_allclose(pairs.values, values, rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(pairs.vectors @ (pairs.vectors.T @ V), V, atol=1e-5)
    np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(k), atol=1e-9)
    np.testing.assert_allclose(pairs.vectors.sum(axis=0), 0.0, atol=1e-7)


def test_symmetric_m_with_further_null_vectors_finds_them(route):
    """A path whose second differences are punished: every straight line is free."""
    n = 60
    H = np.zeros((n - 2, n))
    for i in range(n - 2):
        H[i, i : i + 3] = [1, -2, 1]
    pairs = bottom_of_symmetric(sparse.csr_array(H.T @ H), 1, 1e-9)
    line = np.arange(n) - (n - 1) / 2
    np.testing.assert_allclose(
        np.abs(pairs.vectors[:, 0]), np.abs(line) / np.linalg.norm(line), atol=1e-5
    )
    assert 0 <= pairs.values[0] < 1e-10


# ---- dense ---------------------------------------------------------------------------


def both(W, k, null=0):
    """The two dense routes: the singular values of I - W, and the eigenvalues of M."""
    A = np.eye(len(W)) - W
    return bottom_of_factor(A, k, null), bottom_of_dense(A.T @ A, k)


@pytest.mark.parametrize("k", [1, 3, 39])
def test_dense_bottom_pairs_leave_out_the_constant_vector(k):
    W = walk(40)
    for pairs in both(W, k):
        assert pairs.null == 0
        assert pairs.route == "dense"
        assert_bottom(pairs, W, k)


def test_dense_finds_the_null_vectors_of_pieces():
    W = blocks([15, 12, 9])
    for k, null in ((4, 2), (1, 1)):
        one, other = both(W, k, 2)
        assert one.null == null  # no more than asked for
        assert (one.values[:null] < 1e-25).all()
        assert (other.values[:null] < 1e-12).all()
    for pairs in both(W, 4):
        assert_bottom(pairs, W, 4)


def test_dense_and_sparse_are_one(route):
    for W, k in ((walk(90), 3), (two_classes(), 3), (blocks([25, 20]), 2)):
        classes = len(closed_classes(sparse.csr_array(W)))
        other = bottom_of_gram(sparse.csr_array(W), k, 1e-9)
        assert other.null == classes - 1
        for one in both(W, k):
            np.testing.assert_allclose(one.values, other.values, rtol=1e-6, atol=1e-13)
            np.testing.assert_allclose(
                one.vectors @ one.vectors.T, other.vectors @ other.vectors.T, atol=1e-6
            )


def test_dense_m_of_rank_one_leaves_out_the_constant_vector():
    pairs = bottom_of_dense(np.array([[2.0, -2.0], [-2.0, 2.0]]), 1)
    np.testing.assert_allclose(np.abs(pairs.vectors), np.sqrt(0.5), atol=1e-9)
    np.testing.assert_allclose(pairs.vectors.sum(), 0.0, atol=1e-9)


def nearly_singular(n=60, least=1e-9, seed=0):
    """A with A 1 = 0, singular values from `least` to 1 and known right vectors."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, n - 1))]))[0][:, 1:]
    U = np.linalg.qr(rng.normal(size=(n, n)))[0][:, : n - 1]
    s = np.concatenate([least * np.array([1.0, 4.0]), np.linspace(0.1, 1, n - 3)])
    return (U * s) @ V.T, s, V


def test_singular_values_are_accurate_where_their_squares_are_below_rounding():
    A, s, V = nearly_singular()
    pairs = bottom_of_factor(A, 2)
    np.testing.assert_allclose(pairs.values, s[:2] ** 2, rtol=1e-6)
    np.testing.assert_allclose(np.abs((pairs.vectors * V[:, :2]).sum(axis=0)), 1, atol=1e-10)
    squared = bottom_of_dense(A.T @ A, 2)  # which is why M is not formed
    assert np.abs((squared.vectors * V[:, :2]).sum(axis=0)).min() < 0.99


# ---- failure -------------------------------------------------------------------------


def test_a_dense_matrix_with_nan_is_an_error_that_names_it():
    M = np.eye(5)
    M[2, 2] = np.nan
    with pytest.raises(SolverError, match=r"M \(4 x 4\) holds NaN"):
        bottom_of_dense(M, 1)
    with pytest.raises(SolverError, match="I - W"):
        bottom_of_factor(M, 1)


def test_too_few_restarts_are_an_error():
    with pytest.raises(SolverError, match="not found"):
        bottom_of_gram(sparse.csr_array(scattered(300)), 5, 0.0, max_iter=1)


def test_gmres_that_does_not_converge_is_reported(monkeypatch):
    monkeypatch.setattr(inverse_iteration, "_SURE_ROWS", 0)
    monkeypatch.setattr(inverse_iteration, "MOST_WORK", 0)
    monkeypatch.setattr(inverse_iteration, "_SVD_ROWS", 0)
    monkeypatch.setattr(inverse_iteration, "gmres", lambda A, b, M, **_: (M @ b, 7))
    assert not bottom_of_gram(sparse.csr_array(walk(60)), 2, 1e-9).converged
