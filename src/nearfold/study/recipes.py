"""How columns become numbers before a space is learned: the ways that are tried, fold by fold.

A recipe is a set of parameters of `TablePreparation`. It is fitted on the training rows of a fold,
and which one serves a fold is decided by the other folds, like everything else that is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nearfold.blocks import get_memory
from nearfold.columns.cells import Cells
from nearfold.columns.preparation import TablePreparation
from nearfold.notation import Array, Floats, Ints
from nearfold.study.folds import Fold
from nearfold.study.question import Task

_SHARE = 8  # of the budget, for the prepared rows of folds that are kept: one part in _SHARE


@dataclass(frozen=True)
class Recipe:
    """One way to prepare columns."""

    name: str
    params: dict[str, Any] = field(default_factory=dict, hash=False)
    metric: str = "euclidean"  # of the space it makes

    @property
    def scaled(self) -> bool:
        """Whether numbers are brought to one variance."""
        return self.params.get("numbers") == "scale"


RAW = Recipe("raw")
SCALED = Recipe("scaled", {"numbers": "scale"})
# A category that counts a quarter of a number, or as much as four.
LIGHT = Recipe("light", {"numbers": "scale", "category_weight": 0.25})
HEAVY = Recipe("heavy", {"numbers": "scale", "category_weight": 4.0})
TARGET = Recipe("target-coded", {"numbers": "scale", "categories": "target"})
GOWER = Recipe("Gower", {"numbers": "range"}, metric="cityblock")


def is_mixed(cells: Cells) -> bool:
    """Whether there are both numbers and categories."""
    return cells.codes.shape[1] > 0 and cells.numbers.shape[1] > 0


def can_target(cells: Cells, task: Task) -> bool:
    """Whether a category has levels enough for the mean of its answers to say more than it."""
    answered = task in (Task.CLASSIFICATION, Task.REGRESSION)
    return answered and any(len(levels) > 2 for levels in cells.levels)


@dataclass(eq=False)
class Preparations:
    """Prepares the rows of folds, and keeps what was prepared while it fits."""

    cells: Cells
    columns: list[dict[str, Any]]
    missing: str
    seed: int
    y: Array | None = None
    _kept: dict[Any, Any] = field(default_factory=dict)
    _bytes: int = 0

    def fitted(self, recipe: Recipe, rows: Ints) -> tuple[TablePreparation, Floats]:
        """A preparation fitted on these rows, and the rows prepared."""
        step = TablePreparation(missing=self.missing, random_state=self.seed, **recipe.params)
        y = None if self.y is None else self.y[rows]
        return step, step.fit_cells(self.cells.take(rows), y, self.columns)

    def fold(self, recipe: Recipe, fold: Fold) -> tuple[TablePreparation, Floats, Floats]:
        """The preparation fitted on the training rows, those rows and the held-out ones."""
        key = (recipe.name, id(fold))
        if key in self._kept:
            found: tuple[TablePreparation, Floats, Floats] = self._kept[key]
            return found
        step, train = self.fitted(recipe, fold.train)
        test = step.encode(self.cells.take(fold.test))
        size = train.nbytes + test.nbytes
        if self._bytes + size <= get_memory() // _SHARE:
            self._kept[key] = (step, train, test)
            self._bytes += size
        return step, train, test
