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

from typing import Any

import numpy as np
from scipy.linalg import cholesky

from nearfold.errors import InputError
from nearfold.metrics.learners import LabelsOnly, QuadrupletLearner
from nearfold.metrics.preparation import refuse_extreme_spread, require_matrices
from nearfold.metrics.prior import initial_metric
from nearfold.metrics.tuples import Tuples
from nearfold.notation import Floats
from nearfold.optim import OptimizationResult, warn_unless_converged
from nearfold.optim.log_det import minimise_near_identity
from nearfold.run import one_blas_thread, random_state


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


class LSML(QuadrupletLearner):
    """Least squared residual metric learning, from quadruplets: a, b nearer than c, d.

    Parameters are metric-learn's. `tol`: the norm of the scaled gradient at which to stop; the
    objective is then within about tol^2 / 2 of its minimum. `prior`: "identity", "covariance" (its
    inverse), "random" or a matrix. Ours: `n_constraints`, how many quadruplets to draw if learned
    from labels (None: 20 times the classes squared); `rank`, of the metric or its share of the
    trace to keep.

    Attributes: `objective_` (the residuals and the LogDet divergence from the prior), `history_`
    (after each step), `n_iter_`, `converged_`.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold.metrics.lsml import LSML
    >>> X = np.array([[0.0, 0.0], [0.5, 6.0], [4.0, 1.0], [4.5, 7.0]])
    >>> learner = LSML().fit(X, quadruplets=[[0, 1, 0, 2], [2, 3, 1, 3]])
    >>> learner.column_weights().round(2)  # the first column tells them apart
    array([1.36, 0.63])
    """

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
        self.tol = tol
        self.max_iter = max_iter
        self.prior = prior
        self.verbose = verbose
        self.preprocessor = preprocessor
        self.random_state = random_state
        self.n_constraints = n_constraints
        self.rank = rank

    def _learn(self, quadruplets: Tuples, weights: Floats) -> None:
        if not self.tol > 0 or self.max_iter < 1:
            raise InputError(f"tol={self.tol} and max_iter={self.max_iter} must be positive.")
        require_matrices("LSML", quadruplets.X.shape[1], 46, len(quadruplets.rows), 9)
        refuse_extreme_spread(quadruplets.X)
        prior = initial_metric(quadruplets.X, self.prior, random_state(self.random_state))
        ended, L = learn_map(
            quadruplets.differences(0, 1),
            quadruplets.differences(2, 3),
            weights,
            prior,
            self.tol,
            self.max_iter,
        )
        self.n_iter_ = max(ended.n_iter, 1)  # a look at the start is one
        self.converged_ = ended.converged
        self.objective_, self.history_ = ended.value, ended.history
        self._set_map(L, quadruplets.X.dtype, self.rank)
        warn_unless_converged(ended, type(self).__name__, "Raise max_iter or tol.")


class LSML_Supervised(LabelsOnly, LSML):
    """LSML from class labels: each of `n_constraints` quadruplets is a pair of one class and a
    pair of two.

    Parameters and attributes are those of `LSML`, the parameters in metric-learn's order;
    `weights`: how much each quadruplet counts, in the order drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold.metrics.lsml import LSML_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> LSML_Supervised(random_state=0).fit(X, y).transform(X).shape
    (150, 4)
    """

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
        super().__init__(
            tol,
            max_iter,
            prior,
            verbose,
            preprocessor,
            random_state,
            n_constraints=n_constraints,
            rank=rank,
        )
        self.weights = weights

    def fit(self, X: Any, y: Any) -> Any:  # type: ignore[override]
        """Draw quadruplets from the labels y of the rows of X and learn from them."""
        return super().fit(X, y)
