"""transform: new rows in the space of a saved model."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import click

from nearfold.app.options import (
    about,
    option,
    reading_options,
    refuse_outputs,
    talking_options,
)
from nearfold.app.reading import kept_rows, name_of, read_new
from nearfold.errors import InputError
from nearfold.messages import Message

_EXAMPLES = (
    "nearfold transform pca.nearfold points.csv -o places.csv",
    "nearfold transform lda.nearfold wine.csv --keep cultivar -o places.parquet",
)
_ON_CLUSTER = (
    "nearfold transform pca.nearfold 'rows/*.parquet' --scheduler tcp://127.0.0.1:8786 -o places/",
)


@click.command(help=about("transform", *_EXAMPLES, *_ON_CLUSTER))
@click.argument("model")
@click.argument("data")
@option("-o", "--output", metavar="OUT", default="-", show_default=True, about="places")
@option("--keep", metavar="COL", multiple=True)
@option("--protect/--no-protect", default=True, show_default=True)
@option("--scheduler", metavar="ADDRESS")
@reading_options
@talking_options
def transform(model: str, data: str, **options: Any) -> None:
    """Place new rows in the space of a saved model (or predict, if it is a learner)."""
    from nearfold.app.printing import Printer
    from nearfold.store.export import write_table
    from nearfold.store.model_file import load_with_card

    out, path = Printer(options), options["output"]
    if options["scheduler"] is not None:
        _on_cluster(model, data, options, out)
        return
    refuse_outputs([model, data], [None if path == "-" else path])
    loaded, card = load_with_card(model)
    extra = card.extra or {}
    new = read_new(data, options, extra, out)
    frame, rows = kept_rows(loaded, data, new, out)
    columns = copied(new[rows.tolist()], extra.get("schema"), options["keep"])
    columns |= placed(loaded, frame, columns)
    write_table(path, columns, protect=options["protect"])
    if path != "-":
        out.say(Message("cli.written_rows", n=len(frame), path=str(Path(path).resolve())), err=True)


def _on_cluster(model: str, data: str, options: dict[str, Any], out: Any) -> None:
    from nearfold.app.on_cluster import transform_blocks
    from nearfold.run import reporting
    from nearfold.store.dask_tables import check_written, connected
    from nearfold.store.model_file import load_with_card

    path = options["output"]
    named = path != "-" and check_written(path) != "folder"
    refuse_outputs([model, data], [path] if named else [])
    loaded, card = load_with_card(model)
    with (
        connected(options["scheduler"]) as client,
        reporting(out.shows_progress, out.lang),
    ):
        n = transform_blocks(client, loaded, card.extra or {}, data, options)
    if path != "-":
        out.say(Message("cli.written_rows", n=n, path=str(Path(path).resolve())), err=True)


def copied(frame: Any, schema: Any, keep: tuple[str, ...]) -> dict[str, Any]:
    """The id column of the fit and the columns that were asked for, as they were read."""
    columns = schema.get("columns", []) if isinstance(schema, dict) else []
    ids = [c["name"] for c in columns if isinstance(c, dict) and c.get("role") == "id"]
    for name in keep:
        if name not in frame.columns:
            near = difflib.get_close_matches(name, frame.columns, n=1)
            hint: Any = Message("columns.did_you_mean", names=near) if near else ""
            raise InputError(Message("cli.no_column", name=name, near=hint))
    return {name: frame[name] for name in [*ids, *keep] if name in frame.columns}


def placed(model: Any, frame: Any, taken: dict[str, Any]) -> dict[str, Any]:
    """What the model makes of the rows, under names that are not taken."""
    import numpy as np

    if hasattr(model, "predict") and not hasattr(model, "transform"):
        return {_free("predicted", taken): model.predict(frame)}
    if not hasattr(model, "transform"):
        raise InputError(Message("cli.no_places", name=name_of(model)))
    Z = model.transform(frame)
    if hasattr(Z, "toarray"):
        raise InputError(Message("cli.gives_graph", name=name_of(model)))
    Z = np.asarray(Z)
    if not np.isfinite(Z).all():
        raise InputError(Message("cli.not_finite", name=name_of(model)))
    return {_free(f"z{j + 1}", taken): Z[:, j] for j in range(Z.shape[1])}


def _free(name: str, taken: dict[str, Any]) -> str:
    """A name that no copied column has."""
    while name in taken:
        name = f"space_{name}"
    return name
