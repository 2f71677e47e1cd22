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
from nearfold.errors import NearfoldError, quoted
from nearfold.messages import Message
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
    SizeBudget,
    how_many_spaces,
    pack_asked,
    pack_columns,
    pack_images,
    pack_neighbors,
    pack_space,
    places,
)
from nearfold.run import steps
from nearfold.study.comparison import Comparison
from nearfold.study.plain import plain
from nearfold.study.question import Task
from nearfold.study.showing import ScoreValue, space_name
from nearfold.study.trial import SpaceResult

_JUDGED = 1_000  # rows of a large picture that are judged, each against all
_ALL_JUDGED = 2_000  # rows up to which all are
_NOTE = 90  # characters of a note in the leaderboard
_MOST_COLUMNS = 2_000  # of the schema


def write_report(
    comparison: Comparison,
    path: str | Path,
    *,
    title: str = "Nearfold",
    lang: str = "en",
    columns: Mapping[str, Any] | None = None,
    ids: Any = None,
    notices: tuple[Message, ...] = (),
    command: str | None = None,
) -> Path:
    """Write the report of a comparison to one HTML file that needs no network.

    Parameters
    ----------
    comparison : what `compare` found.
    path : of the file.
    title, lang : shown in the head; the language it opens in, "en" or "zh".
    columns : what points can be coloured by, name -> one value per row; default: the columns of
        the table.
    ids : what rows are called; default: the id column.
    notices : further lines above the leaderboard. `command`: what reproduces the report.
    """
    payload = report_payload(comparison, columns=columns, ids=ids)
    payload["title"] = title
    payload["notices"] = [*notices, *payload["notices"]]
    payload["command"] = command
    return write_page(payload, path, lang)


def report_payload(
    comparison: Comparison, *, columns: Mapping[str, Any] | None = None, ids: Any = None
) -> dict[str, Any]:
    """All that the page shows, as plain values (page/PAYLOAD.md)."""
    judge, verdict, table = comparison.judge, comparison.verdict, comparison.table
    rows = comparison.plan.view_rows
    X = as_seen(comparison, rows)
    shown = _shown_spaces(comparison, len(rows))
    qualities = _judge_spaces(X, shown)
    budget = SizeBudget()
    held_out = np.isin(rows, judge.split.folds[0].test) if judge.task != Task.PAIRS else rows < 0
    labels = getattr(judge, "truth", None) if judge.task == Task.CLASSIFICATION else None
    spaces = []
    for result in shown:
        part = pack_space(result, held_out, qualities.get(result.name),
                          None if labels is None else labels[rows])  # fmt: skip
        spaces.append(budget.take(part, result.name) or part)  # places are always there
    points = pack_asked(comparison, rows, ids, budget)
    points["images"] = pack_images(table, rows, budget)
    original = budget.take(pack_neighbors(X), Message("report.neighbors_in_data"))
    for part, result in zip(spaces, shown, strict=True):
        assert result.view is not None
        told = Message("report.neighbors_in", space=space_name(result.name))
        part["neighbors"] = budget.take(pack_neighbors(result.view), told)
    points["columns"] += pack_columns(_columns(comparison, columns), rows, budget)
    if comparison.recipe.name != "raw":
        points["about_data"] = Message("report.data_prepared")
    notices = [*comparison.notices, *_left_out(comparison, shown, budget)]
    payload = {
        "version": 1,
        "task": judge.task.value,
        "score": {
            "name": judge.score_name,
            "k": comparison.result(comparison.best).n_neighbors or None,
            "chance": verdict.chance,
            "reference": verdict.reference,
            "is_share": judge.is_share,
            "lower_is_better": judge.negated,
            "column": table.answer,
        },
        "headline": comparison.headline,
        "details": list(comparison.details),
        "final": comparison.final.told if comparison.final else None,
        "winner": verdict.winner,
        "corrected_for": verdict.n_compared,
        "minimal_gain": _detectable(comparison),
        "notices": notices,
        "source": table.source.describe() if table.source else None,
        "holds_rows": Message("report.holds_rows"),
        "leaderboard": _leaderboard(comparison, [r.name for r in shown]),
        "points": points,
        "spaces": spaces,
        "original_neighbors": original,
        "curves": curves_part(comparison),
        "scree": scree_part(comparison),
        "shepard": shepard_part(qualities),
        "confusion": confusion_part(comparison),
        "graph": graph_part(X),
        "weights": weights_part(comparison),
        "schema": _schema(comparison),
        "manifest": _manifest(comparison),
    }
    return dict(plain(payload))


def _detectable(comparison: Comparison) -> Message | None:
    """The gain that these rows would have shown, in a sentence."""
    gain, judge = comparison.verdict.detectable, comparison.judge
    if gain is None:
        return None
    shown = ScoreValue.of(gain, judge, gain=True)
    n = len(judge.split.judged)
    return Message("details.detectable", n=n, gain=shown, what=judge.held_out)


