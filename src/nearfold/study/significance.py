"""Which spaces differ from the reference by more than chance, judged row by row.

Input are the contributions psi of each row to the score (scores.py), for S spaces, R repeats of the
folds and n rows; the mean of psi is the score. The difference of a space to the reference is tested
so:

1.  d_i, the difference of row i, averaged over the repeats: one number per row. Repeats split the
    same rows anew and bring no new ones. Rows that belong together (copies, groups) are summed to
    one number D_g per cluster; clusters are the independent pieces.
2.  The standard error has the spread of the D_g, one more differing cluster than were seen (three
    rows that all differ in one direction are not certainty), and what the training sets add: the
    variance of the fold means beyond that of their rows, times 1/J + test_train_ratio as Nadeau and
    Bengio [1]_ have it.
3.  The p-values are adjusted for the number of spaces by the distribution of the largest
    statistic when the signs of the clusters are flipped at random, the same flip for all spaces
    (single-step max-T [2]_): spaces that are nearly the same count nearly as one. All flips are
    enumerated if few clusters differ, and the normal law with the same correlations is used if
    there are many. With one space and no part for the training sets this is McNemar's exact test.
4.  The intervals hold for all spaces at once. They exclude 0 exactly if the adjusted p is below 5%.

References
----------
.. [1] C. Nadeau and Y. Bengio, "Inference for the generalization error", Machine Learning 52, 2003.
.. [2] P. H. Westfall and S. S. Young, "Resampling-based multiple testing", Wiley, 1993.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearfold.notation import Array, Floats, Ints

LEVEL = 0.95
_POWER_80 = 0.8416212335729143  # 80 % quantile of the normal law
_NORMAL_95 = 1.959963984540054
_FLIPS = 10_000
_DRAWS = 100_000  # of the normal law
_MOST_FLIPPED = 5_000  # clusters; above it the normal law serves
_MOST_ENUMERATED = 13  # clusters that differ: 2^13 flips
_FLIPS_AT_ONCE = 500
_TIE = 1e-9  # relative; sums of the same terms in another order are equal


@dataclass(frozen=True)
class Contrast:
    """The difference of a space to the reference; all intervals of a comparison hold at once."""

    difference: float
    error: float  # standard error
    low: float
    high: float
    p: float  # adjusted for the number of spaces, two-sided
    detectable: float  # smallest gain these rows would have shown with 80 % power


@dataclass(frozen=True)
class Interval:
    """A score with its 95 % interval."""

    mean: float
    error: float  # standard error
    low: float
    high: float


class _Spread(NamedTuple):
    """Means of S sequences of rows, their standard errors and the clusters they come from."""

    mean: Floats  # (S,)
    error: Floats  # (S,)
    clusters: Floats  # (S, G), summed over the rows of a cluster


def compare_to_reference(
    psi: Floats,
    reference: int,
    fold: Ints,
    *,
    cluster: Array | None = None,
    test_train_ratio: float,
    seed: int = 0,
) -> list[Contrast]:
    """Compare every space with the reference on the same rows.

    Parameters
    ----------
    psi : (S, R, n) contributions of the rows, NaN where a row is not judged.
    reference : index of the reference among the spaces.
    fold : (R, n) fold in which each row was held out; anything where it was not judged.
    cluster : (n,) numbers; rows with the same number belong together. None: each by itself.
    test_train_ratio : held-out rows per training row.
    seed : of the random flips.

    Returns
    -------
    One contrast per space, in order; that of the reference is 0 with p = 1.
    """
    psi = np.asarray(psi, dtype=np.float64)
    others = np.delete(np.arange(len(psi)), reference)
    found = _contrasts(psi[others] - psi[reference], fold, cluster, test_train_ratio, seed, False)
    found.insert(int(np.arange(len(psi))[reference]), Contrast(0.0, 0.0, 0.0, 0.0, 1.0, 0.0))
    return found


def above_chance(
    psi: Floats,
    chance: Floats,
    fold: Ints,
    *,
    cluster: Array | None = None,
    test_train_ratio: float,
    seed: int = 0,
) -> list[Contrast]:
    """Compare every space with guessing; chance: (R, n) contributions of the guesses.

    The p-values are one-sided, small only for spaces above chance, and `low` is their bound: it is
    above 0 exactly if p is below 5 %.
    """
    psi = np.asarray(psi, dtype=np.float64)
    return _contrasts(psi - np.asarray(chance), fold, cluster, test_train_ratio, seed, True)


def score_interval(
    psi: Floats,
    fold: Ints,
    *,
    cluster: Array | None = None,
    test_train_ratio: float,
    limits: tuple[float, float] = (-np.inf, np.inf),
    independent_rows: float | None = None,
) -> Interval:
    """The 95 % interval of one space's own score, psi: (R, n).

    A score between 0 and 1 has Wilson's interval, for as many independent trials as its standard
    error is worth, but at most `independent_rows` (`Score.independent_rows`): 100 % of ten rows is
    not certainty.
    """
    psi = np.asarray(psi, dtype=np.float64)[None]
    spread = _spread(psi, fold, cluster, test_train_ratio)
    mean, error = float(spread.mean[0]), float(spread.error[0])
    if independent_rows is None:
        low, high = np.clip([mean - _NORMAL_95 * error, mean + _NORMAL_95 * error], *limits)
        return Interval(mean, error, float(low), float(high))
    n, n_clusters = int(np.isfinite(psi).any(axis=(0, 1)).sum()), spread.clusters.shape[1]
    share = float(np.clip(mean, 1 / n_clusters, 1 - 1 / n_clusters))
    trials = min(share * (1 - share) / error**2 if error > 0 else n, independent_rows, float(n))
    trials = max(trials, 1.0)
    return Interval(mean, error, *_wilson(float(np.clip(mean, 0.0, 1.0)), trials))


def _wilson(share: float, n: float) -> tuple[float, float]:
    z2 = _NORMAL_95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _NORMAL_95 / (1 + z2 / n) * np.sqrt(share * (1 - share) / n + z2 / (4 * n**2))
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


def _contrasts(
    d: Floats, fold: Ints, cluster: Array | None, ratio: float, seed: int, one_sided: bool
) -> list[Contrast]:
    if len(d) == 0:
        return []
    spread = _spread(d, fold, cluster, ratio)
    largest, exact = _largest_by_chance(spread.clusters, seed, one_sided)
    n_clusters = spread.clusters.shape[1]
    critical = _studentised(_critical_value(largest, exact), n_clusters)
    results = []
    for mean, error in zip(spread.mean.tolist(), spread.error.tolist(), strict=True):
        t = mean / error if error > 0 else 0.0
        statistic = _unstudentised(t if one_sided else abs(t), n_clusters)
        count = int(len(largest) - np.searchsorted(largest, statistic * (1 - _TIE)))
        p = (count + (not exact)) / (len(largest) + (not exact))
        half = critical * error if error > 0 else 0.0
        detectable = half + _POWER_80 * error
        results.append(Contrast(mean, error, mean - half, mean + half, p, detectable))
    return results


def _unstudentised(t: float, n: int) -> float:
    """sum D / sqrt(sum D^2) of n terms from mean D / standard error (of variance over n)."""
    return float(t / np.sqrt(1 + t**2 / n))


def _studentised(u: float, n: int) -> float:
    return float(u / np.sqrt(1 - u**2 / n)) if u**2 < n * (1 - _TIE) else float(np.inf)


def _critical_value(largest: Floats, exact: bool) -> float:
    """The value that must be exceeded for p < 5 %, from what chance gives in rising order."""
    allowed = int(np.ceil((1 - LEVEL) * (len(largest) + (not exact)))) - 1 - (not exact)
    return float(largest[-1 - allowed]) * (1 + 2 * _TIE) if allowed >= 0 else float(np.inf)


def _spread(d: Floats, fold: Ints, cluster: Array | None, ratio: float) -> _Spread:
    """Means over the judged rows with the standard errors of the module's docstring."""
    judged: Array = np.asarray(np.isfinite(d).all(axis=0))  # (R, n)
    rows = judged.any(axis=0)
    d, judged, fold = d[:, :, rows], judged[:, rows], np.asarray(fold)[:, rows]
    n = d.shape[2]
    label = np.arange(n) if cluster is None else np.asarray(cluster)[rows]
    code = np.unique(label, return_inverse=True)[1].ravel()
    per_row = np.where(judged, d, 0.0).sum(axis=1) / judged.sum(axis=0)
    mean = per_row.mean(axis=1)
    sums = _sum_by(per_row, code)
    size = np.bincount(code)
    squares = ((sums - mean[:, None] * size) ** 2).sum(axis=1)
    differing = (sums != 0).sum(axis=1)
    one_more = (sums**2).sum(axis=1) / np.maximum(differing, 1)
    variance = (squares + one_more) / n**2
    variance += _fold_excess(d, judged, fold, code) * (1 / _n_folds(fold, judged) + ratio)
    return _Spread(mean, np.sqrt(variance), sums)


