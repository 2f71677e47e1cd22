"""The largest of several statistics when the signs of the clusters are flipped at random.

Under the hypothesis that a space and the reference are equally good, the difference D_g of a
cluster might as well have had the other sign. With one flip for all spaces at a time, the largest
statistic over the spaces shows what the best of them reaches by chance, correlated as they are.

Flips do not change sum D^2. So u = sum D / sqrt(sum D^2) serves as the statistic, and orders as
Student's t = mean D / standard error does: u = t / sqrt(1 + t^2 / G) for G clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfold.notation import Floats

SIGNIFICANT = 0.05
_FLIPS = 10_000
_DRAWS = 100_000  # of the normal law
_MOST_FLIPPED = 5_000  # clusters that differ; above it the normal law serves
_MOST_ENUMERATED = 13  # clusters that differ: 2^13 flips
_FLIPS_AT_ONCE = 500
_TIE = 1e-9  # relative; sums of the same terms in another order are equal


@dataclass(frozen=True, eq=False)
class LargestByChance:
    """What chance gives as the largest statistic, in rising order."""

    values: Floats
    is_exact: bool  # all flips, not a sample
    n_clusters: int

    def p(self, t: float) -> float:
        """The probability of a largest statistic of t or more."""
        u = t / np.sqrt(1 + t**2 / self.n_clusters)
        count = len(self.values) - int(np.searchsorted(self.values, u - abs(u) * _TIE))
        seen = 0 if self.is_exact else 1  # what was found is one of the flips
        return (count + seen) / (len(self.values) + seen)

    @property
    def critical(self) -> float:
        """The t that must be exceeded for p < 5 %; infinite if there is none."""
        seen = 0 if self.is_exact else 1
        allowed = int(np.ceil(SIGNIFICANT * (len(self.values) + seen))) - 1 - seen
        if allowed < 0:
            return float(np.inf)
        u = float(self.values[-1 - allowed]) * (1 + 2 * _TIE)
        left = 1 - u**2 / self.n_clusters
        return float(u / np.sqrt(left)) if left > 4 * _TIE else float(np.inf)


def largest_by_chance(clusters: Floats, seed: int, one_sided: bool = False) -> LargestByChance:
    """The largest |u| (one-sided: u) over S spaces under flips of the signs of (S, G) clusters."""
    n_clusters = clusters.shape[1]
    scale = np.sqrt((clusters**2).sum(axis=1))
    unit = clusters[scale > 0] / scale[scale > 0, None]
    unit = unit[:, (unit != 0).any(axis=0)]
    if unit.size == 0:
        return LargestByChance(np.zeros(1), True, n_clusters)
    # In an order of their own, so that the order of the rows does not matter.
    unit = unit[:, np.lexsort(np.round(unit, 9))]
    m = unit.shape[1]
    draw = np.random.default_rng(seed)
    if m <= _MOST_ENUMERATED:
        bits = (np.arange(2**m)[:, None] >> np.arange(m)) & 1
        sums = [(2.0 * bits - 1) @ unit.T]
    elif m <= _MOST_FLIPPED:
        sums = []
        for _ in range(_FLIPS // _FLIPS_AT_ONCE):
            signs = 2.0 * draw.integers(0, 2, (_FLIPS_AT_ONCE, m), dtype=np.int8) - 1
            sums.append(signs @ unit.T)
    else:
        zero = np.zeros(len(unit))
        sums = [draw.multivariate_normal(zero, unit @ unit.T, _DRAWS, method="svd")]
    largest = [(u if one_sided else np.abs(u)).max(axis=1) for u in sums]
    return LargestByChance(np.sort(np.concatenate(largest)), m <= _MOST_ENUMERATED, n_clusters)
