"""How many axes the sketches of the pruned search should have: a pilot and a cost model.

A few sampled rows play the query. What each number of axes would let through is counted on the
sample, priced with the measured cost of the stages, and the cheapest is taken. For data without
strong directions that is all columns.
"""

from __future__ import annotations

import numpy as np

from nearfold.linalg import square_norms, squared_distances, top_eigenpairs
from nearfold.notation import Floats

SAMPLE = 2048  # rows that show the principal axes and the cost of each plan
_PILOTS = 64  # of which this many play the query
AXES = (3, 7, 15, 31, 47, 63, 95, 127, 191, 255)  # to choose from; the tail's norm comes on top
_ROUNDING = 0.03  # what digits may hide of a distance, as a share of the rows' length

# Relative cost of the stages, in nanoseconds per pair on one core (measured, AVX-512 Zen 5;
# only the ratios matter, and a factor of two either way moves the choice by one step).
_COST_PRODUCT = 0.002  # per axis
_COST_SCAN = 0.06
_COST_LONG = (20.0, 0.25)  # per survivor, per axis: its rows are seldom in the cache
_COST_TRUE = (60.0, 0.35)
_COST_SKETCH = 0.05  # per row, feature and axis


def principal_axes(sample: Floats, count: int) -> Floats:
    """Leading principal axes (d, count) of a centred sample, roughly: any axes are valid."""
    m, d = sample.shape
    if d <= 1024:
        return top_eigenpairs(sample.T @ sample, count).vectors
    test = np.random.default_rng(0).standard_normal((m, min(count + 16, m)), np.float32)
    axes = np.linalg.qr(sample.T @ test)[0]
    for _ in range(2):
        axes = np.linalg.qr(sample.T @ (sample @ axes))[0]
    Z = sample @ axes
    return axes @ top_eigenpairs(Z.T @ Z, min(count, axes.shape[1])).vectors


def choose_axes(sample: Floats, axes: Floats, n: int, k: int) -> int:
    """The cheapest number of axes for n rows, from what each would let through on a pilot sample.

    0 stands for all columns. A pilot's k-th distance among n rows is its (k m / n)-th among m
    sampled ones. Where that is less than the first, what the first lets through is too much by
    about as large a factor.
    """
    m, d = sample.shape
    pilots = sample[: min(_PILOTS, m)]
    square = square_norms(sample)
    true = squared_distances(pilots, sample, square[: len(pilots)], square)
    np.fill_diagonal(true, np.inf)
    rank = min(max(1, round(k * m / n)), m - 1) if m > 1 else 1
    reach = np.partition(true, rank - 1, axis=1)[:, rank - 1 : rank] if m > 1 else true[:, :1]
    blurred = np.square(np.sqrt(np.maximum(reach, 0.0)) + _ROUNDING * np.sqrt(square.mean()))
    fewer = min(1.0, k * m / n / rank)
    measure = (_COST_TRUE[0] + _COST_TRUE[1] * d) * fewer
    whole = float((true <= blurred).mean())
    best = (d * _COST_PRODUCT + _COST_SCAN + whole * measure, 0)
    part = sample @ axes
    for h in (h for h in AXES if h <= axes.shape[1]):
        tail = np.sqrt(np.maximum(square - square_norms(part[:, :h]), 0.0))
        head = np.column_stack([part[:, :h], tail])
        size = square_norms(head)
        bound = squared_distances(head[: len(pilots)], head, size[: len(pilots)], size)
        cost = h * _COST_PRODUCT + _COST_SCAN
        cost += float((bound <= blurred).mean()) * (_COST_LONG[0] + _COST_LONG[1] * h) * fewer
        cost += max(float((bound <= reach).mean()), 1 / m) * measure
        cost += h * d * _COST_SKETCH / (n / 4)  # paid once, for n / 4 queries say
        best = min(best, (cost, h))
    return best[1]
