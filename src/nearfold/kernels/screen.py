"""From a tile of bounds to neighbours: scan, re-check, keep the best.

`neighbors/pruned.py` explains the mathematics. Here S is a tile of integer scores (larger is
nearer) of some queries against some consecutive rows of the index; only pairs whose score reaches
the query's `cut` can be neighbours. The few that do are bounded once more on their sketch
(`limit`), and what is left is decided by the true squared distance in float64.

The k best of a query form a heap with the worst at its root. Pairs are ordered by distance,
then by row number: that is the rule for ties, and it makes the outcome independent of the
order in which tiles are visited.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from nearfold.kernels.compile import kernel, summing_kernel

# Scores of rows lie between; those of places that hold no row, far below.
LEAST, MOST = -(2**28), 2**28
NO_ROW = -(2**30)


def _count_trailing_zeros(typing: Any, word: Any) -> Any:
    """Zero bits below the lowest one of a word that has one."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), write


_trailing_zeros: Any = intrinsic(_count_trailing_zeros)


@kernel
def _next_place(place: Any, word: Any) -> Any:
    """The place of the next bit of a word, and the word beyond it; `place` is before its first."""
    below = _trailing_zeros(word)
    return place + np.int64(below) + 1, (word >> below) >> np.uint64(1)


@kernel
def _is_nearer(distance_a: Any, row_a: Any, distance_b: Any, row_b: Any) -> Any:
    return distance_a < distance_b or (distance_a == distance_b and row_a < row_b)


@kernel
def _replace_worst(distances: Any, rows: Any, distance: Any, row: Any) -> Any:
    k = distances.shape[0]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= k:
            break
        other = child + 1
        if other < k and _is_nearer(distances[child], rows[child], distances[other], rows[other]):
            child = other
        if _is_nearer(distances[child], rows[child], distance, row):
            break
        distances[place] = distances[child]
        rows[place] = rows[child]
        place = child
    distances[place] = distance
    rows[place] = row


@summing_kernel
def _square_distance_32(a: Any, b: Any) -> Any:
    total = np.float32(0.0)
    for j in range(a.shape[0]):
        difference = a[j] - b[j]
        total += difference * difference
    return total


@summing_kernel
def square_distance_64(a: Any, b: Any) -> Any:
    """|a - b|^2 in float64."""
    total = 0.0
    for j in range(a.shape[0]):
        difference = np.float64(a[j]) - np.float64(b[j])
        total += difference * difference
    return total


@kernel
def _mark_reaching(scores: Any, cut: Any, marks: Any) -> Any:
    """One byte per score: whether it reaches the cut. (A loop with no branch: SIMD.)"""
    for j in range(scores.shape[0]):
        marks[j] = np.uint8(scores[j] >= cut)


