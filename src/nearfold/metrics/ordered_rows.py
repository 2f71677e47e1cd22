"""The rows that batches are drawn from, in an order that comes from their values.

Not a learner but what NCA on batches reads: rows sorted by class, about their mean, some at a time.

    HeldRows  a table in memory that one pass visits whole
    FarRows   a larger one, or one on a cluster: its rows stay where they are, and a pass takes
              those that it visits

Rows of one class are held in the order of `order_by_value`. Those of a larger table are ordered by
a hash of their values, for which a row need not be compared with others: 8 bytes of each come here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfold.blocks import Block, Rows, require_memory
from nearfold.inputs import refuse_bad_blocks, refuse_extreme
from nearfold.linalg.moments import (
    combine_extremes,
    combine_spreads,
    extremes_of_block,
    spread_of_block,
)
from nearfold.linalg.row_order import hash_rows, order_by_value
from nearfold.metrics.preparation import centre_in_order, mean_variance
from nearfold.notation import Array, Floats, Ints

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
    """A table that stays where it is."""

    def __init__(self, rows: Rows, label: Ints) -> None:
        what = f"The order of {len(label):,} rows"
        require_memory(_ROW_BYTES * len(label), what, "Fit a sample of the rows.")
        facts = rows.combined(facts_of_block, combine_facts)
        count, mean, total = facts.spread
        if not np.isfinite(total):
            refuse_bad_blocks(rows)
        low, high = facts.extremes
        refuse_extreme(float((high - low).max()), rows.dtype)
        order = np.lexsort((np.concatenate(facts.hashes), label))
        self.label, self.variance = label[order], total / count / len(mean) or 1.0
        self._rows, self._order, self._mean = rows, order, mean.astype(rows.dtype)

    def take(self, places: Ints) -> Array:
        """The rows at these places of the order, brought here."""
        X = self._rows.take(self._order[places])
        X -= self._mean
        return X


@dataclass(frozen=True)
class TableFacts:
    """Count, mean and scatter of some rows, their extremes, and the hash of each."""

    spread: tuple[float, Floats, float]
    extremes: tuple[Array, Array]
    hashes: list[Array]


def facts_of_block(block: Block) -> TableFacts:
    """The facts of the rows of a block."""
    hashes = hash_rows(block.dense())
    return TableFacts(spread_of_block(block), extremes_of_block(block), [hashes])


def combine_facts(a: TableFacts, b: TableFacts) -> TableFacts:
    """The facts of the rows of both."""
    return TableFacts(
        combine_spreads(a.spread, b.spread),
        combine_extremes(a.extremes, b.extremes),
        a.hashes + b.hashes,
    )
