"""Nearest neighbours as an estimator (10.1): who is near whom, as lists or as a sparse graph.

Lazy learning: `fit` stores the rows; the index is built when first asked. Equal distances are
ordered by row number, so results depend neither on threads nor on the order of tiles or of
columns (as far as the sums of squares are exact). Asked without X, every row is left out of
its own list by its index, so that its duplicates stay in.

Distances are returned in float64, in which they are decided, whatever the dtype of X.

Cost: see neighbors/. Memory: X, and for large Euclidean problems a sketch of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import require_memory
from nearfold.errors import InputError
from nearfold.inputs import check_table
from nearfold.neighbors import build_index, is_euclidean, is_learner
from nearfold.notation import Array, Floats, Ints
from nearfold.run import reporting


def graph_from_lists(distances: Floats | None, rows: Ints, n_columns: int) -> sparse.csr_array:
    """A sparse graph with k entries per row: distances, or ones."""
    m, k = rows.shape
    values = np.ones(m * k) if distances is None else distances.ravel()
    return _graph(values, rows.ravel(), np.arange(0, m * k + 1, k), (m, n_columns))


def graph_from_pairs(
    query: Ints, row: Ints, distance: Floats | None, shape: tuple[int, int]
) -> sparse.csr_array:
    """A sparse graph from pairs sorted by query: distances, or ones."""
    indptr = np.searchsorted(query, np.arange(shape[0] + 1))
    values = np.ones(len(row)) if distance is None else distance
    return _graph(values, row, indptr, shape)


def _graph(values: Array, columns: Ints, indptr: Ints, shape: tuple[int, int]) -> Any:
    # scikit-learn's own consumers of such graphs still expect the matrix class.
    return sparse.csr_matrix((values, columns, indptr), shape=shape)


def split_by_query(values: Array, query: Ints, n_queries: int) -> Array:
    """An object array with one array per query, as scikit-learn returns radius neighbours."""
    parts = np.empty(n_queries, dtype=object)
    bounds = np.searchsorted(query, np.arange(n_queries + 1))
    for i in range(n_queries):
        parts[i] = values[bounds[i] : bounds[i + 1]]
    return parts


class NeighborSearch(BaseEstimator):
    """What all neighbour estimators share: fit stores, the index answers."""

    def _fit(self, X: Any, y: Any = None) -> None:
        if self.algorithm not in ("auto", "ball_tree", "kd_tree", "brute"):
            raise InputError(
                f"algorithm={self.algorithm!r}: use 'auto', 'ball_tree', 'kd_tree' or 'brute'."
            )
        given = X
        X = check_table(self, X, reset=True, accept_sparse=True, finite=False)
        learned = is_learner(self.metric)
        if not learned and self.metric == "precomputed" and X.shape[0] != X.shape[1]:
            raise InputError(
                f"Precomputed distances must be a square matrix, one row and one column per "
                f"sample; this one is {X.shape[0]} x {X.shape[1]}."
            )
        self._set_metric()
        self.n_samples_fit_ = X.shape[0]
        self.index_ = build_index(
            given if learned and hasattr(given, "columns") else X,
            metric=self.metric,
            p=self.p,
            metric_params=self.metric_params,
            algorithm=self.algorithm,
            leaf_size=self.leaf_size,
            n_jobs=self.n_jobs,
            k_hint=getattr(self, "n_neighbors", 5) or 5,
            names=getattr(self, "feature_names_in_", None),
            y=y,
        )

    # Until every caller reads `index_`.
    _index = property(lambda self: self.index_)
    _fit_X = property(lambda self: self.index_.X)

    def _set_metric(self) -> None:
        params = dict(self.metric_params or {})
        if is_learner(self.metric):
            self.effective_metric_, self.effective_metric_params_ = "mahalanobis", params
            return
        if self.metric == "minkowski" and self.p is not None and self.p <= 0:
            raise InputError(f"p={self.p}: the Minkowski power must be greater than zero.")
        if is_euclidean(self.metric, self.p, self.metric_params):
            self.effective_metric_ = "euclidean"
        else:
            self.effective_metric_ = self.metric
            if self.metric == "minkowski":
                named = {1: "manhattan", np.inf: "chebyshev"}.get(self.p)
                if named is not None and not params:
                    self.effective_metric_ = named
                else:
                    params["p"] = self.p
        self.effective_metric_params_ = params

    def _queries(self, X: Any) -> Any:
        """X checked, or None for the fitted rows themselves."""
        check_is_fitted(self)
        if X is None:
            return None
        Q = check_table(self, X, reset=False, accept_sparse=True, finite=False)
        # A learner looks at column names too: leave them to it.
        return X if is_learner(self.metric) and hasattr(X, "columns") else Q

    def _nearest(self, X: Any, n_neighbors: int | None) -> tuple[Floats, Ints]:
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        if not isinstance(k, int | np.integer) or isinstance(k, bool):
            raise TypeError(f"n_neighbors does not take {type(k)} value, enter integer value")
        if k <= 0:
            raise InputError(f"Expected n_neighbors > 0. Got {k}")
        Q = self._queries(X)
        available = self.n_samples_fit_ - (Q is None)
        if k > available:
            raise InputError(
                f"Expected n_neighbors <= n_samples_fit, but n_neighbors = {k}, "
                f"n_samples_fit = {self.n_samples_fit_}, n_samples = "
                f"{self.n_samples_fit_ if Q is None else Q.shape[0]}"
                + (" (a row is not its own neighbour)." if Q is None else ".")
            )
        m = self.n_samples_fit_ if Q is None else Q.shape[0]
        require_memory(
            16.0 * m * k, f"A list of {k} neighbours for {m} rows", "Ask for fewer, or in parts."
        )
        with reporting(getattr(self, "verbose", False)):
            return self.index_.nearest(Q, int(k))

    def _within(self, X: Any, radius: float | None) -> tuple[Ints, Ints, Floats, int]:
        radius = self.radius if radius is None else radius
        if radius < 0:
            raise InputError(f"radius={radius}: a radius is not negative.")
        Q = self._queries(X)
        with reporting(getattr(self, "verbose", False)):
            query, row, distance = self.index_.within(Q, float(radius))
        return query, row, distance, self.n_samples_fit_ if Q is None else Q.shape[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_learner(self.metric)
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.input_tags.allow_nan = self.metric == "nan_euclidean"
        return tags


class KNeighborsMixin:
    """`kneighbors` and its graph."""

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Any:
        """The k nearest fitted rows of each row of X, nearest first.

        Without X: of the fitted rows, each left out of its own list.
        """
        distance, row = self._nearest(X, n_neighbors)  # type: ignore[attr-defined]
        return (distance, row) if return_distance else row

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity"
    ) -> Any:
        """The same as a sparse graph (CSR): ones, or distances."""
        distance, row = self._nearest(X, n_neighbors)  # type: ignore[attr-defined]
        values = distance if _wants_distance(mode) else None
        return graph_from_lists(values, row, self.n_samples_fit_)  # type: ignore[attr-defined]


class RadiusNeighborsMixin:
    """`radius_neighbors` and its graph."""

    def radius_neighbors(
        self,
        X: Any = None,
        radius: float | None = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """All fitted rows within the radius of each row of X, in arrays of their own lengths.

        They always come nearest first; `sort_results` is there for scikit-learn's sake.
        """
        if sort_results and not return_distance:
            raise InputError("return_distance must be True if sort_results is True.")
        query, row, distance, m = self._within(X, radius)  # type: ignore[attr-defined]
        rows = split_by_query(row, query, m)
        return (split_by_query(distance, query, m), rows) if return_distance else rows

    def radius_neighbors_graph(
        self,
        X: Any = None,
        radius: float | None = None,
        mode: str = "connectivity",
        sort_results: bool = False,
    ) -> Any:
        """The same as a sparse graph (CSR): ones, or distances."""
        query, row, distance, m = self._within(X, radius)  # type: ignore[attr-defined]
        values = distance if _wants_distance(mode) else None
        n = self.n_samples_fit_  # type: ignore[attr-defined]
        return graph_from_pairs(query, row, values, (m, n))


def _wants_distance(mode: str) -> bool:
    if mode not in ("connectivity", "distance"):
        raise InputError(f"mode={mode!r}: use 'connectivity' or 'distance'.")
    return mode == "distance"


class NearestNeighbors(KNeighborsMixin, RadiusNeighborsMixin, NeighborSearch):
    """Exact nearest neighbours, by number or by radius.

    Parameters are scikit-learn's. `algorithm` and `leaf_size` reach scikit-learn for metrics
    other than the Euclidean one; for that the fastest exact way is chosen. `n_jobs=None` uses
    every core. `verbose=True` shows a progress bar.

    Examples
    --------
    >>> from nearfold import NearestNeighbors
    >>> search = NearestNeighbors(n_neighbors=1).fit([[0.0], [1.0], [5.0]])
    >>> search.kneighbors([[4.0]], return_distance=False)
    array([[2]])
    """

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
    ) -> None:
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.metric = metric
        self.p = p
        self.metric_params = metric_params
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def from_index(cls, index: Any, owner: Any, **params: Any) -> NearestNeighbors:
        """A fitted search over an index that exists already; `owner` was fitted on its rows."""
        search = cls(**params)
        search._set_metric()
        search.index_, search.n_samples_fit_ = index, index.n_rows
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(owner, name):
                setattr(search, name, getattr(owner, name))
        return search

    def fit(self, X: Any, y: Any = None) -> NearestNeighbors:
        """Store the rows to search in."""
        self._fit(X, y)
        return self


class _GraphTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, NeighborSearch):
    """A row becomes its sparse list of neighbours among the fitted rows."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Store the rows to search in."""
        _wants_distance(self.mode)
        self._fit(X, y)
        self._n_features_out = self.n_samples_fit_
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, then the graph of the rows among themselves, each its own first neighbour."""
        return self.fit(X, y).transform(X)


class KNeighborsTransformer(KNeighborsMixin, _GraphTransformer):
    """Rows to the sparse graph of their k nearest fitted rows, for Isomap and the like.

    With `mode="distance"` one neighbour more is kept, because a fitted row counts itself.
    """

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
    ) -> None:
        self.mode = mode
        self.n_neighbors = n_neighbors
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.metric = metric
        self.p = p
        self.metric_params = metric_params
        self.n_jobs = n_jobs
        self.verbose = verbose

    def transform(self, X: Any) -> Any:
        """The sparse graph (CSR) of the k nearest fitted rows of each row of X."""
        check_is_fitted(self)
        k = self.n_neighbors + (self.mode == "distance")
        return self.kneighbors_graph(X, n_neighbors=k, mode=self.mode)


class RadiusNeighborsTransformer(RadiusNeighborsMixin, _GraphTransformer):
    """Rows to the sparse graph of all fitted rows within the radius."""

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
        self.mode = mode
        self.radius = radius
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.metric = metric
        self.p = p
        self.metric_params = metric_params
        self.n_jobs = n_jobs
        self.verbose = verbose

    def transform(self, X: Any) -> Any:
        """The sparse graph (CSR) of the fitted rows within the radius of each row of X."""
        check_is_fitted(self)
        return self.radius_neighbors_graph(X, mode=self.mode, sort_results=True)
