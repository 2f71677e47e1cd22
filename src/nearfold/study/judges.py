"""By what a space is judged: a nearest-neighbour learner in it, pairs, or the neighbours it keeps.

A judge knows the rows, what is told about them and the folds. It lets a model be fitted on the
training part of a fold, places all rows of the fold in the model's space, and scores the held-out
part in the first d' dimensions. Held-out rows are transformed, never fitted on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.metrics.pairs import PairsMixin
from nearfold.neighbors import build_index
from nearfold.notation import Array, Floats, Ints
from nearfold.quality.held_out import held_out_score, share_error
from nearfold.study.folds import Fold, Split, split_rows
from nearfold.study.pair_folds import split_pairs
from nearfold.study.statistics import discordant_error
from nearfold.study.told import Told

_MOST_ROWS = 3_000  # that a model which does not learn from pairs is fitted on beside them


@dataclass(frozen=True)
class Outcome:
    """One held-out part in one space."""

    score: float
    per_row: Floats  # right or wrong, squared error, share of neighbours kept
    predicted: Array | None = None


@dataclass(frozen=True)
class Placed:
    """The rows of a fold in a model's space, all of its dimensions."""

    train: Floats
    test: Floats


class Judge:
    """What the judges share; the score is a share of rows unless a subclass says otherwise."""

    task: str
    score_name: Told
    chance: float | None = None
    is_share = True
    limits = (0.0, 1.0)  # no score is beyond them, and no interval

    def __init__(self, X: Array, split: Split) -> None:
        self.X = X
        self.split = split

    def told_about(self, rows: Ints, model: Any = None) -> Array | None:
        """What a supervised model may know of these rows."""
        return None

    def place(self, model: Any, fold: Fold, fit_rows: Ints) -> Placed:
        """Fit on some training rows, transform all rows of the fold."""
        if len(fit_rows) < len(fold.train) or not hasattr(model, "fit_transform"):
            self.fit(model, fit_rows)
            return self.placed(model, fold)
        X, y = self.X[fit_rows], self.told_about(fit_rows, model)
        Z = model.fit_transform(X) if y is None else model.fit_transform(X, y)
        return Placed(_as_array(Z), self.place_rows(model, fold.test))

    def fit(self, model: Any, rows: Ints) -> None:
        """Fit a model on these rows and what is told about them."""
        y = self.told_about(rows, model)
        model.fit(self.X[rows]) if y is None else model.fit(self.X[rows], y)

    def placed(self, model: Any, fold: Fold) -> Placed:
        """The rows of a fold in the space of a fitted model."""
        return Placed(self.place_rows(model, fold.train), self.place_rows(model, fold.test))

    def place_rows(self, model: Any, rows: Ints) -> Floats:
        """Any rows in the space of a fitted model."""
        return _as_array(model.transform(self.X[rows]))

    def score(self, placed: Placed, fold: Fold, d: int) -> Outcome:
        """The held-out part in the first d dimensions."""
        raise TypeError(f"{type(self).__name__} does not say how it scores.")

    def chance_scores(self) -> Floats | None:
        """What can be had without looking at the columns, fold by fold."""
        return None

    def error_floor(self, score: float, n: int) -> float:
        """Least standard error of a score over n held-out rows."""
        return share_error(score, n) if self.is_share else 0.0

    def difference_floor(self, ours: Floats, theirs: Floats) -> float:
        """Least standard error of the difference of two scores over the same rows."""
        return 0.0

    def paired_p(self, ours: Floats, theirs: Floats) -> float:
        """Of no difference between two spaces on the same rows (t-test of the differences)."""
        from scipy.stats import ttest_rel

        return 1.0 if np.array_equal(ours, theirs) else float(ttest_rel(ours, theirs).pvalue)


def _as_array(Z: Any) -> Floats:
    Z = Z.toarray() if hasattr(Z, "toarray") else np.asarray(Z)
    if Z.ndim != 2 or not np.issubdtype(Z.dtype, np.number):
        raise InputError(f"the model transforms rows to {Z.dtype} of shape {Z.shape}, not numbers.")
    Z = Z if Z.dtype in (np.float32, np.float64) else Z.astype(np.float64)
    if not np.isfinite(Z).all():
        raise InputError("the model transforms some rows to NaN or infinity.")
    return Z


def _is_ours(model: Any) -> bool:
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    return type(last).__module__.startswith("nearfold.")


