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

from nearfold.errors import InputError
from nearfold.graph.build import Graph
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order, thread_count

_SMALL = 1500  # nodes: JIT compilation dominates below this size
_LANES = 64  # sources relaxed together: a cache line of lanes or more, as measured
_REACH = 60  # nodes looked at per lane, at most
_ZERO_EDGE = 2.0**-1000  # what a zero is to SciPy, beside lengths scaled to at most 1
_ZERO_PATH = 1e-290  # a path this short has edges of length zero only


def all_geodesics(graph: Graph, dtype: Any, n_jobs: int | None = None, method: str = "D") -> Floats:
    """The symmetric matrix (n, n) of geodesics; inf between components of the graph.

    `method` is "D" (Dijkstra) or "FW" (Floyd and Warshall).
    """
    if method == "FW" or graph.n <= _SMALL:
        solve = floyd_warshall if method == "FW" else scipy_dijkstra
        matrix, exponent = _for_scipy(graph, graph.lengths)
        return _unscaled(solve(matrix, directed=False), exponent).astype(dtype, copy=False)
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


def geodesics_bytes(n: int, itemsize: int, method: str = "D", n_jobs: int | None = None) -> float:
    """Peak memory of `all_geodesics` for n nodes, the result included."""
    if method == "FW" or n <= _SMALL:  # float64 and a mask; float32 is a copy
        return n * n * (9.0 + (itemsize if itemsize < 8 else 0))
    return itemsize * n * (n + thread_count(n_jobs) * (_LANES + 4.0))


def tree_from(
    graph: Graph, source: int, lengths: Floats | None = None
) -> tuple[Floats, Array, Array]:
    """Geodesics from one node, the reached nodes by distance, and the parents of the tree."""
    lengths = graph.lengths if lengths is None else lengths
    if graph.n <= _SMALL:
        matrix, exponent = _for_scipy(graph, lengths)
        D, parent = scipy_dijkstra(matrix, directed=False, indices=source, return_predecessors=True)
        parent = np.where(parent < 0, -1, parent).astype(np.int32)
        D = _unscaled(D, exponent).astype(lengths.dtype)
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


def _for_scipy(graph: Graph, lengths: Floats) -> tuple[Any, int]:
    """The matrix of a graph for SciPy, its lengths times a power of two so that none exceeds 1.

    To SciPy a zero is no edge; here it becomes a length that no sum of other lengths notices. The
    scale keeps the two apart for any unit of length.
    """
    lengths = np.asarray(lengths, dtype=np.float64)
    exponent = -int(np.frexp(lengths.max(initial=0.0))[1])
    scaled = np.ldexp(lengths, exponent)
    if (scaled[lengths > 0] < _ZERO_PATH).any():
        raise InputError(
            "the lengths of the edges span more than 290 orders of magnitude: scale or leave out "
            "the rows that are out of range."
        )
    np.maximum(scaled, _ZERO_EDGE, out=scaled)
    shape = (graph.n, graph.n)
    return sparse.csr_array((scaled, graph.neighbours, graph.first), shape=shape), exponent


def _unscaled(D: Floats, exponent: int) -> Floats:
    """Path lengths from scaled ones, in place; sums of zero edges are zeros again."""
    D[D < _ZERO_PATH] = 0.0
    return np.ldexp(D, -exponent, out=D)
