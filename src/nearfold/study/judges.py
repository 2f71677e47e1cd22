"""By what a space is judged: a nearest-neighbour learner in it, pairs, or the neighbours it keeps.

A judge is given the rows, the folds and how columns are prepared. It lets a model be fitted on the
training part of a fold, places all rows of the fold in the model's space, and scores the held-out
part in the first d' dimensions, for each of its own settings (the k of the learner). Held-out rows
are prepared and transformed, never fitted on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.metrics.pairs import PairsMixin
from nearfold.notation import Array, Floats, Ints
from nearfold.study.folds import Fold, Split, joined, units
from nearfold.study.intake import StudyTable
from nearfold.study.learner import Search, nearest, neighbor_predictions
from nearfold.study.question import Task
from nearfold.study.recipes import Preparations, Recipe
from nearfold.study.scores import SCORES, Needs, Score, ScoreName

_MOST_ROWS = 3_000  # that a model which does not learn from pairs is fitted on beside them


@dataclass(frozen=True)
class Outcome:
    """One held-out part in one space, under one setting of the judge."""

    score: float
    predicted: Array  # classes, probabilities, numbers, shares of neighbours kept, or distances


@dataclass(frozen=True)
class Placed:
    """The rows of a fold in a model's space, all of its dimensions."""

    train: Floats
    test: Floats
    step: Any  # the fitted preparation


class Judge:
    """What the judges share."""

    task: Task
    score_name: Message
    is_share = True
    negated = False  # smaller is better for the number that is shown
    ks: tuple[int, ...] = (0,)  # settings of the learner
    limits = (0.0, 1.0)  # no score is beyond them, and no interval
    held_out = Message("judged.rows")  # the word for what is held out

    def __init__(
        self, table: StudyTable, split: Split, prepare: Preparations, search: Search = nearest
    ) -> None:
        self.table = table
        self.split = split
        self.prepare = prepare
        self.search = search

    @property
    def n(self) -> int:
        """Rows (or pairs) that folds are made of."""
        return len(self.table)

    def labels_for(self, rows: Ints, model: Any = None) -> Array | None:
        """What a supervised model may know of these rows."""
        return None

    def fit_and_transform(
        self, model: Any, recipe: Recipe, fold: Fold, fit_rows: Ints, supervised: bool = True
    ) -> Placed:
        """Fit on some training rows, transform all rows of the fold; no model: the columns."""
        step, train, test = self.prepare.fold(recipe, fold)
        if model is None:
            return Placed(_as_array(train), _as_array(test), step)
        known = self._known(fit_rows, model, supervised)
        if len(fit_rows) < len(fold.train) or not hasattr(model, "fit_transform"):
            model.fit(train[np.searchsorted(fold.train, fit_rows)], *known)
            placed = model.transform(train)
        else:
            placed = model.fit_transform(train, *known)
        return Placed(_as_array(placed), _as_array(model.transform(test)), step)

    def _known(self, rows: Ints, model: Any, supervised: bool) -> list[Array]:
        """What is given to `fit` beside these rows; not all transformers take None for a label."""
        y = self.labels_for(rows, model) if supervised else None
        return [] if y is None else [y]

    def fit(self, model: Any, recipe: Recipe, rows: Ints, fit_rows: Ints, supervised: bool) -> Any:
        """Fit a preparation on these rows and a model on some of them; returns the preparation."""
        step, prepared = self.prepare.fitted(recipe, rows)
        if model is not None:
            some = prepared[np.searchsorted(rows, fit_rows)]
            model.fit(some, *self._known(fit_rows, model, supervised))
        return step

    def place_rows(self, step: Any, model: Any, rows: Ints) -> Floats:
        """Any rows in the space of a fitted model."""
        prepared = step.encode(self.table.cells.take(rows))
        return _as_array(prepared if model is None else model.transform(prepared))

    def evaluate(self, placed: Placed, fold: Fold, d: int, metric: str) -> list[Outcome]:
        """The held-out part in the first d dimensions, once for each setting of the judge."""
        raise TypeError(f"{type(self).__name__} does not say how it scores.")

    def contributions(self, outcomes: list[tuple[Fold, Outcome]]) -> Floats:
        """What each row adds to the score, (repeats, n); NaN where a row was not judged."""
        raise TypeError(f"{type(self).__name__} does not say what rows add.")

    def guesses(self) -> list[tuple[Fold, Outcome]] | None:
        """What can be had without looking at the columns, fold by fold."""
        return None

    def independent_rows(self) -> float | None:
        """Independent trials that the score is worth at most, if it is a bounded one."""
        return None

    def strata(self) -> Array | None:
        """Classes whose sizes are no part of the error of a score, if it is a mean over them."""
        return None

    def clusters(self) -> Array | None:
        """Rows with the same number are not independent of each other."""
        return units(self.table.copies, self.table.group)

    def _empty(self) -> Floats:
        return np.full((self.split.n_repeats, self.n), np.nan)


