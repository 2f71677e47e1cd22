"""Landmark Isomap: geodesics to a few rows alone, where those between all are too many.

Not an estimator but Isomap's way beyond the memory budget, or with `n_landmarks`.
"""

from __future__ import annotations

from typing import Any

from nearfold.graph import ConnectedGraph, Graph, tree_from
from nearfold.graph.paths import (
    geodesics_bytes,
    geodesics_from,
    is_small,
    spread_nodes,
)
from nearfold.inputs import refuse_extreme
from nearfold.linalg.krylov import lanczos_bytes
from nearfold.methods.isomap_extension import Piece
from nearfold.methods.landmark_mds import LandmarkCount, landmark_mds, spread_landmarks
from nearfold.notation import Ints


def count_landmarks(
    connected: ConnectedGraph,
    k: int,
    n_landmarks: int | None,
    itemsize: int,
    method: str = "D",
    n_jobs: int | None = None,
) -> LandmarkCount:
    """How many landmarks all pieces get, from what their geodesics need."""
    graph, sizes = connected.graph, [len(rows) for rows in connected.pieces]
    largest = max(sizes)
    if n_landmarks is not None and n_landmarks > max(k, largest):
        n_landmarks = None  # every row is one: that is the exact method
    return LandmarkCount.choose(
        sum(sizes) if n_landmarks is None else largest,
        k,
        n_landmarks,
        needed=isomap_bytes(sizes, k, itemsize, method, n_jobs),
        itemsize=itemsize,
        method="landmark Isomap",
        held=graph_bytes(len(graph.lengths)),
    )


def isomap_bytes(
    sizes: list[int], k: int, itemsize: int, method: str = "D", n_jobs: int | None = None
) -> float:
    """What the geodesics of pieces of these sizes and k axes of each need at their peak."""
    largest = max(sizes)
    needed = lanczos_bytes(largest, k, itemsize) + itemsize * sum(n * n for n in sizes)
    return needed + geodesics_bytes(largest, itemsize, method, n_jobs) - itemsize * largest**2


def graph_bytes(entries: float) -> float:
    """A graph with so many entries (two for each edge), and its entries by tail."""
    return 2.0 * (8 + 4) * entries


def embed_by_landmarks(
    rows: Ints, graph: Graph, k: int, dtype: Any, count: int, n_jobs: int | None = None
) -> Piece:
    """Steps 2 and 3 with landmarks, each as far as possible from those before it."""
    lengths = graph.lengths.astype(dtype, copy=False)
    if is_small(graph):
        landmarks, D = spread_landmarks(
            lambda i: tree_from(graph, i, lengths)[0], graph.n, count, dtype
        )
    else:
        landmarks = spread_nodes(graph, lengths, count)
        D = geodesics_from(graph, lengths, landmarks, n_jobs)
    refuse_extreme(float(D[:, 0].max(initial=0.0)), D.dtype)
    mds = landmark_mds(D, landmarks, k)
    return Piece(rows, D, landmarks, mds.place, mds.Z, mds.lam, mds.V)