def _sum_by(values: Floats, code: Ints) -> Floats:
    """Columns of values (S, n) summed by their code."""
    return np.stack([np.bincount(code, weights=row) for row in values])


def _n_folds(fold: Ints, judged: Array) -> float:
    return float(np.mean([len(np.unique(f[j])) for f, j in zip(fold, judged, strict=True)]))


def _fold_excess(d: Floats, judged: Array, fold: Ints, code: Ints) -> Floats:
    """Variance of the fold means beyond what their clusters account for, not below 0."""
    excess = []
    for r in range(d.shape[1]):
        means, within = [], []
        for part in np.unique(fold[r, judged[r]]):
            here = judged[r] & (fold[r] == part)
            values = d[:, r, here]
            member = np.unique(code[here], return_inverse=True)[1].ravel()
            mean, size = values.mean(axis=1), np.bincount(member)
            left = _sum_by(values, member) - mean[:, None] * size
            few = len(size) / max(1, len(size) - 1)
            means.append(mean)
            within.append((left**2).sum(axis=1) * few / here.sum() ** 2)
        if len(means) > 1:
            excess.append(np.var(means, axis=0, ddof=1) - np.mean(within, axis=0))
    return np.maximum(np.mean(excess, axis=0), 0.0) if excess else np.zeros(len(d))


