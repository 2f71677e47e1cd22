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

from typing import Any

import numpy as np
from scipy.linalg import cholesky, eigvalsh, solve_triangular

from nearfold.errors import InputError, warn
from nearfold.metrics.learners import LabelsOnly, PairLearner
from nearfold.metrics.preparation import refuse_extreme_spread, require_matrices
from nearfold.metrics.prior import initial_metric
from nearfold.metrics.tuples import Tuples
from nearfold.notation import Floats, Ints
from nearfold.optim import OptimizationResult, warn_unless_converged
from nearfold.optim.graphical_lasso import graphical_lasso
from nearfold.run import one_blas_thread, random_state

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


class SDML(PairLearner):
    """Sparse distance metric learning, from must-link and cannot-link pairs.

    Parameters are metric-learn's. `balance_param`: how much the pairs count against the prior; too
    large a value is lowered, with a warning. `sparsity_param`: the price of entries of M beside the
    diagonal. `prior`: "identity", "covariance" (its inverse), "random" or a matrix. Ours:
    `n_constraints`, how many pairs of each kind to draw if learned from labels (None: 20 times the
    classes squared); `rank`, of the metric or its share of the trace to keep; `max_iter`; `tol`,
    the duality gap per column at which to stop.

    Attributes: `balance_`, the balance used; `objective_`, `history_`, `n_iter_`, `converged_`;
    `threshold_`, the distance up to which `predict` says must-link.

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
        self.balance_param = balance_param
        self.sparsity_param = sparsity_param
        self.prior = prior
        self.verbose = verbose
        self.preprocessor = preprocessor
        self.random_state = random_state
        self.n_constraints = n_constraints
        self.rank = rank
        self.max_iter = max_iter
        self.tol = tol

    def _learn(self, pairs: Tuples) -> None:
        for name in ("balance_param", "sparsity_param"):
            if not 0 <= getattr(self, name) < np.inf:
                raise InputError(f"{name}={getattr(self, name)} must be finite and not negative.")
        if not self.tol > 0 or self.max_iter < 1:
            raise InputError(f"tol={self.tol} and max_iter={self.max_iter} must be positive.")
        require_matrices("SDML", pairs.X.shape[1], 22, len(pairs.rows), 3)
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


class SDML_Supervised(LabelsOnly, SDML):
    """SDML from class labels: `n_constraints` must-link and cannot-link pairs are drawn.

    Parameters and attributes are those of `SDML`, the parameters in metric-learn's order.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold.metrics.sdml import SDML_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = SDML_Supervised(balance_param=1e-4, random_state=0).fit(X, y)
    >>> learner.transform(X).shape
    (150, 4)
    """

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
        super().__init__(
            balance_param,
            sparsity_param,
            prior,
            verbose,
            preprocessor,
            random_state,
            n_constraints=n_constraints,
            rank=rank,
            max_iter=max_iter,
            tol=tol,
        )

    def fit(self, X: Any, y: Any) -> Any:  # type: ignore[override]
        """Draw pairs from the labels y of the rows of X and learn from them."""
        return super().fit(X, y)
