"""The table of a study: as many rows as the memory budget allows.

A trial holds several copies of the table at once: the rows of a fold, the same rows scaled and in
the space, their float64 temporaries, the rows of the pictures. Together they may take half of the
budget; the other half is left to the methods. A larger table is studied on a sample of its rows,
drawn with the classes in proportion, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nearfold.blocks import get_memory, require_memory, reserve_memory, show_bytes
from nearfold.columns.cells import Cells
from nearfold.inputs import check_rows
from nearfold.messages import Message
from nearfold.notation import Array, Ints
from nearfold.study.folds import numbered

_COPIES = 6
_SHARE = 2  # copies take at most 1 / _SHARE of the budget
_FEWEST = 200  # rows that a sample has at least
_ADVICE = Message("memory.advice.study")


def read_rows(X: Any, finite: bool = True) -> Array:
    """X as a dense table of floats, finite unless told otherwise; refused if it does not fit."""
    if getattr(getattr(X, "dtype", None), "kind", "") != "f":
        shape = np.shape(X) if not hasattr(X, "shape") else X.shape
        if len(shape) == 2:
            needed = 8.0 * shape[0] * shape[1]
            what = Message("memory.table_of", rows=shape[0], columns=shape[1])
            require_memory(needed, what, _ADVICE)
    return np.asarray(check_rows(X, finite=finite))


def rows_within_budget(X: Any, label: Array | None, random_state: int) -> Ints | None:
    """Rows to study, in order, with classes in proportion; None: all of them."""
    n, width, itemsize = _footprint(X)
    row_bytes = max(1, width * itemsize)
    most = get_memory() // (_SHARE * _COPIES * row_bytes)
    if n <= most:
        return None
    fewest = min(n, _FEWEST if label is None else max(_FEWEST, 10 * len(np.unique(label))))
    needed = _SHARE * _COPIES * row_bytes * fewest
    require_memory(needed, Message("memory.study_of", rows=fewest, columns=width), _ADVICE)
    return sample_by_class(label, n, int(most), np.random.default_rng(random_state))


def sample_by_class(label: Array | None, n: int, most: int, draw: np.random.Generator) -> Ints:
    """`most` of n rows, every class in proportion and none lost; in order."""
    if n <= most:
        return np.arange(n)
    if label is None:
        return np.sort(draw.choice(n, most, replace=False))
    number = numbered(label)
    order = draw.permutation(n)
    order = order[np.argsort(number[order], kind="stable")]
    size = np.bincount(number)
    place = np.arange(n) - np.repeat(np.cumsum(size) - size, size)
    # How far each row is down its class: the first of each class first, then in proportion.
    depth = np.where(place == 0, -1.0, (place + 0.5) / np.repeat(size, size))
    return np.sort(order[np.argsort(depth, kind="stable")[:most]])


@contextmanager
def room_for(X: Any) -> Iterator[None]:
    """Leave room for the copies that a study of X makes."""
    n, width, itemsize = _footprint(X)
    with reserve_memory(_COPIES * n * width * itemsize):
        yield


def require_copies(X: Any) -> None:
    """Raise unless the copies that a study of all of X makes fit the budget."""
    n, width, itemsize = _footprint(X)
    what = Message("memory.study_of", rows=n, columns=width)
    require_memory(_SHARE * _COPIES * n * width * itemsize, what, _ADVICE)


def _footprint(X: Any) -> tuple[int, int, int]:
    """Rows, columns and bytes of a number, of an array or of cells once they are encoded."""
    if isinstance(X, Cells):
        return len(X), X.width, X.numbers.itemsize
    return len(X), X.shape[1], X.itemsize


def sample_notice(rows: Ints, n: int) -> Message:
    """What is said of a sample."""
    return Message("study.sampled", n=len(rows), of=n, budget=show_bytes(get_memory()))


def largest(X: Array) -> float:
    """The largest absolute value, without a copy of X."""
    return max(float(X.max()), -float(X.min()))
