"""Learned metrics do not depend on the number of BLAS threads, bit by bit."""

import warnings

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from nearfold import (
    LFDA,
    LMNN,
    MLKR,
    NCA,
    RCA,
    Covariance,
    ITML_Supervised,
    LSML_Supervised,
    MMC_Supervised,
    SCML_Supervised,
    SDML_Supervised,
)

LEARNERS = [
    Covariance(),
    LFDA(),
    RCA(n_components=3),
    MMC_Supervised(max_iter=5, random_state=0),
    ITML_Supervised(max_iter=5, random_state=0),
    LSML_Supervised(max_iter=5, random_state=0),
    SDML_Supervised(balance_param=1e-4, max_iter=2, random_state=0),
    SCML_Supervised(max_iter=500, n_basis=60, tol=10, random_state=0),
    LMNN(max_iter=2),
    NCA(n_components=3, max_iter=2),
    MLKR(n_components=3, max_iter=2),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_one_and_two_blas_threads_agree(learner):
    random = np.random.RandomState(0)
    y = random.randint(0, 2, 700)
    X = random.randn(700, 90) + 0.3 * y[:, None]
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(learner.fit(X, y).components_.copy())
    np.testing.assert_array_equal(found[0], found[1])
