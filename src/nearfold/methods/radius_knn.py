"""Neighbour learning by radius (section 10.1): all fitted rows within a distance vote or average.

The votes, averages and weights are those of voting.py; a neighbourhood may hold any number of rows,
or none. Where there is none the regressor answers NaN, with a warning, and the classifier refuses
unless it was given an `outlier_label`.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, _fit_context

from nearfold.errors import InputError, warn
from nearfold.methods.neighbor_base import (
    RADIUS,
    SEARCH,
    WEIGHTS,
    NeighborsEstimator,
    RadiusNeighborsMixin,
)
from nearfold.methods.neighbor_predict import (
    CLASSIFIER_STATE,
    REGRESSOR_STATE,
    AveragingMixin,
    VotingMixin,
    labels_in_range,
)
from nearfold.methods.voting import Neighborhoods, radius_neighborhoods
from nearfold.notation import Array, Floats, Ints
from nearfold.state import Sizes, list_of, optional, require


class _RadiusEstimator(RadiusNeighborsMixin, NeighborsEstimator):
    """Neighbourhoods of all within a radius."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SEARCH,
        "radius": RADIUS,
        "weights": WEIGHTS,
    }

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
        super().__init__(algorithm, leaf_size, metric, p, metric_params, n_jobs, verbose)
        self.radius = radius
        self.weights = weights

    def _neighborhoods(self, Q: Any) -> Iterator[Neighborhoods]:
        return radius_neighborhoods(
            self.index_, Q, float(self.radius), self.weights, self._row_weight
        )


class RadiusNeighborsRegressor(AveragingMixin, RegressorMixin, _RadiusEstimator):
    """Predict the mean target of all fitted rows within a radius; NaN where there is none.

    Parameters
    ----------
    radius : float, default=1.0
        Radius of the neighbourhoods.
    weights : {"uniform", "distance"}, callable or None, default="uniform"
        Weight of a neighbour by its distance.
    algorithm, leaf_size, p, metric, metric_params, n_jobs, verbose
        As in `NearestNeighbors`.

    Attributes
    ----------
    index_, effective_metric_, effective_metric_params_, n_samples_fit_, n_features_in_
        As in `NearestNeighbors`.
    """

    fitted_state = REGRESSOR_STATE


def _check_outlier_labels(values: dict[str, Any], sizes: Sizes) -> None:
    labels_in_range(values, sizes)
    classes = values["classes_"] if values["outputs_2d_"] else [values["classes_"]]
    for known, label in zip(classes, values["outlier_label_"] or classes, strict=True):
        if values["outlier_label_"] is not None:
            texts = isinstance(known.tolist()[0], str), isinstance(label, str)
            scalar = isinstance(label, str | int | float | np.generic)
            require(scalar and texts[0] == texts[1], "outlier_label_: of another kind")


class RadiusNeighborsClassifier(VotingMixin, ClassifierMixin, _RadiusEstimator):
    """Classify by the vote of all fitted rows within a radius.

    Parameters
    ----------
    radius : float, default=1.0
        Radius of the neighbourhoods.
    weights : {"uniform", "distance"}, callable or None, default="uniform"
        Weight of a neighbour by its distance.
    outlier_label : label, list of labels, "most_frequent" or None, default=None
        Label of a row with nothing in reach, one per output; None makes such a row an error.
    algorithm, leaf_size, p, metric, metric_params, n_jobs, verbose
        As in `NearestNeighbors`.

    Attributes
    ----------
    classes_ : array, or list of arrays for several outputs
        The classes.
    outputs_2d_ : bool
        Whether y had several columns.
    outlier_label_ : list or None
        Label of rows with nothing in reach, one per output.
    index_, effective_metric_, effective_metric_params_, n_samples_fit_, n_features_in_
        As in `NearestNeighbors`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SEARCH,
        "radius": RADIUS,
        "weights": WEIGHTS,
        "outlier_label": [Integral, str, "array-like", None],
    }
    fitted_state = CLASSIFIER_STATE.extended(
        _also=_check_outlier_labels,
        outlier_label_=optional(list_of(lambda value, sizes: None)),
    )

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
        super().__init__(
            radius,
            weights=weights,
            algorithm=algorithm,
            leaf_size=leaf_size,
            p=p,
            metric=metric,
            metric_params=metric_params,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.outlier_label = outlier_label

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RadiusNeighborsClassifier:
        """Store the rows, their classes and, if given, their weights."""
        super().fit(X, y, sample_weight)
        self.outlier_label_ = outlier_labels(
            self.outlier_label, self._class_lists(), self._label, self._row_weight
        )
        return self

    def _label_unreached(self, found: Ints, classes: Array, output: int) -> Array:
        alone = found < 0
        winners = classes[np.maximum(found, 0)]
        if not alone.any():
            return winners
        if self.outlier_label_ is None:
            raise InputError(
                f"No neighbors found for {int(alone.sum())} rows (first: "
                f"{np.flatnonzero(alone)[:5].tolist()}): use a larger radius, give them an "
                "outlier_label, or leave them out."
            )
        label = np.asarray(self.outlier_label_[output])
        winners = winners.astype(np.result_type(winners, label))
        winners[alone] = label
        return winners

    def _fill_unreached(self, share: Floats, classes: Array, output: int) -> None:
        """An outlier has all its weight on its label, if that is a class, and else none."""
        alone = share.sum(axis=1) == 0
        if not alone.any():
            return
        self._label_unreached(np.where(alone, -1, 0), classes, output)  # refuses without a label
        label = (self.outlier_label_ or [])[output]
        place = np.flatnonzero(classes == label)
        if len(place):
            share[alone, place[0]] = 1.0
        else:
            warn(
                f"Outlier label {label} is not in training classes. All class probabilities of "
                "outliers will be assigned with 0.",
                UserWarning,
            )


def outlier_labels(
    given: Any, lists: list[Array], label: Ints, row_weight: Floats | None
) -> list[Any] | None:
    """The label of rows that nobody votes for, one per output; None if there is none."""
    if given is None:
        return None
    if isinstance(given, str) and given == "most_frequent":
        chosen = [
            classes[np.bincount(label[:, output], row_weight).argmax()]
            for output, classes in enumerate(lists)
        ]
    elif isinstance(given, list | tuple | np.ndarray):
        chosen = list(given)
        if len(chosen) != len(lists):
            raise InputError(
                f"The length of outlier_label: {chosen} is inconsistent with the output length: "
                f"{len(lists)}"
            )
    else:
        chosen = [given] * len(lists)
    for classes, one in zip(lists, chosen, strict=True):
        if np.ndim(one) > 0 or not np.can_cast(np.asarray(one).dtype, classes.dtype, "same_kind"):
            raise TypeError(
                f"The outlier_label of classes {classes} is supposed to be a scalar of the same "
                f"dtype as y, but is {one!r}."
            )
    return chosen
