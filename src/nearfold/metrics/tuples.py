"""Weak supervision: must-link and cannot-link pairs, triplets, quadruplets.

They come as vectors, (n, size, d) arrays as in metric-learn, or as ids of the rows of a table (see
parse_tuples.py). Inside the package they are always one table of points and the row numbers of the
members. Contradictions among tuples of ids are refused (reconcile_tuples.py).

A learner of tuples takes them in three ways, told apart by what is given (`read_tuples`):

    fit(tuples, y)              vectors (n, size, d), metric-learn's form; or (n, size) row ids if
                                the constructor was given a `preprocessor` to look them up in
    fit(X, pairs=..., ids=...)  a table, and tuples of its rows
    fit(X, y)                   a table and class labels, from which tuples are drawn

Ids and vectors of the same points give the same metric: a learner sees only the points of the given
tuples, each once, in an order that comes from their values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nearfold.blocks import require_memory
from nearfold.errors import InputError, PreprocessorError
from nearfold.inputs import check_rows, check_table, refuse_nonfinite
from nearfold.metrics.parse_tuples import (
    check_signs,
    find_rows,
    known_ids,
    read_cells,
    read_signs,
)
from nearfold.metrics.reconcile_tuples import (
    check_comparisons,
    distinct_pairs,
    reconcile_pairs,
)
from nearfold.notation import Array, Floats, Ints
from nearfold.raw_values import read_values, stack_rows

NAMES = {2: "pairs", 3: "triplets", 4: "quadruplets"}


@dataclass(frozen=True)
class Tuples:
    """Points X (p, d); the row numbers (n, size) of the members; for pairs their sign, +1 or -1."""

    X: Array
    rows: Ints
    sign: Ints

    def differences(self, first: int = 0, second: int = 1) -> Floats:
        """x_first - x_second of every tuple, (n, d), in float64."""
        a, b = self.X[self.rows[:, first]], self.X[self.rows[:, second]]
        return a.astype(np.float64) - b

    def split(self) -> tuple[Floats, Floats]:
        """The differences of the must-link and of the cannot-link pairs."""
        v = self.differences()
        return v[self.sign > 0], v[self.sign < 0]

    def own_points(self) -> Tuples:
        """The same tuples over the points that occur in them, each once, ordered by value."""
        used, index = np.unique(self.rows, return_inverse=True)
        _require_points(len(used), self.X.shape[1], self.X.dtype.itemsize, 4)
        points, place = np.unique(self.X[used], axis=0, return_inverse=True)
        return replace(self, X=points, rows=place.ravel()[index.reshape(self.rows.shape)])

    def without_repeats(self) -> Tuples:
        """Every pair once, in the order in which they came first."""
        kept = np.sort(distinct_pairs(self.rows)[1])
        return replace(self, rows=self.rows[kept], sign=self.sign[kept])


def read_tuples(
    estimator: Any,
    X: Any,
    y: Any,
    size: int,
    tuples: Any = None,
    ids: Any = None,
    links: tuple[Any, Any] = (None, None),
) -> Tuples | None:
    """The tuples given to `fit`, or None if there is only a table and its labels."""
    vars(estimator).pop("classes_", None)  # of an earlier fit on labels
    if X is None and is_vectors(tuples):
        X, tuples = tuples, None
    preprocessor = estimator.preprocessor
    sign = y if size == 2 else None
    linked = any(link is not None for link in links)
    if tuples is not None and linked:
        raise InputError("give pairs, or must_link and cannot_link, not both.")
    if tuples is not None and X is None and callable(preprocessor):
        X, tuples = tuples, None
    if tuples is not None or linked:
        X = preprocessor if X is None else X
        if X is None:
            raise InputError("row ids need the table X whose rows they name.")
        table = check_table(estimator, X, reset=True, ensure_min_samples=2)
        if tuples is not None:
            return from_ids(table, tuples, size, ids, sign).own_points()
        return from_links(table, links[0], links[1], ids).own_points()
    if X is None or (n_dimensions(X) != 3 and (preprocessor is None or n_dimensions(X) != 2)):
        _refuse_bare_ids(X, y, size)
        return None
    if n_dimensions(X) == 3:
        found = from_vectors(X, size, y, name=type(estimator).__name__)
    elif callable(preprocessor):
        found = from_lookup(preprocessor, X, size, sign)
    else:
        found = from_preprocessor(preprocessor, X, size, sign)
    estimator.n_features_in_ = found.X.shape[1]
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    return found.own_points()


def _require_points(n: int, d: int, itemsize: int, copies: int) -> None:
    require_memory(
        float(copies) * n * d * itemsize,
        f"a table of the {n:,} points of these tuples with {d:,} features",
        "Give fewer tuples, or ids of the rows of a table instead of vectors.",
    )


def n_dimensions(values: Any) -> int:
    """Of whatever can become an array."""
    if isinstance(values, list | tuple):
        values = stack_rows(values)
    return len(values.shape) if hasattr(values, "shape") else int(np.asarray(values).ndim)


def is_vectors(tuples: Any) -> bool:
    """Whether tuples are given as vectors rather than as ids."""
    return not isinstance(tuples, str | Path) and n_dimensions(tuples) == 3


def read_points(estimator: Any, X: Any) -> Any:
    """X, or the rows that the estimator's preprocessor has for the ids X."""
    if estimator.preprocessor is None and X is not None and n_dimensions(X) == 1:
        raise InputError(
            f"2D array of formed points expected{_by(type(estimator).__name__)}. Found 1D array "
            f"instead:\ninput={X}. Reshape your data and/or use a preprocessor.\n"
        )
    return look_up(estimator.preprocessor, X)


