"""How many axes the sketches of the pruned search should have: a pilot and a cost model.

A few sampled rows play the query. What each plan would let through is counted on the sample,
priced with the measured cost of the stages, and the cheapest plan is taken; the plan with all d
axes is the plain product, so data without strong directions lose nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfold.linalg import square_norms, squared_distances, top_eigenpairs
from nearfold.notation import Floats

SAMPLE = 2048  # rows that show the principal axes and the cost of each plan
_PILOTS = 64  # of which this many play the query
# Axes to choose from: one short of a multiple of the SIMD width, the tail's norm fills it.
AXES = (3, 7, 11, 15, 23, 31, 47, 63, 95, 127, 191)

# Relative cost of the stages, in nanoseconds per pair on one core (measured, AVX-512 Zen 4;
# only the ratios matter, and a factor of two either way moves the choice by one step).
_COST_PRODUCT = 0.025  # per axis
_COST_SCAN = 0.08
_COST_LONG = (20.0, 0.25)  # per survivor, per axis: its rows are seldom in the cache
_COST_TRUE = (60.0, 0.35)
_COST_MEET = 40.0  # per query and group
_COST_SKETCH = 0.05  # per row, feature and axis


@dataclass(frozen=True)
class Plan:
    """Axes of the sketches: `short` of a group's own, `long` of the whole table.

    `long` of 0 or d: all columns, no sketch of the table. `short` of d: no groups either, the plain
    product.
    """

    short: int
    long: int


@dataclass(frozen=True)
class Pilot:
    """What was let through in a trial, as shares of all pairs."""

    axes: list[int]  # of a group
    through: Floats  # pairs that each number of axes lets through
    met: Floats  # pairs whose query meets the group at all


def choose_short(pilot: Pilot, n: int, d: int, width: int, groups: int) -> int:
    """The cheapest number of axes of a group; d if the plain product is cheaper."""
    best = (d * _COST_PRODUCT + _COST_SCAN, d)
    for h, through, met in zip(pilot.axes, pilot.through, pilot.met, strict=True):
        cost = met * ((h + 2) * _COST_PRODUCT + _COST_SCAN)
        cost += through * (_COST_LONG[0] + _COST_LONG[1] * width)
        cost += groups * (_COST_MEET + width * h * _COST_PRODUCT) / n
        best = min(best, (cost, h))
    return best[1]


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


def choose_plan(sample: Floats, axes: Floats, n: int, k: int) -> Plan:
    """The cheapest sketch for n rows, from what each would let through on a pilot sample.

    Its short part is a first guess: `choose_short` replaces it.

    A pilot's k-th distance among n rows is estimated by its (k m / n)-th among m sampled ones,
    at least the first: too large if anything, which errs towards more axes.
    """
    m, d = sample.shape
    pilots = sample[: min(_PILOTS, m)]
    square = square_norms(sample)
    true = squared_distances(pilots, sample, square[: len(pilots)], square)
    np.fill_diagonal(true, np.inf)
    rank = min(max(1, round(k * m / n)), m - 1) if m > 1 else 1
    reach = np.partition(true, rank - 1, axis=1)[:, rank - 1 : rank] if m > 1 else true[:, :1]
    part = sample @ axes
    whole = Plan(d, 0)
    best = (d * _COST_PRODUCT + _COST_SCAN, whole)
    share = {}
    for h in (h for h in AXES if h <= axes.shape[1]):
        tail = np.sqrt(np.maximum(square - square_norms(part[:, :h]), 0.0))
        head = np.column_stack([part[:, :h], tail])
        size = square_norms(head)
        bound = squared_distances(head[: len(pilots)], head, size[: len(pilots)], size)
        share[h] = float((bound <= reach).mean())
    for short in share:
        for long in (h for h in share if h > short):
            cost = short * _COST_PRODUCT + _COST_SCAN
            cost += share[short] * (_COST_LONG[0] + _COST_LONG[1] * long)
            cost += max(share[long], k / n) * (_COST_TRUE[0] + _COST_TRUE[1] * d)
            cost += long * d * _COST_SKETCH / (n / 4)  # paid once, for n / 4 queries say
            best = min(best, (cost, Plan(short, long)), key=lambda pair: pair[0])
    return best[1]
