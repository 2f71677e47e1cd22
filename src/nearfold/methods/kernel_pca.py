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
     (kernel_axes.py)

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
from sklearn.base import _fit_context
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import DaskRows
from nearfold.inputs import check_coordinates, check_table
from nearfold.linalg import top_eigenpairs
from nearfold.linalg.centred import ComputedKernel, DoublyCentred, HeldKernel
from nearfold.methods.kernel_axes import KernelAxes, LinearAxes, PivotAxes, RowAxes, measured_rows
from nearfold.methods.kernel_functions import NAMES, KernelFunction, tile_side
from nearfold.methods.kernel_low_rank import low_rank_route
from nearfold.methods.kernel_preimage import PreImage, learn_from_all, learn_from_some
from nearfold.methods.kernel_routes import (
    FoundAxes,
    choose_route,
    clamp_and_warn,
    given_kernel,
    linear_route,
    open_table,
    refuse_options,
    refuse_overflowing,
    solved_densely,
    warn_of_no_variation,
)
from nearfold.methods.reduction import COLUMNS, Reduction
from nearfold.notation import Array, Floats
from nearfold.run import reporting
from nearfold.state import Sizes, array, nested, number, optional, require, size, text


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


def largest_eigenpairs(
    B: DoublyCentred, k: int, tol: float, max_iter: int | None
) -> tuple[Floats, Floats]:
    """lam and V of the centred kernel; lam is 0 where it is negative, or the rounding of K."""
    if not (isinstance(B, HeldKernel) and solved_densely(B.n, k)):
        pairs = B.top(k, tol, max_passes=max_iter or 300)  # (10.24)
        lam, V = pairs.values, pairs.vectors
    else:
        C = B.K.astype(np.float64)
        C -= C.mean(axis=0)
        C -= C.mean(axis=1, keepdims=True)
        found = top_eigenpairs(C, k, name="the centred kernel")  # (10.24)
        lam, V = found.values, found.vectors.astype(B.dtype)
    lam = clamp_and_warn(lam, B.dtype)
    return np.where(lam > B.noise(), lam, 0.0), V


def _check_route(held: dict[str, Any], sizes: Sizes) -> None:
    require(held["route_"] in held["_axes"].routes, f"axes of another route than {held['route_']}")
    require(("_preimage" in held) == ("dual_coef_" in held), "half of a pre-image")


