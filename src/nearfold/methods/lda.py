"""Linear discriminant analysis: the axes on which classes lie apart and are compact.

Symbols: C classes with priors pi_c, means mu_c, overall mean mu = sum pi_c mu_c,
    S_w   within-class covariance (of the samples about their class means)
    S_b   between-class covariance, sum pi_c (mu_c - mu)(mu_c - mu)^T, of rank at most C - 1

Maximise w^T S_b w / w^T S_w w: the generalised eigenproblem S_b w = lam S_w w.

Steps
  1. S_w from the moments of the classes, one product over the rows (class_covariance.py)
  2. whiten it: A with A^T S_w A = I. Columns are first scaled to unit variance, so that a nearly
     constant feature neither dominates nor explodes; directions in which S_w vanishes are dropped
  3. the principal axes V of the class means in the whitened space: axes W = A V, at most C - 1
  4. classify by the nearest class mean in the space of W, with log pi_c added

Solvers. `svd` pools the classes as they are; `eigen` and `lsqr` weigh their covariances by the
priors and can shrink them. All three share the steps above, agree on scale, and transform.

Accuracy. Step 1 squares the condition number. Float32 products leave directions of small
variance in doubt; those few are measured again in float64. Float64 resolves variances down to
tol^2 for any tol above about 1e-6; for a smaller one the rows are factored instead (TSQR).
Scores are computed about mu in float64 (linear_scores.py).

Cost: O(m d^2) time, O(d^2) memory, one pass (two where directions are in doubt).

Departures: S_b is formed from the means. scikit-learn's `eigen` takes S_t - S_w, which is not S_b
once shrinkage or priors enter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import is_streamed
from nearfold.errors import InputError
from nearfold.linalg import (
    BatchBuffer,
    Moments,
    axis_signs,
    class_moments,
    combine_moments,
    require_scatter_memory,
    thin_svd,
)
from nearfold.linalg.within import Within, diagonalise
from nearfold.methods.class_covariance import CovarianceChoice, within_classes
from nearfold.methods.labelled_rows import class_priors, open_batch, open_labelled
from nearfold.methods.lazy_results import LazyResults
from nearfold.methods.linear_scores import LinearScores, LinearScoresMixin, nearest_mean_scores
from nearfold.methods.principal_components import project_rows
from nearfold.methods.reduction import COLUMNS, Reduction
from nearfold.notation import Array, Floats, Ints
from nearfold.run import one_blas_thread, reporting
from nearfold.state import Sizes, array, flag, labels, nested, optional, require, text

_RESULTS = {
    "priors_": array("c", least=0, most=1),
    "means_": array("c d"),
    "xbar_": array("d"),
    "covariance_": array("d d", symmetric=True),
    "explained_variance_ratio_": array("*", least=0),
    "scalings_": array("d r"),
    "coef_": array("b d"),
    "intercept_": array("b", finite=False, most=1e300),
    "scores_": nested(LinearScores, d="d", c="b"),
}


@dataclass(frozen=True)
class Discriminants:
    """Axes W (d, r), their strengths lam (C,), and the linear scores of the classes."""

    W: Floats
    lam: Floats
    scores: LinearScores


def discriminate(
    mu_c: Floats, pi: Floats, within: Within, solver: str, tol: float, dtype: Any
) -> Discriminants:
    """Steps 2 to 4: from class means, priors and S_w to axes and scores."""
    floor = tol if solver == "svd" else max(1e-7, 100 * float(np.finfo(dtype).eps))
    A = within.whitening(floor**2)  # A^T S_w A = I
    if A.shape[1] == 0:
        raise InputError(
            "no column varies within the classes, so there is no scale on which to compare "
            "them: LDA needs some spread inside at least one class."
        )
    mu = pi @ mu_c
    W, lam = separate(mu_c - mu, pi, A, tol)
    if solver == "svd":
        return Discriminants(W, lam, nearest_mean_scores(mu_c - mu, mu, pi, W))
    scores = nearest_mean_scores(mu_c - mu, mu, pi, A)
    if len(pi) > 2:  # scikit-learn's scores of these solvers contain the distance to the origin
        scores = replace(scores, shared=A @ (A.T @ mu))
    return Discriminants(W, lam, scores)


def separate(offset: Floats, pi: Floats, A: Floats, tol: float) -> tuple[Floats, Floats]:
    """The axes W (d, at most C - 1) along which the class means differ, and their strengths.

    In the space of A, S_w is the identity and S_b the scatter of the rows below.
    """
    _, s, V = thin_svd((offset * np.sqrt(pi)[:, None]) @ A, "the class means")
    rank = min(int(np.sum(s > tol * s[0])) if len(s) else 0, len(pi) - 1)
    W = A @ V[:rank].T  # S_b W = S_w W diag(s^2)
    return W * axis_signs(W.T), s**2


_LARGEST_SCORE = 1e280


def _check_asked(values: dict[str, Any], sizes: Sizes) -> None:
    """Parameters that moments alone can honour."""
    by_rows = values.get("shrinkage") == "auto" or values.get("covariance_estimator") is not None
    require(not by_rows, "shrinkage: moments are not enough for it")
    require(values.get("tol", 0.0) < 1e100, "tol: its square overflows")
    if values.get("priors") is not None:
        array("c", "number", least=0)(np.asarray(values["priors"]), sizes)


def _check_results(values: dict[str, Any], sizes: Sizes) -> None:
    """Results are there, or the moments from which they can be computed."""
    needed = set(_RESULTS) - {"covariance_"}
    stale, c = bool(values["_stale"]), sizes["c"]
    require(c >= (1 if stale else 2), "classes_: fewer than two")
    require(set(values) & needed == (set() if stale else needed), "results that are not whole")
    if stale:
        moments: Any = values.get("_moments")
        require(moments is not None and moments.n_rows >= 1, "no rows to go on from")
        _check_asked(values, sizes)
        # Scores are of the size of mean^2 / variance, and must not overflow.
        variance, size = moments.total / moments.n_rows, float(np.abs(moments.mean).max(initial=0))
        fits = variance == 0 or (1 + size) ** 2 < _LARGEST_SCORE * variance
        fits &= size**2 <= float(np.finfo(values["_dtype"]).max)
        require(fits, "means and a scatter whose scores overflow")
    else:
        require(sizes["b"] == (1 if c == 2 else c), "scores of other classes")
        finite = np.isfinite(values["scores_"].offset).all()
        require(finite or values["priors_"].min() == 0, "scores_: infinite for a class with rows")


class LinearDiscriminantAnalysis(LazyResults, LinearScoresMixin, ClassifierMixin, Reduction):
    """Reduce to at most C - 1 axes, and classify.

    Parameters
    ----------
    solver : {"svd", "lsqr", "eigen"}, default="svd"
        How classes are pooled: as they are, or weighted by the priors. All solvers transform.
    shrinkage : "auto", float in [0, 1] or None, default=None
        Shrink the covariance towards a multiple of the identity ("lsqr" and "eigen").
    priors : array of shape (n_classes,) or None, default=None
        Class priors; None takes the frequencies.
    n_components : int or None, default=None
        Number of axes; None means min(n_classes - 1, n_features).
    store_covariance : bool, default=False
        Keep `covariance_` with solver="svd" too.
    tol : float, default=1e-4
        Directions whose standard deviation within classes is below this share of that of their
        columns are dropped (solver="svd"), as are axes along which means differ less.
    covariance_estimator : object with `fit` and `covariance_`, or None, default=None
        Estimates the covariance of each class ("lsqr" and "eigen").
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    priors_, means_, xbar_ : ndarray
        Class priors, class means, and their overall mean.
    covariance_ : ndarray of shape (n_features_in_, n_features_in_)
        Covariance within classes, where it is stored.
    scalings_ : ndarray of shape (n_features_in_, rank)
        The axes.
    explained_variance_ratio_ : ndarray
        Share of the variance between classes along each axis.
    coef_, intercept_ : ndarray
        The linear scores as scikit-learn reports them.
    scores_ : LinearScores
        The same about the overall mean and in float64: what predictions are made with.
    n_features_in_, feature_names_in_
        Width and column names of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import LinearDiscriminantAnalysis
    >>> X = np.array([[-1, -1], [-2, -1], [-3, -2], [1, 1], [2, 1], [3, 2]])
    >>> model = LinearDiscriminantAnalysis().fit(X, [1, 1, 1, 2, 2, 2])
    >>> model.predict([[-0.8, -1]])
    array([1])
    """

    lazy_results = tuple(_RESULTS)
    fitted_state = COLUMNS.extended(
        _check_results,
        (*_RESULTS, "_moments"),
        classes_=labels("c"),
        **_RESULTS,
        _dtype=text("float32", "float64"),
        _stale=flag(),
        _moments=optional(nested(Moments, d="d", g="c")),
    )

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "solver": [StrOptions({"svd", "lsqr", "eigen"})],
        "shrinkage": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="both"), None],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "priors": ["array-like", None],
        "store_covariance": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left")],
        "covariance_estimator": [HasMethods("fit"), None],
        "verbose": ["verbose"],
    }

    # Waiting rows and their classes, and the moments of those absorbed.
    _buffer: BatchBuffer | None = None
    _moments: Moments | None = None

    def __init__(
        self,
        solver: str = "svd",
        shrinkage: Any = None,
        priors: Any = None,
        n_components: int | None = None,
        store_covariance: bool = False,
        tol: float = 1e-4,
        covariance_estimator: Any = None,
        *,
        verbose: bool = False,
    ) -> None:
        self.solver = solver
        self.shrinkage = shrinkage
        self.priors = priors
        self.n_components = n_components
        self.store_covariance = store_covariance
        self.tol = tol
        self.covariance_estimator = covariance_estimator
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any) -> LinearDiscriminantAnalysis:
        """Find the axes and the classifier.

        Parameters
        ----------
        X : array, frame, or a path, `Rows` or LazyFrame to be read in blocks
            The samples.
        y : array of shape (n_samples,), or the name of the label column of a streamed table
            The classes.
        """
        choice = self._choice()
        if is_streamed(X):
            choice.require_pooled("a file")
        self._moments = self._buffer = None
        with reporting(self.verbose):
            rows, self.classes_, counts = open_labelled(self, X, y)
            pi = class_priors(self.priors, counts)
            self._check_size()
            mu_c, S_w, within = within_classes(rows, self.classes_, counts, pi, choice, self.tol)
        self._dtype = rows.dtype.name
        self._keep(mu_c, pi, S_w, within)
        self._stale = False
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> LinearDiscriminantAnalysis:
        """Take one more batch. Give all `classes` with the first, or let them appear in it.

        The result is that of `fit` on all rows so far; it is computed when first read.
        """
        self._choice().require_pooled("partial_fit")
        first = self._moments is None and self._buffer is None
        known = None if first else self.classes_
        X, label, self.classes_ = open_batch(self, X, y, known, classes)
        if first:
            self._dtype = X.dtype.name
            self._check_size()
        self._take(X, label)
        self._outdate()
        return self

    def _take(self, X: Array, label: Ints) -> None:
        """A batch into the buffer, or into the moments if it is larger."""
        if self._buffer is None or self._buffer.X.dtype != X.dtype:
            self._absorb()
            self._buffer = BatchBuffer(X.shape[1], X.dtype, label.dtype)
        if not self._buffer.fits(len(X)):
            self._absorb()
        if self._buffer.fits(len(X)):
            self._buffer.add(X, label)
        else:
            self._add(X, label)

    def _absorb(self) -> None:
        """The waiting rows into the moments."""
        if self._buffer is not None and self._buffer.count > 0:
            self._add(*self._buffer.rows())
            self._buffer.count = 0  # nothing is lost by an interruption: the rows still wait

    def _add(self, X: Array, label: Ints) -> None:
        before, fresh = self._moments, class_moments(X, label, len(self.classes_))
        with one_blas_thread():
            self._moments = fresh if before is None else combine_moments(before, fresh)

    def __getstate__(self) -> dict[str, Any]:
        """A copied or stored model holds moments, not waiting rows."""
        self._absorb()
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_buffer", None)
        return state

    def _finish(self) -> None:
        """Axes and classifier from the moments of the batches."""
        self._absorb()
        assert self._moments is not None
        moments = self._moments
        if int((moments.count > 0).sum()) < 2:
            raise InputError("the batches so far hold one class only: LDA needs two.")
        pi = class_priors(self.priors, moments.count)
        S_w = self._choice().pooled(moments)
        self._keep(moments.mean, pi, S_w, diagonalise(S_w))

    def _choice(self) -> CovarianceChoice:
        return CovarianceChoice(self.solver, self.shrinkage, self.priors, self.covariance_estimator)

    def _keep(self, mu_c: Floats, pi: Floats, S_w: Floats, within: Within) -> None:
        """scikit-learn's attributes."""
        dtype = np.dtype(self._dtype)
        found = discriminate(mu_c, pi, within, self.solver, self.tol, dtype)
        self.priors_ = pi
        self.means_ = mu_c.astype(dtype)
        self.xbar_ = (pi @ mu_c).astype(dtype)
        self.__dict__.pop("covariance_", None)
        if self.store_covariance or self.solver != "svd":
            self.covariance_ = S_w.astype(dtype)
        total = found.lam.sum() if found.lam.sum() > 0 else 1.0
        self.explained_variance_ratio_ = (found.lam / total)[: self._most].astype(dtype)
        self.scalings_ = found.W.astype(dtype)
        shared = found.scores.shared
        self.coef_ = (found.scores.coef + (0.0 if shared is None else shared)).astype(dtype)
        self.intercept_ = found.scores.intercept.astype(dtype)
        self.scores_ = found.scores

    def _check_size(self) -> None:
        """Refuse what cannot be had from so many classes and columns."""
        most = min(len(self.classes_) - 1, self.n_features_in_)
        if self.n_components is not None and self.n_components > most > 0:
            raise InputError("n_components cannot be larger than min(n_features, n_classes - 1).")
        require_scatter_memory(self.n_features_in_)

    @property
    def _most(self) -> int:
        """Axes asked for."""
        most = min(len(self.classes_) - 1, self.n_features_in_)
        return most if self.n_components is None else min(int(self.n_components), most)

    def _prepare(self) -> None:
        check_is_fitted(self)
        self._settle()

    @property
    def _n_features_out(self) -> int:
        return min(self._most, self.scalings_.shape[1])

    def transform(self, X: Any) -> Any:
        """Project onto the axes; within classes the result has unit variance.

        A path, `Rows` or LazyFrame gives `Rows` back, whose blocks are projected as they are
        iterated; `to_array()` holds all of them.
        """
        self._prepare()
        W = self.scalings_[:, : self._most].astype(np.float64)
        # As in scikit-learn, only `svd` centres.
        mu = self.scores_.centre if self.solver == "svd" else np.zeros(len(W))
        return project_rows(self, X, mu, W, same_dtype=True)
