"""A comparison as one HTML file: the answer first, then all that it rests on."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

import nearfold
from nearfold.blocks import get_memory, show_bytes
from nearfold.errors import NearfoldError
from nearfold.notation import Array
from nearfold.quality import SpaceQuality, judge_space
from nearfold.report.page_file import write_page
from nearfold.report.study_charts import (
    as_seen,
    confusion_part,
    curves_part,
    graph_part,
    scree_part,
    shepard_part,
    weights_part,
)
from nearfold.report.study_points import (
    Weighed,
    how_many_spaces,
    pack_asked,
    pack_columns,
    pack_neighbors,
    pack_space,
)
from nearfold.run import steps
from nearfold.study.comparison import Comparison
from nearfold.study.told import Told
from nearfold.study.trial import SpaceResult

_JUDGED = 1_000  # rows of a large picture that are judged, each against all
_ALL_JUDGED = 5_000  # rows up to which all are
_NOTE = 90  # characters of a note in the leaderboard


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
    if comparison.sampled is not None:  # what is given has a value for every row of the table
        ids = None if ids is None else np.asarray(ids)[comparison.sampled]
        if columns is not None:
            columns = {k: np.asarray(v)[comparison.sampled] for k, v in columns.items()}
    X = as_seen(comparison, rows)
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
        "curves": curves_part(comparison),
        "scree": scree_part(comparison),
        "shepard": shepard_part(qualities),
        "confusion": confusion_part(comparison),
        "graph": graph_part(X),
        "weights": weights_part(comparison, shown),
        "manifest": _manifest(comparison),
    }


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
        notes = row.pop("notes")
        row["fit_seconds"] /= max(1, row["folds"])  # the mean of the folds, as in the terminal
        words = shorten(trouble or (notes[0] if notes else ""), _NOTE, placeholder=" …")
        note = Told(words, words) if words else None
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


def _manifest(comparison: Comparison) -> list[list[Any]]:
    judge = comparison.judge
    folds = judge.split.folds
    repeats = len({f.repeat for f in folds})
    versions = {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")}
    peak = max((r.peak_bytes or 0 for r in comparison.results), default=0)
    told = {
        Told("rows x columns", "行数 x 列数"): f"{len(judge.X):,} x {judge.X.shape[1]:,}",
        Told("folds", "折数"): f"{len(folds) // repeats} x {repeats}",
        Told("rows set aside", "留出的行数"): f"{len(judge.split.set_aside):,}",
        Told("neighbours of the learner", "近邻数"): str(getattr(judge, "k", "-")),
        Told("seed", "随机种子"): str(comparison.plan.seed),
        Told("columns scaled first", "先标准化"): "yes" if comparison.scaled else "no",
        Told("time", "用时"): f"{comparison.seconds:.1f} s",
        Told("memory at the peak of one space", "内存峰值"): show_bytes(peak),
        Told("memory budget", "内存预算"): show_bytes(get_memory()),
    }
    return [
        ["Nearfold", nearfold.__version__],
        ["Python", platform.python_version()],
        *[[name, found] for name, found in versions.items()],
        *[[words.as_dict(), value] for words, value in told.items()],
    ]
