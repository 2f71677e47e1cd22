"""choose, explain, doctor: commands that study a table."""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from nearfold.app.options import FOLDS, JSON, LANG, LEARNER, SEED
from nearfold.app.tables import ReadTable, read, table_options, task_of
from nearfold.errors import InputError
from nearfold.inputs import refuse_extreme
from nearfold.study.table import largest


@click.command()
@click.argument("data")
@click.option(
    "--what",
    type=click.Choice(["dimensions", "neighbors", "radius"]),
    default="dimensions",
    show_default=True,
    help="What to choose.",
)
@click.option("--method", default="PCA", show_default=True, help="The method it is chosen for.")
@click.option(
    "--rule",
    type=click.Choice(
        ["share", "parallel", "connectivity", "cross_validation", "one_standard_error"]
    ),
    help="Default: by the held-out score if there is one.",
)
@click.option("--share", default=0.95, show_default=True, help="Share of the variance to keep.")
@table_options
@click.option("--scale/--no-scale", default=True, show_default=True, help="Scale columns first.")
@LEARNER
@FOLDS
@SEED
@LANG
@JSON
def choose(data: str, **options: Any) -> None:
    """Choose the number of dimensions, of neighbours, or a radius, and say why.

    \b
    Examples:
      nearfold choose wine.csv --label cultivar
      nearfold choose wine.csv --exclude cultivar --rule share --share 0.9
      nearfold choose points.csv --what neighbors --method Isomap
    """  # fmt: skip
    from nearfold.app.printing import print_choice, print_json, print_table
    from nearfold.run import reporting

    table = read(data, options)
    if not options["as_json"]:
        print_table(table, options["lang"])
    with reporting(sys.stderr.isatty()):
        choice = _choose(table, options)
    if options["as_json"]:
        curve = {"x": choice.curve.x, "y": choice.curve.y, "error": choice.curve.error}
        print_json({"value": choice.value, "rule": choice.rule, "best": choice.best,
                    "reason": choice.reason, "curve": curve})  # fmt: skip
    else:
        print_choice(choice, options["lang"])


def _choose(table: ReadTable, options: dict[str, Any]) -> Any:
    from nearfold.app.model_commands import make_method
    from nearfold.study.choose import choose_dimension
    from nearfold.study.choose_graph import choose_neighbors, choose_radius

    X, y, rule = table.X, table.y, options["rule"]
    what = options["what"]
    method = options["method"]
    if what != "dimensions" and method == "PCA":
        method = "Isomap"
    estimator = make_method(method, ())
    learner = type(estimator).__name__.startswith("KNeighbors")
    estimator = None if learner else estimator
    if options["scale"]:
        refuse_extreme(largest(X), X.dtype)
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        if rule == "connectivity" or y is None or learner:  # no folds, or nothing fitted in them
            X = StandardScaler().fit_transform(X)
        else:
            estimator = make_pipeline(StandardScaler(), estimator)
    shared = {"n_neighbors": options["neighbors"], "n_folds": options["folds"],
              "random_state": options["seed"], "task": task_of(table)}  # fmt: skip
    if what == "neighbors":
        return choose_neighbors(estimator, X, y, rule=rule, **shared)
    if what == "radius":
        return choose_radius(estimator, X, y, rule=rule, **shared)
    rule = rule or ("share" if y is None else "one_standard_error")
    return choose_dimension(estimator, X, y, rule=rule, threshold=options["share"], **shared)


@click.command()
@click.argument("model")
@click.argument("data")
@click.option("--rows", metavar="A,B", help="Explain the distance of these two rows (from 0).")
@click.option("--top", default=20, show_default=True, help="Columns to list.")
@table_options
@LANG
@JSON
def explain(model: str, data: str, **options: Any) -> None:
    """Which columns make rows near in the space of a saved model?

    \b
    Examples:
      nearfold explain lda.nearfold wine.csv
      nearfold explain lda.nearfold wine.csv --rows 0,100 --json
    """  # fmt: skip
    from nearfold.app.model_commands import load_parts
    from nearfold.app.printing import clean, console, print_json
    from nearfold.run import reporting
    from nearfold.study.explain import explain_rows, explain_space

    if options.get("memory"):
        from nearfold.blocks import set_memory

        set_memory(options["memory"])
    space, X, columns = load_parts(model, data, options)
    with reporting(sys.stderr.isatty()):
        if options["rows"]:
            a, b = _two_rows(options["rows"])
            found = explain_rows(space, X, columns, a, b)
        else:
            found = explain_space(space, X, columns)
    if options["as_json"]:
        weights = dict(zip(found.columns, found.weights.tolist(), strict=True))
        print_json({"weights": weights, "exact": found.exact, "about": found.about})
        return
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(found.about.get(options["lang"]), markup=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    largest = max((abs(float(w)) for w in found.weights), default=0.0) or 1.0
    for name, weight in list(zip(found.columns, found.weights, strict=True))[: options["top"]]:
        bar = "█" * round(30 * abs(float(weight)) / largest)
        table.add_row(Text(clean(name, 60)), f"{weight:.4g}", bar)
    out.print(table)


def _two_rows(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"\s*([0-9]{1,15})\s*,\s*([0-9]{1,15})\s*", text)
    if not match:
        raise InputError(f"--rows {text}: write two row numbers, for example 0,17.")
    return int(match[1]), int(match[2])


@click.command()
@click.argument("data")
@click.option("-k", "--neighbors", default=10, show_default=True, help="Neighbours of each row.")
@click.option("--radius", type=float, help="Join all rows within it, instead of the k nearest.")
@click.option("--metric", default="euclidean", show_default=True, help="Any of scikit-learn's.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Draw the graph, as PNG.")
@table_options
@LANG
@JSON
def doctor(data: str, **options: Any) -> None:
    """Examine the neighbourhood graph of a table: pieces, short circuits, holes.

    \b
    Examples:
      nearfold doctor points.csv -k 8
      nearfold doctor points.csv -k 8 -o graph.png
    """  # fmt: skip
    from nearfold.app.printing import print_json, print_table
    from nearfold.report.doctor import diagnose
    from nearfold.run import reporting

    table = read(data, options)
    if not options["as_json"]:
        print_table(table, options["lang"])
    with reporting(sys.stderr.isatty()):
        diagnosis = diagnose(
            table.X,
            n_neighbors=options["neighbors"],
            radius=options["radius"],
            metric=options["metric"],
        )
    if options["as_json"]:
        print_json(
            {
                "healthy": diagnosis.healthy,
                "pieces": diagnosis.sizes,
                "smallest_k": diagnosis.smallest_k,
                "smallest_radius": diagnosis.smallest_radius,
                "short_circuits": [[s.a, s.b] for s in diagnosis.circuits.short],
                "thin_bridges": [[s.a, s.b] for s in diagnosis.circuits.thin],
                "holes": [h.rows for h in diagnosis.holes],
            }
        )
    else:
        click.echo(str(diagnosis))
    if options["output"] is not None:
        path = diagnosis.draw(options["output"])
        click.echo(f"The picture is at {path.resolve()}", err=options["as_json"])
