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
Weights count rows: weight 2 is the row twice. Beyond the rank of the data axes are arbitrary:
those asked for in excess of it are an orthonormal completion with variance 0, and an explicit d'
that asks for them warns.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from nearfold.blocks import Rows
from nearfold.errors import warn
from nearfold.inputs import open_rows, refuse_bad_sums
from nearfold.linalg import Principal
from nearfold.linalg.principal import ROUTES, solve
from nearfold.methods.principal_components import PRINCIPAL_STATE, PrincipalComponents
from nearfold.run import reporting
from nearfold.state import number, optional, text


def principal_axes(
    rows: Rows, n_components: Any = None, solver: str = "auto", **options: Any
) -> tuple[Principal, int]:
    """The axes of the rows, largest variance first, and how many of them to keep.

    Parameters
    ----------
    rows : Rows
        The samples, with their weights if they have any.
    n_components : int, float, "mle" or None
        d', a share of the variance, Minka's estimate, or all axes.
    solver : str
        As `PCA.svd_solver`; `options` are the solver's own.

    Returns
    -------
    found : Principal
        Mean, eigenvalues and axes.
    k : int
        d'.
    """
    found = solve(rows, n_components, solver, **options)  # mu, and the eigenpairs of S
    refuse_bad_sums(rows, found.total)
    k = found.kept(n_components, rows.dtype)  # (10.18)
    return found, k


class PCA(PrincipalComponents):
    """Principal component analysis, exact unless `svd_solver="randomized"` is asked for.

    Parameters
    ----------
    n_components : int, float, "mle" or None, default=None
        Number of axes: a count, a share of the variance (0 < t < 1), Minka's estimate, or
        min(n_samples, n_features) axes (one less with "arpack"), on every route, sparse and
        streamed input included. Axes beyond the rank of the data are an orthonormal completion
        with variance 0.
    copy : bool, default=True
        Accepted for compatibility; has no effect, because X is never overwritten.
    whiten : bool, default=False
        Divide the projections by the standard deviations along the axes.
    svd_solver : {"auto", "full", "covariance_eigh", "arpack", "randomized"}, default="auto"
        "auto" takes the cheapest exact and accurate route; the others force one.
    tol : float, default=0.0
        Tolerance of svd_solver="arpack"; the others are direct.
    iterated_power : int or "auto", default="auto"
        Power iterations of svd_solver="randomized".
    n_oversamples : int, default=10
        Extra axes of svd_solver="randomized".
    power_iteration_normalizer : {"auto", "QR", "LU", "none"}, default="auto"
        Accepted for compatibility; power iterations are always normalised by QR, the most
        accurate of them.
    random_state : int, RandomState or None, default=None
        Seed of svd_solver="randomized".
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        The axes, largest variance first; the entry of largest magnitude of each is positive.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components_,)
        Variance along each axis, and its share of the whole variance.
    singular_values_ : ndarray of shape (n_components_,)
        Square roots of the eigenvalues of the scatter.
    mean_ : ndarray of shape (n_features_in_,)
        Mean of the samples.
    noise_variance_ : float
        Mean variance along the directions left out.
    n_components_, n_samples_, n_features_in_ : int
        Sizes of the fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they have names.
    route_ : str
        How the axes were found (linalg/principal.py).
    approximation_ : str or None
        What was approximated.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import PCA
    >>> X = np.array([[-1.0, -1.0], [-2.0, -1.0], [-3.0, -2.0], [1.0, 1.0], [2.0, 1.0], [3.0, 2.0]])
    >>> PCA(n_components=2).fit(X).explained_variance_ratio_.round(4)
    array([0.9924, 0.0076])
    """

    fitted_state = PRINCIPAL_STATE.extended(
        n_samples_=number(1, whole=True), route_=text(*ROUTES), approximation_=optional(text())
    )

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [
            Interval(Integral, 0, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
            StrOptions({"mle"}),
            None,
        ],
        "copy": ["boolean"],
        "whiten": ["boolean"],
        "svd_solver": [StrOptions({"auto", "full", "covariance_eigh", "arpack", "randomized"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "iterated_power": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "n_oversamples": [Interval(Integral, 1, None, closed="left")],
        "power_iteration_normalizer": [StrOptions({"auto", "QR", "LU", "none"})],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> PCA:
        """Find the axes of X.

        Parameters
        ----------
        X : array, sparse matrix, frame, or a path, `Rows` or LazyFrame to be read in blocks
            The samples.
        y : None
            Ignored.
        sample_weight : array of shape (n_samples,) or None
            How often each row counts.
        """
        if self.svd_solver == "randomized" and self.power_iteration_normalizer in ("LU", "none"):
            warn("power iterations are normalised by QR, whatever power_iteration_normalizer is.")
        rows = open_rows(self, X, sample_weight, accept_sparse=True)
        with reporting(self.verbose):
            found, k = principal_axes(
                rows,
                self.n_components,
                self.svd_solver,
                tol=self.tol,
                iterated_power=self.iterated_power,
                n_oversamples=self.n_oversamples,
                seed=self.random_state,
            )
        self.n_samples_ = found.n_rows
        self.route_ = found.route
        self.approximation_ = found.approximation
        self._keep(found, k, rows.dtype)
        return self
