"""Geodesics: lengths of shortest paths over the graph.

Small graphs go to SciPy; larger ones to our kernels, which relax the sources of a neighbourhood
together (kernels/paths.py): on two cores ten times SciPy's Dijkstra on 10,000 MNIST rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra as scipy_dijkstra
from scipy.sparse.csgraph import floyd_warshall

from nearfold.blocks import get_memory
from nearfold.errors import InputError
from nearfold.graph.build import Graph
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order, steps, thread_count

_SMALL = 1500  # nodes: JIT compilation dominates below this size
_LANES = 64  # sources relaxed together: a cache line of lanes or more, as measured
_FEWEST_LANES = 8  # of sources that are not neighbours
_REACH = 60  # nodes looked at per lane, at most
_ZERO_EDGE = 2.0**-1000  # what a zero is to SciPy, beside lengths scaled to at most 1
_ZERO_PATH = 1e-290  # a path this short has edges of length zero only


def all_geodesics(graph: Graph, dtype: Any, n_jobs: int | None = None, method: str = "D") -> Floats:
    """The symmetric matrix (n, n) of geodesics; inf between components of the graph.

    `method` is "D" (Dijkstra) or "FW" (Floyd and Warshall).
    """
    if method == "FW" or is_small(graph):
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


def is_small(graph: Graph) -> bool:
    """Whether SciPy finds the paths of a graph sooner than our kernels are compiled."""
    return graph.n <= _SMALL


def spread_nodes(graph: Graph, lengths: Floats, count: int) -> Ints:
    """`count` nodes, each the farthest from those before it."""
    from nearfold.kernels.paths import lower_from

    nearest = np.full(graph.n, np.inf, dtype=lengths.dtype)
    order, parent = (np.empty(graph.n, dtype=np.int32) for _ in range(2))
    nodes = np.zeros(count, dtype=np.int64)
    for i in steps(range(count), "landmarks"):
        if i > 0:
            nodes[i] = np.argmax(nearest)
        lower_from(graph.first, graph.neighbours, lengths, nodes[i], nearest, order, parent)
        nearest[nodes[i]] = -1.0  # never twice, even among duplicates
    return nodes


def geodesics_from(graph: Graph, lengths: Floats, nodes: Ints, n_jobs: int | None = None) -> Floats:
    """Geodesics (n, len(nodes)) to some nodes of a connected graph."""
    from nearfold.kernels.paths import relax_together

    D = np.empty((graph.n, len(nodes)), dtype=lengths.dtype)
    lanes = _lanes_that_fit(graph.n, lengths.itemsize, n_jobs)

    def relax(group: Ints) -> None:
        sources = nodes[group].astype(np.int32)
        relax_together(graph.first, graph.neighbours, lengths, sources, D.T, group)

    groups = _close_groups(graph, lengths, nodes, lanes)
    total = -(-len(nodes) // lanes)
    for _ in map_in_order(relax, groups, n_jobs=n_jobs, label="geodesics", total=total):
        pass
    return D


def _close_groups(graph: Graph, lengths: Floats, nodes: Ints, lanes: int) -> Iterator[Ints]:
    """All places in `nodes`, in groups: the first that is left, and those nearest to it."""
    left = np.arange(len(nodes))
    if lanes == 1:
        yield from left[:, None]
        return
    while len(left):
        distance = tree_from(graph, int(nodes[left[0]]), lengths)[0][nodes[left]]
        distance[0] = -1.0  # itself, even among duplicates
        order = np.argsort(distance, kind="stable")
        yield left[order[:lanes]]
        left = np.sort(left[order[lanes:]])


def _lanes_that_fit(n: int, itemsize: int, n_jobs: int | None) -> int:
    """Lanes for which all threads together take a tenth of the budget; changes no result.

    One where that leaves few: those do not make up for the tree that finds them.
    """
    room = int(get_memory() / 10 / (float(itemsize) * n * thread_count(n_jobs))) - 4
    return 1 if room < _FEWEST_LANES else min(room, _LANES)


def tree_from(
    graph: Graph, source: int, lengths: Floats | None = None
) -> tuple[Floats, Array, Array]:
    """Geodesics from one node, the reached nodes by distance, and the parents of the tree."""
    lengths = graph.lengths if lengths is None else lengths
    if is_small(graph):
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
    reached = dijkstra(graph.first, graph.neighbours, lengths, source, distance, order, parent)
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
