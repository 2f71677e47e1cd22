"""The Shepard diagram: distances in the new space against those in the original one.

Pairs are drawn independently, each row equally often, in an order of rows that comes from their
values; of a table with at most `n_pairs` pairs all are taken. Spearman's correlation measures
whether the order of distances is kept, Pearson's whether the relation is linear.

Intervals: 95 %, from 200 draws with replacement of the drawn pairs (bootstrap; ranks are taken anew
in each); None if all pairs were taken. A correlation with constant distances is defined as 0, that
of two constants as 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.linalg.row_order import order_by_value
from nearfold.notation import Array, Floats, Ints
from nearfold.quality.spaces import Space, check_spaces
from nearfold.run import random_state as source_of_randomness

_DRAWS = 200
_ROUNDING = 1e-12  # a spread this small beside the largest distance is rounding, not variation


@dataclass(frozen=True, eq=False)
class Shepard:
    """Distances of pairs in both spaces, for drawing, and how well they correlate."""

    original: Floats = field(repr=False)
    embedded: Floats = field(repr=False)
    spearman: float
    pearson: float
    spearman_interval: tuple[float, float] | None
    pearson_interval: tuple[float, float] | None
    pairs: Ints = field(repr=False)  # (n_pairs, 2) row numbers
    notice: str | None = None

    @property
    def value(self) -> float:
        """Spearman's correlation."""
        return self.spearman

    @property
    def interval(self) -> tuple[float, float] | None:
        """That of Spearman's correlation."""
        return self.spearman_interval


def shepard(
    X: Any,
    Z: Any,
    *,
    metric: Any = "euclidean",
    n_pairs: int = 10_000,
    random_state: Any = 0,
) -> Shepard:
    """Compare the distances of `n_pairs` random pairs of rows in X and in Z."""
    return shepard_of_spaces(*check_spaces(X, Z, metric), n_pairs, random_state)


def shepard_of_spaces(original: Space, embedded: Space, n_pairs: int, seed: Any) -> Shepard:
    """The same for spaces that are already checked."""
    if n_pairs < 3:
        raise InputError(f"n_pairs={n_pairs}: a correlation needs three pairs at least.")
    random = source_of_randomness(seed)
    n = original.n
    drawn = n * (n - 1) // 2 > n_pairs
    a, b = _draw_pairs(original.X, n_pairs, random) if drawn else np.triu_indices(n, 1)
    D, d = original.pair_lengths(a, b), embedded.pair_lengths(a, b)
    one, other = _Groups(D), _Groups(d)
    every = np.ones(len(D))
    spearman = correlation(one.ranks(every), other.ranks(every), every)
    pearson = correlation(D, d, every)
    ranked, straight = _intervals(one, other, random) if drawn else (None, None)
    notice = f"{n_pairs:,} of {n * (n - 1) // 2:,} pairs of rows, drawn at random."
    return Shepard(
        D,
        d,
        spearman,
        pearson,
        ranked,
        straight,
        np.column_stack([a, b]),
        notice if drawn else None,
    )


def _draw_pairs(X: Array, n_pairs: int, random: Any) -> tuple[Ints, Ints]:
    order = order_by_value(X, np.zeros(len(X), dtype=np.int64))
    a = random.randint(0, len(X), size=n_pairs)
    b = random.randint(0, len(X) - 1, size=n_pairs)
    b += b >= a
    return order[a], order[b]


class _Groups:
    """Values sorted once, equal ones together, so that weighted ranks need no sort."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        distinct, self._group = np.unique(values, return_inverse=True)
        self._count = len(distinct)

    def ranks(self, weight: Floats) -> Floats:
        """Mean ranks of the values, each repeated `weight` times."""
        size = np.bincount(self._group, weight, self._count)
        return np.asarray((np.cumsum(size) - (size - 1) / 2)[self._group])


def correlation(x: Floats, y: Floats, weight: Floats) -> float:
    """Pearson's correlation of weighted pairs; 0 if one side does not vary, 1 if neither does."""
    total = weight.sum()
    dx, dy = x - weight @ x / total, y - weight @ y / total
    xx, yy = weight @ (dx * dx) / total, weight @ (dy * dy) / total
    still = [
        bool(np.sqrt(square) <= _ROUNDING * np.abs(values).max(initial=0.0))
        for square, values in ((xx, x), (yy, y))
    ]
    if any(still):
        return float(all(still))
    r = (weight @ (dx * dy) / total) / (np.sqrt(xx) * np.sqrt(yy))
    return float(np.clip(r, -1.0, 1.0))


def _intervals(
    one: _Groups, other: _Groups, random: Any
) -> tuple[tuple[float, float], tuple[float, float]]:
    m = len(one.values)
    found = np.empty((_DRAWS, 2))
    for draw in found:
        weight = np.bincount(random.randint(0, m, size=m), minlength=m).astype(np.float64)
        draw[0] = correlation(one.ranks(weight), other.ranks(weight), weight)
        draw[1] = correlation(one.values, other.values, weight)
    (a, c), (b, d) = np.quantile(found, [0.025, 0.975], axis=0)
    return (float(a), float(b)), (float(c), float(d))
