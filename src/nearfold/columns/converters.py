"""One column of a table as numbers: codes of categories, dates, vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearfold.columns.dates import as_days, expand, parse
from nearfold.columns.frames import show
from nearfold.columns.kinds import Kind
from nearfold.columns.specs import Spec
from nearfold.columns.words import as_words
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array, Floats, Ints

if TYPE_CHECKING:
    import polars as pl

MISSING = -1  # code of a missing category
UNSEEN = -2  # code of a category that is not among the known ones


def cannot_read(column: pl.Series, kind: Kind) -> InputError:
    """The error for a column whose type is not one that this kind can be read from."""
    return InputError(Message("columns.cannot_read", name=show(column.name),
                              held=str(column.dtype), kind=kind.shown))  # fmt: skip


def read_dates(column: pl.Series, spec: Spec, most_unread: float) -> tuple[Floats, pl.Series]:
    """Elapsed days and cyclic parts of a column of dates, or of text in the known format.

    Also which cells could not be read; more than that share of them is refused.
    """
    import polars as pl

    dates = column
    if column.dtype != pl.Null and (not column.dtype.is_temporal() or column.dtype == pl.Duration):
        if column.dtype != pl.String or not spec.get("format"):
            raise cannot_read(column, Kind.DATE)
        dates = parse(column, spec["format"])
    unread = dates.is_null() & column.is_not_null()
    n = int(unread.sum())
    if n > most_unread * (len(column) - column.null_count()):
        row = int(unread.arg_max() or 0)
        raise InputError(Message("columns.not_dates", name=show(column.name), n=n,
                                 form=spec["format"], word=show(column[row]),
                                 row=row + 1))  # fmt: skip
    return expand(as_days(dates), spec.get("parts", [])), unread


def read_codes(column: pl.Series, known: Array | None) -> tuple[Ints, Array]:
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


def read_vectors(column: pl.Series, width: int) -> Floats:
    """A column of lists or arrays of that many numbers."""
    import polars as pl

    held: Any = column.dtype
    values = np.full((len(column), width), np.nan)
    if held == pl.Null:
        return values
    fits = isinstance(held, pl.List | pl.Array) and held.inner.is_numeric()
    lists = column.drop_nulls()
    if fits:
        widths = {held.size} if isinstance(held, pl.Array) else set(lists.list.len().unique())
        fits = widths <= {width}
    if not fits:
        raise InputError(Message("columns.not_vectors", name=show(column.name), n=width))
    flat = lists.explode().cast(pl.Float64).to_numpy()
    values[column.is_not_null().to_numpy()] = np.asarray(flat).reshape(-1, width)
    return values
