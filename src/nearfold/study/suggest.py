"""The pair whose answer would teach most.

The rule: of the pairs that join a row asked about before to a new one, or two groups of linked rows
whose relation is not known, the one whose distance under the present metric is nearest to the
distance at which alike and different are equally likely. That distance comes from a logistic
regression of the answers on the distances of their pairs, with two imagined answers beside them:
"alike" at a distance that few rows keep, "different" at the median. So the first answers come
from both kinds, whatever the classes are, and every answer adds to a group that is known: what
follows from it (lessons.py) is more than one pair.

New rows are drawn anew for each suggestion, by the seed and the number of actions: the most
uncertain of all rows are outliers.

Compared with as many random pairs, 40 answers by a simulated person, on halves of wine, digits,
breast cancer and a table of mostly useless columns (AUC of held-out pairs; bench/suggest.py). Other
rules lost on one set or more: the pair nearest to the threshold among all pairs (wine), a committee
of metrics from bootstrapped links (wine), near neighbours (all), the row farthest from all that
were asked about (wine), the row whose group is least certain, placed in a group by asking (accuracy
on breast cancer), pairs drawn in proportion to their uncertainty (digits).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist

from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.metrics.contradictions import joined_rows
from nearfold.notation import Array, Floats, Ints
from nearfold.study.intake import StudyTable
from nearfold.study.lessons import read_lesson
from nearfold.study.link_learning import LearnedSpace, ground_of
from nearfold.study.session import Session

_NEW_ROWS = 60  # considered for one suggestion
_OLD_ROWS = 300  # asked about before
_FOR_SCALE = 500  # rows whose distances give the imagined answers
_RARE, _USUAL, _FIRST = 2, 50, 10  # percentiles of their distances
_STEPS = 50  # of Newton


@dataclass(frozen=True)
class Suggestion:
    """Two rows to ask about, and the rule that chose them."""

    a: int
    b: int
    chance: float  # that they are alike, as far as the metric knows
    rule: Message


def suggest(table: StudyTable, session: Session, learned: LearnedSpace | None = None) -> Suggestion:
    """The next pair to ask about; `learned`: the metric that was taught so far, if any."""
    Z = ground_of(table, session).X if learned is None else learned.coordinates
    draw = np.random.default_rng([session.seed, len(session.actions)])
    pairs = read_lesson(session).told
    candidates = _candidates(session, pairs, len(table), draw)
    if len(candidates) == 0:
        raise InputError(Message("session.no_suggestion"))
    middle, slope = _even_distance(Z, pairs, draw)
    distance = np.linalg.norm(Z[candidates[:, 0]] - Z[candidates[:, 1]], axis=1)
    best = int(np.argmin(np.abs(distance - middle)))  # ties: the first
    a, b = np.sort(candidates[best]).tolist()
    chance = 1 / (1 + np.exp(np.clip(slope * (distance[best] - middle), -50, 50)))
    kind = "first" if len(pairs) == 0 else "uncertain"
    told = Message(f"suggest.{kind}", chance=f"{100 * chance:.0f}")
    return Suggestion(a, b, float(chance), told)


def _candidates(session: Session, pairs: Ints, n: int, draw: np.random.Generator) -> Ints:
    """Pairs whose answer is not known, does not follow and was not skipped."""
    old, part = joined_rows(pairs[:, :2], pairs[:, 2]) if len(pairs) else (pairs[:0, 0],) * 2
    new = np.setdiff1d(draw.permutation(n)[: _NEW_ROWS + len(old)], old)
    new = draw.permutation(new)[:_NEW_ROWS]
    if len(old) == 0:
        i, j = np.triu_indices(len(new), 1)
        found = np.column_stack([new[i], new[j]])
    else:
        open_pairs = _open_pairs(old, part, pairs, draw)
        some = np.sort(draw.choice(old, min(len(old), _OLD_ROWS), replace=False))
        bridges = np.column_stack([np.repeat(new, len(some)), np.tile(some, len(new))])
        found = np.vstack([bridges, open_pairs])
    skipped = session.told.skipped
    if skipped:
        found = found[[(min(a, b), max(a, b)) not in skipped for a, b in found.tolist()]]
    return found


def _open_pairs(old: Ints, part: Ints, pairs: Ints, draw: np.random.Generator) -> Ints:
    """Pairs of rows asked about whose groups are neither one nor known to be apart."""
    ends = part[np.searchsorted(old, pairs[:, :2])]
    settled = np.eye(part.max() + 1, dtype=bool)
    settled[ends[:, 0], ends[:, 1]] = True
    settled |= settled.T
    at = np.sort(draw.choice(len(old), min(len(old), _OLD_ROWS), replace=False))
    i, j = np.triu_indices(len(at), 1)
    i, j = at[i], at[j]
    unsettled = ~settled[part[i], part[j]]
    return np.column_stack([old[i[unsettled]], old[j[unsettled]]])


def _even_distance(Z: Floats, pairs: Ints, draw: np.random.Generator) -> tuple[float, float]:
    """The distance at which alike is as likely as different, and how fast that changes."""
    some = Z[np.sort(draw.permutation(len(Z))[:_FOR_SCALE])].astype(np.float64)
    rare, usual, first = np.percentile(pdist(some), (_RARE, _USUAL, _FIRST))
    unit = float(usual) if usual > 0 else 1.0
    if len(pairs) == 0:
        return float(first), 1 / unit
    known = np.linalg.norm(Z[pairs[:, 0]] - Z[pairs[:, 1]], axis=1)
    distance = np.append(known, [rare, usual]) / unit
    alike = np.append(pairs[:, 2] > 0, [True, False])
    slope, offset = _logistic(distance, alike)
    if slope < 1e-3:  # the answers so far have nothing to do with distance
        return float(first), 1 / unit
    return float(np.clip(offset / slope * unit, rare, usual)), slope / unit


def _logistic(x: Floats, alike: Array) -> tuple[float, float]:
    """(w, c) of P(alike) = 1 / (1 + exp(w x - c)), with the penalty w^2 / 2, by Newton's method."""
    A = np.column_stack([-x, np.ones(len(x))])
    theta, penalty = np.zeros(2), np.diag([1.0, 1e-6])
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(A @ theta, -50, 50)))
        gradient = A.T @ (p - alike) + penalty @ theta
        hessian = (A.T * (p * (1 - p))) @ A + penalty
        step = np.linalg.solve(hessian, gradient)
        theta = theta - step * min(1.0, 5 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-10:
            break
    return float(theta[0]), float(theta[1])
