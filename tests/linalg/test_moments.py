"""Moments of grouped rows against the formula, and their combination against the whole."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nearfold.blocks import ArrayRows, use_executor
from nearfold.linalg import (
    Grouping,
    Moments,
    Workspaces,
    block_moments,
    combine_moments,
    table_moments,
)
from nearfold.linalg.moments import table_spread
from nearfold.state import fields_of

DTYPES = [np.float64, np.float32]


def literal_moments(X, weights, group, n_groups):
    """Sums over rows, one at a time, in long double."""
    X = X.astype(np.longdouble)
    d = X.shape[1]
    count = np.zeros(n_groups, np.longdouble)
    mean = np.zeros((n_groups, d), np.longdouble)
    scatter = np.zeros((d, d), np.longdouble)
    for x, w, g in zip(X, weights, group, strict=True):
        count[g] += w
        mean[g] += w * x
    for g in range(n_groups):
        mean[g] /= count[g] if count[g] > 0 else 1
    for x, w, g in zip(X, weights, group, strict=True):
        scatter += w * np.outer(x - mean[g], x - mean[g])
    return Moments(count, mean, scatter, len(X))


def assert_moments(got, expected, dtype=np.float64, factor=8.0):
    """Errors within a small multiple of rounding: of the largest value, of the scatter's trace."""
    eps, m = np.finfo(dtype).eps, max(got.n_rows, 1)
    assert got.n_rows == expected.n_rows
    np.testing.assert_allclose(got.count, expected.count.astype(float), rtol=1e-12)
    spread = np.sqrt(float(np.trace(expected.scatter)) / m)
    size = float(np.abs(expected.mean).max(initial=0))
    error = np.abs(got.mean - expected.mean.astype(float)).max(initial=0)
    assert error <= factor * (np.finfo(float).eps * size + eps * spread)
    bound = factor * np.sqrt(m) * eps * float(np.trace(expected.scatter))
    assert np.abs(got.scatter - expected.scatter.astype(float)).max(initial=0) <= bound


