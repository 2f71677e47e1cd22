"""Situations of bench/level.py: tables in which no space is better, or exactly one is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from bench.simulated import N_FOLDS, Simulated, Table, make_table, neighbours, simulate
from nearfold.study.scores import ScoreName

ACCURACY, BALANCED, R2 = ScoreName.ACCURACY, ScoreName.BALANCED_ACCURACY, ScoreName.R2
_LABELS_PER_TABLE = 40  # neighbour lists are the slow part and do not depend on labels

Stream = Iterator[Simulated]


@dataclass(frozen=True)
class Situation:
    name: str
    n: int
    n_spaces: int
    stream: Callable[[np.random.Generator], Stream]
    share: float = 1.0  # of the repetitions
    candidates: int = 2  # the reference is the best of so many first spaces


def repeats_of(n: int) -> int:
    return 4 if n < 500 else 2 if n < 5000 else 1


def random_answers(
    draw: np.random.Generator,
    n: int,
    n_random: int,
    answers: Callable[[np.random.Generator, int], np.ndarray],
    score: ScoreName,
    groups: bool = False,
) -> Stream:
    """Labels or targets that no column has to do with."""
    while True:
        cluster, d = None, 10
        X = draw.normal(size=(n, d)) * np.linspace(3, 1, d)
        if groups:
            cluster = np.repeat(np.arange(n), draw.integers(5, 11, n))[:n]
            X = X[cluster] + 0.3 * draw.normal(size=(n, d))
        table = make_table(X, n_random, True, cluster, int(draw.integers(2**31)))
        for _ in range(_LABELS_PER_TABLE):
            y = answers(draw, n)
            yield simulate(table, y if cluster is None else y[cluster], score, repeats_of(n), draw)


def labels(draw: np.random.Generator, n: int, shares: tuple[float, ...]) -> np.ndarray:
    ends = np.round(np.cumsum(shares) * n)
    return draw.permutation(np.searchsorted(ends, np.arange(n), side="right"))


def targets(draw: np.random.Generator, n: int, df: float) -> np.ndarray:
    return draw.standard_t(df, n)


def equal_spaces(
    draw: np.random.Generator,
    n: int,
    n_spaces: int,
    kind: str,
    slope: float = 1.0,
    df: float | None = None,
    score: ScoreName = ACCURACY,
) -> Stream:
    """Spaces that are equally good: each lacks some of the columns that do not matter.

    kind: "kept", the same columns in all folds; "redrawn", others in every fold.
    """
    useful, useless = 6, 8
    while True:
        X = draw.normal(size=(n, useful + useless))
        signal = X[:, :useful].sum(axis=1) / np.sqrt(useful)
        if df is not None:
            y = slope * signal + 0.5 * draw.standard_t(df, n)
        elif score is BALANCED:
            y = (signal + draw.normal(size=n) / slope > 2.2).astype(np.int64)
            if y.sum() < N_FOLDS:
                continue
        else:
            y = (draw.random(n) < 1 / (1 + np.exp(-3 * slope * signal))).astype(np.int64)

        def axes(*_: np.ndarray, width: int = useful + useless) -> np.ndarray:
            dropped = useful + draw.choice(useless, useless // 2, replace=False)
            return np.delete(np.eye(width), dropped, axis=1)

        def projected(*_: np.ndarray, width: int = useful + useless) -> np.ndarray:
            return draw.normal(size=(width, 6))

        if kind == "kept":
            table = Table(X, [[neighbours(X @ axes(), 64)] for _ in range(n_spaces)], [])
        else:
            table = Table(X, [], [axes if kind == "redrawn" else projected] * n_spaces)
        yield simulate(table, y, score, repeats_of(n), draw)


def one_better(draw: np.random.Generator, n: int, right: float, gains: int, losses: int) -> Stream:
    """15 spaces as good as the first, the last one better: gained and lost rows as given."""
    repeats = repeats_of(n)
    change = (gains + losses) / (2 * n)
    up = np.full(16, change / (1 - right))
    down = np.full(16, change / right)
    up[0] = down[0] = 0.0
    up[-1], down[-1] = gains / n / (1 - right), losses / n / right
    y = labels(draw, n, (0.5, 0.5))
    while True:
        reference = draw.random(n) < right
        outcome = np.empty((16, repeats, n), dtype=bool)
        usual = _changed(reference, up, down, draw)
        for r in range(repeats):  # one row in ten falls out otherwise with other training rows
            again = draw.random(n) < 0.1
            outcome[:, r] = np.where(again, _changed(reference, up, down, draw), usual)
        predicted = np.where(outcome, y, 1 - y)
        fold = np.array([draw.permutation(np.arange(n) % N_FOLDS) for _ in range(repeats)])
        yield Simulated(ACCURACY, y, predicted, np.zeros((repeats, n)), fold)


def _changed(
    reference: np.ndarray, up: np.ndarray, down: np.ndarray, draw: np.random.Generator
) -> np.ndarray:
    turned = draw.random((len(up), len(reference)))
    return np.where(reference, turned >= down[:, None], turned < up[:, None])


def one_closer(
    draw: np.random.Generator, n: int, first: float, last: float, df: float, alike: float
) -> Stream:
    """15 spaces with the R^2 of the first, the last one with a higher one."""
    repeats = repeats_of(n)
    spread = np.sqrt(np.append(np.full(15, 1 - first), 1 - last))
    while True:
        y = draw.normal(size=n)
        common = draw.normal(size=n)
        tail = np.sqrt((df - 2) / draw.chisquare(df, n))
        own = np.sqrt(alike) * common + np.sqrt(1 - alike) * draw.normal(size=(16, n))
        errors = np.empty((16, repeats, n))
        for r in range(repeats):
            errors[:, r] = np.sqrt(0.95) * own + np.sqrt(0.05) * draw.normal(size=(16, n))
        errors *= spread[:, None, None] * tail
        fold = np.array([draw.permutation(np.arange(n) % N_FOLDS) for _ in range(repeats)])
        yield Simulated(R2, y, y - errors, np.zeros((repeats, n)), fold)


def level_situations() -> list[Situation]:
    def chance(name, n, answers, score, n_random=8, groups=False, share=1.0):
        stream = partial(
            random_answers, n=n, n_random=n_random, answers=answers, score=score, groups=groups
        )
        return Situation(name, n, n_random + 8, stream, share)

    def equal(name, n, kind="kept", n_spaces=8, share=1.0, **options):
        stream = partial(equal_spaces, n=n, n_spaces=n_spaces, kind=kind, **options)
        return Situation(name, n, n_spaces, stream, share, candidates=1)

    def shares(*of):
        return partial(labels, shares=of)

    half = shares(0.5, 0.5)
    return [
        chance("random labels", 200, half, ACCURACY),
        chance("random labels", 500, half, ACCURACY),
        chance("random labels", 1000, half, ACCURACY, share=0.5),
        chance("random labels", 5000, half, ACCURACY, 0, share=0.2),
        chance("random labels 80:20, accuracy", 500, shares(0.8, 0.2), ACCURACY),
        chance("random labels 80:20, balanced accuracy", 200, shares(0.8, 0.2), BALANCED),
        chance("random labels 80:20, balanced accuracy", 500, shares(0.8, 0.2), BALANCED),
        chance("random labels 97:3, accuracy", 500, shares(0.97, 0.03), ACCURACY),
        chance("random labels 97:3, balanced accuracy", 500, shares(0.97, 0.03), BALANCED),
        chance(
            "random labels 97:3, balanced accuracy", 1000, shares(0.97, 0.03), BALANCED, share=0.5
        ),
        chance("random labels, 3 classes", 500, shares(1 / 3, 1 / 3, 1 / 3), ACCURACY),
        chance("random labels, 10 classes", 500, shares(*[0.1] * 10), ACCURACY),
        chance("random labels of groups", 500, half, ACCURACY, groups=True),
        chance("random labels of groups", 1000, half, ACCURACY, groups=True, share=0.5),
        chance("noise target, normal", 200, partial(targets, df=100), R2),
        chance("noise target, normal", 500, partial(targets, df=100), R2),
        chance("noise target, heavy tails", 500, partial(targets, df=2.5), R2),
        equal("equal spaces, weak signal", 200, slope=0.4),
        equal("equal spaces", 200),
        equal("equal spaces", 200, n_spaces=16),
        equal("equal spaces, strong signal", 200, slope=4.0),
        equal("equal spaces", 500),
        equal("equal spaces", 500, n_spaces=16, share=0.5),
        equal("equal spaces", 1000, share=0.5),
        equal("equal spaces, 97:3, balanced accuracy", 1000, score=BALANCED, share=0.5),
        equal("equal spaces, redrawn in each fold", 200, "redrawn", n_spaces=6),
        equal("equal projections, redrawn in each fold", 200, "projected", n_spaces=6),
        equal("equal projections, redrawn in each fold", 500, "projected", n_spaces=6, share=0.5),
        equal("equal spaces, R2, normal errors", 200, df=100, score=R2),
        equal("equal spaces, R2, normal errors", 500, df=100, score=R2),
        equal("equal spaces, R2, heavy tails", 500, df=2.5, score=R2),
    ]


def power_situations() -> list[Situation]:
    """As seen on real tables: rows that one space alone gets right, and the other way round."""
    seen = [(200, 0.906, 18, 0), (569, 0.924, 34, 11), (840, 0.863, 71, 24)]
    seen += [(5000, 0.883, 177, 110), (2800, 0.984, 28, 2)]
    found = [
        Situation(
            f"{100 * right:.1f} % right, {gains}:{losses}",
            n,
            16,
            partial(one_better, n=n, right=right, gains=gains, losses=losses),
            share=min(1.0, 1000 / n),
            candidates=1,
        )
        for n, right, gains, losses in seen
    ]
    for n, first, last, df, alike in [(400, 0.77, 0.83, 30, 0.8), (500, 0.31, 0.49, 5, 0.85)]:
        stream = partial(one_closer, n=n, first=first, last=last, df=df, alike=alike)
        found.append(Situation(f"R2 {first:.2f} -> {last:.2f}", n, 16, stream, candidates=1))
    return found
