"""Choose d', k and epsilon, and say why.

Two rules for d' are the book's (end of section 10.3): the fewest axes that hold a share t of the
variance, and cross-validation of a nearest-neighbour learner in the reduced space. In the latter
the reduction is fitted inside each fold and held-out rows are transformed. The one-standard-error
rule takes the smallest d' that is not worse than the best by more than the standard error of their
difference over the folds. Parallel analysis (Horn) keeps the axes of PCA that hold more than those
of the same columns shuffled, each by itself, so that nothing but chance relates them.

A method whose first axes are its space of fewer dimensions is fitted once per fold for every d'.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from nearfold.errors import InputError, NearfoldWarning
from nearfold.inputs import refuse_extreme
from nearfold.methods.pca import PCA
from nearfold.notation import Array, Floats
from nearfold.registry import method_of
from nearfold.run import steps
from nearfold.study.answers import check_answers
from nearfold.study.folds import Fold
from nearfold.study.judges import Judge, LearnerJudge
from nearfold.study.statistics import fold_errors, one_standard_error
from nearfold.study.table import largest, read_rows, room_for, sampled_table
from nearfold.study.told import Told
from nearfold.study.watch import threads_for

_MOST_CURVED = 64


@dataclass(frozen=True)
class Curve:
    """What a choice was made from: y at each x, with a standard error where there is one."""

    x: Array
    y: Floats
    error: Floats | None
    x_name: Told
    y_name: Told


@dataclass(frozen=True)
class Choice:
    """A chosen value, the curve it was read from and the reason in a sentence."""

    value: Any
    rule: str
    curve: Curve
    reason: Told
    best: Any = None  # where the curve is highest, if that is another one

    def __str__(self) -> str:
        return str(self.reason)


def nests(model: Any) -> bool:
    """Whether the first axes of a fit are the fit of fewer dimensions."""
    last = last_step(model)
    method = method_of(last)
    own = type(last).__name__ == "TruncatedSVD" if method is None else method.nests
    return own or hasattr(last, "truncate")


def dimensions_to_try(most: int, sparing: bool = False) -> Array:
    """All up to `most` if they are few, else ever wider steps; `sparing`: few in any case."""
    if not sparing and most <= 64:
        return np.arange(1, most + 1)
    per_doubling = 2 if sparing else 8
    powers = 2.0 ** (np.arange(0, per_doubling * np.log2(most) + 1) / per_doubling)
    return np.unique(np.append(np.minimum(np.round(powers), most), most).astype(np.int64))


def choose_dimension(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    rule: str = "one_standard_error",
    threshold: float = 0.95,
    dimensions: Any = None,
    n_neighbors: int = 5,
    n_folds: int = 5,
    n_repeats: int | None = None,
    task: str | None = None,
    random_state: int = 0,
) -> Choice:
    """The number of dimensions d' for an estimator with `n_components`, or a pipeline that ends so.

    rule: "share" (of the variance at least `threshold`), "parallel" (PCA only), "cross_validation"
    (the best), "one_standard_error" (the smallest that is not clearly worse than the best); the
    last two need y, a label or a numeric target.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from nearfold import PCA, choose_dimension
    >>> X, y = load_wine(return_X_y=True)
    >>> choose_dimension(PCA(), scale(X), rule="share", threshold=0.9).value
    8
    """
    X = read_rows(X)
    if rule == "share":
        if last_step(estimator) is not estimator:  # earlier steps copy the table
            y = None if y is None else np.asarray(y)
            X, y = sampled_table(X, y, None, random_state)
        return _by_share(estimator, X, y, threshold)
    if rule == "parallel":
        X, _ = sampled_table(X, None, None, random_state)
        if type(last_step(estimator)).__name__ not in ("PCA", "IncrementalPCA"):
            raise InputError("parallel analysis is a rule for PCA: choose by cross-validation.")
        if last_step(estimator) is not estimator:
            X = estimator[:-1].fit_transform(X)
        return _by_parallel_analysis(X, random_state)
    if rule not in ("cross_validation", "one_standard_error"):
        raise InputError(
            f"rule={rule!r}: there are share, parallel, cross_validation and one_standard_error."
        )
    judge = judge_for_choice(X, y, task, n_neighbors, n_folds, n_repeats, random_state)
    most = _most_dimensions(estimator, judge)
    tried = dimensions_to_try(most) if dimensions is None else np.unique(dimensions)
    if len(tried) == 0 or tried[0] < 1 or tried[-1] > most:
        raise InputError(f"dimensions={dimensions}: try numbers from 1 to {most}.")
    scores = dimension_scores(judge, estimator, tried)
    names = Told("dimensions d'", "维数 d'"), judge.score_name
    return pick(scores, tried, rule, names, "n_components", judge.split.n_folds)


def dimension_scores(judge: Judge, estimator: Any, tried: Array) -> Floats:
    """Scores of folds x dimensions; what nests is fitted once per fold."""
    rows = []
    with trying(judge):
        for fold in steps(judge.split.folds, "Trying dimensions"):
            if nests(estimator):
                model = with_parameters(estimator, n_components=int(tried[-1]))
                placed = judge.place(model, fold, fold.train)
                width = placed.train.shape[1]
                rows.append([judge.score(placed, fold, min(int(d), width)).score for d in tried])
            else:
                values = [{"n_components": int(d)} for d in tried]
                rows.append(scores_of_settings(judge, estimator, fold, values))
    return np.array(rows)


def scores_of_settings(
    judge: Judge, estimator: Any, fold: Fold, settings: list[dict[str, Any]]
) -> list[float]:
    """One fit for each setting of an estimator, judged on one fold; NaN where that fails."""
    row = []
    for setting in settings:
        model = with_parameters(estimator, **setting)
        try:
            placed = judge.place(model, fold, fold.train)
        except InputError:  # a radius within which some held-out row has no neighbour
            row.append(np.nan)
            continue
        row.append(judge.score(placed, fold, placed.train.shape[1]).score)
    return row


@contextmanager
def trying(judge: Judge) -> Iterator[None]:
    """Values are tried that nobody asked for: what they warn of is not told."""
    with warnings.catch_warnings(), threads_for(judge.X), room_for(judge.X):
        warnings.simplefilter("ignore", NearfoldWarning)
        yield


def judge_for_choice(
    X: Array,
    y: Any,
    task: str | None,
    k: int,
    n_folds: int,
    n_repeats: int | None,
    random_state: int,
) -> LearnerJudge:
    """The learner whose held-out score decides: all rows take part, none is set aside."""
    refuse_extreme(largest(X), X.dtype)
    if y is None:
        raise InputError(
            "cross-validation needs y, a label or a target: without it choose by share, parallel "
            "analysis or connectivity."
        )
    y, task = check_answers(y, len(X), task)
    X, y = sampled_table(X, y, y if task == "classification" else None, random_state)
    return LearnerJudge(
        X,
        y,
        task=task,
        k=k,
        n_folds=n_folds,
        n_repeats=n_repeats,
        set_aside=False,
        random_state=random_state,
    )


def pick(
    scores: Floats, tried: Array, rule: str, names: tuple[Told, Told], what: str, n_folds: int
) -> Choice:
    """The choice among `tried`, from scores of folds x choices; with NaN one is out."""
    usable = ~np.isnan(scores).any(axis=0)
    if not usable.any():
        raise InputError(f"no value of {what} that was tried serves every fold: {tried.tolist()}.")
    scores, tried = scores[:, usable], tried[usable]
    mean = scores.mean(axis=0)
    error = fold_errors(scores, n_folds)
    best = int(np.argmax(mean))
    place = best if rule == "cross_validation" else one_standard_error(scores)
    value, top = tried[place].item(), tried[best].item()
    shown, at_top = f"{mean[place]:.4f}", f"{mean[best]:.4f}"
    if place == best:
        reason = Told(
            f"{what} = {value:.6g}: the best held-out {names[1].en}, {shown} ± {error[best]:.4f}, "
            f"of {len(tried)} tried.",
            f"{what} = {value:.6g}:在试过的 {len(tried)} 个取值中,留出{names[1].zh}最高,"
            f"为 {shown} ± {error[best]:.4f}。",
        )
    else:
        reason = Told(
            f"{what} = {value:.6g}: its held-out {names[1].en} of {shown} is not below the best, "
            f"{at_top} at {top:.6g}, by more than one standard error of their difference.",
            f"{what} = {value:.6g}:留出{names[1].zh}为 {shown},与最好的 {at_top}(取 {top:.6g} 时)"
            "之差不超过该差的一个标准误。",
        )
    return Choice(value, rule, Curve(tried, mean, error, *names), reason, top)


def with_parameters(estimator: Any, **params: Any) -> Any:
    """A fresh copy with these parameters, which it, or a pipeline's last step, must have."""
    copy = clone(estimator)
    last = last_step(copy)
    missing = [name for name in params if name not in last.get_params()]
    if missing:
        raise InputError(f"{type(last).__name__} has no {missing[0]} to choose.")
    last.set_params(**params)
    return copy


