"""Which space makes nearest neighbours work on this table?

Every candidate space is fitted and judged on the same folds (trial.py), the differences are tested
(verdict.py), and where there are rows enough the winner meets a fifth of them that nothing before
has touched.

Whether columns are scaled before a space is decided like d': in each fold by how the raw and the
scaled columns did in the other folds of its repeat.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nearfold.errors import Cancelled, InputError
from nearfold.inputs import refuse_extreme
from nearfold.notation import Array, Ints
from nearfold.run import reporter
from nearfold.study.answers import check_answers
from nearfold.study.appoint import appoint, refuse_options
from nearfold.study.candidates import Candidate, always_tried, pick_candidates
from nearfold.study.comparison import Comparison
from nearfold.study.final import FinalCheck, final_check
from nearfold.study.folds import Fold
from nearfold.study.headline import Headline
from nearfold.study.judges import Judge, LearnerJudge
from nearfold.study.table import (
    largest,
    read_rows,
    require_copies,
    room_for,
    rows_within_budget,
    sample_by_class,
    sample_notice,
)
from nearfold.study.told import Told
from nearfold.study.trial import (
    FINISHED,
    SpaceResult,
    TrialPlan,
    try_space,
)
from nearfold.study.verdict import Verdict, judge_results

_VIEW_ROWS = 100_000
_LARGEST_SHARE = 0.25  # of the time that is left, for one space


def compare(
    X: Any,
    y: Any = None,
    *,
    task: str | None = None,
    pairs: Any = None,
    ids: Any = None,
    methods: Any = None,
    spaces: Mapping[str, Any] | None = None,
    n_neighbors: int | None = None,
    weights: str = "uniform",
    n_components: int | None = None,
    scale: bool | None = None,
    n_folds: int = 5,
    n_repeats: int | None = None,
    set_aside: bool | None = None,
    time_budget: float | None = None,
    max_points: int = _VIEW_ROWS,
    random_state: int = 0,
    columns: tuple[str, ...] | None = None,
) -> Comparison:
    """Try many spaces on a table and say in which one nearest neighbours work best.

    Parameters
    ----------
    X : table of numbers, an array or a frame.
    y : a label or a target for each row; `task` is "classification" or "regression" if the values
        do not tell. Without y and pairs, spaces are judged by the neighbours they keep.
    pairs, ids : must-link and cannot-link pairs, as metric learners take them.
    methods : names of spaces, "default" or "all". `spaces`: further ones, name -> any transformer.
    n_neighbors, weights : of the learner that judges; None: 5, or fewer if the rows are few.
    n_components : the same d' for all spaces; None: chosen (without y and pairs: 2).
    scale : whether columns are scaled before a space; None: decided by the held-out score.
    n_folds, n_repeats, set_aside : how rows are held out; None: by the size of the table.
    time_budget : seconds for all; each space has its share, and is stopped at a step beyond it.
    max_points : rows kept for the picture. `columns`: their names, if X has none.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfold import compare
    >>> X, y = load_wine(return_X_y=True)
    >>> found = compare(X, y, methods=["PCA", "LDA"])
    >>> found.winner, found.result("LDA").n_dimensions
    ('LDA', 2)
    """
    started = time.monotonic()
    named = tuple(str(c) for c in X.columns) if hasattr(X, "columns") else columns
    X = read_rows(X)
    columns = named or tuple(f"x{j}" for j in range(X.shape[1]))
    options = {
        "n_folds": n_folds,
        "n_repeats": n_repeats,
        "set_aside": set_aside,
        "random_state": random_state,
    }
    refuse_extreme(largest(X), X.dtype)
    if n_folds < 2:
        raise InputError(f"n_folds={n_folds}: at least 2 are needed, to learn and to judge.")
    refuse_options(n_components, weights, max_points, time_budget, len(columns), X.shape[1])
    n = len(X)
    X, y, task, rows = _within_budget(X, y, task, pairs, random_state)
    with room_for(X):
        judge, scaled = appoint(X, y, task, (pairs, ids), n_neighbors, weights, scale, options)
        if judge.task == "none" and n_components is None:
            n_components = 2
        candidates = pick_candidates(judge.task, methods, spaces)
        plan = _plan(judge, n_components, random_state, max_points, len(candidates))
        results, stopped = _try_all(candidates, plan, scaled, started, time_budget)
        reference = "PCA" if judge.task == "none" else "raw"
        verdict = judge_results(results, judge, reference)
        overall = _scaled_by_all(results) if scaled is None else scaled
        final, trouble, cut_short = (
            (None, None, True) if stopped else _check(verdict, plan, overall)
        )
    notices = _notices(judge, plan, results, overall if scale is None else None)
    if rows is not None:
        notices = (sample_notice(rows, n), *notices)
    return Comparison(
        judge,
        plan,
        tuple(results),
        verdict,
        Headline(verdict, judge).told(),
        columns,
        overall,
        final,
        notices if trouble is None else (*notices, trouble),
        time.monotonic() - started,
        stopped or cut_short,
        rows,
    )


def _within_budget(
    X: Array, y: Any, task: str | None, pairs: Any, seed: int
) -> tuple[Array, Any, str | None, Ints | None]:
    """X, y and the task, or a sample of the rows if the copies of all of them would not fit."""
    if pairs is not None:  # they name rows: none can be left out
        require_copies(X)
        return X, y, task, None
    if y is not None:
        y, task = check_answers(y, len(X), task)
    rows = rows_within_budget(X, y if task == "classification" else None, seed)
    if rows is None:
        return X, y, task, None
    return X[rows], None if y is None else y[rows], task, rows


def _check(
    verdict: Verdict, plan: TrialPlan, scaled: bool
) -> tuple[FinalCheck | None, Told | None, bool]:
    """The last check, or why there is none (what was found before must not be lost by it), and
    whether Ctrl-C ended it.
    """
    try:
        return final_check(verdict, plan, scaled), None, False
    except (KeyboardInterrupt, Cancelled):
        why, stopped = "stopped", True
    except Exception as error:
        why, stopped = " ".join(str(error).split())[:200], False
    told = Told(
        f"The last check on rows set aside did not end ({why}).",
        f"在留出行上的最后检验没有完成({why})。",
    )
    return None, told, stopped


def _plan(judge: Judge, n_axes: int | None, seed: int, max_points: int, count: int) -> TrialPlan:
    labels = judge.y if isinstance(judge, LearnerJudge) and judge.is_share else None
    rows = np.arange(len(judge.X)) if judge.task == "pairs" else judge.split.development
    known = None if labels is None else labels[rows]
    view = rows[sample_by_class(known, len(rows), max_points, np.random.default_rng(seed))]
    n_classes = 0 if labels is None else len(np.unique(labels))
    total = count * len(judge.split.folds)
    return TrialPlan(judge, n_axes, seed, view, n_classes, 0, total)


def _try_all(
    candidates: list[Candidate],
    plan: TrialPlan,
    scaled: bool | None,
    started: float,
    budget: float | None,
) -> tuple[list[SpaceResult], bool]:
    """Every space on trial; Ctrl-C ends it with what is finished."""
    results: list[SpaceResult] = []
    folds = plan.judge.split.folds
    try:
        for i, candidate in enumerate(candidates):
            left = None if budget is None else budget - (time.monotonic() - started)
            # One space may take a quarter of what is left: few need it, and it is not lost.
            fair = max(1 / (len(candidates) - i), _LARGEST_SHARE)
            free = left is None or candidate.name in always_tried(plan.judge.task)
            share = None if free or left is None else max(left, 0.0) * fair
            here = replace(plan, first=i * len(folds))
            results.append(try_space(candidate, here, _scaling(results, folds, scaled), share))
        reporter()("Spaces tried", plan.total, plan.total)
    except (KeyboardInterrupt, Cancelled):
        if not results:
            raise
        return results, True
    return results, False


def _scaling(
    results: list[SpaceResult], folds: tuple[Fold, ...], scaled: bool | None
) -> list[bool]:
    """Whether columns are scaled, fold by fold, decided by the other folds of the repeat."""
    if scaled is not None:
        return [scaled] * len(folds)
    by_name = {r.name: r for r in results if r.status == FINISHED}
    if "raw" not in by_name or "scaled" not in by_name:
        return [False] * len(folds)
    gain = by_name["scaled"].scores[:, 0] - by_name["raw"].scores[:, 0]
    repeat = np.array([fold.repeat for fold in folds])
    decided = []
    for i in range(len(folds)):
        others = (repeat == repeat[i]) & (np.arange(len(folds)) != i)
        decided.append(bool(others.any() and gain[others].mean() > 0))
    return decided


def _scaled_by_all(results: list[SpaceResult]) -> bool:
    by_name = {r.name: r for r in results if r.status == FINISHED}
    if "raw" not in by_name or "scaled" not in by_name:
        return False
    return bool(by_name["scaled"].scores.mean() > by_name["raw"].scores.mean())


def _notices(
    judge: Judge, plan: TrialPlan, results: list[SpaceResult], scaled: bool | None
) -> tuple[Told, ...]:
    notices = list(judge.split.notices)
    if scaled:
        why = (
            Told("the columns have different units", "各列单位不同")
            if judge.task == "none"
            else Told("held-out rows do better so", "这样留出样本的得分更高")
        )
        notices.append(
            Told(
                "Columns are scaled to unit variance before each of our spaces but the raw one: "
                f"{why.en}.",
                f"除原始空间外,各列先标准化为单位方差:{why.zh}。",
            )
        )
    sampled = [r for r in results if 0 < r.fit_rows < r.train_rows]
    if sampled:
        listed = ", ".join(f"{r.name} ({r.fit_rows:,})" for r in sampled)
        notices.append(
            Told(
                f"Fitted on a sample of the training rows, all other rows transformed: {listed}.",
                f"用训练行的一个样本拟合,其余行由变换得到:{listed}。",
            )
        )
    aside = len(judge.split.set_aside)
    if aside:
        notices.append(
            Told(
                f"{aside:,} rows were set aside for a last check of a winner; they are in no fold "
                "and in no picture.",
                f"有 {aside:,} 行留作对胜出空间的最后检验,不在任何一折和图中。",
            )
        )
    return tuple(notices)
