"""The cells of a table's features as arrays: numbers (NaN where missing) and codes of categories.

Reading cells learns nothing from them: a code is only a short name for a word. What is learned
(fills, scales, encodings) is learned from these arrays, inside each fold (preparation.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfold.blocks import require_memory
from nearfold.columns.converters import (
    MISSING,
    UNSEEN,
    cannot_read,
    read_codes,
    read_dates,
    read_vectors,
)
from nearfold.columns.dates import as_days
from nearfold.columns.frames import (
    as_polars,
    close_to,
    column_names_of,
    is_frame,
    plainly_named,
    show,
    show_names,
)
from nearfold.columns.images import read_pixels
from nearfold.columns.kinds import Kind
from nearfold.columns.specs import Spec, column_names, source_names
from nearfold.columns.words import as_words
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array, Floats, Ints

if TYPE_CHECKING:
    import polars as pl

_SHORT = frozenset(("Float32", "Int8", "Int16", "UInt8", "UInt16", "Boolean"))  # exact in float32
_ADVICE = Message("memory.advice.study")
_BLOCK = 2**20  # cells converted together
_PLAIN = (Kind.NUMBER, Kind.BOOLEAN)  # kinds whose columns are converted many at a time
_MOST_WORDS = 0.1  # share of words among numbers or dates beyond which new rows are refused


@dataclass(frozen=True)
class Part:
    """Where a feature is: columns `start` to `stop` of the numbers, or of the codes."""

    name: str
    kind: Kind
    start: int
    stop: int
    names: tuple[str, ...]  # of its columns

    @property
    def is_coded(self) -> bool:
        """Whether it is a column of codes."""
        return self.kind == Kind.CATEGORY


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows of features: numbers and codes, with the words that the codes stand for."""

    parts: tuple[Part, ...]
    numbers: Floats  # rows x numbers, NaN where missing
    codes: Array  # rows x categories, int32
    levels: tuple[Array, ...] = ()  # of each category, its words
    named: bool = True  # whether columns have names
    notices: tuple[Message, ...] = ()  # what could not be read and counts as missing

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return int(self.numbers.nbytes + self.codes.nbytes)

    @property
    def width(self) -> int:
        """Columns once categories are encoded, at most."""
        return self.numbers.shape[1] + sum(min(len(known), 100) + 2 for known in self.levels)

    @property
    def names(self) -> tuple[str, ...]:
        """The features."""
        return tuple(part.name for part in self.parts)

    def take(self, rows: Any) -> Cells:
        """Some of the rows."""
        return replace(self, numbers=self.numbers[rows], codes=self.codes[rows])

    def shuffled(self, part: Part, order: Ints) -> Cells:
        """A copy in which one feature has its rows in another order."""
        numbers, codes = self.numbers, self.codes
        if part.is_coded:
            codes = codes.copy()
            codes[:, part.start] = codes[order, part.start]
        else:
            numbers = numbers.copy()
            numbers[:, part.start : part.stop] = numbers[order, part.start : part.stop]
        return replace(self, numbers=numbers, codes=codes)

    def gaps(self) -> Array:
        """Which rows lack a number or a category."""
        return np.asarray(
            ~np.isfinite(self.numbers).all(axis=1) | (self.codes == MISSING).any(axis=1)
        )


def cells_of_array(X: Floats, names: Sequence[str] | None = None) -> Cells:
    """The cells of an array of numbers."""
    shown = [f"x{j}" for j in range(X.shape[1])] if names is None else [str(name) for name in names]
    parts = tuple(Part(name, Kind.NUMBER, j, j + 1, (name,)) for j, name in enumerate(shown))
    return Cells(parts, X, np.empty((len(X), 0), dtype=np.int32), (), names is not None)


def read_cells(frame: Any, specs: Sequence[Spec], levels: Sequence[Array] | None = None) -> Cells:
    """The features of a table, each read as its specification (`Column.spec`) says.

    `levels`: the known words of each category; others are UNSEEN. None: all words of the table.
    """
    table = _columns(frame, specs)
    parts = _parts(specs)
    n_numbers = sum(part.stop - part.start for part in parts if not part.is_coded)
    dtype = np.dtype(np.float32 if _fits_float32(table, specs) else np.float64)
    require_memory(2 * table.height * n_numbers * dtype.itemsize, Message("memory.table"), _ADVICE)
    reader = _Reader(table, np.empty((table.height, n_numbers), dtype=dtype))
    plain = [(s, part.start) for s, part in zip(specs, parts, strict=True) if s["kind"] in _PLAIN]
    reader.words = {spec["name"]: spec["words"] for spec, _ in plain if "words" in spec}
    reader.fill([spec["name"] for spec, _ in plain], [start for _, start in plain])
    codes = np.empty((table.height, sum(part.is_coded for part in parts)), dtype=np.int32)
    found: list[Array] = []
    for spec, part in zip(specs, parts, strict=True):
        if part.is_coded:
            known = None if levels is None else levels[part.start]
            codes[:, part.start], words = read_codes(reader.column(spec["name"]), known)
            found.append(words)
        elif part.kind not in _PLAIN:
            reader.read(spec, part)
    return Cells(parts, reader.numbers, codes, tuple(found), notices=tuple(reader.notices))


def _columns(frame: Any, specs: Sequence[Spec]) -> pl.DataFrame:
    wanted = [name for spec in specs for name in source_names(spec)]
    have = column_names_of(frame)
    there = set(have)
    absent = [name for name in wanted if name not in there]
    if absent:
        known = set(wanted)
        extra = [name for name in have if name not in known]
        near: Any = close_to(absent[0], extra) if extra else ""
        raise InputError(Message("columns.absent", n=len(absent), of=len(wanted),
                                 names=show_names(absent), near=near))  # fmt: skip
    return as_polars(frame, wanted)


