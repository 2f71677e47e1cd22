"""Where the rows of a text table end, and whether each has the right number of cells.

One pass over the bytes with array operations: polars fills short rows with nulls in silence and
does not say in which line it found a long one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfold.errors import InputError
from nearfold.notation import Array, Ints
from nearfold.run import steps
from nearfold.store.frames import count

_STEP = 2**22  # bytes looked at together
_QUOTE, _NEWLINE, _RETURN = ord('"'), ord("\n"), ord("\r")


@dataclass(frozen=True)
class Records:
    """The rows of a text: the offset behind each one's line break, its cells, its emptiness."""

    ends: Ints
    widths: Ints
    blank: Array  # whether the line holds nothing at all

    def __len__(self) -> int:
        return len(self.ends)


def quotes_are_proper(body: bytes, separator: str) -> bool:
    """Whether quotes enclose whole cells; else they are plain characters, as in 5'10"."""
    where = _positions(body, _QUOTE)
    if len(where) % 2:
        return False
    text = np.frombuffer(body, dtype=np.uint8)
    opening, closing = where[0::2], where[1::2]
    borders = np.array([ord(separator), _NEWLINE, _RETURN, _QUOTE], dtype=np.uint8)
    before = text[np.maximum(opening - 1, 0)]
    after = text[np.minimum(closing + 1, len(text) - 1)]
    return bool(
        (np.isin(before, borders) | (opening == 0)).all()
        and (np.isin(after, borders) | (closing == len(text) - 1)).all()
    )


def _positions(body: bytes, value: int) -> Ints:
    text = np.frombuffer(body, dtype=np.uint8)
    found = [
        np.flatnonzero(text[start : start + _STEP] == value) + start
        for start in range(0, len(text), _STEP)
    ]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def find_records(body: bytes, separator: str, quoted: bool) -> Records:
    """Cut the text at line breaks outside of quotes and count the cells between them."""
    text = np.frombuffer(body, dtype=np.uint8)
    ends, widths = [], []
    inside, open_cells = 0, 0  # carried from one step to the next
    for start in steps(range(0, len(text), _STEP), "look through the text"):
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
        widths.append(np.diff(before, prepend=-open_cells) + 1)
        open_cells = len(cut) - int(before[-1]) if len(at) else open_cells + len(cut)
        ends.append(at + start + 1)
    if len(text) and text[-1] != _NEWLINE:
        ends.append(np.array([len(text)]))
        widths.append(np.array([open_cells + 1]))
    return _described(text, np.concatenate(ends), np.concatenate(widths))


def _described(text: Array, ends: Ints, widths: Ints) -> Records:
    starts = np.concatenate([[0], ends[:-1]])
    sizes = ends - starts - (text[ends - 1] == _NEWLINE)
    blank = sizes == 0
    short = np.flatnonzero((sizes > 0) & (sizes <= 8) & (widths == 1))
    for i in short[np.isin(text[starts[short]], [_RETURN, 32, 9])]:
        blank[i] = not text[starts[i] : ends[i]].tobytes().strip()
    return Records(ends, widths, blank)


def without_blank(body: bytes, records: Records) -> tuple[bytes, Records]:
    """The same text without its blank lines."""
    if not records.blank.any():
        return body, records
    starts = np.concatenate([[0], records.ends[:-1]])
    sizes = np.where(records.blank, 0, records.ends - starts)
    kept = np.repeat(~records.blank, records.ends - starts)
    text = np.frombuffer(body, dtype=np.uint8)[kept].tobytes()
    stay = ~records.blank
    return text, Records(np.cumsum(sizes)[stay], records.widths[stay], records.blank[stay])


def check_widths(records: Records, body: bytes, first_line: int, name: str) -> int:
    """The number of cells per row; raises if a row has another, naming its line."""
    rows = np.flatnonzero(~records.blank)
    expected = int(records.widths[rows[0]])
    wrong = rows[records.widths[rows] != expected]
    if len(wrong) == 0:
        return expected
    at = int(wrong[0])
    start = int(records.ends[at - 1])
    line = body.count(b"\n", 0, start) + first_line
    also = f" ({count(len(wrong), 'such line')})" if len(wrong) > 1 else ""
    raise InputError(
        f"{name}: line {line:,} has {count(int(records.widths[at]), 'cell')}, where the first has "
        f"{expected:,}{also}. Check separators and quotes there, or name the separator."
    )


def one_name_short(records: Records) -> bool:
    """Whether every row has one cell more than the first line, as in tables written by R."""
    rows = np.flatnonzero(~records.blank)
    if len(rows) < 2:
        return False
    below = records.widths[rows[1:]]
    return bool((below == records.widths[rows[0]] + 1).all())
