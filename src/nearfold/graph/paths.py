"""Geodesics: lengths of shortest paths over the graph.

Small graphs go to SciPy; larger ones to our kernels, which relax the sources of a neighbourhood
together (kernels/paths.py): on two cores ten times SciPy's Dijkstra on 10,000 MNIST rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra as scipy_dijkstra
from scipy.sparse.csgraph import floyd_warshall

from nearfold.graph.build import Graph
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order

_SMALL = 1500  # nodes: SciPy is done before a compiler would be
_LANES = 64  # sources relaxed together: a cache line of lanes or more, as measured
_REACH = 60  # nodes looked at per lane, at most


def all_geodesics(graph: Graph, dtype: Any, n_jobs: int | None = None, method: str = "D") -> Floats:
    """The symmetric matrix (n, n) of geodesics; inf between pieces of the graph."""
    if method == "FW" or graph.n <= _SMALL:
        borrowed = floyd_warshall if method == "FW" else scipy_dijkstra
        return _zeroed(borrowed(_positive(graph), directed=False)).astype(dtype)
    from nearfold.kernels.paths import gather_sources, relax_together

    lengths = graph.lengths.astype(dtype)
    D = np.empty((graph.n, graph.n), dtype=dtype)
    nodes, begins = gather_sources(graph.first, graph.neighbours, _LANES, _LANES * _REACH)

    def relax(i: int) -> None:
        group = nodes[begins[i] : begins[i + 1]]
        relax_together(graph.first, graph.neighbours, lengths, group, D, group)

    groups = len(begins) - 1
    for _ in map_in_order(relax, range(groups), n_jobs=n_jobs, label="geodesics", total=groups):
        pass
    return D


def tree_from(
    graph: Graph, source: int, lengths: Floats | None = None
) -> tuple[Floats, Array, Array]:
    """Geodesics from one node, the reached nodes by distance, and the parents of the tree."""
    lengths = graph.lengths if lengths is None else lengths
    if graph.n <= _SMALL:
        D, parent = scipy_dijkstra(
            _positive(graph), directed=False, indices=source, return_predecessors=True
        )
        parent = np.where(parent < 0, -1, parent).astype(np.int32)
        D = _zeroed(D).astype(lengths.dtype)
        # Parents before children also where they are at the same distance.
        by_distance = np.lexsort((tree_depths(parent), D))[: int(np.isfinite(D).sum())]
        return D, by_distance.astype(np.int32), parent
    from nearfold.kernels.paths import dijkstra

    distance = np.empty(graph.n, dtype=lengths.dtype)
    order, parent = (np.empty(graph.n, dtype=np.int32) for _ in range(2))
    reached = dijkstra(
        graph.first, graph.neighbours, lengths, np.int32(source), distance, order, parent
    )
    return distance, order[:reached], parent


def tree_depths(parent: Array) -> Array:
    """How many steps each node is from the root of its tree; parents -1 at roots."""
    depth = (parent >= 0).astype(np.int64)
    jump = np.where(parent < 0, np.arange(len(parent)), parent)
    while (further := depth[jump]).any():  # pointer doubling: each round looks twice as far up
        depth += further
        jump = jump[jump]
    return depth


def _zeroed(D: Floats) -> Floats:
    """Sums of the smallest lengths, by which SciPy sees zeros, are zeros again."""
    return np.where(D < 1e-290, 0.0, D)


def _positive(graph: Graph) -> Any:
    """For SciPy, to which a zero is no edge: zeros become the smallest length that adds nothing."""
    lengths = np.maximum(graph.lengths, np.finfo(np.float64).tiny)
    return sparse.csr_array((lengths, graph.neighbours, graph.first), shape=(graph.n, graph.n))
