"""Kernels k(x, y) as matrices, tile by tile.

Not an estimator but what KernelPCA computes with. Rows go in as they are; tiles are cut by the
width of a row, so that what a tile needs is small beside any memory budget. The named kernels on
dense rows are formed in place from one product. Sparse rows and functions go through scikit-learn.

Kernel PCA centres K about the mean of phi, so it does not matter from which origin phi is measured:
"linear" and "cosine" may be products of rows about a centre, and the squared distances of "rbf" do
not depend on one. Data far from the origin keep their digits that way.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels

from nearfold.blocks import Block, as_rows, get_memory, spans
from nearfold.errors import InputError
from nearfold.linalg import pair_squares, square_norms, squared_distances
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order
from nearfold.state import State, any_of, array, dict_of, number, text

NAMES = ("linear", "poly", "rbf", "sigmoid", "cosine")
_CELLS = 2**18  # values of the rows that a tile is made of
_LEAST, _MOST = 64, 1024  # sides of a tile


def unit_length(X: Array) -> Floats:
    """Rows of length one, zeros as they are; in two steps, so that no square overflows."""
    X = np.asarray(X, dtype=np.float64)
    largest = np.abs(X).max(axis=1, keepdims=True, initial=0.0)
    X = X / np.where(largest == 0.0, 1.0, largest)
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(length == 0.0, 1.0, length))


def tile_side(d: int) -> int:
    """Rows of a tile, from the width of a row alone."""
    return min(_MOST, max(_LEAST, _CELLS // max(1, d)))


class KernelFunction:
    """A kernel with its parameters, and the centre it measures from."""

    fitted_state = State(
        kernel=text(*NAMES),
        gamma=number(least=0),
        degree=number(least=0),
        coef0=number(),
        params=dict_of(any_of(number(), text())),
        centre=any_of(number(), array("d")),
    )

    def __init__(
        self, kernel: Any, gamma: float, degree: float, coef0: float, params: dict[str, Any] | None
    ) -> None:
        self.kernel = kernel
        if not np.isfinite([gamma, degree, coef0]).all():
            raise InputError(f"gamma={gamma}, degree={degree}, coef0={coef0}: use finite numbers.")
        self.gamma, self.degree, self.coef0 = gamma, degree, coef0
        self.params = params or {}
        self.centre: Any = 0.0

    def measure_from_mean(self, X: Any) -> None:
        """Take the mean of the rows (of those of unit length for "cosine") as the centre."""
        if sparse.issparse(X) or self.kernel not in ("linear", "rbf", "cosine"):
            return
        rows = as_rows(X)
        self.centre = rows.combined(partial(_sum_of_block, kernel=self.kernel), np.add) / X.shape[0]

    def between(self, A: Any, B: Any) -> Array:
        """k of every row of A with every row of B."""
        if callable(self.kernel):
            return np.asarray(pairwise_kernels(A, B, metric=self.kernel, **self.params))
        if sparse.issparse(A) and sparse.issparse(B):
            given = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
            K = pairwise_kernels(A, B, metric=self.kernel, filter_params=True, **given)
            return K.toarray() if sparse.issparse(K) else np.asarray(K)
        return self._of_centred(self._about_centre(A), self._about_centre(B))

    def _of_centred(self, A: Array, B: Array) -> Array:
        if self.kernel == "rbf":
            return self._gaussian(A, B)
        K = A @ B.T
        if self.kernel in ("poly", "sigmoid"):
            K *= self.gamma
            K += self.coef0
            if self.kernel == "sigmoid":
                np.tanh(K, out=K)
            elif self.degree == 3:
                np.multiply(K * K, K, out=K)
            else:
                np.power(K, self.degree, out=K)
        return np.asarray(K)

    def _about_centre(self, X: Any) -> Array:
        if sparse.issparse(X):
            X = X.toarray()
        if self.kernel == "cosine":
            return (unit_length(X) - self.centre).astype(X.dtype)
        if self.kernel in ("linear", "rbf"):
            return (X - self.centre).astype(X.dtype, copy=False)
        return np.asarray(X)

    def _gaussian(self, A: Array, B: Array) -> Array:
        """exp(-gamma |a - b|^2); pairs whose large squares have lost digits are measured again."""
        a, b = square_norms(A), square_norms(B)
        squares = squared_distances(A, B, a, b)
        size = float(a.max(initial=0.0) + b.max(initial=0.0))
        eps = float(np.finfo(squares.dtype).eps)
        if 4 * self.gamma * eps * size > 50 * eps:
            i, j = np.nonzero((squares < 0.05 * size) & (squares < 40 / self.gamma))
            squares[i, j] = pair_squares(A, B, i, j)
        np.maximum(squares, 0.0, out=squares)
        squares *= -self.gamma
        return np.asarray(np.exp(squares, out=squares))

    def row_block(self, Q: Any, X: Any, out: Array) -> Array:
        """k of the rows Q with all rows of X, written into `out` tile by tile."""
        for columns in spans(X.shape[0], tile_side(X.shape[1])):
            out[:, columns] = self.between(Q, X[columns])
        return out

    def tile(self, X: Any, rows: slice, columns: slice) -> Array:
        """The part of the kernel matrix of X in these rows and columns."""
        if callable(self.kernel) or sparse.issparse(X):
            K = self.between(X[rows], X[columns])  # (10.23)
        else:
            A = self._about_centre(X[rows])
            K = self._of_centred(A, A if rows == columns else self._about_centre(X[columns]))
        if rows == columns and self.kernel == "rbf":
            np.fill_diagonal(K, 1.0)
        return K

    def _centred_once(self, X: Any, K: Array) -> tuple[KernelFunction, Any]:
        """A kernel and rows with the same tiles, centred beforehand where that fits beside K."""
        if callable(self.kernel) or sparse.issparse(X) or X.nbytes + K.nbytes > get_memory():
            return self, X
        A = np.empty(X.shape, dtype=X.dtype)
        for rows in spans(len(X), tile_side(X.shape[1])):
            A[rows] = self._about_centre(X[rows])
        return _Centred(self.kernel, self.gamma, self.degree, self.coef0, None), A

    def matrix(self, X: Any, dtype: Any, n_jobs: int | None = None) -> Array:
        """k of all rows of X with each other: half of the tiles, as it is symmetric."""
        m = X.shape[0]
        K = np.empty((m, m), dtype=dtype)
        pieces = spans(m, tile_side(X.shape[1]))
        function, A = self._centred_once(X, K)

        def fill(pair: tuple[slice, slice]) -> None:
            rows, columns = pair
            K[rows, columns] = function.tile(A, rows, columns)
            if rows != columns:
                K[columns, rows] = K[rows, columns].T

        pairs = [(a, b) for i, a in enumerate(pieces) for b in pieces[i:]]
        for _ in map_in_order(fill, pairs, n_jobs=n_jobs, label="kernel", total=len(pairs)):
            pass
        return K

    def diagonal(self, X: Any) -> Floats:
        """k of each row of X with itself."""
        m = X.shape[0]
        if self.kernel == "rbf":
            return np.ones(m)
        if callable(self.kernel) or sparse.issparse(X):
            return np.array([self.between(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(m)])
        square = np.empty(m)
        for rows in spans(m, tile_side(X.shape[1])):
            A = self._about_centre(X[rows])
            square[rows] = np.einsum("ij,ij->i", A, A, dtype=np.float64)
        if self.kernel in ("linear", "cosine"):
            return square
        shifted = self.gamma * square + self.coef0
        return np.tanh(shifted) if self.kernel == "sigmoid" else shifted**self.degree


def _sum_of_block(block: Block, kernel: str) -> Floats:
    X = block.dense()
    total = np.zeros(X.shape[1])
    for rows in spans(len(X), tile_side(X.shape[1])):
        part = unit_length(X[rows]) if kernel == "cosine" else X[rows]
        total += part.sum(axis=0, dtype=np.float64)
    return total


class _Centred(KernelFunction):
    """The kernel of rows that are about its centre already."""

    def _about_centre(self, X: Any) -> Array:
        return np.asarray(X)
