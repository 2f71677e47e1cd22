"""Adam on batches of rows, the step falling to zero along a cosine.

The gradient of a sum over rows is estimated from a batch of them. Steps are in units of the size
of the point, because Adam's own steps know nothing of it: every entry moves by at most about
`rate` times the root mean square of all entries per step. It is meant to refine a start that has
about the right size; from a start that is far too small or too large it is slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearfold.notation import Floats, Ints
from nearfold.optim.ended import Ended
from nearfold.run import reporter

_MEAN, _SQUARE = 0.9, 0.99  # how slowly the averages of gradients and their squares forget


def adam(
    objective: Callable[[Floats, Ints], tuple[float, Floats]],
    start: Floats,
    *,
    n_rows: int,
    batch_size: int,
    n_epochs: int,
    random: Any,
    label: str,
    rate: float = 0.03,
    callback: Callable[[Floats, int], None] | None = None,
) -> Ended:
    """Minimise a sum over rows, given its value and gradient over any batch of them.

    Values, in `history` too, are sums over all rows as met during a pass. Converged means that the
    last pass was not worse than the one before it.
    """
    x = np.array(start, dtype=np.float64)
    batches = max(1, round(n_rows / batch_size))
    total, t, report = n_epochs * batches, 0, reporter()
    mean, square = np.zeros_like(x), np.zeros_like(x)
    history: list[float] = []
    for epoch in range(1, n_epochs + 1):
        value = 0.0
        for batch in np.array_split(random.permutation(n_rows), batches):
            part, gradient = objective(x, batch)
            value += part
            t += 1
            mean += (1 - _MEAN) * (gradient - mean)
            square += (1 - _SQUARE) * (gradient**2 - square)
            size = np.sqrt(square / (1 - _SQUARE**t)) + 1e-12 * np.sqrt(square.max() + 1e-300)
            step = rate * np.sqrt(np.mean(x**2)) * 0.5 * (1 + np.cos(np.pi * t / total))
            x -= step * (mean / (1 - _MEAN**t)) / size
            report(label, t, total)
        history.append(value)
        if callback is not None:
            callback(x, epoch)
    improved = n_epochs < 2 or history[-1] <= history[-2]
    reason = f"all {n_epochs} passes were made" if improved else "the last pass was no better"
    return Ended(x, history[-1], improved, reason, n_epochs, history)
