"""Distances as matrices, in tiles: all of a table, or from some rows to others.

The Euclidean ones by one product in float64 about the centre of the table; pairs so close that
the product has lost digits are measured again from their differences. A learned metric is the
Euclidean one between transformed rows. Every other metric is scikit-learn's, tile by tile.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import DistanceMetric, pairwise_distances
from sklearn.metrics.pairwise import PAIRWISE_BOOLEAN_FUNCTIONS

from nearfold.blocks import spans
from nearfold.inputs import refuse_extreme
from nearfold.linalg import accurate_squared_distances, square_norms
from nearfold.neighbors.learned import fitted_learner, is_learner, to_learned_space
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order

_SIDE = 512  # of a tile
_CELLS = 2**18  # values of the rows of a tile, at the most
_POWERS = {1: "manhattan", 2: "euclidean", np.inf: "chebyshev"}  # of Minkowski
_TREE_NAMES = {"p": "minkowski", "infinity": "chebyshev"}  # other names that trees know


class Distances:
    """Distances to the rows of a table, under any metric."""

    def __init__(
        self,
        X: Any,
        metric: Any = "euclidean",
        metric_params: dict[str, Any] | None = None,
        p: float = 2,
        n_jobs: int | None = None,
        y: Any = None,
    ) -> None:
        self.learner = fitted_learner(metric, X, y) if is_learner(metric) else None
        if self.learner is not None:
            X, metric = to_learned_space(self.learner, X), "euclidean"
        self.X = X
        self.metric, params = effective_metric(metric, p, metric_params)
        self.params = metric_parameters(self.metric, params, X)
        self.n_jobs = n_jobs
        self._plain = is_euclidean(metric, p, metric_params) and not sparse.issparse(X)
        if self._plain:
            self._centre = X.mean(axis=0, dtype=np.float64)
            spread = np.maximum(X.max(axis=0) - self._centre, self._centre - X.min(axis=0))
            refuse_extreme(float(spread.max(initial=0.0)), np.float64)

    def among(self, rows: Any) -> Distances:
        """The same for some rows of the table."""
        part = copy(self)
        part.X = self.X[rows]
        return part

    def between(self, A: Any, B: Any) -> Floats:
        """Distances of the rows of A to the rows of B, in float64. Not for a learned metric."""
        if self._plain:
            A = np.subtract(A, self._centre, dtype=np.float64)
            B = np.subtract(B, self._centre, dtype=np.float64)
            return np.sqrt(accurate_squared_distances(A, B))
        if sparse.issparse(A):
            A, B = _with_short_indices(A), _with_short_indices(B)
        else:
            A, B = self._prepared(A), self._prepared(B)
        if self.metric == "nan_euclidean":
            return nan_distances(A, B)
        if isinstance(self.metric, DistanceMetric):
            return np.asarray(self.metric.pairwise(A, B))
        return np.asarray(pairwise_distances(A, B, metric=self.metric, n_jobs=1, **self.params))

    def _prepared(self, A: Array) -> Array:
        if self.metric in PAIRWISE_BOOLEAN_FUNCTIONS:
            return A != 0
        A = np.asarray(A, dtype=np.float64)
        return _rescaled(A) if self.metric == "cosine" else A

    def from_rows(self, Q: Any, dtype: Any = np.float64) -> Floats:
        """Distances (q, n) of other rows to the table's, tile by tile."""
        if self.learner is not None:
            Q = to_learned_space(self.learner, Q)
        q, n = Q.shape[0], self.X.shape[0]
        D = np.empty((q, n), dtype=dtype)

        def fill(tile: tuple[slice, slice]) -> None:
            D[tile] = self.between(Q[tile[0]], self.X[tile[1]])

        columns = spans(n, self._rows(4 * _SIDE))
        tiles = [(a, b) for a in spans(q, self._rows(2 * _SIDE)) for b in columns]
        for _ in map_in_order(fill, tiles, n_jobs=self.n_jobs):
            pass
        return D

    def _rows(self, most: int) -> int:
        """Rows of a tile: so many, or fewer of a wide table."""
        return max(16, min(most, _CELLS // max(1, self.X.shape[1])))

    def all(self, dtype: Any = np.float64) -> Floats:
        """The symmetric matrix of distances between all rows, its diagonal zero."""
        n = self.X.shape[0]
        D = np.empty((n, n), dtype=dtype)
        pieces = spans(n, self._rows(_SIDE))

        def fill(pair: tuple[slice, slice]) -> None:
            rows, columns = pair
            D[rows, columns] = self.between(self.X[rows], self.X[columns])
            D[columns, rows] = D[rows, columns].T

        pairs = [(a, b) for i, a in enumerate(pieces) for b in pieces[i:]]
        for _ in map_in_order(fill, pairs, n_jobs=self.n_jobs, label="distances", total=len(pairs)):
            pass
        np.fill_diagonal(D, 0.0)
        return D


def nan_distances(A: Floats, B: Floats) -> Floats:
    """Euclidean distances over the columns present in both rows, scaled up to all columns.

    From differences, row by row: a product would lose the digits of rows far from the origin.
    NaN where no column is present in both.
    """
    D = np.empty((len(A), len(B)))
    for i, a in enumerate(A):
        difference = B - a
        missing = np.isnan(difference)
        difference[missing] = 0.0
        present = A.shape[1] - missing.sum(axis=1)
        square = square_norms(difference) * A.shape[1]
        D[i] = np.sqrt(square / np.where(present > 0, present, np.nan))
    return D


def is_euclidean(metric: Any, p: float, metric_params: dict[str, Any] | None) -> bool:
    """Whether these parameters mean the plain Euclidean distance."""
    name, params = effective_metric(metric, p, metric_params)
    return isinstance(name, str) and name in ("euclidean", "l2") and not params


def effective_metric(
    metric: Any, p: float, metric_params: dict[str, Any] | None
) -> tuple[Any, dict[str, Any]]:
    """The metric that is computed and its keyword arguments: Minkowski's by their own names."""
    params = {key: value for key, value in (metric_params or {}).items() if value is not None}
    if not isinstance(metric, str):
        return metric, params
    metric = _TREE_NAMES.get(metric, metric)
    if metric == "minkowski":
        power = params.setdefault("p", p)
        if "w" not in params and power in _POWERS:
            return _POWERS[power], {}
    return metric, params


def metric_parameters(metric: Any, params: dict[str, Any], X: Any) -> dict[str, Any]:
    """The keyword arguments of a metric; what it learns from a table it learns from all of X."""
    params = dict(params)
    if not isinstance(metric, str):
        return params
    if metric == "seuclidean" and "V" not in params:
        params["V"] = np.var(X, axis=0, ddof=1, dtype=np.float64)
    if metric == "mahalanobis" and not {"V", "VI"} & set(params):
        params["VI"] = np.linalg.inv(np.cov(X.T)).T
    return params


def _with_short_indices(A: Any) -> Any:
    """A sparse block with indices of 32 bits, the only ones that scikit-learn's loops take."""
    A = A.tocsr()
    parts = A.data, A.indices.astype(np.int32, copy=False), A.indptr.astype(np.int32, copy=False)
    return type(A)(parts, shape=A.shape)


def _rescaled(A: Array) -> Array:
    """Rows by their largest entry, which changes no angle and keeps squares in range."""
    largest = np.abs(A).max(axis=1, keepdims=True, initial=0.0)
    return np.asarray(A / np.where(largest == 0.0, 1.0, largest))
