"""Kernels k(x, y) as matrices, tile by tile.

Not an estimator but what KernelPCA computes with. The named kernels on dense rows are formed in
place from one product; the squared distances of "rbf" about the centre of the fitted rows, so that
data far from the origin keep their digits. Sparse rows and functions go through scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels

from nearfold.blocks import spans
from nearfold.errors import InputError
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order

NAMES = ("linear", "poly", "rbf", "sigmoid", "cosine")
_SIDE = 1024  # of a tile


def unit_length(X: Array) -> Array:
    """Rows of length one, zeros as they are; in two steps, so that no square overflows."""
    largest = np.abs(X).max(axis=1, keepdims=True, initial=0.0)
    X = X / np.where(largest == 0.0, 1.0, largest)
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(length == 0.0, 1.0, length))


class KernelFunction:
    """A kernel with its parameters, and the centre it measures from."""

    def __init__(
        self, kernel: Any, gamma: float, degree: float, coef0: float, params: dict[str, Any] | None
    ) -> None:
        self.kernel = kernel
        if not np.isfinite([gamma, degree, coef0]).all():
            raise InputError(f"gamma={gamma}, degree={degree}, coef0={coef0}: use finite numbers.")
        self.gamma, self.degree, self.coef0 = gamma, degree, coef0
        self.params = params or {}
        self.centre: Any = 0.0

    def prepare(self, X: Any) -> Any:
        """Rows as `tile` wants them: centred for rbf, of unit length for cosine."""
        if sparse.issparse(X) or callable(self.kernel):
            return X
        if self.kernel == "rbf":
            return np.subtract(X, self.centre, dtype=X.dtype)
        if self.kernel == "cosine":
            return unit_length(X)
        return X

    def tile(self, A: Any, B: Any) -> Array:
        """k of every row of A with every row of B, both prepared."""
        if callable(self.kernel):
            return np.asarray(pairwise_kernels(A, B, metric=self.kernel, **self.params))
        if sparse.issparse(A) or sparse.issparse(B):
            given = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
            K = pairwise_kernels(A, B, metric=self.kernel, filter_params=True, **given)
            return K.toarray() if sparse.issparse(K) else np.asarray(K)
        K = A @ B.T
        if self.kernel == "rbf":
            a, b = np.einsum("ij,ij->i", A, A), np.einsum("ij,ij->i", B, B)
            K *= -2.0
            K += a[:, None]
            K += b
            self._measure_near_pairs(A, B, a, b, K)
            np.maximum(K, 0.0, out=K)
            K *= -self.gamma
            np.exp(K, out=K)
        elif self.kernel in ("poly", "sigmoid"):
            K *= self.gamma
            K += self.coef0
            if self.kernel == "sigmoid":
                np.tanh(K, out=K)
            else:
                np.power(K, self.degree, out=K) if self.degree != 3 else np.multiply(
                    K * K, K, out=K
                )
        return K

    def _measure_near_pairs(self, A: Array, B: Array, a: Floats, b: Floats, squares: Array) -> None:
        """Measure pairs again whose difference of large squares has lost digits that matter."""
        size = float(a.max(initial=0.0) + b.max(initial=0.0))
        eps = float(np.finfo(squares.dtype).eps)
        if 4 * self.gamma * eps * size <= 50 * eps:
            return
        near = np.nonzero((squares < 0.05 * size) & (squares < 40 / self.gamma))
        for few in spans(len(near[0]), max(1, 2**20 // max(1, A.shape[1]))):
            i, j = near[0][few], near[1][few]
            difference = A[i] - B[j]
            squares[i, j] = np.einsum("ij,ij->i", difference, difference)

    def matrix(self, A: Any, dtype: Any, n_jobs: int | None = None) -> Array:
        """k of all rows of A (prepared) with each other: half of the tiles, as it is symmetric."""
        m = A.shape[0]
        K = np.empty((m, m), dtype=dtype)
        pieces = spans(m, _SIDE)

        def fill(pair: tuple[slice, slice]) -> None:
            rows, columns = pair
            K[rows, columns] = self.tile(A[rows], A[columns])
            if rows != columns:
                K[columns, rows] = K[rows, columns].T
            elif self.kernel == "rbf":
                np.fill_diagonal(K[rows, rows], 1.0)

        pairs = [(a, b) for i, a in enumerate(pieces) for b in pieces[i:]]
        for _ in map_in_order(fill, pairs, n_jobs=n_jobs, label="kernel", total=len(pairs)):
            pass
        return K

    def diagonal(self, A: Any) -> Floats:
        """k of each row of A (prepared) with itself."""
        if self.kernel == "rbf":
            return np.ones(A.shape[0])
        if not callable(self.kernel) and not sparse.issparse(A):
            square = np.einsum("ij,ij->i", A, A, dtype=np.float64)
            if self.kernel in ("linear", "cosine"):
                return square
            shifted = self.gamma * square + self.coef0
            return np.tanh(shifted) if self.kernel == "sigmoid" else shifted**self.degree
        return np.array([self.tile(A[i : i + 1], A[i : i + 1])[0, 0] for i in range(A.shape[0])])
