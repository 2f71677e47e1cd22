"""One space on trial: fitted and judged fold by fold, within its share of the time.

The number of dimensions is chosen from the same fits, but never by scores of the rows it is judged
on: in each fold d' is the choice of the other folds of its repeat (one-standard-error rule). The d'
that is reported is the choice of all folds.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearfold.errors import Cancelled, NearfoldError
from nearfold.notation import Floats, Ints
from nearfold.run import progress, reporter
from nearfold.study.candidates import Candidate, Setting, build_model
from nearfold.study.choose import dimensions_to_try
from nearfold.study.folds import Fold
from nearfold.study.judges import Judge, Outcome
from nearfold.study.statistics import one_standard_error
from nearfold.study.table import sample_by_class
from nearfold.study.watch import Deadline, PeakMemory, TimeIsUp, hearing, threads_for

FINISHED, UNFINISHED, FAILED = "finished", "unfinished", "failed"


@dataclass
class SpaceResult:
    """How one space did."""

    name: str
    candidate: Candidate
    status: str = UNFINISHED
    trouble: str | None = None  # why it did not finish
    about: str = ""  # the estimator, as it was built
    dimensions: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    scores: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # folds x dimensions
    outcomes: list[Outcome] = field(default_factory=list)  # of each fold at the d' of the others
    repeats: list[int] = field(default_factory=list)  # of each fold that is over
    widths: list[int] = field(default_factory=list)  # of the space, fold by fold
    scaled: list[bool] = field(default_factory=list)  # whether its columns were, fold by fold
    fit_rows: int = 0
    train_rows: int = 0
    fit_seconds: float = 0.0
    score_seconds: float = 0.0
    peak_bytes: int | None = None
    notes: list[str] = field(default_factory=list)
    model: Any = None  # of the first fold
    view: Floats | None = None  # the rows of the picture in the space of the first fold

    @property
    def place(self) -> int:
        """Where in `dimensions` the choice of all folds is."""
        return self._choose(np.arange(len(self.scores)))

    @property
    def n_dimensions(self) -> int:
        """The chosen d'; of a space that has one width in each fold, the middle one."""
        if len(self.dimensions) == 1:
            return int(np.median(self.widths))
        return int(self.dimensions[self.place])

    @property
    def places(self) -> list[int]:
        """For each fold, the choice of the other folds of its repeat."""
        chosen = []
        for i, repeat in enumerate(self.repeats):
            others = [j for j, r in enumerate(self.repeats) if r == repeat and j != i]
            chosen.append(self._choose(np.array(others)) if others else self.place)
        return chosen

    def _choose(self, folds: Ints) -> int:
        """The choice of these folds."""
        return one_standard_error(self.scores[folds])

    @property
    def fold_scores(self) -> Floats:
        """The score of each fold at the d' that the others chose."""
        return self.scores[np.arange(len(self.scores)), self.places]


@dataclass(frozen=True)
class TrialPlan:
    """What all trials of a comparison share."""

    judge: Judge
    n_axes: int | None
    seed: int
    view_rows: Ints
    n_classes: int
    first: int  # folds of earlier trials, for the progress
    total: int


def try_space(
    candidate: Candidate, plan: TrialPlan, scaled: list[bool], seconds: float | None
) -> SpaceResult:
    """Fit and judge a space on every fold; what goes wrong is written down, not raised."""
    result = SpaceResult(candidate.name, candidate)
    deadline = Deadline(seconds, reporter())
    folds = plan.judge.split.folds
    tried: list[list[Outcome]] = []
    with PeakMemory() as peak, threads_for(plan.judge.X), hearing() as heard:
        try:
            with progress(deadline):
                for i, fold in enumerate(folds):
                    label = f"{candidate.name}, fold {i + 1} of {len(folds)}"
                    deadline.at(label, plan.first + i, plan.total)
                    tried.append(_try_fold(result, plan, fold, scaled[i]))
            result.status = FINISHED
        except TimeIsUp as error:
            result.trouble = f"{error} after {len(result.scores)} of {len(folds)} folds"
        except Cancelled:
            raise
        except NearfoldError as error:
            result.status, result.trouble = FAILED, _first_line(error)
        except Exception as error:  # a space that fails must not take the others with it
            result.status = FAILED
            result.trouble = f"{type(error).__name__}: {_first_line(error)}"
    result.peak_bytes = peak.bytes
    # What was not chosen is let go: rows x dimensions of every space would add up.
    result.outcomes = [row[place] for row, place in zip(tried, result.places, strict=False)]
    if result.view is not None and len(result.dimensions) > 1 and len(result.scores):
        result.view = np.ascontiguousarray(result.view[:, : result.n_dimensions])
    # Folds say the same with other numbers: once is enough.
    by_wording = {re.sub(r"[0-9.]+", "#", line): line for line in map(_first_line, heard[::-1])}
    result.notes += list(by_wording.values())[::-1]
    return result


def _try_fold(result: SpaceResult, plan: TrialPlan, fold: Fold, scaled: bool) -> list[Outcome]:
    judge, candidate = plan.judge, result.candidate
    rows = rows_to_fit(candidate, judge, fold.train, plan.seed)
    setting = setting_for(plan, rows, scaled)
    model = build_model(candidate, setting, scaled)
    started = time.perf_counter()
    placed = judge.place(model, fold, rows)
    fitted = time.perf_counter()
    if len(result.scores) == 0:
        width = placed.train.shape[1]
        tries_all = candidate.nests and plan.n_axes is None
        result.dimensions = (
            dimensions_to_try(width, sparing=True) if tries_all else np.array([width])
        )
        result.scores = np.zeros((0, len(result.dimensions)))
        result.about = describe(model)
        result.model = model
        result.view = judge.place_rows(model, plan.view_rows)
        result.fit_rows, result.train_rows = len(rows), len(fold.train)
    width = placed.train.shape[1]
    tried = result.dimensions if len(result.dimensions) > 1 else [width]
    outcomes = [judge.score(placed, fold, min(int(d), width)) for d in tried]
    result.widths.append(width)
    result.scores = np.vstack([result.scores, [o.score for o in outcomes]])
    result.repeats.append(fold.repeat)
    result.scaled.append(scaled)
    result.fit_seconds += fitted - started
    result.score_seconds += time.perf_counter() - fitted
    return outcomes


def describe(model: Any) -> str:
    """A model in a line, a pipeline step by step."""
    steps = [step for _, step in getattr(model, "steps", [("", model)])]
    return ", then ".join(" ".join(repr(step).split()) for step in steps)


def rows_to_fit(candidate: Candidate, judge: Judge, train: Ints, seed: int) -> Ints:
    """All training rows, or a sample with the classes in proportion."""
    most = candidate.most_rows
    if judge.task == "pairs":
        return train  # pairs; a model that takes none is fitted on a sample of rows by the judge
    if most is None or len(train) <= most:
        return train
    label = judge.told_about(train) if judge.task == "classification" else None
    return train[sample_by_class(label, len(train), most, np.random.default_rng(seed))]


def setting_for(plan: TrialPlan, rows: Ints, scaled: bool) -> Setting:
    """What a model is built for when it is fitted on these rows."""
    X = plan.judge.X
    d = X.shape[1]
    if plan.judge.task == "pairs":
        rows = np.arange(len(X))  # pairs are held out, rows are not
    n = len(rows)
    spread = float(d) if scaled else float(X[rows[:5000]].var(axis=0, dtype=np.float64).sum())
    return Setting(n, d, plan.n_classes, spread, plan.n_axes, plan.seed)


def _first_line(error: Any) -> str:
    error = getattr(error, "message", error)  # a recorded warning holds one
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
