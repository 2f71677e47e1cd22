"""The classical Mahalanobis distance (10.33): M is the inverse of the covariance of the rows.

Distances then count every direction in units of the spread of the data in it, and do not change
if the columns are mixed by an invertible matrix. No labels are used.

Where the covariance is singular M is its pseudo-inverse: directions in which the rows do not vary
carry no distance.

Cost: O(m d min(m, d)) time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.inputs import check_table, refuse_overflow, refuse_vanishing
from nearfold.linalg import thin_svd
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.tuples import look_up
from nearfold.notation import Array, Floats


def inverse_root_of_covariance(X: Array) -> Floats:
    """L (r, d) with L^T L the (pseudo-)inverse of the covariance: axes over their spread."""
    m = len(X)
    centred = X - X.mean(axis=0, dtype=np.float64)
    total = float(np.einsum("ij,ij->", centred, centred))
    refuse_overflow(total, X)
    refuse_vanishing(total, X, X.dtype)
    _, s, axes = thin_svd(centred, "the centred rows")  # of the rows: it does not square errors
    # Deviations of values that are themselves rounded are known to eps times the values.
    noise = float(np.finfo(X.dtype).eps) * float(np.abs(X).max()) * np.sqrt(m)
    keep = s > max(max(X.shape) * np.finfo(np.float64).eps * s[:1].max(initial=0.0), noise)
    if not keep.any():
        raise InputError("all rows are equal: there is no spread to measure distances by.")
    return np.asarray(axes[keep] * (np.sqrt(m - 1) / s[keep])[:, None])


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
