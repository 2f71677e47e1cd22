"""The graph doctor: a neighbourhood graph examined, told in words and drawn.

`nearfold.diagnose(X)` builds the graph that Isomap and LLE would use and looks for what makes them
fail: pieces ("open circuits"), short circuits, thin bridges, holes; graph/doctor.py says how.
"""

from __future__ import annotations

import base64
import io
from dataclasses import asdict, dataclass
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
from nearfold.messages import Message
from nearfold.methods.pca import PCA
from nearfold.neighbors import ApproximateIndex, Certificate, build_index
from nearfold.notation import Array, Floats
from nearfold.study.plain import AsJson

_EXACT_RADIUS_ROWS = 20_000  # beyond it the smallest radius is only bounded


@dataclass(frozen=True)
class Diagnosis(AsJson):
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
    certificate: Certificate | None = None  # of a graph that was built approximately

    @property
    def sizes(self) -> Array:
        """Rows per piece, largest first."""
        return np.bincount(self.label)

    @property
    def healthy(self) -> bool:
        """Whether nothing was found."""
        quiet = not (self.circuits.short or self.circuits.thin or self.holes)
        return len(self.sizes) == 1 and quiet

    def lines(self) -> list[Message]:
        """What was found, line by line."""
        kind = (
            Message("doctor.nearest", k=self.n_neighbors)
            if self.n_neighbors is not None
            else Message("doctor.within", radius=f"{self.radius:g}")
        )
        graph = Message(
            "doctor.graph", n=self.graph.n, kind=kind, edges=len(self.graph.lengths) // 2
        )
        return [
            graph + self._lengths() if len(self.graph.lengths) else graph,
            *self._certified(),
            self._pieces(),
            self._connecting(),
            *_listed("short", self.circuits.short),
            *_listed("thin", self.circuits.thin),
            *_listed("holes", self.holes),
            *self._advice(),
        ]

    def text(self, language: str = "en") -> str:
        """All of it in one language."""
        return "\n".join(line.text(language) for line in self.lines())

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from nearfold.study.html import paragraph

        picture = io.BytesIO()
        self._figure().savefig(picture, dpi=80, format="png")
        encoded = base64.b64encode(picture.getvalue()).decode("ascii")
        lines = "".join(paragraph(line, strong=i == 0) for i, line in enumerate(self.lines()))
        return f'{lines}<img alt="" src="data:image/png;base64,{encoded}">'

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "healthy": self.healthy,
            "pieces": self.sizes.tolist(),
            "smallest_k": self.smallest_k,
            "smallest_radius": float(self.smallest_radius),
            "short_circuits": [[int(s.a), int(s.b)] for s in self.circuits.short],
            "thin_bridges": [[int(s.a), int(s.b)] for s in self.circuits.thin],
            "holes": [[int(row) for row in h.rows] for h in self.holes],
            "certificate": None if self.certificate is None else asdict(self.certificate),
        }

    def _lengths(self) -> Message:
        middle, longest = np.median(self.graph.lengths), self.graph.lengths.max()
        return Message("doctor.lengths", middle=f"{middle:.4g}", longest=f"{longest:.4g}")

    def _certified(self) -> list[Message]:
        found = self.certificate
        if found is None:
            return []
        return [Message("doctor.certificate", proven=f"{found.proven:.1%}", low=f"{found.low:.4f}",
                        high=f"{found.high:.4f}", checked=found.n_checked)]  # fmt: skip

    def _pieces(self) -> Message:
        if len(self.sizes) == 1:
            return Message("doctor.connected")
        shown = [f"{s:,}" for s in self.sizes[:8]] + (["..."] if len(self.sizes) > 8 else [])
        return Message("doctor.pieces", n=len(self.sizes), sizes=shown)

    def _connecting(self) -> Message:
        k: Any = str(self.smallest_k) if self.smallest_k is not None else Message("doctor.many")
        id = "doctor.connects" if self.radius_is_exact else "doctor.connects_at_most"
        return Message(id, k=k, radius=f"{self.smallest_radius:.6g}")

    def _advice(self) -> list[Message]:
        if self.healthy:
            return [Message("doctor.healthy")]
        advice = []
        if len(self.sizes) > 1:
            advice.append(Message("doctor.advice_pieces"))
        if self.circuits.short:
            advice.append(Message("doctor.advice_short"))
        if self.holes:
            advice.append(Message("doctor.advice_holes"))
        return advice or [Message("doctor.advice_thin")]

    def draw(self, path: str | Path) -> Path:
        """The graph over its two main directions; what is suspicious in colour. Saves a PNG."""
        from nearfold.store.atomic import write_atomically

        figure = self._figure()
        return write_atomically(path, lambda file: figure.savefig(file, dpi=110, format="png"))

    def _figure(self) -> Any:
        from nearfold.report.picture import graph_figure

        Z = self.X if self.X.shape[1] == 2 else PCA(min(3, *self.X.shape)).fit_transform(self.X)
        loops = [e for h in self.holes for e in zip(h.rows, np.roll(h.rows, -1), strict=True)]
        return graph_figure(
            np.asarray(Z, dtype=np.float64),
            (self.graph.tails, self.graph.neighbours),
            self.label,
            {
                "short circuit": [(s.a, s.b) for s in self.circuits.short],
                "thin bridge": [(s.a, s.b) for s in self.circuits.thin],
                "hole": loops,
            },
        )


def _listed(what: str, found: list[Any], most: int = 10) -> list[Message]:
    if not found:
        return [Message(f"doctor.no_{what}")]
    more = [Message("doctor.more", n=len(found) - most)] if len(found) > most else []
    return [Message(f"doctor.{what}", n=len(found)), *(item.told for item in found[:most]), *more]


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
    algorithm: str = "auto",
    recall: float = 0.95,
) -> Diagnosis:
    """Examine the neighbourhood graph of a table (an array, a frame or a file).

    Parameters are those of Isomap; with `radius` n_neighbors is not used. `random_state` chooses
    the rows from which paths are counted. With algorithm="approximate" the graph of the nearest is
    built to a certified recall, as in `NearestNeighbors`.

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
        raise InputError(Message("words.from", name="radius", value=radius, low=0))
    m = len(X)
    k = None if radius is not None else n_neighbors
    if k is not None and not 1 <= k < m:
        raise InputError(Message("words.from_to", name="n_neighbors", value=k, low=1, high=m - 1))
    index = build_index(
        X, metric=metric, p=p, metric_params=metric_params, n_jobs=n_jobs, k_hint=k or 5,
        algorithm=algorithm, recall=recall, random_state=random_state,
    )  # fmt: skip
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
        index.certificate(k) if k is not None and isinstance(index, ApproximateIndex) else None,
    )


def _table(X: Any) -> Floats:
    if is_streamed(X):
        rows = as_rows(X)
        if rows.n_rows is not None:
            needed = 8.0 * 3 * rows.n_rows * rows.n_features
            what = Message("memory.table_in", name=rows.describe())
            require_memory(needed, what, Message("memory.advice.study"))
        X = np.concatenate([block.X for block in rows.blocks()])
    return check_rows(X)
