"""Landmark MDS: classical MDS of a few rows, and all the others placed by their distances to them.

Not an estimator but what ClassicalMDS and Isomap share when m x m distances are too many.

  1. choose L landmarks far from each other (max-min), keeping their distances (L, m) to all rows
  2. classical MDS of the landmarks: lam, V of B = -1/2 J (D o D) J
  3. each row by Gower's formula: z = lam^(-1/2) V^T (a - mean a), a = -1/2 dist^2 to landmarks
  4. the principal axes of all rows so placed, because those of the landmarks alone are those of an
     evenly spread sample; a few more axes than wanted are carried through step 3 for it

With all rows as landmarks it is classical MDS. de Silva and Tenenbaum (2004); step 4 is theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearfold.blocks import get_memory, require_memory, spans
from nearfold.linalg import axis_signs
from nearfold.linalg.centred import HeldSquares
from nearfold.linalg.krylov import TopPairs, estimate_absolute_trace
from nearfold.neighbors.distances import Distances
from nearfold.notation import Array, Floats, Ints
from nearfold.run import steps

MOST_LANDMARKS = 1000  # when the budget, not the user, asks for landmarks
_DENSE_ROWS = 1000  # up to here all eigenvalues are cheap
_EXTRA_AXES = 10
_SAMPLED = 10  # rows looked at for each landmark: max-min over all of a large table costs too much


def affordable_landmarks(m: int, itemsize: int, k: int) -> int:
    """How many landmarks the budget allows, if it allows enough of them for k axes."""
    count = min(MOST_LANDMARKS, m, int(get_memory() / 4 / (itemsize * m)))
    require_memory(
        4.0 * itemsize * m * (k + 2), f"Distances from {k + 2} landmarks to {m:,} rows", ""
    )
    return max(count, k + 2)


def spread_landmarks(
    distances_from: Callable[[int], Floats], m: int, count: int, dtype: Any, first: int = 0
) -> tuple[Ints, Floats]:
    """`count` rows, each the farthest from those before it, and their distances (count, m)."""
    rows = np.empty(count, dtype=np.int64)
    D = np.empty((count, m), dtype=dtype)
    nearest = np.full(m, np.inf)
    following = first
    for i in steps(range(count), "landmarks"):
        rows[i] = following
        D[i] = distances_from(following)
        np.minimum(nearest, D[i], out=nearest)
        nearest[following] = -1.0  # never twice, even among duplicates
        following = int(np.argmax(nearest))
    return rows, D


def spread_over_table(measure: Distances, count: int, dtype: Any) -> tuple[Ints, Floats]:
    """Landmarks of a table and their distances (count, m), spread over a sample if it is large."""
    X, m = measure.X, measure.X.shape[0]
    some = np.arange(m)
    if m > _SAMPLED * count:
        some = np.sort(np.random.default_rng(0).choice(m, _SAMPLED * count, replace=False))
    sample = measure.among(some)
    chosen, _ = spread_landmarks(
        lambda i: sample.from_rows(sample.X[i : i + 1])[0], len(some), count, dtype
    )
    landmarks = some[chosen]
    return landmarks, measure.from_rows(X[landmarks], dtype)


def positive_pairs(pairs: TopPairs, dtype: Any) -> tuple[Floats, Floats]:
    """Values clamped at rounding level, and vectors; those clamped get no direction."""
    lam, V = pairs.values.astype(np.float64), pairs.vectors.astype(np.float64)
    floor = 10 * float(np.finfo(dtype).eps) * max(float(lam.max(initial=0.0)), 0.0)
    kept = lam > floor
    return np.where(kept, lam, 0.0), V * kept


def negative_share(B: HeldSquares, pairs: TopPairs) -> float:
    """How much of sum |lam| negative eigenvalues hold; an estimate beyond a thousand rows."""
    if pairs.lowest >= -1e3 * np.finfo(B.dtype).eps * max(float(pairs.values[0]), 0.0):
        return 0.0
    if B.n <= _DENSE_ROWS:
        lam = np.linalg.eigvalsh(B.dense())
        return float(-lam[lam < 0].sum() / np.abs(lam).sum())
    absolute = estimate_absolute_trace(lambda V: B @ V.astype(B.dtype), B.n)
    return float(np.clip((absolute - B.trace) / 2 / absolute, 0.0, 1.0))


class GowerMap:
    """New rows from their distances to the rows of a classical MDS: linear in their squares."""

    def __init__(self, row_means: Floats, lam: Floats, V: Floats) -> None:
        self.row_means = row_means  # of A = -1/2 D o D
        self.axes = V / np.sqrt(np.where(lam > 0, lam, 1.0))
        self.offset = np.zeros(V.shape[1])

    def place(self, distances: Array) -> Floats:
        """Coordinates (q, d') of rows with these distances (q, m)."""
        Z = np.empty((len(distances), self.axes.shape[1]))
        for few in spans(len(distances), max(1, 2**20 // max(1, distances.shape[1]))):
            A = np.square(distances[few], dtype=np.float64)
            A *= -0.5
            A -= self.row_means
            Z[few] = A @ self.axes - self.offset
        return Z

    def rotated(self, centre: Floats, rotation: Floats) -> GowerMap:
        """The same map followed by Z -> (Z - centre) rotation."""
        turned = object.__new__(GowerMap)
        turned.row_means = self.row_means
        turned.axes = self.axes @ rotation
        turned.offset = centre @ rotation
        return turned


def landmark_mds(
    D: Floats, landmarks: Ints, k: int
) -> tuple[GowerMap, Floats, Floats, HeldSquares, TopPairs]:
    """The map, the embedding (m, k) of all rows and the sum of squares along each axis.

    And the operator of the landmarks with its eigenpairs.
    """
    among = np.ascontiguousarray(D[:, landmarks])
    among = (among + among.T) / 2  # a shortest path may round differently from its two ends
    B = HeldSquares(among)
    pairs = B.top(min(k + _EXTRA_AXES, len(landmarks)))
    lam, V = positive_pairs(pairs, D.dtype)
    rough = GowerMap(B.row_means, lam, V)
    Z = rough.place(D.T)
    centre = Z.mean(axis=0)
    Z -= centre
    values, R = np.linalg.eigh(Z.T @ Z)
    values, R = np.maximum(values[::-1][:k], 0.0), R[:, ::-1][:, :k]
    R = R * axis_signs((Z @ R).T)
    return rough.rotated(centre, R), Z @ R, values, B, pairs
