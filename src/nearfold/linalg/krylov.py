"""The top eigenpairs of a symmetric operator that is costly to read: block Lanczos with restarts.

A dense n x n operator is bound by memory, not by arithmetic: one product with sixteen vectors
costs little more than three with a single one. So the Krylov space is grown by a block of vectors
at a time, which needs a fraction of the passes that ARPACK takes, and its basis is kept orthogonal
outright, because beside a pass over n^2 numbers that is cheap.

  1. Q <- an orthonormal block; each step appends the new directions of A Q_last
  2. T = Q^T A Q is known from the products made; its eigenpairs are the Ritz pairs
  3. |A x - theta x| of a Ritz pair is known from the products as well; stop when all k are small
  4. a full basis is restarted from its best Ritz vectors and the directions not yet explored

The block also finds every copy of a multiple eigenvalue, which single-vector Lanczos may miss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.errors import SolverError
from nearfold.notation import Array
from nearfold.run import one_blas_thread

Product = Callable[[Array], Array]


@dataclass(frozen=True)
class TopPairs:
    """What block Lanczos found."""

    values: Array  # (k,) float64, largest first
    vectors: Array  # (n, k)
    residuals: Array  # (k,) |A x - theta x|
    lowest: float  # the smallest Ritz value seen: no eigenvalue but the smallest is below it
    passes: int  # products with A


# One BLAS thread for the small work between passes: a second one would go on spinning into the
# pass, whose own threads need the cores (measured: 0.45 s against 0.2 s in all at n = 5,000).
@one_blas_thread()
def block_lanczos(
    product: Product,
    n: int,
    k: int,
    dtype: Any,
    *,
    tol: float = 0.0,
    noise: Callable[[], float] | None = None,
    max_passes: int = 300,
    start: Array | None = None,
    name: str = "the matrix",
) -> TopPairs:
    """The k algebraically largest eigenpairs of a symmetric operator given by its product.

    `tol` is relative to the largest |eigenvalue| seen; 0 means about the accuracy of the dtype.
    `noise` says, after the first product, how large its rounding is: no residual can be smaller.
    `start` may hold vectors believed to be close.
    """
    eps = float(np.finfo(dtype).eps)
    tol = max(tol, 30 * eps)
    block, most = _basis_size(n, k)
    Q = np.empty((n, most), dtype=dtype, order="F")
    AQ = np.empty((n, most), dtype=dtype, order="F")
    T = np.zeros((most, most))
    fresh = _random_block(n, block, dtype, seed=0)
    if start is not None:
        fresh[:, : start.shape[1]] = start[:, :block]
    fresh = np.linalg.qr(fresh)[0]
    held, lowest, before = 0, np.inf, np.inf
    for passes in range(1, max_passes + 1):
        new = slice(held, held + fresh.shape[1])
        Q[:, new], AQ[:, new] = fresh, product(fresh)
        held = new.stop
        basis, image = Q[:, :held], AQ[:, :held]
        T[:held, new] = basis.T @ AQ[:, new]
        T[new, :held] = T[:held, new].T
        if not np.isfinite(T[:held, new]).all():
            raise SolverError(f"{name} ({n} x {n}) holds NaN or inf, or products with it overflow.")
        theta, S = np.linalg.eigh(T[:held, :held])
        theta, S = theta[::-1], S[:, ::-1].astype(dtype)
        lowest = min(lowest, float(theta[-1]))
        vectors = basis @ S[:, :k]
        off = image @ S[:, :k] - vectors * theta[:k].astype(dtype)
        scale = float(np.abs(theta).max())
        unit = scale or 1.0  # so that squares of tiny residuals do not vanish
        residuals = np.linalg.norm(off.astype(np.float64) / unit, axis=0) * unit
        enough = max(tol * scale, noise() if noise is not None else 0.0)
        if held >= k and ((residuals <= enough).all() or held == n):
            return TopPairs(theta[:k], vectors, residuals, lowest, passes)
        fresh = _new_directions(AQ[:, new], basis, eps, T[:held, new].astype(dtype))
        if fresh.shape[1] == 0:  # the space is invariant: go on with what it has not seen
            fresh = _new_directions(_random_block(n, block, dtype, passes), basis, eps)
        fresh = fresh[:, : n - held]
        if held + fresh.shape[1] > most:
            # Residuals near the tolerance that a whole round has not reduced are the rounding of
            # the products: more passes would not help.
            worst = float(residuals.max())
            if before / 2 < worst <= 10 * enough:
                return TopPairs(theta[:k], vectors, residuals, lowest, passes)
            before = worst
            kept = min(k + block, most - fresh.shape[1])
            Q[:, :kept], AQ[:, :kept] = basis @ S[:, :kept], image @ S[:, :kept]
            T[:kept, :kept] = np.diag(theta[:kept])
            held = kept
    raise SolverError(
        f"the {k} largest eigenvalues of {name} ({n} x {n}) did not converge in {passes} passes: "
        f"residuals {np.array2string(residuals, precision=1)} against {enough:.1e}."
    )


def _basis_size(n: int, k: int) -> tuple[int, int]:
    """Vectors of a block (at least k, so that k copies of one eigenvalue are found) and of the
    basis, which is restarted beyond it."""
    block = min(max(16, k + 4), n)
    return block, min(n, 2 * k + max(256, 4 * block))


def lanczos_bytes(n: int, k: int, itemsize: int) -> float:
    """About what `block_lanczos` holds: the basis, its image and some blocks."""
    block, most = _basis_size(n, k)
    return float(itemsize) * n * (2 * most + 6 * block)


def _random_block(n: int, block: int, dtype: Any, seed: int) -> Array:
    """Seeded, so that the same operator gives the same result."""
    return np.random.default_rng(seed).standard_normal((n, block)).astype(dtype)


def _new_directions(W: Array, basis: Array, eps: float, along: Array | None = None) -> Array:
    """An orthonormal basis of the part of W outside the basis; `along`: basis.T @ W, if known."""
    size = np.linalg.norm(W, axis=0).max(initial=0.0)
    fresh, R = np.linalg.qr(W - basis @ (basis.T @ W if along is None else along))
    fresh = fresh[:, np.abs(np.diagonal(R)) > 10 * eps * size]
    # Again: where little of W is left, its rounding along the basis has been scaled up.
    fresh = fresh - basis @ (basis.T @ fresh)
    return np.linalg.qr(fresh)[0]


def estimate_absolute_trace(product: Product, n: int, probes: int = 16, steps: int = 20) -> float:
    """About sum |eigenvalue|, by stochastic Lanczos quadrature with random signs as probes.

    Each probe v runs its own Lanczos recurrence; the eigenvalues of its small T with the squared
    first entries of its eigenvectors are the Gauss rule of v^T |A| v, whose mean is the sum.
    """
    V = np.sign(np.random.default_rng(0).standard_normal((n, probes))) / np.sqrt(n)
    steps = min(steps, n)
    alpha, beta = np.zeros((steps, probes)), np.zeros((steps, probes))
    before = np.zeros_like(V)
    for j in range(steps):
        W = product(V).astype(np.float64)
        alpha[j] = np.einsum("ij,ij->j", V, W)
        W -= alpha[j] * V + (beta[j - 1] * before if j else 0.0)
        beta[j] = np.linalg.norm(W, axis=0)
        before, V = V, W / np.where(beta[j] > 0, beta[j], 1.0)
    total = 0.0
    for i in range(probes):
        T = np.diag(alpha[:, i]) + np.diag(beta[:-1, i], 1) + np.diag(beta[:-1, i], -1)
        nodes, vectors = np.linalg.eigh(T)
        total += float(np.abs(nodes) @ vectors[0] ** 2)
    return n * total / probes
