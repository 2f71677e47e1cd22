"""Tables of any library as polars frames, and names in messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfold.errors import InputError, reason
from nearfold.messages import Message
from nearfold.notation import Array

if TYPE_CHECKING:
    import polars as pl

_LONGEST = 40  # characters of a name or value in a message


def show(value: object) -> str:
    """A name or a value in quotes, on one line and not too long."""
    text = " ".join(str(value).split())
    text = "".join(c if c.isprintable() else "?" for c in text)
    return f"'{text[: _LONGEST - 3]}...'" if len(text) > _LONGEST else f"'{text}'"


def show_names(names: Iterable[object], most: int = 5) -> Any:
    """The first few names for a message, and how many more there are."""
    every = list(names)
    shown = [show(name) for name in every[:most]]
    return shown if len(every) <= most else Message("words.more", names=shown, n=len(every) - most)


def close_to(name: str, known: Sequence[str]) -> Message:
    """A sentence with the known names that resemble this one, or with the first few."""
    short = [other for other in known if len(other) < 200]  # long ones take ages to compare
    near = difflib.get_close_matches(name[:200], short, n=3, cutoff=0.6)
    lower = {other.lower(): other for other in known}
    if not near and name.lower().strip() in lower:
        near = [lower[name.lower().strip()]]
    if near:
        return Message("columns.did_you_mean", names=show_names(near))
    return Message("columns.there_are", names=show_names(known))


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns."""
    return hasattr(type(X), "columns")  # of the class: a lazy frame would have to work them out


def column_names_of(frame: Any) -> list[str]:
    """The names of a table's columns, as text; each must occur once."""
    given = getattr(frame, "column_names", None)  # Arrow's `columns` are the cells
    if not isinstance(given, list):
        given = frame.collect_schema().names() if _is_lazy(frame) else frame.columns
    try:
        names = [str(name) for name in given]
    except TypeError:
        raise InputError(Message("columns.no_table", why=type(frame).__name__)) from None
    if len(set(names)) < len(names):
        seen: set[str] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InputError(Message("columns.twice", name=show(twice)))
    return names


def as_polars(frame: Any, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """A polars frame of the (named) columns of a polars, pandas or Arrow table."""
    import polars as pl

    if _is_lazy(frame):
        frame = frame.collect()
    if isinstance(frame, pl.DataFrame):
        # Not by `select`: to polars a name such as "*" or "^a.*$" is a pattern.
        return frame if columns is None else _frame([frame.get_column(c) for c in columns], columns)
    names = column_names_of(frame)
    plain = _plain_numbers(frame)
    if plain is not None:
        table = pl.from_numpy(plain, schema=names)
        return table if columns is None else as_polars(table, columns)
    return _by_column(frame, names, columns)


def plainly_named(column: pl.Series) -> pl.Series:
    """The column under a name that is no pattern to polars, whose methods would select by it.

    The name looks the same in messages.
    """
    name = column.name
    pattern = name == "*" or (name.startswith("^") and name.endswith("$"))
    return column.alias(name + " ") if pattern else column


def _is_lazy(frame: Any) -> bool:
    import polars as pl

    return isinstance(frame, pl.LazyFrame)


def _plain_numbers(frame: Any) -> Array | None:
    """The array of a pandas frame whose columns all have one NumPy type of numbers."""
    dtypes = set(frame.dtypes) if type(frame).__module__.partition(".")[0] == "pandas" else set()
    held = next(iter(dtypes), None)
    if len(dtypes) != 1 or not isinstance(held, np.dtype):
        return None
    plain = held.kind in "fiu" and held.isnative and held.itemsize in (1, 2, 4, 8)
    return np.asarray(frame.to_numpy()) if plain and held != np.float16 else None


def _by_column(frame: Any, names: list[str], columns: Sequence[str] | None) -> pl.DataFrame:
    import narwhals as nw

    try:
        table = nw.from_native(frame, eager_only=True)
        held = dict(zip(names, table.iter_columns(), strict=True))
    except (TypeError, ValueError, nw.exceptions.NarwhalsError) as error:
        raise InputError(Message("columns.no_table", why=reason(error))) from None
    found = []
    chosen = names if columns is None else columns
    for name in chosen:
        try:
            found.append(_series(name, held[name]))
        except Exception:  # types of cells are endless, and so is what libraries raise for them
            kind = str(getattr(held[name].to_native(), "dtype", held[name].dtype))
            raise InputError(Message("columns.odd_cells", name=show(name), held=kind)) from None
    return _frame(found, chosen)


def _frame(columns: list[pl.Series], names: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    table = pl.DataFrame(columns)
    table.columns = list(names)  # polars calls a column without a name "column_0"
    return table


def _series(name: str, column: Any) -> pl.Series:
    import narwhals as nw
    import polars as pl

    if isinstance(column.dtype, nw.Categorical | nw.Enum):
        texts = pl.Series(name, [_spell(v) for v in _values(column)], dtype=pl.String)
        held: Any = getattr(column.to_native(), "dtype", None)
        if getattr(held, "ordered", False):  # of pandas
            return texts.cast(pl.Enum([str(_spell(level)) for level in held.categories.tolist()]))
        return texts.cast(pl.Categorical)
    if column.dtype.is_integer() and (gaps := column.is_null().to_numpy()).any():
        # A NumPy array would turn them into floats, and long ids into one another.
        whole = pl.Series(name, np.asarray(column.fill_null(0).to_numpy()))
        return whole.set(pl.Series(np.asarray(gaps, dtype=bool)), None)
    array = np.asarray(column.to_numpy())
    if array.dtype == object or array.dtype.kind in "SU":
        return _objects(name, _values(column))
    if array.dtype.kind in "mM":
        array = array.astype(f"{array.dtype.kind}8[us]")
    elif array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    return pl.Series(name, array.astype(array.dtype.newbyteorder("="), copy=False))


def _objects(name: str, values: list[Any]) -> pl.Series:
    import polars as pl

    shapes = {v.shape if isinstance(v, np.ndarray) else None for v in values}
    if len(shapes) == 1 and (shape := shapes.pop()) is not None and len(shape) == 1:
        return pl.Series(name, np.stack(values))  # vectors, without a Python object for each number
    plain = [v.tolist() if isinstance(v, np.ndarray) else v for v in values]
    return pl.Series(name, plain, strict=False)


def _spell(value: Any) -> str | None:
    """The word for a category: 1 and 1.0 are the same one."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return None if value is None else str(value)


def _values(column: Any) -> list[Any]:
    """Python values; pandas marks gaps in several ways, and narwhals knows them all."""
    gaps = column.is_null().to_list()
    return [None if gap else v for gap, v in zip(gaps, column.to_list(), strict=True)]
