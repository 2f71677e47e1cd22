"""Nearest neighbours as an estimator (section 10.1): as lists or as a sparse graph.

Lazy learning: `fit` stores the rows; trees and sketches are built at the first query. Equal
distances are ordered by row number, so results depend neither on threads nor on the order of tiles
or of columns (as far as the sums of squares are exact). Asked without X, every row is left out of
its own list by its index, so that its duplicates stay in.

Distances are returned in float64, in which they are decided, whatever the dtype of X.

Cost: see neighbors/. Memory: X, and for large Euclidean problems a sketch of it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils.validation import check_is_fitted

from nearfold.methods.neighbor_base import (
    APPROXIMATE,
    MODE,
    N_NEIGHBORS,
    RADIUS,
    SEARCH,
    KNeighborsMixin,
    NeighborsEstimator,
    RadiusNeighborsMixin,
    metric_in_effect,
    wants_distance,
)
from nearfold.neighbors.lists import graph_from_lists

__all__ = [
    "KNeighborsTransformer",
    "NearestNeighbors",
    "RadiusNeighborsTransformer",
]


class NearestNeighbors(KNeighborsMixin, RadiusNeighborsMixin, NeighborsEstimator):
    """Nearest neighbours, by number or by radius: exact, or approximate with a certificate.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours.
    radius : float, default=1.0
        Radius of `radius_neighbors`.
    algorithm : {"auto", "brute", "kd_tree", "ball_tree", "approximate"}, default="auto"
        "approximate": for large dense tables under the Euclidean, the cosine or a learned metric,
        neighbours with a certificate (`certificate_`); radius neighbours stay exact. The others
        are exact: the search of metrics other than the Euclidean one, as in scikit-learn; no
        effect on that, whose fastest route is chosen.
    leaf_size : int, default=30
        Of trees, as in scikit-learn.
    metric : str, callable or metric learner, default="minkowski"
        Any metric of scikit-learn's, or a metric learner such as `NCA()`: a fitted one is used as
        it is, another is fitted on the rows given to `fit`.
    p : float, default=2
        Power of the Minkowski metric.
    metric_params : dict, default=None
        Further arguments of the metric.
    n_jobs : int, default=None
        Number of threads; None means all cores.
    verbose : bool, default=False
        Whether to show a progress bar.
    recall : float, default=0.95
        With algorithm="approximate": the mean share of right neighbours to be certified.
    random_state : int, RandomState or None, default=None
        Of algorithm="approximate"; None is 0. Threads change no result.

    Attributes
    ----------
    index_ : object
        The index: rows `X`, `nearest`, `within`, `part`.
    effective_metric_, effective_metric_params_
        The metric in use and its arguments.
    n_samples_fit_ : int
        Number of fitted rows.
    n_features_in_, feature_names_in_
        Columns seen by `fit`.
    certificate_, query_certificate_ : Certificate
        With algorithm="approximate": the share of lists proven exact and the recall, of the lists
        of the fitted rows (searched for it if need be) and of the last other rows.

    Examples
    --------
    >>> from nearfold import NearestNeighbors
    >>> search = NearestNeighbors(n_neighbors=1).fit([[0.0], [1.0], [5.0]])
    >>> search.kneighbors([[4.0]], return_distance=False)
    array([[2]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **APPROXIMATE,
        "n_neighbors": [*N_NEIGHBORS, None],
        "radius": [*RADIUS, None],
    }

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        radius: float = 1.0,
        algorithm: str = "auto",
        leaf_size: int = 30,
        metric: Any = "minkowski",
        p: float = 2,
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
        self.radius = radius

    @classmethod
    def from_index(cls, index: Any, owner: Any, **params: Any) -> NearestNeighbors:
        """A fitted search over an index that exists already, with the metric of its `owner`."""
        shared = {
            "metric",
            "p",
            "metric_params",
            "n_jobs",
            "recall",
            "random_state",
        } & owner.get_params(deep=False).keys()
        search = cls(**{name: getattr(owner, name) for name in shared}, **params)
        search.effective_metric_, search.effective_metric_params_ = metric_in_effect(search)
        search.index_, search.n_samples_fit_ = index, index.n_rows
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(owner, name):
                setattr(search, name, getattr(owner, name))
        return search

    @_fit_context(prefer_skip_nested_validation=False)  # the metric may be an estimator
    def fit(self, X: Any, y: Any = None) -> NearestNeighbors:
        """Store the rows to search in. y is used only to fit a metric learner."""
        self._fit_index(X, y)
        return self


class KNeighborsTransformer(
    ClassNamePrefixFeaturesOutMixin, KNeighborsMixin, TransformerMixin, NeighborsEstimator
):
    """Rows to the sparse graph of their k nearest fitted rows, for Isomap and the like.

    With `mode="distance"` one neighbour more is kept, because a fitted row counts itself.

    Parameters
    ----------
    mode : {"distance", "connectivity"}, default="distance"
        What the entries of the graph are: distances, or ones.
    n_neighbors : int, default=5
        Number of neighbours.
    algorithm, leaf_size, metric, p, metric_params, n_jobs, verbose, recall, random_state
        As in `NearestNeighbors`.

    Attributes
    ----------
    index_, effective_metric_, effective_metric_params_, n_samples_fit_, n_features_in_,
    certificate_, query_certificate_
        As in `NearestNeighbors`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **APPROXIMATE,
        "n_neighbors": N_NEIGHBORS,
        "mode": MODE,
    }

    def __init__(
        self,
        *,
        mode: str = "distance",
        n_neighbors: int = 5,
        algorithm: str = "auto",
        leaf_size: int = 30,
        metric: Any = "minkowski",
        p: float = 2,
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        recall: float = 0.95,
        random_state: Any = None,
    ) -> None:
        super().__init__(algorithm, leaf_size, metric, p, metric_params, n_jobs, verbose)
        self.recall = recall
        self.random_state = random_state
        self.mode = mode
        self.n_neighbors = n_neighbors

    @property
    def _n_features_out(self) -> int:
        return self.n_samples_fit_

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> KNeighborsTransformer:
        """Store the rows to search in. y is used only to fit a metric learner."""
        self._fit_index(X, y)
        return self

    def transform(self, X: Any) -> Any:
        """Return the sparse graph (CSR) of the k nearest fitted rows of each row of X."""
        check_is_fitted(self)
        k = self.n_neighbors + (self.mode == "distance")
        return self.kneighbors_graph(X, n_neighbors=k, mode=self.mode)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, then the graph of the rows among themselves, each its own first neighbour.

        A row stays first in its own list among any number of duplicates.
        """
        self.fit(X, y)
        own = np.arange(self.n_samples_fit_)[:, None]
        others = self.n_neighbors - (self.mode == "connectivity")
        distance, row = np.zeros(own.shape), own
        if others:
            found = self.kneighbors(None, others)
            distance, row = np.hstack([distance, found[0]]), np.hstack([own, found[1]])
        values = distance if wants_distance(self.mode) else None
        return graph_from_lists(values, row, self.n_samples_fit_)


class RadiusNeighborsTransformer(
    ClassNamePrefixFeaturesOutMixin, RadiusNeighborsMixin, TransformerMixin, NeighborsEstimator
):
    """Rows to the sparse graph of all fitted rows within the radius.

    Parameters
    ----------
    mode : {"distance", "connectivity"}, default="distance"
        What the entries of the graph are: distances, or ones.
    radius : float, default=1.0
        Radius of the neighbourhoods.
    algorithm, leaf_size, metric, p, metric_params, n_jobs, verbose
        As in `NearestNeighbors`.

    Attributes
    ----------
    index_, effective_metric_, effective_metric_params_, n_samples_fit_, n_features_in_
        As in `NearestNeighbors`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SEARCH,
        "radius": RADIUS,
        "mode": MODE,
    }

    def __init__(
        self,
        *,
        mode: str = "distance",
        radius: float = 1.0,
        algorithm: str = "auto",
        leaf_size: int = 30,
        metric: Any = "minkowski",
        p: float = 2,
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(algorithm, leaf_size, metric, p, metric_params, n_jobs, verbose)
        self.mode = mode
        self.radius = radius

    @property
    def _n_features_out(self) -> int:
        return self.n_samples_fit_

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> RadiusNeighborsTransformer:
        """Store the rows to search in. y is used only to fit a metric learner."""
        self._fit_index(X, y)
        return self

    def transform(self, X: Any) -> Any:
        """Return the sparse graph (CSR) of the fitted rows within the radius of each row of X."""
        check_is_fitted(self)
        return self.radius_neighbors_graph(X, mode=self.mode, sort_results=True)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, then the graph of the rows among themselves, each its own first neighbour."""
        return self.fit(X, y).transform(X)
