"""Whitening maps A, A^T C A = I, on the directions in which C is more than rounding.

Columns are first scaled to unit variance, so that their units do not decide what counts as zero.
A direction is kept if its variance exceeds both `tol` times the largest one and what the rounding
of the values (`rounding`, per column) may have added to it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from nearfold.blocks import Block, Rows, combine_pairwise, require_memory, spans
from nearfold.linalg import (
    combine_triangles,
    square_norms,
    thin_svd,
    top_eigenpairs,
    triangular_factor,
    whiten,
)
from nearfold.notation import Floats
from nearfold.run import one_blas_thread, thread_count

_EPS = float(np.finfo(np.float64).eps)
_CELLS = 2**18  # values of a block of rows


def whiten_factor(R: Floats, count: float, rounding: Floats, *, scale: bool = True) -> Floats:
    """A (d, r) for C = R^T R / count: R are the rows, or their triangular factor.

    From the singular values of R, so the condition number is not squared. Where C is singular
    A A^T depends on the scale of the columns; with `scale=False` it is the pseudo-inverse.
    """
    sd = np.sqrt(square_norms(R.T) / count)
    unit = np.where((sd > rounding) & scale, sd, 1.0)
    scaled = R * ((sd > rounding) / (unit * np.sqrt(count)))
    with one_blas_thread():
        if len(scaled) > scaled.shape[1]:
            scaled = triangular_factor(scaled)
        _, s, Vt = thin_svd(scaled, "the centred rows")
    tol = (max(count, R.shape[1]) * _EPS) ** 2
    return whiten(s**2, Vt.T, noise_floor(s**2, Vt.T, rounding / unit, tol), unit)


def whiten_scatter(C: Floats, rounding: Floats, tol: float) -> Floats:
    """A (d, r) for a scatter matrix C, from its eigenpairs."""
    sd = np.sqrt(np.maximum(np.diagonal(C), 0.0))
    varies = sd > rounding
    unit = np.where(varies, sd, 1.0)
    R = np.where(np.outer(varies, varies), C, 0.0) / np.outer(unit, unit)
    pairs = top_eigenpairs(R, len(R), name="the scatter within classes")
    lam, V = np.maximum(pairs.values, 0.0), pairs.vectors
    return whiten(lam, V, noise_floor(lam, V, rounding / unit, tol), unit)


def noise_floor(lam: Floats, V: Floats, rounding: Floats, tol: float) -> Floats:
    """For each eigenvalue, the size up to which it may be rounding."""
    return np.maximum(tol * lam.max(initial=0.0), (V**2).T @ rounding**2)


def centred_factor(rows: Rows, mean: Floats, name: str) -> Floats:
    """R with R^T R the scatter of the rows about their mean, by QR of blocks of rows (TSQR)."""
    d = rows.n_features
    needed = centred_factor_bytes(rows.n_rows, d)
    require_memory(needed, f"{name} of {d:,} columns", "Reduce the columns with PCA.")
    of_block = partial(factor_of_block, mean=mean, step=_rows_factored(d))
    return rows.combined(of_block, combine_triangles)


def _rows_factored(d: int) -> int:
    """Rows that are factored at a time."""
    return max(d, _CELLS // d)


def centred_factor_bytes(n_rows: int | None, d: int) -> float:
    """What factoring takes at its peak.

    Per block in flight: the centred rows, the copy that LAPACK factors, its upper triangle.
    """
    step = _rows_factored(d)
    few = step if n_rows is None else min(step, n_rows)
    return 8.0 * (6.0 * thread_count(None) * few * d + 8.0 * min(few, d) * d)


def factor_of_block(block: Block, mean: Floats, step: int) -> Floats:
    """The triangular factor of the centred rows of a block."""
    X = block.dense()
    parts = (triangular_factor(X[part] - mean) for part in spans(len(X), step))
    return combine_pairwise(parts, combine_triangles)


def rounding_of_rows(rows: Rows) -> Floats:
    """A bound of the rounding error that the values of each column already carry."""
    return rounding_at(rows.combined(largest_of_block, np.maximum), rows.dtype)


def rounding_at(largest: Floats, dtype: Any) -> Floats:
    """The same from the largest magnitude in each column."""
    return np.asarray(2 * float(np.finfo(dtype).eps) * largest)


def largest_of_block(block: Block) -> Floats:
    """The largest magnitude in each column of a block."""
    X = block.dense()
    return np.maximum(-X.min(axis=0), X.max(axis=0)).astype(np.float64)
