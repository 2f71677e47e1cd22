"""Dissimilarities between rows: a given matrix, or measured by a metric, which may be learned.

Not an estimator but what ClassicalMDS and MDS share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.methods.landmark_mds import spread_landmarks, spread_over_table
from nearfold.neighbors.distances import Distances
from nearfold.neighbors.learned import fitted_learner, is_learner, to_learned_space
from nearfold.notation import Array, Floats, Ints


def learn_metric(metric: Any, X: Array, given: Any, y: Any) -> tuple[Any, Array]:
    """The fitted metric learner (None for any other metric), and the rows as they are measured.

    `given` is X as the caller passed it: a learner looks at column names too.
    """
    if not is_learner(metric):
        return None, X
    source = given if hasattr(given, "columns") else X
    learner = fitted_learner(metric, source, y)
    return learner, to_learned_space(learner, source)


def in_learned_space(learner: Any, X: Array, given: Any) -> Array:
    """Other rows as they are measured."""
    if learner is None:
        return X
    return to_learned_space(learner, given if hasattr(given, "columns") else X)


class Dissimilarities:
    """Of the rows of X, which are in the learned space if the metric is a learned one."""

    def __init__(
        self, X: Array, metric: Any, params: dict[str, Any] | None, n_jobs: int | None = None
    ) -> None:
        self.X = X
        self.precomputed = isinstance(metric, str) and metric == "precomputed"
        self.measure: Distances | None = None
        if not self.precomputed:
            learned = is_learner(metric)
            self.measure = Distances(
                X, "euclidean" if learned else metric, None if learned else params, n_jobs=n_jobs
            )

    def all(self, dtype: Any = np.float64) -> Floats:
        """The symmetric matrix between all rows."""
        if self.measure is None:
            return np.asarray(self.X, dtype=dtype)
        return self.measure.all(dtype)

    def to_landmarks(self, count: int, dtype: Any) -> tuple[Ints, Floats]:
        """Landmarks spread over the rows, and the dissimilarities (m, count) to them."""
        if self.measure is None:
            return spread_landmarks(lambda i: self.X[i], len(self.X), count, dtype)
        return spread_over_table(self.measure, count, dtype)

    def from_rows(self, Q: Array, landmarks: Ints | None) -> Array:
        """Dissimilarities of other rows to all rows, or to the landmarks."""
        if self.measure is None:
            return Q if landmarks is None else Q[:, landmarks]
        among = self.measure if landmarks is None else self.measure.among(landmarks)
        return among.from_rows(Q)
