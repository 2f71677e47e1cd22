"""Text cells to typed columns: whole numbers, numbers, yes or no, text; and what is missing.

A column gets a type only if nothing that was written is lost by it: codes such as `007` and whole
numbers that a type would round stay text. A word such as NA counts as missing only among numbers or
truth values; among other words it may well be one of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nearfold.store.frames import MISSING_WORDS
from nearfold.store.records import ANY_CELLS, Odd

if TYPE_CHECKING:
    import polars as pl

LEADING_ZERO = r"^\s*[+-]?0[0-9]"
WHOLE = r"^\s*[+-]?[0-9]+\s*$"
EXACT = 2**53  # whole numbers up to it are exact in a float


@dataclass(frozen=True)
class Rules:
    """How cells are to be read: the decimal sign, words for missing, columns to leave as text."""

    decimal: str = "."
    na: tuple[str, ...] = ()
    text: frozenset[str] = frozenset()


def type_columns(
    cells: pl.DataFrame, rules: Rules, missing: Counter[tuple[str, str]], odd: Odd = ANY_CELLS
) -> pl.DataFrame:
    """Each column in the narrowest type that all its cells have.

    Words for missing values are counted by column; `odd` says which cells need not be looked for.
    Most columns are done after one or two casts of all of them together.
    """
    import polars as pl

    cells = without_words(cells, rules.na)
    done: dict[str, pl.Series] = {}
    text = [name for name in cells.columns if name in rules.text]
    if odd.zeros:
        coded = cells.select(pl.all().str.contains(LEADING_ZERO).any()).row(0)
        text += [n for n, yes in zip(cells.columns, coded, strict=True) if yes and n not in text]
    left = _settle(cells.drop(text), pl.Int64, done)
    if rules.decimal == "." and left.width:
        left = _settle(left, pl.Float64, done, odd.long)
    if left.width:
        left = _settle_with_words(as_text(left), rules.decimal, done, missing)
        done |= {column.name: column for column in left}
    done |= {column.name: column for column in as_text(cells.select(text))}
    frame = pl.DataFrame([done[name] for name in cells.columns])
    return _nan_to_null(_shortened(frame), missing)


def count_words(column: pl.Series) -> dict[tuple[str, str], int]:
    """How often each word occurs, under the column's name."""
    return {(column.name, word): times for word, times in column.value_counts().rows()}


def without_words(cells: pl.DataFrame, words: tuple[str, ...]) -> pl.DataFrame:
    """Without the cells that are one of these words."""
    import polars as pl

    if not words:
        return cells
    return cells.select(pl.when(~pl.all().str.strip_chars().is_in(words)).then(pl.all()))


def as_text(cells: pl.DataFrame, na: tuple[str, ...] = ()) -> pl.DataFrame:
    """Without the spaces around cells; what is empty then is missing."""
    import polars as pl

    text = pl.all().str.strip_chars()
    return without_words(cells, na).select(pl.when(text != "").then(text))


def common_kind(parts: list[pl.Series]) -> Any:
    """The type of a column of which these are the chunks."""
    import polars as pl

    present = {part.dtype for part in parts if part.dtype != pl.Null}
    if not present:
        return pl.Null
    if len(present) == 1:
        return present.pop()
    if all(kind.is_integer() for kind in present):
        return next(kind for kind in (pl.Int64, pl.Int32, pl.Int16) if kind in present)
    if not all(kind.is_numeric() for kind in present):
        return pl.String
    rounded = any(p.dtype == pl.Int64 and _largest(p) >= EXACT for p in parts)
    return pl.String if rounded else pl.Float64


def _largest(column: pl.Series) -> int:
    low, high = column.min(), column.max()
    return max(abs(int(low or 0)), abs(int(high or 0)))  # type: ignore[arg-type]


def _settle(
    before: pl.DataFrame, kind: Any, done: dict[str, pl.Series], long: bool = True
) -> pl.DataFrame:
    """Take the columns of which a cast loses nothing; return the others as they were."""
    import polars as pl

    if before.width == 0:
        return before
    if not isinstance(kind, pl.Expr):
        kind = pl.all().cast(kind, strict=False)
    after = before.select(kind)
    empty = before.select(pl.all().null_count()).row(0)
    lost = after.select(pl.all().null_count()).row(0)
    rounded = _rounded(before, after) if long else ()
    left = []
    for kept, had, has in zip(after.get_columns(), empty, lost, strict=True):
        if had == has and kept.name not in rounded:
            done[kept.name] = kept.cast(pl.Null) if has == len(kept) else kept
        else:
            left.append(kept.name)
    return before.select(left)


