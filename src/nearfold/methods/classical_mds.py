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
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import as_rows, get_memory, is_streamed, require_memory, show_bytes
from nearfold.errors import ApproximationWarning, InputError, NearfoldWarning, warn
from nearfold.inputs import check_distances, check_table, refuse_extreme
from nearfold.linalg import axis_signs
from nearfold.linalg.centred import HeldSquares
from nearfold.methods.landmark_mds import (
    GowerMap,
    affordable_landmarks,
    landmark_mds,
    negative_share,
    positive_pairs,
    spread_landmarks,
    spread_over_table,
)
from nearfold.methods.pca import PCA
from nearfold.neighbors import is_euclidean
from nearfold.neighbors.distances import Distances
from nearfold.notation import Array, Floats
from nearfold.run import reporting


def coordinates(lam: Floats, V: Floats) -> Floats:
    """Z = V lam^(1/2), zero where an eigenvalue is not positive. (10.12)"""
    return V * np.sqrt(np.maximum(lam, 0.0))


class ClassicalMDS(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Classical MDS of a table or of a matrix of distances.

    `n_components`, `metric` (any of scikit-learn's, a function, "precomputed") and
    `metric_params` are scikit-learn's. `n_landmarks`: place all rows by their distances to so many
    of them; None: exactly, or by landmarks where the memory budget forbids it. X may be a file
    (.npy, .parquet, .csv) with the Euclidean metric.

    `transform` places new rows: features, or with metric="precomputed" their distances to the
    fitted rows, one column each. On the fitted rows it returns `embedding_`.

    New attributes: `negative_share_`, the share of negative eigenvalues in sum |lam|;
    `landmarks_`, row numbers or None; `approximation_`, None or what was approximated.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import ClassicalMDS
    >>> D = np.array([[0.0, 3.0, 5.0], [3.0, 0.0, 4.0], [5.0, 4.0, 0.0]])
    >>> Z = ClassicalMDS(n_components=2, metric="precomputed").fit_transform(D)
    >>> float(np.linalg.norm(Z[0] - Z[2]).round(6))
    5.0
    """

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
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Fit, and return `embedding_`."""
        if not isinstance(self.n_components, int | np.integer) or self.n_components < 1:
            raise InputError(f"n_components={self.n_components!r}: give a positive whole number.")
        plain = is_euclidean(self.metric, 2, self.metric_params)
        self.landmarks_: Any = None
        self.approximation_: str | None = None
        self.negative_share_ = 0.0
        self.__dict__.pop("_D", None)
        self._map: GowerMap | None = None
        self._pca: PCA | None = None
        with reporting(self.verbose):
            if is_streamed(X) and not (plain and self.n_landmarks is None):
                raise InputError("a file needs metric='euclidean' and n_landmarks=None.")
            if plain and self.n_landmarks is None:
                self._fit_principal(X)
            else:
                self._fit_distances(check_table(self, X, reset=True))
        return self.embedding_

    def _fit_principal(self, X: Any) -> None:
        """Euclidean distances of features: their inner products are those of PCA."""
        rows = as_rows(X) if is_streamed(X) else check_table(self, X, reset=True)
        with warnings.catch_warnings():
            # Coordinates beyond the rank are zero here: nothing is arbitrary, nothing to say.
            warnings.filterwarnings("ignore", "n_components=.* data vary", NearfoldWarning)
            shape = rows.shape if isinstance(rows, np.ndarray) else (None, rows.n_features)
            most = min(n for n in shape if n is not None)
            self._pca = PCA(min(self.n_components, most)).fit(rows)
        if not isinstance(rows, np.ndarray):
            self.n_features_in_ = self._pca.n_features_in_
            if hasattr(self._pca, "feature_names_in_"):
                self.feature_names_in_ = self._pca.feature_names_in_
        self._fit_X: Any = rows
        self.embedding_ = self._pad(self._pca.transform(rows))
        self.eigenvalues_ = self._pad(self._pca.singular_values_[None] ** 2)[0]

    def _fit_distances(self, X: Array) -> None:
        m, k = X.shape[0], self.n_components
        if self.metric == "precomputed":
            check_distances(X)
        self._fit_X = X
        count = self._count_landmarks(m, X.dtype.itemsize)
        if count is not None:
            self._fit_landmarks(X, count)
            return
        D = X if self.metric == "precomputed" else self._distances().all(X.dtype)
        self._D = D
        refuse_extreme(float(D[0].max()), X.dtype)
        B = HeldSquares(D, self.n_jobs)  # (10.10)
        pairs = B.top(min(k, m))
        self.negative_share_ = negative_share(B, pairs)
        self._warn_of_negative(pairs.values)
        lam, V = positive_pairs(pairs, X.dtype)
        V = V * axis_signs(V.T)
        self._map = GowerMap(B.row_means, lam, V)
        self.embedding_ = self._pad(coordinates(lam, V)).astype(X.dtype)
        self.eigenvalues_ = self._pad(lam[None])[0].astype(X.dtype)

    def _count_landmarks(self, m: int, itemsize: int) -> int | None:
        if self.n_landmarks is not None:
            if not self.n_components < self.n_landmarks <= m:
                raise InputError(
                    f"n_landmarks={self.n_landmarks}: there must be more than n_components="
                    f"{self.n_components}, and at most the {m} rows."
                )
            return int(self.n_landmarks)
        needed = 1.1 * itemsize * m * m
        if self.metric == "precomputed" or needed <= get_memory():
            return None
        count = affordable_landmarks(m, itemsize, self.n_components)
        warn(
            f"the distances of {m:,} rows need {show_bytes(needed)}, more than the memory budget: "
            f"landmark MDS with {count} landmarks is used (see approximation_).",
            ApproximationWarning,
        )
        return count

    def _fit_landmarks(self, X: Array, count: int) -> None:
        if self.metric == "precomputed":
            landmarks, D = spread_landmarks(lambda i: X[i], len(X), count, X.dtype)
        else:
            landmarks, D = spread_over_table(self._distances(), count, X.dtype)
        refuse_extreme(float(D[0].max()), X.dtype)
        self._map, Z, lam, B, pairs = landmark_mds(D, landmarks, self.n_components)
        self.negative_share_ = negative_share(B, pairs)
        self._warn_of_negative(pairs.values[: self.n_components])
        self.landmarks_ = landmarks
        self.approximation_ = f"landmark MDS: {count} landmarks of {len(X):,} rows"
        self.embedding_ = self._pad(Z).astype(X.dtype)
        self.eigenvalues_ = self._pad(lam[None])[0].astype(X.dtype)

    def _distances(self) -> Distances:
        return Distances(self._fit_X, self.metric, self.metric_params, n_jobs=self.n_jobs)

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
        if self._pca is not None:
            table = X if is_streamed(X) else check_table(self, X, reset=False)
            return self._pad(self._pca.transform(table))
        assert self._map is not None
        X = check_table(self, X, reset=False)
        if self.metric == "precomputed":
            D = X if self.landmarks_ is None else X[:, self.landmarks_]
        elif self.landmarks_ is None:
            D = self._distances().from_rows(X)
        else:
            D = self._distances().among(self.landmarks_).from_rows(X)
        return self._pad(self._map.place(D)).astype(X.dtype, copy=False)

    @property
    def dissimilarity_matrix_(self) -> Floats:
        """The distances between the fitted rows; computed when asked for, if not needed before."""
        if not hasattr(self, "embedding_"):
            raise AttributeError("dissimilarity_matrix_: fit first.")
        if self.metric == "precomputed":
            return self._fit_X
        if not hasattr(self, "_D"):
            if not isinstance(getattr(self, "_fit_X", None), np.ndarray):
                raise AttributeError("dissimilarity_matrix_: the fitted rows are not kept in it.")
            X = np.asarray(self._fit_X)
            require_memory(8.0 * len(X) ** 2, f"The distances of {len(X):,} rows", "")
            return self._distances().all(X.dtype)
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
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
