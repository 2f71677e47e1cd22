"""A low-rank factor of a positive semi-definite matrix, column by column: K ~ F F^T.

Randomly pivoted Cholesky: each pivot is drawn with a probability proportional to what is left of
its diagonal entry, so that few columns catch most of the matrix, and neither an outlier nor a
dense cluster misleads it (Chen, Epperly, Tropp and Webber, 2022). Columns are computed in blocks:
a block of pivots is proposed at once and each is accepted with the ratio of its diagonal now to
that when it was proposed, which is the same distribution (Epperly, Tropp and Webber, 2024).

K - F F^T stays positive semi-definite, so its trace, which is known at every step, bounds every
eigenvalue's error. Cost: r columns of K, m r^2 operations, m r numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from nearfold.blocks import spans
from nearfold.errors import InputError
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order, reporter

_PROPOSED = 128  # pivots at a time
_ROWS = 4096  # of a block, unless the caller knows better
_INDEFINITE = (
    "the kernel is not positive semi-definite: it has no factor F F^T. Use low_rank='never', which "
    "computes it in tiles."
)


@dataclass(frozen=True)
class LowRank:
    """K ~ F F^T, exact in the rows and columns of the pivots."""

    F: Array  # (m, r)
    pivots: Ints  # (r,)
    left: float  # trace of K - F F^T
    trace: float  # trace of K about its mean: of J K J


def pivoted_cholesky(
    part: Callable[[Any, Ints], Array],
    diagonal: Floats,
    most: int,
    share: float,
    rng: Any,
    dtype: Any,
    n_jobs: int | None = None,
    step: int = _ROWS,
) -> LowRank:
    """Factor until at most `share` of the trace about the mean is left, or the rank is `most`.

    `part(rows, columns)` computes that part of K, `step` rows at a time.
    """
    m = len(diagonal)
    most = min(most, m)
    F = np.zeros((m, most), dtype=dtype, order="C")
    left = diagonal.astype(np.float64).copy()
    trace = float(left.sum())
    floor = 100 * float(np.finfo(dtype).eps) * float(diagonal.max(initial=0.0))
    if not np.isfinite(diagonal).all():
        raise InputError("the kernel overflows: divide the columns by a constant first.")
    if diagonal.min(initial=0.0) < -floor:
        raise InputError(_INDEFINITE)
    pivots: list[int] = []
    report = reporter()
    about_mean = trace
    while len(pivots) < most and left.sum() > share * about_mean and left.max() > floor:
        r = len(pivots)
        proposed = rng.choice(m, size=_PROPOSED, p=left / left.sum())
        proposed = proposed[np.sort(np.unique(proposed, return_index=True)[1])]
        G = part(proposed, proposed) - F[proposed, :r] @ F[proposed, :r].T
        # What is left of the diagonal, measured again: sums of squares have rounded it.
        left[proposed] = np.minimum(left[proposed], np.maximum(np.diagonal(G), 0.0))
        S, L = _accept(G.astype(np.float64), left, proposed, rng, floor)
        S, L = S[: most - r], L[: most - r, : most - r]

        def extend(rows: slice, S: Ints = S, L: Floats = L, r: int = r) -> None:
            new = part(rows, S) - F[rows, :r] @ F[S, :r].T
            new = solve_triangular(L, new.T, lower=True, check_finite=False).T
            F[rows, r : r + len(S)] = new
            left[rows] -= np.einsum("ij,ij->i", new, new, dtype=np.float64)

        for _ in map_in_order(extend, spans(m, step), n_jobs=n_jobs):
            pass
        if left.min() < -1e3 * floor:
            raise InputError(_INDEFINITE)
        np.maximum(left, 0.0, out=left)
        pivots += S.tolist()
        left[pivots] = 0.0
        sums = F[:, : len(pivots)].sum(axis=0, dtype=np.float64)
        about_mean = max(trace - float(sums @ sums) / m, 0.0)
        report("pivots", len(pivots), most)
    r = len(pivots)
    return LowRank(F[:, :r], np.array(pivots, dtype=np.int64), float(left.sum()), about_mean)


def _accept(G: Floats, left: Floats, proposed: Ints, rng: Any, floor: float) -> tuple[Ints, Floats]:
    """The pivots accepted in turn, and the Cholesky factor of G, what is left of K, among them."""
    n = len(proposed)
    L = np.zeros((n, n))
    now = np.diagonal(G).copy()
    chosen: list[int] = []
    for i in range(n):
        if now[i] <= floor or rng.uniform() * left[proposed[i]] > now[i]:
            continue
        j = len(chosen)
        column = (G[:, i] - L[:, :j] @ L[i, :j]) / np.sqrt(now[i])
        L[:, j] = column
        now -= column**2
        chosen.append(i)
    return proposed[chosen], np.tril(L[np.ix_(chosen, range(len(chosen)))])
