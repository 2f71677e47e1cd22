"""Who won, by how much, and whether that is more than noise.

Every space is compared with the reference on the same folds, and the p-values are adjusted for
their number (Holm). A space is better only if its adjusted p is below 5 %. The winner is the best
of the better ones, and must beat chance as well; if there is none, that is said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nearfold.errors import InputError
from nearfold.notation import Floats
from nearfold.study.judges import Judge
from nearfold.study.statistics import Estimate, estimate, holm
from nearfold.study.trial import FINISHED, SpaceResult

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Standing:
    """A space's place on the leaderboard."""

    result: SpaceResult
    score: Estimate | None
    difference: Estimate | None  # to the reference
    p: float | None  # adjusted
    verdict: str  # reference, better, worse, noise, uncompared, unfinished, failed


@dataclass(frozen=True)
class Verdict:
    """The leaderboard, best first, and who won."""

    standings: tuple[Standing, ...]
    reference: str
    winner: str | None
    beats_chance: bool

    def of(self, name: str) -> Standing:
        """The standing of a space."""
        for standing in self.standings:
            if standing.result.name.lower() == name.lower():
                return standing
        tried = ", ".join(s.result.name for s in self.standings)
        raise InputError(f"there is no space {name!r} here; tried were {tried}.")


def judge_results(results: list[SpaceResult], judge: Judge, reference: str) -> Verdict:
    """Compare all finished spaces with the reference."""
    finished = [r for r in results if r.status == FINISHED]
    base = next((r for r in finished if r.name == reference), None)
    others = [r for r in finished if r is not base]
    differences = [difference(r, base, judge) for r in others] if base is not None else []
    adjusted = holm(np.array([d.p for d in differences]))
    standings = []
    for result in results:
        score = _score(result, judge) if len(result.scores) else None
        if result.status != FINISHED:
            standings.append(Standing(result, score, None, None, result.status))
        elif base is None:
            standings.append(Standing(result, score, None, None, "uncompared"))
        elif result is base:
            standings.append(Standing(result, score, None, None, "reference"))
        else:
            i = others.index(result)
            p = float(adjusted[i])
            standings.append(Standing(result, score, differences[i], p, _word(differences[i], p)))
    standings.sort(key=_order)
    above = _above_chance(finished, judge)
    better = [s for s in standings if s.verdict == "better" and s.result.name in above]
    winner = better[0].result.name if better else None
    return Verdict(tuple(standings), reference, winner, bool(above))


def _order(standing: Standing) -> tuple[int, float]:
    done = standing.result.status == FINISHED
    return (0 if done else 1, -standing.score.mean if standing.score else 0.0)


def _word(difference: Estimate, p: float) -> str:
    if p >= SIGNIFICANT:
        return "noise"
    return "better" if difference.mean > 0 else "worse"


def odds_of(judge: Judge) -> float:
    """Held-out rows per training row."""
    return float(np.mean([len(f.test) / len(f.train) for f in judge.split.folds]))


def _rows(result: SpaceResult) -> Floats:
    """What became of each held-out row, over one repeat."""
    parts = zip(result.outcomes, result.repeats, strict=True)
    return np.concatenate([o.per_row for o, repeat in parts if repeat == 0])


def _score(result: SpaceResult, judge: Judge) -> Estimate:
    scores = result.fold_scores
    floor = judge.error_floor(float(scores.mean()), len(_rows(result)))
    found = estimate(scores, odds_of(judge), floor)
    low, high = np.clip([found.low, found.high], *judge.limits)
    return replace(found, low=float(low), high=float(high))


def difference(result: SpaceResult, base: SpaceResult, judge: Judge) -> Estimate:
    """Of two finished spaces, over the same folds."""
    floor = judge.difference_floor(_rows(result), _rows(base))
    return estimate(result.fold_scores - base.fold_scores, odds_of(judge), floor)


def _above_chance(finished: list[SpaceResult], judge: Judge) -> set[str]:
    """Names of the spaces that do better than a guess without the columns."""
    chance = judge.chance_scores()
    if chance is None:
        return {r.name for r in finished}
    found = []
    for result in finished:
        floor = judge.error_floor(float(result.fold_scores.mean()), len(_rows(result)))
        found.append(estimate(result.fold_scores - chance, odds_of(judge), floor))
    adjusted = holm(np.array([e.p for e in found]))
    return {
        r.name
        for r, e, p in zip(finished, found, adjusted, strict=True)
        if e.mean > 0 and p < SIGNIFICANT
    }
