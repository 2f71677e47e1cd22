"""The neighbourhood graph as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.notation import Array, Floats
from nearfold.study.colours import CATEGORY_COLOURS

_SUSPECT_COLOURS = ("#D55E00", "#CC79A7", "#000000")
_MOST_EDGES = 50_000  # drawn; of more, an even selection


def graph_figure(
    Z: Floats,
    edges: tuple[Array, Array],
    label: Array,
    suspects: dict[str, list[tuple[int, int]]],
) -> Any:
    """Rows and edges over two or three directions, suspicious edges on top."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    pairs = [(0, 1), (0, 2), (1, 2)] if Z.shape[1] > 2 else [(0, min(1, Z.shape[1] - 1))]
    figure = Figure(figsize=(5.0 * len(pairs), 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    a, b = edges
    once = np.flatnonzero(a < b)
    if len(once) > _MOST_EDGES:
        once = once[:: len(once) // _MOST_EDGES + 1]
    for axis, (i, j) in zip(np.atleast_1d(figure.subplots(1, len(pairs))), pairs, strict=True):
        plane = Z[:, [i, j]]
        lines = np.stack([plane[a[once]], plane[b[once]]], axis=1)
        axis.add_collection(LineCollection(list(lines), colors="#c8c8c8", linewidths=0.4, zorder=1))
        for piece in range(min(int(label.max()) + 1, len(CATEGORY_COLOURS))):
            chosen = label == piece if piece < len(CATEGORY_COLOURS) - 1 else label >= piece
            axis.scatter(
                *plane[chosen].T, s=4, color=CATEGORY_COLOURS[piece], linewidths=0, zorder=2
            )
        for (name, found), colour in zip(suspects.items(), _SUSPECT_COLOURS, strict=False):
            if found:
                lines = plane[np.array(found, dtype=np.int64)]
                marked = LineCollection(
                    list(lines), colors=colour, linewidths=2.0, zorder=3, label=name
                )
                axis.add_collection(marked)
        axis.set_xlabel(f"direction {i + 1}")
        axis.set_ylabel(f"direction {j + 1}")
        axis.set_aspect("equal", "datalim")
        axis.autoscale_view()
    handles, names = figure.axes[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    return figure
