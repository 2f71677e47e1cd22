"""The charts of a report, each as the page takes it (page/PAYLOAD.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import NearfoldError
from nearfold.messages import Message
from nearfold.notation import Array, Ints
from nearfold.quality import SpaceQuality
from nearfold.report.doctor import diagnose
from nearfold.report.packing import pack_floats
from nearfold.study.choose import parallel_analysis
from nearfold.study.comparison import Comparison
from nearfold.study.explain import explain_space
from nearfold.study.judges import LearnerJudge
from nearfold.study.statistics import fold_errors

_DIAGNOSED = 2_000  # rows of the graph that is examined
_SHUFFLED_CELLS = 2_000_000  # of a table that is shuffled for the scree plot
_SHEPARD_PAIRS = 2_000
_CURVES = 6
_CONFUSIONS = 4
_EXPLAINED_ROWS = 5_000
_MOST_WEIGHTS = 30


def as_seen(comparison: Comparison, rows: Ints) -> Array:
    """The rows as spaces are built on them: prepared as was decided."""
    return comparison.judge.prepare.fitted(comparison.recipe, rows)[1]


def curves_part(comparison: Comparison) -> list[dict[str, Any]]:
    """Score against d', of the spaces that order their axes."""
    series: list[dict[str, Any]] = []
    for standing in comparison.verdict.standings:
        result = standing.result
        if len(result.dimensions) < 2 or len(result.scores) < 2 or len(series) == _CURVES:
            continue
        # Over the folds, at the k that is best for each number of dimensions.
        by_k = result.scores[:, result.chosen.recipe].mean(axis=0).argmax(axis=1)
        scores = result.scores[:, result.chosen.recipe, np.arange(len(by_k)), by_k]
        mean, error = scores.mean(axis=0), fold_errors(scores, result.split.n_folds)
        series.append(
            {
                "name": result.name,
                "x": result.dimensions,
                "y": mean,
                "low": mean - error,
                "high": mean + error,
                "chosen": result.n_dimensions,
                "best": int(result.dimensions[int(mean.argmax())]),
            }
        )
    if not series:
        return []
    score = comparison.judge.score_name
    return [
        {
            "title": Message("report.curve_title", score=score),
            "x_name": Message("choose.dimensions"),
            "y_name": score,
            "series": series,
            "reason": Message("report.curve_reason"),
        }
    ]


def scree_part(comparison: Comparison) -> list[dict[str, Any]]:
    """The variance of PCA's axes, beside that of shuffled columns."""
    if not any(r.name == "PCA" and len(r.scores) for r in comparison.results):
        return []
    rows = comparison.plan.view_rows
    X = as_seen(comparison, rows)
    X = X[:: max(1, int(np.ceil(X.size / _SHUFFLED_CELLS)))]
    if min(X.shape) < 2:
        return []
    variance, by_chance = parallel_analysis(
        X, n_shuffles=10, random_state=comparison.plan.question.random_state
    )
    total = float(variance.sum())
    if not total > 0:
        return []
    above = variance > by_chance
    kept = len(above) if above.all() else int(np.argmin(above))
    most = min(len(variance), 100)
    return [
        {
            "name": "PCA",
            "share": variance[:most] / total,
            "cumulative": np.cumsum(variance)[:most] / total,
            "noise": by_chance[:most] / total,
            "reason": Message("report.scree_reason", n=kept),
        }
    ]


def shepard_part(qualities: dict[str, tuple[SpaceQuality, Any]]) -> list[dict[str, Any]]:
    """Distances before and after, a sample of pairs per space."""
    found = []
    for name, (quality, _) in qualities.items():
        s = quality.shepard
        every = max(1, len(s.original) // _SHEPARD_PAIRS)
        found.append(
            {
                "space": name,
                "original": pack_floats(np.asarray(s.original)[::every]),
                "embedded": pack_floats(np.asarray(s.embedded)[::every]),
                "correlation": s.spearman,
            }
        )
    return found


def confusion_part(comparison: Comparison) -> list[dict[str, Any]]:
    """True against predicted labels, held-out rows of one repeat."""
    judge = comparison.judge
    if not isinstance(judge, LearnerJudge) or judge.classes is None or len(judge.classes) > 50:
        return []
    labels = judge.classes
    found = []
    names = dict.fromkeys([comparison.best, comparison.verdict.reference or comparison.best])
    standing = [s.result.name for s in comparison.verdict.standings if s.result.outcomes]
    for name in [*names, *(n for n in standing if n not in names)][:_CONFUSIONS]:
        counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
        for fold, outcome in comparison.result(name).judged:
            if fold.repeat == 0 and fold.judged:
                said = outcome.predicted
                said = said.argmax(axis=1) if said.ndim == 2 else said  # shares of the classes
                np.add.at(counts, (judge.truth[fold.test], said), 1)
        found.append({"space": name, "labels": [str(v) for v in labels], "counts": counts})
    return found


def graph_part(X: Array) -> dict[str, Any] | None:
    """What the graph doctor says of the rows shown, or of a part of them."""
    every = max(1, int(np.ceil(len(X) / _DIAGNOSED)))
    part = X[::every]
    if len(part) < 20:
        return None
    try:
        found = diagnose(part, n_neighbors=10)
    except NearfoldError:
        return None
    told = [Message("doctor.sampled", n=len(part), every=every)] if every > 1 else []
    told += found.lines()
    return {"lines": told, "sizes": found.sizes[:50]}


def weights_part(comparison: Comparison) -> list[dict[str, Any]]:
    """Which columns of the table matter in the space that was chosen: the one that is saved."""
    name = comparison.best
    rows = comparison.plan.view_rows[:_EXPLAINED_ROWS]
    try:
        model = comparison.fit(name)
        explained = explain_space(model, comparison.cells.take(rows))
    except NearfoldError:
        return []
    low, high = explained.low, explained.high
    return [
        {
            "space": name,
            "columns": list(explained.columns[:_MOST_WEIGHTS]),
            "weights": explained.weights[:_MOST_WEIGHTS],
            "low": None if low is None else low[:_MOST_WEIGHTS],
            "high": None if high is None else high[:_MOST_WEIGHTS],
            "total": len(explained.columns),
            "about": explained.about,
        }
    ]
