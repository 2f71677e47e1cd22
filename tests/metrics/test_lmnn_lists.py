"""LMNN on lists of candidate impostors: the lists are complete, the result is that of all pairs."""

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

import nearfold.metrics.impostors as impostors
import nearfold.metrics.lmnn as lmnn
from nearfold import LMNN
from nearfold.metrics.impostors import find_candidates
from nearfold.metrics.margin import map_rows, margin_loss, reach_of_rows, target_neighbors


def scene(m=400, d=6, classes=4, apart=1.0, dtype="f8", seed=0):
    random = np.random.default_rng(seed)
    label = np.sort(random.integers(0, classes, m))
    X = random.normal(size=(m, d)) + apart * random.normal(size=(classes, d))[label]
    X = (X - X.mean(axis=0)).astype(dtype)
    starts = np.concatenate([[0], np.cumsum(np.bincount(label))])
    return X, label, starts, target_neighbors(X, starts, 3)


def listed_at(X, starts, targets, L):
    Z, near = map_rows(X, targets, L)
    return (
        Z,
        reach_of_rows(starts, targets, near),
        find_candidates(Z, starts, reach_of_rows(starts, targets, near)),
    )


@pytest.fixture
def everything_listed(monkeypatch):
    monkeypatch.setattr(lmnn, "LISTED", 2)
    monkeypatch.setattr(impostors, "LISTED", 2)
    monkeypatch.setattr(impostors, "_SHARE", 0.5)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("outlier", [0, 1e4])
def test_lists_hold_every_impostor(dtype, outlier, everything_listed):
    X, label, starts, _ = scene(dtype=dtype)
    X[7] += outlier  # the error of a float32 product is then large
    targets = target_neighbors(X, starts, 3)
    Z, reach, found = listed_at(X, starts, targets, 2 * np.eye(6))
    assert found is not None
    D = np.sum((Z[:, None].astype("f8") - Z[None]) ** 2, axis=2)
    wanted = (D < reach[:, None]) & (label[:, None] != label)
    listed = np.zeros_like(wanted)
    for (lo, hi), at in zip(found.spans, found.at, strict=True):
        listed[lo:hi].ravel()[at] = True
    assert wanted.any()
    assert not (wanted & ~listed).any()
    assert not (listed & (label[:, None] == label)).any()


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0])
def test_the_loss_over_a_fresh_list_is_the_full_one(mu, everything_listed):
    X, _, starts, targets = scene()
    L = np.random.default_rng(1).normal(size=(3, 6))
    *_, listed = listed_at(X, starts, targets, L)
    value, gradient = margin_loss(X, starts, targets, L, mu)
    some, its_gradient = margin_loss(X, starts, targets, L, mu, listed)
    assert some == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(its_gradient, gradient, atol=1e-11 * np.abs(gradient).max())
    elsewhere = margin_loss(X, starts, targets, 0.3 * L, mu, listed)[0]
    assert elsewhere <= margin_loss(X, starts, targets, 0.3 * L, mu)[0] * (1 + 1e-12)


def test_too_many_pairs_are_not_listed(monkeypatch, everything_listed):
    X, _, starts, targets = scene()
    assert listed_at(X, starts, targets, 1e-3 * np.eye(6))[2] is None  # all are impostors
    monkeypatch.setattr(impostors, "_PAIRS", 20)
    assert listed_at(X, starts, targets, 2 * np.eye(6))[2] is None


def tables():
    wine, digits = load_wine(return_X_y=True), load_digits(return_X_y=True)
    yield "wine", (wine[0] - wine[0].mean(axis=0)) / wine[0].std(axis=0), wine[1], {}
    yield "digits", digits[0][:500] / 4, digits[1][:500], {}
    X, y, *_ = scene(200)
    yield "too large", 30 * X, y, {}
    yield "too small", X / 30, y, {}
    X, y, *_ = scene(300, apart=30.0)  # no impostors at the start: the first round goes astray
    yield "far apart", X, y, {}
    X, y, *_ = scene(300, 8, apart=0.0)
    yield "no classes to see", X, y, {"n_components": 3, "init": "pca"}
    yield "penalised", X, y, {"trace_penalty": 0.05}


@pytest.mark.parametrize(("X", "y", "params"), [pytest.param(*t[1:], id=t[0]) for t in tables()])
def test_rounds_end_where_all_pairs_do(X, y, params, everything_listed, monkeypatch):
    rounds = LMNN(**params).fit(X, y)
    monkeypatch.setattr(lmnn, "LISTED", 10**9)
    full = LMNN(**params).fit(X, y)
    assert rounds.converged_
    assert rounds.objective_ <= full.objective_ * 1.01  # digits is flat near the end
    assert rounds.history_[-1] == rounds.objective_


def test_the_end_is_stationary_for_all_pairs(everything_listed):
    X, y, starts, targets = scene(apart=2.0)
    model = LMNN(convergence_tol=1e-5).fit(X, y)
    value, gradient = margin_loss(X, starts, targets, model.components_, 0.5)
    assert value == pytest.approx(model.objective_, rel=1e-9)
    start = margin_loss(X, starts, targets, np.eye(6), 0.5)[1]
    assert np.linalg.norm(gradient) < 5e-3 * np.linalg.norm(start)


def test_threads_change_nothing(everything_listed, monkeypatch):
    monkeypatch.setattr("nearfold.metrics.pair_blocks._ALONE", 0)
    X, y = load_digits(return_X_y=True)
    found = []
    for threads in (1, 2, 3):
        with joblib.parallel_config(n_jobs=threads):
            found.append(LMNN(convergence_tol=1).fit(X[:500] / 4, y[:500]).components_)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_the_limit_of_steps_is_kept(everything_listed):
    X, y = load_digits(return_X_y=True)
    with pytest.warns(match="LMNN did not converge"):
        model = LMNN(max_iter=7).fit(X[:400] / 4, y[:400])
    assert model.n_iter_ == len(model.history_) == 7
