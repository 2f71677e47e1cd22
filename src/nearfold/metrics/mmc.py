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
from typing import Any

import numpy as np
from scipy.linalg import eigh

from nearfold.errors import InputError, NotConvergedWarning, warn
from nearfold.metrics.learners import LabelsOnly, PairLearner
from nearfold.metrics.preparation import require_matrices
from nearfold.metrics.prior import initial_metric
from nearfold.metrics.tuples import Tuples
from nearfold.notation import Floats
from nearfold.optim import minimise
from nearfold.run import one_blas_thread, random_state

_GAP = 1e-6  # a relative duality gap below this is called solved
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
    return Solution(Q, gap, n_iter) if gap <= 0.1 * _GAP else Solution(best.Q, best.gap, n_iter)


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
    return Solution(q, gap, n_iter) if gap <= 0.1 * _GAP else Solution(best.Q, best.gap, n_iter)


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


class MMC(PairLearner):
    """The metric in which must-link pairs are nearest while cannot-link pairs stay apart.

    Parameters are metric-learn's (see the head of this file for those that steer nothing here).
    `max_iter`: iterations between two looks at the duality gap. New: `squared`, constrain squared
    distances; `ridge`, added to the must-link scatter in units of its mean eigenvalue, None adds it
    only where the problem has no answer without; `n_constraints`, pairs of each kind drawn when
    fitted on labels; `rank`, to which M is cut (a number, or a share of its trace).

    Fit on pairs of vectors, `fit(pairs, y)`; on pairs of rows, `fit(X, pairs=...)` or
    `fit(X, must_link=..., cannot_link=...)`; or on labels, `fit(X, y)`.

    Attributes besides those of all metrics: `certificate_`, the proof of optimality; `converged_`;
    `objective_`; `n_iter_`; `threshold_`.

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
        self.max_iter = max_iter
        self.max_proj = max_proj
        self.tol = tol
        self.init = init
        self.diagonal = diagonal
        self.diagonal_c = diagonal_c
        self.verbose = verbose
        self.preprocessor = preprocessor
        self.random_state = random_state
        self.squared = squared
        self.ridge = ridge
        self.n_constraints = n_constraints
        self.rank = rank

    def _learn(self, pairs: Tuples) -> None:
        d = pairs.X.shape[1]
        require_matrices("MMC", d, 12 + 45 * min(_COLUMNS, d) / d, len(pairs.rows), 5)
        S, D = pairs.split()
        for v, kind in ((S, "must-link"), (D, "cannot-link")):
            if not v.any():
                raise InputError(
                    f"MMC needs {kind} pairs of different points; there are {len(v)} {kind} pairs"
                    + (", all of equal points." if len(v) else ".")
                )
        M0 = initial_metric(pairs.X, self.init, random_state(self.random_state), "init")
        units = column_units(S, D)
        with one_blas_thread():
            S, D = S / units, D / units
            S, free = with_ridge(S, D, self.ridge, self.diagonal)
            start = units / units.max()  # its size does not matter, and might overflow
            L, found = self._solve(S, D, M0 * np.outer(start, start))
            L, self.certificate_ = certify(L, S, D, found.gap, self.squared)
        if free:
            warn(
                f"no must-link pair differs in {free} directions in which cannot-link pairs do, so "
                f"(10.39) has no bounded answer; the must-link scatter was given a ridge of "
                f"{_RIDGE:g} times its mean. Give more must-link pairs, or set ridge."
            )
        self.objective_ = self.certificate_.objective
        self.n_iter_ = found.n_iter
        self.converged_ = found.gap <= _GAP
        if not self.converged_:
            warn(
                f"MMC did not converge: after {found.n_iter} iterations the relative duality gap "
                f"is {found.gap:.1e}. Raise max_iter.",
                NotConvergedWarning,
            )
        self._set_map(L / units, pairs.X.dtype, self.rank)

    def _solve(self, S: Floats, D: Floats, M0: Floats) -> tuple[Floats, Solution]:
        if self.diagonal and self.squared:  # a linear programme: all on the column of best ratio
            scale = column_scales(S)
            ratio = np.einsum("ij,ij->j", D * scale, D * scale)
            best = np.where(np.arange(len(scale)) == np.argmax(ratio), scale, 0.0)
            return np.diag(best), Solution(best, 0.0, 0)
        if self.diagonal:
            w, found = learn_diagonal(S, D, self.max_iter)
            return np.diag(w), found
        if self.squared:
            R = whitening(S)
            u = D @ R
            return (R @ eigh(u.T @ u)[1][:, -1:]).T, Solution(R, 0.0, 0)
        return learn_full(S, D, M0, self.max_iter)


class MMC_Supervised(LabelsOnly, MMC):
    """`MMC` on pairs drawn from class labels, `fit(X, y)`; parameters as in metric-learn."""

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
        super().__init__(
            max_iter=max_iter,
            max_proj=max_proj,
            tol=tol,
            init=init,
            diagonal=diagonal,
            diagonal_c=diagonal_c,
            verbose=verbose,
            preprocessor=preprocessor,
            random_state=random_state,
            squared=squared,
            ridge=ridge,
            n_constraints=n_constraints,
            rank=rank,
        )

    def fit(self, X: Any, y: Any) -> MMC_Supervised:  # type: ignore[override]
        """Draw pairs from the labels y of the rows X and learn from them."""
        super().fit(X, y)
        return self
