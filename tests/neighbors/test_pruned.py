"""The pruned search against literal brute force: every axes, every kind of data, every k."""

from functools import cache

import neighbors_oracle as oracle
import numpy as np
import pytest

from nearfold.neighbors import groups, pruned
from nearfold.neighbors.plan import SAMPLE, choose_axes
from nearfold.neighbors.pruned import PrunedIndex
from nearfold.neighbors.sketch import CannotSketch

N, M, D = 1100, 530, 32  # three tiles of rows, two of queries, the last ones not full
AXES = [3, 7, 15, 0]  # 0: all columns
FLOATS = [np.float32, np.float64]


def low_rank(rng, n, d=D, rank=4):
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d))


def clusters(rng, n, spread=1.0):
    centres = 20 * rng.standard_normal((6, D))
    return centres[rng.integers(0, 6, n)] + spread * rng.standard_normal((n, D))


def flat_pieces(rng, n):
    """Groups that each lie near a plane of their own."""
    piece, planes = rng.integers(0, 12, n), rng.standard_normal((12, 2, D))
    inside = np.einsum("ij,ijd->id", rng.standard_normal((n, 2)), planes[piece])
    return rng.standard_normal((12, D))[piece] + inside + 1e-3 * rng.standard_normal((n, D))


DATA = {
    "gaussian": lambda rng, n: rng.standard_normal((n, D)),
    "integers": lambda rng, n: rng.integers(0, 2, (n, D)),
    "few integers": lambda rng, n: rng.integers(0, 2, (n, 4)) @ rng.integers(-1, 2, (4, D)),
    "clusters": clusters,
    "tight clusters": lambda rng, n: clusters(rng, n, 1e-3),
    "low rank": low_rank,
    "noisy low rank": lambda rng, n: low_rank(rng, n) + 0.05 * rng.standard_normal((n, D)),
    "near duplicates": lambda rng, n: (
        rng.standard_normal((9, D))[rng.integers(0, 9, n)] + 1e-5 * rng.standard_normal((n, D))
    ),
    "constant": lambda rng, n: np.full((n, D), 0.1),
    "flat pieces": lambda rng, n: flat_pieces(rng, n),
}
EXACT = {"integers", "few integers", "constant"}  # sums of squares without rounding


@cache
def tables(name, dtype, n=N, offset=0.0):
    """Rows and queries; some queries are rows of the table."""
    both = DATA[name](np.random.default_rng(7), n + M) + offset
    X, Q = both[:n].astype(dtype), both[n:].astype(dtype)
    Q[:20] = X[:20]
    return X, Q


@cache
def index_of(name, dtype, axes):
    return PrunedIndex(tables(name, dtype)[0], axes=axes, n_jobs=2)


@pytest.fixture(scope="module")
def answers():
    """The oracle's answers, each worked out once for all plans."""
    return cache(lambda name, dtype, own: oracle.nearest(*_asked(name, dtype, own), 8))


