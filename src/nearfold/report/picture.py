"""Spaces as scatter plots, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nearfold.notation import Array, Floats

# Ten colours that stay apart for readers with any of the common colour-vision deficiencies
# (Okabe and Ito's eight, grey and a dark purple), each with a marker of its own besides.
_COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7",
    "#56B4E9", "#B8A800", "#000000", "#999999", "#5D3A9B",
)  # fmt: skip
_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "<", ">", "*")


def draw_spaces(spaces: dict[str, Floats], label: Array, path: Path, title: str = "") -> Path:
    """Draw the first two dimensions of each space, points coloured by label; save as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # A figure of its own, so that no global state of pyplot or of a screen is touched.
    figure = Figure(figsize=(5.0 * len(spaces), 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = np.atleast_1d(figure.subplots(1, len(spaces)))
    for axis, (name, Z) in zip(axes, spaces.items(), strict=True):
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
        axis.scatter(
            Z[chosen, 0],
            second[chosen],
            s=16,
            color=_COLOURS[i % len(_COLOURS)],
            marker=_MARKERS[i % len(_MARKERS)],
            linewidths=0,
            alpha=0.75,
            label=str(value),
        )
    axis.set_xticks([])
    axis.set_yticks([])
    for side in axis.spines.values():
        side.set_color("#cccccc")
