"""How often a space is declared better when none is, and how often a better one is found.

Run `python -m bench.level` (half an hour; `--fast`: three minutes). "Old" is the rule of
older_rule.py: the corrected t-test of fold scores by Nadeau and Bengio, adjusted by Holm. "New" is
the rule of significance.py. "Rows" is the new rule as if outcomes of rows were independent
(test_train_ratio = 0), which is McNemar's test adjusted by max-T.

Level: the share of comparisons in which any space is declared better than the reference and above
chance although none is. With random answers the reference is the better of raw and scaled, in the
other situations it is fixed. Power: how often the one better space among 16 is declared better.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from bench.older_rule import discordant_error, estimate, holm
from bench.simulated import N_FOLDS, Simulated, fold_scores
from bench.situations import Situation, level_situations, power_situations
from nearfold.quality.held_out import share_error
from nearfold.study.scores import ScoreName
from nearfold.study.significance import above_chance, compare_to_reference

RATIO = 1 / (N_FOLDS - 1)
SIGNIFICANT = 0.05


def new_rule(sim: Simulated, psi: np.ndarray, reference: int, ratio: float = RATIO) -> np.ndarray:
    """Which spaces are declared better than the reference and above chance."""
    options = {"cluster": sim.cluster, "test_train_ratio": ratio}
    found = compare_to_reference(psi[:-1], reference, sim.fold, **options)
    better = np.array([c.p < SIGNIFICANT and c.difference > 0 for c in found])
    if better.any():
        above = above_chance(psi[:-1], psi[-1], sim.fold, **options)
        better &= [c.p < SIGNIFICANT for c in above]
    return better


def old_rule(sim: Simulated, reference: int) -> np.ndarray:
    """The same by fold scores."""
    is_share = sim.score is not ScoreName.R2
    scores = np.array([_all_folds(sim, space) for space in sim.predicted])
    right = sim.predicted[:, 0] == sim.truth
    chance = _all_folds(sim, sim.guessed) if is_share else np.zeros(scores.shape[1])
    p, p_chance = [], []
    for s in range(len(scores)):
        floor = discordant_error(right[s], right[reference]) if is_share else 0.0
        p.append(estimate(scores[s] - scores[reference], RATIO, floor).p)
        floor = share_error(scores[s].mean(), len(sim.truth)) if is_share else 0.0
        p_chance.append(estimate(scores[s] - chance, RATIO, floor).p)
    others = np.arange(len(scores)) != reference
    better = others & (scores.mean(axis=1) > scores[reference].mean())
    better[others] &= holm(np.array(p)[others]) < SIGNIFICANT
    above = (scores.mean(axis=1) > chance.mean()) & (holm(np.array(p_chance)) < SIGNIFICANT)
    return better & above


def _all_folds(sim: Simulated, predicted: np.ndarray) -> np.ndarray:
    """Scores of all folds of all repeats, predicted: (R, n)."""
    parts = zip(predicted, sim.fold, strict=True)
    return np.concatenate([fold_scores(sim.score, sim.truth, p[None], f)[:, 0] for p, f in parts])


def declared(situation: Situation, count: int, seed: int) -> np.ndarray:
    """(count, 3, S) what the old rule, the new one and that of independent rows declare better."""
    draw = np.random.default_rng(seed)
    out = []
    for _, sim in zip(range(count), situation.stream(draw), strict=False):
        psi = sim.psi
        reference = int(psi[: situation.candidates].mean(axis=(1, 2)).argmax())
        out.append(
            [
                old_rule(sim, reference),
                new_rule(sim, psi, reference),
                new_rule(sim, psi, reference, ratio=0.0),
            ]
        )
    return np.array(out)


def print_table(
    title: str, situations: list[Situation], count: int, is_power: bool, only: str
) -> None:
    print(f"{title:42} | rows | spaces | times |   old |   new |  rows | seconds", flush=True)
    for seed, situation in enumerate(situations):
        if only not in situation.name:
            continue
        started = time.monotonic()
        times = max(20, int(count * situation.share))
        found = declared(situation, times, seed + 1000)
        hits = found[:, :, -1] if is_power else found.any(axis=2)
        old, new, rows = 100 * hits.mean(axis=0)
        print(
            f"{situation.name:42} | {situation.n:4} | {situation.n_spaces:6} | {times:5} | "
            f"{old:4.1f}% | {new:4.1f}% | {rows:4.1f}% | {time.monotonic() - started:5.0f}",
            flush=True,
        )
    print()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.level", description=__doc__)
    parser.add_argument("--fast", action="store_true", help="a tenth of the repetitions")
    parser.add_argument("--only", default="", help="situations whose name contains this")
    parser.add_argument("--times", type=int, default=400, help="repetitions of each situation")
    options = parser.parse_args()
    count = options.times // 10 if options.fast else options.times
    for title, found, is_power in (
        ("level: no space is better", level_situations(), False),
        ("power: one space is better", power_situations(), True),
    ):
        print_table(title, found, count, is_power, options.only)


if __name__ == "__main__":
    main()