def _rounded(before: pl.DataFrame, after: pl.DataFrame) -> set[str]:
    """The columns in which whole numbers were written that a float cannot hold."""
    import polars as pl
    import polars.selectors as cs

    floats = after.select(cs.float())
    if floats.width == 0:
        return set()
    most = floats.select(pl.all().abs().max()).row(0)
    large = [n for n, high in zip(floats.columns, most, strict=True) if high and high >= EXACT]
    whole = {n: before[n].filter(after[n].abs() >= EXACT).str.contains(WHOLE) for n in large}
    return {name for name, found in whole.items() if found.any()}


def _settle_with_words(
    left: pl.DataFrame,
    decimal: str,
    done: dict[str, pl.Series],
    missing: Counter[tuple[str, str]],
) -> pl.DataFrame:
    """Numbers and truth values among which words stand for what is missing."""
    import polars as pl

    is_word = pl.all().is_in(MISSING_WORDS)
    plain = left.select(pl.when(~is_word).then(pl.all()))
    plain = _settle(plain, pl.Int64, done)
    plain = _settle(plain, number(pl.all(), decimal), done)
    plain = _settle(plain, _boolean(pl.all()), done)
    settled = left.drop(plain.columns)
    for name, times in settled.select(is_word.sum()).to_dicts()[0].items() if settled.width else ():
        if times:
            missing.update(count_words(settled[name].filter(settled[name].is_in(MISSING_WORDS))))
    return left.select(plain.columns)


def _shortened(frame: pl.DataFrame) -> pl.DataFrame:
    """Whole numbers as short as their values allow: a pixel takes one byte, not eight."""
    import polars as pl
    import polars.selectors as cs

    whole = frame.select(cs.integer())
    if whole.width == 0:
        return frame
    low, high = whole.select(pl.all().min()).row(0), whole.select(pl.all().max()).row(0)
    kinds: dict[Any, Any] = {
        name: narrowest(a, b) for name, a, b in zip(whole.columns, low, high, strict=True)
    }
    return frame.cast(kinds)


def narrowed(column: pl.Series) -> pl.Series:
    """Whole numbers in the shortest type that holds them."""
    low: Any = column.min()
    high: Any = column.max()
    return column if low is None else column.cast(narrowest(int(low), int(high)))


def narrowest(low: int | None, high: int | None) -> Any:
    """The shortest type for whole numbers from `low` to `high`."""
    import polars as pl

    if low is None or high is None:
        return pl.Int64
    for kind, least, most in ((pl.UInt8, 0, 255), (pl.Int16, -(2**15), 2**15 - 1)):
        if least <= low and high <= most:
            return kind
    return pl.Int32 if -(2**31) <= low and high < 2**31 else pl.Int64


def number(text: pl.Expr, decimal: str) -> pl.Expr:
    """Numbers in this notation; with a decimal comma, a point groups thousands or is an error."""
    import polars as pl

    if decimal == ",":
        plain = ~text.str.contains(".", literal=True)
        text = pl.when(plain).then(text.str.replace(",", ".", literal=True))
    return text.cast(pl.Float64, strict=False)


def _boolean(text: pl.Expr) -> pl.Expr:
    import polars as pl

    lower = text.str.to_lowercase()
    return pl.when(lower.is_in(["true", "false"])).then(lower == "true")


def _nan_to_null(frame: pl.DataFrame, missing: Counter[tuple[str, str]]) -> pl.DataFrame:
    import polars as pl
    import polars.selectors as cs

    numbers = frame.select(cs.float())
    times = numbers.select(pl.all().is_nan().sum()).row(0) if numbers.width else ()
    if not any(times):
        return frame
    missing.update({(n, "NaN"): t for n, t in zip(numbers.columns, times, strict=True) if t})
    return frame.with_columns(cs.float().fill_nan(pl.lit(None)))
