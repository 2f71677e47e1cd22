"""A metric from must-link and cannot-link pairs, by convex optimisation (section 10.6, (10.39)).

    min_M  sum_{(i,j) in S} |x_i - x_j|_M^2
    s.t.   sum_{(i,k) in D} |x_i - x_k|_M >= 1,   M >= 0                                  (10.39)

Must-link pairs S are drawn together while cannot-link pairs D stay apart; M >= 0 means positive
semidefinite. The distances in the constraint are not squared: squared ones (`squared=True`) always
give an M of rank one.

Symbols: v the difference of a pair, A = sum_S v v^T, so that the objective is tr(M A).

Steps
  1. write N = A^(1/2) M A^(1/2) and u = A^(-1/2) v: then f(N) = sum_D sqrt(u^T N u) is to be
     maximised over tr N = 1, N >= 0, and the optimum of (10.39) is 1 / f^2
  2. N = Q Q^T, and L-BFGS on the scale-free |Q| / sum_D |Q^T u|, from the start `init`
  3. certify. With G = sum_D u u^T / s, s = |Q^T u|, the inequality 2 sqrt(t) <= t / s + s gives
     f(N')^2 <= lambda_max(G) f(N) for every N': so no metric is better than this one by more than
     the factor lambda_max(G) / f - 1, the duality gap. Where the gap is not closed the top
     eigenvector of G is a direction of ascent: it joins Q, and step 2 goes on
  4. scale M so that the constraint holds with equality

With `diagonal=True` M is diagonal: Q has one entry per column, and the gap is that of max(G_kk).

Cost: O((|S| + |D|) d^2 + d^3) once, O(|D| d r) per iteration.

Departures: a direction in which must-link pairs do not differ but cannot-link pairs do makes the
optimum 0 and M unbounded there. Then A gets a ridge (`ridge` times its mean eigenvalue), with a
warning. `init`, `tol`, `max_proj` and `diagonal_c` of metric-learn are accepted: the problem is
convex, so the start does not change the result; the others steer a solver that is not used here
(ours ends at a relative gap of 1e-6 at most, or warns).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh

from nearfold.errors import InputError, NotConvergedWarning, warn
from nearfold.metrics.labels import SupervisedMixin, keep_parameters
from nearfold.metrics.mahalanobis import MahalanobisMetric
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
from nearfold.metrics.prior import initial_metric
from nearfold.metrics.tuples import Tuples, require_tuple_memory
from nearfold.notation import Array, Floats
from nearfold.optim import minimise
from nearfold.run import one_blas_thread, random_state
from nearfold.state import State, nested, number

SOLVED = 1e-6  # a relative duality gap below this is called solved
_AIM = 1e-9  # what is tried for
_COLUMNS = 32  # of Q to begin with: optimal metrics have low rank
_ROUNDS = 20
_FREE = 1e-10  # eigenvalues of A below this share of the largest count as zero
_RIDGE = 1e-3
_VANISHED = 1e-4  # columns of Q below this share of its size
_TINY = 1e-150


@dataclass(frozen=True)
class Certificate:
    """Proof of how good a solution of (10.39) is; a ridge counts as part of the objective.

    `objective`: sum of squared must-link distances; `constraint`: sum of cannot-link distances
    (squared ones if asked for); `bound`: no feasible metric has an objective below it; `gap`:
    objective / bound - 1.
    """

    objective: float
    constraint: float
    bound: float
    gap: float

    fitted_state: ClassVar[State] = State(
        objective=number(0), constraint=number(0), bound=number(0), gap=number(0)
    )

    def __str__(self) -> str:
        return (
            f"objective {self.objective:.6g} with the constraint at {self.constraint:.6g} >= 1; "
            f"no feasible metric is below {self.bound:.6g} (relative gap {self.gap:.1e})"
        )


@dataclass(frozen=True)
class Solution:
    """The factor Q of N, in coordinates where A is the identity; its proof; the iterations."""

    Q: Floats
    gap: float
    n_iter: int


def with_ridge(S: Floats, D: Floats, ridge: float | None, diagonal: bool) -> tuple[Floats, int]:
    """S with rows that add the ridge to A, and how many directions would be free without it."""
    free = 0
    if ridge is None:
        # Is there something to part where nothing is to be joined?
        lam, U = (np.sum(S**2, axis=0), np.eye(S.shape[1])) if diagonal else eigh(S.T @ S)
        reach = np.linalg.norm(D @ U, axis=0)
        loose = (lam <= _FREE * lam.max()) & (reach > 1e-8 * reach.max())
        free = int(loose.sum())
        ridge = _RIDGE if free else 0.0
    if ridge == 0:
        return S, free
    size = np.sqrt(ridge * np.mean(np.sum(S**2, axis=0)))
    return np.vstack([S, size * np.eye(S.shape[1])]), free


def whitening(S: Floats) -> Floats:
    """R (d, q) with R^T A R = I, over the directions in which must-link pairs vary."""
    lam, U = eigh(S.T @ S)
    held = lam > _FREE * lam[-1]
    return np.asarray(U[:, held] / np.sqrt(lam[held]))


def column_scales(S: Floats) -> Floats:
    """The same for a diagonal M: 1 / sqrt(A_kk), 0 where no must-link pair varies."""
    a = np.einsum("ij,ij->j", S, S)
    held = a > _FREE * a.max()
    return np.where(held, 1 / np.sqrt(np.where(held, a, 1.0)), 0.0)


def maximise_roots(u: Floats, Q: Floats, max_iter: int) -> Solution:
    """Maximise sum_j |Q^T u_j| over |Q|_F = 1; Q Q^T is then optimal, as the gap proves."""
    n_iter, best = 0, Solution(Q, np.inf, 0)
    for _ in range(_ROUNDS):
        ended = minimise(
            lambda Q: _scale_free(u, Q), Q, max_iter=max_iter, tol=1e-16, label="MMC", memory=20
        )
        n_iter += ended.n_iter
        Q = ended.x / np.linalg.norm(ended.x)
        gap, w = _gap(u, Q)
        if gap >= best.gap / 2:
            break
        best = Solution(Q, gap, n_iter)
        if gap <= _AIM:
            break
        Q = _join(Q, w)
    # Columns that have vanished are rank M does not have; the gap says whether they have.
    Q = _rotated(best.Q)
    Q = Q[:, np.linalg.norm(Q, axis=0) > _VANISHED]
    gap, _ = _gap(u, Q)
    return Solution(Q, gap, n_iter) if gap <= 0.1 * SOLVED else Solution(best.Q, best.gap, n_iter)


def _scale_free(u: Floats, Q: Floats) -> tuple[float, Floats]:
    """log |Q| - log sum_j |Q^T u_j| and its gradient."""
    W = u @ Q
    s = np.maximum(np.sqrt(np.einsum("ij,ij->i", W, W)), _TINY)
    f, size = float(s.sum()), float(np.einsum("ij,ij->", Q, Q))
    return 0.5 * np.log(size) - np.log(f), Q / size - (u.T @ (W / s[:, None])) / f


def _gap(u: Floats, Q: Floats) -> tuple[float, Floats]:
    """The duality gap at Q, and the top eigenvector of G."""
    s = np.maximum(np.linalg.norm(u @ Q, axis=1), _TINY)
    G = (u.T / s) @ u
    lam, w = eigh(G, subset_by_index=[len(G) - 1, len(G) - 1])
    return max(float(lam[0] * np.sum(Q**2) / s.sum()) - 1.0, 0.0), w


def _rotated(Q: Floats) -> Floats:
    """Q with its columns by size and orthogonal; Q Q^T is the same."""
    return np.asarray(Q @ np.linalg.svd(Q, full_matrices=False)[2].T)


def _join(Q: Floats, w: Floats) -> Floats:
    """Q with the direction w beside it: in place of an empty column, or in a new one."""
    Q = _rotated(Q)
    return np.hstack([Q[:, :-1] if np.linalg.norm(Q[:, -1]) < _VANISHED else Q, 1e-3 * w])


def maximise_weighted_roots(E: Floats, q: Floats, max_iter: int) -> Solution:
    """The diagonal case: maximise sum_j sqrt(sum_k E_jk q_k^2) over |q| = 1."""

    def roots(q: Floats) -> Floats:
        return np.asarray(np.sqrt(np.maximum(E @ q**2, _TINY)))

    def scale_free(q: Floats) -> tuple[float, Floats]:
        s = roots(q)
        f, size = float(s.sum()), float(q @ q)
        return 0.5 * np.log(size) - np.log(f), q / size - q * ((1 / s) @ E) / f

    def gap_at(q: Floats) -> tuple[float, Floats]:
        s = roots(q)
        ratio = ((1 / s) @ E) * float(q @ q) / s.sum()
        return max(float(ratio.max()) - 1.0, 0.0), ratio

    n_iter, best = 0, Solution(q, np.inf, 0)
    for _ in range(_ROUNDS):
        ended = minimise(scale_free, q, max_iter=max_iter, tol=1e-16, label="MMC", memory=20)
        n_iter += ended.n_iter
        q = np.abs(ended.x) / np.linalg.norm(ended.x)
        gap, ratio = gap_at(q)
        if gap >= best.gap / 2:
            break
        best = Solution(q, gap, n_iter)
        if gap <= _AIM:
            break
        q = np.maximum(q, np.where(ratio > 1, 1e-3, 0.0))  # columns that want to come back
    q = np.where(best.Q > _VANISHED, best.Q, 0.0)
    gap, _ = gap_at(q)
    return Solution(q, gap, n_iter) if gap <= 0.1 * SOLVED else Solution(best.Q, best.gap, n_iter)


def column_units(S: Floats, D: Floats) -> Floats:
    """The size of the differences in each column: in these units columns can be compared.

    (10.39) does not change with the units of the columns, but what counts as zero beside them does.
    """
    largest = np.maximum(np.abs(S).max(axis=0), np.abs(D).max(axis=0))
    safe = np.where(largest > 0, largest, 1.0)
    total = np.mean((S / safe) ** 2, axis=0) + np.mean((D / safe) ** 2, axis=0)
    return np.where(largest > 0, safe * np.sqrt(np.maximum(total, 1e-300)), 1.0)


def learn_full(S: Floats, D: Floats, M0: Floats, max_iter: int) -> tuple[Floats, Solution]:
    """L (r, d) with M = L^T L up to scale, and the solution behind it."""
    R = whitening(S)
    u = D @ R
    u /= np.sqrt(np.mean(np.einsum("ij,ij->i", u, u)))
    back = np.linalg.pinv(R)
    lam, U = eigh(back @ M0 @ back.T)  # N = A^(1/2) M A^(1/2) at the start: its main directions
    k = min(_COLUMNS, len(lam))
    Q = U[:, ::-1][:, :k] * np.sqrt(np.maximum(lam[::-1][:k], 1e-8 * lam[-1]))
    found = maximise_roots(u, Q / np.linalg.norm(Q), max_iter)
    return (R @ found.Q).T, found


def learn_diagonal(S: Floats, D: Floats, max_iter: int) -> tuple[Floats, Solution]:
    """The roots of the diagonal of M up to scale, and the solution behind them."""
    scale = column_scales(S)
    E = (D * scale) ** 2
    E /= E.sum() / len(E)
    start = np.where(scale > 0, 1.0, 0.0)
    found = maximise_weighted_roots(E, start / np.linalg.norm(start), max_iter)
    return found.Q * scale, found


def certify(
    L: Floats, S: Floats, D: Floats, gap: float, squared: bool
) -> tuple[Floats, Certificate]:
    """L scaled so that the constraint holds with equality, and the proof of how good it is."""
    lengths = np.linalg.norm(D @ L.T, axis=1)
    L = L / (np.sqrt(np.sum(lengths**2)) if squared else lengths.sum())
    lengths = np.linalg.norm(D @ L.T, axis=1)
    objective = float(np.sum((S @ L.T) ** 2))
    constraint = float(np.sum(lengths**2) if squared else lengths.sum())
    return L, Certificate(objective, constraint, objective / (1 + gap), gap)


def solve(
    S: Floats, D: Floats, M0: Floats, max_iter: int, diagonal: bool, squared: bool
) -> tuple[Floats, Solution]:
    """L with M = L^T L up to scale, in any of the four forms of the problem."""
    if diagonal and squared:  # a linear programme: all on the column of best ratio
        scale = column_scales(S)
        ratio = np.einsum("ij,ij->j", D * scale, D * scale)
        best = np.where(np.arange(len(scale)) == np.argmax(ratio), scale, 0.0)
        return np.diag(best), Solution(best, 0.0, 0)
    if diagonal:
        w, found = learn_diagonal(S, D, max_iter)
        return np.diag(w), found
    if squared:
        R = whitening(S)
        u = D @ R
        return (R @ eigh(u.T @ u)[1][:, -1:]).T, Solution(R, 0.0, 0)
    return learn_full(S, D, M0, max_iter)


def starting_metric(points: Array, init: Any, random: Any) -> Floats:
    """M to start from: definite, because a direction that is 0 would stay so."""
    M0 = initial_metric(points, init, random, "init", definite=False)
    size = float(np.trace(M0)) / len(M0)
    return np.asarray(M0 + (1e-3 * size if size > 0 else 1.0) * np.eye(len(M0)))


def learn_metric(
    pairs: Tuples,
    M0: Floats,
    max_iter: int,
    diagonal: bool = False,
    squared: bool = False,
    ridge: float | None = None,
) -> tuple[Floats, Certificate, int]:
    """L with M = L^T L optimal, its certificate, and the number of iterations."""
    require_tuple_memory("MMC", pairs, 6)
    S, D = pairs.split()
    for v, kind in ((S, "must-link"), (D, "cannot-link")):
        if not v.any():
            raise InputError(
                f"MMC needs {kind} pairs of different points; there are {len(v)} {kind} pairs"
                + (", all of equal points." if len(v) else ".")
            )
    units = column_units(S, D)
    with one_blas_thread():
        S, D = S / units, D / units
        S, free = with_ridge(S, D, ridge, diagonal)
        start = units / units.max()  # its size does not matter, and might overflow
        L, found = solve(S, D, M0 * np.outer(start, start), max_iter, diagonal, squared)
        L, certificate = certify(L, S, D, found.gap, squared)
    if free:
        warn(
            f"no must-link pair differs in {free} directions in which cannot-link pairs do, so "
            f"(10.39) has no bounded answer; the must-link scatter was given a ridge of "
            f"{_RIDGE:g} times its mean. Give more must-link pairs, or set ridge."
        )
    if found.gap > SOLVED:
        warn(
            f"MMC did not converge: after {found.n_iter} iterations the relative duality gap is "
            f"{found.gap:.1e}. Raise max_iter.",
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
        n_constraints: int | None = None,
        rank: int | float | None = None,
    ) -> None:
        keep_parameters(self, locals())

    def learn(self: Any, pairs: Tuples) -> None:
        """Solve (10.39) for these pairs."""
        M0 = starting_metric(pairs.X, self.init, random_state(self.random_state))
        L, self.certificate_, self.n_iter_ = learn_metric(
            pairs, M0, self.max_iter, self.diagonal, self.squared, self.ridge
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
        rank: int | float | None = None,
    ) -> None:
        keep_parameters(self, locals())
