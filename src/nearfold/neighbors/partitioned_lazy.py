"""Methods of an estimator whose index lies in parts on a cluster, on a Dask table, lazily.

For each block of the table its neighbour lists are found over all parts, and the rows in them
fetched where the method needs them; then the method is applied to the block, on a worker, by an
estimator that finds these lists in place of its index. Nothing is computed until Dask is asked to.
"""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks.cluster import shared, task
from nearfold.blocks.lazy import Call, _column_names, _framed, whole_rows
from nearfold.blocks.rows import floating_dtype
from nearfold.neighbors.partitioned import FetchedRows, Lists, PartitionedIndex
from nearfold.notation import Array, Ints


class FoundLists:
    """In place of an index: the lists of one block of queries, found elsewhere, and their rows."""

    searches_at_once = True

    def __init__(self, n_rows: int, lists: Lists, rows: FetchedRows | None) -> None:
        self.n_rows, self.lists, self.X = n_rows, lists, rows

    def nearest(self, Q: Any, k: int) -> Lists:
        """The lists, which are those of Q."""
        return self.lists


def apply_to_lists(
    estimator: Any, index: PartitionedIndex, k: int, call: Call, X: Any, with_rows: bool = False
) -> Any:
    """A method of an estimator on a Dask table, lazily: lists of k from all parts, then the method.

    `with_rows`: it needs the rows in the lists, too.
    """
    X = X if hasattr(X, "columns") else whole_rows(X)
    one, example = _example(estimator, index, k, call, X, with_rows)
    empty = [part[:0] for part in example] if isinstance(example, tuple) else example[:0]
    sent, made = shared(estimator), []
    blocks = np.ravel(np.asarray(X.to_delayed(), dtype=object)).tolist()
    for number, Q in enumerate(blocks):
        lists = index.lists(task(_values, Q), None, k, first=number)
        rows = index.fetched(task(_listed, lists)) if with_rows else None
        made.append(task(call_with_lists, Q, lists, rows, sent, call, index.n_rows, empty))
    if isinstance(example, tuple):
        return tuple(
            _array(X, [task(_result, block, i) for block in made], part)
            for i, part in enumerate(example)
        )
    if not hasattr(X, "columns"):
        return _array(X, made, example)
    names = None
    if np.ndim(example) == 2:
        names = _column_names(estimator, call.method, np.shape(example)[1])
    from dask.dataframe import from_delayed

    meta = _framed(np.asarray(example), one.index, names).iloc[:0]
    framed = [task(_like, Q, block, names) for Q, block in zip(blocks, made, strict=True)]
    return from_delayed(framed, meta=meta, divisions=X.divisions, verify_meta=False)


def _example(
    estimator: Any, index: PartitionedIndex, k: int, call: Call, X: Any, with_rows: bool
) -> tuple[Any, Any]:
    """A row like those of X, and what the method makes of it."""
    one = np.ones((1, X.shape[1]), None if hasattr(X, "columns") else X.dtype)
    if hasattr(X, "columns"):
        import pandas as pd

        one = pd.DataFrame(one, columns=X.columns).astype(X.dtypes)
    lists = np.ones((1, k)), np.arange(k)[None]
    rows = FetchedRows(np.arange(k), np.ones((k, index.n_features), index.dtype))
    return one, call_with_lists(one, lists, rows if with_rows else None, estimator, call,
                                index.n_rows, None)  # fmt: skip


def call_with_lists(
    Q: Any, lists: Lists, rows: FetchedRows | None, estimator: Any, call: Call, n_rows: int,
    empty: Any,
) -> Any:  # fmt: skip
    """The method for a block of queries whose lists are known."""
    if Q.shape[0] == 0:
        return empty
    mine: Any = object.__new__(type(estimator))  # tasks of one process share what was sent
    mine.__dict__.update(vars(estimator), index_=FoundLists(n_rows, lists, rows))
    return call(mine, Q)


def _values(Q: Any) -> Any:
    """A block as floats."""
    if sparse.issparse(Q):
        return Q
    kinds = getattr(Q, "dtypes", None)
    dtype = np.result_type(Q) if kinds is None else np.result_type(*kinds)
    return np.asarray(Q, dtype=floating_dtype(dtype))


def _listed(lists: Lists) -> Ints:
    return lists[1]


def _array(X: Any, pieces: list[Any], example: Array) -> Any:
    """The pieces as a Dask array whose chunks are those of X, empty ones too."""
    from dask.array import Array as DaskArray
    from dask.highlevelgraph import HighLevelGraph

    name = f"nearfold-lists-{uuid.uuid4().hex}"
    lengths = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * len(pieces)
    origin = (0,) * (example.ndim - 1)
    layer = {(name, i, *origin): piece.key for i, piece in enumerate(pieces)}
    graph = HighLevelGraph.from_collections(name, layer, dependencies=pieces)
    chunks = (tuple(lengths), *((n,) for n in example.shape[1:]))
    return DaskArray(graph, name, chunks, meta=example[:0])


def _result(results: tuple[Array, ...], i: int) -> Array:
    return results[i]


def _like(part: Any, values: Array, names: list[Any] | None) -> Any:
    return _framed(np.asarray(values), part.index, names)
