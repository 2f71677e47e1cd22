"""Text tables of very many columns, nearly all of them numbers.

polars keeps some hundred bytes for every column of every frame, and a chunk of such a text has few
rows: a frame for each chunk takes many times the room of the numbers and most of the time. Here the
cells of a chunk are one column, cast at once, and go into one array of all rows. Columns that hold
words are few, and are gathered in a second pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfold.notation import Array, Floats
from nearfold.store.cells import EXACT, LEADING_ZERO, WHOLE, Rules, narrowed, type_columns
from nearfold.store.frames import MISSING_WORDS
from nearfold.store.records import Odd, odd_cells

if TYPE_CHECKING:
    import polars as pl

WIDE = 1_000  # columns
COLUMN_BYTES = 600  # of polars and of its name, whatever a column holds
_MOST_APART = 100  # columns that are not plain numbers; a table with more is read as others are


def read_wide(
    chunks: Callable[[], Iterator[bytes]], separator: str, shape: tuple[int, int], rules: Rules
) -> tuple[pl.DataFrame, Counter[tuple[str, str]]] | None:
    """The frame with columns c0, c1, ... and the words that stood for missing values.

    None if the text is not made of plain numbers. `chunks` gives the text from its beginning, in
    pieces of whole rows; cells have no quotes and a decimal point.
    """
    import polars as pl

    numbers = _Numbers(*shape)
    for text in chunks():
        if not numbers.add(_cells(text, separator, rules), odd_cells(text, separator)):
            return None
    apart = np.flatnonzero(numbers.apart)
    done: dict[int, pl.Series] = {}
    missing = numbers.missing_words()
    if len(apart):
        parts = []
        for text in chunks():
            cells = _cells(text, separator, rules)
            rows = np.arange(0, len(cells), shape[1])
            parts.append(pl.DataFrame({f"c{j}": cells.gather(rows + j) for j in apart}))
        typed = type_columns(pl.concat(parts), rules, missing)
        done = {int(j): typed[f"c{j}"] for j in apart}
    columns = (done[j] if j in done else numbers.column(j) for j in range(shape[1]))
    return pl.DataFrame(list(columns)), missing


def _cells(text: bytes, separator: str, rules: Rules) -> pl.Series:
    import polars as pl

    line = text.replace(b"\r\n", b"\n").removesuffix(b"\n").replace(b"\n", separator.encode())
    cells = pl.Series([line.decode("utf-8", errors="replace")]).str.split(separator).explode()
    return cells.set(cells.str.strip_chars().is_in(rules.na), "") if rules.na else cells


class _Numbers:
    """The numbers of all rows, and which columns hold something else, or only whole numbers."""

    def __init__(self, n: int, width: int) -> None:
        self._values: Floats = np.empty((n, width))
        self._at = 0
        self._whole = np.ones(width, dtype=bool)
        self._missing: Counter[tuple[int, str]] = Counter()
        self.apart = np.zeros(width, dtype=bool)  # words, codes, or whole numbers beyond a float's

    def add(self, cells: pl.Series, odd: Odd) -> bool:
        """The cells of some rows; False if they are too few, too many, or words."""
        import polars as pl

        width = self._values.shape[1]
        rows, rest = divmod(len(cells), width)
        if rest or self._at + rows > len(self._values):
            return False
        values = np.array(cells.cast(pl.Float64, strict=False).to_numpy(), dtype=np.float64)
        whole = cells.cast(pl.Int64, strict=False).is_not_null().to_numpy().copy()
        words = np.flatnonzero(np.isnan(values) & (cells != "").to_numpy())
        if len(words):
            self._settle(words, cells.gather(words), values, whole)
        large = np.flatnonzero(np.abs(values) >= EXACT)
        rounded = cells.gather(large).str.contains(WHOLE).to_numpy()
        self.apart[large[rounded] % width] = True
        if odd.zeros:
            coded = np.flatnonzero(cells.str.contains(LEADING_ZERO).to_numpy())
            self.apart[coded % width] = True
        whole |= np.isnan(values)
        self._whole &= whole.reshape(rows, width).all(axis=0)
        self._values[self._at : self._at + rows] = values.reshape(rows, width)
        self._at += rows
        return int(self.apart.sum()) <= _MOST_APART

    def _settle(self, where: Array, cells: Any, values: Array, whole: Array) -> None:
        """Cells that are no plain numbers: spaces around them, words for missing, other words."""
        import polars as pl

        stripped = cells.str.strip_chars()
        number = stripped.cast(pl.Float64, strict=False)
        values[where] = number.to_numpy()
        whole[where] = stripped.cast(pl.Int64, strict=False).is_not_null().to_numpy()
        column = where % self._values.shape[1]
        missing = (stripped.is_in(list(MISSING_WORDS)) | number.is_nan()).fill_null(False)
        known = (missing | (stripped == "") | number.is_not_null()).to_numpy()
        self.apart[column[~known]] = True
        named = missing.to_numpy()
        words = stripped.filter(missing).to_list()
        self._missing.update(zip(column[named].tolist(), words, strict=True))

    def missing_words(self) -> Counter[tuple[str, str]]:
        """How often which word stood for a missing value, in columns of numbers."""
        found = self._missing.items()
        return Counter({(f"c{j}", word): n for (j, word), n in found if not self.apart[j]})

    def column(self, j: int) -> pl.Series:
        """A column in the narrowest type that holds it."""
        import polars as pl

        values = self._values[: self._at, j]
        gaps = np.isnan(values)
        if gaps.all():
            return pl.Series(f"c{j}", [None] * len(values), dtype=pl.Null)
        column = pl.Series(f"c{j}", np.ascontiguousarray(values))
        if gaps.any():
            column = column.fill_nan(None)
        return narrowed(column) if self._whole[j] else column
