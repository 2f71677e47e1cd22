"""Methods of a fitted estimator on a Dask table: lazy, row by row, in the chunks of the table.

The estimator itself travels to the blocks, however it was fitted; nothing is computed until Dask
is asked to. Width and dtype of the result are known beforehand, from the method applied here to
one row. An array gives an array; a frame gives a frame or a series with its index and names.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from inspect import getattr_static, isfunction, signature
from typing import Any

import numpy as np

from nearfold.blocks.cluster import _run, is_dask, shared
from nearfold.errors import InputError, warn
from nearfold.messages import Message
from nearfold.notation import Array

_METHODS = (
    "transform",
    "inverse_transform",
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "score_samples",
    "kneighbors",
)


class LazyOnDask:
    """Gives the methods of an estimator that work row by row a way to take a Dask table."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in _METHODS:
            method = getattr_static(cls, name, None)  # not one that depends on the instance
            if isfunction(method) and not hasattr(method, "takes_dask"):
                setattr(cls, name, _lazy(method))
        score = getattr_static(cls, "score", None)
        if isfunction(score) and "sample_weight" in signature(score).parameters:
            cls.score = _scored_there(score)  # type: ignore[attr-defined]

    def _lazily(self, method: str, X: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The method of a Dask table; where it needs more than the estimator, overridden."""
        return apply_lazily(self, Call(method, args, named), X)


def _lazy(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        X = args[0] if args else named.get("X")
        if not is_dask(X):
            return method(self, *args, **named)
        named.pop("X", None)
        return self._lazily(method.__name__, X, args[1:], named)

    call.takes_dask = True  # type: ignore[attr-defined]
    return call


def _scored_there(method: Callable[..., Any]) -> Callable[..., Any]:
    """The score of a classifier or regressor, that of a Dask table computed where its rows are."""
    if hasattr(method, "takes_dask"):
        return method

    @wraps(method)
    def score(self: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        if not is_dask(X) or getattr(y, "ndim", 1) > 1:
            return float(method(self, X, y, sample_weight))
        from nearfold.blocks.lazy_score import score_predictions

        predicted = self.predict(X)
        return score_predictions(predicted, X, y, sample_weight, hasattr(self, "classes_"))

    score.takes_dask = True  # type: ignore[attr-defined]
    return score


def apply_lazily(estimator: Any, call: Call, X: Any) -> Any:
    """The method of a Dask table, lazily."""
    if hasattr(X, "columns"):
        return _of_frame(estimator, call, X)
    X = whole_rows(X)
    example = call(estimator, np.ones((1, X.shape[1]), X.dtype))
    if isinstance(example, tuple):
        return _several(estimator, call, X, example)
    return _one(estimator, call, X, example)


def whole_rows(X: Any) -> Any:
    """A Dask array of two dimensions whose chunks hold whole rows."""
    if X.ndim != 2:
        raise InputError(Message("cluster.no_table", kind=type(X).__name__))
    if X.numblocks[1] > 1:
        warn(Message("cluster.column_chunks", n=X.numblocks[1]))
        X = X.rechunk({1: -1})
    return X


def example_of(X: Any) -> Any:
    """Nothing of what a Dask array, frame or series holds: its type, columns and dtypes."""
    if hasattr(X, "chunks"):
        from dask.array.utils import meta_from_array

        return meta_from_array(X)
    from dask.dataframe.utils import make_meta

    return make_meta(X)


class Call:
    """A method with its arguments, applied to the rows of a block."""

    def __init__(self, method: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.method, self.args, self.named = method, args, named

    def __call__(self, estimator: Any, rows: Any) -> Any:
        """The result, and the dtype of text wide enough for any class."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = getattr(estimator, self.method)(rows, *self.args, **self.named)
        if self.method == "predict" and hasattr(estimator, "classes_"):
            classes = estimator.classes_
            kinds = classes if isinstance(classes, list) else [classes]
            return found.astype(np.result_type(*kinds), copy=False)
        return found


def _one(estimator: Any, call: Call, X: Any, example: Array) -> Any:
    """A Dask array with the chunks of X."""
    flat = {"drop_axis": 1} if example.ndim == 1 else {"chunks": (X.chunks[0], example.shape[1:])}
    return X.map_blocks(
        _of_block, shared(estimator), call, example[:0], dtype=example.dtype, meta=example[:0],
        name=None, **flat,
    )  # fmt: skip


def _of_block(rows: Any, estimator: Any, call: Call, empty: Array) -> Array:
    if rows.shape[0] == 0:
        return empty
    found: Array = _run(call, f"a block of {rows.shape[0]} rows", estimator, rows)
    return found


def _several(estimator: Any, call: Call, X: Any, example: tuple[Array, ...]) -> tuple[Any, ...]:
    """One Dask array for each result; the method runs once per block for all of them."""
    fields = [(f"f{i}", part.dtype, part.shape[1:]) for i, part in enumerate(example)]
    packed = X.map_blocks(
        _packed, shared(estimator), call, np.dtype(fields), drop_axis=1, dtype=np.dtype(fields),
        meta=np.empty(0, np.dtype(fields)),
    )  # fmt: skip
    return tuple(
        packed.map_blocks(
            _field, f"f{i}", new_axis=1, chunks=(X.chunks[0], part.shape[1:]), dtype=part.dtype,
            meta=part[:0],
        )
        for i, part in enumerate(example)
    )  # fmt: skip


def _packed(rows: Any, estimator: Any, call: Call, dtype: Any) -> Array:
    records = np.empty(rows.shape[0], dtype)
    if len(records):
        for name, part in zip(dtype.names, _run(call, "", estimator, rows), strict=True):
            records[name] = part
    return records


def _field(records: Array, name: str) -> Array:
    return records[name]


def _of_frame(estimator: Any, call: Call, X: Any) -> Any:
    """A frame or series with the index of X; two arrays, where the method has two results."""
    import pandas as pd

    row = pd.DataFrame(np.ones((1, len(X.columns))), columns=X.columns).astype(X.dtypes)
    example = call(estimator, row)
    if isinstance(example, tuple):
        raise InputError(Message("cluster.no_frame", name=call.method))
    names = None
    if np.ndim(example) == 2:
        names = _column_names(estimator, call.method, np.shape(example)[1])
    meta = _framed(np.asarray(example), row.index, names).iloc[:0]
    return X.map_partitions(_of_partition, shared(estimator), call, names, meta, meta=meta)


def _column_names(estimator: Any, method: str, width: int) -> list[Any]:
    if method == "transform":
        return list(estimator.get_feature_names_out())
    if method == "inverse_transform":
        return list(getattr(estimator, "feature_names_in_", range(width)))
    classes = list(getattr(estimator, "classes_", []))
    return classes if len(classes) == width else list(range(width))


def _framed(values: Array, index: Any, names: list[Any] | None) -> Any:
    import pandas as pd

    if names is None:
        return pd.Series(values, index=index)
    return pd.DataFrame(values, index=index, columns=names)


def _of_partition(part: Any, estimator: Any, call: Call, names: Any, meta: Any) -> Any:
    if len(part) == 0:
        return meta
    found = _run(call, f"a partition of {len(part)} rows", estimator, part)
    return _framed(np.asarray(found), part.index, names)
