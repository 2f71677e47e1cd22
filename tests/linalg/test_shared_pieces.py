"""Squared distances with their bound, clamped spectra, whitening: one of each for the package."""

import numpy as np
import pytest

from nearfold.linalg import (
    accurate_squared_distances,
    clamp_spectrum,
    pair_squares,
    squared_distance_error,
    squared_distances,
    whiten,
)


def exact_squares(A, B):
    difference = A[:, None].astype(np.longdouble) - B[None].astype(np.longdouble)
    return (difference**2).sum(axis=2)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("offset", [0.0, 1e2, 1e5])
def test_the_bound_of_the_error_holds(dtype, offset):
    rng = np.random.default_rng(0)
    A = (rng.normal(size=(30, 7)) + offset).astype(dtype)
    B = (rng.normal(size=(20, 7)) + offset).astype(dtype)
    off = np.abs(squared_distances(A, B) - exact_squares(A, B)).astype(float)
    reach = np.linalg.norm(A.astype(float), axis=1)[:, None] + np.linalg.norm(
        B.astype(float), axis=1
    )
    assert (off <= squared_distance_error(7, reach, 0.0, dtype)).all()
    assert off.max() > 1e-4 * squared_distance_error(7, reach, 0.0, dtype).min()  # not idle


def test_near_pairs_keep_their_digits():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(40, 5)) * 1e3
    B = A + rng.normal(size=A.shape) * 1e-6
    exact = exact_squares(A, B).astype(float)
    assert np.abs(accurate_squared_distances(A, B) / exact - 1).max() < 1e-7
    assert np.abs(np.diagonal(squared_distances(A, B)) / np.diagonal(exact) - 1).max() > 1e-3
    i = np.arange(40)
    np.testing.assert_allclose(pair_squares(A, B, i, i), np.diagonal(exact), rtol=1e-9)


def test_rounding_and_negative_eigenvalues_are_zero():
    lam = np.array([2.0, 1e-15, -1e-3])
    assert clamp_spectrum(lam).tolist() == [2.0, 0.0, 0.0]
    assert clamp_spectrum(np.array([1.0, 1e-6]), np.float32).tolist() == [1.0, 0.0]
    assert clamp_spectrum(np.array([-1.0])).tolist() == [0.0]
    assert clamp_spectrum(np.zeros(0)).shape == (0,)


def test_whitening_gives_the_identity_on_what_is_kept():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(50, 4)) @ np.diag([10.0, 1.0, 0.1, 0.0])
    C = X.T @ X
    sd = np.array([2.0, 3.0, 0.5, 1.0])
    lam, V = np.linalg.eigh(C / np.outer(sd, sd))
    A = whiten(lam, V, 1e-10 * lam.max(), sd)
    assert A.shape == (4, 3)
    np.testing.assert_allclose(A.T @ C @ A, np.eye(3), atol=1e-9)
