"""Information-theoretic metric learning (Davis, Kulis, Jain, Sra and Dhillon 2007).

Of all metrics that keep must-link pairs within u and cannot-link pairs at least l apart, the one
nearest to a prior A0 in the LogDet divergence; slack, priced by gamma, makes it always solvable:

    min   D(A, A0) + gamma sum_c (xi_c / b_c - log(xi_c / b_c) - 1)
    s.t.  v_c^T A v_c <= xi_c  (must-link, b_c = u^2),   >= xi_c  (cannot-link, b_c = l^2)

    D(A, A0) = tr(A A0^-1) - logdet(A A0^-1) - d

Symbols: v_c the difference of pair c; delta_c = +1 for must-link, -1 for cannot-link; lam_c >= 0
its multiplier. At the optimum

    A^-1 = A0^-1 + sum_c delta_c lam_c v_c v_c^T,   1 / xi_c = 1 / b_c - delta_c lam_c / gamma

Steps: bounds from the distances of the points. With slack, xi_c is known from A (just what it
needs), which leaves a smooth convex function of A: solved over A = C L^T L C^T, A0 = C C^T, by
near_prior.py, with its certificate. Without slack (gamma = inf): the paper's cyclic Bregman
projections, one constraint after the other, each a rank-one update of A (compiled), until all
bounds are kept and the duality gap is closed.

Cost: O(n d^2 + d^3) per step or sweep for n pairs; memory O(n d + d^2).

Departures. From the paper: with slack, quasi-Newton steps instead of projections, which need
thousands of sweeps where pairs contradict each other (digits: 1,000 sweeps do not do what 30 steps
do). From metric-learn: the bounds are distances and are squared where they meet squared distances,
while it compares percentiles of distances with squared ones; the percentiles are taken under the
prior, where the metric begins (the same thing for the identity), and of at most 1,500 points; `tol`
bounds the distance to the optimum, not the change of lam in a sweep.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.spatial.distance import pdist
from sklearn.utils._param_validation import Interval

from nearfold.errors import InputError, warn
from nearfold.inputs import refuse_extreme
from nearfold.metrics.labels import SupervisedMixin, keep_parameters
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.near_prior import minimise_near_identity
from nearfold.metrics.pairs import PairsMixin, pairs_from_labels
from nearfold.metrics.parameters import CLASSES, COUNT, DRAWN, FROM_PAIRS, POSITIVE, PRIOR, RECORDED
from nearfold.metrics.prior import initial_metric
from nearfold.metrics.tuples import Tuples, require_tuple_memory
from nearfold.notation import Array, Floats, Ints
from nearfold.optim import OptimizationResult, warn_unless_converged
from nearfold.run import one_blas_thread, random_state, reporter
from nearfold.state import array

_SAMPLE = 1500  # points whose distances give the bounds: about a million pairs
_REFRESH = 20  # sweeps after which A is computed anew, against the drift of its updates


def percentile_bounds(points: Array, prior: Floats) -> Floats:
    """(u, l): the 5th and 95th percentile of the distances of different points under the prior."""
    unique = np.unique(points, axis=0)
    if len(unique) < 2:
        raise InputError("all points are equal: there are no distances to take bounds from.")
    if len(unique) > _SAMPLE:
        kept = np.random.RandomState(0).permutation(len(unique))[:_SAMPLE]
        unique = unique[np.sort(kept)]
    centred = unique - unique.mean(axis=0, dtype=np.float64)
    distance = pdist(centred @ cholesky(prior, lower=True))
    return np.asarray(np.percentile(distance[distance > 0], (5, 95)))


def check_bounds(bounds: Any) -> Floats:
    """(u, l) as given."""
    try:
        found = np.ravel(np.asarray(bounds, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(f"bounds={bounds!r}: `bounds` are two distances.") from error
    if found.shape != (2,) or not (np.isfinite(found) & (found > 0)).all():
        raise InputError(
            "`bounds` should be an array-like of two elements, both positive: the distance within "
            f"which must-link pairs belong and the one beyond which cannot-link pairs do; "
            f"they are {bounds!r}."
        )
    return found


def slack_price(p: Floats, delta: Floats, b: Floats, gamma: float) -> tuple[float, Floats]:
    """gamma sum (xi/b - log(xi/b) - 1) with the least slack for squared distances p; multipliers.

    A must-link pair within its bound needs no slack, xi = b; one beyond needs xi = p. So it is a
    smooth convex function of p, and its derivative delta lam follows from 1/xi.
    """
    xi = np.where(delta > 0, np.maximum(p, b), np.minimum(p, b))
    ratio = xi / b
    return gamma * float(np.sum(ratio - np.log(ratio) - 1)), gamma * delta * (1 / b - 1 / xi)


def solve_with_slack(
    Y: Floats, delta: Floats, b: Floats, gamma: float, tol: float, max_iter: int
) -> tuple[OptimizationResult, Floats]:
    """L with A = L^T L nearest to the identity, and the multipliers, gamma finite."""

    def loss(L: Floats) -> tuple[float, Floats]:
        Z = Y @ L.T
        value, lam = slack_price(np.einsum("ij,ij->i", Z, Z), delta, b, gamma)
        return value, 2 * (Z.T * (delta * lam)) @ Y

    ended = minimise_near_identity(loss, np.eye(Y.shape[1]), tol, max_iter, "ITML")
    Z = Y @ ended.x.T
    return ended, slack_price(np.einsum("ij,ij->i", Z, Z), delta, b, gamma)[1]


def map_of_multipliers(Y: Floats, delta: Floats, lam: Floats) -> tuple[Floats, float]:
    """L with A = L^T L, and -logdet A, from A^-1 = I + sum delta lam y y^T."""
    R = cholesky(np.eye(Y.shape[1]) + (Y.T * (delta * lam)) @ Y, lower=True)
    L = solve_triangular(R, np.eye(len(R)), lower=True)
    return L, 2.0 * float(np.log(np.diagonal(R)).sum())


def solve_without_slack(
    Y: Floats, delta: Floats, b: Floats, tol: float, max_iter: int
) -> tuple[OptimizationResult, Floats]:
    """The same for gamma = inf, by sweeps of projections onto one constraint after the other.

    The divergence D of the A of lam, plus the sum of delta lam (p - b), bounds the optimum from
    below; D itself does so from above once no bound is violated.
    """
    from nearfold.kernels.itml import project_all

    report, history = reporter(), list[float]()
    lam, A, L = np.zeros(len(Y)), np.eye(Y.shape[1]), np.eye(Y.shape[1])
    converged, reason = False, "some bounds are still violated"
    for sweep in range(1, max_iter + 1):
        project_all(A, Y, delta, 1 / b, lam)
        report("ITML", sweep, max_iter)
        try:
            L, divergence = map_of_multipliers(Y, delta, lam)
        except LinAlgError:
            reason = "the bounds contradict each other"
            break
        Z = Y @ L.T
        p = np.einsum("ij,ij->i", Z, Z)
        divergence -= float(np.sum(delta * lam * p))  # tr(A) - d, from tr(A A^-1) = d
        gap = abs(float(np.sum(delta * lam * (p - b))))
        history.append(divergence)
        if gap <= tol * max(divergence, 1.0) and (delta * (p / b - 1) <= tol).all():
            converged, reason = True, "all bounds are kept"
            break
        if sweep % _REFRESH == 0:
            A = L.T @ L
    value = history[-1] if history else np.inf
    return OptimizationResult(L, value, converged, reason, len(history), history), lam


def learn_map(
    V: Floats, sign: Ints, prior: Floats, bounds: Floats, gamma: float, tol: float, max_iter: int
) -> tuple[OptimizationResult, Floats, Floats]:
    """How it ended, the map with A = map^T map, and the multiplier of every pair."""
    told = np.einsum("ij,ij->i", V, V) > 0  # equal points give nothing that A could act on
    if not told[sign < 0].all():
        warn(
            f"{int((~told[sign < 0]).sum())} cannot-link pairs are of equal points, which no "
            "metric tells apart: they are left out."
        )
    b = np.where(sign > 0, bounds[0] ** 2, bounds[1] ** 2)[told]
    delta, C = sign[told].astype(np.float64), cholesky(prior, lower=True)
    lam = np.zeros(len(told))
    with one_blas_thread():
        Y = np.ascontiguousarray(V[told] @ C)
        if np.isinf(gamma):
            ended, lam[told] = solve_without_slack(Y, delta, b, tol, max_iter)
        else:
            ended, lam[told] = solve_with_slack(Y, delta, b, gamma, tol, max_iter)
    return ended, ended.x @ C.T, lam


_SHARED: dict[str, Any] = {
    **DRAWN,
    "gamma": [Interval(Real, 0, None, closed="right")],  # inf: no slack
    "max_iter": COUNT,
    "tol": POSITIVE,
    "prior": PRIOR,
}
_STATE = MahalanobisMetric.fitted_state.extended(
    _optional=("classes_",),
    bounds_=array("2", least=0),
    multipliers_=array("p", least=0),
    **RECORDED,
    **CLASSES,
)


class ITML(PairsMixin, MahalanobisMetric):
    """Information-theoretic metric learning, from must-link and cannot-link pairs.

    Parameters
    ----------
    gamma : float, default=1.0
        The price of slack; inf allows none.
    max_iter : int, default=1000
        Most steps (sweeps over the pairs for gamma=inf).
    tol : float, default=1e-3
        The norm of the scaled gradient at which to stop (the objective is then within about
        tol^2 / 2 of its minimum); for gamma=inf the relative duality gap and violation of bounds.
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

    Attributes
    ----------
    bounds_ : ndarray of shape (2,)
        (u, l), distances, unsquared.
    multipliers_ : ndarray of shape (n_pairs,)
        Of each pair, 0 where the pair did not matter.
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
    >>> from nearfold.metrics.itml import ITML
    >>> X = np.array([[0.0, 0.0], [0.5, 6.0], [4.0, 1.0], [4.5, 7.0]])
    >>> learner = ITML().fit(X, must_link=[[0, 1], [2, 3]], cannot_link=[[0, 2], [1, 3]])
    >>> learner.column_weights().round(2)  # the first column tells them apart
    array([1.91, 0.56])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = _SHARED
    fitted_state = _STATE.extended(_optional=("threshold_",), **FROM_PAIRS)

    def __init__(
        self,
        gamma: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-3,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        n_constraints: int | None = None,
        rank: int | float | None = None,
    ) -> None:
        keep_parameters(self, locals())

    def fit(  # metric-learn's order of arguments
        self,
        X: Any = None,
        y: Any = None,
        bounds: Any = None,
        calibration_params: dict[str, Any] | None = None,
        *,
        pairs: Any = None,
        must_link: Any = None,
        cannot_link: Any = None,
        ids: Any = None,
    ) -> Any:
        """Learn from pairs of vectors and y = +-1, from pairs of rows of X, or from labels.

        Parameters
        ----------
        X, y, calibration_params, pairs, must_link, cannot_link, ids
            As in `MMC.fit`.
        bounds : array-like of two numbers, default=None
            (u, l), the distances within which must-link and beyond which cannot-link pairs are to
            be; None: the 5th and 95th percentile of the distances of the given points.

        Returns
        -------
        self : object
            The fitted learner.
        """
        self.bounds_ = None if bounds is None else check_bounds(bounds)
        links = {"must_link": must_link, "cannot_link": cannot_link}
        return super().fit(X, y, calibration_params, pairs=pairs, ids=ids, **links)

    def learn(self: Any, pairs: Tuples) -> None:
        """Find the metric nearest to the prior that keeps the bounds of these pairs."""
        require_tuple_memory("ITML", pairs, 4)
        refuse_extreme(float(np.ptp(pairs.X, axis=0).max()), np.float64)
        prior = initial_metric(pairs.X, self.prior, random_state(self.random_state))
        if self.bounds_ is None:
            self.bounds_ = percentile_bounds(pairs.X, prior)
        ended, L, self.multipliers_ = learn_map(
            pairs.differences(),
            pairs.sign,
            prior,
            self.bounds_,
            float(self.gamma),
            self.tol,
            self.max_iter,
        )
        self.n_iter_ = max(ended.n_iter, 1)  # a look at the start is one
        self.converged_ = ended.converged
        self.objective_, self.history_ = ended.value, ended.history
        self._set_map(L, pairs.X.dtype, self.rank)
        warn_unless_converged(ended, type(self).__name__, "Raise max_iter or tol, or lower gamma.")


class ITML_Supervised(SupervisedMixin, MahalanobisMetric):
    """ITML from class labels: `n_constraints` must-link and cannot-link pairs are drawn.

    Parameters and attributes are those of `ITML`, the parameters in metric-learn's order; without
    `threshold_`, because it judges no pairs.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold.metrics.itml import ITML_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> ITML_Supervised(random_state=0).fit(X, y).transform(X).shape
    (150, 4)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = _SHARED
    fitted_state = _STATE
    draw, learn = pairs_from_labels, ITML.learn

    def __init__(
        self,
        gamma: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-3,
        n_constraints: int | None = None,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        rank: int | float | None = None,
    ) -> None:
        keep_parameters(self, locals())

    def fit(self, X: Any, y: Any, bounds: Any = None) -> Any:
        """Draw pairs from the labels y of the rows of X and learn from them; bounds as in ITML."""
        self.bounds_ = None if bounds is None else check_bounds(bounds)
        return super().fit(X, y)
