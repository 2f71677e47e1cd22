"""Randomly pivoted Cholesky: what is left is positive, known, and soon small."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfold.errors import NearfoldError
from nearfold.linalg.pivoted import HeldFactor, pivoted_cholesky


def rbf(X, gamma=0.5):
    X = np.asarray(X, dtype=np.float64)
    return np.exp(-gamma * ((X[:, None] - X) ** 2).sum(axis=2))


def points(m=300, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(m, d))


def factor(K, most, share=0.0, seed=0, n_jobs=None):
    held = HeldFactor(
        lambda rows, columns: K[rows][:, columns],
        np.diagonal(K).astype(np.float64),
        most,
        K.dtype,
        n_jobs,
    )
    return pivoted_cholesky(held, most, share, np.random.RandomState(seed))


def assert_partial_factor(found, K, slack=1e-10):
    """F is exact at the pivots, K - F F^T is positive semi-definite, and `left` is its trace."""
    F = found.factor.F.astype(np.float64)
    rest = K.astype(np.float64) - F @ F.T
    size = float(np.abs(K).max())
    assert F.shape == (len(K), len(found.pivots))
    assert len(set(found.pivots.tolist())) == len(found.pivots)
    np.testing.assert_allclose(rest[found.pivots], 0, atol=slack * size)
    assert np.linalg.eigvalsh(rest)[0] >= -slack * len(K) * size
    assert found.left == pytest.approx(np.trace(rest), rel=1e-6, abs=slack * len(K) * size)
    L = F[found.pivots]
    np.testing.assert_allclose(L, np.tril(L), atol=10 * np.sqrt(slack * size))


@pytest.mark.parametrize("most", [1, 7, 50, 128, 200])
def test_a_partial_factor(most):
    K = rbf(points())
    found = factor(K, most)
    assert len(found.pivots) <= most
    assert_partial_factor(found, K)


def test_the_rank_asked_for_is_the_rank_given():
    K = rbf(points(d=5), gamma=1.0)
    for most in (1, 10, 150):
        assert factor(K, most).factor.F.shape == (300, most)


def test_no_eigenvalue_is_short_by_more_than_is_left():
    K = rbf(points())
    found = factor(K, 25)
    short = np.linalg.eigvalsh(K) - np.linalg.eigvalsh(found.factor.F @ found.factor.F.T)
    assert (short >= -1e-10).all()
    assert (short <= found.left + 1e-10).all()


@pytest.mark.parametrize("share", [0.3, 0.05, 1e-3, 1e-6])
def test_stops_at_the_share_of_the_trace_about_the_mean(share):
    K = rbf(points(d=3))
    found = factor(K, 300, share)
    J = np.eye(300) - 1 / 300
    about_mean = np.trace(J @ K @ J)
    assert found.left <= share * about_mean * 1.01
    assert len(found.pivots) < 300
    assert found.trace == pytest.approx(about_mean, rel=share + 1e-9)
    assert_partial_factor(found, K)


def test_a_smaller_share_needs_more_pivots():
    K = rbf(points(d=3))
    ranks = [len(factor(K, 300, share).pivots) for share in (0.5, 0.1, 1e-2, 1e-4)]
    assert ranks == sorted(ranks)
    assert ranks[0] < ranks[-1]


@pytest.mark.parametrize("rank", [1, 5, 40])
def test_finds_the_rank_of_the_matrix_and_then_stops(rank):
    X = points(200, rank)
    found = factor(X @ X.T, 200)
    assert len(found.pivots) == rank
    assert_partial_factor(found, X @ X.T)
    assert found.left == pytest.approx(0, abs=1e-9 * np.trace(X @ X.T))


def test_duplicates_are_never_pivots_twice():
    X = np.repeat(points(30), 8, axis=0)
    found = factor(rbf(X), 240)
    assert len(found.pivots) == len(set((found.pivots // 8).tolist())) <= 30
    assert_partial_factor(found, rbf(X))


def test_a_full_factor_is_the_matrix():
    K = rbf(points(100, 6), gamma=1.0)
    found = factor(K, 1000)
    assert len(found.pivots) == 100
    np.testing.assert_allclose(found.factor.F @ found.factor.F.T, K, atol=1e-12)
    assert found.trace == pytest.approx(np.trace(K) - K.sum() / 100)


@pytest.mark.parametrize("K", [np.zeros((6, 6)), np.ones((6, 6)), np.eye(6), np.full((1, 1), 3.0)])
def test_the_simplest_matrices(K):
    found = factor(K, 6)
    assert len(found.pivots) == np.linalg.matrix_rank(K)
    assert_partial_factor(found, K)


def test_float32_is_float32_and_near():
    K = rbf(points(d=3), gamma=0.3).astype(np.float32)
    found = factor(K, 60)
    assert found.factor.F.dtype == np.float32
    assert_partial_factor(found, K, slack=1e-5)
    exact = np.linalg.norm(K - found.factor.F @ found.factor.F.T, 2)
    assert exact <= found.left + 1e-3


def test_pivots_are_drawn_by_what_is_left():
    """One entry of 100 among 99 of 1: nearly half of all first pivots are that one."""
    K = np.diag(np.r_[99.0, np.ones(99)])
    first = [factor(K, 1, seed=s).pivots[0] for s in range(300)]
    assert 0.4 < np.mean(np.array(first) == 0) < 0.6


def test_beats_columns_at_random():
    rng = np.random.default_rng(0)
    X = np.r_[0.1 * rng.normal(size=(380, 5)), 4 * rng.normal(size=(20, 5))]  # few far away
    K = rbf(X)
    chance = []
    for seed in range(5):
        S = np.random.default_rng(seed).choice(400, 30, replace=False)
        chance.append(np.trace(K - K[:, S] @ np.linalg.pinv(K[np.ix_(S, S)]) @ K[S]))
    drawn = [factor(K, 30, seed=s).left for s in range(5)]
    assert max(drawn) < min(chance)


def test_the_same_seed_gives_the_same_and_threads_change_nothing(monkeypatch):
    monkeypatch.setattr("nearfold.linalg.pivoted._ROWS", 37)
    K = rbf(points())
    one = factor(K, 80, n_jobs=1)
    for n_jobs in (1, 2, 4):
        other = factor(K, 80, n_jobs=n_jobs)
        np.testing.assert_array_equal(one.factor.F, other.factor.F)
        np.testing.assert_array_equal(one.pivots, other.pivots)
        assert one.left == other.left
    assert not np.array_equal(one.pivots, factor(K, 80, seed=1).pivots)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 40), st.integers(0, 1000))
def test_any_small_matrix(m, d, most, seed):
    X = np.random.default_rng(seed).integers(-2, 3, size=(m, d)).astype(float)  # duplicates happen
    K = (X @ X.T + 1) ** 2
    found = factor(K, most, seed=seed)
    assert len(found.pivots) == min(most, np.linalg.matrix_rank(K))
    assert_partial_factor(found, K, slack=1e-9)


class Endless(AssertionError):
    pass


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ends_when_rounding_is_all_that_is_left(dtype):
    """Duplicates whose kernel is not quite 1, as |a|^2 + |b|^2 - 2 a b rounds."""
    X = np.repeat(10 * points(40, 5), 20, axis=0).astype(dtype)
    calls = iter(range(2000))

    def part(rows, columns):
        if next(calls, None) is None:
            raise Endless
        A, B = X[rows], X[columns]
        square = (A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1) - 2 * (A @ B.T)
        return np.exp(-np.maximum(square, 0))

    held = HeldFactor(part, np.ones(800), 700, dtype, 1)
    found = pivoted_cholesky(held, 700, 0.0, np.random.RandomState(0))
    assert len(found.pivots) >= 40
    assert found.left < 800 * 1e4 * np.finfo(dtype).eps


def test_an_indefinite_matrix_is_not_factored_in_silence():
    """`left` promises to bound every eigenvalue's error: keep it, or refuse."""
    X = points(100, 4)
    K = np.tanh(0.5 * X @ X.T + 1)
    try:
        found = factor(K, 60)
    except NearfoldError:
        return
    off = np.abs(
        np.linalg.eigvalsh(K)[::-1][:3]
        - np.linalg.eigvalsh(found.factor.F @ found.factor.F.T)[::-1][:3]
    )
    assert (off <= found.left + 1e-8).all()
