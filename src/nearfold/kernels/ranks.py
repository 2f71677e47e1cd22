"""The order of a row of distances: a radix sort of row numbers.

Non-negative floats are ordered as their bits are. The bits between the smallest and the largest
value are cut to 33 and sorted in three stable passes of eleven; an insertion sort then corrects the
order of values that the cut made equal. Where that would take long (many values that differ only in
their last bits, beside others far away) the kernel gives up, and the caller sorts with NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.kernels.compile import kernel

_DIGIT = 11  # bits of a pass: its 2,048 counters stay in the first cache
_ROW_BITS = 31  # beside 33 of the value
_PATIENCE = 8  # moves per value allowed to the insertion sort


@kernel
def _digits_to_drop(bits: Any, own: int) -> Any:
    """(lowest bits, shift) that leave 33 bits of all values but the row's own."""
    n = bits.shape[0]
    low = np.uint64(0xFFFFFFFFFFFFFFFF)
    high = np.uint64(0)
    for j in range(n):
        if j != own:
            low = min(low, bits[j])
            high = max(high, bits[j])
    shift = np.uint64(0)
    while ((high - low) >> shift) >> np.uint64(3 * _DIGIT):
        shift += np.uint64(1)
    return low, shift


@kernel
def _insert(values: Any, order: Any) -> Any:
    """Insertion sort of an almost sorted order; False if it takes too many moves."""
    n = order.shape[0]
    left = _PATIENCE * n
    for place in range(1, n):
        row = order[place]
        value = values[row]
        back = place
        while back > 0:
            before = order[back - 1]
            if values[before] < value or (values[before] == value and before < row):
                break
            order[back] = before
            back -= 1
        order[back] = row
        left -= place - back
        if left < 0:
            return False
    return True


@kernel
def sort_others(values: Any, own: int, order: Any) -> Any:
    """All rows but `own`, by value, then by row number, into `order` (n - 1). None is negative.

    False if it gave up; the contents of `order` are then undefined.
    """
    n = values.shape[0]
    bits = values.view(np.uint64)
    low, shift = _digits_to_drop(bits, own)
    digit_mask = np.uint64((1 << _DIGIT) - 1)
    items = np.empty(n - 1, dtype=np.uint64)  # 33 bits of the value, 31 of the row
    moved = np.empty(n - 1, dtype=np.uint64)
    counts = np.zeros((3, 1 << _DIGIT), dtype=np.int64)
    place = 0
    for j in range(n):
        if j == own:
            continue
        key = (bits[j] - low) >> shift
        items[place] = (key << np.uint64(_ROW_BITS)) | np.uint64(j)
        place += 1
        counts[0, key & digit_mask] += 1
        counts[1, (key >> np.uint64(_DIGIT)) & digit_mask] += 1
        counts[2, key >> np.uint64(2 * _DIGIT)] += 1
    for digit in range(3):
        start = 0
        for value in range(1 << _DIGIT):
            count = counts[digit, value]
            counts[digit, value] = start
            start += count
        drop = np.uint64(_ROW_BITS + digit * _DIGIT)
        for j in range(n - 1):
            item = items[j]
            value = (item >> drop) & digit_mask
            to = counts[digit, value]
            counts[digit, value] = to + 1
            moved[to] = item
        items, moved = moved, items
    row_mask = np.uint64((1 << _ROW_BITS) - 1)
    for j in range(n - 1):
        order[j] = items[j] & row_mask
    return _insert(values, order)


@kernel
def count_places(rank: Any, order: Any, gain: Any, counts: Any) -> Any:
    """Add a row to the co-ranking counts; the sum of `gain` at the larger place of each pair.

    counts[0]: pairs by the larger of their two places; counts[1]: of these, those that were
    farther before (intrusions) less those that were nearer (extrusions).
    """
    total = 0.0
    for j in range(order.shape[0]):
        now = j + 1
        before = rank[order[j]]
        larger = max(now, before)
        counts[0, larger] += 1
        counts[1, larger] += (before > now) - (before < now)
        total += gain[larger]
    return total
