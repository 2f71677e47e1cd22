"""transform: new rows in the space of a saved model."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import click

from nearfold.app.options import (
    about,
    existing,
    option,
    reading_options,
    refuse_outputs,
    talking_options,
)
from nearfold.errors import InputError
from nearfold.messages import Message

_EXAMPLES = (
    "nearfold transform pca.nearfold points.csv -o places.csv",
    "nearfold transform lda.nearfold wine.csv --keep cultivar -o places.parquet",
)


@click.command(help=about("transform", *_EXAMPLES))
@click.argument("model")
@click.argument("data")
@option("-o", "--output", metavar="OUT", default="-", show_default=True, about="places")
@option("--keep", metavar="COL", multiple=True)
@option("--protect/--no-protect", default=True, show_default=True)
@reading_options
@talking_options
def transform(model: str, data: str, **options: Any) -> None:
    """Place new rows in the space of a saved model (or predict, if it is a learner)."""
    from nearfold.app.printing import Printer
    from nearfold.store.export import write_table
    from nearfold.store.model_file import load_with_card

    out = Printer(options)
    refuse_outputs([model, data], [options["output"]])
    loaded, card = load_with_card(model)
    known = card.extra or {}
    frame, source = read_new(data, options, known.get("decimal"))
    frame = _kept_rows(loaded, frame, out)
    columns = _copied(frame, source, known.get("schema", {}), options["keep"])
    columns |= _placed(loaded, frame, out, columns)
    write_table(options["output"], columns, protect=options["protect"])
    if options["output"] != "-":
        path = str(Path(options["output"]).resolve())
        out.say(Message("cli.written_rows", n=len(frame), path=path), err=True)


def read_new(data: str, options: dict[str, Any], decimal: str | None = None) -> tuple[Any, Any]:
    """The frame of new rows; numbers are read as they were at the fit if nothing else is said."""
    from nearfold.store.tables import read_table

    table = read_table(
        existing(data),
        format=options.get("file_format"),
        encoding=options.get("encoding"),
        separator=options.get("separator"),
        decimal=options.get("decimal"),
        header=options.get("header"),
        na=tuple(w for text in options.get("na") or () for w in text.split(",")),
    )
    return table.frame, table.source


def preparation_of(model: Any) -> Any:
    """The step of a model that reads tables, or None."""
    first = model.steps[0][1] if hasattr(model, "steps") else None
    return first if hasattr(first, "rows_kept") else None


def _kept_rows(loaded: Any, frame: Any, out: Any) -> Any:
    """Rows with missing values are left out, if the model was fitted so."""
    step = preparation_of(loaded)
    if step is None:
        return frame
    for notice in step.unseen(step.read(frame)):
        out.say(notice, err=True)
    if step.missing != "drop":
        return frame
    kept = step.rows_kept(frame)
    if not kept.all():
        out.say(Message("study.rows_dropped", n=int((~kept).sum())), err=True)
    return frame.filter(kept)


def _copied(frame: Any, source: Any, schema: Any, keep: tuple[str, ...]) -> dict[str, Any]:
    columns = schema.get("columns", []) if isinstance(schema, dict) else []
    ids = [c["name"] for c in columns if isinstance(c, dict) and c.get("role") == "id"]
    found: dict[str, Any] = {}
    for name in [*ids, *keep]:
        if name in frame.columns:
            found[name] = frame[name].to_list()
        elif name in keep:
            near = difflib.get_close_matches(name, frame.columns, n=1)
            hint: Any = Message("columns.did_you_mean", names=near) if near else ""
            raise InputError(Message("cli.no_column", name=name, source=source.name, near=hint))
    return found


def _placed(model: Any, frame: Any, out: Any, taken: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    last = type(model.steps[-1][1] if hasattr(model, "steps") else model).__name__
    if hasattr(model, "predict") and not hasattr(model, "transform"):
        return {_free("predicted", taken): model.predict(frame)}
    if not hasattr(model, "transform"):
        raise InputError(Message("cli.no_places", name=last))
    Z = model.transform(frame)
    if hasattr(Z, "toarray"):
        raise InputError(Message("cli.gives_graph", name=last))
    Z = np.asarray(Z)
    if not np.isfinite(Z).all():
        raise InputError(Message("cli.not_finite", name=last))
    return {_free(f"z{j + 1}", taken): Z[:, j] for j in range(Z.shape[1])}


def _free(name: str, taken: dict[str, Any]) -> str:
    """A name that no copied column has."""
    while name in taken:
        name = f"space_{name}"
    return name
