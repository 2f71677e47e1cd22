"""A metric from must-link and cannot-link pairs, by convex optimisation (section 10.6, (10.39)).

    min_M  sum_{(i,j) in S} |x_i - x_j|_M^2
    s.t.   sum_{(i,k) in D} |x_i - x_k|_M >= 1,   M >= 0                                  (10.39)

Must-link pairs S are drawn together while cannot-link pairs D stay apart; M >= 0 means positive
semidefinite. The distances in the constraint are not squared: squared ones (`squared=True`) always
give an M of rank one.

Symbols: v the difference of a pair, A = sum_S v v^T, so that the objective is tr(M A).

Steps
  1. the differences of the pairs, in units of the columns
  2. a factor of the optimal M, by L-BFGS from the start `init`, with its duality gap
     (mmc_solver.py); with `diagonal=True` M is diagonal
  3. scale M so that the constraint holds with equality

Cost: O((|S| + |D|) d^2 + d^3) once, O(|D| d r) per iteration.

Departures: a direction in which must-link pairs do not differ but cannot-link pairs do makes the
optimum 0 and M unbounded there. Then A gets a ridge (`ridge` times its mean eigenvalue), with a
warning. `init`, `tol`, `max_proj` and `diagonal_c` of metric-learn are accepted: the problem is
convex, so the start does not change the result; the others steer a solver that is not used here
(ours ends at a relative gap of 1e-6 at most, or warns).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from nearfold.errors import InputError, NotConvergedWarning, warn
from nearfold.messages import Message
from nearfold.metrics.labels import SupervisedMixin, keep_parameters
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.mmc_solver import (
    COLUMNS,
    RIDGE,
    SOLVED,
    Certificate,
    certify,
    column_scales,
    column_units,
    solve,
    with_ridge,
)
from nearfold.metrics.pairs import PairsMixin, pairs_from_labels
from nearfold.metrics.parameters import (
    CLASSES,
    COUNT,
    DRAWN,
    FROM_PAIRS,
    ITERATED,
    NON_NEGATIVE,
    PRIOR,
)
from nearfold.metrics.preparation import require_matrices
from nearfold.metrics.prior import initial_metric
from nearfold.metrics.tuples import Tuples
from nearfold.notation import Array, Floats
from nearfold.run import one_blas_thread, random_state
from nearfold.state import nested

TABLES = 5  # (n, d), that the solver holds at its peak


def smoothing_pairs(S: Floats, D: Floats, smoothing: float) -> Floats:
    """Differences in one column each, which give every column a weight when M is diagonal.

    Their distances add smoothing * c * sum_k sqrt(w_k A_kk) to the constraint. Its slope at w_k = 0
    is infinite, so that no weight vanishes; c makes smoothing = 1 as large as the given pairs if
    all columns have the same share of the objective.
    """
    scale = column_scales(S)
    varies = np.flatnonzero(scale)
    typical = np.sqrt(np.mean(np.sum((D[:, varies] * scale[varies]) ** 2, axis=1)))
    size = smoothing * len(D) / len(varies) * typical
    return np.asarray(np.eye(len(scale))[varies] * (size / scale[varies])[:, None])


def starting_metric(points: Array, init: Any, random: Any) -> Floats:
    """M to start from: definite, because a direction that is 0 would stay so."""
    M0 = initial_metric(points, init, random, "init", definite=False)
    size = float(np.trace(M0)) / len(M0)
    return np.asarray(M0 + (1e-3 * size if size > 0 else 1.0) * np.eye(len(M0)))


def require_pairs(pairs: Tuples) -> None:
    """Raise unless the solver's matrices fit the memory budget."""
    d = pairs.X.shape[1]
    require_matrices("MMC", d, matrices_held(d), len(pairs.rows), TABLES)


def matrices_held(d: int) -> float:
    """How many (d, d) matrices the solver holds at its peak."""
    return 12 + 45 * min(COLUMNS, d) / d


