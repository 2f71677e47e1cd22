"""The centred, weighted matrix A = diag(sqrt w) (X - 1 mu^T), multiplied but never formed.

X stays sparse, or dense and uncopied; the mean enters as a rank-one correction of each product,
which is stable as long as the products are: no difference of large squares, as X^T X - m mu mu^T.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from nearfold.linalg.eigen import EigenPairs, top_eigenpairs
from nearfold.notation import Array, Floats


class CentredRows:
    """A (m, d) as two products: A V and A^T U."""

    def __init__(self, X: Any, mean: Floats, weights: Floats | None) -> None:
        self.X = X
        self.mean = mean.astype(X.dtype)
        self.shape = X.shape
        self.root = None if weights is None else np.sqrt(weights).astype(X.dtype)

    def times(self, V: Array) -> Array:
        """A V."""
        product = self.X @ V - self.mean @ V
        if self.root is None:
            return np.asarray(product)
        return np.asarray(product * self.root.reshape((-1,) + (1,) * (V.ndim - 1)))

    def transposed_times(self, U: Array) -> Array:
        """A^T U."""
        if self.root is not None:
            U = U * self.root.reshape((-1,) + (1,) * (U.ndim - 1))
        offset = np.multiply.outer(self.mean, U.sum(axis=0))
        return np.asarray(self.X.T @ U - offset)


def top_axes_implicit(A: CentredRows, k: int) -> tuple[Floats, Floats]:
    """The k largest eigenvalues of A^T A and their eigenvectors (rows), by Lanczos.

    It iterates on the smaller of A^T A and A A^T.
    """
    m, d = A.shape
    dtype = np.float64 if A.X.dtype != np.float32 else np.float32
    if d <= m:
        gram = LinearOperator((d, d), matvec=lambda v: A.transposed_times(A.times(v)), dtype=dtype)
        pairs: EigenPairs = top_eigenpairs(gram, k, name="the scatter matrix")
        return pairs.values, pairs.vectors.T
    gram = LinearOperator((m, m), matvec=lambda u: A.times(A.transposed_times(u)), dtype=dtype)
    pairs = top_eigenpairs(gram, k, name="the matrix of inner products")
    return pairs.values, unit_rows(A.transposed_times(pairs.vectors).T)


def top_axes_randomized(
    A: CentredRows, k: int, *, oversamples: int, iterations: int, rng: Any
) -> tuple[Floats, Floats]:
    """The same, approximately: subspace iteration from a random start (Halko et al., 2011)."""
    m, d = A.shape
    width = min(k + oversamples, m, d)
    V = rng.normal(size=(d, width)).astype(A.X.dtype)
    for _ in range(iterations + 1):
        U = np.linalg.qr(A.times(V))[0]
        V = np.linalg.qr(A.transposed_times(U))[0]
    left, s, right = np.linalg.svd(A.times(V), full_matrices=False)
    del left
    return s[:k].astype(np.float64) ** 2, (right @ V.T)[:k]


def unit_rows(axes: Array) -> Array:
    """Rows scaled to length one; a zero row stays zero."""
    length = np.linalg.norm(axes, axis=1, keepdims=True)
    return np.asarray(axes / np.where(length > 0, length, 1.0))