def look_up(preprocessor: Any, rows: Any) -> Any:
    """The rows, or those that a preprocessor (a table or a callable) has for these ids."""
    if preprocessor is None or n_dimensions(rows) != 1:
        return rows
    if not callable(preprocessor):
        return TableLookup(preprocessor)(rows)
    try:
        found = np.asarray(read_values(preprocessor(rows)))
    except Exception as error:
        raise PreprocessorError(
            f"An error occurred when trying to use the preprocessor: {error!r}"
        ) from error
    if found.ndim != 2 or len(found) != len(rows):
        raise PreprocessorError(
            f"the preprocessor was asked for {len(rows)} rows and gave an array of shape "
            f"{found.shape}."
        )
    return found


class TableLookup:
    """A table as a preprocessor: a callable from row numbers to rows."""

    def __init__(self, table: Any) -> None:
        self.X = np.asarray(check_rows(table))

    def __call__(self, ids: Any) -> Array:
        """The rows with these numbers."""
        try:
            rows = find_rows(np.asarray(ids)[:, None], None, len(self.X))
        except InputError as error:
            raise PreprocessorError(
                f"An error occurred when trying to use the preprocessor: {error}"
            ) from error
        return self.X[rows.ravel()]


def points_of_tuples(tuples: Any, size: int, preprocessor: Any = None, name: str = "") -> Array:
    """The members as vectors (n, size, d); `name` is the learner's, for messages."""
    if preprocessor is not None and n_dimensions(tuples) == 2:
        ids = np.asarray(tuples)
        flat = look_up(preprocessor, ids.ravel())
        tuples = np.asarray(flat).reshape(*ids.shape, -1)
    points = np.asarray(read_values(tuples) if n_dimensions(tuples) == 3 else tuples)
    if points.ndim != 3:
        raise InputError(
            f"3D array of formed tuples expected{_by(name)}. Found {points.ndim}D array instead:\n"
            f"input={points}. Reshape your data and/or use a preprocessor.\n"
        )
    if points.shape[1] != size:
        raise InputError(
            f"Tuples of {size} element(s) expected{_by(name)}. Got tuples of {points.shape[1]} "
            f"element(s) instead (shape={points.shape}):\ninput={points}.\n"
        )
    if points.dtype.kind == "c":
        raise InputError("Complex data not supported: the tuples hold complex numbers.")
    if points.dtype not in (np.float32, np.float64):
        points = points.astype(np.float64)
    if len(points) == 0:
        raise InputError(f"Found array with 0 sample(s): there are no {NAMES[size]}.")
    if points.shape[2] == 0:
        raise InputError(f"Found array with 0 feature(s) (shape={points.shape}).")
    refuse_nonfinite(points.reshape(-1, points.shape[2]))
    return points


