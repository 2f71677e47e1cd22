"""k-nearest-neighbour learning (section 10.1): vote for a class, average for a number.

The k nearest fitted rows of a query vote or are averaged (voting.py has the formulas and the
weights). `sample_weight` given to `fit` says how often a row counts: weight 2 is the row twice,
weight 0 no row at all. The k nearest are then the nearest rows whose weights sum to k, the last of
them counted only as far as needed.

Ties: equal distances at the k-th place go to the smaller row number; equal votes to the class
that comes first in `classes_`. Asked without X, each fitted row is predicted from the others
(leave one out).

Cost: that of the search (neighbors/), plus O(m k). Queries are predicted in blocks, so the lists of
all of them are never held at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from sklearn.base import ClassifierMixin, RegressorMixin

from nearfold.errors import InputError
from nearfold.methods.neighbor_base import (
    APPROXIMATE,
    N_NEIGHBORS,
    WEIGHTS,
    KNeighborsMixin,
    NeighborsEstimator,
)
from nearfold.methods.neighbor_predict import (
    CLASSIFIER_STATE,
    REGRESSOR_STATE,
    AveragingMixin,
    VotingMixin,
)
from nearfold.methods.voting import Neighborhoods, nearest_neighborhoods, require_weights
from nearfold.notation import Array, Ints


class _KNeighborsEstimator(KNeighborsMixin, NeighborsEstimator):
    """Neighbourhoods of the k nearest."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **APPROXIMATE,
        "n_neighbors": N_NEIGHBORS,
        "weights": WEIGHTS,
    }

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
        recall: float = 0.95,
        random_state: Any = None,
    ) -> None:
        super().__init__(algorithm, leaf_size, metric, p, metric_params, n_jobs, verbose)
        self.recall = recall
        self.random_state = random_state
        self.n_neighbors = n_neighbors
        self.weights = weights

    def _neighborhoods(self, Q: Any) -> Iterator[Neighborhoods]:
        if self._row_weight is not None:
            require_weights(self._row_weight, self.n_neighbors)
            k = self.n_neighbors  # rows that count more than once may be fewer
        else:
            k = self._check_k(Q, None)
        return nearest_neighborhoods(self.index_, Q, k, self.weights, self._row_weight)


class KNeighborsClassifier(VotingMixin, ClassifierMixin, _KNeighborsEstimator):
    """Classify by the vote of the k nearest fitted rows.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours.
    weights : {"uniform", "distance"}, callable or None, default="uniform"
        Weight of a neighbour by its distance.
    algorithm, leaf_size, p, metric, metric_params, n_jobs, verbose, recall, random_state
        As in `NearestNeighbors`. `metric` may be a metric learner such as `NCA()`, fitted on the
        same rows and classes if it is not fitted yet.

    Attributes
    ----------
    classes_ : array, or list of arrays for several outputs
        The classes.
    outputs_2d_ : bool
        Whether y had several columns.
    index_, effective_metric_, effective_metric_params_, n_samples_fit_, n_features_in_,
    certificate_, query_certificate_
        As in `NearestNeighbors`.

    Examples
    --------
    >>> from nearfold import KNeighborsClassifier
    >>> model = KNeighborsClassifier(n_neighbors=3).fit([[0], [1], [2], [3]], [0, 0, 1, 1])
    >>> model.predict([[1.1]])
    array([0])
    """

    fitted_state = CLASSIFIER_STATE

    def _label_unreached(self, found: Ints, classes: Array, output: int) -> Array:
        if (found < 0).any():
            # scikit-learn's words, which its users match.
            raise InputError(
                "All neighbors of some sample is getting zero weights. Please modify 'weights' to "
                "avoid this case if you are using a user-defined function."
            )
        return classes[found]


class KNeighborsRegressor(AveragingMixin, RegressorMixin, _KNeighborsEstimator):
    """Predict the mean target of the k nearest fitted rows.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours.
    weights : {"uniform", "distance"}, callable or None, default="uniform"
        Weight of a neighbour by its distance.
    algorithm, leaf_size, p, metric, metric_params, n_jobs, verbose, recall, random_state
        As in `NearestNeighbors`.

    Attributes
    ----------
    index_, effective_metric_, effective_metric_params_, n_samples_fit_, n_features_in_,
    certificate_, query_certificate_
        As in `NearestNeighbors`.

    Examples
    --------
    >>> from nearfold import KNeighborsRegressor
    >>> KNeighborsRegressor(n_neighbors=2).fit([[0], [1], [2]], [0, 1, 2]).predict([[1.6]])
    array([1.5])
    """

    fitted_state = REGRESSOR_STATE
