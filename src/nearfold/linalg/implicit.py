"""The centred, weighted matrix A = diag(sqrt w) (X - 1 mu^T), multiplied but never formed.

X stays sparse, or dense and uncopied. The mean enters as a rank-one correction of each product,
which costs the digits by which the mean exceeds the spread. Dense rows far from the origin are
therefore centred, part by part, inside the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from nearfold.blocks import spans
from nearfold.linalg.eigen import EigenPairs, top_eigenpairs
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order, one_blas_thread

_CELLS = 2**21  # of X in one part of a product: below that a pool of threads costs more


class CentredRows:
    """A (m, d) as two products: A V and A^T U.

    Products with dense rows run in parts cut by the table alone, whose sums are added in order:
    they do not depend on the number of threads.
    """

    def __init__(
        self, X: Any, mean: Floats, weights: Floats | None, spread: float = np.inf
    ) -> None:
        """`spread` is the root mean square distance of the rows from their mean, if known."""
        self.X = X
        self.mean = mean.astype(X.dtype)
        self.shape = X.shape
        self.root = None if weights is None else np.sqrt(weights).astype(X.dtype)
        self._exact_mean = mean.astype(np.float64)
        self._far = float(np.linalg.norm(mean)) > 4.0 * spread
        self._parts = spans(X.shape[0], max(1, _CELLS // max(1, X.shape[1])))

    def times(self, V: Array) -> Array:
        """A V."""
        if sparse.issparse(self.X):
            product = self.X @ V - self.mean @ V
        else:
            product = np.concatenate(list(self._over_parts(partial(self._part_times, V))))
        if self.root is None:
            return np.asarray(product)
        return np.asarray(product * self.root.reshape((-1,) + (1,) * (V.ndim - 1)))

    def transposed_times(self, U: Array) -> Array:
        """A^T U."""
        if self.root is not None:
            U = U * self.root.reshape((-1,) + (1,) * (U.ndim - 1))
        if sparse.issparse(self.X):
            return np.asarray(self.X.T @ U - np.multiply.outer(self.mean, U.sum(axis=0)))
        return np.asarray(sum(self._over_parts(partial(self._part_transposed_times, U))))

    def _over_parts(self, product: Callable[[slice], Array]) -> Iterable[Array]:
        run = map_in_order if len(self._parts) > 1 else map  # a small table is not worth a pool
        return run(product, self._parts)

    def _centred(self, part: slice) -> Array:
        """Centred before it is rounded: a mean in float32 is off by its own rounding."""
        return np.asarray((self.X[part] - self._exact_mean).astype(self.X.dtype, copy=False))

    def _part_times(self, V: Array, part: slice) -> Array:
        if self._far:
            return np.asarray(self._centred(part) @ V)
        return np.asarray(self.X[part] @ V - self.mean @ V)

    def _part_transposed_times(self, U: Array, part: slice) -> Array:
        if self._far:
            return np.asarray(self._centred(part).T @ U[part])
        offset = np.multiply.outer(self.mean, U[part].sum(axis=0))
        return np.asarray(self.X[part].T @ U[part] - offset)


@one_blas_thread()
def top_axes_implicit(A: CentredRows, k: int, tol: float = 0.0) -> tuple[Floats, Floats]:
    """The k largest eigenvalues of A^T A and their eigenvectors (rows), by Lanczos.

    It iterates on the smaller of A^T A and A A^T.
    """
    m, d = A.shape
    dtype = np.float64 if A.X.dtype != np.float32 else np.float32
    if d <= m:
        gram = LinearOperator((d, d), matvec=lambda v: A.transposed_times(A.times(v)), dtype=dtype)
        pairs: EigenPairs = top_eigenpairs(gram, k, name="the scatter matrix", tol=tol)
        return pairs.values, pairs.vectors.T
    gram = LinearOperator((m, m), matvec=lambda u: A.times(A.transposed_times(u)), dtype=dtype)
    pairs = top_eigenpairs(gram, k, name="the matrix of inner products", tol=tol)
    return pairs.values, unit_rows(A.transposed_times(pairs.vectors).T)


@one_blas_thread()
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
