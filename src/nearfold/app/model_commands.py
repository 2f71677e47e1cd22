"""fit, transform, inspect, verify, methods: commands about one method or one model file."""

from __future__ import annotations

import ast
import difflib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from nearfold.app.options import JSON, refuse_outputs
from nearfold.app.tables import ReadTable, read, table_options
from nearfold.errors import InputError, NonFiniteError
from nearfold.inputs import refuse_extreme
from nearfold.notation import Array
from nearfold.study.table import largest


def make_method(name: str, settings: tuple[str, ...]) -> Any:
    """An estimator of the registry by its name or a usual short one, with NAME=VALUE settings."""
    from nearfold import registry

    by_name = {known.lower(): m for m in registry.METHODS for known in (m.shown, *m.names)}
    wanted = name.lower()
    if wanted not in by_name:
        near = difflib.get_close_matches(wanted, by_name, n=3)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise InputError(f"there is no method {name!r}; `nearfold methods` lists them.{hint}")
    estimator = by_name[wanted].load()()
    known = estimator.get_params()
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or key not in known:
            raise InputError(
                f"--set {setting}: write NAME=VALUE; {by_name[wanted].name} has "
                f"{', '.join(sorted(known))}."
            )
        estimator.set_params(**{key: _value(text)})
    return estimator


def _value(text: str) -> Any:
    """A number, None, True, a list, or else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


@click.command()
@click.argument("method")
@click.argument("data")
@click.option("-o", "--output", metavar="MODEL", required=True, help="The model file to write.")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="A parameter.")
@click.option("--pairs", metavar="FILE", help="Pairs of row ids and 1 (alike) or -1 (not).")
@click.option("--scale/--no-scale", default=False, show_default=True, help="Scale columns first.")
@table_options
@JSON
def fit(method: str, data: str, **options: Any) -> None:
    """Fit one method on a table and save the model.

    The model file holds what the table went through: which columns, what was done with missing
    values, the scaling. `nearfold transform` does the same with new rows.

    \b
    Examples:
      nearfold fit PCA points.csv -o pca.nearfold --set n_components=2
      nearfold fit LDA wine.csv --label cultivar --scale -o lda.nearfold
    """  # fmt: skip
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    from nearfold.app.printing import print_json, print_table
    from nearfold.run import reporting
    from nearfold.store.model_file import save

    refuse_outputs(data, options["output"])
    estimator = make_method(method, options["settings"])
    table = read(data, options)
    if not options["as_json"]:
        print_table(table, "en")
    steps: list[tuple[str, Any]] = [("table", table.preparation)]
    X = table.X
    if options["scale"]:
        refuse_extreme(largest(X), X.dtype)
        scaler = StandardScaler().fit(X)
        steps.append(("scale", scaler))
        X = scaler.transform(X)
    with reporting(sys.stderr.isatty()):
        _fit(estimator, X, table, options.get("pairs"))
    model = Pipeline([*steps, ("space", estimator)])
    extra = {
        "data": table.source.name,
        "data_sha256": table.source.sha256,
        "rows": len(X),
        "schema": table.schema.as_dict(),
    }
    path = save(model, options["output"], extra=extra)
    if options["as_json"]:
        print_json({"model": str(path), "method": type(estimator).__name__, **extra})
    else:
        click.echo(f"The model is at {path.resolve()}")


def _fit(estimator: Any, X: Array, table: ReadTable, pairs: str | None) -> None:
    if pairs:
        from nearfold.metrics.pairs import PairsMixin

        if not isinstance(estimator, PairsMixin):
            raise InputError(
                f"{type(estimator).__name__} does not learn from pairs: MMC, ITML, SDML and "
                "WeightedEuclidean do."
            )
        estimator.fit(X, pairs=Path(pairs), ids=table.ids)
        return
    if table.y is None and _needs_label(estimator):
        raise InputError(
            f"{type(estimator).__name__} learns from a label or a target: give --label or --target."
        )
    try:
        estimator.fit(X, table.y)
    except (TypeError, AttributeError, NotImplementedError) as error:  # a setting of a wrong kind
        raise InputError(f"{type(estimator).__name__} cannot be fitted so: {error}") from error


def _needs_label(estimator: Any) -> bool:
    from sklearn.utils import get_tags

    return bool(get_tags(estimator).target_tags.required)


def load_parts(model: str, data: str, options: dict[str, Any]) -> tuple[Any, Array, Any]:
    """A saved model without its preparation, the rows it prepared, and the columns' names."""
    from sklearn.pipeline import Pipeline

    from nearfold.store.model_file import load

    loaded = load(model)
    frame, _ = _frame(data, options)
    if isinstance(loaded, Pipeline) and hasattr(loaded[0], "rows_kept"):
        preparation = loaded[0]
        if not hasattr(loaded, "transform"):
            raise InputError(f"{_last(loaded)} has no space to explain.")
        with new_rows():
            X = preparation.transform(frame)
        return loaded[1:], X, tuple(preparation.get_feature_names_out())
    X = frame.to_numpy()
    return loaded, np.asarray(X, dtype=np.float64), tuple(frame.columns)


def _frame(data: str, options: dict[str, Any]) -> tuple[Any, Any]:
    from nearfold.store.tables import read_table

    if data != "-" and not Path(data).is_file():
        raise InputError(f"there is no file {data}.")
    table = read_table(
        data,
        format=options.get("file_format"),
        encoding=options.get("encoding"),
        separator=options.get("separator"),
        decimal=options.get("decimal"),
        header=options.get("header"),
    )
    return table.frame, table.source