def _largest_by_chance(clusters: Floats, seed: int, one_sided: bool) -> tuple[Floats, bool]:
    """The largest sum D / sqrt(sum D^2) over the spaces under flips of signs, in rising order.

    Also whether all flips are there, not a sample.
    """
    scale = np.sqrt((clusters**2).sum(axis=1))
    unit = clusters[scale > 0] / scale[scale > 0, None]
    unit = unit[:, (unit != 0).any(axis=0)]
    if unit.size == 0:
        return np.zeros(1), True
    m = unit.shape[1]
    # In an order of their own, so that the order of the rows does not matter.
    unit = unit[:, np.lexsort(np.round(unit, 9))]
    draw = np.random.default_rng(seed)
    if m <= _MOST_ENUMERATED:
        bits = (np.arange(2**m)[:, None] >> np.arange(m)) & 1
        return np.sort(_largest((2.0 * bits - 1) @ unit.T, one_sided)), True
    if m > _MOST_FLIPPED:
        normal = draw.multivariate_normal(np.zeros(len(unit)), unit @ unit.T, _DRAWS, method="svd")
        return np.sort(_largest(normal, one_sided)), False
    found = []
    for _ in range(_FLIPS // _FLIPS_AT_ONCE):
        signs = 2.0 * draw.integers(0, 2, (_FLIPS_AT_ONCE, m), dtype=np.int8) - 1
        found.append(_largest(signs @ unit.T, one_sided))
    return np.sort(np.concatenate(found)), False


def _largest(sums: Floats, one_sided: bool) -> Floats:
    return np.asarray((sums if one_sided else np.abs(sums)).max(axis=1))