def learn_metric(
    pairs: Tuples,
    M0: Floats,
    max_iter: int,
    diagonal: bool = False,
    squared: bool = False,
    ridge: float | None = None,
    smoothing: float = 0.0,
) -> tuple[Floats, Certificate, int]:
    """L with M = L^T L optimal, its certificate, and the number of iterations."""
    require_pairs(pairs)
    S, D = pairs.split()
    for v, kind in ((S, "must-link"), (D, "cannot-link")):
        if not v.any():
            raise InputError(
                f"MMC needs {kind} pairs of different points; there are {len(v)} {kind} pairs"
                + (", all of equal points." if len(v) else ".")
            )
    units = column_units(S, D)
    if units.min() < np.finfo(np.float64).tiny:
        raise InputError(
            f"the pairs differ by about {units.min():.1g} in a column, too little to divide by: "
            "multiply the columns by a constant first."
        )
    with one_blas_thread():
        S, D = S / units, D / units
        S, unbounded = with_ridge(S, D, ridge, diagonal)
        if diagonal and smoothing > 0:
            D = np.vstack([D, smoothing_pairs(S, D, smoothing)])
        start = units / units.max()  # its size does not matter, and might overflow
        L, found = solve(S, D, M0 * np.outer(start, start), max_iter, diagonal, squared)
        L, certificate = certify(L, S, D, found.gap, squared)
    if unbounded:
        warn(Message("warn.mmc_unbounded", n=unbounded, ridge=f"{RIDGE:g}"))
    if found.gap > SOLVED:
        warn(
            Message("warn.mmc", n=found.n_iter, gap=f"{found.gap:.1e}"),
            NotConvergedWarning,
        )
    return L / units, certificate, found.n_iter


_SHARED: dict[str, Any] = {
    **DRAWN,
    "max_iter": COUNT,
    "max_proj": COUNT,
    "tol": NON_NEGATIVE,
    "init": PRIOR,
    "diagonal": ["boolean"],
    "diagonal_c": NON_NEGATIVE,
    "squared": ["boolean"],
    "ridge": [*NON_NEGATIVE, None],
    "smoothing": NON_NEGATIVE,
}
_STATE = MahalanobisMetric.fitted_state.extended(
    _optional=("classes_",), certificate_=nested(Certificate), **ITERATED, **CLASSES
)


