"""The rows of a study as the page shows them: places, colours, neighbours, within a size.

A report of 100,000 rows is to stay below 5 MB, so what is put in is counted. Places come first, for
as many spaces as fit; then the label, the neighbours in the data and in the best spaces, then
columns to colour by. What is left out is said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from nearfold.columns.kinds import Kind
from nearfold.messages import Message
from nearfold.methods.lda import LinearDiscriminantAnalysis
from nearfold.methods.pca import PCA
from nearfold.notation import Array, Floats, Ints
from nearfold.report.packing import pack_floats, pack_integers, pack_points, packed_size
from nearfold.study.comparison import Comparison
from nearfold.study.intake import StudyTable
from nearfold.study.learner import nearest
from nearfold.study.question import Task
from nearfold.study.trial import SpaceResult

_MOST_BYTES = 4_300_000  # of points; the page itself and its charts take the rest
_BYTES_FOR_PLACES = 2_300_000
_BYTES_PER_PLACE = 5.4
_MANY_ROWS = 20_000  # from here on numbers have 255 steps, not 65,535
_MOST_CATEGORIES = 250
_SHOWN_NEIGHBORS = 5
_MOST_COLUMNS = 64
_QUALITIES = ("trustworthiness", "continuity", "overlap", "shepard", "stress")
_PIXEL = re.compile(r"(row_?\d+_?col_?\d+|(pixel|px|p)_?\d+|\d+x\d+)", re.IGNORECASE)
_SIDES = range(4, 65)  # of an image, in pixels


class SizeBudget:
    """Adds parts while they fit."""

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self.left = most
        self.left_out: list[str | Message] = []

    def take(self, part: dict[str, Any], name: str | Message) -> dict[str, Any] | None:
        """The part, or None if it does not fit."""
        size = packed_size(part)
        if size > self.left:
            self.left_out.append(name)
            return None
        self.left -= size
        return part


def how_many_spaces(n: int) -> int:
    """Spaces whose places fit."""
    return max(2, int(_BYTES_FOR_PLACES / (_BYTES_PER_PLACE * max(n, 1))))


def places(Z: Floats) -> Floats:
    """Two dimensions to draw: the main directions of a space that has more."""
    if Z.shape[1] <= 2:
        return Z
    return np.asarray(PCA(2).fit_transform(Z))


def separating_places(Z: Floats, label: Array) -> Floats | None:
    """The two directions that separate the classes best; None where there is nothing to add."""
    n_classes = len(np.unique(label))
    if Z.shape[1] <= 2 or n_classes < 2 or len(Z) < 3 * n_classes:
        return None
    first = LinearDiscriminantAnalysis(n_components=min(2, n_classes - 1)).fit_transform(Z, label)
    first = np.asarray(first)
    if first.shape[1] == 2:
        return first
    # Two classes have one such direction; the second is the main one of what it leaves.
    unit = first[:, 0] - first[:, 0].mean()
    left = Z - Z.mean(axis=0)
    left = left - np.outer(unit, unit @ left) / max(float(unit @ unit), 1e-300)
    return np.column_stack([first, PCA(1).fit_transform(left)])


def shown_places(d: int) -> Message:
    """What the two dimensions are."""
    if d <= 2:
        return Message("report.axes_one" if d == 1 else "report.axes_two")
    return Message("report.axes_main", d=d)


def pack_neighbors(Z: Array) -> dict[str, Any]:
    """The nearest rows of each row."""
    k = max(1, min(_SHOWN_NEIGHBORS, len(Z) - 1))
    return pack_integers(nearest(Z, None, k, "euclidean")[1])


def pack_space(
    result: SpaceResult, held_out: Array, quality: Any, label: Array | None
) -> dict[str, Any]:
    """One space without its neighbours."""
    Z = result.view
    assert Z is not None
    part: dict[str, Any] = {
        "name": result.name,
        "n_dimensions": Z.shape[1],
        "shown": shown_places(Z.shape[1]),
        "xy": pack_points(places(Z)),
        "neighbors": None,
        "held_out": pack_integers(held_out.astype(np.int64)),
        "per_row": [],
        "views": [],
    }
    apart = None if label is None else separating_places(Z, label)
    if apart is not None:
        part["views"] = [{"name": Message("report.separates"), "xy": pack_points(apart)}]
    if quality is None:
        return part
    whole, drawn = quality
    part["quality"] = {name: whole.summary()[name] for name in _QUALITIES}
    if drawn is not None:
        part["picture_quality"] = {name: drawn.summary()[name] for name in _QUALITIES}
    seen = drawn or whole  # what is coloured is what is drawn
    if seen.n_judged == len(Z):
        values = {"trustworthiness": seen.trustworthiness, "continuity": seen.continuity}
        part["per_row"] = [
            {
                "name": Message(f"report.{name}"),
                "values": pack_floats(v.per_row, levels=255),
            }
            for name, v in values.items()
        ]
    return part


def pack_asked(comparison: Comparison, rows: Ints, ids: Any, budget: SizeBudget) -> dict[str, Any]:
    """The rows shown, what they are called, and what was asked about them."""
    judge, table = comparison.judge, comparison.table
    columns: list[dict[str, Any]] = []
    if table.y is not None:
        is_label = judge.task == Task.CLASSIFICATION
        name = table.answer or ("label" if is_label else "target")
        part = pack_column(name, table.y[rows], len(rows), as_label=is_label)
        if part and budget.take(part, name):
            columns.append(part)
    if ids is None:
        known = table.ids if table.ids is not None else table.rows
    else:  # a value for every row of what was given
        known = np.asarray(ids)[table.rows]
    return {
        "n": len(rows),
        "of": len(table) if judge.task == Task.PAIRS else len(judge.split.development),
        "ids": [str(i) for i in known[rows]],
        "columns": columns,
        "default_color": columns[0]["name"] if columns else None,
    }


def pack_columns(
    columns: Mapping[str, Any], rows: Ints, budget: SizeBudget
) -> list[dict[str, Any]]:
    """The table's own columns, as many as fit."""
    packed: list[dict[str, Any]] = []
    for name, values in columns.items():
        part = pack_column(name, np.asarray(values)[rows], len(rows))
        taken = budget.take(part, name) if part else None
        if taken is not None and len(packed) < _MOST_COLUMNS:
            packed.append(taken)
    return packed


