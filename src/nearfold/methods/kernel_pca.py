"""Kernel principal component analysis (section 10.4).

PCA of the samples after a map phi into another space, known only by k(x, y) = phi(x)^T phi(y).

Symbols: K (m, m) kernel values, B = J K J the same about the mean of phi, lam and V (m, d') its
largest eigenvalues and vectors, alpha_j = V_j / lam_j^(1/2), so that the axis sum_i alpha_ij phi_i
has unit length.

Steps
  1. K, or the part of it that is needed; centred implicitly                       (10.22)
  2. the d' largest eigenvalues of B, algebraically                                (10.24)
  3. the samples: Z = V lam^(1/2)
  4. a new one: z_j = sum_i alpha_ij (k(x, x_i) - the training means)              (10.25)

Ways to step 2, `route_`
  principal   the linear kernel on features: PCA itself, exactly
  held        K once, in the dtype of X; block Lanczos, or all eigenpairs where most are wanted
  computed    K tile by tile, at each pass, never held (low_rank="never" beyond the budget)
  low rank    K ~ F F^T by randomly pivoted Cholesky: O(m r) memory. `trace_left_` of the trace is
              missing, and no eigenvalue is short by more than that: `eigenvalue_error_`

Departures: negative eigenvalues of indefinite kernels (sigmoid) are clamped and warned of, where
scikit-learn refuses. The pre-image is a kernel ridge regression with an intercept (scikit-learn
has none, and so loses the mean); it reuses gamma of the input space on the embedding, as
scikit-learn does, unless `inverse_gamma` is given.
"""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import get_memory, require_memory, show_bytes, spans
from nearfold.errors import (
    ApproximationWarning,
    InputError,
    NearfoldWarning,
    SolverError,
    warn,
)
from nearfold.inputs import check_table, refuse_overflow
from nearfold.linalg import axis_signs, top_eigenpairs
from nearfold.linalg.centred import ComputedKernel, DoublyCentred, HeldKernel
from nearfold.linalg.krylov import TopPairs
from nearfold.linalg.pivoted import LowRank, pivoted_cholesky
from nearfold.methods.kernel_functions import NAMES, KernelFunction
from nearfold.methods.pca import PCA
from nearfold.methods.principal_components import center_and_project
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order, random_state, reporting

_LEFT = 1e-3  # the share of the trace that may be missing when the budget forces a low rank
_MOST_RANK = 3000
_SOLVERS = ("auto", "dense", "arpack", "randomized")


def kernel_pairs(B: DoublyCentred, k: int, tol: float, max_iter: int | None) -> TopPairs:
    """The k largest eigenpairs of the centred kernel. (10.24)"""
    if B.n > 200 and k <= B.n // 5:
        return B.top(k, tol, max_passes=max_iter or 300)
    found = top_eigenpairs(B.dense(), k, name="the centred kernel")
    return TopPairs(found.values, found.vectors.astype(B.dtype), np.zeros(k), 0.0, 1)


def clamp(lam: Floats, dtype: Any) -> Floats:
    """Eigenvalues with rounding and negative ones set to zero, the latter with a warning."""
    largest = max(float(lam.max(initial=0.0)), 0.0)
    noise = (2e-7 if dtype == np.float32 else 1e-12) * largest
    negative = lam[lam < -1e3 * noise]
    if len(negative):
        warn(
            f"the kernel is not positive semi-definite: {len(negative)} of the eigenvalues found "
            f"are negative, down to {negative.min():.3g} (the largest is {largest:.3g}). They are "
            "clamped to 0.",
        )
    return np.where(lam > noise, lam, 0.0)


@np.errstate(over="ignore")
def _sum_of_squares(X: Any) -> float:
    values = X.data if sparse.issparse(X) else X.ravel(order="K")
    return float(np.einsum("i,i->", values, values))


