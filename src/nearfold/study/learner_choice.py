"""Which learner serves the links that were told: decided by how it tells held-out links apart.

ITML stays near the scaled columns, MMC (diagonal) weighs each column freely. MMC is chosen if its
AUC on held-out links is the higher one by more than a standard error; with too few links to hold
some out, ITML. Only pairs that were told are held out: with those that follow from them MMC was
chosen on wine after 28 answers about a handful of groups, and lost 17 points of AUC.
link_learning.py says on what the rule was measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Floats, Ints
from nearfold.study.folds import Split
from nearfold.study.lessons import Lesson
from nearfold.study.pair_folds import split_pairs
from nearfold.study.scores import SCORES, ScoreName

_FOLDS = (5, 4, 3, 2)  # of the groups of linked rows: as many as leave pairs enough in each
_REPEATS = 2

FitPart = Callable[[Lesson, str], Any]  # `Fitting.metric`


def choose_learner(lesson: Lesson, X: Floats, fit: FitPart, seed: int) -> tuple[str, Message]:
    """ITML or MMC, and why."""
    split = split_lesson(lesson, len(X), seed, _REPEATS)
    if split is None:
        return "ITML", Message("learner.few")
    score = {
        learner: np.array([
            pair_auc(X, fit(lesson.part(fold.train), learner), lesson.told[fold.test]).mean()
            for fold in split.folds
        ])
        for learner in ("ITML", "MMC")
    }  # fmt: skip
    gain = score["MMC"] - score["ITML"]
    error = gain.std(ddof=1) / np.sqrt(split.n_folds)
    chosen = "MMC" if gain.mean() > error else "ITML"
    values = {name: f"{found.mean():.3f}" for name, found in score.items()}
    return chosen, Message(f"learner.by_links.{chosen}", **values)


def split_lesson(lesson: Lesson, n: int, seed: int, repeats: int) -> Split | None:
    """Folds of the pairs, no row on both sides; None if there are too few pairs.

    Five pairs of each kind are needed to learn from and to judge by (pair_folds.py): with fewer
    one pair moves the AUC of a fold by more than a tenth of its range.
    """
    rows, alike = lesson.told[:, :2], lesson.told[:, 2] > 0
    if len(rows) == 0:
        return None
    for n_folds in _FOLDS:
        try:
            return split_pairs(rows, alike, n, n_folds=n_folds, n_repeats=repeats,
                               random_state=seed)  # fmt: skip
        except InputError:
            continue
    return None


def pair_auc(X: Floats, metric: Any, pairs: Ints) -> Floats:
    """What each pair adds to the AUC with which the metric's distance tells them apart."""
    apart = (X[pairs[:, 0]] - X[pairs[:, 1]]) @ metric.components_.T
    near = -np.linalg.norm(apart, axis=1)
    alike = (pairs[:, 2] > 0).astype(int)
    return SCORES[ScoreName.ROC_AUC].influence(alike, np.column_stack([-near, near]))
