"""The compiled sort and count against NumPy one-liners."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfold.kernels.ranks import count_places, sort_others


def literal(values, own):
    order = np.lexsort((np.arange(len(values)), values))
    return order[order != own]


def sorted_by_kernel(values, own):
    order = np.full(len(values) - 1, -1, dtype=np.int32)
    return sort_others(np.asarray(values, dtype=np.float64), own, order), order


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.floats(0, 1e300) | st.sampled_from([0.0, 1.0, 1.0 + 2**-52, 5e-324, 2.0]), min_size=2
    ),
    st.data(),
)
def test_sorts_by_value_then_row(values, data):
    own = data.draw(st.integers(0, len(values) - 1))
    done, order = sorted_by_kernel(values, own)
    if done:
        np.testing.assert_array_equal(order, literal(np.array(values), own))


@pytest.mark.parametrize(
    "make",
    [
        lambda rng, n: rng.random(n),
        lambda rng, n: rng.random(n) ** 20,  # many octaves
        lambda rng, n: rng.integers(0, 50, n).astype(float),  # ties
        lambda rng, n: np.zeros(n),
        lambda rng, n: np.concatenate([rng.random(n - 1), [1e12]]),
        lambda rng, n: 1 + 1e-13 * rng.integers(0, 1000, n),
    ],
    ids=["uniform", "octaves", "ties", "zeros", "outlier", "last bits"],
)
def test_sorts_usual_rows_without_giving_up(make):
    values = make(np.random.default_rng(0), 5000)
    for own in (0, 2500, 4999):
        done, order = sorted_by_kernel(values, own)
        assert done
        np.testing.assert_array_equal(order, literal(values, own))


def test_gives_up_rather_than_take_forever():
    rng = np.random.default_rng(0)
    values = np.concatenate([1 + 1e-13 * rng.random(5000), [1e-200, 1e200]])
    done, _ = sorted_by_kernel(values, 0)
    assert not done


def test_counts_are_those_of_bincount():
    rng = np.random.default_rng(0)
    n = 300
    rank = np.concatenate([[0], rng.permutation(n - 1) + 1]).astype(np.int32)
    order = (rng.permutation(n - 1) + 1).astype(np.int32)
    gain = rng.random(n)
    counts = np.ones((2, n), dtype=np.int64)
    total = count_places(rank, order, gain, counts)
    before, now = rank[order], np.arange(1, n)
    larger = np.maximum(before, now)
    np.testing.assert_array_equal(counts[0] - 1, np.bincount(larger, minlength=n))
    sign = np.bincount(larger, np.sign(before - now), minlength=n)
    np.testing.assert_array_equal(counts[1] - 1, sign)
    np.testing.assert_allclose(total, gain[larger].sum(), rtol=1e-12)
