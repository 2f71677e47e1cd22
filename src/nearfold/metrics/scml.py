"""Sparse compositional metric learning (Shi, Bellet and Sha 2014).

M is a sum of rank-one metrics with weights w_k >= 0, most of them 0, learned from triplets
(a, b, c), a nearer to b than to c by a margin of 1:

    M = sum_k w_k b_k b_k^T
    min  1/T sum_t max(1 + D_t w, 0) + beta sum_k w_k      over w >= 0
    D_tk = (b_k^T (x_a - x_b))^2 - (b_k^T (x_a - x_c))^2

Symbols: B (K, d) the bases, one a row; F = X B^T the points along them; D (T, K), never formed.

Steps: the bases (scml_bases.py); stochastic dual averaging with a step length of its own for each
weight (compiled), which finds the bases that matter; then the linear program that it is, exactly:
its dual, max sum mu over 0 <= mu_t <= 1/T with -D^T mu <= beta, has only as many rows as there are
bases, and needs only the triplets within the margin and the bases with weight. So it is solved over
those, what is violated is added, and the value of w over all triplets and that of mu, shrunk until
it fits all bases, bound the optimum from both sides until they meet to `tol`.

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

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import linprog
from sklearn.utils._param_validation import StrOptions

from nearfold.errors import InputError, SolverError
from nearfold.inputs import refuse_extreme
from nearfold.linalg.row_order import order_by_value
from nearfold.metrics.drawing import nearest_triplets
from nearfold.metrics.labels import SupervisedMixin, keep_parameters, read_labels
from nearfold.metrics.mahalanobis import MahalanobisMetric, factor_map
from nearfold.metrics.parameters import (
    CLASSES,
    COUNT,
    FROM_TUPLES,
    NON_NEGATIVE,
    POSITIVE,
    RECORDED,
    TUPLES,
)
from nearfold.metrics.scml_bases import LabelledTriplets, make_bases
from nearfold.metrics.triplets import TripletsMixin
from nearfold.metrics.tuples import Tuples, require_tuple_memory
from nearfold.notation import Array, Floats, Ints
from nearfold.optim import OptimizationResult, warn_unless_converged
from nearfold.run import one_blas_thread, random_state, reporter
from nearfold.state import array

_UNIT = 100.0  # what gamma is counted in: its default then suits columns of any unit
_LOOKED_AT = 1000  # triplets that tell the size of D_tk for each basis
_ROWS_BEGUN = 2000  # at most, of the triplets that cost at the start
_ROWS_ADDED = 500
_BASES_ADDED = 50
_ROUNDS = 60
_LARGEST = 2_000_000  # entries of a linear program: above, it takes minutes
_ACCURACY = 1e-9  # of the linear programs, whose entries are about 1


@dataclass(frozen=True)
class Problem:
    """Points X and F = X B^T, the triplets' rows, the bases B and the price of each weight.

    B is scaled so that the mean of |D_tk| over the triplets is 1 for every basis.
    """

    X: Floats
    F: Floats
    rows: Ints
    B: Floats
    price: Floats

    def differences(self, which: Ints, bases: Any = slice(None)) -> Floats:
        """D_tk of these triplets and bases."""
        F = self.F if isinstance(bases, slice) else self.F[:, bases]
        return _squares(F, self.rows[which])

    def map_of(self, w: Floats) -> Floats:
        """L with M = L^T L = sum w b b^T, of at most d rows."""
        used = w > 0
        L = np.sqrt(w[used])[:, None] * self.B[used]
        return L if len(L) <= L.shape[1] else factor_map(L)

    def margins(self, w: Floats) -> Floats:
        """1 + D_t w of every triplet: above 0 it costs."""
        from nearfold.kernels.scml import margins_of

        return np.asarray(margins_of(self.X @ self.map_of(w).T, self.rows))

    def value(self, w: Floats, margins: Floats) -> float:
        """The objective."""
        return float(np.maximum(margins, 0).mean() + self.price @ w)


def _squares(Z: Floats, rows: Ints) -> Floats:
    """(z_a - z_b)^2 - (z_a - z_c)^2, as a product that does not cancel."""
    a, b, c = Z[rows[:, 0]], Z[rows[:, 1]], Z[rows[:, 2]]
    return np.asarray((c - b) * ((a - b) + (a - c)))


def pose(triplets: Tuples, B: Floats, beta: float) -> Problem:
    """The problem, without bases along which the triplets do not differ."""
    X = triplets.X - triplets.X.mean(axis=0, dtype=np.float64)
    F, rows = X @ B.T, triplets.rows
    looked_at = np.linspace(0, len(rows) - 1, min(_LOOKED_AT, len(rows))).astype(np.int64)
    size = np.abs(_squares(F, rows[looked_at])).mean(axis=0)
    keep = size > 1e-14 * size.max(initial=0.0)
    if not keep.any() or not np.isfinite(size).all():
        raise InputError(
            "along the bases the points of the triplets do not differ, or by numbers so large that "
            "their squares overflow."
        )
    root = np.sqrt(size[keep])
    F = np.ascontiguousarray(F[:, keep] / root)
    return Problem(X, F, rows, B[keep] / root[:, None], beta / size[keep])


def average(
    problem: Problem, gamma: float, max_iter: int, output_iter: int, batch_size: int, random: Any
) -> tuple[Floats, list[float]]:
    """The best of the weights checked, by stochastic dual averaging, and the objective at each."""
    from nearfold.kernels.scml import dual_average

    report, history = reporter(), list[float]()
    K = len(problem.B)
    w, sums, best, lowest = np.zeros(K), np.zeros((2, K)), np.zeros(K), 1.0  # w = 0 costs 1
    for done in range(0, max_iter, output_iter):
        steps = min(output_iter, max_iter - done)
        drawn = random.randint(0, len(problem.rows), size=(steps, batch_size))
        dual_average(problem.F, problem.rows, drawn, problem.price, gamma * _UNIT, done, w, sums)
        history.append(problem.value(w, problem.margins(w)))
        report("SCML", done + steps, max_iter)
        if history[-1] < lowest:
            lowest, best = history[-1], w.copy()
    return best, history


def solve_restricted(D: Floats, price: Floats, T: int) -> tuple[Floats, Floats] | None:
    """(w, mu T) of the linear program over some triplets and bases; None if the solver fails."""
    found = linprog(-np.ones(len(D)), A_ub=-D.T, b_ub=T * price, bounds=(0, 1), method="highs-ds")
    if found.x is None or found.ineqlin.marginals is None or found.status != 0:
        return None
    return np.maximum(-found.ineqlin.marginals, 0), np.clip(found.x, 0, 1)


def solve(problem: Problem, w: Floats, tol: float) -> OptimizationResult:
    """The optimum to a relative gap of tol, beginning with the bases and triplets that w needs."""
    T, report, history = len(problem.rows), reporter(), list[float]()
    best, margins = w, problem.margins(w)
    upper, lower = problem.value(w, margins), 0.0
    used = w > 0
    used[np.argsort(-problem.price)[-1:]] |= not used.any()
    inside = np.zeros(T, dtype=bool)
    begin = max(300, 3 * int(used.sum()), min(int((margins > 0).sum()), _ROWS_BEGUN))
    inside[np.argsort(-margins, kind="stable")[:begin]] = True
    reason = "its linear programs were not solved"
    for _ in range(_ROUNDS):
        rows, bases = np.flatnonzero(inside), np.flatnonzero(used)
        if len(rows) * len(bases) > _LARGEST:
            reason = f"too many triplets cost to solve for {len(bases)} bases exactly"
            break
        found = solve_restricted(problem.differences(rows, bases), problem.price[bases], T)
        if found is None:
            break
        w = np.zeros(len(w))
        w[bases] = found[0]
        margins = problem.margins(w)
        if problem.value(w, margins) < upper:
            upper, best = problem.value(w, margins), w
        # beta + D^T mu must not be negative: where it is, mu is shrunk, and the basis added.
        reduced = problem.price + problem.differences(rows).T @ found[1] / T
        short = reduced < -_ACCURACY
        shrink = problem.price[short] / (problem.price - reduced)[short]
        lower = max(lower, float(found[1].sum() / T * shrink.min(initial=1.0)))
        history.append(upper)
        report("SCML, linear program", len(history), None)
        reason = f"the objective {upper:.3g} is known to be above {lower:.3g} only"
        if upper - lower <= tol * upper + _ACCURACY:
            return OptimizationResult(best, upper, True, "the gap is closed", len(history), history)
        inside[_first(margins, ~inside & (margins > 0), max(_ROWS_ADDED, len(rows) // 2))] = True
        if short.any():  # those nearest to being violated tend to be so in the next round
            used[_first(-reduced, ~used, _BASES_ADDED)] = True
    return OptimizationResult(best, upper, False, reason, len(history), history)


def _first(merit: Floats, candidates: Array, count: int) -> Ints:
    """The candidates of largest merit."""
    which = np.flatnonzero(candidates)
    return which[np.argsort(-merit[which], kind="stable")[:count]]


def triplets_from_labels(estimator: Any, X: Any, y: Any) -> LabelledTriplets:
    """Triplets of a row, its nearest rows of its class and its nearest rows of others."""
    X, label = read_labels(estimator, X, y, skip_unlabelled=True)
    order = order_by_value(X, label)
    X, label = X[order], label[order]
    drawn = nearest_triplets(
        X, label, estimator.k_genuine, estimator.k_impostor, estimator.classes_
    )
    return LabelledTriplets(X, drawn.rows, drawn.sign, label)


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
}
_STATE = MahalanobisMetric.fitted_state.extended(
    _optional=("classes_",),
    basis_=array("b d"),
    weights_=array("b", least=0),
    **RECORDED,
    **CLASSES,
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

    Attributes
    ----------
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
    ) -> None:
        keep_parameters(self, locals())

    def learn(self: Any, triplets: Tuples) -> None:
        """Find the weights of the bases for these triplets."""
        if self.output_iter > self.max_iter:
            raise InputError(
                f"The value of output_iter={self.output_iter} must be equal or smaller than "
                f"max_iter={self.max_iter}."
            )
        require_tuple_memory("SCML", triplets, 3)
        refuse_extreme(float(np.ptp(triplets.X, axis=0).max()), np.float64)
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
    ) -> None:
        keep_parameters(self, locals())
