"""The metric that a person teaches by linking points, learned anew after each action.

Steps
  1. the columns as numbers, scaled (columns/preparation.py), learned from a sample of the rows;
     kept for the next fit, as they depend on the table and the seed alone
  2. the factors that overrule columns: M is learned on rows x F, F their diagonal matrix, and
     F M F is the metric of the scaled columns. A factor of 0 leaves a column out
  3. beyond 128 columns, the principal axes of the sample
  4. the pairs told and those that follow from them (lessons.py), and the learner
  5. all rows transformed

The learner, unless it is chosen: ITML with the scaled space as its prior, whose pull towards
Euclidean distances is what few links need, unless MMC with one weight for each column tells
held-out links better by more than a standard error. On six sets (wine, iris, breast cancer, digits
and two generated ones: useless columns, rotated overlapping classes), with 6 to 200 links from
labels and 3 to 40 painted rows of each class:

- ITML told held-out pairs better than scaled columns everywhere, and with links lost at most a
  point of 3-NN accuracy (with painted rows, two on breast cancer). A gamma of 0.1 learned less, one
  of 10 was worse on breast cancer.
- MMC with a full matrix ends in one or two directions (as metrics/mmc.py explains) and lost up to
  60 points of 3-NN accuracy, on all sets but iris: it is not offered here.
- MMC with a diagonal matrix (smoothing 1) won 20 points of pair AUC where most columns are useless
  (77 -> 98 with 50 links), and lost 1 to 20 elsewhere. Where links were enough to decide by, the
  rule chose it always there, and elsewhere now and then, at a cost of at most two points.
- LMNN from painted rows overfits as long as they are few: with 5 to 20 rows of a class ITML or MMC
  on pairs of the same rows had the better pair AUC on all sets, with 40 on all but one. So it is
  never chosen, but can be asked for; it learns from painted classes, or else from the labels of a
  sample of the table.

No fit starts from the one before it. ITML and MMC take 10 to 40 steps and some hundredths of a
second, and a model that does not depend on the order in which links came is the same to the last
bit when its session is replayed; `before` only hands on step 1. LMNN starts from the scaled space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from nearfold.columns.preparation import TablePreparation
from nearfold.errors import Cancelled, InputError, hearing, reason
from nearfold.messages import Message
from nearfold.methods.pca import PCA
from nearfold.metrics.itml import ITML, percentile_bounds
from nearfold.metrics.lmnn import LMNN
from nearfold.metrics.mmc import MMC
from nearfold.notation import Array, Floats, Ints
from nearfold.run import ProgressCallback, one_blas_thread, progress, reporter
from nearfold.study.intake import StudyTable
from nearfold.study.learner_choice import choose_learner
from nearfold.study.lessons import Lesson, read_lesson
from nearfold.study.question import Task
from nearfold.study.recipes import SCALED, Preparations
from nearfold.study.session import Session
from nearfold.study.table import sample_by_class

_SAMPLE = 5_000  # rows that scaling and principal axes are learned from
_FOR_BOUNDS = 1_000  # rows whose distances give the bounds of ITML
_WIDE = 128  # columns beyond which learners see principal axes
_LABELLED = 1_000  # rows that LMNN learns from where it takes the labels of the table
_TARGETS = 3  # of LMNN


@dataclass(frozen=True, eq=False)
class Ground:
    """The columns of a table as numbers, scaled: the space before anything is learned."""

    step: TablePreparation
    X: Floats
    sample: Ints  # rows that all statistics are learned from
    key: tuple[str, int]  # the table and the seed it depends on


@dataclass(frozen=True, eq=False)
class LearnedSpace:
    """The metric of a session and all rows in its space."""

    fitting: Fitting
    model: Pipeline  # the columns' preparation and the metric, as a model file has them
    coordinates: Floats
    learner: str
    why: Message  # this learner
    lesson: Lesson
    notes: tuple[Message, ...] = ()

    @property
    def ground(self) -> Ground:
        """The space before anything was learned."""
        return self.fitting.ground

    @property
    def metric(self) -> Any:
        """The fitted learner, on scaled columns."""
        return self.model.steps[-1][1]

    @property
    def threshold(self) -> float | None:
        """The distance up to which a metric learned from pairs takes two rows for alike."""
        return getattr(self.metric, "threshold_", None)

    @property
    def seen(self) -> Ints:
        """Rows of which the metric was told something."""
        return self.lesson.taught

    def shares(self) -> dict[str, float]:
        """Share of each feature in the mean squared distance of rows; they sum to 1."""
        step, names = self.ground.step, _features(self.ground.step)
        own = self.metric.column_weights(self.ground.X[self.ground.sample])
        parts = np.bincount(step.origin, weights=own, minlength=len(names))
        return dict(zip(names, parts.tolist(), strict=True))


def learn(
    table: StudyTable,
    session: Session,
    before: LearnedSpace | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> LearnedSpace:
    """The metric that the session has taught so far.

    `before`: an earlier result of the same session, whose prepared columns are taken over; it
    changes no bit of the result. `should_stop` is asked at each step: true ends the work with
    `Cancelled`, as when a newer link has come.
    """
    lesson = read_lesson(session)
    with stopping(should_stop), one_blas_thread(), hearing() as heard:
        ground = ground_of(table, session, before)
        fitting = Fitting.of(ground, session)
        lesson, learner, why = _plan(table, session, fitting, lesson)
        metric = fitting.metric(lesson, learner)
        model = Pipeline([("table", ground.step), ("space", metric)])
        coordinates = metric.transform(ground.X)
    notes = [reason(warning) for warning in heard]
    if lesson.left_out:
        notes.insert(0, Message("session.left_out", n=lesson.left_out))
    return LearnedSpace(fitting, model, coordinates, learner, why, lesson,
                        tuple(dict.fromkeys(notes)))  # fmt: skip


@contextmanager
def stopping(should_stop: Callable[[], bool] | None) -> Iterator[None]:
    """Ask at each step that is reported inside, and raise `Cancelled` if it is to stop."""
    if should_stop is None:
        yield
        return
    outside: ProgressCallback = reporter()

    def ask() -> None:
        if should_stop():
            raise Cancelled(Message("session.superseded"))

    def step(label: str, done: int, total: int | None) -> None:
        ask()
        outside(label, done, total)

    ask()
    with progress(step):
        yield
    ask()


def ground_of(table: StudyTable, session: Session, before: LearnedSpace | None = None) -> Ground:
    """The scaled columns of all rows."""
    key = (session.facts.digest, session.seed)
    if before is not None and before.ground.key == key:
        return before.ground
    n = len(table)
    sample = sample_by_class(None, n, _SAMPLE, np.random.default_rng(session.seed))
    prepare = Preparations(table.cells, table.columns, table.missing, session.seed)
    step, X = prepare.fitted(SCALED, sample)
    return Ground(step, X if len(sample) == n else step.encode(table.cells), sample, key)


@dataclass(frozen=True, eq=False)
class Fitting:
    """What all fits of one state of a session share: how a learner sees the scaled columns."""

    ground: Ground
    factors: Floats  # by what each prepared column is multiplied before learning
    to_learner: Floats  # (q, d): columns with a factor, or their principal axes
    bounds: Floats  # of ITML

    @classmethod
    def of(cls, ground: Ground, session: Session) -> Fitting:
        """For the factors that the session has now."""
        by_feature = np.array([session.factor(name) for name in _features(ground.step)])
        factors = np.asarray(by_feature[ground.step.origin])
        used = np.flatnonzero(factors)
        if len(used) == 0:
            raise InputError(Message("session.no_column_left"))
        to_learner = np.zeros((len(used), len(factors)))
        to_learner[np.arange(len(used)), used] = factors[used]
        if len(used) > _WIDE:
            sample = ground.X[ground.sample] @ to_learner.T
            found = PCA(n_components=min(_WIDE, len(sample) - 1)).fit(sample)
            to_learner = found.components_ @ to_learner
        draw = np.random.default_rng(session.seed)
        few = ground.sample[sample_by_class(None, len(ground.sample), _FOR_BOUNDS, draw)]
        points = ground.X[few] @ to_learner.T
        bounds = percentile_bounds(points, np.eye(len(to_learner)))
        return cls(ground, factors, to_learner, bounds)

    def metric(self, lesson: Lesson, learner: str) -> Any:
        """The metric of the scaled columns that a learner finds."""
        rows = lesson.taught
        X = self.ground.X[rows] @ self.to_learner.T
        if learner == "LMNN":
            own = X[np.searchsorted(rows, lesson.rows)]
            return _lmnn(own, lesson.labels).before(self.to_learner)
        pairs = lesson.pairs
        found = np.column_stack([np.searchsorted(rows, pairs[:, :2]), pairs[:, 2]])
        return self._from_pairs(learner, X, found).before(self.to_learner)

    def _from_pairs(self, learner: str, X: Array, pairs: Ints) -> Any:
        if learner == "ITML":
            return ITML().fit(X, pairs=pairs, bounds=self.bounds)
        if len(np.unique(pairs[:, 2])) < 2:
            raise InputError(Message("session.needs_both"))
        return MMC(diagonal=True, smoothing=1.0).fit(X, pairs=pairs)


def _features(step: TablePreparation) -> list[str]:
    """What `origin` numbers."""
    if step.columns_:
        return [str(spec["name"]) for spec in step.columns_]
    return [f"x{j}" for j in range(step.n_features_in_)]


def _plan(
    table: StudyTable, session: Session, fitting: Fitting, lesson: Lesson
) -> tuple[Lesson, str, Message]:
    """What is learned from, by which learner, and why."""
    asked = session.told.learner
    if asked == "LMNN":
        return _classes(table, session, lesson), asked, Message("learner.asked")
    if len(lesson.pairs) == 0:
        raise InputError(Message("session.nothing_told"))
    if asked != "auto":
        return lesson, asked, Message("learner.asked")
    return lesson, *choose_learner(lesson, fitting.ground.X, fitting.metric, session.seed)


def _classes(table: StudyTable, session: Session, lesson: Lesson) -> Lesson:
    """Painted classes, or else those of a sample of the table, for LMNN."""
    if len(lesson.rows) == 0 and table.y is not None and table.task == Task.CLASSIFICATION:
        draw = np.random.default_rng(session.seed)
        rows = sample_by_class(table.y, len(table), _LABELLED, draw)
        none = lesson.told[:0]
        lesson = Lesson(none, none, rows, table.y[rows], lesson.left_out)
    counts = np.unique(lesson.labels, return_counts=True)[1]
    if len(counts) < 2 or counts.max() < 2:
        raise InputError(Message("session.needs_classes"))
    return lesson


def _lmnn(X: Array, labels: Array) -> Any:
    least = int(np.unique(labels, return_counts=True)[1].min())
    return LMNN(init="identity", n_neighbors=max(1, min(_TARGETS, least - 1))).fit(X, labels)
