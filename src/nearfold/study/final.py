"""The chosen space as a model, and its last check on rows that nothing before has touched."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

from nearfold.notation import Ints
from nearfold.study.candidates import build_model
from nearfold.study.folds import Fold
from nearfold.study.headline import show_score
from nearfold.study.told import Told
from nearfold.study.trial import SpaceResult, TrialPlan, rows_to_fit, setting_for
from nearfold.study.verdict import Verdict


@dataclass(frozen=True)
class FinalCheck:
    """The winner and the reference on rows that nothing before has touched."""

    n: int
    winner: float
    reference: float
    p: float
    told: Told


def fit_space(result: SpaceResult, plan: TrialPlan, rows: Ints, scaled: bool) -> Any:
    """A model of the space with the chosen d', fitted on these rows (or on these pairs)."""
    judge, candidate = plan.judge, result.candidate
    chosen = rows_to_fit(candidate, judge, rows, plan.seed)
    setting = setting_for(plan, chosen, scaled)
    probe = build_model(candidate, setting, scaled)
    last = probe[-1] if hasattr(probe, "steps") else probe
    shortens = hasattr(last, "truncate")  # a metric is learned whole, then cut
    if candidate.nests and not shortens:
        setting = replace(setting, n_axes=result.n_dimensions)
    model = build_model(candidate, setting, scaled)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were told with the trial
        judge.fit(model, chosen)
    if candidate.nests and shortens:
        model = _cut(model, result.n_dimensions)
    return model


def _cut(model: Any, d: int) -> Any:
    if not hasattr(model, "steps"):
        return model.truncate(d)
    model.steps[-1] = (model.steps[-1][0], model.steps[-1][1].truncate(d))
    return model


def final_check(verdict: Verdict, plan: TrialPlan, scaled: bool) -> FinalCheck | None:
    """Winner and reference, fitted on all other rows, on the rows that were set aside."""
    judge = plan.judge
    aside = judge.split.set_aside
    if verdict.winner is None or len(aside) == 0:
        return None
    fold = Fold(judge.split.development, aside, 0)
    outcomes = []
    for name in (verdict.winner, verdict.reference):
        result = verdict.of(name).result
        model = fit_space(result, plan, fold.train, scaled)
        placed = judge.placed(model, fold)
        outcomes.append(judge.score(placed, fold, placed.train.shape[1]))
    ours, theirs = outcomes
    p = judge.paired_p(ours.per_row, theirs.per_row)
    holds = ours.score > theirs.score and p < 0.05
    shown = show_score(ours.score, judge), show_score(theirs.score, judge)
    told = Told(
        f"On {len(aside):,} rows set aside from the start: {verdict.winner} {shown[0]}, "
        f"{verdict.reference} {shown[1]} (p = {p:.3g}); the gain "
        f"{'holds' if holds else 'is not confirmed there'}.",
        f"在一开始留出、从未使用的 {len(aside):,} 行上:{verdict.winner} 为 {shown[0]},"
        f"{verdict.reference} 为 {shown[1]}(p = {p:.3g});"
        f"{'提高得到证实' if holds else '提高未得到证实'}。",
    )
    return FinalCheck(len(aside), ours.score, theirs.score, p, told)
