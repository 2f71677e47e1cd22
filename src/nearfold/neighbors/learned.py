"""A learned metric as an index: rows and queries raw outside, transformed inside.

A metric learner is anything with `get_mahalanobis_matrix` and `transform`. In its transformed
space the learned distance is the Euclidean one, so the rows are transformed once and searched by
the Euclidean index; queries are transformed when they arrive. Callers only ever see raw rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from nearfold.notation import Array, Floats, Ints
from nearfold.state import Sizes, State, array, fitted, nested, require

if TYPE_CHECKING:
    from nearfold.neighbors.approximate import ApproximateIndex
    from nearfold.neighbors.exact import EuclideanIndex


def is_learner(metric: Any) -> bool:
    """Whether a metric is an estimator that learns one (metrics/), rather than a name."""
    return hasattr(metric, "get_mahalanobis_matrix") and hasattr(metric, "transform")


def fitted_learner(metric: Any, X: Any, y: Any = None) -> Any:
    """The learner itself if it is fitted, otherwise a clone fitted on these rows.

    scikit-learn clones estimators without what they have learned, so in a cross-validation the
    metric is learned anew from the training rows of each fold.
    """
    if is_fitted(metric):
        return metric
    return clone(metric).fit(X) if y is None else clone(metric).fit(X, y)


def is_fitted(metric: Any) -> bool:
    """Whether a learner has learned."""
    try:
        check_is_fitted(metric, "components_")
    except NotFittedError:
        return False
    return True


def to_learned_space(learner: Any, X: Any) -> Array:
    """X in the learned space, where the metric is the Euclidean one."""
    Z = learner.transform(X)
    return np.ascontiguousarray(Z.to_numpy() if hasattr(Z, "to_numpy") else Z)


def _euclidean_index(value: Any, sizes: Sizes) -> None:
    from nearfold.neighbors.approximate import ApproximateIndex
    from nearfold.neighbors.exact import EuclideanIndex  # both of which import this module

    nested(EuclideanIndex, ApproximateIndex, n="n")(value, sizes)


def _check_space(values: dict[str, Any], sizes: Sizes) -> None:
    width = values["learner"].components_.shape[0]
    require(values["index"].X.shape[1] == width, "index: rows of another space than the learner's")


class LearnedIndex:
    """Rows under a learned metric; raw rows in, raw row numbers out."""

    fitted_state = State(
        _check_space,
        X=array("n d"),
        learner=fitted("get_mahalanobis_matrix", "transform", d="d"),
        index=_euclidean_index,
    )

    def __init__(self, X: Any, learner: Any, index: EuclideanIndex | ApproximateIndex) -> None:
        self.X = X.to_numpy() if hasattr(X, "to_numpy") else X
        self.learner = learner
        self.index = index  # of the transformed rows

    @property
    def n_rows(self) -> int:
        """Number of rows searched."""
        return self.index.n_rows

    def nearest(self, Q: Any, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        return self.index.nearest(self._transformed(Q), k)

    def within(self, Q: Any, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        return self.index.within(self._transformed(Q), radius)

    def part(self, rows: Any) -> LearnedIndex:
        """An index of some of the rows under the same learned metric."""
        return LearnedIndex(self.X[rows], self.learner, self.index.part(rows))

    def _transformed(self, Q: Any) -> Array | None:
        return None if Q is None else to_learned_space(self.learner, Q)
