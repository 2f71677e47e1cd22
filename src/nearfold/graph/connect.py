"""A graph in pieces: the shortest bridges between them, and the policies to choose from.

    error     refuse, with the sizes and what would connect
    bridge    join the pieces by their shortest bridges, the minimum spanning tree between them
    largest   embed the largest piece; the other rows are placed as new ones would be
    each      embed every piece on its own, laid side by side

Bridges by Boruvka's algorithm: pieces find their shortest edge to a row outside and merge along it,
until one is left; each such edge is one of the minimum spanning tree. The largest piece never
searches, because the others come to it. Where the graph already holds a piece's shortest exit (no
row of the piece could have a nearer one that the graph does not know) nothing is searched at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from nearfold.errors import InputError, warn
from nearfold.graph.build import Graph, by_size
from nearfold.neighbors import build_index
from nearfold.notation import Array, Floats, Ints

POLICIES = ("error", "bridge", "largest", "each")
_FEW = 64  # rows: a piece this small finds its way out among the nearest of its rows


class Surroundings:
    """Finds the nearest row outside of a piece, under any metric."""

    def __init__(self, X: Any, index: Any, options: dict[str, Any]) -> None:
        self.X = X
        self.index = index
        self.options = options
        self.precomputed = options.get("metric") == "precomputed"

    def shortest_exits(self, label: Array, pieces: Ints) -> tuple[Ints, Ints, Floats]:
        """For each of the pieces its shortest edge to a row outside: (from, to, length)."""
        sizes = np.bincount(label)
        found = [self._exit(label, piece) for piece in pieces if sizes[piece] > _FEW]
        few = pieces[sizes[pieces] <= _FEW]
        if len(few):
            found += self._exits_of_few(label, few, int(sizes[few].max()))
        a, b, length = (np.array(part) for part in zip(*found, strict=True))
        return a.astype(np.int64), b.astype(np.int64), length.astype(np.float64)

    def _exit(self, label: Array, piece: int) -> tuple[int, int, float]:
        inside, outside = np.flatnonzero(label == piece), np.flatnonzero(label != piece)
        if len(outside) < len(inside):  # the smaller side asks the larger one's index less often
            a, b, length = self._closest(outside, inside)
            return b, a, length
        return self._closest(inside, outside)

    def _closest(self, some: Ints, others: Ints) -> tuple[int, int, float]:
        if self.precomputed:
            best = (0, 0, np.inf)
            for row in some:
                there = int(others[self.X[row, others].argmin()])
                best = min(best, (int(row), there, float(self.X[row, there])), key=lambda e: e[2])
            return best
        distance, row = build_index(self.X[others], **self.options).nearest(self.X[some], 1)
        i = int(distance[:, 0].argmin())
        return int(some[i]), int(others[row[i, 0]]), float(distance[i, 0])

    def _exits_of_few(self, label: Array, pieces: Ints, k: int) -> list[tuple[int, int, float]]:
        rows = np.flatnonzero(np.isin(label, pieces))
        Q = self.X[rows]
        distance, near = self.index.nearest(Q, min(k + 1, self.X.shape[0]))
        outside = label[near] != label[rows][:, None]
        where = outside.argmax(axis=1)
        every = np.arange(len(rows))
        length, there = distance[every, where], near[every, where]
        order = np.lexsort((length, label[rows]))
        _, first = np.unique(label[rows][order], return_index=True)
        chosen = order[first]
        return list(zip(rows[chosen], there[chosen], length[chosen], strict=True))


def spanning_edges(
    graph: Graph, reach: Floats, label: Array, surroundings: Surroundings
) -> tuple[Ints, Ints, Floats]:
    """The minimum spanning tree between the pieces given by `label`, as (from, to, length).

    `reach[p]`: the graph holds every edge of row p that is shorter than this.
    """
    found: list[tuple[Ints, Ints, Floats]] = []
    label = by_size(label)
    while (count := int(label.max()) + 1) > 1:
        a, b, length = _known_exits(graph, reach, label, count)
        if len(a) == 0:
            sizes = np.bincount(label)
            few = np.flatnonzero(sizes <= _FEW)
            few = few[few > 0]
            a, b, length = surroundings.shortest_exits(
                label, few if len(few) else np.array([count - 1])
            )
        kept, merged = _forest(label[a], label[b], length, count)
        found.append((a[kept], b[kept], length[kept]))
        label = by_size(merged[label])
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    a, b, length = (np.concatenate(part) for part in zip(*found, strict=True))
    low, high = np.minimum(a, b), np.maximum(a, b)
    order = np.lexsort((high, low))
    return low[order], high[order], length[order]


def _known_exits(
    graph: Graph, reach: Floats, label: Array, count: int
) -> tuple[Ints, Ints, Floats]:
    """The shortest exits of those pieces, the largest aside, for which the graph is sure."""
    tails = graph.tails
    across = np.flatnonzero(label[tails] != label[graph.neighbours])
    order = across[np.lexsort((graph.lengths[across], label[tails[across]]))]
    piece, first = np.unique(label[tails[order]], return_index=True)
    best = np.full(count, np.inf)
    best[piece] = graph.lengths[order[first]]
    nearest_out = np.full(graph.n, np.inf)
    np.minimum.at(nearest_out, tails[across], graph.lengths[across])
    doubtful = (nearest_out > reach) & (reach < best[label])
    sure = np.ones(count, dtype=bool)
    sure[label[doubtful]] = False
    sure[0] = False
    edge = order[first[sure[piece]]]
    return (
        tails[edge].astype(np.int64),
        graph.neighbours[edge].astype(np.int64),
        graph.lengths[edge],
    )


def _forest(a: Array, b: Array, length: Floats, count: int) -> tuple[Ints, Array]:
    """Which edges between pieces to keep, and the merged piece of each piece.

    Two pieces may choose the same edge, or different ones of equal length: one of them is enough.
    """
    root = list(range(count))

    def find(piece: int) -> int:
        while root[piece] != piece:
            root[piece] = root[root[piece]]
            piece = root[piece]
        return piece

    kept = []
    for i in np.argsort(length, kind="stable").tolist():
        one, other = find(int(a[i])), find(int(b[i]))
        if one != other:
            root[one] = other
            kept.append(i)
    return np.array(kept, dtype=np.int64), np.array([find(piece) for piece in range(count)])


@dataclass(frozen=True)
class Settled:
    """What a policy made of a graph: the graph to use, its pieces, and the bridges added."""

    graph: Graph
    label: Array  # the piece of each row; 0 is the largest
    pieces: list[Ints]  # rows to embed together, one array per embedding
    bridges: tuple[Ints, Ints, Floats] | None = None


def settle(
    graph: Graph,
    policy: str,
    surroundings: Surroundings | None,
    reach: Floats,
    advice: Callable[[], str],
) -> Settled:
    """Apply a policy. `advice` says, when needed, what would connect the graph."""
    if policy not in POLICIES:
        raise InputError(f"disconnected={policy!r}: use one of {', '.join(POLICIES)}.")
    count, label = graph.components()
    everything = np.arange(graph.n)
    if count == 1:
        return Settled(graph, label, [everything])
    sizes = np.bincount(label)
    listed = ", ".join(f"{s:,}" for s in sizes[:5]) + (", ..." if count > 5 else "")
    state = f"the neighbourhood graph is in {count} pieces (of {listed} rows)"
    if policy == "error" or (policy == "bridge" and surroundings is None):
        raise InputError(f"{state}. {advice()}")
    if policy == "bridge":
        assert surroundings is not None
        a, b, length = spanning_edges(graph, reach, label, surroundings)
        usual = f"{np.median(graph.lengths):.4g} long" if len(graph.lengths) else "missing"
        warn(
            f"{state}: joined by their {len(a)} shortest bridges, the longest {length.max():.4g}, "
            f"where edges are mostly {usual}. {advice()}"
        )
        return Settled(graph.with_edges(a, b, length), label, [everything], (a, b, length))
    if policy == "largest":
        warn(f"{state}: the largest is embedded, the other rows are placed as new ones. {advice()}")
        return Settled(graph, label, [np.flatnonzero(label == 0)])
    warn(f"{state}: each is embedded on its own, side by side. {advice()}")
    return Settled(graph, label, [np.flatnonzero(label == i) for i in range(count)])


def smallest_connecting_k(index: Any, n: int, k: int, most: int = 256) -> int | None:
    """The smallest number of neighbours whose graph is connected; None if beyond `most`."""
    most = min(most, n - 1)
    tried = min(max(2 * k, 8), most)
    while True:
        _, row = index.nearest(None, tried)
        low, high = 0, tried  # not connected with `low`; `high` is to be shown
        if _connected(row):
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if _connected(row[:, :middle]) else (middle, high)
            return high
        if tried == most:
            return None
        tried = min(2 * tried, most)


def _connected(row: Ints) -> bool:
    n, k = row.shape
    lists = sparse.csr_array(
        (np.ones(n * k, dtype=np.int8), row.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n)
    )
    return bool(connected_components(lists, directed=False, return_labels=False) == 1)


def smallest_connecting_radius(graph: Graph, reach: Floats, surroundings: Surroundings) -> float:
    """The smallest epsilon whose graph is connected: the longest edge of the spanning tree."""
    alone = np.arange(graph.n)
    return float(spanning_edges(graph, reach, alone, surroundings)[2].max(initial=0.0))


def what_connects(index: Any, n: int, k: int | None, given: bool) -> Callable[[], str]:
    """A sentence of advice, worked out only if it is asked for."""

    def advice() -> str:
        choices = "Or choose disconnected='bridge', 'largest' or 'each'."
        if given:
            return f"Give a graph with more edges, or the full matrix of distances. {choices}"
        if k is None:
            return f"Use a larger radius. {choices}"
        enough = smallest_connecting_k(index, n, k)
        if enough is None:
            return f"No small number of neighbours connects it. {choices}"
        return f"n_neighbors={enough} would connect it. {choices}"

    return advice


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


def spanning_tree_lengths(graph: Graph) -> Floats:
    """The lengths of the edges of the minimum spanning tree of a connected graph."""
    lengths = np.maximum(graph.lengths, np.finfo(np.float64).tiny)  # to SciPy a zero is no edge
    matrix = sparse.csr_array((lengths, graph.neighbours, graph.first), shape=(graph.n, graph.n))
    return np.asarray(minimum_spanning_tree(matrix).data)
