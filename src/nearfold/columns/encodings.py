"""Categories as numbers: a table with a row for each level, and rows for unknown and missing words.

Codes of missing (-1) and of unknown words (-2) index such a table from its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.columns.converters import MISSING
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array, Floats, Ints

_MOST_LEVELS = 100  # indicators of one category; the others are grouped
_RARE = 0.001  # share of the rows below which a level is grouped, and never fewer than 2 rows
_CUTS = 5  # parts of the training rows that are encoded by the rest


def indicators(codes: Ints, n_levels: int) -> Floats:
    """A column for each level; those of few rows, and those beyond the most frequent, share one.

    Two levels need one column.
    """
    counts = np.bincount(codes[codes >= 0], minlength=n_levels)
    return indicators_of_counts(counts, len(codes), bool((codes == MISSING).any()))


def indicators_of_counts(counts: Ints, n_rows: int, any_missing: bool) -> Floats:
    """The same from the rows of each level, of all rows."""
    n_levels = len(counts)
    least = max(2, int(np.ceil(_RARE * n_rows)))
    order = np.argsort(-counts, kind="stable")
    kept = {int(c) for c in order[:_MOST_LEVELS] if counts[c] >= least}
    rare = [c for c in range(n_levels) if counts[c] > 0 and c not in kept]
    groups = [[c] for c in sorted(kept)] + ([rare] if rare else [])
    if any_missing:
        groups.append([n_levels + 1])
    if len(groups) == 2:
        groups = groups[1:]
    table = np.zeros((n_levels + 2, max(1, len(groups))))
    for j, members in enumerate(groups):
        table[members, j] = 1.0
    return table


def target_means(codes: Ints, n_levels: int, y: Array, seed: int | None) -> tuple[Floats, Floats]:
    """The mean answer of each level, and for the training rows that of the other rows."""
    from sklearn.model_selection import KFold
    from sklearn.preprocessing import TargetEncoder

    kind = "continuous"
    if y.dtype.kind != "f":
        kind = "binary" if len(np.unique(y)) == 2 else "multiclass"
    cuts = KFold(min(_CUTS, len(y)), shuffle=True, random_state=seed)
    encoder = TargetEncoder(target_type=kind, cv=cuts)
    values = np.asarray(encoder.fit_transform(codes[:, None], y), dtype=np.float64)
    means = np.atleast_1d(np.asarray(encoder.target_mean_, dtype=np.float64))
    table = np.tile(means[: values.shape[1]], (n_levels + 2, 1))
    known = np.asarray(encoder.categories_[0])  # codes; MISSING among them if rows have it
    table[known] = np.stack([np.asarray(e) for e in encoder.encodings_], axis=1)
    return table, values


def can_use_targets(y: Array) -> bool:
    """Whether rows can be encoded by one another: it takes two rows, and two classes."""
    return len(y) >= 2 and (y.dtype.kind == "f" or len(np.unique(y)) >= 2)


def check_answers(y: Any, n: int) -> Array:
    """The answers as an array, one for each row, none missing."""
    answers = np.asarray(y)
    if answers.shape != (n,):
        raise InputError(Message("columns.y_shape", shape=str(answers.shape), n=n))
    if answers.dtype == object:
        if any(value is None or value != value for value in answers):
            raise InputError(Message("columns.y_gaps"))
        answers = answers.astype(str)
    if answers.dtype.kind == "f" and not np.isfinite(answers).all():
        raise InputError(Message("columns.y_gaps"))
    return answers