def _as_array(Z: Any) -> Floats:
    Z = Z.toarray() if hasattr(Z, "toarray") else np.asarray(Z)
    if Z.ndim != 2 or not np.issubdtype(Z.dtype, np.number):
        raise InputError(Message("study.not_numbers", kind=str(Z.dtype), shape=str(Z.shape)))
    Z = Z if Z.dtype in (np.float32, np.float64) else Z.astype(np.float64)
    if not np.isfinite(Z).all():
        raise InputError(Message("study.not_finite"))
    return Z


def _is_ours(model: Any) -> bool:
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    return type(last).__module__.startswith("nearfold.")


class LearnerJudge(Judge):
    """A k-nearest-neighbour learner and a score of its held-out predictions."""

    def __init__(
        self,
        table: StudyTable,
        split: Split,
        prepare: Preparations,
        *,
        score: Score,
        ks: tuple[int, ...],
        weights: str = "uniform",
        search: Search = nearest,
    ) -> None:
        super().__init__(table, split, prepare, search)
        assert table.y is not None
        self.score = score
        self.task = Task(score.task)
        self.y = table.y
        self.ks = ks
        self.weights = weights
        self.is_share, self.negated, self.limits = score.is_share, score.negated, score.limits
        self.score_name = Message(f"score.{score.name.value}")
        self.classes = np.unique(self.y) if self.task == Task.CLASSIFICATION else None
        self.truth = self.y if self.classes is None else np.searchsorted(self.classes, self.y)
        # One prior for all folds: that of a fold's training rows would tell of the held-out ones.
        self.prior = None if self.classes is None else np.bincount(self.truth) / len(self.truth)

    def labels_for(self, rows: Ints, model: Any = None) -> Array:
        """Their labels or targets; to a model of another package classes go by number.

        Not all of them take text (UMAP does not); ours keep the labels as they are.
        """
        y = self.y[rows]
        if model is None or y.dtype.kind in "fiub" or _is_ours(model):
            return y
        return np.asarray(self.truth[rows])

    def evaluate(self, placed: Placed, fold: Fold, d: int, metric: str) -> list[Outcome]:
        """The learner's score on the held-out rows for each k."""
        ks = [min(k, len(placed.train)) for k in self.ks]
        distances, rows = self.search(placed.train[:, :d], placed.test[:, :d], max(ks), metric)
        answers = self.truth[fold.train][rows]
        predicted = neighbor_predictions(
            distances, answers, sorted(set(ks)), self.score.needs, self.weights, self.prior
        )
        by_k = dict(zip(sorted(set(ks)), predicted, strict=True))
        truth = self.truth[fold.test]
        return [Outcome(self.score.value(truth, by_k[k]), by_k[k]) for k in ks]

    def contributions(self, outcomes: list[tuple[Fold, Outcome]]) -> Floats:
        """Of the predictions of each repeat, pooled over its folds."""
        found = self._empty()
        for repeat in range(self.split.n_repeats):
            parts = [(f, o) for f, o in outcomes if f.repeat == repeat and f.judged]
            if parts:
                rows = np.concatenate([fold.test for fold, _ in parts])
                predicted = np.concatenate([outcome.predicted for _, outcome in parts])
                found[repeat, rows] = self.score.influence(self.truth[rows], predicted)
        return found

    def guesses(self) -> list[tuple[Fold, Outcome]]:
        """The most frequent class, the shares of the classes, or the middle of the target."""
        found = []
        for fold in self.split.folds:
            known, n = self.truth[fold.train], len(fold.test)
            if self.score.needs == Needs.NUMBERS:
                middle = np.median if self.score.name == ScoreName.MAE else np.mean
                predicted = np.full(n, float(middle(known)))
            elif self.score.needs == Needs.LABELS:
                predicted = np.full(n, int(np.bincount(known).argmax()))
            else:
                assert self.prior is not None
                predicted = np.tile(self.prior, (n, 1))
            found.append(
                (fold, Outcome(self.score.value(self.truth[fold.test], predicted), predicted))
            )
        return found

    def independent_rows(self) -> float | None:
        """Of the judged rows; a mean over classes is no surer than its smallest class."""
        return self.score.independent_rows(self.truth[self.split.judged])

    def strata(self) -> Array | None:
        """The classes, for a mean over them."""
        return self.truth if self.score.by_class else None


