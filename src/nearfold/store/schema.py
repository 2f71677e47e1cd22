"""What each column of a table is for: a feature, the label, the target, an id, or nothing.

Numbers are features. Text is never turned into numbers in silence: it is left out with the
reason, as are columns that say nothing (constant, empty) and columns that only number the rows.
Whoever knows better names the columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nearfold.errors import InputError
from nearfold.store.column_facts import Facts, measure, why_text
from nearfold.store.frames import as_polars, close_to, count, show, show_list

ROLES = ("feature", "label", "target", "id", "excluded")
_ID_NAME = re.compile(
    r"(.*[_ .-])?(id|ids|uuid|guid|index|idx|key|row|rowid|rownum|row_?names?|nr|no|serial)"
    r"|column_1|.*(编号|序号|編號|序號|番号)",
    re.IGNORECASE,
)
_CAMEL_ID = re.compile(r".*[a-z](Id|ID)")
_LABEL_NAME = re.compile(
    r"label|labels|class|classes|category|species|target|y|diagnosis|标签|类别|標籤|類別|ラベル",
    re.IGNORECASE,
)
_ENOUGH_TO_COUNT = 20  # rows: fewer may well be 1, 2, 3, ... by chance
_MOST_CLASSES = 100


@dataclass(frozen=True)
class Column:
    """One column: what it is for, why, and what it holds."""

    name: str
    role: str
    kind: str
    reason: str
    n_missing: int
    n_distinct: int | None
    example: str


@dataclass(frozen=True)
class Schema:
    """All columns, in the order of the table."""

    columns: tuple[Column, ...]

    def features(self) -> list[str]:
        """The names of the features."""
        return [column.name for column in self.columns if column.role == "feature"]

    def excluded(self) -> dict[str, str]:
        """The columns left out, and why; ids are among them."""
        return {c.name: c.reason for c in self.columns if c.role in ("excluded", "id")}

    @property
    def label(self) -> str | None:
        """The name of the label column."""
        return self._named("label")

    @property
    def target(self) -> str | None:
        """The name of the target column."""
        return self._named("target")

    @property
    def id(self) -> str | None:
        """The name of the (first) column that names the rows."""
        return self._named("id")

    def _named(self, role: str) -> str | None:
        return next((column.name for column in self.columns if column.role == role), None)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"columns": [asdict(column) for column in self.columns]}

    def notices(self) -> list[str]:
        """What a person should know before trusting the result, a few lines at most."""
        groups: dict[str, list[Column]] = {}
        for column in self.columns:
            if column.role in ("excluded", "id"):
                groups.setdefault(column.reason.split(":")[0], []).append(column)
        lines = []
        for why, members in groups.items():
            if len(members) == 1:
                lines.append(f"{show(members[0].name)} is not a feature ({members[0].reason})")
            else:
                names = show_list(column.name for column in members)
                lines.append(f"{len(members):,} columns are not features ({why}): {names}")
        spoilt = [c for c in self.columns if c.role == "feature" and c.reason != _plain_reason(c)]
        if spoilt:
            shown = "; ".join(f"{show(c.name)}: {c.reason}" for c in spoilt[:3])
            more = f"; and {len(spoilt) - 3:,} more columns" if len(spoilt) > 3 else ""
            lines.append(f"look at {shown}{more}")
        return lines


def _plain_reason(column: Column) -> str:
    return {"boolean": "yes or no, as 1 and 0"}.get(column.kind, f"{column.kind}s")


def infer_schema(
    frame: Any,
    *,
    label: str | None = None,
    target: str | None = None,
    id: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Iterable[str] = (),
    guess_label: bool = False,
) -> Schema:
    """Decide what each column is for; what is named is taken, the rest is inferred.

    `features`, if given, are all the features there are. Rows in reasons are counted from 1.
    """
    table = as_polars(frame)
    named = _named_roles(table.columns, label, target, id, features, exclude)
    facts = measure(table)
    if guess_label and label is None and target is None:
        guess = _guess_label(facts, named)
        named |= {guess: "guessed label"} if guess else {}
    judge = _Judge(named, only_named=features is not None, has_id=id is not None)
    return Schema(tuple(judge.column(fact) for fact in facts))


def _named_roles(
    known: list[str],
    label: str | None,
    target: str | None,
    id: str | None,
    features: Sequence[str] | None,
    exclude: Iterable[str],
) -> dict[str, str]:
    """The role of each column that was named, after a look whether all exist."""
    if isinstance(features, str) or isinstance(exclude, str):
        raise InputError("features and exclude are lists of column names, not one name.")
    if label is not None and target is not None:
        raise InputError("name a label or a target, not both.")
    asked = [("label", label), ("target", target), ("id", id)]
    asked += [("feature", name) for name in features or ()]
    asked += [("excluded", name) for name in exclude]
    roles: dict[str, str] = {}
    there = set(known)
    for role, name in asked:
        if name is None:
            continue
        if name not in there:
            raise InputError(f"there is no column {show(name)}. {close_to(name, known)}")
        if roles.setdefault(name, role) != role:
            raise InputError(f"column {show(name)} is named as {roles[name]} and as {role}.")
    return roles


def _guess_label(facts: list[Facts], named: dict[str, str]) -> str | None:
    """A column with a label's name and few values; never a column by its values alone."""
    for fact in reversed(facts):
        few = fact.n_distinct is not None and 2 <= fact.n_distinct <= _MOST_CLASSES
        if fact.name not in named and few and _LABEL_NAME.fullmatch(fact.name.strip()):
            if fact.n_distinct is not None and fact.n_distinct < fact.n_present:
                return fact.name
    return None


