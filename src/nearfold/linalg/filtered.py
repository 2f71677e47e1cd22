"""The bottom eigenpairs of M = A^T A by products with A alone: Lanczos on a Chebyshev filter.

A sparse factor is the best way where the graph has small separators (points along a curve or a
surface). In data of many dimensions it has none, and the factor fills in: 21 million entries for
20,000 rows of MNIST. But there the small eigenvalues are not so small either, and a polynomial
brings them out. With M's spectrum in [0, b] and a cut a,

    p(x) = T_q((b + a - 2 x) / (b - a)) / T_q((b + a) / (b - a))

is 1 at 0, decreases to the cut, and is below 1 / cosh(2 q sqrt(a / b)) beyond it. Lanczos (ARPACK)
on p(M) needs about as many products as on M, but keeps and orthogonalises one vector where that
has q of them (Zhou, Saad, Tiago and Chelikowsky, 2006). The number of products hardly depends on
q and a (8,000 to 40,000 for 20,000 to 70,000 rows of images and signals).

Given up, with None, where it takes more products than a factor costs; not tried where a factor
costs few (inverse_iteration.py).

Memory: some forty vectors. Deterministic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from nearfold.notation import Floats

_PROBE = 300  # steps of Lanczos that tell where to cut
_EDGE = 1.6  # q sqrt(a / b)
_LEAST_CUT = 1e-5  # a / b: a smaller one makes a step of Lanczos longer, and saves few
_BASIS = 40  # vectors that Lanczos keeps
_WIDE = 1 / 8  # share of all nodes in one level of a breadth-first search


def has_no_separators(W: Any) -> bool:
    """Whether some level of a breadth-first search of the graph of W holds much of it.

    A level separates what was found before from what comes after.
    """
    graph = abs(W) + abs(W.T)
    order, before = breadth_first_order(graph, 0, directed=False)
    level = np.zeros(graph.shape[0], dtype=np.int64)
    for node in order[1:].tolist():
        level[node] = level[before[node]] + 1
    return bool(np.bincount(level[order]).max() > _WIDE * graph.shape[0])


def _basis(k: int) -> int:
    return max(_BASIS, 2 * k + 20)


def filter_bytes(n: int, k: int, entries: int) -> float:
    """What `bottom_by_filter` holds, of a matrix of so many entries: it, its transpose, a basis."""
    return 8.0 * n * (_basis(k) + 12) + 24.0 * entries


class _TooManyError(Exception):
    """More products than a factor would cost."""


class _Products:
    """M v, counted, on vectors orthogonal to the constant one."""

    def __init__(self, A: Any) -> None:
        self.n = A.shape[0]
        self.count = 0
        self._A, self._At = A.tocsr(), A.T.tocsr()
        start = np.random.default_rng(0).standard_normal(self.n)
        self.start = start - start.mean()

    def of(self, v: Floats) -> Floats:
        self.count += 1
        return np.asarray(self._At @ (self._A @ v))

    def ends(self) -> tuple[float, float]:
        """About the smallest and the largest eigenvalue: the first from above, both by Lanczos.

        Without orthogonalisation: copies of eigenvalues among the others do no harm.
        """
        diagonal, beside = np.zeros(_PROBE), np.zeros(_PROBE)
        before, v, norm = np.zeros(self.n), self.start, float(np.linalg.norm(self.start))
        for i in range(_PROBE):
            v = v / norm
            image = self.of(v)
            diagonal[i] = v @ image
            image -= diagonal[i] * v + norm * before * (i > 0)
            before, v, norm = v, image - image.mean(), float(np.linalg.norm(image))
            beside[i] = norm
            if norm <= 1e-14 * diagonal[0]:
                break
        found = eigvalsh_tridiagonal(diagonal[: i + 1], beside[:i])
        # The largest comes from below, and what lies above the interval would be amplified.
        return float(found[0]), 1.02 * float(found[-1])

    def filter(self, v: Floats, cut: float, largest: float, degree: int) -> Floats:
        """p(M) v, by the three-term recurrence, scaled so that p(0) = 1."""
        v = v - v.mean()
        half, middle = (largest - cut) / 2, (largest + cut) / 2
        first = ratio = -half / middle
        before, now = v, (self.of(v) - middle * v) * (ratio / half)
        for _ in range(degree - 1):
            following = 1.0 / (2.0 / first - ratio)
            image = self.of(now)
            image -= middle * now
            image *= 2.0 * following / half
            before *= -ratio * following
            before += image
            before, now, ratio = now, before, following
        return np.asarray(now - now.mean())


def bottom_by_filter(A: Any, k: int, tol: float, most: float) -> tuple[Floats, Floats] | None:
    """The k smallest eigenpairs of A^T A but for the constant vector, A 1 = 0.

    None, if they take more than `most` products.
    """
    M = _Products(A)
    smallest, largest = M.ends()
    cut = min(max(2 * smallest, _LEAST_CUT * largest), largest / 4)
    degree = int(np.ceil(_EDGE * np.sqrt(largest / cut)))

    def apply(v: Floats) -> Floats:
        if M.count > most:
            raise _TooManyError
        return M.filter(np.ravel(v), cut, largest, degree)

    operator = LinearOperator((M.n, M.n), matvec=apply, dtype=np.float64)
    try:
        V = eigsh(operator, k, which="LA", tol=min(tol, 1e-10), ncv=_basis(k), v0=M.start)[1]
    except (ArpackError, _TooManyError):
        return None
    values = np.array([v @ M.of(v) for v in V.T])
    order = np.argsort(values)
    return values[order], V[:, order]
