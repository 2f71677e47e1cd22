"""The rows of a study as the page shows them: places, colours, neighbours, within a size.

A report of 100,000 rows is to stay below 5 MB, so what is put in is weighed. Places come first, for
as many spaces as fit; then the label, the neighbours in the original space and in the best ones,
then columns to colour by. What is left out is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearfold.methods.pca import PCA
from nearfold.neighbors import build_index
from nearfold.notation import Array, Floats, Ints
from nearfold.quality import SpaceQuality
from nearfold.report.packing import pack_floats, pack_integers, pack_points, packed_size
from nearfold.study.comparison import Comparison
from nearfold.study.told import Told
from nearfold.study.trial import SpaceResult

_MOST_BYTES = 4_300_000  # of points; the page itself and its charts take the rest
_BYTES_FOR_PLACES = 2_300_000
_BYTES_PER_PLACE = 5.4
_MANY_ROWS = 20_000  # from here on numbers have 255 steps, not 65,535
_MOST_CATEGORIES = 250
_SHOWN_NEIGHBORS = 5
_MOST_COLUMNS = 64


class Weighed:
    """Adds parts while they fit."""

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self.left = most
        self.left_out: list[str] = []

    def take(self, part: dict[str, Any], name: str) -> dict[str, Any] | None:
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


def told_places(d: int) -> Told:
    """What the two dimensions are."""
    if d == 1:
        return Told("its one axis", "唯一的一个轴")
    if d == 2:
        return Told("its two axes", "它的两个轴")
    return Told(f"the two main directions of {d} axes", f"{d} 个轴的两个主方向")


def pack_neighbors(Z: Array) -> dict[str, Any]:
    """The nearest rows of each row."""
    k = max(1, min(_SHOWN_NEIGHBORS, len(Z) - 1))
    index = build_index(np.ascontiguousarray(Z), metric="euclidean", k_hint=k)
    return pack_integers(index.nearest(None, k)[1])


def pack_space(
    result: SpaceResult, Z: Floats, held_out: Array, quality: SpaceQuality | None
) -> dict[str, Any]:
    """One space without its neighbours."""
    part: dict[str, Any] = {
        "name": result.name,
        "n_dimensions": Z.shape[1],
        "shown": told_places(Z.shape[1]).as_dict(),
        "xy": pack_points(places(Z)),
        "neighbors": None,
        "held_out": pack_integers(held_out.astype(np.int64)),
        "per_row": [],
    }
    if quality is not None:
        part["quality"] = {
            name: quality.summary()[name]
            for name in ("trustworthiness", "continuity", "overlap", "shepard", "stress")
        }
        if quality.n_judged == len(Z):
            names = Told("trustworthiness", "可信度"), Told("continuity", "连续性")
            values = quality.trustworthiness.per_row, quality.continuity.per_row
            part["per_row"] = [
                {"name": name.as_dict(), "values": pack_floats(value, levels=255)}
                for name, value in zip(names, values, strict=True)
            ]
    return part


def pack_asked(comparison: Comparison, rows: Ints, ids: Any, weighed: Weighed) -> dict[str, Any]:
    """The rows shown, what they are called, and what was asked about them."""
    judge = comparison.judge
    columns: list[dict[str, Any]] = []
    asked = getattr(judge, "y", None)
    if asked is not None:
        name = "label" if judge.is_share else "target"
        part = pack_column(name, asked[rows], len(rows))
        if part and weighed.take(part, name):
            columns.append(part)
    return {
        "n": len(rows),
        "of": len(judge.X) if judge.task == "pairs" else len(judge.split.development),
        "ids": [str(i) for i in (rows if ids is None else np.asarray(ids)[rows])],
        "columns": columns,
        "default_color": columns[0]["name"] if columns else None,
    }


def pack_columns(columns: Mapping[str, Any], rows: Ints, weighed: Weighed) -> list[dict[str, Any]]:
    """The table's own columns, as many as fit."""
    packed: list[dict[str, Any]] = []
    for name, values in columns.items():
        part = pack_column(name, np.asarray(values)[rows], len(rows))
        taken = weighed.take(part, name) if part and name not in ("label", "target") else None
        if taken is not None and len(packed) < _MOST_COLUMNS:
            packed.append(taken)
    return packed


def pack_column(name: str, values: Array, n: int) -> dict[str, Any]:
    """A column of numbers, or of categories; an empty dictionary if it is neither."""
    is_number = values.dtype.kind in "fiu" and name != "label"
    if is_number:
        levels = 255 if n > _MANY_ROWS else 65535
        return {"name": name, "kind": "number", "values": pack_floats(values, levels=levels)}
    texts = np.array([str(v) for v in values])
    if values.dtype.kind in "iuf":
        order = np.unique(values)
        categories = [str(v) for v in order]
        codes = np.searchsorted(order, values)
    else:
        found, codes = np.unique(texts, return_inverse=True)
        categories = [str(v) for v in found]
    if len(categories) > _MOST_CATEGORIES:
        return {}
    values_packed = pack_integers(codes.ravel().astype(np.int64))
    return {"name": name, "kind": "category", "values": values_packed, "categories": categories}
