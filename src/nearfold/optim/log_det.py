"""A convex loss of N and the LogDet divergence of N from the identity, minimised together.

    f(N) = tr(N) - logdet(N) - d + loss(N),   N = L^T L positive definite

ITML and LSML are of this form in coordinates in which their prior is the identity. Over L the
problem is smooth and unconstrained, and where its gradient vanishes N is the optimum, because L
keeps full rank. It is solved by L-BFGS, restarted from time to time in coordinates in which N is
the identity, which mends bad scaling.

The distance to the optimum is bounded: f is -logdet plus a convex function, so with
r = |L G L^T| (Frobenius), G the gradient over N, f - min f <= -r - log(1 - r), about r^2 / 2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nearfold.notation import Floats
from nearfold.optim.quasi_newton import minimise
from nearfold.optim.result import OptimizationResult

Loss = Callable[[Floats], tuple[float, Floats]]

_ROUND = 100  # iterations of L-BFGS before a restart


def near_identity(loss: Loss, L: Floats) -> tuple[float, Floats]:
    """tr(N) - logdet(N) - d + loss, N = L^T L, and its gradient over L."""
    value, gradient = loss(L)
    _, logdet = np.linalg.slogdet(L)
    if np.isinf(logdet):  # a singular trial point: add a 1e-8 diagonal shift
        return near_identity(loss, L + 1e-8 * np.eye(len(L)))
    divergence = float(np.sum(L * L)) - 2 * float(logdet) - len(L)
    return divergence + value, gradient + 2 * (L - np.linalg.inv(L).T)


def minimise_near_identity(
    loss: Loss, start: Floats, tol: float, max_iter: int, label: str
) -> OptimizationResult:
    """The L (d, d) that minimises `near_identity`, to |L G L^T| <= tol; loss is convex over N."""
    L, d, history = start, len(start), list[float]()
    value, gradient = near_identity(loss, L)
    size = float(np.linalg.norm(gradient @ L.T) / 2)
    reason = f"the limit of {max_iter}"
    while size > tol and len(history) < max_iter:
        base = L

        # Scaled by 2, so that the first step, of length 1, stops short of a singular matrix.
        def over_step(E: Floats, base: Floats = base / 2) -> tuple[float, Floats]:
            value, gradient = near_identity(loss, E @ base)
            return value, gradient @ base.T

        result = minimise(
            over_step,
            2 * np.eye(d),
            max_iter=min(_ROUND, max_iter - len(history)),
            tol=np.finfo(np.float64).eps,
            gradient_tol=tol / d,  # d^2 entries make at most tol, near the end
            label=label,
        )
        L = result.x @ base / 2
        history += result.history
        before, (value, gradient) = value, near_identity(loss, L)
        size = float(np.linalg.norm(gradient @ L.T) / 2)
        if result.n_iter < _ROUND and size > tol and not value < before:
            reason = "no step lowers the objective any more"
            break
    if size <= tol:
        reason = "the gradient vanishes"
    return OptimizationResult(L, value, size <= tol, reason, len(history), history)
