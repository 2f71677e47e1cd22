"""The slow literal oracle that every route is held to."""

import numpy as np


def _squares(X, q, own):
    square = ((q.astype(np.float64) - X.astype(np.float64)) ** 2).sum(axis=1)
    if own is not None:
        square[own] = np.inf  # self is left out by its index
    return square


def nearest(X, Q, k):
    """Float64 brute force, one query at a time, ties by row number."""
    queries = X if Q is None else Q
    distance, row = np.empty((len(queries), k)), np.empty((len(queries), k), np.int64)
    for i, q in enumerate(queries):
        square = _squares(X, q, i if Q is None else None)
        row[i] = np.lexsort((np.arange(len(X)), square))[:k]
        distance[i] = np.sqrt(square[row[i]])
    return distance, row


def within(X, Q, radius):
    """All pairs at most `radius` apart, by query, then distance, then row."""
    pairs = []
    for i, q in enumerate(X if Q is None else Q):
        distance = np.sqrt(_squares(X, q, i if Q is None else None))
        order = np.lexsort((np.arange(len(X)), distance))
        order = order[distance[order] <= radius]
        pairs += [(i, j, distance[j]) for j in order if Q is not None or j != i]
    query, row, distance = zip(*pairs, strict=True) if pairs else ((), (), ())
    return np.array(query, np.int64), np.array(row, np.int64), np.array(distance, float)


def assert_same(found, want, exact=False):
    """Equal; unless `exact`, sums of squares may round differently in the last place."""
    assert len(found) == len(want)
    for part, expected in zip(found, want, strict=True):
        assert part.shape == expected.shape
        if expected.dtype == np.int64 or exact:
            np.testing.assert_array_equal(part, expected)
        else:
            np.testing.assert_allclose(part, expected, rtol=1e-13)
