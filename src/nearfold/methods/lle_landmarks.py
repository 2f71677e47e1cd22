"""LLE of a sample of the rows, where that of all is too much.

Not an estimator but LocallyLinearEmbedding's way beyond the memory budget, or with `n_landmarks`.
The landmarks are drawn evenly, so that they lie as densely as the rows do. Algorithm 10.4 embeds
them among themselves, and every other row is placed as a new one: by the weights that reconstruct
it from its nearest landmarks (local_extension.py).

Memory is one limit, time the other: a factor of I - W takes little more than O(m) where the rows
lie along a curve or a surface, and O(m^3) in data of many dimensions. How it grows is seen in two
samples of the rows, whose factors are counted symbolically.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks import get_memory, require_memory, show_bytes
from nearfold.errors import ApproximationWarning, InputError, warn
from nearfold.linalg.inverse_iteration import MOST_WORK, factor_size
from nearfold.messages import Message
from nearfold.notation import Array, Floats, Ints
from nearfold.run import random_state

MOST_ROWS = 100_000  # all embedded, whatever their dimension: some minutes
MOST_LANDMARKS = 20_000  # when the budget or the time, not the user, asks for them
_WORD = "LLE of {:,} landmarks of {:,} rows"


def lle_bytes(m: int, k: int, method: str) -> float:
    """The least that any route holds: lists, graph, I - W and a factor without fill; or M."""
    patches = 0.0 if method == "standard" else 26.0 * m * (k + 1) ** 2  # as measured
    return 100.0 * m * (k + 1) + patches


@dataclass(frozen=True)
class Landmarks:
    """The rows that are embedded (None: all), and the sentence for `approximation_`."""

    rows: Ints | None = None
    note: str | None = None

    def of(self, X: Array) -> Array:
        """The landmarks' rows of a table."""
        return X if self.rows is None else X[self.rows]


def draw(m: int, count: int, seed: Any) -> Ints:
    """Row numbers of landmarks, ascending; without a seed the same ones each time."""
    random = random_state(0 if seed is None else seed)
    return np.sort(random.permutation(m)[:count])


def asked_landmarks(m: int, k: int, count: int, seed: Any) -> Landmarks:
    """So many landmarks as the user asks for."""
    if not k < count <= m:
        raise InputError(Message("lle.landmarks", n=count, k=k, m=m))
    if count == m:
        return Landmarks()
    return Landmarks(draw(m, count, seed), _WORD.format(count, m))


def landmark_bytes(
    m: int, d: int, itemsize: int, k: int, axes: int, method: str
) -> tuple[float, float]:
    """What LLE of landmarks of m rows holds, whatever their number, and for each of them."""
    fixed = 2.0 * itemsize * m * axes  # coordinates of all rows, and of those being placed
    return fixed, lle_bytes(1, k, method) + itemsize * d


def count_for_memory(m: int, d: int, itemsize: int, k: int, axes: int, method: str) -> int | None:
    """How many landmarks fit the memory budget; None: all rows do."""
    budget = get_memory()
    if lle_bytes(m, k, method) <= budget:
        return None
    fixed, each = landmark_bytes(m, d, itemsize, k, axes, method)
    least = 2 * (k + 1)
    what = f"LLE of {m:,} rows with the fewest landmarks ({least})"
    require_memory(fixed + each * least, what, "Use fewer rows, and transform the others.")
    return min(m, MOST_LANDMARKS, max(least, int(0.8 * (budget - fixed) / each)))


def landmarks_for_memory(X: Array, k: int, axes: int, method: str, seed: Any) -> Landmarks:
    """As many landmarks as fit the memory budget, if all rows do not."""
    (m, d), budget = X.shape, get_memory()
    count = count_for_memory(m, d, X.dtype.itemsize, k, axes, method)
    if count is None:
        return Landmarks()
    sizes = {"needed": show_bytes(lle_bytes(m, k, method)), "budget": show_bytes(budget)}
    warn(Message("warn.lle_memory", m=m, n=count, **sizes), ApproximationWarning)
    note = f"{_WORD.format(count, m)} (memory budget {show_bytes(budget)})"
    return Landmarks(draw(m, count, seed), note)


def landmarks_for_time(
    X: Array, k: int, make_index: Callable[[Array], Any], seed: Any
) -> Landmarks:
    """Landmarks, if the factor of so many rows would take too long or not fit the budget."""
    m = len(X)
    if m <= MOST_ROWS:
        return Landmarks()
    rows = draw(m, MOST_LANDMARKS, seed)
    half = np.log(factor_of_lists(X[rows[::2]], k, make_index))
    whole = np.log(factor_of_lists(X[rows], k, make_index))
    # Each is a power of the number of rows: between 1 and 2 for memory, 1 and 3 for work.
    size, work = np.exp(whole + (whole - half) * np.log2(m / len(rows)))
    if work < MOST_WORK and 2 * size < get_memory():
        return Landmarks()
    warn(Message("warn.lle_time", m=m, n=len(rows)), ApproximationWarning)
    return Landmarks(rows, _WORD.format(len(rows), m))


def factor_of_lists(X: Array, k: int, make_index: Callable[[Array], Any]) -> Floats:
    """Bytes and multiplications of a factor with the pattern of I - W."""
    _, near = make_index(X).nearest(None, k)
    m = len(X)
    W = sparse.csr_array((np.ones(m * k), near.ravel(), np.arange(0, m * k + 1, k)), shape=(m, m))
    return np.array(factor_size(sparse.eye_array(m) - W / (2 * k)))
