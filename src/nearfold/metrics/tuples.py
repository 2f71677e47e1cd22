"""What is told about rows: must-link and cannot-link pairs, triplets, quadruplets.

They come as vectors, (n, size, d) arrays as in metric-learn, or as ids of the rows of a table: an
array, a list, a frame or a CSV file with one column per member and, for pairs, an optional last
column that says must-link (1) or cannot-link (-1). Inside the package they are always one table of
points and the row numbers of the members.

What cannot be meant is answered here, once for all learners:

    an id that no row has              an error that shows the first of them
    a pair both must- and cannot-link,
    directly or by a chain of pairs    an error that shows it
    a row that cannot link to itself   an error that shows it
    a row that must link to itself     says nothing: left out, with a warning
    a pair given twice, (a, b), (b, a) counted once, with a warning
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from nearfold.errors import InputError, warn
from nearfold.inputs import check_rows, refuse_nonfinite
from nearfold.notation import Array, Floats, Ints

SIGNS = {
    **dict.fromkeys(["1", "+1", "+", "true", "must", "must-link", "must_link", "similar"], 1),
    **dict.fromkeys(["-1", "0", "-", "false", "cannot", "cannot-link", "cannot_link"], -1),
    "dissimilar": -1,
}
_SHOWN = 5
_MEMBERS = {2: "pairs", 3: "triplets", 4: "quadruplets"}


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


def n_dimensions(values: Any) -> int:
    """Of whatever can become an array."""
    return len(values.shape) if hasattr(values, "shape") else int(np.asarray(values).ndim)


def is_vectors(tuples: Any) -> bool:
    """Whether tuples are given as vectors rather than as ids."""
    return not isinstance(tuples, str | Path) and n_dimensions(tuples) == 3


def look_up(preprocessor: Any, rows: Any) -> Any:
    """The rows, or those that a preprocessor (a table or a callable) has for these ids."""
    if preprocessor is None or n_dimensions(rows) != 1:
        return rows
    if callable(preprocessor):
        found = np.asarray(preprocessor(rows))
        if found.ndim != 2 or len(found) != len(rows):
            raise InputError(
                f"the preprocessor was asked for {len(rows)} rows and gave an array of shape "
                f"{found.shape}."
            )
        return found
    table = table_of(preprocessor)
    return table[_places(np.asarray(rows)[:, None], None, len(table)).ravel()]


def table_of(preprocessor: Any) -> Array:
    """The table of a preprocessor, in floats."""
    return np.asarray(check_rows(preprocessor))


def points_of_tuples(tuples: Any, size: int, preprocessor: Any = None) -> Array:
    """The members as vectors (n, size, d)."""
    name = _MEMBERS[size]
    if preprocessor is not None and n_dimensions(tuples) == 2:
        ids = np.asarray(tuples)
        flat = look_up(preprocessor, ids.ravel())
        tuples = np.asarray(flat).reshape(*ids.shape, -1)
    points = np.asarray(tuples)
    if points.ndim != 3 or points.shape[1] != size:
        raise InputError(
            f"{name} are an array of shape (n, {size}, d), or (n, {size}) ids with a preprocessor; "
            f"this one has shape {points.shape}."
        )
    if points.dtype not in (np.float32, np.float64):
        points = points.astype(np.float64)
    if len(points) == 0:
        raise InputError(f"there are no {name}.")
    refuse_nonfinite(points.reshape(-1, points.shape[2]))
    return points


def from_vectors(tuples: Any, size: int, sign: Any = None, preprocessor: Any = None) -> Tuples:
    """Tuples from metric-learn's form; every one counts, also if it is there twice."""
    points = points_of_tuples(tuples, size, preprocessor)
    n = len(points)
    signs = np.ones(n, dtype=np.int64) if size > 2 else _check_signs(sign, n)
    rows = np.arange(n)[:, None] + n * np.arange(size)[None, :]
    return Tuples(np.concatenate(list(points.swapaxes(0, 1))), rows, signs)


def from_lookup(preprocessor: Any, tuples: Any, size: int, sign: Any = None) -> Tuples:
    """Tuples of ids that a callable turns into rows; of pairs a third column may be the sign."""
    cells = np.asarray(tuples)
    if size == 2 and sign is None and cells.ndim == 2 and cells.shape[1] == 3:
        cells, sign = cells[:, :2], _read_signs(cells[:, 2])
    return from_vectors(cells, size, sign, preprocessor)


def from_ids(table: Array, tuples: Any, size: int, ids: Any = None, sign: Any = None) -> Tuples:
    """Tuples of rows of a (checked) table, given by position or by the `ids` of its rows."""
    known = _known_ids(ids, len(table))
    cells = _cells(tuples, size, known, len(table))
    if cells.shape[1] == size + 1 and size == 2 and sign is None:
        cells, sign = cells[:, :2], _read_signs(cells[:, 2])
    if cells.shape[1] != size:
        raise InputError(
            f"{_MEMBERS[size]} of row ids have {size} columns"
            + (" (or 3, the last one 1 for must-link and -1 for cannot-link)" * (size == 2))
            + f"; these have {cells.shape[1]}."
        )
    if len(cells) == 0:
        raise InputError(f"there are no {_MEMBERS[size]}.")
    rows = _places(cells, known, len(table))
    shown = np.arange(len(table)) if known is None else known
    if size == 2:
        rows, signs = _settle_pairs(rows, _check_signs(sign, len(rows)), shown)
    else:
        rows, signs = _settle_larger(rows, shown), np.ones(0, dtype=np.int64)
    return Tuples(table, rows, signs)


