"""A comparison as one HTML file: the answer first, then all that it rests on."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import nearfold
from nearfold.blocks import get_memory, show_bytes
from nearfold.errors import NearfoldError
from nearfold.notation import Array, Ints
from nearfold.quality import SpaceQuality, judge_space
from nearfold.report.doctor import diagnose
from nearfold.report.packing import pack_floats
from nearfold.report.page_file import write_page
from nearfold.report.study_points import (
    Weighed,
    how_many_spaces,
    pack_asked,
    pack_columns,
    pack_neighbors,
    pack_space,
)
from nearfold.run import steps
from nearfold.study.choose import parallel_analysis
from nearfold.study.compare import Comparison, standardised
from nearfold.study.explain import explain_space, linear_map
from nearfold.study.judges import LearnerJudge
from nearfold.study.told import Told
from nearfold.study.trial import SpaceResult

_JUDGED = 1_000  # rows of a large picture that are judged, each against all
_ALL_JUDGED = 5_000  # rows up to which all are
_DIAGNOSED = 2_000  # rows of the graph that is examined
_SHUFFLED_CELLS = 2_000_000  # of a table that is shuffled for the scree plot
_SHEPARD_PAIRS = 2_000
_CURVES = 6
_CONFUSIONS = 4
_WEIGHTED = 4
_SHUFFLED_COLUMNS = 40  # columns of a table for which a curved space is explained


def write_report(
    comparison: Comparison,
    path: str | Path,
    *,
    title: str = "Nearfold",
    lang: str = "en",
    columns: Mapping[str, Any] | None = None,
    ids: Any = None,
    schema: list[dict[str, Any]] | None = None,
    source: str | None = None,
    notices: tuple[Told, ...] = (),
    manifest: Mapping[str, Any] | None = None,
) -> Path:
    """Write the report of a comparison to one HTML file that needs no network.

    `columns`: what points can be coloured by, name -> one value per row; default: the columns of
    the table. `ids`: what rows are called. `schema`, `source`, `manifest`: shown at the end.
    """
    payload = report_payload(comparison, columns=columns, ids=ids)
    payload["title"] = title
    payload["schema"] = schema
    payload["source"] = source
    payload["notices"] = [n.as_dict() for n in notices] + payload["notices"]
    payload["manifest"] += [[k, str(v)] for k, v in (manifest or {}).items()]
    return write_page(payload, path, lang)


def report_payload(
    comparison: Comparison, *, columns: Mapping[str, Any] | None = None, ids: Any = None
) -> dict[str, Any]:
    """All that the page shows, as plain values (page/PAYLOAD.md)."""
    judge, verdict = comparison.judge, comparison.verdict
    rows = comparison.plan.view_rows
    X = _as_seen(comparison, rows)
    shown = _shown_spaces(comparison, len(rows))
    qualities = _judge_spaces(X, shown)
    weighed = Weighed()
    held_out = np.isin(rows, judge.split.folds[0].test) if judge.task != "pairs" else rows < 0
    spaces = []
    for result in shown:
        Z = result.view
        assert Z is not None
        part = pack_space(result, Z, held_out, qualities.get(result.name))
        spaces.append(weighed.take(part, result.name) or part)  # places are always there
    if columns is None:
        columns = {name: judge.X[:, j] for j, name in enumerate(comparison.columns[:64])}
    points = pack_asked(comparison, rows, ids, weighed)
    original = weighed.take(pack_neighbors(X), "neighbours in the original space")
    for part, result in zip(spaces, shown, strict=True):
        assert result.view is not None
        part["neighbors"] = weighed.take(
            pack_neighbors(result.view), f"neighbours in {result.name}"
        )
    points["columns"] += pack_columns(columns, rows, weighed)
    notices = [*comparison.notices, *_left_out(comparison, shown, weighed)]
    return {
        "version": 1,
        "task": judge.task,
        "score": {
            "name": judge.score_name.as_dict(),
            "k": getattr(judge, "k", None),
            "chance": judge.chance,
            "reference": verdict.reference,
            "is_share": judge.is_share,
        },
        "headline": comparison.headline.as_dict(),
        "final": comparison.final.told.as_dict() if comparison.final else None,
        "winner": verdict.winner,
        "notices": [n.as_dict() for n in notices],
        "leaderboard": _leaderboard(comparison, [r.name for r in shown]),
        "points": points,
        "spaces": spaces,
        "original_neighbors": original,
        "curves": _curves(comparison),
        "scree": _scree(comparison),
        "shepard": _shepard(qualities),
        "confusion": _confusion(comparison),
        "graph": _graph(X),
        "weights": _weights(comparison, shown),
        "manifest": _manifest(comparison),
    }


def _as_seen(comparison: Comparison, rows: Ints) -> Array:
    """The rows as spaces are built on them: scaled, if that is what was decided."""
    X = comparison.judge.X[rows]
    return standardised(X) if comparison.scaled else X


def _shown_spaces(comparison: Comparison, n: int) -> list[SpaceResult]:
    """Winner and reference first, then as they stand, as many as fit."""
    first = [comparison.best, comparison.verdict.reference]
    standing = [s.result for s in comparison.verdict.standings if s.result.view is not None]
    standing = [r for r in standing if len(r.scores)]
    standing.sort(key=lambda r: first.index(r.name) if r.name in first else len(first))
    return standing[: how_many_spaces(n)]


def _judge_spaces(X: Array, shown: list[SpaceResult]) -> dict[str, SpaceQuality]:
    qualities = {}
    sample = None if len(X) <= _ALL_JUDGED else _JUDGED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a lowered k: the number is in the result
        for result in steps(shown, "Judging spaces"):
            try:
                qualities[result.name] = judge_space(X, result.view, sample=sample)
            except NearfoldError:  # three rows, say: then there is nothing to judge by
                continue
    return qualities


def _left_out(comparison: Comparison, shown: list[SpaceResult], weighed: Weighed) -> list[Told]:
    left = [r.name for r in comparison.results if len(r.scores) and r not in shown]
    told = []
    if left:
        told.append(
            Told(
                f"To keep the file small these spaces have no picture: {', '.join(left)}.",
                f"为控制文件大小,未包含这些空间的图:{'、'.join(left)}。",
            )
        )
    if weighed.left_out:
        names = ", ".join(weighed.left_out[:8]) + (", ..." if len(weighed.left_out) > 8 else "")
        told.append(
            Told(
                f"To keep the file small these are left out: {names}.",
                f"为控制文件大小,未包含:{names}。",
            )
        )
    return told


def _leaderboard(comparison: Comparison, shown: list[str]) -> list[dict[str, Any]]:
    rows = []
    for row in comparison.leaderboard():
        trouble = row.pop("trouble")
        words = [trouble] if trouble else row.pop("notes")[:2]
        row.pop("notes", None)
        note = Told(" ".join(words), " ".join(words)) if words else None
        name = row.pop("space")
        rows.append(
            {
                **row,
                "name": name,
                "note": note.as_dict() if note else None,
                "space": shown.index(name) if name in shown else None,
            }
        )
    return rows


def _curves(comparison: Comparison) -> list[dict[str, Any]]:
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


def _scree(comparison: Comparison) -> list[dict[str, Any]]:
    pca = next((r for r in comparison.results if r.name == "PCA" and r.model is not None), None)
    if pca is None:
        return []
    rows = comparison.plan.view_rows
    X = _as_seen(comparison, rows)
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


def _shepard(qualities: dict[str, SpaceQuality]) -> list[dict[str, Any]]:
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


def _confusion(comparison: Comparison) -> list[dict[str, Any]]:
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


def _graph(X: Array) -> dict[str, Any] | None:
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


def _weights(comparison: Comparison, shown: list[SpaceResult]) -> list[dict[str, Any]]:
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


def _manifest(comparison: Comparison) -> list[list[str]]:
    judge = comparison.judge
    folds = judge.split.folds
    repeats = len({f.repeat for f in folds})
    versions = {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")}
    peak = max((r.peak_bytes or 0 for r in comparison.results), default=0)
    return [
        ["Nearfold", nearfold.__version__],
        ["Python", platform.python_version()],
        *[[name, found] for name, found in versions.items()],
        ["rows x columns", f"{len(judge.X):,} x {judge.X.shape[1]:,}"],
        ["folds", f"{len(folds) // repeats} x {repeats} repeats"],
        ["rows set aside", f"{len(judge.split.set_aside):,}"],
        ["neighbours of the learner", str(getattr(judge, "k", "-"))],
        ["seed", str(comparison.plan.seed)],
        ["columns scaled first", "yes" if comparison.scaled else "no"],
        ["time", f"{comparison.seconds:.1f} s"],
        ["memory at the peak of one space", show_bytes(peak)],
        ["memory budget", show_bytes(get_memory())],
    ]
