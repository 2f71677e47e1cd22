"""The rows that a map is learned from: all, or a sample where pairs of all rows are too many.

Not a learner but a stage of those that compare all pairs of rows (LMNN, MLKR, LFDA) or hold all
rows along thousands of bases (SCML). A map of
r x d numbers needs no million rows; NCA, which can be learned from batches, has no use for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from nearfold.errors import ApproximationWarning, warn
from nearfold.messages import Message
from nearfold.notation import Ints
from nearfold.run import random_state


@dataclass(frozen=True)
class LearningRows:
    """Row numbers in the order in which they are worked on, and the note for `approximation_`."""

    order: Ints
    note: str | None = None


def choose_rows(
    order: Ints, starts: Ints, asked: int | None, most: int, least: int, seed: Any, what: str
) -> LearningRows:
    """All rows of the canonical `order`, or a sample of each class in it.

    `asked` (the parameter `max_samples`) or else `most` is the size of the sample, which has at
    least `least` rows of every class that has as many. Drawn from the canonical order, so that the
    order in which rows are given changes nothing.
    """
    m, count = len(order), most if asked is None else asked
    if m <= count:
        return LearningRows(order)
    random = random_state(0 if seed is None else seed)
    drawn = []
    for begin, end in pairwise(starts.tolist()):
        size = min(end - begin, max(least, round(count * (end - begin) / m)))
        drawn.append(begin + np.sort(random.permutation(end - begin)[:size]))
    rows = np.concatenate(drawn)
    if asked is None:
        warn(Message("warn.sampled_rows", what=what, m=m, n=len(rows)), ApproximationWarning)
    return LearningRows(order[rows], f"learned from {len(rows):,} of {m:,} rows, drawn at random")
