"""Errors that name the cells which cannot be used."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.columns.cells import Cells
from nearfold.columns.frames import show
from nearfold.columns.scaling import has_gaps
from nearfold.errors import InputError, NonFiniteError
from nearfold.messages import Message
from nearfold.notation import Floats, Ints


def refuse_gaps(
    cells: Cells, id: str = "columns.missing_cells", numbers: Ints | None = None
) -> None:
    """Raise an error that tells which numbers are missing, by column and row.

    `id`: of the message. `numbers`: those of the rows, if not all rows are here.
    """
    if not has_gaps(cells.numbers).any():
        return
    rows, columns = np.nonzero(~np.isfinite(cells.numbers))
    rows = rows if numbers is None else numbers[rows]
    by_column = [name for part in cells.parts if not part.is_coded for name in part.names]
    where, times = np.unique(columns, return_counts=True)
    named = [f"{show(by_column[j])} ({n:,})" for j, n in zip(where[:5], times[:5], strict=True)]
    first = np.unique(rows)
    shown = ", ".join(f"{row + 1:,}" for row in first[:5]) + (", ..." if len(first) > 5 else "")
    more: Any = named if len(where) <= 5 else Message("words.more", names=named, n=len(where) - 5)
    raise NonFiniteError(
        Message(
            id,
            what=Message("columns.n_missing", n=len(rows)),
            rows=Message("columns.which_rows", n=len(first), rows=shown),
            names=more,
        )
    )


def refuse_overflow(cells: Cells, block: Floats) -> None:
    """Raise an error that names a column whose scaled numbers are not finite."""
    if np.isfinite(block).all():
        return
    by_column = [name for part in cells.parts if not part.is_coded for name in part.names]
    where = int(np.flatnonzero(~np.isfinite(block).all(axis=0))[0])
    raise InputError(Message("columns.too_far", name=show(by_column[where])))
