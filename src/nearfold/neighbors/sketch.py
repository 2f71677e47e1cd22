"""Sketches of rows for the pruned search: a few float32 numbers that bound every distance.

psi(x) = (x_h, |x_t|): the coordinates of x - mu on axes that span some leading principal ones and
the length of the rest; or all of x - mu, where no axes stand out. `pruned.py` has the mathematics.
Every sketch comes with `slack`, a bound of how far rounding may have moved it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.blocks import get_memory, spans
from nearfold.linalg import square_norms
from nearfold.neighbors.plan import AXES, SAMPLE, choose_axes, principal_axes
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order, one_blas_thread

_PROJECT_ROWS, _PROJECT_CELLS = 512, 2**19  # of rows that are projected at a time
_CHUNK = 64  # columns summed in float32 at a time: the fewer, the smaller the bound of its error
_FLAT = 0.01  # with less than this share of |x|^2 in the tail, products are made in float64
_SAMPLE_CELLS = 2**21
U32 = float(np.finfo(np.float32).eps) / 2
U64 = float(np.finfo(np.float64).eps) / 2
_LARGEST_SQUARE = 1e30  # beyond it float32 scores might overflow


def sketch_bytes(n: int, width: int) -> float:
    """What sketches of so many numbers take for n rows, while they are made."""
    return 9.0 * n * (width + 12)


class CannotSketch(Exception):
    """A row is too far out for float32, or the sketch would exceed the memory budget."""


@dataclass(frozen=True)
class Sketch:
    """Sketched rows, their norms, and what rounding may have cost them."""

    psi: Array  # (n, D) float32
    norm: Floats  # (n,) |psi|
    slack: Floats  # (n,)

    def take(self, chosen: Any) -> Sketch:
        """The sketches of some rows."""
        return Sketch(self.psi[chosen], self.norm[chosen], self.slack[chosen])


class Sketcher:
    """Chooses the axes from a sample of the rows, and sketches any rows on them."""

    def __init__(self, X: Array, k_hint: int, axes: int | None, rng: np.random.Generator) -> None:
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
            strong = principal_axes(guide, max(1, min(self.d // 2, AXES[-1])))
            self.axes = choose_axes(guide, strong, n, k_hint) if axes is None else axes
            self.whole = not 0 < self.axes < self.d
            # The bounds need orthonormal axes, so these are made so in float64. Turned at random
            # they have parts of one size each, which leaves least to round.
            basis = np.linalg.qr(strong[:, : self.axes].astype(np.float64))[0]
            basis = basis @ np.linalg.qr(rng.standard_normal((basis.shape[1],) * 2))[0]
            share = np.square(guide @ basis).sum() / max(float(np.square(guide).sum()), 1e-300)
        self.dtype = np.dtype(np.float64 if share > 1 - _FLAT else np.float32)
        self.basis = (basis * self.scale).astype(self.dtype)
        self.width = self.d if self.whole else basis.shape[1] + 1
        self.step = max(1, min(_PROJECT_ROWS, _PROJECT_CELLS // max(1, self.d)))
        if axes is None and sketch_bytes(n, self.width) > get_memory() / 2:
            raise CannotSketch

    def sketch(self, Q: Array, n_jobs: int | None) -> Sketch:
        """Sketch rows, in blocks."""
        m = len(Q)
        sketch = Sketch(np.empty((m, self.width), dtype=np.float32), np.empty(m), np.empty(m))
        blocks = spans(m, self.step)
        if len(blocks) == 1:  # not worth a pool of threads
            self._fill(sketch, blocks[0], Q)
            return sketch
        for _ in map_in_order(lambda at: self._fill(sketch, at, Q[at]), blocks, n_jobs=n_jobs):
            pass
        return sketch

    @np.errstate(over="ignore", invalid="ignore")  # looked for at the end, in `norm`
    def _fill(self, sketch: Sketch, at: slice, rows: Array) -> None:
        psi = sketch.psi[at]
        block = rows - self.centre
        if self.whole:
            np.multiply(block, self.scale, out=psi, casting="same_kind")
        else:
            part, square = self._project(block.astype(self.dtype, copy=False))
            rest = square - square_norms(part)
            tail = np.sqrt(np.maximum(rest, 0.0))
            psi[:, :-1], psi[:, -1] = part, tail
        norm = np.sqrt(square_norms(psi.astype(np.float64)))
        sketch.norm[at], sketch.slack[at] = norm, self.slack(norm, psi[:, -1])
        if not norm.max(initial=0.0) ** 2 < _LARGEST_SQUARE:
            raise CannotSketch

    def _project(self, block: Array) -> tuple[Floats, Floats]:
        """Coordinates on the axes and |x|^2, summed over chunks of columns."""
        step = self.d if self.dtype == np.float64 else _CHUNK
        part, square = np.zeros((len(block), self.basis.shape[1])), np.zeros(len(block))
        for few in spans(self.d, step):
            part += block[:, few] @ self.basis[few]
            square += square_norms(block[:, few])
        return part, square * self.scale**2

    def slack(self, norm: Floats, tail: Array) -> Floats:
        """How far, in norm, stored sketches may be from the true ones.

        A sum of L products is off by at most L u |a||b|, each coordinate of psi is one, and its
        factors were rounded; together sqrt(D) (L + 4) u |x|. The tail's square is a difference
        of terms that are off by twice that times |x|, and (L + 4) u |x|^2; the tail itself then by
        the root of this, or by this over the tail. Rows were rounded when centred, sketches when
        stored.
        """
        if self.whole:
            return 3 * U32 * norm
        u = U64 if self.dtype == np.float64 else U32
        length = (self.d if self.dtype == np.float64 else _CHUNK) + 4
        part = np.sqrt(self.width) * length * u * norm
        doubt = 2 * norm * part + part**2 + length * u * norm**2
        tail = tail.astype(np.float64)
        tail = np.where(doubt < tail**2, doubt / np.maximum(tail, 1e-300), np.sqrt(doubt))
        return np.asarray((part + tail) * 1.01 + 3 * U32 * norm)
