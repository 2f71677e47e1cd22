"""The compiled screen against NumPy one-liners."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfold.kernels import screen
from nearfold.neighbors.grouped import Marked, Queries

U32 = float(np.finfo(np.float32).eps) / 2
EMPTY_ROW = np.iinfo(np.int64).max
thorough = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def squares(Q, X):
    return ((Q[:, None, :].astype(float) - X[None, :, :].astype(float)) ** 2).sum(axis=2)


def k_smallest(distance, row, k):
    """Pairs in order of distance, then row: the first k, filled up as an empty heap is."""
    pairs = sorted(zip(distance.tolist(), row.tolist(), strict=True))[:k]
    return pairs + [(np.inf, EMPTY_ROW)] * (k - len(pairs))


def sorted_pairs(distance, row):
    return sorted(zip(distance.tolist(), row.tolist(), strict=True))


class Tile:
    """Queries and rows of small integers, which are their own sketches and digits."""

    def __init__(self, seed, m=7, n=21, d=3, high=3, refine=False, dtype=np.float64):
        rng = np.random.default_rng(seed)
        self.n, self.m = n, m
        self.X = rng.integers(0, high, (n, d)).astype(dtype)
        self.Q = rng.integers(0, high, (m + 4, d)).astype(dtype)
        self.row_of = rng.permutation(n)
        self.query_of = rng.permutation(m + 4)[:m]
        self.own_row = np.full(m, -1)
        rows, queries = self.X[self.row_of], self.Q[self.query_of]
        half = (rows.astype(int) ** 2).sum(axis=1) // 2
        self.S = (queries.astype(int) @ rows.T.astype(int) - half).astype(np.int32)
        self.marked = Marked(
            near=None, doubled=None, first=None, chosen=np.arange(m), digits=None,
            sizes=(queries.astype(float) ** 2).sum(axis=1), unit=np.full(m, 2.0),
            offset=np.zeros(m), slack=np.zeros(m), start=None, cuts=None, scores=None, bits=None,
        )  # fmt: skip
        width = d if refine else 0
        self.long_X = rows[:, :width].astype(np.float32)
        self.queries = Queries(
            self.Q, self.query_of, self.own_row, queries.astype(np.float32), np.zeros(m), None
        )
        self.errors = (1.0 + 1e-15, 0.0, (d + 4) * U32)

    def bits(self, columns, worst):
        """Words that say which of these columns may be within sqrt(worst) of each query."""
        marks = np.zeros((self.m, 64 * -(-self.n // 64)), dtype=np.uint8)
        for i in range(self.m):
            cut = screen.lowest_score(worst[i], self.marked, i, 1.0 + 1e-15)
            marks[i, : columns.stop - columns.start] = self.S[i, columns] >= cut
        return np.packbits(marks, axis=1, bitorder="little").view(np.uint64)

    def arguments(self, columns, worst):
        return (
            self.bits(columns, worst), self.marked.chosen, self.errors, self.queries,
            self.row_of, columns.start, self.X, self.long_X,
        )  # fmt: skip

    def candidates(self, i, columns):
        """Rows a query may take from these columns, and their squared distances."""
        row = self.row_of[columns]
        row = row[row != self.own_row[i]]
        return squares(self.Q[self.query_of[i]][None], self.X[row])[0], row


def empty_heaps(m, k):
    return np.full((m, k), np.inf), np.full((m, k), EMPTY_ROW), np.full(m, np.inf)


@thorough
@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 12), st.randoms())
def test_heap_keeps_the_k_smallest_ties_by_row(distances, k, random):
    rows = list(range(len(distances)))
    random.shuffle(rows)
    best, best_row = np.full(k, np.inf), np.full(k, EMPTY_ROW)
    for distance, row in zip(distances, rows, strict=True):
        if screen._is_nearer(float(distance), row, best[0], best_row[0]):
            screen._replace_worst(best, best_row, float(distance), row)
        assert (best[0], best_row[0]) == sorted_pairs(best, best_row)[-1]
    assert sorted_pairs(best, best_row) == k_smallest(np.array(distances, float), np.array(rows), k)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 7, 16, 33])
def test_square_distances(dtype, d):
    a, b = np.random.default_rng(d).standard_normal((2, d)).astype(dtype)
    want = squares(a[None], b[None])[0, 0]
    np.testing.assert_allclose(screen.square_distance_64(a, b), want, rtol=d * 2e-16)
    if dtype == np.float32:
        np.testing.assert_allclose(screen._square_distance_32(a, b), want, rtol=(d + 4) * U32)


def test_float64_distance_of_float32_rows_does_not_round_first():
    a, b = np.array([1e8], np.float32), np.array([4.0], np.float32)
    assert screen.square_distance_64(a, b) == (1e8 - 4.0) ** 2


@thorough
@given(
    square=st.floats(0, 1e6), size=st.floats(0, 1e6), slack=st.floats(0, 1),
    unit=st.floats(1e-3, 1e3), offset=st.integers(-(10**6), 10**6),
)  # fmt: skip
def test_cuts_formula(square, size, slack, unit, offset):
    cut = screen.lowest_score(square, one_query(size, unit, offset, slack), 0, 1.5)
    need = (size - (np.sqrt(square) * 1.5 + slack) ** 2) / unit + offset
    if -(2**28) < need < 2**28:
        assert need - 3.0 - 1e-9 * (abs(need) + size / unit) < cut <= need
    assert screen.LEAST <= cut <= screen.MOST


def one_query(size, unit, offset=0.0, slack=0.0):
    values = {"sizes": size, "unit": unit, "offset": offset, "slack": slack}
    return Marked(**{name: np.array([values.get(name, 0.0)], float) for name in Marked._fields})


def test_an_unknown_distance_lets_all_through():
    assert screen.lowest_score(np.inf, one_query(1.0, 0.1), 0, 1.0) == screen.LEAST
    assert screen.sketch_limit(np.inf, 0.0, 1.0, U32) == np.inf


@thorough
@given(st.integers(0, 10**6), st.integers(-24, 12), st.integers(1, 20))
def test_limits_never_cut_a_pair_at_the_very_distance(seed, exponent, d):
    """Down to sizes whose squares float32 cannot hold."""
    rng = np.random.default_rng(seed)
    q, x = (rng.standard_normal((2, d)) * 10.0**exponent).astype(np.float32)
    true = squares(q[None], x[None])[0, 0]
    assert screen._square_distance_32(q, x) <= screen.sketch_limit(true, 0.0, 1.0, (d + 4) * U32)


@thorough
@given(st.integers(0, 10**6), st.integers(0, 5), st.integers(1, 20))
def test_cuts_never_drop_digits_at_the_very_distance(seed, doubled, d):
    """Also where a query counts larger steps than the rows, and half of |b|^2 is rounded."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-127, 128, (2, d))
    step = rng.uniform(1e-6, 1e3)
    wide = step * 2.0**doubled
    score = a @ b - ((b @ b) >> (doubled + 1))
    true = ((wide * a - step * b) ** 2).sum()
    query = one_query(wide**2 * (a @ a), 2 * wide * step)
    assert score >= screen.lowest_score(true, query, 0, 1.0)


