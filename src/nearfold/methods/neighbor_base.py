"""What all neighbour estimators share: parameters, an index built at fit, queries checked.

`fit` checks the rows and builds an index (neighbors/), which answers everything else. The mixins
add `kneighbors` and `radius_neighbors`; they also inherit from scikit-learn's, so that its
functions (`sklearn.neighbors.kneighbors_graph`) accept our estimators.
"""

from __future__ import annotations

from itertools import chain
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.metrics import DistanceMetric
from sklearn.neighbors import VALID_METRICS, BallTree, KDTree
from sklearn.neighbors import NearestNeighbors as SklearnNearestNeighbors
from sklearn.neighbors._base import KNeighborsMixin as SklearnKNeighborsMixin
from sklearn.neighbors._base import RadiusNeighborsMixin as SklearnRadiusNeighborsMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import collect_vector, is_dask
from nearfold.blocks.lazy import Call
from nearfold.errors import InputError, warn
from nearfold.inputs import check_table, check_weights, open_rows
from nearfold.messages import Message
from nearfold.methods.reduction import COLUMNS
from nearfold.methods.rows_there import SearchedRows
from nearfold.neighbors import (
    ApproximateIndex,
    Certificate,
    EuclideanIndex,
    LearnedIndex,
    MetricIndex,
    PrecomputedIndex,
    build_index,
    is_learner,
)
from nearfold.neighbors.distances import effective_metric
from nearfold.neighbors.learned import is_fitted
from nearfold.neighbors.lists import (
    all_nearest,
    graph_from_lists,
    graph_from_pairs,
    split_by_query,
)
from nearfold.neighbors.partitioned import PartitionedIndex
from nearfold.notation import Floats, Ints
from nearfold.run import reporting
from nearfold.state import dict_of, nested, size

INDEXES = (EuclideanIndex, MetricIndex, PrecomputedIndex, LearnedIndex, ApproximateIndex)
_KEEPS_ZEROS = ("csr", "csc", "coo", "lil")  # sparse formats that store explicit zeros

# What parameters may be, as in scikit-learn.
SEARCH: dict[str, Any] = {
    "algorithm": [StrOptions({"auto", "ball_tree", "kd_tree", "brute"})],
    "leaf_size": [Interval(Integral, 1, None, closed="left")],
    "p": [Interval(Real, 0, None, closed="right"), None],
    "metric": [
        StrOptions(set(chain(*VALID_METRICS.values()))),
        callable,
        DistanceMetric,
        HasMethods(["get_mahalanobis_matrix", "transform"]),
    ],
    "metric_params": [dict, None],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}
# Of the k nearest, which may also be searched approximately.
APPROXIMATE: dict[str, Any] = {
    **SEARCH,
    "algorithm": [StrOptions({"auto", "ball_tree", "kd_tree", "brute", "approximate"})],
    "recall": [Interval(Real, 0, 1, closed="neither")],
    "random_state": ["random_state"],
}
N_NEIGHBORS: Any = [Interval(Integral, 1, None, closed="left")]
RADIUS: Any = [Interval(Real, 0, None, closed="both")]
WEIGHTS: Any = [StrOptions({"uniform", "distance"}), callable, None]
MODE: Any = [StrOptions({"distance", "connectivity"})]


def metric_in_effect(search: Any) -> tuple[Any, dict[str, Any]]:
    """The metric that the parameters of a search amount to, and its own parameters."""
    if is_learner(search.metric):
        return "mahalanobis", {}
    return effective_metric(
        search.metric, 2 if search.p is None else search.p, search.metric_params
    )


