"""CSV and its relatives: bytes in any encoding, separator and decimal sign to a typed frame.

The text is cut into chunks of whole rows. polars splits a chunk into text cells; each column of
the chunk takes the narrowest type that all its cells have. So only a chunk is ever held as text
cells, which take eight times the room of small numbers. A column whose chunks disagree (numbers,
then words) is text, and is read again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfold.blocks import get_memory, require_memory
from nearfold.errors import InputError
from nearfold.run import steps
from nearfold.store.cells import as_text, common_kind, type_columns
from nearfold.store.encodings import to_utf8
from nearfold.store.file_bytes import ADVICE, FileBytes
from nearfold.store.frames import Parsed, count, guard, unique_names
from nearfold.store.layout import Layout, choose_layout
from nearfold.store.records import (
    check_widths,
    filled_rows,
    find_records,
    one_name_short,
    quotes_are_proper,
    single_spaces,
    without_blank,
)
from nearfold.store.wide import COLUMN_BYTES, WIDE, read_wide

if TYPE_CHECKING:
    import polars as pl

_CHUNK = 2**23  # bytes of text that polars splits at once
_CHUNKS_IN_BUDGET = 64  # text cells and their casts take many times the room of the text
_PER_WORD = 16  # bytes of polars beside the letters
_PER_ROW = 17  # bytes of `Records` and of the masks that they are checked by
_FOREIGN = (
    (re.compile(rb'\s*(\{\s*"|\[\s*[\[{])'), "JSON"),
    (re.compile(rb"(?i)\s*(<!doctype|<html|<\?xml)"), "a web page or XML"),
)
_NOTHING = b"\r\n \x1a"  # at the end of a text
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def read_delimited(
    file: FileBytes,
    *,
    encoding: str | None,
    separator: str | None,
    decimal: str | None,
    header: bool | None,
) -> Parsed:
    """Read a text table; what is None is detected."""
    data, name, notices = to_utf8(file.take(), encoding)
    body, first_line, told = _clean(data, file.name)
    del data  # it may be as long as the body
    notices += told
    if separator is None and (said := re.match(rb"sep=(.)\r?\n", body)):  # Excel's own hint
        separator = said[1].decode()
        body, first_line = body[said.end() :], first_line + 1
    layout = choose_layout(body, separator, decimal, header)
    if layout.separator == " ":
        _require_copy(body, file.name)
        body = single_spaces(body)
    text = _Text(body, layout, file.name, first_line)
    del body  # the text may have made another of it
    notices += layout.notices
    frame, missing = text.typed()
    names, changed = text.names(frame.width)
    notices += [*text.notices, *changed]
    if missing:
        words = ", ".join(f"'{word}' ({times:,})" for word, times in missing.most_common())
        notices.append(f"taken as missing: {words}")
    frame.columns = names
    return Parsed(
        frame,
        notices=tuple(notices),
        encoding=name,
        separator=layout.separator,
        decimal=layout.decimal,
        header=layout.header,
    )


def _clean(data: bytes, name: str) -> tuple[bytes, int, list[str]]:
    """The text without what is no part of the table, and the number of its first line."""
    notices = []
    strange = len(_CONTROL.findall(data[:100_000]))
    if strange > max(8, 0.05 * min(len(data), 100_000)):
        raise InputError(f"{name} is not a text table, nor any other format known here.")
    for pattern, what in _FOREIGN:
        if pattern.match(data):
            raise InputError(f"{name} is {what}, not a table: save the table as CSV.")
    zeros = data.count(0)
    if zeros or (b"\r" in data and b"\n" not in data):
        _require_copy(data, name)
    if zeros:
        data = data.replace(b"\0", b"")
        notices.append(f"{count(zeros, 'NUL byte')} left out of the text")
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    first = re.match(rb"[\r\n]*", data)
    skipped = first.end() if first else 0
    line = data.count(b"\n", 0, skipped) + 1
    last = data[-100:]
    if skipped or last[len(last.rstrip(_NOTHING)) :] not in (b"", b"\n", b"\r\n"):
        _require_copy(data, name)
        data = data.lstrip(b"\r\n").rstrip(_NOTHING)  # a copy, unlike the usual single line break
    if not data or (data[:1000].isspace() and not data.strip()):
        raise InputError(f"{name} is empty.")
    return data, line, notices


def _require_copy(text: bytes, name: str) -> None:
    """Raise unless another text as long as this one fits beside it."""
    require_memory(2 * len(text), f"the text in {name}", ADVICE)


@dataclass(frozen=True)
class _Shape:
    width: int
    drop_last: bool = False  # a separator ends each line
    unnamed_first: bool = False  # row names, as R writes them


class _Text:
    """A text whose layout is known: checked, then parsed chunk by chunk."""

    def __init__(self, body: bytes, layout: Layout, name: str, first_line: int) -> None:
        self.notices: list[str] = []
        self.name = name
        self.layout = layout
        self.body, self.quoted = self._settle_quotes(body)
        self._require(_PER_ROW * self.body.count(b"\n"))
        self.records = find_records(self.body, layout.separator, self.quoted)
        self.shape = self._shape(first_line)
        if self.shape.width > 1 and self.records.blank.any():  # in one column: a missing value
            _require_copy(self.body, name)
            self.body, self.records = without_blank(self.body, self.records)

    def _require(self, more: float) -> None:
        """The text, the places of its rows and the columns made of it must fit."""
        require_memory(len(self.body) + more, f"the table in {self.name}", ADVICE)

    def _settle_quotes(self, body: bytes) -> tuple[bytes, bool]:
        separator = self.layout.separator
        if b'"' not in body:
            return body, False
        if quotes_are_proper(body, separator):
            return body, True
        cut = separator.encode()
        if separator != " " and cut + b' "' in body:
            closer = re.sub(re.escape(cut) + rb' +"', cut + b'"', body)
            if quotes_are_proper(closer, separator):
                return closer, True
        self.notices.append('quotes (") do not enclose whole cells and are taken as they stand')
        return body, False

    def _shape(self, first_line: int) -> _Shape:
        records = self.records
        if self.layout.header and one_name_short(records):
            rows = filled_rows(records)
            next(rows)
            width = int(records.widths[records.first_filled]) + 1
            cut = self.layout.separator.encode()
            lines = (self._line(row).rstrip(b"\r\n") for row in rows)
            if all(line.endswith(cut) for line in lines):
                return _Shape(width, drop_last=True)
            if width > 2:  # a single name may as well be a title
                self.notices.append("the first column has no name; it is taken to hold row names")
                return _Shape(width, unnamed_first=True)
        return _Shape(check_widths(records, self.body, first_line, self.name))

    def _line(self, row: int) -> bytes:
        start = int(self.records.ends[row - 1]) if row else 0
        return self.body[start : int(self.records.ends[row])]

    def names(self, kept: int) -> tuple[list[str], list[str]]:
        """Unique names of the first columns, and what was changed in them."""
        if not self.layout.header:
            return [f"x{i}" for i in range(kept)], []
        first = self.records.first_filled
        short = self.shape.unnamed_first or self.shape.drop_last
        raw = self._split(self._line(first), self.shape.width - short).row(0)
        return unique_names((["row", *raw] if self.shape.unnamed_first else raw)[:kept])

    def typed(self) -> tuple[pl.DataFrame, Counter[str]]:
        """The frame without the header row, and how often which word stood for a missing value."""
        import polars as pl
        import polars.selectors as cs

        chunks = self._chunks()
        if self.shape.width >= WIDE and not self.quoted and self.layout.decimal == ".":
            wide = self._wide(chunks)
            if wide is not None:
                return self._without_empty_last(wide[0]), wide[1]
        parts: list[pl.DataFrame] = []
        missing: Counter[str] = Counter()
        size = 0
        for chunk in steps(chunks, f"parse {self.name}"):
            parts.append(type_columns(self._rows(chunk), self.layout.decimal, missing))
            # Known after the first chunk: all of them will take about as much for each row.
            words = parts[-1].select(cs.string())
            size += int(parts[-1].estimated_size()) + _PER_WORD * words.width * words.height
            self._require((size / chunk.stop + _PER_ROW) * len(self.records))
        found = zip(parts[0].columns, *(part.dtypes for part in parts), strict=True)
        every = {name: types for name, *types in found}
        kinds = {name: common_kind(types) for name, types in every.items()}
        again = [n for n, kind in kinds.items() if kind == pl.String and set(every[n]) != {kind}]
        if again:
            for i, chunk in enumerate(steps(chunks, f"parse {self.name} again")):
                cells = self._rows(chunk).select(again)
                parts[i] = parts[i].with_columns(as_text(cells, self.layout.decimal))
        frame = parts[0]
        if len(parts) > 1:
            frame = pl.concat([part.cast(kinds) for part in parts])
        return self._without_empty_last(frame), missing

    def _wide(self, chunks: list[slice]) -> tuple[pl.DataFrame, Counter[str]] | None:
        """A table of very many columns, if nearly all of them are numbers."""
        n = len(self.records) - chunks[0].start
        self._require(_PER_ROW * len(self.records) + self.shape.width * (16.0 * n + COLUMN_BYTES))

        def texts() -> Iterator[bytes]:
            return (self._text(chunk) for chunk in steps(chunks, f"parse {self.name}"))

        return read_wide(texts, self.layout.separator, (n, self.shape.width))

    def _without_empty_last(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A separator at the end of each line makes a last column of nothing."""
        last = frame.columns[-1]
        if frame.width > 1 and frame[last].null_count() == frame.height:
            first = self.records.first_filled
            head = self._line(first).rstrip(b"\r\n")
            if self.shape.drop_last or head.endswith(self.layout.separator.encode()):
                self.notices.append("a separator ends each line: the empty last column is left out")
                return frame.drop(last)
        return frame

    def _chunks(self) -> list[slice]:
        """Slices of records, each of bounded text; the header is in none of them."""
        ends = self.records.ends
        first = 0
        if self.layout.header:
            first = self.records.first_filled + 1
        if first >= len(ends):
            raise InputError(f"{self.name} holds no rows below its header.")
        most = min(_CHUNK, max(2**16, get_memory() // _CHUNKS_IN_BUDGET))
        chunks = []
        while first < len(ends):
            begin = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, begin + most, side="right")))
            chunks.append(slice(first, last))
            first = last
        return chunks

    def _rows(self, chunk: slice) -> pl.DataFrame:
        """The text cells of some records."""
        cells = self._split(self._text(chunk), self.shape.width)
        if cells.height != chunk.stop - chunk.start:
            raise InputError(f"{self.name} cannot be cut into rows: check the quotes in it.")
        return cells

    def _text(self, chunk: slice) -> bytes:
        ends = self.records.ends
        begin = int(ends[chunk.start - 1]) if chunk.start else 0
        return self.body[begin : int(ends[chunk.stop - 1])]

    def _split(self, text: bytes, width: int) -> pl.DataFrame:
        import polars as pl

        schema = {f"c{i}": pl.String for i in range(width)}
        options: dict[str, Any] = {
            "has_header": False,
            "schema": schema,
            "separator": self.layout.separator,
            "quote_char": '"' if self.quoted else None,
        }
        return guard(f"{self.name} cannot be read as a table", lambda: pl.read_csv(text, **options))
