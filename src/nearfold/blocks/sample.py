"""Some rows of a table that is too large to be held: drawn at random, where the rows are."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from nearfold.blocks.dask_rows import DaskRows
from nearfold.blocks.frames import NamedRows
from nearfold.blocks.memory import require_memory
from nearfold.blocks.rows import Block, Rows
from nearfold.blocks.sources import as_rows
from nearfold.errors import InputError
from nearfold.notation import Array, Floats, Ints

Drawn = tuple[Floats, Ints, Array, Any]  # keys, row numbers, rows, targets


def sample(X: Any, n: int, y: Any = None, random_state: int | None = 0) -> Any:
    """Draw `n` rows at random, without replacement, as an array in memory.

    Every row is given a random number by its place in the table and the seed; the rows with the
    `n` smallest are the sample, in the order of the table. So neither chunks nor workers change
    it, and the size of the table need not be known.

    Parameters
    ----------
    X : array, frame, path, `Rows`, LazyFrame, or Dask array or frame
        The table. Of a Dask table only the drawn rows leave their workers.
    n : int
        How many rows to draw; all of them if there are fewer.
    y : array, Dask array or series, name of a column of X, or None
        What belongs to the rows; returned beside them.
    random_state : int or None, default=0
        The seed; None takes another one at each call.

    Returns
    -------
    X : ndarray of shape (n, n_features)
        The rows.
    y : ndarray of shape (n,)
        What belongs to them, if y is given.

    Examples
    --------
    >>> import numpy as np
    >>> import nearfold
    >>> nearfold.sample(np.arange(20.0).reshape(10, 2), 3).shape
    (3, 2)
    """
    if n < 1:
        raise InputError(f"n={n}: a sample has at least one row.")
    rows = as_rows(X)
    require_memory(
        3.0 * n * rows.n_features * rows.dtype.itemsize,
        f"A sample of {n:,} rows",
        "Draw fewer rows.",
    )
    if y is not None:
        rows = _with_targets(rows, y)
    seed = int(np.random.default_rng(random_state).integers(2**63))
    drawn = rows.combined(partial(draw_from_block, n=n, seed=seed), partial(keep_smallest, n=n))
    order = np.argsort(drawn[1])
    return drawn[2][order] if y is None else (drawn[2][order], drawn[3][order])


def _with_targets(rows: Rows, y: Any) -> Rows:
    by_name = isinstance(y, str)
    if by_name and not isinstance(rows, NamedRows):
        raise InputError(f"{rows.describe()} has no column names to take y by.")
    return rows.with_target(y if by_name or isinstance(rows, DaskRows) else np.asarray(y))


def draw_from_block(block: Block, n: int, seed: int) -> Drawn:
    """The rows of a block with the n smallest keys."""
    number = block.start + np.arange(block.X.shape[0])
    key = _keys(number, seed)
    chosen = np.argsort(key, kind="stable")[:n]
    X = block.X[chosen]
    X = X if isinstance(X, np.ndarray) else X.toarray()
    y = None if block.y is None else np.asarray(block.y)[chosen]
    return key[chosen], number[chosen], X, y


def keep_smallest(a: Drawn, b: Drawn, n: int) -> Drawn:
    """The n rows of both with the smallest keys."""
    key, number, X = (np.concatenate([a[i], b[i]]) for i in range(3))
    y = None if a[3] is None else np.concatenate([a[3], b[3]])
    chosen = np.argsort(key, kind="stable")[:n]
    return key[chosen], number[chosen], X[chosen], None if y is None else y[chosen]


def _keys(number: Ints, seed: int) -> Floats:
    """A random number for each row, by its place alone (splitmix64)."""
    with np.errstate(over="ignore"):
        z = number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray((z ^ (z >> np.uint64(31))) / 2.0**64)