@click.command()
@click.argument("model")
@click.argument("data")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    default="-",
    show_default=True,
    help="CSV, TSV, Parquet, Arrow, .npy or .npz; - is stdout, as CSV.",
)
@click.option("--keep", metavar="COL", multiple=True, help="Copy this column; may be repeated.")
@click.option(
    "--format", "file_format", metavar="FORMAT", help="Format of DATA (default: by its name)."
)
@click.option("--encoding", metavar="NAME", help="Text encoding of DATA (default: detected).")
@click.option("--separator", metavar="CHAR", help="Cell separator of DATA (default: detected).")
@click.option("--decimal", metavar="CHAR", help="Decimal mark of DATA (default: detected).")
@click.option("--header/--no-header", default=None, help="Line 1 of DATA holds the column names.")
@click.option("--memory", metavar="SIZE", help="Memory budget, for example 4GB.")
def transform(model: str, data: str, **options: Any) -> None:
    """Place new rows in the space of a saved model (or predict, if it is a learner).

    Columns are matched by name; the id column of the fit is copied.

    \b
    Examples:
      nearfold transform pca.nearfold points.csv -o places.csv
      nearfold transform lda.nearfold wine.csv --keep cultivar -o places.parquet
    """  # fmt: skip
    from nearfold.blocks import set_memory
    from nearfold.store.export import write_table
    from nearfold.store.model_file import load_with_card

    if options["memory"]:
        set_memory(options["memory"])
    refuse_outputs(data, options["output"])
    loaded, card = load_with_card(model)
    frame, source = _frame(data, options)
    with new_rows():
        frame = _kept_rows(loaded, frame)
    columns: dict[str, Any] = {}
    known = (card.extra or {}).get("schema", {})
    for name in [*_id_columns(known), *options["keep"]]:
        if name in frame.columns:
            columns[name] = frame[name].to_list()
        elif name in options["keep"]:
            near = difflib.get_close_matches(name, frame.columns, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise InputError(f"there is no column {name!r} in {source.name}{hint}")
    with new_rows():
        columns.update(_placed(loaded, frame))
    write_table(options["output"], columns)
    if options["output"] != "-":
        click.echo(f"{len(frame):,} rows are at {Path(options['output']).resolve()}", err=True)


def _kept_rows(loaded: Any, frame: Any) -> Any:
    """Rows with missing values are left out, if the model was fitted so."""
    first = loaded[0] if hasattr(loaded, "steps") else None
    if first is None or getattr(first, "missing", "") != "drop":
        return frame
    kept = first.rows_kept(frame)
    if not kept.all():
        click.echo(f"{int((~kept).sum()):,} rows with missing values are left out.", err=True)
    return frame.filter(kept)


def _id_columns(schema: Any) -> list[str]:
    columns = schema.get("columns", []) if isinstance(schema, dict) else []
    return [c["name"] for c in columns if isinstance(c, dict) and c.get("role") == "id"]


@contextmanager
def new_rows() -> Iterator[None]:
    """What to do with missing values was settled when the model was fitted: say so."""
    try:
        yield
    except NonFiniteError as error:
        what = str(error).partition(" Choose missing=")[0]
        raise NonFiniteError(
            f"{what} Fill them in, or fit the model again and say what to do with such rows."
        ) from None


def _last(model: Any) -> str:
    return type(model.steps[-1][1] if hasattr(model, "steps") else model).__name__


def _placed(model: Any, frame: Any) -> dict[str, Any]:
    if hasattr(model, "predict") and not hasattr(model, "transform"):
        return {"predicted": model.predict(frame)}
    if not hasattr(model, "transform"):
        raise InputError(f"{_last(model)} places no rows and predicts nothing.")
    Z = model.transform(frame)
    if hasattr(Z, "toarray"):
        raise InputError(f"{_last(model)} gives a graph, not places: use it from Python.")
    Z = np.asarray(Z)
    if not np.isfinite(Z).all():
        raise InputError("the model places some rows at NaN or infinity: its settings are extreme.")
    return {f"z{j + 1}": Z[:, j] for j in range(Z.shape[1])}


@click.command()
@click.argument("model")
@JSON
def inspect(model: str, as_json: bool) -> None:
    """What is in a model file: method, columns, versions, whether it holds training rows.

    \b
    Examples:
      nearfold inspect pca.nearfold
      nearfold inspect pca.nearfold --json
    """  # fmt: skip
    from nearfold.app.printing import print_json
    from nearfold.store.model_file import inspect as look

    card = look(model)
    print_json(card.as_dict()) if as_json else click.echo(str(card))


@click.command()
@click.argument("model")
@JSON
def verify(model: str, as_json: bool) -> None:
    """Check a model file to the last byte: lengths, hashes, shapes, and that it loads.

    \b
    Examples:
      nearfold verify pca.nearfold
    """  # fmt: skip
    from nearfold.app.printing import print_json
    from nearfold.store.model_file import verify as check

    card = check(model)
    if as_json:
        print_json({"whole": True, **card.as_dict()})
    else:
        click.echo(f"{Path(model).name} is whole: {card.model}, every byte as it was saved.")


@click.command()
@JSON
def methods(as_json: bool) -> None:
    """What there is: every method, in one line each.

    \b
    Examples:
      nearfold methods
    """  # fmt: skip
    from rich.table import Table

    from nearfold import registry
    from nearfold.app.printing import console, print_json

    if as_json:
        print_json([{"name": m.name, "kind": m.kind, "section": m.section, "summary": m.summary}
                    for m in registry.METHODS])  # fmt: skip
        return
    table = Table(box=None, pad_edge=False)
    for column in ("method", "kind", "book", "what it does"):
        table.add_column(column, no_wrap=column == "method")
    for method in registry.METHODS:
        table.add_row(method.name, method.kind, method.section, method.summary)
    console().print(table)
