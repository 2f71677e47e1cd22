"""What is asked of a comparison, and the words for how it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Integral
from typing import Any

from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.study.scores import SCORES

_LEAST = {"n_folds": 2, "n_repeats": 1, "max_points": 3, "random_state": 0, "n_components": 1}
NEIGHBORS = (1, 3, 5, 7, 9, 11, 15, 19, 25)  # k of the learner, if it is not given


class Task(StrEnum):
    """What spaces are judged by."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"
    PAIRS = "pairs"
    NONE = "none"  # neither label nor pairs: the neighbours that a space keeps

    @property
    def shown(self) -> Message:
        """The words for people."""
        return Message(f"task.{self.value}")


class Status(StrEnum):
    """How the trial of a space ended."""

    FINISHED = "finished"
    UNFINISHED = "unfinished"
    FAILED = "failed"


class Ruling(StrEnum):
    """What is said of a space beside the reference."""

    REFERENCE = "reference"
    BETTER = "better"
    WORSE = "worse"
    NOT_SHOWN = "not_shown"
    UNCOMPARED = "uncompared"
    UNFINISHED = "unfinished"
    FAILED = "failed"

    @property
    def shown(self) -> Message:
        """The words for people."""
        return Message(f"verdict.{self.value}")


@dataclass(frozen=True, kw_only=True)
class Question:
    """The options of a comparison; `compare` documents them."""

    task: Task | None = None
    score: str | None = None
    methods: Any = None
    spaces: Mapping[str, Any] = field(default_factory=dict)
    supervised: Sequence[str] = ()
    n_neighbors: int | None = None
    weights: str = "uniform"
    n_components: int | None = None
    scale: bool | None = None
    n_folds: int = 5
    n_repeats: int | None = None
    set_aside: bool | None = None
    time_budget: float | None = None
    max_points: int = 100_000
    recall: float | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.random_state, Integral):
            raise InputError(
                Message("words.from", name="random_state", value=self.random_state, low=0)
            )
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and (value < least or value != int(value)):
                raise InputError(Message("words.from", name=name, value=value, low=least))
        for name, known in (("weights", ("uniform", "distance")), ("score", (None, *SCORES))):
            value = getattr(self, name)
            if value not in known:
                words = [str(word) for word in known if word is not None]
                raise InputError(Message("words.one_of", name=name, value=repr(value), known=words))
        if self.recall is not None and not 0 < self.recall < 1:
            raise InputError(Message("study.bad_recall", recall=self.recall))
        if not isinstance(self.spaces, Mapping):
            raise InputError(Message("study.no_dict"))


def as_seconds(time: Any) -> float | None:
    """Seconds of 90, "90s", "15m" or "2h"; None stays None."""
    if time is None or (isinstance(time, int | float) and time > 0):
        return None if time is None else float(time)
    units = {"": 1, "s": 1, "m": 60, "h": 3600}
    text = str(time).strip()
    number, unit = (text[:-1], text[-1]) if text[-1:].isalpha() else (text, "")
    try:
        seconds = float(number) * units[unit]
    except (ValueError, KeyError):
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InputError(Message("study.bad_time", time=text))
    return seconds
