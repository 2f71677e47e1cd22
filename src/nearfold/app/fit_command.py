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
)


@click.command(help=about("fit", *_EXAMPLES))
@click.argument("method")
@click.argument("data")
@option("-o", "--output", metavar="MODEL", required=True, about="model")
@option("--set", "settings", metavar="NAME=VALUE", multiple=True)
@option("--pairs", metavar="FILE")
@option("--scale/--no-scale", default=False, show_default=True)
@table_options
@talking_options
def fit(method: str, data: str, **options: Any) -> None:
    """Fit one method on a table and save the model."""
    import numpy as np
    from sklearn.pipeline import Pipeline

    from nearfold.app.methods_by_name import make_method
    from nearfold.app.printing import Printer
    from nearfold.run import reporting
    from nearfold.store.model_file import save
    from nearfold.study.intake import open_table
    from nearfold.study.recipes import RAW, SCALED, Preparations

    out = Printer(options)
    refuse_outputs([data, options["pairs"], options["schema_file"]], [options["output"]])
    estimator = make_method(method, options["settings"])
    table = open_table(existing(data), options=table_options_of(options))
    out.table(table)
    prepare = Preparations(table.cells, table.columns, table.missing, 0, table.y)
    recipe = SCALED if options["scale"] else RAW
    step, X = prepare.fitted(recipe, np.arange(len(table)))
    pairs, lost = pairs_of(options["pairs"], table)
    for notice in lost:
        out.say(notice, err=True)
    with reporting(out.shows_progress, out.lang):
        _fit(estimator, X, table, pairs)
    model = Pipeline([("table", step), ("space", estimator)])
    extra = {"rows": len(table), **table.about()}
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
