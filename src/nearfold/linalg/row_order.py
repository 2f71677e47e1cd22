"""An order of the rows of a table that depends on their values alone."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from nearfold.blocks import spans
from nearfold.notation import Array, Floats, Ints
from nearfold.run import one_blas_thread

_CELLS = 2**18  # values per block, so that no second table in float64 is made
_HASHED = 2**15  # values hashed at a time: they stay in a core's cache
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits as good as random


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


def hash_rows(X: Array) -> Array:
    """A number of 64 bits for each row, from the bits of its values: equal rows have the same.

    An order by it needs nothing but the row itself, so that it is the same wherever the row lies.
    """
    keys = _keys(X.shape[1])
    found = np.empty(len(X), dtype=np.uint64)
    for rows in spans(len(X), max(1, _HASHED // X.shape[1])):
        values = np.ascontiguousarray(X[rows] + X.dtype.type(0))  # -0 becomes 0
        bits = values.view(f"u{X.dtype.itemsize}").astype(np.uint64)
        for _ in range(2):  # the bits of whole numbers are few, and all at one end
            bits ^= bits >> np.uint64(32)
            bits *= _MIX
        bits ^= bits >> np.uint64(29)
        found[rows] = bits @ keys
    return found


@lru_cache(maxsize=4)
def _keys(d: int) -> Array:
    return np.random.RandomState(0).randint(0, 2**63, d, dtype=np.uint64) * 2 + 1  # odd
