"""Which space makes nearest neighbours work on this table?

Every candidate space is fitted and judged on the same folds (trial.py), the differences are tested
(verdict.py), and where there are rows enough the winner meets a fifth of them that nothing before
has touched.

Whether columns are scaled before a space is decided like d': in each fold by how the raw and the
scaled columns did in the other folds of its repeat.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearfold.errors import Cancelled, InputError, warn
from nearfold.inputs import check_rows, refuse_extreme
from nearfold.metrics.tuples import from_ids
from nearfold.notation import Array
from nearfold.run import reporter
from nearfold.study.answers import check_answers
from nearfold.study.candidates import Candidate, always_tried, pick_candidates
from nearfold.study.final import FinalCheck, final_check, fit_space
from nearfold.study.folds import Fold
from nearfold.study.headline import Headline, show_score
from nearfold.study.judges import Judge, LearnerJudge, NeighborJudge, PairJudge
from nearfold.study.told import Told
from nearfold.study.trial import (
    FINISHED,
    SpaceResult,
    TrialPlan,
    sample_by_class,
    try_space,
)
from nearfold.study.verdict import Verdict, judge_results

_DIFFERENT_UNITS = 10.0  # ranges of columns that differ more than this are not of one kind
_VIEW_ROWS = 100_000
_LARGEST_SHARE = 0.25  # of the time that is left, for one space
_NEIGHBORS = 5  # of the learner, if not told


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


def compare(
    X: Any,
    y: Any = None,
    *,
    task: str | None = None,
    pairs: Any = None,
    ids: Any = None,
    methods: Any = None,
    spaces: Mapping[str, Any] | None = None,
    n_neighbors: int | None = None,
    weights: str = "uniform",
    n_components: int | None = None,
    scale: bool | None = None,
    n_folds: int = 5,
    n_repeats: int | None = None,
    set_aside: bool | None = None,
    time_budget: float | None = None,
    max_points: int = _VIEW_ROWS,
    random_state: int = 0,
    columns: tuple[str, ...] | None = None,
) -> Comparison:
    """Try many spaces on a table and say in which one nearest neighbours work best.

    Parameters
    ----------
    X : table of numbers, an array or a frame.
    y : a label or a target for each row; `task` is "classification" or "regression" if the values
        do not tell. Without y and pairs, spaces are judged by the neighbours they keep.
    pairs, ids : must-link and cannot-link pairs, as metric learners take them.
    methods : names of spaces, "default" or "all". `spaces`: further ones, name -> any transformer.
    n_neighbors, weights : of the learner that judges; None: 5, or fewer if the rows are few.
    n_components : the same d' for all spaces; None: chosen (without y and pairs: 2).
    scale : whether columns are scaled before a space; None: decided by the held-out score.
    n_folds, n_repeats, set_aside : how rows are held out; None: by the size of the table.
    time_budget : seconds for all; each space has its share, and is stopped at a step beyond it.
    max_points : rows kept for the picture. `columns`: their names, if X has none.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfold import compare
    >>> X, y = load_wine(return_X_y=True)
    >>> found = compare(X, y, methods=["PCA", "LDA"])
    >>> found.winner, found.result("LDA").n_dimensions
    ('LDA', 2)
    """
    started = time.monotonic()
    named = tuple(str(c) for c in X.columns) if hasattr(X, "columns") else columns
    X = check_rows(X)
    columns = named or tuple(f"x{j}" for j in range(X.shape[1]))
    options = {
        "n_folds": n_folds,
        "n_repeats": n_repeats,
        "set_aside": set_aside,
        "random_state": random_state,
    }
    refuse_extreme(float(np.abs(X).max()), X.dtype)
    if n_folds < 2:
        raise InputError(f"n_folds={n_folds}: at least 2 are needed, to learn and to judge.")
    _refuse_options(n_components, weights, max_points, time_budget, len(columns), X.shape[1])
    judge, scaled = _appoint(X, y, task, (pairs, ids), n_neighbors, weights, scale, options)
    if judge.task == "none" and n_components is None:
        n_components = 2
    candidates = pick_candidates(judge.task, methods, spaces)
    plan = _plan(judge, n_components, random_state, max_points, len(candidates))
    results, stopped = _try_all(candidates, plan, scaled, started, time_budget)
    reference = "PCA" if judge.task == "none" else "raw"
    verdict = judge_results(results, judge, reference)
    overall = _scaled_by_all(results) if scaled is None else scaled
    final, trouble = (None, None) if stopped else _checked(verdict, plan, overall)
    notices = _notices(judge, plan, results, overall if scale is None else None)
    return Comparison(
        judge,
        plan,
        tuple(results),
        verdict,
        Headline(verdict, judge).told(),
        columns,
        overall,
        final,
        notices if trouble is None else (*notices, trouble),
        time.monotonic() - started,
        stopped,
    )


def _checked(
    verdict: Verdict, plan: TrialPlan, scaled: bool
) -> tuple[FinalCheck | None, Told | None]:
    """The last check, or why there is none: what was found before must not be lost by it."""
    try:
        return final_check(verdict, plan, scaled), None
    except (KeyboardInterrupt, Cancelled):
        why = "stopped"
    except Exception as error:
        why = " ".join(str(error).split())[:200]
    return None, Told(
        f"The last check on rows set aside did not end ({why}).",
        f"在留出行上的最后检验没有完成({why})。",
    )


def _appoint(
    X: Array,
    y: Any,
    task: str | None,
    pairs: tuple[Any, Any],
    k: int | None,
    weights: str,
    scale: bool | None,
    options: dict[str, Any],
) -> tuple[Judge, bool | None]:
    """The judge for what is told about the rows; whether to scale, if that is known already."""
    if pairs[0] is not None:
        if y is not None:
            raise InputError("give y or pairs, not both: a space is judged by one of them.")
        found = from_ids(X, pairs[0], 2, ids=pairs[1])
        options = {**options, "set_aside": False}
        return PairJudge(X, found.rows, np.asarray(found.sign) > 0, **options), scale
    if y is None:
        scaled = _different_units(X) if scale is None else scale
        options = {**options, "set_aside": False}
        original = standardised(X) if scaled else X
        k = _neighbors(k, len(X), options["n_folds"])
        return NeighborJudge(X, original, k=k, **options), scaled
    y, task = check_answers(y, len(X), task)
    k = _neighbors(k, len(X), options["n_folds"])
    return LearnerJudge(X, y, task=task, k=k, weights=weights, **options), scale


def _refuse_options(
    n_components: int | None,
    weights: str,
    max_points: int,
    time_budget: float | None,
    n_names: int,
    d: int,
) -> None:
    if n_components is not None and not 1 <= n_components <= d:
        raise InputError(f"n_components={n_components}: give a number from 1 to {d}.")
    if weights not in ("uniform", "distance"):
        raise InputError(f"weights={weights!r}: there are uniform and distance.")
    if max_points < 3:
        raise InputError(f"max_points={max_points}: a picture has at least 3 points.")
    if time_budget is not None and not time_budget > 0:
        raise InputError(f"time_budget={time_budget}: give seconds, more than 0.")
    if n_names != d:
        raise InputError(f"there are {n_names} names of columns, and X has {d} columns.")


def _neighbors(k: int | None, n: int, n_folds: int) -> int:
    """As many as asked for, or five, or as there are in the training rows of a fold."""
    most = max(1, n - -(-n // n_folds) - 1)
    if k is not None and not 1 <= k <= most:
        raise InputError(
            f"n_neighbors={k}: a fold has {most + 1} training rows, so give a number from 1 to "
            f"{most}."
        )
    if k is None and most < _NEIGHBORS:
        warn(f"a fold has {most + 1} training rows: the {most} nearest are used, not {_NEIGHBORS}.")
    return min(_NEIGHBORS, most) if k is None else k


def _different_units(X: Array) -> bool:
    reach = np.ptp(X.astype(np.float64), axis=0)
    reach = reach[reach > 0]
    if len(reach) == 0:
        return False
    low, high = np.quantile(reach, [0.05, 0.95])
    return bool(high > _DIFFERENT_UNITS * low)


def standardised(X: Array) -> Array:
    """Columns of mean 0 and variance 1."""
    from sklearn.preprocessing import StandardScaler

    return np.asarray(StandardScaler().fit_transform(X))


def _plan(judge: Judge, n_axes: int | None, seed: int, max_points: int, count: int) -> TrialPlan:
    labels = judge.y if isinstance(judge, LearnerJudge) and judge.is_share else None
    rows = np.arange(len(judge.X)) if judge.task == "pairs" else judge.split.development
    known = None if labels is None else labels[rows]
    view = rows[sample_by_class(known, len(rows), max_points, np.random.default_rng(seed))]
    n_classes = 0 if labels is None else len(np.unique(labels))
    total = count * len(judge.split.folds)
    return TrialPlan(judge, n_axes, seed, view, n_classes, 0, total)


def _try_all(
    candidates: list[Candidate],
    plan: TrialPlan,
    scaled: bool | None,
    started: float,
    budget: float | None,
) -> tuple[list[SpaceResult], bool]:
    """Every space on trial; Ctrl-C ends it with what is finished."""
    results: list[SpaceResult] = []
    folds = plan.judge.split.folds
    try:
        for i, candidate in enumerate(candidates):
            left = None if budget is None else budget - (time.monotonic() - started)
            # One space may take a quarter of what is left: few need it, and it is not lost.
            fair = max(1 / (len(candidates) - i), _LARGEST_SHARE)
            free = left is None or candidate.name in always_tried(plan.judge.task)
            share = None if free or left is None else max(left, 0.0) * fair
            here = replace(plan, first=i * len(folds))
            results.append(try_space(candidate, here, _scaling(results, folds, scaled), share))
        reporter()("Spaces tried", plan.total, plan.total)
    except (KeyboardInterrupt, Cancelled):
        if not results:
            raise
        return results, True
    return results, False


def _scaling(
    results: list[SpaceResult], folds: tuple[Fold, ...], scaled: bool | None
) -> list[bool]:
    """Whether columns are scaled, fold by fold, decided by the other folds of the repeat."""
    if scaled is not None:
        return [scaled] * len(folds)
    by_name = {r.name: r for r in results if r.status == FINISHED}
    if "raw" not in by_name or "scaled" not in by_name:
        return [False] * len(folds)
    gain = by_name["scaled"].scores[:, 0] - by_name["raw"].scores[:, 0]
    repeat = np.array([fold.repeat for fold in folds])
    decided = []
    for i in range(len(folds)):
        others = (repeat == repeat[i]) & (np.arange(len(folds)) != i)
        decided.append(bool(others.any() and gain[others].mean() > 0))
    return decided


def _scaled_by_all(results: list[SpaceResult]) -> bool:
    by_name = {r.name: r for r in results if r.status == FINISHED}
    if "raw" not in by_name or "scaled" not in by_name:
        return False
    return bool(by_name["scaled"].scores.mean() > by_name["raw"].scores.mean())


def _notices(
    judge: Judge, plan: TrialPlan, results: list[SpaceResult], scaled: bool | None
) -> tuple[Told, ...]:
    notices = list(judge.split.notices)
    if scaled:
        why = (
            Told("the columns have different units", "各列单位不同")
            if judge.task == "none"
            else Told("held-out rows do better so", "这样留出样本的得分更高")
        )
        notices.append(
            Told(
                "Columns are scaled to unit variance before each of our spaces but the raw one: "
                f"{why.en}.",
                f"除原始空间外,各列先标准化为单位方差:{why.zh}。",
            )
        )
    sampled = [r for r in results if 0 < r.fit_rows < r.train_rows]
    if sampled:
        listed = ", ".join(f"{r.name} ({r.fit_rows:,})" for r in sampled)
        notices.append(
            Told(
                f"Fitted on a sample of the training rows, all other rows transformed: {listed}.",
                f"用训练行的一个样本拟合,其余行由变换得到:{listed}。",
            )
        )
    if len(plan.view_rows) < len(judge.split.development) and judge.task != "pairs":
        notices.append(
            Told(
                f"The pictures show {len(plan.view_rows):,} of {len(judge.X):,} rows, by class.",
                f"图中显示 {len(judge.X):,} 行中按类别抽取的 {len(plan.view_rows):,} 行。",
            )
        )
    return tuple(notices)
