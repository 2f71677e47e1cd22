"""Metric learners learned from a sample of the rows."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import nearfold
from nearfold import LFDA, LMNN, MLKR, SCML, KNeighborsClassifier
from nearfold.errors import ApproximationWarning
from nearfold.metrics import lfda, lmnn, mlkr, scml
from nearfold.metrics.learning_rows import choose_rows

pytestmark = pytest.mark.filterwarnings("ignore::nearfold.errors.NotConvergedWarning")


def digits(n=1200):
    X, y = load_digits(return_X_y=True)
    return X[:n] / 16, y[:n]


def test_classes_are_drawn_in_proportion_and_none_is_lost():
    order = np.random.default_rng(0).permutation(1000)
    chosen = choose_rows(order, np.array([0, 700, 995, 1000]), 100, 10**6, 4, None, "LMNN")
    at = np.flatnonzero(np.isin(order, chosen.order))
    np.testing.assert_array_equal(order[at], chosen.order)  # the canonical order is kept
    assert np.bincount(np.searchsorted([700, 995], at, side="right")).tolist() == [70, 30, 4]
    assert chosen.note == "learned from 104 of 1,000 rows, drawn at random"


def test_all_rows_are_taken_where_they_are_few():
    order = np.arange(50)[::-1]
    chosen = choose_rows(order, np.array([0, 50]), None, 50, 4, None, "LMNN")
    assert (chosen.order is order, chosen.note) == (True, None)


@pytest.mark.parametrize(
    "learner",
    [
        LMNN(n_components=5, max_iter=2),
        MLKR(n_components=2, max_iter=2),
        LFDA(n_components=5),
        SCML(n_basis=100, basis="lda"),
    ],
)
def test_the_order_of_the_rows_does_not_change_the_sample(learner):
    X, y = digits(400)
    turn = np.random.default_rng(0).permutation(len(X))
    learner.set_params(max_samples=200, random_state=3)
    M = learner.fit(X, y).get_mahalanobis_matrix()
    assert learner.approximation_.startswith("learned from 20")
    again = learner.fit(X[turn], y[turn]).get_mahalanobis_matrix()
    np.testing.assert_allclose(again, M, atol=1e-6 * np.abs(M).max())


def test_many_rows_are_learned_from_a_sample_and_said(monkeypatch):
    monkeypatch.setattr(lmnn, "_MOST_ROWS", 500)
    X, y = digits()
    with pytest.warns(
        ApproximationWarning, match=r"all 1,200 rows would take hours.* drawn at random"
    ):
        some = LMNN(n_components=10, max_iter=100).fit(X, y)
    pinned = LMNN(n_components=10, max_iter=100, max_samples=500).fit(X, y)
    np.testing.assert_array_equal(some.components_, pinned.components_)
    whole = LMNN(n_components=10, max_iter=100, max_samples=1200).fit(X, y)
    assert whole.approximation_ is None
    Q, r = (part[1200:] for part in load_digits(return_X_y=True))
    scores = [
        KNeighborsClassifier(3, metric=learner).fit(X, y).score(Q / 16, r)
        for learner in (some, whole)
    ]
    assert scores[0] > scores[1] - 0.05


def test_mlkr_of_many_rows(monkeypatch):
    monkeypatch.setattr(mlkr, "_MOST_WORK", 1.0)
    monkeypatch.setattr(mlkr, "_LEAST_ROWS", 300)
    X = np.random.default_rng(0).normal(size=(900, 4))
    with pytest.warns(ApproximationWarning, match="MLKR of all 900 rows"):
        model = MLKR(n_components=1).fit(X, np.sin(X[:, 0]))
    assert model.approximation_ == "learned from 300 of 900 rows, drawn at random"
    assert np.abs(model.components_[0]).argmax() == 0


@pytest.mark.parametrize(
    ("module", "limit", "value", "learner"),
    [
        (lfda, "_MOST_WORK", 1e6, LFDA(n_components=9)),
        (scml, "_MOST_CELLS", 40_000, SCML(n_basis=100, basis="lda", random_state=0)),
    ],
)
def test_a_sample_of_each_class_is_enough(monkeypatch, module, limit, value, learner):
    X, y = digits()
    whole = learner.fit(X, y).transform(X)
    assert learner.approximation_ is None
    monkeypatch.setattr(module, limit, value)
    with pytest.warns(ApproximationWarning, match="drawn at random"):
        learner.fit(X, y)
    assert learner.approximation_.endswith("of 1,200 rows, drawn at random")
    near = [KNeighborsClassifier(3).fit(Z[:900], y[:900]).score(Z[900:], y[900:])
            for Z in (whole, learner.transform(X))]  # fmt: skip
    assert near[1] > near[0] - 0.08


def test_sampled_learners_are_saved(tmp_path):
    X, y = digits(300)
    model = LMNN(n_components=3, max_iter=20, max_samples=200).fit(X, y)
    again = nearfold.load(nearfold.save(model, tmp_path / "m.nearfold"))
    assert again.approximation_ == model.approximation_
