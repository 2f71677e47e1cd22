"""LLE's pieces side by side, and new rows among them.

Not an estimator but what LocallyLinearEmbedding ends in, and `transform`.

A new row is the weighted mean of its neighbours in the embedding, as it is in the data. It belongs
to the piece of its nearest fitted row, and has neighbours there alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nearfold.blocks import Block, MappedRows, Rows, spans
from nearfold.graph import side_by_side
from nearfold.inputs import refuse_nonfinite
from nearfold.methods.local_weights import weights_of
from nearfold.neighbors.partitioned import rows_at
from nearfold.neighbors.partitioned_lazy import FoundLists
from nearfold.notation import Array, Floats, Ints

_PLACED = 4096  # new rows placed at a time


def place(Q: Array, index: Any, Z: Floats, k: int, reg: float, n_jobs: int | None) -> Floats:
    """New rows by the weights that reconstruct them from the k nearest rows of the index."""
    placed = np.empty((len(Q), Z.shape[1]), dtype=Q.dtype)
    for rows in spans(len(Q), len(Q) if isinstance(index, FoundLists) else _PLACED):
        _, near = index.nearest(Q[rows], min(k, index.n_rows))
        w = weights_of(Q[rows], rows_at(index, near), near, reg, n_jobs, by_distance=True)
        placed[rows] = np.einsum("bk,bkj->bj", w, Z[near])  # (10.26)
    return placed


@dataclass(frozen=True)
class LocalExtension:
    """The fitted rows, the pieces they were embedded in, and how many neighbours place a row."""

    index: Any
    pieces: list[Ints]
    label: Array  # the piece of each row
    k: int
    reg: float
    n_jobs: int | None

    @property
    def whole(self) -> bool:
        """Whether all rows were embedded together."""
        return len(self.pieces) == 1 and len(self.pieces[0]) == self.index.n_rows

    def assemble(self, embeddings: list[Floats], dtype: Any) -> Floats:
        """The embeddings of the pieces side by side; rows of no piece are placed in the largest."""
        m = self.index.n_rows
        side_by_side(embeddings)
        Z = np.zeros((m, embeddings[0].shape[1]), dtype=dtype)
        for rows, part in zip(self.pieces, embeddings, strict=True):
            Z[rows] = part
        outside = np.setdiff1d(np.arange(m), np.concatenate(self.pieces))
        if len(outside):  # policy "largest"
            X = rows_at(self.index, outside)[outside]
            Z[outside] = self._place_in(self.pieces[0], X, Z)
        return Z

    def place_rows(self, rows: Rows, embedding: Floats) -> Floats:
        """Coordinates of all rows of a table, block by block where these are."""
        of_block = partial(
            _place_block, extension=self, embedding=embedding, names=rows.feature_names
        )
        return MappedRows(rows, of_block, embedding.shape[1], rows.dtype).to_array()

    def place(self, Q: Array, embedding: Floats) -> Floats:
        """Coordinates of new rows."""
        if self.whole:
            return self._place_in(self.pieces[0], Q, embedding)
        distance, near = self.index.nearest(Q, 1)
        Z = np.empty((len(Q), embedding.shape[1]), dtype=Q.dtype)
        if len(self.pieces) == 1:  # policy "largest": fitted rows outside of it are known
            known = distance[:, 0] == 0
            Z[known] = embedding[near[known, 0]]
            Z[~known] = self._place_in(self.pieces[0], Q[~known], embedding)
            return Z
        owner = self.label[near[:, 0]]
        for i, rows in enumerate(self.pieces):
            Z[owner == i] = self._place_in(rows, Q[owner == i], embedding)
        return Z

    def _place_in(self, rows: Ints, Q: Array, Z: Floats) -> Floats:
        """Coordinates of rows among those of one piece."""
        whole = len(rows) == self.index.n_rows
        index = self.index if whole or not len(Q) else self.index.part(rows)
        return place(Q, index, Z if whole else Z[rows], self.k, self.reg, self.n_jobs)


def _place_block(
    block: Block, extension: LocalExtension, embedding: Floats, names: list[str] | None
) -> Floats:
    refuse_nonfinite(block.X, names, block.start)
    return extension.place(block.dense(), embedding)
