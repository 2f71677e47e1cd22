"""The spaces that are tried: the columns as they are and scaled, and what the registry offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from nearfold import registry
from nearfold.errors import InputError
from nearfold.registry import TASKS, find

_MOST_AXES = 64  # tried of a space that orders its axes
_NEIGHBORS = 10  # of a neighbourhood graph
_WIDE = 128  # columns beyond which learners of a whole d x d metric see principal axes instead


@dataclass(frozen=True)
class Setting:
    """What a space is built for."""

    n: int  # rows it is fitted on
    d: int  # columns
    n_classes: int
    spread: float  # sum of the columns' variances, as the model sees them
    n_axes: int | None  # asked for, if any
    seed: int

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
    """A space to try. `build` is None for the columns as they are."""

    name: str
    build: Callable[[Setting], Any] | None
    tasks: tuple[str, ...] = TASKS
    nests: bool = False  # its first axes are its space of fewer dimensions
    most_rows: int | None = None
    by_default: bool = True
    narrow: bool = False  # wide tables are reduced by PCA first
    rotation_invariant: bool = True  # depends on Euclidean distances alone
    scalable: bool = True  # may be put after a scaling of the columns


def _make(name: str, **params: Any) -> Any:
    return find(name).load()(**params)


_BASELINES = (
    Candidate("raw", None, scalable=False),
    Candidate(
        "scaled",
        lambda s: StandardScaler(),
        ("classification", "regression", "pairs"),
        scalable=False,
    ),
)


def _from_registry(method: registry.Method, space: registry.Space) -> Candidate:
    return Candidate(
        method.shown,
        lambda s: method.load()(**space.params(s)),
        space.tasks,
        method.nests,
        space.most_rows,
        space.by_default,
        space.narrow,
        space.rotation_invariant,
    )


def all_candidates() -> tuple[Candidate, ...]:
    """Everything that can be tried, in the order of the trials."""
    offered = [(method, method.space) for method in registry.METHODS if method.space is not None]
    offered.sort(key=lambda pair: pair[1].rank)
    return (*_BASELINES, *(_from_registry(method, space) for method, space in offered))


def pick_candidates(
    task: str, methods: Any = None, spaces: Mapping[str, Any] | None = None
) -> list[Candidate]:
    """The candidates for a task: those of `methods` (names, "default" or "all"), and `spaces`.

    `spaces`: further ones by name, any transformer of scikit-learn's kind.
    """
    usable = [
        c for c in all_candidates() if task in c.tasks and not (task == "none" and c.build is None)
    ]
    if methods is None or methods == "default":
        chosen = [c for c in usable if c.by_default]
    elif methods == "all":
        chosen = usable
    else:
        names = [methods] if isinstance(methods, str) else list(methods)
        chosen = [_named(name, usable, task) for name in names]
        # Before comes first: without it there is no after.
        chosen = [c for c in usable if c.name in always_tried(task) or c in chosen]
    for name, transformer in (spaces or {}).items():
        if name in (*always_tried(task), "raw", "scaled"):
            raise InputError(f"a space cannot be called {name!r}: that is one to compare with.")
        chosen = [c for c in chosen if c.name != name]
        chosen.append(_handed_in(name, transformer))
    return chosen


def always_tried(task: str) -> tuple[str, ...]:
    """Spaces that the others are compared with."""
    return ("PCA",) if task == "none" else ("raw", "scaled")


def _named(name: str, usable: list[Candidate], task: str) -> Candidate:
    words = {"original": "raw", "standardized": "scaled"}
    words |= {known.lower(): m.shown for m in registry.METHODS for known in m.names}
    wanted = words.get(name.lower(), name).lower()
    for candidate in usable:
        if candidate.name.lower() == wanted:
            return candidate
    known = ", ".join(c.name for c in usable)
    raise InputError(f"there is no space {name!r} to try for {task}; there are {known}.")


def _handed_in(name: str, transformer: Any) -> Candidate:
    if not hasattr(transformer, "fit") or not hasattr(transformer, "transform"):
        raise InputError(
            f"{name!r} cannot place new rows: {type(transformer).__name__} has no fit and "
            "transform. Held-out rows could not be judged."
        )
    return Candidate(name, lambda s: clone(transformer), scalable=False)


def build_model(candidate: Candidate, setting: Setting, scaled: bool) -> Any:
    """The candidate's estimator, after a scaling or a reduction where it has one."""
    if candidate.build is None:
        return FunctionTransformer()
    steps: list[tuple[str, Any]] = []
    if scaled and candidate.scalable:
        steps.append(("scale", StandardScaler()))
    if candidate.narrow and min(setting.d, setting.n - 1) > _WIDE:
        steps.append(("reduce", _make("PCA", n_components=_WIDE)))
    elif (
        candidate.rotation_invariant
        and candidate.scalable
        and setting.d > max(setting.n, 2 * _WIDE)
    ):
        # Fewer rows than columns span fewer dimensions: turned into those nothing is lost.
        steps.append(("turn", _make("PCA", n_components=setting.n - 1)))
    model = candidate.build(setting)
    return Pipeline([*steps, ("space", model)]) if steps else model
