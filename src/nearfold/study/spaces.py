"""One space to look at, fitted when it is chosen: all rows in it, and its held-out score.

The score is that of a comparison (trial.py) on a small plan: one split into five folds of at most
1,000 rows, the number of dimensions and the k of the learner chosen within them. The space is then
fitted on a sample (all rows where its method can take them) and the other rows are transformed.
Progress and cancel are those of all long work (run.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from sklearn.pipeline import Pipeline

from nearfold.columns.frames import show
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Floats
from nearfold.study.candidates import Candidate, all_candidates, own_names
from nearfold.study.final import fit_space
from nearfold.study.intake import StudyTable
from nearfold.study.judges import Judge
from nearfold.study.link_learning import stopping
from nearfold.study.make_judge import make_judge, plain_recipe
from nearfold.study.question import Question, Status, Task
from nearfold.study.recipes import Recipe
from nearfold.study.showing import ScoreValue, space_name
from nearfold.study.significance import Interval
from nearfold.study.table import sample_by_class
from nearfold.study.trial import SpaceResult, TrialPlan, try_space
from nearfold.study.verdict import JudgedRows

_JUDGED = 1_000  # rows of the trial
_FITTED = 20_000  # rows that a space is fitted on, or as many as its method takes
_AXES = 3  # of a space without answers, where no score can choose: as many as a picture shows


@dataclass(frozen=True, eq=False)
class FittedSpace:
    """A space with all rows in it."""

    name: str
    model: Pipeline
    coordinates: Floats
    fit_rows: int
    score: Interval
    told: Message  # the score in words


def open_space(
    table: StudyTable,
    name: str,
    seed: int = 0,
    should_stop: Callable[[], bool] | None = None,
) -> FittedSpace:
    """Fit a space by its name, judge it on held-out rows, and place all rows in it."""
    task = table.task or Task.NONE
    candidate = _find(table, task, name)
    with stopping(should_stop):
        plan = _plan(_some(table, _JUDGED, seed), seed)
        recipe = plain_recipe(table.cells, None)
        result = _try(candidate, plan, recipe)
        score, told = _score(result, plan.judge)
        largest = _some(table, _FITTED, seed)
        if len(largest) > len(plan.judge.table):
            plan = replace(plan, judge=make_judge(largest, plan.question))
        model = fit_space(result, plan, np.arange(len(largest)), recipe)
        coordinates = place_rows(model, table)
    return FittedSpace(name, model, coordinates, len(largest), score, told)


def place_rows(model: Pipeline, table: StudyTable) -> Floats:
    """All rows of the table in the space of a model."""
    Z = model.steps[0][1].encode(table.cells)
    for _, step in model.steps[1:]:
        Z = step.transform(Z)
    return np.asarray(Z)


def _find(table: StudyTable, task: Task, name: str) -> Candidate:
    known = own_names(table.cells, task)
    for candidate in all_candidates(table.cells, task):
        if candidate.name == name and name in known:
            return candidate
    raise InputError(Message("session.space", value=show(name), known=list(known)))


def _some(table: StudyTable, most: int, seed: int) -> StudyTable:
    """A sample of the rows, every class in proportion."""
    label = table.y if table.task == Task.CLASSIFICATION else None
    rows = sample_by_class(label, len(table), most, np.random.default_rng(seed))
    return table if len(rows) == len(table) else table.take(rows)


def _plan(table: StudyTable, seed: int) -> TrialPlan:
    axes = None if table.y is not None else max(1, min(_AXES, table.cells.width))
    question = Question(n_repeats=1, set_aside=False, random_state=seed, n_components=axes)
    judge = make_judge(table, question)
    labels = table.y if table.task == Task.CLASSIFICATION else None
    n_classes = 0 if labels is None else len(np.unique(labels))
    return TrialPlan(judge, question, np.arange(1), n_classes, 0, len(judge.split.folds))


def _try(candidate: Candidate, plan: TrialPlan, recipe: Recipe) -> SpaceResult:
    recipes = list(candidate.recipes) or [recipe]
    result = try_space(candidate, plan, [recipes] * len(plan.judge.split.folds), None)
    if result.status != Status.FINISHED:
        why = result.trouble or Message("study.stopped")
        raise InputError(Message("space.failed", space=space_name(candidate.name), why=why))
    return result


def _score(result: SpaceResult, judge: Judge) -> tuple[Interval, Message]:
    score = JudgedRows({result.name: result.judged}, judge).score(result.name)
    value, low, high = (ScoreValue.of(v, judge) for v in (score.mean, score.low, score.high))
    return score, Message("space.score", score=judge.score_name, value=value, low=low, high=high,
                          n=len(judge.split.judged), k=result.n_neighbors)  # fmt: skip
