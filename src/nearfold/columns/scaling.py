"""Fills, centres and scales of columns of numbers, learned a block at a time.

No array of the size of the table is made: a block of rows (of columns, for medians) is filled and
converted, looked at, and dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nearfold.blocks import combine_pairwise
from nearfold.columns.cells import Part
from nearfold.columns.kinds import Kind
from nearfold.notation import Array, Floats

SMALLEST = 1e-160  # a scale that is smaller has no square, and distances of such columns neither
Moments = tuple[int, Floats, Floats]
_BLOCK = 2**20  # cells looked at together
_LARGEST = float(np.finfo(np.float64).max)


def blocks(n: int, width: int) -> Iterator[slice]:
    """Rows 0 to n in slices of about `_BLOCK` cells."""
    step = max(1, _BLOCK // max(1, width))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def has_gaps(numbers: Floats) -> Array:
    """Which columns have a missing or infinite number."""
    found = np.zeros(numbers.shape[1], dtype=bool)
    for rows in blocks(*numbers.shape):
        found |= ~np.isfinite(numbers[rows]).all(axis=0)
    return found


def learn_fill(numbers: Floats, rule: str) -> Floats:
    """What replaces missing and infinite numbers of each column: its mean, its median, or 0.

    Also of columns without gaps in these rows: new rows may have some.
    """
    fill = np.zeros(numbers.shape[1])
    if rule not in ("mean", "median") or len(numbers) == 0:
        return fill
    order = np.argsort(has_gaps(numbers), kind="stable")  # columns without gaps take no sorting
    for some in blocks(len(order), len(numbers)):
        values = numbers[:, order[some]].T.astype(np.float64, order="C")
        finite = np.isfinite(values)
        values[~finite] = np.nan
        size = np.nanmax(np.abs(values), axis=1, initial=1.0)
        size = np.where(size > 1e300, size, 1.0)  # sums of 1e308 would overflow
        values /= size[:, None]
        fill[order[some]] = _middle(values, finite.sum(axis=1), rule) * size
    return fill


def _middle(values: Floats, known: Array, rule: str) -> Floats:
    """The mean or median of the known values of each row; 0 if it has none. Changes `values`."""
    if rule == "mean":
        return np.asarray(np.nansum(values, axis=1) / np.maximum(known, 1))
    if known.min() == values.shape[1]:
        return np.asarray(np.median(values, axis=1, overwrite_input=True))
    values.sort(axis=1)  # missing ones come last
    row, last = np.arange(len(values)), np.maximum(known - 1, 0)
    middle = (values[row, last // 2] + values[row, (last + 1) // 2]) / 2
    return np.where(known > 0, middle, 0.0)


def filled(rows: Floats, fill: Floats) -> Floats:
    """Rows with missing and infinite numbers replaced; the same array if there are none."""
    bad = ~np.isfinite(rows)
    return np.where(bad, fill.astype(rows.dtype), rows) if bad.any() else rows


def learn_range(numbers: Floats, fill: Floats) -> tuple[Floats, Floats]:
    """The smallest value of each column, and how far the largest is from it (1 if nowhere)."""
    low, high = _extremes(numbers, fill)
    reach = high / 2 - low / 2
    return low, np.where(reach > SMALLEST, np.minimum(2 * reach, _LARGEST), 1.0)


def learn_scale(numbers: Floats, fill: Floats, parts: Sequence[Part]) -> tuple[Floats, Floats]:
    """The mean and the standard deviation of each column; features of several share theirs."""
    low, high = _extremes(numbers, fill)
    moments = moments_of(numbers, fill, safe_unit(low, high))
    return scale_of(moments, low, high, parts, numbers.dtype)


def safe_unit(low: Floats, high: Floats) -> Floats:
    """What to divide columns by, so that no square overflows."""
    largest = np.maximum(-low, high)
    return np.where(largest > 1e140, largest, 1.0)


def moments_of(numbers: Floats, fill: Floats, unit: Floats) -> Moments:
    """Count, means and sums of squares about them of filled columns, in these units."""

    def moments(rows: slice) -> Moments:
        block = filled(numbers[rows], fill) / unit
        mean = block.mean(axis=0)
        block -= mean
        return len(block), mean, np.einsum("ij,ij->j", block, block)

    return combine_pairwise(map(moments, blocks(*numbers.shape)), join_moments)


def scale_of(
    moments: Moments, low: Floats, high: Floats, parts: Sequence[Part], dtype: Any
) -> tuple[Floats, Floats]:
    """Centres and scales from the moments and the extremes of the filled columns."""
    n, mean, scatter = moments
    unit = safe_unit(low, high)
    spread = np.sqrt(scatter / n) * unit
    for part in parts:
        own = slice(part.start, part.stop)
        if part.kind == Kind.BOOLEAN:  # as far apart as the levels of a category
            spread[own] = np.sqrt(0.5)
        elif part.kind in (Kind.EMBEDDING, Kind.IMAGE):  # its columns share one scale
            spread[own] = _norm(spread[own]) / np.sqrt(part.stop - part.start)
        elif part.kind == Kind.DATE:  # sine and cosine together count as one number
            for pair in range(part.start + 1, part.stop, 2):
                spread[pair : pair + 2] = _norm(spread[pair : pair + 2])
    # A column that varies by rounding only is not blown up.
    noise = 10 * np.finfo(dtype).eps * np.maximum(np.abs(low), np.abs(high))
    return mean * unit, np.where(spread > np.maximum(noise, SMALLEST), spread, 1.0)


def _norm(values: Floats) -> float:
    """The Euclidean norm of values whose squares may overflow."""
    largest = max(float(values.max()), SMALLEST)
    return float(np.linalg.norm(values / largest)) * largest


def join_moments(one: Moments, other: Moments) -> Moments:
    """The moments of the rows of both."""
    n = one[0] + other[0]
    apart = other[1] - one[1]
    mean = one[1] + apart * (other[0] / n)
    return n, mean, one[2] + other[2] + apart**2 * (one[0] * other[0] / n)


def _extremes(numbers: Floats, fill: Floats) -> tuple[Floats, Floats]:
    low = np.full(numbers.shape[1], np.inf)
    high = -low
    for rows in blocks(*numbers.shape):
        block = filled(numbers[rows], fill)
        np.minimum(low, block.min(axis=0), out=low)
        np.maximum(high, block.max(axis=0), out=high)
    return low, high