def _solve_ridge(K: Floats, target: Floats) -> Floats:
    try:
        return np.asarray(linalg.solve(K, target, assume_a="pos"))
    except linalg.LinAlgError as error:
        raise SolverError(
            f"the pre-image could not be learned: {error}. Use a larger alpha, or a kernel that is "
            "positive semi-definite."
        ) from None


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Kernel PCA, exact where the kernel fits the memory budget, of low rank beyond.

    Parameters are scikit-learn's; `eigen_solver` is accepted and one way serves all (it is exact,
    also for "randomized"). New: `low_rank`, "auto" (exact if the kernel fits the budget, otherwise
    a factor that misses at most 0.001 of the trace), "never" (exact always, the kernel computed in
    tiles at each pass if it must be), a rank, or the share of the trace that may be missing;
    `inverse_gamma`, gamma of the pre-image's kernel; `verbose`.

    New attributes: `explained_variance_`, `explained_variance_ratio_`, `route_`,
    `approximation_`, and of a low-rank fit `trace_left_` (a share), `eigenvalue_error_` (a bound
    for every eigenvalue) and `rank_`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from nearfold import KernelPCA
    >>> X, _ = load_digits(return_X_y=True)
    >>> KernelPCA(n_components=7, kernel="rbf", gamma=0.001).fit_transform(X).shape
    (1797, 7)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: Any = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        alpha: float = 1.0,
        fit_inverse_transform: bool = False,
        eigen_solver: str = "auto",
        tol: float = 0,
        max_iter: int | None = None,
        iterated_power: Any = "auto",
        remove_zero_eig: bool = False,
        random_state: Any = None,
        copy_X: bool = True,
        n_jobs: int | None = None,
        low_rank: Any = "auto",
        inverse_gamma: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.fit_inverse_transform = fit_inverse_transform
        self.eigen_solver = eigen_solver
        self.tol = tol
        self.max_iter = max_iter
        self.iterated_power = iterated_power
        self.remove_zero_eig = remove_zero_eig
        self.random_state = random_state
        self.copy_X = copy_X
        self.n_jobs = n_jobs
        self.low_rank = low_rank
        self.inverse_gamma = inverse_gamma
        self.verbose = verbose

    @classmethod
    def from_eigenpairs(
        cls, lam: Floats, V: Floats, row_means: Floats, dtype: Any = np.float64
    ) -> KernelPCA:
        """A fitted model of a precomputed kernel whose eigenpairs and row means are known."""
        model = cls(n_components=len(lam), kernel="precomputed")
        model.eigenvalues_, model.eigenvectors_ = lam.astype(dtype), V.astype(dtype)
        model.n_features_in_, model.route_, model.approximation_ = len(V), "held", None
        model._row_means = row_means
        return model

    def fit(self, X: Any, y: Any = None) -> KernelPCA:
        """Find the axes of X, or of the objects whose kernel X holds (kernel="precomputed")."""
        self._check_parameters()
        X = check_table(self, X, reset=True, accept_sparse=True, copy=self.copy_X)
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise InputError(
                f"Kernel matrix must be a square matrix. Input is a {X.shape[0]}x{X.shape[1]} "
                "matrix."
            )
        if not callable(self.kernel) and self.kernel not in ("cosine", "precomputed"):
            refuse_overflow(_sum_of_squares(X), X, getattr(self, "feature_names_in_", None))
        self.gamma_ = 1.0 / X.shape[1] if self.gamma is None else self.gamma
        self.X_fit_ = X
        self.approximation_: str | None = None
        for name in ("rank_", "trace_left_", "eigenvalue_error_"):
            self.__dict__.pop(name, None)
        with reporting(self.verbose):
            self._solve(X)
            if self.fit_inverse_transform:
                self._fit_preimage()
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Floats:
        """Fit, and return the fitted rows in the new space."""
        self.fit(X, **params)
        return self._embedding()

    def _embedding(self) -> Floats:
        return np.asarray(self.eigenvectors_ * np.sqrt(self.eigenvalues_))

    def _check_parameters(self) -> None:
        if not (callable(self.kernel) or self.kernel in (*NAMES, "precomputed")):
            raise InputError(
                f"kernel={self.kernel!r}: use one of {', '.join(NAMES)}, precomputed or a function."
            )
        k = self.n_components
        if k is not None and not (isinstance(k, Integral) and k >= 1):
            raise InputError(f"n_components={k!r}: give a positive whole number or None.")
        if self.eigen_solver not in _SOLVERS:
            raise InputError(f"eigen_solver={self.eigen_solver!r}: use one of {_SOLVERS}.")
        if self.fit_inverse_transform and self.kernel == "precomputed":
            raise InputError("Cannot fit_inverse_transform with a precomputed kernel.")
        low = self.low_rank
        number = isinstance(low, Real) and not isinstance(low, bool)
        if not (low in ("auto", "never") or (number and low > 0 and (low < 1 or low % 1 == 0))):
            raise InputError(
                f"low_rank={low!r}: use 'auto', 'never', a rank, or a share of the trace below 1."
            )

    def _solve(self, X: Any) -> None:
        m = X.shape[0]
        k = m if self.n_components is None else min(m, int(self.n_components))
        self._function = KernelFunction(
            self.kernel, self.gamma_, self.degree, self.coef0, self.kernel_params
        )
        if self.kernel == "rbf" and not sparse.issparse(X):
            self._function.centre = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        if self.kernel == "precomputed":
            K = X.toarray() if sparse.issparse(X) else X
            self._keep_exact(HeldKernel((K + K.T) / 2 if self._is_skew(K) else K), k, "held")
        elif self.kernel == "linear" and self.low_rank in ("auto", "never"):
            self._solve_linear(X, k)
        elif isinstance(self.low_rank, Real):
            self._solve_low_rank(X, k)
        else:
            self._solve_features(X, k)

    def _is_skew(self, K: Array) -> bool:
        parts = map_in_order(
            lambda rows: (np.abs(K[rows] - K[:, rows].T).max(), np.abs(K[rows]).max()),
            spans(len(K), 256),
            n_jobs=self.n_jobs,
        )
        off, largest = np.max(list(parts), axis=0)
        return bool(off > 1e-6 * largest)

    def _solve_linear(self, X: Any, k: int) -> None:
        """phi(x) = x: the axes are PCA's, and V lam^(1/2) its projections."""
        m, d = X.shape
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "n_components=.* data vary", NearfoldWarning)
            pca = PCA(min(k, m, d)).fit(X)
        found = pca.singular_values_.astype(np.float64) ** 2
        # Rows that are all equal have no direction, but a mean that rounds.
        size = float(np.abs(pca.mean_).max(initial=0.0)) * float(np.finfo(X.dtype).eps)
        found = np.where(found > 64 * m * size**2, found, 0.0)
        axes = pca.components_.T * (found > 0)
        Z = pca.transform(X)
        missing = min(k, m) - len(found)  # beyond the rank eigenvalues and coordinates are zero
        found = np.pad(found, (0, missing))
        Z, axes = (np.pad(A, ((0, 0), (0, missing))) for A in (Z, axes))
        ratio = float(pca.explained_variance_ratio_.sum())
        trace = float(found.sum()) / ratio if ratio > 0 else 0.0
        self.route_ = "principal"
        V = Z / np.where(found > 0, np.sqrt(found), np.inf)
        kept, signs = self._keep(found, V, trace, X.dtype)
        self._linear_mean, self._linear_axes = pca.mean_, axes[:, kept] * signs

    def _solve_features(self, X: Any, k: int) -> None:
        m, itemsize = X.shape[0], X.dtype.itemsize
        prepared = self._function.prepare(X)
        needed = 1.1 * itemsize * m * m
        if k > m // 5 or m <= 200:
            needed = 8.0 * 4 * m * m  # the dense way
        if needed <= get_memory():
            K = self._function.matrix(prepared, X.dtype, self.n_jobs)
            self._keep_exact(HeldKernel(K, self.n_jobs), k, "held")
        elif self.low_rank == "never":
            require_memory(
                itemsize * m * 40.0 * (k + 16), f"A basis for {k} axes", "Ask for fewer axes."
            )
            B = ComputedKernel(
                lambda rows, columns: self._function.tile(prepared[rows], prepared[columns]),
                self._function.diagonal(prepared),
                X.dtype,
                self.n_jobs,
            )
            self._keep_exact(B, k, "computed")
        else:
            warn(
                f"the kernel of {m:,} rows needs {show_bytes(needed)}, more than the memory "
                "budget: a factor of low rank is used (see approximation_; low_rank='never' "
                "computes the kernel at each pass instead).",
                ApproximationWarning,
            )
            self._solve_low_rank(X, k)

    def _keep_exact(self, B: DoublyCentred, k: int, route: str) -> None:
        pairs = kernel_pairs(B, k, self.tol, self.max_iter)
        self.route_ = route
        self._row_means = B.row_means
        lam = clamp(pairs.values, B.dtype)
        lam = np.where(lam > B.noise(), lam, 0.0)  # what is below is the rounding of K
        self._keep(lam, pairs.vectors, B.trace, B.dtype)

    def _keep(self, lam: Floats, V: Floats, trace: float, dtype: Any) -> tuple[Array, Array]:
        """Store the eigenpairs; return which of those given are kept, and their signs."""
        every = not (self.remove_zero_eig or self.n_components is None)
        kept = (lam > 0) | every
        lam, V = lam[kept], V[:, kept]
        signs = axis_signs(V.T).astype(dtype)
        m = len(V)
        self.eigenvalues_ = lam.astype(dtype)
        self.eigenvectors_ = V.astype(dtype) * signs
        self.explained_variance_ = (lam / max(m - 1, 1)).astype(dtype)
        self.explained_variance_ratio_ = (lam / (trace if trace > 0 else 1.0)).astype(dtype)
        return kept, signs

    def _solve_low_rank(self, X: Any, k: int) -> None:
        function, m = self._function, X.shape[0]
        prepared = function.prepare(X)
        most, share = self._rank_limits(m, X.dtype.itemsize, k)
        factor = pivoted_cholesky(
            lambda rows, columns: function.tile(prepared[rows], prepared[columns]),
            function.diagonal(prepared),
            most,
            share,
            random_state(self.random_state),
            X.dtype,
            self.n_jobs,
        )
        self._keep_low_rank(factor, prepared[factor.pivots], k, X.dtype)

    def _rank_limits(self, m: int, itemsize: int, k: int) -> tuple[int, float]:
        """The largest rank, and the share of the trace at which to stop."""
        low = self.low_rank
        affordable = int(get_memory() / 3 / (itemsize * m))
        if low not in ("auto", "never") and low >= 1:
            require_memory(3.0 * itemsize * m * int(low), f"A factor of rank {low}", "")
            return int(low), 0.0
        advice = "Ask for fewer components."
        require_memory(3.0 * itemsize * m * (k + 1), f"A factor for {k} axes", advice)
        return max(k + 1, min(affordable, _MOST_RANK)), float(low) if low != "auto" else _LEFT

    def _keep_low_rank(self, factor: LowRank, pivots: Any, k: int, dtype: Any) -> None:
        F = factor.F
        m, r = F.shape
        mean = F.mean(axis=0, dtype=np.float64)
        gram = np.zeros((r, r))
        for part in map_in_order(
            lambda rows: (c := F[rows] - mean.astype(dtype)).T @ c, spans(m, 4096)
        ):
            gram += part
        pairs = top_eigenpairs(gram, min(k, r), name="the factor of the kernel")
        lam = clamp(pairs.values, dtype)
        rounding = 8 * float(np.finfo(dtype).eps) * float(np.abs(F).max(initial=0.0)) ** 2 * m**0.5
        lam = np.pad(np.where(lam > rounding, lam, 0.0), (0, k - min(k, r)))
        U = np.pad(pairs.vectors, ((0, 0), (0, k - min(k, r))))
        V = F @ U.astype(dtype) - (mean @ U).astype(dtype)
        V /= np.where(lam > 0, np.sqrt(lam), np.inf).astype(dtype)
        total = float(np.trace(gram)) + factor.left
        self.route_ = "low rank"
        self.rank_, self.eigenvalue_error_ = r, factor.left
        self.trace_left_ = factor.left / total if total > 0 else 0.0
        self.approximation_ = (
            f"randomly pivoted Cholesky of rank {r}: {self.trace_left_:.2%} of the trace is left "
            f"over, no eigenvalue is short by more than {factor.left:.4g}"
        )
        kept, signs = self._keep(lam, V, total, dtype)
        # f(x) = L^-1 k(pivots, x) continues the rows of F; then centre, and project on U.
        U = U[:, kept] * np.where(lam[kept] > 0, signs, 0.0)
        L = np.tril(F[factor.pivots].astype(np.float64))
        self._pivots, self._pivot_rows = factor.pivots, pivots
        self._pivot_axes = linalg.solve_triangular(L.T, U, lower=False)
        self._pivot_offset = mean @ U

    def transform(self, X: Any) -> Floats:
        """Rows in the new space: features, or with kernel="precomputed" their kernel values."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False, accept_sparse=True)
        if self.route_ == "principal":
            return center_and_project(X, self._linear_mean, self._linear_axes)
        if self.route_ == "low rank":
            fitted, axes = self._pivot_rows, self._pivot_axes
        else:
            fitted = None if self.kernel == "precomputed" else self._function.prepare(self.X_fit_)
            lam = self.eigenvalues_
            axes = self.eigenvectors_ / np.sqrt(np.where(lam > 0, lam, np.inf))  # alpha
        step = max(1, 2**22 // max(1, len(axes)))
        parts = map_in_order(
            lambda rows: self._project(X[rows], fitted, axes),
            spans(X.shape[0], step),
            n_jobs=self.n_jobs,
        )
        return np.concatenate(list(parts)).astype(X.dtype, copy=False)

    def _project(self, X: Any, fitted: Any, axes: Floats) -> Floats:
        if sparse.issparse(X) and not sparse.issparse(self.X_fit_):
            X = X.toarray()
        if self.kernel == "precomputed":
            K = X
        else:
            K = self._function.tile(self._function.prepare(X), fitted)
        if self.route_ == "low rank":
            return np.asarray(K @ axes - self._pivot_offset)
        K = K - self._row_means.astype(K.dtype)
        K -= K.mean(axis=1, keepdims=True)
        return np.asarray(K @ axes)  # (10.25)

    def _fit_preimage(self) -> None:
        """Kernel ridge regression of the rows on their embedding, about their mean."""
        if sparse.issparse(self.X_fit_):
            raise NotImplementedError("Inverse transform not implemented for sparse matrices!")
        Z = self._embedding()
        gamma = self.gamma_ if self.inverse_gamma is None else self.inverse_gamma
        self._back = KernelFunction(self.kernel, gamma, self.degree, self.coef0, self.kernel_params)
        self._back_mean = self.X_fit_.mean(axis=0)
        target = self.X_fit_ - self._back_mean
        chosen = self._pivots if self.route_ == "low rank" else None
        if chosen is None:
            advice = "Use low_rank with a rank: the pre-image is then learned on its pivots."
            require_memory(8.0 * 2 * len(Z) ** 2, f"The pre-image of {len(Z):,} rows", advice)
            self.X_transformed_fit_ = Z
            K = self._back.matrix(self._back.prepare(Z), Z.dtype, self.n_jobs)
            K.flat[:: len(K) + 1] += self.alpha
            self.dual_coef_ = _solve_ridge(K, target)
            return
        self.X_transformed_fit_ = Z[chosen]
        centre = self._back.prepare(Z[chosen])
        left = self.alpha * self._back.tile(centre, centre).astype(np.float64)
        right = np.zeros((len(chosen), target.shape[1]))
        for rows in spans(len(Z), 4096):
            K = self._back.tile(self._back.prepare(Z[rows]), centre).astype(np.float64)
            left += K.T @ K
            right += K.T @ target[rows]
        left.flat[:: len(left) + 1] += 1e-10 * np.trace(left) / len(left)
        self.dual_coef_ = _solve_ridge(left, right).astype(Z.dtype)

    def inverse_transform(self, X: Any) -> Floats:
        """Back to the original space: rows whose embedding would be close to X."""
        if not self.fit_inverse_transform:
            raise NotFittedError(
                "The fit_inverse_transform parameter was not set to True when instantiating and "
                "hence the inverse transform is not available."
            )
        check_is_fitted(self)
        Z = self._back.prepare(np.asarray(X))
        K = self._back.tile(Z, self._back.prepare(self.X_transformed_fit_))
        return np.asarray(K @ self.dual_coef_ + self._back_mean)

    @property
    def _n_features_out(self) -> int:
        return int(self.eigenvalues_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
