"""The metric that a learner starts from, or stays near to."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from nearfold.errors import InputError, NonPSDError, SingularMatrixError, warn
from nearfold.notation import Array, Floats


def initial_metric(
    points: Array, prior: Any, random: Any, name: str = "prior", *, definite: bool = True
) -> Floats:
    """A positive definite M: "identity", "covariance" (its inverse), "random" or a matrix.

    Unless `definite`, a singular matrix is allowed and a singular covariance is pseudo-inverted,
    with a warning. Eigenvalues within rounding of the largest count as 0.
    """
    d = points.shape[1]
    if not isinstance(prior, str):
        return _check_matrix(prior, d, name, definite)
    if prior == "identity":
        return np.eye(d)
    if prior == "random":
        A = random.standard_normal((d, 2 * d))
        return np.asarray(A @ A.T / (2 * d))
    if prior == "covariance":
        return _inverse_covariance(points, name, definite)
    raise InputError(
        f"`{name}` must be 'identity', 'covariance', 'random' or a numpy array of shape "
        f"(n_features, n_features); it is {prior!r}."
    )


def _inverse_covariance(points: Array, name: str, definite: bool) -> Floats:
    unique = np.unique(points, axis=0).astype(np.float64)
    if len(unique) < 2:
        raise InputError(f"{name}='covariance': all points are equal and have no covariance.")
    lam, U = eigh(np.atleast_2d(np.cov(unique, rowvar=False)))
    held = lam > _rounding(lam)
    if definite and not held.all():
        raise SingularMatrixError(
            "Unable to get a true inverse of the covariance matrix since it is not definite. Try "
            f"another `{name}`, or an algorithm that does not require the `{name}` to be strictly "
            "positive definite."
        )
    if not held.all():
        warn(
            "The covariance matrix is not invertible: using the pseudo-inverse instead."
            "To make the covariance matrix invertible you can remove any linearly dependent "
            "features and/or reduce the dimensionality of your input, for instance using "
            "`sklearn.decomposition.PCA` as a preprocessing step."
        )
    return np.asarray((U[:, held] / lam[held]) @ U[:, held].T)


def _check_matrix(prior: Any, d: int, name: str, definite: bool) -> Floats:
    M = np.array(prior, dtype=np.float64)
    if M.shape != (d, d):
        raise InputError(
            f"The input dimensionality {M.shape} of the given mahalanobis matrix `{name}` must "
            f"match the dimensionality of the given inputs ({d})."
        )
    if not np.isfinite(M).all():
        raise InputError(f"`{name}` contains NaN or inf.")
    if not np.allclose(M, M.T):
        raise InputError(f"`{name}` is not symmetric.")
    lam = eigh(M, eigvals_only=True)
    rounding = _rounding(lam)
    if lam[0] < -rounding:
        raise NonPSDError("Matrix is not positive semidefinite (PSD).")
    if definite and lam[0] <= rounding:
        raise SingularMatrixError(
            f"You should provide a strictly positive definite matrix as `{name}`. This one is not "
            f"definite. Try another {name}, or an algorithm that does not require the {name} to be "
            "strictly positive definite."
        )
    return M


def _rounding(lam: Floats) -> float:
    """Eigenvalues below this cannot be told from 0."""
    return float(np.abs(lam).max() * len(lam) * np.finfo(np.float64).eps)
