"""The ways in which a ColumnTransformer of scikit-learn's may name its columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.state import is_whole, require


def chosen_columns(columns: Any, d: int, known: Any) -> list[int]:
    """The numbers of the columns that a specification of ColumnTransformer selects."""
    if isinstance(columns, slice):
        bounds = [columns.start, columns.stop]
        if any(isinstance(bound, str) for bound in bounds):
            at = [b if b is None else chosen_columns(b, d, known)[0] for b in bounds]
            stop = None if at[1] is None else at[1] + 1  # labels include the last, as in pandas
            return list(range(d)[slice(at[0], stop, columns.step)])
        require(all(b is None or is_whole(b) for b in bounds), "columns that are no numbers")
        return list(range(d)[columns])
    if isinstance(columns, str) or is_whole(columns):
        columns = [columns]
    items = columns.tolist() if isinstance(columns, np.ndarray) else columns
    require(type(items) is list, "columns that are no list")
    if items and all(isinstance(item, bool | np.bool_) for item in items):
        require(len(items) == d, "a mask of another length")
        return [j for j, item in enumerate(items) if item]
    if items and all(isinstance(item, str) for item in items):
        place = {} if known is None else {name: j for j, name in enumerate(known)}
        require(all(item in place for item in items), "columns of unknown names")
        return [place[item] for item in items]
    require(all(is_whole(item) and -d <= item < d for item in items), "columns out of range")
    return [int(item) % d for item in items]
