"""compare: one command takes a table to an answer."""

from __future__ import annotations

import logging
import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from nearfold.app.options import (
    FOLDS,
    SEED,
    about,
    option,
    refuse_outputs,
    study_options,
    table_options_of,
    talking_options,
)
from nearfold.app.reading import existing, pairs_of
from nearfold.errors import InputError, NearfoldError, reason
from nearfold.messages import Message

_log = logging.getLogger(__name__)
_EXAMPLES = (
    "nearfold compare wine.csv --label cultivar -o report.html",
    "nearfold compare houses.parquet --target price --methods PCA,MLKR",
    "nearfold compare points.csv --dimensions 2 --json",
    "nearfold compare wine.csv --label cultivar --dry-run --schema schema.json",
    "nearfold compare wine.csv --label cultivar --save best.nearfold --lang zh",
)


@click.command(help=about("compare", *_EXAMPLES))
@click.argument("data")
@study_options
@option("--pairs", metavar="FILE")
@option("-o", "--output", metavar="HTML", about="report")
@option("--open", "open_report", is_flag=True)
@option("--save", metavar="MODEL")
@option("--space", "saved_space", metavar="NAME")
@option("--dry-run", is_flag=True)
@option("--score", metavar="NAME")
@option("--methods", metavar="LIST", default="default", show_default=True)
@option("--also", metavar="MODULE:CLASS", multiple=True)
@option("-k", "--neighbors", type=int)
@option(
    "--weights", type=click.Choice(["uniform", "distance"]), default="uniform", show_default=True
)
@option("--dimensions", type=int)
@option("--scale/--no-scale", default=None)
@FOLDS
@option("--repeats", type=int)
@option("--time", "time_limit", metavar="TIME", default="15m", show_default=True)
@option("--points", default=100_000, show_default=True)
@option("--recall", metavar="VALUE", type=click.FloatRange(0, 1, min_open=True, max_open=True))
@SEED
@talking_options
def compare(data: str, **options: Any) -> None:
    """Try many spaces on a table: in which one do nearest neighbours work best?"""
    import time

    from nearfold.app.printing import Printer
    from nearfold.run import reporting
    from nearfold.study.compare import compare_table
    from nearfold.study.intake import open_table

    started = time.monotonic()
    out = Printer(options)
    _check_files(data, options)
    question = _question(options)
    _log.info("reading %s", data)
    table = open_table(existing(data), options=table_options_of(options))
    if options["dry_run"]:
        _dry_run(table, options, out)
        return
    out.table(table)
    _refuse_space(options, question, table)
    with reporting(out.shows_progress, out.lang):
        pairs, lost = pairs_of(options["pairs"], table)
        found = compare_table(table, question, pairs=pairs, started=started)
        # Before anything is printed: whoever reads stdout may stop to read.
        written, notices, failure = _write(found, table, options)
    _show(found, table, written, [*lost, *notices], out)
    if failure is not None:
        raise failure
    if options["open_report"] and "report" in written:
        click.launch(Path(written["report"]).resolve().as_uri())
    if not any(len(r.scores) for r in found.results):
        raise InputError(Message("cli.nothing_finished", why=found.results[0].trouble))
    if found.stopped:
        click.echo(f"nearfold: {Message('cli.stopped_above').text(out.lang)}", err=True)
        sys.exit(130)


def _check_files(data: str, options: dict[str, Any]) -> None:
    schema, dry = options["schema_file"], options["dry_run"]
    if options["open_report"] and not options["output"]:
        raise InputError(Message("cli.nothing_to_open"))
    inputs = [data, options["pairs"], None if dry else schema]
    refuse_outputs(inputs, [options["output"], options["save"], schema if dry else None])


def _show(found: Any, table: Any, written: dict[str, str], notices: Any, out: Any) -> None:
    if out.as_json:
        told = found.to_dict()
        told["notices"] += [notice.as_dict() for notice in notices]
        out.json({"source": table.source.describe(), **table.about(), **told, **written})
        return
    out.comparison(found, notices)
    for what, path in written.items():
        out.say(Message(f"cli.written_{what}", path=str(Path(path).resolve())))


