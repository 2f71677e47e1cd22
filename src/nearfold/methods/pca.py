"""Principal component analysis (section 10.3, Algorithm 10.2).

The d' orthonormal axes on which the samples spread most, equivalently from which they are
reconstructed best.

Symbols (rows are samples here, columns in the book): X (m, d) samples, mu their mean, W (d, d')
axes, lam eigenvalues of the scatter S = sum (x - mu)(x - mu)^T, Z = (X - mu) W.

Steps
  1. centre the samples
  2. the eigenvalues of S, largest first                                       (10.17)
  3. keep d' of them: a number, a share of the variance, or Minka's estimate   (10.18)
  4. W holds their eigenvectors; Z = (X - mu) W, back by X ~ Z W^T + mu        (10.14)

`components_` is W^T, `explained_variance_` is lam / (m - 1).

Cost: O(m d min(m, d)) time and O(min(m, d)^2) memory, or a few passes over X per axis where that
is cheaper; the routes and their accuracy are described in linalg/principal.py. A file (.npy,
.parquet, .csv) is read in blocks, once, or twice if the spectrum is too graded for one pass.

Departures: a share keeps the smallest d' with a share > t, as scikit-learn does (the book: >= t).
Weights count rows: weight 2 is the row twice. d' is never more than the rank of the data, because
the axes after it are arbitrary: None means all axes along which the data vary (scikit-learn pads
them to min(m, d)), and an explicit d' beyond the rank is cut with a warning.
"""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks import ArrayRows, Rows, as_rows, get_memory, is_streamed, require_memory
from nearfold.errors import InputError, NearfoldWarning
from nearfold.inputs import (
    check_table,
    check_weights,
    refuse_bad_blocks,
    refuse_nonfinite,
    refuse_overflow,
    refuse_vanishing,
    take_names,
)
from nearfold.linalg import (
    CentredRows,
    Moments,
    Principal,
    from_factor,
    from_inner_products,
    from_scatter,
    from_svd,
    reliable,
    table_moments,
    top_axes_implicit,
    top_axes_randomized,
)
from nearfold.methods.principal_components import (
    PrincipalComponents,
    count_components,
    numerical_rank,
)
from nearfold.notation import Array, Floats
from nearfold.run import random_state, reporting

_SOLVERS = ("auto", "full", "covariance_eigh", "arpack", "randomized")


