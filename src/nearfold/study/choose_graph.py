"""Choose the neighbourhood: k or epsilon, by connectivity or by cross-validation.

Isomap and LLE stand on a graph. Too few neighbours and it falls into pieces ("open circuits" in the
book), too many and it takes short cuts. The smallest k or epsilon that connects is where to begin;
with a label or a target the learner in the space decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.graph import OutsideSearch, neighbourhood_graph
from nearfold.graph.connect import (
    smallest_connecting_k,
    smallest_connecting_radius,
    spanning_ranks,
)
from nearfold.messages import Message
from nearfold.neighbors import build_index
from nearfold.notation import Array, Floats
from nearfold.run import steps
from nearfold.study.choice import Choice, Curve, pick
from nearfold.study.choose import (
    as_table,
    judge_for_choice,
    prepared,
    sampled,
    scores_of_settings,
    trying,
)
from nearfold.study.judges import LearnerJudge
from nearfold.study.recipes import Recipe

_K_NAME = Message("choose.neighbors")
_RADIUS_NAME = Message("choose.radius")
_PIECES = Message("choose.pieces")
_EXACT_ROWS = 20_000  # the longest edge of a spanning tree is looked for among this many


def choose_neighbors(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    rule: str | None = None,
    neighbors: Any = None,
    n_neighbors: int = 5,
    n_folds: int = 5,
    n_repeats: int | None = None,
    task: str | None = None,
    scale: bool | None = False,
    random_state: int = 0,
) -> Choice:
    """k: of a neighbourhood graph (an estimator with `n_neighbors`), or of the learner (None).

    rule: "connectivity" (the smallest k whose graph is in one piece; the default without y),
    "cross_validation" or "one_standard_error" (the default with y) of the learner with
    `n_neighbors` in the space; a learner's own k is the best, as fewer is not simpler.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from nearfold import choose_neighbors, Isomap
    >>> choose_neighbors(Isomap(), make_swiss_roll(800, random_state=0)[0]).value
    5
    """
    table = as_table(X, y, task)
    rule = _known_rule(rule, table.y)
    if rule == "connectivity":
        return _k_by_connectivity(prepared(table, scale, random_state))
    learner = estimator is None or is_learner(estimator)
    some = sampled(table, random_state)
    judge, recipe = judge_for_choice(some, n_neighbors, n_folds, n_repeats, scale, random_state)
    least = min(len(fold.train) for fold in judge.split.folds)
    tried = np.unique(neighbors if neighbors is not None else _neighbors_to_try(least))
    if len(tried) == 0 or tried[0] < 1 or tried[-1] >= least:
        raise InputError(Message("choose.out_of_range", name="neighbors", value=str(neighbors),
                                 most=least - 1))  # fmt: skip
    if learner:
        scores, rule = _learner_scores(judge, tried, recipe), "cross_validation"
    else:
        settings = [{"n_neighbors": int(k)} for k in tried]
        scores = _graph_scores(judge, estimator, settings, recipe)
    names = (_K_NAME, judge.score_name)
    return pick(scores, tried, rule, names, "n_neighbors", judge.split.n_folds)


def choose_radius(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    rule: str | None = None,
    radii: Any = None,
    n_neighbors: int = 5,
    n_folds: int = 5,
    n_repeats: int | None = None,
    task: str | None = None,
    scale: bool | None = False,
    random_state: int = 0,
) -> Choice:
    """epsilon of a neighbourhood graph: the smallest that connects, or by cross-validation.

    `radii`: those to try; by default from the smallest that connects to three times as much.
    """
    table = as_table(X, y, task)
    rule = _known_rule(rule, table.y)
    if rule == "connectivity":
        X = prepared(table, scale, random_state)
        return _radius_by_connectivity(X, _smallest_radius(X, random_state))
    some = sampled(table, random_state)
    judge, recipe = judge_for_choice(some, n_neighbors, n_folds, n_repeats, scale, random_state)
    rows = judge.prepare.fitted(recipe, np.arange(len(judge.table)))[1]
    smallest = _smallest_radius(rows, random_state)
    wide = smallest * np.geomspace(1.05, 3.0, 8)
    tried = np.unique(np.asarray(wide if radii is None else radii, dtype=np.float64))
    if len(tried) == 0 or not (tried > 0).all():
        raise InputError(Message("choose.radii", radii=str(radii)))
    settings = [{"radius": float(radius), "n_neighbors": None} for radius in tried]
    scores = _graph_scores(judge, estimator, settings, recipe)
    names = (_RADIUS_NAME, judge.score_name)
    return pick(scores, tried, rule, names, "radius", judge.split.n_folds)


def _known_rule(rule: str | None, y: Any) -> str:
    rule = rule or ("connectivity" if y is None else "one_standard_error")
    known = ["connectivity", "cross_validation", "one_standard_error"]
    if rule not in known:
        raise InputError(Message("words.one_of", name="rule", value=repr(rule), known=known))
    return rule


def _neighbors_to_try(least: int) -> Array:
    return np.array([k for k in (3, 4, 5, 7, 10, 14, 20, 28, 40) if k < least] or [1])


def is_learner(estimator: Any) -> bool:
    """Whether it is a nearest-neighbour learner, whose own k is chosen."""
    return type(estimator).__name__ in ("KNeighborsClassifier", "KNeighborsRegressor")


def _learner_scores(judge: LearnerJudge, tried: Array, recipe: Recipe) -> Floats:
    """The learner in the prepared columns, for each k."""
    rows = []
    judge.ks = tuple(int(k) for k in tried)
    with trying(judge):
        for fold in steps(judge.split.folds, "Trying numbers of neighbours"):
            placed = judge.fit_and_transform(None, recipe, fold, fold.train)
            outcomes = judge.evaluate(placed, fold, placed.train.shape[1], "euclidean")
            rows.append([outcome.score for outcome in outcomes])
    return np.array(rows)


def _graph_scores(
    judge: LearnerJudge, estimator: Any, settings: list[dict[str, Any]], recipe: Recipe
) -> Floats:
    """The learner in the space of each graph; every graph is one fit per fold."""
    with trying(judge):
        folds = steps(judge.split.folds, "Trying neighbourhoods")
        return np.array([scores_of_settings(judge, estimator, f, settings, recipe) for f in folds])


def _k_by_connectivity(X: Array) -> Choice:
    n = len(X)
    index = build_index(X, metric="euclidean", k_hint=10)
    smallest = smallest_connecting_k(index, 5)
    if smallest is None:
        raise InputError(Message("choose.pieces_left", most=256))
    tried = np.arange(1, min(n - 1, max(smallest + 3, 8)) + 1)
    ranks = spanning_ranks(index, int(tried[-1]))
    pieces = np.array([n - np.count_nonzero(ranks <= k) for k in tried], dtype=np.float64)
    reason = Message("choose.k_connects", value=smallest, n=n)
    if smallest > 1:
        reason = Message("choose.k_connects_before", value=smallest, n=n, less=smallest - 1,
                         pieces=int(pieces[smallest - 2]))  # fmt: skip
    return Choice(smallest, "connectivity", Curve(tried, pieces, None, _K_NAME, _PIECES), reason)


def _smallest_radius(X: Array, random_state: int) -> float:
    if len(X) > _EXACT_ROWS:
        raise InputError(Message("choose.many_rows", most=_EXACT_ROWS, n=len(X)))
    k = min(10, len(X) - 1)
    index = build_index(X, metric="euclidean", k_hint=k)
    graph, reach = neighbourhood_graph(index, k, None)
    smallest = smallest_connecting_radius(graph, reach, OutsideSearch(index))
    if not smallest > 0:
        raise InputError(Message("choose.all_equal"))
    return smallest


def _radius_by_connectivity(X: Array, smallest: float) -> Choice:
    # A hair more: rounding must not cut the longest edge.
    value = float(np.nextafter(smallest * (1 + 1e-9), np.inf))
    tried = value * np.array([0.25, 0.5, 0.7, 0.85, 0.95, 1.0, 1.2])
    index = build_index(X, metric="euclidean", k_hint=5)
    pieces = []
    for radius in tried:
        graph, _ = neighbourhood_graph(index, None, float(radius))
        pieces.append(float(graph.components()[0]))
    reason = Message("choose.radius_connects", value=f"{value:.6g}", n=len(X))
    curve = Curve(tried, np.array(pieces), None, _RADIUS_NAME, _PIECES)
    return Choice(value, "connectivity", curve, reason)
