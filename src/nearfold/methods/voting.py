"""From neighbours to predictions: weights, votes, averages. Pure functions over blocks of queries.

For a query let N be its neighbours, w_j their weights and y_j their targets:

    P(c | q) = sum_{j in N, y_j = c} w_j / sum_{j in N} w_j          the vote
    y(q)     = sum_{j in N} w_j y_j / sum_{j in N} w_j               the average

Weights: `uniform` 1; `distance` 1 / d, where exact matches (d = 0) vote alone; or a callable of
the distances. A row's sample weight says how often it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.blocks import spans
from nearfold.errors import InputError
from nearfold.neighbors.exact import Index
from nearfold.neighbors.lists import PAIRS, nearest_blocks, nearest_of, within_blocks
from nearfold.notation import Array, Floats, Ints

Weights = str | Callable[[Any], Any] | None

_HUGE = float(np.finfo(np.float64).max)
_CELLS = 2**19  # votes counted at a time


@dataclass(frozen=True)
class Neighborhoods:
    """Neighbours of some consecutive queries, as pairs, with the weight of each."""

    queries: slice
    query: Ints  # counted from the first of `queries`
    row: Ints
    weight: Floats

    @property
    def m(self) -> int:
        """Number of queries."""
        return int(self.queries.stop - self.queries.start)


def nearest_neighborhoods(
    index: Index, Q: Any, k: int, weights: Weights, row_weight: Floats | None
) -> Iterator[Neighborhoods]:
    """The k nearest rows of each query, or as many as it takes for their weights to sum to k."""
    if row_weight is not None:
        yield from _counted_neighborhoods(index, Q, k, weights, row_weight)
        return
    for queries, distance, row in nearest_blocks(index, Q, k):
        m = len(row)
        weight = list_weights(weights, distance)
        yield Neighborhoods(queries, np.repeat(np.arange(m), k), row.ravel(), weight.ravel())


def radius_neighborhoods(
    index: Index, Q: Any, radius: float, weights: Weights, row_weight: Floats | None
) -> Iterator[Neighborhoods]:
    """All rows within the radius of each query."""
    for queries, query, row, distance in within_blocks(index, Q, radius):
        count = np.ones(len(row)) if row_weight is None else row_weight[row]
        weight = pair_weights(weights, query, distance, count, queries.stop - queries.start)
        yield Neighborhoods(queries, query, row, weight)


def _counted_neighborhoods(
    index: Index, Q: Any, k: int, weights: Weights, row_weight: Floats
) -> Iterator[Neighborhoods]:
    most = index.n_rows - (Q is None)
    m = index.n_rows if Q is None else Q.shape[0]
    for queries in spans(m, max(1, PAIRS // k)):
        pieces = []
        waiting, width = np.arange(queries.start, queries.stop), min(k, most)
        while len(waiting):
            short = []
            for some in spans(len(waiting), max(1, PAIRS // width)):
                chosen = waiting[some]
                distance, row = nearest_of(index, Q, chosen, width)
                count = count_until(row_weight[row], k)
                enough = (count.sum(axis=1) >= k * (1 - 1e-12)) | (width == most)
                q, j = np.nonzero((count > 0) & enough[:, None])
                pieces.append((chosen[q] - queries.start, row[q, j], distance[q, j], count[q, j]))
                short.append(chosen[~enough])
            waiting, width = np.concatenate(short), min(2 * width, most)
        query, row, distance, count = (np.concatenate(part) for part in zip(*pieces, strict=True))
        order = np.argsort(query, kind="stable")
        query, row, distance, count = query[order], row[order], distance[order], count[order]
        weight = pair_weights(weights, query, distance, count, queries.stop - queries.start)
        yield Neighborhoods(queries, query, row, weight)


def count_until(row_weight: Floats, k: float) -> Floats:
    """How often each neighbour counts, given weights (m, width) nearest first: k in all."""
    before = np.cumsum(row_weight, axis=1) - row_weight
    return np.clip(k - before, 0.0, row_weight)


def list_weights(weights: Weights, distance: Floats) -> Floats:
    """Weights of neighbours in lists of equal length (m, k)."""
    if weights in (None, "uniform"):
        return np.ones(distance.shape)
    if weights == "distance":
        exact = (distance == 0).any(axis=1, keepdims=True)
        nearest = np.min(distance, axis=1, where=distance > 0, initial=np.inf, keepdims=True)
        return inverse_distances(distance, np.minimum(nearest, _HUGE), exact)
    return _called(weights, distance)


def pair_weights(weights: Weights, query: Ints, distance: Floats, count: Floats, m: int) -> Floats:
    """Weights of neighbours given as pairs sorted by query, each counted so many times."""
    if weights in (None, "uniform"):
        return count
    if weights == "distance":
        counted = count > 0
        exact = np.bincount(query[(distance == 0) & counted], minlength=m) > 0
        nearest = np.full(m, _HUGE)
        apart = (distance > 0) & counted  # rows that count, so that no weight vanishes beside them
        np.minimum.at(nearest, query[apart], distance[apart])
        inverse = inverse_distances(distance, nearest[query], exact[query])
        return count * np.where(counted, inverse, 0.0)  # which may be inf where none count
    parts = np.split(distance, np.searchsorted(query, np.arange(1, m)))
    return count * np.concatenate([_called(weights, part).ravel() for part in parts])


def _called(weights: Any, distance: Floats) -> Floats:
    """What a callable makes of the distances."""
    found = np.asarray(weights(distance), dtype=np.float64)
    if not np.isfinite(found).all():
        raise InputError(
            "the function given as weights returned NaN or inf, for example at a distance of 0: "
            "weights must be finite numbers."
        )
    return found


def inverse_distances(distance: Floats, nearest: Floats, exact: Array) -> Floats:
    """1 / d; where a query has an exact match (`exact`) only its matches weigh, and equally.

    In units of 1 / the nearest distance, so that tiny distances do not overflow.
    """
    positive = np.where(distance == 0, 1.0, distance)
    with np.errstate(over="ignore"):  # of rows that do not count
        return np.where(exact, (distance == 0).astype(np.float64), nearest / positive)


def count_votes(near: Neighborhoods, label: Ints, n_classes: int) -> Iterator[tuple[slice, Floats]]:
    """(queries, votes): the weight that the neighbours of each query give to each class."""
    ordered = near.query  # pairs come sorted by query
    for part in spans(near.m, max(1, _CELLS // max(1, n_classes))):
        first, last = np.searchsorted(ordered, [part.start, part.stop])
        cell = (ordered[first:last] - part.start) * n_classes + label[near.row[first:last]]
        size = (part.stop - part.start) * n_classes
        votes = np.bincount(cell, near.weight[first:last], size).reshape(-1, n_classes)
        start = near.queries.start
        yield slice(start + part.start, start + part.stop), votes


def class_shares(votes: Floats) -> Floats:
    """The share of the weight that each class holds; zeros where there is none."""
    total = votes.sum(axis=1, keepdims=True)
    return np.asarray(votes / np.where(total == 0, 1.0, total))


def most_voted(votes: Floats) -> Ints:
    """The number of the class with the most weight, the first of equal ones; -1 without any."""
    return np.where(votes.sum(axis=1) == 0, -1, np.argmax(votes, axis=1))


def average(near: Neighborhoods, y: Floats) -> Floats:
    """Weighted means (m, outputs) of the neighbours' targets; NaN where there is no weight."""
    total = np.bincount(near.query, near.weight, near.m)
    means = np.empty((near.m, y.shape[1]))
    with np.errstate(invalid="ignore"):  # 0 / 0: no neighbour, no answer
        for output in range(y.shape[1]):
            weighted = near.weight * y[near.row, output]
            means[:, output] = np.bincount(near.query, weighted, near.m) / total
    return means


def require_weights(row_weight: Floats | None, k: int) -> None:
    """Refuse k if the weights of all rows do not sum to it."""
    if row_weight is not None and k > row_weight.sum():
        raise InputError(
            f"n_neighbors={k} is more than all sample weights together ({row_weight.sum():g}), "
            "which is how many rows they stand for."
        )
