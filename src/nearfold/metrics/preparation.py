"""What metric learners do to a table before they learn: checks, centring, known rounding."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from nearfold.blocks import require_memory
from nearfold.errors import InputError
from nearfold.inputs import refuse_extreme, refuse_overflow, refuse_vanishing
from nearfold.notation import Array, Floats, Ints


def centre(X: Array) -> Floats:
    """The rows minus their mean, in float64, so that an offset costs their sums no digits."""
    Z = X - X[0].astype(np.float64)  # first, so that a constant column is exactly 0
    Z -= Z.mean(axis=0)
    total = float(np.einsum("ij,ij->", Z, Z))
    refuse_overflow(total, X)
    refuse_vanishing(total, X, X.dtype)
    return np.asarray(Z)


def centre_in_order(X: Array, order: Ints) -> Array:
    """The rows in this order about their mean, in their dtype, after a check of their spread."""
    refuse_extreme_spread(X, X.dtype)
    Z = X[order]
    Z -= X.mean(axis=0, dtype=np.float64).astype(X.dtype)
    return np.asarray(Z)


def mean_variance(X: Array) -> float:
    """The mean variance of the columns of centred rows: the unit of a penalty on the trace of M."""
    return float(np.mean(np.einsum("ij,ij->j", X, X, dtype=np.float64)) / len(X)) or 1.0


def penalised(f: float, gradient: Floats, L: Floats, penalty: float) -> tuple[float, Floats]:
    """f + penalty |L|^2, whose last term is penalty times the trace of M, and its gradient."""
    return f + penalty * float(np.sum(L**2)), gradient + 2 * penalty * L


def rounding_of(X: Array) -> Floats:
    """A bound of the rounding error that the values of each column already carry."""
    largest = np.maximum(-X.min(axis=0), X.max(axis=0)).astype(np.float64)
    return np.asarray(2 * float(np.finfo(X.dtype).eps) * largest)


def refuse_extreme_spread(X: Array, dtype: Any = np.float64) -> None:
    """Raise if squared distances between the rows overflow or underflow in `dtype`."""
    refuse_extreme(float(np.ptp(X, axis=0).max()), dtype)


def check_rank(n_components: Any, d: int) -> int | None:
    """The number of dimensions asked for, or None for all."""
    if n_components is None:
        return None
    whole = isinstance(n_components, Integral) and not isinstance(n_components, bool)
    if not whole or not 1 <= n_components <= d:
        raise InputError(f"Invalid n_components={n_components!r}, must be in [1, {d}].")
    return int(n_components)


def require_matrices(name: str, d: int, matrices: float, n: int = 0, tables: float = 0) -> None:
    """Raise unless `matrices` (d, d) and `tables` (n, d) of float64 fit the memory budget."""
    what = f"{name} of {d:,} columns" + (f" and {n:,} tuples" if n else "")
    needed = matrices_bytes(d, matrices, n, tables)
    require_memory(needed, what, "Reduce the columns with PCA first.")


def matrices_bytes(d: int, matrices: float, n: int = 0, tables: float = 0) -> float:
    """What `matrices` (d, d) and `tables` (n, d) of float64 take."""
    return 8.0 * d * (matrices * d + tables * n)