class KernelPCA(Reduction):
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
        The rows that new ones are compared with: all, or the pivots of a low-rank fit. Not there
        after PCA on a Dask table (the linear kernel), whose rows stay where they are.
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
            Interval(RealNotInt, 0, 1, closed="neither"),
        ],
        "inverse_gamma": [Interval(Real, 0, None, closed="left"), None],
        "verbose": ["verbose"],
    }

    fitted_state = COLUMNS.extended(
        _check_route,
        (
            "X_fit_", "gamma_", "explained_variance_",
            "explained_variance_ratio_", "rank_", "trace_left_", "eigenvalue_error_", "dual_coef_",
            "X_transformed_fit_", "_preimage",
        ),
        eigenvalues_=array("k", least=0),
        eigenvectors_=array("n k"),
        explained_variance_=array("k", least=0),
        explained_variance_ratio_=array("k", least=0),
        gamma_=number(least=0),
        route_=text("principal", "held", "computed", "low rank"),
        approximation_=optional(text()),
        _axes=nested(LinearAxes, RowAxes, PivotAxes, d="d", k="k", p="p"),
        X_fit_=measured_rows,
        rank_=size("p"),
        trace_left_=number(least=0),
        eigenvalue_error_=number(least=0),
        dual_coef_=array("q d"),
        X_transformed_fit_=array("q k"),
        _preimage=nested(PreImage, d="d", k="k"),
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
        model.n_features_in_, model.route_, model.approximation_ = len(V), "held", None
        return model.set_axes(RowAxes(lam.astype(dtype), V.astype(dtype), None, None, row_means))

    def set_axes(self, axes: KernelAxes) -> KernelPCA:
        """Keep these axes."""
        self.eigenvalues_, self.eigenvectors_ = axes.lam, axes.V
        self._axes = axes
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> KernelPCA:
        """Find the axes of X, or of the objects whose kernel X holds (kernel="precomputed").

        X may be a Dask array or frame: a factor of low rank is then made where its rows are.
        """
        X = open_table(self, X)
        m, d = X.shape
        for name in self.fitted_state.optional - {"feature_names_in_"}:
            self.__dict__.pop(name, None)
        refuse_options(X, self.kernel, self.low_rank, self.fit_inverse_transform)
        self.gamma_ = 1.0 / d if self.gamma is None else self.gamma
        k = m if self.n_components is None else min(m, int(self.n_components))
        with reporting(self.verbose):
            self._keep(self._find_axes(X, self._make_function(self.gamma_), k), X)
            if self.fit_inverse_transform:
                self._learn_preimage(X)
        return self

    def _make_function(self, gamma: float) -> KernelFunction:
        return KernelFunction(self.kernel, gamma, self.degree, self.coef0, self.kernel_params)

    def _find_axes(self, X: Any, function: KernelFunction, k: int) -> FoundAxes:
        if self.kernel == "precomputed":
            B: DoublyCentred = HeldKernel(given_kernel(X, k, self.n_jobs), self.n_jobs)
            lam, V = largest_eigenpairs(B, k, self.tol, self.max_iter)
            return FoundAxes(RowAxes(lam, V, None, None, B.row_means), B.trace, "held")
        if not callable(self.kernel) and self.kernel != "cosine":
            refuse_overflowing(X, getattr(self, "feature_names_in_", None))
        if self.kernel == "linear" and isinstance(self.low_rank, str):
            return linear_route(X, min(X.shape) if self.n_components is None else k)
        function.measure_from_mean(X)
        route = choose_route(X, k, self.low_rank, self.copy_X)
        if route == "low rank":
            found = low_rank_route(X, function, k, self.low_rank, self.random_state, self.n_jobs)
        else:
            held, exact = route == "held", self.low_rank == "never"
            B = kernel_operator(X, function, k, held=held, exact=exact, n_jobs=self.n_jobs)
            lam, V = largest_eigenpairs(B, k, self.tol, self.max_iter)
            rows = X.copy() if self.copy_X else X
            found = FoundAxes(RowAxes(lam, V, function, rows, B.row_means), B.trace, route)
        if not found.axes.lam.any():
            warn_of_no_variation(X)
        return found

    def _keep(self, found: FoundAxes, X: Any) -> None:
        """scikit-learn's attributes, and ours."""
        lam, total = found.axes.lam, found.trace if found.trace > 0 else 1.0
        kept = (lam > 0) | (not self.remove_zero_eig and self.n_components is not None)
        axes = found.axes.oriented(kept, X.dtype)
        self.explained_variance_ = (lam[kept] / max(X.shape[0] - 1, 1)).astype(X.dtype)
        self.explained_variance_ratio_ = (lam[kept] / total).astype(X.dtype)
        self.route_, self.approximation_ = found.route, found.approximation
        if self.kernel != "precomputed" and not (
            isinstance(axes, LinearAxes) and isinstance(X, DaskRows)
        ):
            self.X_fit_ = X if isinstance(axes, LinearAxes) else axes.X
        if isinstance(axes, PivotAxes):
            self.rank_, self.eigenvalue_error_ = len(axes.pivots), found.left
            self.trace_left_ = found.left / total
        self.set_axes(axes)

    def _learn_preimage(self, X: Any) -> None:
        gamma = self.gamma_ if self.inverse_gamma is None else self.inverse_gamma
        function, Z = self._make_function(gamma), self._embedding()
        if isinstance(self._axes, PivotAxes):
            learned = learn_from_some(function, Z, X, self.alpha, self._axes.pivots)
        else:
            learned = learn_from_all(function, Z, X, self.alpha, self.n_jobs)
        self.dual_coef_, self.X_transformed_fit_ = learned.coefficients, learned.centres
        self._preimage = learned

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Floats:
        """Fit, and return the fitted rows in the new space."""
        self.fit(X, **params)
        return self._embedding()

    def _embedding(self) -> Floats:
        return np.asarray(self.eigenvectors_ * np.sqrt(self.eigenvalues_))

    def transform(self, X: Any) -> Floats:
        """Rows in the new space: features, or with kernel="precomputed" their kernel values."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False, accept_sparse=True)
        return self._axes.place(X, self.n_jobs)

    def inverse_transform(self, X: Any) -> Floats:
        """Back to the original space: rows whose embedding would be close to X."""
        if not self.fit_inverse_transform:
            raise NotFittedError(
                "The fit_inverse_transform parameter was not set to True when instantiating and "
                "hence the inverse transform is not available."
            )
        check_is_fitted(self, "dual_coef_")
        return self._preimage.reconstruct(check_coordinates(X, self._n_features_out))

    @property
    def _n_features_out(self) -> int:
        return int(self.eigenvalues_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
