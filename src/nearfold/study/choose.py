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

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone

from nearfold.errors import ApproximationWarning, InputError, hearing, warn
from nearfold.messages import Message
from nearfold.methods.pca import PCA
from nearfold.notation import Array, Floats
from nearfold.registry import method_of
from nearfold.run import steps
from nearfold.study.choice import Choice, Curve, pick
from nearfold.study.folds import Fold
from nearfold.study.intake import StudyTable, open_table
from nearfold.study.judges import LearnerJudge
from nearfold.study.make_judge import make_judge, plain_recipe
from nearfold.study.question import Question, Task
from nearfold.study.recipes import RAW, SCALED, Recipe
from nearfold.study.table import room_for, rows_within_budget, sample_notice
from nearfold.study.watch import threads_for

_MOST_CURVED = 64


def nests(model: Any) -> bool:
    """Whether the first axes of a fit are the fit of fewer dimensions."""
    last = last_step(model)
    method = method_of(last)
    if method is None:
        return type(last).__name__ == "TruncatedSVD" or hasattr(last, "truncate")
    return method.nests


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
    scale: bool | None = False,
    random_state: int = 0,
) -> Choice:
    """The number of dimensions d' for an estimator with `n_components`, or a pipeline that ends so.

    rule: "share" (of the variance at least `threshold`), "parallel" (PCA only), "cross_validation"
    (the best), "one_standard_error" (the smallest that is not clearly worse than the best); the
    last two need y, a label or a numeric target. X: an array, a frame or a file (or the table that
    `open_table` made of it). scale: whether columns are scaled first; None: whichever raises the
    held-out score.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from nearfold import PCA, choose_dimension
    >>> X, y = load_wine(return_X_y=True)
    >>> choose_dimension(PCA(), scale(X), rule="share", threshold=0.9).value
    8
    """
    table = sampled(as_table(X, y, task), random_state)
    if rule == "share":
        return _by_share(estimator, prepared(table, scale, random_state), table.y, threshold)
    if rule == "parallel":
        X = prepared(table, scale, random_state)
        if type(last_step(estimator)).__name__ not in ("PCA", "IncrementalPCA"):
            raise InputError(Message("choose.only_pca"))
        if last_step(estimator) is not estimator:
            X = estimator[:-1].fit_transform(X)
        return _by_parallel_analysis(X, random_state)
    if rule not in ("cross_validation", "one_standard_error"):
        known = ["share", "parallel", "cross_validation", "one_standard_error"]
        raise InputError(Message("words.one_of", name="rule", value=repr(rule), known=known))
    judge, recipe = judge_for_choice(table, n_neighbors, n_folds, n_repeats, scale, random_state)
    most = _most_dimensions(estimator, judge, recipe)
    tried = (
        np.unique(dimensions)
        if dimensions is not None
        else (dimensions_to_try(most, sparing=not nests(estimator)))
    )
    if len(tried) == 0 or tried[0] < 1 or tried[-1] > most:
        raise InputError(Message("choose.out_of_range", name="dimensions", value=str(dimensions),
                                 most=most))  # fmt: skip
    scores = dimension_scores(judge, estimator, tried, recipe)
    names = Message("choose.dimensions"), judge.score_name
    return pick(scores, tried, rule, names, "n_components", judge.split.n_folds)


def dimension_scores(
    judge: LearnerJudge, estimator: Any, tried: Array, recipe: Recipe = RAW
) -> Floats:
    """Scores of folds x dimensions; what nests is fitted once per fold."""
    rows = []
    with trying(judge):
        for fold in steps(judge.split.folds, "Trying dimensions"):
            if nests(estimator):
                model = with_parameters(estimator, n_components=int(tried[-1]))
                placed = judge.fit_and_transform(model, recipe, fold, fold.train)
                width = placed.train.shape[1]
                rows.append([score_of(judge, placed, fold, min(int(d), width)) for d in tried])
            else:
                values = [{"n_components": int(d)} for d in tried]
                rows.append(scores_of_settings(judge, estimator, fold, values, recipe))
    return np.array(rows)


def score_of(judge: LearnerJudge, placed: Any, fold: Fold, d: int) -> float:
    """The score of a fold in the first d dimensions, for the judge's only k."""
    return judge.evaluate(placed, fold, d, "euclidean")[0].score


def scores_of_settings(
    judge: LearnerJudge, estimator: Any, fold: Fold, settings: list[dict[str, Any]], recipe: Recipe
) -> list[float]:
    """One fit for each setting of an estimator, judged on one fold; NaN where that fails."""
    row = []
    for setting in settings:
        model = with_parameters(estimator, **setting)
        try:
            placed = judge.fit_and_transform(model, recipe, fold, fold.train)
        except InputError:  # a radius within which some held-out row has no neighbour
            row.append(np.nan)
            continue
        row.append(score_of(judge, placed, fold, placed.train.shape[1]))
    return row


