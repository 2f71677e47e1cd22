"""From neighbour lists to the matrices of LLE: W of reconstruction weights, or M of local patches.

Not an estimator but the middle of Algorithm 10.4, in blocks of rows that are cut by the data alone
and small beside any memory budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks import spans
from nearfold.methods.local_patches import (
    hessian_blocks,
    ltsa_blocks,
    modified_blocks,
    spread_of_patches,
)
from nearfold.neighbors.partitioned import PartitionedIndex
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order

_CELLS = 2**17  # values of the neighbours gathered at a time
_ENTRIES = 2**18  # of M added up at a time


def barycentric_weights(
    rows: Array, neighbours: Array, reg: float, *, by_distance: bool = False
) -> Floats:
    """Weights (b, k) that best reconstruct b rows from their k neighbours (b, k, d).

    The Gram matrix C is regularised by `reg` times its trace, or, `by_distance`, by `reg` times
    k times the squared distance of each neighbour: then a row that comes to lie on a neighbour
    gets all its weight from it.
    """
    difference = np.subtract(neighbours, rows[:, None], dtype=np.float64)
    C = difference @ difference.transpose(0, 2, 1)  # (10.27)
    k = C.shape[1]
    square = np.einsum("bjj->bj", C)
    trace = square.sum(axis=1, keepdims=True)
    ridge = reg * (k * square if by_distance else np.broadcast_to(trace, square.shape))
    # Rows that coincide with all their neighbours still need a solution, and so does reg = 0.
    least = np.where(trace > 0, 1e-14 * trace, max(reg, 1e-14))
    C[:, np.arange(k), np.arange(k)] += np.maximum(ridge, least)
    w = np.linalg.solve(C, np.ones((len(C), k, 1)))[..., 0]
    return w / w.sum(axis=1, keepdims=True)  # (10.28)


def weights_of(
    Q: Array, X: Any, near: Ints, reg: float, n_jobs: int | None, *, by_distance: bool = False
) -> Floats:
    """Weights (len(Q), k) of the rows Q from their neighbours `near` among the rows X."""
    w = np.empty(near.shape)

    def solve(rows: slice) -> None:
        w[rows] = barycentric_weights(Q[rows], X[near[rows]], reg, by_distance=by_distance)

    pieces = spans(len(Q), max(1, _CELLS // max(1, near.shape[1] * X.shape[1])))
    for _ in map_in_order(solve, pieces, n_jobs=n_jobs, label="weights", total=len(pieces)):
        pass
    return w


@dataclass(frozen=True)
class NeighbourLists:
    """Q_i of each row: k neighbours each, and more for the rows at which bridges end."""

    near: Ints  # (m, k)
    more: dict[int, list[int]]

    @classmethod
    def bridged(cls, near: Ints, bridges: tuple[Ints, Ints, Floats] | None) -> NeighbourLists:
        """These lists, and at each row where a bridge ends the row at its other end."""
        more: dict[int, list[int]] = {}
        for a, b in [] if bridges is None else np.transpose(bridges[:2]).tolist():
            more.setdefault(a, []).append(b)
            more.setdefault(b, []).append(a)
        return cls(near, more)

    def groups(self) -> Iterator[tuple[Ints, Ints]]:
        """Rows and their neighbours (rows, s), all of the same number s."""
        plain = np.setdiff1d(np.arange(len(self.near)), np.fromiter(self.more, np.int64))
        yield plain, self.near[plain]
        for count in sorted({len(extra) for extra in self.more.values()}):
            rows = [row for row, extra in self.more.items() if len(extra) == count]
            more = np.array([self.more[row] for row in rows])
            yield np.array(rows), np.concatenate([self.near[rows], more], axis=1)

    def unlisted(self) -> Array:
        """Which rows (m,) are in nobody's list."""
        seen = np.zeros(len(self.near), dtype=bool)
        seen[self.near] = True
        for extra in self.more.values():
            seen[extra] = True
        return ~seen

    def among(self, rows: Ints) -> NeighbourLists:
        """The lists of some rows (ascending) that have no neighbour outside, renumbered."""
        if len(rows) == len(self.near):
            return self
        number = np.full(len(self.near), -1, dtype=np.int64)
        number[rows] = np.arange(len(rows))
        return NeighbourLists(number[self.near[rows]], {})


