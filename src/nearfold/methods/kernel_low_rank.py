"""Kernel PCA of a kernel of low rank: K ~ F F^T in O(m r) memory.

Not an estimator but KernelPCA's way beyond the memory budget. F comes from randomly pivoted
Cholesky (linalg/pivoted.py); the axes are those of the r columns of F about their mean, and a new
row x continues F by f(x) = L^-1 k(pivots, x), L being the rows of F at the pivots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from nearfold.blocks import get_memory, require_memory, show_bytes, spans
from nearfold.linalg import clamp_spectrum, top_eigenpairs
from nearfold.linalg.pivoted import LowRank, pivoted_cholesky
from nearfold.methods.kernel_axes import PivotAxes
from nearfold.methods.kernel_functions import KernelFunction
from nearfold.methods.kernel_routes import FoundAxes
from nearfold.notation import Floats
from nearfold.run import map_in_order, random_state

_SHARE = 1e-3  # of the trace that may be missing when the budget forces a low rank
_MOST_RANK = 3000
_CELLS = 2**18  # values of the rows and of F that one task works on


def factor_bytes(m: int, d: int, r: int, k: int, itemsize: int) -> float:
    """About what a factor of rank r and k axes from it hold."""
    return itemsize * (m * (1.2 * r + 4.0 * k + 12.0) + 3.0 * d * r) + 32.0 * r * r


@dataclass(frozen=True)
class RankLimits:
    """The largest rank, the share of the trace at which to stop, and what the budget decided."""

    most: int
    share: float
    note: str = ""


def rank_limits(low_rank: Any, m: int, d: int, k: int, itemsize: int) -> RankLimits:
    """What `low_rank` ("auto", a rank or a share) means for a table of this size."""
    if not isinstance(low_rank, str) and low_rank >= 1:
        needed = factor_bytes(m, d, int(low_rank), k, itemsize)
        require_memory(needed, f"A factor of rank {low_rank}", "Use a lower rank.")
        return RankLimits(int(low_rank), 0.0)
    budget = get_memory()
    needed = factor_bytes(m, d, min(m, k + 1), k, itemsize)
    require_memory(needed, f"A factor for {k} axes", "Ask for fewer components.")
    low, high = min(m, k + 1), max(min(m, k + 1), _MOST_RANK)
    while low < high:  # the largest rank that fits
        middle = (low + high + 1) // 2
        fits = factor_bytes(m, d, middle, k, itemsize) <= budget
        low, high = (middle, high) if fits else (low, middle - 1)
    share = _SHARE if low_rank == "auto" else float(low_rank)
    decided = low_rank == "auto" or low < min(m, _MOST_RANK)
    note = f" (memory budget {show_bytes(budget)})" if decided else ""
    return RankLimits(low, share, note)


def low_rank_route(
    X: Any, function: KernelFunction, k: int, low_rank: Any, seed: Any, n_jobs: int | None
) -> FoundAxes:
    """The k largest eigenpairs of the centred kernel of X, as far as a factor of low rank goes."""
    m, d = X.shape
    limits = rank_limits(low_rank, m, d, k, X.dtype.itemsize)
    factor = pivoted_cholesky(
        lambda rows, columns: function.between(X[rows], X[columns]),
        function.diagonal(X),
        limits.most,
        limits.share,
        random_state(seed),
        X.dtype,
        n_jobs,
        step=max(64, _CELLS // max(256, d)),
    )
    gram, lam, V, axes, offset = _axes_of(factor, k, X.dtype, n_jobs)
    trace = float(np.trace(gram)) + factor.left
    share = factor.left / trace if trace > 0 else 0.0
    note = (
        f"randomly pivoted Cholesky of rank {len(factor.pivots)}: {share:.2%} of the trace is left "
        f"over, no eigenvalue is short by more than {factor.left:.4g}{limits.note}"
    )
    found = PivotAxes(lam, V, function, X[factor.pivots], factor.pivots, axes, offset)
    return FoundAxes(found, trace, "low rank", factor.left, note)


def _axes_of(factor: LowRank, k: int, dtype: Any, n_jobs: int | None) -> tuple[Floats, ...]:
    """F^T J F (r, r), its k largest eigenvalues, V (m, k), and axes and offset of PivotAxes."""
    F = factor.F
    m, r = F.shape
    few = spans(m, max(64, _CELLS // max(1, r)))
    mean = F.mean(axis=0, dtype=np.float64)

    def scatter(rows: slice) -> Floats:
        centred = F[rows] - mean.astype(dtype)
        return np.asarray(centred.T @ centred)

    gram = np.zeros((r, r))
    for part in map_in_order(scatter, few, n_jobs=n_jobs):
        gram += part
    pairs = top_eigenpairs(gram, min(k, r), name="the factor of the kernel")
    lam = clamp_spectrum(pairs.values, dtype)
    largest = float(max(F.max(initial=0.0), -F.min(initial=0.0)))
    rounding = 8 * float(np.finfo(dtype).eps) * largest**2 * m**0.5
    lam = np.pad(np.where(lam > rounding, lam, 0.0), (0, k - min(k, r)))
    U = np.pad(pairs.vectors, ((0, 0), (0, k - min(k, r)))) * (lam > 0)
    V = np.empty((m, k), dtype=dtype)
    scale = np.where(lam > 0, np.sqrt(lam), 1.0)

    def project(rows: slice) -> None:
        V[rows] = (F[rows] @ U.astype(dtype) - (mean @ U).astype(dtype)) / scale.astype(dtype)

    for _ in map_in_order(project, few, n_jobs=n_jobs):
        pass
    L = np.tril(F[factor.pivots].astype(np.float64))
    axes = linalg.solve_triangular(L.T, U, lower=False)
    return gram, lam, V, axes, mean @ U
