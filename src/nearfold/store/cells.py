"""Text cells to typed columns: whole numbers, numbers, yes or no, text; and what is missing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from nearfold.store.frames import MISSING_WORDS

if TYPE_CHECKING:
    import polars as pl

NEARLY = 0.95  # a column with this share of numbers is called nearly numeric


def type_columns(cells: pl.DataFrame, decimal: str, missing: Counter[str]) -> pl.DataFrame:
    """Each column in the narrowest type that all its cells have; words for missing are counted.

    Most columns of most tables are done after one or two casts of all of them together.
    """
    import polars as pl

    done: dict[str, pl.Series] = {}
    left = _settle(cells, cells.cast(pl.Int64, strict=False), done)
    if decimal == "." and left.width:
        left = _settle(left, left.cast(pl.Float64, strict=False), done)
    if left.width:
        left = _without_missing_words(_stripped(left), missing)
        left = _settle(left, left.cast(pl.Int64, strict=False), done)
        left = _settle(left, left.select(_number(pl.all(), decimal)), done)
        left = _settle(left, left.select(_boolean(pl.all())), done)
        for column in _with_points(left, decimal):
            done[column.name] = column
    frame = pl.DataFrame([done[name] for name in cells.columns])
    return _nan_to_null(_shortened(frame), missing)


def as_text(cells: pl.DataFrame, decimal: str) -> pl.DataFrame:
    """Columns that turned out to be text, as `type_columns` would have left them."""
    return _with_points(_without_missing_words(_stripped(cells), Counter()), decimal)


def common_kind(kinds: list[Any]) -> Any:
    """The type of a column whose chunks have these types."""
    import polars as pl

    present = {kind for kind in kinds if kind != pl.Null}
    if not present:
        return pl.Null
    if len(present) == 1:
        return present.pop()
    if all(kind.is_integer() for kind in present):
        return next(kind for kind in (pl.Int64, pl.Int32, pl.Int16) if kind in present)
    return pl.Float64 if all(kind.is_numeric() for kind in present) else pl.String


def _settle(before: pl.DataFrame, after: pl.DataFrame, done: dict[str, pl.Series]) -> pl.DataFrame:
    """Take the columns of which the cast lost nothing; return the others as they were."""
    import polars as pl

    if before.width == 0:
        return before
    empty = before.select(pl.all().null_count()).row(0)
    lost = after.select(pl.all().null_count()).row(0)
    left = []
    for kept, had, has in zip(after.get_columns(), empty, lost, strict=True):
        if had == has:
            done[kept.name] = kept.cast(pl.Null) if has == len(kept) else kept
        else:
            left.append(kept.name)
    return before.select(left)


def _stripped(cells: pl.DataFrame) -> pl.DataFrame:
    """Without the spaces around cells; what is empty then is missing."""
    import polars as pl

    text = pl.all().str.strip_chars()
    return cells.select(pl.when(text != "").then(text))


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


def narrowest(low: int | None, high: int | None) -> Any:
    """The shortest type for whole numbers from `low` to `high`."""
    import polars as pl

    if low is None or high is None:
        return pl.Int64
    for kind, least, most in ((pl.UInt8, 0, 255), (pl.Int16, -(2**15), 2**15 - 1)):
        if least <= low and high <= most:
            return kind
    return pl.Int32 if -(2**31) <= low and high < 2**31 else pl.Int64


def _number(text: pl.Expr, decimal: str) -> pl.Expr:
    """Numbers in this notation; with a decimal comma, a point would be a matter of opinion."""
    import polars as pl

    if decimal == ",":
        plain = ~text.str.contains(".", literal=True)
        text = pl.when(plain).then(text.str.replace(",", ".", literal=True))
    return text.cast(pl.Float64, strict=False)


def _boolean(text: pl.Expr) -> pl.Expr:
    import polars as pl

    lower = text.str.to_lowercase()
    return pl.when(lower.is_in(["true", "false"])).then(lower == "true")


def _without_missing_words(cells: pl.DataFrame, missing: Counter[str]) -> pl.DataFrame:
    import polars as pl

    for word in MISSING_WORDS:
        times = sum(cells.select((pl.all() == word).sum()).row(0))
        if times:
            missing[word] += int(times)
    return cells.select(pl.when(~pl.all().is_in(list(MISSING_WORDS))).then(pl.all()))


def _nan_to_null(frame: pl.DataFrame, missing: Counter[str]) -> pl.DataFrame:
    import polars as pl
    import polars.selectors as cs

    numbers = frame.select(cs.float())
    times = sum(numbers.select(pl.all().is_nan().sum()).row(0)) if numbers.width else 0
    if not times:
        return frame
    missing["NaN"] += int(times)
    return frame.with_columns(cs.float().fill_nan(pl.lit(None)))


def _with_points(cells: pl.DataFrame, decimal: str) -> pl.DataFrame:
    """In text columns that are nearly numeric, decimal commas become points: who makes such a
    column a feature need not know how the file was written.
    """
    import polars as pl

    if decimal != "," or cells.width == 0:
        return cells
    numbers = cells.select(_number(pl.all(), decimal).is_not_null().sum()).row(0)
    given = cells.select(pl.all().is_not_null().sum()).row(0)
    nearly = [
        name
        for name, n, m in zip(cells.columns, numbers, given, strict=True)
        if m and n >= NEARLY * m
    ]
    text = pl.col(nearly)
    swapped = pl.when(_number(text, decimal).is_not_null())
    return cells.with_columns(
        swapped.then(text.str.replace(",", ".", literal=True)).otherwise(text)
    )
