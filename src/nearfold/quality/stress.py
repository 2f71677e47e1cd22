"""Stress: how far distances differ from the original ones, up to one common scale.

Symbols: D_ij distances in the original space, d_ij in the new one, sums over pairs i < j.

    raw         sum (D - d)^2
    normalized  sqrt(sum (D - d)^2 / sum D^2)                    (as `MDS`, scikit-learn)
    value       min over a of sqrt(sum (D - a d)^2 / sum D^2)    (scale-free; Kruskal's stress-1
                                                                  of ratio MDS has this minimum)
    scale       the a of that minimum, sum D d / sum d^2

`value` runs from 0, all distances kept up to one scale, to 1, all rows at one point. `per_row` is
the same for the pairs of one row, at the common scale.

Numerics: sums are those of e = D - a0 d for an a0 near the best scale (that of one row), so that
nothing cancels where the fit is good: sum (D - a d)^2 = sum e^2 - (sum e d)^2 / sum d^2 at best.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearfold.notation import Floats, Ints
from nearfold.quality.passes import over_rows
from nearfold.quality.result import Judged, choose_rows
from nearfold.quality.spaces import Space, check_spaces


@dataclass(frozen=True, eq=False)
class Stress:
    """How far distances are from those of the original space; 0 is best."""

    value: float  # scale-free
    raw: float  # an estimate if rows were sampled
    normalized: float
    scale: float
    per_row: Floats = field(repr=False)
    interval: tuple[float, float] | None
    n_judged: int
    notice: str | None = None

    def __float__(self) -> float:
        return self.value


class StressSums:
    """Four sums per judged row: e^2, e d, d^2, D^2."""

    def __init__(self, original: Space, embedded: Space, rows: Ints) -> None:
        self._spaces = (original, embedded)
        D, d = (space.lengths(space.measure(rows[:1]))[0] for space in self._spaces)
        spread = float(d @ d)
        self.rough = float(D @ d) / spread if spread > 0 else 0.0

    def of_row(self, X_measured: Floats, Z_measured: Floats) -> tuple[float, float, float, float]:
        """The sums of one row, given its measure in both spaces."""
        D = self._spaces[0].lengths(X_measured)
        d = self._spaces[1].lengths(Z_measured)
        e = D - self.rough * d
        return float(e @ e), float(e @ d), float(d @ d), float(D @ D)

    def finish(self, sums: Floats, judged: Judged) -> Stress:
        """The result from the sums (m, 4) of the judged rows."""
        ee, ed, dd, DD = sums.sum(axis=0)
        shift = ed / dd if dd > 0 else 0.0
        beside = self.rough - 1.0
        raw = max(0.0, ee + 2 * beside * ed + beside**2 * dd)
        square = min(1.0, _share(max(0.0, ee - shift * ed), DD))
        value = float(np.sqrt(square))
        left = np.maximum(sums[:, 0] - 2 * shift * sums[:, 1] + shift**2 * sums[:, 2], 0.0)
        influence = np.zeros(len(sums))
        if value > 0:
            influence = (left - square * sums[:, 3]) / (2 * value * DD / len(sums))
        return Stress(
            value=value,
            raw=raw / 2 * judged.n / len(sums),
            normalized=float(np.sqrt(_share(raw, DD))),
            scale=self.rough + shift,
            per_row=judged.spread(np.sqrt(_shares(left, sums[:, 3]))),
            interval=judged.interval(value, influence, (0.0, 1.0)),
            n_judged=len(sums),
            notice=judged.notice,
        )


def _shares(part: Floats, whole: Floats) -> Floats:
    """part / whole; where the whole is 0, 0 if the part is too, else 1 (equal rows separated)."""
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), (part > 0).astype(float))


def _share(part: float, whole: float) -> float:
    return float(_shares(np.array(part), np.array(whole)))


def stress(
    X: Any,
    Z: Any,
    *,
    metric: Any = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Stress:
    """The stress of Z as a picture of the distances in X.

    `sample`: how many rows to judge, each against all; None: all, of tables beyond 20,000 rows as
    many as make the same number of pairs, with a notice and an interval.
    """
    original, embedded = check_spaces(X, Z, metric)
    judged = choose_rows(original.X, sample, random_state)
    sums = StressSums(original, embedded, judged.rows)

    def judge(rows: Ints, measured: list[Floats]) -> list[tuple[float, float, float, float]]:
        return [sums.of_row(x, z) for x, z in zip(*measured, strict=True)]

    blocks = over_rows((original, embedded), judged.rows, judge, "stress", n_jobs)
    return sums.finish(np.array([row for _, part in blocks for row in part]), judged)
