"""The problem of ITML, solved to a certified gap.

    min   D(A, A0) + gamma sum_c (xi_c / b_c - log(xi_c / b_c) - 1)
    s.t.  v_c^T A v_c <= xi_c  (must-link, b_c = u^2),   >= xi_c  (cannot-link, b_c = l^2)

    D(A, A0) = tr(A A0^-1) - logdet(A A0^-1) - d

Symbols: v_c the difference of pair c; delta_c = +1 for must-link, -1 for cannot-link; lam_c >= 0
its multiplier. At the optimum

    A^-1 = A0^-1 + sum_c delta_c lam_c v_c v_c^T,   1 / xi_c = 1 / b_c - delta_c lam_c / gamma

With slack, the least xi_c follows from A, which leaves a smooth convex function of A: solved over
A = C L^T L C^T, A0 = C C^T, by optim/log_det.py. Without slack (gamma = inf): the paper's cyclic
Bregman projections, one constraint after the other, each a rank-one update of A (compiled), until
all bounds are kept and the duality gap is closed.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from nearfold.errors import warn
from nearfold.linalg import square_norms
from nearfold.messages import Message
from nearfold.notation import Floats, Ints
from nearfold.optim import OptimizationResult
from nearfold.optim.log_det import minimise_near_identity
from nearfold.run import one_blas_thread, reporter

_REFRESH = 20  # sweeps after which A is computed anew, against the drift of its updates


def slack_price(p: Floats, delta: Floats, b: Floats, gamma: float) -> tuple[float, Floats]:
    """gamma sum (xi/b - log(xi/b) - 1) with the least slack for squared distances p; multipliers.

    A must-link pair within its bound needs no slack, xi = b; one beyond needs xi = p. So it is a
    smooth convex function of p, and its derivative delta lam follows from 1/xi.
    """
    xi = np.where(delta > 0, np.maximum(p, b), np.minimum(p, b))
    ratio = xi / b
    return gamma * float(np.sum(ratio - np.log(ratio) - 1)), gamma * delta * (1 / b - 1 / xi)


def solve_with_slack(
    Y: Floats, delta: Floats, b: Floats, gamma: float, tol: float, max_iter: int
) -> tuple[OptimizationResult, Floats]:
    """L with A = L^T L nearest to the identity, and the multipliers, gamma finite."""

    def loss(L: Floats) -> tuple[float, Floats]:
        Z = Y @ L.T
        value, lam = slack_price(square_norms(Z), delta, b, gamma)
        return value, 2 * (Z.T * (delta * lam)) @ Y

    result = minimise_near_identity(loss, np.eye(Y.shape[1]), tol, max_iter, "ITML")
    Z = Y @ result.x.T
    return result, slack_price(square_norms(Z), delta, b, gamma)[1]


def map_of_multipliers(Y: Floats, delta: Floats, lam: Floats) -> tuple[Floats, float]:
    """L with A = L^T L, and -logdet A, from A^-1 = I + sum delta lam y y^T."""
    R = cholesky(np.eye(Y.shape[1]) + (Y.T * (delta * lam)) @ Y, lower=True)
    L = solve_triangular(R, np.eye(len(R)), lower=True)
    return L, 2.0 * float(np.log(np.diagonal(R)).sum())


def solve_without_slack(
    Y: Floats, delta: Floats, b: Floats, tol: float, max_iter: int
) -> tuple[OptimizationResult, Floats]:
    """The same for gamma = inf, by sweeps of projections onto one constraint after the other.

    The divergence D of the A of lam, plus the sum of delta lam (p - b), bounds the optimum from
    below; D itself does so from above once no bound is violated.
    """
    from nearfold.kernels.itml import project_all

    report, history = reporter(), list[float]()
    lam, A, L = np.zeros(len(Y)), np.eye(Y.shape[1]), np.eye(Y.shape[1])
    converged, reason = False, "some bounds are still violated"
    for sweep in range(1, max_iter + 1):
        project_all(A, Y, delta, 1 / b, lam)
        report("ITML", sweep, max_iter)
        try:
            L, divergence = map_of_multipliers(Y, delta, lam)
        except LinAlgError:
            reason = "the bounds contradict each other"
            break
        Z = Y @ L.T
        p = square_norms(Z)
        divergence -= float(np.sum(delta * lam * p))  # tr(A) - d, from tr(A A^-1) = d
        gap = abs(float(np.sum(delta * lam * (p - b))))
        history.append(divergence)
        if gap <= tol * max(divergence, 1.0) and (delta * (p / b - 1) <= tol).all():
            converged, reason = True, "all bounds are kept"
            break
        if sweep % _REFRESH == 0:
            A = L.T @ L
    value = history[-1] if history else np.inf
    return OptimizationResult(L, value, converged, reason, len(history), history), lam


def learn_map(
    V: Floats, sign: Ints, prior: Floats, bounds: Floats, gamma: float, tol: float, max_iter: int
) -> tuple[OptimizationResult, Floats, Floats]:
    """The result, the map with A = map^T map, and the multiplier of every pair."""
    differs = square_norms(V) > 0  # a pair of equal points constrains nothing
    if not differs[sign < 0].all():
        warn(Message("warn.itml_equal", n=int((~differs[sign < 0]).sum())))
    b = np.where(sign > 0, bounds[0] ** 2, bounds[1] ** 2)[differs]
    delta, C = sign[differs].astype(np.float64), cholesky(prior, lower=True)
    lam = np.zeros(len(differs))
    with one_blas_thread():
        Y = np.ascontiguousarray(V[differs] @ C)
        if np.isinf(gamma):
            result, lam[differs] = solve_without_slack(Y, delta, b, tol, max_iter)
        else:
            result, lam[differs] = solve_with_slack(Y, delta, b, gamma, tol, max_iter)
    return result, result.x @ C.T, lam
