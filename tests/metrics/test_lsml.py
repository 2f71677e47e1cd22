"""LSML: against a convex solver, differences, its certificate, and what must not change it."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.datasets import load_iris, load_wine

from nearfold.errors import InputError, NotConvergedWarning
from nearfold.metrics.lsml import (
    LSML,
    LSML_Supervised,
    squared_residuals,
)
from nearfold.optim.log_det import minimise_near_identity, near_identity


def draw(seed=0, n=25, d=3):
    random = np.random.RandomState(seed)
    return 3 * random.standard_normal((n, 4, d)) * np.arange(1, d + 1)


def oracle(quadruplets, weights, prior):
    """max(sqrt s - sqrt t, 0)^2 is the least s' + t - 2 sqrt(s' t) over s' >= s."""
    near, far = quadruplets[:, 0] - quadruplets[:, 1], quadruplets[:, 2] - quadruplets[:, 3]
    d = near.shape[1]
    M, more = cp.Variable((d, d), PSD=True), cp.Variable(len(near), nonneg=True)
    value = cp.trace(M @ np.linalg.inv(prior)) - cp.log_det(M) + np.linalg.slogdet(prior)[1] - d
    for q, (a, c) in enumerate(zip(near, far, strict=True)):
        s, t = cp.trace(M @ np.outer(a, a)) + more[q], cp.trace(M @ np.outer(c, c))
        value += weights[q] * (s + t - 2 * cp.geo_mean(cp.hstack([s, t])))
    problem = cp.Problem(cp.Minimize(value))
    problem.solve(solver=cp.CLARABEL)
    return M.value, problem.value


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("prior", ["identity", "matrix"])
def test_agrees_with_a_convex_solver(weighted, prior):
    quadruplets = draw()
    weights = np.arange(1.0, 26) ** 2 if weighted else np.ones(25)
    M0 = np.eye(3) if prior == "identity" else np.array([[2.0, 0.5, 0], [0.5, 1, 0], [0, 0, 0.3]])
    learner = LSML(tol=1e-6, prior=M0).fit(quadruplets, weights=weights)
    M, value = oracle(quadruplets, weights / weights.sum(), M0)
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), M, rtol=2e-3, atol=2e-4)
    assert learner.objective_ == pytest.approx(value, rel=1e-5)
    assert learner.converged_
    assert np.abs(M - M0).max() > 0.1  # the comparisons did matter


def test_gradient_agrees_with_differences():
    quadruplets, w = draw(1), np.random.RandomState(1).uniform(size=25)
    near, far = quadruplets[:, 0] - quadruplets[:, 1], quadruplets[:, 2] - quadruplets[:, 3]
    L = np.random.RandomState(2).standard_normal((3, 3))

    def objective(x):
        return near_identity(lambda L: squared_residuals(near, far, w, L), np.reshape(x, (3, 3)))

    numeric = approx_fprime(L.ravel(), lambda x: objective(x)[0], 1e-7)
    np.testing.assert_allclose(objective(L.ravel())[1].ravel(), numeric, rtol=1e-4, atol=1e-3)


def test_closed_form_of_one_comparison():
    """|(v, 0)| to be below a distance of 0: w v^2 m + m - log m is least at m = 1 / (1 + v^2)."""
    quadruplet = np.array([[[3.0, 0], [0, 0], [1, 1], [1, 1]]])
    M = LSML(tol=1e-8).fit(quadruplet).get_mahalanobis_matrix()
    np.testing.assert_allclose(M, [[0.1, 0], [0, 1]], atol=1e-7)


def test_the_certificate_bounds_the_objective():
    quadruplets = draw(3, n=60, d=4)
    near, far = quadruplets[:, 0] - quadruplets[:, 1], quadruplets[:, 2] - quadruplets[:, 3]
    w = np.full(60, 1 / 60)
    best = minimise_near_identity(
        lambda L: squared_residuals(near, far, w, L), np.eye(4), 1e-8, 1000, ""
    ).value
    for tol in (0.3, 0.03, 0.003):
        rough = minimise_near_identity(
            lambda L: squared_residuals(near, far, w, L), np.eye(4), tol, 1000, ""
        )
        assert rough.converged
        assert -1e-12 <= rough.value - best <= -tol - np.log(1 - tol)


def scaled_gradient(quadruplets, M):
    """|G| in M, where G = sum of the residuals' gradients + M0^-1 - M^-1, written out."""
    G = np.eye(3) - np.linalg.inv(M)
    for a, b, c, d in quadruplets:
        s, t = np.sqrt((a - b) @ M @ (a - b)), np.sqrt((c - d) @ M @ (c - d))
        if s > t:
            near, far = np.outer(a - b, a - b) / s, np.outer(c - d, c - d) / t
            G += (s - t) * (near - far) / len(quadruplets)
    return np.sqrt(np.trace(G @ M @ G @ M))


@pytest.mark.parametrize("tol", [1e-1, 1e-5])
def test_tol_is_kept(tol):
    quadruplets = draw(4, n=50)
    M = LSML(tol=tol).fit(quadruplets).get_mahalanobis_matrix()
    assert scaled_gradient(quadruplets, M) <= tol * (1 + 1e-6)


@pytest.mark.filterwarnings("ignore::nearfold.errors.NotConvergedWarning")
def test_converged_is_what_the_gradient_says():
    quadruplets = draw(4, n=50)
    said = []
    for max_iter in range(1, 15):
        learner = LSML(tol=1e-2, max_iter=max_iter).fit(quadruplets)
        size = scaled_gradient(quadruplets, learner.get_mahalanobis_matrix())
        assert learner.converged_ == (size <= 1e-2)
        said.append(learner.converged_)
    assert not said[0]
    assert said[-1]


def test_satisfied_comparisons_leave_the_prior():
    quadruplets = np.array([[[0.0, 0], [1, 0], [0, 0], [5, 5]]])
    learner = LSML().fit(quadruplets)
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), np.eye(2), atol=1e-12)
    assert learner.objective_ == pytest.approx(0, abs=1e-12)


def test_too_few_steps_are_reported():
    with pytest.warns(NotConvergedWarning, match="LSML did not converge"):
        assert not LSML(max_iter=1, tol=1e-9).fit(draw()).converged_


@pytest.mark.parametrize("wrong", [{"tol": 0}, {"max_iter": 0}])
def test_parameters_that_are_none(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        LSML(**wrong).fit(draw())


def test_bad_scales_converge():
    X, y = load_wine(return_X_y=True)
    assert LSML_Supervised(random_state=0).fit(X, y).converged_
    assert LSML_Supervised(random_state=0).fit(X * np.geomspace(1e-2, 1e2, 13), y).converged_


def test_one_column():
    X, y = load_iris(return_X_y=True)
    learner = LSML_Supervised(random_state=0).fit(10 * X[:, 1:2], y)
    assert learner.converged_
    assert 0 < learner.get_mahalanobis_matrix()[0, 0] < 1


def test_weights_of_the_supervised_one():
    X, y = load_iris(return_X_y=True)
    X = 10 * X
    w = np.ones(180)
    w[:90] = 0
    half = LSML_Supervised(weights=w, random_state=0).fit(X, y).get_mahalanobis_matrix()
    whole = LSML_Supervised(random_state=0).fit(X, y).get_mahalanobis_matrix()
    assert np.abs(half - whole).max() > 1e-4
