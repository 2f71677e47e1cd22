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
from nearfold.columns.frames import is_frame, show
from nearfold.columns.images import locate_images
from nearfold.columns.kinds import MISSING_RULES, Kind, Role
from nearfold.columns.refusals import refuse_gaps
from nearfold.columns.schema import Schema, infer_schema
from nearfold.columns.words import as_words
from nearfold.errors import InputError
from nearfold.inputs import refuse_extreme
from nearfold.messages import Message
from nearfold.notation import Array, Floats, Ints
from nearfold.study.folds import groups_of_equal_rows, numbered
from nearfold.study.question import Task
from nearfold.study.sides import group_beside, group_in, time_beside, time_in
from nearfold.study.table import read_rows
from nearfold.study.targets import check_targets, many_numbers

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
    all_ids: Array | None = None  # of all rows that were given
    source: Any = None
    schema: Schema | None = None
    shown: Any = None  # a frame of the columns that points can be coloured by
    notices: tuple[Message, ...] = ()
    n_given: int = 0  # rows, those that were left out included

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def ids(self) -> Array | None:
        """What the rows are called."""
        return None if self.all_ids is None else self.all_ids[self.rows]

    def place_pairs(self, pairs: Array) -> tuple[Array, list[Message]]:
        """Pairs (row, row, sign) of the rows that were given as pairs of the rows used.

        Those with a row that was left out are left out, too, and that is said.
        """
        place = np.full(self.n_given, -1)
        place[self.rows] = np.arange(len(self.rows))
        rows = place[pairs[:, :2]]
        kept = (rows >= 0).all(axis=1)
        lost = int((~kept).sum())
        said = [Message("cli.pairs_lost", n=lost)] if lost else []
        return np.column_stack([rows, pairs[:, 2]])[kept], said

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
                       shown=shown)  # fmt: skip


def open_table(
    data: Any, y: Any = None, task: str | None = None, options: TableOptions | None = None
) -> StudyTable:
    """A file (path or pattern), a frame or an array as the table of a study."""
    options = options or TableOptions()
    _check_words(y, task, options)
    if isinstance(data, str | Path) or is_frame(data):
        return _from_frame(data, y, task, options)
    if options.label is not None or options.target is not None:
        raise InputError(Message("study.no_names"))
    X = read_rows(data, finite=options.missing == "error")
    if options.missing == "drop":
        return _without_gaps(X, y, task, options)
    gaps = int(np.count_nonzero(~np.isfinite(X)))
    notices = (Message("study.gaps", n=gaps),) if gaps else ()
    refuse_extreme(_largest(X), X.dtype)
    copies = groups_of_equal_rows(X)
    if y is not None:
        y, task = check_targets(y, len(X), task)
        copies = _with_answers(copies, y)
    return StudyTable(
        cells_of_array(X), [], y, Task(task) if task else None, None, np.arange(len(X)), copies,
        options.missing, group_beside(options.group, len(X)), time_beside(options.time, len(X)),
        notices=notices, n_given=len(X),
    )  # fmt: skip


def _check_words(y: Any, task: str | None, options: TableOptions) -> None:
    if isinstance(y, str):
        raise InputError(Message("study.y_is_text", y=show(y)))
    if task not in (None, Task.CLASSIFICATION, Task.REGRESSION):
        known = [Task.CLASSIFICATION.value, Task.REGRESSION.value]
        raise InputError(Message("words.one_of", name="task", value=show(task), known=known))
    if options.missing not in MISSING_RULES:
        raise InputError(Message("words.one_of", name="missing", value=show(options.missing),
                                 known=list(MISSING_RULES)))  # fmt: skip


def _without_gaps(X: Floats, y: Any, task: str | None, options: TableOptions) -> StudyTable:
    """The table of those rows of an array that have all their numbers."""
    kept = np.isfinite(X).all(axis=1)
    if not kept.any():
        raise InputError(Message("study.no_rows_left"))

    def part(values: Any) -> Any:
        fits = values is not None and np.shape(values)[:1] == (len(X),)
        return np.asarray(values)[kept] if fits else values

    options = replace(options, missing="zero", group=part(options.group), time=part(options.time))
    table = open_table(X[kept], part(y), task, options)
    dropped = int((~kept).sum())
    said = (Message("study.rows_dropped", n=dropped),) if dropped else ()
    return replace(table, missing="drop", rows=np.flatnonzero(kept), n_given=len(X),
                   notices=(*said, *table.notices))  # fmt: skip


def _from_frame(data: Any, y: Any, task: str | None, options: TableOptions) -> StudyTable:
    from nearfold.store.tables import read_table

    table = read_table(data, **options.reading())
    frame, source = locate_images(table.frame, data), table.source
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
    ids, n_given = _ids(frame, schema), frame.height
    frame = frame.filter(kept) if not kept.all() else frame
    columns = [column.spec() for column in schema.features()]
    cells = read_cells(frame, columns)
    group, time = group_beside(options.group, len(kept)), time_beside(options.time, len(kept))
    if options.missing == "error":
        refuse_gaps(cells, numbers=np.flatnonzero(kept))
    refuse_extreme(_largest(cells.numbers), cells.numbers.dtype)
    if answer is not None:
        y = _answers(frame[answer], schema.named(Role.TARGET) is not None)
        task = Task.REGRESSION if schema.named(Role.TARGET) else Task.CLASSIFICATION
        if task == Task.CLASSIFICATION and (distinct := many_numbers(y)):
            notices.append(Message("study.label_of_numbers", name=show(answer), n=distinct))
    elif y is not None:
        y = np.asarray(y)[kept] if len(np.asarray(y)) == len(kept) else y
    if y is not None:
        y, task = check_targets(y, len(cells), task)
    copies = _copies(frame, schema)
    if y is not None and answer is None:
        copies = _with_answers(copies, y)
    return StudyTable(
        cells, columns, y, Task(task) if task else None, answer, np.flatnonzero(kept),
        copies, options.missing,
        group_in(frame, schema) if group is None else group[kept],
        time_in(frame, schema) if time is None else time[kept],
        ids, source, schema, _shown(frame, schema), tuple(notices), n_given,
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
        if role == Role.TARGET:  # words and infinities among the numbers are no targets
            known = np.isfinite(_answers(frame[name], is_target=True))
        elif frame[name].dtype.is_float():
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


def _with_answers(copies: Ints, y: Array) -> Ints:
    """Rows are copies only if their answers, given beside the table, are equal as well."""
    return groups_of_equal_rows(np.column_stack([copies, numbered(y)]))


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


def _shown(frame: Any, schema: Schema) -> Any:
    """Columns for the colours of a picture: numbers, categories and dates, answer excepted."""
    import polars as pl

    kinds = (Kind.NUMBER, Kind.CATEGORY, Kind.ORDERED, Kind.BOOLEAN, Kind.DATE)
    answers = (Role.LABEL, Role.TARGET)
    shown = [c.name for c in schema.columns if c.kind in kinds and c.role not in answers]
    names = [name for name in shown if name in frame.columns]  # not those of whole embeddings

    return pl.DataFrame([frame[name] for name in names[:_MOST_SHOWN]])