def _asked(name, dtype, own):
    X, Q = tables(name, dtype)
    return X, None if own else Q


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("own", [True, False], ids=["self", "queries"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", DATA)
def test_nearest(answers, name, dtype, own, axes):
    distance, row = index_of(name, dtype, axes).nearest(_asked(name, dtype, own)[1], 8)
    assert distance.dtype == np.float64
    oracle.assert_same((distance, row), answers(name, dtype, own), name in EXACT)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("name", ["integers", "noisy low rank"])
@pytest.mark.parametrize("k", [1, 2, 511, 512, 600, N - 1])
def test_number_of_neighbours_beyond_a_tile(name, k, axes):
    X, Q = tables(name, np.float64)
    index = index_of(name, np.float64, axes)
    oracle.assert_same(index.nearest(Q[:60], k), oracle.nearest(X, Q[:60], k), name in EXACT)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("own", [True, False], ids=["self", "queries"])
@pytest.mark.parametrize("name", ["integers", "few integers", "clusters", "noisy low rank"])
def test_within(name, own, axes):
    X, Q = tables(name, np.float32)
    Q = None if own else Q[:200]
    radius = 2.2 if name == "few integers" else oracle.nearest(X, X[:1], 12)[0][0, -1] * 1.001
    found = index_of(name, np.float32, axes).within(Q, radius)
    assert len(found[0]) > 100
    oracle.assert_same(found, oracle.within(X, Q, radius), name in EXACT)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("square", [2, 3, 5, 6, 7])
def test_a_radius_equal_to_a_distance_reaches_it(square, axes):
    X = np.zeros((60, D))
    X[:, :3] = np.random.default_rng(0).integers(0, 3, (60, 3))
    radius = float(np.sqrt(square))
    found = PrunedIndex(X, axes=axes).within(None, radius)
    oracle.assert_same(found, oracle.within(X, None, radius), exact=True)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("radius", [0.0, 1e200, np.inf])
def test_extreme_radii(axes, radius):
    X = np.repeat(tables("integers", np.float64)[0][:30], 2, axis=0)
    found = PrunedIndex(X, axes=axes).within(None, radius)
    oracle.assert_same(found, oracle.within(X, None, radius), exact=True)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize(("dtype", "offset"), [(np.float32, 1e6), (np.float64, 1e8)])
@pytest.mark.parametrize("name", ["gaussian", "integers", "noisy low rank"])
def test_far_from_the_origin(name, dtype, offset, axes):
    X, Q = tables(name, dtype, n=600, offset=offset)
    index = PrunedIndex(X, axes=axes)
    # What is left of the table is a coarse grid: its sums of squares hardly round.
    exact = name == "integers" or dtype == np.float32
    oracle.assert_same(index.nearest(None, 5), oracle.nearest(X, None, 5), exact)
    oracle.assert_same(index.nearest(Q[:100], 5), oracle.nearest(X, Q[:100], 5), exact)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("n", [2, 3, 17, 511, 513])
def test_small_tables(n, axes):
    X, Q = tables("noisy low rank", np.float64)
    index = PrunedIndex(X[:n], axes=axes)
    k = min(4, n - 1)
    oracle.assert_same(index.nearest(None, k), oracle.nearest(X[:n], None, k))
    oracle.assert_same(index.nearest(Q[:3], n), oracle.nearest(X[:n], Q[:3], n))


@pytest.mark.parametrize("axes", AXES)
def test_duplicates_stay_and_only_self_goes(axes):
    X = np.repeat(np.random.default_rng(3).standard_normal((200, D)), 3, axis=0)
    distance, row = PrunedIndex(X, axes=axes).nearest(None, 2)
    mine = np.arange(len(X))
    others = [[j for j in range(i - i % 3, i - i % 3 + 3) if j != i] for i in mine]
    assert row.tolist() == others
    assert not distance.any()


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("name", ["integers", "clusters"])
def test_threads_change_nothing(name, axes):
    X, Q = tables(name, np.float32)
    asked = [(Q, 7), (None, 7)]
    results = []
    for n_jobs in (1, 2, 3):
        index = PrunedIndex(X, axes=axes, n_jobs=n_jobs)
        lists = [part for Q_, k in asked for part in index.nearest(Q_, k)]
        results.append([*lists, *index.within(Q, 5.0), index.counts])
    for other in results[1:]:
        for first, part in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(part, first)


def test_queries_in_batches(monkeypatch):
    monkeypatch.setattr(pruned, "_BATCH_CELLS", 0)
    monkeypatch.setattr(pruned, "_QUERY_TILE", 60)
    X, Q = tables("clusters", np.float64)
    index = index_of("clusters", np.float64, 7)
    oracle.assert_same(index.nearest(Q, 3), oracle.nearest(X, Q, 3))
    oracle.assert_same(index.within(Q, 7.0), oracle.within(X, Q, 7.0))


@pytest.mark.parametrize("scale", [1e-130, 1e-30, 1e30, 1e130])
def test_units_do_not_matter(scale):
    X, Q = tables("noisy low rank", np.float64)
    axes = 7
    distance, row = PrunedIndex(X * scale, axes=axes).nearest(Q * scale, 5)
    reference = index_of("noisy low rank", np.float64, axes).nearest(Q, 5)
    np.testing.assert_array_equal(row, reference[1])
    np.testing.assert_allclose(distance, reference[0] * scale, rtol=1e-9)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("size", [1e6, 1e12])
@pytest.mark.parametrize("sampled", [True, False])
def test_an_outlier_within_range(size, sampled, axes):
    X = low_rank(np.random.default_rng(0), 2200)
    X[_row_in_sample(len(X), sampled)] = size
    rows = np.arange(0, len(X), 20)
    distance, row = PrunedIndex(X, axes=axes).nearest(None, 4)
    want = oracle.nearest(X, X[rows], 5)  # self comes first when it is asked as a query
    np.testing.assert_array_equal(row[rows], want[1][:, 1:])
    np.testing.assert_allclose(distance[rows], want[0][:, 1:], rtol=1e-13)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("size", [1e20, 1e60])
def test_an_outlier_out_of_range_is_said(size, axes):
    X = low_rank(np.random.default_rng(0), 2200)
    index = PrunedIndex(X, axes=axes)
    with pytest.raises(CannotSketch):
        index.nearest(np.full((1, D), size), 3)
    with pytest.raises(CannotSketch):
        index.within(np.full((1, D), size), 3.0)
    X[_row_in_sample(len(X), False)] = size
    with pytest.raises(CannotSketch):
        PrunedIndex(X, axes=axes)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("size", [1e20, 1e22, 1e23])
def test_opposite_outliers_that_squeeze_the_rest(monkeypatch, size, axes):
    """Scaled by the outliers, squares between the other rows are below float32's normal range."""
    monkeypatch.setattr(groups, "ROW_TILE", 128)  # so that most groups hold no outlier
    X = low_rank(np.random.default_rng(0), 1000)
    X[[3, 700]] = 0.0
    X[3, 0], X[700, 0] = size, -size
    oracle.assert_same(PrunedIndex(X, axes=axes).nearest(None, 5), oracle.nearest(X, None, 5))


def _row_in_sample(n, sampled):
    order = np.random.default_rng(0).permutation(n)  # as PrunedIndex draws it
    return order[0] if sampled else order[SAMPLE]


def axes_for(X, k=5):
    return PrunedIndex(X, k_hint=k).axes


def test_isotropic_data_keep_all_columns():
    X = np.random.default_rng(0).standard_normal((3000, 64)).astype(np.float32)
    assert axes_for(X) == 0


def test_low_rank_data_get_few_axes():
    assert 3 <= axes_for(low_rank(np.random.default_rng(0), 3000, d=64, rank=5)) <= 15


@pytest.mark.parametrize("n", [2, 3, 40])
def test_axes_of_tiny_and_constant_tables(n):
    assert axes_for(np.ones((n, D)), k=1) < D
    sample = np.zeros((1, D), np.float32)
    assert choose_axes(sample, np.eye(D, 4, dtype=np.float32), 1, 1) < D


@pytest.mark.parametrize("name", ["low rank", "noisy low rank"])
def test_few_pairs_are_measured_on_low_rank_data(name):
    X, Q = tables(name, np.float64)
    index = PrunedIndex(X, axes=15)
    index.nearest(Q, 5)
    bounded, measured = index.counts
    assert 5 * M <= measured <= bounded
    assert measured < 0.05 * N * M


def test_wide_tables():
    X = low_rank(np.random.default_rng(1), 600, d=1100, rank=6)
    index = PrunedIndex(X)
    assert 0 < index.axes < 1100
    oracle.assert_same(index.nearest(X[:50], 5), oracle.nearest(X, X[:50], 5))


def test_few_pairs_are_bounded_where_each_group_has_directions_of_its_own():
    X = flat_pieces(np.random.default_rng(2), 6000).astype(np.float32)
    index = PrunedIndex(X)
    index.nearest(X[:500], 5)
    assert index.counts[0] < 0.05 * 500 * len(X)


def test_groups_smaller_than_k():
    X, Q = tables("tight clusters", np.float64)
    index = PrunedIndex(np.repeat(X[:130], 9, axis=0), axes=7)
    oracle.assert_same(index.nearest(Q[:40], 300), oracle.nearest(index.X, Q[:40], 300))


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("factor", [3.0, 40.0, 1e5])
@pytest.mark.parametrize("name", ["gaussian", "noisy low rank", "tight clusters"])
def test_queries_far_outside_the_rows(name, factor, axes):
    """Their digits count steps twice, four times ... as large as those of the rows."""
    X, Q = tables(name, np.float64)
    Q = factor * Q[20:150]
    oracle.assert_same(index_of(name, np.float64, axes).nearest(Q, 6), oracle.nearest(X, Q, 6))


@pytest.mark.parametrize("axes", AXES)
def test_groups_far_apart_cost_each_other_nothing(axes):
    """Digits that had to reach from one to the other could not tell the rows of one apart."""
    X = low_rank(np.random.default_rng(4), 4000, rank=3)
    X[::2] += 1e4
    index = PrunedIndex(X, axes=axes)
    index.nearest(X[:300], 5)
    assert index.counts[0] < 0.1 * 300 * len(X)


def test_a_row_far_out_costs_the_others_little():
    X = low_rank(np.random.default_rng(4), 4000, rank=3)
    X[7] *= 1e5
    index = PrunedIndex(X, axes=7)
    index.nearest(X[100:400], 5)
    assert index.counts[0] < 0.2 * 300 * len(X)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_few_columns_leave_the_bounds_no_room(d):
    """What rounding to digits moves, it moves along the difference of the two rows."""
    rng = np.random.default_rng(d)
    X, Q = rng.random((2000, d)), rng.random((400, d))
    index = PrunedIndex(X, axes=0)
    oracle.assert_same(index.nearest(Q, 3), oracle.nearest(X, Q, 3))
    oracle.assert_same(index.within(Q, 0.05), oracle.within(X, Q, 0.05))
