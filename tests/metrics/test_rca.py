"""RCA against the sums of the paper, and on what makes covariances singular."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import eigh
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils._param_validation import InvalidParameterError

import nearfold
from nearfold.errors import InputError, MemoryBudgetError, NearfoldWarning
from nearfold.metrics.rca import RCA, RCA_Supervised


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


def chunklets(m=90, d=4, size=3, seed=0, dtype=np.float64):
    """Groups about different centres with a spread that is not round; some rows in none."""
    rng = np.random.default_rng(seed)
    chunk = np.arange(m) // size
    X = rng.normal(size=(m, d)) @ (rng.normal(size=(d, d)) + 2 * np.eye(d))
    X += 3 * rng.normal(size=(m // size + 1, d))[chunk]
    chunk[rng.choice(m, m // 6, replace=False)] = -1
    return X.astype(dtype), chunk


def literal_within(X, chunk):
    """C as the paper has it, row by row."""
    d, p = X.shape[1], np.sum(chunk >= 0)
    C = np.zeros((d, d))
    for j in set(chunk.tolist()) - {-1}:
        mu = X[chunk == j].mean(axis=0)
        for x in X[chunk == j]:
            C += np.outer(x - mu, x - mu) / p
    return C


def literal_metric(X, chunk, n_components=None):
    C = literal_within(X, chunk)
    if n_components is None:
        return np.linalg.inv(C)
    S = np.cov(X[chunk >= 0], rowvar=False)
    A = eigh(S, C)[1][:, ::-1][:, :n_components]  # largest a^T S a / a^T C a first
    return A @ np.linalg.inv(A.T @ C @ A) @ A.T


def assert_close(M, expected, rtol=1e-9):
    np.testing.assert_allclose(M, expected, atol=rtol * np.abs(expected).max())


# ---- the formula ---------------------------------------------------------------------


@pytest.mark.parametrize("n_components", [None, 1, 2, 3, 4])
def test_metric_is_that_of_the_paper(n_components):
    X, chunk = chunklets()
    model = RCA(n_components).fit(X, chunk)
    assert model.rank_ == len(model.components_) == (n_components or 4)
    M = model.get_mahalanobis_matrix()
    assert_close(M, literal_metric(X, chunk, n_components))
    assert np.linalg.eigvalsh(M)[0] > -1e-12 * np.abs(M).max()


def test_within_chunklets_the_result_is_white():
    X, chunk = chunklets()
    Z = RCA().fit(X, chunk).transform(X)
    np.testing.assert_allclose(literal_within(Z, chunk), np.eye(4), atol=1e-10)


def test_rows_in_no_chunklet_say_nothing():
    X, chunk = chunklets()
    M = RCA(2).fit(X, chunk).get_mahalanobis_matrix()
    far = np.vstack([X, 1e3 * np.ones((5, 4))])
    assert_close(RCA(2).fit(far, np.append(chunk, [-1] * 5)).get_mahalanobis_matrix(), M)
    assert_close(RCA(2).fit(far, np.append(chunk, [-7] * 5)).get_mahalanobis_matrix(), M)
    used = chunk >= 0
    assert_close(RCA(2).fit(X[used], chunk[used]).get_mahalanobis_matrix(), M)


def test_chunklets_may_have_any_name():
    X, chunk = chunklets()
    used = chunk >= 0
    X, chunk = X[used], chunk[used]
    model = RCA().fit(X, chunk)
    M = model.get_mahalanobis_matrix()
    np.testing.assert_array_equal(model.classes_, np.unique(chunk))
    texts = np.array([f"group {c}" for c in chunk])
    for y in (texts, texts.astype(object), chunk * 1000 + 7, chunk.astype(float), pd.Series(texts)):
        assert_close(RCA().fit(X, y).get_mahalanobis_matrix(), M)
    assert_close(RCA().fit(X, chunks=chunk).get_mahalanobis_matrix(), M)
    with pytest.raises(InputError, match="once"):
        RCA().fit(X, chunk, chunks=chunk)


@pytest.mark.parametrize("n_components", [None, 2])
def test_order_and_place_of_the_rows_do_not_matter(n_components):
    X, chunk = chunklets()
    model = RCA(n_components).fit(X, chunk)
    order = np.random.default_rng(1).permutation(len(X))
    mixed = RCA(n_components).fit(X[order], chunk[order])
    np.testing.assert_allclose(mixed.components_, model.components_, atol=1e-10)
    moved = RCA(n_components).fit(X + 1e5, chunk)
    np.testing.assert_allclose(moved.components_, model.components_, atol=1e-8)


def test_mixing_the_columns_changes_no_distance():
    X, chunk = chunklets()
    T = (
        np.diag([1e-2, 1.0, 1e1, 1e3])
        @ np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    )
    for n_components in (None, 2):
        D = RCA(n_components).fit(X, chunk).pair_distance(np.stack([X[:-1], X[1:]], axis=1))
        model = RCA(n_components).fit(X @ T, chunk)
        np.testing.assert_allclose(
            model.pair_distance(np.stack([X[:-1] @ T, X[1:] @ T], axis=1)), D, rtol=1e-6
        )


def test_float32_stays_float32_and_is_as_accurate_as_its_input():
    X, chunk = chunklets(dtype=np.float32)
    model = RCA(2).fit(X + np.float32(100), chunk)
    assert model.components_.dtype == model.transform(X).dtype == np.float32
    exact = literal_metric((X + np.float32(100)).astype(np.float64), chunk, 2)
    assert_close(model.get_mahalanobis_matrix(), exact, 1e-6)


# ---- singular ------------------------------------------------------------------------


def test_constant_columns_are_left_out_in_silence():
    X, chunk = chunklets()
    wide = np.column_stack([X[:, :2], np.full(len(X), 0.1), X[:, 2:], np.full(len(X), 1e9)])
    M = RCA().fit(wide, chunk).get_mahalanobis_matrix()
    keep = [0, 1, 3, 4]
    assert_close(M[np.ix_(keep, keep)], literal_metric(X, chunk))
    assert np.abs(M[[2, 5]]).max() < 1e-13 * np.abs(M).max()


def test_fewer_deviations_than_columns_give_the_pseudo_inverse_and_say_so():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6))
    chunk = np.full(40, -1)
    chunk[:6] = [0, 0, 1, 1, 1, 2]  # three independent deviations
    with pytest.warns(NearfoldWarning, match="3 directions"):
        model = RCA().fit(X, chunk)
    assert model.rank_ == 3
    C = literal_within(X, chunk)
    Z = model.transform(X)
    used = chunk >= 0
    spread = literal_within(Z[used], chunk[used])
    np.testing.assert_allclose(spread, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(C @ model.get_mahalanobis_matrix() @ C, C, atol=1e-9)
    with pytest.warns(NearfoldWarning, match="3 directions"):
        assert RCA(5).fit(X, chunk).rank_ == 3


def test_copies_of_columns_are_singular_but_lose_nothing():
    X, chunk = chunklets()
    doubled = np.column_stack([X, X[:, 0] + X[:, 1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = RCA().fit(doubled, chunk)
    assert model.rank_ == 4
    pairs = np.stack([doubled[:-1], doubled[1:]], axis=1)
    v = X[:-1] - X[1:]
    expected = np.sqrt(np.einsum("ij,jk,ik->i", v, literal_metric(X, chunk), v))
    np.testing.assert_allclose(model.pair_distance(pairs), expected, rtol=1e-8)


def test_nearly_constant_columns_count_in_their_own_units():
    X, chunk = chunklets()
    X[:, 1] *= 1e-9
    M = RCA().fit(X, chunk).get_mahalanobis_matrix()
    unit = np.array([1, 1e-9, 1, 1])
    expected = literal_metric(X / unit, chunk)
    assert_close(M * np.outer(unit, unit), expected, 1e-7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_is_not_spread(dtype):
    X, chunk = chunklets(dtype=dtype)
    X = np.column_stack([X, X @ np.array([1, 2, 3, 4], dtype=dtype)])  # dependent up to rounding
    model = RCA().fit(X, chunk)
    assert model.rank_ == 4
    assert np.isfinite(model.components_).all()


def test_equal_rows_and_lone_rows_are_refused():
    X = np.repeat(np.eye(3), 2, axis=0)
    with pytest.raises(InputError, match="all rows are equal"):
        RCA().fit(X, [0, 0, 1, 1, 2, 2])
    with pytest.raises(InputError, match="none of the 6 chunklets has two rows"):
        RCA().fit(X, np.arange(6))
    with pytest.raises(InputError, match="none of the 0 chunklets"):
        RCA().fit(X, np.full(6, -1))


def test_one_chunklet_is_the_covariance():
    X, _ = chunklets()
    M = RCA().fit(X, np.zeros(len(X), dtype=int)).get_mahalanobis_matrix()
    assert_close(M, np.linalg.inv(np.cov(X, rowvar=False, bias=True)))
    with pytest.raises(InputError, match="at least two chunklets"):
        RCA(2).fit(X, np.zeros(len(X), dtype=int))


@pytest.mark.parametrize("n_components", [0, 5, -1, 2.0, True, "all"])
def test_impossible_ranks_are_refused(n_components):
    X, chunk = chunklets()
    known = n_components in (5, True)  # of the right kind, but too large, or a truth value
    with pytest.raises(InputError if known else InvalidParameterError, match="n_components"):
        RCA(n_components).fit(X, chunk)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_extreme_values_are_refused_or_right(scale):
    X, chunk = chunklets()
    with pytest.raises(InputError, match="constant first"):
        RCA().fit(X * scale, chunk)


def test_memory_is_estimated_first():
    X, chunk = chunklets(300, 300)
    nearfold.set_memory("1MB")
    with pytest.raises(MemoryBudgetError, match="scatter matrix of 300 features"):
        RCA().fit(X, chunk)


# ---- from labels ---------------------------------------------------------------------


def test_supervised_draws_as_many_chunklets_as_there_are():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(NearfoldWarning, match="only 75 chunklets of 2 rows"):
        RCA_Supervised(random_state=0).fit(X, y)
    with pytest.raises(InputError, match="no class has 60 rows"):
        RCA_Supervised(chunk_size=60).fit(X, y)
    for wrong in ({"n_chunks": 0}, {"chunk_size": 1}):
        with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
            RCA_Supervised(**wrong).fit(X, y)


def test_supervised_is_reproducible_and_knows_its_classes():
    X, y = load_iris(return_X_y=True)
    names = np.array(["b", "a", "c"])[y]
    model = RCA_Supervised(n_chunks=30, random_state=3)
    first, again = clone(model).fit(X, names), clone(model).fit(X, names)
    other = clone(model).set_params(random_state=4).fit(X, names)
    np.testing.assert_array_equal(first.components_, again.components_)
    assert np.abs(first.components_ - other.components_).max() > 1e-3
    assert first.classes_.tolist() == ["a", "b", "c"]
    different = np.unique(X, axis=0, return_index=True)[1]  # copies of rows have no order
    a = clone(model).fit(X[different], y[different])
    mixed = np.random.default_rng(0).permutation(different)
    b = clone(model).fit(X[mixed], y[mixed])
    np.testing.assert_allclose(a.components_, b.components_, rtol=1e-6, atol=1e-6)


def test_supervised_equals_rca_with_whole_classes_as_chunklets():
    X, y = load_iris(return_X_y=True)
    drawn = RCA_Supervised(n_chunks=3, chunk_size=50).fit(X, y)
    np.testing.assert_allclose(drawn.components_, RCA().fit(X, y).components_, atol=1e-9)


def test_preprocessor_looks_up_rows():
    X, chunk = chunklets()
    ids = np.arange(60)
    model = RCA(preprocessor=X).fit(ids, chunk[:60])
    np.testing.assert_array_equal(model.components_, RCA().fit(X[:60], chunk[:60]).components_)
    np.testing.assert_array_equal(model.transform([3, 5]), model.transform(X[[3, 5]]))
