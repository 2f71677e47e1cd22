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

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import as_rows, is_streamed, require_memory, spans
from nearfold.errors import InputError, NearfoldWarning, warn
from nearfold.inputs import check_distances, check_table, refuse_extreme
from nearfold.linalg import axis_signs, clamp_spectrum
from nearfold.linalg.centred import CentredSquaredDistances
from nearfold.linalg.gower import GowerMap, coordinates, positive_pairs
from nearfold.linalg.krylov import TopPairs, lanczos_bytes
from nearfold.methods.dissimilarities import (
    Dissimilarities,
    check_landmarks,
    in_learned_space,
    learn_metric,
    learner_state,
)
from nearfold.methods.landmark_mds import LandmarkCount, landmark_mds, negative_share
from nearfold.methods.pca import PCA
from nearfold.neighbors import is_euclidean, is_learner
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order, reporting
from nearfold.state import Sizes, State, array, names, nested, number, optional, require, size, text

_CELLS = 2**20  # distances of new rows held by one task


@dataclass(frozen=True)
class Scaling:
    """Classical MDS of a matrix of distances: what Algorithm 10.1 finds."""

    lam: Floats  # (d',) eigenvalues, zero where they are not positive
    V: Floats  # (m, d') eigenvectors, zero where the eigenvalue is
    Z: Floats  # (m, d') coordinates
    place: GowerMap  # of new rows
    B: CentredSquaredDistances
    pairs: TopPairs


def classical_mds(
    D: Floats, k: int, tol: float = 0.0, n_jobs: int | None = None
) -> Scaling:  # Algorithm 10.1
    """Coordinates (m, k) whose inner products come closest to those that D implies."""
    refuse_extreme(float(D[0].max(initial=0.0)), D.dtype)
    B = CentredSquaredDistances(D, n_jobs)  # (10.10)
    pairs = B.top(min(k, len(D)), tol)
    lam, V = positive_pairs(pairs)
    lam, V = np.pad(lam, (0, k - len(lam))), np.pad(V, ((0, 0), (0, k - len(lam))))
    V = V * axis_signs(V.T)
    Z = coordinates(lam, V)  # (10.12)
    return Scaling(lam, V, Z, GowerMap.from_eigenpairs(B.row_means, lam, V), B, pairs)


def _check_way(values: dict[str, Any], sizes: Sizes) -> None:
    """New rows are placed by axes or by distances to the rows that are kept."""
    check_landmarks(values, sizes)
    place, pca = values["_map"], values["_pca"]
    require((place is None) != (pca is None), "_map or _pca, not both")
    require(place is None or values["_fit_X"] is not None, "_fit_X is missing")
    axes = len(pca.components_) if place is None else place.axes.shape[1]
    require(axes <= sizes["k"], "more axes than coordinates")


