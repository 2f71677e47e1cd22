"""Kernel PCA of a kernel of low rank: K ~ F F^T in O(m r) memory.

Not an estimator but KernelPCA's way beyond the memory budget, and on a Dask cluster. F comes from
randomly pivoted Cholesky (linalg/pivoted.py); the axes are those of the r columns of F about their
mean, and a new row x continues F by f(x) = L^-1 k(pivots, x), L being the rows of F at the pivots.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from nearfold.blocks import ArrayRows, DaskRows, get_memory, require_memory, show_bytes
from nearfold.blocks.cluster import is_elsewhere
from nearfold.linalg import clamp_spectrum, top_eigenpairs
from nearfold.linalg.pivoted import HeldFactor, LowRank, pivoted_cholesky
from nearfold.linalg.pivoted_parts import FarFactor
from nearfold.methods.kernel_axes import PivotAxes
from nearfold.methods.kernel_functions import KernelFunction
from nearfold.methods.kernel_routes import FoundAxes
from nearfold.notation import Array, Floats, Ints
from nearfold.run import random_state

_SHARE = 1e-3  # of the trace that may be missing when the budget forces a low rank
_MOST_RANK = 3000
_CELLS = 2**18  # values of the rows and of F that one task works on


def factor_bytes(m: int, d: int, r: int, k: int, itemsize: int, held: bool = True) -> float:
    """About what a factor of rank r, `held` here or on a cluster, and k axes from it hold here."""
    factor = 1.2 * r if held else 0.0
    return itemsize * (m * (factor + 4.0 * k + 12.0) + 3.0 * d * r) + 32.0 * r * r


@dataclass(frozen=True)
class RankLimits:
    """The largest rank, the share of the trace at which to stop, and what the budget decided."""

    most: int
    share: float
    note: str = ""


def rank_limits(
    low_rank: Any, m: int, d: int, k: int, itemsize: int, held: bool = True
) -> RankLimits:
    """What `low_rank` ("auto", a rank or a share) means for a table of this size."""
    size = partial(factor_bytes, m, d, k=k, itemsize=itemsize, held=held)
    if not isinstance(low_rank, str) and low_rank >= 1:
        require_memory(size(int(low_rank)), f"A factor of rank {low_rank}", "Use a lower rank.")
        return RankLimits(int(low_rank), 0.0)
    budget = get_memory()
    require_memory(size(min(m, k + 1)), f"A factor for {k} axes", "Ask for fewer components.")
    low, high = min(m, k + 1), max(min(m, k + 1), _MOST_RANK)
    while low < high:  # the largest rank that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(middle) <= budget else (low, middle - 1)
    share = _SHARE if low_rank == "auto" else float(low_rank)
    decided = low < min(m, _MOST_RANK) or (held and low_rank == "auto")
    note = f" (memory budget {show_bytes(budget)})" if decided else ""
    return RankLimits(low, share, note)


def low_rank_route(
    X: Any, function: KernelFunction, k: int, low_rank: Any, seed: Any, n_jobs: int | None
) -> FoundAxes:
    """The k largest eigenpairs of the centred kernel of X, as far as a factor of low rank goes.

    X may be the rows of a Dask table: the factor is then made, and stays, where they are (in this
    process, if Dask has no cluster).
    """
    m, d = X.shape
    far = isinstance(X, DaskRows)
    limits = rank_limits(low_rank, m, d, k, X.dtype.itemsize, not (far and is_elsewhere()))
    step = max(64, _CELLS // max(256, d))
    factor: HeldFactor | FarFactor
    if far:
        factor = FarFactor(X, function.between, function.diagonal, step)
    else:
        part = partial(_part_of_kernel, X, function)
        blocks = ArrayRows(X).spans(m)
        factor = HeldFactor(part, function.diagonal(X), limits.most, X.dtype, n_jobs, step, blocks)
    found = pivoted_cholesky(factor, limits.most, limits.share, random_state(seed))
    pivots = found.pivots
    gram, lam, V, axes, offset = _axes_of(found, k, m, X.dtype)
    trace = float(np.trace(gram)) + found.left
    share = found.left / trace if trace > 0 else 0.0
    note = (
        f"randomly pivoted Cholesky of rank {len(pivots)}: {share:.2%} of the trace is left "
        f"over, no eigenvalue is short by more than {found.left:.4g}{limits.note}"
    )
    rows = factor.table_rows(pivots) if isinstance(factor, FarFactor) else X[pivots]
    kept = PivotAxes(lam, V, function, rows, pivots, axes, offset)
    return FoundAxes(kept, trace, "low rank", found.left, note)


def _part_of_kernel(X: Any, function: KernelFunction, rows: Any, columns: Ints) -> Array:
    return function.between(X[rows], X[columns])


def _axes_of(found: LowRank, k: int, m: int, dtype: Any) -> tuple[Floats, ...]:
    """F^T J F (r, r), its k largest eigenvalues, V (m, k), and axes and offset of PivotAxes."""
    factor, r, mean = found.factor, len(found.pivots), found.sums / m
    step = max(64, _CELLS // max(1, r))
    gram = factor.combined(partial(scatter, mean=mean.astype(dtype)), np.add, step)
    pairs = top_eigenpairs(gram, min(k, r), name="the factor of the kernel")
    lam = clamp_spectrum(pairs.values, dtype)
    largest = factor.combined(largest_entry, max, step)
    rounding = 8 * float(np.finfo(dtype).eps) * largest**2 * m**0.5
    lam = np.pad(np.where(lam > rounding, lam, 0.0), (0, k - min(k, r)))
    U = np.pad(pairs.vectors, ((0, 0), (0, k - min(k, r)))) * (lam > 0)
    scale = np.where(lam > 0, np.sqrt(lam), 1.0)
    of_rows = partial(
        unit_coordinates,
        U=U.astype(dtype),
        offset=(mean @ U).astype(dtype),
        scale=scale.astype(dtype),
    )
    V = factor.stacked(of_rows, step)
    L = np.tril(factor.rows(found.pivots).astype(np.float64))
    axes = linalg.solve_triangular(L.T, U, lower=False)
    return gram, lam, V, axes, mean @ U


def scatter(F: Array, mean: Array) -> Floats:
    """The scatter of rows of F about the mean of all."""
    centred = F - mean
    return np.asarray(centred.T @ centred, dtype=np.float64)


def largest_entry(F: Array) -> float:
    """The largest magnitude."""
    return float(max(F.max(initial=0.0), -F.min(initial=0.0)))


def unit_coordinates(F: Array, U: Array, offset: Array, scale: Array) -> Array:
    """Rows of V from those of F."""
    return np.asarray((F @ U - offset) / scale)
