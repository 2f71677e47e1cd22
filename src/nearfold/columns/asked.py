"""What a person says of columns: their kinds and roles, by options or in a schema file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nearfold.columns.frames import close_to, plainly_named, show, show_names
from nearfold.columns.kinds import USABLE, Facts, Kind, Role
from nearfold.columns.specs import DETAILS, find_fault
from nearfold.columns.words import as_words
from nearfold.errors import InputError
from nearfold.messages import Message


def saved_entries(saved: Mapping[str, Any] | None, known: list[str]) -> list[dict[str, Any]]:
    """The columns of a saved schema; those of an embedding each by itself."""
    listed = [] if saved is None else saved.get("columns") if isinstance(saved, Mapping) else None
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise InputError(Message("columns.bad_schema", why=Message("columns.schema.no_list")))
    found = []
    for entry in listed:
        if not isinstance(entry.get("name"), str) or not isinstance(entry.get("kind"), str):
            why = Message("columns.schema.no_name")
            raise InputError(Message("columns.bad_schema", why=why))
        members = entry.get("members")
        inside = members if isinstance(members, list) else []
        found += [{**entry, "name": str(name), "kind": Kind.NUMBER.value} for name in inside]
        found += [] if inside else [entry]
    for entry in found:
        _require_known(entry["name"], known)
    return found


def given_kinds(
    known: list[str], kinds: Mapping[str, str] | None, entries: list[dict[str, Any]]
) -> dict[str, tuple[Kind, dict[str, Any]]]:
    """The kinds that were given, with the order of levels where that was given."""
    found: dict[str, tuple[Kind, dict[str, Any]]] = {}
    for entry in entries:
        kind = _kind(entry["name"], entry["kind"])
        details = {key: entry[key] for key in DETAILS.get(kind, ()) if key in entry}
        found[entry["name"]] = (kind, details)
    for name, text in ((str(name), text) for name, text in (kinds or {}).items()):
        _require_known(name, known)
        word, _, order = str(text).partition(":")
        levels = [level.strip() for level in order.split("<")] if order else None
        found[name] = (_kind(name, word.strip()), {"levels": levels} if levels else {})
    return found


def _kind(name: str, word: str) -> Kind:
    try:
        return Kind(word)
    except ValueError:
        known = [kind.value for kind in Kind if kind != Kind.OTHER]
        raise InputError(
            Message("columns.no_kind", name=show(name), kind=word, known=known)
        ) from None


def check_details(fact: Facts, column: Any) -> None:
    """That what a person gave for a column is valid, and that an order has all its words."""
    fault = find_fault({"name": fact.name, "kind": fact.kind.value, **fact.details})
    if fault is not None and fact.kind in USABLE:
        raise InputError(Message("columns.bad_spec", name=show(fact.name), why=fault))
    if fact.kind == Kind.ORDERED:
        words, levels = as_words(plainly_named(column)), fact.details["levels"]
        odd = words.is_in(levels).not_().fill_null(False)
        if odd.any():
            row = int(odd.arg_max() or 0)
            raise InputError(Message("columns.not_in_order", name=show(fact.name), row=row + 1,
                                     word=show(words[row]), levels=show_names(levels)))  # fmt: skip


def given_roles(
    known: list[str],
    entries: list[dict[str, Any]],
    named: dict[Role, str | None],
    features: Sequence[str] | None,
    exclude: Iterable[str],
) -> dict[str, Role]:
    """The role of each column that was named, after a look whether all exist."""
    if isinstance(features, str) or isinstance(exclude, str):
        raise InputError(Message("columns.lists"))
    if named[Role.LABEL] is not None and named[Role.TARGET] is not None:
        raise InputError(Message("columns.label_and_target"))
    roles = {entry["name"]: _saved_role(entry) for entry in entries if "role" in entry}
    answers = (Role.LABEL, Role.TARGET)
    if any(named[role] is not None for role in answers):  # written for another question
        roles = {name: role for name, role in roles.items() if role not in answers}
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


def _saved_role(entry: dict[str, Any]) -> Role:
    try:
        return Role(entry["role"])
    except ValueError:
        why = Message("columns.schema.role", name=show(entry["name"]), role=show(entry["role"]))
        raise InputError(Message("columns.bad_schema", why=why)) from None


def _require_known(name: str, known: list[str]) -> None:
    if name not in known:
        raise InputError(Message("columns.unknown", name=show(name), near=close_to(name, known)))
