"""Where the rows of a text table end, and whether each has the right number of cells.

One pass over the bytes with array operations: polars fills short rows with nulls in silence and
does not say in which line it found a long one.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearfold.blocks import spans
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array, Ints
from nearfold.run import steps

_DIGITS = 16  # of the least whole number that a float may round
_STEP = 2**19  # bytes looked at together
_QUOTE, _NEWLINE, _RETURN, _SPACE, _TAB, _ZERO = b'"\n\r \t0'


@dataclass(frozen=True)
class Records:
    """The rows of a text: the offset behind each one's line break, its cells, its emptiness."""

    ends: Ints
    widths: Array
    blank: Array  # whether the line holds nothing at all

    @property
    def first_filled(self) -> int:
        """The first row that holds something: the header, if there is one."""
        return int(np.argmin(self.blank))

    def __len__(self) -> int:
        return len(self.ends)


def single_spaces(body: bytes) -> bytes:
    """Runs of spaces and tabs as one space, and none at the ends of lines."""
    whole = io.BytesIO()
    previous, held = _NEWLINE, b""
    for part in _parts(body):
        space = (part == _SPACE) | (part == _TAB)
        skipped = space & np.concatenate(
            [[previous in (_SPACE, _TAB, _NEWLINE)], (space | (part == _NEWLINE))[:-1]]
        )
        previous = int(part[-1])
        text = held + np.where(space, np.uint8(_SPACE), part)[~skipped].tobytes()
        text = text.replace(b" \r\n", b"\r\n").replace(b" \n", b"\n")
        held = b" \r" if text.endswith(b" \r") else b" " if text.endswith(b" ") else b""
        whole.write(text[: len(text) - len(held)])
    whole.write(held.lstrip(b" "))
    return whole.getvalue()


def quotes_are_proper(body: bytes, separator: str) -> bool:
    """Whether quotes enclose whole cells; else they are plain characters, as in 5'10"."""
    text = np.frombuffer(body, dtype=np.uint8)
    borders = np.zeros(256, dtype=bool)
    borders[[ord(separator), _NEWLINE, _RETURN, _QUOTE]] = True
    seen = 0
    for start, part in zip(range(0, len(text), _STEP), _parts(body), strict=True):
        where = np.flatnonzero(part == _QUOTE) + start
        opening, closing = where[seen % 2 :: 2], where[1 - seen % 2 :: 2]
        before = borders[text[np.maximum(opening - 1, 0)]] | (opening == 0)
        after = borders[text[np.minimum(closing + 1, len(text) - 1)]] | (closing == len(text) - 1)
        if not (before.all() and after.all()):
            return False
        seen += len(where)
    return seen % 2 == 0


def _parts(body: bytes) -> Iterator[Array]:
    text = np.frombuffer(body, dtype=np.uint8)
    for part in spans(len(text), _STEP):
        yield text[part]


def find_records(body: bytes, separator: str, quoted: bool) -> Records:
    """Cut the text at line breaks outside of quotes and count the cells between them."""
    text = np.frombuffer(body, dtype=np.uint8)
    most = body.count(b"\n") + 1
    ends, widths = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int32)
    n = inside = open_cells = 0  # carried from one step to the next
    for start in steps(range(0, len(text), _STEP), "finding rows"):
        part = text[start : start + _STEP]
        breaks, cuts = part == _NEWLINE, part == ord(separator)
        if quoted:
            # The parity of quotes so far; a doubled quote inside a cell does not change it.
            state = (np.cumsum(part == _QUOTE, dtype=np.uint8) + np.uint8(inside)) & 1
            breaks &= state == 0
            cuts &= state == 0
            inside = int(state[-1])
        at, cut = np.flatnonzero(breaks), np.flatnonzero(cuts)
        before = np.searchsorted(cut, at)
        widths[n : n + len(at)] = np.diff(before, prepend=-open_cells) + 1
        open_cells = len(cut) - int(before[-1]) if len(at) else open_cells + len(cut)
        ends[n : n + len(at)] = at + (start + 1)
        n += len(at)
    if len(text) and (n == 0 or ends[n - 1] < len(text)):
        ends[n], widths[n] = len(text), open_cells + 1
        n += 1
    ends, widths = ends[:n], widths[:n]
    return Records(ends, widths, _blank_rows(text, ends, widths))


