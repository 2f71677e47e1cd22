"""One line per method: what it is called, where it lives, what it does.

The command line, the documentation's table, the contract tests and the benchmarks read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Method:
    """A method of the package."""

    name: str
    module: str
    kind: str  # neighbours, reduction, classifier, regressor, metric
    section: str  # where the book has it
    summary: str
    check_params: dict[str, Any] = field(default_factory=dict)  # for scikit-learn's checks

    def load(self) -> type[Any]:
        """Its estimator class."""
        home = "metrics" if self.kind == "metric" else "methods"
        cls: type[Any] = getattr(import_module(f"nearfold.{home}.{self.module}"), self.name)
        return cls


_SEARCH, _KNN, _RADIUS = "neighbor_search", "knn", "radius_knn"
# fmt: off
METHODS = (
    Method("NearestNeighbors", _SEARCH, "neighbours", "10.1", "exact, by number or radius"),
    Method("KNeighborsTransformer", _SEARCH, "neighbours", "10.1", "rows to their graph"),
    Method("RadiusNeighborsTransformer", _SEARCH, "neighbours", "10.1", "rows to their graph"),
    Method("KNeighborsClassifier", _KNN, "classifier", "10.1", "vote of the k nearest"),
    Method("KNeighborsRegressor", _KNN, "regressor", "10.1", "mean of the k nearest"),
    Method("RadiusNeighborsClassifier", _RADIUS, "classifier", "10.1", "vote of all in a radius",
           {"outlier_label": "most_frequent"}),
    Method("RadiusNeighborsRegressor", _RADIUS, "regressor", "10.1", "mean of all in a radius"),
    Method("PCA", "pca", "reduction", "10.3", "axes of largest variance"),
    Method("IncrementalPCA", "incremental_pca", "reduction", "10.3", "the same from batches"),
    Method("ClassicalMDS", "classical_mds", "reduction", "10.2", "coordinates from distances"),
    Method("MDS", "mds", "reduction", "10.2", "distances kept, by stress majorisation"),
    Method("KernelPCA", "kernel_pca", "reduction", "10.4", "PCA after a kernel's map"),
    Method("Isomap", "isomap", "reduction", "10.5.1", "distances along the manifold, kept"),
    Method("LocallyLinearEmbedding", "lle", "reduction", "10.5.2", "local weights, kept"),
    Method("LinearDiscriminantAnalysis", "lda", "reduction", "LDA", "axes that separate classes"),
    Method("Covariance", "covariance", "metric", "10.6", "each direction in units of its spread"),
    Method("NeighborhoodComponentsAnalysis", "nca", "metric", "10.6", "soft neighbours vote best"),
    Method("WeightedEuclidean", "weighted_euclidean", "metric", "10.6", "a weight for each column"),
    Method("MMC", "mmc", "metric", "10.6", "pairs joined and parted, convex"),
    Method("MMC_Supervised", "mmc", "metric", "10.6", "the same, pairs drawn from labels"),
    Method("LMNN", "lmnn", "metric", "10.6", "own class near, others a margin away"),
    Method("ITML", "itml", "metric", "10.6", "pairs within bounds, nearest to a prior"),
    Method("ITML_Supervised", "itml", "metric", "10.6", "the same, pairs drawn from labels"),
    Method("LSML", "lsml", "metric", "10.6", "which pair is the nearer one"),
    Method("LSML_Supervised", "lsml", "metric", "10.6", "the same, from labels"),
    Method("SDML", "sdml", "metric", "10.6", "a sparse M from pairs"),
    Method("SDML_Supervised", "sdml", "metric", "10.6", "the same, from labels"),
    Method("RCA", "rca", "metric", "10.6", "spread within chunklets taken out"),
    Method("RCA_Supervised", "rca", "metric", "10.6", "the same, chunklets from labels"),
    Method("LFDA", "lfda", "metric", "10.6", "LDA of neighbourhoods"),
    Method("MLKR", "mlkr", "metric", "10.6", "kernel regression predicts best"),
    Method("SCML", "scml", "metric", "10.6", "a sparse sum of simple metrics"),
    Method("SCML_Supervised", "scml", "metric", "10.6", "the same, from labels"),
)
# fmt: on


def find(name: str) -> Method:
    """The method of that name."""
    for method in METHODS:
        if method.name == name:
            return method
    known = ", ".join(method.name for method in METHODS)
    raise KeyError(f"there is no method {name!r}; there are {known}")
