"""Scores of held-out predictions and the contributions of their rows."""

import numpy as np
import pytest
from sklearn import metrics

from nearfold.study.scores import SCORES, Needs, ScoreName, default_score

LABEL_SCORES = [s for s in SCORES.values() if s.task == "classification"]


def predictions(score, rng, n=300, n_classes=3, shares=None):
    """A truth and predictions that know something of it, of the kind the score needs."""
    if score.needs is Needs.NUMBERS:
        truth = rng.normal(3.0, 2.0, n)
        return truth, truth + rng.normal(0.0, 1.0, n)
    truth = rng.choice(n_classes, n, p=shares)
    truth[:n_classes] = np.arange(n_classes)
    votes = rng.multinomial(5, np.full(n_classes, 1 / n_classes), n)
    votes[np.arange(n), truth] += rng.integers(0, 4, n)
    if score.needs is Needs.PROBABILITIES:
        shares = votes + 1 / n_classes
        return truth, shares / shares.sum(axis=1, keepdims=True)
    return truth, votes.argmax(axis=1)


def by_scikit_learn(score, truth, predicted):
    if score.name is ScoreName.ROC_AUC:
        if predicted.shape[1] == 2:
            return metrics.roc_auc_score(truth, predicted[:, 1])
        return metrics.roc_auc_score(truth, predicted, multi_class="ovr", average="macro")
    theirs = {
        ScoreName.ACCURACY: metrics.accuracy_score,
        ScoreName.BALANCED_ACCURACY: metrics.balanced_accuracy_score,
        ScoreName.F1_MACRO: lambda t, p: metrics.f1_score(t, p, average="macro"),
        ScoreName.LOG_LOSS: metrics.log_loss,
        ScoreName.R2: metrics.r2_score,
        ScoreName.MAE: metrics.mean_absolute_error,
    }
    return theirs[score.name](truth, predicted)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("score", SCORES.values(), ids=str)
def test_value_is_scikit_learns_and_the_mean_of_the_influence(score, n_classes):
    truth, predicted = predictions(score, np.random.default_rng(n_classes), n_classes=n_classes)
    assert score.shown(score.value(truth, predicted)) == pytest.approx(
        by_scikit_learn(score, truth, predicted), rel=1e-12
    )
    psi = score.influence(truth, predicted)
    assert psi.shape == truth.shape
    assert psi.mean() == pytest.approx(score.value(truth, predicted), rel=1e-12)


# Balanced accuracy is a mean for the given sizes of the classes: its terms are not centred.
EXPANDED = [s for s in SCORES.values() if s.name is not ScoreName.BALANCED_ACCURACY]


@pytest.mark.parametrize("score", EXPANDED, ids=str)
def test_influence_is_the_derivative_of_the_score(score):
    """One row more among 400 copies of all rows moves the score by its influence."""
    rng = np.random.default_rng(1)
    truth, predicted = predictions(score, rng, n=60)
    copies, value = 400, score.value(truth, predicted)
    many, many_predicted = np.tile(truth, copies), np.concatenate([predicted] * copies)
    psi = score.influence(truth, predicted)
    for i in (0, 17, 42):
        one_more = score.value(
            np.append(many, truth[i]), np.concatenate([many_predicted, predicted[[i]]])
        )
        step = 1 / (len(many) + 1)
        assert (one_more - value) / step == pytest.approx(psi[i] - value, abs=2e-3 * np.ptp(psi))


@pytest.mark.parametrize("score", [s for s in EXPANDED if s in LABEL_SCORES], ids=str)
def test_influence_gives_the_bootstrap_standard_error(score):
    rng = np.random.default_rng(2)
    truth, predicted = predictions(score, rng, n=400, n_classes=2, shares=[0.7, 0.3])
    error = score.influence(truth, predicted).std() / np.sqrt(len(truth))
    drawn = []
    for _ in range(1500):
        rows = rng.integers(0, len(truth), len(truth))
        drawn.append(score.value(truth[rows], predicted[rows]))
    assert error == pytest.approx(np.std(drawn), rel=0.08)


