"""Isometric mapping (section 10.5.1, Algorithm 10.3).

Classical MDS of geodesics: distances along the manifold, as lengths of shortest paths over the
graph of near neighbours.

Symbols: X (m, d) samples, D (m, m) geodesics, B = -1/2 J (D o D) J, Z (m, d').

Steps
  1. the k nearest neighbours of each sample, or all within epsilon; joined both ways
  2. the shortest paths between all samples, by Dijkstra's algorithm or Floyd's
  3. classical MDS of the lengths of the paths                                 (Algorithm 10.1)
  4. a new sample: its geodesics over its neighbours, then Gower's formula (isomap_extension.py).
     Or the book's way, a regressor trained on (x_i, z_i): extension="regressor"

A graph in pieces has infinite geodesics ("open circuits"); `disconnected` says what to do about
it. Edges that jump between parts of the manifold ("short circuits") are looked for by
`nearfold.diagnose`.

Cost: m^2 log m for the paths, m^2 numbers for D in the dtype of X. Beyond the memory budget, or
with `n_landmarks`: geodesics to L landmarks alone, spread by max-min over the graph, and landmark
MDS: O(L m).
"""

from __future__ import annotations

from itertools import chain
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.neighbors import VALID_METRICS
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import DaskRows, is_dask
from nearfold.blocks.lazy import Call
from nearfold.errors import InputError, warn
from nearfold.graph import (
    POLICIES,
    ConnectedGraph,
    Graph,
    OutsideSearch,
    all_geodesics,
    apply_policy,
    neighbourhood_graph,
)
from nearfold.graph.build import graph_of_matrix
from nearfold.inputs import check_table, finite_result, open_rows
from nearfold.messages import Message
from nearfold.methods.classical_mds import classical_mds
from nearfold.methods.dissimilarities import (
    in_learned_space,
    is_precomputed,
    require_euclidean,
)
from nearfold.methods.isomap_extension import (
    GeodesicExtension,
    Piece,
    check_asked,
    check_neighbourhood,
    fit_regressor,
    measured_index,
)
from nearfold.methods.isomap_landmarks import count_landmarks, embed_by_landmarks
from nearfold.methods.kernel_pca import KernelPCA
from nearfold.methods.neighbor_base import APPROXIMATE, INDEXES, approximate_part
from nearfold.methods.neighbor_search import NearestNeighbors
from nearfold.methods.reduction import COLUMNS, Embedding
from nearfold.methods.rows_there import SearchedRows, refuse_option
from nearfold.neighbors import Certificate, build_index, is_learner
from nearfold.neighbors.partitioned import PartitionedIndex
from nearfold.notation import Floats, Ints
from nearfold.run import reporting
from nearfold.state import array, fitted, nested, optional, text


def connected_graph(
    index: Any, k: int | None, radius: float | None, policy: str, precomputed: bool = False
) -> ConnectedGraph:
    """Step 1: every sample joined to its neighbours, and what the policy makes of the pieces."""
    if precomputed and sparse.issparse(index.X):  # a graph was given: nothing is known outside it
        if radius is not None:
            graph, reach = graph_of_matrix(index.X, radius), np.full(index.n_rows, radius)
        else:
            graph, reach = neighbourhood_graph(index, k, None)
        return apply_policy(graph, policy, None, reach, k)
    graph, reach = neighbourhood_graph(index, k, radius)
    return apply_policy(graph, policy, OutsideSearch(index, precomputed), reach, k)


def embed_exactly(
    rows: Ints, graph: Graph, k: int, dtype: Any, tol: float, method: str, n_jobs: int | None
) -> Piece:  # Algorithm 10.3
    """Steps 2 and 3: classical MDS of the geodesics between all samples."""
    D = all_geodesics(graph, dtype, n_jobs, method)
    mds = classical_mds(D, k, tol, n_jobs)
    return Piece(rows, D, None, mds.place, mds.Z, mds.lam, mds.V)


