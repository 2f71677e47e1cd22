"""Dissimilarities between rows: a given matrix, or measured by a metric, which may be learned.

Not an estimator but what ClassicalMDS and MDS share.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from nearfold.blocks import Block, Rows, require_memory, spans
from nearfold.errors import InputError
from nearfold.inputs import refuse_extreme, refuse_nonfinite, take_finite
from nearfold.messages import Message
from nearfold.methods.landmark_mds import (
    candidates,
    farthest_rows,
    landmarks_of_table,
    spread_landmarks,
    spread_over_table,
)
from nearfold.neighbors import is_euclidean
from nearfold.neighbors.distances import Distances
from nearfold.neighbors.learned import fitted_learner, is_learner, to_learned_space
from nearfold.neighbors.metric_state import check_metric_name
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order
from nearfold.state import Sizes, fitted, optional, require


def is_precomputed(metric: Any) -> bool:
    """Whether rows are given as their dissimilarities."""
    return isinstance(metric, str) and metric == "precomputed"


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


def by_features(metric: Any, params: dict[str, Any] | None, p: float = 2) -> bool:
    """Whether distances are the Euclidean ones of features, or of learned ones."""
    return is_learner(metric) or (not callable(metric) and is_euclidean(metric, p, params))


def require_euclidean(
    estimator: Any, metric: Any, params: dict[str, Any] | None, p: float = 2
) -> None:
    """Raise unless rows on a cluster are measured by the Euclidean metric."""
    if is_learner(metric) or not by_features(metric, params, p):
        raise InputError(Message("cluster.euclidean", name=type(estimator).__name__))


learner_state = optional(fitted("get_mahalanobis_matrix", "transform", d="d"))


def check_landmarks(values: dict[str, Any], sizes: Sizes) -> None:
    """Without landmarks every row is one; a metric that is named is a known one."""
    require(min(sizes["m"], sizes.get("l", 1)) >= 1, "no rows")
    require(values["landmarks_"] is not None or sizes.get("l", sizes["m"]) == sizes["m"], "sizes")
    require(values.get("n_components", sizes["k"]) == sizes["k"], "n_components: other axes")
    learner = values["metric_learner_"]
    width = sizes["d"] if learner is None else learner.components_.shape[0]
    require(sizes.get("w", width) == width, "rows of another space")
    metric = values.get("metric")
    named = [name for name in (metric, values.get("dissimilarity")) if isinstance(name, str)]
    given = "precomputed" in named
    require(not given or sizes["d"] == sizes["m"], "precomputed: not as many columns as rows")
    if isinstance(metric, str):
        check_metric_name(metric, values["metric_params"], sizes)


class Dissimilarities:
    """Of the rows of X, which are in the learned space if the metric is a learned one."""

    def __init__(
        self, X: Array, metric: Any, params: dict[str, Any] | None, n_jobs: int | None = None
    ) -> None:
        self.X = X
        self.n_jobs = n_jobs
        self.measure: Distances | None = None  # None: X holds the dissimilarities
        self.columns: Ints | None = None
        if is_learner(metric):
            self.measure = Distances(X, n_jobs=n_jobs)
        elif not is_precomputed(metric):
            self.measure = Distances(X, metric, params, n_jobs=n_jobs)

    @classmethod
    def to_landmarks_of(
        cls, rows: Rows, count: int, n_jobs: int | None
    ) -> tuple[Ints, Dissimilarities]:
        """Landmarks spread over rows of features, wherever these are, and distances to them."""
        some = candidates(int(rows.n_rows or 0), count)
        X = take_finite(rows, some)
        chosen = landmarks_of_table(Distances(X, n_jobs=n_jobs), count)
        return some[chosen], cls(X[chosen], "euclidean", None, n_jobs)

    def among(self, rows: Ints | None) -> Dissimilarities:
        """Dissimilarities to some of the rows only; None: to all."""
        part = copy(self)
        if rows is not None:
            part.columns = rows
            part.measure = None if self.measure is None else self.measure.among(rows)
        return part

    def all(self, dtype: Any = np.float64) -> Floats:
        """The symmetric matrix between all rows."""
        if self.measure is None:
            return np.asarray(self.X, dtype=dtype)
        return self.measure.all(dtype)

    def to_landmarks(self, count: int, dtype: Any) -> tuple[Ints, Floats]:
        """Landmarks spread over the rows, and the dissimilarities (m, count) to them."""
        if self.measure is None:
            return spread_landmarks(self._row, len(self.X), count, dtype)
        return spread_over_table(self.measure, count, dtype)

    def among_landmarks(self, count: int) -> tuple[Ints, Floats]:
        """The same landmarks, and the dissimilarities (count, count) between them alone."""
        if self.measure is None:
            rows = np.array([row for row, _ in farthest_rows(self._row, len(self.X), count)])
            return rows, np.asarray(self.X[np.ix_(rows, rows)], dtype=np.float64)
        rows = landmarks_of_table(self.measure, count)
        return rows, self.measure.among(rows).all()

    def _row(self, i: int) -> Array:
        return np.asarray(self.X[i])

    def between(self, Q: Array) -> Array:
        """Dissimilarities of other rows to these, in one piece."""
        if self.measure is None:
            return Q if self.columns is None else Q[:, self.columns]
        return self.measure.between(Q, self.measure.X)

    def place(
        self, Q: Array, task: Callable[[Array], Any], cells: int, label: str | None = None
    ) -> list[Any]:
        """What a task makes of the dissimilarities of rows Q, at most `cells` of them at a time."""
        n = len(self.X) if self.columns is None else len(self.columns)
        parts = spans(len(Q), max(1, cells // max(1, n, Q.shape[1])))
        return list(
            map_in_order(
                lambda some: task(self.between(Q[some])), parts, n_jobs=self.n_jobs, label=label
            )
        )

    def place_rows(
        self, rows: Rows, task: Callable[[Array], Any], width: int, cells: int
    ) -> list[Any]:
        """The same of all rows of a table, block by block where these are.

        What the task makes of a row, `width` numbers, comes here.
        """
        size = 16.0 * int(rows.n_rows or 0) * width  # the pieces, and once more when joined
        require_memory(size, f"The coordinates of {rows.describe()}", "Use a sample of the rows.")
        names = rows.feature_names
        of_block = partial(_place_block, measure=self, task=task, cells=cells, names=names)
        return [part for block in rows.mapped(of_block) for part in block]


def _place_block(
    block: Block, measure: Dissimilarities, task: Callable[[Array], Any], cells: int, names: Any
) -> list[Any]:
    size = refuse_nonfinite(block.X, names, block.start)
    refuse_extreme(max(size, 1.0), np.float64)
    return measure.place(block.dense(), task, cells)