@thorough
@given(st.sets(st.integers(0, 63)))
def test_places_of_bits(places):
    word, place, found = np.uint64(sum(1 << p for p in places)), 99, []
    while word:
        place, word = screen._next_place(place, np.uint64(word))
        found.append(place - 100)
    assert found == sorted(places)


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 64])
def test_marks(columns):
    marks, runs = screen._make_marks(columns)
    assert len(marks) == 8 * len(runs) >= columns
    assert not runs.any()
    scores = np.arange(columns, dtype=np.int32)
    screen._mark_reaching(scores, np.int32(3), marks)
    assert marks[:columns].tolist() == (scores >= 3).tolist()
    assert not marks[columns:].any()
    assert runs.any() == (columns > 3)


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 3, 21, 30])
def test_screen_nearest_is_brute_force(dtype, refine, k):
    for seed in range(5):
        tile = Tile(seed, refine=refine, dtype=dtype)
        tile.own_row[::2] = tile.row_of[: len(tile.own_row[::2])]
        best, best_row, worst = empty_heaps(tile.m, k)
        everything = slice(0, tile.n)
        bounded, measured = screen.screen_nearest(
            *tile.arguments(everything, worst), best, best_row, worst
        )
        for i in range(tile.m):
            want = k_smallest(*tile.candidates(i, everything), k)
            assert sorted_pairs(best[i], best_row[i]) == want
            assert worst[i] == want[-1][0]
        assert measured <= bounded <= tile.m * tile.n


