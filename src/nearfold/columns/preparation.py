"""From a table with named columns to the array that a method works on: the first step of a model.

Columns are matched by name. What is learned from the training rows travels with the model:

    numbers       missing ones are filled with the median (mean, zero) of the training rows; then
                  left as they are ("raw"), brought to variance 1 ("scale"), or to the range 0 to 1
                  ("range", for Gower's distance). The columns of an embedding share one scale.
    categories    one indicator for each level ("onehot"), levels with few rows grouped as one; or
                  the mean target of each level ("target": for classes, the share of each class),
                  shrunk towards the overall mean. Training rows are then encoded by rows other than
                  themselves (scikit-learn's TargetEncoder), so that no row sees its own answer.
    their weight  beside scaled numbers a category counts as much as a number: two rows of
                  different levels are as far apart (squared distance 2, times `category_weight`)
                  as two rows are in a scaled number on average. Dividing indicators by their own
                  deviation instead would let a rare level outweigh everything else. Beside raw
                  numbers indicators are 0 and 1; in Gower's distance two rows of different levels
                  differ by 1. Truth values count like a category of two levels, target means
                  like a number.

In new rows a level that the training rows did not have is no level: all its indicators are 0, and
its target mean is the overall one. A missing category is a level of its own if the training rows
had missing ones, else it is treated like an unknown level. Missing numbers are filled as in
training.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from nearfold.columns.cells import (
    MISSING,
    UNSEEN,
    Cells,
    cells_of_array,
    column_names,
    read_cells,
)
from nearfold.columns.frames import is_frame, show
from nearfold.columns.kinds import Kind
from nearfold.errors import InputError, NonFiniteError
from nearfold.messages import Message
from nearfold.notation import Array, Floats, Ints
from nearfold.state import State, array, list_of, names, require, size, text

MISSING_RULES = ("median", "mean", "zero", "drop", "error")
_MOST_LEVELS = 100  # indicators of one category; the others are grouped
_RARE = 0.001  # share of the rows below which a level is grouped, and never fewer than 2 rows
_CLIP = 1e-300


def _check_names(values: dict[str, Any], sizes: dict[str, int]) -> None:
    found = values.get("feature_names_in_")
    if found is not None:
        require(len(set(found.tolist())) == len(found), "a name that occurs twice")
    for spec in values["columns_"]:
        require(isinstance(spec, dict) and {"name", "kind"} <= set(spec), "columns: not specified")
        require(spec["kind"] in list(Kind), "columns: an unknown kind")
    coded = [spec for spec in values["columns_"] if spec["kind"] == Kind.CATEGORY]
    require(
        len(coded) == len(values["levels_"]) == len(values["tables_"]), "levels that do not fit"
    )
    for known, table in zip(values["levels_"], values["tables_"], strict=True):
        require(len(table) == len(known) + 2, "an encoding that does not fit its levels")
    if coded or values.get("feature_names_in_") is not None:
        require(
            _widths(values["columns_"]) == sizes.get("p", 0), "numbers that do not fit the columns"
        )


def _widths(specs: Sequence[dict[str, Any]]) -> int:
    try:
        return sum(len(column_names(spec)) for spec in specs if spec["kind"] != Kind.CATEGORY)
    except (KeyError, TypeError, ValueError):
        return -1


class TablePreparation(TransformerMixin, BaseEstimator):
    """Reads the features of a table by name and turns them into numbers.

    Parameters
    ----------
    columns : list of str or of dict, default=None
        The features: names, or specifications as `Column.spec` gives them. None: those that
        `infer_schema` finds. Arrays have numbers only, and all their columns are used.
    missing : {"median", "mean", "zero", "drop", "error"}, default="median"
        What to do about missing and infinite numbers; "drop" leaves their rows out.
    numbers : {"raw", "scale", "range"}, default="raw"
    categories : {"onehot", "target"}, default="onehot"
        "target" needs y.
    category_weight : float, default=1.0
        Squared distance of two rows of different levels, in units of that of two rows in a scaled
        number on average, which is 2.
    random_state : int, default=0
        Cuts the training rows that "target" encodes by one another.

    Attributes
    ----------
    feature_names_in_ : names of the columns that are read, if it was fitted on a table with names.
    n_features_in_ : how many there are.
    columns_ : the specification of each feature.
    fill_, centre_, scale_ : for each number, what replaces missing values, and its scaling.
    levels_, tables_ : for each category, its words and the row of numbers that each stands for;
        the last two rows are those of an unknown and of a missing word.
    dtype_ : "float32" if that holds the training values exactly by their types, else "float64".
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "columns": ["array-like", None],
        "missing": [StrOptions(set(MISSING_RULES))],
        "numbers": [StrOptions({"raw", "scale", "range"})],
        "categories": [StrOptions({"onehot", "target"})],
        "category_weight": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }
    fitted_state = State(
        _check_names,
        ("feature_names_in_",),
        n_features_in_=size("d", 1),
        feature_names_in_=names("d"),
        columns_=list_of(lambda value, sizes: require(isinstance(value, dict), "not a column")),
        fill_=array("p"),
        centre_=array("p"),
        scale_=array("p", above=0),
        levels_=list_of(array("*", "any")),
        tables_=list_of(array("* *")),
        dtype_=text("float32", "float64"),
    )

    def __init__(
        self,
        *,
        columns: Sequence[Any] | None = None,
        missing: str = "median",
        numbers: str = "raw",
        categories: str = "onehot",
        category_weight: float = 1.0,
        random_state: int | None = 0,
    ) -> None:
        self.columns = columns
        self.missing = missing
        self.numbers = numbers
        self.categories = categories
        self.category_weight = category_weight
        self.random_state = random_state

    def fit(self, frame: Any, y: Any = None) -> TablePreparation:
        """Learn from the training rows (and their answers, for categories="target")."""
        self._validate_params()
        self.fit_cells(self._read_first(frame), y)
        return self

    def fit_transform(self, frame: Any, y: Any = None, **fit_params: Any) -> Any:
        """`fit`, and the training rows encoded."""
        self._validate_params()
        return self.fit_cells(self._read_first(frame), y)

    def transform(self, frame: Any) -> Floats:
        """The features as an array of floats; `rows_kept` tells which rows missing="drop" keeps."""
        return self.encode(self.read(frame))

    def read(self, frame: Any) -> Cells:
        """The cells of new rows, matched by name, nothing filled or encoded yet."""
        check_is_fitted(self)
        if is_frame(frame) and self.columns_:
            return read_cells(frame, self.columns_, self.levels_)
        cells = self._read_array(frame)
        if cells.numbers.shape[1] != self.n_features_in_:
            raise InputError(
                f"the array has {cells.numbers.shape[1]:,} columns, where {self.n_features_in_:,} "
                "are expected."
            )
        return cells

    def _read_first(self, frame: Any) -> Cells:
        """The cells of the training rows; which columns they are in is settled here."""
        for stale in ("feature_names_in_", "n_features_in_"):
            self.__dict__.pop(stale, None)
        if not is_frame(frame):
            if self.columns is not None:
                raise InputError("columns are named, and an array has no names: give a table.")
            cells = self._read_array(frame)
            self.columns_ = []
        else:
            self.columns_ = self._specify(frame)
            cells = read_cells(frame, self.columns_)
        return cells

    def _read_array(self, X: Any) -> Cells:
        if is_frame(X):  # fitted on an array: the columns have numbers only
            from nearfold.columns.frames import as_polars

            table = as_polars(X)
            specs = [{"name": name, "kind": Kind.NUMBER.value} for name in table.columns]
            return read_cells(table, specs)
        try:
            array = np.asarray(X)
            if array.dtype.kind not in "fiub":
                array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(
                "this is neither a table with names nor an array of numbers."
            ) from None
        if array.ndim != 2:
            raise InputError(f"the array has {array.ndim} axes; rows and columns are expected.")
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float32 if np.can_cast(array.dtype, np.float32) else np.float64)
        return cells_of_array(array)

    def _specify(self, frame: Any) -> list[dict[str, Any]]:
        from nearfold.columns.schema import infer_schema

        given = self.columns
        if given is not None and all(isinstance(entry, dict) for entry in given):
            return [dict(entry) for entry in given]
        wanted = None if given is None else [str(name) for name in given]
        if wanted is not None and len(set(wanted)) < len(wanted):
            raise InputError("a feature is named twice.")
        schema = infer_schema(frame, features=wanted)
        features = {column.name: column.spec() for column in schema.features()}
        if not features:
            why = [
                Message("columns.look_at", name=show(c.name), why=c.reason)
                for c in schema.columns[:3]
            ]
            raise InputError(Message("columns.no_features", why=why))
        return [features[name] for name in wanted] if wanted else list(features.values())

    def fit_cells(
        self, cells: Cells, y: Any = None, columns: list[dict[str, Any]] | None = None
    ) -> Floats:
        """Learn from cells that were read before (`columns`: as what); returns them encoded."""
        if columns is not None:
            self.columns_ = columns
        if len(cells) == 0 or not cells.parts:
            raise InputError(
                f"the table has no {'columns' if len(cells) else 'rows'} to learn from."
            )
        if self.columns_ and cells.named:
            members = [n for spec in self.columns_ for n in spec.get("members", [spec["name"]])]
            self.feature_names_in_ = np.asarray(members, dtype=object)
        self.n_features_in_ = len(getattr(self, "feature_names_in_", cells.parts))
        self.dtype_ = cells.numbers.dtype.name
        self.levels_ = list(cells.levels)
        self._learn_numbers(cells)
        coded = [part for part in cells.parts if part.is_coded]
        self.tables_ = []
        own: list[Floats] = []  # the training rows' own encodings
        for part in coded:
            codes, n_levels = cells.codes[:, part.start], len(cells.levels[part.start])
            if self.categories == "target" and y is not None and n_levels > 2:
                table, values = _target_table(codes, n_levels, y, self.random_state)
                factor = self._target_factor(values)
            else:
                table, values = _indicator_table(codes, n_levels), None
                factor = self._indicator_factor(table.shape[1])
            self.tables_.append(table * factor)
            own.append(self.tables_[-1][codes] if values is None else values * factor)
        return self._joined(cells, own)

    def _learn_numbers(self, cells: Cells) -> None:
        p = cells.numbers.shape[1]
        self.fill_, self.centre_, self.scale_ = np.zeros(p), np.zeros(p), np.ones(p)
        bad = ~np.isfinite(cells.numbers)
        has_gaps = np.asarray(bad.any(axis=0))
        if has_gaps.any() and self.missing == "error":
            raise NonFiniteError(describe_missing(cells, bad))
        # Also where these rows have no gap: new rows may have one.
        for j in range(p) if self.missing in ("median", "mean") else ():
            column = cells.numbers[:, j]
            known = (column[~bad[:, j]] if has_gaps[j] else column).astype(np.float64)
            if len(known):  # a column without any value in these rows is 0
                size = max(float(np.abs(known).max()), 1.0)  # sums of 1e308 would overflow
                middle = np.mean if self.missing == "mean" else np.median
                self.fill_[j] = middle(known / size) * size if size > 1e300 else middle(known)
        if self.numbers == "raw" or p == 0:
            return
        rows = self._filled(cells.numbers)
        low, high = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
        if self.numbers == "range":
            self.centre_, reach = low, high / 2 - low / 2
            self.scale_ = np.where(reach > _CLIP, np.minimum(2 * reach, np.finfo(float).max), 1.0)
            return
        unit = np.maximum(np.maximum(-low, high), _CLIP)  # so that no square overflows
        self.centre_ = (rows / unit).mean(axis=0, dtype=np.float64) * unit
        spread = np.sqrt((((rows - self.centre_) / unit) ** 2).mean(axis=0)) * unit
        for part in cells.parts:
            own = slice(part.start, part.stop)
            if part.kind == Kind.BOOLEAN:  # as far apart as the levels of a category
                spread[own] = np.sqrt(0.5)
            if part.kind in (Kind.EMBEDDING, Kind.IMAGE):  # its columns share one scale
                spread[own] = np.sqrt((spread[own] ** 2).mean())
            elif part.kind == Kind.DATE:  # sine and cosine together count as one number
                for pair in range(part.start + 1, part.stop, 2):
                    spread[pair : pair + 2] = np.sqrt((spread[pair : pair + 2] ** 2).sum())
        # A column that varies by rounding only is not blown up.
        noise = 10 * np.finfo(rows.dtype).eps * np.maximum(np.abs(low), np.abs(high))
        self.scale_ = np.where(spread > noise, spread, 1.0)

    def _indicator_factor(self, width: int) -> float:
        """What the indicators of a category are multiplied by; two levels have one of them."""
        if self.numbers == "raw":
            return 1.0
        if self.numbers == "range":
            return 1.0 if width == 1 else 0.5
        return float(np.sqrt(self.category_weight * (2 if width == 1 else 1)))

    def _target_factor(self, values: Floats) -> float:
        """What the target means of a category are multiplied by."""
        total = float(values.var(axis=0).sum())
        if self.numbers != "scale" or not total > _CLIP:
            return 1.0
        return float(np.sqrt(self.category_weight / total))

    def encode(self, cells: Cells) -> Floats:
        """Cells as numbers, missing ones filled, categories encoded."""
        check_is_fitted(self)
        if self.missing == "error":
            bad = ~np.isfinite(cells.numbers)
            if bad.any():
                raise NonFiniteError(describe_missing(cells, bad, "columns.missing_in_new"))
        coded = [part for part in cells.parts if part.is_coded]
        tables = zip(coded, self.tables_, strict=True)
        return self._joined(cells, [table[cells.codes[:, part.start]] for part, table in tables])

    def _joined(self, cells: Cells, encoded: list[Floats]) -> Floats:
        rows = cells.numbers
        if self.missing == "drop":
            kept = np.isfinite(rows).all(axis=1)
            rows, encoded = rows[kept], [values[kept] for values in encoded]
        rows = self._filled(rows)
        if self.numbers != "raw":
            rows = ((rows - self.centre_) / self.scale_).astype(rows.dtype, copy=False)
        if not encoded:
            return rows
        return np.hstack([rows, *(values.astype(rows.dtype, copy=False) for values in encoded)])

    def _filled(self, rows: Floats) -> Floats:
        bad = ~np.isfinite(rows)
        return np.where(bad, self.fill_.astype(rows.dtype), rows) if bad.any() else rows

    def rows_kept(self, frame: Any) -> Array:
        """Which rows `transform` returns: all, but for missing="drop" those without gaps."""
        numbers = self.read(frame).numbers
        if self.missing != "drop":
            return np.ones(len(numbers), dtype=bool)
        return np.asarray(np.isfinite(numbers).all(axis=1))

    def unseen(self, cells: Cells) -> list[Message]:
        """What is to be said of categories in new rows that the training rows did not have."""
        found = []
        for part in cells.parts:
            if part.is_coded and (n := int((cells.codes[:, part.start] == UNSEEN).sum())):
                found.append(Message("columns.unseen", name=show(part.name), n=n))
        return found

    @property
    def origin(self) -> Ints:
        """For each column of the result, the number of the feature it comes from."""
        check_is_fitted(self)
        numbers, coded, at = [], [], 0
        for i, spec in enumerate(self.columns_ or [{"kind": Kind.NUMBER}] * self.n_features_in_):
            if spec["kind"] == Kind.CATEGORY:
                coded += [i] * self.tables_[at].shape[1]
                at += 1
            else:
                numbers += [i] * (len(column_names(spec)) if self.columns_ else 1)
        return np.asarray(numbers + coded, dtype=np.int64)

    @property
    def _n_features_out(self) -> int:  # scikit-learn's name for the number of columns it gives
        return len(self.fill_) + sum(table.shape[1] for table in self.tables_)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the columns of the array."""
        check_is_fitted(self)
        if not self.columns_:
            given = input_features if input_features is not None else None
            shown = [f"x{j}" for j in range(self.n_features_in_)] if given is None else list(given)
            return np.asarray(shown, dtype=object)
        numbers: list[str] = []
        coded: list[str] = []
        at = 0
        for spec in self.columns_:
            if spec["kind"] != Kind.CATEGORY:
                numbers += column_names(spec)
                continue
            width = self.tables_[at].shape[1]
            coded += [f"{spec['name']}[{j}]" for j in range(width)]
            at += 1
        return np.asarray(numbers + coded, dtype=object)


def _indicator_table(codes: Ints, n_levels: int) -> Floats:
    """A row for each level, for a missing and for an unknown word; a column for each group.

    Two levels need one column. Levels with few rows, and those beyond the most frequent, share one.
    """
    counts = np.bincount(codes[codes >= 0], minlength=n_levels)
    least = max(2, int(np.ceil(_RARE * len(codes))))
    order = np.argsort(-counts, kind="stable")
    kept = [int(c) for c in order[:_MOST_LEVELS] if counts[c] >= least]
    rare = [int(c) for c in range(n_levels) if counts[c] > 0 and c not in set(kept)]
    groups = [[c] for c in sorted(kept)] + ([rare] if rare else [])
    if bool((codes == MISSING).any()):
        groups.append([n_levels])
    if len(groups) == 2:
        groups = groups[1:]
    table = np.zeros((n_levels + 2, max(1, len(groups))))
    for j, members in enumerate(groups):
        table[members, j] = 1.0
    # Codes of missing (-1) and unknown (-2) words index from the end: unknown, then missing.
    table[[n_levels, n_levels + 1]] = table[[n_levels + 1, n_levels]]
    return table


def _target_table(codes: Ints, n_levels: int, y: Any, seed: int | None) -> tuple[Floats, Floats]:
    """The mean answer of each level, and for the training rows that of the other rows."""
    from sklearn.preprocessing import TargetEncoder

    y = np.asarray(y)
    kind = "continuous"
    if y.dtype.kind not in "f":
        kind = "binary" if len(np.unique(y)) == 2 else "multiclass"
    encoder = TargetEncoder(target_type=kind, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes with fewer rows than cuts: the rest are cut
        values = np.asarray(encoder.fit_transform(codes[:, None], y), dtype=np.float64)
    means = np.atleast_1d(np.asarray(encoder.target_mean_, dtype=np.float64))
    table = np.tile(means[: values.shape[1]], (n_levels + 2, 1))
    known = np.asarray(encoder.categories_[0])  # codes; MISSING among them if rows have it
    table[known] = np.stack([np.asarray(e) for e in encoder.encodings_], axis=1)
    return table, values


def describe_missing(
    cells: Cells, bad: Array, id: str = "columns.missing_cells", numbers: Ints | None = None
) -> Message:
    """Which numbers are missing, by column and row; `numbers`: of the rows, if not all are here."""
    rows, columns = np.nonzero(bad)
    rows = rows if numbers is None else numbers[rows]
    by_column = [name for part in cells.parts if not part.is_coded for name in part.names]
    where, times = np.unique(columns, return_counts=True)
    named = [f"{show(by_column[j])} ({n:,})" for j, n in zip(where[:5], times[:5], strict=True)]
    first = np.unique(rows)
    shown = ", ".join(f"{row + 1:,}" for row in first[:5]) + (", ..." if len(first) > 5 else "")
    more: Any = named if len(where) <= 5 else Message("words.more", names=named, n=len(where) - 5)
    return Message(
        id,
        what=Message("columns.n_missing", n=len(rows)),
        rows=Message("columns.which_rows", n=len(first), rows=shown),
        names=more,
    )
