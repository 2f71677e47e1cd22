"""What a reduction loses, and how a learner does on rows that were held out."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import confusion_matrix, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfold import PCA, Isomap, KNeighborsClassifier, KNeighborsRegressor
from nearfold.errors import InputError, NonFiniteError
from nearfold.quality import held_out_score, reconstruction, reconstruction_error
from nearfold.quality.held_out import wilson_interval


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(90, 6)) * [5, 3, 2, 1, 1, 0.5] + 4


@pytest.mark.parametrize("d", [1, 3, 6])
def test_pca_loses_what_it_does_not_explain(X, d, monkeypatch):
    monkeypatch.setattr(reconstruction, "_CELLS", 400)  # more blocks than one
    model = PCA(d).fit(X)
    found = reconstruction_error(model, X)
    assert found.value == pytest.approx(1 - model.explained_variance_ratio_.sum(), abs=1e-12)
    back = model.inverse_transform(model.transform(X))
    want = ((X - back) ** 2).sum(axis=1) / ((X - X.mean(axis=0)) ** 2).sum() * len(X)
    np.testing.assert_allclose(found.per_row, want, atol=1e-12)


def test_rows_that_were_held_out_lose_more(X):
    model = PCA(3).fit(X[:15])
    assert reconstruction_error(model, X[15:]).value > reconstruction_error(model, X[:15]).value


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_and_pipelines(X, frame):
    table = frame({f"column {i}": X[:, i] for i in range(6)})
    model = make_pipeline(StandardScaler(), PCA(2)).fit(table)
    want = reconstruction_error(make_pipeline(StandardScaler(), PCA(2)).fit(X), X)
    assert reconstruction_error(model, table).value == pytest.approx(want.value, rel=1e-12)


def test_constant_rows_lose_nothing_or_all():
    model = PCA(1).fit(np.arange(10.0).reshape(5, 2))
    assert reconstruction_error(model, np.full((4, 2), 4.5)).value == np.inf
    same = model.inverse_transform(model.transform([[4.0, 5.0]] * 4))
    assert reconstruction_error(StandardScaler().fit(same), same).value == 0.0


def test_a_model_without_a_way_back_is_told_so(X):
    with pytest.raises(InputError, match="Isomap has no inverse_transform"):
        reconstruction_error(Isomap().fit(X), X)
    X[3, 1] = np.nan
    with pytest.raises(NonFiniteError):
        reconstruction_error(PCA(2).fit(X[:3]), X)


def blobs(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 240)
    return rng.normal(size=(240, 2)) + 2 * y[:, None], y


def test_classes_are_those_of_the_learner():
    Z, y = blobs()
    names = np.array(["red", "green", "blue"])[y]
    found = held_out_score(Z[:160], names[:160], Z[160:], names[160:], n_neighbors=7)
    learner = KNeighborsClassifier(7).fit(Z[:160], names[:160])
    np.testing.assert_array_equal(found.predictions, learner.predict(Z[160:]))
    assert found.score == found.per_row.mean() == learner.score(Z[160:], names[160:])
    np.testing.assert_array_equal(found.labels, ["blue", "green", "red"])
    want = confusion_matrix(names[160:], found.predictions)
    np.testing.assert_array_equal(found.confusion, want)
    assert (found.n_rows, found.n_neighbors, found.task) == (80, 7, "classification")


def test_a_class_that_was_never_seen_is_counted():
    found = held_out_score([[0.0], [1.0]], [0, 1], [[0.1], [5.0]], [0, 9], n_neighbors=1)
    np.testing.assert_array_equal(found.labels, [0, 1, 9])
    np.testing.assert_array_equal(found.confusion, [[1, 0, 0], [0, 0, 0], [0, 1, 0]])
    assert found.score == 0.5


def test_wilsons_interval_solves_its_equation():
    for count, n in ((0, 10), (15, 50), (388, 400), (20, 20)):
        for bound in wilson_interval(count, n):
            if 1e-9 < bound < 1 - 1e-9:
                z = abs(count / n - bound) / np.sqrt(bound * (1 - bound) / n)
                assert z == pytest.approx(1.959963984540054, rel=1e-9)
    assert wilson_interval(0, 10)[0] == pytest.approx(0.0, abs=1e-15)
    assert wilson_interval(10, 10)[1] == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_numbers_are_those_of_the_learner(weights):
    Z, _ = blobs()
    y = np.sin(Z).sum(axis=1)
    found = held_out_score(Z[:160], y[:160], Z[160:], y[160:], task="regression", weights=weights)
    learner = KNeighborsRegressor(5, weights=weights).fit(Z[:160], y[:160])
    assert found.score == pytest.approx(r2_score(y[160:], learner.predict(Z[160:])), rel=1e-12)
    np.testing.assert_allclose(found.per_row, (y[160:] - found.predictions) ** 2)
    assert found.labels is found.confusion is None


def test_the_error_of_r2_is_that_of_the_bootstrap():
    rng = np.random.default_rng(0)
    Z, _ = blobs()
    y = np.sin(Z).sum(axis=1) + rng.normal(size=240) / 2
    found = held_out_score(Z[:120], y[:120], Z[120:], y[120:], task="regression")
    draws = rng.integers(0, 120, size=(2000, 120))
    scores = [r2_score(y[120:][draw], found.predictions[draw]) for draw in draws]
    assert found.standard_error == pytest.approx(np.std(scores), rel=0.15)
    assert found.interval[0] < found.score < found.interval[1] <= 1


def test_a_target_that_does_not_vary():
    Z = np.arange(8.0)[:, None]
    same = held_out_score(Z[:6], np.ones(6), Z[6:], np.ones(2), task="regression")
    other = held_out_score(Z[:6], np.arange(6.0), Z[6:], np.ones(2), task="regression")
    assert (same.score, other.score) == (1.0, 0.0)


def test_mistakes_are_told():
    Z, y = blobs()
    with pytest.raises(InputError, match="'classification' or 'regression'"):
        held_out_score(Z, y, Z, y, task="ranking")
    with pytest.raises(InputError, match=r"240 held-out rows and test_y has the shape .10,."):
        held_out_score(Z, y, Z, y[:10])
