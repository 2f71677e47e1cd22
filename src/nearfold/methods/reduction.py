"""What methods of dimensionality reduction have in common: scikit-learn's conventions.

Not an estimator but the base of those that transform.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from nearfold.blocks.lazy import LazyOnDask
from nearfold.notation import Floats
from nearfold.state import State, names, size

# Every fitted state begins with the columns of the rows.
COLUMNS = State(
    _optional=("feature_names_in_",), n_features_in_=size("d", 1), feature_names_in_=names("d")
)


def padded(A: Floats, k: int) -> Floats:
    """A with zeros up to k columns (k entries): a number that is asked for is a contract."""
    missing = k - A.shape[-1]
    return np.pad(A, [(0, 0)] * (A.ndim - 1) + [(0, missing)]) if missing > 0 else A


class Reduction(LazyOnDask, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Gives columns that have names, float32 for float32; subclasses say `_n_features_out`."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class Embedding(Reduction):
    """A reduction that is the coordinates `embedding_` of the fitted rows."""

    embedding_: Floats

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Fit, and return `embedding_`."""
        return self.fit(X, y).embedding_

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])
