"""Lists of the pairs that may be impostors, for the many steps in which they hardly change.

A pair (i, l) of rows of different classes is listed if d_il < (1 + slack) reach_i, where reach_i^2
= 1 + max_j d_ij^2 is the distance within which l is an impostor of i. At the point L at which the
list was made it holds every impostor, so that the loss over it is the full one; elsewhere it may
miss some, and the loss over it is at most the full one.

One float32 product, whose error is bounded, finds the pairs; distances of listed pairs are then
measured from differences, in the dtype of the rows.

Cost: O(m^2 r) to make a list, O(n r) for a loss over its n pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nearfold.blocks import spans
from nearfold.metrics.pair_blocks import augmented, block_size, run_tasks
from nearfold.notation import Array, Floats, Ints
from nearfold.run import PerThread

LISTED = 2000  # rows; JIT compilation dominates below this size
_PAIRS = 2**22  # listed at most, about
_SHARE = 1 / 16  # of all pairs: a list of more is no faster than products with all rows
_SLACKS = (0.1, 0.05)  # larger lists save fewer renewals than they cost: measured
_PILOT = 64  # rows from which the number of pairs is estimated
_TASKS = 16


@dataclass(frozen=True)
class Candidates:
    """Pairs (i, l) for spans of rows lo to hi: `at` holds (i - lo) m + l, ascending."""

    spans: list[tuple[int, int]]
    at: list[Ints]
    m: int

    @property
    def n_pairs(self) -> int:
        """How many pairs are listed."""
        return sum(len(at) for at in self.at)

    def within(self, Z: Array, number: int, largest: Array) -> tuple[Ints, Ints, Array]:
        """The impostors in a span: their i - lo and l, and 1 - d_il^2; largest: max_j d_ij^2."""
        from nearfold.kernels.soft import negative_squares

        (lo, hi), at = self.spans[number], self.at[number]
        first = np.searchsorted(at, self.m * np.arange(hi - lo + 1))
        rest = np.empty(len(at), dtype=Z.dtype)
        negative_squares(at, first, Z, Z[lo:hi], rest)
        rest += 1
        inside = np.flatnonzero(rest + np.repeat(largest, np.diff(first)) > 0)
        row = np.searchsorted(first, inside, side="right") - 1
        return row, at[inside] - row * self.m, rest[inside]


def listed_pairs(m: int) -> float:
    """How many pairs of m rows are listed at most, as far as a pilot can tell."""
    return min(_SHARE * m * m, _PAIRS) if m >= LISTED else 0.0


def find_candidates(Z: Array, starts: Ints, reach: Floats) -> Candidates | None:
    """The pairs within reach, with the largest slack that keeps them few; None if they are many.

    Z is centred; reach_i^2 (0: no impostors) is given for every row.
    """
    m, (left, right) = len(Z), augmented(Z.astype(np.float32, copy=False))
    norms = right[-1].astype(np.float64)
    # A sum of r + 1 products of rounded numbers, none larger than 2 max(|z_i|, |z_l|)^2; and rows
    # within reach are not much farther from the origin than row i.
    rounding = 8.0 * (Z.shape[1] + 4) * float(np.finfo(np.float32).eps)

    def least(slack: float) -> Array:  # T_il = |z_i|^2 - d_il^2 above which l is listed
        within = (1 + slack) ** 2 * reach
        error = rounding * (np.sqrt(norms) + np.sqrt(within)) ** 2
        return np.where(reach > 0, norms - within - error, np.inf).astype(np.float32)

    pilot = np.linspace(0, m - 1, _PILOT).astype(np.int64)
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    T = left[pilot] @ right
    T[group[pilot][:, None] == group] = -np.inf
    most = listed_pairs(m) * _PILOT / m
    for slack in _SLACKS:
        limit = least(slack)
        if np.count_nonzero(T > limit[pilot, None]) <= most:
            return _list_pairs(left, right, starts, limit)
    return None


def _list_pairs(left: Array, right: Array, starts: Ints, limit: Array) -> Candidates | None:
    """All pairs above the limit of their row; None if they are many more than the pilot found."""
    m = len(left)
    buffers = PerThread(
        lambda: (np.empty((block_size(m), m), np.float32), np.empty((block_size(m), m), bool))
    )

    def run(span: tuple[int, int, int]) -> Ints:
        lo, hi, c = span
        found = []
        for part in spans(hi - lo, block_size(m)):
            rows = slice(lo + part.start, lo + part.stop)
            T, above = (buffer[: part.stop - part.start] for buffer in buffers.get())
            np.greater(np.matmul(left[rows], right, out=T), limit[rows, None], out=above)
            above[:, starts[c] : starts[c + 1]] = False
            found.append(np.flatnonzero(above) + part.start * m)
        return np.concatenate(found)

    tasks = [
        (lo + part.start, lo + part.stop, c)
        for c, (lo, hi) in enumerate(pairwise(starts.tolist()))
        for part in spans(hi - lo, -(-m // _TASKS))
    ]
    at, total = list[Ints](), 0
    for found in run_tasks(run, tasks, float(m) * m, left.shape[1]):
        at.append(found)
        total += len(found)
        if total > 2 * listed_pairs(m):
            return None
    return Candidates([task[:2] for task in tasks], at, m)
