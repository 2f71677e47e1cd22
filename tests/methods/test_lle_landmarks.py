"""LLE of landmarks, and the other rows placed among them."""

from contextlib import nullcontext as nothing

import numpy as np
import pytest
from sklearn.datasets import make_swiss_roll

import nearfold
from nearfold import LocallyLinearEmbedding
from nearfold.errors import ApproximationWarning, InputError
from nearfold.linalg.inverse_iteration import factor_size
from nearfold.methods import lle_landmarks
from nearfold.methods.local_weights import NeighbourLists, weight_matrix
from nearfold.neighbors import build_index
from nearfold.state import StateError, fields_of


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


def roll(n, dtype=np.float64):
    return make_swiss_roll(n, random_state=0)[0].astype(dtype)


@pytest.mark.parametrize("method", ["standard", "modified", "hessian", "ltsa"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_landmarks_are_embedded_and_the_others_placed_as_new_rows(method, dtype):
    X = roll(900, dtype)
    options = {"n_neighbors": 10, "method": method}
    model = LocallyLinearEmbedding(**options, n_landmarks=400).fit(X)
    rows = model.landmarks_
    assert len(set(rows.tolist())) == 400
    assert (np.diff(rows) > 0).all()
    assert model.approximation_ == "LLE of 400 landmarks of 900 rows"
    exact = LocallyLinearEmbedding(**options).fit(X[rows])
    assert (exact.landmarks_, exact.approximation_) == (None, None)
    np.testing.assert_array_equal(model.embedding_[rows], exact.embedding_)
    others = np.setdiff1d(np.arange(900), rows)
    np.testing.assert_array_equal(model.embedding_[others], exact.transform(X[others]))
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-6)
    assert model.embedding_.dtype == dtype


def test_with_all_rows_as_landmarks_it_is_the_exact_method():
    X = roll(300)
    every = LocallyLinearEmbedding(n_neighbors=8, n_landmarks=300).fit(X)
    exact = LocallyLinearEmbedding(n_neighbors=8).fit(X)
    np.testing.assert_array_equal(every.embedding_, exact.embedding_)
    assert every.approximation_ is None


def test_the_sheet_is_unrolled_as_by_all_rows():
    X, t = make_swiss_roll(3000, random_state=1)
    exact = LocallyLinearEmbedding(n_neighbors=12, method="ltsa").fit_transform(X)
    some = LocallyLinearEmbedding(n_neighbors=12, method="ltsa", n_landmarks=1000).fit_transform(X)
    for Z in (exact, some):
        plane = np.column_stack([Z, np.ones(len(Z))])
        left = t - plane @ np.linalg.lstsq(plane, t, rcond=None)[0]
        assert left.var() < 0.05 * t.var()


def test_random_state_draws_the_landmarks():
    X = roll(400)
    drawn = [
        LocallyLinearEmbedding(n_neighbors=8, n_landmarks=100, random_state=seed).fit(X).landmarks_
        for seed in (None, 0, 1)
    ]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()


@pytest.mark.parametrize(("method", "budget"), [("standard", "500.0 KB"), ("ltsa", "2.0 MB")])
def test_beyond_the_budget_landmarks_are_used_and_said(method, budget):
    X = roll(900)
    options = {"n_neighbors": 10, "method": method}
    nearfold.set_memory(budget)
    with pytest.warns(ApproximationWarning, match=r"weights of 900 rows need .* drawn at random"):
        model = LocallyLinearEmbedding(**options).fit(X)
    count = len(model.landmarks_)
    assert model.approximation_ == f"LLE of {count} landmarks of 900 rows (memory budget {budget})"
    pinned = LocallyLinearEmbedding(**options, n_landmarks=count).fit(X)
    np.testing.assert_array_equal(model.embedding_, pinned.embedding_)


def test_many_rows_of_many_dimensions_are_embedded_by_landmarks(monkeypatch):
    monkeypatch.setattr(lle_landmarks, "MOST_ROWS", 1000)
    monkeypatch.setattr(lle_landmarks, "MOST_LANDMARKS", 800)
    monkeypatch.setattr(lle_landmarks, "MOST_WORK", 1e8)
    X = np.random.default_rng(0).normal(size=(4000, 12))
    with pytest.warns(ApproximationWarning, match=r"LLE for 4,000 rows in so many dimensions"):
        model = LocallyLinearEmbedding(n_neighbors=8).fit(X)
    assert model.approximation_ == "LLE of 800 landmarks of 4,000 rows"
    surface = LocallyLinearEmbedding(n_neighbors=8).fit(roll(4000))
    assert (surface.landmarks_, surface.approximation_) == (None, None)


@pytest.mark.parametrize("curved", [True, False])
def test_the_factor_of_all_rows_is_foreseen_from_samples(monkeypatch, curved):
    """By a power of the number of rows, within a factor of three for twelve times as many."""
    monkeypatch.setattr(lle_landmarks, "MOST_ROWS", 1000)
    monkeypatch.setattr(lle_landmarks, "MOST_LANDMARKS", 1000)
    X = roll(12000) if curved else np.random.default_rng(0).normal(size=(12000, 8))
    near = build_index(X).nearest(None, 8)[1]
    W = weight_matrix(X, NeighbourLists(near, {}), 1e-3, None)
    work = factor_size((lle_landmarks.sparse.eye_array(len(X)) - W).tocsr())[1]
    make_index = build_index
    for most, forbidden in ((3 * work, False), (work / 3, True)):
        monkeypatch.setattr(lle_landmarks, "MOST_WORK", most)
        nearfold.set_memory("100GB")
        with pytest.warns() if forbidden else nothing():
            chosen = lle_landmarks.landmarks_for_time(X, 8, make_index, None)
        assert (chosen.rows is not None) == forbidden


@pytest.mark.parametrize("count", [3, 8, 301])
def test_n_landmarks_must_be_enough_and_not_too_many(count):
    with pytest.raises(InputError, match=f"n_landmarks={count}: .* at most the 300 rows"):
        LocallyLinearEmbedding(n_neighbors=8, n_landmarks=count).fit(roll(300))


def test_a_clustered_sample_is_embedded_by_the_policy_of_pieces():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(200, 3)), rng.normal(size=(200, 3)) + 50])
    for policy in ("largest", "each"):
        with pytest.warns(UserWarning, match="pieces"):
            model = LocallyLinearEmbedding(
                n_neighbors=8, n_landmarks=150, disconnected=policy, random_state=1
            ).fit(X)
        np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-8)


def test_models_with_landmarks_are_saved_and_older_ones_read(tmp_path):
    X = roll(300)
    model = LocallyLinearEmbedding(n_neighbors=8, n_landmarks=100).fit(X)
    again = nearfold.load(nearfold.save(model, tmp_path / "m.nearfold"))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(again.landmarks_, model.landmarks_)
    state = LocallyLinearEmbedding.fitted_state
    exact = fields_of(LocallyLinearEmbedding(n_neighbors=8).fit(X))
    state.check({name: value for name, value in exact.items() if name != "landmarks_"})
    with pytest.raises(StateError, match="no landmarks"):
        state.check({**fields_of(model), "landmarks_": None})
    with pytest.raises(StateError, match="landmarks_"):
        state.check({**fields_of(model), "landmarks_": model.landmarks_ + 250})
