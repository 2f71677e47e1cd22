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

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import add
from typing import Any, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from nearfold.blocks import spans
from nearfold.blocks.work import combine_pairwise
from nearfold.errors import InputError
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order, reporter

_PROPOSED = 128  # pivots at a time
_ROWS = 4096  # of a block, unless the caller knows better
_INDEFINITE = (
    "the kernel is not positive semi-definite: it has no factor F F^T. Use low_rank='never', which "
    "computes it in tiles."
)


class Factor(Protocol):
    """The rows of F, wherever they are, and the columns of K that they come from."""

    dtype: Any
    diagonal: Floats  # of K

    def residual(self, numbers: Ints) -> Array:
        """K - F F^T among these rows."""

    def extend(self, numbers: Ints, L: Floats) -> tuple[Floats, Floats]:
        """Add the columns of these pivots, L being the Cholesky factor of what is left among them.

        Returns the sum of squares of the new entries of each row, and the sums of the new columns.
        """

    def combined(self, function: Callable[[Array], Any], combine: Any, step: int) -> Any:
        """`function` of the rows of F, `step` at a time, joined."""

    def stacked(self, function: Callable[[Array], Array], step: int) -> Array:
        """`function` of the rows of F, `step` at a time, one below the other."""

    def rows(self, numbers: Ints) -> Array:
        """Rows of F."""


@dataclass(frozen=True)
class LowRank:
    """K ~ F F^T, exact in the rows and columns of the pivots."""

    factor: Factor
    pivots: Ints  # (r,)
    left: float  # trace of K - F F^T
    trace: float  # trace of K about its mean: of J K J
    sums: Floats  # (r,) of the columns of F


def new_columns(K: Array, F: Array, F_pivots: Array, L: Floats) -> Array:
    """The entries of some rows of F in the columns of new pivots, K being theirs of the kernel."""
    new = K - F @ F_pivots.T
    return np.asarray(solve_triangular(L, new.T, lower=True, check_finite=False).T)


def squares_and_sums(new: Array) -> tuple[Floats, Floats]:
    """The sum of squares of each row, and the sums of the columns."""
    squares = np.einsum("ij,ij->i", new, new, dtype=np.float64)
    return squares, new.sum(axis=0, dtype=np.float64)


class HeldFactor:
    """F in memory, of a kernel whose `part(rows, columns)` computes that part of it.

    Work is cut into `blocks` of rows, and these into steps; sums are joined pairwise by block.
    """

    def __init__(
        self,
        part: Callable[[Any, Ints], Array],
        diagonal: Floats,
        most: int,
        dtype: Any,
        n_jobs: int | None = None,
        step: int = _ROWS,
        blocks: list[slice] | None = None,
    ) -> None:
        m = len(diagonal)
        self.diagonal, self.dtype = diagonal, np.dtype(dtype)
        self.step, self._blocks = step, [slice(0, m)] if blocks is None else blocks
        self._part, self._n_jobs = part, n_jobs
        self._F = np.zeros((m, min(most, m)), dtype=dtype, order="C")
        self._rank = 0

    @property
    def F(self) -> Array:
        """The columns so far."""
        return self._F[:, : self._rank]

    def residual(self, numbers: Ints) -> Array:
        """K - F F^T among these rows."""
        F = self.F
        return self._part(numbers, numbers) - F[numbers] @ F[numbers].T

    def extend(self, numbers: Ints, L: Floats) -> tuple[Floats, Floats]:
        """Add the columns of these pivots."""
        F, r = self.F, self._rank
        F_pivots = F[numbers]

        def fill(rows: slice) -> tuple[Floats, Floats]:
            new = new_columns(self._part(rows, numbers), F[rows], F_pivots, L)
            self._F[rows, r : r + len(numbers)] = new
            return squares_and_sums(new)

        found = list(self._mapped(fill, self.step))
        self._rank += len(numbers)
        sums = self._joined((part for _, part in found), add, self.step)
        return np.concatenate([squares for squares, _ in found]), sums

    def combined(self, function: Callable[[Array], Any], combine: Any, step: int) -> Any:
        """`function` of the rows of F, `step` at a time, joined."""
        F = self.F
        return self._joined(self._mapped(lambda rows: function(F[rows]), step), combine, step)

    def stacked(self, function: Callable[[Array], Array], step: int) -> Array:
        """`function` of the rows of F, `step` at a time, one below the other."""
        F = self.F
        return np.concatenate(list(self._mapped(lambda rows: function(F[rows]), step)))

    def rows(self, numbers: Ints) -> Array:
        """Rows of F."""
        return np.asarray(self.F[numbers])

    def _mapped(self, function: Callable[[slice], Any], step: int) -> Iterator[Any]:
        pieces = [rows for block in self._blocks for rows in cut(block, step)]
        return map_in_order(function, pieces, n_jobs=self._n_jobs)

    def _joined(self, parts: Iterable[Any], combine: Any, step: int) -> Any:
        """What `_mapped` gave, joined in turn within a block, and pairwise over the blocks."""
        parts = iter(parts)
        counts = [len(cut(block, step)) for block in self._blocks]
        return combine_pairwise((reduce(combine, islice(parts, n)) for n in counts), combine)


def cut(block: slice, step: int) -> list[slice]:
    """The rows of a block, `step` at a time."""
    return [
        slice(block.start + part.start, block.start + part.stop)
        for part in spans(block.stop - block.start, step)
    ]


def pivoted_cholesky(factor: Factor, most: int, share: float, rng: Any) -> LowRank:
    """Factor until at most `share` of the trace about the mean is left, or the rank is `most`."""
    diagonal = factor.diagonal
    m = len(diagonal)
    most = min(most, m)
    left = diagonal.astype(np.float64).copy()
    trace = float(left.sum())
    floor = 100 * float(np.finfo(factor.dtype).eps) * float(diagonal.max(initial=0.0))
    if not np.isfinite(diagonal).all():
        raise InputError("the kernel overflows: divide the columns by a constant first.")
    if diagonal.min(initial=0.0) < -floor:
        raise InputError(_INDEFINITE)
    pivots: list[int] = []
    report = reporter()
    about_mean, sums = trace, np.zeros(0)
    while len(pivots) < most and left.sum() > share * about_mean and left.max() > floor:
        proposed = rng.choice(m, size=_PROPOSED, p=left / left.sum())
        proposed = proposed[np.sort(np.unique(proposed, return_index=True)[1])]
        G = factor.residual(proposed)
        # What is left of the diagonal, measured again: sums of squares have rounded it.
        left[proposed] = np.minimum(left[proposed], np.maximum(np.diagonal(G), 0.0))
        S, L = _accept(G.astype(np.float64), left, proposed, rng, floor)
        room = most - len(pivots)
        S, L = S[:room], L[:room, :room]
        squares, more = factor.extend(S, L)
        left -= squares
        if left.min() < -1e3 * floor:
            raise InputError(_INDEFINITE)
        np.maximum(left, 0.0, out=left)
        pivots += S.tolist()
        left[pivots] = 0.0
        sums = np.concatenate([sums, more])
        about_mean = max(trace - float(sums @ sums) / m, 0.0)
        report("pivots", len(pivots), most)
    found = np.array(pivots, dtype=np.int64)
    return LowRank(factor, found, float(left.sum()), about_mean, sums)


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
