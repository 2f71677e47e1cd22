"""Groups and times of rows: columns of the table, or one value for each row beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.columns.cells import read_cells
from nearfold.columns.frames import show
from nearfold.columns.kinds import Kind, Role
from nearfold.columns.schema import Schema, infer_schema
from nearfold.columns.words import as_words
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array, Floats
from nearfold.raw_values import refuse_missing


def group_in(frame: Any, schema: Schema) -> Array | None:
    """The group of each row, if a column has it."""
    name = schema.named(Role.GROUP)
    return None if name is None else np.asarray(as_words(frame[name]).to_numpy(), dtype=str)


def time_in(frame: Any, schema: Schema) -> Floats | None:
    """When each row was seen, if a column tells; NaN where it does not."""
    name = schema.named(Role.TIME)
    if name is None:
        return None
    column = next(c for c in schema.columns if c.name == name)
    if column.kind not in (Kind.DATE, Kind.NUMBER, Kind.ORDERED, Kind.ID):
        raise InputError(Message("study.no_time", name=show(name), why=column.kind.shown))
    kind = Kind.NUMBER if column.kind == Kind.ID else column.kind
    cells = read_cells(frame, [{**column.spec(), "kind": kind.value}])
    return np.asarray(cells.numbers[:, 0], dtype=np.float64)


def group_beside(values: Any, n: int) -> Array | None:
    """The group of each row, given as an array."""
    if values is None or isinstance(values, str):
        return None
    refuse_missing(values, "group")
    found = _one_for_each(values, n, "group")
    if found.dtype.kind == "f" and np.isnan(found).any():
        raise InputError(Message("study.group_missing"))
    return found.astype(str) if found.dtype.kind in "OUS" else found


def time_beside(values: Any, n: int) -> Floats | None:
    """When each row was seen, given as an array of numbers, dates or texts."""
    import polars as pl

    if values is None or isinstance(values, str):
        return None
    found = _one_for_each(values, n, "time_column")
    if found.dtype.kind == "M":
        column = pl.Series("time_column", found.astype("datetime64[us]"))
    else:
        known = [None if value != value else value for value in found.tolist()]
        column = pl.Series("time_column", known, strict=False)
    frame = column.to_frame()
    return time_in(frame, infer_schema(frame, time="time_column"))


def _one_for_each(values: Any, n: int, what: str) -> Array:
    found = np.asarray(values)
    if found.shape != (n,):
        raise InputError(Message("study.side_shape", what=what, shape=str(found.shape), n=n))
    return found
