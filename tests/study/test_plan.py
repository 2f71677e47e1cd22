"""A plan says what the fit would choose, and refuses where the fit would refuse."""

import json
import warnings
from contextlib import suppress

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import nearfold
from nearfold.errors import ApproximationWarning, InputError, MemoryBudgetError
from nearfold.registry import METHODS

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(400, 12)), np.arange(400) % 4


@pytest.fixture
def budget():
    """Sets the memory budget for a test."""
    yield nearfold.set_memory
    nearfold.set_memory(None)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_gets_an_answer(method):
    found = nearfold.plan(method.load()(**method.check_params), X, Y)
    assert found.need.known
    assert np.isfinite(found.here_bytes)
    assert method.name in found.text("zh")
    json.loads(found.to_json())


def test_the_table_is_readable_in_both_languages():
    found = nearfold.plan(nearfold.PCA(2), X)
    lines = str(found).splitlines()
    assert lines[0] == "PCA on a table of 400 x 12 in memory, float64"
    assert "scatter of blocks of rows" in lines[1]
    assert "内存预算" in found.text("zh")
    assert found.to_dict()["passes"] == [1, 2]


def test_what_is_no_method_of_ours_is_refused():
    from sklearn.decomposition import FastICA

    with pytest.raises(InputError, match="not one of Nearfold's"):
        nearfold.plan(FastICA(), X)


# What the fit chose, from `approximation_` and `route_`, is what the plan said.
def routes(estimator, X, y=None):
    planned = nearfold.plan(estimator, X, y).need.route
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return planned, estimator.fit(X, *(() if y is None else (y,)))


def test_landmarks_are_those_of_the_fit(budget):
    budget("2MB")
    X = np.random.default_rng(1).normal(size=(1500, 3))
    for estimator in (
        nearfold.ClassicalMDS(metric="cityblock"),
        nearfold.MDS(init="classical_mds", n_init=1, max_iter=3),
        nearfold.Isomap(n_neighbors=8),
    ):
        planned, fitted = routes(estimator, X)
        assert planned.id == "plan.route.landmarks", estimator
        count = len(fitted.landmarks_)  # of Isomap: a graph has fewer edges than its lists
        assert 0.75 * count <= planned.values["n"] <= count, estimator


def test_landmarks_of_lle_are_those_of_the_fit(budget):
    budget("1MB")
    X, lle = (
        np.random.default_rng(1).normal(size=(1500, 3)),
        nearfold.LocallyLinearEmbedding(n_neighbors=12),
    )
    planned = nearfold.plan(lle, X).need.route
    with pytest.warns(ApproximationWarning) as said, suppress(MemoryBudgetError):
        lle.fit(X)  # which may find later that its sparse factor does not fit
    assert f" {planned.values['n']:,} " in str(said[0].message)


def test_routes_of_kernels_and_axes_are_those_of_the_fit(budget):
    wide = RNG.normal(size=(60, 300))
    budget("8MB")
    cases = [
        (nearfold.KernelPCA(3, kernel="rbf"), X),
        (nearfold.KernelPCA(3, kernel="rbf"), np.tile(X, (3, 1))),
        (nearfold.KernelPCA(3, kernel="rbf", low_rank="never"), np.tile(X, (3, 1))),
        (nearfold.PCA(3), X),
        (nearfold.PCA(3), wide),
        (nearfold.PCA(3, svd_solver="full"), X),
        (nearfold.PCA(3), sparse.random(700, 600, 0.05, "csr", rng=RNG)),
    ]
    said = {"held": "held", "low rank": "low_rank"}
    for estimator, table in cases:
        planned, fitted = routes(estimator, table)
        route = said.get(fitted.route_, fitted.route_)
        assert planned.id == f"plan.route.{route}", (estimator, fitted.route_)


def test_the_solver_of_nca_is_that_of_the_fit():
    found = nearfold.plan(nearfold.NCA(5), np.empty((100_000, 50), np.float32), Y)
    assert found.need.route.id == "plan.route.batches"
    planned, fitted = routes(nearfold.NCA(2, max_iter=3), X, Y)
    assert (planned.id, fitted.solver_) == ("plan.route.pairs", "lbfgs")


REFUSED = [
    (nearfold.PCA(2), (200, 1500)),
    (nearfold.PCA(2, svd_solver="covariance_eigh"), (3000, 700)),
    (nearfold.Covariance(), (3000, 700)),
    (nearfold.KernelPCA(500, kernel="rbf", low_rank="never"), (2000, 3)),
    (nearfold.NCA(), (3000, 30)),
    (nearfold.LFDA(), (3000, 300)),
    (nearfold.ITML_Supervised(), (300, 300)),
    (nearfold.LocallyLinearEmbedding(eigen_solver="arpack"), (20_000, 3)),
]


@pytest.mark.parametrize(("estimator", "shape"), REFUSED, ids=lambda v: type(v).__name__)
def test_it_refuses_where_the_fit_refuses(estimator, shape, budget):
    X = np.random.default_rng(2).normal(size=shape)
    y = np.arange(len(X)) % 3
    budget("1MB")
    with pytest.raises(MemoryBudgetError):
        estimator.fit(X, y)
    with pytest.raises(MemoryBudgetError, match="memory budget"):
        nearfold.plan(estimator, X, y)
    budget("8GB")
    nearfold.plan(estimator, X, y)


def test_frames_and_files_are_planned_as_they_are_fitted(tmp_path):
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(12)])
    assert nearfold.plan(nearfold.PCA(2), frame).facts.copied == X.nbytes  # floats are copied
    assert nearfold.plan(nearfold.PCA(2), pl.from_pandas(frame)).facts.d == 12
    frame.assign(label=Y).to_parquet(tmp_path / "a.parquet")
    frame.assign(label=Y).to_parquet(tmp_path / "b.parquet")
    frame.to_csv(tmp_path / "c.csv", index=False)
    lda = nearfold.LinearDiscriminantAnalysis()
    many = nearfold.plan(lda, tmp_path / "?.parquet", "label")
    assert (many.facts.m, many.facts.d, many.facts.place) == (800, 12, "file")
    csv = nearfold.plan(nearfold.PCA(2), nearfold.scan(tmp_path / "c.csv"))
    assert not csv.facts.counted
    assert "unknown rows" in str(csv)
    assert csv.to_dict()["rows"] is None


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_files_are_planned_for_those_that_read_them(method, tmp_path):
    np.save(tmp_path / "t.npy", X)
    estimator = method.load()(**method.check_params)
    labelled = method.name in ("LinearDiscriminantAnalysis", "RCA")  # by a column's name
    if labelled:
        return
    answers = []
    for call in (estimator.fit, lambda *given: nearfold.plan(estimator, *given)):
        try:
            call(str(tmp_path / "t.npy"), Y)
            answers.append("taken")
        except (InputError, TypeError):
            answers.append("refused")
    assert answers[0] == answers[1]
