"""Simulated comparisons of spaces, fast enough to be repeated hundreds of times.

A nearest-neighbour learner is judged in each space on held-out rows as the product does it: for
each fold, the setting (number of neighbours, number of axes) that did best on the other folds of
the same repeat. The neighbours of a row among all rows are found once per space; those in its own
fold are skipped. Spaces that learn from labels are fitted fold by fold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nearfold.kernels.compile import kernel
from nearfold.study.scores import SCORES, ScoreName

KS = np.array([1, 3, 5, 9, 15, 25])
N_FOLDS = 5


@dataclass(frozen=True)
class Simulated:
    """Held-out predictions of S spaces in R repeats; the first two are raw and scaled."""

    score: ScoreName
    truth: np.ndarray  # (n,)
    predicted: np.ndarray  # (S, R, n)
    guessed: np.ndarray  # (R, n), without the columns
    fold: np.ndarray  # (R, n)
    cluster: np.ndarray | None = None

    @property
    def psi(self) -> np.ndarray:
        """Contributions of the rows to the score, (S + 1, R, n); the last is chance."""
        influence = SCORES[self.score].influence
        both = [*self.predicted, self.guessed]
        return np.array([[influence(self.truth, p) for p in space] for space in both])


@dataclass(frozen=True)
class Table:
    """Columns with the spaces that can be made of them."""

    X: np.ndarray
    unsupervised: list[list[np.ndarray]]  # of each space, the neighbour lists of its settings
    supervised: list[Callable[[np.ndarray, np.ndarray], np.ndarray]]  # rows, labels -> axes
    cluster: np.ndarray | None = None


def make_table(X: np.ndarray, n_random: int, supervised: bool, cluster=None, seed=0) -> Table:
    """Raw and scaled columns, principal axes, random projections and spaces that overfit."""
    draw = np.random.default_rng(seed)
    m = 64 if cluster is None else 160
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    spaces = [[neighbours(X, m)], [neighbours(scaled, m)]]
    for rows in (X - X.mean(axis=0), scaled):
        axes = np.linalg.svd(rows, full_matrices=False)[2].T
        cuts = [d for d in (1, 2, 4, 8) if d < X.shape[1]]
        spaces.append([neighbours(rows @ axes[:, :d], m) for d in cuts])
    for i in range(n_random):
        W = draw.normal(size=(X.shape[1], (2, 3, 5, 8)[i % 4]))
        spaces.append([neighbours(scaled @ W, m)])
    learned = [discriminant, best_columns, weighted_columns, class_means] if supervised else []
    return Table(X, spaces, learned, cluster)


def neighbours(Z: np.ndarray, m: int) -> np.ndarray:
    """The m nearest rows of each row, nearest first."""
    m = min(m, len(Z) - 1)
    found = np.empty((len(Z), m), dtype=np.int64)
    for start in range(0, len(Z), 1000):
        rows = np.arange(start, min(start + 1000, len(Z)))
        D = distances(Z[rows], Z)
        D[rows - start, rows] = np.inf
        found[rows] = nearest(D, m)
    return found


def distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return (A**2).sum(axis=1)[:, None] - 2 * A @ B.T + (B**2).sum(axis=1)


def nearest(D: np.ndarray, m: int) -> np.ndarray:
    part = np.argpartition(D, m - 1, axis=1)[:, :m]
    return np.take_along_axis(part, np.take_along_axis(D, part, 1).argsort(axis=1), 1)


def _design(y: np.ndarray) -> np.ndarray:
    """Centred indicators of the classes, or the centred target."""
    if y.dtype.kind == "f":
        return (y - y.mean())[:, None]
    hot = np.eye(y.max() + 1)[y]
    return hot - hot.mean(axis=0)


def discriminant(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Axes of least squares on the classes: those of LDA up to scale."""
    Xc = X - X.mean(axis=0)
    return np.linalg.lstsq(Xc, _design(y), rcond=None)[0]


