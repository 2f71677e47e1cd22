"""The spaces that are tried: the columns prepared in several ways, and what the registry offers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from nearfold import registry
from nearfold.columns.cells import Cells
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.registry import TASKS, find
from nearfold.study.guests import installed_guests
from nearfold.study.question import Question, Task
from nearfold.study.recipes import (
    GOWER,
    HEAVY,
    LIGHT,
    RAW,
    SCALED,
    TARGET,
    Recipe,
    can_target,
    is_mixed,
)

_MOST_AXES = 64  # tried of a space that orders its axes
_NEIGHBORS = 10  # of a neighbourhood graph
_WIDE = 128  # columns beyond which learners of a whole d x d metric see principal axes instead
_ANSWERED = (Task.CLASSIFICATION, Task.REGRESSION, Task.PAIRS)


@dataclass(frozen=True)
class Setting:
    """What a space is built for."""

    n: int  # rows it is fitted on
    d: int  # columns
    n_classes: int
    total_variance: float  # sum of the columns' variances, as the model sees them
    n_axes: int | None  # asked for, if any
    seed: int
    recall: float | None = None  # of the neighbours in a graph; None: exact

    @property
    def axes(self) -> int:
        """How many axes to ask for."""
        return max(1, min(self.n_axes or _MOST_AXES, self.d, self.n - 1))

    @property
    def curved_axes(self) -> int:
        """The same for spaces that may have more axes than the table has columns."""
        return max(1, min(self.n_axes or _MOST_AXES, self.n - 1))

    @property
    def neighbors(self) -> int:
        """Of the neighbourhood graph."""
        return max(1, min(_NEIGHBORS, self.n - 1))


@dataclass(frozen=True)
class Candidate:
    """A space to try. `build` is None for the prepared columns themselves."""

    name: str
    build: Callable[[Setting], Any] | None
    tasks: tuple[str, ...] = TASKS
    recipes: tuple[Recipe, ...] = ()  # how columns are prepared; none: as the plain columns do best
    nests: bool = False  # its first axes are its space of fewer dimensions
    grid: tuple[int, ...] = ()  # else: numbers of dimensions that each take a fit of their own
    most_rows: int | None = None
    by_default: bool = True
    reduce_wide_first: bool = False  # wide tables are reduced by PCA first
    rotation_invariant: bool = True  # depends on Euclidean distances alone
    complexity: int = 0  # of two equally good spaces the simpler one is named
    supervised: bool = True  # whether it may see labels and targets
    ours: bool = True
    label: Message | None = None  # what it is, where its name does not tell

    @property
    def is_plain(self) -> bool:
        """Whether it is the columns themselves, prepared."""
        return self.build is None


def _plain(
    recipe: Recipe, complexity: int, *more: Recipe, tasks: tuple[str, ...] = TASKS
) -> Candidate:
    label = Message(f"space.{recipe.name}") if recipe.name not in ("raw", "scaled") else None
    return Candidate(recipe.name, None, tasks, (recipe, *more), complexity=complexity, label=label)


def _plain_candidates(cells: Cells, task: Task) -> list[Candidate]:
    """The columns prepared in each way that makes sense for the table."""
    found = [_plain(RAW, 0), _plain(SCALED, 0, tasks=_ANSWERED)]
    if is_mixed(cells):
        weighted = Candidate("weighted", None, _ANSWERED, (LIGHT, SCALED, HEAVY), complexity=1,
                             label=Message("space.weighted"))  # fmt: skip
        found += [weighted, _plain(GOWER, 1)]
    if can_target(cells, task):
        found.append(_plain(TARGET, 2, tasks=_ANSWERED))
    return found


def _from_registry(method: registry.Method, space: registry.Space) -> Candidate:
    def build(setting: Setting) -> Any:
        model = method.load()(**space.params(setting))
        if setting.recall is not None and hasattr(model, "neighbors_algorithm"):
            model.set_params(neighbors_algorithm="approximate", recall=setting.recall)
        return model

    return Candidate(
        method.shown,
        build,
        space.tasks,
        (),
        method.nests and not space.grid,
        space.grid,
        space.most_rows,
        space.by_default,
        space.reduce_wide_first,
        space.rotation_invariant,
        space.complexity,
    )


def all_candidates(cells: Cells, task: Task) -> list[Candidate]:
    """Everything that can be tried, in the order of the trials."""
    offered = [(method, method.space) for method in registry.METHODS if method.space is not None]
    offered.sort(key=lambda pair: pair[1].rank)
    known = [_from_registry(method, space) for method, space in offered]
    guests = [
        Candidate(g.name, g.build, most_rows=g.most_rows, rotation_invariant=False, complexity=5,
                  supervised=False, ours=False, label=Message(f"space.{g.name}"))
        for g in installed_guests()
    ]  # fmt: skip
    return [*_plain_candidates(cells, task), *known, *guests]


def own_names(cells: Cells, task: Task) -> tuple[str, ...]:
    """The spaces of ours that can be looked at, whatever else is installed; plain columns, too."""
    known = [c for c in all_candidates(cells, task) if c.ours and (c.is_plain or task in c.tasks)]
    return tuple(candidate.name for candidate in known)


def always_tried(task: Task) -> tuple[str, ...]:
    """Spaces that the others are compared with: the better one of them is the reference."""
    return ("PCA",) if task == Task.NONE else ("raw", "scaled")


def pick_candidates(question: Question, cells: Cells, task: Task) -> list[Candidate]:
    """The candidates for a task: those of `methods` (names, "default" or "all"), and `spaces`."""
    usable = [
        c for c in all_candidates(cells, task)
        if task in c.tasks and not (task == Task.NONE and c.is_plain)
    ]  # fmt: skip
    methods = question.methods
    if methods is None or methods == "default":
        chosen = [c for c in usable if c.by_default]
    elif methods == "all":
        chosen = usable
    else:
        names = [methods] if isinstance(methods, str) else list(methods)
        wanted = [_named(name, usable, task) for name in names]
        # Before comes first: without it there is no after.
        chosen = [c for c in usable if c.name in always_tried(task) or c in wanted]
    for name in question.supervised:
        if name not in question.spaces:
            raise InputError(Message("study.not_handed_in", name=repr(name)))
    for name, transformer in question.spaces.items():
        if name in (*always_tried(task), "raw", "scaled"):
            raise InputError(Message("study.name_taken", name=repr(name)))
        chosen = [c for c in chosen if c.name != name]
        chosen.append(_handed_in(name, transformer, name in question.supervised))
    return chosen


def _named(name: str, usable: list[Candidate], task: Task) -> Candidate:
    words = {"original": "raw", "standardized": "scaled"}
    words |= {known.lower(): m.shown for m in registry.METHODS for known in m.names}
    wanted = words.get(str(name).lower(), str(name)).lower()
    for candidate in usable:
        if candidate.name.lower() == wanted:
            return candidate
    raise InputError(Message("study.no_space", name=repr(name), task=task.shown,
                             known=[c.name for c in usable]))  # fmt: skip


def _handed_in(name: str, transformer: Any, supervised: bool) -> Candidate:
    if not hasattr(transformer, "fit") or not hasattr(transformer, "transform"):
        kind = type(transformer).__name__
        raise InputError(Message("study.no_transform", name=repr(name), kind=kind))
    with suppress(AttributeError, TypeError):  # not scikit-learn's base class: it cannot tell
        supervised = supervised or bool(get_tags(transformer).target_tags.required)
    label = Message("space.supervised" if supervised else "space.unsupervised")
    return Candidate(name, lambda s: clone(transformer), complexity=5, supervised=supervised,
                     ours=False, label=label)  # fmt: skip


def build_model(candidate: Candidate, setting: Setting) -> Any:
    """The candidate's estimator, after a reduction where it has one."""
    assert candidate.build is not None
    steps: list[tuple[str, Any]] = []
    wide = setting.d > max(setting.n, 2 * _WIDE)
    if candidate.reduce_wide_first and min(setting.d, setting.n - 1) > _WIDE:
        steps.append(("reduce", find("PCA").load()(n_components=_WIDE)))
    elif candidate.rotation_invariant and candidate.ours and wide:
        # Fewer rows than columns span fewer dimensions: rotated into those nothing is lost.
        steps.append(("rotate", find("PCA").load()(n_components=setting.n - 1)))
    model = candidate.build(setting)
    return Pipeline([*steps, ("space", model)]) if steps else model
