"""Candidate lists of the approximate search: offer a tile of scores, walk along the graph.

The score of a row x for a query q is |x|^2 / 2 - q.x in float32: smaller is nearer. The best of a
query form a heap with the worst at its root, so whatever is ever dropped has a score of at least
that of the final root, which is what proofs rely on (neighbors/probing.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.kernels.compile import kernel, summing_kernel


@kernel
def _replace_root(scores: Any, rows: Any, score: Any, row: Any) -> Any:
    """Put a pair into the heap in place of its worst one."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= scores.shape[0]:
            break
        if child + 1 < scores.shape[0] and scores[child + 1] > scores[child]:
            child += 1
        if scores[child] <= score:
            break
        scores[place] = scores[child]
        rows[place] = rows[child]
        place = child
    scores[place] = score
    rows[place] = row


@kernel
def _holds(rows: Any, row: Any) -> Any:
    found = False
    for t in range(rows.shape[0]):
        found |= rows[t] == row
    return found


@kernel
def offer_tile(
    products: Any, half: Any, queries: Any, first: Any, own: Any, scores: Any, rows: Any, again: Any
) -> Any:
    """Offer the rows first, first + 1, ... to some queries, given their products.

    `own` + i is the row that query i is (far below 0: none). With `again` a row may have been
    offered before. `products` is overwritten.
    """
    columns = products.shape[1]
    marks = np.zeros((columns + 7) // 8 * 8, dtype=np.uint8)
    runs = marks.view(np.uint64)  # eight at a time, so that what is too far costs little
    for i in range(products.shape[0]):
        q = queries[i]
        tile, worst = products[i], scores[q, 0]
        for j in range(columns):
            tile[j] = half[j] - tile[j]
            marks[j] = np.uint8(tile[j] < worst)
        for run in range(runs.shape[0]):
            if runs[run] == 0:
                continue
            for j in range(8 * run, min(8 * run + 8, columns)):
                if tile[j] < scores[q, 0] and first + j != own + q:
                    if not (again and _holds(rows[q], first + j)):
                        _replace_root(scores[q], rows[q], tile[j], first + j)


@kernel
def reverse_lists(lists: Any, fresh: Any, reverse: Any, reverse_fresh: Any) -> Any:
    """Who lists each row, those that list it nearest first, as many as there is room for."""
    n, k = lists.shape
    filled = np.zeros(n, dtype=np.int32)
    for t in range(k):
        for q in range(n):
            j = lists[q, t]
            if j >= 0 and filled[j] < reverse.shape[1]:
                reverse[j, filled[j]] = q
                reverse_fresh[j, filled[j]] = fresh[q, t]
                filled[j] += 1


@summing_kernel
def _product(a: Any, b: Any) -> Any:
    total = np.float32(0.0)
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@kernel
def walk(
    points: Any,
    half: Any,
    lists: Any,
    fresh: Any,
    reverse: Any,
    reverse_fresh: Any,
    start: Any,
    scores: Any,
    rows: Any,
    seen: Any,
) -> Any:
    """One round of neighbour descent for the rows start, start + 1, ...: a step over two edges.

    A way whose two edges are both old was walked in the round before. All rows read the lists of
    the round before (`lists`, nearest first) and change only their own (`scores`, `rows`), so the
    outcome depends neither on their order nor on threads. Returns how many entries changed.
    """
    width = reverse.shape[1]
    changed = 0
    for i in range(scores.shape[0]):
        q = start + i
        point = points[q]
        stamp = q + 1
        seen[q] = stamp
        for t in range(rows.shape[1]):
            if rows[i, t] >= 0:
                seen[rows[i, t]] = stamp
        for t in range(2 * width):
            j = lists[q, t] if t < width else reverse[q, t - width]
            if j < 0:
                continue
            new = fresh[q, t] if t < width else reverse_fresh[q, t - width]
            for u in range(-1, width):  # j itself, then those that it lists
                c = j if u < 0 else lists[j, u]
                if c < 0 or seen[c] == stamp or not (new or (u >= 0 and fresh[j, u])):
                    continue
                seen[c] = stamp
                score = half[c] - _product(point, points[c])
                if score < scores[i, 0]:
                    _replace_root(scores[i], rows[i], score, c)
                    changed += 1
    return changed
