"""How many rows lie nearer than a few given ones: counted, not sorted.

`quality/places.py` explains the mathematics. D is a tile of squared distances in float32 of some
consecutive rows (from `first_row` on) to others (from `first_other` on), each within a known error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.kernels.compile import kernel, summing_kernel
from nearfold.kernels.screen import square_distance_64

_RUN = 128  # distances counted at a time; looked at one by one only where some are in doubt


@kernel
def given_squares(X: Any, near: Any, first_row: int, squares: Any) -> Any:
    """|x_i - x_j|^2 of some rows i, from `first_row` on, and the rows j given for each."""
    for i in range(near.shape[0]):
        for k in range(near.shape[1]):
            squares[i, k] = square_distance_64(X[first_row + i], X[near[i, k]])


@summing_kernel
def _count_below(values: Any, low: Any, high: Any) -> Any:
    """How many values are < low, and how many <= high. (Floats: they share the SIMD lanes.)"""
    below = np.float32(0.0)
    reached = np.float32(0.0)
    for j in range(values.shape[0]):
        below += np.float32(1.0) if values[j] < low else np.float32(0.0)
        reached += np.float32(1.0) if values[j] <= high else np.float32(0.0)
    return below, reached


@kernel
def count_nearer(
    D: Any,
    low: Any,
    high: Any,
    X: Any,
    near: Any,
    squares: Any,
    first_row: int,
    first_other: int,
    tolerance: float,
    counts: Any,
    ties: Any,
) -> Any:
    """Add to counts[i, k] the rows that come before near[i, k] by distance, then by row number.

    Distances below `low` count, those above `high` do not, those between are measured in float64.
    Squares that differ by at most `tolerance`, relatively, are ties that may be due to rounding:
    they are listed as (i, k, row) in `ties`. Returns their number, or -1 if there was no room.
    """
    found = 0
    for i in range(D.shape[0]):
        for k in range(near.shape[1]):
            given, square = near[i, k] - first_other, squares[i, k]
            for start in range(0, D.shape[1], _RUN):
                stop = min(start + _RUN, D.shape[1])
                below, reached = _count_below(D[i, start:stop], low[i, k], high[i, k])
                counts[i, k] += int(below)
                if reached == below + (start <= given < stop):  # the given row is between, always
                    continue
                for j in range(start, stop):
                    if D[i, j] < low[i, k] or D[i, j] > high[i, k] or j == given:
                        continue
                    exact = square_distance_64(X[first_row + i], X[first_other + j])
                    if abs(exact - square) > tolerance * square:
                        counts[i, k] += exact < square
                    elif tolerance == 0.0:
                        counts[i, k] += j < given
                    elif found == ties.shape[0]:
                        return -1
                    else:
                        ties[found, 0], ties[found, 1], ties[found, 2] = i, k, first_other + j
                        found += 1
    return found
