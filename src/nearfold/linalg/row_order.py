"""An order of the rows of a table that depends on their values alone."""

from __future__ import annotations

import numpy as np

from nearfold.blocks import spans
from nearfold.notation import Array, Ints
from nearfold.run import one_blas_thread

_CELLS = 2**18  # values per block, so that no second table in float64 is made


def order_by_value(X: Array, label: Ints) -> Ints:
    """An order by label, then by a fixed projection: the same however the rows were given.

    Equal rows excepted, which no order can tell apart.
    """
    direction = np.random.RandomState(0).standard_normal(X.shape[1])
    parts = spans(len(X), max(1, _CELLS // X.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
        mean = X.mean(axis=0, dtype=np.float64)
        spread = np.sqrt(sum(((X[rows] - mean) ** 2).sum(axis=0) for rows in parts) / len(X))
        scale = np.where((spread > 0) & np.isfinite(spread), spread, 1.0)
        weight = direction / scale
        projected = [(X[rows] - mean) @ weight for rows in parts]
    return np.lexsort((np.concatenate(projected), label))
