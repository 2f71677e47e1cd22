"""Methods of fitted estimators on Dask tables: lazy, and equal to the same in memory."""

import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import nearfold
import nearfold.registry as registry
from nearfold import PCA, KNeighborsClassifier, LinearDiscriminantAnalysis

METHODS = ("transform", "predict", "predict_proba", "decision_function", "score_samples",
           "kneighbors")  # fmt: skip
NAMES = [(method, name) for method in registry.METHODS for name in method.names]


def table(n=90, d=6, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    y = (X[:, 0] > 0).astype(int)
    X[:, 1] += 2 * y
    return X, y


def fitted(method, name):
    X, y = table()
    estimator = method.load(name)(**method.check_params)
    pairs = np.stack([X[:20], X[20:40]], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return estimator.fit(X, y)
        except (ValueError, TypeError):
            tuples = {3: X[:60].reshape(20, 3, 6), 4: X[:80].reshape(20, 4, 6)}
            for given in ((pairs, np.tile([1, -1], 10)), (tuples[3],), (tuples[4],)):
                try:
                    return estimator.fit(*given)
                except (ValueError, TypeError):
                    continue
    raise AssertionError(f"{name} was not fitted")


@pytest.mark.parametrize(("method", "name"), NAMES, ids=[name for _, name in NAMES])
def test_every_estimator_is_lazy_and_equal(method, name, forbidden):
    X, _ = table()
    estimator = fitted(method, name)
    dX = da.from_array(X, chunks=((40, 0, 50), 6))
    for called in METHODS:
        if not hasattr(estimator, called):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                here = getattr(estimator, called)(X)
            except ValueError:  # takes pairs, not rows
                continue
            with forbidden():
                lazy = getattr(estimator, called)(dX)
            pairs = zip(here, lazy, strict=True) if isinstance(here, tuple) else [(here, lazy)]
            for expected, found in pairs:
                assert found.shape == expected.shape
                assert found.dtype == expected.dtype
                assert found.chunks[0] == dX.chunks[0]
                values = found.compute(scheduler="sync")
                if hasattr(expected, "toarray"):
                    expected, values = expected.toarray(), values.toarray()
                scale = np.abs(expected).max() if expected.dtype.kind == "f" else 0
                np.testing.assert_allclose(values, expected, rtol=0, atol=1e-10 * scale)


def test_a_frame_keeps_index_and_names():
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abcdef"), index=np.arange(90) * 10 + 3)
    lazy = dd.from_pandas(frame, npartitions=3)
    model = LinearDiscriminantAnalysis().fit(frame, np.array(["no", "yes"])[y])
    Z = model.transform(lazy)
    assert list(Z.columns) == list(model.get_feature_names_out())
    assert Z.divisions == lazy.divisions
    expected = pd.DataFrame(model.transform(frame), frame.index, Z.columns)
    pd.testing.assert_frame_equal(Z.compute(), expected)
    predicted = model.predict(lazy).compute()
    assert (predicted.index == frame.index).all()
    assert (predicted == model.predict(frame)).all()
    assert list(model.predict_proba(lazy).columns) == ["no", "yes"]
    with pytest.raises(ValueError, match="same order"):  # at once, as in memory
        model.transform(lazy[list("fedcba")])


def test_long_class_names_are_not_cut(client):
    X, _ = table()
    y = np.where(X[:, 0] > 0, "a", "a very long name")
    model = KNeighborsClassifier(3).fit(X, y)
    found = model.predict(da.from_array(X, chunks=(20, 6))).compute()
    np.testing.assert_array_equal(found, model.predict(X))


def test_unknown_sizes_stay_unknown():
    X, _ = table()
    dX = da.from_array(X, chunks=(30, 6))
    some = dX[dX[:, 0] > 0.5]
    Z = PCA(2).fit(X).transform(some)
    assert np.isnan(Z.shape[0])
    np.testing.assert_allclose(Z.compute(), PCA(2).fit(X).transform(X[X[:, 0] > 0.5]), atol=1e-12)


def test_float32_stays_float32():
    X = table()[0].astype(np.float32)
    Z = PCA(2).fit(X).transform(da.from_array(X, chunks=(30, 6)))
    assert Z.dtype == Z.compute().dtype == np.float32


def test_an_error_in_a_block_is_ours():
    X, _ = table()
    X[50, 2] = np.inf
    Z = PCA(2).fit(table()[0]).transform(da.from_array(X, chunks=(30, 6)))
    with pytest.raises(nearfold.errors.NonFiniteError, match="inf"):
        Z.compute(scheduler="sync")
