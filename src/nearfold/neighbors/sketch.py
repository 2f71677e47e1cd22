"""Sketches of rows for the pruned search: a few float32 numbers that bound every distance.

phi(x) = (x_h, |x_t|): the coordinates of x - mu on h leading principal axes and the length of the
rest. `pruned.py` has the mathematics. Sketches are computed in float64 and stored in float32;
`rounding` bounds what that costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.blocks import get_memory, spans
from nearfold.linalg import square_norms
from nearfold.neighbors.plan import AXES, SAMPLE, Plan, choose_plan, principal_axes
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order, one_blas_thread

_PROJECT_ROWS, _PROJECT_CELLS = 512, 2**19  # of rows in float64 that are projected at a time
LEAD = 8  # axes that rows are grouped by
_SAMPLE_CELLS = 2**21
_U32 = float(np.finfo(np.float32).eps) / 2
_U64 = float(np.finfo(np.float64).eps) / 2
_LARGEST_SQUARE = 1e30  # beyond it float32 scores might overflow


class CannotSketch(Exception):
    """A row is too far out for float32, or the sketch would exceed the memory budget."""


@dataclass(frozen=True)
class Sketch:
    """Sketched rows: what the product needs, what the second bound needs, and their sizes."""

    short: Array  # (n, h + 2) float32: x_h, |x_t|, and -|phi|^2 / 2 (rows) or 1 (queries)
    long: Array  # (n, H + 1) float32, or no columns
    square: Array  # (n,) |phi|^2 of the short sketch, float64

    def take(self, chosen: Any) -> Sketch:
        """The sketches of some rows."""
        return Sketch(self.short[chosen], self.long[chosen], self.square[chosen])


class Sketcher:
    """Chooses the axes from a sample of the rows, and sketches any rows on them."""

    def __init__(self, X: Array, k_hint: int, plan: Plan | None, rng: np.random.Generator) -> None:
        n, self.d = X.shape
        size = min(SAMPLE, max(64, _SAMPLE_CELLS // max(1, self.d)))
        sample = X[np.sort(rng.permutation(n)[:size])]
        mean = sample.mean(axis=0, dtype=np.float64)
        self.centre = mean.astype(X.dtype)  # so that centring rounds once
        sample -= self.centre
        # Sketches are float32: a power of two (exact) keeps their squares well inside its range.
        largest = float(np.abs(sample).max(initial=0.0))
        self.scale = float(2.0 ** -np.frexp(largest or 1.0)[1])
        guide = (sample * self.scale).astype(np.float32)  # float32 is enough to choose axes
        # One thread: waking BLAS's own for so little leaves them spinning into the search.
        with one_blas_thread():
            axes = principal_axes(guide, max(1, min(self.d // 2, AXES[-1])))
            self.plan = plan or choose_plan(guide, axes, n, k_hint)
        self.whole = self.plan.short >= self.d
        self.step = max(1, min(_PROJECT_ROWS, _PROJECT_CELLS // max(1, self.d)))
        self.width = self.d + 1 if self.whole else self.plan.short + self.plan.long + 3
        if plan is None and 4.0 * n * (self.width + 4) > get_memory() / 2:
            raise CannotSketch
        # The bounds need orthonormal axes, so these are made so in float64.
        self.basis = np.linalg.qr(axes[:, : self.plan.long].astype(np.float64))[0] * self.scale

    def lead(self, X: Array, n_jobs: int | None) -> Array:
        """The leading coordinates (n, at most 8) of all rows, by which they are grouped."""
        few = min(LEAD, self.plan.short)
        lead = np.empty((len(X), few), dtype=np.float32)

        @np.errstate(over="ignore", invalid="ignore")  # looked for below
        def project(span: slice) -> None:
            if self.whole:
                lead[span] = (X[span, :few] - self.centre[:few]) * self.scale
            else:
                lead[span] = (X[span] - self.centre) @ self.basis[:, :few]

        for _ in map_in_order(project, spans(len(X), self.step), n_jobs=n_jobs):
            pass
        if not np.isfinite(lead).all():
            raise CannotSketch
        return lead

    def room_for(self, m: int) -> Sketch:
        """Room for the sketches of m rows."""
        short, long = (self.d, -1) if self.whole else (self.plan.short + 1, self.plan.long)
        return Sketch(
            np.ones((m, short + 1), dtype=np.float32),
            np.empty((m, long + 1), dtype=np.float32),
            np.empty(m),
        )

    def sketch(self, Q: Array, chosen: Ints | slice) -> Sketch:
        """Sketch some rows of Q, a few at a time."""
        rows = np.arange(len(Q))[chosen]
        sketch = self.room_for(len(rows))
        for span in spans(len(rows), self.step):
            self._fill(sketch, span, Q[rows[span]])
        return sketch

    def sketch_all(self, Q: Array, n_jobs: int | None) -> Sketch:
        """Sketch all rows of Q, in blocks."""
        sketch = self.room_for(len(Q))
        blocks = spans(len(Q), self.step)
        for _ in map_in_order(lambda at: self._fill(sketch, at, Q[at]), blocks, n_jobs=n_jobs):
            pass
        return sketch

    @np.errstate(over="ignore", invalid="ignore")  # looked for at the end, in `square`
    def _fill(self, sketch: Sketch, at: slice, rows: Array) -> None:
        h, short, long = self.plan.short, sketch.short[at], sketch.long[at]
        block = rows - self.centre
        if self.whole:
            np.multiply(block, self.scale, out=short[:, :-1], casting="same_kind")
        else:
            block = block.astype(np.float64, copy=False)
            part = block @ self.basis
            size = square_norms(block) * self.scale**2
            short[:, :h] = part[:, :h]
            short[:, h] = np.sqrt(np.maximum(size - square_norms(part[:, :h]), 0.0))
            long[:, :-1] = part
            long[:, -1] = np.sqrt(np.maximum(size - square_norms(part), 0.0))
        sketch.square[at] = square_norms(short[:, :-1].astype(np.float64))
        if not sketch.square[at].max(initial=0.0) < _LARGEST_SQUARE:
            raise CannotSketch

    def rounding(self, norm: Any) -> Any:
        """How far, in norm, a stored sketch of a row of this norm may be from the true one.

        Rounding to float32, once when centred and once when stored; and the tail's norm, the
        square root of a difference |x|^2 - |W^T x|^2 in float64, whose terms are off by at most
        (d + 2) u |x|^2 and 2 sqrt(h) d u |x|^2.
        """
        if self.whole:
            return 3 * _U32 * norm
        d, h = self.basis.shape
        return (3 * _U32 + np.sqrt(4 * d * (np.sqrt(h) + 2) * _U64)) * norm

    def product_errors(self, tile_norm: float, length: int) -> tuple[float, float, float, float]:
        """The constants of `pruning_thresholds` for a tile of rows whose norms are at most this.

        Distances that decide are rounded too, and the axes are orthonormal up to rounding.
        """
        growth = self.scale * (1 + 16 * (self.d + 4) * _U64)
        long = 0 if self.whole else self.plan.long + 1
        return tile_norm, growth, (length + 1) * _U32, (long + 4) * _U32


def group_centres(lead: Array, groups: int, rng: np.random.Generator) -> Floats:
    """A few rounds of k-means on a sample: enough to put near rows side by side."""
    sample = lead[np.sort(rng.permutation(len(lead))[:SAMPLE])].astype(np.float64)
    centres = sample[rng.permutation(len(sample))[:groups]]
    for _ in range(5):
        nearest = np.argmin(square_norms(centres) - 2 * sample @ centres.T, axis=1)
        count = np.bincount(nearest, minlength=groups)
        for axis in range(centres.shape[1]):
            total = np.bincount(nearest, weights=sample[:, axis], minlength=groups)
            np.divide(total, count, out=centres[:, axis], where=count > 0)
    return np.asarray(centres[np.argsort(centres[:, 0], kind="stable")], dtype=np.float32)


def sort_by_group(lead: Array, centres: Array) -> Ints:
    """Row numbers, the rows of a group together."""
    group = np.empty(len(lead), dtype=np.int32)
    half = 0.5 * square_norms(centres)
    for span in spans(len(lead), 16_384):
        group[span] = np.argmax(lead[span] @ centres.T - half, axis=1)
    return np.argsort(group, kind="stable")
