"""A session in which a person looks at spaces and says which points belong together.

Pure: a session is a function of its table, its seed and its actions. `apply` gives a new session
and changes none; the same actions give the same session, so that a list of them is all there is to
keep (session_log.py).

What was told (links, classes, learner, factors) can be undone and redone; these are actions like
all others. What was looked at (`show`, `view`) is kept beside it: undo takes back the last thing
that was told, not the last look. The last word on a pair counts.

Links may contradict each other. That is no error: `conflicts` shows each cannot-link pair that
must-links join, with the shortest chain that does so, and learning leaves those pairs out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.metrics.contradictions import contradicted, shortest_chain
from nearfold.notation import Ints
from nearfold.study.actions import Action, Facts, check_action
from nearfold.study.candidates import own_names
from nearfold.study.intake import StudyTable
from nearfold.study.question import Task

LEARNED = "learned"  # the space of the metric that the session teaches
MOST_GROUPED = 200  # pairs that linking two groups makes at most
_MOST_CHAINS = 100  # shown
_LOOKING = ("show", "view")


@dataclass(frozen=True)
class Link:
    """Two rows, a < b, that are alike or not, and the number of the action that said so."""

    a: int
    b: int
    alike: bool
    action: int


@dataclass(frozen=True)
class Conflict:
    """A cannot-link pair, and the must-links that join its rows one after the other."""

    a: int
    b: int
    chain: tuple[int, ...]


@dataclass(frozen=True)
class Told:
    """All that undo and redo go through."""

    links: Mapping[tuple[int, int], Link] = field(default_factory=dict)  # in the order of telling
    skipped: frozenset[tuple[int, int]] = frozenset()
    painted: Mapping[int, str] = field(default_factory=dict)  # the class of each painted row
    learner: str = "auto"
    factors: Mapping[str, float] = field(default_factory=dict)  # of columns, where not 1


@dataclass(frozen=True)
class View:
    """How a space is looked at."""

    axes: str = "main"
    dimensions: int = 2


@dataclass(frozen=True)
class Session:
    """The state after some actions; `Session.start` is the first."""

    facts: Facts
    seed: int
    actions: tuple[Action, ...] = ()
    told: Told = Told()
    shown: tuple[str, ...] = ()  # spaces, the latest one last
    views: Mapping[str, View] = field(default_factory=dict)
    past: tuple[Told, ...] = ()
    future: tuple[Told, ...] = ()  # the next one last

    @classmethod
    def start(cls, table: StudyTable, seed: int = 0) -> Session:
        """Nothing told, nothing shown."""
        columns = tuple(dict.fromkeys(table.cells.names))
        spaces = (*own_names(table.cells, table.task or Task.NONE), LEARNED)
        return cls(Facts(len(table), columns, spaces, digest(table)), int(seed))

    def apply(self, action: Any) -> Session:
        """The session after one more action; an InputError if it cannot be."""
        action = check_action(action, self.facts)
        kind, log = action["do"], (*self.actions, action)
        if kind in _LOOKING:
            return replace(self._look(action), actions=log)
        if kind == "undo":
            if not self.past:
                raise InputError(Message("session.no_undo"))
            return replace(self, actions=log, told=self.past[-1], past=self.past[:-1],
                           future=(*self.future, self.told))  # fmt: skip
        if kind == "redo":
            if not self.future:
                raise InputError(Message("session.no_redo"))
            return replace(self, actions=log, told=self.future[-1], past=(*self.past, self.told),
                           future=self.future[:-1])  # fmt: skip
        told = self._tell(action)
        return replace(self, actions=log, told=told, past=(*self.past, self.told), future=())

    def after(self, actions: Iterable[Any]) -> Session:
        """The session after these actions, one after the other."""
        session = self
        for action in actions:
            session = session.apply(action)
        return session

    def _look(self, action: Action) -> Session:
        space = action["space"]
        shown = (*(name for name in self.shown if name != space), space)
        views = self.views
        if action["do"] == "view":
            views = {**views, space: View(action["axes"], action["dimensions"])}
        return replace(self, shown=shown, views=views)

    def _tell(self, action: Action) -> Told:
        told, kind = self.told, action["do"]
        if kind == "learner":
            return replace(told, learner=action["name"])
        if kind == "weight":
            factors = {**told.factors, action["column"]: action["factor"]}
            return replace(told, factors={c: f for c, f in factors.items() if f != 1})
        if kind == "paint":
            label = action["label"]
            named = set(action["rows"])
            kept = {r: c for r, c in told.painted.items() if r not in named}
            if label is not None:
                kept |= dict.fromkeys(action["rows"], label)
            return replace(told, painted=dict(sorted(kept.items())))
        if kind == "unlink":
            pair = _ordered(action["a"], action["b"])
            if pair not in told.links:
                raise InputError(Message("session.not_linked", a=pair[0], b=pair[1]))
            return replace(told, links={p: k for p, k in told.links.items() if p != pair})
        if kind == "answer" and action["answer"] == "skip":
            return replace(told, skipped=told.skipped | {_ordered(action["a"], action["b"])})
        return self._linked(self._named_pairs(action))

    def _named_pairs(self, action: Action) -> list[tuple[int, int, bool]]:
        """The pairs that an action links, and whether they are alike."""
        if action["do"] == "import_links":
            return [(a, b, sign > 0) for a, b, sign in action["pairs"]]
        if action["do"] == "link_groups":
            draw = np.random.default_rng([self.seed, len(self.actions)])
            pairs = pairs_of_groups(action["a"], action["b"], draw)
            if not pairs:
                raise InputError(Message("session.no_pairs"))
            return [(a, b, action["alike"]) for a, b in pairs]
        alike = action["alike"] if action["do"] == "link" else action["answer"] == "alike"
        return [(action["a"], action["b"], alike)]

    def _linked(self, pairs: Iterable[tuple[int, int, bool]]) -> Told:
        new: dict[tuple[int, int], Link] = {}
        for a, b, alike in pairs:
            pair = _ordered(a, b)
            new.pop(pair, None)  # the last word counts, and comes last
            new[pair] = Link(*pair, alike, len(self.actions))
        links = {pair: link for pair, link in self.told.links.items() if pair not in new}
        return replace(self.told, links={**links, **new},
                       skipped=self.told.skipped - set(new))  # fmt: skip

    @property
    def links(self) -> tuple[Link, ...]:
        """In the order in which they were told."""
        return tuple(self.told.links.values())

    @property
    def pairs(self) -> Ints:
        """The links as rows (a, b, 1 or -1), as learners and pair files have them."""
        found = [(k.a, k.b, 1 if k.alike else -1) for k in self.links]
        return np.array(found, dtype=np.int64).reshape(-1, 3)

    @cached_property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Cannot-link pairs whose rows must-links join; the first hundred."""
        pairs = self.pairs
        if len(pairs) == 0:
            return ()
        rows, sign = pairs[:, :2], pairs[:, 2]
        found = rows[contradicted(rows, sign)][:_MOST_CHAINS]
        chains = [tuple(shortest_chain(rows, sign, pair)) for pair in found]
        return tuple(Conflict(chain[0], chain[-1], chain) for chain in chains)

    def factor(self, column: str) -> float:
        """By which a column is multiplied before learning."""
        return self.told.factors.get(column, 1.0)

    def view(self, space: str) -> View:
        """How a space is looked at, as last chosen."""
        return self.views.get(space, View())


