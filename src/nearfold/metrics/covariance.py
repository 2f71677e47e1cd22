"""The classical Mahalanobis distance (10.33): M is the inverse of the covariance of the rows.

Distances then count every direction in units of the spread of the data in it, and do not change
if the columns are mixed by an invertible matrix. No labels are used.

Where the covariance is singular M is its pseudo-inverse: directions in which the rows do not vary
carry no distance.

The rows are factored in blocks (TSQR) and the axes are the singular vectors of the small factor, so
that small variances keep their digits.

Cost: O(m d min(m, d)) time, memory for some blocks of rows and O(d min(m, d)).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.inputs import check_table, refuse_overflow, refuse_vanishing
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.preparation import rounding_of
from nearfold.metrics.tuples import look_up
from nearfold.metrics.whitening import centred_factor, whiten_factor
from nearfold.notation import Array, Floats


def inverse_root_of_covariance(X: Array) -> Floats:
    """L (r, d) with L^T L the (pseudo-)inverse of the covariance matrix."""
    R = centred_factor(X, "The covariance")
    total = float(np.einsum("ij,ij->", R, R))
    refuse_overflow(total, X)
    refuse_vanishing(total, X, X.dtype)
    A = whiten_factor(R, len(X) - 1, rounding_of(X))
    if A.shape[1] < np.count_nonzero(A.any(axis=1)):  # singular: the pseudo-inverse
        A = whiten_factor(R, len(X) - 1, rounding_of(X), scale=False)
    if A.shape[1] == 0:
        raise InputError("all rows are equal: there is no spread to measure distances by.")
    return np.asarray(A.T)


class Covariance(MahalanobisMetric):
    """The Mahalanobis distance of the data's own covariance; needs no labels.

    Parameters are metric-learn's. `preprocessor`: a table in which ids given to `transform` and
    `pair_distance` are looked up.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import Covariance
    >>> X = np.array([[0.0, 0.0], [10.0, 1.0], [0.0, 1.0], [10.0, 0.0]])
    >>> Covariance().fit(X).get_mahalanobis_matrix().round(3)
    array([[0.03, 0.  ],
           [0.  , 3.  ]])
    """

    def __init__(self, preprocessor: Any = None) -> None:
        self.preprocessor = preprocessor

    def fit(self, X: Any, y: Any = None) -> Covariance:
        """Find the inverse covariance of the rows of X."""
        X = check_table(self, look_up(self.preprocessor, X), reset=True, ensure_min_samples=2)
        self._set_map(inverse_root_of_covariance(X), X.dtype)
        return self
