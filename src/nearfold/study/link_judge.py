"""What a taught metric gained, on what it was not taught.

Links: the pairs that were told are split so that no row, and so no group of linked rows, is on both
sides (pair_folds.py); the learner is chosen and fitted anew from one side, and the
other is judged by the AUC with which distance tells alike from different. Labels: 3-NN in the
scaled and in the learned space, among rows of which the metric was told nothing, cross-validated.
Both with the intervals and the test that a comparison of spaces has (significance.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.errors import InputError, hearing, reason
from nearfold.messages import Message
from nearfold.notation import Floats, Ints
from nearfold.run import one_blas_thread, steps
from nearfold.study.folds import Fold
from nearfold.study.intake import StudyTable
from nearfold.study.judges import Judge, Outcome, PairJudge, Placed
from nearfold.study.learner_choice import choose_learner, split_lesson
from nearfold.study.lessons import Lesson
from nearfold.study.link_learning import LearnedSpace, stopping
from nearfold.study.make_judge import make_judge
from nearfold.study.question import Question, Task
from nearfold.study.recipes import Preparations
from nearfold.study.session import Session
from nearfold.study.showing import ScoreValue
from nearfold.study.significance import Contrast, Interval
from nearfold.study.table import sample_by_class
from nearfold.study.verdict import JudgedRows

_NEIGHBORS = 3
_MOST_JUDGED = 1_000  # rows with a label
_REPEATS = 3  # of the halves or folds of links


@dataclass(frozen=True)
class Gain:
    """A held-out score before and after learning, each with its interval, and their difference."""

    n: int  # held-out links, or rows
    before: Interval
    after: Interval
    difference: Contrast
    told: Message

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        parts = {"before": self.before, "after": self.after}
        shown = {k: {"score": v.mean, "low": v.low, "high": v.high} for k, v in parts.items()}
        gain = self.difference
        return {
            "n": self.n,
            **shown,
            "difference": {"value": gain.difference, "low": gain.low, "high": gain.high},
            "p": gain.p,
            "told": self.told.as_dict(),
        }


@dataclass(frozen=True)
class LinkJudgement:
    """What was gained on links and on labels, or why that cannot be said."""

    links: Gain | Message
    labels: Gain | Message

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"links": self.links.as_dict(), "labels": self.labels.as_dict()}


def judge_learning(
    table: StudyTable,
    session: Session,
    learned: LearnedSpace,
    should_stop: Callable[[], bool] | None = None,
) -> LinkJudgement:
    """How well held-out links, and held-out labels if there are any, are told before and after."""
    with stopping(should_stop), one_blas_thread(), hearing():
        return LinkJudgement(
            _judge_links(table, session, learned), _judge_labels(table, session, learned)
        )


def _judge_links(table: StudyTable, session: Session, learned: LearnedSpace) -> Gain | Message:
    lesson, ground = learned.lesson, learned.ground
    split = split_lesson(lesson, len(table), session.seed, _REPEATS)
    if split is None:
        alike = int((lesson.told[:, 2] > 0).sum())
        return Message("gain.few_links", alike=alike, apart=len(lesson.told) - alike)
    rows = np.unique(lesson.told[:, :2])
    small = table.take(rows)
    prepare = Preparations(small.cells, small.columns, small.missing, session.seed)
    pairs = np.searchsorted(rows, lesson.told[:, :2])
    judge = PairJudge(small, split, prepare, pairs, lesson.told[:, 2] > 0)
    X = ground.X[rows]
    outcomes: dict[str, list[tuple[Fold, Outcome]]] = {"before": [], "after": []}
    for fold in steps(split.folds, "Held-out links"):
        try:
            metric = _learned_from(lesson.part(fold.train), session, learned)
        except InputError as error:  # LMNN with classes of one side only
            return Message("gain.few_rows", why=reason(error))
        for name, Z in (("before", X), ("after", metric.transform(X))):
            outcomes[name] += [(fold, _outcome(judge, Z, Z, fold))]
    return _gain("gain.links", judge, outcomes, len(split.judged))


def _learned_from(part: Lesson, session: Session, learned: LearnedSpace) -> Any:
    """The metric of some of the links, its learner chosen by them alone if it was chosen."""
    fitting, learner = learned.fitting, learned.learner
    if session.told.learner == "auto":
        X = fitting.ground.X
        learner = choose_learner(part, X, fitting.metric, session.seed)[0]
    return fitting.metric(part, learner)


def _judge_labels(table: StudyTable, session: Session, learned: LearnedSpace) -> Gain | Message:
    if table.y is None:
        return Message("gain.no_labels")
    unseen = np.setdiff1d(np.arange(len(table)), _with_copies(table.copies, learned.seen))
    label = table.y[unseen] if table.task == Task.CLASSIFICATION else None
    draw = np.random.default_rng(session.seed)
    rows = unseen[sample_by_class(label, len(unseen), _MOST_JUDGED, draw)]
    question = Question(n_neighbors=_NEIGHBORS, n_repeats=1, set_aside=False,
                        random_state=session.seed)  # fmt: skip
    try:
        judge = make_judge(table.take(rows), question)
    except InputError as error:  # too few rows, or of one class only
        return Message("gain.few_rows", why=reason(error))
    outcomes: dict[str, list[tuple[Fold, Outcome]]] = {"before": [], "after": []}
    for fold in steps(judge.split.folds, "Held-out rows"):
        for name, space in (("before", learned.ground.X), ("after", learned.coordinates)):
            Z = space[rows]
            outcomes[name] += [(fold, _outcome(judge, Z[fold.train], Z[fold.test], fold))]
    return _gain("gain.labels", judge, outcomes, len(judge.split.judged))


def _with_copies(copies: Ints, rows: Ints) -> Ints:
    """These rows and all that are equal to one of them."""
    return np.flatnonzero(np.isin(copies, copies[rows]))


def _outcome(judge: Judge, train: Floats, test: Floats, fold: Fold) -> Outcome:
    return judge.evaluate(Placed(train, test, None), fold, train.shape[1], "euclidean")[0]


def _gain(id: str, judge: Judge, outcomes: dict[str, list[tuple[Fold, Outcome]]], n: int) -> Gain:
    judged = JudgedRows(outcomes, judge)
    before, after = judged.score("before"), judged.score("after")
    difference = judged.contrasts("before", ["after"])[0]
    kind = "no_change"
    if difference.is_significant:
        kind = "gained" if difference.difference > 0 else "lost"
    told = Message(
        id,
        n=n,
        score=judge.score_name,
        before=ScoreValue.of(before.mean, judge),
        after=ScoreValue.of(after.mean, judge),
        gain=ScoreValue.of(difference.difference, judge, gain=True),
        low=ScoreValue.of(difference.low, judge, gain=True),
        high=ScoreValue.of(difference.high, judge, gain=True),
        ruling=Message(f"gain.{kind}"),
    )
    return Gain(n, before, after, difference, told)
