"""What all readers of tables share: their result, unique column names, errors in one line."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from zipfile import BadZipFile

from nearfold.columns.frames import show_names
from nearfold.errors import InputError, NearfoldError, reason
from nearfold.messages import Message

if TYPE_CHECKING:
    import polars as pl

Result = TypeVar("Result")
_ABOUT_DATA = (ValueError, TypeError, OSError, EOFError, LookupError, OverflowError, SyntaxError,
               NotImplementedError, RuntimeError, BadZipFile, struct.error, zlib.error)  # fmt: skip
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
        notices.append(Message("tables.unnamed", n=len(empty), columns=show_names(empty, 3)))
    if again:
        notices.append(
            Message("tables.repeated_names", columns=show_names(dict.fromkeys(again), 3))
        )
    return names, notices


def uniquely_named(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[Message]]:
    """The same frame with such names."""
    names, notices = unique_names(frame.columns)
    return frame.rename(dict(zip(frame.columns, names, strict=True))), notices


def guard(name: str, format: str, work: Callable[[], Result]) -> Result:
    """Run a library's reader; whatever it raises about the data becomes one line of ours."""
    import polars as pl

    foreign = (pl.exceptions.PolarsError, pl.exceptions.PanicException, *_ABOUT_DATA)
    try:
        return work()
    except NearfoldError:
        raise
    except MemoryError:
        why = Message("tables.error.memory")
    except foreign as error:
        why = reason(error)
    raise InputError(Message("tables.error.cannot_read", name=name, format=format, reason=why))
