"""The convex problem of MMC, (10.39), solved to a certified duality gap.

Symbols: rows v of S and D are the differences of must-link and cannot-link pairs, A = S^T S.

Steps
  1. write N = A^(1/2) M A^(1/2) and u = A^(-1/2) v: then f(N) = sum_D sqrt(u^T N u) is to be
     maximised over tr N = 1, N >= 0, and the optimum of (10.39) is 1 / f^2
  2. N = Q Q^T, and L-BFGS on the scale-free |Q| / sum_D |Q^T u|
  3. certify. With G = sum_D u u^T / s, s = |Q^T u|, the inequality 2 sqrt(t) <= t / s + s gives
     f(N')^2 <= lambda_max(G) f(N) for every N': so no metric is better than this one by more than
     the factor lambda_max(G) / f - 1, the duality gap. Where the gap is not closed the top
     eigenvector of G is a direction of ascent: it joins Q, and step 2 goes on
  4. scale M so that the constraint holds with equality

For a diagonal M, Q has one entry per column, and the gap is that of max(G_kk). With squared
distances in the constraint both forms are solved directly: an eigenvector, a linear program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.linalg import eigh

from nearfold.linalg import square_norms, whiten
from nearfold.notation import Floats
from nearfold.optim import minimise
from nearfold.state import State, number

SOLVED = 1e-6  # a relative duality gap below this is called solved
RIDGE = 1e-3  # added to A, relative to its mean eigenvalue, where the problem is unbounded
COLUMNS = 32  # of Q at the start: optimal metrics have low rank
_AIM = 1e-9  # the gap at which the iteration stops
_ROUNDS = 20
_SINGULAR = 1e-10  # eigenvalues of A below this share of the largest count as zero
_VANISHED = 1e-4  # columns of Q below this share of its norm
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
    """The factor Q of N, in coordinates where A is the identity; its gap; the iterations."""

    Q: Floats
    gap: float
    n_iter: int


def solve(
    S: Floats, D: Floats, M0: Floats, max_iter: int, diagonal: bool, squared: bool
) -> tuple[Floats, Solution]:
    """L with M = L^T L up to scale, in any of the four forms of the problem; M0 is the start."""
    if diagonal and squared:  # a linear program: all weight on the column of best ratio
        scale = column_scales(S)
        ratio = square_norms((D * scale).T)
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


def with_ridge(S: Floats, D: Floats, ridge: float | None, diagonal: bool) -> tuple[Floats, int]:
    """S with rows that add the ridge to A, and in how many directions M is unbounded without it."""
    unbounded = 0
    if ridge is None:
        # Does any cannot-link difference have a component in null(A)?
        lam, U = (np.sum(S**2, axis=0), np.eye(S.shape[1])) if diagonal else eigh(S.T @ S)
        reach = np.linalg.norm(D @ U, axis=0)
        null = (lam <= _SINGULAR * lam.max()) & (reach > 1e-8 * reach.max())
        unbounded = int(null.sum())
        ridge = RIDGE if unbounded else 0.0
    if ridge == 0:
        return S, unbounded
    size = np.sqrt(ridge * np.mean(np.sum(S**2, axis=0)))
    return np.vstack([S, size * np.eye(S.shape[1])]), unbounded


def whitening(S: Floats) -> Floats:
    """R (d, q) with R^T A R = I, over the directions in which must-link pairs vary."""
    lam, U = eigh(S.T @ S)
    return whiten(lam, U, _SINGULAR * lam[-1])


def column_scales(S: Floats) -> Floats:
    """The same for a diagonal M: 1 / sqrt(A_kk), 0 where no must-link pair varies."""
    a = square_norms(S.T)
    varies = a > _SINGULAR * a.max()
    return np.where(varies, 1 / np.sqrt(np.where(varies, a, 1.0)), 0.0)


def column_units(S: Floats, D: Floats) -> Floats:
    """The size of the differences in each column.

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
    u /= np.sqrt(np.mean(square_norms(u)))
    back = np.linalg.pinv(R)
    lam, U = eigh(back @ M0 @ back.T)  # N = A^(1/2) M A^(1/2) at the start: its main directions
    k = min(COLUMNS, len(lam))
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
    objective = float(np.sum((S @ L.T) ** 2))  # (10.39)
    constraint = float(np.sum(lengths**2) if squared else lengths.sum())  # (10.39)
    return L, Certificate(objective, constraint, objective / (1 + gap), gap)


