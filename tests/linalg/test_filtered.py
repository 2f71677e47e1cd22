"""Bottom eigenpairs by a polynomial filter, against all eigenpairs."""

import numpy as np
import pytest
from scipy import sparse

from nearfold.linalg import inverse_iteration
from nearfold.linalg.filtered import bottom_by_filter, has_no_separators


def random_walk(n, k=8, seed=0):
    """Weights on random neighbours: a graph without small separators."""
    rng = np.random.default_rng(seed)
    near = np.array([rng.choice(n - 1, k, replace=False) for _ in range(n)])
    near += near >= np.arange(n)[:, None]
    w = rng.uniform(0.5, 1.5, (n, k))
    w /= w.sum(axis=1, keepdims=True)
    rows = np.repeat(np.arange(n), k)
    return sparse.csr_array((w.ravel(), (rows, near.ravel())), shape=(n, n))


def ring(n):
    i = np.arange(n)
    cells = (np.concatenate([i, i]), np.concatenate([(i + 1) % n, (i - 1) % n]))
    return sparse.csr_array((np.full(2 * n, 0.5), cells), shape=(n, n))


@pytest.mark.parametrize("k", [1, 3])
def test_filtered_pairs_are_those_of_all_eigenvalues(k):
    W = random_walk(300)
    A = (sparse.eye_array(300) - W).tocsr()
    values, V = bottom_by_filter(A, k, 1e-9, 20_000)
    s, Vt = np.linalg.svd(A.toarray())[1:]
    np.testing.assert_allclose(values, s[::-1][1 : k + 1] ** 2, rtol=1e-9)
    np.testing.assert_allclose(abs(np.sum(V * Vt[::-1][1 : k + 1].T, axis=0)), 1.0, rtol=1e-9)
    assert np.abs(V.sum(axis=0)).max() < 1e-9  # orthogonal to the constant vector
    residual = A.T @ (A @ V) - V * values
    assert np.linalg.norm(residual) < 1e-8 * values.max()


def test_levels_tell_whether_there_are_separators():
    assert has_no_separators(random_walk(500))
    assert not has_no_separators(ring(500))


def test_eigenvalues_too_small_for_a_filter_are_left_to_the_factor(monkeypatch):
    W = ring(400)
    assert bottom_by_filter((sparse.eye_array(400) - W).tocsr(), 2, 1e-9, 2000) is None
    monkeypatch.setattr(inverse_iteration, "_FILTER_ROWS", 0)
    monkeypatch.setattr(inverse_iteration, "_FILTER_PRODUCTS", 0)
    monkeypatch.setattr(inverse_iteration, "has_no_separators", lambda W: True)
    assert inverse_iteration.bottom_of_gram(W, 2, 1e-9).route == "sparse factor of I - W"


def test_the_route_is_taken_and_agrees_with_the_factor(monkeypatch):
    W = random_walk(400, seed=1)
    monkeypatch.setattr(inverse_iteration, "_FILTER_ROWS", 0)
    assert inverse_iteration.bottom_of_gram(W, 2, 1e-9).route == "sparse factor of I - W"  # cheap
    monkeypatch.setattr(inverse_iteration, "_FILTER_PRODUCTS", 0)
    monkeypatch.setattr(inverse_iteration, "_PRODUCT_WORK", 1e-3)
    ours = inverse_iteration.bottom_of_gram(W, 2, 1e-9)
    factor = inverse_iteration.bottom_of_gram(W, 2, 1e-9, "factor")
    assert ours.route == "Lanczos on a Chebyshev filter of M"
    np.testing.assert_allclose(ours.values, factor.values, rtol=1e-8)
    np.testing.assert_allclose(abs(np.sum(ours.vectors * factor.vectors, axis=0)), 1.0, rtol=1e-8)


def test_the_budget_that_does_not_hold_a_basis_leaves_it_to_the_others(monkeypatch):
    W = random_walk(400, seed=1)
    monkeypatch.setattr(inverse_iteration, "_FILTER_ROWS", 0)
    monkeypatch.setattr(inverse_iteration, "_FILTER_PRODUCTS", 0)
    monkeypatch.setattr(inverse_iteration, "filter_bytes", lambda *_: np.inf)
    assert inverse_iteration.bottom_of_gram(W, 2, 1e-9).route == "sparse factor of I - W"
