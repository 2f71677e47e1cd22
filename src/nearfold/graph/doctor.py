"""Diagnostics of a neighbourhood graph: short circuits, thin bridges, holes.

Short circuits. An edge that jumps between parts of the manifold draws geodesics from far around
onto itself. So shortest-path trees from some rows are grown, and the share of all paths that use
each edge, its load, is counted. Of the edges that are long for their place (the others make up the
sheet, and without them any sheet would tear) the one with the largest load is taken out, the loads
are counted again, and so on until nothing tears any more; edges that jump in a bundle come out one
after the other. Then every edge taken out is judged in what is left: if its ends are now many times
its length apart, it was a short circuit; if they are not connected any more, it was a thin bridge
between two regions; otherwise it was merely busy, and nothing is said.

Holes. Around a hole the paths from a row part, and meet again behind it: two joined rows whose
paths to the root run far apart. The loop they close is tightened like a string: if nothing is in
the way it vanishes; what stays is a hole.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from nearfold.graph.build import Graph
from nearfold.graph.paths import tree_depths, tree_from
from nearfold.messages import Message
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order, steps

_SOURCES = 48  # trees to count loads by
_ROUNDS = 120  # edges taken out at most
_LONG = 1.5  # times the median length at one of its ends: an edge that may jump
_LEAST_LOAD = 2e-3  # share of the paths: below, an edge changes too little to matter
_FAR, _LONGER = 6.0, 2.0  # ends so many times the length apart, of an edge that is so much longer
_VERY_FAR = 15.0  # than those around it: a short circuit; this far apart, however long it is
_LEAST_LOOP = 0.2  # a loop shorter than this share of the radius is a gap of the sampling,
_LEAST_ROWS = 24  # and so is one of fewer rows
_TRIED_LOOPS = 5
_SHRINKS = 80
_STUCK = 10  # times that a loop has not become shorter: it is tight
_SIDE = 0.05  # share of the rows that a thin bridge must have at either end to be worth a word


@dataclass(frozen=True)
class Suspect:
    """An edge that is probably not of the manifold, and the evidence."""

    a: int
    b: int
    length: float
    load: float  # share of all paths that run over it
    detour: float  # how many times its length its ends are apart without it; inf: not connected
    typical: float  # the median length of the edges at one of its ends, the smaller one

    def renumbered(self, rows: Ints) -> Suspect:
        """The same edge under the row numbers of a larger table."""
        return replace(self, a=int(rows[self.a]), b=int(rows[self.b]))

    @property
    def told(self) -> Message:
        """The edge and the evidence in a sentence."""
        times = self.length / self.typical if self.typical else np.inf
        far = Message("doctor.far", times=f"{self.detour:.0f}")
        return Message(
            "doctor.suspect",
            a=str(self.a),
            b=str(self.b),
            length=f"{self.length:.4g}",
            times=f"{times:.1f}",
            load=f"{100 * self.load:.1f}",
            way=Message("doctor.no_way") if np.isinf(self.detour) else far,
        )

    def __str__(self) -> str:
        return str(self.told)


@dataclass(frozen=True)
class Hole:
    """A loop that nothing spans."""

    rows: Ints  # around it, in order
    length: float

    @property
    def told(self) -> Message:
        """The loop in a sentence."""
        some = [str(row) for row in self.rows[:: max(1, len(self.rows) // 4)][:4]]
        return Message("doctor.hole", n=len(self.rows), rows=some, length=f"{self.length:.4g}")

    def __str__(self) -> str:
        return str(self.told)


@dataclass(frozen=True)
class Circuits:
    """What was found among the edges."""

    short: list[Suspect] = field(default_factory=list)
    thin: list[Suspect] = field(default_factory=list)


def edge_loads(graph: Graph, sources: Ints, n_jobs: int | None = None) -> Floats:
    """For each entry of the graph the share of paths from the sources that use its edge."""
    keys = graph.tails.astype(np.int64) * graph.n + graph.neighbours

    def load(source: int) -> Floats:
        _, order, parent = tree_from(graph, source)
        below = subtree_sizes(order, parent)
        child = order[1:].astype(np.int64)
        found = np.zeros(len(keys))
        found[np.searchsorted(keys, child * graph.n + parent[child])] = below[child]
        found[np.searchsorted(keys, parent[child].astype(np.int64) * graph.n + child)] = below[
            child
        ]
        return found

    total = np.zeros(len(keys))
    for one in map_in_order(load, sources.tolist(), n_jobs=n_jobs):
        total += one
    return total / (len(sources) * graph.n)


def subtree_sizes(order: Array, parent: Array) -> Floats:
    """How many nodes lie at or below each node of a tree, given in the order it grew."""
    depth = tree_depths(parent)
    size = np.zeros(len(parent))
    size[order] = 1.0
    by_depth = order[np.argsort(depth[order], kind="stable")]
    bounds = np.searchsorted(depth[by_depth], np.arange(depth[by_depth].max(initial=0) + 2))
    for level in range(len(bounds) - 2, 0, -1):
        nodes = by_depth[bounds[level] : bounds[level + 1]]
        np.add.at(size, parent[nodes], size[nodes])
    return size


def find_circuits(graph: Graph, seed: int = 0, n_jobs: int | None = None) -> Circuits:
    """Short circuits and thin bridges of a connected graph."""
    rng = np.random.default_rng(seed)
    sources = rng.choice(graph.n, min(_SOURCES, graph.n), replace=False)
    typical = median_lengths(graph)
    left = graph
    taken: list[tuple[int, int, float, float]] = []
    patience = 8 + 2 * len(graph.neighbours) // max(graph.n, 1)  # a row's edges may all jump
    quiet = 0
    for _ in steps(range(_ROUNDS), "short circuits"):
        usual = np.minimum(typical[left.tails], typical[left.neighbours])
        loads = np.where(left.lengths > _LONG * usual, edge_loads(left, sources, n_jobs), 0.0)
        top = int(loads.argmax()) if len(loads) else 0
        if len(loads) == 0 or loads[top] < _LEAST_LOAD:
            break
        a, b, length = int(left.tails[top]), int(left.neighbours[top]), float(left.lengths[top])
        taken.append((a, b, length, float(loads[top])))
        left = left.without_edges(np.array([a]), np.array([b]))
        apart, side = _apart(left, a, b)
        torn = side >= _SIDE if np.isinf(apart) else apart > _FAR * length
        quiet = 0 if torn else quiet + 1
        if quiet >= patience:
            break
    return _judge(left, typical, taken)


def median_lengths(graph: Graph) -> Floats:
    """The median length of the edges at each node."""
    order = np.lexsort((graph.lengths, graph.tails))
    count = np.diff(graph.first)
    middle = graph.first[:-1] + np.maximum(count - 1, 0) // 2
    ordered = np.append(graph.lengths[order], 0.0)
    return np.where(count > 0, ordered[np.minimum(middle, len(order))], 0.0)


def _apart(graph: Graph, a: int, b: int) -> tuple[float, float]:
    """How far two rows are apart, and the share of the rows on the smaller side if they are cut."""
    distance, reached, _ = tree_from(graph, a)
    if np.isfinite(distance[b]):
        return float(distance[b]), 0.0
    return np.inf, min(len(reached), len(tree_from(graph, b)[1])) / graph.n


def _judge(left: Graph, typical: Floats, taken: list[tuple[int, int, float, float]]) -> Circuits:
    found = Circuits()
    for a, b, length, load in taken:
        apart, side = _apart(left, a, b)
        usual = float(min(typical[a], typical[b]))
        suspect = Suspect(a, b, length, load, apart / length, usual)
        if np.isinf(apart):
            if side >= _SIDE:
                found.thin.append(suspect)
        elif apart > _VERY_FAR * length or apart > _FAR * length > _FAR * _LONGER * usual:
            found.short.append(suspect)
    return found


def find_holes(graph: Graph, seed: int = 0, n_roots: int = 6) -> list[Hole]:
    """Large loops of a connected graph that nothing spans, the largest first."""
    found: list[Hole] = []
    root = int(np.random.default_rng(seed).integers(graph.n))
    nearest = np.full(graph.n, np.inf)
    for _ in steps(range(n_roots), "holes"):
        distance, order, parent = tree_from(graph, root)
        hole = _tightest_loop(graph, distance, order, parent)
        if hole is not None and not any(_same(hole, other, graph) for other in found):
            found.append(hole)
        np.minimum(nearest, distance, out=nearest)
        root = int(np.where(np.isfinite(nearest), nearest, -1.0).argmax())
    return sorted(found, key=lambda hole: -hole.length)


def _tightest_loop(graph: Graph, distance: Floats, order: Array, parent: Array) -> Hole | None:
    """The longest loop that stays when loops closed by pairs with separate ways are tightened."""
    across = np.flatnonzero(graph.tails < graph.neighbours)
    u, v = graph.tails[across], graph.neighbours[across]
    reach = np.minimum(distance[u], distance[v])
    half = _ancestor_at_half(distance, parent)
    parted = np.flatnonzero((half[u] != half[v]) & np.isfinite(reach))
    tried = parted[np.argsort(-reach[parted], kind="stable")]
    _, first = np.unique(
        np.column_stack([half[u[tried]], half[v[tried]]]), axis=0, return_index=True
    )
    loops = [_loop(distance, parent, int(u[tried[i]]), int(v[tried[i]])) for i in np.sort(first)]
    loops.sort(key=len, reverse=True)
    least = _LEAST_LOOP * float(distance[order[-1]])
    best: Hole | None = None
    for loop in loops[:_TRIED_LOOPS]:
        hole = _tighten(graph, loop, least)
        if hole is not None and (best is None or hole.length > best.length):
            best = hole
    return best


def _ancestor_at_half(distance: Floats, parent: Array) -> Array:
    """For each node the first one on its way to the root that is at most half as far."""
    found = np.arange(len(parent))
    moving = np.flatnonzero(parent >= 0)
    while len(moving):
        found[moving] = parent[found[moving]]
        moving = moving[distance[found[moving]] > distance[moving] / 2]
    return found


def _loop(distance: Floats, parent: Array, a: int, b: int) -> Ints:
    """The loop of two joined rows and their ways to where these meet."""
    left, right = _way_up(a, parent), _way_up(b, parent)
    shared = set(left) & set(right)
    top = max(shared, key=lambda v: distance[v])
    left = [v for v in left if v not in shared]
    right = [v for v in right if v not in shared]
    return np.array([top, *left[::-1], *right])


def _tighten(graph: Graph, loop: Ints, least: float) -> Hole | None:
    """Birkhoff's curve shortening: a loop that can be shrunk to a point vanishes, a hole stays.

    Four points of the loop are joined by geodesics, whose midpoints are the next four points.
    """
    if len(loop) < _LEAST_ROWS:
        return None
    corners = loop[[len(loop) * i // 4 for i in range(4)]]
    length, stuck = np.inf, 0
    for _ in range(_SHRINKS):
        ways = []
        total = 0.0
        for one, other in zip(corners, np.roll(corners, -1), strict=True):
            distance, _, parent = tree_from(graph, int(one))
            ways.append(_way_up(int(other), parent)[::-1])
            total += float(distance[other])
        loop = np.array([row for way in ways for row in way[:-1]], dtype=np.int64)
        stuck = 0 if total < 0.999 * length else stuck + 1
        length = min(total, length)
        if length < least or len(loop) < _LEAST_ROWS:
            return None
        if stuck == _STUCK:
            break
        corners = np.array([way[len(way) // 2] for way in ways])
    return Hole(loop, length)


def _way_up(v: int, parent: Array) -> list[int]:
    way = [v]
    while parent[way[-1]] >= 0:
        way.append(int(parent[way[-1]]))
    return way


def _same(one: Hole, other: Hole, graph: Graph) -> bool:
    """Whether two loops run around the same hole: they come close to each other all along."""
    near = np.full(graph.n, np.inf)
    for row in other.rows[:: max(1, len(other.rows) // 8)]:
        np.minimum(near, tree_from(graph, int(row))[0], out=near)
    return bool(np.median(near[one.rows]) < 0.2 * min(one.length, other.length))
