"""The words for what a column holds and what it is for."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nearfold.messages import Message


class Kind(StrEnum):
    """What the cells of a column are."""

    NUMBER = "number"
    CATEGORY = "category"
    ORDERED = "ordered"
    BOOLEAN = "boolean"
    DATE = "date"
    TEXT = "text"
    ID = "id"
    EMBEDDING = "embedding"
    IMAGE = "image"
    OTHER = "other"  # empty, or nested in a way that nothing here can use

    @property
    def shown(self) -> Message:
        """The word for people."""
        return Message(f"kind.{self.value}")


class Role(StrEnum):
    """What a column is for."""

    FEATURE = "feature"
    LABEL = "label"
    TARGET = "target"
    ID = "id"
    GROUP = "group"
    TIME = "time"
    EXCLUDED = "excluded"

    @property
    def shown(self) -> Message:
        """The word for people."""
        return Message(f"role.{self.value}")


MISSING_RULES = ("median", "mean", "zero", "drop", "error")  # what to do about missing numbers
USABLE = frozenset(Kind) - {Kind.TEXT, Kind.ID, Kind.OTHER}  # kinds that can be a feature


@dataclass(frozen=True)
class Facts:
    """What was seen of one column."""

    name: str
    kind: Kind
    reason: Message
    n_rows: int
    n_missing: int = 0
    n_distinct: int | None = None
    example: str = ""
    constant: bool = False
    details: dict[str, Any] = field(default_factory=dict)  # what it takes to read the cells
