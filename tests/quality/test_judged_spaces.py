"""A table as a space: distances and their order against pair-by-pair differences."""

import numpy as np
import pytest
import quality_oracle as oracle
from scipy import sparse
from sklearn.metrics import pairwise_distances

import nearfold
from nearfold.errors import InputError, NonFiniteError
from nearfold.quality import spaces
from nearfold.quality.spaces import Space, check_spaces


@pytest.fixture
def budget(monkeypatch):
    """Set the memory budget; back to the default afterwards."""
    monkeypatch.delenv("NEARFOLD_MEMORY", raising=False)
    yield nearfold.set_memory
    nearfold.set_memory(None)


RNG = np.random.default_rng(0)
TABLES = {
    "few columns": RNG.normal(size=(70, 3)),
    "many columns": RNG.normal(size=(70, 30)),
    "float32": RNG.normal(size=(70, 30)).astype(np.float32),
    "far from zero": RNG.normal(size=(70, 30)) + 1e6,
    "whole numbers": RNG.integers(0, 3, size=(70, 20)).astype(np.float64),
    "whole numbers, far": RNG.integers(0, 3, size=(70, 20)) + 1e9,
    "halves": RNG.integers(0, 3, size=(70, 20)) / 2,
    "duplicates": np.repeat(RNG.normal(size=(14, 12)), 5, axis=0),
    "constant": np.full((70, 12), 0.1),
    "one column": RNG.normal(size=(70, 1)),
}


def literal_order(X, i):
    difference = X.astype(np.float64) - X[i].astype(np.float64)
    square = np.einsum("ij,ij->i", difference, difference)
    order = np.lexsort((np.arange(len(X)), square))
    return order[order != i]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_order_is_that_of_differences_with_ties_by_row(name, many, monkeypatch):
    monkeypatch.setattr(spaces, "_TILE", 16)
    X = TABLES[name]
    space = Space(X)
    measured = space.measure(np.arange(70))
    for i in range(70):
        order = space.order(i, measured[i], many)
        np.testing.assert_array_equal(order, literal_order(X, i))


@pytest.mark.parametrize("name", TABLES)
def test_lengths_are_distances(name, budget):
    X = TABLES[name]
    want = oracle.distances(X)
    for size in ("1GB", "20KB"):  # the second leaves no room for a centred copy
        budget(size)
        space = Space(X)
        found = space.lengths(space.measure(np.arange(70)))
        np.testing.assert_allclose(found, want, rtol=1e-7, atol=1e-300)
        a, b = np.triu_indices(70, 1)
        np.testing.assert_allclose(space.pair_lengths(a, b), want[a, b], rtol=1e-12)


def test_products_that_round_do_not_decide():
    """Rows at the same distance but for the last bits, in an order that products get wrong."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 40))
    X[100:] = X[0] + (X[:100] - X[0])[:, rng.permutation(40)]  # equal squares, other summands
    space = Space(X)
    measured = space.measure(np.arange(200))
    plain = np.argsort(measured[0], kind="stable")
    assert (plain[plain != 0] != literal_order(X, 0)).any()
    np.testing.assert_array_equal(space.order(0, measured[0], False), literal_order(X, 0))


@pytest.mark.parametrize("metric", ["cityblock", "cosine", "chebyshev", "correlation"])
def test_other_metrics_are_scikit_learns(metric):
    X = TABLES["many columns"]
    want = pairwise_distances(X, metric=metric)
    space = Space(X, metric)
    np.fill_diagonal(want, 0)
    np.testing.assert_allclose(space.lengths(space.measure(np.arange(70))), want, atol=1e-14)
    a, b = np.triu_indices(70, 1)
    np.testing.assert_allclose(space.pair_lengths(a, b), want[a, b], atol=1e-14)


def test_a_zero_with_a_sign_is_a_zero():
    D = np.ones((4, 4)) - np.eye(4)
    D[0, 2] = D[2, 0] = -0.0
    space = Space(D, "precomputed")
    np.testing.assert_array_equal(space.order(0, space.measure(np.array([0]))[0], True), [2, 1, 3])


def test_a_metric_without_an_answer_is_refused():
    X = TABLES["many columns"].copy()
    X[3] = 1.0
    with pytest.raises(InputError, match="gives NaN for some pairs"):
        Space(X, "correlation").measure(np.arange(70))


def test_what_cannot_be_judged_is_refused_in_words():
    X = TABLES["many columns"]
    with pytest.raises(InputError, match="X is sparse"):
        check_spaces(sparse.csr_array(X), X)
    with pytest.raises(InputError, match="X has 70 rows and Z has 69"):
        check_spaces(X, X[1:])
    with pytest.raises(InputError, match="Z has 2 rows"):
        check_spaces(X, X[:2])
    holed = X.copy()
    holed[4, 2] = np.nan
    with pytest.raises(NonFiniteError, match=r"column 2: 1; first rows: .4."):
        check_spaces(X, holed)
    with pytest.raises(InputError, match="so large that their squares overflow"):
        check_spaces(X * 1e300, X)
    with pytest.raises(InputError, match="so small that their squares vanish"):
        check_spaces(X, X * 1e-300)


def test_a_constant_of_any_size_is_no_trouble():
    X = np.full((9, 12), 1.7e308)
    space = Space(X)
    np.testing.assert_array_equal(space.measure(np.arange(9)), 0)
    np.testing.assert_array_equal(
        space.order(4, space.measure(np.array([4]))[0], False), [0, 1, 2, 3, 5, 6, 7, 8]
    )


@pytest.mark.parametrize("name", TABLES)
def test_ranks_are_places_in_the_order(name):
    space = Space(TABLES[name])
    measured = space.measure(np.arange(70))
    for i in range(70):
        order = space.order(i, measured[i], False)
        np.testing.assert_array_equal(space.ranks(i, measured[i], order), np.arange(1, 70))


def test_ranks_of_distances_closer_than_rounding():
    """Rows on a sphere about the first one: only their differences tell which is nearer."""
    X = np.random.default_rng(0).normal(size=(200, 40))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[0] = 0.0
    X += 1e3
    space = Space(X)
    measured = space.measure(np.arange(1))
    order = literal_order(X, 0)
    np.testing.assert_array_equal(space.ranks(0, measured[0], order), np.arange(1, 200))
