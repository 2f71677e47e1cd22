"""A session as JSON: what its table was, the seed, and every action.

The state, and every model learned from it, follow from these alone: `replay_log` gives the same
session, and `learn` of it the same model to the last bit.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from nearfold.columns.frames import show
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.study.intake import StudyTable, TableOptions
from nearfold.study.session import Session

FORMAT = "nearfold session"
VERSION = 1


def session_log(
    session: Session, table: StudyTable, options: TableOptions | None = None
) -> dict[str, Any]:
    """The session as JSON values; `options`: how the table was read."""
    about = {"rows": session.facts.n_rows, "cells_sha256": session.facts.digest, **table.about()}
    return {
        "format": FORMAT,
        "version": VERSION,
        "table": about,
        "reading": written_options(options or TableOptions()),
        "seed": session.seed,
        "actions": [dict(action) for action in session.actions],
    }


def replay_log(log: Any, table: StudyTable) -> Session:
    """The session of a log, on the table that it was made with."""
    check_log(log)
    first = Session.start(table, log["seed"])
    if log["table"]["cells_sha256"] != first.facts.digest:
        name = log["table"].get("data")
        raise InputError(Message("session.other_table", name=show("?" if name is None else name)))
    return first.after(log["actions"])


def check_log(log: Any) -> None:
    """Raise an InputError unless this is the log of a session."""
    if not isinstance(log, dict) or log.get("format") != FORMAT:
        raise InputError(Message("session.no_log"))
    if log.get("version") != VERSION:
        raise InputError(Message("session.version", version=show(log.get("version"))))
    table, seed = log.get("table"), log.get("seed")
    whole = (
        isinstance(table, dict)
        and isinstance(table.get("cells_sha256"), str)
        and type(seed) is int
        and seed >= 0
        and isinstance(log.get("actions"), list)
    )
    if not whole:
        raise InputError(Message("session.no_log"))


def written_options(options: TableOptions) -> dict[str, Any]:
    """What differs from the defaults, as far as JSON can hold it (not arrays beside a table)."""
    plain = TableOptions()
    found = {}
    for name in (part.name for part in fields(TableOptions)):
        value = getattr(options, name)
        value = list(value) if isinstance(value, tuple) else value
        default = getattr(plain, name)
        default = list(default) if isinstance(default, tuple) else default
        if value != default and _is_json(value):
            found[name] = value
    return found


def read_options(log: Any) -> TableOptions:
    """How the table of a log was read."""
    check_log(log)
    known = {part.name for part in fields(TableOptions)}
    given = log.get("reading")
    if not isinstance(given, dict) or not set(given) <= known:
        raise InputError(Message("session.no_log"))
    as_tuples = ("exclude", "na")
    values: dict[str, Any] = {n: tuple(v) if n in as_tuples else v for n, v in given.items()}
    return TableOptions(**values)


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
