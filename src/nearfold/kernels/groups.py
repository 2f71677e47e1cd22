"""A tile of queries against the groups of an index: skip, sketch, score, screen.

`neighbors/pruned.py` explains the mathematics; `neighbors/grouped.py` describes the arrays. For
each group: queries that the triangle inequality rules out are left out, the others are sketched on
the group's own axes, what that rules out is left out too, and one small product (BLAS) scores what
remains against the rows of the group; `screen.py` does the rest. The loop over the groups is
compiled because there are many of them, each of little work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.kernels.compile import kernel
from nearfold.kernels.screen import (
    bound_kth_distances,
    collect_best_scores,
    screen_nearest,
    screen_within,
)


@kernel
def sketch_for_group(groups: Any, queries: Any, g: Any, reach: Any, work: Any) -> Any:
    """Local sketches of the queries within `reach` of a group; returns how many there are."""
    slack, _, radius, _, _, _ = groups.facts[g]
    count = 0
    for i in range(reach.shape[0]):
        if np.sqrt(queries.square[i, g]) - radius <= reach[i] + slack:
            work.chosen[count] = i
            count += 1
    if count == 0:
        return 0
    if groups.basis.shape[2] == 0:
        for i in range(count):
            c = work.chosen[i]
            work.phi[i, :-1] = queries.psi[c]
            work.phi[i, -1] = 1.0
            work.sizes[i] = queries.norm[c] ** 2
            work.slack[i] = queries.slack[c] + slack
        return count
    for i in range(count):
        work.gathered[i] = queries.psi[work.chosen[i]]
    np.dot(work.gathered[:count], groups.basis[g], work.part[:count])
    return _keep_near(groups, queries, g, reach, work, count)


@kernel
def _keep_near(groups: Any, queries: Any, g: Any, reach: Any, work: Any, count: Any) -> Any:
    """Complete the sketches with their tails; drop queries that these rule out."""
    slack, _, _, part_radius, low, high = groups.facts[g]
    part_error, square_error = groups.errors[3], groups.errors[4]
    h = work.part.shape[1]
    kept = 0
    for i in range(count):
        c = work.chosen[i]
        part_square = 0.0
        for a in range(h):
            value = np.float32(np.float64(work.part[i, a]) - groups.origin[g, a])
            work.phi[kept, a] = value
            part_square += np.float64(value) ** 2
        square = queries.square[c, g]
        apart = np.sqrt(square)
        size = queries.norm[c] + apart
        # The tail is the root of a difference: what that may be off by, and then the root.
        error = part_error * size + 1e-36
        doubt = 2.0 * apart * error + error * error + square_error * size * size
        tail = np.sqrt(max(square - part_square, 0.0))
        error += np.sqrt(doubt) if doubt >= tail * tail else doubt / tail
        outside = max(np.sqrt(part_square) - part_radius, 0.0)
        beyond = max(tail - high, low - tail, 0.0)
        room = queries.slack[c] + slack + error + 1e-6 * tail
        if np.sqrt(outside * outside + beyond * beyond) > reach[c] + slack + error + 1e-6 * size:
            continue
        work.phi[kept, h] = tail
        work.phi[kept, h + 1] = 1.0
        stored = np.float64(work.phi[kept, h])
        work.sizes[kept] = part_square + stored * stored
        work.slack[kept] = room
        work.chosen[kept] = c
        kept += 1
    return kept


@kernel
def score_group(groups: Any, g: Any, count: Any, work: Any) -> Any:
    """Scores of the sketched queries against the rows of a group."""
    first, last = groups.start[g], groups.start[g + 1]
    width = work.phi.shape[1]
    tile = groups.tiles[first * width : last * width].reshape((width, last - first))
    scores = work.scores[: count * (last - first)].reshape((count, last - first))
    np.dot(work.phi[:count], tile, scores)
    return scores


@kernel
def first_bounds(groups: Any, queries: Any, near: Any, k: Any, work: Any) -> Any:
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
        count = sketch_for_group(groups, queries, g, reach, work)
        if count == 0:
            continue
        # Each group by itself: bounds of one may be much looser than those of another.
        bound[:] = np.inf
        scores = score_group(groups, g, count, work)
        collect_best_scores(
            scores, work.sizes, work.chosen, queries.own_row, groups.row_of, groups.start[g],
            bound, place,
        )  # fmt: skip
        bound_kth_distances(
            queries.query_of, groups.row_of, queries.Q, groups.X, bound, place, worst
        )
    return worst


@kernel
def search_nearest(
    groups: Any, queries: Any, order: Any, near: Any, work: Any, best: Any, best_row: Any
) -> Any:
    """The k best of each query, groups in this order; returns how many pairs each stage saw.

    `best` may hold a bound already, in all places.
    """
    growth, product_error, long_error, _, _ = groups.errors
    worst = np.minimum(first_bounds(groups, queries, near, best.shape[1], work), best[:, 0])
    reach = np.empty(worst.shape[0])
    bounded, measured = 0, 0
    for g in order:
        for i in range(reach.shape[0]):
            reach[i] = np.sqrt(worst[i]) * growth + queries.slack[i]
        count = sketch_for_group(groups, queries, g, reach, work)
        if count == 0:
            continue
        seen = screen_nearest(
            score_group(groups, g, count, work), work.sizes, work.slack,
            (groups.facts[g, 1], growth, product_error, long_error), work.chosen,
            queries.query_of, queries.own_row, groups.row_of, groups.start[g], queries.Q,
            groups.X, queries.psi, groups.psi, best, best_row, worst,
        )  # fmt: skip
        bounded += seen[0]
        measured += seen[1]
    return bounded, measured


@kernel
def search_within(
    groups: Any, queries: Any, first: Any, work: Any, limit: Any, radius: Any, found: Any
) -> Any:
    """Pairs within each query's radius, from the group `first` on, as long as there is room.

    Returns the next group and the number of pairs found.
    """
    growth, product_error, long_error, _, _ = groups.errors
    query, row, square = found
    reach = limit * growth + queries.slack
    total = 0
    for g in range(first, groups.start.shape[0] - 1):
        rows = groups.start[g + 1] - groups.start[g]
        if total + reach.shape[0] * rows > query.shape[0]:
            return g, total
        count = sketch_for_group(groups, queries, g, reach, work)
        if count == 0:
            continue
        total += screen_within(
            score_group(groups, g, count, work), work.sizes, work.slack,
            (groups.facts[g, 1], growth, product_error, long_error), work.chosen,
            queries.query_of, queries.own_row, groups.row_of, groups.start[g], queries.Q,
            groups.X, queries.psi, groups.psi, limit, radius,
            query[total:], row[total:], square[total:],
        )  # fmt: skip
    return groups.start.shape[0] - 1, total
