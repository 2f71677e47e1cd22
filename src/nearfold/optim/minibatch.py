"""Adam on batches of rows, with a cosine schedule that decays the step to zero.

The gradient of a sum over rows is estimated from a batch of them. Steps are relative to the scale
of x: per step every entry moves by at most about `rate` times the root mean square of all entries.
The method refines a start of about the right scale; from one that is far too small or too large it
is slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearfold.notation import Floats, Ints
from nearfold.optim.result import OptimizationResult
from nearfold.run import reporter

_MEAN, _SQUARE = 0.9, 0.99  # decay rates of the running means of gradients and their squares


Objective = Callable[[Floats, Ints], tuple[float, Floats]]


def adam(
    open_pass: Callable[[Ints], Objective],
    start: Floats,
    *,
    n_rows: int,
    batch_size: int,
    n_epochs: int,
    random: Any,
    label: str,
    most: int | None = None,
    rate: float = 0.03,
    tol: float = 1e-2,  # sampling noise alone moves a pass by some thousandths
    callback: Callable[[Floats, int], None] | None = None,
) -> OptimizationResult:
    """Minimise a sum over rows, given its value and gradient over any batch of them.

    A pass visits all rows, or `most` of them, drawn anew. `open_pass`, given their numbers in
    ascending order, says how the sum over batches of them is had; a batch is given by places among
    these numbers. The values in `history` are sums over all
    rows, accumulated during each pass (of those visited, scaled up). Converged means that the
    objective has reached a plateau: the last pass changed it by at most `tol`, relative.
    """
    x = np.array(start, dtype=np.float64)
    visited = n_rows if most is None else min(n_rows, most)
    batches = max(1, round(visited / batch_size))
    total, t, report = n_epochs * batches, 0, reporter()
    mean, square = np.zeros_like(x), np.zeros_like(x)
    history: list[float] = []
    for epoch in range(1, n_epochs + 1):
        value = 0.0
        drawn = random.permutation(n_rows)[:visited]
        rows = np.sort(drawn)
        objective = open_pass(rows)
        for batch in np.array_split(np.searchsorted(rows, drawn), batches):
            part, gradient = objective(x, batch)
            value += part
            t += 1
            mean += (1 - _MEAN) * (gradient - mean)
            square += (1 - _SQUARE) * (gradient**2 - square)
            size = np.sqrt(square / (1 - _SQUARE**t)) + 1e-12 * np.sqrt(square.max() + 1e-300)
            step = rate * np.sqrt(np.mean(x**2)) * 0.5 * (1 + np.cos(np.pi * t / total))
            x -= step * (mean / (1 - _MEAN**t)) / size
            report(label, t, total)
        history.append(value * (n_rows / visited))
        if callback is not None:
            callback(x, epoch)
    change = (history[-2] - history[-1]) / max(abs(history[-1]), 1e-300) if n_epochs > 1 else np.inf
    if abs(change) <= tol:
        reason = f"the last pass changed the objective by less than {tol:g}, relative"
    elif n_epochs < 2:
        reason = "a single pass cannot show that the objective has stopped improving"
    else:
        trend = "was still falling" if change > 0 else "was rising"
        reason = f"the objective {trend} in the last pass (by {abs(change):.1e}, relative)"
    return OptimizationResult(x, history[-1], abs(change) <= tol, reason, n_epochs, history)
