"""A way down where the gradient is none: at the kinks of a piecewise smooth objective.

At a kink the gradient of one piece may lead uphill on the next, so that no line search along it
succeeds although the point is no minimum. The gradients at points around belong to all pieces that
meet there; the shortest vector in their convex hull, reversed, leads down on each of them, and it
vanishes where the point is stationary (Burke, Lewis and Overton, 2005).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import nnls

from nearfold.notation import Floats

Objective = Callable[[Floats], tuple[float, Floats]]

_POINTS = 16  # around, in which gradients are taken
_RADII = (1e-2, 1e-3, 1e-4)  # of these points, relative to the size of x
_HALVINGS = 20  # of a step, until it lowers the objective


def descend(objective: Objective, x: Floats, value: float) -> tuple[float, Floats]:
    """A lower value and where it is, along sampled gradients; the given ones if there is none."""
    size = float(np.sqrt(np.mean(x**2))) or 1.0
    around = np.random.default_rng(0).uniform(-1, 1, (_POINTS, *x.shape))
    for radius in _RADII:
        gradients = [objective(x + radius * size * step)[1].ravel() for step in around]
        direction = shortest_in_hull(np.array([objective(x)[1].ravel(), *gradients]))
        length = float(np.linalg.norm(direction))
        if length == 0.0:
            continue
        step = -direction.reshape(x.shape) * (np.sqrt(x.size) * size / length)
        for halving in range(_HALVINGS):
            there = x + 0.5**halving * step
            if (lower := objective(there)[0]) < value:
                return lower, there
    return value, x


def shortest_in_hull(G: Floats) -> Floats:
    """The vector of least length in the convex hull of the rows of G."""
    scale = float(np.abs(G).max()) or 1.0
    # min |G^T w|^2 with w >= 0, sum w = 1: up to its scale, the w of min |G^T w|^2 + (sum w - 1)^2.
    A = np.vstack([G.T / scale, np.ones(len(G))])
    w, _ = nnls(A, np.eye(len(A))[-1])
    return np.asarray(w @ G / w.sum())