def _blank_rows(text: Array, ends: Ints, widths: Array) -> Array:
    """Which rows hold nothing at all, a bounded number of rows at a time."""
    blank = np.empty(len(ends), dtype=bool)
    for part in spans(len(ends), _STEP // 8):
        last = ends[part]
        first = np.concatenate([[ends[part.start - 1] if part.start else 0], last[:-1]])
        sizes = last - first - (text[last - 1] == _NEWLINE)
        blank[part] = sizes == 0
        short = np.flatnonzero((sizes > 0) & (sizes <= 8) & (widths[part] == 1))
        for i in short[np.isin(text[first[short]], [_RETURN, _SPACE, _TAB])]:
            blank[part.start + i] = not text[first[i] : last[i]].tobytes().strip()
    return blank


def filled_rows(records: Records) -> Iterator[int]:
    """The numbers of the rows that are not blank."""
    return (row for row, blank in enumerate(records.blank) if not blank)


def without_blank(body: bytes, records: Records) -> tuple[bytes, Records]:
    """The same text without its blank lines."""
    if not records.blank.any():
        return body, records
    whole, begin = io.BytesIO(), 0
    for row in np.flatnonzero(records.blank):
        whole.write(memoryview(body)[begin : int(records.ends[row - 1]) if row else 0])
        begin = int(records.ends[row])
    whole.write(memoryview(body)[begin:])
    sizes = np.diff(records.ends, prepend=0)
    stay = ~records.blank
    return whole.getvalue(), Records(
        np.cumsum(sizes[stay]), records.widths[stay], records.blank[stay]
    )


def check_widths(records: Records, body: bytes, first_line: int, name: str) -> int:
    """The number of cells per row; raises if a row has another, naming its line."""
    expected = int(records.widths[records.first_filled])
    wrong = np.flatnonzero((records.widths != expected) & ~records.blank)
    if len(wrong) == 0:
        return expected
    at = int(wrong[0])
    start = int(records.ends[at - 1])
    line = body.count(b"\n", 0, start) + first_line
    many = {"many": len(wrong)} if len(wrong) > 1 else {}
    raise InputError(
        Message(
            "tables.error.widths_many" if many else "tables.error.widths",
            name=name,
            line=line,
            n=int(records.widths[at]),
            expected=expected,
            **many,
        )
    )


def one_name_short(records: Records) -> bool:
    """Whether every row has one cell more than the first line, as in tables written by R."""
    first = records.first_filled
    below = slice(first + 1, None)
    fits = records.widths[below] == records.widths[first] + 1
    return bool((~records.blank[below]).any() and (fits | records.blank[below]).all())


class Odd(NamedTuple):
    """Which cells there may be that a number would not keep as they are written."""

    zeros: bool  # a zero and another digit at the beginning
    long: bool  # as many digits at the beginning as a float may round


ANY_CELLS = Odd(zeros=True, long=True)


def odd_cells(text: bytes, separator: str) -> Odd:
    """Whether such cells may be in some whole rows.

    A few passes over the bytes: nearly all tables of numbers have none, and are not looked at
    cell by cell.
    """
    whole = np.frombuffer(b"\n" + text[: _DIGITS + 1], dtype=np.uint8)
    zeros, long = _odd(whole, separator)
    whole = np.frombuffer(text, dtype=np.uint8)
    for part in spans(len(whole), _STEP):
        if zeros and long:
            break
        found = _odd(whole[part.start : part.stop + _DIGITS], separator)
        zeros, long = zeros or found[0], long or found[1]
    return Odd(zeros, long)


def _odd(text: Array, separator: str) -> tuple[bool, bool]:
    begins = text < ord(".")  # signs, quotes, spaces, line ends, most separators
    if ord(separator) >= ord("."):
        begins |= text == ord(separator)
    digits = text - np.uint8(_ZERO) < 10  # unsigned: what is below a zero is large
    runs = digits[:-1] & digits[1:]
    zeros = bool((runs[1:] & (text[1:-1] == _ZERO) & begins[: len(runs) - 1]).any())
    for size in (2, 4, 8):
        if len(runs) <= size or not runs.any():
            return zeros, False
        runs = runs[:-size] & runs[size:]
    return zeros, bool((runs[1:] & begins[: len(runs) - 1]).any())