@contextmanager
def trying(judge: LearnerJudge) -> Iterator[None]:
    """Values are tried that nobody asked for: their warnings are not shown."""
    cells = judge.table.cells
    with hearing(), threads_for(cells), room_for(cells):
        yield


def as_table(X: Any, y: Any, task: str | None) -> StudyTable:
    """X and y as the table of a study."""
    return X if isinstance(X, StudyTable) else open_table(X, y, task)


def sampled(table: StudyTable, seed: int) -> StudyTable:
    """The table, or a sample of its rows with a warning if its copies would not fit."""
    label = table.y if table.task == Task.CLASSIFICATION else None
    rows = rows_within_budget(table.cells, label, seed)
    if rows is None:
        return table
    warn(sample_notice(rows, len(table)), ApproximationWarning)
    return table.take(rows)


def prepared(table: StudyTable, scale: bool | None, seed: int) -> Array:
    """All rows as numbers, where no score can decide how."""
    from nearfold.study.recipes import Preparations

    if len(table) < 2:
        raise InputError(Message("study.one_row"))
    recipe = plain_recipe(table.cells, scale)
    prepare = Preparations(table.cells, table.columns, table.missing, seed, table.y)
    return prepare.fitted(recipe, np.arange(len(table)))[1]


def judge_for_choice(
    table: StudyTable, k: int, n_folds: int, n_repeats: int | None, scale: bool | None, seed: int
) -> tuple[LearnerJudge, Recipe]:
    """The learner whose held-out score decides (all rows take part, none is set aside), and how
    columns are prepared: raw or scaled, as asked for, or whichever has the better score.
    """
    if table.y is None:
        raise InputError(Message("choose.needs_y"))
    question = Question(n_neighbors=k, n_folds=n_folds, n_repeats=n_repeats, set_aside=False,
                        random_state=seed)  # fmt: skip
    judge = make_judge(table, question)
    assert isinstance(judge, LearnerJudge)
    if scale is not None:
        return judge, SCALED if scale else RAW
    means = []
    for recipe in (RAW, SCALED):
        placed = [(judge.fit_and_transform(None, recipe, f, f.train), f) for f in judge.split.folds]
        means.append(np.mean([score_of(judge, p, f, p.train.shape[1]) for p, f in placed]))
    return judge, SCALED if means[1] > means[0] else RAW


def with_parameters(estimator: Any, **params: Any) -> Any:
    """A fresh copy with these parameters, which it, or a pipeline's last step, must have."""
    copy = clone(estimator)
    last = last_step(copy)
    missing = [name for name in params if name not in last.get_params()]
    if missing:
        name = type(last).__name__
        raise InputError(Message("choose.no_parameter", name=name, parameter=missing[0]))
    last.set_params(**params)
    return copy


def last_step(estimator: Any) -> Any:
    """What a pipeline ends in, or the estimator itself."""
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def _most_dimensions(estimator: Any, judge: LearnerJudge, recipe: Recipe) -> int:
    least = min(len(fold.train) for fold in judge.split.folds)
    d = judge.prepare.fold(recipe, judge.split.folds[0])[1].shape[1]
    method = method_of(last_step(estimator))
    bound = "columns" if method is None else method.most_axes
    if bound == "classes":
        return max(1, min(d, len(np.unique(judge.y)) - 1))
    if bound == "rows":
        return max(1, min(_MOST_CURVED, least - 1))  # they may have more axes than columns
    return max(1, min(d, least - 1))


def _by_share(estimator: Any, X: Array, y: Any, threshold: float) -> Choice:
    if not 0 < threshold <= 1:
        raise InputError(Message("choose.threshold", threshold=threshold))
    model = clone(estimator)
    last = last_step(model)
    method = method_of(last)
    if method is None or not method.tells_shares:
        raise InputError(Message("choose.no_share", name=type(last).__name__))
    if y is None and method.most_axes == "classes":
        raise InputError(Message("choose.needs_label", name=method.name))
    last.set_params(n_components=None)
    model.fit(X) if y is None else model.fit(X, y)
    share = last.explained_variance_ratio_
    held = np.cumsum(np.asarray(share, dtype=np.float64))
    # (10.18): the smallest d' with sum of lam_1..lam_d' >= t times the sum of all.
    place = min(int(np.searchsorted(held, threshold * (1 - 1e-12))), len(held) - 1)
    value = place + 1
    reason = Message("choose.share", value=value, of=len(held), held=f"{100 * held[place]:.1f}",
                     share=f"{100 * threshold:g}")  # fmt: skip
    names = Message("choose.dimensions"), Message("choose.share_of_variance")
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
    reason = Message("choose.parallel" if value else "choose.parallel_none", value=max(value, 1))
    names = Message("choose.axis"), Message("choose.beyond_chance")
    curve = Curve(np.arange(1, len(found) + 1), found - by_chance, None, *names)
    return Choice(max(value, 1), "parallel", curve, reason)
