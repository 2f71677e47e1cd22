"""The way of a table into a study: read, its schema decided, its cells as arrays, its rows checked.

One way for all commands and for Python: a file, a frame or an array ends as a `StudyTable`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nearfold.columns.cells import Cells, cells_of_array, read_cells
from nearfold.columns.dates import as_days
from nearfold.columns.frames import is_frame, show
from nearfold.columns.kinds import Kind, Role
from nearfold.columns.refusals import refuse_gaps
from nearfold.columns.schema import Schema, infer_schema
from nearfold.columns.words import as_words
from nearfold.errors import InputError
from nearfold.inputs import refuse_extreme
from nearfold.messages import Message
from nearfold.notation import Array, Floats, Ints
from nearfold.study.folds import groups_of_equal_rows, numbered
from nearfold.study.question import Task
from nearfold.study.table import read_rows
from nearfold.study.targets import check_targets

_MOST_BY_CHANCE = 10.0  # times as many equal rows as independent columns would have: no copies
_MOST_SHOWN = 64  # columns that points can be coloured by


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table is read and what its columns are for; None: detected or inferred."""

    label: str | None = None
    target: str | None = None
    id: str | None = None
    group: Any = None
    time: Any = None
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    missing: str = "median"
    na: tuple[str, ...] = ()
    format: str | None = None
    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None
    header: bool | None = None

    def reading(self) -> dict[str, Any]:
        """What `read_table` takes."""
        names = ("format", "encoding", "separator", "decimal", "header", "na")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, eq=False)
class StudyTable:
    """The rows of a study, and all that was decided on the way."""

    cells: Cells
    columns: list[dict[str, Any]]  # what it takes to read the features; empty for an array
    y: Array | None
    task: Task | None
    answer: str | None  # the name of the label or target
    rows: Ints  # where each row was in what was given
    copies: Ints  # rows with the same number are equal in every column
    missing: str = "median"
    group: Array | None = None
    time: Floats | None = None
    ids: Array | None = None
    source: Any = None
    schema: Schema | None = None
    shown: Any = None  # a frame of the columns that points can be coloured by
    notices: tuple[Message, ...] = ()

    def __len__(self) -> int:
        return len(self.cells)

    def about(self) -> dict[str, Any]:
        """Where the rows come from and what their columns are, for JSON and model files."""
        if self.source is None or self.schema is None:
            return {}
        return {
            "data": self.source.name,
            "data_sha256": self.source.sha256,
            "decimal": self.source.decimal,
            "schema": self.schema.outline(),
        }

    def take(self, rows: Ints) -> StudyTable:
        """Some of the rows."""

        def part(values: Any) -> Any:
            return None if values is None else values[rows]

        shown = None if self.shown is None else self.shown[rows.tolist()]
        return replace(self, cells=self.cells.take(rows), y=part(self.y), rows=self.rows[rows],
                       copies=self.copies[rows], group=part(self.group), time=part(self.time),
                       ids=part(self.ids), shown=shown)  # fmt: skip


def open_table(
    data: Any, y: Any = None, task: str | None = None, options: TableOptions | None = None
) -> StudyTable:
    """A file (path or pattern), a frame or an array as the table of a study."""
    options = options or TableOptions()
    if isinstance(data, str | Path) or is_frame(data):
        return _from_frame(data, y, task, options)
    if options.label or options.target:
        raise InputError(Message("study.no_names"))
    X = read_rows(data, finite=options.missing == "error")
    gaps = int(np.count_nonzero(~np.isfinite(X)))
    notices = (Message("study.gaps", n=gaps),) if gaps else ()
    refuse_extreme(_largest(X), X.dtype)
    copies = groups_of_equal_rows(X)
    if y is not None:
        y, task = check_targets(y, len(X), task)
        copies = groups_of_equal_rows(np.column_stack([copies, numbered(y)]))
    return StudyTable(
        cells_of_array(X), [], y, Task(task) if task else None, None, np.arange(len(X)), copies,
        options.missing, _side(options.group, len(X), "group"), _moments(options.time, len(X)),
        notices=notices,
    )  # fmt: skip


