"""What each column of a table is for, decided and shown before anything is fitted.

Whoever knows better overrules it: by naming columns and kinds, or with a schema file that was
written by a dry run, edited and read back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nearfold.columns.facts import Facts, measure
from nearfold.columns.frames import as_polars, close_to, show, show_names
from nearfold.columns.kinds import USABLE, Kind, Role
from nearfold.errors import InputError
from nearfold.messages import Message

_VECTOR_NAME = re.compile(
    r"(.*?(?:emb|embed|embedding|vec|vector|dim|latent|pc|z)[_ .-]?)(\d+)", re.I
)
_LEAST_VECTOR = 16  # columns of one numbered name that are an embedding
_SAVED = ("levels", "parts", "format", "width", "members")


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
        return {"name": self.name, "kind": self.kind.value, **self.details}

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
            lines.append(Message("columns.left_out", n=len(members), names=names, why=why))
        for column in self.features():
            if column.reason.id in ("columns.mostly_numbers", "columns.dates_ambiguous"):
                lines.append(Message("columns.look_at", name=show(column.name), why=column.reason))
        repeated = [
            c for c in self.columns
            if c.kind == Kind.ID and c.n_distinct and 1.5 * c.n_distinct <= c.n_rows - c.n_missing
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
    wanted = _kinds(table.columns, kinds, saved)
    roles = _roles(table.columns, saved, {Role.LABEL: label, Role.TARGET: target, Role.ID: id,
                   Role.GROUP: group, Role.TIME: time}, features, exclude)  # fmt: skip
    facts = measure(table, {name: kind for name, (kind, _) in wanted.items()})
    columns = []
    for fact in facts:
        details = wanted.get(fact.name, (None, {}))[1]
        fact = replace(fact, details={**fact.details, **details}) if details else fact
        columns.append(
            _column(fact, roles.get(fact.name), features is not None, Role.ID in roles.values())
        )
    return Schema(tuple(_with_embeddings(columns, table)))


def _kinds(
    known: list[str], kinds: Mapping[str, str] | None, saved: Mapping[str, Any] | None
) -> dict[str, tuple[Kind, dict[str, Any]]]:
    """The kinds that were given, with the order of levels where that was given."""
    found: dict[str, tuple[Kind, dict[str, Any]]] = {}
    for entry in (saved or {}).get("columns", []):
        details = {key: entry[key] for key in _SAVED if key in entry}
        found[str(entry["name"])] = (_kind(entry["name"], entry["kind"]), details)
    for name, text in (kinds or {}).items():
        _require_known(name, known)
        word, _, order = str(text).partition(":")
        levels = [level.strip() for level in order.split("<")] if order else None
        found[name] = (_kind(name, word), {"levels": levels} if levels else {})
    return found


def _kind(name: str, word: str) -> Kind:
    try:
        return Kind(word)
    except ValueError:
        known = [kind.value for kind in Kind if kind != Kind.OTHER]
        raise InputError(
            Message("columns.no_kind", name=show(name), kind=word, known=known)
        ) from None


def _roles(
    known: list[str],
    saved: Mapping[str, Any] | None,
    named: dict[Role, str | None],
    features: Sequence[str] | None,
    exclude: Iterable[str],
) -> dict[str, Role]:
    """The role of each column that was named, after a look whether all exist."""
    if isinstance(features, str) or isinstance(exclude, str):
        raise InputError("features and exclude are lists of column names, not one name.")
    if named[Role.LABEL] is not None and named[Role.TARGET] is not None:
        raise InputError(Message("columns.label_and_target"))
    roles = {
        str(e["name"]): Role(e["role"]) for e in (saved or {}).get("columns", []) if "role" in e
    }
    roles = {name: role for name, role in roles.items() if name in known}
    for role in (Role.LABEL, Role.TARGET):  # a file may have been written for another question
        if any(named[r] is not None for r in (Role.LABEL, Role.TARGET)):
            roles = {name: r for name, r in roles.items() if r != role}
    asked = [(role, name) for role, name in named.items() if name is not None]
    asked += [(Role.FEATURE, name) for name in features or ()]
    asked += [(Role.EXCLUDED, name) for name in exclude]
    given: dict[str, Role] = {}
    for role, name in asked:
        _require_known(name, known)
        if given.setdefault(name, role) != role:
            raise InputError(Message("columns.two_roles", name=show(name), one=given[name].shown,
                                     other=role.shown))  # fmt: skip
    return roles | given


def _require_known(name: str, known: list[str]) -> None:
    if name not in known:
        raise InputError(Message("columns.unknown", name=show(name), near=close_to(name, known)))


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


def _with_embeddings(columns: list[Column], table: Any) -> list[Column]:
    """Numbered columns of one name (emb_0 ... emb_767) as one embedding."""
    groups: dict[str, list[tuple[int, Column]]] = {}
    for column in columns:
        match = _VECTOR_NAME.fullmatch(column.name)
        floats = column.name in table.columns and table[column.name].dtype.is_float()
        if match and floats and column.role == Role.FEATURE and column.kind == Kind.NUMBER:
            groups.setdefault(match[1], []).append((int(match[2]), column))
    for prefix, numbered in groups.items():
        if len(numbered) < _LEAST_VECTOR:
            continue
        numbered.sort(key=lambda pair: pair[0])
        members = [column.name for _, column in numbered]
        name = prefix.rstrip("_ .-") or prefix
        taken = {c.name for c in columns} - set(members)
        whole = Column(
            name if name not in taken else f"{prefix}*", Kind.EMBEDDING, Role.FEATURE,
            Message("columns.vectors", n=len(members)), numbered[0][1].n_rows,
            sum(c.n_missing for _, c in numbered), None, "",
            {"width": len(members), "members": members},
        )  # fmt: skip
        at = columns.index(numbered[0][1])
        columns = [c for c in columns if c.name not in set(members)]
        columns.insert(at, whole)
    return columns
