"""A graph that is not connected: the policies to choose from, and what would connect it.

error     refuse, with the sizes of the components and what would connect them
bridge    join every two components by their shortest edge (graph/bridges.py)
largest   embed the largest component; the other rows are placed as new ones would be
each      embed every component on its own, laid side by side
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree

from nearfold.errors import DisconnectedGraphError, InputError, warn
from nearfold.graph.bridges import OutsideSearch, bridging_edges, sampled, spanning_edges
from nearfold.graph.build import Graph
from nearfold.messages import Message
from nearfold.neighbors.lists import nearest_blocks
from nearfold.notation import Array, Floats, Ints

POLICIES = ("error", "bridge", "largest", "each")


@dataclass(frozen=True)
class ConnectedGraph:
    """What a policy made of a graph: the graph to use, the rows to embed, the bridges added."""

    graph: Graph
    label: Array  # the component of each row before bridging; 0 is the largest
    pieces: list[Ints]  # rows to embed together, one array per embedding
    bridges: tuple[Ints, Ints, Floats] | None = None
    note: str | None = None  # for `approximation_`: bridges that may not be the shortest


def apply_policy(
    graph: Graph,
    policy: str,
    outside: OutsideSearch | None,
    reach: Floats,
    k: int | None,
    *,
    tree: bool = False,
) -> ConnectedGraph:
    """Apply a policy to the graph of the k nearest, or (k None) of all within a radius.

    `outside` is None where no distances beyond the graph are known; `reach` as in `bridges`. With
    `tree` bridges are the minimum spanning tree between components: as few as connect them, for
    a method that needs neighbours rather than paths.
    """
    if policy not in POLICIES:
        raise InputError(f"disconnected={policy!r}: use one of {', '.join(POLICIES)}.")
    count, label = graph.components()
    everything = np.arange(graph.n)
    if count == 1:
        return ConnectedGraph(graph, label, [everything])
    sizes = np.bincount(label)
    listed = ", ".join(f"{s:,}" for s in sizes[:5]) + (", ..." if count > 5 else "")
    state = (
        f"the number of connected components of the neighbourhood graph is {count}: it is in "
        f"{count} pieces (of {listed} rows)"
    )
    if policy == "error" or (policy == "bridge" and outside is None):
        raise DisconnectedGraphError(f"{state}. {connectivity_advice(outside, k, search=True)}")
    advice = connectivity_advice(outside, k)
    if policy == "bridge":
        assert outside is not None
        find = spanning_edges if tree else bridging_edges
        a, b, length = find(graph, reach, label, outside)
        usual = f"{np.median(graph.lengths):.4g}" if len(graph.lengths) else "missing"
        ends = f"{length.min():.4g}", f"{length.max():.4g}"
        warn(Message("warn.bridged", count=str(count), listed=listed, n=str(len(a)), low=ends[0],
                     high=ends[1], usual=usual, advice=advice))  # fmt: skip
        bridged = graph.with_edges(a, b, length)
        note = "bridges between pieces of the graph sought from samples of their rows"
        approximate = note if sampled(label) else None
        return ConnectedGraph(bridged, label, [everything], (a, b, length), approximate)
    if policy == "largest":
        warn(f"{state}: the largest is embedded, the other rows are placed as new ones. {advice}")
        return ConnectedGraph(graph, label, [np.flatnonzero(label == 0)])
    warn(f"{state}: each is embedded on its own, side by side. {advice}")
    return ConnectedGraph(graph, label, [np.flatnonzero(label == i) for i in range(count)])


def connectivity_advice(
    outside: OutsideSearch | None, k: int | None, search: bool = False
) -> Message:
    """What would connect a graph; the smallest number of neighbours only if it is searched for."""
    choices = Message("warn.connect_choices")
    if outside is None:
        return Message("warn.connect_graph") + choices
    if k is None:
        return Message("warn.connect_radius") + choices
    if not search:
        return Message("warn.connect_more") + choices
    enough = smallest_connecting_k(outside.index, k)
    if enough is None:
        return Message("warn.connect_none") + choices
    return Message("warn.connect_k", k=str(enough)) + choices


def smallest_connecting_k(index: Any, k: int, most: int = 256) -> int | None:
    """The smallest number of neighbours whose graph is connected; None if beyond `most`.

    Searching starts from lists of 2 k neighbours, which are doubled while they do not connect.
    """
    n = index.n_rows
    most = min(most, n - 1)
    tried = min(max(2 * k, 8), most)
    while True:
        ranks = spanning_ranks(index, tried)
        if len(ranks) == n - 1:
            return int(ranks[-1]) if n > 1 else 1
        if tried == most:
            return None
        tried = min(2 * tried, most)


def spanning_ranks(index: Any, k: int) -> Ints:
    """Ranks, ascending, of the edges of a minimum spanning forest of the lists of k neighbours.

    The rank of an edge is its place in a list. The graph of the j nearest has as many components
    as there are rows, less the edges of rank at most j. Lists are merged into the forest block by
    block: O(n) memory.
    """
    n = index.n_rows
    forest = sparse.coo_array((n, n), dtype=np.float64)
    for rows, _, near in nearest_blocks(index, None, k):
        query = np.repeat(np.arange(n)[rows], k)
        rank = np.tile(np.arange(1.0, k + 1), len(near))
        ends = (np.concatenate([forest.row, query]), np.concatenate([forest.col, near.ravel()]))
        edges = sparse.coo_array((np.concatenate([forest.data, rank]), ends), shape=(n, n))
        forest = minimum_spanning_tree(edges.tocsr()).tocoo()
    return np.sort(forest.data).astype(np.int64)


def smallest_connecting_radius(graph: Graph, reach: Floats, outside: OutsideSearch) -> float:
    """The smallest epsilon whose graph is connected: the longest edge of the spanning tree."""
    alone = np.arange(graph.n)
    return float(spanning_edges(graph, reach, alone, outside)[2].max(initial=0.0))


def spanning_tree_lengths(graph: Graph) -> Floats:
    """The lengths of the edges of the minimum spanning tree of a connected graph."""
    lengths = np.maximum(graph.lengths, np.finfo(np.float64).tiny)  # to SciPy a zero is no edge
    matrix = sparse.csr_array((lengths, graph.neighbours, graph.first), shape=(graph.n, graph.n))
    return np.asarray(minimum_spanning_tree(matrix).data)


def side_by_side(embeddings: list[Floats]) -> None:
    """Shift embeddings along their first axis, in place, so that none overlaps another."""
    if len(embeddings) == 1:
        return
    widths = [float(np.ptp(Z[:, 0])) for Z in embeddings]
    gap = 0.1 * max(*widths, 1e-12)
    edge = 0.0
    for Z, width in zip(embeddings, widths, strict=True):
        Z[:, 0] += edge - Z[:, 0].min()
        edge += width + gap
