"""How an iteration ended, and the warning when it did not converge."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearfold.errors import NotConvergedWarning, warn
from nearfold.notation import Floats


@dataclass(frozen=True)
class Ended:
    """The last point, the objective there, and how the iteration came to it."""

    x: Floats
    value: float
    converged: bool
    reason: str
    n_iter: int
    history: list[float] = field(default_factory=list)  # the objective after each iteration


def warn_unless_converged(ended: Ended, name: str, advice: str) -> None:
    """Say that the iteration of `name` stopped early, if it did."""
    if not ended.converged:
        warn(
            f"{name} did not converge: {ended.reason} after {ended.n_iter} iterations. {advice}",
            NotConvergedWarning,
        )
