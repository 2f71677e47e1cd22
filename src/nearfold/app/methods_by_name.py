"""Estimators by the names that people type."""

from __future__ import annotations

import ast
import difflib
from typing import Any

from nearfold.errors import InputError
from nearfold.messages import Message


def make_method(name: str, settings: tuple[str, ...]) -> Any:
    """An estimator of the registry by its name or a usual short one, with NAME=VALUE settings."""
    from nearfold import registry

    by_name = {known.lower(): m for m in registry.METHODS for known in (m.shown, *m.names)}
    wanted = name.lower()
    if wanted not in by_name:
        near = difflib.get_close_matches(wanted, by_name, n=3)
        hint: Any = Message("columns.did_you_mean", names=near) if near else ""
        raise InputError(Message("cli.no_method", name=name, hint=hint))
    estimator = by_name[wanted].load()()
    known = estimator.get_params()
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or key not in known:
            raise InputError(Message("cli.bad_setting", text=setting, name=by_name[wanted].name,
                                     known=sorted(known)))  # fmt: skip
        estimator.set_params(**{key: _value(text)})
    return estimator


def _value(text: str) -> Any:
    """A number, None, True, a list, or else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