def pack_column(name: str, values: Array, n: int, as_label: bool = False) -> dict[str, Any]:
    """A column of numbers or of categories; beyond the most frequent ones they share a colour."""
    if values.dtype.kind in "fiu" and not as_label:
        levels = 255 if n > _MANY_ROWS else 65535
        return {"name": name, "kind": "number", "values": pack_floats(values, levels=levels)}
    missing = np.array([v is None or v != v for v in values.tolist()], dtype=bool)
    known = values[~missing]
    found, codes = np.unique(
        known if known.dtype.kind in "iufb" else known.astype(str), return_inverse=True
    )
    codes, names = codes.ravel(), [str(v) for v in found]
    if len(found) > _MOST_CATEGORIES:
        counts = np.bincount(codes)
        kept = np.sort(np.argsort(-counts, kind="stable")[: _MOST_CATEGORIES - 1])
        place = np.full(len(found), len(kept))
        place[kept] = np.arange(len(kept))
        codes, names = place[codes], [*(names[k] for k in kept), "…"]
    whole = np.full(len(values), -1, dtype=np.int64)
    whole[~missing] = codes
    return {"name": name, "kind": "category", "values": pack_integers(whole), "categories": names}


def pack_images(table: StudyTable, rows: Ints, budget: SizeBudget) -> dict[str, Any] | None:
    """The rows as small images, if that is what they are: pixels by name, or a column of images."""
    cells = table.cells
    parts = [part for part in cells.parts if part.kind == Kind.IMAGE]
    if parts:
        values = cells.numbers[rows, parts[0].start : parts[0].stop]
    elif all(part.kind == Kind.NUMBER and _PIXEL.fullmatch(part.name) for part in cells.parts):
        values = cells.numbers[rows]
    else:
        return None
    side = round(values.shape[1] ** 0.5)
    if side not in _SIDES or side * side != values.shape[1] or not np.isfinite(values).all():
        return None
    low, high = float(values.min()), float(values.max())
    grey = np.round(255 * (values - low) / max(high - low, 1e-300)).astype(np.int64)
    part = {"width": side, "height": side, "channels": 1, "values": pack_integers(grey)}
    return budget.take(part, Message("report.images"))
