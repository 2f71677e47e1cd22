"""L-BFGS for LMNN, on lists of candidates that are renewed as the map moves.

A round minimises the loss over a list of the pairs that may be impostors (impostors.py). The list
is compared with the full loss after 5, 10, 20, ... steps: where it misses impostors that matter
to `tol`, the next round begins there with a new list. So the end is one of the full objective: its
value there is known exactly, and the loss over the list, which is a lower bound everywhere, is
within `tol` of it.

Where a list is of no use, because the round made the full objective worse or because too many pairs
are within reach, the next round minimises the full loss, until a check finds a list again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nearfold.metrics.impostors import Candidates
from nearfold.notation import Floats
from nearfold.optim import OptimizationResult, minimise

Loss = Callable[[Floats, Candidates | None], tuple[float, Floats]]
Find = Callable[[Floats], Candidates | None]

_FIRST_CHECK = 5  # steps
_SETTLED = 10  # steps after a restart of L-BFGS before a small one means convergence


class Round:
    """L-BFGS from L over a list of candidates, until it converges or the list is out of date."""

    def __init__(self, loss: Loss, find: Find, listed: Candidates | None, tol: float) -> None:
        self._loss, self._find, self._listed, self._tol = loss, find, listed, tol
        self._last = self._value = np.inf
        self._next_check = _FIRST_CHECK
        self.converged = self.outdated = False
        self.fresh: Candidates | None = None  # the list at the last check
        self.full = np.inf  # and the full loss

    def objective(self, L: Floats) -> tuple[float, Floats]:
        """The loss over the list."""
        self._last, gradient = self._loss(L, self._listed)
        return self._last, gradient

    def after_step(self, L: Floats, n: int) -> None:
        """End the round by StopIteration, as SciPy has it."""
        before, self._value = self._value, self._last
        if n >= _SETTLED and before - self._value <= self._tol * max(abs(before), 1.0):
            self.converged = True
            raise StopIteration
        if n == self._next_check:
            self._next_check *= 2
            if not self.check(L, self._value):
                raise StopIteration  # L and its full loss are where the next round begins

    def check(self, L: Floats, value: float) -> bool:
        """Whether the list, and its loss of this value at L, still serve."""
        if not self.outdated:
            self.fresh = self._find(L)
            if self._listed is None:
                self.full, self.outdated = value, self.fresh is not None
            else:
                self.full = self._loss(L, self.fresh)[0]
                self.outdated = self.full - value > self._tol * max(abs(self.full), 1.0)
        return not self.outdated


def minimise_in_rounds(
    loss: Loss, find: Find, L: Floats, *, max_iter: int, tol: float
) -> OptimizationResult:
    """The minimum of loss(L, None), given find(L), the candidates at L, and loss(L, candidates)."""
    history, listed = list[float](), find(L)
    value, reason = loss(L, listed)[0], f"the limit of {max_iter}"
    while len(history) < max_iter:
        work = Round(loss, find, listed, tol)
        found = minimise(
            work.objective,
            L,
            max_iter=max_iter - len(history),
            tol=float(np.finfo(np.float64).eps),
            gradient_tol=tol,
            label="LMNN",
            callback=work.after_step,
            before=len(history),
        )
        history += found.history
        serves = work.check(found.x, found.value)
        if work.full < value:
            L, value, listed = found.x, work.full, work.fresh
        else:
            listed = None
        if history:
            history[-1] = value
        if serves and (work.converged or found.converged):
            reason = f"the objective falls by less than {tol:g} in a step, relative"
            return OptimizationResult(L, value, True, reason, len(history), history)
        if found.n_iter == 0 and listed is None:
            reason = "no step lowers the objective any more"
            break
    return OptimizationResult(L, value, False, reason, len(history), history)
