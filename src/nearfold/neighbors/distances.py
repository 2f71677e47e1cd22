"""Distances as matrices, in tiles: all of a table, or from some rows to others.

The Euclidean ones by one product in float64 about the centre of the table; pairs so close that
the product has lost digits are measured again from their differences. Every other metric is
scikit-learn's, tile by tile.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import pairwise_distances

from nearfold.blocks import spans
from nearfold.inputs import refuse_extreme
from nearfold.neighbors.exact import is_euclidean
from nearfold.neighbors.learned import fitted_learner, is_learner, to_learned_space
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order

_SIDE = 512  # of a tile
_DOUBT = 1e-7  # a square this small beside those of its rows has lost half its digits


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
        self.metric = metric
        self.params = dict(metric_params or {})
        if metric == "minkowski":
            self.params.setdefault("p", p)
        # What these metrics learn from a table they learn from this one, not from a tile of it.
        if metric == "seuclidean" and "V" not in self.params:
            self.params["V"] = np.var(X, axis=0, ddof=1)
        if metric == "mahalanobis" and not {"V", "VI"} & set(self.params):
            self.params["VI"] = np.linalg.inv(np.cov(X.T)).T
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
        """Distances of the rows of A to the rows of B, in float64."""
        if self._plain:
            return np.sqrt(_squares(A, B, self._centre))
        if self.metric == "cosine" and not sparse.issparse(A):
            A, B = _rescaled(A), _rescaled(B)
        return np.asarray(pairwise_distances(A, B, metric=self.metric, n_jobs=1, **self.params))

    def from_rows(self, Q: Any, dtype: Any = np.float64) -> Floats:
        """Distances (q, n) of other rows to the table's, tile by tile."""
        if self.learner is not None:
            Q = to_learned_space(self.learner, Q)
        q, n = Q.shape[0], self.X.shape[0]
        D = np.empty((q, n), dtype=dtype)

        def fill(tile: tuple[slice, slice]) -> None:
            D[tile] = self.between(Q[tile[0]], self.X[tile[1]])

        tiles = [(a, b) for a in spans(q, 2 * _SIDE) for b in spans(n, 4 * _SIDE)]
        for _ in map_in_order(fill, tiles, n_jobs=self.n_jobs):
            pass
        return D

    def all(self, dtype: Any = np.float64) -> Floats:
        """The symmetric matrix of distances between all rows, its diagonal zero."""
        n = self.X.shape[0]
        D = np.empty((n, n), dtype=dtype)
        pieces = spans(n, _SIDE)

        def fill(pair: tuple[slice, slice]) -> None:
            rows, columns = pair
            D[rows, columns] = self.between(self.X[rows], self.X[columns])
            D[columns, rows] = D[rows, columns].T

        pairs = [(a, b) for i, a in enumerate(pieces) for b in pieces[i:]]
        for _ in map_in_order(fill, pairs, n_jobs=self.n_jobs, label="distances", total=len(pairs)):
            pass
        np.fill_diagonal(D, 0.0)
        return D


def _rescaled(A: Array) -> Array:
    """Rows by their largest entry, which changes no angle and keeps squares in range."""
    largest = np.abs(A).max(axis=1, keepdims=True, initial=0.0)
    return np.asarray(A / np.where(largest == 0.0, 1.0, largest))


def _squares(A: Array, B: Array, centre: Floats) -> Floats:
    A = np.subtract(A, centre, dtype=np.float64)
    B = np.subtract(B, centre, dtype=np.float64)
    sizes = np.add.outer(np.einsum("ij,ij->i", A, A), np.einsum("ij,ij->i", B, B))
    squares = A @ B.T
    squares *= -2.0
    squares += sizes
    a, b = np.nonzero(squares <= _DOUBT * sizes)
    for few in spans(len(a), max(1, 2**20 // max(1, A.shape[1]))):
        difference = A[a[few]] - B[b[few]]
        squares[a[few], b[few]] = np.einsum("ij,ij->i", difference, difference)
    return squares
