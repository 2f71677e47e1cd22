"""The way back from kernel PCA: kernel ridge regression of the rows on their embedding.

Not an estimator but what KernelPCA(fit_inverse_transform=True) learns, about the mean of the rows
(scikit-learn has no intercept, and so loses the mean). Exact on all rows, or on some of them, the
pivots of a factor of low rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from nearfold.blocks import require_memory, spans
from nearfold.errors import SolverError
from nearfold.methods.kernel_functions import KernelFunction
from nearfold.notation import Array, Floats, Ints
from nearfold.run import one_blas_thread
from nearfold.state import State, array, nested

_ROWS = 512  # at a time


@dataclass(frozen=True)
class PreImage:
    """Rows of the original space are function(z, centres) coefficients + mean."""

    function: KernelFunction
    centres: Floats  # (q, k) in the embedding
    coefficients: Floats  # (q, d)
    mean: Array  # (d,)

    fitted_state = State(
        function=nested(KernelFunction, d="k"),
        centres=array("q k"),
        coefficients=array("q d"),
        mean=array("d"),
    )

    def reconstruct(self, Z: Array) -> Floats:
        """Rows of the original space for the rows Z of the embedding."""
        X = np.empty((len(Z), len(self.mean)), dtype=np.result_type(Z, self.coefficients))
        for rows in spans(len(Z), max(1, 2**20 // max(1, len(self.centres)))):
            X[rows] = self.function.between(Z[rows], self.centres) @ self.coefficients + self.mean
        return X


@one_blas_thread()
def _solve(K: Floats, target: Floats) -> Floats:
    try:
        return np.asarray(linalg.solve(K, target, assume_a="pos"))
    except linalg.LinAlgError as error:
        raise SolverError(
            f"the pre-image could not be learned: {error}. Use a larger alpha, or a kernel that is "
            "positive semi-definite."
        ) from None


def preimage_bytes(m: int, d: int) -> float:
    """What learning the pre-image on all m rows takes."""
    return 8.0 * (2 * m * m + 3 * m * d)


def learn_from_all(
    function: KernelFunction, Z: Floats, X: Array, alpha: float, n_jobs: int | None
) -> PreImage:
    """By the regression of X, about its mean, on Z."""
    m, d = X.shape
    advice = "Use low_rank with a rank: the pre-image is then learned on its pivots."
    require_memory(preimage_bytes(m, d), f"The pre-image of {m:,} rows", advice)
    mean = X.mean(axis=0)
    K = function.matrix(Z, Z.dtype, n_jobs)
    K.flat[:: m + 1] += alpha
    return PreImage(function, Z, _solve(K, X - mean), mean)


def pivots_bytes(r: int, d: int) -> float:
    """What learning the pre-image on r pivots takes."""
    return 8.0 * (3 * r * r + 3 * r * d + 2 * _ROWS * (r + d))


@one_blas_thread()
def learn_from_some(
    function: KernelFunction, Z: Floats, X: Array, alpha: float, chosen: Ints
) -> PreImage:
    """By the same with kernels at the chosen rows only, fitted to all."""
    (m, d), r = X.shape, len(chosen)
    require_memory(pivots_bytes(r, d), f"The pre-image on {r:,} pivots", "Use a lower rank.")
    centres, mean = Z[chosen], X.mean(axis=0)
    left = alpha * function.between(centres, centres).astype(np.float64)
    right = np.zeros((r, d))
    for rows in spans(m, _ROWS):
        K = function.between(Z[rows], centres).astype(np.float64)
        left += K.T @ K
        right += K.T @ (X[rows] - mean)
    left.flat[:: r + 1] += 1e-10 * np.trace(left) / r
    return PreImage(function, centres, _solve(left, right).astype(Z.dtype), mean)