class _Judge:
    """Gives each column its role and the reason."""

    def __init__(self, named: dict[str, str], only_named: bool, has_id: bool) -> None:
        self.named = named
        self.only_named = only_named
        self.has_id = has_id

    def column(self, fact: Facts) -> Column:
        role, reason = self._role(fact)
        return Column(
            fact.name, role, fact.kind, reason, fact.n_missing, fact.n_distinct, fact.example
        )

    def _role(self, fact: Facts) -> tuple[str, str]:
        given = self.named.get(fact.name)
        if given is not None:
            choose: dict[str, Callable[[Facts], tuple[str, str]]] = {
                "label": self._label,
                "guessed label": self._label,
                "target": self._target,
                "feature": self._named_feature,
            }
            return choose[given](fact) if given in choose else (given, "named")
        if self.only_named:
            return "excluded", "not named: other columns were named as the features"
        return self._inferred(fact)

    def _label(self, fact: Facts) -> tuple[str, str]:
        how = "named" if self.named[fact.name] == "label" else "guessed by its name"
        distinct = "" if fact.n_distinct is None else f": {count(fact.n_distinct, 'class')}"
        distinct = distinct.replace("classs", "classes")
        missing = f", {count(fact.n_missing, 'row')} without" if fact.n_missing else ""
        if fact.n_present == 0:
            raise InputError(f"the label {show(fact.name)} is empty in every row.")
        if fact.kind == "nested":
            raise InputError(f"the label {show(fact.name)} holds several values in a row.")
        return "label", f"{how}{distinct}{missing}"

    def _target(self, fact: Facts) -> tuple[str, str]:
        if not fact.is_numeric:
            why = why_text(fact) if fact.kind in ("text", "category") else fact.kind
            raise InputError(f"the target {show(fact.name)} must be a number ({why}).")
        if fact.n_present == 0:
            raise InputError(f"the target {show(fact.name)} is empty in every row.")
        missing = f": {count(fact.n_missing, 'row')} without" if fact.n_missing else ""
        return "target", f"named{missing}"

    def _named_feature(self, fact: Facts) -> tuple[str, str]:
        if fact.kind in ("date", "nested"):
            raise InputError(f"column {show(fact.name)} cannot be a feature: it is {fact.kind}.")
        if fact.n_present == 0:
            raise InputError(f"column {show(fact.name)} cannot be a feature: it is empty.")
        if fact.is_numeric:
            return "feature", _quality(fact)
        if fact.n_numbers == 0:
            raise InputError(f"column {show(fact.name)} cannot be a feature ({why_text(fact)}).")
        lost = fact.n_present - fact.n_numbers
        return "feature", f"text read as numbers, {count(lost, 'other value')} taken as missing"

    def _inferred(self, fact: Facts) -> tuple[str, str]:
        if fact.kind == "nested":
            return "excluded", "nested: several values in a row, or bytes"
        if fact.n_present == 0:
            return "excluded", "empty: no row has a value"
        id_like = _why_id(fact)
        if id_like is not None:
            return ("excluded" if self.has_id else "id"), id_like
        if fact.kind == "date":
            return "excluded", "date: turn it into numbers yourself to use it"
        if fact.is_constant and fact.n_rows > 1 and fact.n_infinite == 0:
            return "excluded", f"constant: always {fact.example}"
        if not fact.is_numeric:
            return "excluded", why_text(fact)
        return "feature", _quality(fact)


def _why_id(fact: Facts) -> str | None:
    """Why a column only names the rows, if it does."""
    if not fact.all_differ or fact.kind in ("number", "boolean", "date") or fact.n_rows < 2:
        return None
    if fact.form == "UUIDs":
        return "id: every row has another UUID"
    name = fact.name.strip()
    if _ID_NAME.fullmatch(name) or _CAMEL_ID.fullmatch(name):
        return "id: by its name, and no two rows are the same"
    if fact.kind == "whole number" and fact.in_order and fact.low in (0, 1):
        if fact.high - fact.low == fact.n_rows - 1 and fact.n_rows >= _ENOUGH_TO_COUNT:
            return "id: it counts the rows"
    return None


def _quality(fact: Facts) -> str:
    """What is to be said about a feature: its kind, and what is wrong with it."""
    flaws = []
    if fact.n_missing:
        flaws.append(f"{fact.n_missing:,} of {count(fact.n_rows, 'value')} missing")
    if fact.n_infinite:
        flaws.append(f"{count(fact.n_infinite, 'infinite value')}")
    if fact.is_constant and fact.n_rows > 1:
        flaws.append("constant")
    plain = "yes or no, as 1 and 0" if fact.kind == "boolean" else f"{fact.kind}s"
    return f"{plain}, {', '.join(flaws)}" if flaws else plain
