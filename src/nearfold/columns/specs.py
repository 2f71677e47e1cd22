"""What it takes to read the cells of a feature: a dict of plain values that a model file can hold.

name, kind     always
levels         of an ordered category: its words, lowest first
format, parts  of a date: how its text is written (if it is text), and its cyclic parts
width          of an embedding: how many numbers it has
members        of an embedding: the columns that hold them, if it is not one column of vectors
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nearfold.columns.dates import FORMATS, PARTS
from nearfold.columns.kinds import USABLE, Kind
from nearfold.messages import Message

Spec = dict[str, Any]
THUMBNAIL = 16  # pixels of a side
_FEATURES = frozenset(kind.value for kind in USABLE)
_NEEDED = (Kind.ORDERED, Kind.EMBEDDING)  # kinds that cannot be read without details
DETAILS: dict[Kind, tuple[str, ...]] = {
    Kind.NUMBER: ("words",),
    Kind.ORDERED: ("levels",),
    Kind.DATE: ("format", "parts"),
    Kind.EMBEDDING: ("width", "members"),
}


def make_spec(name: str, kind: Kind, details: dict[str, Any]) -> Spec:
    """The specification of a column of this kind, with those details that belong to it."""
    kept = {key: details[key] for key in DETAILS.get(kind, ()) if details.get(key) is not None}
    return {"name": name, "kind": kind.value, **kept}


def source_names(spec: Spec) -> list[str]:
    """The columns of the table that a feature is read from."""
    return list(spec.get("members") or [spec["name"]])


def column_names(spec: Spec) -> tuple[str, ...]:
    """The names of the numbers that a feature is read as; a category's own name."""
    name, kind = spec["name"], spec["kind"]
    if kind == Kind.DATE:
        waves = [f"{name}.{part}_{w}" for part in spec.get("parts", []) for w in ("sin", "cos")]
        return (name, *waves)
    if kind == Kind.EMBEDDING:
        members = spec.get("members")
        return tuple(members) if members else tuple(f"{name}[{j}]" for j in range(spec["width"]))
    if kind == Kind.IMAGE:
        return tuple(f"{name}[{j}]" for j in range(THUMBNAIL**2))
    return (name,)


def find_fault(spec: Any) -> Message | None:
    """What is wrong with a specification; None if nothing is."""
    if type(spec) is not dict or not {"name", "kind"} <= set(spec):
        return Message("columns.fault.shape")
    if not isinstance(spec["name"], str) or not isinstance(spec["kind"], str):
        return Message("columns.fault.texts")
    kind = spec["kind"]
    if kind not in _FEATURES:
        return Message("columns.fault.kind", kind=repr(kind[:40]))
    details = set(spec) - {"name", "kind"}
    if not details:
        return Message("columns.fault.details") if kind in _NEEDED else None
    unknown = details - set(DETAILS.get(Kind(kind), ()))
    if unknown:
        key = repr(str(min(unknown, key=str))[:40])
        return Message("columns.fault.unknown", key=key, kind=repr(kind))
    return _find_fault_in_details(spec, kind)


def _find_fault_in_details(spec: Spec, kind: str) -> Message | None:
    if kind == Kind.NUMBER and not _are_distinct_texts(spec["words"]):
        return Message("columns.fault.list", key="words")
    if kind == Kind.ORDERED and not _are_distinct_texts(spec["levels"]):
        return Message("columns.fault.list", key="levels")
    if kind == Kind.DATE:
        parts = spec.get("parts", [])
        if parts and not (_are_distinct_texts(parts) and set(parts) <= set(PARTS)):
            return Message("columns.fault.parts", parts=list(PARTS))
        if type(parts) is not list or spec.get("format", FORMATS[0]) not in FORMATS:
            return Message("columns.fault.format")
    if kind == Kind.EMBEDDING:
        width, members = spec.get("width"), spec.get("members")
        if type(width) is not int or width < 1:
            return Message("columns.fault.width")
        if members is not None and not (_are_distinct_texts(members) and len(members) == width):
            return Message("columns.fault.members")
    return None


def _are_distinct_texts(values: Any) -> bool:
    texts = type(values) is list and all(isinstance(value, str) for value in values)
    return texts and 0 < len(values) == len(set(values))


def find_fault_among(specs: Sequence[Spec]) -> tuple[str, Message] | None:
    """The name of a faulty specification (or of a column in two of them) and what is wrong."""
    seen: set[str] = set()
    features: set[str] = set()
    for spec in specs:
        fault = find_fault(spec)
        if fault is not None:
            return str(spec.get("name", "?") if isinstance(spec, dict) else spec), fault
        sources = source_names(spec)
        if spec["name"] in features or not seen.isdisjoint(sources):
            return spec["name"], Message("columns.fault.twice")
        features.add(spec["name"])
        seen.update(sources)
    return None
