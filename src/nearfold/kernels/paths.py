"""Shortest paths in a graph whose lengths are not negative.

The graph is symmetric and in compressed rows: the neighbours of node v are
`neighbours[first[v]:first[v + 1]]`, at `lengths[...]`.

NumPy makes and fills the arrays: in compiled code each kind of array that is made, and each
assignment to a slice, takes a tenth of a second or more to compile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.kernels.compile import kernel
from nearfold.notation import Array


def lower_from(
    first: Array, neighbours: Array, lengths: Array, source: Any, distance: Array, order: Array,
    parent: Array,
) -> int:  # fmt: skip
    """Dijkstra's algorithm with a further source: `distance` (n,) becomes that to the nearest.

    Only nodes that are nearer to the new source are visited: a path through any other is no
    shorter than that from the source before, also when rounded. Returns how many nodes were
    visited; they are in `order`.
    """
    n = len(first) - 1
    heap, place = np.empty(n, dtype=np.int32), np.full(n, -1, dtype=np.int32)
    return int(
        _settle(first, neighbours, lengths, np.int32(source), distance, order, parent, heap, place)
    )


@kernel
def _settle(
    first: Any, neighbours: Any, lengths: Any, source: Any, distance: Any, order: Any, parent: Any,
    heap: Any, place: Any,
) -> int:  # fmt: skip
    """A heap with four children per node, each node in it at most once.

    `place` is that in the heap; -1: not seen yet, -2: settled.
    """
    distance[source] = 0.0
    heap[0] = source
    size = 1
    settled = 0
    while size > 0:
        v = heap[0]
        place[v] = -2
        order[settled] = v
        settled += 1
        size -= 1
        if size > 0:  # the last one takes the empty place at the top, and sinks
            moved = heap[size]
            key = distance[moved]
            at = 0
            while 4 * at + 1 < size:
                best = 4 * at + 1
                least = distance[heap[best]]
                for child in range(4 * at + 2, min(4 * at + 5, size)):
                    if distance[heap[child]] < least:
                        best = child
                        least = distance[heap[child]]
                if least >= key:
                    break
                heap[at] = heap[best]
                place[heap[at]] = at
                at = best
            heap[at] = moved
            place[moved] = at
        near = distance[v]
        for e in range(first[v], first[v + 1]):
            u = neighbours[e]
            through = near + lengths[e]
            if place[u] != -2 and through < distance[u]:
                distance[u] = through
                parent[u] = v
                at = place[u]
                if at == -1:
                    at = size
                    size += 1
                while at > 0 and distance[heap[(at - 1) // 4]] > through:
                    heap[at] = heap[(at - 1) // 4]
                    place[heap[at]] = at
                    at = (at - 1) // 4
                heap[at] = u
                place[u] = at
    return settled


def dijkstra(
    first: Array, neighbours: Array, lengths: Array, source: Any, distance: Array, order: Array,
    parent: Array,
) -> int:  # fmt: skip
    """Distances (n,) from one source, nodes (n,) in the order they are settled, tree parents (n,).

    Returns how many nodes are reached; the others get inf, and their parent stays -1.
    """
    distance.fill(np.inf)
    parent.fill(-1)
    return lower_from(first, neighbours, lengths, source, distance, order, parent)


def gather_sources(first: Array, neighbours: Array, lanes: int, reach: int) -> tuple[Array, Array]:
    """All nodes in groups of at most `lanes` that lie close together: balls grown breadth first.

    Returns the nodes, group by group, and where each group begins. A ball looks at no more than
    `reach` nodes, so that the last groups are rather small than wide.
    """
    n = len(first) - 1
    grouped, queue = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    taken, seen = np.zeros(n, dtype=np.int32), np.full(n, -1, dtype=np.int32)
    begins = np.empty(n + 1, dtype=np.int64)
    groups = _grow_balls(first, neighbours, lanes, reach, grouped, begins, taken, seen, queue)
    return grouped, begins[: groups + 1]


@kernel
def _grow_balls(
    first: Any, neighbours: Any, lanes: Any, reach: Any, grouped: Any, begins: Any, taken: Any,
    seen: Any, queue: Any,
) -> int:  # fmt: skip
    filled = 0
    groups = 0
    for seed in range(taken.shape[0]):
        if taken[seed]:
            continue
        begins[groups] = filled
        queue[0] = seed
        seen[seed] = seed
        head = 0
        tail = 1
        while head < min(tail, reach) and filled - begins[groups] < lanes:
            v = queue[head]
            head += 1
            if not taken[v]:
                taken[v] = 1
                grouped[filled] = v
                filled += 1
            for e in range(first[v], first[v + 1]):
                u = neighbours[e]
                if seen[u] != seed:
                    seen[u] = seed
                    queue[tail] = u
                    tail += 1
        groups += 1
    begins[groups] = filled
    return groups


@kernel
def _lower(near: Any, far: Any, length: Any) -> Any:
    """far <- min(far, near + length) lane by lane; whether any lane became smaller."""
    better = np.int32(0)
    for lane in range(far.shape[0]):
        through = near[lane] + length
        old = far[lane]
        better |= np.int32(through < old)
        far[lane] = through if through < old else old
    return better


def relax_together(
    first: Array, neighbours: Array, lengths: Array, sources: Array, distances: Array, rows: Array
) -> int:
    """Distances from several sources that lie close together, into `distances[rows]`.

    The first source is settled by Dijkstra's algorithm. The others see almost the same field, so
    all are then relaxed side by side, one lane each, in sweeps over the first one's order, each
    node only if a neighbour improved since its last visit. It ends when nothing improves: the
    result is Dijkstra's to the last bit, because additions round the same. Returns the visits.
    """
    n, lanes = len(first) - 1, len(sources)
    alone = np.empty(n, dtype=distances.dtype)
    order, position = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    # `position` in the order holds the parents at first.
    reached = dijkstra(first, neighbours, lengths, sources[0], alone, order, position)
    position[order[:reached]] = np.arange(reached, dtype=np.int32)
    field = np.full((n, lanes), np.inf, dtype=distances.dtype)
    field[:, 0] = alone
    field[sources[1:], np.arange(1, lanes)] = 0.0
    waiting = np.zeros(reached, dtype=np.int32)
    waiting[position[sources[1:]]] = 1
    visits = _sweep(first, neighbours, lengths, order, position, waiting, field)
    distances[rows] = field.T
    return int(visits)


@kernel
def _sweep(
    first: Any, neighbours: Any, lengths: Any, order: Any, position: Any, waiting: Any, field: Any
) -> int:
    """Relax nodes that wait, in order, as often as it takes."""
    reached = waiting.shape[0]
    start = 0
    visits = 0
    while start < reached:
        again = reached
        for p in range(start, reached):
            if waiting[p] == 0:
                continue
            waiting[p] = 0
            visits += 1
            v = order[p]
            near = field[v]
            for e in range(first[v], first[v + 1]):
                u = neighbours[e]
                if _lower(near, field[u], lengths[e]):
                    q = position[u]
                    waiting[q] = 1
                    if q < p:
                        again = min(again, q)
        start = again
    return visits
