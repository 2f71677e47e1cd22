"""The distance up to which a pair is called must-link, chosen on pairs that are known."""

from __future__ import annotations

import numpy as np

from nearfold.errors import InputError
from nearfold.notation import Floats, Ints


def choose_threshold(
    distance: Floats, sign: Ints, strategy: str, min_rate: float | None, beta: float
) -> float:
    """The distance that parts must-link from cannot-link pairs best; half-way between two pairs."""
    if strategy not in ("accuracy", "f_beta", "max_tpr", "max_tnr"):
        raise InputError(
            f"strategy={strategy!r}: use 'accuracy', 'f_beta', 'max_tpr' or 'max_tnr'."
        )
    constrained = strategy in ("max_tpr", "max_tnr")
    if constrained and (min_rate is None or not 0 <= min_rate <= 1):
        raise InputError(f"strategy={strategy!r} needs min_rate in [0, 1]; it is {min_rate!r}.")
    order = np.argsort(distance, kind="stable")
    distance, alike = distance[order], sign[order] > 0
    cuts = np.flatnonzero(np.append(distance[1:] > distance[:-1], True)) + 1
    taken = np.concatenate([[0], cuts])  # the first `taken` pairs are called must-link
    positive, negative = max(int(alike.sum()), 1), max(int((~alike).sum()), 1)
    hits = np.concatenate([[0], np.cumsum(alike)])[taken]
    tpr, tnr = hits / positive, 1 - (taken - hits) / negative
    if strategy == "accuracy":
        merit = hits - (taken - hits)
    elif strategy == "f_beta":
        merit = (1 + beta**2) * hits / (taken + beta**2 * positive)
    elif strategy == "max_tpr":
        merit = np.where(tnr >= min_rate, tpr, -1.0)
    else:
        merit = np.where(tpr >= min_rate, tnr, -1.0)
    t = int(taken[np.argmax(merit)])
    if t == 0:
        return float(np.nextafter(distance[0], -np.inf))
    # Half-way to the next pair, so that rounding of either distance decides nothing.
    return float(distance[t - 1] if t == len(distance) else (distance[t - 1] + distance[t]) / 2)
