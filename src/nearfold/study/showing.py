"""Scores as people read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.messages import Message, Verbatim, catalogue


@dataclass(frozen=True)
class ScoreValue:
    """A score, or with `gain` a difference of two, as people write it."""

    value: float
    is_share: bool  # in per cent
    negated: bool = False  # smaller is better for the number that is shown
    gain: bool = False

    @classmethod
    def of(cls, value: float, judge: Any, gain: bool = False) -> ScoreValue:
        """In the form of a judge."""
        return cls(float(value), judge.is_share, judge.negated, gain)

    def text(self, language: str = "en") -> str:
        """For example 97.5 %, 0.851 or, of a gain, 2.3 points."""
        value = -self.value if self.negated and not self.gain else self.value
        if not np.isfinite(value):
            return "–"
        if not self.is_share:
            return f"{value:.3f}" if abs(value) < 100 else f"{value:,.4g}"
        if self.gain:
            return Message("words.points", points=f"{100 * value:.1f}").text(language)
        share = 100 * min(max(value, 0.0), 1.0)
        return f"{share:.1f}%" if language == "zh" else f"{share:.1f} %"

    def __str__(self) -> str:
        return self.text()


def show_p(p: float | None) -> str:
    """A p-value as it is written."""
    return "" if p is None else "< 0.001" if p < 0.001 else f"= {p:.3f}"


def leaderboard_row(standing: Any, judge: Any, language: str = "en") -> dict[str, str]:
    """A space's line of the leaderboard, as texts by column."""
    r, gain = standing.result, standing.difference
    done, score = len(r.scores) > 0, standing.score
    ends = [score.low, score.high] if score and np.isfinite(score.low) else []
    signed = "" if gain is None else f"{gain.difference:+.3f}"
    if gain is not None and judge.is_share:
        signed = f"{100 * gain.difference:+.1f}"
    return {
        "space": space_name(standing.name).text(language),
        "dimensions": str(r.n_dimensions) if done else "-",
        "k": str(r.n_neighbors) if done and r.n_neighbors else "",
        "held_out": ScoreValue.of(score.mean, judge).text(language) if score else "",
        "interval": " – ".join(ScoreValue.of(end, judge).text(language) for end in ends),
        "difference": signed,
        "p": show_p(standing.p).replace("= ", "").replace("< ", "<"),
        "verdict": standing.verdict.shown.text(language),
        "fit": f"{r.fit_seconds / max(1, len(r.scores)):.2f} s",
    }


def space_name(name: str) -> Message:
    """A space by its name, with its Chinese name in Chinese."""
    known = f"method.{name}"
    return Message(known) if known in catalogue("en") else Verbatim(name)
