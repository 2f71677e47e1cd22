"""Stress and the Shepard diagram against pair-by-pair formulas."""

import numpy as np
import pytest
import quality_oracle as oracle
from scipy.optimize import minimize_scalar
from scipy.stats import pearsonr, spearmanr

from nearfold import MDS
from nearfold.errors import InputError
from nearfold.quality import shepard, stress


def pairs(X, Z):
    above = np.triu_indices(len(X), 1)
    return oracle.distances(X)[above], oracle.distances(Z)[above]


def test_stress_is_the_formula():
    X, Z = oracle.two_spaces(d=12)
    Z *= 3.0
    D, d = pairs(X, Z)
    found = stress(X, Z)
    assert found.raw == pytest.approx(((D - d) ** 2).sum(), rel=1e-12)
    assert found.normalized == pytest.approx(np.sqrt(((D - d) ** 2).sum() / (D**2).sum()))
    best = minimize_scalar(lambda a: ((D - a * d) ** 2).sum() / (D**2).sum(), tol=1e-12)
    assert found.value == pytest.approx(np.sqrt(best.fun), rel=1e-10)
    assert found.scale == pytest.approx(best.x, rel=1e-6)
    kruskal = minimize_scalar(lambda b: ((b * D - d) ** 2).sum() / (d**2).sum(), tol=1e-12)
    assert found.value == pytest.approx(np.sqrt(kruskal.fun), rel=1e-10)


def test_each_row_has_its_stress():
    X, Z = oracle.two_spaces()
    D, d = oracle.distances(X), oracle.distances(Z)
    found = stress(X, Z)
    left = ((D - found.scale * d) ** 2).sum(axis=1)
    np.testing.assert_allclose(found.per_row, np.sqrt(left / (D**2).sum(axis=1)), rtol=1e-10)


def test_stress_is_that_of_mds():
    X, _ = oracle.two_spaces()
    model = MDS(2, n_init=1, normalized_stress=False).fit(X)
    assert stress(X, model.embedding_).raw == pytest.approx(model.stress_, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_scaled_copy_has_no_stress(scale):
    X, _ = oracle.two_spaces(n=60, d=12)
    Z = scale * X @ np.linalg.qr(np.random.default_rng(0).normal(size=(12, 12)))[0]
    found = stress(X, Z)
    assert found.value < 1e-11
    assert found.scale == pytest.approx(1 / scale, rel=1e-12)
    assert stress(X, X).raw == 0.0


def test_one_spot_has_all_the_stress():
    X, _ = oracle.two_spaces()
    found = stress(X, np.ones((40, 2)))
    assert (found.value, found.normalized, found.scale) == (1.0, 1.0, 0.0)
    np.testing.assert_array_equal(found.per_row, 1.0)
    assert stress(np.ones((4, 1)), np.ones((4, 2))).value == 0.0


def test_sampled_stress_holds_the_true_one_at_the_nominal_rate():
    X, Z = oracle.two_spaces(n=250, d=3)
    want = stress(X, Z)
    hits = 0
    for seed in range(200):
        found = stress(X, Z, sample=60, random_state=seed)
        hits += found.interval[0] <= want.value <= found.interval[1]
    assert 175 <= hits <= 200  # 95 % of 200 are 190, with an error of 3
    assert found.raw == pytest.approx(want.raw, rel=0.2)
    assert "60 of 250 rows" in found.notice


def test_all_pairs_of_a_small_table():
    X, Z = oracle.two_spaces(d=12)
    D, d = pairs(X, Z)
    found = shepard(X, Z)
    np.testing.assert_allclose(found.original, D, rtol=1e-12)
    np.testing.assert_allclose(found.embedded, d, rtol=1e-12)
    assert found.spearman == pytest.approx(spearmanr(D, d).statistic, abs=1e-12)
    assert found.pearson == pytest.approx(pearsonr(D, d).statistic, abs=1e-12)
    assert found.interval is found.notice is None
    np.testing.assert_array_equal(found.pairs, np.column_stack(np.triu_indices(40, 1)))


def test_ties_share_their_ranks():
    X, Z = (np.rint(A) for A in oracle.two_spaces())
    D, d = pairs(X, Z)
    assert shepard(X, Z).spearman == pytest.approx(spearmanr(D, d).statistic, abs=1e-12)


def test_drawn_pairs_are_pairs():
    X, Z = oracle.two_spaces(n=200)
    found = shepard(X, Z, n_pairs=3000)
    a, b = found.pairs.T
    assert (a != b).all()
    assert len(np.unique(a)) == len(np.unique(b)) == 200
    np.testing.assert_allclose(found.original, np.linalg.norm(X[a] - X[b], axis=1), rtol=1e-12)
    assert found.spearman == pytest.approx(spearmanr(found.original, found.embedded).statistic)
    assert found.notice == "3,000 of 19,900 pairs of rows, drawn at random."


def test_drawn_correlations_hold_the_true_ones_at_the_nominal_rate():
    X, Z = oracle.two_spaces(n=150, d=3)
    want = shepard(X, Z, n_pairs=10**6)
    hits = np.zeros(2)
    for seed in range(100):
        found = shepard(X, Z, n_pairs=400, random_state=seed)
        for i, (value, (low, high)) in enumerate(
            [(want.spearman, found.spearman_interval), (want.pearson, found.pearson_interval)]
        ):
            hits[i] += low <= value <= high
    assert (hits >= 88).all(), hits  # 95 % of 100, with an error of 2.2


def test_the_draw_does_not_depend_on_the_order_of_rows():
    X, Z = oracle.two_spaces(n=200)
    order = np.random.default_rng(0).permutation(200)
    a, b = shepard(X, Z, n_pairs=500), shepard(X[order], Z[order], n_pairs=500)
    np.testing.assert_allclose(a.original, b.original, rtol=1e-12)
    assert a.interval == pytest.approx(b.interval, abs=1e-12)


def test_what_does_not_vary():
    X = np.arange(12.0).reshape(6, 2)
    assert shepard(X, np.ones((6, 2))).spearman == 0.0
    assert shepard(np.ones((6, 2)), np.ones((6, 2))).spearman == 1.0
    triangle = np.array([[0, 0], [1, 0], [0.5, 0.75**0.5]])
    assert shepard(triangle, triangle).pearson == 1.0
    assert shepard(X, 5 * X).spearman == 1.0
    with pytest.raises(InputError, match="three pairs"):
        shepard(X, X, n_pairs=2)


def test_other_metrics():
    X, Z = oracle.two_spaces()
    D = np.abs(X[:, None] - X[None]).sum(axis=2)
    above = np.triu_indices(40, 1)
    np.testing.assert_allclose(shepard(X, Z, metric="cityblock").original, D[above], rtol=1e-12)
    given, named = stress(D, Z, metric="precomputed"), stress(X, Z, metric="cityblock")
    assert given.value == pytest.approx(named.value, rel=1e-10)
