"""Learners whose matrices do not fit the budget refuse before they make any of them."""

import tracemalloc

import numpy as np
import pytest

import nearfold
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
from nearfold.errors import MemoryBudgetError
from nearfold.metrics.itml import percentile_bounds

LEARNERS = [
    Covariance(),
    LFDA(),
    LMNN(),
    MLKR(),
    NCA(),
    RCA(),
    ITML_Supervised(random_state=0),
    LSML_Supervised(random_state=0),
    MMC_Supervised(random_state=0),
    SCML_Supervised(random_state=0),
    SDML_Supervised(random_state=0),
]


@pytest.fixture
def small_budget():
    nearfold.set_memory("4MB")
    yield 4 * 2**20
    nearfold.set_memory(None)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_refused_before_work(learner, small_budget):
    random = np.random.RandomState(0)
    X, y = random.randn(1500, 400), random.randint(0, 2, 1500)
    tracemalloc.start()
    try:
        with pytest.raises(MemoryBudgetError, match=r"needs about .* budget is 4\.0 MB"):
            learner.fit(X, y)
        assert tracemalloc.get_traced_memory()[1] < 1.2 * small_budget
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("learner", [MLKR(max_iter=2), LMNN(max_iter=2), NCA(max_iter=2)])
@pytest.mark.filterwarnings("ignore::nearfold.errors.NotConvergedWarning")
def test_not_refused_where_it_fits(learner, small_budget):
    nearfold.set_memory("64MB")
    random = np.random.RandomState(0)
    X, y = random.randn(3000, 30), random.randint(0, 2, 3000)
    learner.fit(X, y)


def test_bounds_of_a_large_table_take_little_memory():
    X = np.random.RandomState(0).randn(40_000, 10)
    tracemalloc.start()
    found = percentile_bounds(X, np.eye(10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 * 2**20
    np.testing.assert_allclose(found, percentile_bounds(X[::-1], np.eye(10)))
    np.testing.assert_allclose(found, np.sqrt(2 * np.array([3.94, 18.3])), rtol=0.03)  # chi-square
