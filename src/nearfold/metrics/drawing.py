"""Pairs, triplets, quadruplets and chunklets drawn from class labels.

Drawn from the rows in an order that depends on their values alone, so that the same table in
another order of rows gives the same draw, and every class can be drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError, warn
from nearfold.linalg.row_order import order_by_value
from nearfold.metrics.tuples import Tuples
from nearfold.neighbors import build_index
from nearfold.notation import Array, Ints


def default_count(n_classes: int, n_constraints: int | None) -> int:
    """How many pairs to draw of each kind; metric-learn's rule where none is given."""
    if n_constraints is None:
        return 20 * n_classes**2
    if n_constraints < 1:
        raise InputError(f"n_constraints={n_constraints}: draw at least one.")
    return int(n_constraints)


def draw_pairs(X: Array, label: Ints, count: int, random: Any) -> Tuples:
    """`count` must-link and `count` cannot-link pairs, all different; fewer if there are fewer."""
    order = order_by_value(X, label)
    alike = _draw_alike(label[order], count, random)
    unlike = _draw_unlike(label[order], count, random)
    if min(len(alike), len(unlike)) == 0:
        missing = "rows of the same class" if len(alike) == 0 else "rows of different classes"
        raise InputError(f"no pair can be drawn: there are no two {missing}.")
    sign = np.repeat([1, -1], [len(alike), len(unlike)])
    return Tuples(X, order[np.concatenate([alike, unlike])], sign)


def draw_quadruplets(X: Array, label: Ints, count: int, random: Any) -> Tuples:
    """`count` quadruplets (a, b, c, d): a, b of one class, c, d of two."""
    pairs = draw_pairs(X, label, count, random)
    alike, unlike = pairs.rows[pairs.sign > 0], pairs.rows[pairs.sign < 0]
    n = min(len(alike), len(unlike))
    alike, unlike = alike[random.permutation(len(alike))], unlike[random.permutation(len(unlike))]
    return Tuples(X, np.hstack([alike[:n], unlike[:n]]), np.ones(n, dtype=np.int64))


def nearest_triplets(X: Array, label: Ints, k_genuine: int, k_impostor: int) -> Tuples:
    """All (a, b, c): b among the nearest of a's class, c among the nearest of the others."""
    counts = np.bincount(label)
    parts = []
    for c in np.flatnonzero(counts > 1):
        own, others = np.flatnonzero(label == c), np.flatnonzero(label != c)
        genuine, impostor = min(k_genuine, len(own) - 1), min(k_impostor, len(others))
        if impostor == 0:
            continue
        near = own[build_index(X[own], k_hint=genuine).nearest(None, genuine)[1]]
        far = others[build_index(X[others], k_hint=impostor).nearest(X[own], impostor)[1]]
        a = np.repeat(own, genuine * impostor)
        b = np.repeat(near, impostor, axis=1).ravel()
        parts.append(np.column_stack([a, b, np.tile(far, (1, genuine)).ravel()]))
    if not parts:
        raise InputError(
            "no triplet can be drawn: it takes two rows of a class, and another class."
        )
    short = np.flatnonzero(counts <= k_genuine)
    if len(short):
        warn(
            f"{len(short)} classes have at most {k_genuine} rows; theirs have fewer than "
            f"k_genuine={k_genuine} neighbours of their own class."
        )
    return Tuples(X, np.concatenate(parts), np.ones(0, dtype=np.int64))


def draw_chunks(X: Array, label: Ints, n_chunks: int, chunk_size: int, random: Any) -> Ints:
    """Small groups of rows of one class: the chunklet of each row, -1 for none."""
    if chunk_size < 2:
        raise InputError(f"chunk_size={chunk_size}: a chunklet has at least two rows.")
    order = order_by_value(X, label)
    shuffled = order[random.permutation(len(order))]
    groups = []
    for c in np.unique(label):
        own = shuffled[label[shuffled] == c]
        groups += [own[i : i + chunk_size] for i in range(0, len(own) - chunk_size + 1, chunk_size)]
    if len(groups) < n_chunks:
        raise InputError(
            f"Not enough possible chunks of {chunk_size} elements in each class to form expected "
            f"{n_chunks} chunks - maximum number of chunks is {len(groups)}"
        )
    chunks = np.full(len(X), -1)
    for number, chosen in enumerate(random.permutation(len(groups))[:n_chunks]):
        chunks[groups[chosen]] = number
    return chunks


def _draw_alike(label: Ints, count: int, random: Any) -> Ints:
    """Different pairs of positions with the same label; labels come sorted."""
    sizes = np.bincount(label)
    starts = np.cumsum(sizes) - sizes
    available = sizes * (sizes - 1) // 2
    drawn = _draw_numbers(int(available.sum()), count, random, "must-link")
    ends = np.cumsum(available)
    c = np.searchsorted(ends, drawn, side="right")
    a, b = _unrank(drawn - (ends - available)[c])
    return np.column_stack([starts[c] + a, starts[c] + b])


def _draw_unlike(label: Ints, count: int, random: Any) -> Ints:
    """Different pairs of positions with different labels; labels come sorted."""
    sizes = np.bincount(label)
    starts = np.cumsum(sizes) - sizes
    before = starts[label] if len(label) else starts  # rows of earlier classes: partners of a row
    ends = np.cumsum(before)
    drawn = _draw_numbers(int(ends[-1]), count, random, "cannot-link")
    b = np.searchsorted(ends, drawn, side="right")
    return np.column_stack([drawn - (ends - before)[b], b])


def _draw_numbers(available: int, count: int, random: Any, kind: str) -> Ints:
    if available <= count:
        if 0 < available < count:
            warn(f"there are only {available} {kind} pairs, fewer than the {count} to be drawn.")
        return np.arange(available)
    if count > available // 4:
        return np.asarray(random.permutation(available)[:count])
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < count:  # a quarter at most are taken, so few draws hit twice
        more = random.randint(0, available, size=count, dtype=np.int64)
        drawn = np.concatenate([drawn, more])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
    return drawn[:count]


def _unrank(number: Ints) -> tuple[Ints, Ints]:
    """The pair a < b that comes `number`-th among (0, 1), (0, 2), (1, 2), (0, 3), ..."""
    b = ((1 + np.sqrt(1 + 8 * number.astype(np.float64))) // 2).astype(np.int64)
    b -= (b * (b - 1) // 2 > number).astype(np.int64)  # rounding of large roots
    b += ((b + 1) * b // 2 <= number).astype(np.int64)
    return number - b * (b - 1) // 2, b
