"""The interval of the recall covers it as often as it says."""

import numpy as np
import pytest
from scipy.stats import binomtest

from nearfold.neighbors.certificate import certify, clustered_interval, sample_size


def population(kind, rng, n=20_000, k=15):
    """Hits of k neighbours of n queries, dependent within a query in different ways."""
    if kind == "independent":
        return rng.binomial(k, 0.95, n) / k
    if kind == "all or nothing":
        return (rng.random(n) < 0.95).astype(float)
    if kind == "beta":
        return rng.binomial(k, rng.beta(9, 0.6, n)) / k
    return np.where(rng.random(n) < 0.03, rng.binomial(k, 0.3, n) / k, 1.0)  # a few bad rows


@pytest.mark.parametrize("kind", ["independent", "all or nothing", "beta", "few bad"])
def test_the_interval_covers(kind):
    rng = np.random.default_rng(0)
    shares = population(kind, rng)
    true, trials = shares.mean(), 300
    inside = 0
    for _ in range(trials):
        low, high = clustered_interval(rng.choice(shares, 400, replace=False), 15, 0.95)
        inside += low <= true <= high
    # No less than it says, up to what so many trials can tell.
    assert binomtest(inside, trials, 0.95, alternative="less").pvalue > 0.001


def test_neighbours_are_not_counted_as_if_they_were_independent():
    """All-or-nothing rows: 400 rows of 15 are 400 observations, not 6,000."""
    rng = np.random.default_rng(1)
    shares = (rng.random(400) < 0.9).astype(float)
    low, high = clustered_interval(shares, 15, 0.95)
    naive = binomtest(int(shares.sum()) * 15, 6000).proportion_ci(0.95, "exact")
    assert high - low > 3 * (naive.high - naive.low)


def test_a_flawless_sample_counts_rows():
    low, high = clustered_interval(np.ones(400), 15, 0.95)
    assert high == 1.0
    assert low == pytest.approx(binomtest(400, 400).proportion_ci(0.95, "exact").low)
    size = sample_size(0.999, 5, 512)
    assert clustered_interval(np.ones(size), 15, 1 - 0.05 / 5)[0] >= 0.999
    assert sample_size(0.5, 5, 512) == 512


def test_proven_lists_need_no_sample():
    proven = np.ones(1000, dtype=bool)
    sampled = np.arange(0, 1000, 10)
    found = certify(proven, sampled, np.ones(100), 5, 0.99, 5)
    assert found.low == found.recall == found.high == 1.0
    assert found.n_checked == 0
    proven[:500] = False
    half = certify(proven, sampled, np.ones(100), 5, 0.99, 5)
    none = certify(np.zeros(1000, dtype=bool), sampled, np.ones(100), 5, 0.99, 5)
    assert half.proven == 0.5
    assert 0.5 + none.low / 2 > half.low > none.low  # of fewer rows, but of half the weight
    bad = certify(proven, sampled, np.full(100, 0.8), 5, 0.99, 5)
    assert bad.recall == pytest.approx(0.9)
