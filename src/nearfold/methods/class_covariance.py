"""S_w of LDA: the covariance within classes, pooled, shrunk, or estimated class by class.

Not an estimator but the first step of LinearDiscriminantAnalysis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf
from sklearn.preprocessing import StandardScaler

from nearfold.blocks import ArrayRows, Rows, require_memory
from nearfold.errors import InputError
from nearfold.inputs import refuse_bad_sums
from nearfold.linalg import Grouping, Moments, table_moments
from nearfold.linalg.moments import product_dtype
from nearfold.linalg.within import Within, diagonalise, refine_small_variances
from nearfold.notation import Array, Floats


def shrink(S: Floats, amount: float) -> Floats:
    """Towards a multiple of the identity with the same trace."""
    target = np.trace(S) / len(S)
    return (1 - amount) * S + amount * target * np.eye(len(S))


def class_covariance_bytes(values: float) -> float:
    """What estimating the covariance of a class of so many values takes."""
    return 8.0 * 4 * values


def class_covariances(
    rows: Rows, grouping: Grouping, priors: Floats, estimator: Any = None
) -> Floats:
    """sum pi_c S_c of a table in memory, by the estimator, or by Ledoit and Wolf if None."""
    assert isinstance(rows, ArrayRows)
    X, label = rows.X, np.searchsorted(grouping.classes, np.asarray(rows.target))
    largest = int(np.bincount(label).max()) * X.shape[1]
    require_memory(
        class_covariance_bytes(largest),
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


@dataclass(frozen=True)
class CovarianceChoice:
    """The parameters of LDA that say how the covariance within classes is estimated."""

    solver: str
    shrinkage: Any
    priors: Any
    estimator: Any

    def __post_init__(self) -> None:
        if self.solver == "svd" and self.shrinkage is not None:
            raise NotImplementedError("shrinkage not supported with 'svd' solver.")
        if self.solver == "svd" and self.estimator is not None:
            raise InputError(
                "covariance estimator is not supported with svd solver. Try another solver"
            )
        if self.shrinks and self.estimator is not None:
            raise InputError(
                "covariance_estimator and shrinkage parameters are not None. Only one of the two "
                "can be set."
            )

    @property
    def shrinks(self) -> bool:
        """Whether the covariance is drawn towards the identity."""
        return self.shrinkage is not None and self.shrinkage != 0

    @property
    def estimates_classes(self) -> bool:
        """Whether each class's covariance must be estimated from its own rows."""
        return self.estimator is not None or self.shrinkage == "auto"

    def require_pooled(self, where: str) -> None:
        """Raise if the moments of all classes together do not tell the covariance."""
        if self.estimates_classes or (self.priors is not None and self.solver != "svd"):
            raise InputError(
                f"{where} keeps the pooled scatter of the classes, from which shrinkage='auto', a "
                "covariance_estimator, or the priors of 'eigen' and 'lsqr' cannot be had; use "
                "solver='svd' or a fixed shrinkage, or fit all rows at once."
            )

    def pooled(self, moments: Moments) -> Floats:
        """S_w from the moments of the classes."""
        S_w = moments.scatter / moments.n_rows
        return shrink(S_w, float(self.shrinkage)) if self.shrinks else S_w


def within_classes(
    rows: Rows, classes: Array, counts: Floats, pi: Floats, choice: CovarianceChoice, tol: float
) -> tuple[Floats, Floats, Within]:
    """The class means, S_w, and S_w in the form in which it is whitened."""
    # With given priors `eigen` and `lsqr` pool sum pi_c S_c, not the rows as they are.
    weighs = choice.solver != "svd" and choice.priors is not None
    grouping = Grouping(classes, pi * counts.sum() / counts if weighs else None)
    products = product_dtype(rows.dtype, rows.n_rows, rows.n_features)
    moments = table_moments(rows, products, grouping=grouping)
    refuse_bad_sums(rows, moments.total + 0.0 * float(moments.mean.sum()))
    n, mu_c = moments.n_rows, moments.mean
    if choice.estimates_classes:
        S_w = class_covariances(rows, grouping, pi, choice.estimator)
        return mu_c, S_w, diagonalise(S_w)
    S_w = choice.pooled(moments)
    within = diagonalise(S_w)
    if not choice.shrinks:
        within = refine_small_variances(within, rows, grouping, mu_c, n, products, tol)
    return mu_c, S_w, within
