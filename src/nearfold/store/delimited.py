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
from nearfold.messages import Message
from nearfold.run import steps
from nearfold.store.cells import Rules, as_text, common_kind, type_columns
from nearfold.store.encodings import to_utf8
from nearfold.store.file_bytes import ADVICE, FileBytes
from nearfold.store.frames import Parsed, guard, unique_names
from nearfold.store.layout import Layout, choose_layout
from nearfold.store.numerals import read_numerals
from nearfold.store.records import (
    check_widths,
    filled_rows,
    find_records,
    odd_cells,
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
_PER_BLANK = 40  # bytes for each row while blank ones are taken out
_PER_ROW = 17  # bytes of `Records` and of the masks that they are checked by
_FOREIGN = (
    (re.compile(rb'\s*(\{\s*"|\[\s*[\[{])'), "json"),
    (re.compile(rb"(?i)\s*(<!doctype|<html|<\?xml)"), "page"),
)
_NOTHING = b"\r\n \x1a"  # at the end of a text
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def read_delimited(
    file: FileBytes,
    *,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    na: tuple[str, ...] = (),
    text: frozenset[str] = frozenset(),
) -> Parsed:
    """Read a text table; what is None is detected. Columns named in `text` stay text."""
    data, name, notices = to_utf8(file.take(), encoding)
    body, first_line, nul_bytes = _clean(data, file.name)
    del data  # it may be as long as the body
    if nul_bytes:
        notices.append(Message("tables.nul_bytes", n=nul_bytes))
    if separator is None and (said := re.match(rb"sep=(.)\r?\n", body)):  # Excel's own hint
        separator = said[1].decode()
        body, first_line = body[said.end() :], first_line + 1
    layout = choose_layout(body, separator, decimal, header)
    if layout.separator == " ":
        _require_copy(body, file.name)
        body = single_spaces(body)
    table = _Text(body, layout, file.name, first_line)
    del body  # the table may have made another of it
    kept = {f"c{i}" for i, given in enumerate(table.names()[0]) if given in text} if text else ()
    frame, missing = table.typed(Rules(layout.decimal, na, frozenset(kept)))
    names, changed = table.names(frame.width)
    missing = Counter({(names[int(c[1:])], word): n for (c, word), n in missing.items()})
    frame.columns = names
    frame, said_of = read_numerals(frame, missing, layout.decimal, layout.decimal_is_sure, text)
    return Parsed(
        frame,
        notices=(*notices, *layout.notices, *table.notices, *changed, *said_of),
        encoding=name,
        separator=layout.separator,
        decimal=layout.decimal,
        header=layout.header,
        line=table.line,
    )


def _clean(data: bytes, name: str) -> tuple[bytes, int, int]:
    """The text without what is no part of the table, the number of its first line, NUL bytes."""
    strange = len(_CONTROL.findall(data[:100_000]))
    if strange > max(8, 0.05 * min(len(data), 100_000)):
        raise InputError(Message("tables.error.no_text", name=name))
    for pattern, what in _FOREIGN:
        if pattern.match(data):
            raise InputError(Message(f"tables.foreign.{what}", name=name))
    zeros = data.count(0)
    if zeros or (b"\r" in data and b"\n" not in data):
        _require_copy(data, name)
    if zeros:
        data = data.replace(b"\0", b"")
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
        raise InputError(Message("tables.error.empty", name=name))
    return data, line, zeros


def _require_copy(text: bytes, name: str) -> None:
    """Raise unless another text as long as this one fits beside it."""
    require_memory(2 * len(text), Message("memory.text_in", name=name), ADVICE)


@dataclass(frozen=True)
class _Shape:
    width: int
    drop_last: bool = False  # a separator ends each line
    unnamed_first: bool = False  # row names, as R writes them


class _Text:
    """A text whose layout is known: checked, then parsed chunk by chunk."""

    def __init__(self, body: bytes, layout: Layout, name: str, first_line: int) -> None:
        self.notices: list[Message] = []
        self.name = name
        self.layout = layout
        self._first_line = first_line
        self.body, self.quoted = self._settle_quotes(body)
        self._require(_PER_ROW * self.body.count(b"\n"))
        self.records = find_records(self.body, layout.separator, self.quoted)
        self.shape = self._shape()
        self._blank = self.records.blank
        if self.shape.width > 1 and self.records.blank.any():  # in one column: a missing value
            self._require(len(self.body) + _PER_BLANK * len(self.records))
            self.body, self.records = without_blank(self.body, self.records)

    def _require(self, more: float) -> None:
        """The text, the places of its rows and the columns made of it must fit."""
        require_memory(len(self.body) + more, Message("memory.table_in", name=self.name), ADVICE)

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
        self.notices.append(Message("tables.loose_quotes"))
        return body, False

    def _shape(self) -> _Shape:
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
                self.notices.append(Message("tables.row_names"))
                return _Shape(width, unnamed_first=True)
        return _Shape(check_widths(records, self.body, self._first_line, self.name))

    def _line(self, row: int) -> bytes:
        start = int(self.records.ends[row - 1]) if row else 0
        return self.body[start : int(self.records.ends[row])]

    def line(self, row: int) -> int:
        """The line of the file in which a row of the table begins, if no cell holds a break."""
        filled = np.flatnonzero(~self._blank) if self.shape.width > 1 else range(len(self._blank))
        return self._first_line + int(filled[row + self.layout.header])

    def names(self, kept: int | None = None) -> tuple[list[str], list[Message]]:
        """Unique names of the first columns, and what was changed in them."""
        if not self.layout.header:
            return [f"x{i}" for i in range(self.shape.width)][:kept], []
        first = self.records.first_filled
        short = self.shape.unnamed_first or self.shape.drop_last
        raw = self._split(self._line(first), self.shape.width - short).row(0)
        return unique_names((["row", *raw] if self.shape.unnamed_first else raw)[:kept])

    def typed(self, rules: Rules) -> tuple[pl.DataFrame, Counter[tuple[str, str]]]:
        """The frame without the header row, and how often which word stood for a missing value."""
        import polars as pl
        import polars.selectors as cs

        chunks = self._chunks()
        plain = self.layout.decimal == "." and not rules.text
        if self.shape.width >= WIDE and not self.quoted and plain:
            wide = self._wide(chunks, rules)
            if wide is not None:
                return self._without_empty_last(wide[0]), wide[1]
        parts: list[pl.DataFrame] = []
        missing: Counter[tuple[str, str]] = Counter()
        size = 0
        for chunk in steps(chunks, "parsing"):
            odd = odd_cells(self._text(chunk), self.layout.separator)
            parts.append(type_columns(self._rows(chunk), rules, missing, odd))
            # Known after the first chunk: all of them will take about as much for each row.
            words = parts[-1].select(cs.string())
            size += int(parts[-1].estimated_size()) + _PER_WORD * words.width * words.height
            self._require((size / chunk.stop + _PER_ROW) * len(self.records))
        columns = parts[0].columns
        kinds: Any = {name: common_kind([part[name] for part in parts]) for name in columns}
        again = [
            name
            for name, kind in kinds.items()
            if kind == pl.String and any(part[name].dtype != kind for part in parts)
        ]
        if again:
            for i, chunk in enumerate(steps(chunks, "parsing again")):
                cells = self._rows(chunk).select(again)
                parts[i] = parts[i].with_columns(as_text(cells, rules.na))
        frame = parts[0]
        if len(parts) > 1:
            frame = pl.concat([part.cast(kinds) for part in parts])
        return self._without_empty_last(frame), missing

    def _wide(
        self, chunks: list[slice], rules: Rules
    ) -> tuple[pl.DataFrame, Counter[tuple[str, str]]] | None:
        """A table of very many columns, if nearly all of them are numbers."""
        n = len(self.records) - chunks[0].start
        self._require(_PER_ROW * len(self.records) + self.shape.width * (16.0 * n + COLUMN_BYTES))

        def texts() -> Iterator[bytes]:
            return (self._text(chunk) for chunk in steps(chunks, "parsing"))

        return read_wide(texts, self.layout.separator, (n, self.shape.width), rules)

    def _without_empty_last(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A separator at the end of each line makes a last column of nothing."""
        last = frame.columns[-1]
        if frame.width > 1 and frame[last].null_count() == frame.height:
            first = self.records.first_filled
            head = self._line(first).rstrip(b"\r\n")
            if self.shape.drop_last or head.endswith(self.layout.separator.encode()):
                self.notices.append(Message("tables.empty_last"))
                return frame.drop(last)
        return frame

    def _chunks(self) -> list[slice]:
        """Slices of records, each of bounded text; the header is in none of them."""
        ends = self.records.ends
        first = 0
        if self.layout.header:
            first = self.records.first_filled + 1
        if first >= len(ends):
            raise InputError(Message("tables.error.no_rows_below", name=self.name))
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
            raise InputError(Message("tables.error.rows", name=self.name))
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
        return guard(self.name, "CSV", lambda: pl.read_csv(text, **options))