class MMC(PairsMixin, MahalanobisMetric):
    """The metric in which must-link pairs are nearest while cannot-link pairs stay apart.

    Solves (10.39) with a certificate of optimality. Fit on pairs of vectors, `fit(pairs, y)`; on
    pairs of rows, `fit(X, pairs=...)` or `fit(X, must_link=..., cannot_link=...)`; or on labels,
    `fit(X, y)`.

    Parameters
    ----------
    max_iter : int, default=100
        Iterations between two looks at the duality gap.
    max_proj : int, default=10000
        Accepted for compatibility; has no effect, because nothing is projected.
    tol : float, default=1e-3
        Accepted for compatibility; has no effect: the relative duality gap is at most 1e-6, or a
        warning says otherwise.
    init : {"identity", "covariance", "random"} or array-like, default="identity"
        Where to start. The problem is convex, so that it does not change the result.
    diagonal : bool, default=False
        Learn a diagonal M: one weight for each column.
    diagonal_c : float, default=1.0
        Accepted for compatibility; has no effect: (10.39) has no such weight.
    verbose : bool, default=False
        Show progress.
    preprocessor : array-like or callable, default=None
        Table (or function) in which ids given instead of rows are looked up.
    random_state : int, RandomState instance or None, default=None
        Source of the pairs drawn from labels, and of init="random".
    squared : bool, default=False
        Constrain the squared cannot-link distances; M then has rank one.
    ridge : float, default=None
        Added to the must-link scatter, in units of its mean eigenvalue; None: only where the
        problem has no bounded answer without it.
    smoothing : float, default=0.0
        With `diagonal=True`: draws the weights towards all columns. The optimum of (10.39) leaves
        most columns out, which may predict worse; 0.1 to 1 keeps them in. The certificate is then
        that of the smoothed problem.
    n_constraints : int, default=None
        Pairs of each kind drawn when fitted on labels; None: 20 times the classes squared.
    rank : int or float in (0, 1], default=None
        Rank to which M is cut, or the share of its trace to keep.

    Attributes
    ----------
    certificate_ : Certificate
        Proof of how good the solution is.
    objective_ : float
        The sum of squared must-link distances.
    converged_ : bool
        Whether the relative duality gap is at most 1e-6.
    n_iter_ : int
        Iterations of the optimiser.
    threshold_ : float
        The distance up to which `predict` says must-link.
    A_ : ndarray of shape (n_features, n_features)
        M, under metric-learn's name.
    unused_columns_ : ndarray of int
        Columns that do not enter the metric; with `diagonal=True` often most of them.
    learned_from_labels_ : bool
        Whether pairs were drawn from labels; then there is no `predict`.
    classes_ : ndarray of shape (n_classes,)
        The labels, if learned from labels.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import MMC
    >>> X = np.array([[0.0, 0.0], [0.1, 5.0], [3.0, 0.3], [3.1, 4.9]])
    >>> mmc = MMC().fit(X, must_link=[(0, 1), (2, 3)], cannot_link=[(0, 2), (1, 3)])
    >>> distance = mmc.pair_distance(X[[[0, 1], [0, 2]]])
    >>> bool(distance[0] < 0.1 * distance[1]), mmc.converged_
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = _SHARED
    fitted_state = _STATE.extended(_optional=("threshold_",), **FROM_PAIRS)

    def __init__(
        self,
        max_iter: int = 100,
        max_proj: int = 10000,
        tol: float = 1e-3,
        init: Any = "identity",
        diagonal: bool = False,
        diagonal_c: float = 1.0,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        squared: bool = False,
        ridge: float | None = None,
        smoothing: float = 0.0,
        n_constraints: int | None = None,
        rank: int | float | None = None,
    ) -> None:
        keep_parameters(self, locals())

    def learn(self: Any, pairs: Tuples) -> None:
        """Solve (10.39) for these pairs."""
        require_pairs(pairs)
        if self.diagonal and self.diagonal_c != 1:
            warn("diagonal_c has no effect: (10.39) is solved, which has no such weight.")
        if self.smoothing > 0 and not self.diagonal:
            warn("smoothing has no effect without diagonal=True.")
        M0 = starting_metric(pairs.X, self.init, random_state(self.random_state))
        L, self.certificate_, self.n_iter_ = learn_metric(
            pairs, M0, self.max_iter, self.diagonal, self.squared, self.ridge, self.smoothing
        )
        self.objective_ = self.certificate_.objective
        self.converged_ = self.certificate_.gap <= SOLVED
        self._set_map(L, pairs.X.dtype, self.rank)

    @property
    def A_(self: Any) -> Any:
        """M, under metric-learn's name."""
        return self.get_mahalanobis_matrix()


class MMC_Supervised(SupervisedMixin, MahalanobisMetric):
    """`MMC` on pairs drawn from class labels, `fit(X, y)`.

    Parameters and attributes are those of `MMC`, the parameters in metric-learn's order; without
    `threshold_`, because it judges no pairs.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold import MMC_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> MMC_Supervised(random_state=0).fit(X, y).converged_
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = _SHARED
    fitted_state = _STATE
    draw, learn, A_ = pairs_from_labels, MMC.learn, MMC.A_

    def __init__(
        self,
        max_iter: int = 100,
        max_proj: int = 10000,
        tol: float = 1e-6,
        n_constraints: int | None = None,
        init: Any = "identity",
        diagonal: bool = False,
        diagonal_c: float = 1.0,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        squared: bool = False,
        ridge: float | None = None,
        smoothing: float = 0.0,
        rank: int | float | None = None,
    ) -> None:
        keep_parameters(self, locals())
