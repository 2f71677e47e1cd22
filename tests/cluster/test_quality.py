"""Measures of spaces on Dask tables: the values of the same tables in memory."""

import pickle
from contextlib import contextmanager

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import nearfold
from nearfold import KNeighborsClassifier, KNeighborsRegressor, LinearDiscriminantAnalysis
from nearfold.errors import BlockError, InputError, MemoryBudgetError, NonFiniteError
from nearfold.quality import continuity, held_out_score, trustworthiness
from tests.cluster.test_faults import unreadable
from tests.cluster.test_fits import table


def halves(dtype=np.float64):
    X, y = table(1200, dtype=dtype)
    return X[:800, :3], y[:800], X[800:, :3], y[800:]


def chunked(values, cut):
    return da.from_array(values, chunks=(cut, *values.shape[1:]))


def assert_equal_scores(found, expected):
    for name, value in vars(expected).items():
        np.testing.assert_array_equal(getattr(found, name), value, err_msg=name)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_held_out_score(task, dtype, client):
    train, y, test, truth = halves(dtype)
    here = held_out_score(train, y, test, truth, task=task)
    cuts = (300, 0, 500), (150, 250)
    far = chunked(train, cuts[0]), chunked(y, 333), chunked(test, cuts[1]), chunked(truth, 100)
    assert_equal_scores(held_out_score(*far, task=task), here)
    assert_equal_scores(held_out_score(train, y, *far[2:], task=task), here)
    assert_equal_scores(held_out_score(*far[:2], test, truth, task=task), here)


def test_the_held_out_score_of_frames_of_unknown_sizes():
    train, y, test, truth = halves()
    names = np.array(["a", "b", "long"])
    there = pd.DataFrame(test, columns=list("abc")).assign(label=names[truth])
    there, kept = dd.from_pandas(there, npartitions=3), test[:, 0] > 5
    there = there[there["a"] > 5]
    here = held_out_score(train, names[y], test[kept], names[truth][kept])
    found = held_out_score(
        pd.DataFrame(train, columns=list("abc")), names[y], there[list("abc")], there["label"]
    )
    assert_equal_scores(found, here)


def test_targets_of_another_length_are_refused():
    train, y, test, truth = halves()
    with pytest.raises(InputError, match="one target per row"):
        held_out_score(train, y, chunked(test, 100), chunked(truth[:-1], 100))


def spaces(kind, dtype=np.float64, n=700):
    rng = np.random.default_rng(0)
    if kind == "narrow":
        X = rng.normal(size=(n, 4))
    elif kind == "ties":
        X = rng.integers(0, 3, (n, 12)).astype(float)
    elif kind == "far off":
        X = rng.normal(size=(n, 12)) + 1e6
        X[1::3] = X[::3][: len(X[1::3])]  # the same rows again
    else:
        X = table(n)[0]
    return X.astype(dtype), (X[:, :2] + rng.normal(size=(n, 2))).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["wide", "narrow", "ties", "far off"])
@pytest.mark.parametrize("measure", [trustworthiness, continuity])
def test_neighbourhoods_are_judged_to_the_last_bit(measure, kind, dtype):
    X, Z = spaces(kind, dtype)
    here = measure(X, Z, n_neighbors=6)
    for cut, other in (((300, 0, 1, 399), (350, 350)), ((700,), (100,) * 7)):
        assert measure(chunked(X, cut), chunked(Z, other), n_neighbors=6) == here
    assert measure(chunked(X, 200), Z, n_neighbors=6) == here


def test_many_rows_go_the_compiled_way_in_memory_and_agree(client):
    X, Z = spaces("wide", n=3300)
    here = trustworthiness(X, Z)
    lazy = pd.DataFrame(X).rename(columns=str)
    lazy = dd.from_pandas(lazy, npartitions=3)
    assert trustworthiness(lazy, chunked(Z, 1000)) == here
    with dask.config.set(scheduler="threads"):
        assert trustworthiness(lazy, chunked(Z, 1000)) == here


def test_spaces_that_are_refused():
    X, Z = spaces("wide")
    with pytest.raises(InputError, match="700 rows and Z has 699"):
        trustworthiness(chunked(X, 200), chunked(Z[1:], 200))
    with pytest.raises(InputError, match="Euclidean"):
        trustworthiness(chunked(X, 200), chunked(Z, 200), metric="cosine")
    with pytest.raises(InputError, match="less than half"):
        trustworthiness(chunked(X, 200), chunked(Z, 200), n_neighbors=350)
    X[222, 3] = np.nan
    with pytest.raises(NonFiniteError, match=r"first rows: \[222\]"):
        trustworthiness(chunked(X, 200), chunked(Z, 200))
    nearfold.set_memory("64MB")
    try:
        with pytest.raises(MemoryBudgetError, match="neighbours of"):
            trustworthiness(*(da.zeros((400_000, 2), chunks=100_000),) * 2)
    finally:
        nearfold.set_memory(None)


def test_a_block_that_cannot_be_read_is_named():
    X, Z = spaces("wide", n=2400)
    dX = chunked(X, 400).map_blocks(unreadable, dtype=X.dtype, meta=X[:0])
    with pytest.raises(BlockError, match=r"rows 1200 to 1599 \(block 3\).*disk on fire"):
        trustworthiness(dX, chunked(Z, 400))


@pytest.mark.parametrize("learner", [KNeighborsClassifier, LinearDiscriminantAnalysis])
def test_accuracy_is_counted_where_the_rows_are(learner, client):
    train, y, test, truth = halves()
    names = np.array(["a", "b", "long"])
    model, w = learner().fit(train, names[y]), np.arange(len(truth)) % 4
    far = chunked(test, (150, 0, 250)), chunked(names[truth], 99)
    with nothing_wide_comes_here():
        assert model.score(*far) == model.score(test, names[truth])
        there = model.score(*far, sample_weight=w)
    assert there == model.score(test, names[truth], sample_weight=w)
    if learner is KNeighborsClassifier:
        parts = learner().fit(chunked(train, 300), names[y])
        assert parts.score(*far) == model.score(test, names[truth])
    with pytest.raises(InputError, match="399 entries for 400 rows"):
        model.score(far[0], truth[:-1])


def test_r2_is_combined_where_the_rows_are():
    train, y, test, truth = halves()
    model, w = KNeighborsRegressor().fit(train, y), np.arange(len(truth)) % 4
    far = chunked(test, 150), chunked(truth, 99)
    assert model.score(*far) == pytest.approx(model.score(test, truth), rel=1e-12)
    assert model.score(*far, w) == pytest.approx(model.score(test, truth, w), rel=1e-12)
    flat = np.ones(len(truth))
    assert model.score(far[0], flat) == model.score(test, flat) == 0.0


@contextmanager
def nothing_wide_comes_here():
    brought = []

    def look(graph, keys, **_):
        results = dask.local.get_sync(graph, keys)
        brought.append(len(pickle.dumps(results)))
        return results

    with dask.config.set(scheduler=look):
        yield
    assert sum(brought) < 2000


def test_a_score_of_frames_of_unknown_sizes():
    train, y, test, truth = halves()
    frame = pd.DataFrame(test, columns=list("abc")).assign(label=truth)
    lazy = dd.from_pandas(frame, npartitions=3)
    lazy, kept = lazy[lazy["a"] > 5], frame[frame["a"] > 5]
    model = LinearDiscriminantAnalysis().fit(pd.DataFrame(train, columns=list("abc")), y)
    found = model.score(lazy[list("abc")], lazy["label"])
    assert found == model.score(kept[list("abc")], kept["label"])
