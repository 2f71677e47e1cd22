"""Which rows are held out: the same folds for every space.

Rows are assigned to folds class by class, so that every fold has its share of each. Rows that
belong together stay together: copies of one another, and rows of one group (a patient, a
household). A class that has only one such unit is never held out. With a time column the rows of
a fold are later than all rows it learns from, and the first fold only chooses settings; of groups
that are held out no earlier row is learned from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearfold.blocks import spans
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array, Floats, Ints

_CELLS_AT_ONCE = 2**18  # of the table, compared in one step
_SET_ASIDE_SHARE = 5  # one row in five
_SET_ASIDE_ROWS = 1000  # below it no rows can be spared for a last check


@dataclass(frozen=True)
class Fold:
    """Rows to learn from and rows held out, by number."""

    train: Ints
    test: Ints
    repeat: int  # folds of one repeat hold out different rows
    judged: bool = True  # whether its score counts, not only its choice


@dataclass(frozen=True)
class Split:
    """How the rows of a table are used."""

    folds: tuple[Fold, ...]
    set_aside: Ints  # touched once, by the winner, at the end
    development: Ints  # the rows that a model may learn from before it meets those
    notices: tuple[Message, ...]
    in_time: bool = False

    @property
    def n_folds(self) -> int:
        """Parts of one repeat."""
        return sum(fold.repeat == self.folds[0].repeat for fold in self.folds)

    @property
    def n_repeats(self) -> int:
        """How often the rows are split."""
        return 1 + max(fold.repeat for fold in self.folds)

    @property
    def judged(self) -> Ints:
        """Rows that are held out in some fold that counts."""
        return np.unique(np.concatenate([fold.test for fold in self.folds if fold.judged]))

    @property
    def test_train_ratio(self) -> float:
        """Held-out rows per training row."""
        return float(np.mean([len(f.test) / len(f.train) for f in self.folds]))

    def choosing(self, i: int, among: int) -> Ints:
        """The folds (of the first `among`) that choose settings for fold i: never itself.

        Those of its repeat; in time only earlier ones. Empty if there are none.
        """
        repeat = np.array([fold.repeat for fold in self.folds[:among]])
        number = np.arange(among)
        chosen = number < i if self.in_time else (repeat == self.folds[i].repeat) & (number != i)
        return np.flatnonzero(chosen)


def default_repeats(n: int) -> int:
    """Small tables are split anew several times: their folds are noisy and cheap."""
    return 4 if n < 500 else 2 if n < 5000 else 1


def split_rows(
    copies: Ints,
    label: Array | None = None,
    *,
    group: Array | None = None,
    time: Floats | None = None,
    n_folds: int = 5,
    n_repeats: int | None = None,
    set_aside: bool | None = None,
    random_state: int = 0,
) -> Split:
    """Folds, and rows set aside for a last check (by default if there are 1,000 rows or more).

    `copies`: rows with the same number are equal. `group`: rows with the same value belong
    together. `time`: when each row was seen.
    """
    n = len(copies)
    if n < 2 * n_folds:
        raise InputError(Message("study.few_rows", n=n, folds=n_folds, least=2 * n_folds))
    aside = n >= _SET_ASIDE_ROWS if set_aside is None else set_aside
    if time is not None:
        return _split_in_time(time, group, n_folds, aside)
    unit = units(copies, group)
    if len(np.unique(unit)) < n_folds:
        raise InputError(Message("study.few_groups", n=len(np.unique(unit)), folds=n_folds))
    draw = np.random.default_rng(random_state)
    stratum = np.zeros(n, dtype=np.int64) if label is None else numbered(label)
    away = np.zeros(n, dtype=bool)
    if aside:
        away = assign_folds(unit, stratum, _SET_ASIDE_SHARE, draw) == 0
    rows = np.flatnonzero(~away)
    singleton = np.zeros(n, dtype=bool)
    if label is not None:  # among what is left: a class may have lost all rows but one
        singleton[rows] = _singleton_rows(unit[rows], stratum[rows])
    folds = []
    for repeat in range(default_repeats(n) if n_repeats is None else n_repeats):
        assigned = assign_folds(unit[rows], stratum[rows], n_folds, draw)
        assigned[singleton[rows]] = -1
        for part in range(n_folds):
            test = rows[assigned == part]
            if len(test):
                folds.append(Fold(rows[assigned != part], test, repeat))
    if not folds or min(len(fold.train) for fold in folds) == 0:
        raise InputError(Message("study.no_split"))
    notices = _notices(copies, singleton, group)
    return Split(tuple(folds), np.flatnonzero(away), rows, tuple(notices))


def _split_in_time(time: Floats, group: Array | None, n_folds: int, aside: bool) -> Split:
    """Each fold holds out a stretch of time and learns from all other groups that came before."""
    if not np.isfinite(time).all():
        raise InputError(Message("study.time_gaps"))
    n = len(time)
    moment = numbered(time)  # rows of one moment stay together
    if moment.max() < n_folds:
        raise InputError(Message("study.few_times", n=int(moment.max()) + 1, folds=n_folds))
    order = np.argsort(moment, kind="stable")
    until = round(n * (1 - 1 / _SET_ASIDE_SHARE)) if aside else n
    cuts = np.linspace(0, until, n_folds + 2)[1:-1].round().astype(np.int64)
    borders = [int(np.searchsorted(moment[order], moment[order[cut]])) for cut in cuts]
    last = n
    if aside:
        last = int(np.searchsorted(moment[order], moment[order[until]]))
    borders = sorted({border for border in borders if 0 < border < last})
    if not borders:
        raise InputError(Message("study.one_moment"))
    ends = [*borders[1:], last]
    only_chooses = len(borders) >= 3  # the first step, if there are enough others
    folds = []
    for i, (start, end) in enumerate(zip(borders, ends, strict=True)):
        train = _of_other_groups(order[:start], order[start:end], group)
        if len(train) == 0:
            raise InputError(Message("study.no_earlier_groups"))
        folds.append(Fold(train, np.sort(order[start:end]), 0, judged=i > 0 or not only_chooses))
    notices = [Message("study.in_time", n=len(folds))]
    if only_chooses:
        notices.append(Message("study.first_step"))
    if group is not None:
        notices.append(Message("study.groups_in_time", n=len(np.unique(group))))
    development = _of_other_groups(order[:last], order[last:], group)
    return Split(tuple(folds), np.sort(order[last:]), development, tuple(notices), in_time=True)


def _of_other_groups(rows: Ints, held_out: Ints, group: Array | None) -> Ints:
    """Those rows whose groups have no row among the ones held out."""
    return np.sort(rows if group is None else rows[~np.isin(group[rows], group[held_out])])


def units(copies: Ints, group: Array | None) -> Ints:
    """A number for each row; rows that must stay together have the same one."""
    if group is None:
        return copies
    a, b = numbered(copies), numbered(group)
    n = int(a.max()) + 1
    return joined(a, n + b, n + int(b.max()) + 1)


def joined(a: Ints, b: Ints, n: int) -> Ints:
    """For each link from a to b, the number of the set that links join, among n things."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(a)), (a, b)), shape=(n, n))
    return np.asarray(connected_components(links, directed=False)[1][a], dtype=np.int64)


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
        starts[1:][part] = as_bytes[before] != as_bytes[after]
    group = np.empty(len(X), dtype=np.int64)
    group[order] = np.cumsum(starts)
    return group


