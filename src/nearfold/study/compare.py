"""Which space makes nearest neighbours work on this table?

Every candidate space is fitted and judged on the same folds (trial.py), the differences are tested
row by row (verdict.py), and where there are rows enough the winner meets a fifth of them that
nothing before has touched (final.py).

How columns are prepared before a space is decided like d' and k: in each fold by how the prepared
columns themselves did in the other folds of its repeat.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nearfold.errors import Cancelled, InputError, reason
from nearfold.messages import Message
from nearfold.metrics.tuples import from_ids
from nearfold.notation import Array, Ints
from nearfold.run import reporter
from nearfold.study.candidates import Candidate, always_tried, pick_candidates
from nearfold.study.comparison import Comparison
from nearfold.study.final import FinalCheck, final_check
from nearfold.study.headline import Headline
from nearfold.study.intake import StudyTable, TableOptions, open_table
from nearfold.study.judges import Judge, LearnerJudge, NeighborJudge
from nearfold.study.make_judge import make_judge
from nearfold.study.question import Question, Status, Task, as_seconds
from nearfold.study.recipes import RAW, SCALED, Recipe
from nearfold.study.scores import default_score
from nearfold.study.showing import space_name
from nearfold.study.table import (
    require_copies,
    room_for,
    rows_within_budget,
    sample_by_class,
    sample_notice,
)
from nearfold.study.trial import SpaceResult, TrialPlan, try_space
from nearfold.study.verdict import Verdict, judge_results

_log = logging.getLogger(__name__)
_LARGEST_SHARE = 0.25  # of the time that is left, for one space
_FOR_SPACES = 0.85  # of the time; the rest is for the last check


def compare(
    X: Any,
    y: Any = None,
    *,
    label: str | None = None,
    target: str | None = None,
    task: str | None = None,
    pairs: Any = None,
    ids: Any = None,
    group: Any = None,
    time_column: Any = None,
    score: str | None = None,
    missing: str = "median",
    kinds: Mapping[str, str] | None = None,
    na: Sequence[str] = (),
    methods: Any = None,
    spaces: Mapping[str, Any] | None = None,
    supervised: Sequence[str] = (),
    n_neighbors: int | None = None,
    weights: str = "uniform",
    n_components: int | None = None,
    scale: bool | None = None,
    n_folds: int = 5,
    n_repeats: int | None = None,
    set_aside: bool | None = None,
    time_budget: float | str | None = None,
    max_points: int = 100_000,
    recall: float | None = None,
    random_state: int = 0,
) -> Comparison:
    """Try many spaces on a table and say in which one nearest neighbours work best.

    Parameters
    ----------
    X : path, frame or array
        The table. Columns of files and frames are used by kind: numbers, categories, dates,
        embeddings; ids and free text are left out. An array holds numbers.
    y : array-like, default=None
        A label or a target for each row. In a file or frame, name its column instead: `label`
        for classes, `target` for a number. Without both, and without pairs, spaces are judged by
        the neighbours they keep.
    task : {"classification", "regression"}, default=None
        What y is, if its values do not tell.
    pairs, ids : must-link and cannot-link pairs, as metric learners take them.
    group : column name or array-like, default=None
        Rows with the same value are never on both sides of a split.
    time_column : column name or array-like, default=None
        Rows are held out in order of time, and learned from earlier rows only.
    score : {"accuracy", "balanced_accuracy", "f1_macro", "log_loss", "roc_auc", "r2", "mae"}
        Default: R² for a target; accuracy for a label, balanced accuracy if one class dominates.
    missing : {"median", "mean", "zero", "drop", "error"}, default="median"
        What to do about missing numbers, learned from the training rows of each fold.
    kinds : dict, default=None
        Kinds of columns that are not as inferred, for example {"zip": "category"}.
    na : words that mean a missing value in every column of a file.
    methods : names of spaces, "default" or "all".
    spaces : dict, default=None
        Further spaces, from names to transformers of scikit-learn's kind. They are fitted
        without y unless they are named in `supervised` or require it.
    n_neighbors, weights : of the learner that judges; None: k is chosen within the folds.
    n_components : the same d' for all spaces; None: chosen (without y and pairs: 2).
    scale : whether columns are scaled before a space; None: decided by the held-out score.
    n_folds, n_repeats, set_aside : how rows are held out; None: by the size of the table.
    time_budget : seconds (or "90s", "15m") for all; a space is stopped at a step beyond its share.
    max_points : rows kept for the picture.
    recall : float, default=None
        Search nearest neighbours, and build neighbourhood graphs, approximately to this certified
        recall, as `NearestNeighbors(algorithm="approximate")` does. None: exactly.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfold import compare
    >>> X, y = load_wine(return_X_y=True)
    >>> found = compare(X, y, methods=["PCA", "LDA"])
    >>> found.verdict.reference, found.result("LDA").n_dimensions
    ('scaled', 2)
    """
    question = Question(
        task=Task(task) if task in list(Task) else None,
        score=score,
        methods=methods,
        spaces={} if spaces is None else spaces,
        supervised=supervised,
        n_neighbors=n_neighbors,
        weights=weights,
        n_components=n_components,
        scale=scale,
        n_folds=n_folds,
        n_repeats=n_repeats,
        set_aside=set_aside,
        time_budget=as_seconds(time_budget),
        max_points=max_points,
        recall=recall,
        random_state=random_state,
    )
    started = time.monotonic()
    options = TableOptions(
        label=label, target=target, group=group, time=time_column, missing=missing,
        kinds=kinds or {}, na=(na,) if isinstance(na, str) else tuple(na),
    )  # fmt: skip
    table = open_table(X, y, task, options)
    if pairs is not None:
        found = from_ids(np.empty((table.n_given, 0)), pairs, 2, ids=ids).without_repeats()
        pairs, lost = table.place_pairs(np.column_stack([found.rows, found.sign]))
        table = replace(table, notices=(*table.notices, *lost))
    return compare_table(table, question, pairs=pairs, started=started)


def compare_table(
    table: StudyTable,
    question: Question,
    *,
    pairs: Any = None,
    started: float | None = None,
) -> Comparison:
    """`compare` for a table that is open already, and pairs of its rows by position."""
    started = time.monotonic() if started is None else started
    n = len(table)
    linked = _pairs(table, pairs)
    table, sampled = _within_budget(table, linked is not None, question.random_state)
    with room_for(table.cells):
        judge = make_judge(table, question, linked)
        if judge.task == Task.NONE and question.n_components is None:
            question = replace(question, n_components=2)
        candidates = pick_candidates(question, table.cells, judge.task)
        _refuse_dimensions(question, table)
        plan = _plan(judge, question, len(candidates))
        _log.info("trying %d spaces on %d rows of %d features, %d folds", len(candidates),
                  len(table), len(table.cells.parts), len(judge.split.folds))  # fmt: skip
        results, stopped = _try_all(candidates, plan, started)
        verdict = judge_results(results, judge)
        recipe = _recipe_of_all(results, judge, question)
        final, trouble, cut_short = (None, None, True) if stopped else _check(verdict, plan, recipe)
    _log.info("done in %.1f s, winner: %s", time.monotonic() - started, verdict.winner)
    headline = Headline(verdict, judge, table.answer)
    notices = [*table.notices, *_notices(judge, results, recipe, question)]
    if sampled is not None:
        notices.insert(0, sample_notice(sampled, n))
    if trouble is not None:
        notices.append(trouble)
    return Comparison(
        judge, plan, tuple(results), verdict, headline.told(), tuple(headline.details()), recipe,
        final, tuple(notices), time.monotonic() - started, stopped or cut_short,
    )  # fmt: skip


def _pairs(table: StudyTable, pairs: Any) -> tuple[Ints, Array] | None:
    """Row numbers of the pairs, and which are alike."""
    if pairs is None:
        return None
    if table.y is not None:
        raise InputError(Message("study.y_or_pairs"))
    found = from_ids(table.cells.numbers, pairs, 2).without_repeats()
    return np.asarray(found.rows), np.asarray(found.sign) > 0


def _within_budget(table: StudyTable, paired: bool, seed: int) -> tuple[StudyTable, Ints | None]:
    """The table, or a sample of its rows if the copies of all of them would not fit."""
    if paired:  # pairs name rows: none can be left out
        require_copies(table.cells)
        return table, None
    label = table.y if table.task == Task.CLASSIFICATION else None
    rows = rows_within_budget(table.cells, label, seed)
    return (table, None) if rows is None else (table.take(rows), rows)


def _refuse_dimensions(question: Question, table: StudyTable) -> None:
    asked = question.n_components
    if asked is not None and asked > table.cells.width:
        raise InputError(Message("words.from_to", name="n_components", value=asked, low=1,
                                 high=table.cells.width))  # fmt: skip


def _check(
    verdict: Verdict, plan: TrialPlan, recipe: Recipe
) -> tuple[FinalCheck | None, Message | None, bool]:
    """The last check, or why there is none (what was found before must not be lost by it), and
    whether Ctrl-C ended it.
    """
    try:
        return final_check(verdict, plan, recipe), None, False
    except (KeyboardInterrupt, Cancelled):
        why, stopped = Message("study.stopped"), True
    except Exception as error:
        why, stopped = reason(error), False
    return None, Message("study.no_final", why=why), stopped


def _plan(judge: Judge, question: Question, count: int) -> TrialPlan:
    labels = judge.y if isinstance(judge, LearnerJudge) and judge.classes is not None else None
    rows = np.arange(len(judge.table)) if judge.task == Task.PAIRS else judge.split.development
    known = None if labels is None else labels[rows]
    draw = np.random.default_rng(question.random_state)
    view = rows[sample_by_class(known, len(rows), question.max_points, draw)]
    n_classes = 0 if labels is None else len(np.unique(labels))
    return TrialPlan(judge, question, view, n_classes, 0, count * len(judge.split.folds))


def _try_all(
    candidates: list[Candidate], plan: TrialPlan, started: float
) -> tuple[list[SpaceResult], bool]:
    """Every space on trial; Ctrl-C ends it with what is finished."""
    results: list[SpaceResult] = []
    judge, budget = plan.judge, plan.question.time_budget
    folds = judge.split.folds
    try:
        for i, candidate in enumerate(candidates):
            free = budget is None or candidate.name in always_tried(judge.task)
            share = None
            if not free and budget is not None:
                left = max(_FOR_SPACES * budget - (time.monotonic() - started), 0.0)
                # One space may take a quarter of what is left: few need it, and it is not lost.
                share = left * max(1 / (len(candidates) - i), _LARGEST_SHARE)
            here = replace(plan, first=i * len(folds))
            recipes = [
                _recipes(candidate, results, judge, plan.question, j) for j in range(len(folds))
            ]
            results.append(try_space(candidate, here, recipes, share))
            _log.info("%s: %s", candidate.name, "; ".join(
                [results[-1].status.value, *map(str, results[-1].notes)]))  # fmt: skip
        reporter()("Spaces tried", plan.total, plan.total)
    except (KeyboardInterrupt, Cancelled):
        if not results:
            raise
        return results, True
    return results, False


def _recipes(
    candidate: Candidate, results: list[SpaceResult], judge: Judge, question: Question, fold: int
) -> list[Recipe]:
    """How columns are prepared for a space in one fold, as the other folds decide."""
    if candidate.recipes:
        return list(candidate.recipes)
    if isinstance(judge, NeighborJudge):
        return [judge.original]
    if question.scale is not None:
        return [SCALED if question.scale else RAW]
    others = judge.split.choosing(fold, len(judge.split.folds))
    return [_best_recipe(results, others)]


def _best_recipe(results: list[SpaceResult], folds: Ints) -> Recipe:
    """That of the plain columns which did best in these folds, each with its best k."""
    best, found = -np.inf, RAW
    for result in results:
        plain = result.candidate.is_plain and result.status == Status.FINISHED
        if not plain or len(folds) == 0:
            continue
        mean = result.scores[folds].mean(axis=0).max(axis=(1, 2))  # of each recipe
        at = int(mean.argmax())
        recipe = result.candidate.recipes[at]
        if mean[at] > best and recipe.metric == "euclidean":
            best, found = float(mean[at]), recipe
    return found


def _recipe_of_all(results: list[SpaceResult], judge: Judge, question: Question) -> Recipe:
    if isinstance(judge, NeighborJudge):
        return judge.original
    if question.scale is not None:
        return SCALED if question.scale else RAW
    return _best_recipe(results, np.arange(len(judge.split.folds)))


def _notices(
    judge: Judge, results: list[SpaceResult], recipe: Recipe, question: Question
) -> list[Message]:
    notices = list(judge.split.notices)
    if isinstance(judge, LearnerJudge) and question.score is None and judge.classes is not None:
        default = default_score(judge.y, judge.task.value)
        if default.name != "accuracy":
            largest = float(judge.prior.max()) if judge.prior is not None else 0.0
            notices.append(Message("study.balanced", share=f"{100 * largest:.0f}"))
    if recipe.name != "raw":
        why = "units" if judge.task == Task.NONE else "score"
        notices.append(
            Message(f"study.recipe.{recipe.name}", why=Message(f"study.recipe_why.{why}"))
        )
    sampled = [r for r in results if 0 < r.fit_rows < r.train_rows]
    if sampled:
        listed = [
            Message("study.fitted_on", space=space_name(r.name), n=r.fit_rows) for r in sampled
        ]
        notices.append(Message("study.fitted_on_sample", spaces=listed))
    if question.recall is not None:
        notices.append(Message("study.approximate", recall=f"{question.recall:g}"))
    aside = len(judge.split.set_aside)
    if aside:
        notices.append(Message("study.set_aside", n=aside))
    return notices
