"""Kernel principal component analysis (section 10.4).

PCA of the samples after a map phi into another space, known only by k(x, y) = phi(x)^T phi(y).

Symbols: K (m, m) kernel values, B = J K J the same about the mean of phi, lam and V (m, d') its
largest eigenvalues and vectors, alpha_j = V_j / lam_j^(1/2), so that the axis
w_j = sum_i alpha_ij phi(x_i) has unit length.

Steps
  1. K, or the part of it that is needed; centred implicitly                       (10.23)
  2. the d' largest eigenvalues of B, algebraically                                (10.24)
  3. the samples: Z = V lam^(1/2)
  4. a new one: z_j = sum_i alpha_ij (k(x, x_i) - the training means)              (10.25)

Ways to step 2, `route_`
  principal   the linear kernel on features: PCA itself, exactly
  held        K once, in the dtype of X; block Lanczos, or all eigenpairs where most are wanted
  computed    K tile by tile, at each pass, never held (low_rank="never" beyond the budget)
  low rank    K ~ F F^T by randomly pivoted Cholesky (kernel_low_rank.py): O(m r) memory.
              `trace_left_` of the trace is missing, and no eigenvalue is short by more than that

Departures: negative eigenvalues of indefinite kernels (sigmoid) are clamped and warned of, where
scikit-learn refuses. The pre-image (kernel_preimage.py) has an intercept; it reuses gamma of the
input space on the embedding, as scikit-learn does, unless `inverse_gamma` is given.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import spans
from nearfold.errors import InputError, warn
from nearfold.inputs import check_table
from nearfold.linalg import axis_signs, clamp_spectrum, top_eigenpairs
from nearfold.linalg.centred import ComputedKernel, DoublyCentred, HeldKernel
from nearfold.linalg.krylov import TopPairs
from nearfold.methods.kernel_functions import NAMES, KernelFunction, tile_side
from nearfold.methods.kernel_low_rank import low_rank_axes, rank_limits
from nearfold.methods.kernel_preimage import learn_from_all, learn_from_some, reconstruct
from nearfold.methods.kernel_routes import (
    choose_route,
    given_kernel,
    linear_axes,
    refuse_overflowing,
    solved_densely,
    warn_of_no_variation,
)
from nearfold.methods.principal_components import center_and_project
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order, random_state, reporting
from nearfold.state import (
    Sizes,
    State,
    any_of,
    array,
    matrix,
    names,
    nested,
    number,
    optional,
    require,
    size,
    text,
)


def kernel_operator(
    X: Any, function: KernelFunction, k: int, *, held: bool, exact: bool, n_jobs: int | None
) -> DoublyCentred:
    """B = J K J of the rows X. (10.23)

    `exact`: the same tiles in the same order whether K is held or not, so that what the memory
    budget decides here changes no bit of the result.
    """
    K = function.matrix(X, X.dtype, n_jobs) if held else None
    if K is not None and (not exact or solved_densely(len(K), k)):
        return HeldKernel(K, n_jobs)

    def tile(rows: slice, columns: slice) -> Array:
        return function.tile(X, rows, columns) if K is None else K[rows, columns]

    diagonal = function.diagonal(X)
    return ComputedKernel(tile, diagonal, X.dtype, n_jobs, side=tile_side(X.shape[1]))


def kernel_axes(B: DoublyCentred, k: int, tol: float, max_iter: int | None) -> TopPairs:
    """The k largest eigenpairs of the centred kernel."""
    if not (isinstance(B, HeldKernel) and solved_densely(B.n, k)):
        return B.top(k, tol, max_passes=max_iter or 300)  # (10.24)
    C = B.K.astype(np.float64)
    C -= C.mean(axis=0)
    C -= C.mean(axis=1, keepdims=True)
    found = top_eigenpairs(C, k, name="the centred kernel")  # (10.24)
    return TopPairs(found.values, found.vectors.astype(B.dtype), np.zeros(k), 0.0, 1)


def unit_axes(V: Floats, lam: Floats) -> Floats:
    """alpha, with which w_j = sum_i alpha_ij phi(x_i) has unit length; 0 where lam is."""
    return np.asarray(V / np.sqrt(np.where(lam > 0, lam, np.inf)))  # (10.22)


def project(K: Array, row_means: Floats, alpha: Floats) -> Floats:
    """New rows from their kernel values K (b, m), which are overwritten."""
    K -= row_means.astype(K.dtype)
    K -= K.mean(axis=1, keepdims=True)
    return np.asarray(K @ alpha)  # (10.25)


def clamp_and_warn(lam: Floats, dtype: Any) -> Floats:
    """Eigenvalues with rounding and negative ones set to zero, the latter with a warning."""
    largest = max(float(lam.max(initial=0.0)), 0.0)
    negative = lam[lam < -(float(np.finfo(dtype).eps) ** 0.5) * largest]
    if len(negative):
        warn(
            f"the kernel is not positive semi-definite: {len(negative)} of the eigenvalues found "
            f"are negative, down to {negative.min():.3g} (the largest is {largest:.3g}). They are "
            "clamped to 0.",
        )
    return clamp_spectrum(lam, dtype)


def _check_powers(function: KernelFunction, X: Any, d: int) -> None:
    """Powers of a polynomial kernel are numbers: neither too large nor roots of negative ones."""
    values = X.data if sparse.issparse(X) else X
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    base = function.gamma * d * max(-low, high) ** 2 + abs(function.coef0) + 2
    fits = np.isfinite(base) and function.degree * np.log(base) < 600
    require(bool(fits), "_function: powers that overflow")
    positive = low >= 0 and function.coef0 >= 0
    require(positive or function.degree == int(function.degree), "_function: roots of products")


def _check_centre(function: KernelFunction, dtype: Any) -> None:
    """The mean of rows of unit length is no longer; that of others has a square in their dtype."""
    size = float(np.abs(function.centre).max(initial=0))
    real = np.finfo(dtype if np.dtype(dtype).kind == "f" else np.float64)
    largest = 1.0 + 1e-6 if function.kernel == "cosine" else float(np.sqrt(real.max))
    require(size <= largest, "_function: a centre far from the rows")


def _check_route(held: dict[str, Any], sizes: Sizes) -> None:
    route, given = held["route_"], held["_function"].kernel == "precomputed"
    needs = {
        "principal": {"_linear_mean", "_linear_axes"},
        "low rank": {"X_fit_", "_pivots", "_pivot_axes", "_pivot_offset", "rank_"},
    }.get(route, {"_row_means"} if given else {"_row_means", "X_fit_"})
    require(needs <= set(held), f"fields that route {route!r} needs are missing")
    back = {"dual_coef_", "X_transformed_fit_", "_back", "_back_mean"}
    require(not back & set(held) or back <= set(held), "half of a pre-image")
    rows = sizes.get("r" if route == "low rank" else "n")
    require(rows != 0, "no rows")
    if "X_fit_" in held:
        _check_centre(held["_function"], held["X_fit_"].dtype)
    if held["_function"].kernel == "poly" and "X_fit_" in held:
        _check_powers(held["_function"], held["X_fit_"], sizes["d"])
    require(not given or sizes["d"] == sizes["n"], "precomputed: not as many columns as rows")
    require("X_fit_" not in held or held["X_fit_"].shape[0] == rows, "X_fit_ of another size")


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Kernel PCA, exact where the kernel fits the memory budget, of low rank beyond.

    Parameters
    ----------
    n_components : int or None, default=None
        Axes d'; None keeps all with a positive eigenvalue.
    kernel : {"linear", "poly", "rbf", "sigmoid", "cosine", "precomputed"} or callable
        The kernel, by default "linear".
    gamma : float or None, default=None
        Of "rbf", "poly" and "sigmoid"; None means 1 / n_features.
    degree : float, default=3
        Of "poly".
    coef0 : float, default=1
        Of "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Keyword arguments of a callable kernel.
    alpha : float, default=1.0
        Ridge of the pre-image.
    fit_inverse_transform : bool, default=False
        Learn the pre-image.
    eigen_solver : {"auto", "dense", "arpack", "randomized"}, default="auto"
        Accepted for compatibility; has no effect: the solver is exact for all of them.
    tol : float, default=0
        Relative tolerance of the eigenpairs; 0 means that of the dtype.
    max_iter : int or None, default=None
        Most passes over the kernel. No effect where all eigenpairs are found at once.
    iterated_power : int or "auto", default="auto"
        Accepted for compatibility; has no effect.
    remove_zero_eig : bool, default=False
        Leave out axes without variance.
    random_state : int, RandomState or None, default=None
        Draws the pivots of a low-rank fit.
    copy_X : bool, default=True
        Keep a copy of X where `transform` needs it.
    n_jobs : int or None, default=None
        Threads; changes no result.
    low_rank : {"auto", "never"}, int or float, default="auto"
        "auto": exact if the kernel fits the memory budget, otherwise a factor that misses at most
        0.001 of the trace if its rank fits; "never": exact always, the kernel computed at each pass
        if it must be; an int: the rank; a float below 1: the share of the trace that may be
        missing.
    inverse_gamma : float or None, default=None
        gamma of the pre-image's kernel; None means that of the kernel.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    eigenvalues_, eigenvectors_ : ndarray of shape (n_components,), (n_samples, n_components)
        lam and V, largest first.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        lam / (n_samples - 1), and its share of all variance.
    X_fit_ : ndarray or sparse matrix
        The rows that new ones are compared with: all, or the pivots of a low-rank fit.
    gamma_ : float
        gamma as it was used.
    dual_coef_, X_transformed_fit_ : ndarray
        Coefficients and centres of the pre-image.
    route_ : str
        How the eigenpairs were found.
    approximation_ : str or None
        None, or what a low-rank fit misses (and under which memory budget).
    rank_, trace_left_, eigenvalue_error_ : int, float, float
        Of a low-rank fit: its rank, the share of the trace it misses, a bound for every eigenvalue.
    n_features_in_, feature_names_in_ : int, ndarray
        Columns of the fitted rows, and their names if they had any.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from nearfold import KernelPCA
    >>> X, _ = load_digits(return_X_y=True)
    >>> KernelPCA(n_components=7, kernel="rbf", gamma=0.001).fit_transform(X).shape
    (1797, 7)
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012  scikit-learn's mechanism
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions({*NAMES, "precomputed"}), callable],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_inverse_transform": ["boolean"],
        "eigen_solver": [StrOptions({"auto", "dense", "arpack", "randomized"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "iterated_power": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "remove_zero_eig": ["boolean"],
        "random_state": ["random_state"],
        "copy_X": ["boolean"],
        "n_jobs": [None, Integral],
        "low_rank": [
            StrOptions({"auto", "never"}),
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
        ],
        "inverse_gamma": [Interval(Real, 0, None, closed="left"), None],
        "verbose": ["verbose"],
    }

    fitted_state = State(
        _also=_check_route,
        _optional=(
            "feature_names_in_", "X_fit_", "gamma_", "explained_variance_",
            "explained_variance_ratio_", "rank_", "trace_left_", "eigenvalue_error_", "_row_means",
            "_linear_mean", "_linear_axes", "_pivots", "_pivot_axes", "_pivot_offset", "_back",
            "_back_mean", "dual_coef_", "X_transformed_fit_",
        ),
        n_features_in_=size("d", least=1),
        feature_names_in_=names("d"),
        eigenvalues_=array("k", least=0),
        eigenvectors_=array("n k"),
        explained_variance_=array("k", least=0),
        explained_variance_ratio_=array("k", least=0),
        gamma_=number(least=0),
        route_=text("principal", "held", "computed", "low rank"),
        approximation_=optional(text()),
        rank_=size("r"),
        trace_left_=number(least=0),
        eigenvalue_error_=number(least=0),
        X_fit_=any_of(array("* d"), matrix("* d")),
        _function=nested(KernelFunction, d="d"),
        _row_means=array("n"),
        _linear_mean=array("d"),
        _linear_axes=array("d k"),
        _pivots=array("r", "i", below="n"),
        _pivot_axes=array("r k"),
        _pivot_offset=array("k"),
        _back=nested(KernelFunction, d="k"),
        _back_mean=array("d"),
        dual_coef_=array("q d"),
        X_transformed_fit_=array("q k"),
    )  # fmt: skip

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
        return model.set_eigenpairs(lam, V, row_means, dtype)

    def set_eigenpairs(self, lam: Floats, V: Floats, row_means: Floats, dtype: Any) -> KernelPCA:
        """Fit by the eigenpairs and row means of a precomputed kernel."""
        self.eigenvalues_, self.eigenvectors_ = lam.astype(dtype), V.astype(dtype)
        self.n_features_in_, self.route_ = len(V), "held"
        self.approximation_: str | None = None
        self._function = KernelFunction("precomputed", 1.0, 3, 1, None)
        self._row_means = row_means
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> KernelPCA:
        """Find the axes of X, or of the objects whose kernel X holds (kernel="precomputed")."""
        X = check_table(self, X, reset=True, accept_sparse=True)
        m, d = X.shape
        for name in self.fitted_state.optional - {"feature_names_in_"}:
            self.__dict__.pop(name, None)
        if isinstance(self.low_rank, bool):  # which an interval of integers lets through
            raise InputError(
                "The 'low_rank' parameter of KernelPCA must be 'auto', 'never', a rank or a share."
            )
        if self.fit_inverse_transform and self.kernel == "precomputed":
            raise InputError("Cannot fit_inverse_transform with a precomputed kernel.")
        if self.fit_inverse_transform and sparse.issparse(X):
            raise NotImplementedError("Inverse transform not implemented for sparse matrices!")
        self.gamma_ = 1.0 / d if self.gamma is None else self.gamma
        self._function = self._make_function(self.gamma_)
        k = m if self.n_components is None else min(m, int(self.n_components))
        with reporting(self.verbose):
            self._solve(X, k)
            if self.fit_inverse_transform:
                self._learn_preimage(X)
        return self

    def _make_function(self, gamma: float) -> KernelFunction:
        return KernelFunction(self.kernel, gamma, self.degree, self.coef0, self.kernel_params)

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Floats:
        """Fit, and return the fitted rows in the new space."""
        self.fit(X, **params)
        return self._embedding()

    def _embedding(self) -> Floats:
        return np.asarray(self.eigenvectors_ * np.sqrt(self.eigenvalues_))

    def _solve(self, X: Any, k: int) -> None:
        self.approximation_ = None
        if self.kernel == "precomputed":
            K = given_kernel(X, k, self.n_jobs)
            self._keep_exact(HeldKernel(K, self.n_jobs), k, "held")
            return
        if not callable(self.kernel) and self.kernel != "cosine":
            refuse_overflowing(X, getattr(self, "feature_names_in_", None))
        if self.kernel == "linear" and isinstance(self.low_rank, str):
            self._solve_linear(X, k)
            return
        self._function.measure_from_mean(X)
        route = choose_route(X, k, self.low_rank, self.copy_X)
        if route == "low rank":
            self._solve_low_rank(X, k)
        else:
            self.X_fit_ = X.copy() if self.copy_X else X
            held, exact = route == "held", self.low_rank == "never"
            B = kernel_operator(X, self._function, k, held=held, exact=exact, n_jobs=self.n_jobs)
            self._keep_exact(B, k, route)
        if not self.eigenvalues_.any():
            warn_of_no_variation(X)

    def _solve_linear(self, X: Any, k: int) -> None:
        found = linear_axes(X, k)
        self.route_, self.X_fit_ = "principal", X
        kept, signs = self._keep(found.lam, found.V, found.trace, X.dtype)
        self._linear_mean, self._linear_axes = found.mean, found.axes[:, kept] * signs

    def _solve_low_rank(self, X: Any, k: int) -> None:
        (m, d), itemsize = X.shape, X.dtype.itemsize
        limits = rank_limits(self.low_rank, m, d, k, itemsize)
        rng = random_state(self.random_state)
        found = low_rank_axes(X, self._function, k, limits, rng, self.n_jobs)
        self.route_ = "low rank"
        self.rank_, self.eigenvalue_error_ = len(found.pivots), found.left
        self.trace_left_ = found.left / found.trace if found.trace > 0 else 0.0
        self.approximation_ = (
            f"randomly pivoted Cholesky of rank {self.rank_}: {self.trace_left_:.2%} of the trace "
            f"is left over, no eigenvalue is short by more than {found.left:.4g}{limits.note}"
        )
        kept, signs = self._keep(found.lam, found.V, found.trace, X.dtype)
        self.X_fit_, self._pivots = X[found.pivots], found.pivots
        self._pivot_axes = found.axes[:, kept] * signs
        self._pivot_offset = found.offset[kept] * signs

    def _keep_exact(self, B: DoublyCentred, k: int, route: str) -> None:
        pairs = kernel_axes(B, k, self.tol, self.max_iter)
        self.route_ = route
        self._row_means = B.row_means
        lam = clamp_and_warn(pairs.values, B.dtype)
        lam = np.where(lam > B.noise(), lam, 0.0)  # what is below is the rounding of K
        self._keep(lam, pairs.vectors, B.trace, B.dtype)

    def _keep(self, lam: Floats, V: Floats, trace: float, dtype: Any) -> tuple[Array, Array]:
        """Store the eigenpairs; return which of those given are kept, and their signs."""
        every = not (self.remove_zero_eig or self.n_components is None)
        kept = (lam > 0) | every
        if not kept.all():
            lam, V = lam[kept], V[:, kept]
        signs = axis_signs(V.T).astype(dtype)
        m = len(V)
        self.eigenvalues_ = lam.astype(dtype)
        self.eigenvectors_ = V.astype(dtype, copy=False) * signs
        self.explained_variance_ = (lam / max(m - 1, 1)).astype(dtype)
        self.explained_variance_ratio_ = (lam / (trace if trace > 0 else 1.0)).astype(dtype)
        return kept, signs

    def transform(self, X: Any) -> Floats:
        """Rows in the new space: features, or with kernel="precomputed" their kernel values."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False, accept_sparse=True)
        if self.route_ == "principal":
            return center_and_project(X, self._linear_mean, self._linear_axes)
        low = self.route_ == "low rank"
        given = self._function.kernel == "precomputed"
        axes = self._pivot_axes if low else unit_axes(self.eigenvectors_, self.eigenvalues_)
        p = len(axes)
        Z = np.empty((X.shape[0], axes.shape[1]), dtype=X.dtype)

        def place(rows: slice) -> None:
            Q = X[rows].toarray() if sparse.issparse(X) and given else X[rows]
            if given:
                K = np.array(Q)
            else:
                K = np.empty((Q.shape[0], p), dtype=X.dtype)
                self._function.row_block(Q, self.X_fit_, K)
            Z[rows] = K @ axes - self._pivot_offset if low else project(K, self._row_means, axes)

        step = max(64, 2**18 // max(1, p, X.shape[1]))
        for _ in map_in_order(place, spans(X.shape[0], step), n_jobs=self.n_jobs):
            pass
        return Z

    def _learn_preimage(self, X: Any) -> None:
        gamma = self.gamma_ if self.inverse_gamma is None else self.inverse_gamma
        self._back = self._make_function(gamma)
        self._back_mean = X.mean(axis=0)
        Z = self._embedding()
        if self.route_ == "low rank":
            self.X_transformed_fit_ = Z[self._pivots]
            self.dual_coef_ = learn_from_some(self._back, Z, X, self.alpha, self._pivots)
        else:
            self.X_transformed_fit_ = Z
            self.dual_coef_ = learn_from_all(self._back, Z, X, self.alpha, self.n_jobs)

    def inverse_transform(self, X: Any) -> Floats:
        """Back to the original space: rows whose embedding would be close to X."""
        if not self.fit_inverse_transform:
            raise NotFittedError(
                "The fit_inverse_transform parameter was not set to True when instantiating and "
                "hence the inverse transform is not available."
            )
        check_is_fitted(self, "dual_coef_")
        Z = np.asarray(X)
        return reconstruct(self._back, Z, self.X_transformed_fit_, self.dual_coef_, self._back_mean)

    @property
    def _n_features_out(self) -> int:
        return int(self.eigenvalues_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
