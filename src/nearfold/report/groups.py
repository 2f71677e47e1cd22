"""Rows by class, for a legend: which classes there are, which are shown, or that y are numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.notation import Array, Floats, Ints

_MOST_WHOLE = 20  # different whole numbers that are still taken for classes


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows per class, in the order of the legend; or a number per row."""

    names: list[str]
    values: list[Any]
    rows: list[Ints]
    is_rest: list[bool]  # whether it is not a class: the small ones together, or rows without one
    numbers: Floats | None = None


def group_rows(y: Any, n: int, kind: str, most: int) -> Groups:
    """Classes (the largest `most` of them; the others together) or numbers, as y has them."""
    if kind not in ("auto", "category", "number"):
        raise InputError(f"kind={kind!r}: use 'auto', 'category' or 'number'.")
    if y is None:
        return Groups(["all rows"], [None], [np.arange(n)], [False])
    values = np.asarray(y).reshape(-1)
    if kind == "number" or (kind == "auto" and _are_numbers(values)):
        return Groups([], [], [], [], _as_numbers(values))
    missing = _missing(values)
    present = values[~missing]
    try:
        found, label = np.unique(present, return_inverse=True)
    except TypeError:  # classes that cannot be compared, such as 1 and "one"
        found, label = np.unique(present.astype(str), return_inverse=True)
    where = np.flatnonzero(~missing)
    sizes = np.bincount(label, minlength=len(found))
    kept = np.arange(len(found))
    if len(found) > most:
        kept = np.sort(np.argsort(-sizes, kind="stable")[: most - 1])
    groups = [(_name(found[c]), found[c], where[label == c], False) for c in kept]
    others, without = where[~np.isin(label, kept)], np.flatnonzero(missing)
    if len(others):
        groups.append((f"{len(found) - len(kept)} others", None, others, True))
    if len(without):
        groups.append(("no value", None, without, True))
    names, kept_values, rows, is_rest = (list(part) for part in zip(*groups, strict=True))
    return Groups(names, kept_values, rows, is_rest)


def _name(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _are_numbers(values: Array) -> bool:
    if values.dtype.kind == "f":
        there = values[np.isfinite(values)]
        return bool((there != np.rint(there)).any()) or len(np.unique(there)) > _MOST_WHOLE
    return values.dtype.kind in "iu" and len(np.unique(values)) > _MOST_WHOLE


def _as_numbers(values: Array) -> Floats:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("kind='number', but y holds values that are not numbers.") from None


def _missing(values: Array) -> Array:
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind == "O":
        return np.array([_is_missing(value) for value in values], dtype=bool)
    return np.zeros(len(values), dtype=bool)


def _is_missing(value: Any) -> bool:
    """None, NaN, or the NA and NaT of pandas, which answer no comparison."""
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")
