"""What a query gets does not depend on the queries beside it, nor on k."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_distances, nan_euclidean_distances

import nearfold
from nearfold.neighbors import build_index

METRICS = ("euclidean", "cosine", "nan_euclidean", "cityblock", "chebyshev", "canberra",
           "braycurtis", "correlation", "seuclidean", "mahalanobis", "sqeuclidean")  # fmt: skip
RNG = np.random.default_rng(0)
ROWS = {"ties": RNG.integers(0, 3, (300, 4)) + 0.0, "plain": RNG.normal(size=(300, 7))}


@pytest.mark.parametrize("algorithm", ["auto", "brute"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", list(ROWS))
def test_alone_and_among_others_to_the_last_bit(metric, algorithm, kind):
    X = ROWS[kind]
    index = build_index(X, metric=metric, algorithm=algorithm)
    distance, row = index.nearest(X[:40], 7)
    alone = [index.nearest(X[i : i + 1], 7) for i in range(40)]
    np.testing.assert_array_equal(distance, np.concatenate([one[0] for one in alone]))
    np.testing.assert_array_equal(row, np.concatenate([one[1] for one in alone]))
    every = index.nearest(X[:40], len(X))
    np.testing.assert_array_equal(row, every[1][:, :7])
    query, found, _ = index.within(X[:40], float(distance[:, 3].max()))
    for i in range(40):
        np.testing.assert_array_equal(
            found[query == i], index.within(X[i : i + 1], float(distance[:, 3].max()))[1]
        )


def test_metrics_without_triangle_inequality_are_searched_row_by_row():
    X = RNG.integers(0, 4, (400, 3)) + 1.0
    tree, brute = (
        build_index(X, metric="braycurtis", algorithm=how) for how in ("ball_tree", "brute")
    )
    np.testing.assert_array_equal(tree.nearest(None, 5)[1], brute.nearest(None, 5)[1])


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_cosine_agrees_with_scikit_learn(scale):
    X = RNG.normal(size=(60, 5))
    X[[3, 30]] = 0.0
    distance, row = build_index(X * scale, metric="cosine").nearest(X[:10], 60)
    expected = np.take_along_axis(cosine_distances(X[:10], X), row, 1)
    np.testing.assert_allclose(distance, expected, atol=1e-14)
    assert (distance[3] == 1.0).all()  # zeros have no angle
    np.testing.assert_array_equal(row[3], np.arange(60))


def test_small_angles_are_told_apart():
    X = RNG.normal(size=(50, 4)) + 1e9
    exact = [[Fraction(float(v)) for v in x] for x in X]

    def angle(a, b):
        """1 - cos by the identity sin^2 = |a x b|^2 / (|a|^2 |b|^2), for small angles."""
        dot = sum(p * q for p, q in zip(a, b, strict=True))
        size = sum(p * p for p in a) * sum(q * q for q in b)
        return float((1 - dot * dot / size) / 2)

    distance, row = build_index(X, metric="cosine").nearest(X[:5], 4)
    expected = [[angle(exact[i], exact[j]) for j in row[i]] for i in range(5)]
    np.testing.assert_allclose(distance, expected, rtol=1e-5)


def test_parallel_rows_are_equally_near():
    x = np.array([0.1, 0.7, -0.3])
    X = np.outer([3.0, 0.1, 7.7, 1.0, 1e-5], x)
    distance, row = build_index(X, metric="cosine").nearest(x[None], 5)
    assert not distance.any()
    assert row.tolist() == [[0, 1, 2, 3, 4]]


def test_missing_values_far_from_the_origin():
    X = RNG.normal(size=(80, 5))
    X[RNG.random(X.shape) < 0.2] = np.nan
    D = nan_euclidean_distances(X[:10], X)
    distance, row = build_index(X + 1e9, metric="nan_euclidean").nearest(X[:10] + 1e9, 6)
    np.testing.assert_allclose(distance, np.take_along_axis(D, row, 1), atol=1e-6)
    np.testing.assert_allclose(distance, np.sort(D, axis=1)[:, :6], atol=1e-6)


def test_unit_rows_of_a_wide_table_are_made_in_tiles():
    X = RNG.normal(size=(4096, 1500)).astype(np.float32)
    nearfold.set_memory("64MB")
    try:
        tracemalloc.start()
        build_index(X, metric="cosine").nearest(X[:2], 3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        nearfold.set_memory(None)
    assert peak < 4 * 2**23  # a few tiles, not 4096 rows in float64 (49 MB)
