"""The pooled covariance of classes, shrunk or estimated class by class, for LDA."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf
from sklearn.preprocessing import StandardScaler

from nearfold.blocks import ArrayRows, Rows, require_memory
from nearfold.errors import InputError
from nearfold.linalg import Grouping
from nearfold.notation import Array, Floats


def shrink(S: Floats, amount: float) -> Floats:
    """Towards a multiple of the identity with the same trace."""
    target = np.trace(S) / len(S)
    return (1 - amount) * S + amount * target * np.eye(len(S))


def class_covariances(
    rows: Rows, grouping: Grouping, priors: Floats, estimator: Any = None
) -> Floats:
    """sum pi_c S_c of a table in memory, by the estimator, or by Ledoit and Wolf if None."""
    assert isinstance(rows, ArrayRows)
    X, label = rows.X, np.searchsorted(grouping.classes, np.asarray(rows.target))
    largest = int(np.bincount(label).max()) * X.shape[1]
    require_memory(
        8.0 * 4 * largest,
        f"Estimating the covariance of a class of {largest:,} values",
        "Use a fixed shrinkage, or fewer rows.",
    )
    total = np.zeros((X.shape[1], X.shape[1]))
    for c, prior in enumerate(priors):
        total += prior * np.atleast_2d(_covariance(X[label == c], estimator))
    return total


def _covariance(X: Array, estimator: Any) -> Floats:
    if estimator is None:
        scaler = StandardScaler()
        S = ledoit_wolf(scaler.fit_transform(X))[0]
        return np.asarray(S * np.outer(scaler.scale_, scaler.scale_))
    fitted = clone(estimator, safe=False)  # anything with fit and covariance_ will do
    fitted.fit(X)
    if not hasattr(fitted, "covariance_"):
        raise InputError(f"{type(fitted).__name__} does not have a covariance_ attribute")
    return np.asarray(fitted.covariance_)