class NeighborJudge(Judge):
    """No label, no target: which share of a held-out row's k nearest training rows is kept.

    The neighbours to be kept are those among the columns as `original` prepares them.
    """

    task = Task.NONE
    score_name = Message("score.kept")

    def __init__(
        self,
        table: StudyTable,
        split: Split,
        prepare: Preparations,
        *,
        original: Recipe,
        k: int,
        search: Search = nearest,
    ) -> None:
        super().__init__(table, split, prepare, search)
        self.original = original
        self.ks = (k,)
        self._nearest: dict[int, Ints] = {}

    def evaluate(self, placed: Placed, fold: Fold, d: int, metric: str) -> list[Outcome]:
        """Share kept, row by row."""
        k = min(self.ks[0], len(fold.train))
        if id(fold) not in self._nearest:
            _, train, test = self.prepare.fold(self.original, fold)
            self._nearest[id(fold)] = self.search(train, test, k, self.original.metric)[1]
        found = self.search(placed.train[:, :d], placed.test[:, :d], k, metric)[1]
        wanted = self._nearest[id(fold)]
        kept = (found[:, :, None] == wanted[:, None, :]).any(axis=2).mean(axis=1)
        return [Outcome(float(kept.mean()), kept)]

    def contributions(self, outcomes: list[tuple[Fold, Outcome]]) -> Floats:
        """The share kept of each row."""
        found = self._empty()
        for fold, outcome in outcomes:
            found[fold.repeat, fold.test] = outcome.predicted
        return found

    def independent_rows(self) -> float:
        """The judged rows."""
        return float(len(self.split.judged))


class PairJudge(Judge):
    """Must-link and cannot-link pairs: how well distance tells held-out pairs apart (AUC).

    Pairs are held out, rows are not: a model may look at the columns of all rows.
    """

    task = Task.PAIRS
    score_name = Message("score.pairs")
    held_out = Message("judged.pairs")
    is_share = False

    def __init__(
        self, table: StudyTable, split: Split, prepare: Preparations, pairs: Ints, alike: Array
    ) -> None:
        super().__init__(table, split, prepare)
        self.pairs = pairs
        self.alike = alike

    @property
    def n(self) -> int:
        """Pairs."""
        return len(self.pairs)

    def fit_and_transform(
        self, model: Any, recipe: Recipe, fold: Fold, fit_rows: Ints, supervised: bool = True
    ) -> Placed:
        """Fit on the training pairs; all rows in the space."""
        step = self.fit(model, recipe, fold.train, fold.train, supervised)
        Z = self.place_rows(step, model, np.arange(len(self.table)))
        return Placed(Z, Z, step)

    def fit(self, model: Any, recipe: Recipe, rows: Ints, fit_rows: Ints, supervised: bool) -> Any:
        """Fit on these pairs (their numbers), if the model takes pairs, else on rows."""
        step, X = self.prepare.fitted(recipe, np.arange(len(self.table)))
        if model is None:
            return step
        steps = [inner for _, inner in getattr(model, "steps", [("", model)])]
        if not isinstance(steps[-1], PairsMixin):
            model.fit(X[:: -(-len(X) // _MOST_ROWS)])
            return step
        for inner in steps[:-1]:
            X = inner.fit_transform(X)
        sign = np.where(self.alike[rows], 1, -1)
        steps[-1].fit(X, pairs=np.column_stack([self.pairs[rows], sign]))
        return step

    def evaluate(self, placed: Placed, fold: Fold, d: int, metric: str) -> list[Outcome]:
        """Area under the curve: the chance that a must-link pair is the nearer of two."""
        a, b = self.pairs[fold.test].T
        apart = placed.test[a, :d] - placed.test[b, :d]
        order = 1 if metric == "cityblock" else 2
        near = -np.linalg.norm(apart, ord=order, axis=1)
        return [Outcome(float(self._influence(fold, near).mean()), near)]

    def _influence(self, fold: Fold, near: Floats) -> Floats:
        predicted = np.column_stack([-near, near])
        return SCORES[ScoreName.ROC_AUC].influence(self.alike[fold.test].astype(int), predicted)

    def contributions(self, outcomes: list[tuple[Fold, Outcome]]) -> Floats:
        """Fold by fold: distances of different models have no common scale."""
        found = self._empty()
        for fold, outcome in outcomes:
            found[fold.repeat, fold.test] = self._influence(fold, outcome.predicted)
        return found

    def guesses(self) -> list[tuple[Fold, Outcome]]:
        """Distances that tell nothing: one half."""
        return [(fold, Outcome(0.5, np.zeros(len(fold.test)))) for fold in self.split.folds]

    def clusters(self) -> Array:
        """Pairs that share rows."""
        groups = joined(self.pairs[:, 0], self.pairs[:, 1], len(self.table))
        few = len(np.unique(groups)) < 20  # nearly all are linked: then by the first row alone
        return self.pairs[:, 0] if few else groups

    def independent_rows(self) -> float:
        """Twice the pairs of the rarer kind among those judged."""
        judged = self.alike[self.split.judged]
        return 2.0 * float(min(judged.sum(), (~judged).sum()))
