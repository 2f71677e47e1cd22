"""How a setting is chosen from the scores of folds."""

from __future__ import annotations

import numpy as np

from nearfold.notation import Floats


def fold_errors(scores: Floats, n_folds: int) -> Floats:
    """Standard error of each column of folds x choices, as one repeat of n_folds would give it.

    Repeats split the same rows anew: they steady the mean, but bring no new rows, so the error is
    not divided by their number.
    """
    if len(scores) < 2:
        return np.zeros(scores.shape[1])
    return np.asarray(scores.std(axis=0, ddof=1) / np.sqrt(min(n_folds, len(scores))))


def one_standard_error(scores: Floats, n_folds: int) -> int:
    """The first column of folds x choices that is not clearly below the best one.

    Not clearly: by no more than one standard error of the difference of the two, as one repeat of
    n_folds would give it. The difference is what is to be judged, and folds that are hard are hard
    for both.
    """
    best = int(np.argmax(scores.mean(axis=0)))
    if len(scores) < 2:
        return best
    behind = scores[:, [best]] - scores
    return int(np.argmax(behind.mean(axis=0) <= fold_errors(behind, n_folds)))
