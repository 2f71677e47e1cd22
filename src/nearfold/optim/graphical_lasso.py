"""The graphical lasso: a sparse inverse of a positive definite matrix S (d, d).

    min over M  tr(M S) - logdet M + alpha sum_{i != j} |M_ij|

Its dual, max logdet U + d over U with U_ii = S_ii and |U_ij - S_ij| <= alpha, bounds the optimum
from below: clip M^-1 into the box, and if the result is positive definite the difference of the two
values is the duality gap.

Steps: scale S to a unit diagonal, so that alpha becomes one number per entry; then, in turn,
proximal gradient steps with Barzilai-Borwein lengths, which find the zeros and signs of M, and a
Newton step on the entries that are or should be nonzero, by conjugate gradients preconditioned with
M (.) M; until the gap is at most tol d.

Cost: O(d^3) per step; some twenty (d, d) matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigvalsh
from scipy.linalg.lapack import dpotri

from nearfold.errors import SolverError
from nearfold.notation import Array, Floats
from nearfold.optim.result import OptimizationResult
from nearfold.run import reporter

_CG_STEPS = 30
_FIRST_NEWTON = 3  # rounds of gradient steps that come before, to find the zeros


@dataclass(frozen=True)
class Point:
    """M, its inverse W, logdet M, and the smooth and the whole objective."""

    M: Floats
    W: Floats
    logdet: float
    smooth: float
    value: float


def evaluate(M: Floats, S: Floats, alpha: Floats) -> Point | None:
    """The objective at M; None where M is not positive definite."""
    try:
        R = cholesky(M, lower=True)
    except LinAlgError:
        return None
    lower = np.tril(dpotri(R, lower=1)[0])
    W = lower + np.tril(lower, -1).T
    logdet = 2 * float(np.log(np.diagonal(R)).sum())
    smooth = float(np.sum(M * S)) - logdet
    return Point(M, W, logdet, smooth, smooth + float(np.sum(alpha * np.abs(M))))


def duality_gap(at: Point, S: Floats, alpha: Floats) -> float:
    """How far the objective is above its minimum, at most; inf if W gives no bound yet."""
    try:
        R = cholesky(np.clip(at.W, S - alpha, S + alpha), lower=True)
    except LinAlgError:
        return np.inf
    return at.value - 2 * float(np.log(np.diagonal(R)).sum()) - len(S)


def gradient_step(at: Point, S: Floats, alpha: Floats, length: float) -> tuple[Point, float]:
    """A proximal gradient step, shortened until it lowers the objective; the next length."""
    G = S - at.W
    slack = 1e-13 * (abs(at.smooth) + 1)
    while length > 1e-30:
        N = at.M - length * G
        N = np.sign(N) * np.maximum(np.abs(N) - length * alpha, 0)
        step, new = N - at.M, evaluate(N, S, alpha)
        square = float(np.sum(step * step))
        if new and new.smooth <= at.smooth + np.sum(G * step) + square / (2 * length) + slack:
            bend = float(np.sum(step * (at.W - new.W)))
            return new, (square / bend if bend > 0 else length)
        length /= 2
    return at, length


def newton_step(at: Point, S: Floats, alpha: Floats) -> Point:
    """A Newton step among the matrices with the signs of M, where zeros may take a sign."""
    M, W, G = at.M, at.W, S - at.W
    free = (M != 0) | (np.abs(G) > alpha)
    sign = np.where(M != 0, np.sign(M), -np.sign(G))
    gradient = np.where(free, G + alpha * sign, 0)
    step = _solve_newton(M, W, free, gradient)
    slope, length = float(np.sum(gradient * step)), 1.0
    for _ in range(12):
        N = at.M + length * step
        N = np.where((alpha > 0) & (N * sign < 0), 0, N)
        new = evaluate(N, S, alpha)
        if new and new.value <= at.value + 1e-4 * length * slope:
            return new
        length /= 2
    return at


def _solve_newton(M: Floats, W: Floats, free: Array, gradient: Floats) -> Floats:
    """D on the free entries with (W D W) = -gradient there, by preconditioned conjugate gradients.

    Without fixed entries the preconditioner is the inverse.
    """
    D, residual = np.zeros_like(M), -gradient
    z = np.where(free, M @ residual @ M, 0)
    direction, size = z, float(np.sum(residual * z))
    goal = 1e-4 * size
    for _ in range(_CG_STEPS):
        if size <= goal:
            break
        bent = np.where(free, W @ direction @ W, 0)
        length = size / float(np.sum(direction * bent))
        D = D + length * direction
        residual = residual - length * bent
        z = np.where(free, M @ residual @ M, 0)
        before, size = size, float(np.sum(residual * z))
        direction = z + size / before * direction
    return (D + D.T) / 2  # products are symmetric only up to rounding


def start_at(S: Floats, alpha: Floats) -> Point:
    """The better of the answers for alpha = inf and for alpha = 0; S has a unit diagonal."""
    sparse, full = evaluate(np.eye(len(S)), S, alpha), evaluate(S, S, alpha)
    dense = evaluate(full.W, S, alpha) if full else None
    found = min((at for at in (sparse, dense) if at), key=lambda at: at.value, default=None)
    if found is None or not np.isfinite(found.value):
        raise SolverError("the graphical lasso needs a finite, positive definite matrix.")
    return found


def graphical_lasso(
    S: Floats, alpha: float, tol: float, max_iter: int, label: str = "graphical lasso"
) -> OptimizationResult:
    """The M that minimises tr(M S) - logdet M + alpha sum_{i != j} |M_ij|, to a gap of tol d."""
    report, d = reporter(), len(S)
    scale = np.sqrt(np.diagonal(S))
    S = S / np.outer(scale, scale)  # the gap does not change with the scale
    weights = alpha / np.outer(scale, scale)
    np.fill_diagonal(weights, 0)
    at, history = start_at(S, weights), list[float]()
    length = 1 / float(eigvalsh(at.W)[-1]) ** 2
    gap = duality_gap(at, S, weights)
    while not gap <= tol * d and len(history) < max_iter:
        before = at
        for _ in range(2):
            at, length = gradient_step(at, S, weights, length)
        if len(history) >= _FIRST_NEWTON:
            at = newton_step(at, S, weights)
        history.append(at.value + 2 * float(np.log(scale).sum()))
        report(label, len(history), max_iter)
        gap = duality_gap(at, S, weights)
        if at is before:
            break
    return OptimizationResult(
        at.M / np.outer(scale, scale),
        at.value + 2 * float(np.log(scale).sum()),
        bool(gap <= tol * d),
        f"the duality gap is {gap:.2g}",
        len(history),
        history,
    )
