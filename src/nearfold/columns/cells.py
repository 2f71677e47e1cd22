"""The cells of a table's features as arrays: numbers (NaN where missing) and codes of categories.

Reading cells learns nothing from them: a code is only a short name for a word. What is learned
(fills, scales, encodings) is learned from these arrays, inside each fold (preparation.py).
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfold.blocks import require_memory
from nearfold.columns.dates import as_days, expand, parse
from nearfold.columns.frames import as_polars, close_to, show, show_names
from nearfold.columns.kinds import Kind
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array, Floats, Ints

if TYPE_CHECKING:
    import polars as pl

MISSING = -1  # code of a missing category
UNSEEN = -2  # code of a category that is not among the known ones
_SHORT = frozenset(("Float32", "Int8", "Int16", "UInt8", "UInt16", "Boolean"))  # exact in float32
_ADVICE = "Take fewer columns or a sample of the rows."
_THUMBNAIL = 16  # pixels of a side
_BLOCK = 2**20  # cells converted together


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
        return Cells(self.parts, self.numbers[rows], self.codes[rows], self.levels, self.named)

    def shuffled(self, part: Part, order: Ints) -> Cells:
        """A copy in which one feature has its rows in another order."""
        numbers, codes = self.numbers, self.codes
        if part.is_coded:
            codes = codes.copy()
            codes[:, part.start] = codes[order, part.start]
        else:
            numbers = numbers.copy()
            numbers[:, part.start : part.stop] = numbers[order, part.start : part.stop]
        return Cells(self.parts, numbers, codes, self.levels, self.named)


def cells_of_array(X: Floats, names: Sequence[str] | None = None) -> Cells:
    """The cells of an array of numbers."""
    shown = [f"x{j}" for j in range(X.shape[1])] if names is None else [str(name) for name in names]
    parts = tuple(Part(name, Kind.NUMBER, j, j + 1, (name,)) for j, name in enumerate(shown))
    return Cells(parts, X, np.empty((len(X), 0), dtype=np.int32), (), names is not None)


def read_cells(
    frame: Any, specs: Sequence[dict[str, Any]], levels: Sequence[Array] | None = None
) -> Cells:
    """The features of a table, each read as its specification (`Column.spec`) says.

    `levels`: the known words of each category; others are UNSEEN. None: all words of the table.
    """
    table = _columns(frame, specs)
    parts, widths = _parts(specs)
    n_numbers = sum(part.stop - part.start for part in parts if not part.is_coded)
    plain = [s for s in specs if s["kind"] in (Kind.NUMBER, Kind.BOOLEAN) and "members" not in s]
    short = len(plain) == len(specs) and all(str(table[s["name"]].dtype) in _SHORT for s in plain)
    dtype = np.dtype(np.float32 if short else np.float64)
    require_memory(2 * table.height * n_numbers * dtype.itemsize, "the table", _ADVICE)
    numbers = np.empty((table.height, n_numbers), dtype=dtype)
    codes = np.empty((table.height, sum(part.is_coded for part in parts)), dtype=np.int32)
    found: list[Array] = []
    if len(plain) == len(specs):
        _fill_numbers(table, [s["name"] for s in specs], numbers)
        return Cells(parts, numbers, codes)
    for spec, part in zip(specs, parts, strict=True):
        if part.is_coded:
            known = None if levels is None else levels[part.start]
            codes[:, part.start], words = _codes(table[spec["name"]], known)
            found.append(words)
        else:
            numbers[:, part.start : part.stop] = _numbers(table, spec, widths[spec["name"]])
    return Cells(parts, numbers, codes, tuple(found))


def _columns(frame: Any, specs: Sequence[dict[str, Any]]) -> pl.DataFrame:
    wanted = [name for spec in specs for name in spec.get("members", [spec["name"]])]
    have = [str(name) for name in frame.columns]
    there = set(have)
    absent = [name for name in wanted if name not in there]
    if absent:
        extra = [name for name in have if name not in set(wanted)]
        near: Any = close_to(absent[0], extra) if extra else ""
        raise InputError(Message("columns.absent", n=len(absent), of=len(wanted),
                                 names=show_names(absent), near=near))  # fmt: skip
    return as_polars(frame, wanted)


def _parts(specs: Sequence[dict[str, Any]]) -> tuple[tuple[Part, ...], dict[str, int]]:
    parts, widths = [], {}
    at = coded = 0
    for spec in specs:
        name, kind = str(spec["name"]), Kind(spec["kind"])
        names = column_names(spec)
        widths[name] = len(names)
        if kind == Kind.CATEGORY:
            parts.append(Part(name, kind, coded, coded + 1, names))
            coded += 1
        else:
            parts.append(Part(name, kind, at, at + len(names), names))
            at += len(names)
    return tuple(parts), widths


def column_names(spec: dict[str, Any]) -> tuple[str, ...]:
    """The names of the numbers that a feature is read as; a category's own name."""
    name, kind = str(spec["name"]), Kind(spec["kind"])
    if kind == Kind.DATE:
        cyclic = [
            f"{name}.{part}_{wave}" for part in spec.get("parts", []) for wave in ("sin", "cos")
        ]
        return (name, *cyclic)
    if kind == Kind.EMBEDDING:
        members = spec.get("members")
        return tuple(members) if members else tuple(f"{name}[{j}]" for j in range(spec["width"]))
    if kind == Kind.IMAGE:
        return tuple(f"{name}[{j}]" for j in range(_THUMBNAIL**2))
    return (name,)


