"""Small things all readers of tables share: column names, words for messages, frames as polars."""

from __future__ import annotations

import difflib
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nearfold.errors import InputError
from nearfold.messages import Message

if TYPE_CHECKING:
    import polars as pl

Result = TypeVar("Result")
_LONGEST = 40  # characters of a name or value in a message
MISSING_WORDS = ("NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "NaN", "nan", "?", "-")


@dataclass(frozen=True)
class Parsed:
    """What a reader of one format hands back."""

    frame: pl.DataFrame
    notices: tuple[Message, ...] = ()
    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None
    header: bool | None = None
    line: Callable[[int], int] = lambda row: row + 1  # of the file, where a row stands


def show(value: object) -> str:
    """A name or a value in quotes, on one line and not too long."""
    text = " ".join(str(value).split())
    text = "".join(c if c.isprintable() else "?" for c in text)
    return f"'{text[: _LONGEST - 3]}...'" if len(text) > _LONGEST else f"'{text}'"


def show_list(names: Iterable[object], most: int = 5) -> str:
    """The first few of the names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(show(name) for name in every[:most]) + more


def few(names: Sequence[object], most: int = 3) -> Message | list[str]:
    """The first few of the names and how many more there are, as a value of a message."""
    shown = [show(name) for name in names[:most]]
    more = len(names) - most
    return Message("words.more", names=shown, n=more) if more > 0 else shown


def count(number: int, noun: str) -> str:
    """A count with its noun: "1 row", "1,797 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def close_to(name: str, known: Sequence[str]) -> str:
    """A sentence with the known names that resemble this one, or with the first few."""
    short = [other for other in known if len(other) < 200]  # long ones take ages to compare
    near = difflib.get_close_matches(name[:200], short, n=3, cutoff=0.6)
    lower = {other.lower(): other for other in known}
    if not near and name.lower().strip() in lower:
        near = [lower[name.lower().strip()]]
    return f"Did you mean {show_list(near)}?" if near else f"There are: {show_list(known)}."


def unique_names(raw: Sequence[str | None]) -> tuple[list[str], list[Message]]:
    """Names that are all different and not empty, and notices of what was changed."""
    cleaned = [" ".join((name or "").split()) for name in raw]
    names: list[str] = []
    taken = set(cleaned)
    used: set[str] = set()
    empty, again = [], []
    for position, name in enumerate(cleaned, start=1):
        chosen, number = name, 2
        if not name:
            chosen = f"column_{position}"
            empty.append(chosen)
        elif name in used:
            again.append(name)
        while chosen in used or (chosen != name and chosen in taken):
            chosen, number = f"{name or f'column_{position}'}_{number}", number + 1
        used.add(chosen)
        names.append(chosen)
    notices = []
    if empty:
        notices.append(Message("tables.unnamed", n=len(empty), columns=few(empty)))
    if again:
        notices.append(Message("tables.repeated_names", columns=few(list(dict.fromkeys(again)))))
    return names, notices


def guard(name: str, format: str, work: Callable[[], Result]) -> Result:
    """Run a library's reader; whatever it raises about the data becomes one line of ours."""
    import polars as pl

    try:
        return work()
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        ValueError,
        TypeError,
    ) as error:
        if isinstance(error, InputError):
            raise
        reason = _first_line(error)
    except (OSError, EOFError, LookupError, OverflowError, SyntaxError, struct.error) as error:
        reason = _first_line(error)
    except MemoryError as error:
        if type(error) is not MemoryError:  # ours, with its numbers
            raise
        reason = "it asks for more memory than there is"
    raise InputError(Message("tables.error.cannot_read", name=name, format=format, reason=reason))


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text[:160].rstrip(".: ")


def as_polars(frame: Any, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """A polars frame of the (named) columns of a polars, pandas or Arrow table."""
    import narwhals as nw
    import polars as pl

    if type(frame).__module__.startswith("pyarrow"):
        frame = pl.DataFrame(frame)
    if isinstance(frame, pl.DataFrame):
        # Not by `select`: to polars a name such as "*" or "^a.*$" is a pattern.
        return frame if columns is None else pl.DataFrame([frame.get_column(c) for c in columns])
    try:
        table = nw.from_native(frame, eager_only=True)
        held = {str(column.name): column for column in table.iter_columns()}
    except (TypeError, ValueError, nw.exceptions.NarwhalsError) as error:
        raise InputError(f"this is not a table with named columns: {_first_line(error)}.") from None
    chosen = list(held) if columns is None else list(columns)
    return pl.DataFrame([_series(name, held[name]) for name in chosen])


def _series(name: str, column: Any) -> pl.Series:
    import polars as pl

    native = column.to_native()
    if hasattr(native, "cat"):  # pandas' categories, whose order may mean something
        words = [None if value is None else str(value) for value in _values(column)]
        ordered = pl.Enum([str(each) for each in native.cat.categories])
        return pl.Series(name, words, dtype=ordered if native.cat.ordered else pl.String)
    array = np.asarray(column.to_numpy())
    if array.dtype == object or array.dtype.kind in "SU" or _is_nullable(native, array):
        return pl.Series(name, _values(column), strict=False)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return pl.Series(name, array)


def _values(column: Any) -> list[Any]:
    """pandas marks gaps in several ways, NaN among words; narwhals knows them all."""
    gaps = column.is_null().to_list()
    return [None if gap else v for gap, v in zip(gaps, column.to_list(), strict=True)]


def _is_nullable(native: Any, array: Any) -> bool:
    """Whether whole numbers or truth values became floats because some are missing."""
    return array.dtype.kind == "f" and str(native.dtype)[:1] in "IUb"


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns."""
    return hasattr(X, "columns") and not isinstance(X, np.ndarray)
