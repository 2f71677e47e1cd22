"""fit: one method on a table, saved as a model."""

from __future__ import annotations

from typing import Any

import click

from nearfold.app.options import (
    about,
    option,
    refuse_outputs,
    table_options,
    table_options_of,
    talking_options,
)
from nearfold.app.reading import existing, pairs_of
from nearfold.errors import InputError, reason
from nearfold.messages import Message

_EXAMPLES = (
    "nearfold fit PCA points.csv -o pca.nearfold --set n_components=2",
    "nearfold fit LDA wine.csv --label cultivar --scale -o lda.nearfold",
    "nearfold fit Isomap points.csv --plan",
)
_ON_CLUSTER = (
    "nearfold fit PCA 'rows/*.parquet' --scheduler tcp://127.0.0.1:8786 -o pca.nearfold",
)


@click.command(help=about("fit", *_EXAMPLES, *_ON_CLUSTER))
@click.argument("method")
@click.argument("data")
@option("-o", "--output", metavar="MODEL", about="model")
@option("--set", "settings", metavar="NAME=VALUE", multiple=True)
@option("--pairs", metavar="FILE")
@option("--scale/--no-scale", default=False, show_default=True)
@option("--plan", "plan_only", is_flag=True)
@option("--scheduler", metavar="ADDRESS")
@table_options
@talking_options
def fit(method: str, data: str, **options: Any) -> None:
    """Fit one method on a table and save the model."""
    from nearfold.app.methods_by_name import make_method
    from nearfold.app.printing import Printer

    out = Printer(options)
    if options["output"] is None and not options["plan_only"]:
        raise click.MissingParameter(param_hint="'-o' / '--output'", param_type="option")
    refuse_outputs([data, options["pairs"], options["schema_file"]], [options["output"]])
    estimator = make_method(method, options["settings"])
    if options["scheduler"] is None:
        _fit_here(estimator, data, options, out)
        return
    from nearfold.store.dask_tables import connected

    with connected(options["scheduler"]):
        _fit_there(estimator, data, options, out)


def _fit_here(estimator: Any, data: str, options: dict[str, Any], out: Any) -> None:
    import numpy as np

    from nearfold.run import reporting
    from nearfold.study.intake import open_table
    from nearfold.study.recipes import RAW, SCALED, Preparations

    table = open_table(existing(data), options=table_options_of(options))
    out.table(table)
    prepare = Preparations(table.cells, table.columns, table.missing, 0, table.y)
    recipe = SCALED if options["scale"] else RAW
    step, X = prepare.fitted(recipe, np.arange(len(table)))
    pairs, lost = pairs_of(options["pairs"], table)
    for notice in lost:
        out.say(notice, err=True)
    if options["plan_only"]:
        _show_plan(estimator, X, table.y, out)
        return
    with reporting(out.shows_progress, out.lang):
        _fit(estimator, X, table, pairs)
    _save(estimator, step, {"rows": len(table), **table.about()}, options, out)


def _fit_there(estimator: Any, data: str, options: dict[str, Any], out: Any) -> None:
    from nearfold.app.on_cluster import prepared
    from nearfold.run import reporting

    with reporting(out.shows_progress, out.lang):
        table = prepared(data, options, learn=not options["plan_only"])
        if options["plan_only"]:
            _show_plan(estimator, table.X, table.y, out)
            return
        out.table(table)
        _fit(estimator, table.X, table, None)
    _save(estimator, table.step, {"rows": table.n_rows, **table.about()}, options, out)


def _show_plan(estimator: Any, X: Any, y: Any, out: Any) -> None:
    from nearfold.study.plan import plan

    found = plan(estimator, X, y)
    if out.as_json:
        out.json(found.to_dict())
    else:
        click.echo(found.text(out.lang))


def _save(
    estimator: Any, step: Any, extra: dict[str, Any], options: dict[str, Any], out: Any
) -> None:
    from sklearn.pipeline import Pipeline

    from nearfold.store.model_file import save

    model = Pipeline([("table", step), ("space", estimator)])
    path = save(model, options["output"], extra=extra)
    if out.as_json:
        out.json({"model": str(path), "method": type(estimator).__name__, **extra})
    else:
        out.say(Message("cli.written_model", path=str(path.resolve())))


def _fit(estimator: Any, X: Any, table: Any, pairs: Any) -> None:
    name = type(estimator).__name__
    if pairs is not None:
        from nearfold.metrics.pairs import PairsMixin

        if not isinstance(estimator, PairsMixin):
            raise InputError(Message("cli.no_pairs", name=name))
        estimator.fit(X, pairs=pairs)
        return
    if table.y is None and _needs_label(estimator):
        raise InputError(Message("cli.needs_label", name=name))
    try:
        estimator.fit(X, table.y)
    except (ValueError, TypeError, AttributeError, NotImplementedError) as error:
        # A setting of a wrong kind, or one that does not suit the table.
        raise InputError(Message("cli.cannot_fit", name=name, why=reason(error))) from error


def _needs_label(estimator: Any) -> bool:
    from sklearn.utils import get_tags

    return bool(get_tags(estimator).target_tags.required)
