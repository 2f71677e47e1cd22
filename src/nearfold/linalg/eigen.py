"""Eigenpairs of symmetric operators, each with its residual, and singular values.

An operator may be a dense array, a SciPy sparse matrix or a LinearOperator that only knows
how to multiply. Dense ones go to LAPACK (MRRR for a few pairs, divide and conquer for all);
the others to ARPACK with a fixed start vector, so that the same input gives the same output.
Values come in descending order for `top`, ascending for `bottom`; vectors are columns.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from nearfold.errors import SolverError
from nearfold.notation import Array
from nearfold.run import one_blas_thread


@dataclass(frozen=True)
class EigenPairs:
    """Values (k,) and vectors (d, k) of a symmetric operator A, and how good they are."""

    values: Array
    vectors: Array
    operator: Any

    @cached_property
    def residuals(self) -> Array:
        """|A v - lam v| (k,), computed when asked for: it costs a product with A."""
        A, vectors = self.operator, self.vectors
        # In units of the largest value, so that the squares in the norm cannot overflow.
        unit = float(np.abs(self.values).max(initial=0.0)) or 1.0
        off = (A @ vectors) / unit - vectors * (self.values / unit)
        return np.linalg.norm(off, axis=0) * unit


def top_eigenpairs(A: Any, k: int, *, name: str = "the matrix", tol: float = 0.0) -> EigenPairs:
    """The k algebraically largest eigenpairs of A, largest first."""
    pairs = _dense_pairs(A, k, "top", name) if _solve_densely(A, k) else None
    if pairs is None:
        pairs = _krylov_pairs(A, k, "LA", name, tol)
    return EigenPairs(pairs[0][::-1], pairs[1][:, ::-1], A)


def bottom_eigenpairs(A: Any, k: int, *, name: str = "the matrix", tol: float = 0.0) -> EigenPairs:
    """The k algebraically smallest eigenpairs of A, smallest first.

    A sparse matrix is shifted to just below its spectrum and inverted: a shift of exactly
    zero would factor a singular matrix whenever A has a null vector.
    """
    if _solve_densely(A, k):
        values, vectors = _dense_pairs(A, k, "bottom", name)
    elif sparse.issparse(A):
        bound = float(abs(A).sum(axis=1).max())  # Gershgorin: the spectrum lies within +-bound
        lowest = float((A.diagonal() - (abs(A).sum(axis=1) - abs(A.diagonal()))).min())
        shift = lowest - 1e-6 * bound if lowest < 0 else -1e-6 * bound
        values, vectors = _krylov_pairs(A, k, "LM", name, tol, sigma=shift)
    else:
        values, vectors = _krylov_pairs(A, k, "SA", name, tol)
    return EigenPairs(values, vectors, A)


def _solve_densely(A: Any, k: int) -> bool:
    if isinstance(A, np.ndarray):
        return True
    return bool(A.shape[0] <= 500 or k >= A.shape[0] // 3)  # ARPACK needs k well below d


def _dense_pairs(A: Any, k: int, end: str, name: str) -> tuple[Array, Array]:
    d = A.shape[0]
    k = min(k, d)
    if sparse.issparse(A):
        A = A.toarray()
    elif isinstance(A, LinearOperator):
        A = A @ np.eye(d)
    _require_finite(A, name)
    subset = (d - k, d - 1) if end == "top" else (0, k - 1)
    try:
        if k > d // 4:
            # Most are wanted: all of them, by divide and conquer. NumPy's, because its BLAS has
            # just made the matrix: SciPy brings another, and the first one's idle threads still
            # spin. A small matrix on one thread, for the same reason (measured right after the
            # product at d = 784: 65 ms every time, against 45 to 150 ms on two).
            with one_blas_thread() if d < 1024 else nullcontext():
                values, vectors = np.linalg.eigh(A)
            values = values[subset[0] : subset[1] + 1]
            vectors = vectors[:, subset[0] : subset[1] + 1]
        else:
            values, vectors = linalg.eigh(
                A, driver="evr", subset_by_index=subset, check_finite=False
            )
    except (linalg.LinAlgError, ValueError) as error:
        raise SolverError(
            f"the eigenvalues of {name} ({d} x {d}) were not found: {error}"
        ) from None
    return values, vectors


def _krylov_pairs(
    A: Any, k: int, which: str, name: str, tol: float, sigma: float | None = None
) -> tuple[Array, Array]:
    d = A.shape[0]
    if sparse.issparse(A) and not np.isfinite(A.data).all():
        raise SolverError(f"{name} ({d} x {d}) holds NaN or inf.")
    # A start vector with a part in every direction; constant, so that results repeat.
    start = np.random.default_rng(0).standard_normal(d).astype(A.dtype)
    try:
        values, vectors = eigsh(A, k, which=which, sigma=sigma, v0=start, tol=tol)
    except (ArpackError, RuntimeError) as error:
        raise SolverError(
            f"the eigenvalues of {name} ({d} x {d}) were not found: {error}"
        ) from None
    if not (np.isfinite(values).all() and np.isfinite(vectors).all()):
        raise SolverError(
            f"{name} ({d} x {d}) has no finite eigenpairs: products with it overflow."
        )
    ascending = np.argsort(values)
    return values[ascending], vectors[:, ascending]


def _require_finite(A: Array, name: str) -> None:
    if not np.isfinite(A).all():
        raise SolverError(f"{name} ({A.shape[0]} x {A.shape[1]}) holds NaN or inf.")


def thin_svd(A: Array, name: str = "the matrix") -> tuple[Array, Array, Array]:
    """U, s, V^T of a dense matrix; divide and conquer, and the slower sure way if that fails."""
    _require_finite(A, name)
    try:
        return linalg.svd(A, full_matrices=False, check_finite=False)
    except linalg.LinAlgError:
        pass
    try:
        return linalg.svd(A, full_matrices=False, check_finite=False, lapack_driver="gesvd")
    except linalg.LinAlgError as error:
        raise SolverError(f"the singular values of {name} were not found: {error}") from None


def triangular_factor(A: Array) -> Array:
    """R of A = QR, with R^T R = A^T A but without squaring the condition number."""
    return linalg.qr(A, mode="r", check_finite=False)[0][: A.shape[1]]


def combine_triangles(*factors: Array) -> Array:
    """R of the rows of all, from the R of each (TSQR)."""
    return triangular_factor(np.vstack(factors))
