"""Which space is best, by how much, and what these rows can show.

Every space is compared with the reference row by row (significance.py); intervals and p-values
are corrected for the number of spaces. The reference is the better one of the raw and the scaled
columns, under the same learner. A space is better only if its adjusted p is below 5 % and it is
better than guessing. Of the better spaces that are within one standard error of the best, the
winner is the simplest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Ints
from nearfold.study.candidates import always_tried
from nearfold.study.folds import Fold
from nearfold.study.judges import Judge, Outcome
from nearfold.study.question import Ruling, Status
from nearfold.study.significance import (
    Contrast,
    Interval,
    above_chance,
    compare_to_reference,
    score_interval,
)
from nearfold.study.trial import SpaceResult


@dataclass(frozen=True)
class Standing:
    """A space's place on the leaderboard."""

    result: SpaceResult
    score: Interval | None
    difference: Contrast | None  # to the reference; interval and p corrected for all comparisons
    verdict: Ruling

    @property
    def name(self) -> str:
        """Of the space."""
        return self.result.name

    @property
    def p(self) -> float | None:
        """Adjusted for the number of comparisons."""
        return None if self.difference is None else self.difference.p


@dataclass(frozen=True)
class Verdict:
    """The leaderboard, best first, and who won."""

    standings: tuple[Standing, ...]
    reference: str | None
    winner: str | None
    beats_chance: bool
    chance: float | None  # the score of guessing, on the rows that are judged
    n_compared: int  # spaces that were compared with the reference
    tied: tuple[str, ...] = ()  # better spaces that are not clearly below the best one
    detectable: float | None = None  # a gain that these rows would have shown

    def of(self, name: str) -> Standing:
        """The standing of a space."""
        for standing in self.standings:
            if standing.name.lower() == name.lower():
                return standing
        tried = [s.name for s in self.standings]
        raise InputError(Message("study.not_tried", name=repr(name), tried=tried))


class JudgedRows:
    """What held-out rows (or pairs) add to the score of each space."""

    def __init__(self, outcomes: dict[str, list[tuple[Fold, Outcome]]], judge: Judge) -> None:
        self.judge = judge
        self.names = list(outcomes)
        self.psi = np.array([judge.contributions(judged) for judged in outcomes.values()])
        self.fold = _folds_of_rows(judge)
        self.cluster = judge.clusters()
        guesses = judge.guesses()
        self.chance = None if guesses is None else judge.contributions(guesses)

    def options(self) -> dict[str, Any]:
        """What the tests of significance.py ask for."""
        return {"cluster": self.cluster, "test_train_ratio": self.judge.split.test_train_ratio}

    def contrasts(self, base: str, others: list[str]) -> list[Contrast]:
        """Of these spaces to another one."""
        at = [self.names.index(name) for name in [base, *others]]
        return compare_to_reference(self.psi[at], 0, self.fold, **self.options())[1:]

    def score(self, name: str) -> Interval:
        """A space's own score with its interval."""
        return score_interval(
            self.psi[self.names.index(name)],
            self.fold,
            limits=self.judge.limits,
            independent_rows=self.judge.independent_rows(),
            stratum=self.judge.strata(),
            **self.options(),
        )

    def above_chance(self) -> set[str]:
        """Names of the spaces that do better than a guess without the columns."""
        if self.chance is None or not self.names:
            return set(self.names)
        found = above_chance(self.psi, self.chance, self.fold, **self.options())
        return {name for name, c in zip(self.names, found, strict=True) if c.is_gain}


def _folds_of_rows(judge: Judge) -> Ints:
    fold = np.zeros((judge.split.n_repeats, judge.n), dtype=np.int64)
    for i, part in enumerate(judge.split.folds):
        fold[part.repeat, part.test] = i
    return fold


def judge_results(results: list[SpaceResult], judge: Judge) -> Verdict:
    """Compare all finished spaces with the reference."""
    finished = [r for r in results if r.status == Status.FINISHED]
    rows = JudgedRows({r.name: r.judged for r in finished}, judge)
    scores = {name: rows.score(name) for name in rows.names}
    reference = choose_reference(scores, judge)
    others = [name for name in rows.names if name != reference]
    contrasts: dict[str, Contrast] = {}
    if reference is not None:
        contrasts = dict(zip(others, rows.contrasts(reference, others), strict=True))
    standings = [_standing(r, scores, contrasts, reference, judge) for r in results]
    standings.sort(key=_order)
    above = rows.above_chance()
    better = [s for s in standings if s.verdict == Ruling.BETTER and s.name in above]
    winner, tied = _simplest(better, rows)
    chance = None if rows.chance is None else float(np.nanmean(rows.chance))
    gains = [c.detectable for c in contrasts.values() if np.isfinite(c.detectable)]
    return Verdict(
        tuple(standings), reference, winner, bool(above), chance, len(contrasts), tied,
        float(np.median(gains)) if gains else None,
    )  # fmt: skip


def choose_reference(scores: dict[str, Interval], judge: Judge) -> str | None:
    """The better one of the spaces that are always tried."""
    known = [name for name in always_tried(judge.task) if name in scores]
    return max(known, key=lambda name: scores[name].mean, default=None)


def _standing(
    result: SpaceResult,
    scores: dict[str, Interval],
    contrasts: dict[str, Contrast],
    reference: str | None,
    judge: Judge,
) -> Standing:
    if result.status != Status.FINISHED:
        score = _partial(result, judge) if len(result.scores) else None
        return Standing(result, score, None, Ruling(result.status.value))
    score, difference = scores[result.name], contrasts.get(result.name)
    if reference is None:
        return Standing(result, score, None, Ruling.UNCOMPARED)
    if difference is None:
        return Standing(result, score, None, Ruling.REFERENCE)
    ruling = Ruling.NOT_SHOWN
    if difference.is_significant:
        ruling = Ruling.BETTER if difference.difference > 0 else Ruling.WORSE
    return Standing(result, score, difference, ruling)


def _partial(result: SpaceResult, judge: Judge) -> Interval:
    """The score of the folds that were finished, without a claim of its precision."""
    mean = float(np.nanmean(judge.contributions(result.judged)))
    return Interval(mean, np.nan, np.nan, np.nan)


def _order(standing: Standing) -> tuple[int, float, int]:
    done = standing.result.status == Status.FINISHED
    score = -standing.score.mean if standing.score else 0.0
    return (0 if done else 1, score, standing.result.candidate.complexity)


def _simplest(better: list[Standing], rows: JudgedRows) -> tuple[str | None, tuple[str, ...]]:
    """The simplest of the better spaces within one standard error of the best; all of those."""
    if not better:
        return None, ()
    best, rest = better[0], better[1:]
    behind = rows.contrasts(best.name, [s.name for s in rest]) if rest else []
    tied = [best] + [s for s, c in zip(rest, behind, strict=True) if -c.difference <= c.error]
    simplest = min(tied, key=lambda s: (s.result.candidate.complexity, _order(s)))
    return simplest.name, tuple(s.name for s in tied if s is not simplest)
