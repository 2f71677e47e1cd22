"""One entry per method: what it is called, where it lives, what it does, how it is compared.

Adding an entry is all that makes a method public. The package's names, `nearfold methods`, the
spaces that `compare` tries, the choice of a dimension, the classes a model file may hold, the
contract tests and docs/methods.md read it when they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

TASKS = ("classification", "regression", "pairs", "none")
_LABEL, _TARGET, _PAIRS = ("classification",), ("regression",), ("classification", "pairs")
_ANSWERED = ("classification", "regression", "pairs")
_GRID = (2, 8, 32)  # dimensions that metric learners are fitted for, one by one


@dataclass(frozen=True)
class Space:
    """How `compare` tries a method.

    `params` gives the constructor's parameters for a table (study.candidates.Setting). `rank` is
    the order of the trials: the cheap and the promising come first, because the others go without
    if the time is short. `most_rows` bounds the rows it is fitted on where the cost grows faster
    than their number; the other rows are then transformed into its space. These numbers keep one
    fit below about ten seconds on two cores and depend on nothing but the table, so that the same
    table gives the same result on any machine.
    """

    rank: int
    params: Callable[[Any], dict[str, Any]]
    tasks: tuple[str, ...] = TASKS
    most_rows: int | None = None
    by_default: bool = True
    reduce_wide_first: bool = False  # by PCA
    rotation_invariant: bool = True  # depends on Euclidean distances alone
    grid: tuple[int, ...] = ()  # numbers of dimensions that each take a fit of their own
    complexity: int = 2  # 1 axes of largest variance, 2 closed form, 3 iterative, 4 curved


@dataclass(frozen=True)
class Method:
    """A method of the package."""

    name: str
    module: str  # inside nearfold
    kind: str  # neighbours, reduction, classifier, regressor, metric
    section: str  # where the book has it
    summary: str
    check_params: dict[str, Any] = field(default_factory=dict)  # for scikit-learn's checks
    short: str | None = None  # the name people type first
    aliases: tuple[str, ...] = ()  # further public classes of the module
    nests: bool = False  # its first axes are its space of fewer dimensions
    tells_shares: bool = False  # of the variance: explained_variance_ratio_
    most_axes: str = "columns"  # what bounds the number of axes: columns, rows or classes
    space: Space | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Its public names."""
        return (self.name, *self.aliases)

    @property
    def shown(self) -> str:
        """The name in a comparison."""
        return self.short or self.name

    def load(self, name: str | None = None) -> type[Any]:
        """Its estimator class, or the one of an alias."""
        cls: type[Any] = getattr(import_module(f"nearfold.{self.module}"), name or self.name)
        return cls


def _seeded(s: Any) -> dict[str, Any]:
    return {"random_state": s.seed}


def _kernel_pca(s: Any) -> dict[str, Any]:
    gamma = 1 / (2 * s.total_variance) if s.total_variance > 0 else None
    return {"n_components": s.curved_axes, "kernel": "rbf", "gamma": gamma, "random_state": s.seed}


