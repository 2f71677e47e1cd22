"""Which pairs are held out.

Pairs that share a row, or are linked through others, tell of each other: a metric fitted to some
of them knows the rows of the rest. If the pairs fall into many small groups without common rows,
whole groups are dealt to folds. Otherwise rows are dealt into two halves, again and again: the
pairs of one half are learned from, those of the other are judged, and pairs across are not used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array, Ints
from nearfold.study.folds import Fold, Split, joined, split_rows

_HALVINGS = 5
_LEAST = 5  # pairs of each kind, to learn from and to judge by


def split_pairs(
    pairs: Ints,
    alike: Array,
    n: int,
    *,
    n_folds: int = 5,
    n_repeats: int | None = None,
    random_state: int = 0,
    **_: Any,
) -> Split:
    """Folds of pairs, by number; no row is on both sides."""
    group = joined(pairs[:, 0], pairs[:, 1], n)
    largest = int(np.bincount(group).max())
    if largest * 2 * n_folds <= len(pairs):
        folds = split_rows(group, alike, n_folds=n_folds, n_repeats=n_repeats, set_aside=False,
                           random_state=random_state).folds  # fmt: skip
        notices: list[Message] = []
    else:
        folds = _halves(pairs, n, _HALVINGS if n_repeats is None else n_repeats, random_state)
        used = sum(len(fold.train) for fold in folds) / len(folds)
        notices = [Message("study.halves", used=round(used), of=len(pairs))]
    for fold in folds:
        for part in (fold.train, fold.test):
            _refuse_few(alike[part])
    return Split(folds, np.zeros(0, dtype=np.int64), np.arange(len(pairs)), tuple(notices))


def _halves(pairs: Ints, n: int, repeats: int, seed: int) -> tuple[Fold, ...]:
    draw = np.random.default_rng(seed)
    folds = []
    for repeat in range(repeats):
        half = draw.permutation(n) % 2
        a, b = half[pairs].T
        sides = np.flatnonzero((a == 0) & (b == 0)), np.flatnonzero((a == 1) & (b == 1))
        folds += [Fold(*sides, repeat), Fold(*sides[::-1], repeat)]
    return tuple(folds)


def _refuse_few(alike: Array) -> None:
    counts = {"alike": int(alike.sum()), "apart": int((~alike).sum())}
    if min(counts.values()) < _LEAST:
        raise InputError(Message("study.few_pairs", least=_LEAST, **counts))
