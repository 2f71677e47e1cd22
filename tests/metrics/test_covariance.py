"""The Mahalanobis distance of the data's own covariance."""

import numpy as np
import pytest

import nearfold
from nearfold import Covariance
from nearfold.blocks import ArrayRows
from nearfold.errors import MemoryBudgetError
from nearfold.metrics.covariance import inverse_root_of_covariance
from nearfold.metrics.whitening import centred_factor, whiten_factor


@pytest.mark.parametrize("shape", [(400, 6), (9, 30), (3000, 120), (5, 1)])
def test_it_is_the_pseudo_inverse_of_the_covariance(shape):
    X = np.random.RandomState(0).randn(*shape)
    expected = np.linalg.pinv(np.atleast_2d(np.cov(X, rowvar=False)), rcond=1e-12)
    M = Covariance().fit(X).get_mahalanobis_matrix()
    np.testing.assert_allclose(M, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


def test_small_variances_keep_their_digits():
    """The eigenvalues of the covariance span 1e-20 to 1: a product of the rows would lose them."""
    random = np.random.RandomState(0)
    Q = np.linalg.qr(random.randn(500, 3))[0] * np.sqrt(499)
    Q -= Q.mean(axis=0)
    Q = np.linalg.qr(Q)[0] * np.sqrt(499)
    mix = np.array([[1.0, 1.0, 1.0], [0.0, 1e-6, 1e-6], [0.0, 0.0, 1e-10]])
    model = Covariance().fit(Q @ mix)
    assert model.rank_ == 3
    whitened = model.transform(Q @ mix)
    np.testing.assert_allclose(np.cov(whitened, rowvar=False), np.eye(3), atol=1e-4)


def test_the_units_of_the_columns_do_not_matter():
    X = np.random.RandomState(0).randn(200, 4)
    units = np.array([1e-9, 1.0, 1e6, 1e12])
    ours, scaled = (inverse_root_of_covariance(ArrayRows(A)) for A in (X, X * units))
    assert scaled.shape == (4, 4)
    expected = ours.T @ ours / np.outer(units, units)
    np.testing.assert_allclose(scaled.T @ scaled, expected, rtol=1e-9)


def factor(X):
    return centred_factor(ArrayRows(X), X.mean(axis=0), "test")


def test_blocks_give_the_factor_of_all_rows(monkeypatch):
    X = np.random.RandomState(0).randn(700, 9) + 1e6
    whole = factor(X)
    monkeypatch.setattr("nearfold.metrics.whitening._CELLS", 400)
    parts = factor(X)
    np.testing.assert_allclose(parts.T @ parts, whole.T @ whole, rtol=1e-10, atol=1e-8)
    Z = X - X.mean(axis=0)
    np.testing.assert_allclose(parts.T @ parts, Z.T @ Z, rtol=1e-7, atol=1e-6)


def test_constant_columns_and_rounding_are_left_out():
    X = np.random.RandomState(0).randn(50, 3) + 1e3
    X = np.column_stack([X, np.full(50, 0.1), X[:, 0] + X[:, 1]])
    A = whiten_factor(factor(X), 49, 2 * np.finfo(float).eps * np.abs(X).max(0))
    assert A.shape == (5, 3)
    assert not A[3].any()


def test_it_is_refused_before_work_if_it_does_not_fit():
    X = np.broadcast_to(np.zeros(3000), (3001, 3000))
    nearfold.set_memory("64MB")
    try:
        with pytest.raises(MemoryBudgetError, match=r"64\.0 MB"):
            centred_factor(ArrayRows(X), np.zeros(3000), "The covariance")
    finally:
        nearfold.set_memory(None)
