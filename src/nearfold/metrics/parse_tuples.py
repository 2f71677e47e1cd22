"""Ids and signs of tuples, whatever they come in: arrays, lists, frames, CSV files.

A table of ids has one column per member and, for pairs, an optional last column that says
must-link (1) or cannot-link (-1).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.notation import Array, Ints

SIGNS = {
    **dict.fromkeys(["1", "+1", "+", "true", "must", "must-link", "must_link", "similar"], 1),
    **dict.fromkeys(["-1", "0", "-", "false", "cannot", "cannot-link", "cannot_link"], -1),
    "dissimilar": -1,
}
SHOWN = 5


def known_ids(ids: Any, m: int) -> Array | None:
    """What the rows are called, or None if by their position."""
    if ids is None:
        return None
    known = np.asarray(ids)
    if known.ndim == 2 and known.shape[1] == 1:
        known = known.ravel()
    if known.ndim != 1 or len(known) != m:
        raise InputError(f"there are {known.size} ids for {m} rows.")
    return known


def read_cells(tuples: Any, size: int, known: Array | None, m: int) -> Array:
    """The table of ids as an array, whatever it came in."""
    if isinstance(tuples, str | Path):
        return _drop_header(_read(Path(tuples)), size, known, m)
    if hasattr(tuples, "columns"):
        return np.asarray(tuples.to_numpy())
    cells = np.asarray(tuples)
    if cells.dtype.kind == "U" and isinstance(tuples, list | tuple):
        cells = np.array(tuples, dtype=object)  # numbers beside texts stay numbers
    if cells.ndim != 2:
        raise InputError(f"a table of ids has two dimensions; this one has shape {cells.shape}.")
    return cells


def _read(path: Path) -> Array:
    import polars

    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    try:
        frame = polars.read_csv(path, has_header=False, infer_schema=False)
    except polars.exceptions.PolarsError as error:
        raise InputError(f"{str(path)!r} cannot be read as a table of ids: {error}") from error
    rows = [[cell.strip() if cell else cell for cell in row] for row in frame.rows()]
    return np.array([row for row in rows if any(row)], dtype=object).reshape(-1, frame.width)


def _drop_header(cells: Array, size: int, known: Array | None, m: int) -> Array:
    """Without a first line that names the columns: no cell of it is an id, a number or a sign."""
    if len(cells) < 2:
        return cells
    members, rest = cells[:1, :size], cells[0, size:]
    if any(str(cell).lower() in SIGNS for cell in rest):
        return cells
    numbers = [known is None and not np.isnan(_number(cell)) for cell in members.ravel()]
    return cells if any(numbers) or (_find(members, known, m) >= 0).any() else cells[1:]


def _find(cells: Array, known: Array | None, m: int) -> Ints:
    """The row numbers of these ids, -1 where there is none."""
    flat = cells.ravel()
    if known is None:
        try:
            numbers = flat.astype(np.float64)
        except (TypeError, ValueError):
            numbers = np.array([_number(cell) for cell in flat])
        with np.errstate(invalid="ignore"):
            fits = (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < m)
        return np.where(fits, np.where(fits, numbers, 0), -1).astype(np.int64).reshape(cells.shape)
    by_value = {value: row for row, value in enumerate(known.tolist())}
    if len(by_value) < len(known):
        values, counts = np.unique(known, return_counts=True)
        raise InputError(f"the ids of the rows are not unique: {values[counts > 1][:SHOWN]}.")
    by_text = {str(value): row for value, row in by_value.items()}
    found = [by_value.get(cell, by_text.get(str(cell), -1)) for cell in flat.tolist()]
    return np.array(found, dtype=np.int64).reshape(cells.shape)


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return np.nan


def find_rows(cells: Array, known: Array | None, m: int) -> Ints:
    """The row numbers of these ids; raises if a row has none of them."""
    rows = _find(cells, known, m)
    if (rows < 0).any():
        at, column = np.nonzero(rows < 0)
        shown = ", ".join(
            f"{cells[i : i + 1, j].tolist()[0]!r} (tuple {i})"
            for i, j in list(zip(at.tolist(), column.tolist(), strict=True))[:SHOWN]
        )
        what = f"row numbers from 0 to {m - 1}" if known is None else "ids of the table's rows"
        more = f" and {len(at) - SHOWN} more" if len(at) > SHOWN else ""
        raise InputError(f"these are not {what}: {shown}{more}.")
    return rows


def read_signs(column: Array) -> Ints:
    """+1 and -1 from a column of numbers or words."""
    texts = [_plain(value).lower() for value in column.tolist()]
    unknown = [(i, t) for i, t in enumerate(texts) if t not in SIGNS]
    if unknown:
        i, text = unknown[0]
        raise InputError(
            f"the last column of pairs says 1 for must-link and -1 for cannot-link; pair {i} says "
            f"{text!r}."
        )
    return np.array([SIGNS[text] for text in texts], dtype=np.int64)


def _plain(value: Any) -> str:
    """1.0 and 1 and "1" read the same."""
    number = _number(value)
    if isinstance(value, bool | np.bool_) or not np.isfinite(number) or number != int(number):
        return str(value)
    return str(int(number))


def check_signs(sign: Any, n: int) -> Ints:
    """The signs of n pairs as +1 and -1."""
    if sign is None:
        raise InputError(
            "pairs need to be told apart: 1 for must-link, -1 for cannot-link, as y, as a third "
            "column, or by giving must_link and cannot_link."
        )
    signs = np.asarray(sign).ravel()
    if len(signs) != n:
        raise InputError(f"there are {len(signs)} signs for {n} pairs.")
    if not np.isin(signs, (1, -1)).all():
        raise InputError(
            "When training on pairs, the labels (y) should contain only values in [-1, 1]. Found "
            "an incorrect value."
        )
    return signs.astype(np.int64)
