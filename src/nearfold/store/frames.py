"""What all readers of tables share: their result, unique column names, errors in one line."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from nearfold.columns.frames import show_names
from nearfold.errors import InputError
from nearfold.messages import Message

if TYPE_CHECKING:
    import polars as pl

Result = TypeVar("Result")
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


def count(number: int, noun: str) -> str:
    """A count with its noun: "1 row", "1,797 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
