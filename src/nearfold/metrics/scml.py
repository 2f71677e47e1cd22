"""Sparse compositional metric learning (Shi, Bellet and Sha 2014).

M is a sum of rank-one metrics with weights w_k >= 0, most of them 0, learned from triplets
(a, b, c), a nearer to b than to c by a margin of 1:

    M = sum_k w_k b_k b_k^T
    min  1/T sum_t max(1 + D_t w, 0) + beta sum_k w_k      over w >= 0
    D_tk = (b_k^T (x_a - x_b))^2 - (b_k^T (x_a - x_c))^2

Symbols: B (K, d) the bases, one a row; F = X B^T the points along them; D (T, K), never formed.

Steps
  1. the bases (scml_bases.py)
  2. stochastic dual averaging with one step length per weight (compiled), which finds the bases
     that matter
  3. the linear program, over the triplets and bases that matter, until lower and upper bound of
     the optimum meet to `tol` (scml_solver.py)

Cost: O(p d K) for p points, O(max_iter batch_size K) for the averaging, O(T d) per check; then some
linear programs of the size of the solution. Memory O(p K + T d).

Departures from metric-learn: the linear program, so that the end is the optimum, which dual
averaging alone does not reach in its default number of steps; gamma decides only how soon. w is in
units of the mean of |D_tk|, so that the units of the columns do not matter to gamma; eigenvectors
are the columns of what eigh returns, where metric-learn takes the rows; the regions' scatter has a
ridge of 0.01 of the columns' variances; `basis="lda"` also for SCML, where it learns from labels;
no warning for n_basis=None.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError, SolverError
from nearfold.linalg.row_order import order_by_value
from nearfold.metrics.drawing import nearest_triplets
from nearfold.metrics.learners import LabelsOnly, TripletLearner
from nearfold.metrics.preparation import refuse_extreme_spread
from nearfold.metrics.scml_bases import LabelledTriplets, make_bases, require_bases
from nearfold.metrics.scml_solver import average, pose, solve
from nearfold.metrics.tuples import Tuples
from nearfold.notation import Array, Ints
from nearfold.optim import warn_unless_converged
from nearfold.run import one_blas_thread, random_state


class SCML(TripletLearner):
    """Sparse compositional metric learning, from triplets: a is nearer to b than to c.

    Parameters are metric-learn's. `beta`: the price of the weights. `basis`: "triplet_diffs", "lda"
    (needs labels) or an array (n_basis, d). `n_basis`: how many (None: 80 d, or 20 d for "lda").
    `gamma` (larger: shorter steps), `max_iter`, `batch_size`: of the stochastic steps, which are
    checked every `output_iter`. Ours: `tol`, how near to the optimum to end, relative to the
    objective; `k_genuine`, `k_impostor`, the neighbours that make triplets if learned from labels;
    `rank`, of the metric or its share of the trace to keep.

    Attributes: `basis_` (those with weight) and `weights_`, M = sum w b b^T; `objective_`,
    `history_` (at each check, then after each linear program), `n_iter_` (stochastic steps),
    `converged_`.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold.metrics.scml import SCML
    >>> X = np.array([[0.0, 5.0], [0.2, -4.0], [3.0, 4.0], [3.1, -5.0]])
    >>> triplets = [[0, 1, 2], [1, 0, 3], [2, 3, 0], [3, 2, 1]]
    >>> learner = SCML(basis=np.eye(2)).fit(X, triplets=triplets)
    >>> learner.weights_.round(2), learner.basis_
    (array([0.12]), array([[1., 0.]]))
    """

    def __init__(
        self,
        beta: float = 1e-5,
        basis: Any = "triplet_diffs",
        n_basis: int | None = None,
        gamma: float = 5e-3,
        max_iter: int = 10000,
        output_iter: int = 500,
        batch_size: int = 10,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        tol: float = 0.01,
        k_genuine: int = 3,
        k_impostor: int = 10,
        rank: int | float | None = None,
    ) -> None:
        self.beta = beta
        self.basis = basis
        self.n_basis = n_basis
        self.gamma = gamma
        self.max_iter = max_iter
        self.output_iter = output_iter
        self.batch_size = batch_size
        self.verbose = verbose
        self.preprocessor = preprocessor
        self.random_state = random_state
        self.tol = tol
        self.k_genuine = k_genuine
        self.k_impostor = k_impostor
        self.rank = rank

    def _draw(self, X: Array, label: Ints, random: Any) -> Tuples:
        if min(self.k_genuine, self.k_impostor) < 1:
            raise InputError(
                f"k_genuine={self.k_genuine} and k_impostor={self.k_impostor} must be positive."
            )
        m, d = X.shape
        n_triplets = m * self.k_genuine * self.k_impostor
        require_bases(self.basis, self.n_basis, m, d, n_triplets, len(self.classes_))
        order = order_by_value(X, label)
        X, label = X[order], label[order]
        drawn = nearest_triplets(X, label, self.k_genuine, self.k_impostor)
        return LabelledTriplets(X, drawn.rows, drawn.sign, label)

    def _check(self) -> None:
        for name in ("gamma", "max_iter", "output_iter", "batch_size", "tol"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}={getattr(self, name)} must be positive.")
        if not 0 <= self.beta < np.inf:
            raise InputError(f"beta={self.beta} must be finite and not negative.")
        if self.output_iter > self.max_iter:
            raise InputError(
                f"The value of output_iter={self.output_iter} must be equal or smaller than "
                f"max_iter={self.max_iter}."
            )

    def _learn(self, triplets: Tuples) -> None:
        self._check()
        refuse_extreme_spread(triplets.X)
        random = random_state(self.random_state)
        with one_blas_thread():
            B = make_bases(triplets, self.basis, self.n_basis, random)
            problem = pose(triplets, B, self.beta)
            start, checks = average(
                problem, self.gamma, self.max_iter, self.output_iter, self.batch_size, random
            )
            ended = solve(problem, start, self.tol)
            L = problem.map_of(ended.x)
        used = ended.x > 0
        if not used.any():
            raise SolverError(
                f"{type(self).__name__} learned the metric 0: with beta={self.beta:g} no basis is "
                "worth its weight. The triplets contradict each other, or beta is too large for "
                "values as small as these: lower it, or multiply the columns by a constant."
            )
        size = np.linalg.norm(problem.B[used], axis=1)
        self.basis_, self.weights_ = problem.B[used] / size[:, None], ended.x[used] * size**2
        self.n_iter_, self.converged_ = self.max_iter, ended.converged
        self.objective_, self.history_ = ended.value, checks + ended.history
        self._set_map(L, triplets.X.dtype, self.rank)
        warn_unless_converged(ended, type(self).__name__, "Raise beta, tol or max_iter.")


class SCML_Supervised(LabelsOnly, SCML):
    """SCML from class labels: triplets of a row, its `k_genuine` nearest rows of its class and its
    `k_impostor` nearest rows of other classes.

    Parameters and attributes are those of `SCML`, the parameters in metric-learn's order.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold.metrics.scml import SCML_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = SCML_Supervised(random_state=0).fit(X, y)
    >>> bool(learner.objective_ < 0.05)
    True
    """

    def __init__(
        self,
        k_genuine: int = 3,
        k_impostor: int = 10,
        beta: float = 1e-5,
        basis: Any = "lda",
        n_basis: int | None = None,
        gamma: float = 5e-3,
        max_iter: int = 10000,
        output_iter: int = 500,
        batch_size: int = 10,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        tol: float = 0.01,
        rank: int | float | None = None,
    ) -> None:
        super().__init__(
            beta,
            basis,
            n_basis,
            gamma,
            max_iter,
            output_iter,
            batch_size,
            verbose,
            preprocessor,
            random_state,
            tol=tol,
            k_genuine=k_genuine,
            k_impostor=k_impostor,
            rank=rank,
        )

    def fit(self, X: Any, y: Any) -> Any:  # type: ignore[override]
        """Find triplets of neighbours among the rows of X with labels y and learn from them."""
        return super().fit(X, y)
