"""Sparse distance metric learning (Qi, Tang, Zha, Chua and Zhang 2009).

A metric near a prior M0, small on must-link and large on cannot-link pairs, with few entries off
the diagonal:

    min  tr(M S) - logdet M + alpha sum_{i != j} |M_ij|,    S = M0^-1 + balance K
    K = sum_p y_p v_p v_p^T,   y_p = +1 (must-link) or -1 (cannot-link)

Steps
  1. S; if S is not positive definite the problem may have no minimum, and the balance is lowered
     (see below)
  2. the graphical lasso of S, until its duality gap is at most tol d (optim/graphical_lasso.py)

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

from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cholesky, eigvalsh, solve_triangular

from nearfold.errors import warn
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
from nearfold.metrics.preparation import refuse_extreme_spread, require_matrices
from nearfold.metrics.prior import initial_metric
from nearfold.metrics.tuples import Tuples
from nearfold.notation import Floats, Ints
from nearfold.optim import OptimizationResult, warn_unless_converged
from nearfold.optim.graphical_lasso import graphical_lasso
from nearfold.run import one_blas_thread, random_state
from nearfold.state import number

MATRICES, TABLES = 22, 3  # (d, d) and (n, d) that the solver holds at its peak
_SAFE = 0.9  # share of the limit that replaces a balance beyond it


def workable_balance(K: Floats, prior: Floats, balance: float) -> tuple[Floats, float]:
    """S, and its balance: as asked for if S is positive definite, else 0.9 of the limit."""
    C = cholesky(prior, lower=True)  # M0^-1 + b K = C^-T (I + b C^T K C) C^-1
    mu = -float(eigvalsh(C.T @ K @ C)[0])
    if balance * mu > 1 - 1e-10:
        balance = _SAFE / mu
    half = solve_triangular(C, np.eye(len(C)), lower=True)
    return half.T @ half + balance * K, balance


def learn_metric(
    V: Floats, sign: Ints, prior: Floats, balance: float, alpha: float, tol: float, max_iter: int
) -> tuple[OptimizationResult, float]:
    """M from the differences of the pairs, and the balance that was used."""
    with one_blas_thread():
        S, workable = workable_balance((V.T * sign) @ V, prior, balance)
        result = graphical_lasso(S, alpha, tol, max_iter, "SDML")
    if workable != balance:
        warn(
            f"with balance_param={balance:g} the problem of SDML has no minimum, because the "
            f"cannot-link pairs outweigh the prior; balance_param={workable:.3g} was used, "
            f"{_SAFE:g} of the limit."
        )
    return result, workable


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
        require_matrices("SDML", pairs.X.shape[1], MATRICES, len(pairs.rows), TABLES)
        refuse_extreme_spread(pairs.X)
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
