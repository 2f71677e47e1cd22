"""What is known of a table before anything is read or computed: a plan is made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks import (
    DaskRows,
    Rows,
    as_rows,
    floating_dtype,
    is_dask,
    is_streamed,
    show_bytes,
)
from nearfold.blocks.dask_rows import known_lengths
from nearfold.errors import InputError
from nearfold.messages import Message

UNKNOWN = float("nan")  # of what only reading the table tells: sums with it are unknown, too
MEMORY, FILE, CLUSTER = "memory", "file", "cluster"


@dataclass(frozen=True)
class Facts:
    """A table and what belongs to its rows, as far as they can be told without reading it."""

    place: str  # "memory", "file" or "cluster"
    m: float  # rows, or tuples
    d: int
    dtype: np.dtype[Any]
    blocks: float
    block_rows: float  # of the largest block
    is_sparse: bool = False
    values: float = 0.0  # bytes of the values where they are
    copied: float = 0.0  # bytes of the copy that validation makes of what is no array of floats
    is_tuples: bool = False
    sizes: Any = None  # rows of each class
    notes: tuple[Message, ...] = ()

    @property
    def itemsize(self) -> int:
        """Bytes of a value."""
        return int(self.dtype.itemsize)

    @property
    def classes(self) -> float:
        """How many classes there are."""
        return UNKNOWN if self.sizes is None else float(len(self.sizes))

    @property
    def counted(self) -> bool:
        """Whether the number of rows is known."""
        return not np.isnan(self.m)

    @property
    def n(self) -> int:
        """Rows, where they are known."""
        return int(self.m)

    @property
    def block_values(self) -> float:
        """Bytes of the values of the largest block."""
        return self.block_rows * self.d * self.itemsize


@dataclass(frozen=True)
class Size:
    """Bytes as people read them; "unknown" where only the rows would tell."""

    bytes: float

    def text(self, language: str = "en") -> str:
        """For example 1.5 MB."""
        if np.isnan(self.bytes):
            return Message("plan.unknown").text(language)
        return show_bytes(self.bytes)


@dataclass(frozen=True)
class Need:
    """What a fit needs: the route it takes first, and bytes.

    `checked` is what the fit itself compares with the budget before it allocates; `here` also
    counts what it keeps beside that in this process, threads' blocks excepted: each of those
    takes `task`, on a cluster in a worker.
    """

    route: Message
    checked: float = 0.0
    beside: float = 0.0
    task: float = 0.0
    moved: float = 0.0
    passes: tuple[float, float] = (1, 1)
    notes: tuple[Message, ...] = ()
    known: bool = True  # False: nothing is estimated

    @property
    def here(self) -> float:
        """Bytes in this process."""
        return self.checked + self.beside


Entry = Callable[[Any, Facts], Need]


def look_at(X: Any, y: Any, count: bool) -> Facts:
    """The facts of any table; nothing of a Dask table is computed unless `count` is asked for."""
    if is_dask(X):
        return _of_dask(X, y, count)
    if is_streamed(X):
        rows = as_rows(X)
        if isinstance(rows, DaskRows):
            return _of_dask(rows.collection, y, count)
        return _of_file(rows, y)
    return _with_classes(_of_array(X), y)


def _of_array(X: Any) -> Facts:
    if sparse.issparse(X):
        (m, d), values = X.shape, float(X.data.nbytes + 4 * X.nnz)
    else:
        shape = X.shape if hasattr(X, "shape") else np.shape(X)
        if len(shape) not in (2, 3):
            raise InputError(Message("plan.axes", n=len(shape)))
        m, d = shape[0], shape[-1]
        values = UNKNOWN
    dtype = getattr(X, "dtype", None)
    if dtype is None and hasattr(X, "dtypes"):
        single = {str(kind).lower() for kind in X.dtypes} == {"float32"}
        dtype = np.dtype(np.float32 if single else np.float64)
    held = isinstance(X, np.ndarray) or sparse.issparse(X)
    kept = held and X.dtype in (np.float32, np.float64)
    kind = floating_dtype(np.float64 if dtype is None else dtype)
    values = float(m) * d * kind.itemsize if np.isnan(values) else values
    rows = _Cut(m, d, kind)
    return Facts(
        MEMORY, m, d, kind, len(rows.parts), rows.largest, sparse.issparse(X), values,
        0.0 if kept else values, len(np.shape(X)) == 3,
    )  # fmt: skip


@dataclass
class _Cut(Rows):
    """A table in memory of which the shape alone is known, cut as one would be."""

    n_rows: int | None
    n_features: int
    dtype: Any
    block_share: int = 2
    parts: list[slice] = field(init=False)

    def __post_init__(self) -> None:
        self.parts = self.spans(self.n_rows or 0)

    @property
    def largest(self) -> int:
        """Rows of the largest block."""
        return max((part.stop - part.start for part in self.parts), default=0)


def _of_file(rows: Rows, y: Any) -> Facts:
    name = y if isinstance(y, str) else None
    if name is not None:
        rows = rows.with_target(name)
    m = UNKNOWN if rows.n_rows is None else float(rows.n_rows)
    largest = rows.block_rows()
    blocks = UNKNOWN if rows.n_rows is None else float(len(rows.spans(rows.n_rows)))
    notes = (Message("plan.note.rows_of_file"),) if rows.n_rows is None else ()
    values = m * rows.n_features * rows.dtype.itemsize
    return Facts(FILE, m, rows.n_features, rows.dtype, blocks, largest, values=values, notes=notes)


def _of_dask(X: Any, y: Any, count: bool) -> Facts:
    if getattr(X, "ndim", 0) != 2:
        raise InputError(Message("cluster.no_table", kind=type(X).__name__))
    lengths, width, dtype = known_lengths(X, y)
    if count:
        lengths = [float(part.length) for part in DaskRows(X).parts]
    known = not np.isnan(lengths).any()
    m, largest = float(np.sum(lengths)), float(np.max(lengths, initial=0))
    notes = () if known else (Message("plan.note.count"),)
    sizes = (float(len(lengths)), largest if known else UNKNOWN)
    facts = Facts(CLUSTER, m, width, dtype, *sizes, values=m * width * dtype.itemsize, notes=notes)
    return facts if is_dask(y) or isinstance(y, str) else _with_classes(facts, y)


def _with_classes(facts: Facts, y: Any) -> Facts:
    """The facts, and how many rows the classes have, where y is at hand and names classes."""
    if y is None or isinstance(y, str):
        return facts
    values = np.asarray(y)
    if values.ndim != 1 or (values.dtype.kind == "f" and (values % 1 != 0).any()):
        return facts
    _, sizes = np.unique(values, return_counts=True)
    return replace(facts, sizes=sizes)
