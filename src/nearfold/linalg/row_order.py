"""An order of the rows of a table that depends on their values alone."""

from __future__ import annotations

import numpy as np

from nearfold.blocks import spans
from nearfold.notation import Array, Ints

_ROWS = 4096  # per block, so that no second table in float64 is made


def order_by_value(X: Array, label: Ints) -> Ints:
    """An order by label, then by a fixed projection: the same however the rows were given.

    Equal rows excepted, which no order can tell apart.
    """
    direction = np.random.RandomState(0).standard_normal(X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        spread = X.std(axis=0, dtype=np.float64)
        scale = np.where((spread > 0) & np.isfinite(spread), spread, 1.0)
        mean, weight = X.mean(axis=0, dtype=np.float64), direction / scale
        projected = [(X[span] - mean) @ weight for span in spans(len(X), _ROWS)]
    return np.lexsort((np.concatenate(projected), label))
