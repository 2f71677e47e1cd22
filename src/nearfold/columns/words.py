"""Columns of text: numbers with a few words among them, dates, categories, ids or sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nearfold.columns.dates import as_days, cyclic_parts, find_format, is_ambiguous, parse
from nearfold.columns.frames import show
from nearfold.columns.ids import FEW, is_id_name
from nearfold.columns.images import are_image_files, are_image_paths
from nearfold.columns.kinds import Facts, Kind
from nearfold.errors import InputError
from nearfold.messages import Message

if TYPE_CHECKING:
    import polars as pl

_UUID = r"(?i)^\{?[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}\}?$"
_LEADING_ZERO = r"^[+-]?0[0-9]"
_MANY_DIGITS = r"^[+-]?[0-9]{16,}$"
_MOSTLY = 0.9  # share of numbers from which a mixed column is one of numbers
_MOST_WORDS = 10  # different words in it


def judge_text(column: pl.Series) -> Facts:
    """The facts of a column of text of which at least one cell is there."""
    present = column.drop_nulls()
    facts = {"n_missing": column.null_count(), "example": show(present[0])[1:-1]}
    as_number = _mostly_numbers(column, present)
    if as_number is not None:
        reason, words = as_number
        details = {"words": words} if words else {}
        return Facts(column.name, Kind.NUMBER, reason, len(column), details=details, **facts)  # type: ignore[arg-type]
    form = find_format(present)
    return judge_words(column) if form is None else judge_written_dates(column, form)


def judge_words(column: pl.Series) -> Facts:
    """The facts of a column of words that are neither numbers nor dates."""
    present, n = column.drop_nulls(), len(column)
    distinct = int(present.n_unique())
    example = show(present[0])[1:-1]
    kind, reason = _categories_or_names(present, n, distinct)
    one = distinct == 1 and n > 1
    return Facts(column.name, kind, reason, n, column.null_count(), distinct, example, one)


def judge_dates(column: pl.Series, example: str) -> Facts:
    """The facts of a column of dates or times."""
    days, n = as_days(column), len(column)
    one = column.drop_nulls().n_unique() == 1 and n > 1
    details = {"parts": cyclic_parts(days)}
    reason = Message("columns.dates")
    return Facts(
        column.name, Kind.DATE, reason, n, column.null_count(), None, example, one, details
    )


def judge_written_dates(column: pl.Series, form: str) -> Facts:
    """The facts of a column of text that holds dates in this format."""
    present = column.drop_nulls()
    example = show(present[0])[1:-1]
    found = judge_dates(parse(column, form), example)
    found = replace(found, details={"format": form, **found.details})
    if is_ambiguous(present, form):
        return replace(found, reason=Message("columns.dates_ambiguous", example=show(example)))
    return found


def _mostly_numbers(column: pl.Series, present: pl.Series) -> tuple[Message, list[str]] | None:
    """Why a text column is one of numbers, if it is, and the words among them."""
    import polars as pl

    text = present.str.strip_chars()
    text = text.filter(text != "")
    number = text.cast(pl.Float64, strict=False).fill_nan(None)
    lost = number.null_count()
    if len(text) == 0 or lost > (1 - _MOSTLY) * len(text):
        return None
    if text.str.contains(_LEADING_ZERO).any() or text.str.contains(_MANY_DIGITS).any():
        return None  # written so on purpose: a code, not a measure
    if lost == 0:
        return Message("columns.numbers_as_text"), []
    words = text.filter(number.is_null())
    if words.n_unique() > _MOST_WORDS:
        return None
    row = column.str.strip_chars().index_of(words[0])
    reason = Message("columns.mostly_numbers", lost=lost, n=len(text), word=show(words[0]),
                     row=int(row or 0) + 1)  # fmt: skip
    return reason, words.unique(maintain_order=True).to_list()


def _categories_or_names(present: pl.Series, n: int, distinct: int) -> tuple[Kind, Message]:
    all_differ = distinct == len(present)
    if all_differ and present.str.contains(_UUID).all():
        return Kind.ID, Message("columns.id_uuid")
    if is_id_name(present.name) and distinct >= min(FEW, n):
        return Kind.ID, Message("columns.id_by_name", distinct=distinct)
    if are_image_paths(present):
        if are_image_files(present):
            return Kind.IMAGE, Message("columns.image_files")
        return Kind.TEXT, Message("columns.image_paths")
    if distinct <= 2 or 2 * distinct <= len(present):
        return Kind.CATEGORY, Message("columns.categories", n=distinct)
    if all_differ and not present.str.contains(r"\s").any():
        return Kind.ID, Message("columns.id_names")
    return Kind.TEXT, Message("columns.text", n=distinct)


def as_words(column: pl.Series) -> pl.Series:
    """Categories as text: 1, 1.0 and "1" are the same word."""
    import polars as pl

    held = column.dtype
    if held.is_nested() or held in (pl.Binary, pl.Object, pl.Duration):
        raise InputError(Message("columns.cannot_read", name=show(column.name),
                                 held=str(held), kind=Kind.CATEGORY.shown))  # fmt: skip
    if held.is_decimal():
        column = column.cast(pl.Float64)
    if not column.dtype.is_float():
        return column.cast(pl.String).str.strip_chars()
    column = column.fill_nan(None)
    whole = (column == column.round()) & (column.abs() < 2**53)
    digits = column.cast(pl.Int64, strict=False).cast(pl.String)
    words = pl.select(pl.when(whole).then(digits).otherwise(column.cast(pl.String))).to_series()
    return words.alias(column.name)
