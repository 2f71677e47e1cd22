"""What is known about an approximate search: which lists are proven exact, and the recall.

The recall of a query is the share of its k neighbours that are right: no farther than the true
k-th. Within a list hits are not independent (a query between cells misses several), so the unit
that is sampled, and counted, is the query, not the neighbour. For a share of clustered units the
interval of Korn and Graubard (1998) is used: that of Clopper and Pearson for the effective number
of independent neighbours, (mean)(1 - mean) / variance of the mean, which lies between the number of
sampled queries and that of their neighbours. Queries whose list is proven have recall 1 for
certain; the sample speaks for the others.

References
----------
E. L. Korn, B. I. Graubard: Confidence intervals for proportions with small expected number of
positive counts estimated from survey data. Survey Methodology 24 (1998), 193-201.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfold.notation import Array, Floats, Ints

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Certificate:
    """What is known about the lists of an approximate search.

    Attributes
    ----------
    n_queries : int
        Number of lists.
    n_neighbors : int
        Neighbours in each.
    proven : float
        Share of the lists that are proven exact, equal distances in order of row number included.
    recall : float
        Estimate of the mean share of right neighbours in a list; ties count as right.
    low, high : float
        Confidence interval of the recall. The unit is the query, not the neighbour.
    confidence : float
        Its confidence, whenever the search stopped: each time it looked at the sample counts.
    n_checked : int
        Number of random queries that were searched exactly; 0 where all lists are proven.
    asked : float
        The recall that was asked for.
    """

    n_queries: int
    n_neighbors: int
    proven: float
    recall: float
    low: float
    high: float
    confidence: float
    n_checked: int
    asked: float

    @property
    def holds(self) -> bool:
        """Whether the recall asked for is certified: no smaller one is in the interval."""
        return self.low >= self.asked


def exact_certificate(n_queries: int, k: int, asked: float) -> Certificate:
    """That of an exact search."""
    return Certificate(n_queries, k, 1.0, 1.0, 1.0, 1.0, CONFIDENCE, 0, asked)


def certify(
    proven: Array, sampled: Ints, recall: Floats, k: int, asked: float, looks: int
) -> Certificate:
    """From what is proven of all lists, and the recall of a random sample of them.

    Two intervals are valid: that of the sample, and that of its unproven part, which speaks for
    the unproven lists only; the one with the higher lower limit is given. `looks` is the number of
    intervals that may be computed before the search ends: each has the confidence that makes all
    of them hold together (Bonferroni), whenever the search stops.
    """
    share = float(proven.mean())
    if share == 1.0:
        return exact_certificate(len(proven), k, asked)
    confidence = 1 - (1 - CONFIDENCE) / looks
    low, high = clustered_interval(recall, k, confidence)
    estimates = [(low, high, float(recall.mean()))]
    doubtful = recall[~proven[sampled]]
    if len(doubtful):
        low, high = clustered_interval(doubtful, k, confidence)
        parts = (low, high, float(doubtful.mean()))
        low, high, mean = (share + (1 - share) * part for part in parts)
        estimates.append((low, high, mean))
    low, high, mean = max(estimates)
    return Certificate(len(proven), k, share, mean, low, high, CONFIDENCE, len(sampled), asked)


def clustered_interval(shares: Floats, size: int, confidence: float) -> tuple[float, float]:
    """Confidence interval for the mean of a random sample of shares, each of `size` items."""
    from scipy.stats import binomtest

    m, mean = len(shares), float(shares.mean())
    variance = float(shares.var(ddof=1)) / m if m > 1 else 0.0
    effective = float(m)
    if variance > 0:
        effective = min(max(mean * (1 - mean) / variance, m), m * size)
    n = int(effective)
    interval = binomtest(int(np.floor(mean * n + 1e-9)), n).proportion_ci(confidence, "exact")
    # Successes are rounded down, which would make the upper limit too small.
    upper = binomtest(int(np.ceil(mean * n - 1e-9)), n).proportion_ci(confidence, "exact").high
    return float(interval.low), float(upper)


def sample_size(asked: float, looks: int, least: int) -> int:
    """Queries to check so that a flawless sample certifies the recall, twice over."""
    error = (1 - CONFIDENCE) / looks / 2
    return max(least, int(np.ceil(2 * np.log(error) / np.log(asked))))
