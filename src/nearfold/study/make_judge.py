"""The judge of a comparison: chosen by what is known about the rows, with its folds."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from nearfold.columns.cells import Cells
from nearfold.errors import InputError, warn
from nearfold.messages import Message
from nearfold.notation import Array, Ints
from nearfold.study.folds import split_rows
from nearfold.study.intake import StudyTable
from nearfold.study.judges import Judge, LearnerJudge, NeighborJudge, PairJudge
from nearfold.study.learner import nearest
from nearfold.study.pair_folds import split_pairs
from nearfold.study.question import NEIGHBORS, Question, Task
from nearfold.study.recipes import RAW, SCALED, Preparations, Recipe
from nearfold.study.scores import SCORES, Score, ScoreName, default_score

_DIFFERENT_UNITS = 10.0  # ranges of columns that differ more than this are not of one kind
_KEPT = 5  # neighbours that a space without label is asked to keep


def make_judge(
    table: StudyTable, question: Question, pairs: tuple[Ints, Array] | None = None
) -> Judge:
    """The judge for what is known about the rows; `pairs`: row numbers, and which are alike."""
    prepare = Preparations(
        table.cells, table.columns, table.missing, question.random_state, table.y
    )
    options: dict[str, Any] = {
        "n_folds": question.n_folds,
        "n_repeats": question.n_repeats,
        "random_state": question.random_state,
    }
    search = partial(nearest, recall=question.recall, seed=question.random_state)
    if pairs is not None:
        split = split_pairs(*pairs, len(table), **options)
        return PairJudge(table, split, prepare, *pairs)
    options |= {"group": table.group, "time": table.time}
    if table.y is None:
        split = split_rows(table.copies, None, set_aside=False, **options)
        k = _neighbors(question.n_neighbors, [len(f.train) for f in split.folds])
        original = plain_recipe(table.cells, question.scale)
        return NeighborJudge(table, split, prepare, original=original, k=k[0], search=search)
    label = table.y if table.task == Task.CLASSIFICATION else None
    split = split_rows(table.copies, label, set_aside=question.set_aside, **options)
    ks = _ks(question.n_neighbors, [len(f.train) for f in split.folds])
    return LearnerJudge(table, split, prepare, score=_score(table, question), ks=ks,
                        weights=question.weights, search=search)  # fmt: skip


def _score(table: StudyTable, question: Question) -> Score:
    assert table.task is not None
    if question.score is None:
        return default_score(table.y, table.task.value)
    score = SCORES[ScoreName(question.score)]
    if score.task != table.task:
        raise InputError(Message("study.other_score", score=repr(question.score),
                                 of=Task(score.task).shown, task=table.task.shown))  # fmt: skip
    return score


def _ks(k: int | None, train: list[int]) -> tuple[int, ...]:
    """The k that was asked for, or those to choose from."""
    if k is not None:
        return _neighbors(k, train)
    return tuple(n for n in NEIGHBORS if n <= max(1, min(train) // 2)) or (1,)


def _neighbors(k: int | None, train: list[int]) -> tuple[int]:
    """As many as asked for, or five, or as there are in the training rows of a fold."""
    most = max(1, min(train) - 1)
    if k is not None and not 1 <= k <= most:
        raise InputError(Message("study.few_neighbors", k=k, n=most + 1, most=most))
    if k is None and most < _KEPT:
        warn(Message("study.fewer_kept", n=most + 1, most=most, usual=_KEPT))
    return (min(_KEPT, most) if k is None else k,)


def plain_recipe(cells: Cells, scale: bool | None) -> Recipe:
    """Raw or scaled columns, where no score can decide: scaled if their ranges are far apart."""
    if scale is None:
        scale = cells.codes.shape[1] > 0 or different_units(cells)
    return SCALED if scale else RAW


def different_units(cells: Cells) -> bool:
    """Whether columns have ranges that differ so much that some would not count."""
    if cells.numbers.shape[1] == 0:
        return False
    known = np.isfinite(cells.numbers)
    low = np.min(cells.numbers, axis=0, where=known, initial=np.inf)
    high = np.max(cells.numbers, axis=0, where=known, initial=-np.inf)
    reach = high.astype(np.float64) - low
    reach = reach[reach > 0]
    if len(reach) == 0:
        return False
    small, large = np.quantile(reach, [0.05, 0.95])
    return bool(large > _DIFFERENT_UNITS * small)