class LearnerJudge(Judge):
    """A k-nearest-neighbour learner: held-out accuracy for a label, R^2 for a target."""

    def __init__(
        self, X: Array, y: Array, *, task: str, k: int, weights: str = "uniform", **split: Any
    ) -> None:
        super().__init__(X, split_rows(X, y if task == "classification" else None, **split))
        self.y = y
        self.task = task
        self.k = k
        self.weights = weights
        self.is_share = task == "classification"
        if self.is_share:
            self.score_name = Told("accuracy", "准确率")
            self.chance = float(np.unique(y, return_counts=True)[1].max() / len(y))
        else:
            self.score_name = Told("R²", "R²")
            self.chance = 0.0
            self._unit = float(np.abs(y).max()) or 1.0  # so that no square overflows or vanishes
            self.limits = (-np.inf, 1.0)

    def told_about(self, rows: Ints, model: Any = None) -> Array:
        """Their labels or targets; to a model of another package classes go by number.

        Not all of them take text (UMAP does not); ours keep the labels as they are.
        """
        y = self.y[rows]
        if model is None or y.dtype.kind in "fiub" or _is_ours(model):
            return y
        return np.asarray(np.searchsorted(np.unique(self.y), y))

    def score(self, placed: Placed, fold: Fold, d: int) -> Outcome:
        """The learner's score on the held-out rows."""
        y = self.y if self.is_share else self.y / self._unit
        held_out = held_out_score(
            np.ascontiguousarray(placed.train[:, :d]),
            y[fold.train],
            np.ascontiguousarray(placed.test[:, :d]),
            y[fold.test],
            n_neighbors=min(self.k, len(fold.train)),
            task=self.task,
            weights=self.weights,
        )
        return Outcome(held_out.score, held_out.per_row, held_out.predictions)

    def chance_scores(self) -> Floats:
        """The most frequent label or the mean target of the training rows."""
        scores = []
        for fold in self.split.folds:
            known, truth = self.y[fold.train], self.y[fold.test]
            if self.is_share:
                value, count = np.unique(known, return_counts=True)
                scores.append(np.mean(truth == value[count.argmax()]))
            else:
                scores.append(0.0)
        return np.array(scores)

    def difference_floor(self, ours: Floats, theirs: Floats) -> float:
        """From the rows on which the two learners differ."""
        return discordant_error(ours, theirs) if self.is_share else 0.0

    def paired_p(self, ours: Floats, theirs: Floats) -> float:
        """Right or wrong: McNemar's exact test."""
        if not self.is_share:
            return super().paired_p(ours, theirs)
        from scipy.stats import binomtest

        only_ours = int(np.count_nonzero(ours > theirs))
        differ = only_ours + int(np.count_nonzero(ours < theirs))
        return float(binomtest(only_ours, differ).pvalue) if differ else 1.0


class NeighborJudge(Judge):
    """No label, no target: which share of a held-out row's k nearest training rows is kept.

    The neighbours to be kept are those in `original`, the columns as they are or scaled.
    """

    task = "none"
    score_name = Told("neighbours kept", "保留的近邻")

    def __init__(self, X: Array, original: Array, *, k: int, **split: Any) -> None:
        super().__init__(X, split_rows(X, None, **split))
        self.original = original
        self.k = k
        self._nearest: dict[int, Ints] = {}

    def score(self, placed: Placed, fold: Fold, d: int) -> Outcome:
        """Mean share kept."""
        k = min(self.k, len(fold.train))
        key = id(fold)
        if key not in self._nearest:
            self._nearest[key] = _nearest(self.original[fold.train], self.original[fold.test], k)
        found = _nearest(
            np.ascontiguousarray(placed.train[:, :d]), np.ascontiguousarray(placed.test[:, :d]), k
        )
        wanted = self._nearest[key]
        kept = (found[:, :, None] == wanted[:, None, :]).any(axis=2).mean(axis=1)
        return Outcome(float(kept.mean()), kept)


def _nearest(rows: Array, queries: Array, k: int) -> Ints:
    return np.asarray(build_index(rows, metric="euclidean", k_hint=k).nearest(queries, k)[1])


class PairJudge(Judge):
    """Must-link and cannot-link pairs: how well distance tells held-out pairs apart (AUC).

    Pairs are held out, rows are not: a model may look at the columns of all rows.
    """

    task = "pairs"
    score_name = Told("AUC", "AUC")
    chance = 0.5
    is_share = False

    def __init__(self, X: Array, pairs: Ints, alike: Array, **split: Any) -> None:
        super().__init__(X, split_pairs(pairs, alike, len(X), **split))
        self.pairs = pairs
        self.alike = alike

    def place(self, model: Any, fold: Fold, fit_rows: Ints) -> Placed:
        """Fit on the training pairs; the rows of the held-out pairs, side by side."""
        self.fit(model, fold.train)
        Z = _as_array(model.transform(self.X))
        return Placed(Z, Z)

    def fit(self, model: Any, rows: Ints) -> None:
        """Fit on these pairs (their numbers), if the model takes pairs, else on rows."""
        steps = [step for _, step in getattr(model, "steps", [("", model)])]
        if not isinstance(steps[-1], PairsMixin):
            model.fit(self.X[:: -(-len(self.X) // _MOST_ROWS)])
            return
        X = self.X
        for step in steps[:-1]:
            X = step.fit_transform(X)
        sign = np.where(self.alike[rows], 1, -1)
        steps[-1].fit(X, pairs=np.column_stack([self.pairs[rows], sign]))

    def score(self, placed: Placed, fold: Fold, d: int) -> Outcome:
        """Area under the curve: the chance that a must-link pair is the nearer of two."""
        from sklearn.metrics import roc_auc_score

        a, b = self.pairs[fold.test].T
        distance = np.linalg.norm(placed.test[a, :d] - placed.test[b, :d], axis=1)
        return Outcome(float(roc_auc_score(self.alike[fold.test], -distance)), -distance)

    def chance_scores(self) -> Floats:
        """One half."""
        return np.full(len(self.split.folds), 0.5)