def isomap(
    connected: ConnectedGraph,
    k: int,
    dtype: Any,
    landmarks: int | None = None,
    tol: float = 0.0,
    method: str = "D",
    n_jobs: int | None = None,
) -> list[Piece]:
    """The embedding of each piece; landmarks only where a piece has more rows than these."""
    pieces = []
    for rows in connected.pieces:
        whole = len(rows) == connected.graph.n
        graph = connected.graph if whole else connected.graph.part(rows)
        if landmarks is not None and landmarks <= len(rows):
            pieces.append(embed_by_landmarks(rows, graph, k, dtype, landmarks, n_jobs))
        else:
            pieces.append(embed_exactly(rows, graph, k, dtype, tol, method, n_jobs))
    return pieces


_METRICS = set(chain(*VALID_METRICS.values())) | {"precomputed"}


class Isomap(SearchedRows, Embedding):
    """Isomap: exact where the geodesics fit the memory budget, by landmarks beyond.

    `transform` of the fitted rows is `embedding_` with extension="geodesic" (with landmarks, too).
    Fitted on a Dask table (Euclidean metric, `n_neighbors`) it finds the neighbours on the cluster.

    Parameters
    ----------
    n_neighbors : int or None, default=5
        Number of neighbours each row is joined to.
    radius : float, default=None
        Join all rows within this distance instead; with n_neighbors=None.
    n_components : int, default=2
        Number of coordinates.
    eigen_solver : {"auto", "arpack", "dense"}, default="auto"
        Accepted for compatibility; has no effect, one solver gives the result of all three.
    tol : float, default=0
        Relative accuracy of the eigenvalues; 0: that of the dtype.
    max_iter : int, default=None
        Accepted for compatibility; has no effect, the solver iterates until it converges.
    path_method : {"auto", "FW", "D"}, default="auto"
        Shortest paths by Floyd and Warshall ("FW") or by Dijkstra ("D", "auto").
    neighbors_algorithm : {"auto", "brute", "kd_tree", "ball_tree", "approximate"}, default="auto"
        Search by scikit-learn for metrics other than the Euclidean; changes no result. Or
        "approximate": as in `NearestNeighbors`, with `certificate_`.
    n_jobs : int, default=None
        Number of threads; None: all cores. Changes no result.
    metric : str, callable or metric learner, default="minkowski"
        Any metric of scikit-learn, "precomputed", or an estimator of `nearfold` that learns one: a
        fitted one is used as it is, another is cloned and fitted on (X, y).
    p : float, default=2
        Power of the Minkowski metric.
    metric_params : dict, default=None
        Parameters of the metric.
    disconnected : {"bridge", "error", "largest", "each"}, default="bridge"
        What to do about a graph in pieces: join every two by their shortest edge, refuse, embed the
        largest and place the other rows as new ones, or embed each on its own, side by side.
    n_landmarks : int, default=None
        Geodesics to so many rows only. None: to all, or to landmarks where the memory budget
        forbids it.
    extension : {"geodesic", "regressor"}, default="geodesic"
        How new rows are placed.
    regressor : estimator, default=None
        Trained on the rows and `embedding_` for extension="regressor"; None: the 5 nearest
        neighbours weighted by distance. With a learned metric it sees rows of the learned space.
    verbose : bool, default=False
        Show progress.
    recall : float, default=0.95
        With neighbors_algorithm="approximate": the recall of the neighbours to be certified.
    random_state : int, RandomState or None, default=None
        Of neighbors_algorithm="approximate"; None is 0.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
        The coordinates.
    dist_matrix_ : array of shape (n_samples, n_samples)
        The geodesics; of shape (n_samples, n_landmarks) to the landmarks if there are any.
    kernel_pca_ : KernelPCA
        The kernel PCA of -1/2 D o D that Isomap is; not with landmarks.
    nbrs_ : NearestNeighbors
        The neighbour search over the fitted rows.
    index_ : index
        The same without an estimator around it.
    label_ : array of shape (n_samples,)
        The piece of each row; 0 is the largest.
    landmarks_ : array of shape (n_landmarks,) or None
        Row numbers of the landmarks (of the largest piece).
    approximation_ : str or None
        What was approximated.
    certificate_ : Certificate
        What is known about the neighbours, with neighbors_algorithm="approximate".
    regressor_ : estimator
        The trained regressor, with extension="regressor".
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array
        Their names, if X had names.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from nearfold import Isomap
    >>> X, _ = make_swiss_roll(500, random_state=0)
    >>> Isomap(n_neighbors=8).fit_transform(X).shape
    (500, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left"), None],
        "radius": [Interval(Real, 0, None, closed="both"), None],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "eigen_solver": [StrOptions({"auto", "arpack", "dense"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "path_method": [StrOptions({"auto", "FW", "D"})],
        "neighbors_algorithm": APPROXIMATE["algorithm"],
        "n_jobs": [Integral, None],
        "p": [Interval(Real, 1, None, closed="left")],
        "metric": [
            StrOptions(_METRICS),
            callable,
            HasMethods(["get_mahalanobis_matrix", "transform"]),
        ],
        "metric_params": [dict, None],
        "disconnected": [StrOptions(set(POLICIES))],
        "n_landmarks": [Integral, None],
        "extension": [StrOptions({"geodesic", "regressor"})],
        "regressor": [HasMethods(["fit", "predict"]), None],
        "verbose": ["verbose"],
        "recall": APPROXIMATE["recall"],
        "random_state": ["random_state"],
    }

    fitted_state = COLUMNS.extended(
        check_asked,
        ("regressor_",),
        embedding_=array("m k"),
        label_=array("m", "i", least=0),
        landmarks_=optional(array("*", "i", below="m")),
        approximation_=optional(text()),
        index_=nested(*INDEXES, n="m", d="d"),
        regressor_=fitted("predict"),
        _extension=nested(GeodesicExtension, m="m", k="k"),
    )

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
        recall: float = 0.95,
        random_state: Any = None,
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
        self.recall = recall
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> Isomap:
        """Find the coordinates of the rows of X (or of distances, metric="precomputed")."""
        precomputed = is_precomputed(self.metric)
        rows, shape, dtype = self._open(X)
        check_neighbourhood(shape, self.n_neighbors, self.radius, precomputed)
        if self.max_iter is not None:
            warn("max_iter has no effect: the eigenvalue solver iterates until it converges.")
        with reporting(self.verbose):
            self.index_ = self._make_index(rows, y)
            index = measured_index(self.index_)
            connected = connected_graph(
                index, self.n_neighbors, self.radius, self.disconnected, precomputed
            )
            k, method = self.n_components, "FW" if self.path_method == "FW" else "D"
            chosen = count_landmarks(
                connected, k, self.n_landmarks, dtype.itemsize, method, self.n_jobs
            )
            pieces = isomap(connected, k, dtype, chosen.count, self.tol, method, self.n_jobs)
        self.label_ = connected.label
        self.approximation_ = "; ".join(filter(None, [chosen.note, connected.note])) or None
        landmarks = pieces[0].landmarks
        self.landmarks_ = None if landmarks is None else pieces[0].rows[landmarks]
        self._extension = GeodesicExtension(pieces, shape[0], precomputed)
        near = self.n_neighbors or 5
        self.embedding_ = self._extension.embedding(index, near, dtype, self.n_jobs)
        self.__dict__.pop("regressor_", None)
        if self.extension == "regressor":
            self.regressor_ = fit_regressor(self.regressor, index.X, self.embedding_)
        return self

    def _open(self, X: Any) -> tuple[Any, tuple[int, int], np.dtype[Any]]:
        """The rows as they are searched, wherever they are, their shape and dtype."""
        if is_dask(X):
            self._refuse_there()
            there = open_rows(self, X)
            return there, (int(there.n_rows or 0), there.n_features), there.dtype
        table = check_table(self, X, reset=True, accept_sparse=True, finite=False)
        named = is_learner(self.metric) and hasattr(X, "columns")
        return X if named else table, table.shape, table.dtype

    def _refuse_there(self) -> None:
        """What a fit on a Dask table does not do."""
        require_euclidean(self, self.metric, self.metric_params, self.p)
        refuse_option(self, self.neighbors_algorithm == "approximate", "neighbors_algorithm='auto'")
        refuse_option(self, self.extension == "regressor", "extension='geodesic'")
        refuse_option(self, self.radius is not None, "n_neighbors")

    def _make_index(self, rows: Any, y: Any) -> Any:
        options = {
            "metric": self.metric,
            "p": self.p,
            "metric_params": self.metric_params,
            "algorithm": self.neighbors_algorithm,
            "n_jobs": self.n_jobs,
            "k_hint": self.n_neighbors or 5,
            "names": getattr(self, "feature_names_in_", None),
            "recall": self.recall,
            "random_state": self.random_state,
        }
        if isinstance(rows, DaskRows):
            return PartitionedIndex(rows, **options)
        return build_index(rows, y=y, **options)

    def _length_of_lists(self, call: Call) -> int:
        if not self._extension.complete:
            raise InputError(Message("cluster.pieces", policy=self.disconnected, name=call.method))
        return int(self.n_neighbors or 0)

    def transform(self, X: Any) -> Floats:
        """Place new rows by their geodesics to the fitted ones, or by the regressor."""
        check_is_fitted(self)
        given, X = X, check_table(self, X, reset=False, accept_sparse=True, finite=False)
        rows = in_learned_space(getattr(self.index_, "learner", None), X, given)
        if self.extension == "regressor":
            Z = np.asarray(self.regressor_.predict(rows)).reshape(X.shape[0], -1)
            if Z.shape[1] != self._n_features_out:
                raise InputError(f"the regressor gives {Z.shape[1]} coordinates of each row.")
            return Z
        index = measured_index(self.index_)
        Z = self._extension.place(index, rows, self.n_neighbors, self.radius, self.n_jobs)
        return finite_result(Z, X.dtype)

    @property
    def dist_matrix_(self) -> Floats:
        """The geodesics between fitted rows (m, m), or to the landmarks (m, L)."""
        check_is_fitted(self)
        return self._extension.dist_matrix()

    @property
    def certificate_(self) -> Certificate:
        """What is known about the neighbours, with neighbors_algorithm="approximate"."""
        check_is_fitted(self)
        return approximate_part(self.index_).certificate(self.n_neighbors or 5)

    @property
    def nbrs_(self) -> NearestNeighbors:
        """The neighbour search over the fitted rows, as scikit-learn's Isomap holds it."""
        check_is_fitted(self)
        return NearestNeighbors.from_index(
            self.index_,
            self,
            n_neighbors=self.n_neighbors or 5,
            radius=self.radius if self.radius is not None else 1.0,
            algorithm=self.neighbors_algorithm,
        )

    @property
    def kernel_pca_(self) -> KernelPCA:
        """The kernel PCA of -1/2 D o D that this is, as scikit-learn's Isomap holds it."""
        check_is_fitted(self)
        first = self._extension.pieces[0]
        if first.V is None:
            raise AttributeError("kernel_pca_: landmark Isomap has none.")
        return KernelPCA.from_eigenpairs(
            first.lam, first.V, first.place.row_means, self.embedding_.dtype
        )

    def reconstruction_error(self) -> float:
        """|K(D) - K(D_fit)|_F / m, where K is the centred -1/2 D o D; of the first piece."""
        check_is_fitted(self)
        return self._extension.reconstruction_error()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_learner(self.metric)
        tags.input_tags.pairwise = is_precomputed(self.metric)
        return tags
