"""The compiled majorisation steps against NumPy one-liners."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfold.kernels.smacof import guttman_pairs, place_rows
from nearfold.methods.smacof import guttman, place_row_by_row, smacof


def gaps(A, B):
    return np.sqrt(((A[:, None] - B) ** 2).sum(axis=2))


def literal_guttman(D, Z):
    """B Z / m with b_ij = -D_ij / d_ij, b_ii = -sum of the row; 0 where points coincide."""
    d = gaps(Z, Z)
    B = -np.where(d > 0, D / np.where(d > 0, d, 1), 0)
    np.fill_diagonal(B, 0)
    np.fill_diagonal(B, -B.sum(axis=1))
    return B @ Z / len(D)


def problem(m=50, k=3, seed=0):
    rng = np.random.default_rng(seed)
    D = rng.uniform(0, 2, size=(m, m))
    D = D + D.T
    np.fill_diagonal(D, 0)
    return D, rng.normal(size=(m, k))


def compiled(D, Z, cuts=()):
    """All pairs, in pieces; the new coordinates and the three sums over i < j."""
    pull = np.zeros(Z.T.shape)
    edges = [0, *cuts, (len(D) + 1) // 2]
    sums = [guttman_pairs(D, np.ascontiguousarray(Z.T), a, b, pull) for a, b in pairwise(edges)]
    return pull.T / len(D), *np.sum(sums, axis=0)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.integers(1, 5), st.integers(0, 10**6), st.booleans())
def test_guttman_pairs_is_the_one_liner(m, k, seed, coincide):
    D, Z = problem(m, k, seed)
    if coincide:
        Z = np.round(Z)  # some points fall together
    new, stress, size, excess = compiled(D, Z, cuts=[m // 3])
    d = gaps(Z, Z)
    np.testing.assert_allclose(new, literal_guttman(D, Z), atol=1e-12)
    assert stress == pytest.approx(((d - D) ** 2).sum() / 2, rel=1e-12)
    assert size == pytest.approx((d**2).sum() / 2, rel=1e-12, abs=1e-300)
    assert excess == pytest.approx(((d - D) * d).sum() / 2, rel=1e-9, abs=1e-9)


def test_each_pair_belongs_to_one_piece():
    D, Z = problem(51)
    D[D > 0] = 1.0
    Z[:] = np.arange(51.0)[:, None]
    sizes = [
        guttman_pairs(D, np.ascontiguousarray(Z.T), row, row + 1, np.zeros(Z.T.shape))[1]
        for row in range(26)
    ]
    assert sum(sizes) == (gaps(Z, Z) ** 2).sum() / 2


@pytest.mark.parametrize("m", [100, 401, 700])
def test_guttman_is_one_whether_compiled_or_not(m):
    D, Z = problem(m)
    new, stress, size, excess = guttman(D, Z, None)
    d = gaps(Z, Z)
    np.testing.assert_allclose(new, literal_guttman(D, Z), atol=1e-12)
    assert stress == pytest.approx(((d - D) ** 2).sum() / 2)
    assert size == pytest.approx((d**2).sum() / 2)
    assert excess == pytest.approx(((d - D) * d).sum() / 2)


def test_threads_change_no_bit():
    D, Z = problem(500)
    one = guttman(D, Z, 1)
    for n_jobs in (2, 3, None):
        other = guttman(D, Z, n_jobs)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1:] == other[1:]


@pytest.mark.parametrize("relax", [True, False])
@pytest.mark.parametrize("m", [60, 450])
def test_the_stress_never_rises(m, relax):
    D, Z = problem(m, 2)
    run = smacof(D, Z, None, 40, 0.0, relax, None)
    assert (np.diff(run.history) <= 1e-12 * run.history[0]).all()
    d = gaps(run.Z, run.Z)
    assert run.stress == pytest.approx(((d - D) ** 2).sum() / 2)
    assert run.size == pytest.approx((d**2).sum() / 2)


def stress_of(Z, goal, z):
    return ((np.sqrt(((z - Z) ** 2).sum(axis=1)) - goal) ** 2).sum()


def literal_place(Z, goal, z, iterations):
    """Newton's step where the Hessian is definite and the stress falls, else the majorised one:
    z <- mean Z + 1/m sum_j D_j / d_j (z - z_j).
    """
    safe, least = z, np.inf
    for _ in range(iterations):
        stress = stress_of(Z, goal, z)
        if stress > least:
            z, least = safe, np.inf
            continue
        u = z - Z
        d = np.sqrt((u**2).sum(axis=1))
        ratio = np.where(d > 0, goal / np.where(d > 0, d, 1), 0)
        safe = Z.mean(axis=0) + (ratio[:, None] * u).sum(axis=0) / len(Z)
        half = len(Z) * np.eye(Z.shape[1])
        for r, v, length in zip(ratio, u, d, strict=True):
            half -= r * (np.eye(len(v)) - np.outer(v, v) / (length**2 or 1))
        definite = np.linalg.eigvalsh(half)[0] > 0
        z = z - np.linalg.inv(half) @ (len(Z) * (z - safe)) if definite else safe
        least = stress if definite else np.inf
    return z


@pytest.mark.parametrize("iterations", [1, 2, 10])
def test_place_rows_is_the_literal_iteration(iterations):
    _, Z = problem()
    rng = np.random.default_rng(1)
    wanted, start = rng.uniform(0.5, 3, size=(9, 50)), rng.normal(size=(9, 3))
    want = [literal_place(Z, w, z, iterations) for w, z in zip(wanted, start, strict=True)]
    placed = start.copy()
    moving = place_rows(np.ascontiguousarray(Z.T), wanted, placed, iterations, 0.0)
    np.testing.assert_allclose(placed, want, atol=1e-9)
    assert moving == 9
    plain, rest = place_row_by_row(Z, wanted, start.copy(), iterations, 0.0)
    np.testing.assert_allclose(plain, want, atol=1e-9)
    assert not rest


@pytest.mark.parametrize("k", [2, 5])  # on a line the stress has a cusp at every point
def test_rows_rest_in_a_minimum_below_their_start(k):
    rng = np.random.default_rng(k)
    Z, wanted = rng.normal(size=(60, k)), rng.uniform(0.1, 4, size=(30, 60))
    start = rng.normal(size=(30, k))
    placed = start.copy()
    assert place_rows(np.ascontiguousarray(Z.T), wanted, placed, 3000, 1e-16) == 0
    for goal, z, from_here in zip(wanted, placed, start, strict=True):
        least = stress_of(Z, goal, z)
        assert least <= stress_of(Z, goal, from_here)
        for step in 1e-3 * rng.normal(size=(20, k)):
            assert stress_of(Z, goal, z + step) > least


def test_rows_placed_by_their_true_distances_come_home():
    rng = np.random.default_rng(0)
    Z, truth = rng.normal(size=(80, 2)), rng.normal(size=(20, 2))
    placed = truth + 0.3 * rng.normal(size=(20, 2))
    moving = place_rows(np.ascontiguousarray(Z.T), gaps(truth, Z), placed, 3000, 1e-20)
    assert moving == 0
    np.testing.assert_allclose(placed, truth, atol=1e-7)


def test_compiled_and_plain_placing_are_one():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(500, 2))
    truth, start = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
    wanted = gaps(truth, Z) * rng.uniform(0.8, 1.2, size=(400, 500))
    many, rest = place_row_by_row(Z, wanted, start.copy(), 500, 1e-14)  # compiled: 200,000 entries
    assert rest
    for i in range(0, 400, 40):
        few, rest = place_row_by_row(Z, wanted[i : i + 1], start[i : i + 1].copy(), 500, 1e-14)
        assert rest
        np.testing.assert_allclose(few[0], many[i], atol=1e-9)


def test_a_point_on_top_of_another_adds_nothing():
    Z = np.array([[0.0, 0.0], [2.0, 0.0]])
    placed = np.array([[0.0, 0.0]])
    place_rows(np.ascontiguousarray(Z.T), np.array([[1.0, 1.0]]), placed, 1, 0.0)
    np.testing.assert_allclose(placed, [[0.5, 0.0]])  # mean + 1/2 (1 / 2) (0 - 2)
