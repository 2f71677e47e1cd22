"""What a comparison found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.notation import Ints
from nearfold.study.final import FinalCheck, fit_space
from nearfold.study.headline import show_score
from nearfold.study.judges import Judge, PairJudge
from nearfold.study.told import Told
from nearfold.study.trial import FINISHED, SpaceResult, TrialPlan
from nearfold.study.verdict import Verdict


@dataclass(frozen=True, repr=False)
class Comparison:
    """What was tried, how it did, and what follows. `print` it; `write_report` shows it."""

    judge: Judge
    plan: TrialPlan
    results: tuple[SpaceResult, ...]
    verdict: Verdict
    headline: Told
    columns: tuple[str, ...]
    scaled: bool  # whether columns are scaled before a space, the choice of all folds
    final: FinalCheck | None
    notices: tuple[Told, ...]
    seconds: float
    stopped: bool  # Ctrl-C came before the end
    sampled: Ints | None = None  # rows of the table that were compared, if not all

    @property
    def winner(self) -> str | None:
        """The name of the space that is better than the reference, if there is one."""
        return self.verdict.winner

    @property
    def best(self) -> str:
        """The winner, or else the reference, or else the best of those that are finished."""
        finished = [s.result.name for s in self.verdict.standings if s.result.status == FINISHED]
        if not finished:
            raise InputError("no space was finished, so none is the best.")
        reference = self.verdict.reference
        return self.verdict.winner or (reference if reference in finished else finished[0])

    def result(self, name: str) -> SpaceResult:
        """How one space did."""
        return self.verdict.of(name).result

    def leaderboard(self) -> list[dict[str, Any]]:
        """One plain dictionary per space, best first."""
        rows = []
        for s in self.verdict.standings:
            r = s.result
            rows.append(
                {
                    "space": r.name,
                    "n_dimensions": r.n_dimensions if len(r.scores) else None,
                    "score": s.score.mean if s.score else None,
                    "low": s.score.low if s.score else None,
                    "high": s.score.high if s.score else None,
                    "difference": s.difference.mean if s.difference else None,
                    "difference_low": s.difference.low if s.difference else None,
                    "difference_high": s.difference.high if s.difference else None,
                    "p": s.p,
                    "verdict": s.verdict,
                    "folds": len(r.scores),
                    "fit_seconds": r.fit_seconds,
                    "score_seconds": r.score_seconds,
                    "peak_bytes": r.peak_bytes,
                    "trouble": r.trouble,
                    "notes": r.notes,
                    "about": r.about,
                }
            )
        return rows

    def fit(self, name: str | None = None) -> Any:
        """A model of this space (default: the best) with its chosen d', fitted on all rows."""
        judge = self.judge
        rows = np.arange(len(judge.pairs) if isinstance(judge, PairJudge) else len(judge.X))
        return fit_space(self.result(name or self.best), self.plan, rows, self.scaled)

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.results)} spaces, winner: {self.winner}>"

    def __str__(self) -> str:
        width = max(len(r.name) for r in self.results)
        lines = []
        for s in self.verdict.standings:
            score = (
                f"{show_score(s.score.mean, self.judge):>8}  "
                f"({show_score(s.score.low, self.judge)} to {show_score(s.score.high, self.judge)})"
                if s.score
                else " " * 8
            )
            d = s.result.n_dimensions if len(s.result.scores) else "-"
            why = f": {s.result.trouble}" if s.result.trouble else ""
            lines.append(f"{s.result.name:{width}}  d' {d!s:>4}  {score}  {s.verdict}{why}")
        told = [str(self.headline)] + ([str(self.final.told)] if self.final else [])
        return "\n".join([*lines, "", *told])
