"""Neighbours from distances that are already known: a square matrix, dense or sparse.

Row i holds the distances from row i to every fitted row. A sparse matrix holds only some of them;
those it lacks are unknown, not zero, and its explicit zeros are distances.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks import spans
from nearfold.errors import InputError
from nearfold.inputs import refuse_nonfinite
from nearfold.neighbors.pairs import Pairs, radii
from nearfold.neighbors.selection import first_k_of_pairs, nearest_in_tiles
from nearfold.notation import Floats, Ints
from nearfold.state import Sizes, State, any_of, array, matrix, optional, require

_QUERIES, _COLUMNS = 256, 4096  # of a tile


def _check_square(values: dict[str, Any], sizes: Sizes) -> None:
    """One column per row, so that queries have as many; distances are not negative."""
    require(sizes["n"] == sizes["d"], "X: not square")
    if sparse.issparse(values["X"]):
        require(values["X"].format == "csr", "X: not in compressed rows")
        require(values["X"].data.min(initial=0) >= 0, "X: negative distances")


class PrecomputedIndex:
    """A square matrix of distances as an index; queries are rows of distances to its columns."""

    fitted_state = State(
        _check_square,
        X=any_of(array("n d", least=0), matrix("n d")),
        names=optional(array("n", "any")),
    )

    def __init__(self, X: Any, names: Any = None) -> None:
        self.X = X
        self.names = names
        if X.shape[0] != X.shape[1]:
            raise InputError(
                f"Precomputed distances must be a square matrix, one row and one column per "
                f"sample; this one is {X.shape[0]} x {X.shape[1]}."
            )
        self._check(X)

    @property
    def n_rows(self) -> int:
        """Number of rows searched."""
        return int(self.X.shape[0])

    def part(self, rows: Any) -> PrecomputedIndex:
        """An index of some of the rows, whose queries have as many columns."""
        return PrecomputedIndex(self.X[rows][:, rows])

    def nearest(self, Q: Any, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        D = self.X if Q is None else self._check(Q)
        m = D.shape[0]
        distance, row = np.empty((m, k)), np.empty((m, k), dtype=np.int64)
        for span in spans(m, _QUERIES):
            own = np.arange(span.start, span.stop) if Q is None else None
            if sparse.issparse(D):
                distance[span], row[span] = _nearest_in_graph(D[span], k, span.start, own)
            else:
                read = partial(_read, D[span])
                distance[span], row[span] = nearest_in_tiles(
                    read, span.stop - span.start, self.n_rows, k, _COLUMNS, own
                )
        return distance, row

    def within(self, Q: Any, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        D = self.X if Q is None else self._check(Q)
        reach = radii(radius, D.shape[0])
        pairs = Pairs(D.shape[0])
        for span in spans(D.shape[0], _QUERIES):
            if sparse.issparse(D):
                query, row, distance = _entries(D[span])
            else:
                query, row = np.nonzero(reach[span, None] >= D[span])
                distance = D[span][query, row]
            query = query + span.start
            keep = distance <= reach[query]
            if Q is None:
                keep &= query != row
            pairs.reserve(len(query[keep]))
            pairs.add((query[keep], row[keep], np.asarray(distance[keep], dtype=np.float64)))
        return pairs.sorted()

    def _check(self, D: Any) -> Any:
        refuse_nonfinite(D, self.names)
        values = D.data if sparse.issparse(D) else D
        if values.size and values.min() < 0:
            raise InputError("Negative values in data passed to precomputed distance matrix.")
        return D


def _read(D: Floats, columns: slice) -> Floats:
    return np.array(D[:, columns], dtype=np.float64)  # a copy: the caller marks entries


def _entries(graph: Any) -> tuple[Ints, Ints, Floats]:
    """(query, row, distance) of the entries of a CSR matrix, explicit zeros included."""
    query = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    return query, graph.indices.astype(np.int64), graph.data.astype(np.float64)


def _nearest_in_graph(graph: Any, k: int, first: int, own: Ints | None) -> tuple[Floats, Ints]:
    query, row, distance = _entries(graph)
    if own is not None:
        keep = row != own[query]
        query, row, distance = query[keep], row[keep], distance[keep]
    m = graph.shape[0]
    found = np.bincount(query, minlength=m)
    if found.min(initial=k) < k:
        short = int(found.argmin())
        raise InputError(
            f"{k} neighbors per samples are required, but row {first + short} has only "
            f"{found[short]} neighbors in precomputed graph matrix. Decrease number of neighbors "
            "used or recompute the graph with more neighbors."
        )
    return first_k_of_pairs(query, row, distance, m, k)
