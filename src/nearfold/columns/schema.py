"""What each column of a table is for, decided and shown before anything is fitted.

Whoever knows better overrules it: by naming columns and kinds, or with a schema file that was
written by a dry run, edited and read back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nearfold.columns.asked import check_details, given_kinds, given_roles, saved_entries
from nearfold.columns.facts import measure
from nearfold.columns.frames import as_polars, show, show_names
from nearfold.columns.kinds import USABLE, Facts, Kind, Role
from nearfold.columns.specs import make_spec
from nearfold.errors import InputError
from nearfold.messages import Message

_VECTOR_NAME = re.compile(
    r"(.*?(?:emb|embed|embedding|vec|vector|dim|latent|pc|z)[_ .-]?)(\d+)", re.I
)
_LEAST_VECTOR = 16  # columns of one numbered name that are an embedding
_OUTLINE = 1_000  # columns of an outline


@dataclass(frozen=True)
class Column:
    """One column, or the columns of one embedding: what it holds, what for, and why."""

    name: str
    kind: Kind
    role: Role
    reason: Message
    n_rows: int
    n_missing: int = 0
    n_distinct: int | None = None
    example: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def use(self) -> Message:
        """How it will be used."""
        if self.role != Role.FEATURE:
            return Message(f"use.{self.role.value}")
        n = self.n_distinct or self.details.get("width") or 0
        parts = [Message(f"use.part.{part}") for part in self.details.get("parts", [])]
        use = Message(f"use.{self.kind.value}", n=n, parts=[Message("use.part.elapsed"), *parts])
        if not self.n_missing:
            return use
        own = self.kind == Kind.CATEGORY
        return use + Message("use.missing_category" if own else "use.missing", n=self.n_missing)

    def spec(self) -> dict[str, Any]:
        """What it takes to read the cells of new rows, as plain values."""
        return make_spec(self.name, self.kind, self.details)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `Schema.from_dict` reads name, kind, role and what it takes to read cells."""
        return {
            "name": self.name,
            "kind": self.kind.value,
            "role": self.role.value,
            "reason": str(self.reason),
            "use": str(self.use),
            "n_missing": self.n_missing,
            "n_distinct": self.n_distinct,
            "example": self.example,
            **self.details,
        }


@dataclass(frozen=True)
class Schema:
    """All columns, in the order of the table."""

    columns: tuple[Column, ...]

    def features(self) -> list[Column]:
        """The columns that are used."""
        return [column for column in self.columns if column.role == Role.FEATURE]

    def named(self, role: Role) -> str | None:
        """The name of the (first) column of this role."""
        return next((column.name for column in self.columns if column.role == role), None)

    def as_dict(self) -> dict[str, Any]:
        """For JSON, and for a schema file."""
        return {"columns": [column.as_dict() for column in self.columns]}

    def outline(self) -> dict[str, Any]:
        """As `as_dict`, with no more than a thousand features and columns that are left out: for a
        model file, which has the names of all features anyway.
        """
        plain = (Role.FEATURE, Role.EXCLUDED)
        rest = [column for column in self.columns if column.role in plain]
        most = {column.name for column in rest[:_OUTLINE]}
        kept = [c.as_dict() for c in self.columns if c.role not in plain or c.name in most]
        return {"columns": kept, "n_more": len(self.columns) - len(kept)}

    def notices(self) -> list[Message]:
        """What a person should know before trusting the result, a few lines at most."""
        groups: dict[str, list[Column]] = {}
        for column in self.columns:
            if column.role in (Role.EXCLUDED, Role.ID):
                groups.setdefault(column.reason.id, []).append(column)
        lines = []
        for members in groups.values():
            names = show_names(column.name for column in members)
            why = members[0].reason
            alike = all(column.reason == why for column in members)
            known = "columns.left_out" if alike else "columns.left_out_for_one"
            lines.append(Message(known, n=len(members), names=names, why=why))
        for column in self.features():
            if column.reason.id in ("columns.mostly_numbers", "columns.dates_ambiguous"):
                lines.append(Message("columns.look_at", name=show(column.name), why=column.reason))
        repeated = [
            c for c in self.columns
            if c.kind == Kind.ID and c.role in (Role.ID, Role.EXCLUDED)
            and c.n_distinct and c.n_distinct < c.n_rows - c.n_missing
        ]  # fmt: skip
        if repeated and self.named(Role.GROUP) is None:
            first = repeated[0]
            each = round(first.n_rows / (first.n_distinct or 1), 1)
            lines.append(Message("columns.try_group", name=show(first.name), each=each))
        return lines


