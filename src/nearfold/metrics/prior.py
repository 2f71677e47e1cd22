"""The metric that a learner begins with, or stays near to."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.notation import Array, Floats


def initial_metric(points: Array, prior: Any, random: Any, name: str = "prior") -> Floats:
    """A positive definite M to begin with, or to stay near to.

    "identity"; "covariance", the inverse covariance of the points; "random"; or a matrix.
    """
    d = points.shape[1]
    if isinstance(prior, str):
        if prior == "identity":
            return np.eye(d)
        if prior == "covariance":
            unique = np.unique(points, axis=0).astype(np.float64)
            covariance = np.atleast_2d(np.cov(unique, rowvar=False))
            lam, U = np.linalg.eigh(covariance)
            if lam[0] <= 10 * d * np.finfo(np.float64).eps * lam[-1]:
                raise InputError(
                    f"{name}='covariance' needs points that vary in all directions, but their "
                    "covariance is singular: leave out constant columns, or reduce with PCA first."
                )
            return np.asarray((U / lam) @ U.T)
        if prior == "random":
            A = random.standard_normal((d, 2 * d))
            return np.asarray(A @ A.T / (2 * d))
        raise InputError(
            f"{name}={prior!r}: use 'identity', 'covariance', 'random' or a matrix ({d} x {d})."
        )
    M = np.asarray(prior, dtype=np.float64)
    if M.shape != (d, d):
        raise InputError(f"{name} must be a matrix of shape ({d}, {d}); its shape is {M.shape}.")
    if not np.allclose(M, M.T):
        raise InputError(f"{name} is not symmetric.")
    if np.linalg.eigvalsh(M)[0] <= 0:
        raise InputError(f"{name} is not positive definite.")
    return M.copy()
