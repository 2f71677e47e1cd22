"""All measures of a space in one pass over the ranks, which dominate the cost.

For each judged row the distances to all others are sorted in both spaces; trustworthiness,
continuity, overlap, the co-ranking counts and the row's stress are read off. Time O(m n d) for m
judged rows of n, and the sorts; memory a block of rows per thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.errors import warn
from nearfold.notation import Floats, Ints
from nearfold.quality.co_ranking import CoRanking, RankCounts
from nearfold.quality.neighborhoods import row_trustworthiness
from nearfold.quality.passes import over_rows, ranks_of
from nearfold.quality.result import Judged, Quality, check_neighbors, choose_rows
from nearfold.quality.shepard import Shepard, shepard_of_spaces
from nearfold.quality.spaces import Space, check_spaces, many_pairs
from nearfold.quality.stress import Stress, StressSums


@dataclass(frozen=True, eq=False)
class SpaceQuality:
    """Every measure of a space. `print` it, or take `summary()`; per-row values are in each."""

    trustworthiness: Quality
    continuity: Quality
    overlap: Quality
    co_ranking: CoRanking
    shepard: Shepard
    stress: Stress
    n_neighbors: int
    n_rows: int
    rows: Ints  # those that were judged
    notice: str | None

    @property
    def n_judged(self) -> int:
        """How many rows were judged."""
        return len(self.rows)

    def summary(self) -> dict[str, float]:
        """The numbers alone, by name."""
        ranks = self.co_ranking
        return {
            "trustworthiness": self.trustworthiness.value,
            "continuity": self.continuity.value,
            "overlap": self.overlap.value,
            "auc_log_k": ranks.auc.value,
            "q_local": ranks.q_local,
            "q_global": ranks.q_global,
            "shepard": self.shepard.spearman,
            "stress": self.stress.value,
        }

    def __str__(self) -> str:
        k, ranks, stress = self.n_neighbors, self.co_ranking, self.stress
        lines = [
            f"Neighbours ({k} nearest): trustworthiness {self.trustworthiness}, continuity "
            f"{self.continuity}, overlap {self.overlap}",
            f"All sizes: R_NX on a log scale {ranks.auc}, local {ranks.q_local:.4f} (up to "
            f"{ranks.k_max:,} neighbours), global {ranks.q_global:.4f}",
            f"Distances: rank correlation {self.shepard.spearman:.4f}, stress {stress.value:.4f}",
            *([self.notice] if self.notice else []),
        ]
        return "\n".join(lines)


def judge_space(
    X: Any,
    Z: Any,
    *,
    n_neighbors: int = 10,
    metric: Any = "euclidean",
    sample: int | None = None,
    n_pairs: int = 10_000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> SpaceQuality:
    """Judge Z, (n, d') coordinates of the rows of X, by how X's neighbours and distances are kept.

    n_neighbors: for trustworthiness, continuity and overlap; lowered with a warning if it is not
        less than half of the rows.
    metric: that of X; distances in Z are Euclidean.
    sample: how many rows to judge, each against all. None: all; of tables beyond 20,000 rows as
        many as make 400 million pairs. Then there is a notice, each measure has an interval, and
        per-row values are NaN for the rows not judged.
    n_pairs: drawn for the Shepard diagram.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold import PCA
    >>> from nearfold.quality import judge_space
    >>> X = load_iris().data
    >>> found = judge_space(X, PCA(2).fit_transform(X))
    >>> round(found.trustworthiness.value, 2), found.trustworthiness.per_row.shape
    (0.98, (150,))
    """
    original, embedded = check_spaces(X, Z, metric)
    k = _fitting_neighbors(n_neighbors, original.n)
    judged = choose_rows(original.X, sample, random_state)
    near, counts, auc, sums = _one_pass(original, embedded, judged, k, n_jobs)
    return SpaceQuality(
        trustworthiness=judged.quality(near[:, 0], k),
        continuity=judged.quality(near[:, 1], k),
        overlap=judged.quality(near[:, 2], k),
        co_ranking=RankCounts(original.n).finish(counts, auc, judged),
        shepard=shepard_of_spaces(original, embedded, n_pairs, random_state),
        stress=sums[1].finish(sums[0], judged),
        n_neighbors=k,
        n_rows=original.n,
        rows=judged.rows,
        notice=judged.notice,
    )


def _fitting_neighbors(n_neighbors: int, n: int) -> int:
    most = (n - 1) // 2
    if n_neighbors > most:
        warn(f"n_neighbors={n_neighbors} is not less than half of the {n} rows; {most} are used.")
        n_neighbors = most
    return check_neighbors(n_neighbors, n)


def _one_pass(
    original: Space, embedded: Space, judged: Judged, k: int, n_jobs: int | None
) -> tuple[Floats, Ints, Floats, tuple[Floats, StressSums]]:
    """Per judged row (trust, continuity, overlap), AUC and sums of stress; counts of all."""
    n, many = original.n, many_pairs(len(judged.rows), original.n)
    counting, sums = RankCounts(n), StressSums(original, embedded, judged.rows)

    def judge(rows: Ints, measured: list[Floats]) -> tuple[Ints, list[tuple[float, ...]]]:
        counts = counting.zeros()
        found: list[tuple[float, ...]] = []
        for i, x, z in zip(rows, *measured, strict=True):
            X_order, Z_order = original.order(int(i), x, many), embedded.order(int(i), z, many)
            X_rank, Z_rank = ranks_of(X_order), ranks_of(Z_order)
            there = X_rank[Z_order[:k]]
            trust = row_trustworthiness(there, n)
            kept = row_trustworthiness(Z_rank[X_order[:k]], n)
            overlap = float((there <= k).mean())
            auc = counting.add(counts, X_rank, Z_order, many)
            found.append((trust, kept, overlap, auc, *sums.of_row(x, z)))
        return counts, found

    total = counting.zeros()
    found: list[tuple[float, ...]] = []
    blocks = over_rows((original, embedded), judged.rows, judge, "judging the space", n_jobs)
    for _, (counts, part) in blocks:
        total += counts
        found += part
    columns = np.array(found)
    return columns[:, :3], total, columns[:, 3], (columns[:, 4:], sums)