class ClassicalMDS(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
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

    fitted_state = State(
        _check_way,
        ("feature_names_in_", "_D"),
        n_features_in_=size("d", 1),
        feature_names_in_=names("d"),
        metric_learner_=learner_state,
        embedding_=array("m k"),
        eigenvalues_=array("k", least=0),
        negative_share_=number(0, 1),
        approximation_=optional(text()),
        landmarks_=optional(array("l", "i", below="m")),
        _map=optional(nested(GowerMap, n="l")),
        _pca=optional(nested(PCA, d="w")),
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

    def fit(self, X: Any, y: Any = None) -> ClassicalMDS:
        """Find the coordinates of the rows of X, or of the objects whose distances X holds."""
        self.fit_transform(X, y)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Fit, and return `embedding_`."""
        euclidean = is_learner(self.metric) or is_euclidean(self.metric, 2, self.metric_params)
        by_axes = euclidean and self.n_landmarks is None
        self.landmarks_: Any = None
        self.approximation_: str | None = None
        self.negative_share_ = 0.0
        self.embedding_: Floats
        self.__dict__.pop("_D", None)
        self._map: GowerMap | None = None
        self._pca: PCA | None = None
        with reporting(self.verbose):
            if is_streamed(X):
                if not by_axes or is_learner(self.metric):
                    raise InputError("a file needs metric='euclidean' and n_landmarks=None.")
                self.metric_learner_ = None
                self._fit_principal(as_rows(X))
                return self.embedding_
            given, X = X, check_table(self, X, reset=True)
            self.metric_learner_, rows = learn_metric(self.metric, X, given, y)
            if by_axes:
                self._fit_principal(rows)
            else:
                self._fit_distances(rows)
        self.embedding_ = self.embedding_.astype(X.dtype, copy=False)
        return self.embedding_

    def _fit_principal(self, rows: Any) -> None:
        """Euclidean distances of features: their inner products are those of PCA."""
        table = isinstance(rows, np.ndarray)
        most = min(rows.shape) if table else rows.n_features
        with warnings.catch_warnings():
            # Coordinates beyond the rank are zero here: nothing is arbitrary, nothing to say.
            warnings.filterwarnings("ignore", "n_components", NearfoldWarning)
            self._pca = PCA(min(self.n_components, most)).fit(rows)
        if not table:
            self.n_features_in_ = self._pca.n_features_in_
            if hasattr(self._pca, "feature_names_in_"):
                self.feature_names_in_ = self._pca.feature_names_in_
        self._fit_X: Any = rows
        self.embedding_ = self._by_axes(rows)
        self.eigenvalues_ = self._pad(self._pca.singular_values_[None] ** 2)[0]

    def _by_axes(self, rows: Any) -> Floats:
        assert self._pca is not None
        lam = clamp_spectrum(self._pca.singular_values_**2, self._pca.components_.dtype)
        Z = self._pca.transform(rows)
        Z = Z.to_array() if is_streamed(Z) else Z
        Z[:, lam == 0] = 0.0
        return self._pad(Z)

    def _fit_distances(self, X: Array) -> None:
        if self._is_precomputed():
            check_distances(X)
        self._fit_X = X
        chosen = self._count_landmarks(X)
        self.approximation_ = chosen.note
        if chosen.count is not None:
            self._fit_landmarks(X, chosen.count)
            return
        D = self._measure().all(X.dtype)
        if not self._is_precomputed():
            self._D = D
        scaling = classical_mds(D, self.n_components, n_jobs=self.n_jobs)
        self.negative_share_ = negative_share(scaling.B, scaling.pairs)
        self._warn_of_negative(scaling.pairs.values)
        self._map = scaling.place
        self.embedding_ = scaling.Z.astype(X.dtype)
        self.eigenvalues_ = scaling.lam.astype(X.dtype)

    def _count_landmarks(self, X: Array) -> LandmarkCount:
        m, k, itemsize = len(X), self.n_components, X.dtype.itemsize
        # A matrix that was given is scaled where it is.
        held = self._is_precomputed()
        needed = 0.0 if held else itemsize * m * m + lanczos_bytes(m, k, itemsize)
        return LandmarkCount.choose(
            m, k, self.n_landmarks, needed=needed, itemsize=itemsize, method="landmark MDS"
        )

    def _fit_landmarks(self, X: Array, count: int) -> None:
        landmarks, D = self._measure().to_landmarks(count, X.dtype)
        refuse_extreme(float(D[:, 0].max()), X.dtype)
        self._map, Z, lam, B, pairs = landmark_mds(D, landmarks, self.n_components)
        self.negative_share_ = negative_share(B, pairs)
        self._warn_of_negative(pairs.values[: self.n_components])
        self.landmarks_ = landmarks
        self.embedding_ = self._pad(Z).astype(X.dtype)
        self.eigenvalues_ = self._pad(lam[None])[0].astype(X.dtype)

    def _is_precomputed(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "precomputed"

    def _measure(self) -> Dissimilarities:
        return Dissimilarities(self._fit_X, self.metric, self.metric_params, self.n_jobs)

    def _warn_of_negative(self, values: Floats) -> None:
        if self.negative_share_ > 0:
            chosen = int((values <= 0).sum())
            cut = f", and {chosen} of the coordinates asked for are 0" if chosen else ""
            warn(
                "the distances are not Euclidean: negative eigenvalues hold about "
                f"{self.negative_share_:.1%} of the sum of |eigenvalues|. They are clamped to 0"
                f"{cut}.",
            )

    def _pad(self, Z: Floats) -> Floats:
        missing = self.n_components - Z.shape[1]
        return np.pad(Z, ((0, 0), (0, missing))) if missing > 0 else Z

    def transform(self, X: Any) -> Floats:
        """Place rows: features, or their distances to the fitted rows."""
        check_is_fitted(self)
        if is_streamed(X) and self._pca is not None and self.metric_learner_ is None:
            return self._by_axes(X)
        given, X = X, check_table(self, X, reset=False)
        rows = in_learned_space(self.metric_learner_, X, given)
        Z = self._by_axes(rows) if self._pca is not None else self._place(rows)
        return Z.astype(X.dtype, copy=False)

    def _place(self, X: Array) -> Floats:
        assert self._map is not None
        place, measure = self._map.place, self._measure().among(self.landmarks_)
        step = max(1, _CELLS // max(1, len(self._map.row_means)))
        parts = map_in_order(
            lambda some: place(measure.between(X[some])), spans(len(X), step), n_jobs=self.n_jobs
        )
        return self._pad(np.concatenate(list(parts)))

    @property
    def dissimilarity_matrix_(self) -> Floats:
        """The distances between the fitted rows; computed when asked for, if not needed before."""
        if not hasattr(self, "embedding_"):
            raise AttributeError("dissimilarity_matrix_: fit first.")
        if self._is_precomputed():
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
        if state.get("_pca") is not None:
            state["_fit_X"] = None
        return state

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