def _rows_at_once(X: Array) -> int:
    return max(1, _CELLS_AT_ONCE // max(1, X.shape[1]))


def _has_negative_zero(values: Array) -> bool:
    return bool((np.signbit(values) & (values == 0)).any())


def assign_folds(unit: Ints, stratum: Ints, n_folds: int, draw: np.random.Generator) -> Ints:
    """A fold for each row: units whole, each stratum spread evenly."""
    _, first, member, size = np.unique(
        unit, return_index=True, return_inverse=True, return_counts=True
    )
    order = draw.permutation(len(first))
    # Large units first within their stratum: small ones then even out what they left uneven.
    order = order[np.lexsort((-size[order], stratum[first[order]]))]
    fold = np.empty(len(first), dtype=np.int64)
    total = np.zeros(n_folds)
    held, current = np.zeros(n_folds), -1
    for u in order:
        if stratum[first[u]] != current:
            held, current = np.zeros(n_folds), stratum[first[u]]
        chosen = int(np.lexsort((total, held))[0])
        fold[u] = chosen
        held[chosen] += size[u]
        total[chosen] += size[u]
    return fold[member]


def numbered(label: Array) -> Ints:
    """0, 1, ... for the values of a vector, in their order."""
    return np.asarray(np.unique(label, return_inverse=True)[1].ravel(), dtype=np.int64)


def _singleton_rows(unit: Ints, stratum: Ints) -> Array:
    """Rows of classes that would have no row left to learn from, and what belongs to them."""
    pairs = np.unique(np.stack([stratum, unit]), axis=1)
    distinct = np.bincount(pairs[0], minlength=int(stratum.max()) + 1)
    return np.asarray(np.isin(unit, unit[distinct[stratum] < 2]))


def _notices(copies: Ints, singleton: Array, group: Array | None) -> list[Message]:
    notices = []
    repeated = len(copies) - len(np.unique(copies))
    if repeated:
        notices.append(Message("study.copies", n=repeated))
    if singleton.any():
        notices.append(Message("study.singletons", n=int(singleton.sum())))
    if group is not None:
        notices.append(Message("study.groups", n=len(np.unique(group))))
    return notices
