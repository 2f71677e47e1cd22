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

from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context

from nearfold.blocks import Rows, is_streamed
from nearfold.errors import InputError
from nearfold.inputs import open_rows, refuse_bad_sums
from nearfold.linalg.moments import table_spread
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.parameters import COMMON
from nearfold.metrics.tuples import read_points
from nearfold.metrics.whitening import centred_factor, rounding_of_rows, whiten_factor
from nearfold.notation import Floats


def inverse_root_of_covariance(rows: Rows) -> Floats:
    """L (r, d) with L^T L the (pseudo-)inverse of the covariance matrix."""
    n, mean, total = table_spread(rows)
    refuse_bad_sums(rows, total)
    if n < 2:
        raise InputError("a covariance needs at least two rows.")
    R, rounding = centred_factor(rows, mean, "The covariance"), rounding_of_rows(rows)
    A = whiten_factor(R, n - 1, rounding)
    if A.shape[1] < np.count_nonzero(A.any(axis=1)):  # singular: the pseudo-inverse
        A = whiten_factor(R, n - 1, rounding, scale=False)
    if A.shape[1] == 0:
        raise InputError("all rows are equal: there is no spread to measure distances by.")
    return np.asarray(A.T)


class Covariance(MahalanobisMetric):
    """The Mahalanobis distance of the data's own covariance; needs no labels.

    Parameters
    ----------
    preprocessor : array-like or callable, default=None
        Table (or function) in which ids given instead of rows are looked up.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import Covariance
    >>> X = np.array([[0.0, 0.0], [10.0, 1.0], [0.0, 1.0], [10.0, 0.0]])
    >>> Covariance().fit(X).get_mahalanobis_matrix().round(3)
    array([[0.03, 0.  ],
           [0.  , 3.  ]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = COMMON
    needs_target = False

    def __init__(self, preprocessor: Any = None) -> None:
        self.preprocessor = preprocessor

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Covariance:
        """Find the inverse covariance of the rows of X, which may be a file or a Dask table."""
        given = X if is_streamed(X) and self.preprocessor is None else read_points(self, X)
        rows = open_rows(self, given, ensure_min_samples=2)
        self._set_map(inverse_root_of_covariance(rows), rows.dtype)
        return self
