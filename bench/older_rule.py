"""The rule of earlier versions, for comparison: tests of fold scores.

Folds share training rows, so their scores are not independent and the plain standard error of
their mean is too small. Nadeau and Bengio's correction (2003) replaces 1/J by
1/J + (held-out rows)/(training rows). Where scores are shares of rows, the error that the number of
rows alone would give is a floor: five folds at 100 % are not certainty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfold.notation import Array, Floats

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over folds with its interval."""

    mean: float
    low: float
    high: float
    error: float  # standard error
    p: float  # of the mean being 0, two-sided


def estimate(scores: Floats, odds: float, floor: float = 0.0, level: float = LEVEL) -> Estimate:
    """Mean, interval and test of the scores of J folds.

    `odds`: held-out rows per training row. `floor`: a standard error it cannot be below.
    """
    from scipy.stats import t

    scores = np.asarray(scores, dtype=np.float64)
    J = len(scores)
    mean = float(scores.mean())
    if J < 2:
        return Estimate(mean, -np.inf, np.inf, np.inf, 1.0)
    error = max(float(np.sqrt((1 / J + odds) * scores.var(ddof=1))), floor)
    half = float(t.ppf((1 + level) / 2, J - 1)) * error
    p = (1.0 if mean == 0 else 0.0) if error == 0 else 2 * float(t.sf(abs(mean) / error, J - 1))
    return Estimate(mean, mean - half, mean + half, error, p)


def discordant_error(ours: Array, theirs: Array) -> float:
    """Standard error of the difference of two shares over the same rows (as in McNemar's test)."""
    return float(np.sqrt(np.count_nonzero(ours != theirs) + 1) / len(ours))


def holm(p: Floats) -> Floats:
    """p-values adjusted for being several (Holm): any below 0.05 are so with 95 % for all."""
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = p[order] * (len(p) - np.arange(len(p)))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
