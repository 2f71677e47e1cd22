"""Locally linear embedding (section 10.5.2, Algorithm 10.4).

Coordinates in which every sample is the same weighted mean of its neighbours as in the data.

Symbols: X (m, d) samples, Q_i the k neighbours of x_i, W (m, m) weights in rows, M, Z (m, d').

Steps
  1. the k nearest neighbours of each sample
  2. C_jk = (x_i - x_j)^T (x_i - x_k); the weights w_i = C^-1 1, scaled to sum to one    (10.28)
  3. M = (I - W)^T (I - W)                                                               (10.30)
  4. Z: the eigenvectors of the d' smallest eigenvalues of M, orthonormal, the constant one left
     out for what it is                                                                  (10.31)
  5. a new sample: weights from its neighbours among the samples, Z by the same weights

C is singular when k > d: `reg` times its trace is added to the diagonal. For a new sample it is
added in proportion to the squared distance of each neighbour, so that a sample that comes to lie
on a fitted one gets all its weight from it: `transform` is continuous there and returns the
embedding (scikit-learn's does not).

`method`: "standard" as above; "modified", "hessian" and "ltsa" add up M from other local blocks
(local_patches.py). "hessian" is that of its authors; scikit-learn's takes all directions outside
the tangent plane, which is "ltsa".

Cost: the neighbours, m k^2 d for the weights, and the eigenvectors, by a sparse factor of I - W
instead of M (linalg/grounded.py), or by GMRES where that would not fit: O(m k) memory then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import spans
from nearfold.errors import InputError, warn
from nearfold.graph import OutsideSearch, apply_policy, graph_of_lists, side_by_side
from nearfold.inputs import check_table, refuse_extreme
from nearfold.linalg import axis_signs
from nearfold.linalg.grounded import (
    BottomPairs,
    bottom_of_dense,
    bottom_of_gram,
    bottom_of_symmetric,
    closed_classes,
)
from nearfold.methods.local_patches import (
    hessian_blocks,
    ltsa_blocks,
    modified_blocks,
    spread_of_patches,
)
from nearfold.methods.neighbor_search import NearestNeighbors
from nearfold.neighbors import build_index
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order, reporting

_METHODS = ("standard", "modified", "hessian", "ltsa")
_DENSE_ROWS = 800  # up to here all eigenvalues at once are as quick


def barycentric_weights(
    rows: Array, neighbours: Array, reg: float, *, by_distance: bool = False
) -> Floats:
    """Weights (b, k) that best reconstruct b rows from their k neighbours (b, k, d). (10.28)"""
    difference = neighbours.astype(np.float64) - rows[:, None]
    C = difference @ difference.transpose(0, 2, 1)
    k = C.shape[1]
    square = np.einsum("bjj->bj", C)
    trace = square.sum(axis=1, keepdims=True)
    ridge = reg * (k * square if by_distance else np.broadcast_to(trace, square.shape))
    # Rows that coincide with all their neighbours still need a solution, and so does reg = 0.
    least = np.where(trace > 0, 1e-14 * trace, max(reg, 1e-14))
    C[:, np.arange(k), np.arange(k)] += np.maximum(ridge, least)
    w = np.linalg.solve(C, np.ones((len(C), k, 1)))[..., 0]
    return w / w.sum(axis=1, keepdims=True)


def weights_in_blocks(
    X: Array, Q: Array, near: Ints, reg: float, n_jobs: int | None, *, by_distance: bool = False
) -> Floats:
    """Weights (m, k) of the rows Q from their neighbours `near` in X, block by block."""
    step = max(1, 2**20 // max(1, near.shape[1] * X.shape[1]))

    def solve(rows: slice) -> Floats:
        return barycentric_weights(Q[rows], X[near[rows]], reg, by_distance=by_distance)

    pieces = spans(len(Q), step)
    parts = map_in_order(solve, pieces, n_jobs=n_jobs, label="weights", total=len(pieces))
    return np.concatenate(list(parts))


@dataclass(frozen=True)
class Lists:
    """Neighbours of each row: k each, and more for the rows at which bridges end."""

    near: Ints  # (m, k)
    more: dict[int, list[int]]

    def groups(self) -> Iterator[tuple[Ints, Ints]]:
        """Rows and their neighbours (rows, s), all of the same number s."""
        plain = np.setdiff1d(np.arange(len(self.near)), np.fromiter(self.more, np.int64))
        yield plain, self.near[plain]
        for row, extra in self.more.items():
            yield np.array([row]), np.concatenate([self.near[row], extra])[None]


def weight_matrix(X: Array, lists: Lists, reg: float, n_jobs: int | None) -> Any:
    """W (m, m), sparse."""
    tails, heads, values = [], [], []
    for rows, near in lists.groups():
        w = weights_in_blocks(X, X[rows], near, reg, n_jobs)
        tails.append(np.repeat(rows, near.shape[1]))
        heads.append(near.ravel())
        values.append(w.ravel())
    m = len(X)
    entries = (np.concatenate(values), (np.concatenate(tails), np.concatenate(heads)))
    return sparse.csr_array(entries, shape=(m, m))


def patch_matrix(X: Array, lists: Lists, k: int, method: str, tol: Any, n_jobs: int | None) -> Any:
    """M (m, m), sparse, as the sum of blocks of local patches."""
    m = len(X)
    eta = 0.0
    if method == "modified":
        spreads = [
            spread_of_patches(X[near].astype(np.float64) - X[rows, None], k)
            for rows, near in _patches(lists, X.shape[1])
        ]
        eta = float(np.median(np.concatenate(spreads)))

    def blocks(patch: tuple[Ints, Ints]) -> Any:
        rows, near = patch
        P = X[near].astype(np.float64)
        if method == "ltsa":
            found = ltsa_blocks(P, k)
        elif method == "hessian":
            found = hessian_blocks(P, k, tol["hessian"])
        else:
            found = modified_blocks(P - X[rows, None], k, eta, tol["modified"])
            near = np.column_stack([rows, near])
        s = near.shape[1]
        at = (np.repeat(near, s, axis=1).ravel(), np.tile(near, (1, s)).ravel())
        return sparse.coo_array((found.ravel(), at), shape=(m, m)).tocsr()

    M = sparse.csr_array((m, m))
    for part in map_in_order(blocks, list(_patches(lists, X.shape[1])), n_jobs=n_jobs):
        M = M + part
    return ((M + M.T) / 2).tocsr()


def _patches(lists: Lists, d: int) -> Iterator[tuple[Ints, Ints]]:
    for rows, near in lists.groups():
        for some in spans(len(rows), max(1, 2**21 // (near.shape[1] * max(d, near.shape[1])))):
            yield rows[some], near[some]


class LocallyLinearEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """LLE and its variants.

    Parameters are scikit-learn's; `eigen_solver` "auto" and "arpack" mean the cheapest sure way,
    "dense" is honoured; results do not depend on `random_state`. New: `disconnected`, what to do
    about a graph in pieces ("bridge", "error", "largest", "each": see nearfold.graph.connect);
    `verbose`.

    `transform` of the fitted rows is `embedding_`, for every method (rows that have duplicates
    get the mean of theirs).

    New attributes: `label_`, the piece of each row, 0 the largest; `eigenvalues_`; `route_`, how
    they were found; `converged_`.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from nearfold import LocallyLinearEmbedding
    >>> X, _ = make_swiss_roll(500, random_state=0)
    >>> LocallyLinearEmbedding(n_neighbors=10).fit_transform(X).shape
    (500, 2)
    """

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        n_components: int = 2,
        reg: float = 1e-3,
        eigen_solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 100,
        method: str = "standard",
        hessian_tol: float = 1e-4,
        modified_tol: float = 1e-12,
        neighbors_algorithm: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        disconnected: str = "bridge",
        verbose: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.reg = reg
        self.eigen_solver = eigen_solver
        self.tol = tol
        self.max_iter = max_iter
        self.method = method
        self.hessian_tol = hessian_tol
        self.modified_tol = modified_tol
        self.neighbors_algorithm = neighbors_algorithm
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.disconnected = disconnected
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> LocallyLinearEmbedding:
        """Find the coordinates of the rows of X."""
        X = check_table(self, X, reset=True)
        self._check_parameters(X)
        m = len(X)
        self.nbrs_ = NearestNeighbors(
            n_neighbors=self.n_neighbors, algorithm=self.neighbors_algorithm, n_jobs=self.n_jobs
        ).fit(X)
        with reporting(self.verbose):
            distance, near = self.nbrs_._index.nearest(None, self.n_neighbors)
            refuse_extreme(float(distance.max()), np.float64)
            settled = apply_policy(
                graph_of_lists(distance, near),
                self.disconnected,
                OutsideSearch(self.nbrs_._index),
                distance[:, -1],
                self.n_neighbors,
                tree=True,
            )
            lists = Lists(near, _ends(settled.bridges))
            parts = [self._embed(X, rows, lists) for rows in settled.pieces]
        self.label_ = settled.label
        embeddings = [pairs.vectors for pairs in parts]
        side_by_side(embeddings)
        self._rows = settled.pieces
        self.embedding_ = np.zeros((m, self.n_components), dtype=X.dtype)
        for rows, Z in zip(settled.pieces, embeddings, strict=True):
            self.embedding_[rows] = Z
        outside = np.setdiff1d(np.arange(m), np.concatenate(settled.pieces))
        if len(outside):  # policy "largest"
            self.embedding_[outside] = self._place_in(settled.pieces[0], X[outside])
        self.eigenvalues_ = parts[0].values
        self.reconstruction_error_ = float(sum(pairs.values.sum() for pairs in parts))
        self.route_ = parts[0].route
        self.converged_ = all(pairs.converged for pairs in parts)
        self._report(parts)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Fit, and return `embedding_`."""
        return self.fit(X).embedding_

    def _check_parameters(self, X: Array) -> None:
        for name in ("n_components", "n_neighbors"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or int(value) < 1:
                raise InputError(f"{name}={value!r}: give a positive whole number.")
        if self.method not in _METHODS:
            raise InputError(f"method={self.method!r}: use one of {', '.join(_METHODS)}.")
        if self.eigen_solver not in ("auto", "arpack", "dense"):
            raise InputError(f"eigen_solver={self.eigen_solver!r}: use auto, arpack or dense.")
        m, d = X.shape
        if self.n_components > d:
            raise InputError("output dimension must be less than or equal to input dimension")
        if self.n_neighbors >= m:
            raise InputError(
                f"Expected n_neighbors < n_samples, but n_samples = {m}, n_neighbors = "
                f"{self.n_neighbors}"
            )
        if self.method == "modified" and self.n_neighbors < self.n_components:
            raise InputError("modified LLE requires n_neighbors >= n_components")
        if self.method == "ltsa" and self.n_neighbors <= self.n_components + 1:
            raise InputError(
                "for method='ltsa', n_neighbors must be greater than n_components + 1: fewer "
                "always lie on a plane"
            )

    def _embed(self, X: Array, rows: Ints, lists: Lists) -> BottomPairs:
        """The embedding of one piece, its signs fixed, padded with zeros if the piece is tiny."""
        if len(rows) < len(X):
            number = np.full(len(X), -1, dtype=np.int64)
            number[rows] = np.arange(len(rows))
            lists = Lists(number[lists.near[rows]], {})
            X = X[rows]
        k = min(self.n_components, len(rows) - 1)
        pairs = self._bottom(X, lists, k)
        V = pairs.vectors * axis_signs(pairs.vectors.T)
        V = np.pad(V, ((0, 0), (0, self.n_components - k)))
        return BottomPairs(pairs.values, V, pairs.null, pairs.route, pairs.converged)

    def _bottom(self, X: Array, lists: Lists, k: int) -> BottomPairs:
        dense = self.eigen_solver == "dense" or len(X) <= _DENSE_ROWS
        tol = min(self.tol, 1e-9)
        if self.method == "standard":
            W = weight_matrix(X, lists, self.reg, self.n_jobs)
            if not dense:
                return bottom_of_gram(W, k, tol)
            A = np.eye(len(X)) - W.toarray()
            return bottom_of_dense(A.T @ A, k, len(closed_classes(W)) - 1)  # (10.30)
        limits = {"hessian": self.hessian_tol, "modified": self.modified_tol}
        M = patch_matrix(X, lists, k, self.method, limits, self.n_jobs)
        return bottom_of_dense(M.toarray(), k) if dense else bottom_of_symmetric(M, k, tol)

    def _report(self, parts: list[BottomPairs]) -> None:
        null = sum(pairs.null for pairs in parts)
        if null and self.method == "standard":
            warn(
                f"{null} of the eigenvalues are zero: the neighbour lists of some groups of rows "
                "lead only to each other, and that many axes merely tell these groups apart. Use "
                "more neighbours."
            )
        if not self.converged_:
            warn("the bottom eigenvectors did not converge: see reconstruction_error_.")

    def transform(self, X: Any) -> Floats:
        """Place new rows by the weights that reconstruct them from the fitted rows."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        fitted = self.nbrs_._fit_X
        if len(self._rows) == 1 and len(self._rows[0]) < len(fitted):  # policy "largest"
            distance, near = self.nbrs_._index.nearest(X, 1)
            known = distance[:, 0] == 0
            Z = np.empty((len(X), self.n_components), dtype=X.dtype)
            Z[known] = self.embedding_[near[known, 0]]
            Z[~known] = self._place_in(self._rows[0], X[~known])
            return Z
        if len(self._rows) == 1:
            return self._place_in(self._rows[0], X)
        owner = self.label_[self.nbrs_._index.nearest(X, 1)[1][:, 0]]
        Z = np.empty((len(X), self.n_components), dtype=X.dtype)
        for i, rows in enumerate(self._rows):
            Z[owner == i] = self._place_in(rows, X[owner == i])
        return Z

    def _place_in(self, rows: Ints, X: Array) -> Floats:
        """Place rows among those of one piece."""
        if len(X) == 0:
            return np.empty((0, self.n_components), dtype=X.dtype)
        fitted = self.nbrs_._fit_X
        whole = len(rows) == len(fitted)
        inside = fitted if whole else fitted[rows]
        index = self.nbrs_._index if whole else build_index(inside, n_jobs=self.n_jobs)
        _, near = index.nearest(X, min(self.n_neighbors, len(rows)))
        w = weights_in_blocks(inside, X, near, self.reg, self.n_jobs, by_distance=True)
        Z = np.einsum("bk,bkj->bj", w, self.embedding_[rows][near])
        return Z.astype(X.dtype, copy=False)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _ends(bridges: Any) -> dict[int, list[int]]:
    """For each row at which a bridge ends, the rows at the other ends."""
    more: dict[int, list[int]] = {}
    if bridges is not None:
        for a, b in zip(bridges[0].tolist(), bridges[1].tolist(), strict=True):
            more.setdefault(a, []).append(b)
            more.setdefault(b, []).append(a)
    return more
