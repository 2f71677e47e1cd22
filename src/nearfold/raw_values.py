"""Values that are no numbers, found before NumPy converts them.

NumPy turns dates into numbers and masked cells into the values beneath them without a word, and
its errors about text do not say where it is. Here both are refused with the row and column.
"""

from __future__ import annotations

import reprlib
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from nearfold.errors import InputError, NonFiniteError
from nearfold.messages import Message
from nearfold.notation import Array

_DATES = (np.datetime64, np.timedelta64, date, time, timedelta)  # and their subclasses


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array, frame, series or delayed value; Dask is not imported to see it."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "__dask_graph__")


def read_values(X: Any, name: str = "X") -> Any:
    """X with its values as numbers where they were objects or text; dates and masks refused.

    Frames stay frames: scikit-learn converts them, and reads their column names. `name` is what
    messages call the input. A Dask table is refused: NumPy would collect it in silence.
    """
    if is_dask(X):
        raise InputError(Message("cluster.collect", table=f"{name}, a Dask {type(X).__name__},"))
    if isinstance(X, list | tuple):
        X = stack_rows(X)
    if isinstance(X, np.ma.MaskedArray):
        _refuse_masked(X)
    if isinstance(X, np.ndarray) and not isinstance(X, np.matrix):
        return _as_numbers(X, name)
    if hasattr(X, "__array__") and (hasattr(X, "columns") or hasattr(X, "column_names")):
        _check_frame(X, name)
    elif hasattr(X, "__array__") and name != "X":
        return _as_numbers(np.asarray(X), name)
    return X


def refuse_missing(y: Any, name: str = "y") -> None:
    """Raise if labels or targets are masked or missing; NaN in floats is left to scikit-learn.

    In text and objects a missing value would become a class of its own or compare with nothing.
    """
    if isinstance(y, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(y)
    elif hasattr(y, "isna"):
        missing = np.asarray(y.isna())
    elif hasattr(y, "is_null"):
        missing = np.asarray(y.is_null())
    elif isinstance(y, list | tuple):
        missing = np.array([_is_missing(value) for value in y], dtype=bool)
    elif isinstance(y, np.ndarray) and y.dtype.kind == "O" and y.ndim > 0:
        missing = np.array([_is_missing(value) for value in y.flat], dtype=bool).reshape(y.shape)
    else:
        return
    rows = np.unique(np.nonzero(missing)[0])
    if len(rows):
        raise InputError(
            f"Input {name} contains NaN or missing values in {len(rows)} rows (first: "
            f"{rows[:5].tolist()}): drop those rows, or give them a value."
        )


def _is_missing(value: Any) -> bool:
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant")


def stack_rows(rows: Any) -> Array:
    """A list of rows as an array, in float64 if they are numbers."""
    for row in rows:
        if isinstance(row, np.ma.MaskedArray):
            _refuse_masked(row)
    try:
        stacked = np.asarray(rows)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise InputError(
            "setting an array element with a sequence: the rows of X have different lengths."
        ) from None
    return stacked.astype(np.float64) if stacked.dtype.kind == "f" else stacked


def _refuse_masked(X: Any) -> None:
    if not np.ma.is_masked(X):
        return
    mask = np.ma.getmaskarray(X)
    columns = np.flatnonzero(mask.any(axis=0))[:5].tolist() if X.ndim == 2 else []
    raise NonFiniteError(
        f"Input X has {int(mask.sum())} masked cells (first columns: {columns}), which have "
        "no value: fill them in with X.filled(...), or drop their rows."
    )


def _as_numbers(X: Array, name: str) -> Array:
    """X, in float64 if it holds objects or text."""
    kind = X.dtype.kind
    if kind in "Mm":
        raise InputError(
            f"Input {name} holds {X.dtype} values, and dates are not numbers: convert them first, "
            "for example to days since a date that matters to you."
        )
    if kind == "V":
        raise InputError(
            f"Input {name} has the dtype {X.dtype}, which is not numeric: give a table of numbers "
            "with one column per feature."
        )
    if kind not in "OUST":
        return X
    flat = X.ravel()
    if kind == "O" and any(issubclass(t, _DATES) for t in set(map(type, flat))):
        at = next(i for i, value in enumerate(flat) if isinstance(value, _DATES))
        raise TypeError(
            "float() argument must be a string or a real number, not a date or duration: Input "
            f"{name} holds {reprlib.repr(flat[at])} in {_place(X, at)}. Convert it first, for "
            "example to days since a date that matters to you."
        )
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        at = next((i for i in range(len(flat)) if not _is_number(flat[i : i + 1])), 0)
        message = f"{error} (Input {name} holds {reprlib.repr(flat[at])} in {_place(X, at)})."
        raise (TypeError if isinstance(error, TypeError) else InputError)(message) from None


def _is_number(cell: Array) -> bool:
    try:
        cell.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _place(X: Array, at: int) -> str:
    where = tuple(int(i) for i in np.unravel_index(at, X.shape))
    if X.ndim > 2:
        return f"cell {where}"
    return ", ".join(f"{n} {i}" for n, i in zip(("row", "column"), where, strict=False))


def _check_frame(X: Any, name: str) -> None:
    """Raise, naming the column, if a column of a frame cannot become numbers."""
    import narwhals.stable.v2 as nw

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return
    dates = [str(column) for column, kind in frame.schema.items() if kind.is_temporal()]
    if dates:
        raise InputError(
            f"columns {dates[:5]} hold dates or durations, which are not numbers: convert or "
            "drop them first."
        )
    for column, kind in frame.schema.items():
        if kind.is_numeric() or kind == nw.Boolean:
            continue
        try:
            _as_numbers(np.asarray(frame[column].to_numpy()), name)
        except (TypeError, InputError) as error:
            raise type(error)(f"column {column!r}: {error}") from None
