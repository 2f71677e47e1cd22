"""What a comparison found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearfold.columns.cells import Cells
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.study.final import FinalCheck, fit_space
from nearfold.study.intake import StudyTable
from nearfold.study.judges import Judge, PairJudge
from nearfold.study.plain import AsJson, plain
from nearfold.study.question import Status
from nearfold.study.recipes import Recipe
from nearfold.study.showing import leaderboard_row
from nearfold.study.trial import SpaceResult, TrialPlan
from nearfold.study.verdict import Verdict


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(AsJson):
    """What was tried, how it did, and what follows. `print` it; `write_report` shows it."""

    judge: Judge
    plan: TrialPlan
    results: tuple[SpaceResult, ...]
    verdict: Verdict
    headline: Message
    details: tuple[Message, ...]
    recipe: Recipe  # how columns are prepared before a space, the choice of all folds
    final: FinalCheck | None
    notices: tuple[Message, ...]
    seconds: float
    stopped: bool  # Ctrl-C came before the end
    _models: dict[str, Any] = field(default_factory=dict)

    @property
    def table(self) -> StudyTable:
        """The rows that were compared."""
        return self.judge.table

    @property
    def cells(self) -> Cells:
        """Their features."""
        return self.table.cells

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the features."""
        return self.cells.names

    @property
    def winner(self) -> str | None:
        """The name of the space that is better than the reference, if there is one."""
        return self.verdict.winner

    @property
    def best(self) -> str:
        """The winner, or else the reference, or else the best of those that are finished."""
        finished = [s.name for s in self.verdict.standings if s.result.status == Status.FINISHED]
        if not finished:
            raise InputError(Message("study.none_finished"))
        return self.verdict.winner or self.verdict.reference or finished[0]

    def result(self, name: str) -> SpaceResult:
        """How one space did."""
        return self.verdict.of(name).result

    def metric(self, name: str | None = None) -> str:
        """The metric of a space (default: the best) in which neighbours are near."""
        return self.result(name or self.best).metric

    def leaderboard(self) -> Any:
        """A frame with one row per space, best first; pandas if it is installed, else polars."""
        rows = [{k: str(v) if isinstance(v, Message) else v for k, v in row.items() if k != "notes"}
                for row in self.rows()]  # fmt: skip
        try:
            import pandas as pd
        except ImportError:
            import polars as pl

            return pl.DataFrame(rows)
        return pd.DataFrame(rows)

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary per space, best first."""
        return [self._row(s) for s in self.verdict.standings]

    def _row(self, s: Any) -> dict[str, Any]:
        r, gain = s.result, s.difference
        done = len(r.scores) > 0
        return {
            "space": s.name,
            "n_dimensions": r.n_dimensions if done else None,
            "n_neighbors": r.n_neighbors if done and r.n_neighbors else None,
            "score": s.score.mean if s.score else None,
            "low": s.score.low if s.score else None,
            "high": s.score.high if s.score else None,
            "difference": gain.difference if gain else None,
            "difference_low": gain.low if gain else None,
            "difference_high": gain.high if gain else None,
            "p": s.p,
            "verdict": s.verdict.value,
            "folds": len(r.scores),
            "fit_seconds": r.fit_seconds / max(1, len(r.scores)),
            "score_seconds": r.score_seconds / max(1, len(r.scores)),
            "peak_bytes": r.peak_bytes,
            "trouble": r.trouble,
            "notes": r.notes,
            "about": r.about,
        }

    def fit(self, name: str | None = None) -> Any:
        """A model of this space (default: the best), fitted on all rows.

        A pipeline from the table's own columns, matched by name, to the space.
        """
        name = self.result(name or self.best).name
        if name not in self._models:
            judge = self.judge
            rows = np.arange(len(judge.pairs) if isinstance(judge, PairJudge) else len(judge.table))
            self._models[name] = fit_space(self.result(name), self.plan, rows, self.recipe)
        return self._models[name]

    def card(self, name: str | None = None) -> dict[str, Any]:
        """What a model file says of this space: its score, the last check, k and metric."""
        name = name or self.best
        standing = self.verdict.of(name)
        score = standing.score
        checked = self.final is not None and name == self.winner
        return {
            "space": standing.name,
            "task": self.judge.task.value,
            "score_name": self.judge.score_name.id.removeprefix("score."),
            "score": score.mean if score else None,
            "interval": [score.low, score.high] if score else None,
            "reference": self.verdict.reference,
            "verdict": standing.verdict.value,
            "last_check": self.final.as_dict() if self.final and checked else None,
            "n_neighbors": standing.result.n_neighbors or None,
            "metric": self.metric(name),
            "seed": self.plan.question.random_state,
        }

    def to_dict(self) -> dict[str, Any]:
        """All of it but rows and models, as plain values for JSON; sentences in both languages."""
        found: dict[str, Any] = plain(
            {
                "task": self.judge.task.value,
                "score": self.judge.score_name,
                "chance": self.verdict.chance,
                "reference": self.verdict.reference,
                "winner": self.winner,
                "best": self.best if any(len(r.scores) for r in self.results) else None,
                "headline": self.headline,
                "details": list(self.details),
                "final": self.final.told if self.final else None,
                "last_check": self.final.as_dict() if self.final else None,
                "corrected_for": self.verdict.n_compared,
                "leaderboard": self.rows(),
                "notices": list(self.notices),
                "stopped": self.stopped,
                "seconds": self.seconds,
            }
        )
        return found

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.results)} spaces, winner: {self.winner}>"

    def _repr_html_(self) -> str:
        from nearfold.study.html import comparison_html

        return comparison_html(self)

    def text(self, language: str = "en") -> str:
        """Leaderboard and answer as plain text."""
        rows = [leaderboard_row(s, self.judge, language) for s in self.verdict.standings]
        width = max(len(row["space"]) for row in rows)
        lines = []
        for row, s in zip(rows, self.verdict.standings, strict=True):
            interval = f"  ({row['interval']})" if row["interval"] else ""
            why = f": {s.result.trouble.text(language)}" if s.result.trouble else ""
            lines.append(f"{row['space']:{width}}  d' {row['dimensions']:>4}  "
                         f"{row['held_out']:>8}{interval}  {row['verdict']}{why}")  # fmt: skip
        told = [self.headline, *self.details, *([self.final.told] if self.final else [])]
        return "\n".join([*lines, "", *(message.text(language) for message in told)])

    def __str__(self) -> str:
        return self.text()
