"""Classical multidimensional scaling (section 10.2, Algorithm 10.1).

Coordinates whose Euclidean distances are the given ones, or come close to them in few dimensions.

Symbols: D (m, m) distances, B = Z Z^T (m, m) inner products of the coordinates Z (m, d') about
their centre, lam and V its eigenvalues and eigenvectors.

Steps
  1. dist_i.^2, dist_.j^2, dist_..^2: the means of the squares                    (10.7)-(10.9)
  2. b_ij = -1/2 (dist_ij^2 - dist_i.^2 - dist_.j^2 + dist_..^2), never held      (10.10)
  3. the d' largest eigenvalues of B, algebraically, and their vectors            (10.11)
  4. Z = V lam^(1/2)                                                              (10.12)
  5. a new row from its distances (Gower): z = lam^(-1/2) V^T (a - mean a), a = -1/2 dist^2

Negative eigenvalues (distances that are not Euclidean) are clamped: their coordinates are 0. They
are warned of, and `negative_share_` says how much of sum |lam| they hold.

With the Euclidean metric on features it is PCA, exactly, and that way is taken: O(m d min(m, d))
and no distances. Otherwise O(m^2) memory, the matrix held once, and some ten passes over it.
Beyond the memory budget, or when `n_landmarks` asks for it: landmark MDS, O(L m).
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import as_rows, is_streamed, require_memory
from nearfold.errors import InputError, warn
from nearfold.inputs import (
    check_distances,
    check_table,
    finite_result,
    refuse_extreme,
    take_names,
)
from nearfold.linalg import axis_signs
from nearfold.linalg.centred import CentredSquaredDistances
from nearfold.linalg.gower import GowerMap, coordinates, positive_pairs
from nearfold.linalg.krylov import lanczos_bytes
from nearfold.messages import Message
from nearfold.methods.dissimilarities import (
    Dissimilarities,
    check_landmarks,
    in_learned_space,
    is_precomputed,
    learn_metric,
    learner_state,
)
from nearfold.methods.landmark_mds import LandmarkCount, Scaling, landmark_mds, negative_share
from nearfold.methods.principal_coordinates import PrincipalCoordinates
from nearfold.methods.reduction import COLUMNS, Embedding, padded
from nearfold.neighbors import is_euclidean, is_learner
from nearfold.notation import Array, Floats
from nearfold.run import reporting
from nearfold.state import Sizes, array, nested, number, optional, require, text

_CELLS = 2**20  # distances of new rows held by one task


def classical_mds(
    D: Floats, k: int, tol: float = 0.0, n_jobs: int | None = None
) -> Scaling:  # Algorithm 10.1
    """Coordinates (m, k) whose inner products come closest to those that D implies."""
    refuse_extreme(float(D[0].max(initial=0.0)), D.dtype)
    B = CentredSquaredDistances(D, n_jobs)  # (10.10)
    pairs = B.top(min(k, len(D)), tol)
    lam, V = positive_pairs(pairs)
    lam, V = padded(lam, k), padded(V, k)
    V = V * axis_signs(V.T)
    Z = coordinates(lam, V)  # (10.12)
    return Scaling(lam, Z, GowerMap.from_eigenpairs(B.row_means, lam, V), B, pairs, V)


def distances_bytes(m: int, k: int, itemsize: int, given: bool) -> float:
    """The distances of m rows and k axes of them; 0 if they are `given`, and scaled in place."""
    return 0.0 if given else itemsize * m * m + lanczos_bytes(m, k, itemsize)


def _check_placing(values: dict[str, Any], sizes: Sizes) -> None:
    """New rows are placed by axes or by distances to the rows that are kept."""
    check_landmarks(values, sizes)
    place, principal = values["_map"], values["_principal"]
    require((place is None) != (principal is None), "_map or _principal, not both")
    require(place is None or values["_fit_X"] is not None, "_fit_X is missing")
    axes = len(principal.pca.components_) if place is None else place.axes.shape[1]
    require(axes <= sizes["k"], "more axes than coordinates")


class ClassicalMDS(Embedding):
    """Classical MDS of a table or of a matrix of distances.

    X may be a file (.npy, .parquet, .csv) with the Euclidean metric. `transform` places new rows:
    features, or with metric="precomputed" their distances to the fitted rows, one column each. On
    the fitted rows it returns `embedding_`.

    Parameters
    ----------
    n_components : int, default=2
        Number of coordinates.
    metric : str, callable or metric learner, default="euclidean"
        Any metric of scikit-learn, "precomputed", or an estimator of `nearfold` that learns one.
    metric_params : dict, default=None
        Parameters of the metric.
    n_landmarks : int, default=None
        Place all rows by their distances to so many of them. None: exactly, or by landmarks where
        the memory budget forbids it.
    n_jobs : int, default=None
        Number of threads; None: all cores. Changes no result.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
        The coordinates.
    eigenvalues_ : array of shape (n_components,)
        The eigenvalues of B, zero where they are not positive.
    dissimilarity_matrix_ : array of shape (n_samples, n_samples)
        The distances; computed when asked for if they were not needed.
    negative_share_ : float
        The share of negative eigenvalues in the sum of |eigenvalues|.
    landmarks_ : array of shape (n_landmarks,) or None
        Row numbers of the landmarks.
    metric_learner_ : estimator or None
        The fitted metric learner.
    approximation_ : str or None
        What was approximated.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array
        Their names, if X had names.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import ClassicalMDS
    >>> D = np.array([[0.0, 3.0, 5.0], [3.0, 0.0, 4.0], [5.0, 4.0, 0.0]])
    >>> Z = ClassicalMDS(n_components=2, metric="precomputed").fit_transform(D)
    >>> float(np.linalg.norm(Z[0] - Z[2]).round(6))
    5.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "metric": [str, callable, HasMethods(["get_mahalanobis_matrix", "transform"])],
        "metric_params": [dict, None],
        "n_landmarks": [Integral, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    fitted_state = COLUMNS.extended(
        _check_placing,
        ("_D",),
        metric_learner_=learner_state,
        embedding_=array("m k"),
        eigenvalues_=array("k", least=0),
        negative_share_=number(0, 1),
        approximation_=optional(text()),
        landmarks_=optional(array("l", "i", below="m")),
        _map=optional(nested(GowerMap, n="l")),
        _principal=optional(nested(PrincipalCoordinates, k="k", w="w")),
        _fit_X=optional(array("m w")),
        _D=array("m m", least=0),
    )

    def __init__(
        self,
        n_components: int = 2,
        *,
        metric: Any = "euclidean",
        metric_params: dict[str, Any] | None = None,
        n_landmarks: int | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.metric = metric
        self.metric_params = metric_params
        self.n_landmarks = n_landmarks
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> ClassicalMDS:
        """Find the coordinates of the rows of X, or of the objects whose distances X holds."""
        euclidean = is_learner(self.metric) or is_euclidean(self.metric, 2, self.metric_params)
        by_axes = euclidean and self.n_landmarks is None
        self.landmarks_: Any = None
        self.approximation_: str | None = None
        self.negative_share_ = 0.0
        self.__dict__.pop("_D", None)
        self._map: GowerMap | None = None
        self._principal: PrincipalCoordinates | None = None
        self._fit_X: Any = None
        with reporting(self.verbose):
            if is_streamed(X):
                if not by_axes or is_learner(self.metric):
                    raise InputError("a file needs metric='euclidean' and n_landmarks=None.")
                self.metric_learner_ = None
                self._fit_principal(as_rows(X))
                return self
            given, X = X, check_table(self, X, reset=True)
            self.metric_learner_, self._fit_X = learn_metric(self.metric, X, given, y)
            if by_axes:
                self._fit_principal(self._fit_X)
            else:
                self._fit_distances(self._fit_X)
        self.embedding_ = self.embedding_.astype(X.dtype, copy=False)
        return self

    def _fit_principal(self, rows: Any) -> None:
        """Euclidean distances of features."""
        self._fit_X = rows
        self._principal = PrincipalCoordinates.of(rows, self.n_components)
        if not isinstance(rows, np.ndarray):
            take_names(self, rows)
        self.embedding_ = self._principal.place(rows)
        self.eigenvalues_ = self._principal.eigenvalues

    def _fit_distances(self, X: Array) -> None:
        precomputed = is_precomputed(self.metric)
        if precomputed:
            check_distances(X)
        chosen, k = self._count_landmarks(X), self.n_components
        self.approximation_ = chosen.note
        if chosen.count is not None:
            self.landmarks_, D = self._measure().to_landmarks(chosen.count, X.dtype)
            refuse_extreme(float(D[:, 0].max()), X.dtype)
            scaling = landmark_mds(D, self.landmarks_, k)
        else:
            D = self._measure().all(X.dtype)
            if not precomputed:
                self._D = D
            scaling = classical_mds(D, k, n_jobs=self.n_jobs)
        self._map = scaling.place
        self.embedding_ = scaling.Z.astype(X.dtype)
        self.eigenvalues_ = scaling.lam.astype(X.dtype)
        self.negative_share_ = negative_share(scaling.B, scaling.pairs)
        self._warn_of_negative(scaling.pairs.values[:k])

    def _count_landmarks(self, X: Array) -> LandmarkCount:
        m, k, itemsize = len(X), self.n_components, X.dtype.itemsize
        needed = distances_bytes(m, k, itemsize, is_precomputed(self.metric))
        return LandmarkCount.choose(
            m, k, self.n_landmarks, needed=needed, itemsize=itemsize, method="landmark MDS"
        )

    def _measure(self) -> Dissimilarities:
        return Dissimilarities(self._fit_X, self.metric, self.metric_params, self.n_jobs)

    def _warn_of_negative(self, values: Floats) -> None:
        if self.negative_share_ > 0:
            chosen = int((values <= 0).sum())
            id = "warn.not_euclidean_cut" if chosen else "warn.not_euclidean"
            warn(Message(id, share=f"{self.negative_share_:.1%}", n=chosen))

    def transform(self, X: Any) -> Floats:
        """Place rows: features, or their distances to the fitted rows."""
        check_is_fitted(self)
        if is_streamed(X) and self._principal is not None and self.metric_learner_ is None:
            return self._principal.place(X)
        given, X = X, check_table(self, X, reset=False)
        rows = in_learned_space(self.metric_learner_, X, given)
        Z = self._place(rows) if self._principal is None else self._principal.place(rows)
        return finite_result(Z, X.dtype)

    def _place(self, X: Array) -> Floats:
        assert self._map is not None
        parts = self._measure().among(self.landmarks_).place(X, self._map.place, _CELLS)
        return padded(np.concatenate(parts), self.n_components)

    @property
    def dissimilarity_matrix_(self) -> Floats:
        """The distances between the fitted rows; computed when asked for, if not needed before."""
        check_is_fitted(self)
        if is_precomputed(self.metric):
            return self._fit_X
        if not hasattr(self, "_D"):
            if not isinstance(getattr(self, "_fit_X", None), np.ndarray):
                raise AttributeError("dissimilarity_matrix_: the fitted rows are not kept in it.")
            X = np.asarray(self._fit_X)
            require_memory(8.0 * len(X) ** 2, f"The distances of {len(X):,} rows", "")
            return self._measure().all(X.dtype)
        return self._D

    def __getstate__(self) -> dict[str, Any]:
        """The PCA way does not need the rows: they are not stored with the model."""
        state = dict(super().__getstate__())
        if state.get("_principal") is not None:
            state["_fit_X"] = None
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.metric)
        return tags