def _columns(comparison: Comparison, given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What points can be coloured by: one value for each row that was compared."""
    table = comparison.table
    if given is not None:  # a value for every row of what was given
        return {k: np.asarray(v)[table.rows] for k, v in given.items()}
    if table.shown is not None:
        return {column.name: _values(column) for column in table.shown}
    numbers = comparison.cells.numbers
    return {name: numbers[:, j] for j, name in enumerate(comparison.columns[:64])}


def _values(column: Any) -> Array:
    if column.dtype.is_numeric():
        return np.asarray(column.to_numpy())
    return np.asarray(column.cast(str).to_list(), dtype=object)


def _shown_spaces(comparison: Comparison, n: int) -> list[SpaceResult]:
    """Winner and reference first, then as they stand, as many as fit."""
    first = [comparison.best, comparison.verdict.reference]
    standing = [s.result for s in comparison.verdict.standings if s.result.view is not None]
    standing.sort(key=lambda r: first.index(r.name) if r.name in first else len(first))
    return standing[: how_many_spaces(n)]


def _judge_spaces(X: Array, shown: list[SpaceResult]) -> dict[str, tuple[SpaceQuality, Any]]:
    """How well each space, and the picture of it, keeps what is near."""
    qualities = {}
    sample = None if len(X) <= _ALL_JUDGED else _JUDGED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a lowered k: the number is in the result
        for result in steps(shown, "Judging spaces"):
            Z = result.view
            assert Z is not None
            try:
                whole = judge_space(X, Z, sample=sample)
                drawn = None if Z.shape[1] <= 2 else judge_space(X, places(Z), sample=sample)
                qualities[result.name] = (whole, drawn)
            except NearfoldError:  # three rows, say: then there is nothing to judge by
                continue
    return qualities


def _left_out(
    comparison: Comparison, shown: list[SpaceResult], budget: SizeBudget
) -> list[Message]:
    left = [space_name(r.name) for r in comparison.results if len(r.scores) and r not in shown]
    told = []
    if left:
        told.append(Message("report.no_picture", spaces=left))
    if budget.left_out:
        more = ["..."] if len(budget.left_out) > 8 else []
        told.append(Message("report.left_out", names=[*budget.left_out[:8], *more]))
    return told


def _leaderboard(comparison: Comparison, shown: list[str]) -> list[dict[str, Any]]:
    rows = []
    for row, standing in zip(comparison.rows(), comparison.verdict.standings, strict=True):
        trouble, notes = row.pop("trouble"), row.pop("notes")
        said = trouble or (notes[0] if notes else None)
        if said is not None and said.id == "words.quoted":
            said = quoted(shorten(str(said), _NOTE, placeholder=" …"))
        name, about = row.pop("space"), row.pop("about")
        label = standing.result.candidate.label
        rows.append(
            {
                **row,
                "name": name,
                "note": said,
                "about": label or about,
                "space": shown.index(name) if name in shown else None,
            }
        )
    return rows


def _schema(comparison: Comparison) -> list[dict[str, Any]] | None:
    schema = comparison.table.schema
    if schema is None:
        return None
    return [
        {
            "name": column.name,
            "role": column.role.value,
            "kind": column.kind.shown,
            "use": column.use,
            "reason": column.reason,
        }
        for column in schema.columns[:_MOST_COLUMNS]
    ]


def _manifest(comparison: Comparison) -> list[list[Any]]:
    judge, source = comparison.judge, comparison.table.source
    split, question = judge.split, comparison.plan.question
    versions = {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")}
    peak = max((r.peak_bytes or 0 for r in comparison.results), default=0)
    best = comparison.result(comparison.best)
    told = {
        "rows": f"{len(comparison.table):,} x {len(comparison.columns):,}",
        "folds": f"{split.n_folds} x {split.n_repeats}",
        "set_aside": f"{len(split.set_aside):,}",
        "k": str(best.n_neighbors or judge.ks[0] or "-"),
        "seed": str(question.random_state),
        "prepared": Message(f"report.recipe.{comparison.recipe.name}"),
        "time": f"{comparison.seconds:.1f} s",
        "peak": show_bytes(peak),
        "budget": show_bytes(get_memory()),
    }
    data = [] if source is None else [[Message("report.manifest.data"), source.name],
                                      ["SHA-256", source.sha256]]  # fmt: skip
    return [
        ["Nearfold", nearfold.__version__],
        ["Python", platform.python_version()],
        *[[name, found] for name, found in versions.items()],
        *[[Message(f"report.manifest.{key}"), value] for key, value in told.items()],
        *data,
    ]
