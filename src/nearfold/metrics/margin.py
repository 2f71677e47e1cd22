"""The objective of LMNN: target neighbours, impostors, and the gradient they give.

    f(L) = mu sum_{j ~> i} d_ij^2 + (1 - mu) sum_{j ~> i} sum_{l: y_l != y_i} [1 + d_ij^2 - d_il^2]+

with the symbols of lmnn.py. Rows are sorted by class throughout. The impostors of a row i are the
rows l of other classes with d_il^2 < 1 + max_j d_ij^2. They are found among all rows, in blocks of
rows against all rows, or, with `candidates` (impostors.py), among the pairs listed there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar

from nearfold.linalg import square_norms, squared_distances
from nearfold.metrics.impostors import Candidates
from nearfold.metrics.pair_blocks import (
    Block,
    augmented,
    block_size,
    plan_blocks,
    project,
    pull_back,
    run_tasks,
)
from nearfold.neighbors import build_index
from nearfold.neighbors.selection import groups_of_counts
from nearfold.notation import Array, Floats, Ints
from nearfold.run import PerThread

_IMPOSTORS = 2**17  # pairs of a row and an impostor held at a time
_SAMPLE = 64  # rows from which the scale of a map is found


@dataclass(frozen=True)
class Targets:
    """The pairs j ~> i, row after row: row i has those from first[i] to first[i + 1]."""

    i: Ints
    j: Ints
    first: Ints

    def of(self, lo: int, hi: int, values: Array) -> Array:
        """The values of the pairs of rows lo to hi, all of one class, as a table (rows, k)."""
        return values[self.first[lo] : self.first[hi]].reshape(hi - lo, -1)


def target_neighbors(X: Array, starts: Ints, k: int) -> Targets:
    """The k nearest rows of its own class for every row."""
    counts, j = np.zeros(len(X), dtype=np.int64), [np.empty(0, dtype=np.int64)]
    for lo, hi in pairwise(starts.tolist()):
        most = min(k, hi - lo - 1)
        counts[lo:hi] = most
        if most:
            j.append((lo + build_index(X[lo:hi], k_hint=most).nearest(None, most)[1]).ravel())
    first = np.concatenate([[0], np.cumsum(counts)])
    return Targets(np.repeat(np.arange(len(X)), counts), np.concatenate(j), first)


def map_rows(X: Array, targets: Targets, L: Floats) -> tuple[Array, Array]:
    """Z = X L^T about its mean, and d_ij^2 of the target pairs."""
    Z = project(X, L)
    Z = Z - Z.mean(axis=0, dtype=np.float64).astype(Z.dtype)
    return Z, square_norms(Z[targets.i] - Z[targets.j])


def reach_of_rows(starts: Ints, targets: Targets, near: Array) -> Floats:
    """1 + max_j d_ij^2 of each row, below which others are impostors; 0 for one without targets."""
    reach = np.zeros(int(starts[-1]))
    for lo, hi in pairwise(starts.tolist()):
        own = targets.of(lo, hi, near)
        if own.shape[1]:
            reach[lo:hi] = 1 + own.max(axis=1)
    return reach


def best_scale(
    X: Array, starts: Ints, targets: Targets, L: Floats, mu: float, penalty: float
) -> float:
    """The s for which f(s L) is about the smallest, as far as some of the rows show."""
    Z, near = map_rows(X, targets, L)
    rows = np.linspace(0, len(Z) - 1, _SAMPLE).astype(np.int64)
    rows = rows[targets.first[rows + 1] > targets.first[rows]]
    group = np.searchsorted(starts, rows, side="right")
    pairs = [near[targets.first[i] : targets.first[i + 1]].astype(np.float64) for i in rows]
    far = squared_distances(Z[rows], Z).astype(np.float64)
    for i, c in enumerate(group):
        far[i, starts[c - 1] : starts[c]] = np.inf
    pull = sum(float(own.sum()) for own in pairs)
    size = pull / sum(len(own) for own in pairs)
    cost = mu * pull + penalty * float(np.sum(L**2)) * len(rows) / len(Z)

    def value(log_t: float) -> float:  # t = s^2
        t = np.exp(log_t)
        push = sum(
            np.maximum(1 + t * (d - others), 0).sum()
            for own, others in zip(pairs, far, strict=True)
            for d in own
        )
        return float(t * cost + (1 - mu) * push)

    if not size > 0:
        return 1.0
    around = np.log(1 / size)
    found = minimize_scalar(
        value, bounds=(around - 5, around + 5), method="bounded", options={"xatol": 0.05}
    )
    return float(np.exp(found.x / 2))


def margin_loss(
    X: Array,
    starts: Ints,
    targets: Targets,
    L: Floats,
    mu: float,
    candidates: Candidates | None = None,
) -> tuple[float, Floats]:
    """f(L) and its gradient; only the `candidates`, if there are any, are taken for impostors."""
    Z, near = map_rows(X, targets, L)
    if candidates is None:
        push, counts, G = push_from_all(Z, starts, targets, near)
    else:
        push, counts, W = push_from_listed(Z, targets, near, candidates)
    shape = (len(Z), len(Z))
    pull = sparse.csr_array((mu + (1 - mu) * counts, targets.j, targets.first), shape=shape)
    if candidates is None:
        G = (1 - mu) * G + attraction(pull, Z)
    else:
        G = attraction(pull - (1 - mu) * W, Z)
    return mu * float(near.sum(dtype=np.float64)) + (1 - mu) * push, 2.0 * pull_back(G, X)


def attraction(W: sparse.csr_array, Z: Array) -> Floats:
    """The gradient (halved) of sum_ij W_ij |z_i - z_j|^2 with respect to Z."""
    return np.asarray((W.sum(axis=1) + W.sum(axis=0))[:, None] * Z - W @ Z - W.T @ Z)


def push_from_listed(
    Z: Array, targets: Targets, near: Array, candidates: Candidates
) -> tuple[float, Floats, sparse.csr_array]:
    """The hinges of the listed pairs: their sum, how many are active per target, and per pair."""
    m = len(Z)

    def run(number: int) -> tuple[float, Floats, Ints, Ints, Floats]:
        lo, hi = candidates.spans[number]
        own = targets.of(lo, hi, near)
        row, column, rest = candidates.within(Z, number, own.max(axis=1, initial=-np.inf))
        value, counts, weight = hinges(row, rest, own)
        return value, counts, row + lo, column, weight

    numbers = list(range(len(candidates.spans)))
    parts = list(run_tasks(run, numbers, candidates.n_pairs, Z.shape[1]))
    row, column, weight = (np.concatenate([part[q] for part in parts]) for q in (2, 3, 4))
    first = np.searchsorted(row, np.arange(m + 1))
    counts = np.concatenate([part[1].ravel() for part in parts])
    W = sparse.csr_array((weight, column, first), shape=(m, m))
    return float(sum(part[0] for part in parts)), counts, W


def push_from_all(
    Z: Array, starts: Ints, targets: Targets, near: Array
) -> tuple[float, Floats, Floats]:
    """The same from all pairs of rows of different classes, with a gradient (halved) for W."""
    (m, r), (left, right) = Z.shape, augmented(Z)
    norms = right[-1]
    buffers = PerThread(lambda: np.empty((block_size(m), m), dtype=Z.dtype))

    def run(task: list[Block]) -> tuple[float, list[Floats], Floats]:
        value, counts, G = 0.0, [np.empty(0)], np.zeros(Z.shape)
        for lo, hi, c in task:
            own = targets.of(lo, hi, near)
            if own.shape[1]:
                T = np.matmul(left[lo:hi], right, out=buffers.get()[: hi - lo])
                T[:, starts[c] : starts[c + 1]] = -np.inf
                for few in impostor_groups(T, own, norms[lo:hi]):
                    at = slice(lo + few.start, lo + few.stop)
                    part, active, W = impostors(T[few], own[few], norms[at])
                    value += part
                    counts.append(active.ravel())
                    add_pushed(G, Z, at, W)
        return value, counts, G

    push, G, counts = 0.0, np.zeros(Z.shape), [np.empty(0)]
    for part, active, moved in run_tasks(run, plan_blocks(starts, m), float(m) * m, r):
        push += part
        G += moved
        counts += active
    return push, np.concatenate(counts), G


def impostor_groups(T: Array, near: Array, norms: Array) -> list[slice]:
    """Rows in groups with so few impostors that all pairs with them can be held."""
    if T.size <= _IMPOSTORS:
        return [slice(0, len(T))]
    nearer = T > (norms - 1 - near.max(axis=1))[:, None]  # than the farthest target and a margin
    return groups_of_counts(np.count_nonzero(nearer, axis=1), _IMPOSTORS)


def impostors(T: Array, near: Array, norms: Array) -> tuple[float, Floats, sparse.csr_array]:
    """The loss of a block of rows; per target, and as W (rows, m) per pair, how often it is active.

    T_il = |z_i|^2 - d_il^2, and -inf for rows l of the own class; near (rows, k): d_ij^2.
    """
    b, m = T.shape
    inside = np.flatnonzero(T > (norms - 1 - near.max(axis=1))[:, None])  # d_il^2 < 1 + d_ij^2
    row = inside // m
    value, counts, weight = hinges(row, 1 - norms[row] + T.ravel()[inside], near)
    first = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=b))])
    return value, counts, sparse.csr_array((weight, inside - row * m, first), shape=(b, m))


def hinges(row: Ints, rest: Array, near: Array) -> tuple[float, Floats, Floats]:
    """The sum of [d_ij^2 + rest]+ over pairs and the targets j of their rows; rest = 1 - d_il^2.

    Then how many of them are positive for each target (rows, k), and for each pair.
    """
    value, counts, weight = 0.0, np.zeros(near.shape), np.zeros(len(row))
    for t in range(near.shape[1]):
        excess = near[row, t] + rest
        active = excess > 0
        value += float(np.sum(excess, where=active, dtype=np.float64))
        counts[:, t] = np.bincount(row, active, len(near))
        weight += active
    return value, counts, weight


def add_pushed(G: Floats, Z: Array, rows: slice, W: sparse.csr_array) -> None:
    """Add the gradient (halved) of -sum_il W_il |z_i - z_l|^2 over some rows i to G."""
    G += W.T @ Z[rows]
    G -= W.sum(axis=0)[:, None] * Z
    G[rows] += W @ Z - W.sum(axis=1)[:, None] * Z[rows]
