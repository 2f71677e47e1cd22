"""Trustworthiness, continuity and overlap: the formulas, scikit-learn, identities."""

import numpy as np
import pytest
import quality_oracle as oracle
import sklearn.manifold
from scipy.stats import ortho_group

import nearfold.quality.spaces as spaces_module
from nearfold.errors import InputError
from nearfold.quality import continuity, neighbor_overlap, trustworthiness


@pytest.mark.parametrize("k", [1, 3, 7, 19])
@pytest.mark.parametrize("tied", [False, True])
def test_the_formulas(k, tied):
    X, Z = oracle.two_spaces()
    if tied:
        X, Z = np.rint(X), np.rint(Z)
    rank_x, rank_z = (oracle.ranks(oracle.distances(A)) for A in (X, Z))
    options = {"n_neighbors": k}
    trusted, kept = oracle.trust(rank_x, rank_z, k), oracle.trust(rank_z, rank_x, k)
    assert trustworthiness(X, Z, **options) == pytest.approx(trusted.mean(), abs=1e-14)
    assert continuity(X, Z, **options) == pytest.approx(kept.mean(), abs=1e-14)
    common = oracle.overlap(rank_x, rank_z, k).mean()
    assert neighbor_overlap(X, Z, **options) == pytest.approx(common, abs=1e-14)


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "cosine", "chebyshev"])
@pytest.mark.parametrize("k", [1, 5, 60])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_trustworthiness_is_scikit_learns(metric, k, dtype):
    X, Z = (A.astype(dtype) for A in oracle.two_spaces(n=150, d=12, seed=k))
    if dtype == np.float32 and metric != "euclidean":
        X = X.astype(np.float64)  # scikit-learn would round the distances to float32
    want = sklearn.manifold.trustworthiness(
        X.astype(np.float64), Z.astype(np.float64), n_neighbors=k, metric=metric
    )
    assert trustworthiness(X, Z, n_neighbors=k, metric=metric) == pytest.approx(want, abs=1e-12)


def test_distances_given_instead_of_rows():
    X, Z = oracle.two_spaces()
    D = oracle.distances(X)
    for measure in (trustworthiness, continuity, neighbor_overlap):
        assert measure(D, Z, metric="precomputed") == measure(X, Z)


def test_the_compiled_route_says_the_same(monkeypatch):
    X, Z = oracle.two_spaces(n=120, d=12)
    want = trustworthiness(X, Z), continuity(X, Z)
    monkeypatch.setattr(spaces_module, "_PLAIN_PAIRS", 0)
    assert (trustworthiness(X, Z), continuity(X, Z)) == want


def test_continuity_is_trustworthiness_the_other_way():
    X, Z = oracle.two_spaces(d=2)
    assert continuity(X, Z) == trustworthiness(Z, X) != trustworthiness(X, Z)


@pytest.mark.parametrize("measure", [trustworthiness, continuity, neighbor_overlap])
def test_what_keeps_all_distances_is_perfect(measure):
    X, _ = oracle.two_spaces(n=80, d=6)
    rotation = ortho_group.rvs(6, random_state=0)
    assert measure(X, X) == 1.0
    assert measure(X, 3 * X @ rotation - 7) == 1.0


def test_chance_gives_a_half():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(400, 5)), rng.normal(size=(400, 2))
    assert trustworthiness(X, Z) == pytest.approx(0.5, abs=0.02)
    assert continuity(X, Z) == pytest.approx(0.5, abs=0.02)
    assert neighbor_overlap(X, Z, n_neighbors=100) == pytest.approx(100 / 399, abs=0.01)


def test_the_worst_space_is_zero():
    """In the one space everyone's nearest is the row that is farthest from it in the other."""
    line = np.array([0.0, 1, 2, 100, 101, 102])[:, None]
    D = 9.0 - 9.0 * np.eye(6)
    D[0, 5] = D[5, 0] = 0.5
    D[[1, 2], 5] = D[5, [1, 2]] = D[[3, 4], 0] = D[0, [3, 4]] = 1.0
    assert continuity(D, line, n_neighbors=1, metric="precomputed") == 0.0
    assert neighbor_overlap(D, line, n_neighbors=1, metric="precomputed") == 0.0


@pytest.mark.parametrize("measure", [trustworthiness, continuity])
def test_half_of_the_rows_is_too_many_neighbours(measure):
    X, Z = oracle.two_spaces(n=20)
    measure(X, Z, n_neighbors=9)
    for k in (0, 10, 30):
        with pytest.raises(
            InputError, match="should be less than half of the 20 rows, from 1 to 9"
        ):
            measure(X, Z, n_neighbors=k)


def test_overlap_takes_any_number_below_the_rows():
    X, Z = oracle.two_spaces(n=20)
    assert neighbor_overlap(X, Z, n_neighbors=19) == 1.0
    with pytest.raises(InputError, match="from 1 to 19"):
        neighbor_overlap(X, Z, n_neighbors=20)


@pytest.mark.parametrize("measure", [trustworthiness, continuity, neighbor_overlap])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_neither_row_order_nor_threads_matter(measure, n_jobs, monkeypatch):
    monkeypatch.setattr(spaces_module, "_PLAIN_PAIRS", 0)  # small tables take one thread
    X, Z = oracle.two_spaces(n=200, d=12)
    order = np.random.default_rng(0).permutation(200)
    found = measure(X[order], Z[order], n_jobs=n_jobs)
    assert found == pytest.approx(measure(X, Z), abs=1e-13)
    assert measure(X, Z, n_jobs=n_jobs) == measure(X, Z)


def test_three_rows_one_column_and_constants_have_answers():
    X = [[0.0], [1.0], [5.0]]
    assert trustworthiness(X, X, n_neighbors=1) == 1.0
    rank_x = oracle.ranks(oracle.distances(X))
    rank_z = oracle.ranks(np.zeros((3, 3)))
    found = trustworthiness(X, np.ones((3, 2)), n_neighbors=1)
    assert found == oracle.trust(rank_x, rank_z, 1).mean()
    assert neighbor_overlap(np.ones((3, 1)), np.ones((3, 1)), n_neighbors=1) == 1.0