def _parts(specs: Sequence[Spec]) -> tuple[Part, ...]:
    parts = []
    at = coded = 0
    kinds = {kind.value: kind for kind in Kind}
    for spec in specs:
        kind, names = kinds[spec["kind"]], column_names(spec)
        if kind == Kind.CATEGORY:
            parts.append(Part(spec["name"], kind, coded, coded + 1, names))
            coded += 1
        else:
            parts.append(Part(spec["name"], kind, at, at + len(names), names))
            at += len(names)
    return tuple(parts)


def _fits_float32(table: pl.DataFrame, specs: Sequence[Spec]) -> bool:
    """Whether all features are numbers of types that float32 holds exactly."""
    plain = all(spec["kind"] in _PLAIN for spec in specs)
    return plain and {str(held) for held in table.dtypes} <= _SHORT


class _Reader:
    """Reads columns of a table into an array of numbers, and notes what cannot be read."""

    def __init__(self, table: pl.DataFrame, numbers: Floats) -> None:
        self.table = table
        self.numbers = numbers
        self.words: dict[str, list[str]] = {}  # of columns of numbers, texts for a missing one
        self.notices: list[Message] = []

    def column(self, name: str) -> pl.Series:
        """The column of this name."""
        return plainly_named(self.table.get_column(name))

    def fill(self, names: Sequence[str], places: Sequence[int]) -> None:
        """Many columns of numbers at once, a block of rows at a time."""
        import polars as pl

        if not names:
            return
        kind = pl.Float32 if self.numbers.dtype == np.float32 else pl.Float64
        plain = pl.DataFrame([self._readable(self.column(name), name) for name in names])
        plain.columns = [str(i) for i in range(plain.width)]  # to `cast` some names are patterns
        held = set(plain.dtypes)
        together = places[-1] - places[0] == len(places) - 1
        at = slice(places[0], places[-1] + 1) if together else list(places)
        step = max(1, _BLOCK // len(names))
        for start in range(0, plain.height, step):
            block = plain.slice(start, step)
            block = block if held == {kind} else block.cast(kind)
            self.numbers[start : start + step, at] = block.to_numpy()

    def read(self, spec: Spec, part: Part) -> None:
        """One feature that takes more than a conversion."""
        own = self.numbers[:, part.start : part.stop]
        if part.kind == Kind.EMBEDDING and spec.get("members"):
            self.fill(spec["members"], range(part.start, part.stop))
            return
        column = self.column(spec["name"])
        if part.kind == Kind.EMBEDDING:
            own[:] = read_vectors(column, spec["width"])
        elif part.kind == Kind.DATE:
            own[:], unread = read_dates(column, spec, _MOST_WORDS)
            self._note(column.name, column, unread, Kind.DATE)
        elif part.kind == Kind.ORDERED:
            own[:, 0] = self._places(column, spec["levels"])
        elif str(column.dtype) in ("Binary", "String", "Null"):
            own[:] = read_pixels(column)
        else:
            raise cannot_read(column, Kind.IMAGE)

    def _readable(self, column: pl.Series, name: str) -> pl.Series:
        """A column of numbers; those written as text are read, and too many words are refused."""
        import polars as pl

        held = column.dtype
        if held.is_numeric() or held == pl.Boolean:
            return column
        if held == pl.Null:
            return column.cast(pl.Float64)
        if held == pl.Duration:
            return pl.Series(column.name, as_days(column))
        if held not in (pl.String, pl.Categorical) and not isinstance(held, pl.Enum):
            raise cannot_read(column, Kind.NUMBER)
        text = column.cast(pl.String).str.strip_chars()
        if name in self.words:
            text = text.set(text.is_in(self.words[name]), None)
        number = text.cast(pl.Float64, strict=False).fill_nan(None)
        words = (text.is_not_null() & (text != "") & number.is_null()).fill_null(False)
        lost = int(words.sum())
        if lost > _MOST_WORDS * (len(column) - column.null_count()):
            row = int(words.arg_max() or 0)
            raise InputError(Message("columns.not_numbers", name=show(column.name), n=lost,
                                     word=show(text[row]), row=row + 1))  # fmt: skip
        self._note(column.name, text, words, Kind.NUMBER)
        return number

    def _places(self, column: pl.Series, levels: list[str]) -> Floats:
        """The place of each cell in the order of levels; NaN for missing and for other words."""
        import polars as pl

        codes, _ = read_codes(column, np.asarray(levels, dtype=object))
        self._note(column.name, as_words(column), pl.Series(codes == UNSEEN), Kind.ORDERED)
        return np.where(codes >= 0, codes, np.nan)

    def _note(self, name: str, text: pl.Series, lost: pl.Series, kind: Kind) -> None:
        n = int(lost.sum())
        if n:
            row = int(lost.arg_max() or 0)
            self.notices.append(Message("columns.unread", name=show(name), n=n, kind=kind.shown,
                                        word=show(text[row]), row=row + 1))  # fmt: skip


def cells_of(X: Any) -> Cells:
    """The cells of an array of numbers; of a table they are taken without its names."""
    if is_frame(X):
        table = as_polars(X)
        return read_cells(
            table, [{"name": name, "kind": Kind.NUMBER.value} for name in table.columns]
        )
    try:
        array = np.asarray(X)
        if array.dtype.kind not in "fiub":
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(Message("columns.no_array")) from None
    if array.ndim != 2:
        raise InputError(Message("columns.axes", n=array.ndim))
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if np.can_cast(array.dtype, np.float32) else np.float64)
    return cells_of_array(array)
