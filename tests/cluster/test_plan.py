"""Plans of fits on a cluster: nothing is computed, and no fit brings more here than planned."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import nearfold
from nearfold.errors import InputError, MemoryBudgetError
from nearfold.registry import METHODS
from nearfold.study.plan_cluster import CLUSTER

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(4000, 40)), np.arange(4000) % 5


PARAMS = {
    "KernelPCA": {"n_components": 3, "kernel": "rbf"},
    "MDS": {"n_landmarks": 50, "n_init": 1, "max_iter": 5, "init": "classical_mds"},
    "NeighborhoodComponentsAnalysis": {"n_components": 2, "max_iter": 3},
}


def lazy(chunk=500):
    return da.from_array(X, chunks=(chunk, X.shape[1]))


def test_nothing_is_computed(forbidden):
    unknown = lazy()[lazy()[:, 0] > 0]
    frame = dd.from_pandas(pd.DataFrame(X, columns=[f"c{i}" for i in range(40)]), npartitions=3)
    with forbidden():
        for table in (lazy(), unknown, frame):
            for name in CLUSTER:
                estimator = nearfold.registry.find(name).load()(**PARAMS.get(name, {}))
                nearfold.plan(estimator, table, Y)
        known = nearfold.plan(nearfold.PCA(2), lazy())
        assert (known.facts.m, known.facts.blocks) == (4000, 8)
        found = nearfold.plan(nearfold.KNeighborsRegressor(), unknown)
    assert "count=True" in str(found)
    assert np.isnan(found.here_bytes)
    counted = nearfold.plan(nearfold.KNeighborsRegressor(), unknown, count=True)
    assert counted.facts.m == (X[:, 0] > 0).sum()
    assert np.isfinite(counted.here_bytes)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_it_answers_where_the_fit_does(method):
    small = da.from_array(X[:200, :6], chunks=(50, 6))
    estimator = method.load()(**method.check_params)
    answers = []
    for call in (estimator.fit, lambda *given: nearfold.plan(estimator, *given)):
        try:
            call(small, Y[:200])
            answers.append("taken")
        except (InputError, TypeError):
            answers.append("refused")
    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", sorted(CLUSTER))
def test_every_entry_has_figures(name):
    estimator = nearfold.registry.find(name).load()()
    estimator.set_params(**PARAMS.get(name, {}))
    from nearfold.study.plan_facts import look_at

    need = CLUSTER[name](estimator, look_at(lazy(), Y, False))
    for value in (need.here, need.task, need.moved):
        assert np.isfinite(value)
    assert need.moved > 0


UNLABELLED = {"PCA", "IncrementalPCA", "Covariance", "ClassicalMDS", "MDS", "Isomap", "KernelPCA",
              "LocallyLinearEmbedding"}  # fmt: skip


@pytest.mark.filterwarnings("ignore::nearfold.errors.NotConvergedWarning")
@pytest.mark.filterwarnings("ignore::nearfold.errors.ApproximationWarning")
@pytest.mark.parametrize("name", sorted(CLUSTER))
def test_no_fit_brings_more_here_than_planned(name, client, monkeypatch):
    from dask.sizeof import sizeof

    estimator = nearfold.registry.find(name).load()()
    estimator.set_params(**PARAMS.get(name, {}))
    brought = []
    gather = type(client).gather

    def counted(self, futures, *args, **named):
        found = gather(self, futures, *args, **named)
        brought.append(sum(map(size_of, found)))
        return found

    def size_of(value):
        if isinstance(value, tuple | list):
            return sum(map(size_of, value))
        if hasattr(value, "__dict__") and not isinstance(value, np.ndarray):
            return sum(map(size_of, vars(value).values()))
        return sizeof(value)

    monkeypatch.setattr(type(client), "gather", counted)
    y = da.from_array(Y, chunks=700)
    planned = nearfold.plan(estimator, lazy(), Y)
    estimator.fit(lazy(), *((y,) if name not in UNLABELLED else ()))
    assert sum(brought) <= 1.2 * planned.moved_bytes + 4096, (sum(brought), planned.moved_bytes)


def test_it_refuses_what_does_not_fit_here():
    nearfold.set_memory("16KB")
    try:
        with pytest.raises(MemoryBudgetError, match=r"nearfold\.sample"):
            nearfold.plan(nearfold.PCA(2), lazy())
    finally:
        nearfold.set_memory(None)
