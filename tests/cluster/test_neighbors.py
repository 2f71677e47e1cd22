"""Neighbours among rows in parts against one index of all rows: the same, ties included."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import nearfold
from nearfold import (
    NCA,
    Covariance,
    KNeighborsClassifier,
    KNeighborsRegressor,
    NearestNeighbors,
    RadiusNeighborsClassifier,
)
from nearfold.blocks import DaskRows
from nearfold.errors import InputError, MemoryBudgetError, NonFiniteError
from nearfold.neighbors.exact import EuclideanIndex
from nearfold.neighbors.lists import nearest_blocks
from nearfold.neighbors.partitioned import PartitionedIndex
from nearfold.neighbors.plain import PlainIndex
from nearfold.neighbors.pruned import PrunedIndex


def rows(n=1500, d=12, seed=0, whole=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    return np.round(X / 4) if whole else X  # whole numbers: many ties


def chunked(X, sizes=(400, 1, 500, 599)):
    return da.from_array(X, chunks=(sizes, X.shape[1]))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
def test_the_same_neighbours_as_one_index(metric, whole):
    X, Q = rows(whole=whole), rows(300, seed=1, whole=whole)
    if metric == "cosine":
        X, Q = X + 0.5, Q + 0.5
    one = NearestNeighbors(n_neighbors=7, metric=metric).fit(X)
    many = NearestNeighbors(n_neighbors=7, metric=metric).fit(chunked(X))
    for queries in (Q, None):
        (d1, r1), (d2, r2) = one.kneighbors(queries), many.kneighbors(queries)
        np.testing.assert_array_equal(r2, r1)
        np.testing.assert_allclose(d2, d1, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [PlainIndex, PrunedIndex])
def test_a_limit_drops_only_rows_beyond_it(make):
    X, Q = rows(2000, whole=True), rows(200, seed=1, whole=True)
    distance, row = make(X).nearest(Q, 9)
    for place in (0, 4, 8):
        limit = distance[:, place].copy()
        limit[::3] = np.inf
        limit[1::3] = 0.0
        d, r = make(X).nearest(Q, 9, limit)
        inside = distance <= limit[:, None]
        np.testing.assert_array_equal(r[inside], row[inside])
        np.testing.assert_array_equal(d[inside], distance[inside])


def test_two_workers(client):
    X, Q = rows(), rows(300, seed=1)
    many = NearestNeighbors(n_neighbors=5).fit(chunked(X))
    np.testing.assert_array_equal(
        many.kneighbors(Q)[1], NearestNeighbors(n_neighbors=5).fit(X).kneighbors(Q)[1]
    )


def test_predictions_in_memory_and_lazy(forbidden):
    X, Q = rows(), rows(300, seed=1)
    y = np.array(["low", "a high one"])[(X[:, 0] > 0).astype(int)]
    dX, dQ = chunked(X), da.from_array(Q, chunks=(120, 12))
    one = KNeighborsClassifier(5, weights="distance").fit(X, y)
    many = KNeighborsClassifier(5, weights="distance").fit(dX, da.from_array(y, chunks=333))
    np.testing.assert_array_equal(many.classes_, one.classes_)
    np.testing.assert_array_equal(many.predict(Q), one.predict(Q))
    with forbidden():
        lazy = many.predict(dQ), many.predict_proba(dQ), *many.kneighbors(dQ, 3)
    expected = one.predict(Q), one.predict_proba(Q), *one.kneighbors(Q, 3)
    for found, local in zip(lazy, expected, strict=True):
        assert found.chunks[0] == dQ.chunks[0]
        assert found.dtype == local.dtype
        values = found.compute()
        if local.dtype.kind == "f":
            np.testing.assert_allclose(values, local, rtol=1e-12)
        else:
            np.testing.assert_array_equal(values, local)


def test_regression_with_weights_and_a_frame():
    X = rows()
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(12)])
    y, w = X[:, 0] ** 2, np.arange(len(X)) % 3
    one = KNeighborsRegressor(4).fit(frame, y, sample_weight=w)
    lazy = dd.from_pandas(frame, npartitions=4)
    targets, weights = dd.from_pandas(pd.Series(y), npartitions=4), da.from_array(w, chunks=500)
    many = KNeighborsRegressor(4).fit(lazy, targets, sample_weight=weights)
    np.testing.assert_allclose(many.predict(frame[:50]), one.predict(frame[:50]), rtol=1e-12)


def test_within_a_radius():
    X, Q = rows(), rows(40, seed=1)
    y = (X[:, 0] > 0).astype(int)
    one = RadiusNeighborsClassifier(4.0, outlier_label=0).fit(X, y)
    many = RadiusNeighborsClassifier(4.0, outlier_label=0).fit(chunked(X), y)
    np.testing.assert_array_equal(many.predict(Q), one.predict(Q))


def test_a_learned_metric():
    X, Q = rows(), rows(50, seed=1)
    metric = Covariance().fit(X)
    many = NearestNeighbors(n_neighbors=5, metric=metric).fit(chunked(X))
    one = NearestNeighbors(n_neighbors=5, metric=metric).fit(X)
    np.testing.assert_array_equal(many.kneighbors(Q)[1], one.kneighbors(Q)[1])
    with pytest.raises(InputError, match=r"nearfold\.sample"):
        NearestNeighbors(metric=NCA()).fit(chunked(X))


def test_a_saved_model_holds_its_rows(tmp_path):
    X, Q = rows(), rows(50, seed=1)
    many = KNeighborsClassifier(3).fit(chunked(X), (X[:, 0] > 0).astype(int))
    nearfold.save(many, tmp_path / "m.nearfold")
    again = nearfold.load(tmp_path / "m.nearfold")
    np.testing.assert_array_equal(again.predict(Q), many.predict(Q))
    np.testing.assert_array_equal(again.index_.X, X)


def test_labels_of_another_length():
    X = rows()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        KNeighborsClassifier().fit(chunked(X), da.zeros(1499, chunks=100, dtype=int))


def test_a_frame_keeps_index_and_names():
    X, Q = rows(), rows(200, seed=1)
    names = [f"c{i}" for i in range(12)]
    y = np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]
    fitted, asked = (pd.DataFrame(A, columns=names) for A in (X, Q))
    asked.index = asked.index * 2 + 1
    lazy = dd.from_pandas(asked, npartitions=3)
    many = KNeighborsClassifier(5).fit(dd.from_pandas(fitted, npartitions=4), y)
    one = KNeighborsClassifier(5).fit(fitted, y)
    found = many.predict(lazy)
    assert found.divisions == lazy.divisions
    pd.testing.assert_series_equal(found.compute(), pd.Series(one.predict(asked), asked.index))
    assert list(many.predict_proba(lazy).columns) == ["no", "yes"]
    with pytest.raises(ValueError, match="same order"):
        many.predict(lazy[names[::-1]])


def test_empty_chunks_of_queries():
    X, Q = rows(), rows(90, seed=1)
    many = KNeighborsRegressor(5).fit(chunked(X), X[:, 0])
    found = many.predict(da.from_array(Q, chunks=((40, 0, 50), 12))).compute()
    np.testing.assert_allclose(found, many.predict(Q), rtol=1e-12)


def test_some_of_the_rows(client):
    X, Q = rows(), rows(60, seed=1)
    there = PartitionedIndex(DaskRows(chunked(X)), k_hint=5)
    asked = np.array([[1499, 0], [400, 401], [400, 7]])
    np.testing.assert_array_equal(there.take(asked)[asked], X[asked])
    few = np.r_[3:20, 400, 950:1400:7]
    part, here = there.part(few), EuclideanIndex(X).part(few)
    assert part.n_rows == len(few)
    for queries in (Q, None):
        (d1, r1), (d2, r2) = here.nearest(queries, 6), part.nearest(queries, 6)
        np.testing.assert_array_equal(r2, r1)
        np.testing.assert_allclose(d2, d1, rtol=1e-12)
    of_part = part.part(np.arange(5, 60)).take(np.arange(9))
    np.testing.assert_array_equal(of_part[np.arange(9)], X[few[5:14]])


@pytest.mark.parametrize("budget", ["1GB", "100KB"])
def test_lists_of_all_rows_fit_the_budget_or_come_in_blocks(budget):
    X = rows()
    there = PartitionedIndex(DaskRows(chunked(X)), k_hint=5)
    expected = EuclideanIndex(X).nearest(None, 4)
    nearfold.set_memory(budget)
    try:
        found = list(nearest_blocks(there, None, 4))
        if budget == "100KB":
            assert len(found) > 1
            with pytest.raises(MemoryBudgetError, match=r"4 neighbours for 1,500 rows"):
                there.nearest(None, 4)
        else:
            np.testing.assert_array_equal(there.nearest(None, 4)[1], expected[1])
    finally:
        nearfold.set_memory(None)
    np.testing.assert_array_equal(np.concatenate([row for _, _, row in found]), expected[1])
    assert [at.start for at, _, _ in found] == [0, *(at.stop for at, _, _ in found)][:-1]


def test_nan_is_named_by_its_row_in_the_table():
    X = rows()
    X[1234, 3] = np.nan
    with pytest.raises(NonFiniteError, match=r"first rows: \[1234\]"):
        NearestNeighbors().fit(chunked(X))


def test_nothing_but_lists_comes_here():
    """Rows of the parts are asked for by their indexes alone."""
    X, Q = rows(), rows(10, seed=1)
    many = NearestNeighbors().fit(chunked(X))
    with pytest.raises(InputError, match="on the cluster"):
        _ = many.index_.X
    brought = []
    with dask.config.set(scheduler=lambda graph, keys, **_: measured(graph, keys, brought)):
        many.kneighbors(Q)
    assert sum(brought) < 10_000  # 10 lists of 5, not 1,500 rows of 12


def measured(graph, keys, brought):
    results = dask.local.get_sync(graph, keys)
    brought.append(len(__import__("pickle").dumps(results)))
    return results