_SEARCH, _KNN, _RADIUS = "methods.neighbor_search", "methods.knn", "methods.radius_knn"
# fmt: off
METHODS: tuple[Method, ...] = (
    Method("NearestNeighbors", _SEARCH, "neighbours", "10.1",
           "exact neighbours, by number or radius"),
    Method("KNeighborsTransformer", _SEARCH, "neighbours", "10.1",
           "graph of the k nearest neighbours"),
    Method("RadiusNeighborsTransformer", _SEARCH, "neighbours", "10.1",
           "graph of all neighbours within a radius"),
    Method("KNeighborsClassifier", _KNN, "classifier", "10.1", "vote of the k nearest",
           short="kNN"),
    Method("KNeighborsRegressor", _KNN, "regressor", "10.1", "mean of the k nearest"),
    Method("RadiusNeighborsClassifier", _RADIUS, "classifier", "10.1",
           "vote of all within a radius",
           {"outlier_label": "most_frequent"}),
    Method("RadiusNeighborsRegressor", _RADIUS, "regressor", "10.1", "mean of all within a radius"),
    Method("PCA", "methods.pca", "reduction", "10.3", "axes of largest variance", nests=True,
           tells_shares=True,
           space=Space(1, lambda s: {"n_components": s.axes}, rotation_invariant=False,
                       complexity=1)),
    Method("IncrementalPCA", "methods.incremental_pca", "reduction", "10.3",
           "PCA from batches of rows", nests=True, tells_shares=True),
    Method("ClassicalMDS", "methods.classical_mds", "reduction", "10.2",
           "coordinates from distances", nests=True,
           space=Space(19, lambda s: {"n_components": s.axes, "metric": "cityblock"},
                       most_rows=1_000, rotation_invariant=False, complexity=4)),
    Method("MDS", "methods.mds", "reduction", "10.2", "keeps distances, by stress majorisation",
           space=Space(20, lambda s: {"n_components": min(s.axes, 10), "init": "classical_mds",
                       "n_init": 1, "max_iter": 10, "random_state": s.seed}, most_rows=2_000,
                       complexity=4)),
    Method("KernelPCA", "methods.kernel_pca", "reduction", "10.4",
           "PCA in a kernel's feature space",
           nests=True, tells_shares=True, most_axes="rows",
           space=Space(10, _kernel_pca, most_rows=5_000, complexity=4)),
    Method("Isomap", "methods.isomap", "reduction", "10.5.1", "keeps distances along the manifold",
           nests=True, most_axes="rows",
           space=Space(11, lambda s: {"n_components": min(s.curved_axes, 32),
                       "n_neighbors": s.neighbors}, most_rows=5_000, complexity=4)),
    Method("LocallyLinearEmbedding", "methods.lle", "reduction", "10.5.2",
           "keeps local reconstruction weights",
           short="LLE", nests=True, most_axes="rows",
           space=Space(12, lambda s: {"n_components": min(s.axes, 16), "n_neighbors": s.neighbors,
                       "random_state": s.seed}, most_rows=5_000, complexity=4)),
    Method("LinearDiscriminantAnalysis", "methods.lda", "reduction", "LDA",
           "axes that separate classes", short="LDA", nests=True, tells_shares=True,
           most_axes="classes",
           space=Space(2, lambda s: {"n_components": s.n_axes
                       and min(s.n_axes, s.d, s.n_classes - 1)}, _LABEL, complexity=1)),
    Method("Covariance", "metrics.covariance", "metric", "10.6",
           "whitening: each direction in units of its spread",
           space=Space(3, lambda s: {}, _ANSWERED, reduce_wide_first=True)),
    Method("NeighborhoodComponentsAnalysis", "metrics.nca", "metric", "10.6",
           "soft neighbours classify best", short="NCA", aliases=("NCA",),
           space=Space(8, lambda s: {"n_components": s.axes, "random_state": s.seed}, _LABEL,
                       grid=_GRID, complexity=3)),
    Method("WeightedEuclidean", "metrics.weighted_euclidean", "metric", "10.6",
           "a weight for each column",
           space=Space(15, _seeded, _PAIRS, most_rows=2_000, rotation_invariant=False,
                       complexity=3)),
    Method("MMC", "metrics.mmc", "metric", "10.6",
           "must-link pairs near, cannot-link pairs apart, convex",
           space=Space(6, _seeded, _PAIRS, reduce_wide_first=True, complexity=3)),
    Method("MMC_Supervised", "metrics.mmc", "metric", "10.6", "MMC with pairs drawn from labels"),
    Method("LMNN", "metrics.lmnn", "metric", "10.6", "own class near, others a margin away",
           space=Space(14, lambda s: {"n_components": s.axes, "convergence_tol": 0.01,
                       "random_state": s.seed}, _LABEL, most_rows=2_000, reduce_wide_first=True,
                       grid=(2, 16), complexity=3)),
    Method("ITML", "metrics.itml", "metric", "10.6", "bounds on pair distances, closest to a prior",
           space=Space(7, _seeded, _PAIRS, reduce_wide_first=True, complexity=3)),
    Method("ITML_Supervised", "metrics.itml", "metric", "10.6",
           "ITML with pairs drawn from labels"),
    Method("LSML", "metrics.lsml", "metric", "10.6", "learns from which of two pairs is nearer",
           space=Space(17, _seeded, _LABEL, reduce_wide_first=True, by_default=False,
                       complexity=3)),
    Method("LSML_Supervised", "metrics.lsml", "metric", "10.6",
           "LSML with comparisons drawn from labels"),
    Method("SDML", "metrics.sdml", "metric", "10.6", "sparse metric from pairs",
           space=Space(16, _seeded, _PAIRS, reduce_wide_first=True, by_default=False,
                       complexity=3)),
    Method("SDML_Supervised", "metrics.sdml", "metric", "10.6",
           "SDML with pairs drawn from labels"),
    Method("RCA", "metrics.rca", "metric", "10.6", "whitens the spread within chunklets",
           space=Space(4, lambda s: {}, _LABEL, reduce_wide_first=True)),
    Method("RCA_Supervised", "metrics.rca", "metric", "10.6",
           "RCA with chunklets drawn from labels"),
    Method("LFDA", "metrics.lfda", "metric", "10.6", "LDA that keeps local structure", nests=True,
           space=Space(5, lambda s: {"n_components": min(s.axes, 32)}, _LABEL, most_rows=10_000,
                       reduce_wide_first=True)),
    Method("MLKR", "metrics.mlkr", "metric", "10.6", "kernel regression predicts best",
           space=Space(9, lambda s: {"n_components": s.axes, "random_state": s.seed,
                       "max_iter": 50}, _TARGET, most_rows=2_000, reduce_wide_first=True,
                       grid=_GRID, complexity=3)),
    Method("SCML", "metrics.scml", "metric", "10.6", "sparse sum of simple metrics",
           space=Space(18, _seeded, _LABEL, most_rows=2_000, reduce_wide_first=True,
                       by_default=False, complexity=3)),
    Method("SCML_Supervised", "metrics.scml", "metric", "10.6",
           "SCML with triplets drawn from labels"),
)
# fmt: on


def find(name: str) -> Method:
    """The method of that name."""
    for method in METHODS:
        if name in method.names:
            return method
    known = ", ".join(method.name for method in METHODS)
    raise KeyError(f"there is no method {name!r}; there are {known}")


def method_of(estimator: Any) -> Method | None:
    """The entry of an estimator's class, or None for a class of another package."""
    name = type(estimator).__name__
    return next((method for method in METHODS if name in method.names), None)


def instances_to_check() -> list[Any]:
    """An unfitted estimator of each method, as scikit-learn's checks take it."""
    return [method.load()(**method.check_params) for method in METHODS]
