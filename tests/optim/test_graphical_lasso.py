"""The graphical lasso against scikit-learn's solver."""

import numpy as np
import pytest
from sklearn.covariance import graphical_lasso as scikit_learn

from nearfold.optim.graphical_lasso import graphical_lasso


def objective(M, S, alpha):
    off = np.abs(M).sum() - np.abs(np.diagonal(M)).sum()
    return np.sum(M * S) - np.linalg.slogdet(M)[1] + alpha * off


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("alpha", [0.02, 0.2, 0.6])
def test_as_low_as_scikit_learn_and_with_its_zeros(seed, alpha):
    random = np.random.RandomState(seed)
    S = np.corrcoef(random.randn(80, 12) @ random.randn(12, 12), rowvar=False)
    ours = graphical_lasso(S, alpha, 1e-10, 1000)
    theirs = scikit_learn(S, alpha, tol=1e-6, enet_tol=1e-10, max_iter=500)[1]
    assert ours.converged
    assert ours.value == pytest.approx(objective(ours.x, S, alpha), rel=1e-10)
    assert ours.value <= objective(theirs, S, alpha) + 1e-9
    np.testing.assert_allclose(ours.x, theirs, atol=1e-4 * np.abs(theirs).max())
    assert ((ours.x == 0) == (np.abs(theirs) < 1e-5)).mean() > 0.98