def _from_frame(data: Any, y: Any, task: str | None, options: TableOptions) -> StudyTable:
    from nearfold.store.tables import read_table

    table = read_table(data, **options.reading())
    frame, source = table.frame, table.source
    notices: list[Message] = list(source.notices)
    schema = infer_schema(
        frame,
        label=options.label,
        target=options.target,
        id=options.id,
        group=options.group if isinstance(options.group, str) else None,
        time=options.time if isinstance(options.time, str) else None,
        features=options.features,
        exclude=tuple(options.exclude),
        kinds=options.kinds,
        saved=options.schema,
    )
    notices += schema.notices()
    answer = schema.named(Role.LABEL) or schema.named(Role.TARGET)
    if y is not None and answer is not None:
        raise InputError(Message("study.y_or_column", name=show(answer)))
    if not schema.features():
        why = schema.notices()[:5] or [Message("columns.not_named")]
        raise InputError(Message("columns.no_features", why=why))
    kept, said = _usable_rows(frame, schema, options)
    notices += said
    frame = frame.filter(kept) if not kept.all() else frame
    columns = [column.spec() for column in schema.features()]
    cells = read_cells(frame, columns)
    if options.missing == "error":
        refuse_gaps(cells, numbers=np.flatnonzero(kept))
    refuse_extreme(_largest(cells.numbers), cells.numbers.dtype)
    if answer is not None:
        y = _answers(frame[answer], schema.named(Role.TARGET) is not None)
        task = Task.REGRESSION if schema.named(Role.TARGET) else Task.CLASSIFICATION
    elif y is not None:
        y = np.asarray(y)[kept] if len(np.asarray(y)) == len(kept) else y
    if y is not None:
        y, task = check_targets(y, len(cells), task)
    return StudyTable(
        cells, columns, y, Task(task) if task else None, answer, np.flatnonzero(kept),
        _copies(frame, schema), options.missing,
        _group(frame, schema, options, kept), _time(frame, schema, options, kept),
        _ids(frame, schema), source, schema, _shown(frame, schema), tuple(notices),
    )  # fmt: skip


def _largest(numbers: Floats) -> float:
    finite = np.isfinite(numbers)
    return float(np.abs(numbers, where=finite, out=np.zeros_like(numbers)).max(initial=0.0))


def _usable_rows(frame: Any, schema: Schema, options: TableOptions) -> tuple[Array, list[Message]]:
    """Rows without an answer, a group or a time cannot be judged; with missing="drop" rows with
    gaps are left out, too.
    """
    kept = np.ones(frame.height, dtype=bool)
    said = []
    for role in (Role.LABEL, Role.TARGET, Role.GROUP, Role.TIME):
        name = schema.named(role)
        if name is None:
            continue
        known = frame[name].is_not_null().to_numpy()
        if frame[name].dtype.is_float():
            known = known & frame[name].is_nan().fill_null(True).not_().to_numpy()
        if not known.all():
            said.append(Message("study.rows_without", n=int((~known).sum()), name=show(name)))
            kept &= known
    if options.missing == "drop":
        cells = read_cells(frame, [column.spec() for column in schema.features()])
        whole = np.isfinite(cells.numbers).all(axis=1) & (cells.codes >= 0).all(axis=1)
        dropped = int((kept & ~whole).sum())
        if dropped:
            said.append(Message("study.rows_dropped", n=dropped))
            kept &= whole
    if not kept.any():
        raise InputError(Message("study.no_rows_left"))
    return kept, said


def _answers(column: Any, is_target: bool) -> Array:
    if is_target:
        import polars as pl

        held = column if column.dtype != pl.String else column.str.strip_chars()
        return np.asarray(held.cast(pl.Float64, strict=False).to_numpy(), dtype=np.float64)
    if column.dtype.is_numeric():
        return np.asarray(column.to_numpy())
    return np.asarray(as_words(column).to_numpy(), dtype=str)


