"""Options that several commands have, and checks of what they name."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from nearfold.columns.kinds import MISSING_RULES
from nearfold.errors import InputError
from nearfold.messages import LANGUAGES, Message

Command = Callable[..., Any]


def language() -> str:
    """The language of help texts: --lang on the command line, else NEARFOLD_LANG, else English."""
    words = sys.argv[1:]
    asked = [after for word, after in pairwise(words) if word == "--lang"]
    asked += [word.removeprefix("--lang=") for word in words if word.startswith("--lang=")]
    asked.append(os.environ.get("NEARFOLD_LANG", ""))
    return next((lang for lang in asked if lang in LANGUAGES), "en")


def words(id: str, **values: Any) -> str:
    """A text of the command line in the language of help texts."""
    return Message(f"cli.{id}", **values).text(language())


def about(id: str, *examples: str) -> str:
    """The help text of a command, with its examples."""
    shown = "\n".join(f"  {example}" for example in examples)
    return f"{words(id)}\n\n\b\n{words('examples')}\n{shown}"


def option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """An option whose help text is in the catalogue under its long name."""
    long = next(n for n in names if n.startswith("--")).split("/")[0].removeprefix("--")
    settings.setdefault("help", words(f"option.{settings.pop('about', long)}"))
    return click.option(*names, **settings)


def _read_config(ctx: click.Context, _: Any, path: str | None) -> None:
    """Options from a TOML file: those of the command's own table, else those at the top."""
    if path is None:
        return
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(Message("cli.no_file", name=path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(Message("cli.bad_config", name=path, why=str(error))) from None
    own = found.get(ctx.info_name or "", found)
    known = {n.lstrip("-"): p.name for p in ctx.command.params for n in getattr(p, "opts", [])}
    unknown = [key for key in own if key not in known and not isinstance(own[key], dict)]
    if unknown:
        raise InputError(Message("cli.unknown_option", name=path, option=unknown[0]))
    ctx.default_map = {known[key]: value for key, value in own.items() if key in known}


def _use_memory(_ctx: Any, _: Any, size: str | None) -> None:
    if size is not None:
        from nearfold.blocks import set_memory

        set_memory(size)


LANG = option("--lang", type=click.Choice(LANGUAGES), default=language, help=words("option.lang"))
JSON = option("--json", "as_json", is_flag=True)
SEED = option("--seed", default=0, show_default=True)
FOLDS = option("--folds", default=5, show_default=True)
QUIET = option("-q", "--quiet", is_flag=True)
VERBOSE = option("-v", "--verbose", is_flag=True)
MEMORY = option("--memory", metavar="SIZE", callback=_use_memory, expose_value=False, is_eager=True)
CONFIG = option(
    "--config", metavar="FILE", callback=_read_config, expose_value=False, is_eager=True
)

_READING = [
    option("--format", "file_format", metavar="FORMAT"),
    option("--encoding", metavar="NAME"),
    option("--separator", metavar="CHAR"),
    option("--decimal", metavar="CHAR"),
    option("--header/--no-header", default=None),
    option("--na", metavar="WORDS", multiple=True),
    MEMORY,
]
_COLUMNS = [
    option("--label", metavar="COL"),
    option("--target", metavar="COL"),
    option("--id", "id_column", metavar="COL"),
    option("--feature", "features", metavar="COL", multiple=True),
    option("--exclude", metavar="COL", multiple=True),
    option("--dtype", "kinds", metavar="COL=KIND", multiple=True),
    option("--schema", "schema_file", metavar="FILE"),
    option("--missing", type=click.Choice(MISSING_RULES), default="median", show_default=True),
]
_SPLITTING = [
    option("--group", metavar="COL"),
    option("--time-column", metavar="COL"),
]
TALKING = [LANG, JSON, QUIET, VERBOSE, CONFIG]


def with_options(*options: Any) -> Callable[[Command], Command]:
    """All of these options, in this order."""

    def decorate(command: Command) -> Command:
        for one in reversed(options):
            command = one(command)
        return command

    return decorate


reading_options = with_options(*_READING)
table_options = with_options(*_COLUMNS, *_READING)
study_options = with_options(*_COLUMNS, *_SPLITTING, *_READING)
talking_options = with_options(*TALKING)


def table_options_of(options: dict[str, Any]) -> Any:
    """The options of a command as the study takes them."""
    from nearfold.study.intake import TableOptions

    schema = options.get("schema_file")
    if schema and not options.get("dry_run"):
        schema = _read_schema(schema)
    else:
        schema = None
    return TableOptions(
        label=options.get("label"),
        target=options.get("target"),
        id=options.get("id_column"),
        group=options.get("group"),
        time=options.get("time_column"),
        features=list(options.get("features") or ()) or None,
        exclude=tuple(options.get("exclude") or ()),
        kinds=dict(_kind(text) for text in options.get("kinds") or ()),
        schema=schema,
        missing=options.get("missing", "median"),
        na=tuple(w for text in options.get("na") or () for w in text.split(",")),
        format=options.get("file_format"),
        encoding=options.get("encoding"),
        separator=options.get("separator"),
        decimal=options.get("decimal"),
        header=options.get("header"),
    )


def _kind(text: str) -> tuple[str, str]:
    name, equals, kind = text.rpartition("=")
    if not equals or not name or not kind:
        raise InputError(Message("cli.bad_dtype", text=text))
    return name, kind


def _read_schema(path: str) -> dict[str, Any]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        if not all(isinstance(c["name"], str) and "kind" in c for c in found["columns"]):
            raise ValueError("columns")
    except OSError as error:
        raise InputError(Message("cli.no_file", name=path)) from error
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(Message("cli.bad_schema", name=path)) from None
    return dict(found)


def existing(data: str) -> str:
    """The data's path, if there is such a file; patterns and stdin are taken as they are."""
    if data != "-" and not any(sign in data for sign in "*?[#"):
        path = Path(data)
        if "\0" in data or not path.exists():
            raise InputError(Message("cli.no_file", name=data))
        if path.is_dir():
            raise InputError(Message("cli.is_folder", name=data))
    return data


def refuse_outputs(inputs: Iterable[str | None], outputs: Iterable[str | None]) -> None:
    """What cannot be written, or would overwrite an input or another output, is found before the
    work: by any spelling, through links and hard links.
    """
    taken: dict[Any, str] = {}
    for path in inputs:
        if path and path != "-" and "\0" not in path:
            taken |= dict.fromkeys(_identities(Path(path)), path)
    for path in outputs:
        if not path or path == "-":
            continue
        place = Path(path)
        name = place.name or path
        if "\0" in path or not place.resolve().parent.is_dir():
            raise InputError(Message("cli.no_folder", folder=str(place.parent), name=name))
        if place.is_dir():
            raise InputError(Message("cli.is_folder", name=path))
        if not os.access(place.resolve().parent, os.W_OK):
            raise InputError(Message("cli.not_writable", folder=str(place.parent), name=name))
        for identity in _identities(place):
            if identity in taken:
                raise InputError(
                    Message("cli.overwrites", name=name, other=Path(taken[identity]).name)
                )
        taken |= dict.fromkeys(_identities(place), path)


def _identities(path: Path) -> list[Any]:
    """The place of a file, and the file itself, which may have other names."""
    found: list[Any] = [os.path.realpath(path)]
    try:
        status = path.stat()
        found.append((status.st_dev, status.st_ino))
    except (OSError, ValueError):
        pass
    return found
