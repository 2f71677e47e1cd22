"""Neighbours by angle: the cosine distance as a Euclidean one between unit rows.

    1 - cos(a, b) = |u - v|^2 / 2,   u = a / |a|,   v = b / |b|

Computed as 1 - u.v nothing is left of small angles, such as between rows far from the origin, and
a product of matrices rounds by the size of its tiles. So products only screen (plain.py), and the
differences decide, pair by pair. A row of zeros has no angle: its distance to every row is 1.
"""

from __future__ import annotations

import numpy as np

from nearfold.blocks import spans
from nearfold.linalg import square_norms
from nearfold.neighbors.plain import PlainIndex
from nearfold.notation import Array, Floats, Ints

_CELLS = 2**16  # values of the differences held at a time
_ROUNDING = (8 * float(np.finfo(np.float64).eps)) ** 2  # of |u - v|^2 for parallel rows


class CosineIndex(PlainIndex):
    """Dense rows to search by angle, tile against tile."""

    def __init__(self, X: Array, n_jobs: int | None = None) -> None:
        super().__init__(X, n_jobs, angle_squares)

    def _placed(self, A: Array, is_row: bool) -> Floats:
        return unit_rows(A, is_row)

    def _distance(self, squares: Floats) -> Floats:
        return squares / 2

    def _square(self, distance: Floats) -> Floats:
        return 2 * np.minimum(distance, 2.0)


def unit_rows(A: Array, is_row: bool) -> Floats:
    """Rows of length one in d + 2 columns.

    A row of zeros gets a direction of its own, another one among queries than among the rows
    searched, so that it is at right angles to all.
    """
    m, d = A.shape
    U = np.zeros((m, d + 2))
    largest = np.abs(A).max(axis=1, keepdims=True, initial=0.0)  # so that squares stay in range
    U[:, :d] = A / np.where(largest > 0, largest, 1.0).astype(np.float64)
    length = np.sqrt(square_norms(U[:, :d]))
    U[:, :d] /= np.where(length > 0, length, 1.0)[:, None]
    U[length == 0, d + is_row] = 1.0
    return U


def angle_squares(Q: Array, X: Array, i: Ints, j: Ints) -> Floats:
    """|u - v|^2 of some pairs of queries and rows, 0 where it is the rounding of parallel ones."""
    squares = np.empty(len(i))
    for few in spans(len(i), max(1, _CELLS // (X.shape[1] + 2))):
        difference = unit_rows(Q[i[few]], False)
        difference -= unit_rows(X[j[few]], True)
        no_angle = difference[:, -2:].any(axis=1)
        squares[few] = np.where(no_angle, 2.0, square_norms(difference))
    return np.where(squares > _ROUNDING, squares, 0.0)
