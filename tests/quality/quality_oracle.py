"""Slow literal oracles, written from the formulas."""

import numpy as np


def distances(X):
    X = np.asarray(X, dtype=np.float64)
    return np.array([[np.sqrt(((a - b) ** 2).sum()) for b in X] for a in X])


def ranks(D):
    """rank[i, j]: the place of j among all rows but i, equal distances by row number; 0 for i."""
    n = len(D)
    rank = np.zeros((n, n), dtype=int)
    for i in range(n):
        others = sorted((D[i, j], j) for j in range(n) if j != i)
        for place, (_, j) in enumerate(others, start=1):
            rank[i, j] = place
    return rank


def trust(rank_x, rank_z, k):
    """Per row: 1 - 2 / (k (2n - 3k - 1)) sum over the k nearest in Z of max(0, rank in X - k)."""
    n = len(rank_x)
    return np.array(
        [
            1
            - 2
            / (k * (2 * n - 3 * k - 1))
            * sum(max(0, rank_x[i, j] - k) for j in range(n) if 1 <= rank_z[i, j] <= k)
            for i in range(n)
        ]
    )


def overlap(rank_x, rank_z, k):
    n = len(rank_x)
    common = [
        sum(1 <= rank_x[i, j] <= k and 1 <= rank_z[i, j] <= k for j in range(n)) for i in range(n)
    ]
    return np.array(common) / k


def co_ranking_matrix(rank_x, rank_z):
    n = len(rank_x)
    q = np.zeros((n - 1, n - 1), dtype=int)
    for i in range(n):
        for j in range(n):
            if i != j:
                q[rank_x[i, j] - 1, rank_z[i, j] - 1] += 1
    return q


def two_spaces(n=40, d=5, seed=0, noise=0.6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, :2] + noise * rng.normal(size=(n, 2))
