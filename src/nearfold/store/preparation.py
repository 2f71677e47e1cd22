"""From a table with named columns to the array a method works on, the same way for every table.

Columns are matched by name, so that their order does not matter and what was left out at the fit
is left out of new rows. What to put in place of missing values is learned from the training rows
and travels with the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import require_memory
from nearfold.errors import InputError, NonFiniteError
from nearfold.notation import Array, Floats
from nearfold.state import State, array, names, require, size, text
from nearfold.store.column_facts import readable_number
from nearfold.store.file_bytes import ADVICE
from nearfold.store.frames import as_polars, close_to, count, is_frame, show, show_list

if TYPE_CHECKING:
    import polars as pl

MISSING = ("error", "drop", "mean", "median", "zero")
_EXACT_IN_FLOAT32 = frozenset(("Float32", "Int8", "Int16", "UInt8", "UInt16", "Boolean"))
_BLOCK = 2**20  # rows times columns looked at together


def _check_names(values: dict[str, Any], sizes: dict[str, int]) -> None:
    """Names occur once; those asked for are those found; what is excluded has names, too."""
    found = values.get("feature_names_in_")
    if found is not None:
        require(len(set(found.tolist())) == len(found), "a name that occurs twice")
    asked = values.get("features")
    if asked is not None and found is not None:
        require([str(name) for name in asked] == found.tolist(), "other features than asked for")
    excluded = values.get("excluded")
    require(all(isinstance(name, str) for name in excluded or ()), "excluded: not names")


class TablePreparation(TransformerMixin, BaseEstimator):
    """Picks the features of a table by name and deals with missing values.

    Parameters
    ----------
    features : the columns to use, in this order. None: those that `infer_schema` calls features.
    missing : what to do about NaN, inf and empty cells: "error", "drop" the rows, or put the
        column's "mean", "median" (of the training rows) or "zero" in their place.
    excluded : columns known to be no features, best with the reasons: `differences` is silent
        about them.

    Attributes
    ----------
    feature_names_in_ : the names of the features, if it was fitted on a table with names.
    n_features_in_ : how many there are.
    fill_ : what is put in place of missing values, one per feature (0 where nothing is).
    dtype_ : "float32" if that holds the training values exactly by their types, else "float64".
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "features": ["array-like", None],
        "missing": [StrOptions(set(MISSING))],
        "excluded": [dict, "array-like", None],
    }
    fitted_state = State(
        _check_names,
        ("feature_names_in_",),
        n_features_in_=size("d", 1),
        feature_names_in_=names("d"),
        fill_=array("d"),
        dtype_=text("float32", "float64"),
    )

    def __init__(
        self,
        *,
        features: Sequence[str] | None = None,
        missing: str = "error",
        excluded: Mapping[str, str] | Sequence[str] | None = None,
    ) -> None:
        self.features = features
        self.missing = missing
        self.excluded = excluded

    def fit(self, frame: Any, y: Any = None) -> TablePreparation:
        """Learn the names of the features and what to put in place of missing values."""
        X = self._learn(frame)
        if self.missing == "error":
            self._treated(X)  # said now, not when the first rows are transformed
        return self

    def fit_transform(self, frame: Any, y: Any = None, **fit_params: Any) -> Any:
        """`fit`, then `transform` the same rows, which are made into an array only once."""
        return self._treated(self._learn(frame))

    def transform(self, frame: Any) -> Any:
        """The features as an array of floats, rows with missing values treated as at the fit.

        With missing="drop" such rows are left out: `rows_kept` tells which are there.
        """
        check_is_fitted(self)
        return self._treated(self._values(frame))

    @property
    def _n_features_out(self) -> int:  # scikit-learn's name for the number of columns it gives
        return self.n_features_in_

    def _learn(self, frame: Any) -> Floats:
        if self.missing not in MISSING:
            raise InputError(f"missing={self.missing!r}: use one of {', '.join(MISSING)}.")
        for stale in ("feature_names_in_", "n_features_in_"):
            self.__dict__.pop(stale, None)
        names = self._choose(frame)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        self.dtype_ = "float32"  # until the types of the columns say otherwise
        X = self._values(frame)
        self.dtype_ = X.dtype.name
        self.n_features_in_ = X.shape[1]
        if X.shape[0] == 0 or X.shape[1] == 0:
            what = "rows" if X.shape[1] else "columns"
            raise InputError(f"the table has no {what} to learn from.")
        self.fill_ = self._learn_fill(X)
        return X

    def _choose(self, frame: Any) -> list[str] | None:
        """The features of this table; None for an array, all columns of which are used."""
        if self.features is not None:
            names = [str(name) for name in self.features]
            if not names:
                raise InputError("there are no features to work on: the list is empty.")
            if len(set(names)) < len(names):
                raise InputError("a feature is named twice.")
            return names
        if not is_frame(frame):
            return None
        from nearfold.store.schema import infer_schema

        schema = infer_schema(frame, exclude=[n for n in self.excluded or () if n in frame.columns])
        if not schema.features():
            reasons = "; ".join(f"{show(c.name)}: {c.reason}" for c in schema.columns[:3])
            raise InputError(f"no column can be a feature ({reasons}).")
        return schema.features()

    def _values(self, frame: Any) -> Floats:
        """The features as they are in this table, missing ones as NaN."""
        if not is_frame(frame):
            return self._from_array(frame)
        if hasattr(self, "feature_names_in_"):
            names = [str(name) for name in self.feature_names_in_]
        else:  # fitted on an array: the columns have numbers only
            names = [str(name) for name in frame.columns]
            self._refuse_count(len(names))
        self._refuse_absent(frame, names)
        table = as_polars(frame, names)
        small = all(str(kind) in _EXACT_IN_FLOAT32 for kind in table.dtypes)
        dtype = np.dtype("float32" if small and self.dtype_ == "float32" else "float64")
        require_memory(2 * table.height * len(names) * dtype.itemsize, "the table", ADVICE)
        return _as_floats(table, dtype)

    def _from_array(self, X: Any) -> Floats:
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
        self._refuse_count(array.shape[1])
        small = np.can_cast(array.dtype, np.float32) and self.dtype_ == "float32"
        return array.astype(np.float32 if small else np.float64)

    def _refuse_count(self, have: int) -> None:
        names = getattr(self, "feature_names_in_", None)
        wanted = getattr(self, "n_features_in_", have) if names is None else len(names)
        if have != wanted:
            raise InputError(
                f"the array has {count(have, 'column')}, where {wanted:,} are expected."
            )

    def _refuse_absent(self, frame: Any, names: list[str]) -> None:
        have = [str(name) for name in frame.columns]
        there = set(have)
        absent = [name for name in names if name not in there]
        if not absent:
            return
        used = set(names) | set(self.excluded or ())
        extra = [name for name in have if name not in used]
        nearest = close_to(absent[0], extra) if extra else ""
        others = f" Columns not asked for: {show_list(extra)}." if extra else ""
        near = f" {nearest}" if nearest.startswith("Did you mean") else ""
        raise InputError(
            f"the table lacks {count(len(absent), 'column')} of {len(names):,}: "
            f"{show_list(absent)}.{near}{others}"
        )

    def _learn_fill(self, X: Floats) -> Floats:
        """One value per feature, from the finite values of the training rows."""
        bare = ~np.isfinite(X).any(axis=0)
        if bare.any():
            raise InputError(f"column {self._name(int(bare.argmax()))} has no value to learn from.")
        fill = np.zeros(X.shape[1])
        if self.missing in ("mean", "median"):
            for j in range(X.shape[1]):
                finite = X[np.isfinite(X[:, j]), j].astype(np.float64)
                size = float(np.abs(finite).max()) or 1.0  # sums of 1e308 would overflow
                middle = np.mean if self.missing == "mean" else np.median
                fill[j] = middle(finite / size) * size if size > 1e300 else middle(finite)
        return fill

    def _treated(self, X: Floats) -> Floats:
        bad = ~np.isfinite(X)
        if not bad.any():
            return X
        if self.missing == "error":
            raise NonFiniteError(self._describe(X, bad))
        if self.missing == "drop":
            return X[~bad.any(axis=1)]
        rows, columns = np.nonzero(bad)
        X[rows, columns] = self.fill_[columns]
        return X

    def _describe(self, X: Floats, bad: Array) -> str:
        rows, columns = np.nonzero(bad)
        missing = int(np.isnan(X[rows, columns]).sum())
        kinds = [f"{count(missing, 'missing value')}"] * (missing > 0)
        kinds += [f"{count(len(rows) - missing, 'infinite value')}"] * (missing < len(rows))
        where, times = np.unique(columns, return_counts=True)
        named = ", ".join(
            f"{self._name(j)} ({n:,})" for j, n in list(zip(where, times, strict=True))[:5]
        )
        more = f" and {len(where) - 5:,} more" if len(where) > 5 else ""
        first = np.unique(rows)
        listed = ", ".join(f"{row + 1:,}" for row in first[:5]) + (
            ", ..." if len(first) > 5 else ""
        )
        return (
            f"the table has {' and '.join(kinds)} in {count(len(first), 'row')} ({listed}) of the "
            f"columns {named}{more}. Choose missing='median' ('mean', 'zero') to fill them in or "
            "missing='drop' to leave those rows out; on the command line, --missing median."
        )

    def _name(self, j: int) -> str:
        return show(self.feature_names_in_[j]) if hasattr(self, "feature_names_in_") else f"x{j}"

    def rows_kept(self, frame: Any) -> Array:
        """Which rows `transform` returns: all, but for missing="drop" those without gaps."""
        check_is_fitted(self)
        X = self._values(frame)
        if self.missing != "drop":
            return np.ones(len(X), dtype=bool)
        return np.asarray(np.isfinite(X).all(axis=1))

    def differences(self, frame: Any) -> list[str]:
        """How the columns of this table differ from those of the fit, a line for each way."""
        check_is_fitted(self)
        if not is_frame(frame) or not hasattr(self, "feature_names_in_"):
            return []
        have = [str(name) for name in frame.columns]
        wanted = [str(name) for name in self.feature_names_in_]
        there, used = set(have), set(wanted) | set(self.excluded or ())
        lines = []
        if absent := [name for name in wanted if name not in there]:
            lines.append(f"{count(len(absent), 'column')} missing: {show_list(absent)}")
        if extra := [name for name in have if name not in used]:
            lines.append(f"{count(len(extra), 'column')} not used: {show_list(extra)}")
        asked = set(wanted)
        if not absent and [name for name in have if name in asked] != wanted:
            lines.append("the columns are in another order, and were matched by name")
        return lines

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the columns of the array."""
        check_is_fitted(self)
        if hasattr(self, "feature_names_in_"):
            return self.feature_names_in_
        if input_features is not None:
            return np.asarray(input_features, dtype=object)
        return np.asarray([f"x{j}" for j in range(self.n_features_in_)], dtype=object)


def _as_floats(table: pl.DataFrame, dtype: Any) -> Floats:
    """A row-major array; text that reads as a number is one, other text is missing."""
    import polars as pl

    kind = pl.Float32 if dtype == np.float32 else pl.Float64
    expressions = []
    for i, (name, held) in enumerate(table.schema.items()):
        column = pl.col(str(i))  # by number: to polars a name such as "*" is a pattern
        if held.is_numeric() or held == pl.Boolean:
            expressions.append(column.cast(kind))
        elif held in (pl.String, pl.Categorical, pl.Enum):
            expressions.append(readable_number(column.cast(pl.String)).cast(kind))
        elif held == pl.Null:
            expressions.append(pl.lit(None, dtype=kind).alias(str(i)))
        else:
            raise InputError(f"column {show(name)} holds {held}, which is not a number.")
    table = pl.DataFrame([c.alias(str(i)) for i, c in enumerate(table.get_columns())])
    result = np.empty((table.height, table.width), dtype=dtype)
    step = max(1, _BLOCK // max(1, table.width))
    for start in range(0, table.height, step):
        part = table.slice(start, step).select(expressions)
        result[start : start + step] = part.to_numpy()
    return result
