"""Isometric mapping (section 10.5.1, Algorithm 10.3).

Classical MDS of geodesics: distances along the manifold, as lengths of shortest paths over the
graph of near neighbours.

Symbols: X (m, d) samples, D (m, m) geodesics, B = -1/2 J (D o D) J, Z (m, d').

Steps
  1. the k nearest neighbours of each sample, or all within epsilon; joined both ways
  2. the shortest paths between all samples, by Dijkstra's algorithm or Floyd's
  3. classical MDS of the lengths of the paths                                 (Algorithm 10.1)
  4. a new sample: its geodesics are min over its neighbours of (distance + theirs); then Gower's
     formula with the means of the training geodesics. Or the book's way, a regressor trained on
     (x_i, z_i): extension="regressor"

A graph in pieces has infinite geodesics ("open circuits"); `disconnected` says what to do about
it. Edges that jump between parts of the manifold ("short circuits") are looked for by
`nearfold.diagnose`.

Cost: m^2 log m for the paths, m^2 numbers for D in the dtype of X. Beyond the memory budget, or
with `n_landmarks`: geodesics from L landmarks alone, spread by max-min over the graph, and landmark
MDS: O(L m).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import get_memory, show_bytes, spans
from nearfold.errors import ApproximationWarning, InputError, warn
from nearfold.graph import Graph, Surroundings, all_geodesics, neighbourhood_graph, settle
from nearfold.graph.build import graph_of_matrix
from nearfold.graph.connect import side_by_side, what_connects
from nearfold.graph.paths import tree_from
from nearfold.inputs import refuse_extreme
from nearfold.linalg import axis_signs
from nearfold.linalg.centred import HeldSquares
from nearfold.methods.kernel_pca import KernelPCA
from nearfold.methods.landmark_mds import (
    GowerMap,
    affordable_landmarks,
    landmark_mds,
    positive_pairs,
    spread_landmarks,
)
from nearfold.methods.neighbor_search import NearestNeighbors, split_by_query
from nearfold.notation import Floats, Ints
from nearfold.run import map_in_order, reporting

_SOLVERS, _PATHS = ("auto", "arpack", "dense"), ("auto", "FW", "D")


@dataclass
class Piece:
    """One embedding: the rows it covers, geodesics from its landmarks (or from all), its map."""

    rows: Ints  # (n,) of the table
    D: Floats  # (n, L) geodesics between rows and landmarks
    landmarks: Ints | None  # (L,) positions in `rows`; None: all of them
    map: GowerMap
    Z: Floats  # (n, d')
    lam: Floats  # (d',)
    V: Floats | None  # (n, d') eigenvectors, of an exact embedding
    shift: float = 0.0  # along the first axis, when pieces lie side by side


def embed_exactly(rows: Ints, D: Floats, k: int, tol: float, n_jobs: int | None) -> Piece:
    """Classical MDS of all geodesics."""
    refuse_extreme(float(D[0].max(initial=0.0)), D.dtype)
    B = HeldSquares(D, n_jobs)
    lam, V = positive_pairs(B.top(min(k, len(D)), tol), D.dtype)
    missing = k - len(lam)
    lam, V = np.pad(lam, (0, missing)), np.pad(V, ((0, 0), (0, missing)))
    V = V * axis_signs(V.T)
    return Piece(rows, D, None, GowerMap(B.row_means, lam, V), V * np.sqrt(lam), lam, V)


def embed_by_landmarks(rows: Ints, graph: Graph, k: int, count: int, dtype: Any) -> Piece:
    """Landmark MDS of geodesics from some rows, each as far as possible from those before it."""
    lengths = graph.lengths.astype(dtype)
    landmarks, D = spread_landmarks(
        lambda i: tree_from(graph, i, lengths)[0], graph.n, count, dtype
    )
    refuse_extreme(float(D[0].max(initial=0.0)), D.dtype)
    mapped, Z, lam, *_ = landmark_mds(D, landmarks, k)
    missing = k - Z.shape[1]
    Z, lam = np.pad(Z, ((0, 0), (0, missing))), np.pad(lam, (0, missing))
    return Piece(rows, np.ascontiguousarray(D.T), landmarks, mapped, Z, lam, None)


def extend_geodesics(D: Floats, distance: Floats, near: Ints) -> Floats:
    """Geodesics (q, L) of new rows: min over their neighbours of distance + geodesic."""
    found = D[near[:, 0]] + distance[:, :1]
    for j in range(1, near.shape[1]):
        np.minimum(found, D[near[:, j]] + distance[:, j : j + 1], out=found)
    return found


class Isomap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Isomap: exact where the geodesics fit the memory budget, by landmarks beyond.

    Parameters are scikit-learn's; `eigen_solver` and `neighbors_algorithm` are accepted and one
    exact way serves all. New: `disconnected`, what to do about a graph in pieces ("bridge",
    "error", "largest", "each": see nearfold.graph.connect); `n_landmarks`, geodesics from so many
    rows only; `extension`, how new rows are placed: "geodesic", or "regressor" with `regressor`
    (any of scikit-learn's; default: 5 nearest neighbours weighted by distance); `verbose`.

    `transform` of the fitted rows is `embedding_` with extension="geodesic" (with landmarks, too).

    New attributes: `label_`, the piece of each row, 0 the largest; `landmarks_`, their rows or
    None; `approximation_`, None or what was approximated. `dist_matrix_` holds the geodesics,
    (m, L) to the landmarks if there are any.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from nearfold import Isomap
    >>> X, _ = make_swiss_roll(500, random_state=0)
    >>> Isomap(n_neighbors=8).fit_transform(X).shape
    (500, 2)
    """

    def __init__(
        self,
        *,
        n_neighbors: int | None = 5,
        radius: float | None = None,
        n_components: int = 2,
        eigen_solver: str = "auto",
        tol: float = 0,
        max_iter: int | None = None,
        path_method: str = "auto",
        neighbors_algorithm: str = "auto",
        n_jobs: int | None = None,
        metric: Any = "minkowski",
        p: float = 2,
        metric_params: dict[str, Any] | None = None,
        disconnected: str = "bridge",
        n_landmarks: int | None = None,
        extension: str = "geodesic",
        regressor: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.n_components = n_components
        self.eigen_solver = eigen_solver
        self.tol = tol
        self.max_iter = max_iter
        self.path_method = path_method
        self.neighbors_algorithm = neighbors_algorithm
        self.n_jobs = n_jobs
        self.metric = metric
        self.p = p
        self.metric_params = metric_params
        self.disconnected = disconnected
        self.n_landmarks = n_landmarks
        self.extension = extension
        self.regressor = regressor
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Isomap:
        """Find the coordinates of the rows of X (or of distances, metric="precomputed")."""
        self._check_parameters()
        with reporting(self.verbose):
            graph, settled = self._settled_graph(X)
            m, dtype = graph.n, self.nbrs_._fit_X.dtype
            self.label_ = settled.label
            self.approximation_: str | None = None
            pieces = [self._embed(rows, settled.graph, m, dtype) for rows in settled.pieces]
        side_by_side([piece.Z for piece in pieces])
        self._pieces = pieces
        self._home = np.full(m, -1, dtype=np.int64)  # which piece, and where in it
        self._place = np.zeros(m, dtype=np.int64)
        for i, piece in enumerate(pieces):
            piece.shift = float(piece.Z[:, 0].mean()) if len(pieces) > 1 else 0.0
            self._home[piece.rows], self._place[piece.rows] = i, np.arange(len(piece.rows))
        self._assemble(m, dtype)
        if self.extension == "regressor":
            model = self.regressor
            if model is None:
                from nearfold.methods.knn import KNeighborsRegressor

                model = KNeighborsRegressor(n_neighbors=min(5, m), weights="distance")
            self.regressor_ = clone(model).fit(self.nbrs_._fit_X, self.embedding_)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Fit, and return `embedding_`."""
        return self.fit(X).embedding_

    def _check_parameters(self) -> None:
        if self.n_neighbors is not None and self.radius is not None:
            raise InputError(
                "Both n_neighbors and radius are provided. Use Isomap(radius="
                f"{self.radius}, n_neighbors=None) if intended to use radius-based neighbors"
            )
        if self.n_neighbors is None and self.radius is None:
            raise InputError("give n_neighbors, or radius with n_neighbors=None.")
        for name in ("n_components", "n_neighbors"):
            value = getattr(self, name)
            if name == "n_neighbors" and value is None:
                continue
            if not isinstance(value, Integral) or int(value) < 1:
                raise InputError(f"{name}={value!r}: give a positive whole number.")
        if self.radius is not None and not self.radius >= 0:
            raise InputError(f"radius={self.radius}: a radius is a number, and not negative.")
        for name, known in (
            ("eigen_solver", _SOLVERS),
            ("path_method", _PATHS),
            ("extension", ("geodesic", "regressor")),
        ):
            if getattr(self, name) not in known:
                raise InputError(f"{name}={getattr(self, name)!r}: use one of {', '.join(known)}.")

    def _settled_graph(self, X: Any) -> tuple[Graph, Any]:
        """The neighbourhood graph, and what the policy made of it."""
        search = NearestNeighbors(
            n_neighbors=self.n_neighbors or 5,
            radius=self.radius if self.radius is not None else 1.0,
            algorithm=self.neighbors_algorithm,
            metric=self.metric,
            p=self.p,
            metric_params=self.metric_params,
            n_jobs=self.n_jobs,
        ).fit(X)
        self.nbrs_ = search
        self.n_features_in_ = search.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(search, "feature_names_in_"):
            self.feature_names_in_ = search.feature_names_in_
        rows = search._fit_X
        m = rows.shape[0]
        if self.n_neighbors is not None and self.n_neighbors >= m:
            raise InputError(
                f"Expected n_neighbors < n_samples, but n_samples = {m}, n_neighbors = "
                f"{self.n_neighbors} (a row is not its own neighbour)."
            )
        given = self.metric == "precomputed" and sparse.issparse(rows)
        if given and self.n_neighbors is None:
            radius = float(self.radius or 0.0)
            graph, reach = graph_of_matrix(rows, radius), np.full(m, radius)
        else:
            graph, reach = neighbourhood_graph(search._index, m, self.n_neighbors, self.radius)
        surroundings = None
        if not given:
            options = {"metric": self.metric, "p": self.p, "metric_params": self.metric_params}
            surroundings = Surroundings(rows, search._index, options)
        advice = what_connects(search._index, m, self.n_neighbors, given)
        return graph, settle(graph, self.disconnected, surroundings, reach, advice)

    def _embed(self, rows: Ints, graph: Graph, m: int, dtype: Any) -> Piece:
        part = graph if len(rows) == m else graph.part(rows)
        count = self._count_landmarks(len(rows), np.dtype(dtype).itemsize)
        if count is not None and count <= len(rows):
            piece = embed_by_landmarks(rows, part, self.n_components, count, dtype)
            self.approximation_ = f"landmark Isomap: {count} landmarks of {len(rows):,} rows"
            return piece
        method = "FW" if self.path_method == "FW" else "D"
        D = all_geodesics(part, dtype, self.n_jobs, method)
        return embed_exactly(rows, D, self.n_components, self.tol, self.n_jobs)

    def _count_landmarks(self, n: int, itemsize: int) -> int | None:
        if self.n_landmarks is not None:
            if not self.n_components < self.n_landmarks:
                raise InputError(
                    f"n_landmarks={self.n_landmarks}: there must be more than n_components="
                    f"{self.n_components}."
                )
            return int(self.n_landmarks)
        needed = 1.2 * itemsize * n * n
        if needed <= get_memory():
            return None
        count = affordable_landmarks(n, itemsize, self.n_components)
        warn(
            f"the geodesics of {n:,} rows need {show_bytes(needed)}, more than the memory budget: "
            f"landmark Isomap with {count} landmarks is used (see approximation_).",
            ApproximationWarning,
        )
        return count

    def _assemble(self, m: int, dtype: Any) -> None:
        """embedding_ of all rows; those in no piece (policy "largest") are placed as new ones."""
        self.embedding_ = np.zeros((m, self.n_components), dtype=dtype)
        for piece in self._pieces:
            self.embedding_[piece.rows] = piece.Z
        first = self._pieces[0]
        landmarks = first.landmarks
        self.landmarks_ = None if landmarks is None else first.rows[landmarks]
        outside = np.flatnonzero(self._home < 0)
        if len(outside):
            kept = self.nbrs_._fit_X
            others = kept[outside][:, first.rows] if self.metric == "precomputed" else kept[outside]
            self.embedding_[outside] = self._place_in(first, *self._nearest_in(first, others))

    def _nearest_in(self, piece: Piece, Q: Any) -> tuple[Floats, Ints]:
        """The nearest rows of a piece, whatever lies outside of it."""
        k = min(self.n_neighbors or 5, len(piece.rows))
        if self.metric == "precomputed":
            if sparse.issparse(Q):
                raise InputError(
                    "rows outside the largest piece cannot be placed: the sparse graph holds no "
                    "distances to it. Use disconnected='each', or a graph with more edges."
                )
            D = Q
            near = np.argsort(D, axis=1, kind="stable")[:, :k]
            return np.take_along_axis(D, near, 1), near
        inside = clone(self.nbrs_).fit(self.nbrs_._fit_X[piece.rows])
        distance, near = inside.kneighbors(Q, k)
        return distance, near

    def _place_in(self, piece: Piece, distance: Floats, near: Ints) -> Floats:
        step = max(1, 2**20 // max(1, piece.D.shape[1]))

        def place(some: slice) -> Floats:
            return piece.map.place(extend_geodesics(piece.D, distance[some], near[some]))

        parts = map_in_order(place, spans(len(near), step), n_jobs=self.n_jobs)
        Z = np.concatenate(list(parts))
        Z = np.pad(Z, ((0, 0), (0, self.n_components - Z.shape[1])))
        Z[:, 0] += piece.shift
        return Z

    def transform(self, X: Any) -> Floats:
        """Place new rows by their geodesics to the fitted ones, or by the regressor."""
        check_is_fitted(self)
        if self.extension == "regressor":
            Q = self.nbrs_._queries(X)
            return np.asarray(self.regressor_.predict(Q)).reshape(Q.shape[0], -1)
        if self.n_neighbors is not None:
            distance, near = self.nbrs_.kneighbors(X, self.n_neighbors)
        else:
            distance, near = self._within(X)
        Z = np.empty((len(near), self.n_components), dtype=self.nbrs_._queries(X).dtype)
        # A new row belongs to the piece of its nearest row, and joins only neighbours there.
        owner = self._home[near[:, 0]]
        for i, piece in enumerate(self._pieces):
            mine = np.flatnonzero(owner == i)
            if len(mine):
                joined = self._home[near[mine]] == i
                far = np.where(joined, distance[mine], np.inf)
                place = np.where(joined, self._place[near[mine]], 0)
                Z[mine] = self._place_in(piece, far, place)
        lost = np.flatnonzero(owner < 0)  # nearest to a row that no piece embeds
        if len(lost):
            Q = self.nbrs_._queries(X)[lost]
            first = self._pieces[0]
            Q = Q[:, first.rows] if self.metric == "precomputed" else Q
            Z[lost] = self._place_in(first, *self._nearest_in(first, Q))
        return Z

    def _within(self, X: Any) -> tuple[Floats, Ints]:
        """Neighbours within the radius as lists of one length, the missing ones infinitely far."""
        query, row, distance, n = self.nbrs_._within(X, self.radius)
        counts = np.bincount(query, minlength=n)
        if (counts == 0).any():
            bad = np.flatnonzero(counts == 0)
            raise InputError(
                f"{len(bad)} of {n} rows have no fitted row within radius={self.radius} (first "
                f"rows: {bad[:5].tolist()}): they cannot be joined to the graph. Fit with a larger "
                "radius, or with n_neighbors."
            )
        widest = int(counts.max(initial=1))
        far, near = np.full((n, widest), np.inf), np.zeros((n, widest), dtype=np.int64)
        for i, (d, r) in enumerate(
            zip(split_by_query(distance, query, n), split_by_query(row, query, n), strict=True)
        ):
            far[i, : len(d)], near[i, : len(r)] = d, r
            near[i, len(r) :] = r[0]
        return far, near

    @property
    def dist_matrix_(self) -> Floats:
        """The geodesics between fitted rows (m, m), or to the landmarks (m, L)."""
        if not hasattr(self, "_pieces"):
            raise AttributeError("dist_matrix_: fit first.")
        first = self._pieces[0]
        m = len(self._home)
        if len(self._pieces) == 1 and len(first.rows) == m:
            return first.D
        D = np.full((m, m), np.inf, dtype=first.D.dtype)
        for piece in self._pieces:
            among = piece.rows if piece.landmarks is None else piece.rows[piece.landmarks]
            D[np.ix_(piece.rows, among)] = piece.D
        return D

    @property
    def kernel_pca_(self) -> KernelPCA:
        """The kernel PCA of -1/2 D o D that this is, as scikit-learn's Isomap holds it."""
        if not hasattr(self, "_pieces"):
            raise AttributeError("kernel_pca_: fit first.")
        first = self._pieces[0]
        if first.V is None:
            raise AttributeError("kernel_pca_: landmark Isomap has none.")
        return KernelPCA.from_eigenpairs(first.lam, first.V, first.map.row_means, first.Z.dtype)

    def reconstruction_error(self) -> float:
        """|K(D) - K(D_fit)|_F / m, where K is the centred -1/2 D o D; of the first piece."""
        check_is_fitted(self)
        first = self._pieces[0]
        if first.landmarks is not None:
            raise InputError("reconstruction_error needs all geodesics: fit without landmarks.")
        off = HeldSquares(first.D).squared_norm() - float(first.lam @ first.lam)
        return float(np.sqrt(max(off, 0.0)) / len(first.rows))

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.metric == "precomputed"
        return tags
