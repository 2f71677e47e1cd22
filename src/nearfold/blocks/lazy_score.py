"""The score of predictions for a Dask table: joined where they are made, only numbers come here.

Accuracy is a share of weights; R^2 comes from count, mean, scatter and squared errors of the
targets, combined pairwise. Targets are cut as the rows are.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nearfold.blocks.cluster import compute, task
from nearfold.blocks.dask_rows import Part, _cut, _lengths, _values
from nearfold.blocks.work import combine_pairwise
from nearfold.notation import Array, Floats

Sums = tuple[float, float, float, float]


def score_predictions(predicted: Any, X: Any, y: Any, weights: Any, classes: bool) -> float:
    """Accuracy, or R^2, of lazy predictions for the rows of X."""
    parts = _parts_of(predicted, X, y, weights)
    of_part, combine = (right_of_part, np.add) if classes else (squares_of_part, combine_sums)
    tasks = [
        task(of_part, part.values, part.y, part.weights, block=part.describe(i))
        for i, part in enumerate(parts)
    ]
    found = compute([combine_pairwise(tasks, partial(task, combine))], "scoring")[0]
    if classes:
        return float(found[1] / found[0])
    count, _, scatter, errors = found
    if scatter == 0.0:
        return float(errors == 0.0)  # as scikit-learn scores a target that does not vary
    return float(1.0 - errors / scatter) if count > 1 else float("nan")


def _parts_of(predicted: Any, X: Any, y: Any, weights: Any) -> list[Part]:
    """The predictions part by part, with what belongs to them; empty parts are left out."""
    # Dask joins no empty parts; where sizes are not known, to count X is cheaper than to predict.
    known = hasattr(predicted, "chunks") and not np.isnan(predicted.chunks[0]).any()
    lengths = _lengths(predicted if known else X)
    starts = np.cumsum([0, *lengths]).tolist()
    cuts = zip(_values(predicted), starts[:-1], lengths, strict=True)
    parts = tuple(Part(*cut) for cut in cuts if cut[2] > 0)
    truths = _cut(y, parts, starts[-1], "y")
    given = [None] * len(parts)
    if weights is not None:
        given = _cut(weights, parts, starts[-1], "weights")
    return [
        replace(part, y=truth, weights=w)
        for part, truth, w in zip(parts, truths, given, strict=True)
    ]


def right_of_part(predicted: Any, y: Any, weights: Any) -> Floats:
    """Sum of weights, and that of the rows that are predicted right."""
    right, w = np.asarray(predicted) == np.asarray(y), _weights(weights, len(y))
    return np.array([w.sum(), w[right].sum()])


def squares_of_part(predicted: Any, y: Any, weights: Any) -> Sums:
    """Sum of weights, mean and scatter of the targets, squared errors."""
    truth: Array = np.asarray(y, dtype=np.float64)
    w = _weights(weights, len(truth))
    total = float(w.sum())
    mean = float(w @ truth) / total if total > 0 else 0.0
    errors = float(w @ (truth - np.asarray(predicted)) ** 2)
    return total, mean, float(w @ (truth - mean) ** 2), errors


def combine_sums(a: Sums, b: Sums) -> Sums:
    """The same for the rows of both."""
    total = a[0] + b[0]
    share, delta = b[0] / total if total > 0 else 0.0, b[1] - a[1]
    between = a[0] * share * delta**2
    return total, a[1] + share * delta, a[2] + b[2] + between, a[3] + b[3]


def _weights(weights: Any, n: int) -> Floats:
    return np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
