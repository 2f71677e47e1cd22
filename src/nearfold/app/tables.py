"""A table as the command line takes it: read, its schema shown, its rows made ready."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from nearfold.blocks import reserve_memory, set_memory
from nearfold.errors import InputError
from nearfold.notation import Array

_MOST_SHOWN = 64
_COMPILER = 96 * 1024**2  # bytes that compiling kernels takes, in a process that does it once
_MISSING = ("error", "drop", "mean", "median", "zero")


@dataclass(frozen=True)
class ReadTable:
    """A file's rows as numbers, and all that was decided on the way."""

    shown: Any  # a frame of the columns that points can be coloured by, rows as in X
    source: Any
    schema: Any
    preparation: Any  # fitted; travels with a model
    X: Array
    y: Array | None
    ids: Array | None
    notices: list[str]

    @property
    def columns(self) -> tuple[str, ...]:
        """The features."""
        return tuple(self.schema.features())


def table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that reads a table."""
    options = [
        click.option("--label", metavar="COL", help="Column with the class of each row."),
        click.option("--target", metavar="COL", help="Column with a number to predict."),
        click.option("--id", "id_column", metavar="COL", help="Column with the name of each row."),
        click.option("--feature", "features", metavar="COL", multiple=True,
                     help="Use these columns only; may be repeated."),
        click.option("--exclude", metavar="COL", multiple=True,
                     help="Leave this column out; may be repeated."),
        click.option("--missing", type=click.Choice(_MISSING), default="error", show_default=True,
                     help="What to do with missing values."),
        click.option("--format", "file_format", metavar="FORMAT",
                     help="csv, tsv, parquet, arrow, npy or npz, if the name does not tell."),
        click.option("--encoding", metavar="NAME", help="Text encoding (default: detected)."),
        click.option("--separator", metavar="CHAR", help="Between cells, if not found out."),
        click.option("--decimal", metavar="CHAR", help="Decimal point or comma."),
        click.option("--header/--no-header", default=None, help="Line 1 holds the column names."),
        click.option("--memory", metavar="SIZE", help="Memory budget, for example 4GB."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def read(data: str, options: dict[str, Any]) -> ReadTable:
    """Read DATA with the options of `table_options` and make its rows ready."""
    from nearfold.store.preparation import TablePreparation
    from nearfold.store.schema import infer_schema
    from nearfold.store.tables import read_table

    if options.get("memory"):
        set_memory(options["memory"])
    label, target = options.get("label"), options.get("target")
    if label and target:
        raise InputError("give --label or --target, not both: a space is judged by one of them.")
    table = read_table(
        _existing(data),
        format=options.get("file_format"),
        encoding=options.get("encoding"),
        separator=options.get("separator"),
        decimal=options.get("decimal"),
        header=options.get("header"),
    )
    schema = infer_schema(
        table.frame,
        label=label,
        target=target,
        id=options.get("id_column"),
        features=list(options.get("features") or ()) or None,
        exclude=tuple(options.get("exclude") or ()),
    )
    frame, notices = _rows_with_answers(table.frame, label or target)
    if not schema.features():
        reasons = "; ".join(schema.notices()[:5]) or "there is no other column"
        raise InputError(f"no column can be a feature: {reasons}.")
    preparation = TablePreparation(
        features=schema.features(),
        missing=options.get("missing", "error"),
        excluded=schema.excluded(),
    )
    preparation.fit(frame)
    if options.get("missing") == "drop":
        kept = preparation.rows_kept(frame)
        if not kept.all():
            notices.append(f"{int((~kept).sum()):,} rows with missing values are left out.")
            frame = frame.filter(kept)
    X = preparation.transform(frame)
    filled = sum(frame[name].null_count() for name in schema.features())
    if filled and options.get("missing") in ("mean", "median"):
        notices.append(
            f"{filled:,} missing values are filled with the {options['missing']} of their column, "
            "over all rows, held-out ones included."
        )
    ids = frame[schema.id].to_numpy() if schema.id else None
    y = _answers(frame, schema) if label or target else None
    shown = frame[_columns_to_show(schema)]  # not select: names are no patterns
    del frame
    source = table.source
    del table
    # What stays in memory for the whole command is not there for its work.
    kept = X.nbytes + int(shown.estimated_size()) + _COMPILER
    click.get_current_context().with_resource(reserve_memory(kept))
    return ReadTable(shown, source, schema, preparation, X, y, ids, notices)


def _columns_to_show(schema: Any) -> list[str]:
    """All columns but ids, texts and numbers alike, up to a number that a menu can offer."""
    names = [
        column.name
        for column in schema.columns
        if column.role in ("feature", "excluded") and column.kind != "nested"
    ]
    return names[:_MOST_SHOWN]


def _existing(data: str) -> Any:
    if data == "-":
        return data
    path = Path(data)
    if "\0" in data or not path.exists():
        raise InputError(f"there is no file {data}.")
    if path.is_dir():
        raise InputError(f"{data} is a folder: name a file.")
    return path


def _rows_with_answers(frame: Any, column: str | None) -> tuple[Any, list[str]]:
    """Rows whose label or target is missing teach nothing, and cannot be judged by."""
    if column is None or column not in frame.columns:
        return frame, []
    known = ~frame[column].is_null().to_numpy()
    if frame[column].dtype.is_float():
        known &= ~frame[column].is_nan().fill_null(True).to_numpy()
    if known.all():
        return frame, []
    count = int((~known).sum())
    if count == len(known):
        raise InputError(f"column {column!r} is empty: there is nothing to learn or to judge by.")
    return frame.filter(known), [f"{count:,} rows without a value in {column!r} are left out."]


def _answers(frame: Any, schema: Any) -> Array:
    if schema.target:
        return np.asarray(frame[schema.target].to_numpy(), dtype=np.float64)
    values = frame[schema.label]
    if values.dtype.is_numeric():
        return np.asarray(values.to_numpy())
    import polars as pl

    return np.asarray(values.cast(pl.String).to_numpy(), dtype=str)


def task_of(table: ReadTable) -> str | None:
    """What the table is asked."""
    if table.schema.target:
        return "regression"
    return "classification" if table.schema.label else None