class NeighborsEstimator(SearchedRows):
    """Parameters of the search; fit builds the index."""

    _parameter_constraints: ClassVar[dict[str, Any]] = SEARCH
    fitted_state = COLUMNS.extended(
        n_samples_fit_=size("n", least=1),
        effective_metric_=lambda value, sizes: None,  # a name or a function, as the parameter
        effective_metric_params_=dict_of(lambda value, sizes: None),
        index_=nested(*INDEXES, n="n", d="d"),
    )

    def __init__(
        self,
        algorithm: str = "auto",
        leaf_size: int = 30,
        metric: Any = "minkowski",
        p: float = 2,
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.metric = metric
        self.p = p
        self.metric_params = metric_params
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _fit_index(self, X: Any, y: Any = None) -> None:
        if is_dask(X):
            self._fit_partitioned(X)
            return
        given = _rows_of(X)
        self._refuse_lost_zeros(given)
        X = check_table(self, given, reset=True, accept_sparse=True, finite=False)
        if self.p is not None and "p" in (self.metric_params or {}):
            warn(
                "Parameter p is found in metric_params. The corresponding parameter from __init__ "
                "is ignored.",
                SyntaxWarning,
            )
        self.effective_metric_, self.effective_metric_params_ = metric_in_effect(self)
        learned = is_learner(self.metric)
        self.n_samples_fit_ = X.shape[0]
        rows = given if learned and hasattr(given, "columns") else X
        self.index_: Any = build_index(rows, y=y, **self._index_options())

    def _fit_partitioned(self, X: Any) -> None:
        """An index in parts, where the rows of a Dask table are."""
        learned = is_learner(self.metric)
        if self.algorithm == "approximate" or (learned and not is_fitted(self.metric)):
            raise InputError(Message("cluster.not_fitted", name=type(self).__name__))
        rows: Any = open_rows(self, X)
        self.effective_metric_, self.effective_metric_params_ = metric_in_effect(self)
        self.n_samples_fit_ = int(rows.n_rows)
        self.index_ = PartitionedIndex(rows, **self._index_options())

    def _index_options(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "p": 2 if self.p is None else self.p,
            "metric_params": self.metric_params,
            "algorithm": self.algorithm,
            "leaf_size": self.leaf_size,
            "n_jobs": self.n_jobs,
            "k_hint": getattr(self, "n_neighbors", None) or 5,
            "names": getattr(self, "feature_names_in_", None),
            "recall": getattr(self, "recall", 0.95),
            "random_state": getattr(self, "random_state", None),
        }

    def _length_of_lists(self, call: Call) -> int:
        asked = call.named.get("n_neighbors", call.args[0] if call.args else None)
        k = self._check_k(np.empty((1, 0)), asked)
        if getattr(self, "_row_weight", None) is not None:
            raise InputError(Message("cluster.weighted", name=call.method))
        return k

    def _check_row_weights(self, sample_weight: Any) -> Floats | None:
        if is_dask(sample_weight):
            sample_weight = collect_vector(sample_weight, self.n_samples_fit_, "sample_weight")
        here = not isinstance(self.index_, PartitionedIndex)
        return check_weights(
            sample_weight, self.index_.X if here else np.empty(self.n_samples_fit_)
        )

    @property
    def _fit_X(self) -> Any:  # read by scikit-learn's kneighbors_graph and radius_neighbors_graph
        return self.index_.X

    def _queries(self, X: Any) -> Any:
        """X checked, or None for the fitted rows themselves."""
        check_is_fitted(self)
        if X is None:
            return None
        self._refuse_lost_zeros(X)
        Q = check_table(self, X, reset=False, accept_sparse=True, finite=False)
        # A learner looks at column names too: leave them to it.
        return X if is_learner(self.metric) and hasattr(X, "columns") else Q

    def _refuse_lost_zeros(self, X: Any) -> None:
        if self.metric is not None and isinstance(self.metric, str):
            lost = sparse.issparse(X) and X.format not in _KEEPS_ZEROS
            if self.metric == "precomputed" and lost:
                raise TypeError(
                    f"Sparse matrix in {X.format!r} format is not supported due to its handling "
                    "of explicit zeros, which are distances: convert it to CSR."
                )

    def _check_k(self, Q: Any, n_neighbors: int | None) -> int:
        """The number of neighbours to find; refused if there are not so many rows."""
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        if not isinstance(k, int | np.integer) or isinstance(k, bool):
            raise TypeError(f"n_neighbors does not take {type(k)} value, enter integer value")
        if k <= 0:
            raise InputError(f"Expected n_neighbors > 0. Got {k}")
        n = self.n_samples_fit_
        if k > n - (Q is None):
            # scikit-learn's words, which its users match.
            raise InputError(
                f"Expected n_neighbors {'<' if Q is None else '<='} n_samples_fit, but "
                f"n_neighbors = {k}, n_samples_fit = {n}, n_samples = "
                f"{n if Q is None else Q.shape[0]}"
                + (" (a row is not its own neighbour)." if Q is None else ".")
            )
        return int(k)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        precomputed = isinstance(self.metric, str) and self.metric == "precomputed"
        tags.input_tags.sparse = not is_learner(self.metric)
        tags.input_tags.pairwise = precomputed
        tags.input_tags.positive_only = precomputed
        tags.input_tags.allow_nan = isinstance(self.metric, str) and self.metric == "nan_euclidean"
        return tags


def _rows_of(X: Any) -> Any:
    """The rows of a tree or of a fitted search, which scikit-learn takes in place of rows."""
    if isinstance(X, KDTree | BallTree):
        return np.asarray(X.data)
    if isinstance(X, NeighborsEstimator):
        return X.index_.X
    if isinstance(X, SklearnNearestNeighbors):
        raise InputError(
            "scikit-learn's NearestNeighbors has no public name for its rows: give the rows that "
            "it was fitted on."
        )
    return X


def approximate_part(index: Any) -> ApproximateIndex:
    """The approximate index that an estimator's index is or, under a learned metric, holds."""
    inner = index.index if isinstance(index, LearnedIndex) else index
    if not isinstance(inner, ApproximateIndex):
        raise AttributeError('there is a certificate only with algorithm="approximate".')
    return inner


class KNeighborsMixin(SklearnKNeighborsMixin):
    """`kneighbors` and its graph."""

    @property
    def certificate_(self) -> Certificate:
        """What is known about the lists of the fitted rows, with algorithm="approximate"."""
        check_is_fitted(self)
        return approximate_part(self.index_).certificate(self._check_k(None, None))

    @property
    def query_certificate_(self) -> Certificate:
        """The same about the last rows that were searched for; see `Certificate`."""
        check_is_fitted(self)
        certificate = approximate_part(self.index_).query_certificate
        if certificate is None:
            raise AttributeError("query_certificate_: no other rows have been searched for.")
        return certificate

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Any:
        """Find the k nearest fitted rows of each row of X, nearest first.

        Without X: of the fitted rows, each left out of its own list.
        """
        distance, row = self._nearest(X, n_neighbors)
        return (distance, row) if return_distance else row

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity"
    ) -> Any:
        """Return the same as a sparse graph (CSR): ones, or distances."""
        distance, row = self._nearest(X, n_neighbors)
        values = distance if wants_distance(mode) else None
        return graph_from_lists(values, row, self.n_samples_fit_)

    def _nearest(self, X: Any, n_neighbors: int | None) -> tuple[Floats, Ints]:
        Q = self._queries(X)
        k = self._check_k(Q, n_neighbors)
        with reporting(self.verbose):
            return all_nearest(self.index_, Q, k)


