"""The result of a quality measure: a value, the same per row, and its interval."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.linalg.row_order import order_by_value
from nearfold.notation import Array, Floats, Ints
from nearfold.run import random_state

# All rows are judged up to EXACT_ROWS; of a larger table as many as make EXACT_ROWS^2 pairs, each
# still against all rows: about twenty seconds on two cores, whatever the number of rows.
EXACT_ROWS = 20_000
_LEAST = 500
_NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, eq=False)
class Quality:
    """One measure of a space. `value` is the mean of `per_row` over the rows judged."""

    value: float
    per_row: Floats = field(repr=False)  # NaN for rows that were not judged
    interval: tuple[float, float] | None  # 95 %, for the sampling of rows; None: all were judged
    n_judged: int
    n_neighbors: int | None = None
    notice: str | None = None

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.value:.4f}"
        return f"{self.value:.4f} (95 %: {self.interval[0]:.4f} to {self.interval[1]:.4f})"


@dataclass(frozen=True, eq=False)
class Judged:
    """Which rows are judged, and a notice if they are not all."""

    rows: Ints  # ascending
    n: int
    notice: str | None

    @property
    def all_rows(self) -> bool:
        """Whether every row is judged."""
        return len(self.rows) == self.n

    def quality(
        self, values: Floats, n_neighbors: int | None = None, limits: tuple[float, float] = (0, 1)
    ) -> Quality:
        """The mean of a value per judged row, with its interval if rows were sampled."""
        value = float(values.mean())
        return Quality(
            value,
            self.spread(values),
            self.interval(value, values, limits),
            len(self.rows),
            n_neighbors,
            self.notice,
        )

    def spread(self, values: Floats) -> Floats:
        """A value per row of the table from one per judged row."""
        per_row = np.full(self.n, np.nan)
        per_row[self.rows] = values
        return per_row

    def interval(
        self, value: float, influence: Floats, limits: tuple[float, float]
    ) -> tuple[float, float] | None:
        """95 % normal interval of a value whose influence function per row is `influence`.

        Rows are drawn without replacement, so the error vanishes as all rows are judged.
        """
        m = len(self.rows)
        if self.all_rows:
            return None
        error = float(influence.std(ddof=1)) * np.sqrt((1 - m / self.n) / m)
        return _clipped(value, _NORMAL_95 * float(error), limits)


def _clipped(value: float, half: float, limits: tuple[float, float]) -> tuple[float, float]:
    return max(limits[0], value - half), min(limits[1], value + half)


def choose_rows(X: Array, sample: int | None, seed: Any) -> Judged:
    """The rows to judge: all, or a draw that does not depend on the order they are given in."""
    n = len(X)
    if sample is not None and sample < 2:
        raise InputError(f"sample={sample}: judge at least two rows, or None for the usual number.")
    wanted = n if n <= EXACT_ROWS else max(_LEAST, EXACT_ROWS**2 // n)
    m = min(n, wanted if sample is None else int(sample))
    if m == n:
        return Judged(np.arange(n), n, None)
    order = order_by_value(X, np.zeros(n, dtype=np.int64))
    rows = np.sort(order[random_state(seed).permutation(n)[:m]])
    notice = f"{m:,} of {n:,} rows were judged, drawn at random, each against all rows."
    return Judged(rows, n, notice)


def check_neighbors(n_neighbors: int, n: int) -> int:
    """k as it may be for trustworthiness and continuity: from 1 to below n / 2."""
    most = (n - 1) // 2
    if not 1 <= n_neighbors <= most:
        raise InputError(
            f"n_neighbors ({n_neighbors}) should be less than half of the {n} rows, from 1 to "
            f"{most}; beyond it the measure has no scale."
        )
    return int(n_neighbors)
