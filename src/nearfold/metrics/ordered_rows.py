"""The rows that batches are drawn from, in an order that comes from their values.

Not a learner but what NCA on batches reads: rows sorted by class, about their mean, some at a time.

    HeldRows  a table in memory that one pass visits whole
    FarRows   a larger one, or one on a cluster: its rows stay where they are, and a pass takes
              those that it visits

Rows of one class are held in the order of `order_by_value`. Those of a larger table are ordered by
a hash of their values, for which a row need not be compared with others: 8 bytes of each come here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.blocks import Block, Rows, require_memory
from nearfold.inputs import refuse_bad_blocks, refuse_extreme
from nearfold.linalg.moments import combine_extremes, extremes_of_block
from nearfold.linalg.row_order import hash_rows, order_by_value
from nearfold.metrics.preparation import centre_in_order, mean_variance
from nearfold.notation import Array, Ints

_ROW_BYTES = 48.0  # hash, label and order of each row, the latter two also in order, and a draw


class HeldRows:
    """A table in memory."""

    def __init__(self, X: Array, label: Ints) -> None:
        order = order_by_value(X, label)
        self.X, self.label = centre_in_order(X, order), label[order]

    @property
    def variance(self) -> float:
        """The mean variance of the columns."""
        return mean_variance(self.X)

    def take(self, places: Ints) -> Array:
        """The rows at these ascending places of the order, each named once."""
        return self.X if len(places) == len(self.X) else self.X[places]


class FarRows:
    """A table that stays where it is.

    Its mean, and the map to start from, come from `most` rows drawn at random, `X` and `y`: so the
    result has the same bits wherever the table lies and however it is cut.
    """

    def __init__(self, rows: Rows, label: Ints, most: int, random: Any) -> None:
        what = f"The order of {len(label):,} rows"
        require_memory(_ROW_BYTES * len(label), what, "Fit a sample of the rows.")
        hashes, low, high = rows.combined(facts_of_block, combine_facts)
        if not np.isfinite(low + high).all():
            refuse_bad_blocks(rows)
        refuse_extreme(float((high - low).max()), rows.dtype)
        order = np.lexsort((np.concatenate(hashes), label))
        self.label, self._rows, self._order = label[order], rows, order
        self._mean = np.zeros(rows.n_features, rows.dtype)
        some = np.sort(random.permutation(len(label))[:most])
        self.X, self.y = self.take(some), self.label[some]
        self._mean = self.X.mean(axis=0, dtype=np.float64).astype(rows.dtype)
        self.X -= self._mean
        self.variance = mean_variance(self.X)

    def take(self, places: Ints) -> Array:
        """The rows at these places of the order, brought here."""
        X = self._rows.take(self._order[places])
        X -= self._mean
        return X


Facts = tuple[list[Array], Array, Array]  # hashes of rows, extremes of columns


def facts_of_block(block: Block) -> Facts:
    """The facts of the rows of a block."""
    return [hash_rows(block.dense())], *extremes_of_block(block)


def combine_facts(a: Facts, b: Facts) -> Facts:
    """The facts of the rows of both."""
    return a[0] + b[0], *combine_extremes(a[1:], b[1:])
