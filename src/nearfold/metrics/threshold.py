"""The distance up to which a pair is called must-link, chosen on pairs that are known."""

from __future__ import annotations

from numbers import Real

import numpy as np

from nearfold.errors import InputError
from nearfold.notation import Array, Floats, Ints

STRATEGIES = ("accuracy", "f_beta", "max_tpr", "max_tnr")


def check_calibration(strategy: str, min_rate: float | None, beta: float) -> None:
    """Refuse parameters of the calibration that cannot be used."""
    if strategy not in STRATEGIES:
        raise InputError(
            f'Strategy can either be "accuracy", "f_beta" or "max_tpr" or "max_tnr". Got '
            f'"{strategy}" instead.'
        )
    if strategy in ("max_tpr", "max_tnr") and (
        not isinstance(min_rate, Real) or not 0 <= min_rate <= 1
    ):
        raise InputError(
            f'Parameter min_rate must be a number in [0, 1] for strategy "{strategy}". Got '
            f"{min_rate} instead."
        )
    if strategy == "f_beta" and not isinstance(beta, Real):
        raise InputError(f"Parameter beta must be a real number. Got {type(beta)} instead.")


def choose_threshold(
    distance: Floats, sign: Ints, strategy: str, min_rate: float | None, beta: float
) -> float:
    """The distance that parts must-link from cannot-link pairs best; half-way between two pairs."""
    check_calibration(strategy, min_rate, beta)
    order = np.argsort(distance, kind="stable")
    distance, alike = distance[order], sign[order] > 0
    cuts = np.flatnonzero(np.append(distance[1:] > distance[:-1], True)) + 1
    taken = np.concatenate([[0], cuts])  # the first `taken` pairs are called must-link
    hits = np.concatenate([[0], np.cumsum(alike)])[taken]
    merit = _merit(taken, hits, alike, strategy, min_rate, beta)
    t = int(taken[np.argmax(merit)])
    if t == 0:
        return float(np.nextafter(distance[0], -np.inf))
    # Half-way to the next pair, so that rounding of either distance decides nothing.
    return float(distance[t - 1] if t == len(distance) else (distance[t - 1] + distance[t]) / 2)


def _merit(
    taken: Ints, hits: Ints, alike: Array, strategy: str, min_rate: float | None, beta: float
) -> Floats:
    """How good it is to call the first `taken` pairs must-link, `hits` of them rightly."""
    positive, negative = max(int(alike.sum()), 1), max(int((~alike).sum()), 1)
    tpr, tnr = hits / positive, 1 - (taken - hits) / negative
    if strategy == "accuracy":
        return np.asarray(hits - (taken - hits))
    if strategy == "f_beta":
        weight = taken + beta**2 * positive
        # beta = 0 is the precision, 0 / 0 where nothing is called must-link: 0, as elsewhere
        return (1 + beta**2) * hits / np.where(weight > 0, weight, 1)
    if strategy == "max_tpr":
        return np.where(tnr >= (min_rate or 0.0), tpr, -1.0)
    return np.where(tpr >= (min_rate or 0.0), tnr, -1.0)
