"""The co-ranking matrix and its summaries (Lee and Verleysen, 2009 and 2010).

Symbols: N rows; q[k, l] how many pairs (i, j) have j at place k from i in the original space and at
place l in the new one. K is the size of a neighbourhood, 1 to N - 1.

    Q_NX(K)  = 1 / (K N) sum_{k <= K, l <= K} q[k, l]       the overlap of the K nearest
    B_NX(K)  = 1 / (K N) (sum_{l < k <= K} q - sum_{k < l <= K} q)
               of the pairs kept: > 0 more came nearer (intrusive), < 0 more moved off (extrusive)
    R_NX(K)  = ((N - 1) Q_NX(K) - K) / (N - 1 - K)          0 by chance, 1 if perfect; K <= N - 2
    AUC      = sum R_NX(K) / K over sum 1 / K               small neighbourhoods count most
    K_max    = the K at which Q_NX(K) - K / (N - 1) is largest: where local ends
    Q_local  = the mean of Q_NX(K) for K <= K_max;  Q_global = the mean for K >= K_max

No N x N matrix is needed for these: a pair counts in Q_NX(K) for all K from the larger of its two
places on, so a histogram of those, N numbers, is enough. AUC is a mean over rows: each row has one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearfold.blocks import require_memory
from nearfold.notation import Array, Floats, Ints
from nearfold.quality.passes import over_rows, ranks_of
from nearfold.quality.result import Judged, Quality, choose_rows
from nearfold.quality.spaces import check_spaces, many_pairs


@dataclass(frozen=True, eq=False)
class CoRanking:
    """How neighbourhoods of every size are kept. Curves: entry K - 1 is for K neighbours."""

    q_nx: Floats = field(repr=False)  # (N - 1)
    r_nx: Floats = field(repr=False)  # (N - 2)
    b_nx: Floats = field(repr=False)  # (N - 1)
    auc: Quality
    k_max: int
    q_local: float
    q_global: float
    n_rows: int
    n_judged: int
    notice: str | None = None
    matrix: Array | None = field(default=None, repr=False)  # (N - 1, N - 1), if asked for

    @property
    def n_neighbors(self) -> Ints:
        """The K of each entry of `q_nx` and `b_nx`, for the axis of a picture."""
        return np.arange(1, self.n_rows)


class RankCounts:
    """Counts of the larger of the two places of each pair, and the AUC of each row."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.places = np.arange(1, n, dtype=np.int32)
        K = np.arange(1.0, n - 1)
        total = (1 / K).sum()
        # A pair whose larger place is m adds 1 / K to the row's Q_NX(K) for all K >= m.
        gain = (n - 1) / (K * K * (n - 1 - K)) / total
        self._gain = np.concatenate([[0.0], np.cumsum(gain[::-1])[::-1], [0.0]])
        self._chance = float((1 / (n - 1 - K)).sum() / total)

    def zeros(self) -> Ints:
        """Nothing counted yet: pairs by larger place, and of them intrusions less extrusions."""
        return np.zeros((2, self.n), dtype=np.int64)

    def add(self, counts: Ints, rank: Array, order: Array, many: bool) -> float:
        """Count one row, given original ranks and the new order; return the row's AUC."""
        if many:
            from nearfold.kernels.ranks import count_places

            return float(count_places(rank, order, self._gain, counts)) - self._chance
        there = rank[order]  # the original place of the first, second, ... in the new space
        larger = np.maximum(there, self.places)
        counts[0] += np.bincount(larger, minlength=self.n)
        counts[1] += np.bincount(there[there > self.places], minlength=self.n)
        counts[1] -= np.bincount(self.places[there < self.places], minlength=self.n)
        return float(self._gain[larger].sum()) - self._chance

    def finish(
        self, counts: Ints, auc: Floats, judged: Judged, matrix: Array | None = None
    ) -> CoRanking:
        """The curves and their summaries."""
        n, K = self.n, np.arange(1.0, self.n)
        both = counts[:, 1:].cumsum(axis=1) / (K * len(judged.rows))
        q_nx, b_nx = both[0], both[1]
        r_nx = ((n - 1) * q_nx[:-1] - K[:-1]) / (n - 1 - K[:-1])
        k_max = int(np.argmax(q_nx - K / (n - 1))) + 1
        return CoRanking(
            q_nx=q_nx,
            r_nx=r_nx,
            b_nx=b_nx,
            auc=judged.quality(auc, limits=(-1.0, 1.0)),
            k_max=k_max,
            q_local=float(q_nx[:k_max].mean()),
            q_global=float(q_nx[k_max - 1 :].mean()),
            n_rows=n,
            n_judged=len(judged.rows),
            notice=judged.notice,
            matrix=matrix,
        )


def co_ranking(
    X: Any,
    Z: Any,
    *,
    metric: Any = "euclidean",
    matrix: bool = False,
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> CoRanking:
    """Compare all neighbourhoods of X with those of Z.

    `matrix=True` keeps the whole co-ranking matrix too, if it fits the memory budget. `sample`: how
    many rows to judge, each against all; None: all, of tables beyond 20,000 rows as many as make
    the same number of pairs, with a notice and an interval.

    Examples
    --------
    >>> from nearfold.quality import co_ranking
    >>> found = co_ranking([[0, 0], [1, 0], [3, 0], [7, 1]], [[0], [1], [3], [7]])
    >>> found.auc.value, found.k_max, found.q_local
    (1.0, 1, 1.0)
    """
    original, embedded = check_spaces(X, Z, metric)
    n = original.n
    judged = choose_rows(original.X, sample, random_state)
    counting, many = RankCounts(n), many_pairs(len(judged.rows), n)
    kept = None
    if matrix:
        require_memory(16.0 * n * n, f"A co-ranking matrix of {n:,} rows", "Use its curves.")
        kept = np.zeros((n, n), dtype=np.int64)

    def judge(rows: Ints, measured: list[Floats]) -> tuple[Ints, list[float], list[Array]]:
        counts, auc, there = counting.zeros(), [], []
        for i, x, z in zip(rows, *measured, strict=True):
            rank = ranks_of(original.order(int(i), x, many))
            order = embedded.order(int(i), z, many)
            auc.append(counting.add(counts, rank, order, many))
            if kept is not None:
                there.append(rank[order])
        return counts, auc, there

    total, auc_of_rows = counting.zeros(), []
    for _, (counts, auc, there) in over_rows(
        (original, embedded), judged.rows, judge, "co-ranking", n_jobs
    ):
        total += counts
        auc_of_rows += auc
        for places in there:  # a row has each place once, so no entry is hit twice at a time
            assert kept is not None
            kept[places, counting.places] += 1
    whole = None if kept is None else kept[1:, 1:]
    return counting.finish(total, np.array(auc_of_rows), judged, whole)
