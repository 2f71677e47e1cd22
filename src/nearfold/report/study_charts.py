"""The charts of a report, each as the page takes it (page/PAYLOAD.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import NearfoldError
from nearfold.notation import Array, Ints
from nearfold.quality import SpaceQuality
from nearfold.report.doctor import diagnose
from nearfold.report.packing import pack_floats
from nearfold.study.appoint import standardised
from nearfold.study.choose import parallel_analysis
from nearfold.study.comparison import Comparison
from nearfold.study.explain import explain_space, linear_map
from nearfold.study.judges import LearnerJudge
from nearfold.study.told import Told
from nearfold.study.trial import SpaceResult

_DIAGNOSED = 2_000  # rows of the graph that is examined
_SHUFFLED_CELLS = 2_000_000  # of a table that is shuffled for the scree plot
_SHEPARD_PAIRS = 2_000
_CURVES = 6
_CONFUSIONS = 4
_WEIGHTED = 4
_SHUFFLED_COLUMNS = 40  # columns of a table for which a curved space is explained


def as_seen(comparison: Comparison, rows: Ints) -> Array:
    """The rows as spaces are built on them: scaled, if that is what was decided."""
    X = comparison.judge.X[rows]
    return standardised(X) if comparison.scaled else X


def curves_part(comparison: Comparison) -> list[dict[str, Any]]:
    """Score against d', of the spaces that order their axes."""
    series: list[dict[str, Any]] = []
    for standing in comparison.verdict.standings:
        result = standing.result
        if len(result.dimensions) < 2 or len(result.scores) < 2 or len(series) == _CURVES:
            continue
        mean = result.scores.mean(axis=0)
        error = result.scores.std(axis=0, ddof=1) / np.sqrt(len(result.scores))
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
            "title": Told(f"Held-out {score.en} against d'", f"留出{score.zh}与维数 d'").as_dict(),
            "x_name": Told("dimensions d'", "维数 d'").as_dict(),
            "y_name": score.as_dict(),
            "series": series,
            "reason": Told(
                "Of each space the smallest d' within one standard error of its best is taken.",
                "每个空间取与其最好得分相差不超过一个标准误的最小 d'。",
            ).as_dict(),
        }
    ]


def scree_part(comparison: Comparison) -> list[dict[str, Any]]:
    """The variance of PCA's axes, beside that of shuffled columns."""
    pca = next((r for r in comparison.results if r.name == "PCA" and r.model is not None), None)
    if pca is None:
        return []
    rows = comparison.plan.view_rows
    X = as_seen(comparison, rows)
    X = X[:: max(1, int(np.ceil(X.size / _SHUFFLED_CELLS)))]
    if min(X.shape) < 2:
        return []
    variance, by_chance = parallel_analysis(X, n_shuffles=10, random_state=comparison.plan.seed)
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
            "reason": Told(
                f"{kept} axes hold more than those of shuffled columns do (parallel analysis).",
                f"有 {kept} 个主成分超过打乱各列后的水平(平行分析)。",
            ).as_dict(),
        }
    ]


def shepard_part(qualities: dict[str, SpaceQuality]) -> list[dict[str, Any]]:
    """Distances before and after, a sample of pairs per space."""
    found = []
    for name, quality in qualities.items():
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
    if not isinstance(judge, LearnerJudge) or not judge.is_share:
        return []
    labels = np.unique(judge.y)
    if len(labels) > 50:
        return []
    found = []
    names = dict.fromkeys([comparison.best, comparison.verdict.reference])
    standing = [s.result.name for s in comparison.verdict.standings if s.result.outcomes]
    for name in [*names, *(n for n in standing if n not in names)][:_CONFUSIONS]:
        counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
        for fold, outcome in zip(judge.split.folds, comparison.result(name).outcomes, strict=False):
            if fold.repeat == 0 and outcome.predicted is not None:
                truth = np.searchsorted(labels, judge.y[fold.test])
                np.add.at(counts, (truth, np.searchsorted(labels, outcome.predicted)), 1)
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
    sampled = [
        Told(
            f"Of {len(part):,} rows, every {every}th of those shown.",
            f"取所示各行中每隔 {every} 行的一行,共 {len(part):,} 行。",
        )
    ]
    lines = [Told(line, line) for line in str(found).splitlines()]
    told = (sampled if every > 1 else []) + lines
    return {"lines": [t.as_dict() for t in told], "sizes": found.sizes[:50]}


def weights_part(comparison: Comparison, shown: list[SpaceResult]) -> list[dict[str, Any]]:
    """Which columns matter, in the spaces where that is exact or cheap."""
    judge = comparison.judge
    rows = comparison.plan.view_rows[:5000]
    found: list[dict[str, Any]] = []
    for result in shown:
        if len(found) == _WEIGHTED or result.name in ("raw", "scaled") or result.model is None:
            continue
        many = judge.X.shape[1] > _SHUFFLED_COLUMNS
        try:
            if many and linear_map(result.model, judge.X[rows]) is None:
                continue
            explained = explain_space(result.model, judge.X[rows], comparison.columns)
        except NearfoldError:
            continue
        found.append(
            {
                "space": result.name,
                "columns": list(explained.columns[:30]),
                "weights": explained.weights[:30],
                "about": explained.about.as_dict(),
            }
        )
    return found