class RadiusNeighborsMixin(SklearnRadiusNeighborsMixin):
    """`radius_neighbors` and its graph."""

    def radius_neighbors(
        self,
        X: Any = None,
        radius: Any = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """Find all fitted rows within the radius of each row of X, in arrays of their own lengths.

        `radius` may be an array with one radius per row. Neighbours always come nearest first;
        `sort_results` is accepted for compatibility.
        """
        if sort_results and not return_distance:
            raise InputError("return_distance must be True if sort_results is True.")
        query, row, distance, m = self._within(X, radius)
        rows = split_by_query(row, query, m)
        return (split_by_query(distance, query, m), rows) if return_distance else rows

    def radius_neighbors_graph(
        self,
        X: Any = None,
        radius: Any = None,
        mode: str = "connectivity",
        sort_results: bool = False,
    ) -> Any:
        """Return the same as a sparse graph (CSR): ones, or distances."""
        query, row, distance, m = self._within(X, radius)
        values = distance if wants_distance(mode) else None
        return graph_from_pairs(query, row, values, (m, self.n_samples_fit_))

    def _within(self, X: Any, radius: Any) -> tuple[Ints, Ints, Floats, int]:
        Q = self._queries(X)
        reach = np.asarray(self.radius if radius is None else radius, dtype=np.float64)
        if reach.size and not reach.min() >= 0:
            raise InputError(f"radius={radius}: a radius must not be negative.")
        m = self.n_samples_fit_ if Q is None else Q.shape[0]
        if reach.ndim and reach.shape != (m,):
            raise InputError(f"{len(reach)} radii for {m} rows: give one radius, or one per row.")
        with reporting(self.verbose):
            return *self.index_.within(Q, reach), m


def wants_distance(mode: str) -> bool:
    """Whether a graph holds distances rather than ones."""
    if mode not in ("connectivity", "distance"):
        raise InputError(
            f'Unsupported mode, must be one of "connectivity", or "distance" but got "{mode}" '
            "instead"
        )
    return mode == "distance"