def _by(name: str) -> str:
    return f" by {name}" if name else ""


def from_vectors(
    tuples: Any, size: int, sign: Any = None, preprocessor: Any = None, name: str = ""
) -> Tuples:
    """Tuples from metric-learn's form; every one counts, also if it is there twice."""
    points = points_of_tuples(tuples, size, preprocessor, name)
    n = len(points)
    _require_points(points.shape[0] * size, points.shape[2], points.dtype.itemsize, 5)
    signs = np.ones(n, dtype=np.int64) if size > 2 else check_signs(sign, n)
    rows = np.arange(n)[:, None] + n * np.arange(size)[None, :]
    return Tuples(np.concatenate(list(points.swapaxes(0, 1))), rows, signs)


def from_lookup(preprocessor: Any, tuples: Any, size: int, sign: Any = None) -> Tuples:
    """Tuples of ids that a callable turns into rows; of pairs a third column may be the sign."""
    cells = np.asarray(tuples)
    if size == 2 and sign is None and cells.ndim == 2 and cells.shape[1] == 3:
        cells, sign = cells[:, :2], read_signs(cells[:, 2])
    return from_vectors(cells, size, sign, preprocessor)


def from_preprocessor(table: Any, tuples: Any, size: int, sign: Any = None) -> Tuples:
    """Tuples of row numbers of the table that was given as preprocessor."""
    X = TableLookup(table).X
    cells = read_cells(tuples, size, None, len(X))
    look_up(table, cells[:, :size].ravel())  # numbers that no row has are a PreprocessorError
    return from_ids(X, cells, size, None, sign)


def from_ids(table: Array, tuples: Any, size: int, ids: Any = None, sign: Any = None) -> Tuples:
    """Tuples of rows of a (checked) table, given by position or by the `ids` of its rows."""
    known = known_ids(ids, len(table))
    cells = read_cells(tuples, size, known, len(table))
    if cells.shape[1] == size + 1 and size == 2 and sign is None:
        cells, sign = cells[:, :2], read_signs(cells[:, 2])
    if cells.shape[1] != size:
        raise InputError(
            f"{NAMES[size]} of row ids have {size} columns"
            + (" (or 3, the last one 1 for must-link and -1 for cannot-link)" * (size == 2))
            + f"; these have {cells.shape[1]}."
        )
    if len(cells) == 0:
        raise InputError(f"there are no {NAMES[size]}.")
    rows = find_rows(cells, known, len(table))
    shown = np.arange(len(table)) if known is None else known
    if size == 2:
        rows, signs = reconcile_pairs(rows, check_signs(sign, len(rows)), shown)
    else:
        rows, signs = check_comparisons(rows, shown), np.ones(0, dtype=np.int64)
    return Tuples(table, rows, signs)


def from_links(table: Array, must_link: Any, cannot_link: Any, ids: Any = None) -> Tuples:
    """Pairs from two lists: those that belong together and those that do not."""
    known = known_ids(ids, len(table))
    parts, sign = [], []
    for links, s in ((must_link, 1), (cannot_link, -1)):
        if links is None or (hasattr(links, "__len__") and len(links) == 0):
            continue
        part = read_cells(links, 2, known, len(table))
        if part.shape[1] != 2:
            raise InputError(f"must_link and cannot_link have two columns, not {part.shape[1]}.")
        parts.append(part.astype(object))
        sign += [s] * len(part)
    if not parts:
        raise InputError("there are no pairs: must_link and cannot_link are empty.")
    return from_ids(table, np.concatenate(parts), 2, ids, sign)


def _refuse_bare_ids(X: Any, y: Any, size: int) -> None:
    """Whole numbers in `size` columns are ids whose table was forgotten, not a table."""
    ids = np.asarray(X)
    if ids.ndim != 2 or ids.shape[1] != size or ids.dtype.kind not in "iu":
        return
    if (size > 2) == (y is None) and (y is None or np.isin(np.asarray(y), (1, -1)).all()):
        raise InputError(
            f"these look like row ids ({size} columns of whole numbers), but there is no table to "
            "look them up in: use fit(X, pairs=...) or the like, or preprocessor=X."
        )