def _copies(frame: Any, schema: Schema) -> Ints:
    """Rows equal in every column that was read; what merely numbers the rows does not count."""
    counts = {c.name for c in schema.columns if c.kind == Kind.ID and c.n_distinct == c.n_rows}
    names = [name for name in frame.columns if name not in counts]
    if not names:
        return np.arange(frame.height)
    import polars as pl

    hashes = pl.DataFrame([frame[n].hash().alias(str(i)) for i, n in enumerate(names)]).hash_rows()
    _, first, which = np.unique(hashes.to_numpy(), return_index=True, return_inverse=True)
    pairs = float((np.bincount(which.ravel()) ** 2).sum() - frame.height) / 2
    if pairs and pairs <= _MOST_BY_CHANCE * _pairs_by_chance(
        frame[first.tolist()], names, frame.height
    ):
        return np.arange(frame.height)
    # Numbered as they appear: folds are drawn by these numbers, and hashes have no order of use.
    return np.asarray(np.argsort(np.argsort(first))[which.ravel()], dtype=np.int64)


def _pairs_by_chance(distinct: Any, names: list[str], n: int) -> float:
    """Pairs of equal rows among n that independent columns with these values would have.

    Rows of a few categories are equal now and then without being copies, and new rows will be equal
    to training rows as often; of numbers with decimals there are none but copies. `distinct`: the
    rows without repetition, as copies must not excuse themselves.
    """
    expected = n * (n - 1) / 2
    for name in names:
        counts = distinct[name].hash().value_counts()["count"].to_numpy().astype(np.float64)
        expected *= float((counts * (counts - 1)).sum()) / max(
            1, len(distinct) * (len(distinct) - 1)
        )
    return expected


def _ids(frame: Any, schema: Schema) -> Array | None:
    """Ids exactly as they were written."""
    name = schema.named(Role.ID)
    return None if name is None else np.asarray(frame[name].to_numpy())


def _group(frame: Any, schema: Schema, options: TableOptions, kept: Array) -> Array | None:
    name = schema.named(Role.GROUP)
    if name is not None:
        return np.asarray(as_words(frame[name]).to_numpy(), dtype=str)
    found = _side(options.group, len(kept), "group")
    return None if found is None else found[kept]


def _time(frame: Any, schema: Schema, options: TableOptions, kept: Array) -> Floats | None:
    name = schema.named(Role.TIME)
    if name is None:
        found = _moments(options.time, len(kept))
        return None if found is None else found[kept]
    column = next(c for c in schema.columns if c.name == name)
    if column.kind not in (Kind.DATE, Kind.NUMBER, Kind.ORDERED, Kind.ID):
        raise InputError(Message("study.no_time", name=show(name), why=column.kind.shown))
    kind = Kind.NUMBER if column.kind == Kind.ID else column.kind
    cells = read_cells(frame, [{**column.spec(), "kind": kind.value}])
    return np.asarray(cells.numbers[:, 0], dtype=np.float64)


def _side(values: Any, n: int, what: str) -> Array | None:
    if values is None or isinstance(values, str):
        return None
    values = np.asarray(values)
    if values.shape != (n,):
        raise InputError(Message("study.side_shape", what=what, shape=str(values.shape), n=n))
    return values.astype(str) if values.dtype.kind in "OUS" else values


def _moments(values: Any, n: int) -> Floats | None:
    if values is None or isinstance(values, str):
        return None
    values = np.asarray(values)
    if values.dtype.kind == "M":
        import polars as pl

        values = as_days(pl.Series(values.astype("datetime64[us]")))
    found = _side(values, n, "time")
    return None if found is None else found.astype(np.float64)


def _shown(frame: Any, schema: Schema) -> Any:
    """Columns for the colours of a picture: numbers, categories and dates, answer excepted."""
    import polars as pl

    kinds = (Kind.NUMBER, Kind.CATEGORY, Kind.ORDERED, Kind.BOOLEAN, Kind.DATE)
    answers = (Role.LABEL, Role.TARGET)
    shown = [c.name for c in schema.columns if c.kind in kinds and c.role not in answers]
    names = [name for name in shown if name in frame.columns]  # not those of whole embeddings

    return pl.DataFrame([frame[name] for name in names[:_MOST_SHOWN]])
