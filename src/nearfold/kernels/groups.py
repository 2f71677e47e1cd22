"""A tile of queries against the groups of an index: skip, round to digits, score, screen.

`neighbors/pruned.py` explains the mathematics; `neighbors/grouped.py` describes the arrays. For
each group: queries that the triangle inequality rules out are left out, the others are rounded to
digits about the group's centre, and one product of digits scores them against the rows of the
group; `screen.py` does the rest. The loop over the groups is compiled because there are many of
them, each of little work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.kernels.compile import kernel, summing_kernel
from nearfold.kernels.digits import DEPTH, LANES, mark_digits, score_digits
from nearfold.kernels.screen import (
    NO_ROW,
    bound_kth_distances,
    collect_best_scores,
    lowest_score,
    screen_nearest,
    screen_within,
    square_distance_64,
)

_MOST_DOUBLED = 28
_U32 = 2.0**-24


@summing_kernel
def _largest_part(psi: Any, centre: Any) -> Any:
    most = np.float32(0.0)
    for t in range(psi.shape[0]):
        most = max(most, abs(psi[t] - centre[t]))
    return most


@summing_kernel
def _whole_steps(psi: Any, centre: Any, per_step: Any) -> Any:
    """How many whole steps the largest part of psi - centre has. (Integers: SIMD.)"""
    most, limit = np.int32(0), np.float32(2.0**30)
    for t in range(psi.shape[0]):
        part = abs(psi[t] - centre[t]) * per_step
        most = max(most, np.int32(part if part < limit else limit))
    return most


@summing_kernel
def _round_to_digits(psi: Any, centre: Any, per_step: Any, levels: Any, digits: Any) -> Any:
    """Digits of psi - centre; returns (their sum, sum of squares, square of what rounding left)."""
    total, square, rest = np.int32(0), np.int32(0), np.float32(0.0)
    for t in range(psi.shape[0]):
        part = (psi[t] - centre[t]) * per_step
        digit = np.rint(part)
        digit = digit if digit < levels else levels
        digit = digit if digit > -levels else -levels
        left = part - digit
        rest += left * left
        whole = np.int32(digit)
        digits[t] = np.int8(whole)
        total += whole
        square += whole * whole
    return total, square, rest


@kernel
def arrange_group(groups: Any, g: Any, psi: Any, slack: Any) -> Any:
    """Fill in what is known of a group: its places are there, `psi` are all sketches by row."""
    first, rows, width = groups.start[g], groups.size[g], psi.shape[1]
    row_of, centre, levels = groups.row_of[first : first + rows], groups.centres[g], groups.levels
    depth = (width + 3) // 4 * 4
    most, room, radius = 0.0, 0.0, 0.0
    for x in row_of:
        most = max(most, np.float64(_largest_part(psi[x], centre)))
        room = max(room, slack[x])
        radius = max(radius, square_distance_64(psi[x], centre))
    # No finer than the sketches are, and of a size whose square float32 can hold.
    step = max(most, room, 1e-15) / levels * (1.0 + 1e-6)
    own = np.zeros(depth, dtype=np.int8)
    panels = groups.digits[first * depth : groups.start[g + 1] * depth]
    panels[:] = 128
    worst = 0.0
    for j in range(rows):
        x = row_of[j]
        _, square, rest = _round_to_digits(
            psi[x], centre, np.float32(1.0 / step), np.float32(levels), own
        )
        groups.square[first + j] = square
        worst = max(worst, slack[x] + step * _rounding(square, rest, width))
        base = j // LANES * LANES * depth + j % LANES * DEPTH
        for t in range(depth):
            panels[base + t // DEPTH * LANES * DEPTH + t % DEPTH] = np.uint8(own[t] + 128)
        # One by one: to assign an array or a tuple at once takes a second to compile.
        for t in range(groups.psi.shape[1]):
            groups.psi[first + j, t] = psi[x, t]
    facts = groups.facts[g]
    facts[0], facts[1], facts[2] = step, room, worst
    facts[3] = np.sqrt(radius) * (1.0 + 1e-9)


@kernel
def _rounding(square: Any, rest: Any, width: Any) -> Any:
    """How far, in steps, digits may be from what they stand for; float32 has rounded it, too."""
    left = np.sqrt(np.float64(rest)) * (1.0 + 2.0 * (width + 8) * _U32)
    return left + 8.0 * _U32 * (np.sqrt(np.float64(square)) + left)


@kernel
def mark_near(groups: Any, queries: Any, g: Any, reach: Any, marked: Any) -> Any:
    """Round the queries within `reach` of a group to digits; returns how many there are.

    They come in order of how often the group's step is doubled for them.
    """
    step, slack, row_slack, radius = groups.facts[g]
    centre, levels = groups.centres[g], groups.levels
    width, per_step = centre.shape[0], np.float32(1.0 / step)
    marked.first[:] = 0
    count = 0
    for i in range(reach.shape[0]):
        if np.sqrt(queries.square[i, g]) - radius > reach[i] + slack:
            continue
        most = _whole_steps(queries.psi[i], centre, per_step)
        doubled = 0
        while most >> doubled > levels and doubled < _MOST_DOUBLED:
            doubled += 1
        marked.near[count] = i
        marked.doubled[count] = doubled
        marked.first[doubled + 1] += 1
        count += 1
    for doubled in range(marked.first.shape[0] - 1):
        marked.first[doubled + 1] += marked.first[doubled]
    for t in range(count):
        i, doubled = marked.near[t], marked.doubled[t]
        at = marked.first[doubled]
        marked.first[doubled] += 1
        wide = step * 2.0**doubled
        total, square, rest = _round_to_digits(
            queries.psi[i], centre, np.float32(1.0 / wide), np.float32(levels), marked.digits[at]
        )
        marked.chosen[at] = i
        marked.sizes[at] = wide * wide * np.float64(square)
        marked.unit[at] = 2.0 * wide * step
        marked.offset[at] = 128.0 * np.float64(total)
        marked.slack[at] = wide * _rounding(square, rest, width) + queries.slack[i] + row_slack
    return count


@kernel
def _each_doubling(groups: Any, g: Any, marked: Any, score: Any) -> Any:
    """Scores of the marked queries against the rows of a group, or bits: who reaches the cut."""
    place, end = groups.start[g], groups.start[g + 1]
    depth = marked.digits.shape[1]
    panels = groups.digits[place * depth : end * depth]
    marked.start[groups.size[g] : end - place] = NO_ROW
    begin = 0
    for doubled in range(marked.first.shape[0] - 1):  # `first` has moved on to the next one's
        stop = marked.first[doubled]
        if stop == begin:
            continue
        for j in range(groups.size[g]):
            marked.start[j] = -(groups.square[place + j] >> (doubled + 1))
        if score:
            score_digits(
                marked.digits[begin:stop], panels, marked.start, marked.cuts[begin:stop],
                marked.scores[begin:stop], end - place,
            )  # fmt: skip
        else:
            mark_digits(
                marked.digits[begin:stop], panels, marked.start, marked.cuts[begin:stop],
                marked.bits[begin:stop], end - place,
            )  # fmt: skip
        begin = stop


@kernel
def score_group(groups: Any, g: Any, count: Any, marked: Any) -> Any:
    """Scores (count, places) of the marked queries."""
    _each_doubling(groups, g, marked, True)
    return marked.scores[:count, : groups.start[g + 1] - groups.start[g]]


@kernel
def mark_group(groups: Any, g: Any, count: Any, square: Any, marked: Any) -> Any:
    """Bits (count, words), 64 places a word: rows that may be within sqrt(square) of the query."""
    for i in range(count):
        marked.cuts[i] = lowest_score(square[marked.chosen[i]], marked, i, groups.errors[0])
    panels = (groups.start[g + 1] - groups.start[g]) // LANES
    marked.bits[:count, panels : (panels + 3) // 4 * 4] = 0
    _each_doubling(groups, g, marked, False)
    return marked.bits.view(np.uint64)[:count, : (panels + 3) // 4]


@kernel
def first_bounds(groups: Any, queries: Any, near: Any, k: Any, marked: Any) -> Any:
    """Squared distances that k rows are known to be within: the best scores in the groups nearby.

    `near[i]` is how far, squared, the centres of the groups may be that query i looks at.
    """
    m = queries.psi.shape[0]
    worst = np.full(m, np.inf)
    reach = np.empty(m)
    bound = np.empty((m, k))
    place = np.zeros((m, k), dtype=np.int64)
    for g in range(groups.start.shape[0] - 1):
        for i in range(m):
            reach[i] = np.inf if queries.square[i, g] <= near[i] else -np.inf
        count = mark_near(groups, queries, g, reach, marked)
        if count == 0:
            continue
        # Each group by itself: bounds of one may be much looser than those of another.
        bound[:] = np.inf
        collect_best_scores(
            score_group(groups, g, count, marked), marked, queries.own_row, groups.row_of,
            groups.start[g], bound, place,
        )  # fmt: skip
        bound_kth_distances(
            queries.query_of, groups.row_of, queries.Q, groups.X, bound, place, worst
        )
    return worst


@kernel
def search_nearest(
    groups: Any, queries: Any, order: Any, near: Any, marked: Any, best: Any, best_row: Any
) -> Any:
    """The k best of each query, groups in this order; returns how many pairs each stage saw.

    `best` may hold a bound already, in all places.
    """
    growth, long_error = groups.errors
    worst = np.minimum(first_bounds(groups, queries, near, best.shape[1], marked), best[:, 0])
    reach = np.empty(worst.shape[0])
    bounded, measured = 0, 0
    for g in order:
        for i in range(reach.shape[0]):
            reach[i] = np.sqrt(worst[i]) * growth + queries.slack[i]
        count = mark_near(groups, queries, g, reach, marked)
        if count == 0:
            continue
        seen = screen_nearest(
            mark_group(groups, g, count, worst, marked), marked.chosen,
            (growth, groups.facts[g, 1], long_error), queries, groups.row_of, groups.start[g],
            groups.X, groups.psi, best, best_row, worst,
        )  # fmt: skip
        bounded += seen[0]
        measured += seen[1]
    return bounded, measured


@kernel
def search_within(
    groups: Any, queries: Any, first: Any, marked: Any, limit: Any, radius: Any, found: Any
) -> Any:
    """Pairs within each query's radius, from the group `first` on, as long as there is room.

    Returns the next group and the number of pairs found.
    """
    growth, long_error = groups.errors
    query, row, square = found
    reach = limit * growth + queries.slack
    square_limit = limit * limit * (1.0 + 1e-15)
    total = 0
    for g in range(first, groups.start.shape[0] - 1):
        rows = groups.start[g + 1] - groups.start[g]
        if total + reach.shape[0] * rows > query.shape[0]:
            return g, total
        count = mark_near(groups, queries, g, reach, marked)
        if count == 0:
            continue
        total += screen_within(
            mark_group(groups, g, count, square_limit, marked), marked.chosen,
            (growth, groups.facts[g, 1], long_error), queries, groups.row_of, groups.start[g],
            groups.X, groups.psi, square_limit, radius, query[total:], row[total:], square[total:],
        )  # fmt: skip
    return groups.start.shape[0] - 1, total
