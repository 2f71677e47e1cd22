"""The weights of SCML: stochastic dual averaging, then the linear program, to a certified gap.

    min  1/T sum_t max(1 + D_t w, 0) + beta sum_k w_k      over w >= 0
    D_tk = (b_k^T (x_a - x_b))^2 - (b_k^T (x_a - x_c))^2

Its dual, max sum mu over 0 <= mu_t <= 1/T with -D^T mu <= beta, has one constraint per basis, and
needs only the triplets inside the margin and the bases with weight. It is solved over those, and
what is violated is added. The value of w over all triplets bounds the optimum from above, that of
mu, shrunk until it is feasible for all bases, from below; the loop ends when the two meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from nearfold.blocks import spans
from nearfold.errors import InputError
from nearfold.metrics.mahalanobis import factor_map
from nearfold.metrics.scml_bases import LARGEST_PROGRAM
from nearfold.metrics.tuples import Tuples
from nearfold.notation import Array, Floats, Ints
from nearfold.optim import OptimizationResult
from nearfold.run import reporter

_UNIT = 100.0  # unit of gamma, so that its default suits columns of any scale
_SCALED_BY = 1000  # triplets from which the scale of D_tk is estimated for each basis
_FIRST_ROWS = 2000  # at most, of the triplets with a positive loss at the start
_ROWS_ADDED = 500
_BASES_ADDED = 50
_ROUNDS = 60
_ACCURACY = 1e-9  # of the linear programs, whose entries are about 1
_CELLS = 2**16  # entries of D formed at a time


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

    def differences(self, which: Ints, bases: Ints) -> Floats:
        """D_tk of these triplets and bases."""
        D = np.empty((len(which), len(bases)))
        for part in spans(len(which), max(1, _CELLS // len(bases))):
            members = self.rows[which[part]]
            D[part] = _squares(*(self.F[np.ix_(members[:, q], bases)] for q in range(3)))
        return D

    def sum_differences(self, which: Ints, mu: Floats) -> Floats:
        """D^T mu over these triplets, for all bases."""
        total = np.zeros(len(self.B))
        for part in spans(len(which), max(1, _CELLS // len(self.B))):
            members = self.rows[which[part]]
            total += mu[part] @ _squares(*(self.F[members[:, q]] for q in range(3)))
        return total

    def map_of(self, w: Floats) -> Floats:
        """L with M = L^T L = sum w b b^T, of at most d rows."""
        used = w > 0
        L = np.sqrt(w[used])[:, None] * self.B[used]
        return L if len(L) <= L.shape[1] else factor_map(L)

    def margins(self, w: Floats) -> Floats:
        """1 + D_t w of every triplet, its loss where positive."""
        from nearfold.kernels.scml import margins_of

        return np.asarray(margins_of(self.X @ self.map_of(w).T, self.rows))

    def value(self, w: Floats, margins: Floats) -> float:
        """The objective."""
        return float(np.maximum(margins, 0).mean() + self.price @ w)


def _squares(a: Floats, b: Floats, c: Floats) -> Floats:
    """(a - b)^2 - (a - c)^2, as a product that does not cancel."""
    return np.asarray((c - b) * ((a - b) + (a - c)))


def pose(triplets: Tuples, B: Floats, beta: float) -> Problem:
    """The problem, without bases along which the triplets do not differ."""
    rows = triplets.rows
    X = triplets.X - triplets.X.mean(axis=0, dtype=np.float64)
    some = np.linspace(0, len(rows) - 1, min(_SCALED_BY, len(rows))).astype(np.int64)
    size = np.zeros(len(B))
    for part in spans(len(some), max(1, _CELLS // len(B))):
        members = rows[some[part]]
        size += np.abs(_squares(*(X[members[:, q]] @ B.T for q in range(3)))).sum(axis=0)
    size /= len(some)
    keep = size > 1e-14 * size.max(initial=0.0)
    if not keep.any() or not np.isfinite(size).all():
        raise InputError(
            "along the bases the points of the triplets do not differ, or by numbers so large that "
            "their squares overflow."
        )
    B = B[keep] / np.sqrt(size[keep])[:, None]
    return Problem(X, np.ascontiguousarray(X @ B.T), rows, B, beta / size[keep])


def average(
    problem: Problem, gamma: float, max_iter: int, output_iter: int, batch_size: int, random: Any
) -> tuple[Floats, list[float]]:
    """The best of the weights checked, by stochastic dual averaging, and the objective at each."""
    from nearfold.kernels.scml import dual_average

    report, history = reporter(), list[float]()
    K = len(problem.B)
    w, sums, best, lowest = np.zeros(K), np.zeros((2, K)), np.zeros(K), 1.0  # w = 0 costs 1
    for part in spans(max_iter, output_iter):
        drawn = random.randint(0, len(problem.rows), size=(part.stop - part.start, batch_size))
        dual_average(
            problem.F, problem.rows, drawn, problem.price, gamma * _UNIT, part.start, w, sums
        )
        history.append(problem.value(w, problem.margins(w)))
        report("SCML", part.stop, max_iter)
        if history[-1] < lowest:
            lowest, best = history[-1], w.copy()
    return best, history


def solve_restricted(D: Floats, price: Floats, T: int) -> tuple[Floats, Floats] | None:
    """(w, mu T) of the linear program over some triplets and bases; None if the solver fails."""
    found = linprog(
        -np.ones(len(D)),
        A_ub=-D.T,
        b_ub=T * price,
        bounds=(0, 1),
        method="highs-ds",
        options={"presolve": False},  # it finds nothing to remove from a dense program
    )
    if found.x is None or found.ineqlin.marginals is None or found.status != 0:
        return None
    return np.maximum(-found.ineqlin.marginals, 0), np.clip(found.x, 0, 1)


def solve(problem: Problem, w: Floats, tol: float) -> OptimizationResult:
    """The optimum to a relative gap of tol, starting with the bases and triplets that w needs."""
    T, report, history = len(problem.rows), reporter(), list[float]()
    best, margins = w, problem.margins(w)
    upper, lower = problem.value(w, margins), 0.0
    used, inside = _first_program(problem, w, margins)
    reason = "its linear programs were not solved"
    for _ in range(_ROUNDS):
        rows, bases = np.flatnonzero(inside), np.flatnonzero(used)
        if len(rows) * len(bases) > LARGEST_PROGRAM:
            reason = f"too many triplets have a loss to solve for {len(bases)} bases exactly"
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
        reduced = problem.price + problem.sum_differences(rows, found[1]) / T
        short = reduced < -_ACCURACY
        shrink = problem.price[short] / (problem.price - reduced)[short]
        lower = max(lower, float(found[1].sum() / T * shrink.min(initial=1.0)))
        history.append(upper)
        report("SCML, linear program", len(history), None)
        reason = f"the objective {upper:.3g} is only known to be above {lower:.3g}"
        if upper - lower <= tol * upper + _ACCURACY:
            return OptimizationResult(best, upper, True, "gap closed", len(history), history)
        inside[_first(margins, ~inside & (margins > 0), max(_ROWS_ADDED, len(rows) // 2))] = True
        if short.any():  # those nearest to being violated tend to be so in the next round
            used[_first(-reduced, ~used, _BASES_ADDED)] = True
    return OptimizationResult(best, upper, False, reason, len(history), history)


def _first_program(problem: Problem, w: Floats, margins: Floats) -> tuple[Array, Array]:
    """The bases (at least one) and triplets of the first linear program."""
    used = w > 0
    used[np.argsort(-problem.price)[-1:]] |= not used.any()
    inside = np.zeros(len(margins), dtype=bool)
    count = max(300, 3 * int(used.sum()), min(int((margins > 0).sum()), _FIRST_ROWS))
    inside[np.argsort(-margins, kind="stable")[:count]] = True
    return used, inside


def _first(merit: Floats, candidates: Array, count: int) -> Ints:
    """The candidates of largest merit."""
    which = np.flatnonzero(candidates)
    return which[np.argsort(-merit[which], kind="stable")[:count]]