def _association(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    Xc = (X - X.mean(axis=0)) / X.std(axis=0)
    return np.sqrt(((Xc.T @ _design(y)) ** 2).sum(axis=1))


def best_columns(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The three columns that are most associated with the answer."""
    chosen = np.argsort(-_association(X, y))[:3]
    return (np.eye(X.shape[1]) / X.std(axis=0))[:, chosen]


def weighted_columns(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """All columns, weighted by their association."""
    return np.diag(_association(X, y) / X.std(axis=0))


def class_means(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Axes through the means of the classes."""
    return (X - X.mean(axis=0)).T @ _design(y)


def deal(stratum: np.ndarray, cluster: np.ndarray | None, draw: np.random.Generator) -> np.ndarray:
    """A fold for each row: clusters whole, strata spread evenly."""
    code = np.arange(len(stratum)) if cluster is None else cluster
    first = np.unique(code, return_index=True)[1]
    order = draw.permutation(len(first))
    order = order[np.argsort(stratum[first[order]], kind="stable")]
    fold = np.empty(len(first), dtype=np.int64)
    fold[order] = (np.arange(len(first)) + draw.integers(N_FOLDS)) % N_FOLDS
    return fold[np.unique(code, return_inverse=True)[1]]


def simulate(
    table: Table, y: np.ndarray, score: ScoreName, repeats: int, draw: np.random.Generator
) -> Simulated:
    """Judge the spaces of a table by these labels or targets."""
    is_label = y.dtype.kind == "i"
    stratum = y if is_label else np.zeros(len(y), dtype=np.int64)
    folds = np.array([deal(stratum, table.cluster, draw) for _ in range(repeats)])
    n_spaces = len(table.unsupervised) + len(table.supervised)
    predicted = np.empty((n_spaces, repeats, len(y)))
    for r, fold in enumerate(folds):
        learned = [[held_out_lists(table.X, y, fold, fit)] for fit in table.supervised]
        for s, lists in enumerate(table.unsupervised + learned):
            tried = np.concatenate([predict(found, fold, y) for found in lists])
            predicted[s, r] = by_other_folds(score, y, tried, fold)
    return Simulated(score, y, predicted, guess(y, folds), folds, table.cluster)


def held_out_lists(X: np.ndarray, y: np.ndarray, fold: np.ndarray, fit) -> np.ndarray:
    """Neighbours of each row among the rows of the other folds, fitted on these."""
    lists = np.empty((len(y), KS[-1]), dtype=np.int64)
    for part in range(N_FOLDS):
        train, test = np.flatnonzero(fold != part), np.flatnonzero(fold == part)
        Z = X @ fit(X[train], y[train])
        lists[test] = train[nearest(distances(Z[test], Z[train]), KS[-1])]
    return lists


def predict(lists: np.ndarray, fold: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Held-out predictions with each number of neighbours, (K, n)."""
    if y.dtype.kind == "i":
        return _votes(lists, fold, y, int(y.max()) + 1, KS)
    return _means(lists, fold, y, KS)


@kernel
def _votes(lists, fold, y, n_classes, ks):
    out = np.zeros((len(ks), len(y)))
    for i in range(len(y)):
        votes = np.zeros(n_classes)
        count, q = 0, 0
        for j in lists[i]:
            if fold[j] != fold[i]:
                votes[y[j]] += 1
                count += 1
                if count == ks[q]:
                    out[q, i] = votes.argmax()
                    q += 1
                    if q == len(ks):
                        break
        for left in range(q, len(ks)):
            out[left, i] = votes.argmax()
    return out


@kernel
def _means(lists, fold, y, ks):
    out = np.zeros((len(ks), len(y)))
    for i in range(len(y)):
        total, count, q = 0.0, 0, 0
        for j in lists[i]:
            if fold[j] != fold[i]:
                total += y[j]
                count += 1
                if count == ks[q]:
                    out[q, i] = total / count
                    q += 1
                    if q == len(ks):
                        break
        for left in range(q, len(ks)):
            out[left, i] = total / count
    return out


def fold_scores(
    score: ScoreName, y: np.ndarray, predicted: np.ndarray, fold: np.ndarray
) -> np.ndarray:
    """(folds, settings) scores of predictions (settings, n)."""
    inside = np.eye(N_FOLDS)[fold]  # (n, J)
    if score is ScoreName.R2:
        squares = ((predicted - y) ** 2) @ inside
        mean = y @ inside / inside.sum(axis=0)
        return (1 - squares / ((y[:, None] - mean) ** 2 * inside).sum(axis=0)).T
    right = (predicted == y).astype(float)
    if score is ScoreName.ACCURACY:
        return (right @ inside / inside.sum(axis=0)).T
    hot = np.eye(y.max() + 1)[y]
    count = inside.T @ hot  # (J, C)
    weight = np.divide(1.0, count, out=np.zeros_like(count), where=count > 0)
    weight /= (count > 0).sum(axis=1, keepdims=True)
    return (right @ (inside * (hot @ weight.T))).T


def by_other_folds(
    score: ScoreName, y: np.ndarray, tried: np.ndarray, fold: np.ndarray
) -> np.ndarray:
    """For each fold, the predictions of the setting that did best on the other folds."""
    scores = fold_scores(score, y, tried, fold)
    chosen = (scores.sum(axis=0) - scores).argmax(axis=1)
    return tried[chosen[fold], np.arange(len(y))]


def guess(y: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """The most frequent class, or the mean, of the training rows."""
    out = np.empty(folds.shape)
    for r, fold in enumerate(folds):
        for part in range(N_FOLDS):
            known = y[fold != part]
            best = np.bincount(known).argmax() if y.dtype.kind == "i" else known.mean()
            out[r, fold == part] = best
    return out