def test_auc_error_is_delongs():
    rng = np.random.default_rng(3)
    truth = np.repeat([0, 1], [40, 25])
    s = np.round(rng.normal(truth, 1.0), 1)  # with ties
    psi = SCORES[ScoreName.ROC_AUC].influence(truth, np.column_stack([-s, s]))
    wins = (s[truth == 1][:, None] > s[truth == 0]) + 0.5 * (
        s[truth == 1][:, None] == s[truth == 0]
    )
    v10, v01 = wins.mean(axis=1), wins.mean(axis=0)
    delong = v10.var() / len(v10) + v01.var() / len(v01)
    assert psi.mean() == pytest.approx(wins.mean())
    assert psi.var() / len(psi) == pytest.approx(delong)


@pytest.mark.parametrize("score", LABEL_SCORES, ids=str)
def test_classes_absent_from_the_judged_rows(score):
    """The third of four classes never occurs, but has a column and is even predicted."""
    truth = np.array([0, 0, 1, 1, 3, 3, 3, 0])
    if score.needs is Needs.PROBABILITIES:
        predicted = np.full((8, 4), 0.1)
        predicted[np.arange(8), truth] = 0.7
        assert score.value(truth, predicted) in (1.0, pytest.approx(np.log(0.7)))
    else:
        predicted = truth.copy()
        predicted[0] = 2
        expected = {
            ScoreName.ACCURACY: 7 / 8,
            ScoreName.BALANCED_ACCURACY: (2 / 3 + 1 + 1) / 3,
            ScoreName.F1_MACRO: (0.8 + 1 + 1) / 3,
        }
        assert score.value(truth, predicted) == pytest.approx(expected[score.name])


def test_a_single_class_and_a_constant_target():
    one = np.zeros(5, dtype=np.int64)
    sure = np.tile([0.9, 0.1], (5, 1))
    assert SCORES[ScoreName.ROC_AUC].value(one, sure) == 0.5
    assert SCORES[ScoreName.BALANCED_ACCURACY].value(one, one) == 1.0
    constant = np.full(4, 7.0)
    assert SCORES[ScoreName.R2].value(constant, constant) == 1.0
    assert SCORES[ScoreName.R2].value(constant, constant + 1) == 0.0
    assert SCORES[ScoreName.LOG_LOSS].value(one, 1 - sure.round()) == pytest.approx(np.log(1e-15))


def test_r2_of_very_large_and_very_small_targets():
    rng = np.random.default_rng(4)
    y = rng.normal(size=50)
    value = SCORES[ScoreName.R2].value(y, y + 0.3)
    for unit in (1e-200, 1e200):
        assert SCORES[ScoreName.R2].value(y * unit, (y + 0.3) * unit) == pytest.approx(value)


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="3 true values, 2 predictions"):
        SCORES[ScoreName.ACCURACY].value([0, 1, 1], [0, 1])


@pytest.mark.parametrize(
    ("counts", "name"),
    [
        ([50, 50], "accuracy"),
        ([66, 34], "accuracy"),
        ([70, 30], "balanced_accuracy"),
        ([97, 3], "balanced_accuracy"),
        ([40, 40, 3], "accuracy"),
        ([80, 5, 5, 5, 5], "balanced_accuracy"),
        ([10], "accuracy"),
    ],
)
def test_default_score(counts, name):
    y = np.repeat(np.arange(len(counts)), counts)
    assert default_score(y, "classification").name == name
    assert default_score(y.astype(float), "regression").name == "r2"


def test_independent_rows():
    truth = np.repeat([0, 1], [90, 10])
    assert SCORES[ScoreName.ACCURACY].independent_rows(truth) == 100
    assert SCORES[ScoreName.ROC_AUC].independent_rows(truth) == 20
    assert SCORES[ScoreName.R2].independent_rows(truth) is None