@thorough
@given(st.integers(0, 10**6), st.integers(1, 9), st.permutations(range(3)), st.booleans())
def test_order_of_tiles_does_not_matter(seed, k, order, refine):
    tile = Tile(seed, refine=refine)
    best, best_row, worst = empty_heaps(tile.m, k)
    for t in order:
        columns = slice(7 * t, 7 * t + 7)
        screen.screen_nearest(*tile.arguments(columns, worst), best, best_row, worst)
    for i in range(tile.m):
        want = k_smallest(*tile.candidates(i, slice(0, tile.n)), k)
        assert sorted_pairs(best[i], best_row[i]) == want


def test_screen_measures_few_pairs_once_the_threshold_is_tight():
    tile = Tile(0, m=20, n=200, high=1000, refine=True)
    best, best_row, worst = empty_heaps(tile.m, 1)
    worst[:] = squares(tile.Q[tile.query_of], tile.X).min(axis=1)
    everything = tile.arguments(slice(0, tile.n), worst)
    _, measured = screen.screen_nearest(*everything, best, best_row, worst)
    assert measured <= 2 * tile.m
    assert (best[:, 0] == worst).all()


@thorough
@given(st.integers(0, 10**6), st.integers(0, 6), st.booleans())
def test_screen_within_is_brute_force(seed, square_radius, refine):
    tile = Tile(seed, refine=refine)
    tile.own_row[0] = tile.row_of[3]
    found = (np.empty(999, np.int64), np.empty(999, np.int64), np.empty(999))
    columns = slice(2, 19)
    radius = float(np.sqrt(square_radius))
    radii, limits = np.full(tile.m, radius), np.full(tile.m, square_radius * (1.0 + 1e-15))
    count = screen.screen_within(*tile.arguments(columns, limits), limits, radii, *found)
    want = []
    for i in range(tile.m):
        distance, row = tile.candidates(i, columns)
        near = distance <= square_radius
        want += [(tile.query_of[i], *pair) for pair in zip(row[near], distance[near], strict=True)]
    assert sorted(zip(*(part[:count].tolist() for part in found), strict=True)) == sorted(want)


@pytest.mark.parametrize("k", [1, 4, 21])
def test_first_bounds_are_distances_of_k_rows(k):
    tile = Tile(5, high=50)
    tile.own_row[1] = tile.row_of[0]
    bound, place = np.full((tile.m, k), np.inf), np.zeros((tile.m, k), np.int64)
    worst = np.full(tile.m, np.inf)
    for columns in (slice(0, 9), slice(9, tile.n)):
        S = np.ascontiguousarray(tile.S[:, columns])
        screen.collect_best_scores(
            S, tile.marked, tile.own_row, tile.row_of, columns.start, bound, place
        )
    screen.bound_kth_distances(tile.query_of, tile.row_of, tile.Q, tile.X, bound, place, worst)
    for i in range(tile.m):
        # The sketch is the row itself, so the best scores are the nearest rows.
        want = k_smallest(*tile.candidates(i, slice(0, tile.n)), k)[-1][0]
        assert worst[i] == want
