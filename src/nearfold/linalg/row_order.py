"""An order of the rows of a table that depends on their values alone."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from nearfold.blocks import spans
from nearfold.notation import Array, Floats, Ints
from nearfold.run import one_blas_thread

_CELLS = 2**18  # values per block, so that no second table in float64 is made


def order_by_value(X: Array, label: Ints) -> Ints:
    """An order by label, then by a fixed projection: the same however the rows were given.

    Equal rows excepted, which no order can tell apart.
    """
    parts = spans(len(X), max(1, _CELLS // X.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
        mean = X.mean(axis=0, dtype=np.float64)
        spread = np.sqrt(sum(((X[rows] - mean) ** 2).sum(axis=0) for rows in parts) / len(X))
        scale = np.where((spread > 0) & np.isfinite(spread), spread, 1.0)
        weight = _direction(X.shape[1]) / scale
        projected = [(X[rows] - mean) @ weight for rows in parts]
    return np.lexsort((np.concatenate(projected), label))


@lru_cache(maxsize=4)
def _direction(d: int) -> Floats:
    # To seed a generator takes longer than to sort a small table.
    return np.random.RandomState(0).standard_normal(d)
