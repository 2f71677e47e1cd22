"""Contradictions among tuples of row numbers, refused once for all learners.

a pair both must- and cannot-link,
directly or by a chain of pairs    an error that shows it
a row that cannot link to itself   an error that shows it
a row that must link to itself     has no effect: left out, with a warning
a pair given twice, (a, b), (b, a) counts twice, as for vectors, with a warning
a triplet or quadruplet whose farther pair is one row, or its nearer pair: an error
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError, warn
from nearfold.metrics.contradictions import contradicted, shortest_chain
from nearfold.metrics.parse_tuples import SHOWN
from nearfold.notation import Array, Ints


def reconcile_pairs(rows: Ints, sign: Ints, shown: Array) -> tuple[Ints, Ints]:
    """The pairs of different rows, after refusing contradictions; `shown`: the rows' names."""
    itself = rows[:, 0] == rows[:, 1]
    if (itself & (sign < 0)).any():
        which = np.unique(shown[rows[itself & (sign < 0), 0]])
        raise InputError(f"a row cannot be kept apart from itself: {_listed(which)}.")
    if itself.any():
        listed = _listed(shown[rows[itself, 0]])
        warn(f"pairs of a row with itself have no effect and are left out: {listed}.")
    rows, sign = rows[~itself], sign[~itself]
    if len(rows) == 0:
        raise InputError("there are no pairs of different rows.")
    distinct, first, index = distinct_pairs(rows)
    must, cannot = (np.bincount(index[sign == s], minlength=len(distinct)) > 0 for s in (1, -1))
    if (must & cannot).any():
        raise InputError(
            "these pairs are given both as must-link and as cannot-link: "
            + _listed([tuple(pair) for pair in shown[distinct[must & cannot]].tolist()])
            + "."
        )
    if len(distinct) < len(rows):
        again = distinct[np.bincount(index) > 1]
        warn(
            f"{len(rows) - len(distinct)} pairs repeat others and count as often as given: "
            + _listed([tuple(pair) for pair in shown[again].tolist()])
            + "."
        )
    _refuse_chains(distinct, sign[first], shown)
    return rows, sign


def distinct_pairs(rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Each unordered pair once, where it comes first, and the number of every given pair."""
    distinct, first, index = np.unique(
        np.sort(rows, axis=1), axis=0, return_index=True, return_inverse=True
    )
    return distinct, first, index.ravel()


def _refuse_chains(rows: Ints, sign: Ints, shown: Array) -> None:
    """Raise if must-link pairs, one after the other, join rows that cannot link."""
    found = rows[contradicted(rows, sign)]
    if len(found) == 0:
        return
    chain = shortest_chain(rows, sign, found[0])
    more = f" ({len(found) - 1} more such pairs)" if len(found) > 1 else ""
    raise InputError(
        f"the cannot-link pair {tuple(shown[found[0]].tolist())} is joined by a chain of "
        f"must-link pairs: {' - '.join(str(shown[row]) for row in chain)}{more}."
    )


def check_comparisons(rows: Ints, shown: Array) -> Ints:
    """Triplets (a, near, far) or quadruplets (a, b, c, d), after refusing what cannot be."""
    far = rows[:, [0, 2]] if rows.shape[1] == 3 else rows[:, 2:]
    empty = far[:, 0] == far[:, 1]
    if empty.any():
        raise InputError(
            "a row cannot be farther from itself than another pair is: "
            + _listed([tuple(t) for t in shown[rows[empty]].tolist()])
            + "."
        )
    near = np.sort(rows[:, :2], axis=1)
    same = (near == np.sort(far, axis=1)).all(axis=1)
    if same.any():
        raise InputError(
            "a pair cannot be nearer than itself: "
            + _listed([tuple(t) for t in shown[rows[same]].tolist()])
            + "."
        )
    return rows


def _listed(values: Any) -> str:
    values = list(values)
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    shown = np.asarray(values[:SHOWN], dtype=object).tolist() if values else []
    return ", ".join(str(tuple(v) if isinstance(v, list) else v) for v in shown) + more
