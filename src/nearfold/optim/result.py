"""The result of an iterative solver, and the warning when it did not converge."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearfold.errors import NotConvergedWarning, warn
from nearfold.messages import Message
from nearfold.notation import Floats


@dataclass(frozen=True)
class OptimizationResult:
    """The last point, the objective there, and why the iteration stopped."""

    x: Floats
    value: float
    converged: bool
    reason: str
    n_iter: int
    history: list[float] = field(default_factory=list)  # the objective after each iteration


def warn_unless_converged(result: OptimizationResult, name: str, advice: str) -> None:
    """Issue a NotConvergedWarning if the solver of `name` stopped early."""
    if not result.converged:
        warn(
            Message(
                "warn.not_converged",
                name=name,
                reason=result.reason,
                n=result.n_iter,
                advice=advice,
            ),
            NotConvergedWarning,
        )
