"""Landmark MDS: classical MDS of a few rows, and all the others placed by their distances to them.

Not an estimator but what ClassicalMDS, MDS and Isomap share when m x m distances are too many.

  1. choose L landmarks far from each other (max-min), keeping the distances (m, L) of all rows
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

from nearfold.blocks import get_memory, require_memory, show_bytes
from nearfold.errors import ApproximationWarning, InputError, warn
from nearfold.linalg import axis_signs
from nearfold.linalg.centred import CentredSquaredDistances
from nearfold.linalg.gower import GowerMap, positive_pairs
from nearfold.linalg.krylov import TopPairs, estimate_absolute_trace
from nearfold.neighbors.distances import Distances
from nearfold.notation import Floats, Ints
from nearfold.run import one_blas_thread, steps

MOST_LANDMARKS = 1000  # when the budget, not the user, asks for landmarks
_DENSE_ROWS = 1000  # up to here all eigenvalues are cheap
_EXTRA_AXES = 10
_SAMPLED = 10  # rows looked at for each landmark: max-min over all of a large table costs too much


class LandmarkCount:
    """How many landmarks to use, and the sentence that records it.

    `n_landmarks`, the parameter, pins the number. Without it the exact method is used where its
    `needed` bytes fit the memory budget, and else as many landmarks as a share of the budget
    holds, at most 1,000.
    """

    def __init__(self, count: int | None, note: str | None) -> None:
        self.count = count  # None: the exact method
        self.note = note  # for `approximation_`

    @classmethod
    def choose(
        cls,
        m: int,
        k: int,
        n_landmarks: int | None,
        *,
        needed: float,
        itemsize: int,
        method: str,
        held: float = 0.0,
    ) -> LandmarkCount:
        """The count for m rows and k axes.

        `held` is memory that is in use whatever the count, `itemsize` that of a distance to a
        landmark, and `method` what the result is called.
        """
        note = f"{method}: {{}} landmarks of {m:,} rows"
        if n_landmarks is not None:
            if not k < n_landmarks <= m:
                raise InputError(
                    f"n_landmarks={n_landmarks}: there must be more than n_components={k}, and at "
                    f"most the {m} rows."
                )
            return cls(int(n_landmarks), note.format(int(n_landmarks)))
        budget = get_memory()
        if needed + held <= budget:
            return cls(None, None)
        fixed = held + 24.0 * m * (k + _EXTRA_AXES)  # coordinates, before and after their rotation
        require_memory(
            fixed + itemsize * m * (k + 2),
            f"{method} of {m:,} rows with the fewest landmarks ({k + 2})",
            "Use a sample of the rows.",
        )
        count = max(k + 2, min(MOST_LANDMARKS, m, int(0.7 * (budget - fixed) / (itemsize * m))))
        warn(
            f"the distances between {m:,} rows need {show_bytes(needed)}, and the memory budget is "
            f"{show_bytes(budget)}: {method} with {count} landmarks is used (see approximation_; "
            "n_landmarks sets their number).",
            ApproximationWarning,
        )
        return cls(count, f"{note.format(count)} (memory budget {show_bytes(budget)})")


def spread_landmarks(
    distances_from: Callable[[int], Floats], m: int, count: int, dtype: Any, first: int = 0
) -> tuple[Ints, Floats]:
    """`count` rows, each the farthest from those before it, and distances (m, count) to them."""
    rows = np.empty(count, dtype=np.int64)
    D = np.empty((m, count), dtype=dtype)
    nearest = np.full(m, np.inf)
    following = first
    for i in steps(range(count), "landmarks"):
        rows[i] = following
        D[:, i] = found = distances_from(following)
        np.minimum(nearest, found, out=nearest)
        nearest[following] = -1.0  # never twice, even among duplicates
        following = int(np.argmax(nearest))
    return rows, D


def spread_over_table(measure: Distances, count: int, dtype: Any) -> tuple[Ints, Floats]:
    """Landmarks spread over a table (or a sample of it), and distances (m, count) to them."""
    X, m = measure.X, measure.X.shape[0]
    some = np.arange(m)
    if m > _SAMPLED * count:
        some = np.sort(np.random.default_rng(0).choice(m, _SAMPLED * count, replace=False))
    sample = measure.among(some)
    chosen, _ = spread_landmarks(
        lambda i: sample.from_rows(sample.X[i : i + 1])[0], len(some), count, dtype
    )
    landmarks = some[chosen]
    return landmarks, measure.among(landmarks).from_rows(X, dtype)


@one_blas_thread()
def negative_share(B: CentredSquaredDistances, pairs: TopPairs) -> float:
    """How much of sum |lam| negative eigenvalues hold; an estimate beyond a thousand rows."""
    if pairs.lowest >= -1e3 * np.finfo(B.dtype).eps * max(float(pairs.values[0]), 0.0):
        return 0.0
    if B.n <= _DENSE_ROWS:
        lam = np.linalg.eigvalsh(B.dense())
        return float(-lam[lam < 0].sum() / np.abs(lam).sum())
    absolute = estimate_absolute_trace(lambda V: B @ V.astype(B.dtype), B.n)
    return float(np.clip((absolute - B.trace) / 2 / absolute, 0.0, 1.0))


def landmark_mds(
    D: Floats, landmarks: Ints, k: int
) -> tuple[GowerMap, Floats, Floats, CentredSquaredDistances, TopPairs]:
    """The map, the embedding (m, k) of all rows and the sum of squares along each axis.

    And the operator of the landmarks with its eigenpairs. D (m, L) holds distances to landmarks.
    """
    among = D[landmarks]
    among = (among + among.T) / 2  # a shortest path may round differently from its two ends
    B = CentredSquaredDistances(among)  # (10.10)
    pairs = B.top(min(k + _EXTRA_AXES, len(landmarks)))
    lam, V = positive_pairs(pairs)
    rough = GowerMap.from_eigenpairs(B.row_means, lam, V)
    Z = rough.place(D)
    centre = Z.mean(axis=0)
    Z -= centre
    with one_blas_thread():
        values, R = np.linalg.eigh(Z.T @ Z)
        values, R = np.maximum(values[::-1][:k], 0.0), R[:, ::-1][:, :k]
        R = R * axis_signs((Z @ R).T)
        return rough.rotated(centre, R), Z @ R, values, B, pairs
