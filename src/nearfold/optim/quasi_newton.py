"""L-BFGS (SciPy's), with progress reports, cancellation and an OptimizationResult."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from nearfold.notation import Floats
from nearfold.optim.result import OptimizationResult
from nearfold.run import reporter

Objective = Callable[[Floats], tuple[float, Floats]]


def minimise(
    objective: Objective,
    start: Floats,
    *,
    max_iter: int,
    tol: float | None = None,
    gradient_tol: float | None = None,
    label: str,
    callback: Callable[[Floats, int], None] | None = None,
    memory: int = 10,
    before: int = 0,
) -> OptimizationResult:
    """Minimise an objective that returns its value and gradient, from `start` (of any shape).

    `tol`: as in scipy.optimize.minimize, both for the relative decrease of the objective and for
    the largest entry of the gradient; `gradient_tol` replaces the latter. `before`: iterations of
    earlier calls, for the progress report. The callback may end the work with StopIteration.
    """
    shape, report = start.shape, reporter()
    history: list[float] = []
    values: list[float] = []

    def flat(x: Floats) -> tuple[float, Floats]:
        value, gradient = objective(x.reshape(shape))
        values.append(float(value))
        return values[-1], np.asarray(gradient, dtype=np.float64).ravel()

    def after_iteration(x: Floats) -> None:
        history.append(values[-1])
        report(label, before + len(history), before + max_iter)
        if callback is not None:
            callback(x.reshape(shape), len(history))

    options: dict[str, float] = {
        "maxiter": max_iter,
        "maxcor": memory,
        "maxfun": 20 * max_iter + 20,
    }
    if gradient_tol is not None:
        options["gtol"] = gradient_tol
    found = minimize(
        flat,
        np.asarray(start, dtype=np.float64).ravel(),
        jac=True,
        method="L-BFGS-B",
        tol=tol,
        options=options,
        callback=after_iteration,
    )
    return OptimizationResult(
        x=np.asarray(found.x).reshape(shape),
        value=float(found.fun),
        converged=bool(found.success),
        reason=str(found.message).strip().rstrip(".").lower(),
        n_iter=int(found.nit),
        history=history,
    )