def infer_schema(
    frame: Any,
    *,
    label: str | None = None,
    target: str | None = None,
    id: str | None = None,
    group: str | None = None,
    time: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Iterable[str] = (),
    kinds: Mapping[str, str] | None = None,
    saved: Mapping[str, Any] | None = None,
) -> Schema:
    """Decide what each column holds and is for; what is named is taken, the rest is inferred.

    Parameters
    ----------
    frame : a polars, pandas or Arrow table.
    label, target, id, group, time : names of the columns with these roles.
    features : if given, all the features there are. `exclude`: columns to leave out.
    kinds : kinds of columns by name, for example {"zip": "category"}; an order is given as
        "ordered:low<medium<high".
    saved : a schema as `Schema.as_dict` writes it; named columns and kinds overrule it.
    """
    table = as_polars(frame)
    entries = saved_entries(saved, table.columns)
    wanted = given_kinds(table.columns, kinds, entries)
    asked = {
        Role.LABEL: label,
        Role.TARGET: target,
        Role.ID: id,
        Role.GROUP: group,
        Role.TIME: time,
    }
    # As text, like the names of the columns: pandas may number them.
    named = {role: None if name is None else str(name) for role, name in asked.items()}
    roles = given_roles(table.columns, entries, named, features, exclude)
    has_id = Role.ID in roles.values()
    columns = []
    for fact in measure(table, {name: kind for name, (kind, _) in wanted.items()}):
        details = wanted.get(fact.name, (None, {}))[1]
        if details and fact.n_missing < fact.n_rows:
            fact = replace(fact, details={**fact.details, **details})
            check_details(fact, table.get_column(fact.name))
        columns.append(_column(fact, roles.get(fact.name), features is not None, has_id))
    floats = {name for name, held in table.schema.items() if held.is_float()}
    return Schema(tuple(_with_embeddings(columns, floats)))


def _column(fact: Facts, role: Role | None, only_named: bool, has_id: bool) -> Column:
    chosen, reason = _role(fact, role, only_named, has_id)
    return Column(fact.name, fact.kind, chosen, reason, fact.n_rows, fact.n_missing,
                  fact.n_distinct, fact.example, fact.details)  # fmt: skip


def _role(fact: Facts, role: Role | None, only_named: bool, has_id: bool) -> tuple[Role, Message]:
    """The role of a column and the reason."""
    empty = fact.n_missing == fact.n_rows
    if role in (Role.LABEL, Role.TARGET):
        _refuse_answer(fact, role, empty)
        return role, fact.reason
    if role == Role.FEATURE:
        if empty or fact.kind not in USABLE:
            raise InputError(Message("columns.no_feature", name=show(fact.name), why=fact.reason))
        return role, fact.reason
    if role is not None:
        return role, Message("columns.named")
    if only_named:
        return Role.EXCLUDED, Message("columns.not_named")
    if fact.kind == Kind.ID:
        return (Role.EXCLUDED if has_id else Role.ID), fact.reason
    if fact.constant:
        return Role.EXCLUDED, Message("columns.constant", value=show(fact.example))
    return (Role.FEATURE if fact.kind in USABLE else Role.EXCLUDED), fact.reason


def _refuse_answer(fact: Facts, role: Role, empty: bool) -> None:
    if empty:
        raise InputError(Message("columns.answer_empty", name=show(fact.name), role=role.shown))
    if role == Role.TARGET and fact.kind not in (Kind.NUMBER, Kind.BOOLEAN, Kind.ID):
        raise InputError(Message("columns.target_no_number", name=show(fact.name), why=fact.reason))
    if role == Role.LABEL and fact.kind in (Kind.EMBEDDING, Kind.IMAGE, Kind.OTHER):
        raise InputError(Message("columns.label_nested", name=show(fact.name)))


def _with_embeddings(columns: list[Column], floats: set[str]) -> list[Column]:
    """Numbered columns of one name (emb_0 ... emb_767) as one embedding."""
    groups: dict[str, list[tuple[int, Column]]] = {}
    for column in columns:
        usable = column.role == Role.FEATURE and column.kind == Kind.NUMBER
        match = _VECTOR_NAME.fullmatch(column.name) if usable and column.name in floats else None
        if match:
            groups.setdefault(match[1], []).append((int(match[2]), column))
    groups = {prefix: held for prefix, held in groups.items() if len(held) >= _LEAST_VECTOR}
    inside = {column.name for held in groups.values() for _, column in held}
    taken = {column.name for column in columns} - inside
    first: dict[str, Column] = {}  # the embedding by its first column
    for prefix, held in groups.items():
        whole = _embedding(prefix, held, taken)
        first[held[0][1].name] = whole
        taken.add(whole.name)
    found = []
    for column in columns:
        if column.name in first:
            found.append(first[column.name])
        elif column.name not in inside:
            found.append(column)
    return found


def _embedding(prefix: str, numbered: list[tuple[int, Column]], taken: set[str]) -> Column:
    columns = [column for _, column in sorted(numbered, key=lambda pair: pair[0])]
    name = prefix.rstrip("_ .-") or prefix
    while name in taken:
        name += "*"
    return Column(
        name, Kind.EMBEDDING, Role.FEATURE, Message("columns.vectors", n=len(columns)),
        columns[0].n_rows, sum(column.n_missing for column in columns), None, "",
        {"width": len(columns), "members": [column.name for column in columns]},
    )  # fmt: skip
