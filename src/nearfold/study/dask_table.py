"""A table on a Dask cluster prepared for a method: columns by kind, learned over its parts.

The schema is decided from at most 20,000 rows, spread over the parts (all, if there are no more);
fills, scales and levels are then learned from all rows, where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.blocks import combine_pairwise
from nearfold.blocks.cluster import compute, shared, task
from nearfold.columns.frames import as_polars, show
from nearfold.columns.kinds import Role
from nearfold.columns.learned import learn_from_parts
from nearfold.columns.preparation import TablePreparation
from nearfold.columns.schema import Schema, infer_schema
from nearfold.columns.words import as_words
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array
from nearfold.store.dask_tables import DaskTable
from nearfold.store.tables import Source
from nearfold.study.intake import TableOptions

_ROWS, _PARTS = 20_000, 32  # looked at to decide the schema, from so many parts at most
Facts = tuple[int, int]  # missing answers, letters of the longest one


@dataclass(frozen=True, eq=False)
class PreparedTable:
    """A Dask frame, what its columns are for, and the step that makes them numbers."""

    table: DaskTable
    schema: Schema
    step: TablePreparation
    X: Any  # a Dask array of what the step makes
    y: Any
    n_rows: int | None  # None: not counted
    notices: tuple[Message, ...] = ()

    @property
    def source(self) -> Source:
        """What was read, for showing."""
        columns = len(self.table.frame.columns)
        return Source(self.table.name, self.table.format, self.n_rows or 0, columns, "", ())

    def about(self) -> dict[str, Any]:
        """Where the rows come from and what their columns are, for JSON and model files."""
        return {"data": self.table.name, "schema": self.schema.outline()}


def prepare_dask(
    table: DaskTable, options: TableOptions, scaled: bool, *, learn: bool = True
) -> PreparedTable:
    """The table prepared; without `learn` as far as a sample tells, for a plan."""
    if options.missing == "drop":
        raise InputError(Message("cluster.no_drop"))
    few = as_polars(_sample(table))
    few = _with_whole(few, table.whole)
    schema = infer_schema(
        few, label=options.label, target=options.target, id=options.id,
        features=options.features, exclude=tuple(options.exclude), kinds=options.kinds,
        saved=options.schema,
    )  # fmt: skip
    specs = [column.spec() for column in schema.features()]
    if not specs:
        why = schema.notices()[:5] or [Message("columns.not_named")]
        raise InputError(Message("columns.no_features", why=why))
    numbers = "scale" if scaled else "raw"
    step = TablePreparation(missing=options.missing, numbers=numbers)
    lengths: tuple[float, ...] = (np.nan,) * table.frame.npartitions
    if learn:
        learned = learn_from_parts(table.frame, specs, options.missing, scaled)
        step.fit_learned(learned, specs)
        lengths = learned.lengths
    else:
        step.columns = specs
        step.fit(few)
    X = _encoded(table.frame, step, lengths)
    y = _answers(table, schema, lengths)
    n_rows = int(sum(lengths)) if learn else None
    return PreparedTable(table, schema, step, X, y, n_rows, tuple(schema.notices()))


def _sample(table: DaskTable) -> Any:
    import pandas as pd

    parts = table.frame.to_delayed()
    chosen = np.unique(np.linspace(0, len(parts) - 1, min(len(parts), _PARTS)).astype(int))
    each = -(-_ROWS // len(chosen))
    return pd.concat(compute([task(_spread, parts[i], each) for i in chosen]), ignore_index=True)


def _spread(part: Any, count: int) -> Any:
    """So many rows, evenly spaced."""
    if len(part) <= count:
        return part
    return part.iloc[np.linspace(0, len(part) - 1, count).astype(int)]


def _with_whole(frame: Any, names: frozenset[str]) -> Any:
    """The frame with whole numbers where the file has them, though they were read as floats."""
    import polars as pl

    columns = []
    for column in frame.get_columns():
        if column.name in names and column.dtype.is_float():
            present = column.fill_nan(None)
            if ((present % 1) == 0).all():
                column = present.cast(pl.Int64)
        columns.append(column)
    return pl.DataFrame(columns)


def _encoded(frame: Any, step: TablePreparation, lengths: tuple[float, ...]) -> Any:
    from dask.array import concatenate, from_delayed

    width = len(step.fill_) + sum(found.shape[1] for found in step.tables_)
    sent, dtype = shared(step), np.dtype(step.dtype_)
    return concatenate([
        from_delayed(task(encode_part, part, sent, block=f"block {i}"), (n, width), dtype)
        for i, (part, n) in enumerate(zip(frame.to_delayed(), lengths, strict=True))
    ])  # fmt: skip


def encode_part(part: Any, step: TablePreparation) -> Array:
    """The rows of a part as numbers."""
    return np.asarray(step.transform(part), dtype=step.dtype_)


def _answers(table: DaskTable, schema: Schema, lengths: tuple[float, ...]) -> Any:
    """Labels or targets as a Dask array; None if no column has them."""
    from dask.array import concatenate, from_delayed

    target = schema.named(Role.TARGET)
    name = target or schema.named(Role.LABEL)
    if name is None:
        return None
    parts = table.frame[[name]].to_delayed()
    common = (name, target is not None, name in table.whole)
    dtype: np.dtype[Any] = np.dtype(np.float64)
    if target is None and not np.isnan(lengths).any():
        facts = [task(_facts_of_answers, part, *common) for part in parts]
        missing, longest = compute([combine_pairwise(facts, lambda a, b: task(_join, a, b))])[0]
        if missing:
            raise InputError(Message("cluster.no_answer", n=missing, name=show(name)))
        dtype = np.dtype(f"<U{longest}") if longest else np.dtype(np.int64)
    return concatenate([
        from_delayed(task(answers_of_part, part, *common, dtype), (n,), dtype)
        for part, n in zip(parts, lengths, strict=True)
    ])  # fmt: skip


def answers_of_part(part: Any, name: str, is_target: bool, whole: bool, dtype: Any = None) -> Array:
    """The answers of a part: targets as floats, whole labels as such, other labels as words."""
    column = as_polars(part)[name]
    if is_target:
        return np.asarray(column.to_numpy(), dtype=np.float64)
    is_number = column.dtype.is_integer() or (whole and column.dtype.is_float())
    values = column.to_numpy() if is_number else as_words(column).to_numpy()
    return np.asarray(values if dtype is None else values.astype(dtype))


def _facts_of_answers(part: Any, name: str, is_target: bool, whole: bool) -> Facts:
    values = answers_of_part(part, name, is_target, whole).tolist()
    missing = sum(value is None or value != value for value in values)
    words = [value for value in values if isinstance(value, str)]
    return missing, max((len(word) for word in words), default=0)


def _join(a: Facts, b: Facts) -> Facts:
    return a[0] + b[0], max(a[1], b[1])
