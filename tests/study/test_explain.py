"""Which columns matter."""

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfold import NCA, PCA, Isomap, KernelPCA
from nearfold.errors import InputError
from nearfold.study.explain import explain_rows, explain_space, linear_map

X, y = load_iris(return_X_y=True)
NAMES = ("a", "b", "c", "d")


def test_shares_are_the_metrics_own():
    nca = NCA(2, random_state=0).fit(X, y)
    found = explain_space(nca, X, NAMES)
    assert found.exact
    assert found.weights.sum() == pytest.approx(1.0)
    by_name = dict(zip(found.columns, found.weights, strict=True))
    np.testing.assert_allclose([by_name[n] for n in NAMES], nca.column_weights(X), rtol=1e-6)
    assert np.all(np.diff(np.abs(found.weights)) <= 0)


def test_a_pipeline_is_seen_through():
    model = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    A = linear_map(model, X)
    np.testing.assert_allclose(A, (model[1].components_ / model[0].scale_).T, rtol=1e-6, atol=1e-9)
    parts = explain_rows(model, X, NAMES, 0, 100)
    Z = model.transform(X[[0, 100]])
    assert parts.weights.sum() == pytest.approx(np.sum((Z[0] - Z[1]) ** 2))


def test_curved_spaces_are_asked_by_shuffling():
    rng = np.random.default_rng(0)
    T = rng.normal(size=(300, 3)) * [5.0, 5.0, 0.01]
    model = Isomap(n_neighbors=8).fit(T)
    assert linear_map(model, T) is None
    found = explain_space(model, T, ("big", "large", "tiny"))
    assert not found.exact
    assert found.columns[-1] == "tiny"
    assert found.weights[-1] < 0.2 < found.weights[1]


def test_two_rows_need_a_linear_space_and_rows_that_are_there():
    with pytest.raises(InputError, match="linear"):
        explain_rows(KernelPCA(2, kernel="rbf", gamma=1.0).fit(X), X, NAMES, 0, 1)
    with pytest.raises(InputError, match="no row 150"):
        explain_rows(PCA(2).fit(X), X, NAMES, 0, 150)


def test_frames_and_constant_columns():
    frame = pl.DataFrame(X.astype(np.float32), schema=list(NAMES)).with_columns(
        pl.lit(7.0, dtype=pl.Float32).alias("same")
    )
    model = make_pipeline(StandardScaler(), PCA(2)).fit(frame.to_numpy())
    found = explain_space(model, frame)
    assert found.exact
    assert dict(zip(found.columns, found.weights, strict=True))["same"] == pytest.approx(
        0, abs=1e-6
    )
