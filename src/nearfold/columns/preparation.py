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

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from nearfold.columns.cells import Cells, cells_of, read_cells
from nearfold.columns.converters import UNSEEN
from nearfold.columns.encodings import can_use_targets, check_answers, indicators, target_means
from nearfold.columns.frames import is_frame, show
from nearfold.columns.kinds import MISSING_RULES, Kind
from nearfold.columns.learned import Learned
from nearfold.columns.preparation_state import STATE, join_specs, split_specs
from nearfold.columns.refusals import refuse_gaps, refuse_overflow
from nearfold.columns.scaling import blocks, filled, learn_fill, learn_range, learn_scale
from nearfold.columns.specs import Spec, column_names, find_fault_among, source_names
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array, Floats, Ints


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
    names_, kinds_, details_ : name and kind of each feature, and what else it takes to read those
        that are not plain columns; empty if it was fitted on an array.
    columns_ : the same as a list of specifications.
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
    fitted_state = STATE

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

    @property
    def columns_(self) -> list[Spec]:
        """The specification of each feature; none if it was fitted on an array."""
        check_is_fitted(self, "names_")
        return join_specs(self.names_, self.kinds_, self.details_)

    def fit(self, frame: Any, y: Any = None) -> TablePreparation:
        """Learn from the training rows (and their answers, for categories="target")."""
        self._fit(frame, y)
        return self

    def fit_transform(self, frame: Any, y: Any = None, **fit_params: Any) -> Any:
        """`fit`, and the training rows encoded."""
        return self._fit(frame, y)

    def _fit(self, frame: Any, y: Any) -> Floats:
        self._validate_params()
        if is_frame(frame):
            specs = self._specify(frame)
            return self.fit_cells(read_cells(frame, specs), y, specs)
        if self.columns is not None:
            raise InputError(Message("columns.named_array"))
        return self.fit_cells(cells_of(frame), y, [])

    def transform(self, frame: Any) -> Floats:
        """The features as an array of floats; `rows_kept` tells which rows missing="drop" keeps."""
        return self.encode(self.read(frame))

    def read(self, frame: Any) -> Cells:
        """The cells of new rows, matched by name, nothing filled or encoded yet."""
        check_is_fitted(self)
        if is_frame(frame) and len(self.names_):
            return read_cells(frame, self.columns_, self.levels_)
        cells = cells_of(frame)
        if self.levels_ or cells.numbers.shape[1] != len(self.fill_):
            id = "columns.table_expected" if self.levels_ else "columns.width"
            raise InputError(Message(id, n=cells.numbers.shape[1], expected=len(self.fill_)))
        return cells

    def _specify(self, frame: Any) -> list[Spec]:
        """The specifications of the features: as given, or as inferred."""
        from nearfold.columns.schema import infer_schema

        given = None if self.columns is None else list(self.columns)
        if given and all(isinstance(entry, dict) for entry in given):
            fault = find_fault_among(given)
            if fault is not None:
                raise InputError(Message("columns.bad_spec", name=show(fault[0]), why=fault[1]))
            return [dict(entry) for entry in given]
        wanted = None if given is None else [str(name) for name in given]
        if wanted is not None and len(set(wanted)) < len(wanted):
            raise InputError(Message("columns.feature_twice"))
        schema = infer_schema(frame, features=wanted)
        found = [column.spec() for column in schema.features()]
        if not found:
            why = [Message("columns.look_at", name=show(c.name), why=c.reason)
                   for c in schema.columns[:3]]  # fmt: skip
            raise InputError(
                Message("columns.no_features", why=why or Message("columns.no_columns"))
            )
        place = {name: i for i, name in enumerate(wanted or ())}
        return sorted(found, key=lambda s: min(place.get(name, 0) for name in source_names(s)))

    def fit_cells(self, cells: Cells, y: Any = None, columns: Sequence[Spec] = ()) -> Floats:
        """Learn from cells that were read before (`columns`: as what); returns them encoded."""
        y = self._answers(cells, y)
        if self.missing == "drop":
            kept = ~cells.gaps()
            cells, y = cells.take(kept), y if y is None else y[kept]
        if len(cells) == 0 or not cells.parts:
            raise InputError(Message(f"columns.nothing.{'columns' if len(cells) else 'rows'}"))
        self._keep_names(cells, columns)
        self._learn_numbers(cells)
        return self._joined(cells, self._learn_categories(cells, y))

    def fit_learned(self, learned: Learned, columns: Sequence[Spec]) -> TablePreparation:
        """Take what was learned from the parts of a table that is nowhere whole."""
        self._validate_params()
        self._keep_names(learned.cells, columns)
        self.fill_, self.centre_, self.scale_ = learned.fill, learned.centre, learned.scale
        self.levels_, self.tables_ = list(learned.levels), []
        for table in learned.tables:
            self.tables_.append(table * self._indicator_factor(table.shape[1]))
        return self

    def _answers(self, cells: Cells, y: Any) -> Array | None:
        """The answers that categories are encoded by; None if none are."""
        if self.categories != "target" or not cells.levels:
            return None
        if y is None:
            raise InputError(Message("columns.needs_y"))
        return check_answers(y, len(cells))

    def _keep_names(self, cells: Cells, columns: Sequence[Spec]) -> None:
        self.names_, self.kinds_, self.details_ = split_specs(columns)
        self.__dict__.pop("feature_names_in_", None)
        if columns:
            members = [name for spec in columns for name in source_names(spec)]
            same = members == self.names_.tolist()  # then one array of names is enough in a file
            self.feature_names_in_ = self.names_ if same else np.asarray(members, dtype=object)
        self.n_features_in_ = len(getattr(self, "feature_names_in_", cells.parts))
        self.dtype_ = cells.numbers.dtype.name

    def _learn_numbers(self, cells: Cells) -> None:
        p = cells.numbers.shape[1]
        if self.missing == "error":
            refuse_gaps(cells)
        self.fill_ = learn_fill(cells.numbers, self.missing)
        self.centre_, self.scale_ = np.zeros(p), np.ones(p)
        if self.numbers == "range" and p:
            self.centre_, self.scale_ = learn_range(cells.numbers, self.fill_)
        if self.numbers == "scale" and p:
            own = [part for part in cells.parts if not part.is_coded]
            self.centre_, self.scale_ = learn_scale(cells.numbers, self.fill_, own)

    def _learn_categories(self, cells: Cells, y: Array | None) -> list[Floats]:
        """Learn the table of each category; returns the training rows' own encodings."""
        self.levels_ = list(cells.levels)
        self.tables_ = []
        own: list[Floats] = []
        for codes, levels in zip(cells.codes.T, cells.levels, strict=True):
            if y is not None and can_use_targets(y) and len(levels) > 2:
                table, values = target_means(codes, len(levels), y, self.random_state)
                factor = self._target_factor(values)
            else:
                table = indicators(codes, len(levels))
                values, factor = table[codes], self._indicator_factor(table.shape[1])
            self.tables_.append(table * factor)
            own.append(values * factor)
        return own

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
        if self.numbers != "scale" or not total > 1e-20:  # a category that is the same in all rows
            return 1.0
        return float(np.sqrt(self.category_weight / total))

    def encode(self, cells: Cells) -> Floats:
        """Cells as numbers, missing ones filled, categories encoded."""
        check_is_fitted(self)
        if self.missing == "error":
            refuse_gaps(cells, "columns.missing_in_new")
        if self.missing == "drop":
            cells = cells.take(~cells.gaps())
        coded = zip(cells.codes.T, self.tables_, strict=True)
        return self._joined(cells, [table[codes] for codes, table in coded])

    def _joined(self, cells: Cells, encoded: list[Floats]) -> Floats:
        """Numbers, filled and scaled a block of rows at a time, and the encoded categories."""
        n, p = cells.numbers.shape
        if self.numbers == "raw" and not encoded and self.dtype_ == cells.numbers.dtype:
            return filled(cells.numbers, self.fill_)
        dtype = np.result_type(cells.numbers.dtype, np.dtype(self.dtype_))
        found = np.empty((n, p + sum(values.shape[1] for values in encoded)), dtype=dtype)
        for rows in blocks(n, p):
            block = filled(cells.numbers[rows].astype(dtype, copy=False), self.fill_)
            if self.numbers != "raw":
                with np.errstate(over="ignore"):
                    block = ((block - self.centre_) / self.scale_).astype(dtype)
                refuse_overflow(cells, block)
            found[rows, :p] = block
        for values in encoded:
            found[:, p : p + values.shape[1]] = values
            p += values.shape[1]
        return found

    def rows_kept(self, frame: Any) -> Array:
        """Which rows `transform` returns: all, but for missing="drop" those without gaps."""
        cells = self.read(frame)
        return ~cells.gaps() if self.missing == "drop" else np.ones(len(cells), dtype=bool)

    def unseen(self, cells: Cells) -> list[Message]:
        """What is to be said of new rows: cells that cannot be read, categories never seen."""
        found = list(cells.notices)
        for part in cells.parts:
            if part.is_coded and (n := int((cells.codes[:, part.start] == UNSEEN).sum())):
                found.append(Message("columns.unseen", name=show(part.name), n=n))
        return found

    @property
    def origin(self) -> Ints:
        """For each column of the result, the number of the feature it comes from."""
        if not self.columns_:
            return np.arange(self.n_features_in_)
        numbers = [(i, len(column_names(s))) for i, s in enumerate(self.columns_)
                   if s["kind"] != Kind.CATEGORY]  # fmt: skip
        coded = zip(np.flatnonzero(self.kinds_ == Kind.CATEGORY.value), self.tables_, strict=True)
        widths = numbers + [(int(i), table.shape[1]) for i, table in coded]
        return np.repeat([i for i, _ in widths], [width for _, width in widths])

    @property
    def _n_features_out(self) -> int:  # scikit-learn's name for the number of columns it gives
        return len(self.fill_) + sum(table.shape[1] for table in self.tables_)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the columns of the array."""
        specs = self.columns_
        if not specs:
            numbered = [f"x{j}" for j in range(self.n_features_in_)]
            shown = numbered if input_features is None else list(input_features)
            return np.asarray(shown, dtype=object)
        coded = [spec["name"] for spec in specs if spec["kind"] == Kind.CATEGORY]
        names = [n for s in specs if s["kind"] != Kind.CATEGORY for n in column_names(s)]
        for name, table in zip(coded, self.tables_, strict=True):
            names += [f"{name}[{j}]" for j in range(table.shape[1])]
        return np.asarray(names, dtype=object)
