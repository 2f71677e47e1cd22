"""Objectives over all pairs of rows of Z = X L^T, in blocks of rows against all rows.

NCA, MLKR and LMNN are sums over pairs of distances in the learned space. A block of rows is
compared with all rows at a time, so that no array of all pairs is ever held; blocks run on the pool
of threads and are added up in a fixed order. Cuts depend on the number of rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from nearfold.blocks import require_memory, spans
from nearfold.linalg import square_norms
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order, thread_count

_BLOCK = 128  # rows: their distances to some thousand others stay in the cache
_CELLS = 2**18  # distances of a block where rows are few
_TASKS = 16  # parts of the work, each of several blocks; more would cost more to add up
_ALONE = 4e7  # pairs times dimensions: less is not worth a pool of threads
_PROJECTED = 1024  # rows projected by one task

Block = tuple[int, int, int]  # first row, last row, group


def block_size(m: int) -> int:
    """How many rows are compared with m rows at a time."""
    return max(_BLOCK, _CELLS // m)


def plan_blocks(starts: Ints, m: int) -> list[list[Block]]:
    """Tasks of blocks of rows, each against m rows, that never cross the border of a group.

    The rows of group g are starts[g] to starts[g + 1].
    """
    blocks = [
        (int(lo) + part.start, int(lo) + part.stop, group)
        for group, (lo, hi) in enumerate(pairwise(starts))
        for part in spans(int(hi - lo), block_size(m))
    ]
    tasks: list[list[Block]] = [[]]
    for block in blocks:
        if sum(b - a for a, b, _ in tasks[-1]) >= starts[-1] / _TASKS:
            tasks.append([])
        tasks[-1].append(block)
    return tasks


def run_tasks(run: Callable[[Any], Any], tasks: list[Any], n_pairs: float, r: int) -> Iterator[Any]:
    """Results in order; a pool of threads only where there is enough to do."""
    return map_in_order(run, tasks) if n_pairs * (r + 8.0) > _ALONE else map(run, tasks)


def augmented(Z: Array) -> tuple[Array, Array]:
    """left (m, r + 1), right (r + 1, m): left @ right is |z_i|^2 - |z_i - z_j|^2.

    `linalg.squared_distances` up to a term per row, without its passes over the result; the rows
    must be centred, because products of far-off points lose digits.
    """
    one = np.ones((len(Z), 1), dtype=Z.dtype)
    right = np.hstack([Z, square_norms(Z)[:, None]])
    return np.hstack([2 * Z, -one]), np.ascontiguousarray(right.T)


def require_blocks(m: int, r: int, itemsize: int, what: str, pairs: float = 0) -> None:
    """Raise unless a pass over all pairs of m rows of r values fits the budget."""
    require_memory(
        blocks_bytes(m, r, itemsize, pairs),
        f"{what} of {m:,} rows in {r:,} dimensions",
        "Fit a sample of the rows, or lower n_components.",
    )


def blocks_bytes(m: int, r: int, itemsize: int, pairs: float = 0) -> float:
    """The buffers of a pass over all pairs of m rows of r values.

    `pairs`: those listed besides, twice while a list is renewed.
    """
    threads = thread_count(None)
    # Per thread a block of distances, the same in float32, and a mask; tables of Z's shape: the
    # rows, what products need of them, sums, and the results of tasks that wait to be added.
    buffers = threads * block_size(m) * (itemsize + 5.0) * m
    return buffers + itemsize * (12.0 + 2 * threads) * m * (r + 1) + 2 * 8.0 * pairs


def groups_of(label: Ints) -> tuple[Ints, Ints]:
    """The order that sorts rows by label, and where each label's rows start in it."""
    order = np.argsort(label, kind="stable")
    return order, np.concatenate([[0], np.cumsum(np.bincount(label))])


def project(X: Array, L: Floats) -> Array:
    """Z = X L^T, in the dtype of X."""
    P = np.ascontiguousarray(L.T, dtype=X.dtype)
    if len(X) <= 2 * _PROJECTED:
        return np.asarray(X @ P)
    parts = spans(len(X), _PROJECTED)
    return np.concatenate(list(map_in_order(lambda rows: X[rows] @ P, parts)))


def pull_back(G: Array, X: Array) -> Floats:
    """G^T X in float64: a gradient with respect to Z as one with respect to L."""
    G = G.astype(X.dtype, copy=False)
    if len(X) <= 2 * _PROJECTED:
        return np.asarray(G.T @ X, dtype=np.float64)
    total = np.zeros((G.shape[1], X.shape[1]))
    for part in map_in_order(lambda rows: G[rows].T @ X[rows], spans(len(X), _PROJECTED)):
        total += part
    return total
