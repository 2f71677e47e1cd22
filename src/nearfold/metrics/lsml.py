"""Metric learning from relative comparisons by least squared residuals (Liu, Guo, Zhang, Xu,
Jin and Chen 2012).

A quadruplet (a, b, c, d) says that a and b are nearer than c and d. The objective is the sum of the
squared residuals of the comparisons that fail, plus a divergence from a prior M0:

    sum_q w_q max(d_M(a, b) - d_M(c, d), 0)^2  +  tr(M M0^-1) - logdet M

d_M are distances, unsquared, and sum w = 1. The sum is convex: (sqrt s - sqrt t)^2 is
s + t - 2 sqrt(s t), and it decreases in t until it is 0.

Symbols: M0 = C C^T; M = C N C^T with N = L^T L positive definite; y = C^T v the differences in
coordinates in which the prior is the identity and the regulariser tr(N) - logdet(N). Over L the
problem is smooth, and optim/log_det.py solves it with a certificate: `tol` bounds its r.

Cost: O(n d^2 + d^3) per step for n quadruplets; memory O(n d + d^2).

Departures from metric-learn: `tol` bounds r, which does not change with the units of the columns,
instead of the norm of the gradient over M; the weights enter the gradient, too; it ends at the
optimum or warns, where metric-learn's search of ten fixed step lengths may stop before.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cholesky

from nearfold.metrics.labels import SupervisedMixin, keep_parameters
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.parameters import (
    CLASSES,
    COUNT,
    DRAWN,
    FROM_TUPLES,
    POSITIVE,
    PRIOR,
    RECORDED,
)
from nearfold.metrics.preparation import refuse_extreme_spread, require_matrices
from nearfold.metrics.prior import initial_metric
from nearfold.metrics.quadruplets import (
    QuadrupletsMixin,
    check_quadruplet_weights,
    quadruplets_from_labels,
)
from nearfold.metrics.tuples import Tuples
from nearfold.notation import Floats
from nearfold.optim import OptimizationResult, warn_unless_converged
from nearfold.optim.log_det import minimise_near_identity
from nearfold.run import one_blas_thread, random_state
from nearfold.state import array


def squared_residuals(
    near: Floats, far: Floats, weights: Floats, L: Floats
) -> tuple[float, Floats]:
    """sum_q w_q max(|L y_near| - |L y_far|, 0)^2 and its gradient over L."""
    Z_near, Z_far = near @ L.T, far @ L.T
    s, t = np.linalg.norm(Z_near, axis=1), np.linalg.norm(Z_far, axis=1)
    fails = s > t
    s, t, w = s[fails], t[fails], weights[fails]
    residual = s - t
    # The gradient of |L y| is L y y^T / |L y|; at y = 0 the distance is 0 for every L.
    pull, push = w * residual / s, w * residual / np.where(t > 0, t, np.inf)
    gradient = (Z_near[fails].T * pull) @ near[fails] - (Z_far[fails].T * push) @ far[fails]
    return float(w @ residual**2), 2 * gradient


def learn_map(
    near: Floats, far: Floats, weights: Floats, prior: Floats, tol: float, max_iter: int
) -> tuple[OptimizationResult, Floats]:
    """The result, and the map with M = map^T map, from the differences of the two pairs."""
    C = cholesky(prior, lower=True)
    with one_blas_thread():
        Y_near, Y_far = near @ C, far @ C

        def loss(L: Floats) -> tuple[float, Floats]:
            return squared_residuals(Y_near, Y_far, weights, L)

        # The residuals grow as the square of L, so the best multiple of the prior is known.
        d, cost = len(C), loss(np.eye(len(C)))[0]
        start = np.sqrt(d / (d + cost)) * np.eye(d)
        result = minimise_near_identity(loss, start, tol, max_iter, "LSML")
    return result, result.x @ C.T


MATRICES, TABLES = 46, 9  # (d, d) and (n, d) that the solver holds at its peak
_SHARED: dict[str, Any] = {**DRAWN, "tol": POSITIVE, "max_iter": COUNT, "prior": PRIOR}
_STATE = MahalanobisMetric.fitted_state.extended(
    _optional=("classes_",), w_=array("q", least=0), **RECORDED, **CLASSES
)


class LSML(QuadrupletsMixin, MahalanobisMetric):
    """Least squared-residual metric learning, from quadruplets: a and b nearer than c and d.

    Parameters
    ----------
    tol : float, default=1e-3
        The size of the scaled gradient at which to stop: the objective is then within about
        tol^2 / 2 of its minimum.
    max_iter : int, default=1000
        Most steps of the optimiser.
    prior : {"identity", "covariance", "random"} or array-like, default="identity"
        The metric to stay near to; "covariance" is the inverse covariance of the points. It must
        be positive definite.
    verbose : bool, default=False
        Show progress.
    preprocessor : array-like or callable, default=None
        Table (or function) in which ids given instead of rows are looked up.
    random_state : int, RandomState instance or None, default=None
        Source of the quadruplets drawn from labels, and of prior="random".
    n_constraints : int, default=None
        Quadruplets drawn when fitted on labels; None: 20 times the classes squared.
    rank : int or float in (0, 1], default=None
        Rank to which M is cut, or the share of its trace to keep.

    Attributes
    ----------
    w_ : ndarray of shape (n_quadruplets,)
        The weights of the quadruplets, which sum to 1.
    objective_ : float
        The residuals and the LogDet divergence from the prior.
    history_ : list of float
        The objective after each step.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether `tol` was reached.
    learned_from_labels_ : bool
        Whether quadruplets were drawn from labels; then there is no `predict`.
    classes_ : ndarray of shape (n_classes,)
        The labels, if learned from labels.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold.metrics.lsml import LSML
    >>> X = np.array([[0.0, 0.0], [0.5, 6.0], [4.0, 1.0], [4.5, 7.0]])
    >>> learner = LSML().fit(X, quadruplets=[[0, 1, 0, 2], [2, 3, 1, 3]])
    >>> learner.column_weights().round(2)  # the first column tells them apart
    array([1.36, 0.63])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = _SHARED
    fitted_state = _STATE.extended(**FROM_TUPLES)

    def __init__(
        self,
        tol: float = 1e-3,
        max_iter: int = 1000,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        n_constraints: int | None = None,
        rank: int | float | None = None,
    ) -> None:
        keep_parameters(self, locals())

    def learn(self: Any, quadruplets: Tuples, weights: Any = None) -> None:
        """Find the metric of least squared residuals for these quadruplets."""
        require_matrices("LSML", quadruplets.X.shape[1], MATRICES, len(quadruplets.rows), TABLES)
        self.w_ = check_quadruplet_weights(weights, len(quadruplets.rows))
        refuse_extreme_spread(quadruplets.X)
        prior = initial_metric(quadruplets.X, self.prior, random_state(self.random_state))
        ended, L = learn_map(
            quadruplets.differences(0, 1),
            quadruplets.differences(2, 3),
            self.w_,
            prior,
            self.tol,
            self.max_iter,
        )
        self.n_iter_ = max(ended.n_iter, 1)  # a look at the start is one
        self.converged_ = ended.converged
        self.objective_, self.history_ = ended.value, ended.history
        self._set_map(L, quadruplets.X.dtype, self.rank)
        warn_unless_converged(ended, type(self).__name__, "Raise max_iter or tol.")


class LSML_Supervised(SupervisedMixin, MahalanobisMetric):
    """LSML from class labels: each of `n_constraints` quadruplets is a pair of one class and a
    pair of two.

    Parameters and attributes are those of `LSML`, the parameters in metric-learn's order, and
    `weights`: array-like of shape (n_constraints,), default=None, how much each quadruplet counts,
    in the order drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold.metrics.lsml import LSML_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> LSML_Supervised(random_state=0).fit(X, y).transform(X).shape
    (150, 4)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {**_SHARED, "weights": ["array-like", None]}
    fitted_state = _STATE
    draw = quadruplets_from_labels

    def __init__(
        self,
        tol: float = 1e-3,
        max_iter: int = 1000,
        prior: Any = "identity",
        n_constraints: int | None = None,
        weights: Any = None,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        rank: int | float | None = None,
    ) -> None:
        keep_parameters(self, locals())

    def learn(self: Any, quadruplets: Tuples) -> None:
        """Learn from the quadruplets drawn, with the constructor's weights."""
        LSML.learn(self, quadruplets, self.weights)
