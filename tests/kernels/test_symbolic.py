"""The counted cost of a factor against elimination done for real on a dense pattern."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nearfold.kernels.symbolic import factor_cost


def eliminate(pattern, place):
    """Eliminate nodes in order: the later neighbours of each become neighbours of each other."""
    node = np.argsort(place)
    A = pattern[np.ix_(node, node)] | np.eye(len(place), dtype=bool)
    n, entries, work = len(A), 0, 0
    for j in range(n):
        below = j + 1 + np.flatnonzero(A[j + 1 :, j])
        A[np.ix_(below, below)] = True
        entries += 1 + len(below)
        work += len(below) ** 2
    return entries, work


def random_pattern(n, density, rng):
    upper = np.triu(rng.random((n, n)) < density, 1)
    return upper | upper.T


def cost(pattern, place):
    matrix = sparse.csr_array(pattern.astype(float))
    return factor_cost(matrix.indptr.astype(np.int64), matrix.indices, place.astype(np.int64))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.floats(0, 0.5))
def test_cost_is_that_of_dense_elimination(seed, n, density):
    rng = np.random.default_rng(seed)
    pattern, place = random_pattern(n, density, rng), rng.permutation(n)
    assert cost(pattern, place) == eliminate(pattern, place)


def test_a_diagonal_in_the_pattern_changes_nothing():
    rng = np.random.default_rng(0)
    pattern, place = random_pattern(20, 0.2, rng), rng.permutation(20)
    assert cost(pattern | np.eye(20, dtype=bool), place) == cost(pattern, place)


@pytest.mark.parametrize(
    ("hub_is_eliminated", "want"), [("last", (2 * 12 - 1, 11)), ("first", (78, 506))]
)
def test_a_star_fills_only_if_its_hub_goes_first(hub_is_eliminated, want):
    pattern = np.zeros((12, 12), dtype=bool)
    pattern[0, 1:] = pattern[1:, 0] = True
    place = np.arange(12) if hub_is_eliminated == "first" else np.arange(12)[::-1]
    assert cost(pattern, place) == want


def test_entries_are_those_of_a_numeric_cholesky_factor():
    rng = np.random.default_rng(3)
    pattern, place = random_pattern(30, 0.1, rng), rng.permutation(30)
    A = np.where(pattern, rng.uniform(0.5, 1, (30, 30)), 0.0)
    A = (A + A.T) + 100 * np.eye(30)
    node = np.argsort(place)
    L = np.linalg.cholesky(A[np.ix_(node, node)])
    assert cost(pattern, place)[0] == (np.abs(L) > 1e-14).sum()
