"""Drawing from labels: every pair possible, each at most once, the same from the same seed."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chisquare

from nearfold.errors import InputError, NearfoldWarning
from nearfold.linalg.row_order import hash_rows, order_by_value
from nearfold.metrics.drawing import (
    default_count,
    draw_chunks,
    draw_pairs,
    draw_quadruplets,
    nearest_triplets,
)


def table(sizes=(12, 7, 5), seed=0, d=3):
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=(len(label), d)), rng.permutation(label)


def random(seed=0):
    return np.random.RandomState(seed)


def as_sets(rows):
    return [tuple(sorted(pair)) for pair in rows.tolist()]


def values(found):
    """The tuples by what their rows hold, not where they stand."""
    return [tuple(map(tuple, found.X[row])) for row in found.rows]


# ---- pairs ---------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 10, 40, 90])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_are_different_and_of_the_right_kind(count, seed):
    X, label = table()
    found = draw_pairs(X, label, count, random(seed))
    alike, unlike = found.rows[found.sign > 0], found.rows[found.sign < 0]
    assert len(alike) == len(unlike) == count
    assert (label[alike[:, 0]] == label[alike[:, 1]]).all()
    assert (label[unlike[:, 0]] != label[unlike[:, 1]]).all()
    assert (found.rows[:, 0] != found.rows[:, 1]).all()
    assert len(set(as_sets(alike))) == len(set(as_sets(unlike))) == count
    assert found.X is X


def test_every_pair_can_be_drawn():
    """As many as there are: then all of them, of the last class too."""
    X, label = table()
    alike = {p for p in combinations(range(len(X)), 2) if label[p[0]] == label[p[1]]}
    unlike = set(combinations(range(len(X)), 2)) - alike
    with (
        pytest.warns(NearfoldWarning, match=f"generated {len(alike)} positive .*requested 900"),
        pytest.warns(NearfoldWarning, match=f"generated {len(unlike)} negative"),
    ):
        found = draw_pairs(X, label, 900, random())
    assert set(as_sets(found.rows[found.sign > 0])) == alike
    assert set(as_sets(found.rows[found.sign < 0])) == unlike
    assert len(found.rows) == len(alike) + len(unlike)


def test_exactly_as_many_as_there_are_is_no_warning():
    X, label = table((3, 3))
    found = draw_pairs(X, label, 6, random())
    assert (found.sign > 0).sum() == 6


@pytest.mark.parametrize("count", [4, 30])  # by trial, and by shuffling all
def test_all_pairs_are_equally_likely(count):
    X, label = table((6, 5, 4))
    seen, source, rounds = {1: Counter(), -1: Counter()}, random(0), 600
    for _ in range(rounds):
        found = draw_pairs(X, label, count, source)
        for kind in (1, -1):
            seen[kind].update(as_sets(found.rows[found.sign == kind]))
    for kind, possible in ((1, 15 + 10 + 6), (-1, 30 + 24 + 20)):
        assert len(seen[kind]) == possible
        frequency = np.array(list(seen[kind].values()))
        assert frequency.sum() == count * rounds
        # Draws without repeats vary less than chi-square's: too small a p-value is still wrong.
        assert chisquare(frequency).pvalue > 1e-4


@pytest.mark.parametrize("draw", [draw_pairs, draw_quadruplets])
def test_the_seed_decides(draw):
    X, label = table()
    first, again, other = (draw(X, label, 20, random(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.rows, again.rows)
    assert set(as_sets(first.rows)) != set(as_sets(other.rows))


@pytest.mark.parametrize("draw", [draw_pairs, draw_quadruplets])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_order_of_the_rows_does_not_matter(draw, dtype):
    X, label = table()
    X = X.astype(dtype)
    order = np.random.default_rng(1).permutation(len(X))
    a, b = draw(X, label, 20, random()), draw(X[order], label[order], 20, random())
    assert values(a) == values(b)


def test_scale_and_place_of_the_columns_do_not_matter():
    X, label = table()
    a = draw_pairs(X, label, 20, random())
    b = draw_pairs(X * [1e-3, 1, 1e4] + [5, -1e3, 0], label, 20, random())
    np.testing.assert_array_equal(a.rows, b.rows)


def test_order_by_value_is_an_order_and_keeps_classes_together():
    X, label = table()
    order = order_by_value(X, label)
    assert sorted(order.tolist()) == list(range(len(X)))
    assert (np.diff(label[order]) >= 0).all()
    constant = np.column_stack([X, np.ones(len(X))])
    assert sorted(order_by_value(constant, label).tolist()) == list(range(len(X)))
    assert sorted(order_by_value(np.full((6, 2), 1e308), label[:6]).tolist()) == list(range(6))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_different_values_have_different_hashes(dtype):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 3, (20_000, 12)).astype(dtype)  # bits at one end of the word only
    for X in (pixels, rng.normal(size=(20_000, 1)).astype(dtype), np.eye(300, dtype=dtype)):
        found = hash_rows(X)
        assert len(np.unique(found)) == len(np.unique(X, axis=0))
        np.testing.assert_array_equal(hash_rows(np.asfortranarray(X[::-1])), found[::-1])
    zeros = np.array([[0.0, 1.0], [-0.0, 1.0]], dtype=dtype)
    assert len(np.unique(hash_rows(zeros))) == 1


def test_classes_of_one_row_are_only_kept_apart():
    X, label = table((5, 1, 1))
    with pytest.warns(NearfoldWarning):
        found = draw_pairs(X, label, 50, random())
    assert set(label[found.rows[found.sign > 0]].ravel().tolist()) == {0}
    assert set(label[found.rows[found.sign < 0]].ravel().tolist()) == {0, 1, 2}


def test_numbers_of_classes_may_have_gaps():
    X, label = table((5, 5))
    found = draw_pairs(X, label * 3, 8, random())
    assert len(found.rows) == 16


@pytest.mark.filterwarnings("ignore:there are only")
def test_what_cannot_be_drawn_is_said():
    X = np.eye(4)
    with pytest.raises(InputError, match="no two rows of the same class"):
        draw_pairs(X, np.arange(4), 3, random())
    with pytest.raises(InputError, match="no two rows of different classes"):
        draw_pairs(X, np.zeros(4, dtype=int), 3, random())


def test_large_tables_are_drawn_from_their_ends_too():
    """Billions of pairs: ranks beyond 2^31 are unranked without rounding."""
    m = 120_000
    label = np.repeat([0, 1], m // 2)
    X = np.arange(m, dtype=float)[:, None]
    found = draw_pairs(X, label, 4000, random())
    alike = found.rows[found.sign > 0]
    assert (alike[:, 0] != alike[:, 1]).all()
    assert (label[alike[:, 0]] == label[alike[:, 1]]).all()
    for c in (0, 1):
        rows = np.sort(alike[label[alike[:, 0]] == c].ravel()) - c * m // 2
        np.testing.assert_allclose(
            np.quantile(rows, [0.25, 0.5, 0.75]) / (m / 2), [0.25, 0.5, 0.75], atol=0.03
        )


def test_default_count():
    assert default_count(3, None) == 180
    assert default_count(3, 7) == 7


# ---- quadruplets, triplets -----------------------------------------------------------


def test_quadruplets_are_an_alike_and_an_unlike_pair():
    X, label = table()
    found = draw_quadruplets(X, label, 30, random())
    a, b, c, d = label[found.rows].T
    assert len(found.rows) == 30
    assert (a == b).all()
    assert (c != d).all()
    assert len(set(as_sets(found.rows[:, :2]))) == len(set(as_sets(found.rows[:, 2:]))) == 30
    assert set(a.tolist()) == {0, 1, 2}


def test_triplets_are_the_nearest():
    X, label = table()
    found = nearest_triplets(X, label, 2, 3)
    D = np.linalg.norm(X[:, None] - X, axis=2)
    expected = set()
    for a in range(len(X)):
        own = [b for b in np.argsort(D[a]) if label[b] == label[a] and b != a][:2]
        others = [c for c in np.argsort(D[a]) if label[c] != label[a]][:3]
        expected |= {(a, b, c) for b in own for c in others}
    assert set(map(tuple, found.rows.tolist())) == expected
    assert len(found.rows) == len(expected) == len(X) * 6


def test_triplets_of_small_classes():
    X, label = table((6, 2, 1))
    with (
        pytest.warns(NearfoldWarning, match="class 1 has 2 elements, .* 1 genuine neighbors inst"),
        pytest.warns(NearfoldWarning, match="class 2 has 1 elements, .* 0 genuine neighbors inst"),
        pytest.warns(NearfoldWarning, match="class 0 has 3 elements of other classes"),
        pytest.warns(NearfoldWarning, match="class 1 has 7 elements of other classes"),
        pytest.warns(NearfoldWarning, match="class 2 has 8 elements of other classes"),
    ):
        found = nearest_triplets(X, label, 3, 10)
    assert set(label[found.rows[:, 0]].tolist()) == {0, 1}  # a lone row has nothing near
    assert set(label[found.rows[:, 2]].tolist()) == {0, 1, 2}
    assert (label[found.rows[:, 0]] == label[found.rows[:, 1]]).all()
    assert (found.rows[:, 0] != found.rows[:, 1]).all()
    with pytest.raises(InputError, match="no triplet"):
        nearest_triplets(X, np.zeros(len(X), dtype=int), 3, 10)


def test_copies_are_near_but_never_the_row_itself():
    X = np.repeat(np.random.default_rng(0).normal(size=(4, 2)), 3, axis=0)
    found = nearest_triplets(X, np.tile([0, 1], 6), 1, 1)
    assert (found.rows[:, 0] != found.rows[:, 1]).all()


# ---- chunklets -----------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3])
def test_chunklets_are_of_one_class_and_apart(size):
    X, label = table()
    n = sum(s // size for s in (12, 7, 5))
    chunks = draw_chunks(X, label, n, size, random())
    counts = np.bincount(chunks[chunks >= 0])
    assert counts.tolist() == [size] * n
    for number in range(n):
        assert len(set(label[chunks == number].tolist())) == 1
    drawn = [label[chunks == number][0] for number in range(n)]
    assert Counter(drawn) == {c: s // size for c, s in enumerate((12, 7, 5))}
    with pytest.raises(InputError, match=f"maximum number of chunks is {n}"):
        draw_chunks(X, label, n + 1, size, random())
    with pytest.raises(InputError, match="at least two rows"):
        draw_chunks(X, label, 1, 1, random())


def test_chunklets_are_drawn_alike_from_any_order():
    X, label = table()
    order = np.random.default_rng(1).permutation(len(X))
    a = draw_chunks(X, label, 6, 2, random(3))
    b = draw_chunks(X[order], label[order], 6, 2, random(3))
    np.testing.assert_array_equal(a[order], b)
    assert (a != draw_chunks(X, label, 6, 2, random(4))).any()


def test_every_row_can_be_in_a_chunklet():
    X, label = table((5, 5, 5))
    source = random(0)
    seen = sum((draw_chunks(X, label, 3, 2, source) >= 0).astype(int) for _ in range(300))
    assert chisquare(seen).pvalue > 1e-4