def make(seed=0, m=60, d=4, n_groups=3, dtype=np.float64, offset=0.0):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(m, d)) + offset).astype(dtype)
    return X, rng.uniform(0.1, 3.0, m), rng.integers(0, n_groups, m)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("workspace", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_block_against_the_formula(weighted, grouped, workspace, dtype):
    X, w, group = make(dtype=dtype)
    before = X.copy()
    got = block_moments(
        X,
        w if weighted else None,
        group if grouped else None,
        3 if grouped else 1,
        workspace=np.full((len(X) + 5, 4), np.nan, dtype) if workspace else None,
    )
    expected = literal_moments(
        X,
        w if weighted else np.ones(len(X)),
        group if grouped else np.zeros(len(X), int),
        3 if grouped else 1,
    )
    assert_moments(got, expected, dtype)
    assert got.count.dtype == got.mean.dtype == np.float64
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_float32_products_stay_float32_and_sums_become_float64(dtype):
    X, _, _ = make(dtype=dtype)
    one, two = block_moments(X[:30]), block_moments(X[30:])
    assert one.scatter.dtype == dtype
    assert combine_moments(one, two).scatter.dtype == np.float64


def test_empty_groups_have_mean_zero():
    X, w, group = make(n_groups=2)
    got = block_moments(X, w, group, 5)
    assert_moments(got, literal_moments(X, w, group, 5))
    np.testing.assert_array_equal(got.mean[2:], 0.0)
    np.testing.assert_array_equal(got.count[2:], 0.0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_row_and_rows_without_weight(dtype):
    X, w, _ = make(dtype=dtype)
    one = block_moments(X[:1])
    np.testing.assert_array_equal(one.scatter, 0.0)
    np.testing.assert_array_equal(one.mean[0], X[0].astype(float))
    w[::2] = 0.0
    odd = block_moments(X[1::2], w[1::2])
    both = block_moments(X, w)
    np.testing.assert_allclose(both.mean, odd.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(both.scatter, odd.scatter, rtol=1e-4, atol=1e-5)


def test_weight_two_is_the_row_twice():
    X, _, group = make()
    repeat = np.random.default_rng(1).integers(0, 4, len(X))
    got = block_moments(X, repeat.astype(float), group, 3)
    twice = block_moments(np.repeat(X, repeat, axis=0), None, np.repeat(group, repeat), 3)
    np.testing.assert_allclose(got.count, twice.count)
    np.testing.assert_allclose(got.mean, twice.mean, atol=1e-14)
    np.testing.assert_allclose(got.scatter, twice.scatter, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    cuts=st.lists(st.integers(0, 40), max_size=6),
    dtype=st.sampled_from(DTYPES),
    offset=st.sampled_from([0.0, 100.0]),
    weighted=st.booleans(),
)
def test_any_split_combines_to_the_whole(seed, cuts, dtype, offset, weighted):
    X, w, group = make(seed, m=40, dtype=dtype, offset=offset)
    weights = w if weighted else np.ones(len(X))
    ends = [0, *sorted(cuts), 40]
    parts = [slice(a, b) for a, b in pairwise(ends) if b > a]
    got = None
    for part in parts:
        fresh = block_moments(X[part], weights[part], group[part], 3)
        got = fresh if got is None else combine_moments(got, fresh)
    assert_moments(got, literal_moments(X, weights, group, 3), dtype)


def test_combine_in_either_order_and_with_new_groups():
    X, w, group = make(n_groups=4)
    early = group < 2

    def part(chosen, n_groups):
        return block_moments(X[chosen], w[chosen], group[chosen], n_groups)

    expected = literal_moments(X, w, group, 4)
    assert_moments(combine_moments(part(early, 2), part(~early, 4)), expected)
    assert_moments(combine_moments(part(~early, 4), part(early, 2)), expected)


@pytest.mark.parametrize("pieces", [1, 7])
def test_an_offset_of_1e8_keeps_the_digits(pieces):
    X, _, group = make(m=500, offset=1e8)
    exact = literal_moments(X, np.ones(500), np.zeros(500, int), 1).scatter.astype(float)
    blocks = [block_moments(part) for part in np.array_split(X, pieces)]
    got = blocks[0]
    for block in blocks[1:]:
        got = combine_moments(got, block)
    # E[x x^T] - mu mu^T has nothing left of a variance of 1 on a square of 1e16
    naive = X.T @ X - len(X) * np.outer(X.mean(axis=0), X.mean(axis=0))
    size = np.trace(exact)
    assert np.abs(naive - exact).max() > 1e-3 * size
    limit = 1e-12 if pieces == 1 else 1e-9  # the means of the pieces are rounded to 1e8 eps
    assert np.abs(got.scatter - exact).max() < limit * size
    grouped = literal_moments(X, np.ones(500), group, 3).scatter.astype(float)
    assert np.abs(block_moments(X, None, group, 3).scatter - grouped).max() < 1e-12 * size


def test_float32_far_from_the_origin():
    """The rounding of the rough mean (1e6 eps = 0.1) must not show in the scatter."""
    X, _, _ = make(m=500, offset=1e6, dtype=np.float32)
    exact = literal_moments(X, np.ones(500), np.zeros(500, int), 1)
    got = block_moments(X)
    assert np.abs(got.mean - exact.mean.astype(float)).max() < 1e-5
    size = float(np.trace(exact.scatter))
    assert np.abs(got.scatter - exact.scatter.astype(float)).max() < 1e-5 * size


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_combining_changes_neither_input(dtype, grouped):
    X, w, group = make(dtype=dtype)
    parts = [slice(0, 20), slice(20, 60)]
    a, b = (
        block_moments(X[p], w[p], group[p] if grouped else None, 3 if grouped else 1, factor=f)
        for p, f in zip(parts, (True, False), strict=True)
    )
    before = [copy.deepcopy(vars(m)) for m in (a, b)]
    for one, two in ((a, b), (b, a), (a, a)):
        combine_moments(one, two)
        combine_moments(combine_moments(one, two), b)
    for moments, held in zip((a, b), before, strict=True):
        for name, value in held.items():
            np.testing.assert_array_equal(getattr(moments, name), value)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("factored", [(True, True), (True, False), (False, True)])
def test_the_factor_is_a_root_of_the_scatter(factored, grouped):
    X, w, group = make(offset=5.0)
    a, b = (
        block_moments(X[p], w[p], group[p] if grouped else None, 3 if grouped else 1, factor=f)
        for p, f in zip((slice(0, 25), slice(25, 60)), factored, strict=True)
    )
    both = combine_moments(a, b)
    np.testing.assert_allclose(both.factor.T @ both.factor, both.scatter, atol=1e-11)
    expected = block_moments(X, w, group if grouped else None, 3 if grouped else 1)
    np.testing.assert_allclose(both.scatter, expected.scatter, atol=1e-11)
    Moments.fitted_state.check(fields_of(both))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_spread_is_the_trace_of_the_scatter(offset, form, monkeypatch):
    monkeypatch.setattr("nearfold.blocks.rows.BLOCK_BYTES", 700)
    X, w, _ = make(offset=offset)
    X[np.abs(X - offset) < 0.5] = 0.0 if offset == 0.0 else offset
    count, mean, total = table_spread(ArrayRows(form(X)).with_weights(w))
    expected = block_moments(X, w)
    np.testing.assert_allclose(count, w.sum())
    np.testing.assert_allclose(mean, expected.mean[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(total, expected.total, rtol=1e-7)


def test_moments_by_processes_equal_those_by_threads(monkeypatch):
    """Blocks, block functions and statistics can all be pickled."""
    monkeypatch.setattr("nearfold.blocks.rows.BLOCK_BYTES", 700)
    X, w, group = make()
    plain = ArrayRows(X).with_weights(w)
    labelled = ArrayRows(X).with_target(np.array(["a", "b", "c"])[group])
    grouping = Grouping(np.array(["a", "b", "c"]), np.array([1.0, 2.0, 0.5]))

    def both():
        return [
            table_moments(plain, np.float64, factor=True),
            table_moments(labelled, np.float64, grouping=grouping),
        ]

    expected = both()
    with PicklingExecutor() as pool, use_executor(pool):
        got = both()
    assert pool.tasks > 6
    for one, two in zip(got, expected, strict=True):
        for name in ("count", "mean", "scatter"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


class PicklingExecutor:
    """What a process pool does to tasks and results, without the processes."""

    def __init__(self):
        self.tasks = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def map(self, task, items):
        for item in items:
            self.tasks += 1
            work, data = pickle.loads(pickle.dumps((task, item)))
            yield pickle.loads(pickle.dumps(work(data)))


def test_workspaces_are_kept_and_grow():
    spaces = Workspaces()
    long, short = np.empty((10, 3)), np.empty((4, 3))
    first = spaces.like(long)
    assert spaces.like(short) is first
    assert len(spaces.like(np.empty((20, 3)))) >= 20


def test_workspaces_have_the_dtype_asked_for():
    spaces = Workspaces()
    spaces.like(np.empty((10, 3), np.float32))
    assert spaces.like(np.empty((5, 3), np.float64)).dtype == np.float64
