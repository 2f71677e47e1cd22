"""compare: one command takes a table to an answer."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from nearfold.app.options import FOLDS, JSON, LANG, SEED, refuse_outputs
from nearfold.app.tables import ReadTable, read, table_options, task_of
from nearfold.errors import InputError


@click.command()
@click.argument("data")
@table_options
@click.option("--pairs", metavar="FILE", help="Pairs of row ids and 1 (alike) or -1 (not).")
@click.option("-o", "--output", metavar="HTML", help="Write the report here.")
@click.option("--save", metavar="MODEL", help="Save a model of the best space, fitted on all rows.")
@click.option("--space", "saved_space", metavar="NAME", help="Which space to save instead.")
@click.option(
    "--methods",
    metavar="LIST",
    default="default",
    show_default=True,
    help="Spaces to try: default, all, or names with commas.",
)
@click.option(
    "--also",
    metavar="MODULE:CLASS",
    multiple=True,
    help="A transformer of another package, for example umap:UMAP.",
)
@click.option("-k", "--neighbors", type=int, help="Neighbours used by the kNN judge (default: 5).")
@click.option(
    "--weights",
    type=click.Choice(["uniform", "distance"]),
    default="uniform",
    show_default=True,
    help="Weights of the neighbours' votes.",
)
@click.option("--dimensions", type=int, help="The same d' for all; default: chosen.")
@click.option("--scale/--no-scale", default=None, help="Scale columns first; default: decided.")
@FOLDS
@click.option(
    "--repeats", type=int, help="How often rows are split anew; default: by their number."
)
@click.option(
    "--time",
    "time_limit",
    metavar="TIME",
    default="15m",
    show_default=True,
    help="For all spaces: 90s, 15m, 2h.",
)
@click.option("--points", default=100_000, show_default=True, help="Rows in the pictures, at most.")
@SEED
@LANG
@JSON
def compare(data: str, **options: Any) -> None:
    """Try many spaces on a table: in which one do nearest neighbours work best?

    DATA is a CSV, TSV, Parquet, Arrow, .npy or .npz file, also gzipped, or - for stdin. With
    --label or --target a nearest-neighbour learner is judged on held-out rows; with --pairs the
    distance of held-out pairs; with none of them, how many neighbours are kept.

    \b
    Examples:
      nearfold compare wine.csv --label cultivar -o report.html
      nearfold compare houses.parquet --target price --methods PCA,MLKR
      nearfold compare points.csv --dimensions 2 --json
      nearfold compare wine.csv --label cultivar --save best.nearfold --lang zh
    """  # fmt: skip
    run_compare(data, **options)


def run_compare(data: str, **options: Any) -> None:
    """What `compare` does; the demo does the same."""
    from nearfold.app.printing import print_json, print_leaderboard, print_table
    from nearfold.run import reporting
    from nearfold.study.compare import compare as compare_spaces

    refuse_outputs(data, options.get("output"), options.get("save"))
    if options.get("output") and options.get("output") == options.get("save"):
        raise InputError("the report and the model cannot be the same file.")
    table = read(data, options)
    if not options["as_json"]:
        print_table(table, options["lang"])
    pairs = options.get("pairs")
    if options.get("saved_space") and options["saved_space"].lower() not in _names(options, table):
        raise InputError(f"--space {options['saved_space']}: it is not among the spaces tried.")
    with reporting(sys.stderr.isatty()):
        found = compare_spaces(
            table.X,
            table.y,
            task=task_of(table),
            pairs=Path(pairs) if pairs else None,
            ids=table.ids if pairs else None,
            methods=_methods(options["methods"]),
            spaces=_transformers(options["also"]),
            n_neighbors=options["neighbors"],
            weights=options["weights"],
            n_components=options["dimensions"],
            scale=options["scale"],
            n_folds=options["folds"],
            n_repeats=options["repeats"],
            time_budget=parse_seconds(options["time_limit"]),
            max_points=options["points"],
            random_state=options["seed"],
            columns=table.columns,
        )
        if not options["as_json"]:
            print_leaderboard(found, options["lang"])
        written = _outputs(found, table, options)
    if options["as_json"]:
        print_json(_as_json(found, table, written))
    if not any(len(r.scores) for r in found.results):
        raise InputError(f"no space was finished; {found.results[0].trouble}")
    if found.stopped:
        click.echo("nearfold: stopped; what was finished is above.", err=True)
        sys.exit(130)


def _names(options: dict[str, Any], table: ReadTable) -> set[str]:
    from nearfold.study.candidates import pick_candidates

    task = "pairs" if options.get("pairs") else task_of(table) or "none"
    also = _transformers(options["also"])
    return {c.name.lower() for c in pick_candidates(task, _methods(options["methods"]), also)}


def _as_json(found: Any, table: ReadTable, written: dict[str, str]) -> dict[str, Any]:
    return {
        "source": str(table.source.describe()),
        "schema": table.schema.as_dict(),
        "task": found.judge.task,
        "score": found.judge.score_name,
        "chance": found.judge.chance,
        "winner": found.winner,
        "best": found.best,
        "headline": found.headline,
        "final": found.final.told if found.final else None,
        "leaderboard": found.leaderboard(),
        "notices": [*table.source.notices, *table.notices, *found.notices],
        "stopped": found.stopped,
        "seconds": found.seconds,
        **written,
    }


def _outputs(found: Any, table: ReadTable, options: dict[str, Any]) -> dict[str, str]:
    """The report and the model, where they were asked for."""
    from nearfold.report.study_report import write_report
    from nearfold.study.told import Told

    written = {}
    if options.get("output"):
        told = [*table.source.notices, *table.schema.notices(), *table.notices]
        path = write_report(
            found,
            options["output"],
            title=table.source.name,
            lang=options["lang"],
            columns=_columns_to_show(table),
            ids=table.ids,
            schema=[vars(c) for c in table.schema.columns[:2000]],
            source=str(table.source.describe()),
            notices=tuple(Told(str(n), n if isinstance(n, str) else n.text("zh")) for n in told),
            manifest={"data": table.source.name, "sha256 of the data": table.source.sha256},
        )
        written["report"] = str(path)
        _say(f"The report is at {path.resolve()}", options)
    if options.get("save"):
        from nearfold.store.model_file import save

        name = options.get("saved_space") or found.best
        model = with_preparation(table.preparation, found.fit(name))
        path = save(model, options["save"], extra=_about(found, table, name))
        written["model"] = str(path)
        _say(f"The model of {name} is at {path.resolve()}", options)
    return written


def _columns_to_show(table: ReadTable) -> dict[str, Any]:
    """What points are coloured by."""
    return {
        values.name: values.to_numpy() if values.dtype.is_numeric() else values.cast(str).to_numpy()
        for values in table.shown
    }


def _about(found: Any, table: ReadTable, name: str) -> dict[str, Any]:
    standing = found.verdict.of(name)
    return {
        "space": name,
        "task": found.judge.task,
        "score": standing.score.mean if standing.score else None,
        "score_name": found.judge.score_name.en,
        "interval": [standing.score.low, standing.score.high] if standing.score else None,
        "data": table.source.name,
        "data_sha256": table.source.sha256,
        "schema": table.schema.as_dict(),
        "seed": found.plan.seed,
    }


def _say(text: str, options: dict[str, Any]) -> None:
    click.echo(text, err=options.get("as_json", False))


def with_preparation(preparation: Any, model: Any) -> Any:
    """One pipeline from the table's columns to the space."""
    from sklearn.pipeline import Pipeline

    steps = list(model.steps) if isinstance(model, Pipeline) else [("space", model)]
    return Pipeline([("table", preparation), *steps])


def _methods(text: str) -> Any:
    return text if text in ("default", "all") else [m.strip() for m in text.split(",") if m.strip()]


def _transformers(named: tuple[str, ...]) -> dict[str, Any]:
    """Transformers of other packages, by the module and class that the user names."""
    found = {}
    for text in named:
        module, _, name = text.partition(":")
        try:
            found[name] = getattr(import_module(module), name)()
        except (Exception, SystemExit) as error:  # whatever that module does
            raise InputError(f"--also {text}: {' '.join(str(error).split())}") from None
    return found


def parse_seconds(text: str) -> float:
    """90s, 15m, 2h or plain seconds."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([smh]?)\s*", text)
    if not match or float(match[1]) <= 0:
        raise InputError(f"--time {text}: write for example 90s, 15m or 2h.")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
