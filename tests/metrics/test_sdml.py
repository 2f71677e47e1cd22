"""SDML: against a convex solver, its optimality conditions, and what must not change it."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.covariance import graphical_lasso as scikit_learn_lasso
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from nearfold.errors import InputError, NearfoldWarning, NotConvergedWarning
from nearfold.metrics.sdml import SDML, workable_balance
from nearfold.optim.graphical_lasso import graphical_lasso


def draw(seed=0, n=40, d=5):
    random = np.random.RandomState(seed)
    pairs = random.standard_normal((n, 2, d)) @ random.standard_normal((d, d))
    return pairs, np.where(np.arange(n) % 3 == 0, -1, 1)


def scatter(pairs, y):
    V = pairs[:, 0] - pairs[:, 1]
    return (V.T * y) @ V


def oracle(S, alpha):
    """The problem as it is written."""
    d = len(S)
    M = cp.Variable((d, d), PSD=True)
    off = cp.sum(cp.abs(cp.multiply(1 - np.eye(d), M)))
    problem = cp.Problem(cp.Minimize(cp.trace(M @ S) - cp.log_det(M) + alpha * off))
    problem.solve(solver=cp.CLARABEL)
    return M.value, problem.value


def refuse_unless_optimal(M, S, alpha, rtol):
    """M^-1 = S + alpha sign(M) where M is not 0, within alpha of S where it is; diagonals equal."""
    W, off = np.linalg.inv(M), ~np.eye(len(S), dtype=bool)
    zero = np.abs(M) < 1e-9 * np.abs(M).max()
    scale = np.sqrt(np.outer(np.diag(S), np.diag(S)))
    np.testing.assert_array_less(np.abs(np.diag(W - S)) / np.diag(S), rtol)
    assert (np.abs(W - S - alpha * np.sign(M)) / scale)[off & ~zero].max(initial=0) < rtol
    assert ((np.abs(W - S) - alpha) / scale)[off & zero].max(initial=-1) < rtol


@pytest.mark.parametrize("alpha", [0.01, 1.0, 20.0])
def test_agrees_with_a_convex_solver(alpha):
    pairs, y = draw()
    M0 = np.diag([1.0, 2, 1, 0.5, 1])
    M0[0, 1] = M0[1, 0] = 0.7
    S, balance = workable_balance(scatter(pairs, y), M0, 0.01)
    assert balance == 0.01
    learner = SDML(0.01, alpha, prior=M0, tol=1e-10).fit(pairs, y)
    M, value = oracle(S, alpha)
    np.testing.assert_allclose(
        learner.get_mahalanobis_matrix(), M, rtol=1e-3, atol=1e-4 * np.abs(M).max()
    )
    assert learner.objective_ == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(S, np.linalg.inv(M0) + 0.01 * scatter(pairs, y), rtol=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.3])
def test_graphical_lasso_meets_its_conditions(alpha):
    random = np.random.RandomState(0)
    S = np.cov(random.standard_normal((60, 20)) @ random.standard_normal((20, 20)), rowvar=False)
    result = graphical_lasso(S / 20, alpha, 1e-10, 1000)
    assert result.converged
    refuse_unless_optimal(result.x, S / 20, alpha, 1e-4)
    if alpha:
        assert 0.1 < (result.x == 0).mean() < 0.95


def test_graphical_lasso_of_correlated_columns():
    """Against scikit-learn where both work, with more zeros than not and a bad condition."""
    X = StandardScaler().fit_transform(load_digits().data)
    S = np.cov(X[:, X.std(axis=0) > 0][:, :25], rowvar=False)
    result = graphical_lasso(S, 0.1, 1e-9, 1000)
    assert result.converged
    refuse_unless_optimal(result.x, S, 0.1, 1e-4)
    assert result.n_iter < 60  # gradient steps alone take hundreds
    _, theirs = scikit_learn_lasso(S, alpha=0.1, tol=1e-4, enet_tol=1e-8)
    np.testing.assert_allclose(result.x, theirs, atol=2e-3 * np.abs(theirs).max())


def test_the_gap_does_not_depend_on_the_units():
    S = np.cov(np.random.RandomState(0).standard_normal((30, 6)), rowvar=False)
    scale = np.geomspace(1e-4, 1e4, 6)
    small = graphical_lasso(S, 0.0, 1e-9, 100).x
    large = graphical_lasso(S * np.outer(scale, scale), 0.0, 1e-9, 100).x
    np.testing.assert_allclose(large * np.outer(scale, scale), small, rtol=1e-6)


def test_too_large_a_balance_is_lowered():
    pairs, y = draw(1)
    K = scatter(pairs, y)
    mu = -np.linalg.eigvalsh(K)[0]
    assert mu > 0
    with pytest.warns(NearfoldWarning, match=r"balance_param=.* was used") as caught:
        learner = SDML(balance_param=1e3).fit(pairs, y)
    assert learner.balance_ == pytest.approx(0.9 / mu)
    assert f"{0.9 / mu:.3g}" in str(caught[0].message)
    assert np.isfinite(learner.get_mahalanobis_matrix()).all()
    same = SDML(balance_param=0.9 / mu).fit(pairs, y)  # and no warning
    np.testing.assert_allclose(
        same.get_mahalanobis_matrix(), learner.get_mahalanobis_matrix(), rtol=1e-6
    )
    assert SDML(balance_param=0.99 / mu).fit(pairs, y).balance_ == 0.99 / mu  # workable: honoured


def test_without_pairs_that_count_it_is_the_prior():
    pairs, y = draw()
    M0 = np.diag([1.0, 2, 1, 0.5, 4])
    learner = SDML(balance_param=0, prior=M0).fit(pairs, y)
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), M0, atol=1e-9)


def test_much_sparsity_gives_a_diagonal():
    pairs, y = draw()
    learner = SDML(balance_param=0.01, sparsity_param=1e6).fit(pairs, y)
    S = np.eye(5) + 0.01 * scatter(pairs, y)
    np.testing.assert_allclose(
        learner.get_mahalanobis_matrix(), np.diag(1 / np.diag(S)), rtol=1e-6, atol=1e-9
    )


def test_too_few_steps_are_reported():
    pairs, y = draw()
    with pytest.warns(NotConvergedWarning, match="SDML did not converge: the duality gap is"):
        assert not SDML(0.01, 0.2, tol=1e-12, max_iter=1).fit(pairs, y).converged_


@pytest.mark.parametrize(
    "wrong",
    [{"balance_param": -1}, {"sparsity_param": -1}, {"sparsity_param": np.inf}, {"tol": 0}],
)
def test_parameters_that_are_none(wrong):
    pairs, y = draw()
    with pytest.raises(InputError, match=next(iter(wrong))):
        SDML(**wrong).fit(pairs, y)