def from_links(table: Array, must_link: Any, cannot_link: Any, ids: Any = None) -> Tuples:
    """Pairs from two lists: those that belong together and those that do not."""
    known = _known_ids(ids, len(table))
    parts, sign = [], []
    for links, s in ((must_link, 1), (cannot_link, -1)):
        if links is None or (hasattr(links, "__len__") and len(links) == 0):
            continue
        part = _cells(links, 2, known, len(table))
        if part.shape[1] != 2:
            raise InputError(f"must_link and cannot_link have two columns, not {part.shape[1]}.")
        parts.append(part.astype(object))
        sign += [s] * len(part)
    if not parts:
        raise InputError("there are no pairs: must_link and cannot_link are empty.")
    return from_ids(table, np.concatenate(parts), 2, ids, sign)


def _known_ids(ids: Any, m: int) -> Array | None:
    """What the rows are called, or None if by their position."""
    if ids is None:
        return None
    known = np.asarray(ids)
    if known.ndim == 2 and known.shape[1] == 1:
        known = known.ravel()
    if known.ndim != 1 or len(known) != m:
        raise InputError(f"there are {known.size} ids for {m} rows.")
    return known


def _cells(tuples: Any, size: int, known: Array | None, m: int) -> Array:
    """The table of ids as an array, whatever it came in."""
    if isinstance(tuples, str | Path):
        return _drop_header(_read(Path(tuples)), size, known, m)
    if hasattr(tuples, "columns"):
        return np.asarray(tuples.to_numpy())
    cells = np.asarray(tuples)
    if cells.dtype.kind == "U" and isinstance(tuples, list | tuple):
        cells = np.array(tuples, dtype=object)  # numbers beside texts stay numbers
    if cells.ndim != 2:
        raise InputError(f"a table of ids has two dimensions; this one has shape {cells.shape}.")
    return cells


def _read(path: Path) -> Array:
    import polars

    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    try:
        frame = polars.read_csv(path, has_header=False, infer_schema=False)
    except polars.exceptions.PolarsError as error:
        raise InputError(f"{str(path)!r} cannot be read as a table of ids: {error}") from error
    rows = [[cell.strip() if cell else cell for cell in row] for row in frame.rows()]
    return np.array([row for row in rows if any(row)], dtype=object).reshape(-1, frame.width)


def _drop_header(cells: Array, size: int, known: Array | None, m: int) -> Array:
    """Without a first line that names the columns: no cell of it is an id, a number or a sign."""
    if len(cells) < 2:
        return cells
    members, rest = cells[:1, :size], cells[0, size:]
    if any(str(cell).lower() in SIGNS for cell in rest):
        return cells
    numbers = [known is None and not np.isnan(_number(cell)) for cell in members.ravel()]
    return cells if any(numbers) or (_find(members, known, m) >= 0).any() else cells[1:]


def _find(cells: Array, known: Array | None, m: int) -> Ints:
    """The row numbers of these ids, -1 where there is none."""
    flat = cells.ravel()
    if known is None:
        try:
            numbers = flat.astype(np.float64)
        except (TypeError, ValueError):
            numbers = np.array([_number(cell) for cell in flat])
        with np.errstate(invalid="ignore"):
            fits = (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < m)
        return np.where(fits, np.where(fits, numbers, 0), -1).astype(np.int64).reshape(cells.shape)
    by_value = {value: row for row, value in enumerate(known.tolist())}
    if len(by_value) < len(known):
        values, counts = np.unique(known, return_counts=True)
        raise InputError(f"the ids of the rows are not unique: {values[counts > 1][:_SHOWN]}.")
    by_text = {str(value): row for value, row in by_value.items()}
    found = [by_value.get(cell, by_text.get(str(cell), -1)) for cell in flat.tolist()]
    return np.array(found, dtype=np.int64).reshape(cells.shape)


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return np.nan


def _places(cells: Array, known: Array | None, m: int) -> Ints:
    rows = _find(cells, known, m)
    if (rows < 0).any():
        at, column = np.nonzero(rows < 0)
        shown = ", ".join(
            f"{cells[i : i + 1, j].tolist()[0]!r} (tuple {i})"
            for i, j in list(zip(at.tolist(), column.tolist(), strict=True))[:_SHOWN]
        )
        what = f"row numbers from 0 to {m - 1}" if known is None else "ids of the table's rows"
        more = f" and {len(at) - _SHOWN} more" if len(at) > _SHOWN else ""
        raise InputError(f"these are not {what}: {shown}{more}.")
    return rows


