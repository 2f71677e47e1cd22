"""Frames in memory as tables: pandas, polars and Arrow."""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING, Any, cast

from nearfold.columns.frames import as_polars
from nearfold.store.columnar import plain_columns
from nearfold.store.frames import uniquely_named
from nearfold.store.tables import Source, Table

if TYPE_CHECKING:
    import polars as pl

_ROWS = 100_000  # hashed at once


def read_frame(given: Any, na: tuple[str, ...] = ()) -> Table:
    """The frame as a table. Its hash is that of its columns, in Arrow's form."""
    frame, notices = uniquely_named(without_words(plain_columns(as_polars(given)), na))
    digest = _Digest()
    for start in range(0, max(1, frame.height), _ROWS):
        frame.slice(start, _ROWS).write_ipc_stream(cast(Any, digest))
    name = type(given).__module__.partition(".")[0] + "." + type(given).__name__
    source = Source(name, "frame", *frame.shape, digest.hash.hexdigest(), tuple(notices))
    return Table(frame, source)


class _Digest(io.RawIOBase):
    """A file that keeps nothing but its hash."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return len(data)


def without_words(frame: pl.DataFrame, words: tuple[str, ...]) -> pl.DataFrame:
    """A typed frame in which these words are missing, and the numbers that they spell."""
    import polars as pl
    import polars.selectors as cs

    if not words:
        return frame
    numbers = pl.Series(words).cast(pl.Float64, strict=False).drop_nulls()
    text, value = cs.string(), cs.numeric()
    frame = frame.with_columns(pl.when(~text.str.strip_chars().is_in(words)).then(text))
    for number in numbers:
        frame = frame.with_columns(pl.when(value != number).then(value))
    return frame
