"""A space as a small picture inside a notebook: SVG, no script."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from nearfold.linalg.signs import fix_signs
from nearfold.messages import Message
from nearfold.notation import Array, Floats
from nearfold.study.colours import CATEGORY_COLOURS, category_style, number_colour
from nearfold.study.question import Status, Task
from nearfold.study.showing import space_name

_MOST_POINTS = 1_000
_SIDE, _MARGIN = 320, 10  # pixels


def space_svg(found: Any) -> str:
    """The best space of a comparison over its two main directions, coloured by the answer."""
    if all(result.status != Status.FINISHED for result in found.results):
        return ""
    Z = found.result(found.best).view
    if Z is None or not len(Z):
        return ""
    step = -(-len(Z) // _MOST_POINTS)
    rows = found.plan.view_rows[::step]
    colours, names = _colours(found, rows)
    points = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{colour}" fill-opacity=".8"/>'
        for (x, y), colour in zip(_places(Z[::step]), colours, strict=True)
    )
    legend = " ".join(
        f'<span style="color:{category_style(i)[0]}">●</span>&nbsp;{html.escape(name)}'
        for i, name in enumerate(names)
    )
    caption = Message("study.inline_picture", space=space_name(found.best), n=len(rows))
    return (
        f'<figure style="margin:0"><svg width="{_SIDE}" height="{_SIDE}" role="img" '
        f'aria-label="{html.escape(str(caption))}">{points}</svg>'
        f"<figcaption>{html.escape(str(caption))} {legend}</figcaption></figure>"
    )


def _places(Z: Floats) -> Floats:
    """Rows over the two directions of largest variance, in pixels."""
    Z = np.asarray(Z, dtype=np.float64) - np.mean(Z, axis=0, dtype=np.float64)
    axes = fix_signs(np.linalg.svd(Z, full_matrices=False)[2])[:2]
    plane = np.zeros((len(Z), 2))
    plane[:, : len(axes)] = Z @ axes.T
    middle = (plane.max(axis=0) + plane.min(axis=0)) / 2
    reach = float(np.ptp(plane, axis=0).max()) / 2 or 1.0
    half = _SIDE / 2 - _MARGIN
    places: Floats = _SIDE / 2 + (plane - middle) / reach * half * np.array([1, -1])
    return places


def _colours(found: Any, rows: Array) -> tuple[list[str], list[str]]:
    """A colour for each row, and the names of the classes if they are few."""
    y = found.table.y
    if found.judge.task == Task.CLASSIFICATION:
        classes, codes = np.unique(y, return_inverse=True)
        names = [str(c) for c in classes] if len(classes) <= len(CATEGORY_COLOURS) else []
        return [category_style(int(c))[0] for c in codes[rows]], names
    if found.judge.task == Task.REGRESSION:
        ranks = np.argsort(np.argsort(y)) / max(1, len(y) - 1)
        return [number_colour(float(share)) for share in ranks[rows]], []
    return [CATEGORY_COLOURS[0]] * len(rows), []
