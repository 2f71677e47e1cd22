"""What a session tells a metric: pairs and classes, with all that follows from them.

Links that contradict others are left out. Rows that are alike are so with all that either is alike
with, and what is different from one of them is different from all: such pairs follow from the links
and are learned from, too. Painted classes give pairs as well, drawn where there are too many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfold.metrics.contradictions import contradicted, joined_rows
from nearfold.notation import Array, Ints
from nearfold.study.session import Session

_MOST_PAIRS = 2_000  # learned from
_MOST_ROWS = 1_000  # whose pairs are completed
_MOST_PAINTED = 200  # pairs of each kind that painted classes give


@dataclass(frozen=True, eq=False)
class Lesson:
    """Pairs that are alike or not, and rows with a class."""

    told: Ints  # (n, 3): row, row, 1 or -1; none of them contradicted
    pairs: Ints  # the same and those that follow from them
    rows: Ints  # painted
    labels: Array
    left_out: int  # links that others contradict

    @property
    def taught(self) -> Ints:
        """All rows of which something was told."""
        return np.union1d(self.pairs[:, :2].ravel(), self.rows)

    def part(self, numbers: Ints) -> Lesson:
        """Some of the pairs told, what follows from these alone, and the classes of their rows."""
        told = self.told[numbers]
        kept = np.isin(self.rows, told[:, :2])
        return Lesson(told, complete_pairs(told, 0), self.rows[kept], self.labels[kept], 0)


def read_lesson(session: Session) -> Lesson:
    """What a session has told so far."""
    rows = np.array(list(session.told.painted), dtype=np.int64)
    labels = np.array(list(session.told.painted.values()), dtype=str)
    pairs = session.pairs
    painted = pairs_of_classes(rows, labels, np.random.default_rng(session.seed))
    pairs = np.vstack([pairs, _others(painted, pairs)])  # a link counts before a class
    wrong = contradicted(pairs[:, :2], pairs[:, 2]) if len(pairs) else np.zeros(0, dtype=bool)
    told = pairs[~wrong]
    return Lesson(told, complete_pairs(told, session.seed), rows, labels, int(wrong.sum()))


def pairs_of_classes(rows: Ints, labels: Array, draw: np.random.Generator) -> Ints:
    """Pairs of painted rows, those of one class alike and others not; some where there are many."""
    if len(rows) > _MOST_ROWS:
        kept = np.sort(draw.choice(len(rows), _MOST_ROWS, replace=False))
        rows, labels = rows[kept], labels[kept]
    i, j = np.triu_indices(len(rows), 1)
    alike = labels[i] == labels[j]
    chosen = [_some(np.flatnonzero(alike == one), _MOST_PAINTED, draw) for one in (True, False)]
    at = np.concatenate(chosen)
    ends = np.sort(np.column_stack([rows[i[at]], rows[j[at]]]), axis=1)
    return np.column_stack([ends, np.where(alike[at], 1, -1)]).astype(np.int64)


def complete_pairs(pairs: Ints, seed: int) -> Ints:
    """Pairs and those that follow, the given ones first; some of these where there are many."""
    if len(pairs) == 0:
        return pairs
    rows, sign = pairs[:, :2], pairs[:, 2]
    used, part = joined_rows(rows, sign)
    if len(used) > _MOST_ROWS:
        return pairs
    ends = part[np.searchsorted(used, rows)]
    apart = np.zeros((part.max() + 1,) * 2, dtype=bool)
    apart[ends[sign < 0, 0], ends[sign < 0, 1]] = True
    apart |= apart.T
    i, j = np.triu_indices(len(used), 1)
    alike = part[i] == part[j]
    follows = np.flatnonzero(alike | apart[part[i], part[j]])
    found = np.column_stack([used[i[follows]], used[j[follows]], np.where(alike[follows], 1, -1)])
    new = _others(found, pairs)
    most = max(_MOST_PAIRS - len(pairs), 0)
    new = new[_some(np.arange(len(new)), most, np.random.default_rng(seed))]
    return np.vstack([pairs, new])


def _others(pairs: Ints, known: Ints) -> Ints:
    """Those pairs that are not known, whichever way round."""
    both = np.sort(np.vstack([pairs, known])[:, :2], axis=1)
    number = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    return pairs[~np.isin(number[: len(pairs)], number[len(pairs) :])]


def _some(numbers: Ints, most: int, draw: np.random.Generator) -> Ints:
    if len(numbers) <= most:
        return numbers
    return np.sort(draw.choice(numbers, most, replace=False))