def _question(options: dict[str, Any]) -> Any:
    from nearfold.study.question import Question, as_seconds

    transformers = _transformers(options["also"])
    return Question(
        score=options["score"],
        methods=_methods(options["methods"]),
        spaces={name: made for name, (made, _) in transformers.items()},
        supervised=[name for name, (_, sees_y) in transformers.items() if sees_y],
        n_neighbors=options["neighbors"],
        weights=options["weights"],
        n_components=options["dimensions"],
        scale=options["scale"],
        n_folds=options["folds"],
        n_repeats=options["repeats"],
        time_budget=as_seconds(options["time_limit"]),
        max_points=options["points"],
        recall=options["recall"],
        random_state=options["seed"],
    )


def _dry_run(table: Any, options: dict[str, Any], out: Any) -> None:
    """The schema only: shown, and written where --schema says."""
    from nearfold.store.atomic import write_atomically
    from nearfold.study.plain import to_json

    path = options["schema_file"]
    if path:
        text = to_json(table.schema.as_dict()).encode()
        write_atomically(path, lambda file: file.write(text))
    if out.as_json:
        out.json({"source": table.source.describe(), **table.about()})
    else:
        out.schema(table)
        if path:
            out.say(Message("cli.written_schema", path=str(Path(path).resolve())))


def _refuse_space(options: dict[str, Any], question: Any, table: Any) -> None:
    from nearfold.study.candidates import pick_candidates
    from nearfold.study.question import Task

    name = options["saved_space"]
    if not name:
        return
    task = Task.PAIRS if options["pairs"] else table.task or Task.NONE
    names = [c.name for c in pick_candidates(question, table.cells, task)]
    if name.lower() not in [known.lower() for known in names]:
        raise InputError(Message("cli.no_space", name=name, known=names))


def _write(
    found: Any, table: Any, options: dict[str, Any]
) -> tuple[dict[str, str], list[Message], Exception | None]:
    """The report and the model, where they were asked for: their paths, what is to be said, and
    why one of them could not be written.
    """
    from nearfold.study.reuse import warn_of_reuse

    notices = warn_of_reuse(found)
    written: dict[str, str] = {}
    failure: Exception | None = None
    if not any(len(r.scores) for r in found.results):
        return written, notices, None
    for what, path, write in (
        ("report", options["output"], _report),
        ("model", options["save"], _model),
    ):
        if path:
            try:
                written[what] = write(found, table, options, notices)
                _log.info("wrote %s", path)
            except (NearfoldError, OSError) as error:  # what was found is printed all the same
                failure = failure or error
    return written, notices, failure


def _report(found: Any, table: Any, options: dict[str, Any], notices: list[Message]) -> str:
    from nearfold.report.study_report import write_report

    name = table.source.name
    return str(
        write_report(found, options["output"], title=name, lang=options["lang"],
                     notices=tuple(notices), command=command_line())
    )  # fmt: skip


def _model(found: Any, table: Any, options: dict[str, Any], notices: list[Message]) -> str:
    from nearfold.store.model_file import save
    from nearfold.study.showing import space_name

    name = found.result(options["saved_space"] or found.best).name
    extra = {**found.card(name), **table.about()}
    path = save(found.fit(name), options["save"], extra=extra)
    if found.winner is None and not options["saved_space"]:
        notices.append(Message("cli.saved_reference", name=space_name(name)))
    return str(path)


def command_line() -> str:
    """The command that was given, as it can be given again."""
    return shlex.join(["nearfold", *sys.argv[1:]])


def _methods(text: str) -> Any:
    return text if text in ("default", "all") else [m.strip() for m in text.split(",") if m.strip()]


def _transformers(named: tuple[str, ...]) -> dict[str, tuple[Any, bool]]:
    """Transformers of other packages, by module and class; `+y` behind one shows it the labels."""
    found = {}
    for text in named:
        module, _, name = text.removesuffix("+y").partition(":")
        try:
            found[name] = (getattr(import_module(module), name)(), text.endswith("+y"))
        except (Exception, SystemExit) as error:  # whatever that module does
            raise InputError(Message("cli.bad_also", text=text, why=reason(error))) from None
    return found