@kernel
def _make_marks(columns: Any) -> Any:
    """Bytes for marks, and the same seen eight at a time, so that empty runs cost little."""
    marks = np.zeros((columns + 7) // 8 * 8, dtype=np.uint8)
    return marks, marks.view(np.uint64)


@kernel
def lowest_score(square: Any, marked: Any, i: Any, growth: Any) -> Any:
    """The score that a row needs if it may be within sqrt(`square`) of query i: see pruned.py."""
    reach = np.sqrt(square) * growth + marked.slack[i]
    # The quotient rounds, a little; whole numbers next to it make up for that.
    need = (marked.sizes[i] - reach * reach * (1.0 + 1e-12)) / marked.unit[i]
    need += marked.offset[i] - 1e-12 * (abs(need) + marked.sizes[i] / marked.unit[i]) - 1.0
    return np.int32(max(np.floor(need), LEAST)) if need < MOST else np.int32(MOST)


@kernel
def sketch_limit(square: Any, slack: Any, growth: Any, error: Any) -> Any:
    """How far apart, squared, the sketches of rows within sqrt(`square`) may seem in float32."""
    reach = np.sqrt(square) * growth + slack
    return reach * reach * (1.0 + error) + 1e-37  # what float32 underflow may take or give


@kernel
def collect_best_scores(
    S: Any,
    marked: Any,
    own_row: Any,
    row_of: Any,
    first_row: Any,
    best_bound: Any,
    best_place: Any,
) -> Any:
    """Keep the k places of the smallest bounds of each query, over as many tiles as are shown."""
    columns = S.shape[1]
    marks, runs = _make_marks(columns)
    for i in range(S.shape[0]):
        c = marked.chosen[i]
        size, unit, offset = marked.sizes[i], marked.unit[i], marked.offset[i]
        need = (size - best_bound[c, 0]) / unit + offset
        need = max(min(need, MOST), LEAST)
        _mark_reaching(S[i], np.int32(need), marks)
        for run in range(runs.shape[0]):
            if runs[run] == 0:
                continue
            for j in range(8 * run, min(8 * run + 8, columns)):
                bound = size - unit * (np.float64(S[i, j]) - offset)
                if bound < best_bound[c, 0] and row_of[first_row + j] != own_row[c]:
                    _replace_worst(best_bound[c], best_place[c], bound, first_row + j)


@kernel
def bound_kth_distances(
    query_of: Any, row_of: Any, Q: Any, X: Any, best_bound: Any, best_place: Any, worst: Any
) -> Any:
    """A bound on each query's k-th distance: the worst of the k places collected."""
    for i in range(best_place.shape[0]):
        if best_bound[i, 0] == np.inf:  # fewer than k places were seen
            continue
        bound = 0.0
        for t in range(best_place.shape[1]):
            x = row_of[best_place[i, t]]
            bound = max(bound, square_distance_64(Q[query_of[i]], X[x]))
        worst[i] = min(worst[i], bound)


@kernel
def measure_pairs(Q: Any, X: Any, i: Any, j: Any) -> Any:
    """|q_i - x_j|^2 of some pairs, as the screens compute it."""
    squares = np.empty(i.shape[0])
    for t in range(i.shape[0]):
        squares[t] = square_distance_64(Q[i[t]], X[j[t]])
    return squares


@kernel
def screen_nearest(
    bits: Any,
    chosen: Any,
    errors: Any,
    queries: Any,
    row_of: Any,
    first_row: Any,
    X: Any,
    long_X: Any,
    best_distance: Any,
    best_row: Any,
    worst: Any,
) -> Any:
    """Update the k best of each query with one tile; return how many pairs each stage saw.

    The bits say which rows each of the `chosen` queries has to look at; `worst` bounds the k-th
    squared distance of each query.
    """
    growth, slack, long_error = errors
    refine = long_X.shape[1] > 0
    bounded = 0
    measured = 0
    for i in range(bits.shape[0]):
        c = chosen[i]
        q = queries.query_of[c]
        room = queries.slack[c] + slack
        limit = sketch_limit(worst[c], room, growth, long_error)
        for w in range(bits.shape[1]):
            word = bits[i, w]
            place = first_row + 64 * w - 1
            while word:
                place, word = _next_place(place, word)
                bounded += 1
                if refine and _square_distance_32(queries.psi[c], long_X[place]) > limit:
                    continue
                x = row_of[place]
                if x == queries.own_row[c]:
                    continue
                measured += 1
                distance = square_distance_64(queries.Q[q], X[x])
                if _is_nearer(distance, x, best_distance[c, 0], best_row[c, 0]):
                    _replace_worst(best_distance[c], best_row[c], distance, x)
                    if best_distance[c, 0] < worst[c]:
                        worst[c] = best_distance[c, 0]
                        limit = sketch_limit(worst[c], room, growth, long_error)
    return bounded, measured


@kernel
def screen_within(
    bits: Any,
    chosen: Any,
    errors: Any,
    queries: Any,
    row_of: Any,
    first_row: Any,
    X: Any,
    long_X: Any,
    square_limit: Any,
    radius: Any,
    found_query: Any,
    found_row: Any,
    found_distance: Any,
) -> Any:
    """Collect every pair of one tile within the radius; return how many were found."""
    growth, slack, long_error = errors
    refine = long_X.shape[1] > 0
    found = 0
    for i in range(bits.shape[0]):
        c = chosen[i]
        q = queries.query_of[c]
        limit = sketch_limit(square_limit[c], queries.slack[c] + slack, growth, long_error)
        for w in range(bits.shape[1]):
            word = bits[i, w]
            place = first_row + 64 * w - 1
            while word:
                place, word = _next_place(place, word)
                if refine and _square_distance_32(queries.psi[c], long_X[place]) > limit:
                    continue
                x = row_of[place]
                if x == queries.own_row[c]:
                    continue
                distance = square_distance_64(queries.Q[q], X[x])
                if np.sqrt(distance) <= radius[c]:  # a radius equal to a distance includes it
                    found_query[found] = q
                    found_row[found] = x
                    found_distance[found] = distance
                    found += 1
    return found
