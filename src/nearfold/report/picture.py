"""Spaces as scatter plots, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nearfold.notation import Array, Floats
from nearfold.report.colours import CATEGORY_COLOURS, category_style

_SUSPECT_COLOURS = ("#D55E00", "#CC79A7", "#000000")
_MOST_EDGES = 50_000  # drawn; of more, an even selection


def draw_spaces(spaces: dict[str, Floats], label: Array, path: Path, title: str = "") -> Path:
    """Draw the first two dimensions of each space, points coloured by label; save as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # A figure of its own, so that no global state of pyplot or of a screen is touched.
    columns = min(3, len(spaces))
    lines = -(-len(spaces) // columns)
    figure = Figure(figsize=(5.0 * columns, 4.8 * lines + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = np.atleast_1d(figure.subplots(lines, columns)).ravel()
    for axis in axes[len(spaces) :]:
        axis.set_axis_off()
    for axis, (name, Z) in zip(axes, spaces.items(), strict=False):
        _draw_space(axis, Z, label)
        axis.set_title(name)
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=min(10, len(np.unique(label))),
        frameon=False,
        markerscale=1.6,
    )
    if title:
        figure.suptitle(title)
    figure.savefig(path, dpi=110)
    return path


def _draw_space(axis: Any, Z: Floats, label: Array) -> None:
    second = Z[:, 1] if Z.shape[1] > 1 else np.zeros(len(Z))
    for i, value in enumerate(np.unique(label)):
        chosen = label == value
        colour, marker = category_style(i)
        axis.scatter(
            Z[chosen, 0],
            second[chosen],
            s=16,
            color=colour,
            marker=marker,
            linewidths=0,
            alpha=0.75,
            label=str(value),
        )
    axis.set_xticks([])
    axis.set_yticks([])
    for side in axis.spines.values():
        side.set_color("#cccccc")


def draw_graph(
    Z: Floats,
    edges: tuple[Array, Array],
    label: Array,
    suspects: dict[str, list[tuple[int, int]]],
    path: Path,
) -> Path:
    """Rows and edges over two or three directions, suspicious edges on top; save as PNG."""
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
    figure.savefig(path, dpi=110)
    return path
