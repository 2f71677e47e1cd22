"""Neighbour learning by radius (section 10.1): all fitted rows within a distance vote or average.

The votes, averages and weights are those of knn.py; a neighbourhood may hold any number of rows,
or none. Where there is none the regressor answers NaN, with a warning, and the classifier refuses
unless it was given an `outlier_label`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.methods.knn import (
    HUGE,
    NeighborClassifier,
    Neighborhoods,
    NeighborRegressor,
    inverse_distances,
    weigh,
)
from nearfold.methods.neighbor_search import NeighborSearch, RadiusNeighborsMixin
from nearfold.notation import Array, Floats


class _ByRadius(RadiusNeighborsMixin, NeighborSearch):
    """Neighbourhoods of all within a radius."""

    def __init__(
        self,
        radius: float = 1.0,
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
        self.radius = radius
        self.weights = weights
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.p = p
        self.metric = metric
        self.metric_params = metric_params
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _neighborhoods(self, X: Any) -> Neighborhoods:
        query, row, distance, m = self._within(X, None)
        counted = np.ones(len(row)) if self._row_weight is None else self._row_weight[row]
        if self.weights == "distance":
            exact = np.bincount(query[(distance == 0) & (counted > 0)], minlength=m) > 0
            nearest = np.full(m, HUGE)
            np.minimum.at(nearest, query[distance > 0], distance[distance > 0])
            weight = counted * inverse_distances(distance, nearest[query], exact[query])
        elif callable(self.weights):
            ends = np.searchsorted(query, np.arange(1, m))
            parts = [self.weights(part) for part in np.split(distance, ends)]
            weight = counted * np.concatenate([np.asarray(p, dtype=np.float64) for p in parts])
        else:
            weight = weigh(self.weights, distance, counted)
        return Neighborhoods(query, row, weight, m)


class RadiusNeighborsRegressor(_ByRadius, NeighborRegressor):
    """Predict the mean target of all fitted rows within a radius; NaN where there is none.

    Parameters are scikit-learn's; `fit` also takes `sample_weight`.
    """


class RadiusNeighborsClassifier(_ByRadius, NeighborClassifier):
    """Classify by the vote of all fitted rows within a radius.

    Parameters are scikit-learn's; `fit` also takes `sample_weight`. A query with no row in
    reach is an error, unless `outlier_label` gives it a label (or "most_frequent").
    """

    def __init__(
        self,
        radius: float = 1.0,
        *,
        weights: Any = "uniform",
        algorithm: str = "auto",
        leaf_size: int = 30,
        p: float = 2,
        metric: Any = "minkowski",
        outlier_label: Any = None,
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.radius = radius
        self.weights = weights
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.p = p
        self.metric = metric
        self.outlier_label = outlier_label
        self.metric_params = metric_params
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _after_fit(self, y: Array) -> None:
        """Fix the label of outliers, one per output."""
        lists = self._class_lists()
        self.outlier_label_: Any = None
        if self.outlier_label is None:
            return
        if isinstance(self.outlier_label, str) and self.outlier_label == "most_frequent":
            labels = [
                classes[np.bincount(self._label[:, output], self._row_weight).argmax()]
                for output, classes in enumerate(lists)
            ]
        elif isinstance(self.outlier_label, list | tuple | np.ndarray):
            labels = list(self.outlier_label)
            if len(labels) != len(lists):
                raise InputError(
                    f"outlier_label has {len(labels)} labels, and there are {len(lists)} outputs."
                )
        else:
            labels = [self.outlier_label] * len(lists)
        for classes, label in zip(lists, labels, strict=True):
            if np.ndim(label) > 0 or not np.can_cast(
                np.asarray(label).dtype, classes.dtype, "same_kind"
            ):
                raise TypeError(
                    f"The outlier_label of classes {classes} is supposed to be a scalar of the "
                    f"same dtype as y, but is {label!r}."
                )
        self.outlier_label_ = labels

    def _outliers(self, votes: Floats) -> Array:
        """Rows that nobody votes for; an error if there is no label for them."""
        alone = votes.sum(axis=1) == 0
        if alone.any() and self.outlier_label_ is None:
            raise InputError(
                f"No neighbors found for {int(alone.sum())} rows (first: "
                f"{np.flatnonzero(alone)[:5].tolist()}): use a larger radius, give them an "
                "outlier_label, or leave them out."
            )
        return alone

    def _winners(self, votes: Floats, classes: Array, output: int) -> Array:
        alone = self._outliers(votes)
        winners = super()._winners(votes, classes, output)
        if alone.any():
            label = np.asarray(self.outlier_label_[output])
            winners = winners.astype(np.result_type(winners, label))
            winners[alone] = label
        return winners

    def _complete(self, votes: Floats, output: int) -> Floats:
        """An outlier has all its weight on its label, if that is a class, and else none."""
        alone = self._outliers(votes)
        if alone.any():
            label = self.outlier_label_[output]
            place = np.flatnonzero(self._class_lists()[output] == label)
            if len(place):
                votes[alone, place[0]] = 1.0
            else:
                warnings.warn(
                    f"Outlier label {label} is not in training classes. All class probabilities "
                    "of outliers will be assigned with 0.",
                    stacklevel=3,
                )
        return votes