def _read_signs(column: Array) -> Ints:
    texts = [_plain(value).lower() for value in column.tolist()]
    unknown = [(i, t) for i, t in enumerate(texts) if t not in SIGNS]
    if unknown:
        i, text = unknown[0]
        raise InputError(
            f"the last column of pairs says 1 for must-link and -1 for cannot-link; pair {i} says "
            f"{text!r}."
        )
    return np.array([SIGNS[text] for text in texts], dtype=np.int64)


def _plain(value: Any) -> str:
    """1.0 and 1 and "1" read the same."""
    number = _number(value)
    if isinstance(value, bool | np.bool_) or not np.isfinite(number) or number != int(number):
        return str(value)
    return str(int(number))


def _check_signs(sign: Any, n: int) -> Ints:
    if sign is None:
        raise InputError(
            "pairs need to be told apart: 1 for must-link, -1 for cannot-link, as y, as a third "
            "column, or by giving must_link and cannot_link."
        )
    signs = np.asarray(sign).ravel()
    if len(signs) != n:
        raise InputError(f"there are {len(signs)} signs for {n} pairs.")
    if not np.isin(signs, (1, -1)).all():
        wrong = np.unique(signs[~np.isin(signs, (1, -1))])
        raise InputError(
            f"the y of pairs is 1 for must-link and -1 for cannot-link; it holds {wrong[:_SHOWN]}."
        )
    return signs.astype(np.int64)


def _settle_pairs(rows: Ints, sign: Ints, shown: Array) -> tuple[Ints, Ints]:
    """The pairs, each once, after refusing what cannot be."""
    itself = rows[:, 0] == rows[:, 1]
    if (itself & (sign < 0)).any():
        which = np.unique(shown[rows[itself & (sign < 0), 0]])
        raise InputError(f"a row cannot be kept apart from itself: {_listed(which)}.")
    if itself.any():
        listed = _listed(shown[rows[itself, 0]])
        warn(f"pairs of a row with itself say nothing and are left out: {listed}.")
    rows, sign = np.sort(rows[~itself], axis=1), sign[~itself]
    if len(rows) == 0:
        raise InputError("there are no pairs of different rows.")
    unique, first, index = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    index = index.ravel()
    both = np.flatnonzero(
        (np.bincount(index[sign > 0], minlength=len(unique)) > 0)
        & (np.bincount(index[sign < 0], minlength=len(unique)) > 0)
    )
    if len(both):
        raise InputError(
            "these pairs are given both as must-link and as cannot-link: "
            + _listed([tuple(pair) for pair in shown[unique[both]].tolist()])
            + "."
        )
    if len(unique) < len(rows):
        again = unique[np.bincount(index) > 1]
        warn(
            f"{len(rows) - len(unique)} pairs are given more than once and count once: "
            + _listed([tuple(pair) for pair in shown[again].tolist()])
            + "."
        )
    _refuse_chains(unique, sign[first], shown)
    order = np.sort(first)
    return rows[order], sign[order]


def _refuse_chains(rows: Ints, sign: Ints, shown: Array) -> None:
    """Raise if must-link pairs, one after the other, join rows that cannot link."""
    m = len(shown)
    must = rows[sign > 0]
    links = sparse.coo_array((np.ones(len(must)), (must[:, 0], must[:, 1])), shape=(m, m))
    part = connected_components(links, directed=False)[1]
    apart = rows[sign < 0]
    joined = apart[part[apart[:, 0]] == part[apart[:, 1]]]
    if len(joined) == 0:
        return
    start, at = int(joined[0, 0]), int(joined[0, 1])
    before = breadth_first_order(links.tocsr(), start, directed=False)[1]
    chain = [at]
    while at != start:
        at = int(before[at])
        chain.append(at)
    more = f" ({len(joined) - 1} more such pairs)" if len(joined) > 1 else ""
    raise InputError(
        f"the cannot-link pair {tuple(shown[joined[0]].tolist())} is joined by a chain of "
        f"must-link pairs: {' - '.join(str(shown[row]) for row in reversed(chain))}{more}."
    )


def _settle_larger(rows: Ints, shown: Array) -> Ints:
    """Triplets (a, near, far) or quadruplets (a, b, c, d), after refusing what cannot be."""
    far = rows[:, [0, 2]] if rows.shape[1] == 3 else rows[:, 2:]
    empty = far[:, 0] == far[:, 1]
    if empty.any():
        raise InputError(
            "a row cannot be farther from itself than another pair is: "
            + _listed([tuple(t) for t in shown[rows[empty]].tolist()])
            + "."
        )
    near = np.sort(rows[:, :2], axis=1)
    same = (near == np.sort(far, axis=1)).all(axis=1)
    if same.any():
        raise InputError(
            "a pair cannot be nearer than itself: "
            + _listed([tuple(t) for t in shown[rows[same]].tolist()])
            + "."
        )
    return rows


def _listed(values: Any) -> str:
    values = list(values)
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    shown = np.asarray(values[:_SHOWN], dtype=object).tolist() if values else []
    return ", ".join(str(tuple(v) if isinstance(v, list) else v) for v in shown) + more
