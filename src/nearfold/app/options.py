"""Options that several commands have, and checks of what they name."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from contextlib import suppress
from glob import glob
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from nearfold.columns.kinds import MISSING_RULES
from nearfold.errors import InputError, reason
from nearfold.messages import LANGUAGES, Message

Command = Callable[..., Any]
_LANGUAGE, _CONFIG = "nearfold.language", "nearfold.config"  # in a context's notes


def language() -> str:
    """The language that is spoken: --lang, else NEARFOLD_LANG, else English."""
    context = click.get_current_context(silent=True)
    asked = [context.meta.get(_LANGUAGE, "")] if context else []
    given = sys.argv[1:]  # help texts are made before options are parsed
    asked += [after for word, after in pairwise(given) if word == "--lang"]
    asked += [word.removeprefix("--lang=") for word in given if word.startswith("--lang=")]
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
    """Options from a TOML file: those at its top, and those in the table of the command."""
    if path is None:
        return
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(Message("cli.no_file", name=path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(Message("cli.bad_config", name=path, why=reason(error))) from None
    commands = ctx.find_root().command
    tables = commands.list_commands(ctx) if isinstance(commands, click.Group) else []
    given = {k: v for k, v in found.items() if not (k in tables and isinstance(v, dict))}
    given |= found.get(ctx.info_name or "", {})
    known = {name.lstrip("-"): p for p in ctx.command.params for name in p.opts}
    for key, value in given.items():
        option = known.get(key)
        if option is None or isinstance(value, dict):
            raise InputError(Message("cli.unknown_option", name=path, option=key))
        if isinstance(value, list) != option.multiple:  # one for several, or a list with commas
            given[key] = [value] if option.multiple else ",".join(map(str, value))
    ctx.default_map = {known[key].name: value for key, value in given.items()}
    ctx.meta[_CONFIG] = path


def _use_memory(_ctx: Any, _: Any, size: str | None) -> None:
    if size is not None:
        from nearfold.blocks import set_memory

        set_memory(size)


def _speak(ctx: click.Context, _: Any, lang: str) -> str:
    ctx.meta[_LANGUAGE] = lang
    return lang


def _log(_ctx: Any, _: Any, verbose: bool) -> None:
    if verbose:
        logging.basicConfig(format="%(name)s: %(message)s")
        logging.getLogger("nearfold").setLevel(logging.INFO)


def _seed(_ctx: Any, _: Any, seed: int) -> int:
    if seed < 0:
        raise InputError(Message("cli.bad_seed", seed=seed))
    return seed


LANG = option(
    "--lang", type=click.Choice(LANGUAGES), default=language, callback=_speak, is_eager=True
)
JSON = option("--json", "as_json", is_flag=True)
SEED = option("--seed", default=0, show_default=True, callback=_seed)
FOLDS = option("--folds", default=5, show_default=True)
QUIET = option("-q", "--quiet", is_flag=True)
VERBOSE = option("-v", "--verbose", is_flag=True, callback=_log, expose_value=False)
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

    file = None if options.get("dry_run") else options.get("schema_file")
    return TableOptions(
        label=options.get("label"),
        target=options.get("target"),
        id=options.get("id_column"),
        group=options.get("group"),
        time=options.get("time_column"),
        features=list(options.get("features") or ()) or None,
        exclude=tuple(options.get("exclude") or ()),
        kinds=dict(_kind(text) for text in options.get("kinds") or ()),
        schema=_read_schema(file) if file else None,
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


def refuse_outputs(inputs: Iterable[str | None], outputs: Iterable[str | None]) -> None:
    """What cannot be written, or would overwrite an input or another output, is found before the
    work: by any spelling, through links and hard links.
    """
    context = click.get_current_context(silent=True)
    config = context.meta.get(_CONFIG) if context else None
    taken: dict[Any, str] = {}
    for path in [*inputs, config]:
        if path and path != "-" and "\0" not in path:
            for name in (path, path.partition("#")[0], *glob(path)):  # sheets and patterns
                taken |= dict.fromkeys(_identities(Path(name)), name)
    for path in outputs:
        if path is None:
            continue
        place = Path(path)
        _refuse_place(path)
        for identity in _identities(place):
            if identity in taken:
                other = Path(taken[identity]).name
                raise InputError(Message("cli.overwrites", name=place.name, other=other))
        taken |= dict.fromkeys(_identities(place), path)


def _refuse_place(path: str) -> None:
    from nearfold.store.atomic import check_place

    place = check_place(path)
    try:  # permissions do not tell of read-only disks, nor anything to root
        with tempfile.TemporaryFile(dir=place.parent):
            pass
    except OSError as error:
        raise InputError(Message("cli.not_writable", folder=str(Path(path).parent),
                                 name=place.name, why=reason(error))) from error  # fmt: skip


def _identities(path: Path) -> list[Any]:
    """The place of a file, and the file itself, which may have other names."""
    found: list[Any] = [os.path.realpath(path)]
    with suppress(OSError, ValueError):
        status = path.stat()
        found.append((status.st_dev, status.st_ino))
    return found
