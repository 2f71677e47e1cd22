"""Squared Euclidean distances from one matrix product, and what the product may be off by.

    |a - b|^2 = |a|^2 + |b|^2 - 2 a.b

The product runs at BLAS speed but subtracts large numbers: centre the rows first, and where the
result is small beside |a|^2 + |b|^2 measure those pairs again from their differences.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.blocks import spans
from nearfold.notation import Array, Floats, Ints

_DOUBT = 1e-7  # a square this small beside those of its rows has lost half its digits
_CELLS = 2**17  # values of the differences held at a time: they stay in the cache


def square_norms(X: Array) -> Floats:
    """|x|^2 of each row, in the dtype of X."""
    return np.asarray(np.einsum("ij,ij->i", X, X))


def squared_distances(A: Array, B: Array, a: Array | None = None, b: Array | None = None) -> Array:
    """|a_i - b_j|^2 from one product, in the dtype of the rows; may be slightly negative.

    `a` and `b` are the squared norms of the rows, where they are known.
    """
    squares = A @ B.T
    squares *= -2.0
    squares += (square_norms(A) if a is None else a)[:, None]
    squares += square_norms(B) if b is None else b  # (10.3)
    return np.asarray(squares)


def squared_distance_error(d: int, reach: Any, offset: float, dtype: Any = np.float64) -> Any:
    """A bound of the error of `squared_distances` for rows of d columns centred about a point.

    `reach` is |a| + |b| of the centred rows and `offset` the length of the point: rounding of the
    product and its sums, and of the centring.
    """
    eps = float(np.finfo(dtype).eps)
    return 4 * eps * ((d + 4) * reach**2 + offset * reach)


def pair_squares(A: Array, B: Array, i: Ints, j: Ints) -> Floats:
    """|a_i - b_j|^2 of some pairs from their differences, in float64."""
    squares = np.empty(len(i))
    for few in spans(len(i), max(1, _CELLS // max(1, A.shape[1]))):
        difference = np.subtract(A[i[few]], B[j[few]], dtype=np.float64)
        squares[few] = square_norms(difference)
    return squares


def accurate_squared_distances(A: Array, B: Array) -> Floats:
    """All |a_i - b_j|^2 of centred rows, each to at least half its digits; none negative."""
    a, b = square_norms(A), square_norms(B)
    sizes = np.add.outer(a, b)
    squares = A @ B.T
    squares *= -2.0
    squares += sizes  # at once, so that the distances of rows to themselves are symmetric
    i, j = np.nonzero(squares <= _DOUBT * sizes)
    squares[i, j] = pair_squares(A, B, i, j)
    return squares
