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
     (local_extension.py)

C is singular when k > d: `reg` times its trace is added to the diagonal. For a new sample it is
added in proportion to the squared distance of each neighbour, so that a sample that comes to lie
on a fitted one gets all its weight from it: `transform` is continuous there and returns the
embedding (scikit-learn's does not).

`method`: "standard" as above; "modified", "hessian" and "ltsa" add up M from other local blocks
(local_patches.py). "hessian" is that of its authors; scikit-learn's takes all directions outside
the tangent plane, which is "ltsa". The patches of "ltsa" hold the row itself, as in Zhang and Zha's
paper; scikit-learn's hold its neighbours only, so that a row in nobody's list is left free.

Cost: the neighbours, m k^2 d for the weights, and the eigenvectors, by inverse iteration with a
sparse factor of I - W (linalg/inverse_iteration.py): M is not formed, because that would square
the condition number. Where the factor would fill in, as in data of many dimensions, a Chebyshev
filter (linalg/filtered.py), and where it would not fit the memory budget GMRES: O(m k) memory. Of
more rows than that serves, landmarks alone are embedded (lle_landmarks.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import ArrayRows, DaskRows, Rows, is_dask, require_memory
from nearfold.blocks.lazy import Call
from nearfold.errors import InputError, NotConvergedWarning, warn
from nearfold.graph import POLICIES, ConnectedGraph, OutsideSearch, apply_policy, graph_of_lists
from nearfold.inputs import check_table, open_rows, refuse_extreme
from nearfold.linalg import axis_signs
from nearfold.linalg.inverse_iteration import (
    BottomPairs,
    bottom_of_dense,
    bottom_of_factor,
    bottom_of_gram,
    bottom_of_symmetric,
    closed_classes,
    dense_bytes,
)
from nearfold.messages import Message
from nearfold.methods.lle_landmarks import (
    Landmarks,
    asked_landmarks,
    landmarks_for_memory,
    landmarks_for_time,
    lle_bytes,
)
from nearfold.methods.local_extension import LocalExtension
from nearfold.methods.local_patches import require_neighbours
from nearfold.methods.local_weights import NeighbourLists, patch_matrix, weight_matrix
from nearfold.methods.neighbor_base import APPROXIMATE, approximate_part
from nearfold.methods.neighbor_search import NearestNeighbors
from nearfold.methods.reduction import COLUMNS, Embedding, padded
from nearfold.methods.rows_there import SearchedRows, refuse_option
from nearfold.neighbors import ApproximateIndex, Certificate, EuclideanIndex, build_index
from nearfold.neighbors.partitioned import PartitionedIndex
from nearfold.notation import Array, Floats, Ints
from nearfold.run import reporting
from nearfold.state import Sizes, array, flag, list_of, nested, number, optional, require, text

_DENSE_ROWS = 100  # up to here all eigenvectors at once are as quick
_SOLVERS = {"auto": "auto", "arpack": "factor", "gmres": "gmres"}


@dataclass(frozen=True)
class Recipe:
    """How weights are found and solved: the parameters of the method itself."""

    method: str
    reg: float
    tol: dict[str, float]
    solver: str
    max_iter: int
    n_jobs: int | None


def neighbour_lists(index: Any, k: int, policy: str) -> tuple[NeighbourLists, ConnectedGraph]:
    """Line 1 of Algorithm 10.4, and the pieces of the graph, bridged or not."""
    distance, near = index.nearest(None, k)
    refuse_extreme(float(distance.max()), np.float64)
    connected = apply_policy(
        graph_of_lists(distance, near), policy, OutsideSearch(index), distance[:, -1], k, tree=True
    )
    return NeighbourLists.bridged(near, connected.bridges), connected


def embed(index: Any, lists: NeighbourLists, k: int, how: Recipe) -> BottomPairs:
    """Lines 2 to 6 of Algorithm 10.4 for the rows of one connected piece: Z (m, k)."""
    m = index.n_rows
    dense = how.solver == "dense" or m <= _DENSE_ROWS or k > m // 4
    if dense:
        advice = "Use eigen_solver='auto', or fewer components."
        require_memory(dense_bytes(m), f"The dense solution for {m:,} rows", advice)
    if how.method != "standard":
        M = patch_matrix(index.X, lists, k, how.method, how.tol, how.n_jobs)
        if dense:
            return bottom_of_dense(M.toarray(), k)
        return bottom_of_symmetric(M, k, how.tol["eigen"], _SOLVERS[how.solver], how.max_iter)
    X = index if isinstance(index, PartitionedIndex) else index.X
    W = weight_matrix(X, lists, how.reg, how.n_jobs)  # (10.28)
    if dense:
        A = np.eye(m) - W.toarray()
        return bottom_of_factor(A, k, len(closed_classes(W)) - 1)  # (10.30)
    return bottom_of_gram(W, k, how.tol["eigen"], _SOLVERS[how.solver], how.max_iter)  # (10.31)


def _check_pieces(held: dict[str, Any], sizes: Sizes) -> None:
    pieces, label = held["pieces_"], held["label_"]
    require(len(pieces) > 0 and all(len(rows) for rows in pieces), "an empty piece")
    require(len(pieces) == 1 or label.max() < len(pieces), "rows of a piece that is not there")
    require(held.get("n_components", sizes["k"]) == sizes["k"], "n_components: other axes")
    require(held.get("n_neighbors", 1) <= sizes["s"], "n_neighbors: more than there are rows")
    every = held.get("landmarks_") is None
    require(not every or sizes["s"] == sizes["n"], "some rows, but no landmarks")


class LocallyLinearEmbedding(SearchedRows, Embedding):
    """LLE and its variants; method="standard" is fitted on Dask tables, too.

    `transform` of a fitted row is its row of `embedding_`, for every method. Rows that occur more
    than once are samples of their own in the fit, with neighbour lists and so coordinates of their
    own; `transform` cannot tell them apart and returns the mean over their first `n_neighbors`
    copies.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours k of each row.
    n_components : int, default=2
        Coordinates d' of the embedding.
    reg : float, default=1e-3
        Regularisation of the weights, as a share of the trace of C.
    eigen_solver : {"auto", "arpack", "dense", "gmres"}, default="auto"
        "arpack": inverse iteration with a sparse factor, refused beyond the memory budget; "gmres":
        with an iterative solver, in O(m k) memory; "auto": a polynomial filter where a factor would
        fill in (method="standard"), otherwise the first if it fits, else the second
        (`approximation_` says so); "dense": all singular values of I - W.
    tol : float, default=1e-6
        Tolerance of ARPACK; values above 1e-9 are taken as 1e-9.
    max_iter : int, default=100
        Most restarts of ARPACK. No effect on the dense solver.
    method : {"standard", "modified", "hessian", "ltsa"}, default="standard"
        The variant.
    hessian_tol : float, default=1e-4
        Tolerance of "hessian".
    modified_tol : float, default=1e-12
        Tolerance of "modified".
    neighbors_algorithm : {"auto", "brute", "kd_tree", "ball_tree", "approximate"}, default="auto"
        "approximate": as in `NearestNeighbors`, with `certificate_`. The others are accepted for
        compatibility and have no effect: the search is exact.
    random_state : int, RandomState or None, default=None
        Of neighbors_algorithm="approximate" and of the landmarks; None is 0.
    n_jobs : int or None, default=None
        Threads; changes no result.
    disconnected : {"bridge", "error", "largest", "each"}, default="bridge"
        What to do about a neighbourhood graph in pieces: see nearfold.graph.connect.
    verbose : bool, default=False
        Show progress.
    recall : float, default=0.95
        With neighbors_algorithm="approximate": the recall of the neighbours to be certified.
    n_landmarks : int or None, default=None
        Embed so many rows, drawn at random, and place the others as new ones. None: all rows, or,
        with eigen_solver="auto", at most 20,000 landmarks where the memory budget forbids all, or
        of more than 100,000 rows whose eigenvectors would take hours (see lle_landmarks.py).

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Z.
    reconstruction_error_ : float
        The sum of the eigenvalues: the objective (10.29).
    eigenvalues_ : ndarray
        Of M, smallest first (of the largest piece).
    nbrs_ : NearestNeighbors
        The fitted rows (or landmarks), ready for queries.
    index_ : index
        The fitted rows or landmarks (`index_.X`) and the search among them.
    landmarks_ : ndarray of shape (n_landmarks,) or None
        Row numbers of the landmarks, ascending.
    label_ : ndarray of shape (n_samples,) or (n_landmarks,)
        The piece of each row that was embedded, 0 the largest.
    pieces_ : list of ndarray
        The rows (or landmarks) embedded together.
    certificate_ : Certificate
        What is known about the neighbours, with neighbors_algorithm="approximate".
    route_ : str
        How the eigenvectors were found.
    approximation_ : str or None
        What was approximated: landmarks, or what the memory budget decided.
    converged_ : bool
        Whether all linear solves converged.
    n_features_in_ : int
        Columns of the fitted rows.
    feature_names_in_ : ndarray
        Their names, if they had any.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from nearfold import LocallyLinearEmbedding
    >>> X, _ = make_swiss_roll(500, random_state=0)
    >>> LocallyLinearEmbedding(n_neighbors=10).fit_transform(X).shape
    (500, 2)
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012  scikit-learn's mechanism
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "reg": [Interval(Real, 0, None, closed="left")],
        "eigen_solver": [StrOptions({"auto", "arpack", "dense", "gmres"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "method": [StrOptions({"standard", "hessian", "modified", "ltsa"})],
        "hessian_tol": [Interval(Real, 0, None, closed="left")],
        "modified_tol": [Interval(Real, 0, None, closed="left")],
        "neighbors_algorithm": APPROXIMATE["algorithm"],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
        "disconnected": [StrOptions(set(POLICIES))],
        "verbose": ["verbose"],
        "recall": APPROXIMATE["recall"],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
    }

    fitted_state = COLUMNS.extended(
        _check_pieces,
        ("landmarks_",),  # not in files of versions that had none
        index_=nested(EuclideanIndex, ApproximateIndex, n="s", d="d"),
        embedding_=array("n k"),
        landmarks_=optional(array("s", "i", below="n")),
        eigenvalues_=array("*", least=0),
        reconstruction_error_=number(least=0),
        label_=array("s", "i", below="s"),
        pieces_=list_of(array("*", "i", below="s")),
        route_=text(),
        approximation_=optional(text()),
        converged_=flag(),
    )

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
        recall: float = 0.95,
        n_landmarks: int | None = None,
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
        self.recall = recall
        self.n_landmarks = n_landmarks

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> LocallyLinearEmbedding:
        """Find the coordinates of the rows of X."""
        rows = self._open(X)
        self._check_sizes(int(rows.n_rows or 0), rows.n_features)
        with reporting(self.verbose):
            chosen = self._choose_landmarks(rows)
            index = self._make_index(chosen.of(rows))
            lists, connected = neighbour_lists(index, self.n_neighbors, self.disconnected)
            # What the search has built need not wait through the eigenproblem.
            self.index_ = index.without_structures()
            self.label_, self.pieces_ = connected.label, connected.pieces
            parts = [self._embed_piece(piece, lists) for piece in self.pieces_]
            Z = self._extension().assemble([pairs.vectors for pairs in parts], rows.dtype)
            self.landmarks_, self.embedding_ = chosen.rows, Z
            if chosen.rows is not None:
                self.embedding_ = self._extension().place_rows(rows, Z)
                self.embedding_[chosen.rows] = Z
        self.eigenvalues_ = parts[0].values
        self.reconstruction_error_ = float(sum(pairs.values.sum() for pairs in parts))  # (10.29)
        self.route_ = parts[0].route
        eigenvectors = next((p.approximation for p in parts if p.approximation), None)
        notes = [chosen.note, connected.note, eigenvectors]
        self.approximation_ = "; ".join(filter(None, notes)) or None
        self.converged_ = all(pairs.converged for pairs in parts)
        self._report(sum(pairs.null for pairs in parts))
        return self

    def _open(self, X: Any) -> Rows:
        """The rows, checked here or wherever they are read."""
        if not is_dask(X):
            return ArrayRows(check_table(self, X, reset=True))
        refuse_option(self, self.method != "standard", "method='standard'")
        refuse_option(self, self.neighbors_algorithm == "approximate", "neighbors_algorithm='auto'")
        return open_rows(self, X)

    def _check_sizes(self, m: int, d: int) -> None:
        k = self.n_neighbors
        if self.n_components > d:
            raise InputError("output dimension must be less than or equal to input dimension")
        if k >= m:
            raise InputError(
                f"Expected n_neighbors < n_samples, but n_samples = {m}, n_neighbors = {k}"
            )
        require_neighbours(self.method, k, self.n_components)

    def _choose_landmarks(self, rows: Rows) -> Landmarks:
        m, k, seed = int(rows.n_rows or 0), self.n_neighbors, self.random_state
        if self.n_landmarks is not None:
            return asked_landmarks(m, k, self.n_landmarks, seed)
        if self.eigen_solver == "auto":
            chosen = landmarks_for_memory(rows, k, self.n_components, self.method, seed)
            if chosen.rows is None:
                chosen = landmarks_for_time(rows, k, self._make_index, seed)
            return chosen
        advice = "Use fewer rows, and transform the others, or set n_landmarks."
        require_memory(lle_bytes(m, k, self.method), f"LLE of {m:,} rows", advice)
        return Landmarks()

    def _make_index(self, X: Array | DaskRows) -> Any:
        approximate = self.neighbors_algorithm == "approximate"
        options = {
            "algorithm": "approximate" if approximate else "auto",
            "n_jobs": self.n_jobs,
            "k_hint": self.n_neighbors,
            "recall": self.recall,
            "random_state": self.random_state,
        }
        if isinstance(X, DaskRows):
            return PartitionedIndex(X, names=X.feature_names, **options)
        return build_index(X, **options)

    def _extension(self) -> LocalExtension:
        return LocalExtension(
            self.index_, self.pieces_, self.label_, self.n_neighbors, self.reg, self.n_jobs
        )

    def _embed_piece(self, rows: Ints, lists: NeighbourLists) -> BottomPairs:
        """The embedding of one piece, its signs fixed, padded with zeros if the piece is tiny."""
        tol = {
            "eigen": min(self.tol, 1e-9),
            "hessian": self.hessian_tol,
            "modified": self.modified_tol,
        }
        how = Recipe(self.method, self.reg, tol, self.eigen_solver, self.max_iter, self.n_jobs)
        k = min(self.n_components, len(rows) - 1)
        index = self.index_ if len(rows) == self.index_.n_rows else self.index_.part(rows)
        pairs = embed(index, lists.among(rows), k, how)
        V = pairs.vectors * axis_signs(pairs.vectors.T)
        return replace(pairs, vectors=padded(V, self.n_components))

    def _report(self, null: int) -> None:
        if null and self.method == "standard":
            warn(Message("warn.lle_groups", n=null))
        if not self.converged_:
            warn(
                "the linear solves for the bottom eigenvectors did not converge: see "
                "reconstruction_error_.",
                NotConvergedWarning,
            )

    _needs_rows_of_lists = True

    def _length_of_lists(self, call: Call) -> int:
        if not self._extension().whole:
            raise InputError(Message("cluster.pieces", policy=self.disconnected, name=call.method))
        return self.n_neighbors

    def transform(self, X: Any) -> Floats:
        """Place new rows by the weights that reconstruct them from the fitted rows."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        landmarks = vars(self).get("landmarks_")
        Z = self.embedding_ if landmarks is None else self.embedding_[landmarks]
        return self._extension().place(X, Z)

    @property
    def certificate_(self) -> Certificate:
        """What is known about the neighbours, with neighbors_algorithm="approximate"."""
        check_is_fitted(self)
        return approximate_part(self.index_).certificate(self.n_neighbors)

    @property
    def nbrs_(self) -> NearestNeighbors:
        """The fitted rows, ready for queries."""
        check_is_fitted(self)
        return NearestNeighbors.from_index(self.index_, self, n_neighbors=self.n_neighbors)
