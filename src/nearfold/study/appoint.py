"""Who judges: chosen by what is told about the rows, with options that make sense for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError, warn
from nearfold.metrics.tuples import from_ids
from nearfold.notation import Array
from nearfold.study.answers import check_answers
from nearfold.study.judges import Judge, LearnerJudge, NeighborJudge, PairJudge

_DIFFERENT_UNITS = 10.0  # ranges of columns that differ more than this are not of one kind
_NEIGHBORS = 5  # of the learner, if not told


def appoint(
    X: Array,
    y: Any,
    task: str | None,
    pairs: tuple[Any, Any],
    k: int | None,
    weights: str,
    scale: bool | None,
    options: dict[str, Any],
) -> tuple[Judge, bool | None]:
    """The judge for what is told about the rows; whether to scale, if that is known already."""
    if pairs[0] is not None:
        if y is not None:
            raise InputError("give y or pairs, not both: a space is judged by one of them.")
        found = from_ids(X, pairs[0], 2, ids=pairs[1]).without_repeats()
        options = {**options, "set_aside": False}
        return PairJudge(X, found.rows, np.asarray(found.sign) > 0, **options), scale
    if y is None:
        scaled = _different_units(X) if scale is None else scale
        options = {**options, "set_aside": False}
        original = standardised(X) if scaled else X
        k = _neighbors(k, len(X), options["n_folds"])
        return NeighborJudge(X, original, k=k, **options), scaled
    y, task = check_answers(y, len(X), task)
    k = _neighbors(k, len(X), options["n_folds"])
    return LearnerJudge(X, y, task=task, k=k, weights=weights, **options), scale


def refuse_options(
    n_components: int | None,
    weights: str,
    max_points: int,
    time_budget: float | None,
    n_names: int,
    d: int,
) -> None:
    """Raise for options that no comparison of these rows can have."""
    if n_components is not None and not 1 <= n_components <= d:
        raise InputError(f"n_components={n_components}: give a number from 1 to {d}.")
    if weights not in ("uniform", "distance"):
        raise InputError(f"weights={weights!r}: there are uniform and distance.")
    if max_points < 3:
        raise InputError(f"max_points={max_points}: a picture has at least 3 points.")
    if time_budget is not None and not time_budget > 0:
        raise InputError(f"time_budget={time_budget}: give seconds, more than 0.")
    if n_names != d:
        raise InputError(f"there are {n_names} names of columns, and X has {d} columns.")


def _neighbors(k: int | None, n: int, n_folds: int) -> int:
    """As many as asked for, or five, or as there are in the training rows of a fold."""
    most = max(1, n - -(-n // n_folds) - 1)
    if k is not None and not 1 <= k <= most:
        raise InputError(
            f"n_neighbors={k}: a fold has {most + 1} training rows, so give a number from 1 to "
            f"{most}."
        )
    if k is None and most < _NEIGHBORS:
        warn(f"a fold has {most + 1} training rows: the {most} nearest are used, not {_NEIGHBORS}.")
    return min(_NEIGHBORS, most) if k is None else k


def _different_units(X: Array) -> bool:
    reach = X.max(axis=0).astype(np.float64) - X.min(axis=0)
    reach = reach[reach > 0]
    if len(reach) == 0:
        return False
    low, high = np.quantile(reach, [0.05, 0.95])
    return bool(high > _DIFFERENT_UNITS * low)


def standardised(X: Array) -> Array:
    """Columns of mean 0 and variance 1."""
    from sklearn.preprocessing import StandardScaler

    return np.asarray(StandardScaler().fit_transform(X))
