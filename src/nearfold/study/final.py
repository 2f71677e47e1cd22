"""The chosen space as a model, and its last check on rows that nothing before has touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from nearfold.messages import Message
from nearfold.notation import Floats, Ints
from nearfold.study.candidates import build_model
from nearfold.study.folds import Fold
from nearfold.study.judges import Judge, Placed
from nearfold.study.recipes import Recipe
from nearfold.study.showing import ScoreValue, space_name
from nearfold.study.significance import Contrast, compare_to_reference
from nearfold.study.trial import SpaceResult, TrialPlan, rows_to_fit, setting_for
from nearfold.study.verdict import Verdict
from nearfold.study.watch import collect_warnings


@dataclass(frozen=True)
class FinalCheck:
    """The winner and the reference on rows that nothing before has touched."""

    n: int
    winner: float
    reference: float
    difference: Contrast
    told: Message

    @property
    def p(self) -> float:
        """Of no difference between them."""
        return self.difference.p

    @property
    def holds(self) -> bool:
        """Whether the gain was seen there, too."""
        return self.difference.is_gain

    def as_dict(self) -> dict[str, Any]:
        """For JSON and for the model card."""
        return {
            "rows": self.n,
            "winner": self.winner,
            "reference": self.reference,
            "low": self.difference.low,
            "high": self.difference.high,
            "p": self.p,
            "holds": self.holds,
        }


def fit_space(result: SpaceResult, plan: TrialPlan, rows: Ints, recipe: Recipe) -> Pipeline:
    """A model of the space with all that was chosen, fitted on these rows (or on these pairs)."""
    judge, candidate, question = plan.judge, result.candidate, plan.question
    recipe = candidate.recipes[result.chosen.recipe] if candidate.recipes else recipe
    chosen = rows_to_fit(candidate, judge, rows, question.random_state)
    model = None
    if not candidate.is_plain:
        own = candidate.grid or candidate.nests
        asked = result.n_dimensions if own else question.n_components
        model = build_model(candidate, setting_for(plan, chosen, recipe, None, asked))
    with collect_warnings():  # they were shown with the trial
        step = judge.fit(model, recipe, rows, chosen, candidate.supervised)
    steps: list[tuple[str, Any]] = [("table", step)]
    if isinstance(model, Pipeline):
        steps += model.steps
    elif model is not None:
        steps.append(("space", model))
    fitted = Pipeline(steps)
    if candidate.nests:
        _shorten(fitted, result.n_dimensions)
    return fitted


def _shorten(model: Pipeline, d: int) -> None:
    """Cut a metric that was learned whole to its first axes."""
    name, last = model.steps[-1]
    if hasattr(last, "truncate") and not hasattr(last, "n_components"):
        model.steps[-1] = (name, last.truncate(d))


def final_check(verdict: Verdict, plan: TrialPlan, recipe: Recipe) -> FinalCheck | None:
    """Winner and reference, fitted on all other rows, on the rows that were set aside."""
    judge = plan.judge
    aside = judge.split.set_aside
    if verdict.winner is None or verdict.reference is None or len(aside) == 0:
        return None
    fold = Fold(judge.split.development, aside, 0)
    psi = []
    for name in (verdict.winner, verdict.reference):
        result = verdict.of(name).result
        model = fit_space(result, plan, fold.train, recipe)
        psi.append(_on_rows(judge, result, model, fold))
    contributions = np.array(psi)
    cluster = judge.clusters()
    contrast = compare_to_reference(
        contributions, 1, np.zeros((1, judge.n), dtype=np.int64), cluster=cluster,
        test_train_ratio=0.0, seed=plan.question.random_state,
    )[0]  # fmt: skip
    ours, theirs = (float(np.nanmean(values)) for values in contributions)
    told = Message(
        "study.final_holds" if contrast.is_gain else "study.final_fails",
        n=len(aside),
        winner=space_name(verdict.winner),
        reference=space_name(verdict.reference),
        ours=ScoreValue.of(ours, judge),
        theirs=ScoreValue.of(theirs, judge),
        p=f"{contrast.p:.2g}",
    )
    return FinalCheck(len(aside), ours, theirs, contrast, told)


def _on_rows(judge: Judge, result: SpaceResult, model: Pipeline, fold: Fold) -> Floats:
    """What the rows set aside add to the score, (1, n)."""
    inner = Pipeline(model.steps[1:]) if len(model.steps) > 1 else None
    step = model.steps[0][1]
    placed = Placed(judge.place_rows(step, inner, fold.train),
                    judge.place_rows(step, inner, fold.test), step)  # fmt: skip
    outcomes = judge.evaluate(placed, fold, placed.train.shape[1], result.metric)
    return judge.contributions([(fold, outcomes[result.chosen.k])])[:1]
