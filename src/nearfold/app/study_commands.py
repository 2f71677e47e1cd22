"""choose, explain, doctor: commands that study a table."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from nearfold.app.options import (
    FOLDS,
    SEED,
    about,
    option,
    reading_options,
    refuse_outputs,
    table_options,
    table_options_of,
    talking_options,
)
from nearfold.app.reading import existing, kept_rows, name_of, preparation_of, read_new
from nearfold.errors import InputError, reason
from nearfold.messages import Message

_RULES = ["share", "parallel", "connectivity", "cross_validation", "one_standard_error"]
_CHOOSE = (
    "nearfold choose wine.csv --label cultivar",
    "nearfold choose wine.csv --exclude cultivar --rule share --share 0.9",
    "nearfold choose points.csv --what neighbors --method Isomap",
)
_EXPLAIN = (
    "nearfold explain lda.nearfold wine.csv",
    "nearfold explain lda.nearfold wine.csv --rows 0,100 --json",
)
_DOCTOR = ("nearfold doctor points.csv -k 8", "nearfold doctor points.csv -k 8 -o graph.png")


@click.command(help=about("choose", *_CHOOSE))
@click.argument("data")
@option("--what", type=click.Choice(["dimensions", "neighbors", "radius"]), default="dimensions",
        show_default=True)  # fmt: skip
@option("--method")
@option("--rule", type=click.Choice(_RULES))
@option("--share", default=0.95, show_default=True)
@table_options
@option("--scale/--no-scale", default=None)
@option("-k", "--neighbors", default=5, show_default=True)
@FOLDS
@SEED
@talking_options
def choose(data: str, **options: Any) -> None:
    """Choose the number of dimensions, of neighbours, or a radius, and say why."""
    from nearfold.app.printing import Printer
    from nearfold.run import reporting
    from nearfold.study.intake import open_table

    out = Printer(options)
    table = open_table(existing(data), options=table_options_of(options))
    out.table(table)
    with reporting(out.shows_progress, out.lang):
        choice = _choose(table, options)
    out.json(choice.to_dict()) if out.as_json else out.choice(choice)


def _choose(table: Any, options: dict[str, Any]) -> Any:
    from nearfold.app.methods_by_name import make_method
    from nearfold.study.choose import choose_dimension
    from nearfold.study.choose_graph import choose_neighbors, choose_radius, is_learner

    what, rule = options["what"], options["rule"]
    name = options["method"] or ("PCA" if what == "dimensions" else "Isomap")
    estimator = make_method(name, ())
    shared = {"n_neighbors": options["neighbors"], "n_folds": options["folds"],
              "random_state": options["seed"], "scale": options["scale"]}  # fmt: skip
    parameter = {"dimensions": "n_components", "neighbors": "n_neighbors", "radius": "radius"}[what]
    if parameter not in estimator.get_params() or (what == "radius" and is_learner(estimator)):
        raise InputError(
            Message("cli.cannot_choose", name=type(estimator).__name__, what=parameter)
        )
    if is_learner(estimator) and table.y is None:
        raise InputError(Message("cli.needs_label", name=type(estimator).__name__))
    if what == "neighbors":
        return choose_neighbors(estimator, table, rule=rule, **shared)
    if what == "radius":
        return choose_radius(estimator, table, rule=rule, **shared)
    rule = rule or ("share" if table.y is None else "one_standard_error")
    return choose_dimension(estimator, table, rule=rule, threshold=options["share"], **shared)


@click.command(help=about("explain", *_EXPLAIN))
@click.argument("model")
@click.argument("data")
@option("--rows", metavar="A,B")
@option("--top", default=20, show_default=True)
@reading_options
@talking_options
def explain(model: str, data: str, **options: Any) -> None:
    """Which columns make rows near in the space of a saved model?"""
    from nearfold.app.printing import Printer
    from nearfold.run import reporting
    from nearfold.store.model_file import load_with_card
    from nearfold.study.explain import explain_rows, explain_space

    out = Printer(options)
    asked = _two_rows(options["rows"]) if options["rows"] else None
    loaded, card = load_with_card(model)
    if not hasattr(loaded, "transform"):
        raise InputError(Message("cli.no_places", name=name_of(loaded)))
    new = read_new(data, options, card.extra or {}, out)
    frame, kept = kept_rows(loaded, data, new, out)
    if hasattr(loaded.transform(frame.head(1)), "toarray"):
        raise InputError(Message("cli.gives_graph", name=name_of(loaded)))
    rows = frame if preparation_of(loaded) else frame.to_numpy().astype(float)
    with reporting(out.shows_progress, out.lang):
        if asked:
            places = [_place(row, kept) for row in asked]
            found = explain_rows(loaded, rows, tuple(frame.columns), *places)
            found = replace(found, about=Message("explain.rows", a=asked[0], b=asked[1]))
        else:
            found = explain_space(loaded, rows, tuple(frame.columns))
    out.json(found.to_dict()) if out.as_json else out.explanation(found, options["top"])


def _place(row: int, kept: Any) -> int:
    """Where a row of the file is among those that were not left out."""
    found = (kept == row).nonzero()[0]
    if len(found) == 0:
        raise InputError(Message("cli.no_row", row=row))
    return int(found[0])


def _two_rows(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"\s*([0-9]{1,15})\s*,\s*([0-9]{1,15})\s*", text)
    if not match:
        raise InputError(Message("cli.bad_rows", text=text))
    return int(match[1]), int(match[2])


@click.command(help=about("doctor", *_DOCTOR))
@click.argument("data")
@option("-k", "--neighbors", default=10, show_default=True, about="graph_neighbors")
@option("--radius", type=float)
@option("--recall", metavar="VALUE", type=click.FloatRange(0, 1, min_open=True, max_open=True))
@option("--metric", default="euclidean", show_default=True)
@option("-o", "--output", metavar="PNG", about="graph")
@option("--scale/--no-scale", default=False, show_default=True)
@table_options
@talking_options
def doctor(data: str, **options: Any) -> None:
    """Examine the neighbourhood graph of a table: pieces, short circuits, holes."""
    from nearfold.app.printing import Printer
    from nearfold.run import reporting
    from nearfold.study.choose import prepared
    from nearfold.study.intake import open_table

    out = Printer(options)
    refuse_outputs([data, options["schema_file"]], [options["output"]])
    if options["output"] and Path(options["output"]).suffix.lower() != ".png":
        raise InputError(Message("cli.not_png", name=options["output"]))
    table = open_table(existing(data), options=table_options_of(options))
    out.table(table)
    with reporting(out.shows_progress, out.lang):
        diagnosis = _diagnose(prepared(table, options["scale"], 0), options)
    path = None if options["output"] is None else diagnosis.draw(options["output"])
    if out.as_json:
        out.json(diagnosis.to_dict())
    else:
        click.echo("\n".join(out.text(line) for line in diagnosis.lines()))
    if path is not None:
        out.say(Message("cli.written_picture", path=str(path.resolve())))


def _diagnose(X: Any, options: dict[str, Any]) -> Any:
    from nearfold.report.doctor import diagnose

    graph: dict[str, Any] = {"n_neighbors": options["neighbors"], "radius": options["radius"]}
    metric = options["metric"]
    try:
        if options["recall"] is not None:
            graph |= {"algorithm": "approximate", "recall": options["recall"]}
        return diagnose(X, metric=metric, **graph)
    except InputError:
        raise
    except (ValueError, TypeError) as error:  # scikit-learn's, of a name or of the columns
        if metric == "euclidean":
            raise
        raise InputError(Message("cli.bad_metric", metric=metric, why=reason(error))) from error