def _climb(
    objective: Callable[[Floats], tuple[float, Floats]],
    gap_at: Callable[[Floats], tuple[float, Floats]],
    extend: Callable[[Floats, Floats], Floats],
    Q: Floats,
    max_iter: int,
) -> Solution:
    """L-BFGS, and again with a new direction of ascent, until the gap is closed."""
    n_iter, best = 0, Solution(Q, np.inf, 0)
    for _ in range(_ROUNDS):
        result = minimise(objective, Q, max_iter=max_iter, tol=1e-16, label="MMC", memory=20)
        n_iter += result.n_iter
        Q = result.x / np.linalg.norm(result.x)
        gap, direction = gap_at(Q)
        if gap >= best.gap / 2:
            break
        best = Solution(Q, gap, n_iter)
        if gap <= _AIM:
            break
        Q = extend(Q, direction)
    return replace(best, n_iter=n_iter)


def maximise_roots(u: Floats, Q: Floats, max_iter: int) -> Solution:
    """Maximise sum_j |Q^T u_j| over |Q|_F = 1; Q Q^T is then optimal, as the gap proves."""
    best = _climb(partial(_scale_free, u), partial(_gap, u), _join, Q, max_iter)
    # Vanishing columns would raise the rank of M; they are dropped if the gap stays closed.
    Q = _rotated(best.Q)
    Q = Q[:, np.linalg.norm(Q, axis=0) > _VANISHED]
    gap, _ = _gap(u, Q)
    return Solution(Q, gap, best.n_iter) if gap <= 0.1 * SOLVED else best


def _scale_free(u: Floats, Q: Floats) -> tuple[float, Floats]:
    """log |Q| - log sum_j |Q^T u_j| and its gradient."""
    W = u @ Q
    s = np.maximum(np.sqrt(square_norms(W)), _TINY)
    f, size = float(s.sum()), float(np.einsum("ij,ij->", Q, Q))
    return 0.5 * np.log(size) - np.log(f), Q / size - (u.T @ (W / s[:, None])) / f


def _gap(u: Floats, Q: Floats) -> tuple[float, Floats]:
    """The duality gap at Q, and the top eigenvector of G."""
    s = np.maximum(np.linalg.norm(u @ Q, axis=1), _TINY)
    G = (u.T / s) @ u
    lam, w = eigh(G, subset_by_index=[len(G) - 1, len(G) - 1])
    return max(float(lam[0] * np.sum(Q**2) / s.sum()) - 1.0, 0.0), w


def _rotated(Q: Floats) -> Floats:
    """Q with orthogonal columns, largest first; Q Q^T is the same."""
    return np.asarray(Q @ np.linalg.svd(Q, full_matrices=False)[2].T)


def _join(Q: Floats, w: Floats) -> Floats:
    """Q with the direction w added: in place of a vanished column, or in a new one."""
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

    def extend(q: Floats, ratio: Floats) -> Floats:  # columns whose weight should not be 0
        return np.maximum(np.abs(q), np.where(ratio > 1, 1e-3, 0.0))

    best = _climb(scale_free, gap_at, extend, q, max_iter)
    best = replace(best, Q=np.abs(best.Q))
    q = np.where(best.Q > _VANISHED, best.Q, 0.0)
    gap, _ = gap_at(q)
    return Solution(q, gap, best.n_iter) if gap <= 0.1 * SOLVED else best
