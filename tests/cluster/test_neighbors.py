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
from nearfold.errors import InputError
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
