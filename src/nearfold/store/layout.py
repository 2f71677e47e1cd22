"""How a text table is laid out: separator, decimal sign, header, quotes.

Judged on the first lines; the whole text is then held to it (`records.py`).
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass

from nearfold.columns.frames import show
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.store.frames import MISSING_WORDS

_LINES, _BYTES = 100, 2**20  # of the sample
_SEPARATORS = "\t;|, "  # a comma may also be a decimal sign, a space part of a text
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?|nan", re.I)
_MISSING = frozenset(("", *MISSING_WORDS))


def _decimals(sign: str, group: str) -> re.Pattern[str]:
    """Numbers in which the sign cannot group thousands: 0,5 and 1,25 and 1.234,567, not 1,234."""
    return re.compile(
        rf"[+-]?(0?[{sign}]\d+|\d+[{sign}](\d{{0,2}}|\d{{4,}}|\d*[eE][+-]?\d+)|\d{{4,}}[{sign}]\d+|"
        rf"\d{{1,3}}([{group}]\d{{3}})+[{sign}]\d+)"
    )


_DECIMAL_COMMA, _DECIMAL_POINT = _decimals(",", "."), _decimals(".", ",")


@dataclass(frozen=True)
class Layout:
    """How to cut a text into cells, and which row holds the names."""

    separator: str
    decimal: str
    header: bool
    notices: tuple[Message, ...]
    decimal_is_sure: bool = True  # given, or seen in the sample


def choose_layout(
    body: bytes, separator: str | None, decimal: str | None, header: bool | None
) -> Layout:
    """The layout of a UTF-8 text; what is given is taken, the rest is detected."""
    sample = _sample(body)
    if separator is not None and not re.fullmatch(r'[^"\n\r\0\x80-\U0010ffff]', separator):
        raise InputError(Message("tables.error.separator", separator=repr(separator)))
    chosen = separator or choose_separator(sample)
    rows = split(sample, chosen)
    notices = []
    if header is None:
        header, doubt = has_header(rows)
        notices += [doubt] if doubt else []
    seen, is_sure = (decimal, True) if decimal else _choose_decimal(rows, chosen)
    return Layout(chosen, seen, header, tuple(notices), is_sure)


def _sample(body: bytes) -> str:
    """The first whole lines; all of a short text."""
    lines = body[:_BYTES].split(b"\n", _LINES)
    if len(lines) > 1 and (len(lines) > _LINES or len(body) >= _BYTES):
        lines[-1] = b""
    return b"\n".join(lines).decode("utf-8", errors="replace")


def split(sample: str, separator: str) -> list[list[str]]:
    """The cells of the sample's lines that are not blank."""
    if separator == " ":
        return [line.split() for line in sample.splitlines() if line.strip()]
    rows: list[list[str]] = []
    try:
        # Not splitlines: it would also cut at form feeds and other signs inside of cells.
        for row in csv.reader(re.split(r"(?<=\n)", sample), delimiter=separator):
            if row and (len(row) > 1 or row[0].strip()):
                rows.append([cell.strip() for cell in row])
    except csv.Error:  # a cell of enormous length, as behind a quote that is never closed
        pass
    return rows


def choose_separator(sample: str) -> str:
    """The character that cuts all lines into the same number of cells."""
    best = (0.0, False, ",")
    for separator in _SEPARATORS:
        if separator not in sample:
            continue
        rows = split(sample, separator)
        widths = [len(row) for row in rows]
        usual, times = Counter(widths).most_common(1)[0] if widths else (1, 0)
        if usual == 1 or (separator == " " and not _has_numbers(rows, usual)):
            continue
        fits = widths[0] in (usual, usual - 1)  # R writes no name above its row names
        score = (times / len(widths), fits, separator)
        if score[:2] > best[:2]:
            best = score
    return best[2]


def _has_numbers(rows: list[list[str]], width: int) -> bool:
    """Whether a column holds numbers only: sentences are cut by spaces too."""
    below = [row for row in rows[1:] or rows if len(row) == width]
    return any(all(is_number(row[i]) for row in below) for i in range(width))


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number, with a decimal point or a comma."""
    return _NUMBER.fullmatch(cell) is not None


def _choose_decimal(rows: list[list[str]], separator: str) -> tuple[str, bool]:
    """The decimal sign, and whether some cell shows it."""
    cells = [cell.removesuffix("%").rstrip() for row in rows for cell in row]
    if any(_DECIMAL_POINT.fullmatch(cell) for cell in cells):
        return ".", True
    commas = separator != "," and any(_DECIMAL_COMMA.fullmatch(cell) for cell in cells)
    return ("," if commas else "."), commas


def has_header(rows: list[list[str]]) -> tuple[bool, Message | None]:
    """Whether the first row holds names, and a notice where that is a matter of opinion."""
    if not rows:
        return True, None
    first, rest = rows[0], rows[1:]
    numbers = [cell for cell in first if is_number(cell) and any(c.isdigit() for c in cell)]
    if numbers and _names_above_numbers(first, rest):
        return True, None
    if not numbers:
        told = [cell for cell in first if cell not in _MISSING]
        plain = bool(told) or len(first) == 1
        return plain, None if plain else Message("tables.first_line_empty")
    if _counts_up(first) and rest and not _counts_up(rest[0], start=None):
        return True, Message("tables.first_line_counts", cells=show(", ".join(first[:4])))
    if _mostly_years(numbers, first, rest):
        return True, Message("tables.first_line_years")
    return False, Message("tables.first_line_numbers")


def _names_above_numbers(first: list[str], rest: list[list[str]]) -> bool:
    """Whether some column begins with a word and has only numbers below, several of them."""
    below = [row for row in rest if len(row) == len(first)]
    for i, cell in enumerate(first):
        if cell in _MISSING or is_number(cell):
            continue
        values = [row[i] for row in below if row[i] not in _MISSING]
        if len(values) > 1 and all(is_number(value) for value in values):
            return True
    return False


def _counts_up(cells: list[str], start: int | None = 0) -> bool:
    """0, 1, 2, ... as pandas names the columns of an array, maybe after an empty cell."""
    numbers = cells[1:] if cells and not cells[0] else cells
    if len(numbers) < 2 or not all(cell.isascii() and cell.isdigit() for cell in numbers):
        return False
    values = [int(cell) for cell in numbers if len(cell) < 10]
    begin = values[0] if start is None and values else start
    return begin is not None and values == list(range(begin, begin + len(numbers)))


def _mostly_years(numbers: list[str], first: list[str], rest: list[list[str]]) -> bool:
    """A row such as "country, 2019, 2020" above rows whose numbers are not years."""

    def is_year(cell: str) -> bool:
        return len(cell) == 4 and cell.isdigit() and "1800" <= cell <= "2199"

    words = len(first) - len(numbers)
    if not words or len(numbers) < 2 or not all(is_year(cell) for cell in numbers):
        return False
    return len(set(numbers)) == len(numbers) and not any(
        is_year(cell) for row in rest for cell in row
    )
