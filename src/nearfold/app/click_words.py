"""Click's own words ("Usage:", "Missing option", ...) in the language of the command line.

Click marks them for gettext, whose catalogues are compiled files found by the system's locale;
ours are those of all other messages, and the language is --lang.
"""

from __future__ import annotations

from types import ModuleType

from click import core, decorators, exceptions, formatting, parser, types

from nearfold.app.options import language
from nearfold.messages import catalogue

_MODULES: tuple[ModuleType, ...] = (core, decorators, exceptions, formatting, parser, types)


def _translated(text: str) -> str:
    return catalogue(language()).get(f"click.{text}", text)


def _translated_number(one: str, many: str, n: int) -> str:
    return _translated(one if n == 1 else many)


def translate_click() -> None:
    """Let click ask our catalogues."""
    for module in _MODULES:
        if hasattr(module, "_"):
            vars(module)["_"] = _translated
        if hasattr(module, "ngettext"):
            vars(module)["ngettext"] = _translated_number
