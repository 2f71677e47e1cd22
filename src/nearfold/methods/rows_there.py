"""Estimators that keep their fitted rows for a search, which may lie on a cluster.

Not an estimator but what those share whose `index_` is of all fitted rows. Fitted on a Dask table
it is a `PartitionedIndex`: the rows stay where they are, and come here only when the model is
stored or copied.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from nearfold.blocks.lazy import Call, LazyOnDask
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.neighbors.partitioned import PartitionedIndex
from nearfold.neighbors.partitioned_lazy import apply_to_lists


class SearchedRows(LazyOnDask, BaseEstimator):
    """Has an `index_` of its fitted rows, here or on a cluster."""

    index_: Any
    _needs_rows_of_lists = False  # whether methods look at the neighbours' rows, too

    def _length_of_lists(self, call: Call) -> int:
        """How many neighbours the method needs of each row; refused where that is not enough."""
        raise NotImplementedError

    def _lazily(self, method: str, X: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Lists found on the cluster, block by block of X, and the method applied to them there."""
        index = vars(self).get("index_")
        if not isinstance(index, PartitionedIndex):
            return super()._lazily(method, X, args, named)
        call = Call(method, args, named)
        k = self._length_of_lists(call)
        return apply_to_lists(self._without_index(), index, k, call, X, self._needs_rows_of_lists)

    def _without_index(self) -> Any:
        """The same estimator, for lists that are found elsewhere."""
        other: Any = object.__new__(type(self))
        other.__dict__.update({name: v for name, v in vars(self).items() if name != "index_"})
        return other

    def __getstate__(self) -> Any:
        """A stored or copied model holds its rows, wherever they are now."""
        state = dict(super().__getstate__())
        if isinstance(state.get("index_"), PartitionedIndex):
            state["index_"] = state["index_"].collected()
        return state


def refuse_option(estimator: Any, asked: bool, instead: str) -> None:
    """Raise if what is asked for needs rows in memory; `instead` works on a Dask table."""
    if asked:
        raise InputError(Message("cluster.option", name=type(estimator).__name__, instead=instead))
