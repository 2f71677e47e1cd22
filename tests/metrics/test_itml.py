"""ITML: against a convex solver, its optimality conditions, and what must not change it."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.utils._param_validation import InvalidParameterError

from nearfold.errors import InputError, NearfoldWarning, NotConvergedWarning
from nearfold.kernels.itml import project_all
from nearfold.metrics.itml import ITML, ITML_Supervised, percentile_bounds


def draw(seed=0, n=30, d=3):
    """Pairs that contradict each other in part, so that slack is needed."""
    random = np.random.RandomState(seed)
    pairs = random.standard_normal((n, 2, d)) * np.arange(1, d + 1)
    return pairs, np.where(np.arange(n) % 2 == 0, 1, -1)


def oracle(pairs, y, prior, bounds, gamma):
    """The LogDet problem, slack and all, as it is written."""
    V, d = pairs[:, 0] - pairs[:, 1], pairs.shape[2]
    A, xi = cp.Variable((d, d), PSD=True), cp.Variable(len(V), pos=True)
    b = np.where(y > 0, bounds[0] ** 2, bounds[1] ** 2)
    p = cp.hstack([cp.trace(A @ np.outer(v, v)) for v in V])
    value = cp.trace(A @ np.linalg.inv(prior)) - cp.log_det(A) + np.linalg.slogdet(prior)[1] - d
    if np.isinf(gamma):
        limits = [cp.multiply(y, p - b) <= 0]
    else:
        value += gamma * cp.sum(cp.multiply(1 / b, xi) - cp.log(xi) + np.log(b) - 1)
        limits = [cp.multiply(y, p - xi) <= 0]
    problem = cp.Problem(cp.Minimize(value), limits)
    problem.solve(solver=cp.CLARABEL)
    return A.value, problem.value


@pytest.mark.parametrize("gamma", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("prior", ["identity", "matrix"])
def test_agrees_with_a_convex_solver(gamma, prior):
    pairs, y = draw()
    M0 = np.eye(3) if prior == "identity" else np.array([[2.0, 0.5, 0], [0.5, 1, 0], [0, 0, 0.3]])
    learner = ITML(gamma=gamma, prior=M0, tol=1e-6).fit(pairs, y, bounds=[1.5, 4.0])
    A, value = oracle(pairs, y, M0, (1.5, 4.0), gamma)
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), A, rtol=1e-3, atol=1e-4)
    assert learner.objective_ == pytest.approx(value, rel=1e-5)
    assert learner.converged_


def test_without_slack_agrees_with_a_convex_solver():
    pairs, y = draw(n=6, d=4)
    learner = ITML(gamma=np.inf, tol=1e-8).fit(pairs, y, bounds=[3.0, 3.5])
    A, value = oracle(pairs, y, np.eye(4), (3.0, 3.5), np.inf)
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), A, rtol=1e-3, atol=1e-4)
    assert learner.objective_ == pytest.approx(value, rel=1e-5)


def test_optimality_conditions():
    pairs, y = draw(1)
    gamma, (u, far) = 2.0, (1.0, 5.0)
    learner = ITML(gamma=gamma, tol=1e-7).fit(pairs, y, bounds=[u, far])
    A, lam, V = learner.get_mahalanobis_matrix(), learner.multipliers_, pairs[:, 0] - pairs[:, 1]
    np.testing.assert_allclose(
        np.linalg.inv(A), np.eye(3) + (V.T * (y * lam)) @ V, rtol=1e-5, atol=1e-5
    )
    b = np.where(y > 0, u**2, far**2)
    xi, p = 1 / (1 / b - y * lam / gamma), np.einsum("ij,jk,ik->i", V, A, V)
    assert (lam >= 0).all()
    assert 0 < (lam > 0).sum() < len(lam)  # some bounds hold without help
    np.testing.assert_allclose((lam * (p - xi))[lam > 0], 0, atol=1e-5)
    assert (y * (p - b))[lam == 0].max() <= 1e-9


def test_bounds_are_distances():
    """One must-link pair 2 apart, u = 1: with hardly any slack A brings it to distance 1."""
    pairs = np.array([[[0.0, 0], [2, 0]], [[0, 0], [0, 30.0]]])
    learner = ITML(gamma=1e6, tol=1e-6).fit(pairs, [1, -1], bounds=[1.0, 2.0])
    assert learner.pair_distance(pairs)[0] == pytest.approx(1.0, rel=1e-4)


def test_default_bounds_are_percentiles_under_the_prior():
    X = np.random.RandomState(0).standard_normal((40, 3))
    distance = [np.linalg.norm(a - b) for i, a in enumerate(X) for b in X[:i]]
    np.testing.assert_allclose(percentile_bounds(X, np.eye(3)), np.percentile(distance, (5, 95)))
    np.testing.assert_allclose(
        percentile_bounds(X, 4 * np.eye(3)), 2 * percentile_bounds(X, np.eye(3))
    )
    again = np.concatenate([X, np.repeat(X[:1], 200, axis=0)])  # a point counts once
    np.testing.assert_allclose(percentile_bounds(again, np.eye(3)), percentile_bounds(X, np.eye(3)))
    many = np.random.RandomState(1).standard_normal((6000, 2))
    expected = np.sqrt(-4 * np.log([0.95, 0.05]))  # Rayleigh, of differences of variance 2
    np.testing.assert_allclose(percentile_bounds(many, np.eye(2)), expected, rtol=0.05)


def test_a_projection_meets_its_bound():
    A, V, lam = np.eye(2), np.array([[3.0, 4.0]]), np.zeros(1)
    project_all(A, V, np.array([1.0]), np.array([1 / 9.0]), lam)
    assert V[0] @ A @ V[0] == pytest.approx(9.0)
    np.testing.assert_allclose(np.linalg.inv(A), np.eye(2) + lam[0] * np.outer(V, V), rtol=1e-12)
    before = A.copy()
    project_all(A, V, np.array([1.0]), np.array([1 / 9.0]), lam)
    np.testing.assert_allclose(A, before, rtol=1e-12)


def test_contradicting_bounds_without_slack_are_reported():
    pairs = np.array([[[0.0, 0], [1, 0]], [[0, 0], [1.0, 0]]])
    with pytest.warns(NotConvergedWarning, match="ITML did not converge"):
        learner = ITML(gamma=np.inf, max_iter=50).fit(pairs, [1, -1], bounds=[1.0, 2.0])
    assert not learner.converged_
    assert np.isfinite(learner.get_mahalanobis_matrix()).all()


def test_too_few_steps_are_reported():
    pairs, y = draw()
    with pytest.warns(NotConvergedWarning, match="after 1 iterations"):
        assert not ITML(max_iter=1).fit(pairs, y).converged_


def test_equal_points():
    pairs, y = draw()
    kept = ITML().fit(pairs, y, bounds=[1, 3]).get_mahalanobis_matrix()
    same = np.repeat(pairs[:1, :1], 2, axis=1)
    must = ITML().fit(np.concatenate([pairs, same]), [*y, 1], bounds=[1, 3])
    np.testing.assert_allclose(must.get_mahalanobis_matrix(), kept, rtol=1e-10)
    with pytest.warns(NearfoldWarning, match="1 cannot-link pairs are of equal points"):
        cannot = ITML().fit(np.concatenate([pairs, same]), [*y, -1], bounds=[1, 3])
    np.testing.assert_allclose(cannot.get_mahalanobis_matrix(), kept, rtol=1e-10)


@pytest.mark.parametrize("bounds", [[1.0], [1, 2, 3], [0, 1], [1, np.inf], "ab", [[1, 2, 3]]])
def test_bounds_that_are_none(bounds):
    pairs, y = draw()
    with pytest.raises(InputError, match="bounds"):
        ITML().fit(pairs, y, bounds=bounds)


@pytest.mark.parametrize("wrong", [{"gamma": 0}, {"gamma": -1}, {"tol": 0}, {"max_iter": 0}])
def test_parameters_that_are_none(wrong):
    pairs, y = draw()
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        ITML(**wrong).fit(pairs, y)


def test_bad_scales_converge():
    X, y = load_wine(return_X_y=True)
    assert ITML_Supervised(random_state=0).fit(X, y).converged_
    assert ITML_Supervised(random_state=0).fit(X * np.geomspace(1e-3, 1e3, 13), y).converged_


def test_ways_of_giving_pairs_agree():
    X = load_iris().data
    ids = np.array([[0, 1], [0, 60], [61, 62], [70, 140], [100, 101]])
    sign = np.array([1, -1, 1, -1, 1])
    M = ITML().fit(X[ids], sign, bounds=[1, 3]).get_mahalanobis_matrix()
    by_id = ITML().fit(X, sign, pairs=ids, bounds=[1, 3])
    looked_up = ITML(preprocessor=X).fit(ids, sign, bounds=[1, 3])
    np.testing.assert_allclose(by_id.get_mahalanobis_matrix(), M, rtol=1e-10)
    np.testing.assert_allclose(looked_up.get_mahalanobis_matrix(), M, rtol=1e-10)
    np.testing.assert_array_equal(by_id.predict(X[ids[:2]]), [1, -1])
    assert not hasattr(by_id, "_bounds")
