"""Co-ranking without the matrix against the matrix itself."""

import numpy as np
import pytest
import quality_oracle as oracle

import nearfold
import nearfold.quality.spaces as spaces_module
from nearfold.errors import MemoryBudgetError
from nearfold.quality import co_ranking, neighbor_overlap


@pytest.fixture
def budget(monkeypatch):
    """Set the memory budget; back to the default afterwards."""
    monkeypatch.delenv("NEARFOLD_MEMORY", raising=False)
    yield nearfold.set_memory
    nearfold.set_memory(None)


def literal_summaries(q):
    """Lee and Verleysen's, block by block, from the matrix q of n rows."""
    n = len(q) + 1
    Q, B = [], []
    for K in range(1, n):
        block = q[:K, :K]
        Q.append(block.sum() / (K * n))
        B.append((np.tril(block, -1).sum() - np.triu(block, 1).sum()) / (K * n))
    K = np.arange(1, n)
    Q = np.array(Q)
    R = ((n - 1) * Q[:-1] - K[:-1]) / (n - 1 - K[:-1])
    auc = (R / K[:-1]).sum() / (1 / K[:-1]).sum()
    k_max = K[np.argmax(Q - K / (n - 1))]
    return Q, np.array(B), R, auc, k_max, Q[:k_max].mean(), Q[k_max - 1 :].mean()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n", [3, 4, 40])
def test_the_summaries_are_those_of_the_matrix(n, tied, compiled, monkeypatch):
    monkeypatch.setattr(spaces_module, "_PLAIN_PAIRS", 0 if compiled else 10**9)
    X, Z = oracle.two_spaces(n=n)
    if tied:
        X, Z = np.rint(X), np.rint(Z)
    q = oracle.co_ranking_matrix(*(oracle.ranks(oracle.distances(A)) for A in (X, Z)))
    found = co_ranking(X, Z, matrix=True)
    np.testing.assert_array_equal(found.matrix, q)
    Q, B, R, auc, k_max, q_local, q_global = literal_summaries(q)
    np.testing.assert_allclose(found.q_nx, Q, atol=1e-14)
    np.testing.assert_allclose(found.b_nx, B, atol=1e-14)
    np.testing.assert_allclose(found.r_nx, R, atol=1e-13)
    assert found.auc.value == pytest.approx(auc, abs=1e-13)
    assert found.k_max == k_max
    assert found.q_local == pytest.approx(q_local, abs=1e-14)
    assert found.q_global == pytest.approx(q_global, abs=1e-14)
    assert found.n_rows == found.n_judged == n
    assert found.notice is None


def test_each_rows_auc_is_that_of_its_own_ranks():
    X, Z = oracle.two_spaces(n=15)
    rank_x, rank_z = (oracle.ranks(oracle.distances(A)) for A in (X, Z))
    K = np.arange(1, 14)
    for i, found in enumerate(co_ranking(X, Z).auc.per_row):
        larger = np.delete(np.maximum(rank_x[i], rank_z[i]), i)
        Q = np.array([(larger <= k).sum() / k for k in K])
        R = (14 * Q - K) / (14 - K)
        assert found == pytest.approx((R / K).sum() / (1 / K).sum(), abs=1e-13)


def test_the_curve_is_the_overlap():
    X, Z = oracle.two_spaces(n=90)
    curve = co_ranking(X, Z).q_nx
    for k in (1, 4, 30, 89):
        assert curve[k - 1] == pytest.approx(neighbor_overlap(X, Z, n_neighbors=k), abs=1e-14)


def test_a_perfect_space():
    X, _ = oracle.two_spaces(n=60)
    found = co_ranking(X, X)
    np.testing.assert_array_equal(found.q_nx, 1)
    np.testing.assert_array_equal(found.b_nx, 0)
    np.testing.assert_array_equal(found.r_nx, 1)
    assert found.auc.value == pytest.approx(1, abs=1e-13)


def test_a_space_of_chance():
    rng = np.random.default_rng(0)
    found = co_ranking(rng.normal(size=(500, 5)), rng.normal(size=(500, 2)))
    assert abs(found.auc.value) < 0.02
    assert np.abs(found.r_nx[20:200]).max() < 0.03


def test_b_changes_its_sign_with_the_direction():
    X, Z = oracle.two_spaces(n=60)
    there, back = co_ranking(X, Z), co_ranking(Z, X)
    np.testing.assert_allclose(there.b_nx, -back.b_nx, atol=1e-15)
    np.testing.assert_allclose(there.q_nx, back.q_nx, atol=1e-15)
    assert np.abs(there.b_nx).max() > 0.01


def test_the_matrix_must_fit(budget):
    X, Z = oracle.two_spaces(n=300)
    budget("1MB")
    assert co_ranking(X, Z).q_nx.shape == (299,)
    with pytest.raises(MemoryBudgetError, match="co-ranking matrix of 300 rows needs"):
        co_ranking(X, Z, matrix=True)


def test_a_sample_knows_how_sure_it_is():
    X, Z = oracle.two_spaces(n=400)
    whole, part = co_ranking(X, Z), co_ranking(X, Z, sample=150, random_state=1)
    low, high = part.auc.interval
    assert low < whole.auc.value < high
    assert part.n_judged == 150 == np.isfinite(part.auc.per_row).sum()
    assert part.notice == "150 of 400 rows were judged, drawn at random, each against all rows."
    np.testing.assert_allclose(part.q_nx, whole.q_nx, atol=0.1)
    judged = np.isfinite(part.auc.per_row)
    np.testing.assert_array_equal(part.auc.per_row[judged], whole.auc.per_row[judged])
