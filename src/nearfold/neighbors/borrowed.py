"""Neighbours from SciPy's tree and from scikit-learn, under our rule for ties.

Low-dimensional Euclidean data go to SciPy's KD-tree; every other metric, sparse input and
precomputed distances to scikit-learn. Both leave open which of several equally distant rows
fills the k-th place; our rule is the smaller row number. So one neighbour more is asked for,
and where the k-th and the next are equally far all rows at that distance are looked at.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy import sparse
from scipy.spatial import KDTree
from sklearn.neighbors import NearestNeighbors

from nearfold.blocks import get_memory
from nearfold.errors import InputError
from nearfold.inputs import refuse_nonfinite
from nearfold.neighbors.pairs import PAIR_BYTES, radii, require_pairs
from nearfold.notation import Array, Floats, Ints
from nearfold.run import thread_count


class _Lender(Protocol):
    def most_neighbors(self, Q: Any) -> int: ...

    def ask(self, Q: Any, k: int) -> tuple[Floats, Ints]: ...

    def pairs_within(self, Q: Any, radius: Floats) -> tuple[Ints, Ints, Floats]: ...


class TreeIndex:
    """SciPy's KD-tree."""

    def __init__(self, X: Array, n_jobs: int | None) -> None:
        self.X = X
        self.n_rows = len(X)
        self.workers = thread_count(n_jobs)
        # A sliding-midpoint tree is built twice as fast and answers as quickly.
        self.tree = KDTree(X, balanced_tree=False)

    def most_neighbors(self, Q: Array) -> int:
        return self.n_rows

    def ask(self, Q: Array, k: int) -> tuple[Floats, Ints]:
        distance, row = self.tree.query(Q, k=np.arange(1, k + 1), workers=self.workers)
        return distance, row.astype(np.int64)

    def pairs_within(self, Q: Array, radius: Floats) -> tuple[Ints, Ints, Floats]:
        reach = radius * (1 + 1e-12)
        if len(Q) * self.n_rows * PAIR_BYTES > get_memory():  # only then is counting worth it
            ask = self.tree.query_ball_point
            require_pairs(int(ask(Q, reach, workers=self.workers, return_length=True).sum()))
        found = self.tree.query_ball_point(Q, reach, workers=self.workers)
        counts = np.array([len(rows) for rows in found], dtype=np.int64)
        query = np.repeat(np.arange(len(Q)), counts)
        row = np.concatenate([np.asarray(rows, dtype=np.int64) for rows in found] or [query])
        difference = np.subtract(Q[query], self.X[row], dtype=np.float64)
        distance = np.sqrt(np.einsum("ij,ij->i", difference, difference))
        keep = distance <= radius[query]
        return query[keep], row[keep], distance[keep]

    def nearest(self, Q: Array | None, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        return nearest_by_rule(self, self.X if Q is None else Q, k, exclude_self=Q is None)

    def within(self, Q: Array | None, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        return within_by_rule(self, self.X if Q is None else Q, radius, exclude_self=Q is None)


class SklearnIndex:
    """Any metric scikit-learn knows, sparse rows, precomputed distances."""

    def __init__(self, X: Any, n_jobs: int | None, names: Any = None, **options: Any) -> None:
        self.X = X
        self.names = names
        self.n_rows = X.shape[0]
        self.options = options
        self.n_jobs = n_jobs
        self.search = NearestNeighbors(n_jobs=thread_count(n_jobs), **options).fit(X)

    def part(self, rows: Any) -> SklearnIndex:
        """An index of some of the rows under the same metric."""
        X = self.X[rows]
        if self.search.metric == "precomputed":
            X = X[:, rows]
        return SklearnIndex(X, self.n_jobs, self.names, **self.options)

    def most_neighbors(self, Q: Any) -> int:
        if self.search.metric == "precomputed" and sparse.issparse(Q):
            return int(np.diff(Q.tocsr().indptr).min(initial=self.n_rows))
        return self.n_rows

    def ask(self, Q: Any, k: int) -> tuple[Floats, Ints]:
        distance, row = self.search.kneighbors(Q, k)
        return distance.astype(np.float64), row.astype(np.int64)

    def pairs_within(self, Q: Any, radius: Floats) -> tuple[Ints, Ints, Floats]:
        widest = float(radius.max(initial=0.0))
        distances, rows = self.search.radius_neighbors(Q, widest * (1 + 1e-12))
        query = np.repeat(np.arange(Q.shape[0]), [len(part) for part in rows])
        row = np.concatenate([*rows, np.empty(0)]).astype(np.int64)
        distance = np.concatenate([*distances, np.empty(0)]).astype(np.float64)
        keep = distance <= radius[query]
        return query[keep], row[keep], distance[keep]

    def _check(self, Q: Any) -> Any:
        if Q is None:
            return self.X
        if self.search.metric != "nan_euclidean":
            refuse_nonfinite(Q, self.names)
        return Q

    def nearest(self, Q: Any, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        queries = self._check(Q)
        distance, row = nearest_by_rule(self, queries, k, exclude_self=Q is None)
        found = np.isfinite(distance).sum(axis=1)
        if self.most_neighbors(queries) < self.n_rows and found.min(initial=k) < k:
            short = int(found.argmin())
            raise InputError(
                f"{k} neighbors are required, and row {short} of the precomputed graph has only "
                f"{found[short]}."
            )
        return distance, row

    def within(self, Q: Any, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        return within_by_rule(self, self._check(Q), radius, exclude_self=Q is None)


def nearest_by_rule(lender: _Lender, Q: Any, k: int, *, exclude_self: bool) -> tuple[Floats, Ints]:
    """The k nearest, equal distances in order of row number, self excluded by its index."""
    asked = min(k + 1 + exclude_self, lender.most_neighbors(Q))
    distance, row = lender.ask(Q, asked)
    own = np.arange(Q.shape[0])[:, None] if exclude_self else np.full((Q.shape[0], 1), -1)
    distance = np.where(row == own, np.inf, distance)
    order = np.lexsort((row, distance))
    distance = np.take_along_axis(distance, order, 1)
    row = np.take_along_axis(row, order, 1)
    if distance.shape[1] > k:
        tied = np.flatnonzero(distance[:, k - 1] == distance[:, k])
        if len(tied):
            reach = distance[tied, k - 1]
            _settle_ties(lender, Q, tied, reach, own, distance, row, k)
    return distance[:, :k], row[:, :k]


def _settle_ties(
    lender: _Lender,
    Q: Any,
    tied: Ints,
    reach: Floats,
    own: Ints,
    distance: Floats,
    row: Ints,
    k: int,
) -> None:
    # A hair wider, so that rounding cannot lose the very rows that are tied.
    query, found, far = lender.pairs_within(Q[tied], reach * (1 + 1e-9))
    keep = found != own[tied[query], 0]
    query, found, far = query[keep], found[keep], far[keep]
    order = np.lexsort((found, far, query))
    first = np.searchsorted(query[order], np.arange(len(tied)))
    chosen = order[first[:, None] + np.arange(k)]
    distance[tied, :k] = far[chosen]
    row[tied, :k] = found[chosen]


def within_by_rule(
    lender: _Lender, Q: Any, radius: float | Floats, *, exclude_self: bool
) -> tuple[Ints, Ints, Floats]:
    """All pairs within the radius, by query, then distance, then row; self excluded by index."""
    query, row, distance = lender.pairs_within(Q, radii(radius, Q.shape[0]))
    if exclude_self:
        keep = query != row
        query, row, distance = query[keep], row[keep], distance[keep]
    order = np.lexsort((row, distance, query))
    return query[order], row[order], distance[order]
