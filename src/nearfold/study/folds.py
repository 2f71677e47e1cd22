"""Which rows are held out: the same folds for every space.

Rows are dealt to folds class by class, so that every fold has its share of each. Rows that are
equal in all columns stay together: a copy of a held-out row among the training rows would be
its own nearest neighbour. A class that has only one (distinct) row is never held out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfold.blocks import spans
from nearfold.errors import InputError
from nearfold.notation import Array, Ints
from nearfold.study.told import Told

_CELLS_AT_ONCE = 2**18  # of the table, compared in one step
_SET_ASIDE_SHARE = 5  # one row in five
_SET_ASIDE_ROWS = 1000  # below it no rows can be spared for a last check


@dataclass(frozen=True)
class Fold:
    """Rows to learn from and rows held out, by number."""

    train: Ints
    test: Ints
    repeat: int  # folds of one repeat hold out different rows


@dataclass(frozen=True)
class Split:
    """How the rows of a table are used."""

    folds: tuple[Fold, ...]
    set_aside: Ints  # touched once, by the winner, at the end
    notices: tuple[Told, ...]

    @property
    def n_folds(self) -> int:
        """Parts of one repeat."""
        return sum(fold.repeat == self.folds[0].repeat for fold in self.folds)

    @property
    def development(self) -> Ints:
        """All rows but those set aside."""
        first = self.folds[0]
        return np.sort(np.concatenate([first.train, first.test]))


def default_repeats(n: int) -> int:
    """Small tables are split anew several times: their folds are noisy and cheap."""
    return 4 if n < 500 else 2 if n < 5000 else 1


def split_rows(
    X: Array,
    label: Array | None,
    *,
    n_folds: int = 5,
    n_repeats: int | None = None,
    set_aside: bool | None = None,
    random_state: int = 0,
) -> Split:
    """Folds, and rows set aside for a last check (by default if there are 1,000 rows or more)."""
    n = len(X)
    if n_repeats is not None and n_repeats < 1:
        raise InputError(f"n_repeats={n_repeats}: rows are split at least once.")
    if n_folds < 2 or n_folds != int(n_folds):
        raise InputError(f"n_folds={n_folds}: a whole number, at least 2, to learn and to judge.")
    if n < 2 * n_folds:
        raise InputError(
            f"{n} rows are too few to hold out some of them {n_folds} times: bring at least "
            f"{2 * n_folds}, or ask for fewer folds."
        )
    draw = np.random.default_rng(random_state)
    group = groups_of_equal_rows(X)
    stratum = np.zeros(n, dtype=np.int64) if label is None else _numbered(label)
    away = np.zeros(n, dtype=bool)
    if n >= _SET_ASIDE_ROWS if set_aside is None else set_aside:
        away = deal(group, stratum, _SET_ASIDE_SHARE, draw) == 0
    rows = np.flatnonzero(~away)
    lonely = np.zeros(n, dtype=bool)
    if label is not None:  # among what is left: a class may have lost all rows but one
        lonely[rows] = _lonely_rows(group[rows], stratum[rows])
    folds = []
    for repeat in range(default_repeats(n) if n_repeats is None else n_repeats):
        dealt = deal(group[rows], stratum[rows], n_folds, draw)
        dealt[lonely[rows]] = -1
        for part in range(n_folds):
            test = rows[dealt == part]
            if len(test):
                folds.append(Fold(rows[dealt != part], test, repeat))
    if not folds or min(len(fold.train) for fold in folds) == 0:
        raise InputError(
            "the rows cannot be split into rows to learn from and rows to judge by: nearly all "
            "of them are equal, or each class has one row only."
        )
    return Split(tuple(folds), np.flatnonzero(away), tuple(_notices(group, lonely)))


def groups_of_equal_rows(X: Array) -> Ints:
    """A number for each row; rows equal in all columns have the same one."""
    values = np.ascontiguousarray(X)
    if any(_has_negative_zero(values[part]) for part in spans(len(X), _rows_at_once(X))):
        values = values + np.zeros(1, dtype=X.dtype)  # -0.0 becomes 0.0
    as_bytes = values.view(np.dtype((np.void, values.itemsize * values.shape[1]))).ravel()
    order = np.argsort(as_bytes, kind="stable")  # moves row numbers, not rows
    starts = np.ones(len(X), dtype=np.int64)
    starts[:1] = 0
    for part in spans(len(X) - 1, _rows_at_once(X)):
        before, after = order[:-1][part], order[1:][part]
        starts[1:][part] = (values[before] != values[after]).any(axis=1)
    group = np.empty(len(X), dtype=np.int64)
    group[order] = np.cumsum(starts)
    return group


def _rows_at_once(X: Array) -> int:
    return max(1, _CELLS_AT_ONCE // max(1, X.shape[1]))


def _has_negative_zero(values: Array) -> bool:
    return bool((np.signbit(values) & (values == 0)).any())


def deal(group: Ints, stratum: Ints, n_folds: int, draw: np.random.Generator) -> Ints:
    """A fold for each row: groups whole, each stratum spread evenly."""
    _, first, member, size = np.unique(
        group, return_index=True, return_inverse=True, return_counts=True
    )
    order = draw.permutation(len(first))
    # Large groups first within their stratum: small ones then even out what they left uneven.
    order = order[np.lexsort((-size[order], stratum[first[order]]))]
    fold = np.empty(len(first), dtype=np.int64)
    total = np.zeros(n_folds)
    held, current = np.zeros(n_folds), -1
    for g in order:
        if stratum[first[g]] != current:
            held, current = np.zeros(n_folds), stratum[first[g]]
        chosen = int(np.lexsort((total, held))[0])
        fold[g] = chosen
        held[chosen] += size[g]
        total[chosen] += size[g]
    return fold[member]


def _numbered(label: Array) -> Ints:
    return np.asarray(np.unique(label, return_inverse=True)[1].ravel(), dtype=np.int64)


def _lonely_rows(group: Ints, stratum: Ints) -> Array:
    """Rows of classes that would have no row left to learn from, and the copies of such rows."""
    pairs = np.unique(np.stack([stratum, group]), axis=1)
    distinct = np.bincount(pairs[0], minlength=int(stratum.max()) + 1)
    return np.asarray(np.isin(group, group[distinct[stratum] < 2]))


def _notices(group: Ints, lonely: Array) -> list[Told]:
    notices = []
    copies = len(group) - (int(group.max()) + 1)
    if copies:
        notices.append(
            Told(
                f"{copies:,} rows are copies of others; copies are never split between learning "
                "and judging.",
                f"有 {copies:,} 行与其他行完全相同;相同的行总在同一折中。",
            )
        )
    if lonely.any():
        count = int(lonely.sum())
        notices.append(
            Told(
                f"{count:,} rows belong to classes with a single distinct row: they are learned "
                "from, never judged.",
                f"有 {count:,} 行所属类别只有一个不同的样本:只用于训练,不参与评分。",
            )
        )
    return notices
