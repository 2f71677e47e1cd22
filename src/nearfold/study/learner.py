"""A k-nearest-neighbour learner for several k at once: one search, the votes of the first k."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nearfold.neighbors import build_index
from nearfold.notation import Array, Floats, Ints
from nearfold.study.scores import Needs

Search = Callable[[Array, Array | None, int, str], tuple[Floats, Ints]]  # as `nearest`


def nearest(
    rows: Array,
    queries: Array | None,
    k: int,
    metric: str,
    recall: float | None = None,
    seed: int = 0,
) -> tuple[Floats, Ints]:
    """Distances and row numbers of the k nearest rows, nearest first.

    Exact, or under the Euclidean metric to a certified `recall`.
    """
    exact = recall is None or metric != "euclidean"
    how: dict[str, Any] = (
        {} if exact else {"algorithm": "approximate", "recall": recall, "random_state": seed}
    )
    index = build_index(np.ascontiguousarray(rows), metric=metric, k_hint=k, **how)
    found = index.nearest(None if queries is None else np.ascontiguousarray(queries), k)
    return np.asarray(found[0]), np.asarray(found[1])


def neighbor_predictions(
    distances: Floats,
    answers: Array,
    ks: Sequence[int],
    needs: Needs,
    weights: str,
    prior: Floats | None = None,
) -> list[Array]:
    """For each k (ascending) what the first k neighbours of each row predict.

    `answers`: (rows, neighbours) class codes or numbers of the neighbours. `prior`: the share of
    each class; probabilities are (votes + prior) / (all votes + 1), as a class without a vote is
    rare, not impossible. Equal votes: the first class. At distance 0 the copies vote alone if votes
    are weighted by distance.
    """
    weight = _weights(distances, weights)
    if needs == Needs.NUMBERS:
        total, mass = np.cumsum(weight * answers, axis=1), np.cumsum(weight, axis=1)
        return [total[:, k - 1] / mass[:, k - 1] for k in ks]
    assert prior is not None
    rows = np.arange(len(answers))
    votes = np.zeros((len(answers), len(prior)))
    codes = np.int16 if len(prior) < 2**15 else np.int32
    found: list[Array] = []
    for j in range(max(ks)):
        votes[rows, answers[:, j]] += weight[:, j]
        if j + 1 in ks:
            if needs == Needs.LABELS:
                found.append(votes.argmax(axis=1).astype(codes))
            else:
                shares = (votes + prior) / (votes.sum(axis=1, keepdims=True) + 1)
                found.append(shares.astype(np.float32))
    return found


def _weights(distances: Floats, weights: str) -> Floats:
    if weights == "uniform":
        return np.ones(distances.shape)
    equal = distances[:, :1] == 0
    # In units of the nearest one: tiny distances must not overflow.
    unit = np.where(equal, 1.0, distances[:, :1])
    inverse = unit / np.where(distances == 0, 1.0, distances)
    return np.asarray(np.where(equal, distances == 0, inverse), dtype=np.float64)
