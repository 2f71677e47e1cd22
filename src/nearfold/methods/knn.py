"""k-nearest-neighbour learning (section 10.1): vote for a class, average for a number.

Symbols: y the targets of the fitted rows; for a query, N its neighbours (k of them, or all
within a radius) and w_j their weights.

    classification   P(c | q) = sum_{j in N, y_j = c} w_j / sum_{j in N} w_j, the largest wins
    regression       y(q)     = sum_{j in N} w_j y_j / sum_{j in N} w_j

Weights: `uniform` 1; `distance` 1 / d, where exact matches (d = 0) vote alone; or a callable of
the distances.

`sample_weight` given to `fit` says how often a row counts: weight 2 is the row twice, weight 0
no row at all. The k nearest are then the nearest rows whose weights sum to k, the last of them
counted only as far as needed.

Ties: equal distances at the k-th place go to the smaller row number; equal votes to the class
that comes first in `classes_`. Asked without X, each fitted row is predicted from the others
(leave one out).

Cost: that of the search (neighbors/), plus O(m k).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from nearfold.errors import InputError
from nearfold.inputs import check_weights
from nearfold.methods.neighbor_search import KNeighborsMixin, NeighborSearch
from nearfold.notation import Array, Floats, Ints

_CELLS = 4_000_000  # votes counted at a time
HUGE = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Neighborhoods:
    """Neighbours of m queries, query after query, with the weight of each."""

    query: Ints
    row: Ints
    weight: Floats
    m: int

    def parts(self, cells_per_query: int) -> Iterator[tuple[slice, slice]]:
        """Slices of queries and of their neighbours, so that a table over them stays small."""
        step = max(1, _CELLS // max(1, cells_per_query))
        starts = np.arange(0, self.m, step)
        ends = np.minimum(starts + step, self.m)
        first, last = np.searchsorted(self.query, starts), np.searchsorted(self.query, ends)
        for a, b, i, j in zip(starts, ends, first, last, strict=True):
            yield slice(a, b), slice(i, j)


def weigh(weights: str | Callable[[Any], Any] | None, distance: Floats, counted: Floats) -> Floats:
    """Weights of neighbours in lists of equal length (m, k), each counted so many times."""
    if weights in (None, "uniform"):
        return counted
    if weights == "distance":
        exact = ((distance == 0) & (counted > 0)).any(axis=1, keepdims=True)
        nearest = np.min(distance, axis=1, where=distance > 0, initial=np.inf, keepdims=True)
        return counted * inverse_distances(distance, np.minimum(nearest, HUGE), exact)
    if callable(weights):
        return counted * np.asarray(weights(distance), dtype=np.float64)
    raise InputError(f"weights={weights!r}: use 'uniform', 'distance' or a callable.")


def count_until(row_weight: Floats, k: float) -> Floats:
    """How often each neighbour counts, given weights (m, asked) nearest first: k in all."""
    before = np.cumsum(row_weight, axis=1) - row_weight
    return np.clip(k - before, 0.0, row_weight)


def inverse_distances(distance: Floats, nearest: Floats, exact: Array) -> Floats:
    """1 / d; where a query has an exact match (`exact`) only its matches weigh, and equally.

    In units of 1 / the nearest distance, so that tiny distances do not overflow.
    """
    positive = np.where(distance == 0, 1.0, distance)
    return np.where(exact, (distance == 0).astype(np.float64), nearest / positive)


def count_votes(near: Neighborhoods, label: Ints, n_classes: int) -> Floats:
    """Weight (m, n_classes) that each query's neighbours give to each class."""
    votes = np.empty((near.m, n_classes))
    for queries, pairs in near.parts(n_classes):
        cell = (near.query[pairs] - queries.start) * n_classes + label[near.row[pairs]]
        size = (queries.stop - queries.start) * n_classes
        votes[queries] = np.bincount(cell, near.weight[pairs], size).reshape(-1, n_classes)
    return votes


def average(near: Neighborhoods, y: Floats) -> Floats:
    """Weighted means (m, outputs) of the neighbours' targets; NaN where there is no weight."""
    total = np.bincount(near.query, near.weight, near.m)
    means = np.empty((near.m, y.shape[1]))
    with np.errstate(invalid="ignore"):  # 0 / 0: no neighbour, no answer
        for output in range(y.shape[1]):
            weighted = near.weight * y[near.row, output]
            means[:, output] = np.bincount(near.query, weighted, near.m) / total
    return means


class _ByNumber(KNeighborsMixin, NeighborSearch):
    """Neighbourhoods of the k nearest."""

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: Any = "uniform",
        algorithm: str = "auto",
        leaf_size: int = 30,
        p: float = 2,
        metric: Any = "minkowski",
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.p = p
        self.metric = metric
        self.metric_params = metric_params
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _neighborhoods(self, X: Any) -> Neighborhoods:
        distance, row, counted = self._counted_neighbors(X)
        m, k = row.shape
        weight = weigh(self.weights, distance, counted)
        return Neighborhoods(np.repeat(np.arange(m), k), row.ravel(), weight.ravel(), m)

    def _counted_neighbors(self, X: Any) -> tuple[Floats, Ints, Floats]:
        """The nearest rows, as many as it takes for their weights to sum to k."""
        check_is_fitted(self)
        if self._row_weight is None:
            distance, row = self._nearest(X, None)
            return distance, row, np.ones(distance.shape)
        k, most = self.n_neighbors, self.n_samples_fit_ - (X is None)
        if k > self._row_weight.sum():
            raise InputError(
                f"n_neighbors={k} is more than all sample weights together "
                f"({self._row_weight.sum():g}), which is how many rows they stand for."
            )
        distance, row = self._nearest(X, min(k, most))
        while row.shape[1] < most and (self._row_weight[row].sum(axis=1) < k).any():
            distance, row = self._nearest(X, min(2 * row.shape[1], most))
        return distance, row, count_until(self._row_weight[row], k)


