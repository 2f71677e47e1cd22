"""What the cells of each column are: its kind, and the reason in a sentence.

Numbers are looked at all columns together, everything else column by column. The same rules hold
at any size: distinct values are counted only where they decide something.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nearfold.columns.dates import find_format
from nearfold.columns.frames import plainly_named, show
from nearfold.columns.ids import is_counter_name, is_id_name, judge_whole_numbers
from nearfold.columns.kinds import Facts, Kind
from nearfold.columns.words import (
    as_words,
    judge_dates,
    judge_text,
    judge_words,
    judge_written_dates,
)
from nearfold.errors import InputError
from nearfold.messages import Message

if TYPE_CHECKING:
    import polars as pl

_NUMBERS = Message("columns.numbers")
_IMAGE_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"RIFF")


def measure(frame: pl.DataFrame, kinds: dict[str, Kind] | None = None) -> list[Facts]:
    """The facts of each column; `kinds` are those that somebody who knows has named."""
    named = kinds or {}
    columns = frame.get_columns()
    numeric = [i for i, column in enumerate(columns) if column.dtype.is_numeric()]
    summary = _summarise(frame, numeric)
    found = []
    for i, held in enumerate(columns):
        name = held.name
        column = plainly_named(held)
        facts = _number(column, *summary[i]) if i in summary else _other(column)
        facts = _as_named(column, named[name], facts) if name in named else facts
        found.append(facts if facts.name == name else replace(facts, name=name))
    return found


def _summarise(frame: pl.DataFrame, numeric: list[int]) -> dict[int, tuple[int, Any, Any]]:
    """Missing and infinite cells, smallest and largest finite value of each column of numbers."""
    import polars as pl
    import polars.selectors as cs

    if not numeric:
        return {}
    # By number: to polars a name such as "*" or "^a.*$" is a pattern.
    part = pl.DataFrame([frame.to_series(i).alias(str(i)) for i in numeric])
    rows = zip(part.null_count().row(0), part.min().row(0), part.max().row(0), strict=True)
    found = dict(zip(numeric, rows, strict=True))
    finite = part.select(cs.float().is_finite().sum())
    counts = finite.row(0) if finite.width else ()
    for name, n_finite in zip(finite.columns, counts, strict=True):
        i = int(name)
        if n_finite + found[i][0] < part.height:
            known = part.get_column(name).filter(part.get_column(name).is_finite())
            found[i] = (part.height - n_finite, known.min(), known.max())
    return found


def _number(column: pl.Series, missing: int, low: Any, high: Any) -> Facts:
    n, name = len(column), column.name
    if missing == n:
        return Facts(name, Kind.OTHER, Message("columns.empty"), n, missing)
    plain = Facts(name, Kind.NUMBER, _NUMBERS, n, missing, None, f"{low:.6g}")
    if low == high and n > 1:
        return replace(plain, n_distinct=1, constant=True)
    whole = column if column.dtype.is_integer() else _as_whole(column)
    judged = None if whole is None else judge_whole_numbers(whole, missing, int(low), int(high))
    if judged is None:
        return plain
    kind, reason, distinct = judged
    return replace(plain, kind=kind, reason=reason, n_distinct=distinct, example=str(int(low)))


def _as_whole(column: pl.Series) -> pl.Series | None:
    """A column of floats that is called an id and holds whole numbers: pandas writes ids with gaps
    so.
    """
    import polars as pl

    if not (is_id_name(column.name) or is_counter_name(column.name)):
        return None
    whole = column.cast(pl.Int64, strict=False)
    finite = column.filter(column.is_finite())
    return whole if bool((finite == finite.round()).all()) else None


def _other(column: pl.Series) -> Facts:
    import polars as pl

    n, name, held, missing = len(column), column.name, column.dtype, column.null_count()
    if missing == n:
        return Facts(name, Kind.OTHER, Message("columns.empty"), n, missing)
    useless = Facts(name, Kind.OTHER, Message("columns.nested"), n, missing)
    present = column.drop_nulls()
    example = show(present[0])[1:-1]
    if held == pl.Boolean:
        one = present.n_unique() == 1 and n > 1
        return Facts(name, Kind.BOOLEAN, Message("columns.yes_no"), n, missing, None, example, one)
    if held == pl.Duration:
        one = present.n_unique() == 1 and n > 1
        return Facts(name, Kind.NUMBER, Message("columns.spans"), n, missing, None, example, one)
    if held.is_temporal():
        return judge_dates(column, example)
    if isinstance(held, pl.List | pl.Array):
        width = _width(present)
        if width is None:
            return useless
        reason = Message("columns.vectors", n=width)
        return replace(useless, kind=Kind.EMBEDDING, reason=reason, details={"width": width})
    if held == pl.Binary:
        image = all(bytes(v).startswith(_IMAGE_MAGIC) for v in present.head(20))
        reason = Message("columns.images")
        return replace(useless, kind=Kind.IMAGE, reason=reason) if image else useless
    if isinstance(held, pl.Enum):
        return _ordered(column, example)
    if held == pl.Categorical:
        return judge_words(column.cast(pl.String))
    return judge_text(column) if held == pl.String else useless


def _ordered(column: pl.Series, example: str) -> Facts:
    held: Any = column.dtype
    levels = held.categories.to_list()
    one = column.drop_nulls().n_unique() == 1 and len(column) > 1
    reason = Message("columns.ordered", levels=levels[:6])
    return Facts(column.name, Kind.ORDERED, reason, len(column), column.null_count(), len(levels),
                 example, one, {"levels": levels})  # fmt: skip


def _width(present: pl.Series) -> int | None:
    """How many numbers each cell of a column of vectors has, if all have as many."""
    import polars as pl

    held: Any = present.dtype
    if not held.inner.is_numeric():
        return None
    widths = [held.size] if isinstance(held, pl.Array) else present.list.len().unique().to_list()
    return int(widths[0]) if len(widths) == 1 and widths[0] > 0 else None


def _as_named(column: pl.Series, kind: Kind, found: Facts) -> Facts:
    """The facts of a column whose kind was named; they must allow it."""
    import polars as pl

    if found.n_missing == found.n_rows or (found.kind == kind and kind != Kind.CATEGORY):
        return found
    named = replace(found, kind=kind, reason=Message("columns.named"), details={})
    if kind in (Kind.TEXT, Kind.ID, Kind.OTHER):
        return named
    present = column.drop_nulls()
    if kind == Kind.DATE and column.dtype == pl.String and (form := find_format(present)):
        return judge_written_dates(column, form)
    nested = found.kind in (Kind.EMBEDDING, Kind.IMAGE) or found.reason.id == "columns.nested"
    if kind in (Kind.CATEGORY, Kind.ORDERED) and not nested:
        distinct = int(present.n_unique())
        levels = sorted(as_words(column).drop_nulls().unique().to_list())
        details = {"levels": levels} if kind == Kind.ORDERED else {}
        return replace(named, n_distinct=distinct, details=details)
    if kind == Kind.BOOLEAN and found.kind == Kind.CATEGORY and (found.n_distinct or 0) <= 2:
        return replace(
            found, reason=Message("columns.named_yes_no")
        )  # it is encoded in the same way
    numeric = column.dtype.is_numeric() or column.dtype in (pl.String, pl.Categorical, pl.Boolean)
    if kind in (Kind.NUMBER, Kind.BOOLEAN) and (numeric or column.dtype == pl.Duration):
        return named
    raise InputError(Message("columns.cannot_be", name=show(column.name), kind=kind.shown,
                             why=found.reason))  # fmt: skip
