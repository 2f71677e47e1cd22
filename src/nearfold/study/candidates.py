"""The spaces that are tried: one line each, with how it is built for a table of this size.

`most_rows` bounds the rows a model is fitted on where its cost grows faster than their number; the
other rows are then transformed into its space, which every method of ours can do. The numbers keep
one fit below about ten seconds on two cores and depend on nothing but the table, so the same table
gives the same result on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from nearfold.errors import InputError
from nearfold.registry import find

_MOST_AXES = 64  # tried of a space that orders its axes
_NEIGHBORS = 10  # of a neighbourhood graph
_WIDE = 128  # columns beyond which learners of a whole d x d metric see principal axes instead
_TASKS = ("classification", "regression", "pairs", "none")


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
    tasks: tuple[str, ...] = _TASKS
    nests: bool = False  # its first axes are its space of fewer dimensions
    most_rows: int | None = None
    by_default: bool = True
    narrow: bool = False  # wide tables are reduced by PCA first
    turns: bool = True  # sees the same in rotated columns: it depends on Euclidean distances alone
    scalable: bool = True  # may be put after a scaling of the columns


def _make(name: str, **params: Any) -> Any:
    return find(name).load()(**params)


# The names people type first; the registry's own are understood as well.
_ALIASES = {
    "LinearDiscriminantAnalysis": "LDA",
    "LocallyLinearEmbedding": "LLE",
    "NeighborhoodComponentsAnalysis": "NCA",
    "original": "raw",
    "standardized": "scaled",
}
_LABEL, _TARGET, _PAIRS = ("classification",), ("regression",), ("classification", "pairs")

# The cheap and the promising first: if the time is short, the others go without.
# fmt: off
CANDIDATES = (
    Candidate("raw", None, scalable=False),
    Candidate("scaled", lambda s: StandardScaler(),
              ("classification", "regression", "pairs"), scalable=False),
    Candidate("PCA", lambda s: _make("PCA", n_components=s.axes), nests=True, turns=False),
    Candidate("LDA", lambda s: _make("LinearDiscriminantAnalysis",
              n_components=s.n_axes and min(s.n_axes, s.d, s.n_classes - 1)),
              _LABEL, nests=True),
    Candidate("Covariance", lambda s: _make("Covariance"),
              ("classification", "regression", "pairs"), narrow=True),
    Candidate("RCA", lambda s: _make("RCA"), _LABEL, narrow=True),
    Candidate("LFDA", lambda s: _make("LFDA", n_components=min(s.axes, 32)),
              _LABEL, nests=True, most_rows=10_000, narrow=True),
    Candidate("MMC", lambda s: _make("MMC", random_state=s.seed), _PAIRS, narrow=True),
    Candidate("ITML", lambda s: _make("ITML", random_state=s.seed), _PAIRS, narrow=True),
    Candidate("NCA", lambda s: _make("NeighborhoodComponentsAnalysis",
              n_components=min(s.axes, 32), random_state=s.seed), _LABEL, nests=True),
    Candidate("MLKR", lambda s: _make("MLKR", n_components=min(s.axes, 16), random_state=s.seed,
              max_iter=200), _TARGET, nests=True, most_rows=2_000, narrow=True),
    Candidate("KernelPCA", lambda s: _make("KernelPCA", n_components=s.curved_axes, kernel="rbf",
              gamma=1 / (2 * s.spread) if s.spread > 0 else None, random_state=s.seed),
              nests=True, most_rows=5_000),
    Candidate("Isomap", lambda s: _make("Isomap", n_components=min(s.curved_axes, 32),
              n_neighbors=s.neighbors), nests=True, most_rows=5_000),
    Candidate("LLE", lambda s: _make("LocallyLinearEmbedding", n_components=min(s.axes, 16),
              n_neighbors=s.neighbors, random_state=s.seed), nests=True, most_rows=5_000),
    Candidate("LMNN", lambda s: _make("LMNN", n_components=min(s.axes, 32), convergence_tol=0.01,
              random_state=s.seed),
              _LABEL, nests=True, most_rows=2_000, narrow=True),
    Candidate("WeightedEuclidean", lambda s: _make("WeightedEuclidean", random_state=s.seed),
              _PAIRS, most_rows=2_000, turns=False),
    Candidate("SDML", lambda s: _make("SDML", random_state=s.seed), _PAIRS, narrow=True,
              by_default=False),
    Candidate("LSML", lambda s: _make("LSML", random_state=s.seed), _LABEL, narrow=True,
              by_default=False),
    Candidate("SCML", lambda s: _make("SCML", random_state=s.seed), _LABEL, most_rows=2_000,
              narrow=True, by_default=False),
    Candidate("ClassicalMDS", lambda s: _make("ClassicalMDS", n_components=s.axes,
              metric="cityblock"), nests=True, most_rows=1_000, turns=False),
    Candidate("MDS", lambda s: _make("MDS", n_components=min(s.axes, 10), init="classical_mds",
              n_init=1, max_iter=10, random_state=s.seed), most_rows=2_000),
)
# fmt: on


def pick_candidates(
    task: str, methods: Any = None, spaces: Mapping[str, Any] | None = None
) -> list[Candidate]:
    """The candidates for a task: those of `methods` (names, "default" or "all"), and `spaces`.

    `spaces`: further ones by name, any transformer of scikit-learn's kind.
    """
    usable = [c for c in CANDIDATES if task in c.tasks and not (task == "none" and c.build is None)]
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
    wanted = _ALIASES.get(name, name).lower()
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
    elif candidate.turns and candidate.scalable and setting.d > max(setting.n, 2 * _WIDE):
        # Fewer rows than columns span fewer dimensions: turned into those nothing is lost.
        steps.append(("turn", _make("PCA", n_components=setting.n - 1)))
    model = candidate.build(setting)
    return Pipeline([*steps, ("space", model)]) if steps else model
