"""Do suggested pairs teach more than random ones? A simulated person answers by class labels.

    python -m bench.suggest [--seeds 20] [--answers 40] [--only digits,wine]

Half of the rows are the session's table, the others are held out: 3-NN accuracy of those among the
first half, and the AUC of their own pairs, in the space learned from the answers. Printed beside
them the same of the scaled columns, and the share of seeds in which the suggested pairs won.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from bench.sets import smooth
from nearfold import KNeighborsClassifier
from nearfold.study.intake import StudyTable, open_table
from nearfold.study.link_learning import LearnedSpace, ground_of, learn
from nearfold.study.session import Session
from nearfold.study.suggest import suggest

Table = tuple[np.ndarray, np.ndarray]


def useless_columns(n: int = 400) -> Table:
    """Four classes in 5 columns, and 25 columns of noise."""
    draw = np.random.default_rng(7)
    y = draw.integers(4, size=n)
    means = 2.2 * draw.standard_normal((4, 5))
    noise = 1.5 * draw.standard_normal((n, 25))
    return np.hstack([means[y] + draw.standard_normal((n, 5)), noise]), y


def some_digits(n: int = 500) -> Table:
    """As many rows of the digits, drawn at random."""
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(1).permutation(len(X))[:n]
    return X[rows], y[rows]


def overlapping() -> Table:
    """Rotated classes that overlap."""
    found = smooth(500, 48, 5)
    return found.all_rows.astype(np.float64), found.all_labels


SETS = {
    "digits": some_digits,
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "iris": lambda: load_iris(return_X_y=True),
    "useless columns": useless_columns,
    "overlapping": overlapping,
}


def random_pair(session: Session, draw: np.random.Generator) -> tuple[int, int]:
    """Two rows that were not asked about together."""
    while True:
        a, b = sorted(draw.choice(session.facts.n_rows, 2, replace=False).tolist())
        if (a, b) not in session.told.links:
            return a, b


def taught(table: StudyTable, y: Any, seed: int, n: int, by_rule: bool) -> LearnedSpace:
    """The space after n answers by labels."""
    session, draw = Session.start(table, seed), np.random.default_rng(seed)
    learned = None
    for _ in range(n):
        if by_rule:
            asked = suggest(table, session, learned)
            a, b = asked.a, asked.b
        else:
            a, b = random_pair(session, draw)
        answer = "alike" if y[a] == y[b] else "different"
        session = session.apply({"do": "answer", "a": a, "b": b, "answer": answer})
        if by_rule:
            learned = learn(table, session, before=learned)
    return learn(table, session, before=learned)


def scores(Z: np.ndarray, y: np.ndarray, Q: np.ndarray, r: np.ndarray) -> tuple[float, float]:
    """3-NN accuracy of held-out rows, and the AUC of their pairs."""
    i, j = np.triu_indices(len(Q), 1)
    alike = r[i] == r[j]
    rank = rankdata(-np.linalg.norm(Q[i] - Q[j], axis=1))
    n = int(alike.sum())
    area = (rank[alike].sum() - n * (n + 1) / 2) / (n * (len(alike) - n))
    return KNeighborsClassifier(3).fit(Z, y).score(Q, r), float(area)


def trial(X: np.ndarray, y: np.ndarray, seed: int, n: int) -> np.ndarray:
    """(scaled, random, suggested) x (accuracy, AUC)."""
    order = np.random.default_rng(seed).permutation(len(y))
    own, held = order[: len(y) // 2], order[len(y) // 2 :]
    table = open_table(X[own])
    step = ground_of(table, Session.start(table, seed)).step
    found = [scores(step.transform(X[own]), y[own], step.transform(X[held]), y[held])]
    for by_rule in (False, True):
        model = taught(table, y[own], seed, n, by_rule).model
        found.append(scores(model.transform(X[own]), y[own], model.transform(X[held]), y[held]))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--answers", type=int, default=40)
    parser.add_argument("--only", default=",".join(SETS))
    given = parser.parse_args()
    print(f"{given.answers} answers, {given.seeds} seeds: 3-NN accuracy / AUC of pairs, held out")
    for name in given.only.split(","):
        X, y = SETS[name]()
        begun = time.process_time()
        found = np.array([trial(X, y, seed, given.answers) for seed in range(given.seeds)])
        mean = 100 * found.mean(axis=0)
        gain = 100 * (found[:, 2] - found[:, 1])
        error = gain.std(axis=0, ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.zeros(2)
        kinds = zip(("scaled", "random", "suggested"), mean, strict=True)
        line = "; ".join(f"{kind} {a:.1f} / {b:.1f}" for kind, (a, b) in kinds)
        print(f"{name}: {line}; gain {gain[:, 0].mean():+.1f} (s.e. {error[0]:.1f}) / "
              f"{gain[:, 1].mean():+.1f} (s.e. {error[1]:.1f}), better in "
              f"{100 * (gain[:, 0] > 0).mean():.0f} / {100 * (gain[:, 1] > 0).mean():.0f} % "
              f"[{time.process_time() - begun:.0f} s]", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