def replay(table: StudyTable, actions: Iterable[Any], seed: int = 0) -> Session:
    """The session after these actions."""
    return Session.start(table, seed).after(actions)


def pairs_of_groups(
    a: list[int], b: list[int] | None, draw: np.random.Generator
) -> list[tuple[int, int]]:
    """All pairs between two groups of rows (None: within the first), or some drawn at random."""
    first, second = np.array(a), np.array(a if b is None else b)
    n, m = len(first), len(second)
    numbers = np.arange(n * m) if n * m <= 4 * MOST_GROUPED else draw.choice(
        n * m, 4 * MOST_GROUPED, replace=False)  # fmt: skip
    rows = np.column_stack([first[numbers // m], second[numbers % m]])
    rows = np.unique(np.sort(rows[rows[:, 0] != rows[:, 1]], axis=1), axis=0)
    if len(rows) > MOST_GROUPED:
        rows = rows[np.sort(draw.choice(len(rows), MOST_GROUPED, replace=False))]
    return [(int(x), int(y)) for x, y in rows]


def digest(table: StudyTable) -> str:
    """A hash of the rows as they were read: what a session is about."""
    cells, found = table.cells, hashlib.sha256()
    words = [list(map(str, cells.names)), [list(map(str, known)) for known in cells.levels]]
    found.update(repr((words, cells.numbers.shape, cells.numbers.dtype.str)).encode())
    for values in (cells.numbers, cells.codes):
        found.update(np.ascontiguousarray(values).data)
    if table.y is not None:
        found.update(repr((table.task, table.y.tolist())).encode())
    return found.hexdigest()


def _ordered(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)
