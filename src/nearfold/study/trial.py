"""One space on trial: fitted and judged fold by fold, within its share of the time.

How columns are prepared, the number of dimensions and the k of the learner are chosen from the
same fits, but never by scores of the rows they are judged on: for each fold they are the choice of
the other folds of its repeat. Of the numbers of dimensions the smallest is taken that is not
clearly worse than the best (one-standard-error rule). What is reported is the choice of all folds.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearfold.errors import Cancelled, NearfoldError, quoted, reason
from nearfold.messages import Message
from nearfold.notation import Floats, Ints
from nearfold.run import progress, reporter
from nearfold.study.candidates import Candidate, Setting, build_model
from nearfold.study.choose import dimensions_to_try
from nearfold.study.folds import Fold, Split
from nearfold.study.judges import Judge, Outcome, Placed
from nearfold.study.question import Question, Status, Task
from nearfold.study.recipes import Recipe
from nearfold.study.statistics import one_standard_error
from nearfold.study.table import sample_by_class
from nearfold.study.watch import Deadline, PeakMemory, TimeIsUp, collect_warnings, threads_for

# Said of every small class (the folds are ours, and singletons are told) and of every category,
# whose indicators add up to 1.
_USUAL = re.compile(
    "least populated class|fewer than n_splits|unique classes is greater than 50|directions only"
)


@dataclass(frozen=True)
class Setup:
    """One way in which a space was tried: preparation, dimensions, neighbours."""

    recipe: int
    dimension: int
    k: int


@dataclass
class SpaceResult:
    """How one space did."""

    name: str
    candidate: Candidate
    split: Split
    ks: tuple[int, ...]
    status: Status = Status.UNFINISHED
    trouble: Message | None = None  # why it did not finish
    about: str = ""  # the estimator, as it was built
    recipes: list[list[Recipe]] = field(default_factory=list)  # tried in each fold
    dimensions: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    # folds x preparations x dimensions x neighbours
    scores: Floats = field(default_factory=lambda: np.zeros((0, 1, 0, 1)))
    outcomes: list[Outcome] = field(default_factory=list)  # of each fold, as the others chose
    widths: list[int] = field(default_factory=list)  # of the space, fold by fold
    fit_rows: int = 0
    train_rows: int = 0
    fit_seconds: float = 0.0
    score_seconds: float = 0.0
    peak_bytes: int | None = None
    notes: list[Message] = field(default_factory=list)
    views: list[Floats] = field(default_factory=list)  # the picture's rows, of each first fit

    @property
    def chosen(self) -> Setup:
        """The choice of all folds."""
        return self._choose(np.arange(len(self.scores)))

    @property
    def n_dimensions(self) -> int:
        """The chosen d'; of a space that has one width in each fold, the middle one."""
        if len(self.dimensions) <= 1:
            return int(np.median(self.widths)) if self.widths else 0
        return int(self.dimensions[self.chosen.dimension])

    @property
    def n_neighbors(self) -> int:
        """The chosen k of the learner."""
        return self.ks[self.chosen.k]

    def chosen_for(self, i: int) -> Setup:
        """What the other folds choose for fold i."""
        others = self.split.choosing(i, len(self.scores))
        if len(others):
            return self._choose(others)
        middle = min(range(len(self.ks)), key=lambda j: abs(self.ks[j] - 5))
        return Setup(0, len(self.dimensions) - 1, middle)

    def _choose(self, folds: Ints) -> Setup:
        scores = self.scores[folds]  # folds x recipes x dimensions x ks
        mean = scores.mean(axis=0)
        best = mean.max(axis=(1, 2)).argmax() if mean.size else 0
        per_d = mean[best].argmax(axis=1)  # the best k for each number of dimensions
        along = scores[:, best, np.arange(len(per_d)), per_d]
        d = one_standard_error(along, self.split.n_folds)
        return Setup(int(best), d, int(per_d[d]))

    @property
    def view(self) -> Floats | None:
        """The rows of the picture in the space of the first fold, in the chosen dimensions."""
        if not self.views or not len(self.scores):
            return None
        setup = self.chosen
        at = setup.recipe * (len(self.views) // max(1, len(self.recipes[0])))
        Z = self.views[at + (setup.dimension if self.candidate.grid else 0)]
        return Z[:, : self.n_dimensions] if self.candidate.nests else Z

    @property
    def metric(self) -> str:
        """In which neighbours are near."""
        own = self.candidate.recipes
        return own[self.chosen.recipe].metric if own else "euclidean"

    @property
    def fold_scores(self) -> Floats:
        """The score of each fold as the others chose it."""
        return np.array([outcome.score for outcome in self.outcomes])

    @property
    def judged(self) -> list[tuple[Fold, Outcome]]:
        """The folds that are over, and what became of their held-out rows."""
        return list(zip(self.split.folds, self.outcomes, strict=False))


@dataclass(frozen=True)
class TrialPlan:
    """What all trials of a comparison share."""

    judge: Judge
    question: Question
    view_rows: Ints
    n_classes: int
    first: int  # folds of earlier trials, for the progress
    total: int


def try_space(
    candidate: Candidate, plan: TrialPlan, recipes: list[list[Recipe]], seconds: float | None
) -> SpaceResult:
    """Fit and judge a space on every fold; what goes wrong is written down, not raised.

    `recipes`: for each fold the preparations that are tried.
    """
    judge = plan.judge
    result = SpaceResult(candidate.name, candidate, judge.split, judge.ks)
    deadline = Deadline(seconds, reporter())
    folds = judge.split.folds
    tried: list[Any] = []
    with PeakMemory() as peak, threads_for(judge.table.cells), collect_warnings() as heard:
        try:
            with progress(deadline):
                for i, fold in enumerate(folds):
                    deadline.at(candidate.name, plan.first + i, plan.total)
                    tried.append(_try_fold(result, plan, fold, recipes[i]))
                    deadline.foresee(i + 1, len(folds))
            result.status = Status.FINISHED
        except TimeIsUp:
            result.trouble = Message("study.time_up", n=len(result.scores), of=len(folds))
        except Cancelled:
            raise
        except Exception as error:  # a space that fails must not take the others with it
            result.status, result.trouble = Status.FAILED, reason(error)
            if not isinstance(error, NearfoldError):
                result.trouble = quoted(f"{type(error).__name__}: {result.trouble}")
    result.peak_bytes = peak.bytes
    # What was not chosen is let go: rows x settings of every space would add up.
    for i in range(len(result.scores)):
        setup = result.chosen_for(i)
        result.outcomes.append(tried[i][setup.recipe][setup.dimension][setup.k])
    # Folds say the same with other numbers: once is enough.
    said = [reason(w.message) for w in heard[::-1] if isinstance(w.message, Warning)]
    by_wording = {re.sub(r"[0-9.]+", "#", str(line)): line for line in said}
    result.notes += [line for line in by_wording.values() if not _USUAL.search(str(line))][::-1]
    return result


def _try_fold(result: SpaceResult, plan: TrialPlan, fold: Fold, recipes: list[Recipe]) -> Any:
    """The outcomes of recipes x dimensions x neighbours, of one fold."""
    rows = rows_to_fit(result.candidate, plan.judge, fold.train, plan.question.random_state)
    tried = [_try_recipe(result, plan, fold, rows, recipe) for recipe in recipes]
    scores = np.array([[[o.score for o in by_k] for by_k in by_d] for by_d in tried])
    scores = np.where(np.isfinite(scores), scores, -1e300)
    shape = (0, *scores.shape)
    known = result.scores if len(result.scores) else np.zeros(shape)
    result.scores = np.concatenate([known, scores[None]])
    result.recipes.append(recipes)
    result.fit_rows, result.train_rows = len(rows), len(fold.train)
    return tried


def _try_recipe(
    result: SpaceResult, plan: TrialPlan, fold: Fold, rows: Ints, recipe: Recipe
) -> list[list[Outcome]]:
    judge, candidate = plan.judge, result.candidate
    first = len(result.scores) == 0
    fits = _dimensions_to_fit(candidate, plan, rows)
    outcomes: list[list[Outcome]] = []
    for d in fits:
        started = time.perf_counter()
        model = None
        if not candidate.is_plain:
            model = build_model(candidate, setting_for(plan, rows, recipe, fold, d))
        placed = judge.fit_and_transform(model, recipe, fold, rows, candidate.supervised)
        result.fit_seconds += time.perf_counter() - started
        width = placed.train.shape[1]
        if len(result.widths) <= len(result.scores):
            result.widths.append(width)
        if first:
            result.dimensions = _dimensions_to_judge(candidate, plan, fits, width)
            result.about = result.about or describe(placed.step, model)
            result.views.append(judge.place_rows(placed.step, model, plan.view_rows))
        judged = result.dimensions if candidate.nests and not candidate.grid else [width]
        outcomes += _score(result, judge, placed, fold, judged, recipe.metric)
    return outcomes


def _score(
    result: SpaceResult, judge: Judge, placed: Placed, fold: Fold, dimensions: Any, metric: str
) -> list[list[Outcome]]:
    started = time.perf_counter()
    width = placed.train.shape[1]
    found = [judge.evaluate(placed, fold, min(int(d), width), metric) for d in dimensions]
    result.score_seconds += time.perf_counter() - started
    return found


def _dimensions_to_fit(candidate: Candidate, plan: TrialPlan, rows: Ints) -> list[int | None]:
    """The numbers of dimensions that take a fit of their own; None: whatever the space has."""
    asked = plan.question.n_components
    if asked is not None or not candidate.grid:
        return [asked]
    most = max(1, min(plan.judge.table.cells.width, len(rows) - 1))
    return list(dict.fromkeys(min(d, most) for d in candidate.grid))


def _dimensions_to_judge(
    candidate: Candidate, plan: TrialPlan, fits: list[int | None], width: int
) -> Ints:
    if candidate.grid and plan.question.n_components is None:
        return np.array([d for d in fits if d is not None])
    if candidate.nests and plan.question.n_components is None:
        return dimensions_to_try(width, sparing=True)
    return np.array([width])


def describe(*steps: Any) -> str:
    """Steps of a model in a line."""
    parts: list[Any] = []
    for step in steps:
        parts += [inner for _, inner in getattr(step, "steps", [("", step)])]
    return ", then ".join(" ".join(repr(p).split()) for p in parts if p is not None)


def rows_to_fit(candidate: Candidate, judge: Judge, train: Ints, seed: int) -> Ints:
    """All training rows, or a sample with the classes in proportion."""
    most = candidate.most_rows
    if judge.task == Task.PAIRS:
        return train  # pairs; a model that takes none is fitted on a sample of rows by the judge
    if most is None or len(train) <= most:
        return train
    label = judge.labels_for(train) if judge.task == Task.CLASSIFICATION else None
    return train[sample_by_class(label, len(train), most, np.random.default_rng(seed))]


def setting_for(
    plan: TrialPlan, rows: Ints, recipe: Recipe, fold: Fold | None, n_axes: int | None
) -> Setting:
    """What a model is built for when it is fitted on these rows."""
    judge = plan.judge
    if judge.task == Task.PAIRS:
        rows = np.arange(len(judge.table))  # pairs are held out, rows are not
    some = rows[:5000]
    if fold is not None and judge.task != Task.PAIRS:
        _, train, _ = judge.prepare.fold(recipe, fold)
        X = train[np.searchsorted(fold.train, some)]
    else:
        X = judge.prepare.fitted(recipe, some)[1]
    variance = float(X.var(axis=0, dtype=np.float64).sum())
    return Setting(
        len(rows), X.shape[1], plan.n_classes, variance, n_axes, plan.question.random_state,
        plan.question.recall,
    )  # fmt: skip
