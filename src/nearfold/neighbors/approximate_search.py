"""One approximate search: a sample checked exactly, then attempts until the recall is certified.

`approximate.py` lists the steps. An attempt that fails is followed by one with three times as many
cells; the candidates found so far are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearfold.blocks import spans
from nearfold.neighbors.certificate import Certificate, certify, sample_size
from nearfold.neighbors.lists import nearest_of
from nearfold.neighbors.probing import Candidates, Queries, cells_looked_at, ranks_of_cells
from nearfold.neighbors.selection import first_k
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order, one_blas_thread

if TYPE_CHECKING:
    from nearfold.neighbors.approximate import ApproximateIndex

_ATTEMPTS = 5
_ROUNDS = 4  # of neighbour descent in each attempt, at the most
LOOKS = 2 * _ATTEMPTS * (1 + _ROUNDS)  # intervals computed, two each time
_CHECKED = 512  # queries searched exactly for the certificate, at least
_PILOTS = 128  # and to choose the number of cells
_START = 0.6  # recall of the cells alone from which two rounds of descent reach 0.95
_LEAST_START = 0.4
_LEAST_CELLS = 4  # so that there are edges between cells to follow
_HARD = 16  # where that takes one cell in so many, descent has little to follow: probe them all
_BLOCK = 4096


def candidates_of(k: int) -> int:
    """Candidates that are kept for each query: some more than the neighbours asked for."""
    return k + max(5, k // 3)


def sample_count(recall: float) -> int:
    """Queries that are searched exactly; with no more of them all are."""
    return sample_size(recall, LOOKS, _CHECKED) + _PILOTS


class Search:
    """The queries of a search and what is known about them."""

    def __init__(self, index: ApproximateIndex, Q: Array | None, k: int) -> None:
        self.index, self.k = index, k
        self.cells, self.n_jobs = index.cells, index.n_jobs
        self.Q = index.X if Q is None else Q
        if Q is None:
            self.queries = Queries.of_rows(self.cells)
        else:
            points = index.placed(Q, False)
            home = self.cells.home(points, self.n_jobs)
            self.queries = Queries.of_points(points, home, self.cells.count)

    def run(self) -> tuple[tuple[Floats, Ints], Certificate]:
        """The lists, in the order of the queries, and their certificate."""
        count, m = self.cells.count, len(self.queries.order)
        rng = np.random.default_rng([self.index.seed, 1])
        drawn = rng.permutation(m)[: sample_count(self.index.recall)]
        p = self._cells_to_probe(np.sort(drawn[:_PILOTS]))
        checked = np.sort(drawn[_PILOTS:])
        reach = self._true_reach(checked)
        found = Candidates(m, candidates_of(self.k))
        for _ in range(_ATTEMPTS):
            everything = 2 * p >= count
            if self._attempt(found, None if everything else p, checked, reach) or everything:
                break
            p *= 3
        distance, row, proven = self._decide(found, self.queries, self.queries.order)
        sampled = self.queries.order[checked]
        right = (distance[sampled] <= reach[:, None]).mean(axis=1)
        return (distance, row), certify(proven, sampled, right, self.k, self.index.recall, LOOKS)

    def _attempt(self, found: Candidates, p: int | None, checked: Ints, reach: Floats) -> bool:
        """Probe p cells, or all, and walk as long as it helps; whether that is enough."""
        near = None
        if p is not None:
            near = self.cells.nearby(cells_looked_at(self.cells, p), self.n_jobs)
        found.probe(self.cells, self.queries, near, p or 0, self.n_jobs)
        recall, enough = self._look(found, checked, reach)
        if near is None or not self.queries.are_rows:
            return enough
        for _ in range(_ROUNDS):
            if enough:
                break
            found.walk(self.cells, self.n_jobs)
            before = recall
            recall, enough = self._look(found, checked, reach)
            if recall - before < (1 - before) / 4:
                break
        return enough

    def _look(self, found: Candidates, checked: Ints, reach: Floats) -> tuple[float, bool]:
        """The recall of the sample so far, and whether it certifies the one asked for."""
        queries, at = self.queries.some(checked), np.arange(len(checked))
        distance, _, proven = self._decide(found.some(checked), queries, at)
        right = (distance <= reach[:, None]).mean(axis=1)
        certificate = certify(np.zeros_like(proven), at, right, self.k, self.index.recall, LOOKS)
        return certificate.recall, certificate.holds

    def _cells_to_probe(self, pilots: Ints) -> int:
        """So many that the cells alone give descent, or the new rows, a good start."""
        queries, count, recall = self.queries.some(pilots), self.cells.count, self.index.recall
        found = self._see_all(queries)
        order = np.argsort(found.scores, axis=1, kind="stable")
        places = np.take_along_axis(found.places, order, 1)
        own = self.queries.are_rows  # then the first is most likely the query itself
        with one_blas_thread():
            rank = ranks_of_cells(self.cells, queries, places[:, own : self.k + own])
        level = (1 + recall) / 2
        if own:
            level = max(_LEAST_START, 1 - (1 - _START) * (1 - recall) / (1 - 0.95))
        p = max(_LEAST_CELLS, int(np.quantile(rank, level, method="higher")) + 1)
        return count if own and _HARD * p > count else p

    def _see_all(self, queries: Queries) -> Candidates:
        found = Candidates(len(queries.order), candidates_of(self.k) + 1)
        found.probe(self.cells, queries, None, 0, self.n_jobs)
        return found

    def _true_reach(self, checked: Ints) -> Floats:
        """The true distance of the k-th neighbour of some queries.

        Products with all rows, proven as every list is; the exact engine where that fails.
        """
        queries, are_rows = self.queries.some(checked), self.queries.are_rows
        at, own = np.arange(len(checked)), checked if are_rows else None
        distance, _, proven = self._decide(self._see_all(queries), queries, at, own)
        reach, rest = distance[:, -1], np.flatnonzero(~proven)
        if len(rest):
            Q = None if are_rows else self.Q
            again = nearest_of(self.index.exact, Q, queries.order[rest], self.k)[0]
            reach[rest] = again[:, -1]
        return reach

    def _decide(
        self, found: Candidates, queries: Queries, at: Ints, own: Ints | None = None
    ) -> tuple[Floats, Ints, Array]:
        """The first k of the candidates by their true distances, and which lists are proven.

        Query i of `queries` goes to row at[i]. own[i] is a place that it must not find.
        """
        m, k = len(queries.order), self.k
        distance, row = np.empty((m, k)), np.empty((m, k), dtype=np.int64)
        proven = np.empty(m, dtype=bool)

        def decide(span: slice) -> None:
            places = found.places[span]
            if own is not None:
                places = np.where(places == own[span, None], -1, places)
            rows = np.where(places >= 0, self.cells.order[places], np.iinfo(np.int64).max)
            squares = np.full(places.shape, np.inf)
            i, t = np.nonzero(places >= 0)
            squares[i, t] = self.index.squares(self.Q, queries.order[span][i], rows[i, t])
            squares, row[at[span]] = first_k(squares, rows, k)
            reach = np.sqrt(squares[:, -1]) * self.index.scale[1]
            proven[at[span]] = found.proven(
                span, queries.size[span], reach, queries.points.shape[1]
            )
            distance[at[span]] = self.index.distances(squares)

        for _ in map_in_order(decide, spans(m, _BLOCK), n_jobs=self.n_jobs):
            pass
        short = np.flatnonzero(~np.isfinite(distance[:, -1])) if at is queries.order else ()
        if len(short):  # cells with fewer rows than neighbours were asked for
            Q = None if queries.are_rows else self.Q
            distance[short], row[short] = nearest_of(self.index.exact, Q, short, k)
            proven[short] = True
        return distance, row, proven
