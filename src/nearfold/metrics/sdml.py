"""Sparse distance metric learning (Qi, Tang, Zha, Chua and Zhang 2009).

A metric near to a prior M0, small on must-link and large on cannot-link pairs, with few entries
beside the diagonal:

    min  tr(M S) - logdet M + alpha sum_{i != j} |M_ij|,    S = M0^-1 + balance K
    K = sum_p y_p v_p v_p^T,   y_p = +1 (must-link) or -1 (cannot-link)

This is the graphical lasso. Its dual, max logdet U + d over U with U_ii = S_ii and
|U_ij - S_ij| <= alpha, bounds the optimum from below: clip M^-1 into the box, and if the result is
positive definite the difference of the two values is the duality gap.

Steps: S; if S is not positive definite the problem may have no minimum, and the balance is lowered
(see below); the columns are scaled so that S has a unit diagonal and alpha becomes one number per
entry; then, in turn, proximal gradient steps with Barzilai-Borwein lengths, which find the zeros
and signs of M, and a Newton step on the entries that are or should be nonzero, by conjugate
gradients preconditioned with M (.) M; until the gap is at most tol d.

The rule of the balance: with -mu the lowest eigenvalue of K relative to M0^-1, S is positive
definite below balance = 1 / mu. A balance that is not below is replaced by 0.9 / mu, with a warning
that says the number; `balance_` has it. Cannot-link pairs are long, and K is a sum over the pairs,
so that this is the usual case unless the balance is small.

Cost: O(n d^2) for S and O(d^3) per step; memory O(n d + d^2).

Departures from metric-learn: the rule above, where metric-learn shifts the eigenvalues of the
starting point and raises an error if scikit-learn's solver then fails, as it does on iris, wine and
digits with the default parameters; one column is allowed; `tol` and `max_iter` are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigvalsh, solve_triangular
from scipy.linalg.lapack import dpotri

from nearfold.errors import SolverError, warn
from nearfold.inputs import refuse_extreme
from nearfold.metrics.labels import SupervisedMixin, keep_parameters
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.pairs import PairsMixin, pairs_from_labels
from nearfold.metrics.parameters import (
    CLASSES,
    COUNT,
    DRAWN,
    FROM_PAIRS,
    NON_NEGATIVE,
    POSITIVE,
    PRIOR,
    RECORDED,
)
from nearfold.metrics.prior import initial_metric
from nearfold.metrics.tuples import Tuples, require_tuple_memory
from nearfold.notation import Array, Floats, Ints
from nearfold.optim import OptimizationResult, warn_unless_converged
from nearfold.run import one_blas_thread, random_state, reporter
from nearfold.state import number

_SAFE = 0.9  # share of the largest balance that is taken if the one asked for is too large
_CG_STEPS = 30
_FIRST_NEWTON = 3  # rounds of gradient steps that come before, to find the zeros


def workable_balance(K: Floats, prior: Floats, balance: float) -> tuple[Floats, float]:
    """S, and the balance in it: as asked if S is positive definite, else 0.9 of the limit."""
    C = cholesky(prior, lower=True)  # M0^-1 + b K = C^-T (I + b C^T K C) C^-1
    mu = -float(eigvalsh(C.T @ K @ C)[0])
    if balance * mu > 1 - 1e-10:
        balance = _SAFE / mu
    half = solve_triangular(C, np.eye(len(C)), lower=True)
    return half.T @ half + balance * K, balance


@dataclass(frozen=True)
class Point:
    """M, its inverse W, logdet M, and the smooth and the whole objective."""

    M: Floats
    W: Floats
    logdet: float
    smooth: float
    value: float


def evaluate(M: Floats, S: Floats, alpha: Floats) -> Point | None:
    """The objective at M; None where M is not positive definite."""
    try:
        R = cholesky(M, lower=True)
    except LinAlgError:
        return None
    lower = np.tril(dpotri(R, lower=1)[0])
    W = lower + np.tril(lower, -1).T
    logdet = 2 * float(np.log(np.diagonal(R)).sum())
    smooth = float(np.sum(M * S)) - logdet
    return Point(M, W, logdet, smooth, smooth + float(np.sum(alpha * np.abs(M))))


def duality_gap(at: Point, S: Floats, alpha: Floats) -> float:
    """How far the objective is above its minimum, at most; inf if W gives no bound yet."""
    try:
        R = cholesky(np.clip(at.W, S - alpha, S + alpha), lower=True)
    except LinAlgError:
        return np.inf
    return at.value - 2 * float(np.log(np.diagonal(R)).sum()) - len(S)


def gradient_step(at: Point, S: Floats, alpha: Floats, length: float) -> tuple[Point, float]:
    """A proximal gradient step, shortened until it lowers the objective; the next length."""
    G = S - at.W
    slack = 1e-13 * (abs(at.smooth) + 1)
    while length > 1e-30:
        N = at.M - length * G
        N = np.sign(N) * np.maximum(np.abs(N) - length * alpha, 0)
        step, new = N - at.M, evaluate(N, S, alpha)
        square = float(np.sum(step * step))
        if new and new.smooth <= at.smooth + np.sum(G * step) + square / (2 * length) + slack:
            bend = float(np.sum(step * (at.W - new.W)))
            return new, (square / bend if bend > 0 else length)
        length /= 2
    return at, length


def newton_step(at: Point, S: Floats, alpha: Floats) -> Point:
    """A Newton step among the matrices with the signs of M, where zeros may take a sign."""
    M, W, G = at.M, at.W, S - at.W
    free = (M != 0) | (np.abs(G) > alpha)
    sign = np.where(M != 0, np.sign(M), -np.sign(G))
    gradient = np.where(free, G + alpha * sign, 0)
    step = _solve_newton(M, W, free, gradient)
    slope, length = float(np.sum(gradient * step)), 1.0
    for _ in range(12):
        N = at.M + length * step
        N = np.where((alpha > 0) & (N * sign < 0), 0, N)
        new = evaluate(N, S, alpha)
        if new and new.value <= at.value + 1e-4 * length * slope:
            return new
        length /= 2
    return at


def _solve_newton(M: Floats, W: Floats, free: Array, gradient: Floats) -> Floats:
    """D on the free entries with (W D W) = -gradient there, by preconditioned conjugate gradients.

    Without fixed entries the preconditioner is the inverse.
    """
    D, residual = np.zeros_like(M), -gradient
    z = np.where(free, M @ residual @ M, 0)
    direction, size = z, float(np.sum(residual * z))
    goal = 1e-4 * size
    for _ in range(_CG_STEPS):
        if size <= goal:
            break
        bent = np.where(free, W @ direction @ W, 0)
        length = size / float(np.sum(direction * bent))
        D = D + length * direction
        residual = residual - length * bent
        z = np.where(free, M @ residual @ M, 0)
        before, size = size, float(np.sum(residual * z))
        direction = z + size / before * direction
    return (D + D.T) / 2  # products are symmetric only up to rounding


def start_at(S: Floats, alpha: Floats) -> Point:
    """The better of the answers for alpha = inf and for alpha = 0; S has a unit diagonal."""
    sparse, full = evaluate(np.eye(len(S)), S, alpha), evaluate(S, S, alpha)
    dense = evaluate(full.W, S, alpha) if full else None
    found = min((at for at in (sparse, dense) if at), key=lambda at: at.value, default=None)
    if found is None or not np.isfinite(found.value):
        raise SolverError("the matrix S of SDML is not finite or not positive definite.")
    return found


def graphical_lasso(S: Floats, alpha: float, tol: float, max_iter: int) -> OptimizationResult:
    """The M that minimises tr(M S) - logdet M + alpha |M|_off, to a duality gap of tol d."""
    report, d = reporter(), len(S)
    scale = np.sqrt(np.diagonal(S))
    S = S / np.outer(scale, scale)  # the gap does not change with the scale
    weights = alpha / np.outer(scale, scale)
    np.fill_diagonal(weights, 0)
    at, history = start_at(S, weights), list[float]()
    length = 1 / float(eigvalsh(at.W)[-1]) ** 2
    gap = duality_gap(at, S, weights)
    while not gap <= tol * d and len(history) < max_iter:
        before = at
        for _ in range(2):
            at, length = gradient_step(at, S, weights, length)
        if len(history) >= _FIRST_NEWTON:
            at = newton_step(at, S, weights)
        history.append(at.value + 2 * float(np.log(scale).sum()))
        report("SDML", len(history), max_iter)
        gap = duality_gap(at, S, weights)
        if at is before:
            break
    return OptimizationResult(
        at.M / np.outer(scale, scale),
        at.value + 2 * float(np.log(scale).sum()),
        bool(gap <= tol * d),
        f"the duality gap is {gap:.2g}",
        len(history),
        history,
    )


def learn_metric(
    V: Floats, sign: Ints, prior: Floats, balance: float, alpha: float, tol: float, max_iter: int
) -> tuple[OptimizationResult, float]:
    """M from the differences of the pairs, and the balance that was used."""
    with one_blas_thread():
        S, workable = workable_balance((V.T * sign) @ V, prior, balance)
        ended = graphical_lasso(S, alpha, tol, max_iter)
    if workable != balance:
        warn(
            f"with balance_param={balance:g} the problem of SDML has no minimum, because the "
            f"cannot-link pairs outweigh the prior; balance_param={workable:.3g} was used, "
            f"{_SAFE:g} of the limit."
        )
    return ended, workable


_SHARED: dict[str, Any] = {
    **DRAWN,
    "balance_param": NON_NEGATIVE,
    "sparsity_param": NON_NEGATIVE,
    "prior": PRIOR,
    "max_iter": COUNT,
    "tol": POSITIVE,
}
_STATE = MahalanobisMetric.fitted_state.extended(
    _optional=("classes_",), balance_=number(0), **RECORDED, **CLASSES
)


class SDML(PairsMixin, MahalanobisMetric):
    """Sparse distance metric learning, from must-link and cannot-link pairs.

    Parameters
    ----------
    balance_param : float, default=0.5
        How much the pairs count against the prior; too large a value is lowered, with a warning.
    sparsity_param : float, default=0.01
        The price of entries of M beside the diagonal.
    prior : {"identity", "covariance", "random"} or array-like, default="identity"
        The metric to stay near to; "covariance" is the inverse covariance of the points. It must
        be positive definite.
    verbose : bool, default=False
        Show progress.
    preprocessor : array-like or callable, default=None
        Table (or function) in which ids given instead of rows are looked up.
    random_state : int, RandomState instance or None, default=None
        Source of the pairs drawn from labels, and of prior="random".
    n_constraints : int, default=None
        Pairs of each kind drawn when fitted on labels; None: 20 times the classes squared.
    rank : int or float in (0, 1], default=None
        Rank to which M is cut, or the share of its trace to keep.
    max_iter : int, default=1000
        Most steps of the graphical lasso.
    tol : float, default=1e-6
        The duality gap per column at which to stop.

    Attributes
    ----------
    balance_ : float
        The balance that was used.
    objective_ : float
        The objective at the solution.
    history_ : list of float
        The objective after each step.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether `tol` was reached.
    threshold_ : float
        The distance up to which `predict` says must-link.
    learned_from_labels_ : bool
        Whether pairs were drawn from labels; then there is no `predict`.
    classes_ : ndarray of shape (n_classes,)
        The labels, if learned from labels.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold.metrics.sdml import SDML
    >>> X = np.array([[0.0, 0.0], [0.5, 6.0], [4.0, 1.0], [4.5, 7.0]])
    >>> learner = SDML(balance_param=0.02, sparsity_param=1.0)
    >>> learner = learner.fit(X, must_link=[[0, 1], [2, 3]], cannot_link=[[0, 2], [1, 3]])
    >>> learner.get_mahalanobis_matrix().round(2)  # the first column tells them apart
    array([[2.7 , 0.  ],
           [0.  , 0.42]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = _SHARED
    fitted_state = _STATE.extended(_optional=("threshold_",), **FROM_PAIRS)

    def __init__(
        self,
        balance_param: float = 0.5,
        sparsity_param: float = 0.01,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        n_constraints: int | None = None,
        rank: int | float | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
    ) -> None:
        keep_parameters(self, locals())

    def learn(self: Any, pairs: Tuples) -> None:
        """Find the sparse metric for these pairs."""
        require_tuple_memory("SDML", pairs, 3)
        refuse_extreme(float(np.ptp(pairs.X, axis=0).max()), np.float64)
        prior = initial_metric(pairs.X, self.prior, random_state(self.random_state))
        ended, self.balance_ = learn_metric(
            pairs.differences(),
            pairs.sign,
            prior,
            float(self.balance_param),
            float(self.sparsity_param),
            self.tol,
            self.max_iter,
        )
        self.n_iter_ = max(ended.n_iter, 1)  # a look at the start is one
        self.converged_ = ended.converged
        self.objective_, self.history_ = ended.value, ended.history
        self._set_metric(ended.x, pairs.X.dtype, self.rank)
        warn_unless_converged(ended, type(self).__name__, "Raise max_iter, tol or sparsity_param.")


class SDML_Supervised(SupervisedMixin, MahalanobisMetric):
    """SDML from class labels: `n_constraints` must-link and cannot-link pairs are drawn.

    Parameters and attributes are those of `SDML`, the parameters in metric-learn's order; without
    `threshold_`, because it judges no pairs.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold.metrics.sdml import SDML_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = SDML_Supervised(balance_param=1e-4, random_state=0).fit(X, y)
    >>> learner.transform(X).shape
    (150, 4)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = _SHARED
    fitted_state = _STATE
    draw, learn = pairs_from_labels, SDML.learn

    def __init__(
        self,
        balance_param: float = 0.5,
        sparsity_param: float = 0.01,
        prior: Any = "identity",
        n_constraints: int | None = None,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        rank: int | float | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
    ) -> None:
        keep_parameters(self, locals())
