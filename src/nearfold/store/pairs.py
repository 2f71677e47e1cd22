"""Pairs of rows from a file: two ids and whether they are alike, in any format of tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import IO, Any

import numpy as np

from nearfold.columns.frames import show, show_names
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.metrics.parse_tuples import SIGNS
from nearfold.notation import Ints
from nearfold.store.tables import read_one

_TEXT = frozenset(f"x{i}" for i in range(3))  # columns of a file that is read without a header


def read_pairs(path: str | Path | IO[bytes], ids: Any, n_rows: int | None = None) -> Ints:
    """Row, row and sign (1: must-link, -1: cannot-link) of each pair in a file.

    Parameters
    ----------
    path : str, Path or binary stream
        Two columns of ids and one of signs, in any format that `read_table` reads; a line with
        names above them may be there or not.
    ids : array-like or None
        What the rows of the table are called. They are compared as text, as it is written ("007"
        is not "7"), and as numbers if they are numbers. None: the file holds row numbers from 0.
    n_rows : int, optional
        The number of rows, if there are no ids.

    Returns
    -------
    ndarray of shape (m, 3)

    Raises
    ------
    InputError
        With the line of the first id that the table has not.
    """
    options = dict.fromkeys(("encoding", "separator", "decimal")) | {"header": False, "na": ()}
    table, parsed = read_one(path, None, options | {"text": _TEXT})
    frame, name = table.frame, table.source.name
    if frame.width != 3:
        raise InputError(Message("tables.pairs.error.columns", name=name, n=frame.width))
    cells = [[_text(value) for value in column.to_list()] for column in frame.get_columns()]
    find = _Rows(ids, n_rows)
    found = [[find(cell) for cell in column] for column in cells[:2]]
    # A first line of names, not of a pair: neither an id nor a sign is in it.
    first = int(parsed.header is False and found[0][0] == found[1][0] == -1)
    first *= cells[2][0].lower() not in SIGNS
    if len(frame) == first:
        raise InputError(Message("tables.pairs.error.none", name=name))
    rows = np.array(found, dtype=np.int64).T[first:]
    unknown = np.argwhere(rows < 0)
    if len(unknown):
        row, column = unknown[0].tolist()
        more = Message("tables.pairs.error.more", n=len(unknown)) if len(unknown) > 1 else ""
        at = {"name": name, "line": parsed.line(row + first), "more": more}
        raise InputError(find.unknown(cells[column][row + first], at))
    signs = [SIGNS.get(cell.lower(), 0) for cell in cells[2][first:]]
    if 0 in signs:
        row = signs.index(0) + first
        at = {"name": name, "line": parsed.line(row), "sign": show(cells[2][row])}
        raise InputError(Message("tables.pairs.error.sign", **at))
    return np.column_stack([rows, signs])


def _text(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return "" if value is None else str(int(value) if whole else value).strip()


class _Rows:
    """Finds the row of an id."""

    def __init__(self, ids: Any, n_rows: int | None) -> None:
        self._n = n_rows or 0
        self._numbers: dict[float, int] = {}
        self._by_position = ids is None
        values = [] if ids is None else np.asarray(ids).ravel().tolist()
        self._texts = {_text(value): row for row, value in enumerate(values)}
        if len(self._texts) < len(values):
            repeated = [text for text, n in Counter(map(_text, values)).items() if n > 1]
            raise InputError(Message("tables.pairs.error.repeated", ids=show_names(repeated, 3)))
        if all(isinstance(value, int | float) for value in values):
            self._numbers = {float(value): row for row, value in enumerate(values)}

    def __call__(self, cell: str) -> int:
        """The row; -1 if there is none."""
        if cell in self._texts:
            return self._texts[cell]
        try:
            number = float(cell)
        except ValueError:
            return -1
        if self._by_position:
            return int(number) if number.is_integer() and 0 <= number < self._n else -1
        return self._numbers.get(number, -1)

    def unknown(self, cell: str, at: dict[str, Any]) -> Message:
        """What to say of an id that there is not."""
        if self._by_position:
            at = at | {"last": self._n - 1}
            return Message("tables.pairs.error.unknown_position", id=show(cell), **at)
        return Message("tables.pairs.error.unknown", id=show(cell), **at)