class PCA(PrincipalComponents):
    """Principal component analysis, exact unless `svd_solver="randomized"` is asked for.

    Parameters are scikit-learn's. `n_components` may be a count, a share of the variance
    (0 < t < 1), "mle" or None, on every route, sparse and streamed input included.
    `svd_solver="auto"` picks the cheapest exact and accurate route; "covariance_eigh", "full" and
    "arpack" force one. `fit` takes `sample_weight`, and X may be a path to a .npy, .parquet or
    .csv file larger than memory. `verbose=True` shows a progress bar.

    New attributes: `route_`, how the axes were found; `approximation_`, None or what was
    approximated.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import PCA
    >>> X = np.array([[-1.0, -1.0], [-2.0, -1.0], [-3.0, -2.0], [1.0, 1.0], [2.0, 1.0], [3.0, 2.0]])
    >>> PCA(n_components=2).fit(X).explained_variance_ratio_.round(4)
    array([0.9924, 0.0076])
    """

    def __init__(
        self,
        n_components: Any = None,
        *,
        copy: bool = True,
        whiten: bool = False,
        svd_solver: str = "auto",
        tol: float = 0.0,
        iterated_power: Any = "auto",
        n_oversamples: int = 10,
        power_iteration_normalizer: str = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.copy = copy
        self.whiten = whiten
        self.svd_solver = svd_solver
        self.tol = tol
        self.iterated_power = iterated_power
        self.n_oversamples = n_oversamples
        self.power_iteration_normalizer = power_iteration_normalizer
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> PCA:
        """Find the axes of X: an array, a sparse matrix, a frame, or a file read in blocks."""
        if self.svd_solver not in _SOLVERS:
            raise InputError(f"svd_solver={self.svd_solver!r}: use one of {', '.join(_SOLVERS)}.")
        if is_streamed(X):
            rows, table = as_rows(X), None
            take_names(self, rows)
            weights = check_weights(sample_weight, rows)
        else:
            table = check_table(
                self, X, reset=True, accept_sparse=True, finite=False, ensure_min_samples=1
            )
            rows = ArrayRows(table)
            weights = check_weights(sample_weight, table)
        with reporting(self.verbose):
            found = self._solve(rows, table, weights)
        shape = (found.n_rows, rows.n_features)
        self.n_samples_ = found.n_rows
        self.route_ = found.route
        self.approximation_ = found.approximation
        self._keep(found, self._count(found, shape, rows.dtype), shape, rows.dtype)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, then project the same rows."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    def _wanted(self, n_rows: int | None, d: int) -> int:
        """How many axes to compute; all of them where the choice needs the whole spectrum."""
        most = d if n_rows is None else min(n_rows, d)
        k: Any = self.n_components
        if k is None or isinstance(k, str):
            if k is not None and k != "mle":
                raise InputError(f"n_components={k!r}: the only text accepted is 'mle'.")
            if k == "mle" and n_rows is not None and n_rows < d:
                raise InputError("n_components='mle' is only supported if n_samples >= n_features")
            return most
        if isinstance(k, Integral) and not isinstance(k, bool):
            if not 0 <= int(k) <= most:
                raise InputError(
                    f"n_components={k} must be between 0 and min(n_samples, n_features)={most}."
                )
            return max(int(k), 1)
        if isinstance(k, Real) and 0 < float(k) < 1:
            return most
        raise InputError(
            f"n_components={k!r}: give a count, a share between 0 and 1, 'mle' or None."
        )

    def _solve(self, rows: Rows, table: Any, weights: Floats | None) -> Principal:
        k = self._wanted(rows.n_rows, rows.n_features)
        if self.svd_solver == "randomized":
            return self._randomized(rows, table, weights, k)
        if table is not None and self._prefers_implicit(table, k):
            found = self._implicit(table, weights, k)
            kept = count_components(self.n_components, found)
            # A wide sparse table has no other route: all others would densify it.
            stays = self.svd_solver == "arpack" or self._has_no_scatter(table)
            if stays or reliable(found.lam, kept, table.dtype):
                return found
        if table is not None and table.shape[0] < table.shape[1] and not sparse.issparse(table):
            return self._wide(table, weights, k)
        return self._tall(rows, weights, k)

    def _has_no_scatter(self, X: Any) -> bool:
        """Whether X is sparse and so wide that its scatter is larger than itself or the budget."""
        m, d = X.shape
        return bool(sparse.issparse(X) and (m < d or 8.0 * 6 * d * d > get_memory()))

    def _tall(self, rows: Rows, weights: Floats | None, k: int) -> Principal:
        """Scatter and eigenpairs; the factor route where those would not be accurate."""
        d = rows.n_features
        require_memory(
            8.0 * 6 * d * d,
            f"The scatter matrix of {d} features",
            "Use fewer features, or IncrementalPCA with a small n_components.",
        )
        # A file's blocks are cut as it is read: their number is not known before.
        known = isinstance(rows, ArrayRows) and rows.n_rows is not None
        steps = len(rows.spans(rows.n_rows or 0)) if known else None
        dtype: Any = rows.dtype
        moments = table_moments(rows.blocks(), weights, dtype, steps)
        self._check_moments(rows, moments)
        k = self._wanted(moments.n_rows, d)
        found = from_scatter(moments, k)
        needed = count_components(self.n_components, found)
        if self.svd_solver == "covariance_eigh" or (
            self.svd_solver == "auto" and reliable(found.lam, needed, dtype)
        ):
            return found
        if dtype == np.float32 and self.svd_solver == "auto":
            # Products in float64 leave float32 input more digits than its own SVD would.
            moments = table_moments(rows.blocks(), weights, np.float64, steps)
            return from_scatter(moments, k, "scatter in float64")
        return from_factor(rows.blocks, weights, moments)

    def _wide(self, X: Array, weights: Floats | None, k: int) -> Principal:
        refuse_nonfinite(X, getattr(self, "feature_names_in_", None))
        m = X.shape[0]
        require_memory(
            8.0 * 3 * m * m + 2.0 * X.nbytes, f"The inner products of {m} rows", "Use fewer rows."
        )
        if self.svd_solver != "full":
            found = from_inner_products(X, weights, k)
            refuse_overflow(found.total, X)
            if reliable(found.lam, count_components(self.n_components, found), X.dtype):
                return found
        found = from_svd(X, weights)
        refuse_overflow(found.total, X)
        refuse_vanishing(found.total, X, X.dtype)
        return found

    def _prefers_implicit(self, X: Any, k: int) -> bool:
        """Few axes of a sparse or a large table: products with X cost less than the scatter."""
        m, d = X.shape
        least = min(m, d)
        if self.svd_solver == "arpack":
            if k >= least:
                raise InputError(
                    f"n_components={k} must be strictly less than min(n_samples, n_features)="
                    f"{least} with svd_solver='arpack'."
                )
            return True
        if self.svd_solver in ("full", "covariance_eigh"):
            return False
        shared = isinstance(self.n_components, Real) and not isinstance(self.n_components, Integral)
        few = shared or k <= least // 4
        if sparse.issparse(X):
            return bool(least > 500 and few) or m < d or 8.0 * 6 * d * d > get_memory()
        if shared or not few:
            return False
        passes = 3.0 * k + 40  # products with X and X^T that Lanczos takes, as measured
        by_products = passes * m * d * X.itemsize * 2 / 8e9
        by_scatter = m * d * least / 1.5e11 + 10.0 * least**3 / 1e11
        return by_products < by_scatter or 8.0 * 6 * least * least > get_memory()

    def _implicit(self, X: Any, weights: Floats | None, k: int) -> Principal:
        A, total, mean, count = self._centred(X, weights)
        least = min(X.shape)
        share = isinstance(self.n_components, Real) and not isinstance(self.n_components, Integral)
        k = min(k, least)
        tried = min(16, least) if share else k
        while True:
            lam, axes = top_axes_implicit(A, tried)
            lam = np.maximum(lam.astype(np.float64), 0.0)
            enough = not share or lam.sum() > float(self.n_components) * total
            if enough or tried >= least:
                return Principal(lam, axes, total, mean, count, X.shape[0], "implicit")
            tried = min(2 * tried, least)

    def _randomized(self, rows: Rows, table: Any, weights: Floats | None, k: int) -> Principal:
        if table is None:
            raise InputError("svd_solver='randomized' needs the table in memory; use 'auto'.")
        A, total, mean, count = self._centred(table, weights)
        power = self.iterated_power
        if power == "auto":
            power = 7 if k < 0.1 * min(table.shape) else 4
        lam, axes = top_axes_randomized(
            A,
            k,
            oversamples=self.n_oversamples,
            iterations=int(power),
            rng=random_state(self.random_state),
        )
        note = f"randomized: {self.n_oversamples} extra axes, {power} power iterations"
        return Principal(lam, axes, total, mean, count, table.shape[0], "randomized", note)

    @np.errstate(over="ignore", invalid="ignore")  # what overflows is refused below
    def _centred(self, X: Any, weights: Floats | None) -> tuple[CentredRows, float, Floats, float]:
        """The implicit centred table, its total scatter, its mean and its count."""
        refuse_nonfinite(X, getattr(self, "feature_names_in_", None))
        w = np.ones(X.shape[0]) if weights is None else weights
        mean = np.asarray(w @ X, dtype=np.float64).ravel() / w.sum()
        if sparse.issparse(X):
            # sum w (x - mu)^2 over all cells = over the stored ones + w mu^2 over the others
            stored = X.tocsr()
            row = np.repeat(np.arange(X.shape[0]), np.diff(stored.indptr))
            column = stored.indices
            inside = w[row] @ (stored.data.astype(np.float64) - mean[column]) ** 2
            outside = w.sum() * (mean @ mean) - w[row] @ mean[column] ** 2
            total = float(inside + max(outside, 0.0))
        else:
            step = max(1, 2**20 // max(1, X.shape[1]))
            total = 0.0
            for a in range(0, X.shape[0], step):
                block = X[a : a + step].astype(np.float64) - mean
                total += float(w[a : a + step] @ np.einsum("ij,ij->i", block, block))
        refuse_overflow(total, X)
        refuse_vanishing(total, X, X.dtype)
        return CentredRows(X, mean, weights), total, mean, float(w.sum())

    def _check_moments(self, rows: Rows, moments: Moments) -> None:
        """Look for NaN, inf and values out of range only when the sums show that there are some."""
        total = moments.scatter.diagonal().sum()
        if not np.isfinite(total):
            refuse_bad_blocks(rows, getattr(self, "feature_names_in_", None))
        if total <= 1e10 * np.finfo(rows.dtype).tiny:
            for block in rows.blocks():
                refuse_vanishing(total, block.X, rows.dtype)

    def _count(self, found: Principal, shape: tuple[int, int], dtype: Any) -> int:
        """d', never more than the rank: the axes after it would be arbitrary."""
        k = 0 if self.n_components == 0 else count_components(self.n_components, found)
        rank = max(1, numerical_rank(found, shape, dtype))
        if rank < k and isinstance(self.n_components, Integral):
            warnings.warn(
                f"n_components={k}, but the data vary in {rank} directions only: {rank} axes are "
                "kept.",
                NearfoldWarning,
                stacklevel=3,
            )
        return min(k, rank)
