"""The score of a nearest-neighbour learner on held-out rows of a space.

    classification  the share of held-out rows whose class is predicted right
    regression      R^2 = 1 - sum (y - y^)^2 / sum (y - mean y)^2

Intervals, 95 %, over the draw of held-out rows: Wilson's for a share; for R^2 the normal law with
each row's influence on the ratio. A target that does not vary scores 1 if it is predicted exactly,
else 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearfold.blocks import collect_vector, is_dask
from nearfold.errors import InputError
from nearfold.methods.knn import KNeighborsClassifier, KNeighborsRegressor
from nearfold.notation import Array, Floats

_NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, eq=False)
class HeldOut:
    """How a nearest-neighbour learner does on held-out rows."""

    score: float  # accuracy or R^2
    interval: tuple[float, float]
    standard_error: float
    per_row: Floats = field(repr=False)  # 1 right, 0 wrong; regression: the squared error
    predictions: Array = field(repr=False)
    task: str
    n_neighbors: int
    n_rows: int
    labels: Array | None = None  # classification: the classes, in order
    confusion: Array | None = field(default=None, repr=False)  # rows true, columns predicted


def held_out_score(
    train_Z: Any,
    train_y: Any,
    test_Z: Any,
    test_y: Any,
    *,
    n_neighbors: int = 5,
    task: str = "classification",
    weights: Any = "uniform",
    n_jobs: int | None = None,
) -> HeldOut:
    """Fit a k-nearest-neighbour learner on the one set of rows, score it on the other.

    Both may be Dask arrays or frames: rows stay where they are, predictions and targets come here.

    Examples
    --------
    >>> from nearfold.quality import held_out_score
    >>> Z, y = [[0], [1], [8], [9]], [0, 0, 1, 1]
    >>> held_out_score(Z, y, [[2], [7]], [0, 1], n_neighbors=1).score
    1.0
    """
    if task not in ("classification", "regression"):
        raise InputError(f"task={task!r}: use 'classification' or 'regression'.")
    learner = KNeighborsClassifier if task == "classification" else KNeighborsRegressor
    model = learner(n_neighbors, weights=weights, n_jobs=n_jobs).fit(train_Z, train_y)
    truth = collect_vector(test_y, None, "test_y") if is_dask(test_y) else np.asarray(test_y)
    predictions = model.predict(test_Z)
    if is_dask(predictions):
        predictions = collect_vector(predictions, len(truth), "predictions")
    if truth.shape != predictions.shape:
        raise InputError(
            f"there are {len(predictions)} held-out rows and test_y has the shape {truth.shape}: "
            "give one target per row."
        )
    score = _score_classes if task == "classification" else _score_numbers
    return score(truth, predictions, model, n_neighbors)


def _score_classes(truth: Array, predictions: Array, model: Any, k: int) -> HeldOut:
    right = (predictions == truth).astype(np.float64)
    n, count, share = len(right), int(right.sum()), float(right.mean())
    labels = np.unique(np.concatenate([model.classes_, truth]))
    cell = np.searchsorted(labels, truth) * len(labels) + np.searchsorted(labels, predictions)
    confusion = np.bincount(cell, minlength=len(labels) ** 2).reshape(len(labels), -1)
    return HeldOut(
        share,
        wilson_interval(count, n),
        share_error(share, n),
        right,
        predictions,
        "classification",
        k,
        n,
        labels,
        confusion,
    )


def share_error(share: float, n: int) -> float:
    """Standard error of a share of n rows (Agresti and Coull's n + 4: 100 % is not sure)."""
    smoothed = (share * n + 2) / (n + 4)
    return float(np.sqrt(smoothed * (1 - smoothed) / (n + 4)))


def wilson_interval(count: int, n: int) -> tuple[float, float]:
    """95 % interval of the share count / n of independent trials."""
    from scipy.stats import binomtest  # slow to import

    interval = binomtest(count, n).proportion_ci(0.95, "wilson")
    return float(interval.low), float(interval.high)


def _score_numbers(truth: Array, predictions: Array, model: Any, k: int) -> HeldOut:
    truth = truth.astype(np.float64)
    squares = (truth - predictions) ** 2
    around = (truth - truth.mean()) ** 2
    n, left, variance = len(truth), float(squares.mean()), float(around.mean())
    if variance > 0:
        score = 1.0 - left / variance
        influence = (left / variance * (around - variance) - (squares - left)) / variance
        error = float(influence.std(ddof=1) / np.sqrt(n)) if n > 1 else np.inf
    else:
        score, error = float(left == 0.0), 0.0
    half = _NORMAL_95 * error
    interval = (score - half, min(1.0, score + half))
    return HeldOut(score, interval, error, squares, predictions, "regression", k, n)
