"""Excel workbooks (.xlsx): one sheet, its cells typed by the rules of text tables."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nearfold.blocks import require_memory
from nearfold.columns.frames import show, show_names
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.store.cells import EXACT, Rules, count_words, narrowed, type_columns
from nearfold.store.file_bytes import ADVICE, FileBytes
from nearfold.store.frames import MISSING_WORDS, Parsed, guard, unique_names
from nearfold.store.layout import has_header
from nearfold.store.numerals import Words, read_numerals

if TYPE_CHECKING:
    import polars as pl

_ROOM = 3  # times the decompressed entries: what the parser and two frames take
_STEP = 2**20
_SAMPLE = 100  # rows by which a header is recognised


def read_workbook(file: FileBytes, sheet: str | None, header: bool | None, rules: Rules) -> Parsed:
    """Read a sheet: the named one, else the first."""
    return guard(file.name, "Excel", lambda: _Sheet(file, sheet).parsed(header, rules))


def _check_sizes(file: FileBytes) -> None:
    """Raise unless what the entries hold fits the budget, whatever sizes they declare."""
    with zipfile.ZipFile(io.BytesIO(file.data)) as archive:
        total = 0
        for entry in archive.infolist():
            entry.file_size = 2**62  # read to the end of the data, not to the declared one
            with archive.open(entry) as stream:
                while piece := stream.read(_STEP):
                    total += len(piece)
                    needed = len(file.data) + _ROOM * total
                    require_memory(needed, Message("memory.table_in", name=file.name), ADVICE)


class _Sheet:
    def __init__(self, file: FileBytes, sheet: str | None) -> None:
        import fastexcel

        try:
            _check_sizes(file)
            reader = fastexcel.read_excel(file.data)
        except fastexcel.FastExcelError as error:
            raise ValueError(str(error)) from None
        names = reader.sheet_names
        if sheet is not None and sheet not in names:
            book = file.name.rpartition("#")[0]
            known = {"n": len(names), "names": show_names(names)}
            raise InputError(
                Message("tables.error.no_sheet", name=book, sheet=show(sheet), **known)
            )
        self._reader, self._name = reader, sheet or names[0]
        self._notices: list[Message] = []
        if sheet is None and len(names) > 1:
            self._notices.append(Message("tables.other_sheets", names=show_names(names[1:])))

    def _load(self, first: int, dtypes: Any) -> pl.DataFrame:
        """The cells below the first rows, in these types; columns are called c0, c1, ..."""
        sheet = self._reader.load_sheet(
            self._name,
            header_row=None,
            skip_rows=first,
            dtypes=dtypes,
            dtype_coercion="coerce",
            schema_sample_rows=None,
        )
        frame = sheet.to_polars()
        frame.columns = [f"c{i}" for i in range(frame.width)]
        return frame

    def parsed(self, header: bool | None, rules: Rules) -> Parsed:
        """The table, with names of its first row if that holds names."""
        text = self._load(0, "string")
        rows = [[cell or "" for cell in row] for row in text.head(_SAMPLE).rows()]
        if header is None:
            header, doubt = has_header(rows)
            self._notices += [doubt] if doubt else []
        raw = rows[0] if header and rows else [f"x{i}" for i in range(text.width)]
        names, changed = unique_names(raw)
        kept = frozenset(f"c{i}" for i, name in enumerate(names) if name in rules.text)
        frame, missing = self._typed(text[int(header) :], int(header), replace(rules, text=kept))
        missing = Counter({(names[int(c[1:])], word): n for (c, word), n in missing.items()})
        frame.columns = names
        frame, said = read_numerals(frame, missing, ".", True, rules.text)
        notices = (*self._notices, *changed, *said)
        return Parsed(frame, notices=notices, header=header, line=lambda row: row + 1 + header)

    def _typed(self, text: pl.DataFrame, first: int, rules: Rules) -> tuple[pl.DataFrame, Words]:
        """Columns in the types of their cells; where they are mixed, by the rules of text."""
        missing = Words()
        if text.height == 0:
            return text, missing
        native = self._load(first, None)
        left = []
        for column in native.get_columns():
            cells = text[column.name].str.strip_chars()
            words = cells.filter(column.is_null() & cells.is_not_null())
            known = words.is_in([*MISSING_WORDS, *rules.na]).all()
            if str(column.dtype) in ("String", "Null") or not known or column.name in rules.text:
                left.append(column.name)
                continue
            missing.update(count_words(words.filter(~words.is_in(rules.na))))
            gone = cells.is_in(rules.na).fill_null(False)
            native = native.with_columns(_shortest(column.set(gone, None)))
        if left:
            typed = type_columns(text.select(left), rules, missing)
            numbers = [name for name in left if typed[name].dtype.is_numeric()]
            if numbers:  # as text they have lost digits
                exact = self._load(first, {int(name[1:]): "float" for name in numbers})
                both = [exact[n].zip_with(typed[n].is_not_null(), typed[n]) for n in numbers]
                typed = typed.with_columns(_shortest(column) for column in both)
            native = native.with_columns(typed)
        return native, missing


def _shortest(column: pl.Series) -> pl.Series:
    """Whole numbers, which a sheet keeps as floats, in the shortest type that holds them."""
    if not column.dtype.is_float() or not (column.abs() < EXACT).all():
        return column
    return narrowed(column) if (column % 1 == 0).all() else column
