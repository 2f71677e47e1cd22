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

from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from nearfold.errors import InputError, SolverError
from nearfold.linalg.row_order import order_by_value
from nearfold.metrics.drawing import nearest_triplets
from nearfold.metrics.labels import SupervisedMixin, keep_parameters, read_labels
from nearfold.metrics.learning_rows import choose_rows
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.pair_blocks import groups_of
from nearfold.metrics.parameters import (
    CLASSES,
    COUNT,
    FROM_TUPLES,
    MAX_SAMPLES,
    NON_NEGATIVE,
    POSITIVE,
    RECORDED,
    SAMPLED,
    TUPLES,
)
from nearfold.metrics.preparation import refuse_extreme_spread
from nearfold.metrics.scml_bases import LabelledTriplets, count_bases, make_bases, require_bases
from nearfold.metrics.scml_solver import average, pose, solve
from nearfold.metrics.triplets import TripletsMixin
from nearfold.metrics.tuples import Tuples
from nearfold.optim import warn_unless_converged
from nearfold.run import one_blas_thread, random_state
from nearfold.state import array

_MOST_CELLS = 2**28  # of F, when triplets are made from labels: 2 GB


def most_rows(n_bases: int) -> int:
    """How many rows triplets are made of, unless `max_samples` says so."""
    return _MOST_CELLS // n_bases


def triplets_from_labels(estimator: Any, X: Any, y: Any) -> LabelledTriplets:
    """Triplets of a row, its nearest rows of its class and its nearest rows of others."""
    X, label = read_labels(estimator, X, y, skip_unlabelled=True)
    d, n_classes = X.shape[1], len(estimator.classes_)
    K = count_bases(estimator.basis, estimator.n_basis, len(X), d, n_classes)
    chosen = choose_rows(
        order_by_value(X, label), groups_of(label)[1], estimator.max_samples, most_rows(K),
        estimator.k_genuine + 1, estimator.random_state, "SCML",
    )  # fmt: skip
    X, label = X[chosen.order], label[chosen.order]
    n_triplets = len(X) * estimator.k_genuine * estimator.k_impostor
    require_bases(estimator.basis, estimator.n_basis, len(X), d, n_triplets, n_classes)
    drawn = nearest_triplets(
        X, label, estimator.k_genuine, estimator.k_impostor, estimator.classes_
    )
    return LabelledTriplets(X, drawn.rows, drawn.sign, label, chosen.note)


_SHARED: dict[str, Any] = {
    **TUPLES,
    "beta": NON_NEGATIVE,
    "basis": [StrOptions({"triplet_diffs", "lda"}), "array-like"],
    "n_basis": [*COUNT, None],
    "gamma": POSITIVE,
    "max_iter": COUNT,
    "output_iter": COUNT,
    "batch_size": COUNT,
    "tol": POSITIVE,
    "k_genuine": COUNT,
    "k_impostor": COUNT,
    "max_samples": MAX_SAMPLES,
}
_STATE = MahalanobisMetric.fitted_state.extended(
    _optional=("classes_",),
    basis_=array("b d"),
    weights_=array("b", least=0),
    **RECORDED,
    **CLASSES,
    **SAMPLED,
)


class SCML(TripletsMixin, MahalanobisMetric):
    """Sparse compositional metric learning, from triplets: a is nearer to b than to c.

    Parameters
    ----------
    beta : float, default=1e-5
        The price of the weights.
    basis : {"triplet_diffs", "lda"} or array-like of shape (n_basis, n_features), \
            default="triplet_diffs"
        The rank-one metrics to combine; "lda" needs labels.
    n_basis : int, default=None
        How many; None: 80 n_features, or 20 n_features for "lda".
    gamma : float, default=5e-3
        Larger values make shorter stochastic steps.
    max_iter : int, default=10000
        Stochastic steps.
    output_iter : int, default=500
        Steps between two looks at the objective; at most `max_iter`.
    batch_size : int, default=10
        Triplets per stochastic step.
    verbose : bool, default=False
        Show progress.
    preprocessor : array-like or callable, default=None
        Table (or function) in which ids given instead of rows are looked up.
    random_state : int, RandomState instance or None, default=None
        Source of the bases and of the stochastic steps.
    tol : float, default=0.01
        How near to the optimum to end, relative to the objective.
    k_genuine, k_impostor : int, default=3, 10
        The neighbours that make triplets when fitted on labels.
    rank : int or float in (0, 1], default=None
        Rank to which M is cut, or the share of its trace to keep.
    max_samples : int or None, default=None
        When fitted on labels: learn from so many rows, drawn at random from each class. None: all,
        but at most 2**28 / n_basis.

    Attributes
    ----------
    approximation_ : str or None
        What the metric was learned from, if not from all labelled rows.
    basis_ : ndarray of shape (n_used, n_features)
        The bases b that have weight.
    weights_ : ndarray of shape (n_used,)
        Their weights w: M = sum w b b^T.
    objective_ : float
        The objective at the solution.
    history_ : list of float
        At each check, then after each linear program.
    n_iter_ : int
        Stochastic steps.
    converged_ : bool
        Whether `tol` was reached.
    learned_from_labels_ : bool
        Whether triplets were made from labels; then there is no `predict`.
    classes_ : ndarray of shape (n_classes,)
        The labels, if learned from labels.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = _SHARED
    fitted_state = _STATE.extended(**FROM_TUPLES)
    draw = triplets_from_labels

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
        max_samples: int | None = None,
    ) -> None:
        keep_parameters(self, locals())

    def learn(self: Any, triplets: Tuples) -> None:
        """Find the weights of the bases for these triplets."""
        if self.output_iter > self.max_iter:
            raise InputError(
                f"The value of output_iter={self.output_iter} must be equal or smaller than "
                f"max_iter={self.max_iter}."
            )
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
        self.approximation_ = getattr(triplets, "approximation", None)
        self.n_iter_, self.converged_ = self.max_iter, ended.converged
        self.objective_, self.history_ = ended.value, checks + ended.history
        self._set_map(L, triplets.X.dtype, self.rank)
        warn_unless_converged(ended, type(self).__name__, "Raise beta, tol or max_iter.")


class SCML_Supervised(SupervisedMixin, MahalanobisMetric):
    """SCML from class labels: triplets of a row, its `k_genuine` nearest rows of its class and its
    `k_impostor` nearest rows of other classes.

    Parameters and attributes are those of `SCML`, the parameters in metric-learn's order; `basis`
    is "lda" unless given.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold.metrics.scml import SCML_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = SCML_Supervised(random_state=0).fit(X, y)
    >>> bool(learner.objective_ < 0.05)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = _SHARED
    fitted_state = _STATE
    draw, learn = triplets_from_labels, SCML.learn

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
        max_samples: int | None = None,
    ) -> None:
        keep_parameters(self, locals())
