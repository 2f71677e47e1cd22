"""The shortest edges between the components of a graph: all pairs of them, or a spanning tree.

Every pair of components is joined by its shortest edge, as scikit-learn does, so that a straight
line between two clusters is not replaced by a detour over a third. With more than
`MOST_JOINED` components the closest ones are merged first, along the shortest edges of the minimum
spanning tree, until that many are left.

The spanning tree comes from Boruvka's algorithm: components find their shortest edge to a row
outside and merge along it, until one is left. The largest component never searches, because the
others come to it. Where the graph already holds the shortest edge out of a component (no row of it
can have a shorter one that the graph does not know) nothing is searched at all.

Between components of more than `MOST_PAIRS` pairs of rows the search starts from some rows of each,
evenly spaced in the table, and goes on from the edge that they give: to the row nearest to its one
end, then to that nearest to its other, until it gets no shorter (`sampled` says so).

Of rows that lie on a cluster those that search come here, some at a time; they are sought among
the others where these are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from nearfold.blocks import spans
from nearfold.graph.build import Graph, by_size
from nearfold.neighbors.partitioned import PartitionedIndex, rows_at
from nearfold.notation import Array, Floats, Ints

MOST_JOINED = 100  # components joined in all pairs
MOST_PAIRS = 1e10  # rows of different components compared exactly: about a minute
_SAMPLED = 20_000  # rows of all components together that stand for them beyond
_ROUNDS = 20  # in which an edge between samples is shortened, at most
_FEW = 64  # rows: a component this small finds its way out among the nearest of its rows
_CELLS = 2**21  # values of rows copied for one search

Edges = tuple[Ints, Ints, Floats]  # from, to, length


class OutsideSearch:
    """Finds the nearest row outside of a component, under the metric of an index.

    With `precomputed` the rows of the index are distances to all of its rows.
    """

    def __init__(self, index: Any, precomputed: bool = False) -> None:
        self.index = getattr(index, "exact", index)  # an approximate list may end inside
        self.precomputed = precomputed
        self._there = isinstance(index, PartitionedIndex)
        width = index.n_features if self._there else self.index.X.shape[1]
        # Every search on a cluster is a round trip: fewer and larger ones.
        self._step = max(1, (4 if self._there else 1) * _CELLS // max(1, width))

    def nearest_among(self, some: Ints, others: Ints) -> tuple[Floats, Ints]:
        """For each of some rows the distance to the nearest of the others, and which it is."""
        distance = np.full(len(some), np.inf)
        near = np.zeros(len(some), dtype=np.int64)
        for columns in spans(len(others), len(others) if self._there else self._step):
            among = others[columns]
            part = None if self.precomputed else self.index.part(among)
            for rows in spans(len(some), self._step):
                found, where = self._nearest(part, some[rows], among)
                closer = found < distance[rows]
                distance[rows] = np.where(closer, found, distance[rows])
                near[rows] = np.where(closer, among[where], near[rows])
        return distance, near

    def _nearest(self, part: Any, some: Ints, among: Ints) -> tuple[Floats, Ints]:
        if part is None:
            D = self.index.X[np.ix_(some, among)]
            where = D.argmin(axis=1)
            return D[np.arange(len(some)), where], where
        found, where = part.nearest(rows_at(self.index, some)[some], 1)
        return found[:, 0], where[:, 0]

    def shortest_exits(self, label: Array, small: Ints) -> Edges:
        """For each of some small components its shortest edge to a row outside."""
        rows = np.flatnonzero(np.isin(label, small))
        k = min(int(np.bincount(label)[small].max()) + 1, self.index.n_rows)
        there, length = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
        for part in spans(len(rows), max(1, min(self._step, _CELLS // 8 // k))):
            few = rows[part]
            distance, near = self.index.nearest(rows_at(self.index, few)[few], k)
            first = (label[near] != label[few][:, None]).argmax(axis=1)[:, None]
            there[part] = np.take_along_axis(near, first, 1)[:, 0]
            length[part] = np.take_along_axis(distance, first, 1)[:, 0]
        chosen = _shortest_per_group(label[rows], length)
        return rows[chosen], there[chosen], length[chosen]


def sampled(label: Array) -> bool:
    """Whether components are so large that their shortest edges are sought from samples."""
    sizes = np.bincount(label).astype(np.float64)
    return bool(sizes.sum() ** 2 - (sizes**2).sum() > 2 * MOST_PAIRS)


def joining_edges(label: Array, outside: OutsideSearch) -> Edges:
    """The shortest edge between every two components, or between samples of them."""
    label = by_size(label)
    rows = _spaced_rows(label) if sampled(label) else np.arange(len(label))
    group = label[rows]
    found: list[Edges] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    for component in range(int(label.max())):
        smaller = rows[group > component]  # each pair once: the smaller side asks
        length, there = outside.nearest_among(smaller, rows[group == component])
        chosen = _shortest_per_group(label[smaller], length)
        found.append((smaller[chosen], there[chosen], length[chosen]))
    return _concatenate(found)


def _spaced_rows(label: Array) -> Ints:
    """Some rows of each component, evenly spaced in the table."""
    order = np.argsort(label, kind="stable")
    sizes = np.bincount(label)
    each = max(1, _SAMPLED // len(sizes))
    place = np.arange(len(label)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    step = np.repeat(-(-sizes // each), sizes)
    return np.sort(order[place % step == 0])


def _shortened(edges: Edges, label: Array, outside: OutsideSearch) -> Edges:
    """Edges between samples, moved along their components until they get no shorter."""
    if not sampled(label):
        return edges
    order, sizes = np.argsort(label, kind="stable"), np.bincount(label)
    members = np.split(order, np.cumsum(sizes)[:-1])
    ends, length = np.column_stack(edges[:2]), edges[2].copy()
    for i in range(len(ends)):
        still = 0
        for turn in range(_ROUNDS):
            side = turn % 2
            among = members[label[ends[i, side]]]
            found, near = outside.nearest_among(ends[i, 1 - side, None], among)
            if found[0] < length[i]:
                ends[i, side], length[i], still = near[0], found[0], 0
            elif (still := still + 1) == 2:
                break
    return ends[:, 0], ends[:, 1], length


def bridging_edges(graph: Graph, reach: Floats, label: Array, outside: OutsideSearch) -> Edges:
    """The edges that the policy "bridge" adds; see the top of the file."""
    count = int(label.max()) + 1
    merged, tree = label, None
    if count > MOST_JOINED:
        a, b, length = spanning_edges(graph, reach, label, outside)
        kept = np.argsort(length, kind="stable")[: count - MOST_JOINED]
        tree = a[kept], b[kept], length[kept]
        merged = _merge(label[a[kept]], label[b[kept]], length[kept], count)[1][label]
    pairs = _shortened(joining_edges(merged, outside), merged, outside)
    return _sorted(pairs if tree is None else _concatenate([tree, pairs]))


def spanning_edges(graph: Graph, reach: Floats, label: Array, outside: OutsideSearch) -> Edges:
    """The minimum spanning tree between the components given by `label`.

    `reach[p]`: the graph holds every edge of row p that is shorter than this.
    """
    found: list[Edges] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    label = by_size(label)
    while (count := int(label.max()) + 1) > 1:
        a, b, length = _known_exits(graph, reach, label, count)
        searched = False
        if len(a) == 0:
            small = np.flatnonzero(np.bincount(label) <= _FEW)
            small = small[small > 0]
            if len(small):
                a, b, length = outside.shortest_exits(label, small)
            else:
                a, b, length = joining_edges(label, outside)
                searched = True
        kept, merged = _merge(label[a], label[b], length, count)
        edges = a[kept], b[kept], length[kept]
        found.append(_shortened(edges, label, outside) if searched else edges)
        label = by_size(merged[label])
    return _sorted(_concatenate(found))


def _known_exits(graph: Graph, reach: Floats, label: Array, count: int) -> Edges:
    """The shortest exits of those components, the largest aside, for which the graph is sure."""
    tails = graph.tails
    across = np.flatnonzero(label[tails] != label[graph.neighbours])
    shortest = across[_shortest_per_group(label[tails[across]], graph.lengths[across])]
    component = label[tails[shortest]]
    best = np.full(count, np.inf)
    best[component] = graph.lengths[shortest]
    nearest_out = np.full(graph.n, np.inf)
    np.minimum.at(nearest_out, tails[across], graph.lengths[across])
    doubtful = (nearest_out > reach) & (reach < best[label])
    sure = np.ones(count, dtype=bool)
    sure[label[doubtful]] = False
    sure[0] = False
    edge = shortest[sure[component]]
    ends = tails[edge].astype(np.int64), graph.neighbours[edge].astype(np.int64)
    return *ends, graph.lengths[edge]


def _shortest_per_group(group: Array, length: Floats) -> Ints:
    """The position of the shortest of each group, the first of several."""
    order = np.lexsort((length, group))
    return order[np.unique(group[order], return_index=True)[1]]


def _merge(a: Array, b: Array, length: Floats, count: int) -> tuple[Ints, Array]:
    """Kruskal: which edges between components join two, and the merged one of each component."""
    forest = DisjointSet(range(count))
    order = np.argsort(length, kind="stable")
    kept = [i for i in order.tolist() if forest.merge(int(a[i]), int(b[i]))]
    return np.array(kept, dtype=np.int64), np.array([forest[i] for i in range(count)])


def _concatenate(found: list[Edges]) -> Edges:
    a, b, length = (np.concatenate(part) for part in zip(*found, strict=True))
    return a, b, length


def _sorted(edges: Edges) -> Edges:
    a, b, length = edges
    low, high = np.minimum(a, b), np.maximum(a, b)
    order = np.lexsort((high, low))
    return low[order], high[order], length[order]
