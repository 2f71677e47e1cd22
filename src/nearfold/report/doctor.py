"""The graph doctor: a neighbourhood graph examined, told in words and drawn.

`nearfold.diagnose(X)` builds the graph that Isomap and LLE would use and looks for what makes them
fail: pieces ("open circuits"), short circuits, thin bridges, holes; graph/doctor.py says how.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearfold.blocks import as_rows, is_streamed, require_memory
from nearfold.errors import InputError
from nearfold.graph import Graph, OutsideSearch, neighbourhood_graph, spanning_edges
from nearfold.graph.connect import (
    smallest_connecting_k,
    smallest_connecting_radius,
    spanning_tree_lengths,
)
from nearfold.graph.doctor import Circuits, Hole, find_circuits, find_holes
from nearfold.inputs import check_rows, refuse_extreme
from nearfold.methods.pca import PCA
from nearfold.neighbors import build_index
from nearfold.notation import Array, Floats

_EXACT_RADIUS_ROWS = 20_000  # beyond it the smallest radius is only bounded


@dataclass(frozen=True)
class Diagnosis:
    """What was found. `print` it; `draw` it."""

    X: Array
    graph: Graph
    n_neighbors: int | None
    radius: float | None
    label: Array  # the piece of each row, 0 the largest
    smallest_k: int | None  # that connects; None: more than 256
    smallest_radius: float  # that connects
    radius_is_exact: bool  # otherwise an upper bound
    circuits: Circuits
    holes: list[Hole]

    @property
    def sizes(self) -> Array:
        """Rows per piece, largest first."""
        return np.bincount(self.label)

    @property
    def healthy(self) -> bool:
        """Whether nothing was found."""
        quiet = not (self.circuits.short or self.circuits.thin or self.holes)
        return len(self.sizes) == 1 and quiet

    def __str__(self) -> str:
        kind = (
            f"the {self.n_neighbors} nearest"
            if self.n_neighbors is not None
            else f"all within {self.radius:g}"
        )
        edges = len(self.graph.lengths) // 2
        lines = [
            f"Neighbourhood graph of {self.graph.n:,} rows, {kind}: {edges:,} edges, "
            f"{self._lengths()}",
            self._pieces(),
            self._connecting(),
            *_listed("Suspected short circuits", self.circuits.short),
            *_listed("Thin bridges between regions", self.circuits.thin),
            *_listed("Suspected holes", self.holes),
            self._advice(),
        ]
        return "\n".join(lines)

    def _lengths(self) -> str:
        if len(self.graph.lengths) == 0:
            return "no lengths"
        middle, longest = np.median(self.graph.lengths), self.graph.lengths.max()
        return f"of length {middle:.4g} in the median, {longest:.4g} at most"

    def _pieces(self) -> str:
        if len(self.sizes) == 1:
            return "Pieces: 1, it is connected"
        shown = ", ".join(f"{s:,}" for s in self.sizes[:8]) + (", ..." * (len(self.sizes) > 8))
        return f"Pieces: {len(self.sizes)}, of {shown} rows"

    def _connecting(self) -> str:
        k = self.smallest_k if self.smallest_k is not None else "more than 256"
        bound = "" if self.radius_is_exact else "at most "
        return f"Smallest that connects: n_neighbors {k}, radius {bound}{self.smallest_radius:.6g}"

    def _advice(self) -> str:
        if self.healthy:
            return "Nothing suspicious was found."
        advice = []
        if len(self.sizes) > 1:
            advice.append(
                "more neighbours, or disconnected='bridge', 'largest' or 'each' in Isomap and LLE"
            )
        if self.circuits.short:
            advice.append("fewer neighbours, or look at the rows at the short circuits: leave out?")
        if self.holes:
            advice.append("Isomap stretches what lies around a hole: LLE bends less there")
        return "Advice: " + "; ".join(advice) + "." if advice else "Look at the thin bridges."

    def draw(self, path: str | Path) -> Path:
        """The graph over its two main directions; what is suspicious in colour. Saves a PNG."""
        from nearfold.report.picture import draw_graph

        Z = self.X if self.X.shape[1] == 2 else PCA(min(3, *self.X.shape)).fit_transform(self.X)
        return draw_graph(
            np.asarray(Z, dtype=np.float64),
            (self.graph.tails, self.graph.neighbours),
            self.label,
            {
                "short circuit": [(s.a, s.b) for s in self.circuits.short],
                "thin bridge": [(s.a, s.b) for s in self.circuits.thin],
                "hole": [
                    e for h in self.holes for e in zip(h.rows, np.roll(h.rows, -1), strict=True)
                ],
            },
            Path(path),
        )


def _listed(title: str, found: list[Any], most: int = 10) -> list[str]:
    if not found:
        return [f"{title}: none"]
    more = [f"  and {len(found) - most} more"] if len(found) > most else []
    return [f"{title}: {len(found)}", *(f"  {item}" for item in found[:most]), *more]


def diagnose(
    X: Any,
    *,
    n_neighbors: int | None = 10,
    radius: float | None = None,
    metric: Any = "minkowski",
    p: float = 2,
    metric_params: dict[str, Any] | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
) -> Diagnosis:
    """Examine the neighbourhood graph of a table (an array, a frame or a file).

    Parameters are those of Isomap; with `radius` n_neighbors is not used. `random_state` chooses
    the rows from which paths are counted.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from nearfold import diagnose
    >>> diagnosis = diagnose(make_swiss_roll(800, random_state=0)[0], n_neighbors=10)
    >>> len(diagnosis.sizes), diagnosis.smallest_k
    (1, 5)
    """
    X = _table(X)
    refuse_extreme(max(-float(X.min()), float(X.max())), X.dtype)  # no copy of X
    if radius is not None and not radius >= 0:
        raise InputError(f"radius={radius}: a radius is not negative.")
    m = len(X)
    k = None if radius is not None else n_neighbors
    if k is not None and not 1 <= k < m:
        raise InputError(f"n_neighbors={k}: give a number from 1 to {m - 1}, less than the rows.")
    index = build_index(
        X, metric=metric, p=p, metric_params=metric_params, n_jobs=n_jobs, k_hint=k or 5
    )
    graph, reach = neighbourhood_graph(index, k, radius)
    outside = OutsideSearch(index, precomputed=isinstance(metric, str) and metric == "precomputed")
    _, label = graph.components()
    exact = m <= _EXACT_RADIUS_ROWS
    if exact:
        smallest = smallest_connecting_radius(graph, reach, outside)
    else:
        joined = graph.with_edges(*spanning_edges(graph, reach, label, outside))
        smallest = float(spanning_tree_lengths(joined).max(initial=0.0))
    largest = np.flatnonzero(label == 0)
    part = graph if len(largest) == m else graph.part(largest)
    circuits = find_circuits(part, random_state, n_jobs)
    rows = [s.renumbered(largest) for s in circuits.short]
    thin = [s.renumbered(largest) for s in circuits.thin]
    # A short circuit closes a loop of its own: holes are looked for without them.
    cut = np.array([(s.a, s.b) for s in circuits.short], dtype=np.int64).reshape(-1, 2)
    holes = find_holes(part.without_edges(cut[:, 0], cut[:, 1]), random_state)
    return Diagnosis(
        X,
        graph,
        k,
        radius,
        label,
        smallest_connecting_k(index, k or 5),
        smallest,
        exact,
        Circuits(rows, thin),
        [Hole(largest[hole.rows], hole.length) for hole in holes],
    )


def _table(X: Any) -> Floats:
    if is_streamed(X):
        rows = as_rows(X)
        if rows.n_rows is not None:
            needed = 8.0 * 3 * rows.n_rows * rows.n_features
            require_memory(needed, f"The table {rows.describe()}", "Take a sample of its rows.")
        X = np.concatenate([block.X for block in rows.blocks()])
    return check_rows(X)
