"""Scores of held-out predictions, each with the contribution of every row.

All scores are "larger is better" here: log loss and mean absolute error are negated, and
`Score.shown` gives the number people know. Classes are codes 0, ..., C - 1; probabilities are an
(n, C) array whose columns are the codes.

`Score.influence` returns one number psi_i per row whose mean is the score. For a mean over rows
(accuracy, log loss, MAE) and for a weighted one (balanced accuracy, given the sizes n_c of the
classes) psi_i is the row's own term: two spaces that agree on a row do not differ there. For the
others it is the score plus the first-order influence of the row (the delta method), so that the
standard error of the difference of two scores on the same rows is that of a mean:

    balanced accuracy  psi_i = n / (C n_c) [row i of class c is right]
    macro F1           psi_i = F1 + mean over c of (2 tp_ic - F1_c (t_ic + p_ic)) / (t_c + p_c)
    ROC AUC            psi_i = A + n / n_side (V_i - A), V_i the placement value [1]_, n_side the
                       rows on its side; with more than two classes the mean of one against the rest
    R^2                psi_i = R^2 - (e_i^2 - E) / v + E (a_i - v) / v^2, a_i = (y_i - mean y)^2

Means over classes are taken over the classes that occur among the judged rows. A class that never
occurs there has no recall, F1 or AUC; predicting it is an error of the class that is true.

The probabilities of k nearest neighbours should be smoothed by the caller, p_c = (votes_c +
prior_c) / (k + 1): a share of 0 would make the log loss of a single row decide. Here probabilities
are only clipped at 1e-15. For the AUC the prior must be the same for all folds, because it is
anti-correlated with the truth: the more positives are held out, the fewer are left to learn from.

References
----------
.. [1] E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson, "Comparing the areas under two or more
   correlated receiver operating characteristic curves", Biometrics 44, 1988.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from nearfold.notation import Array, Floats

_LEAST_PROBABILITY = 1e-15
_LARGEST_CLASS = 2 / 3  # above it accuracy says little about the other classes


class ScoreName(StrEnum):
    """Names of the scores, as options take them."""

    ACCURACY = "accuracy"
    BALANCED_ACCURACY = "balanced_accuracy"
    F1_MACRO = "f1_macro"
    LOG_LOSS = "log_loss"
    ROC_AUC = "roc_auc"
    R2 = "r2"
    MAE = "mae"


class Needs(StrEnum):
    """What a score is computed from."""

    LABELS = "labels"
    PROBABILITIES = "probabilities"
    NUMBERS = "numbers"


@dataclass(frozen=True)
class Score:
    """A score of held-out predictions; larger is better."""

    name: ScoreName
    task: str  # classification or regression
    needs: Needs
    limits: tuple[float, float]  # of `value`
    is_share: bool  # shown in per cent
    negated: bool  # smaller is better for the number that is shown
    _influence: Callable[[Array, Array], Floats]
    by_class: bool = False  # a mean over classes, given their sizes

    def __str__(self) -> str:
        return self.name.value

    def influence(self, truth: Any, predicted: Any) -> Floats:
        """One number per row; their mean is the score.

        Parameters
        ----------
        truth : (n,) class codes or numbers.
        predicted : (n,) class codes or numbers, or (n, C) probabilities, see `needs`.
        """
        truth, predicted = np.asarray(truth), np.asarray(predicted)
        if len(truth) != len(predicted):
            raise ValueError(f"{len(truth)} true values, {len(predicted)} predictions.")
        return self._influence(truth, predicted)

    def value(self, truth: Any, predicted: Any) -> float:
        """The score, pooled over rows."""
        return float(np.mean(self.influence(truth, predicted)))

    def shown(self, value: float) -> float:
        """The number people know: log loss and MAE are positive."""
        return -value if self.negated else value

    def independent_rows(self, truth: Any) -> float | None:
        """Independent trials the score is worth at most, if it is a bounded one, else None.

        A mean over C classes is no surer than its smallest class: C n_c rows.
        """
        if self.limits != (0.0, 1.0):
            return None
        if not self.by_class:
            return float(len(truth))
        counts = np.unique(np.asarray(truth), return_counts=True)[1]
        return float(len(counts) * counts.min())


def default_score(y: Any, task: str) -> Score:
    """R^2 for a target; accuracy for a label, or balanced accuracy if a class is dominant.

    Dominant: it holds more than 2/3 of the rows. Then the guess "always this class" is right for
    more rows than most spaces could add, and a space that finds the rare class may even lose
    accuracy. Below it accuracy stays: it is what people expect, and every row counts alike, whereas
    balanced accuracy rests on the few rows of the smallest classes (its variance is 1.1 times that
    of accuracy for two classes at 2/3, but 8.6 times at 97 %). A small class beside several
    large ones does not change the score: it would bring its noise into the mean and little else.

    Examples
    --------
    >>> from nearfold.study.scores import default_score
    >>> default_score([0] * 60 + [1] * 40, "classification").name.value
    'accuracy'
    >>> default_score([0] * 97 + [1] * 3, "classification").name.value
    'balanced_accuracy'
    """
    if task == "regression":
        return SCORES[ScoreName.R2]
    counts = np.unique(np.asarray(y), return_counts=True)[1]
    dominant = counts.max() > _LARGEST_CLASS * counts.sum() and len(counts) > 1
    return SCORES[ScoreName.BALANCED_ACCURACY if dominant else ScoreName.ACCURACY]


def _accuracy(truth: Array, predicted: Array) -> Floats:
    return np.asarray(truth == predicted, dtype=np.float64)


def _balanced_accuracy(truth: Array, predicted: Array) -> Floats:
    _, code, count = np.unique(truth, return_inverse=True, return_counts=True)
    weight = len(truth) / (len(count) * count)
    return np.asarray(weight[code] * (truth == predicted), dtype=np.float64)


def _f1_macro(truth: Array, predicted: Array) -> Floats:
    classes = np.unique(truth)
    psi = np.zeros(len(truth))
    for c in classes:
        is_true, is_predicted = truth == c, predicted == c
        both = (is_true & is_predicted).astype(np.float64)
        either = is_true.astype(np.float64) + is_predicted
        f1 = 2 * both.mean() / either.mean()
        psi += f1 + (2 * both - f1 * either) / either.mean()
    return psi / len(classes)


def _log_loss(truth: Array, predicted: Array) -> Floats:
    of_truth = predicted[np.arange(len(truth)), truth]
    return np.asarray(np.log(np.clip(of_truth, _LEAST_PROBABILITY, 1.0)), dtype=np.float64)


def _roc_auc(truth: Array, predicted: Array) -> Floats:
    """One class against the rest, the mean over classes; of two classes one is enough."""
    classes = np.unique(truth)
    if len(classes) < 2:
        return np.full(len(truth), 0.5)  # nothing to tell apart
    if predicted.shape[1] == 2:
        return _auc_influence(truth == 1, predicted[:, 1])
    return np.asarray(np.mean([_auc_influence(truth == c, predicted[:, c]) for c in classes], 0))


def _auc_influence(positive: Array, score: Floats) -> Floats:
    """Of a row on the area: the share of the other side that it is ordered rightly against."""
    from scipy.stats import rankdata  # mid-ranks: a tie counts one half

    n, n_positive = len(positive), int(positive.sum())
    n_negative = n - n_positive
    overall = rankdata(score)
    placement = np.empty(n)
    placement[positive] = (overall[positive] - rankdata(score[positive])) / n_negative
    negative = ~positive
    placement[negative] = 1 - (overall[negative] - rankdata(score[negative])) / n_positive
    area = placement[positive].mean()
    side = np.where(positive, n_positive, n_negative)
    return np.asarray(area + n / side * (placement - area))


_FAR = 1e40  # in units of the largest target


def _r2(truth: Array, predicted: Array) -> Floats:
    """A target that does not vary scores 1 if it is predicted exactly, else 0."""
    unit = float(np.abs(truth).max()) or 1.0  # so that no square overflows or vanishes
    y, y_predicted = truth / unit, predicted / unit
    # One outlier among the training rows can be predicted: far off, but not beyond what squares.
    gap = np.clip(y - y_predicted, -_FAR, _FAR)
    squares, around = gap**2, (y - y.mean()) ** 2
    left, variance = squares.mean(), around.mean()
    if not variance > 0:
        return np.full(len(truth), float(left == 0.0))
    shared = left * (around - variance) / variance**2
    return np.asarray(1 - squares / variance + shared, dtype=np.float64)


def _mae(truth: Array, predicted: Array) -> Floats:
    return np.asarray(-np.abs(truth - predicted), dtype=np.float64)


_LABEL, _NUMBER = "classification", "regression"
_UNIT, _BELOW_0 = (0.0, 1.0), (-np.inf, 0.0)
_ALL = (
    Score(ScoreName.ACCURACY, _LABEL, Needs.LABELS, _UNIT, True, False, _accuracy),
    Score(
        ScoreName.BALANCED_ACCURACY,
        _LABEL,
        Needs.LABELS,
        _UNIT,
        True,
        False,
        _balanced_accuracy,
        True,
    ),
    Score(ScoreName.F1_MACRO, _LABEL, Needs.LABELS, _UNIT, False, False, _f1_macro, True),
    Score(ScoreName.LOG_LOSS, _LABEL, Needs.PROBABILITIES, _BELOW_0, False, True, _log_loss),
    Score(ScoreName.ROC_AUC, _LABEL, Needs.PROBABILITIES, _UNIT, False, False, _roc_auc, True),
    Score(ScoreName.R2, _NUMBER, Needs.NUMBERS, (-np.inf, 1.0), False, False, _r2),
    Score(ScoreName.MAE, _NUMBER, Needs.NUMBERS, _BELOW_0, False, True, _mae),
)
SCORES = {score.name: score for score in _ALL}
