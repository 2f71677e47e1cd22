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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.blocks import get_memory, require_memory, show_bytes
from nearfold.errors import ApproximationWarning, InputError, warn
from nearfold.linalg import axis_signs
from nearfold.linalg.centred import CentredSquaredDistances
from nearfold.linalg.gower import GowerMap, positive_pairs
from nearfold.linalg.krylov import TopPairs, estimate_absolute_trace
from nearfold.methods.reduction import padded
from nearfold.neighbors.distances import Distances
from nearfold.notation import Floats, Ints
from nearfold.run import one_blas_thread, steps

MOST_LANDMARKS = 1000  # when the budget, not the user, asks for landmarks
_DENSE_ROWS = 1000  # up to here all eigenvalues are cheap
_EXTRA_AXES = 10
_SAMPLED = 10  # rows looked at for each landmark: max-min over all of a large table costs too much


@dataclass(frozen=True)
class LandmarkCount:
    """How many landmarks to use, and the sentence that records it.

    `n_landmarks`, the parameter, pins the number. Without it the exact method is used where its
    `needed` bytes fit the memory budget, and else as many landmarks as a share of the budget
    holds, at most 1,000.
    """

    count: int | None  # None: the exact method
    note: str | None  # for `approximation_`
    needed: float = 0.0  # bytes of what was chosen, at its peak

    @classmethod
    def choose(
        cls, m: int, k: int, n_landmarks: int | None, *, needed: float, method: str, **sizes: Any
    ) -> LandmarkCount:
        """What `decide` says, and a warning where the budget has decided for landmarks."""
        found = cls.decide(m, k, n_landmarks, needed=needed, method=method, **sizes)
        if n_landmarks is None and found.count is not None:
            warn(
                f"the distances between {m:,} rows need {show_bytes(needed)}, and the memory "
                f"budget is {show_bytes(get_memory())}: {method} with {found.count} landmarks is "
                "used (see approximation_; n_landmarks sets their number).",
                ApproximationWarning,
            )
        return found

    @classmethod
    def decide(
        cls,
        m: int,
        k: int,
        n_landmarks: int | None,
        *,
        needed: float,
        itemsize: int,
        method: str,
        held: float = 0.0,
        per_pair: float = 48.0,
    ) -> LandmarkCount:
        """The count for m rows and k axes under the present budget.

        `held` is memory that is in use whatever the count, `itemsize` that of a distance to a
        landmark (0 if those of all rows are not kept), `per_pair` what is needed for each pair of
        landmarks (their distances and all eigenvalues), and `method` what the result is called.
        """
        note = f"{method}: {{}} landmarks of {m:,} rows"
        fixed = held + 24.0 * m * (k + _EXTRA_AXES)  # coordinates, before and after their rotation
        if n_landmarks is not None:
            if not k < n_landmarks <= m:
                raise InputError(
                    f"n_landmarks={n_landmarks}: there must be more than n_components={k}, and at "
                    f"most the {m} rows."
                )
            pairs = per_pair * n_landmarks**2 + itemsize * m * n_landmarks
            return cls(int(n_landmarks), note.format(int(n_landmarks)), fixed + pairs)
        budget = get_memory()
        if needed + held <= budget:
            return cls(None, None, needed + held)
        require_memory(
            fixed + itemsize * m * (k + 2),
            f"{method} of {m:,} rows with the fewest landmarks ({k + 2})",
            "Use a sample of the rows.",
        )
        # per_pair L^2 + itemsize m L = what is left of the budget
        slope, left = itemsize * m, 0.8 * (budget - fixed)  # the rest is for tiles
        most = (np.sqrt(slope**2 + 4 * per_pair * left) - slope) / (2 * per_pair)
        count = max(k + 2, min(MOST_LANDMARKS, m, int(most)))
        pairs = per_pair * count**2 + itemsize * m * count
        return cls(
            count, f"{note.format(count)} (memory budget {show_bytes(budget)})", fixed + pairs
        )


def spread_landmarks(
    distances_from: Callable[[int], Floats], m: int, count: int, dtype: Any, first: int = 0
) -> tuple[Ints, Floats]:
    """`count` rows, each the farthest from those before it, and distances (m, count) to them."""
    D = np.empty((m, count), dtype=dtype)
    rows = np.empty(count, dtype=np.int64)
    for i, (row, distance) in enumerate(farthest_rows(distances_from, m, count, first)):
        rows[i], D[:, i] = row, distance
    return rows, D


def farthest_rows(
    distances_from: Callable[[int], Floats], m: int, count: int, first: int = 0
) -> Iterator[tuple[int, Floats]]:
    """Rows, each the farthest from those before it, with their distances (m,) to all rows."""
    nearest = np.full(m, np.inf)
    following = first
    for _ in steps(range(count), "landmarks"):
        distance = distances_from(following)
        yield following, distance
        np.minimum(nearest, distance, out=nearest)
        nearest[following] = -1.0  # never twice, even among duplicates
        following = int(np.argmax(nearest))


def spread_over_table(measure: Distances, count: int, dtype: Any) -> tuple[Ints, Floats]:
    """Landmarks spread over a table (or a sample of it), and distances (m, count) to them."""
    X, m = measure.X, measure.X.shape[0]
    if m <= _SAMPLED * count:
        return spread_landmarks(lambda i: measure.from_rows(X[i : i + 1])[0], m, count, dtype)
    landmarks = landmarks_of_table(measure, count)
    return landmarks, measure.among(landmarks).from_rows(X, dtype)


def landmarks_of_table(measure: Distances, count: int) -> Ints:
    """The landmarks alone."""
    m = measure.X.shape[0]
    some = np.arange(m)
    if m > _SAMPLED * count:
        some = np.sort(np.random.default_rng(0).choice(m, _SAMPLED * count, replace=False))
        measure = measure.among(some)
    chosen = farthest_rows(lambda i: measure.from_rows(measure.X[i : i + 1])[0], len(some), count)
    return some[[row for row, _ in chosen]]


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


def mean_of_both(D: Floats) -> Floats:
    """(D + D^T) / 2, in place."""
    D += D.T.copy()
    D /= 2
    return D


@dataclass(frozen=True)
class Scaling:
    """What classical MDS finds: of all rows (Algorithm 10.1), or of landmarks."""

    lam: Floats  # (k,) eigenvalues, zero where they are not positive
    Z: Floats  # (m, k) coordinates
    place: GowerMap  # of new rows
    B: CentredSquaredDistances
    pairs: TopPairs  # of B
    V: Floats | None = None  # (m, k) eigenvectors, zero where the eigenvalue is; not of landmarks


def landmark_mds(D: Floats, landmarks: Ints, k: int) -> Scaling:
    """The embedding (m, k) of all rows by their distances D (m, L) to landmarks.

    The eigenvalues are the sums of squares along its axes.
    """
    among = mean_of_both(D[landmarks])  # a shortest path may round differently from its two ends
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
        place = rough.rotated(centre, R)
        return Scaling(padded(values, k), padded(Z @ R, k), place, B, pairs)