def last_step(estimator: Any) -> Any:
    """What a pipeline ends in, or the estimator itself."""
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def _most_dimensions(estimator: Any, judge: LearnerJudge) -> int:
    least = min(len(fold.train) for fold in judge.split.folds)
    d = judge.X.shape[1]
    method = method_of(last_step(estimator))
    bound = "columns" if method is None else method.most_axes
    if bound == "classes":
        return max(1, min(d, len(np.unique(judge.y)) - 1))
    if bound == "rows":
        return max(1, min(_MOST_CURVED, least - 1))  # they may have more axes than columns
    return max(1, min(d, least - 1))


def _by_share(estimator: Any, X: Array, y: Any, threshold: float) -> Choice:
    if not 0 < threshold <= 1:
        raise InputError(f"threshold={threshold}: a share of the variance lies in (0, 1].")
    model = clone(estimator)
    last = last_step(model)
    method = method_of(last)
    if method is None or not method.tells_shares:
        raise InputError(
            f"{type(last).__name__} does not tell what share of the variance its axes hold: "
            "choose by cross-validation."
        )
    if y is None and method.most_axes == "classes":
        raise InputError(f"{method.name} learns from a label: give y.")
    last.set_params(n_components=None)
    model.fit(X) if y is None else model.fit(X, y)
    share = last.explained_variance_ratio_
    held = np.cumsum(np.asarray(share, dtype=np.float64))
    # (10.18): the smallest d' with sum of lam_1..lam_d' >= t times the sum of all.
    place = min(int(np.searchsorted(held, threshold * (1 - 1e-12))), len(held) - 1)
    value = place + 1
    reason = Told(
        f"n_components = {value}: the first {value} of {len(held)} axes hold "
        f"{100 * held[place]:.1f} % of the variance, the fewest that hold {100 * threshold:g} %.",
        f"n_components = {value}:前 {value} 个(共 {len(held)} 个)主成分占方差的 "
        f"{100 * held[place]:.1f}%,是达到 {100 * threshold:g}% 所需的最少个数。",
    )
    names = Told("dimensions d'", "维数 d'"), Told("share of the variance", "方差占比")
    return Choice(value, "share", Curve(np.arange(1, len(held) + 1), held, None, *names), reason)


