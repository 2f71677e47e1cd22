"""L-BFGS for LMNN, on lists of candidates that are renewed as the map moves.

A round minimises the loss over a list of the pairs that may be impostors (impostors.py), which is
at most the full loss. After 5, 10, 20, ... steps the two are compared: where the full loss has
fallen less than the other, the list is out of date, and the next round begins there with a new one.
A round that has converged is the last one if the two agree to `tol`. So the
end is one of the full objective, whose value there is known exactly.

Where a list is of no use, because the round made the full objective worse or because too many pairs
are within reach, the next round minimises the full loss, until a check finds a list again. Where
that gets no lower either, the hinges of the loss meet, and gradients are sampled around for a way
down (optim/gradient_sampling.py); if there is none worth a step, it is the end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nearfold.metrics.impostors import Candidates
from nearfold.notation import Floats
from nearfold.optim import OptimizationResult, descend, minimise

Loss = Callable[[Floats, Candidates | None], tuple[float, Floats]]
Find = Callable[[Floats], Candidates | None]

_FIRST_CHECK = 5  # steps
_FALLEN = 0.95  # share of the fall of the listed loss by which the full one must have fallen
_SETTLED = 5  # steps over which the objective must have settled: single ones may be small


class Round:
    """L-BFGS from L over a list of candidates, until it converges or the list is out of date."""

    def __init__(
        self, loss: Loss, find: Find, L: Floats, value: float, listed: Candidates | None, tol: float
    ) -> None:
        self._loss, self._find, self._listed, self._tol = loss, find, listed, tol
        # In units of the map, because the first step of L-BFGS has the length 1.
        self._unit = float(np.linalg.norm(L) / np.sqrt(L.size)) or 1.0
        self._next_check = _FIRST_CHECK
        self._values = [value]  # of the loss over the list, after each step
        self._last = self._checked = value
        self.L, self.full, self.fresh = L, value, listed  # at the last check
        self.converged = self.outdated = False

    def run(self, max_iter: int, before: int) -> OptimizationResult:
        """At most `max_iter` steps after the `before` ones of earlier rounds."""
        found = minimise(
            self.objective,
            self.L / self._unit,
            max_iter=max_iter,
            tol=float(np.finfo(np.float64).eps),
            gradient_tol=self._tol,
            label="LMNN",
            callback=self.after_step,
            before=before,
        )
        self.converged |= found.converged
        if not self.outdated:
            self.check(self._unit * found.x, found.value)
        return found

    def objective(self, x: Floats) -> tuple[float, Floats]:
        """The loss over the list; without one, over a list made for this point."""
        L = self._unit * x
        listed = self._find(L) if self._listed is None else self._listed
        self._last, gradient = self._loss(L, listed)
        return self._last, self._unit * gradient

    def after_step(self, x: Floats, n: int) -> None:
        """End the round by StopIteration, as SciPy has it."""
        self._values.append(self._last)
        if n > _SETTLED:
            before = self._values[-_SETTLED - 1]
            self.converged = before - self._last <= _SETTLED * self._allowed(before)
        if n == self._next_check and not self.converged:
            self._next_check *= 2
            self.check(self._unit * x, self._last)
        if self.converged or self.outdated:
            raise StopIteration

    def check(self, L: Floats, value: float) -> None:
        """Compare the loss over the list, of this value at L, with the full one."""
        before, self.L, self.fresh = self.full, L, self._find(L)
        if self._listed is None:
            self.full, self.outdated = value, self.fresh is not None
            return
        # Without a fresh list there are far too many impostors: the round went astray.
        self.full = np.inf if self.fresh is None else self._loss(L, self.fresh)[0]
        self.outdated = before - self.full < _FALLEN * (self._checked - value)
        self._checked = value

    @property
    def complete(self) -> bool:
        """Whether the losses over the list and over all pairs agree at the last check."""
        return self._listed is None or self.full - self._checked <= self._allowed(self.full)

    def _allowed(self, value: float) -> float:
        return self._tol * max(abs(value), 1.0)


def minimise_in_rounds(
    loss: Loss, find: Find, L: Floats, *, max_iter: int, tol: float
) -> OptimizationResult:
    """The minimum of loss(L, None), given find(L), the candidates at L, and loss(L, candidates)."""
    history, listed = list[float](), find(L)
    value, reason = loss(L, listed)[0], f"the limit of {max_iter}"
    while len(history) < max_iter:
        work = Round(loss, find, L, value, listed, tol)
        found = work.run(max_iter - len(history), len(history))
        history += found.history
        better = work.full < value
        if better:
            L, value, listed = work.L, work.full, work.fresh
        if history:
            history[-1] = value
        if work.complete and work.converged:
            reason = f"the objective falls by less than {tol:g} per step, relative"
            return OptimizationResult(L, value, True, reason, len(history), history)
        if not better:
            if listed is None:
                lower, there = descend(lambda x: loss(x, find(x)), L, value)
                history.append(lower)
                if value - lower <= tol * max(abs(value), 1.0):
                    reason = "no direction lowers the objective any more"
                    return OptimizationResult(there, lower, True, reason, len(history), history)
                L, value = there, lower
            listed = None
    return OptimizationResult(L, value, False, reason, len(history), history)
