"""Tables of any library as polars frames, and names in messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfold.errors import InputError
from nearfold.messages import Message

if TYPE_CHECKING:
    import polars as pl

_LONGEST = 40  # characters of a name or value in a message


def show(value: object) -> str:
    """A name or a value in quotes, on one line and not too long."""
    text = " ".join(str(value).split())
    text = "".join(c if c.isprintable() else "?" for c in text)
    return f"'{text[: _LONGEST - 3]}...'" if len(text) > _LONGEST else f"'{text}'"


def show_names(names: Iterable[object], most: int = 5) -> Any:
    """The first few names for a message, and how many more there are."""
    every = list(names)
    shown = [show(name) for name in every[:most]]
    return shown if len(every) <= most else Message("words.more", names=shown, n=len(every) - most)


def close_to(name: str, known: Sequence[str]) -> Message:
    """A sentence with the known names that resemble this one, or with the first few."""
    short = [other for other in known if len(other) < 200]  # long ones take ages to compare
    near = difflib.get_close_matches(name[:200], short, n=3, cutoff=0.6)
    lower = {other.lower(): other for other in known}
    if not near and name.lower().strip() in lower:
        near = [lower[name.lower().strip()]]
    if near:
        return Message("columns.did_you_mean", names=show_names(near))
    return Message("columns.there_are", names=show_names(known))


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns."""
    return hasattr(X, "columns") and not isinstance(X, np.ndarray)


def as_polars(frame: Any, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """A polars frame of the (named) columns of a polars, pandas or Arrow table."""
    import narwhals as nw
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, pl.DataFrame):
        # Not by `select`: to polars a name such as "*" or "^a.*$" is a pattern.
        return frame if columns is None else pl.DataFrame([frame.get_column(c) for c in columns])
    try:
        table = nw.from_native(frame, eager_only=True)
        held = {str(column.name): column for column in table.iter_columns()}
    except (TypeError, ValueError, nw.exceptions.NarwhalsError) as error:
        reason = str(error).strip().splitlines()[0][:160] if str(error).strip() else "?"
        raise InputError(f"this is not a table with named columns: {reason}.") from None
    chosen = list(held) if columns is None else list(columns)
    return pl.DataFrame([_series(name, held[name]) for name in chosen])


def _series(name: str, column: Any) -> pl.Series:
    import narwhals as nw
    import polars as pl

    if isinstance(column.dtype, nw.Categorical | nw.Enum):
        texts = pl.Series(name, [None if v is None else str(v) for v in _values(column)])
        if getattr(getattr(column.to_native(), "dtype", None), "ordered", False):
            levels = [str(level) for level in column.cat.get_categories().to_list()]
            return texts.cast(pl.Enum(levels))
        return texts.cast(pl.String)
    array = np.asarray(column.to_numpy())
    if array.dtype == object or array.dtype.kind in "SU":
        return pl.Series(name, _values(column), strict=False)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return pl.Series(name, array)


def _values(column: Any) -> list[Any]:
    """Python values; pandas marks gaps in several ways, and narwhals knows them all."""
    gaps = column.is_null().to_list()
    values = [None if gap else v for gap, v in zip(gaps, column.to_list(), strict=True)]
    return [v.tolist() if isinstance(v, np.ndarray) else v for v in values]