def parallel_analysis(
    X: Array, n_shuffles: int = 20, random_state: int = 0
) -> tuple[Floats, Floats]:
    """Variances of the axes of X, and the 95 % quantile of those of its shuffled columns."""
    draw = np.random.default_rng(random_state)
    found = PCA().fit(X).explained_variance_
    by_chance = []
    for _ in steps(range(n_shuffles), "Shuffling columns"):
        values = PCA().fit(draw.permuted(X, axis=0)).explained_variance_
        by_chance.append(np.pad(values, (0, max(0, len(found) - len(values))))[: len(found)])
    return found, np.quantile(by_chance, 0.95, axis=0)


def _by_parallel_analysis(X: Array, random_state: int) -> Choice:
    found, by_chance = parallel_analysis(X, random_state=random_state)
    above = found > by_chance
    value = len(found) if above.all() else int(np.argmin(above))
    if value == 0:
        reason = Told(
            "n_components = 1: no axis holds more than one of shuffled columns does, so the "
            "columns look unrelated and a reduction loses as much as it leaves out.",
            "n_components = 1:没有一个主成分超过打乱各列后的水平,各列看来互不相关,降维会有损失。",
        )
    else:
        reason = Told(
            f"n_components = {value}: the first {value} axes each hold more variance than 95 % of "
            "those of the same columns shuffled.",
            f"n_components = {value}:前 {value} 个主成分的方差都超过把各列打乱后 95% 的情形。",
        )
    names = Told("axis", "主成分序号"), Told("variance beyond chance", "超出随机水平的方差")
    curve = Curve(np.arange(1, len(found) + 1), found - by_chance, None, *names)
    return Choice(max(value, 1), "parallel", curve, reason)