def weights_of_fitted(X: Any, rows: Ints, near: Ints, reg: float, n_jobs: int | None) -> Floats:
    """The same of some rows of X, given by their numbers."""
    whole = isinstance(X, np.ndarray) and len(rows) == len(X)
    return weights_of(X if whole else X[rows], X, near, reg, n_jobs)


def weight_matrix(X: Any, lists: NeighbourLists, reg: float, n_jobs: int | None) -> Any:
    """W (m, m), sparse: the weights of row i in row i; X are the rows, or their index elsewhere."""
    tails, heads, values = [], [], []
    for rows, near in lists.groups():
        if isinstance(X, PartitionedIndex):
            find = partial(weights_of_fitted, reg=reg, n_jobs=None)
            w = X.mapped(find, rows, near)
        else:
            w = weights_of_fitted(X, rows, near, reg, n_jobs)
        tails.append(np.repeat(rows, near.shape[1]))
        heads.append(near.ravel())
        values.append(w.ravel())
    m = len(lists.near)
    entries = (np.concatenate(values), (np.concatenate(tails), np.concatenate(heads)))
    return sparse.csr_array(entries, shape=(m, m))


def patch_matrix(
    X: Array, lists: NeighbourLists, k: int, method: str, tol: dict[str, float], n_jobs: int | None
) -> Any:
    """M (m, m), sparse: the sum of the blocks of all patches, each in its rows and columns.

    A patch is a row with its neighbours; for "hessian", as in its authors' program, without the
    row itself, unless that is in nobody's list: it would occur in no patch, any value there would
    cost nothing, and it alone would become an axis.
    """
    m = len(X)
    own = lists.unlisted() if method == "hessian" else np.ones(m, dtype=bool)
    patches = list(_patches(lists, own))
    eta = 0.0
    if method == "modified":
        spreads = map_in_order(lambda patch: _spread(X, patch, k), patches, n_jobs=n_jobs)
        eta = float(np.median(np.concatenate(list(spreads))))

    def find(P: Floats) -> Floats:
        if method == "ltsa":
            return ltsa_blocks(P, k)
        if method == "hessian":
            return hessian_blocks(P, k, tol["hessian"])
        return modified_blocks(P[:, 1:] - P[:, :1], k, eta, tol["modified"])

    def add_up(patch: Ints) -> Any:
        return _sum_of_blocks(X, patch, find, m)

    M = sparse.csr_array((m, m))
    for part in map_in_order(add_up, patches, n_jobs=n_jobs, label="patches"):
        M = M + part
    return ((M + M.T) / 2).tocsr()


def _patches(lists: NeighbourLists, own: Array) -> Iterator[Ints]:
    """The members (b, s) of patches; where it is its `own` member a row comes first."""
    for rows, near in lists.groups():
        first = own[rows]
        for members in (np.column_stack([rows, near])[first], near[~first]):
            for some in spans(len(members), max(1, _ENTRIES // members.shape[1] ** 2)):
                yield members[some]


def _slices(X: Array, patch: Ints) -> list[slice]:
    s = patch.shape[1]
    return spans(len(patch), max(1, _CELLS // (s * max(X.shape[1], s))))


def _sum_of_blocks(X: Array, patch: Ints, find: Callable[[Floats], Floats], m: int) -> Any:
    b, s = patch.shape
    blocks = np.empty((b, s, s))
    for some in _slices(X, patch):
        blocks[some] = find(X[patch[some]].astype(np.float64))
    number = patch.astype(np.int32 if m < 2**31 else np.int64)
    at = (np.repeat(number, s, axis=1).ravel(), np.tile(number, (1, s)).ravel())
    return sparse.coo_array((blocks.ravel(), at), shape=(m, m)).tocsr()


def _spread(X: Array, patch: Ints, k: int) -> Floats:
    parts = (X[patch[some]].astype(np.float64) for some in _slices(X, patch))
    return np.concatenate([spread_of_patches(P[:, 1:] - P[:, :1], k) for P in parts])
