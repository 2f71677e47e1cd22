"""From a tile of bounds to neighbours: scan, re-check, keep the best.

`neighbors/pruned.py` explains the mathematics. Here S is a tile of scores (larger is nearer)
of some queries against some consecutive rows of the index; only pairs whose score reaches
the query's `cut` can be neighbours. The few that do are bounded once more on their longer
sketch (`limit`), and what is left is decided by the true squared distance in float64.

The k best of a query form a heap with the worst at its root. Pairs are ordered by distance,
then by row number: that is the rule for ties, and it makes the outcome independent of the
order in which tiles are visited.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.kernels.compile import kernel, summing_kernel


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


@kernel
def _is_beyond(a: Any, b: Any, limit: Any) -> Any:
    """Whether |a - b|^2 > limit; the leading axes alone mostly tell."""
    d = a.shape[0]
    head = d // 2
    total = _square_distance_32(a[:head], b[:head])
    return total > limit or total + _square_distance_32(a[head:], b[head:]) > limit


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
def pruning_thresholds(
    square: Any,
    size: Any,
    slack: Any,
    tile_norm: Any,
    growth: Any,
    product_error: Any,
    long_error: Any,
) -> Any:
    """(cut, limit) for a query whose k-th squared distance is `square`: see pruned.py."""
    reach = np.sqrt(square) * growth + slack
    bound = reach * reach
    # 1e-37 stands for what float32 underflow may take or give.
    error = product_error * tile_norm * (2.0 * np.sqrt(size) + tile_norm) + 1e-37
    cut = 0.5 * (size - bound - error)
    return cut - 1e-7 * abs(cut), bound * (1.0 + long_error) + 1e-37


@kernel
def collect_best_scores(
    S: Any,
    sizes: Any,
    chosen: Any,
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
        c = chosen[i]
        _mark_reaching(S[i], np.float32(0.5 * (sizes[i] - best_bound[c, 0])), marks)
        for run in range(runs.shape[0]):
            if runs[run] == 0:
                continue
            for j in range(8 * run, min(8 * run + 8, columns)):
                bound = sizes[i] - 2.0 * np.float64(S[i, j])
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
    S: Any,
    sizes: Any,
    slack: Any,
    errors: Any,
    chosen: Any,
    query_of: Any,
    own_row: Any,
    row_of: Any,
    first_row: Any,
    Q: Any,
    X: Any,
    long_Q: Any,
    long_X: Any,
    best_distance: Any,
    best_row: Any,
    worst: Any,
) -> Any:
    """Update the k best of each query with one tile; return how many pairs each stage saw.

    S has a row for each of the `chosen` queries, with its size and its slack.
    """
    tile_norm, growth, product_error, long_error = errors
    refine = long_X.shape[1] > 0
    columns = S.shape[1]
    marks, runs = _make_marks(columns)
    bounded = 0
    measured = 0
    for i in range(S.shape[0]):
        scores = S[i]
        c = chosen[i]
        q = query_of[c]
        cut, limit = pruning_thresholds(
            worst[c], sizes[i], slack[i], tile_norm, growth, product_error, long_error
        )
        cut = np.float32(cut)
        _mark_reaching(scores, cut, marks)
        for run in range(runs.shape[0]):
            if runs[run] == 0:
                continue
            for j in range(8 * run, min(8 * run + 8, columns)):
                if scores[j] < cut:  # the cut may have risen since it was marked
                    continue
                bounded += 1
                place = first_row + j
                if refine and _is_beyond(long_Q[c], long_X[place], limit):
                    continue
                x = row_of[place]
                if x == own_row[c]:
                    continue
                measured += 1
                distance = square_distance_64(Q[q], X[x])
                if _is_nearer(distance, x, best_distance[c, 0], best_row[c, 0]):
                    _replace_worst(best_distance[c], best_row[c], distance, x)
                    if best_distance[c, 0] < worst[c]:
                        worst[c] = best_distance[c, 0]
                        cut, limit = pruning_thresholds(
                            worst[c],
                            sizes[i],
                            slack[i],
                            tile_norm,
                            growth,
                            product_error,
                            long_error,
                        )
                        cut = np.float32(cut)
    return bounded, measured


@kernel
def screen_within(
    S: Any,
    sizes: Any,
    slack: Any,
    errors: Any,
    chosen: Any,
    query_of: Any,
    own_row: Any,
    row_of: Any,
    first_row: Any,
    Q: Any,
    X: Any,
    long_Q: Any,
    long_X: Any,
    limit_radius: Any,
    radius: Any,
    found_query: Any,
    found_row: Any,
    found_distance: Any,
) -> Any:
    """Collect every pair of one tile within the radius; return how many were found."""
    tile_norm, growth, product_error, long_error = errors
    refine = long_X.shape[1] > 0
    columns = S.shape[1]
    marks, runs = _make_marks(columns)
    found = 0
    for i in range(S.shape[0]):
        scores = S[i]
        c = chosen[i]
        q = query_of[c]
        cut, limit = pruning_thresholds(
            limit_radius[c] * limit_radius[c] * (1.0 + 1e-15),
            sizes[i],
            slack[i],
            tile_norm,
            growth,
            product_error,
            long_error,
        )
        cut = np.float32(cut)
        _mark_reaching(scores, cut, marks)
        for run in range(runs.shape[0]):
            if runs[run] == 0:
                continue
            for j in range(8 * run, min(8 * run + 8, columns)):
                if marks[j] == 0:
                    continue
                place = first_row + j
                if refine and _is_beyond(long_Q[c], long_X[place], limit):
                    continue
                x = row_of[place]
                if x == own_row[c]:
                    continue
                distance = square_distance_64(Q[q], X[x])
                if np.sqrt(distance) <= radius[c]:  # a radius equal to a distance includes it
                    found_query[found] = q
                    found_row[found] = x
                    found_distance[found] = distance
                    found += 1
    return found
