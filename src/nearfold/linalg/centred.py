"""Doubly centred operators B = J A J, J = I - 1 1^T / m, that never hold B.

    CentredSquaredDistances  A = -1/2 D o D for distances D held once      MDS, Isomap   (10.10)
    HeldKernel               A = K held once                               KPCA
    ComputedKernel           A = K computed tile by tile, at each pass     KPCA beyond the budget

A product is J (A (J V)): V is centred before, the result after, and A itself is only read. The
squares of distances are taken tile by tile in the cache. The row means of A, which new samples
need, come along with the first product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearfold.blocks import spans
from nearfold.linalg.krylov import TopPairs, block_lanczos
from nearfold.notation import Array, Floats
from nearfold.run import PerThread, map_in_order

_ROWS, _COLUMNS = 64, 8192  # of a tile whose squares are taken; it stays in the cache
_TASK = 4 * _ROWS  # rows of a task: fewer would cost more to hand out than they take
_SIDE = 2048  # of a tile of a kernel that is computed


class DoublyCentred:
    """B = J A J of a symmetric A that a subclass knows how to multiply."""

    label: str | None = None  # under which passes report their progress

    def __init__(self, n: int, dtype: Any, n_jobs: int | None = None) -> None:
        self.n = n
        self.dtype = np.dtype(dtype)
        self.n_jobs = n_jobs
        self._row_means: Floats | None = None

    def _multiply(self, V: Array) -> Array:
        raise NotImplementedError

    def _diagonal(self) -> Floats:
        raise NotImplementedError

    def __matmul__(self, V: Array) -> Array:
        V = V - V.mean(axis=0)
        if self._row_means is None:
            W = self._multiply(np.column_stack([V, np.ones(self.n, dtype=V.dtype)]))
            # Of distances: -1/2 the sum over j of dist_ij^2  # (10.5)
            # and, as D is symmetric, over i  # (10.4)
            sums = W[:, -1].astype(np.float64)
            # dist_i.^2  # (10.7)
            self._row_means = sums / self.n  # and dist_.j^2  # (10.8)
            W = W[:, :-1]
        else:
            W = self._multiply(V)
        return np.asarray(W - W.mean(axis=0))  # J (A (J V)) = B V  (10.10)

    @property
    def row_means(self) -> Floats:
        """Means of the rows of A (not of B)."""
        if self._row_means is None:
            self @ np.zeros((self.n, 0), dtype=self.dtype)
        assert self._row_means is not None
        return self._row_means

    @property
    def trace(self) -> float:
        """The sum of all eigenvalues of B."""
        return float(self._diagonal().sum() - self.row_means.sum())  # (10.6)

    def top(
        self, k: int, tol: float = 0.0, start: Array | None = None, max_passes: int = 300
    ) -> TopPairs:
        """The k largest eigenpairs."""
        return block_lanczos(
            lambda V: self @ V,
            self.n,
            k,
            self.dtype,
            tol=tol,
            noise=self.noise,
            max_passes=max_passes,
            start=start,
            name="the centred B",
        )

    def noise(self) -> float:
        """About the rounding in a product with a unit vector: that of A, which may exceed B."""
        return 8 * float(np.finfo(self.dtype).eps * np.abs(self.row_means).max()) * self.n**0.5

    def dense(self) -> Floats:
        """B as an array of its own, in float64."""
        A = self._multiply(np.eye(self.n, dtype=self.dtype)).astype(np.float64, copy=False)
        A -= A.mean(axis=0)
        A -= A.mean(axis=1, keepdims=True)
        A += A.T.copy()
        A /= 2
        return A


class CentredSquaredDistances(DoublyCentred):
    """A = -1/2 D o D."""

    def __init__(self, D: Array, n_jobs: int | None = None) -> None:
        super().__init__(len(D), D.dtype, n_jobs)
        self.D = D
        self._buffers = PerThread(lambda: np.empty(_ROWS * _COLUMNS, dtype=D.dtype))

    def _squares(self, rows: slice, columns: slice) -> Array:
        part = self.D[rows, columns]
        return np.multiply(part, part, out=self._buffers.get()[: part.size].reshape(part.shape))

    def _multiply(self, V: Array) -> Array:
        W = np.zeros((self.n, V.shape[1]), dtype=V.dtype)

        def fill(some: slice) -> None:
            for start in range(some.start, some.stop, _ROWS):
                rows = slice(start, min(start + _ROWS, some.stop))
                for columns in spans(self.n, _COLUMNS):
                    W[rows] += self._squares(rows, columns) @ V[columns]

        for _ in map_in_order(fill, spans(self.n, _TASK), n_jobs=self.n_jobs):
            pass
        return W * V.dtype.type(-0.5)

    def _diagonal(self) -> Floats:
        return -0.5 * np.diagonal(self.D).astype(np.float64) ** 2

    def squared_norm(self) -> float:
        """The sum of the squares of all eigenvalues of B: one pass over D."""

        def fourth_powers(rows: slice) -> float:
            tiles = (self._squares(rows, columns) for columns in spans(self.n, _COLUMNS))
            return sum(float(np.square(tile, dtype=np.float64).sum()) for tile in tiles)

        total = 0.25 * sum(map_in_order(fourth_powers, spans(self.n, _ROWS), n_jobs=self.n_jobs))
        mean = self.row_means.mean()  # (10.9)
        return float(total - 2 * self.n * (self.row_means @ self.row_means) + (self.n * mean) ** 2)


class HeldKernel(DoublyCentred):
    """A = K."""

    def __init__(self, K: Array, n_jobs: int | None = None) -> None:
        super().__init__(len(K), K.dtype, n_jobs)
        self.K = K

    def _multiply(self, V: Array) -> Array:
        parts = map_in_order(lambda rows: self.K[rows] @ V, spans(self.n, 256), n_jobs=self.n_jobs)
        return np.concatenate(list(parts))

    def _diagonal(self) -> Floats:
        return np.diagonal(self.K).astype(np.float64)


class ComputedKernel(DoublyCentred):
    """A = K, of which `tile(rows, columns)` computes a part; one half, as K is symmetric."""

    label = "kernel"

    def __init__(
        self,
        tile: Callable[[slice, slice], Array],
        diagonal: Floats,
        dtype: Any,
        n_jobs: int | None = None,
        side: int | None = None,
    ) -> None:
        super().__init__(len(diagonal), dtype, n_jobs)
        self._tile = tile
        self._side = side or _SIDE
        self._given_diagonal = diagonal

    def _multiply(self, V: Array) -> Array:
        parts = spans(self.n, self._side)
        pairs = [(a, b) for i, a in enumerate(parts) for b in parts[i:]]

        def both_products(pair: tuple[slice, slice]) -> tuple[slice, Array, slice, Array]:
            rows, columns = pair
            K = self._tile(rows, columns)
            return rows, K @ V[columns], columns, K.T @ V[rows]

        W = np.zeros((self.n, V.shape[1]), dtype=V.dtype)
        done = map_in_order(
            both_products, pairs, n_jobs=self.n_jobs, label=self.label, total=len(pairs)
        )
        for rows, upper, columns, lower in done:
            W[rows] += upper
            if rows != columns:
                W[columns] += lower
        return W

    def _diagonal(self) -> Floats:
        return self._given_diagonal
