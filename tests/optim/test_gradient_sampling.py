"""Steps down from the kinks of piecewise linear functions."""

import numpy as np

from nearfold.optim import descend
from nearfold.optim.gradient_sampling import shortest_in_hull


def kinked(x):
    """|x_0| + 10 |x_1|: along x_1 = 0 no gradient points down."""
    return float(abs(x[0]) + 10 * abs(x[1])), np.array(
        [np.sign(x[0]), 10 * np.where(x[1] < 0, -1, 1)]
    )


def test_a_kink_is_left_downhill():
    x = np.array([1.0, 0.0])
    value, gradient = kinked(x)
    steps = 0.5 ** np.arange(40)
    assert min(kinked(x - t * gradient)[0] for t in steps) >= value  # no line search would end
    lower, there = descend(kinked, x, value)
    assert lower < 0.8 * value
    assert kinked(there)[0] == lower


def test_a_minimum_is_where_it_stays():
    x = np.zeros(2)
    assert descend(kinked, x, 0.0) == (0.0, x)


def test_the_shortest_vector_in_a_hull():
    rng = np.random.default_rng(0)
    for _ in range(20):
        G = rng.normal(size=(5, 8)) + rng.normal(size=8)
        v = shortest_in_hull(G)
        assert (G @ v >= v @ v * (1 - 1e-9)).all()  # the condition of the projection of 0
    inside = np.array([[1.0, 0], [-1, 1], [-1, -1]])
    assert np.abs(shortest_in_hull(inside)).max() < 1e-7