class NeighborClassifier(ClassifierMixin, NeighborSearch):
    """Stores classes at fit; predicts the class with the most weight among the neighbours."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Store the rows, their classes and, if given, their weights."""
        self._fit(X, y)
        y = _check_target(self, y, numeric=False)
        check_classification_targets(y)
        self.outputs_2d_ = y.ndim == 2
        columns = y.reshape(len(y), -1)
        found = [np.unique(column, return_inverse=True) for column in columns.T]
        self._label = np.column_stack([label for _, label in found])
        self.classes_: Any = [classes for classes, _ in found]
        if not self.outputs_2d_:
            self.classes_ = self.classes_[0]
        self._row_weight = check_weights(sample_weight, self.index_.X)
        self._after_fit(columns)
        return self

    def _after_fit(self, y: Array) -> None:
        """A place for what depends on the classes."""

    def _class_lists(self) -> list[Array]:
        return list(self.classes_) if self.outputs_2d_ else [self.classes_]

    def _votes(self, X: Any) -> list[Floats]:
        near = self._neighborhoods(X)
        return [
            count_votes(near, self._label[:, output], len(classes))
            for output, classes in enumerate(self._class_lists())
        ]

    def predict(self, X: Any) -> Array:
        """The class of each row of X; of each fitted row, by the others, if X is None."""
        all_votes = self._votes(X)
        winners = [
            self._winners(votes, classes, output)
            for output, (votes, classes) in enumerate(
                zip(all_votes, self._class_lists(), strict=True)
            )
        ]
        return np.column_stack(winners) if self.outputs_2d_ else winners[0]

    def _winners(self, votes: Floats, classes: Array, output: int) -> Array:
        return np.asarray(classes[np.argmax(votes, axis=1)])

    def predict_proba(self, X: Any) -> Any:
        """The share of the neighbours' weight that each class holds, columns as `classes_`."""
        shares = []
        for output, votes in enumerate(self._votes(X)):
            completed = self._complete(votes, output)
            total = completed.sum(axis=1, keepdims=True)
            shares.append(completed / np.where(total == 0, 1.0, total))
        return shares if self.outputs_2d_ else shares[0]

    def _complete(self, votes: Floats, output: int) -> Floats:
        return votes

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on X and y; leave-one-out accuracy on the fitted rows if X is None."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags


class NeighborRegressor(RegressorMixin, NeighborSearch):
    """Stores targets at fit; predicts the weighted mean of the neighbours' targets."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Store the rows, their targets and, if given, their weights."""
        self._fit(X, y)
        self._y = _check_target(self, y, numeric=True)
        self._row_weight = check_weights(sample_weight, self.index_.X)
        return self

    def predict(self, X: Any) -> Floats:
        """The mean target of each row's neighbours; of the fitted rows' if X is None."""
        near = self._neighborhoods(X)
        means = average(near, self._y.reshape(len(self._y), -1))
        if np.isnan(means).any():
            empty = int(np.isnan(means).any(axis=1).sum())
            warnings.warn(
                f"{empty} of {near.m} rows have no neighbour with a weight; their prediction is "
                "NaN. A larger radius, or n_neighbors, would reach some.",
                stacklevel=2,
            )
        return means if self._y.ndim == 2 else means[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 on X and y; leave-one-out R^2 on the fitted rows if X is None."""
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _check_target(estimator: Any, y: Any, *, numeric: bool) -> Array:
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target "
            "y is None."
        )
    y = check_array(y, ensure_2d=False, dtype=np.float64 if numeric else None, input_name="y")
    check_consistent_length(estimator.index_.X, y)
    if y.ndim == 2 and y.shape[1] == 1 and not numeric:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; it is taken as one "
            "target. Use y.ravel().",
            DataConversionWarning,
            stacklevel=3,
        )
        y = y.ravel()
    return np.asarray(y)


class KNeighborsClassifier(_ByNumber, NeighborClassifier):
    """Classify by the vote of the k nearest fitted rows.

    Parameters are scikit-learn's; `fit` also takes `sample_weight`. `algorithm` and
    `leaf_size` reach scikit-learn for metrics other than the Euclidean one. `metric` may also be a
    metric learner such as `NCA()`: a fitted one is used as it is, another is fitted on the same
    rows and classes; rows are transformed once and searched by the Euclidean engine.

    Examples
    --------
    >>> from nearfold import KNeighborsClassifier
    >>> model = KNeighborsClassifier(n_neighbors=3).fit([[0], [1], [2], [3]], [0, 0, 1, 1])
    >>> model.predict([[1.1]])
    array([0])
    """


class KNeighborsRegressor(_ByNumber, NeighborRegressor):
    """Predict the mean target of the k nearest fitted rows.

    Parameters are scikit-learn's; `fit` also takes `sample_weight`.

    Examples
    --------
    >>> from nearfold import KNeighborsRegressor
    >>> KNeighborsRegressor(n_neighbors=2).fit([[0], [1], [2]], [0, 1, 2]).predict([[1.6]])
    array([1.5])
    """
