"""Places counted by the float32 screen: those of `Space.ranks`, to the last row."""

import numpy as np
import pytest

import nearfold.quality.places as places_module
import nearfold.quality.spaces as spaces_module
from nearfold.quality import continuity, trustworthiness
from nearfold.quality.places import count_places
from nearfold.quality.spaces import Space


def tables():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 20))
    apart = X.copy()
    apart[75:] += 1e5  # two groups: within each, squares are small beside those of the rows
    return {
        "float64": X,
        "float32": X.astype(np.float32),
        "whole": np.rint(3 * X),
        "copies": np.repeat(X[:50], 3, axis=0),
        "permuted columns": np.array([rng.permutation(X[0]) for _ in X]),  # equal norms
        "scaled one-hot": np.eye(20)[rng.integers(20, size=150)] / 3.0 + 1.0,
        "in the last bits": 1.0 + 1e-13 * X,
        "far from the origin": X + 1e9,
        "apart": apart,
        "large": 1e148 * X,
        "small": 1e-140 * X,
        "constant": np.full((150, 20), 0.1),
        "one row apart": np.vstack([1e-9 * X[:-1], np.ones(20)]),
        "wide": rng.normal(size=(150, 2500)),
        "F order": np.asfortranarray(X),
    }


@pytest.fixture
def compiled(monkeypatch):
    monkeypatch.setattr(spaces_module, "_PLAIN_PAIRS", 0)
    monkeypatch.setattr(places_module, "_TILE", 40)  # several tiles, the last one smaller
    monkeypatch.setattr(places_module, "_TIES", 10_000)


@pytest.mark.parametrize("name", tables())
def test_the_places_are_those_of_the_sorted_order(name, compiled):
    X = tables()[name]
    space = Space(X)
    n = len(X)
    near = np.array([np.random.default_rng(i).permutation(np.delete(np.arange(n), i))[:6]
                     for i in range(n)])  # fmt: skip
    every = np.arange(n)
    want = [space.ranks(i, m, near[i]) for i, m in zip(every, space.measure(every), strict=True)]
    for n_jobs in (1, 2):
        np.testing.assert_array_equal(count_places(space, near, n_jobs), want)


def test_many_ties_are_left_to_the_sort(compiled, monkeypatch):
    X = np.eye(20)[np.random.default_rng(0).integers(20, size=150)] / 3.0
    Z = X @ np.random.default_rng(1).normal(size=(20, 2))
    want = trustworthiness(X, Z), continuity(X, Z)
    monkeypatch.setattr(places_module, "_TIES", 1)
    assert count_places(Space(X), np.roll(np.arange(150), 1)[:, None]) is None
    assert (trustworthiness(X, Z), continuity(X, Z)) == want


def test_narrow_and_small_tables_are_not_screened():
    X = np.random.default_rng(0).normal(size=(60, 20))
    near = np.roll(np.arange(60), 1)[:, None]
    assert count_places(Space(X), near) is None
    assert count_places(Space(X[:, :2]), near) is None