def _fill_numbers(table: pl.DataFrame, names: list[str], numbers: Floats) -> None:
    """Many columns of numbers at once, a block of rows at a time."""
    import polars as pl

    kind = pl.Float32 if numbers.dtype == np.float32 else pl.Float64
    plain = pl.DataFrame([_readable(table[name]).alias(str(i)) for i, name in enumerate(names)])
    step = max(1, _BLOCK // max(1, plain.width))
    for start in range(0, plain.height, step):
        part = plain.slice(start, step).select(pl.all().cast(kind))
        numbers[start : start + step] = part.to_numpy()


def _numbers(table: pl.DataFrame, spec: dict[str, Any], width: int) -> Floats:
    kind, name = Kind(spec["kind"]), spec["name"]
    if kind == Kind.EMBEDDING:
        members = spec.get("members")
        if members:
            values = np.empty((table.height, width))
            _fill_numbers(table, members, values)
            return values
        return _vectors(table[name], width)
    column = table[name]
    if kind == Kind.DATE:
        return expand(as_days(_as_dates(column, spec)), spec.get("parts", []))
    if kind == Kind.ORDERED:
        return _places(column, spec["levels"])
    if kind == Kind.IMAGE:
        return _pixels(column)
    return np.asarray(_readable(column).cast(_float64()).to_numpy(), dtype=np.float64)[:, None]


def _float64() -> Any:
    import polars as pl

    return pl.Float64


def _readable(column: pl.Series) -> pl.Series:
    """A column of numbers; what was written as text is read, and words that are none refused."""
    import polars as pl

    held = column.dtype
    if held.is_numeric() or held == pl.Boolean:
        return column
    if held == pl.Null:
        return column.cast(pl.Float64)
    if held.is_temporal():
        return pl.Series(column.name, as_days(column))
    if held not in (pl.String, pl.Categorical) and not isinstance(held, pl.Enum):
        raise InputError(Message("columns.cannot_read", name=show(column.name), held=str(held),
                                 kind=Kind.NUMBER.shown))  # fmt: skip
    text = column.cast(pl.String).str.strip_chars()
    number = text.cast(pl.Float64, strict=False).fill_nan(None)
    words = text.is_not_null() & (text != "") & number.is_null()
    lost = int(words.sum())
    if lost > 0.1 * (len(column) - column.null_count()):
        row = int(words.arg_max() or 0)
        raise InputError(Message("columns.not_numbers", name=show(column.name), n=lost,
                                 word=show(text[row]), row=row + 1))  # fmt: skip
    return number


def _as_dates(column: pl.Series, spec: dict[str, Any]) -> pl.Series:
    import polars as pl

    if column.dtype.is_temporal() or column.dtype == pl.Null:
        return column
    if column.dtype != pl.String or not spec.get("format"):
        raise InputError(Message("columns.cannot_read", name=show(column.name),
                                 held=str(column.dtype), kind=Kind.DATE.shown))  # fmt: skip
    dates = parse(column, spec["format"])
    lost = dates.null_count() - column.null_count()
    if lost:
        row = int((dates.is_null() & column.is_not_null()).arg_max() or 0)
        word = show(column[row])
        raise InputError(Message("columns.not_dates", name=show(column.name), n=lost,
                                 form=spec["format"], word=word, row=row + 1))  # fmt: skip
    return dates


def as_words(column: pl.Series) -> pl.Series:
    """Categories as text: 1, 1.0 and "1" are the same word."""
    import polars as pl

    if column.dtype.is_float():
        whole = (column.is_finite() & (column == column.round())).all()
        column = column.fill_nan(None)
        if whole:
            column = column.cast(pl.Int64)
    if column.dtype.is_nested() or column.dtype == pl.Binary:
        raise InputError(Message("columns.cannot_read", name=show(column.name),
                                 held=str(column.dtype), kind=Kind.CATEGORY.shown))  # fmt: skip
    return column.cast(pl.String).str.strip_chars()


def _codes(column: pl.Series, known: Array | None) -> tuple[Ints, Array]:
    """The code of each cell, and the words."""
    import polars as pl

    words = as_words(column)
    if known is None:
        known = np.asarray(words.drop_nulls().unique().sort().to_list(), dtype=object)
    codes = words.replace_strict(
        pl.Series(known.tolist(), dtype=pl.String),
        pl.Series(range(len(known)), dtype=pl.Int32),
        default=UNSEEN,
        return_dtype=pl.Int32,
    )
    codes = pl.select(pl.when(words.is_null()).then(MISSING).otherwise(codes)).to_series()
    return np.asarray(codes.to_numpy(), dtype=np.int32), known


def _places(column: pl.Series, levels: list[str]) -> Floats:
    """The place of each cell in the order of levels; NaN for missing and for other words."""
    codes, _ = _codes(column, np.asarray([str(level) for level in levels], dtype=object))
    return np.where(codes >= 0, codes, np.nan).astype(np.float64)[:, None]


def _vectors(column: pl.Series, width: int) -> Floats:
    import polars as pl

    held: Any = column.dtype
    if not isinstance(held, pl.List | pl.Array) or not held.inner.is_numeric():
        raise InputError(Message("columns.not_vectors", name=show(column.name), n=width))
    present = column.is_not_null().to_numpy()
    lists = column.drop_nulls()
    if isinstance(held, pl.List) and (lists.list.len() != width).any():
        raise InputError(Message("columns.not_vectors", name=show(column.name), n=width))
    if isinstance(held, pl.Array) and held.size != width:
        raise InputError(Message("columns.not_vectors", name=show(column.name), n=width))
    values = np.full((len(column), width), np.nan)
    flat = lists.explode().cast(pl.Float64).to_numpy()
    values[present] = np.asarray(flat).reshape(-1, width)
    return values


def _pixels(column: pl.Series) -> Floats:
    """Images as grey thumbnails of one size."""
    from PIL import Image, UnidentifiedImageError

    values = np.full((len(column), _THUMBNAIL**2), np.nan)
    for i, held in enumerate(column):
        if held is None:
            continue
        try:
            with Image.open(io.BytesIO(held)) as image:
                small = image.convert("L").resize((_THUMBNAIL, _THUMBNAIL))
                values[i] = np.asarray(small, dtype=np.float64).ravel() / 255
        except (UnidentifiedImageError, OSError, ValueError, TypeError):
            raise InputError(
                Message("columns.bad_image", name=show(column.name), row=i + 1)
            ) from None
    return values
