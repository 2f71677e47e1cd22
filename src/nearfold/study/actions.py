"""What a person can do in a session, as JSON objects: checked, and brought to one form.

    {"do": "link", "a": 3, "b": 17, "alike": true}       two rows belong together, or do not
    {"do": "link_groups", "a": [1, 2], "b": [5], "alike": false}      all pairs between two groups;
                                                         b null: all pairs within the first
    {"do": "import_links", "pairs": [[3, 17, 1], [4, 9, -1]]}
    {"do": "unlink", "a": 3, "b": 17}
    {"do": "answer", "a": 3, "b": 17, "answer": "alike"}              "different" or "skip"
    {"do": "paint", "rows": [4, 5], "label": "seven"}    a class for rows; null takes it away
    {"do": "learner", "name": "auto"}                    or "ITML", "MMC", "LMNN"
    {"do": "weight", "column": "alcohol", "factor": 0.5} 1 is neutral, 0 leaves the column out
    {"do": "show", "space": "PCA"}                       a space to look at, and how
    {"do": "view", "space": "PCA", "axes": "main", "dimensions": 3}   or axes "classes"
    {"do": "undo"}, {"do": "redo"}

They come from outside: whatever is not listed here is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from nearfold.columns.frames import show, show_names
from nearfold.errors import InputError
from nearfold.messages import Message

LEARNERS = ("auto", "ITML", "MMC", "LMNN")
ANSWERS = ("alike", "different", "skip")
AXES = ("main", "classes")
DIMENSIONS = (2, 3)
_MOST_ROWS = 1_000_000  # named in one action
_MOST_IMPORTED = 20_000  # links
_LONGEST = 200  # characters of a class
_LARGEST_FACTOR = 100.0

Action = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """What actions may name: the rows, columns and spaces of a table."""

    n_rows: int
    columns: tuple[str, ...]
    spaces: tuple[str, ...]
    digest: str  # of the cells: another table is another session


def check_action(action: Any, facts: Facts) -> Action:
    """The action with its fields checked, in one form; anything else is an InputError."""
    kind = action.get("do") if isinstance(action, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise InputError(Message("session.unknown", known=list(_FIELDS)))
    expected = _FIELDS[kind]
    if set(action) != {"do", *expected}:
        names = list(expected) or Message("session.nothing")
        raise InputError(Message("session.fields", do=kind, names=names))
    found = {name: check(action[name], name, facts) for name, check in expected.items()}
    if {"a", "b"} <= set(found) and kind != "link_groups" and found["a"] == found["b"]:
        raise InputError(Message("session.itself", row=found["a"]))
    return {"do": kind, **found}


def _row(value: Any, name: str, facts: Facts) -> int:
    if type(value) is not int or not 0 <= value < facts.n_rows:
        raise InputError(
            Message("session.row", name=name, value=show(value), last=facts.n_rows - 1)
        )
    return value


def _rows(value: Any, name: str, facts: Facts) -> list[int]:
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_ROWS:
        raise InputError(Message("session.rows", name=name, most=_MOST_ROWS))
    return list(dict.fromkeys(_row(row, name, facts) for row in value))


def _rows_or_none(value: Any, name: str, facts: Facts) -> list[int] | None:
    return None if value is None else _rows(value, name, facts)


def _truth(value: Any, name: str, facts: Facts) -> bool:
    if not isinstance(value, bool):
        raise InputError(Message("session.truth", name=name, value=show(value)))
    return value


def _pairs(value: Any, name: str, facts: Facts) -> list[list[int]]:
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_IMPORTED:
        raise InputError(Message("session.pairs", most=_MOST_IMPORTED))
    found = []
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 3 or type(pair[2]) is not int:
            raise InputError(Message("session.pairs", most=_MOST_IMPORTED))
        if pair[2] not in (1, -1):
            raise InputError(Message("session.pairs", most=_MOST_IMPORTED))
        a, b = _row(pair[0], name, facts), _row(pair[1], name, facts)
        if a == b:
            raise InputError(Message("session.itself", row=a))
        found.append([a, b, pair[2]])
    return found


def _label(value: Any, name: str, facts: Facts) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value.strip()) <= _LONGEST:
        raise InputError(Message("session.label", most=_LONGEST))
    return value.strip()


def _factor(value: Any, name: str, facts: Facts) -> float:
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not 0 <= number <= _LARGEST_FACTOR:  # NaN, too
        raise InputError(Message("session.factor", value=show(value), most=_LARGEST_FACTOR))
    return number


def _column(value: Any, name: str, facts: Facts) -> str:
    if not isinstance(value, str) or value not in facts.columns:
        known = show_names(facts.columns)
        raise InputError(Message("session.column", value=show(value), known=known))
    return value


def _space(value: Any, name: str, facts: Facts) -> str:
    if not isinstance(value, str) or value not in facts.spaces:
        raise InputError(Message("session.space", value=show(value), known=list(facts.spaces)))
    return value


def _one_of(known: tuple[Any, ...]) -> Callable[[Any, str, Facts], Any]:
    def check(value: Any, name: str, facts: Facts) -> Any:
        if not any(type(value) is type(one) and value == one for one in known):
            shown = [str(one) for one in known]
            raise InputError(Message("words.one_of", name=name, value=show(value), known=shown))
        return value

    return check


_FIELDS: dict[str, dict[str, Callable[[Any, str, Facts], Any]]] = {
    "link": {"a": _row, "b": _row, "alike": _truth},
    "link_groups": {"a": _rows, "b": _rows_or_none, "alike": _truth},
    "import_links": {"pairs": _pairs},
    "unlink": {"a": _row, "b": _row},
    "answer": {"a": _row, "b": _row, "answer": _one_of(ANSWERS)},
    "paint": {"rows": _rows, "label": _label},
    "learner": {"name": _one_of(LEARNERS)},
    "weight": {"column": _column, "factor": _factor},
    "show": {"space": _space},
    "view": {"space": _space, "axes": _one_of(AXES), "dimensions": _one_of(DIMENSIONS)},
    "undo": {},
    "redo": {},
}
