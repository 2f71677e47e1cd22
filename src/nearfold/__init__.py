"""Nearfold finds the space in which nearest neighbours mean something.

Public names are loaded when first used, so that `import nearfold` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "PCA": "nearfold.methods.pca",
    "IncrementalPCA": "nearfold.methods.incremental_pca",
    "ClassicalMDS": "nearfold.methods.classical_mds",
    "MDS": "nearfold.methods.mds",
    "Isomap": "nearfold.methods.isomap",
    "KernelPCA": "nearfold.methods.kernel_pca",
    "LinearDiscriminantAnalysis": "nearfold.methods.lda",
    "LocallyLinearEmbedding": "nearfold.methods.lle",
    "NearestNeighbors": "nearfold.methods.neighbor_search",
    "KNeighborsTransformer": "nearfold.methods.neighbor_search",
    "RadiusNeighborsTransformer": "nearfold.methods.neighbor_search",
    "KNeighborsClassifier": "nearfold.methods.knn",
    "KNeighborsRegressor": "nearfold.methods.knn",
    "RadiusNeighborsClassifier": "nearfold.methods.radius_knn",
    "RadiusNeighborsRegressor": "nearfold.methods.radius_knn",
    "Covariance": "nearfold.metrics.covariance",
    "NeighborhoodComponentsAnalysis": "nearfold.metrics.nca",
    "WeightedEuclidean": "nearfold.metrics.weighted_euclidean",
    "MMC": "nearfold.metrics.mmc",
    "MMC_Supervised": "nearfold.metrics.mmc",
    "LMNN": "nearfold.metrics.lmnn",
    "ITML": "nearfold.metrics.itml",
    "ITML_Supervised": "nearfold.metrics.itml",
    "LSML": "nearfold.metrics.lsml",
    "LSML_Supervised": "nearfold.metrics.lsml",
    "SDML": "nearfold.metrics.sdml",
    "SDML_Supervised": "nearfold.metrics.sdml",
    "RCA": "nearfold.metrics.rca",
    "RCA_Supervised": "nearfold.metrics.rca",
    "LFDA": "nearfold.metrics.lfda",
    "MLKR": "nearfold.metrics.mlkr",
    "SCML": "nearfold.metrics.scml",
    "SCML_Supervised": "nearfold.metrics.scml",
    "NCA": "nearfold.metrics.nca",
    "diagnose": "nearfold.report.doctor",
    "compare": "nearfold.study.compare",
    "choose_dimension": "nearfold.study.choose",
    "choose_neighbors": "nearfold.study.choose_graph",
    "choose_radius": "nearfold.study.choose_graph",
    "explain_space": "nearfold.study.explain",
    "write_report": "nearfold.report.study_report",
    "save": "nearfold.store.model_file",
    "load": "nearfold.store.model_file",
    "inspect": "nearfold.store.model_file",
    "verify": "nearfold.store.model_file",
    "judge_space": "nearfold.quality",
    "EmbeddingDisplay": "nearfold.report.display",
    "CurveDisplay": "nearfold.report.display",
    "ScreeDisplay": "nearfold.report.display",
    "ShepardDisplay": "nearfold.report.display",
    "trustworthiness": "nearfold.quality",
    "continuity": "nearfold.quality",
    "neighbor_overlap": "nearfold.quality",
    "co_ranking": "nearfold.quality",
    "shepard": "nearfold.quality",
    "stress": "nearfold.quality",
    "reconstruction_error": "nearfold.quality",
    "scan": "nearfold.blocks",
    "set_memory": "nearfold.blocks",
    "get_memory": "nearfold.blocks",
    "progress": "nearfold.run",
}

__all__ = [
    "ITML",
    "LFDA",
    "LMNN",
    "LSML",
    "MDS",
    "MLKR",
    "MMC",
    "NCA",
    "PCA",
    "RCA",
    "SCML",
    "SDML",
    "ClassicalMDS",
    "Covariance",
    "CurveDisplay",
    "EmbeddingDisplay",
    "ITML_Supervised",
    "IncrementalPCA",
    "Isomap",
    "KNeighborsClassifier",
    "KNeighborsRegressor",
    "KNeighborsTransformer",
    "KernelPCA",
    "LSML_Supervised",
    "LinearDiscriminantAnalysis",
    "LocallyLinearEmbedding",
    "MMC_Supervised",
    "NearestNeighbors",
    "NeighborhoodComponentsAnalysis",
    "RCA_Supervised",
    "RadiusNeighborsClassifier",
    "RadiusNeighborsRegressor",
    "RadiusNeighborsTransformer",
    "SCML_Supervised",
    "SDML_Supervised",
    "ScreeDisplay",
    "ShepardDisplay",
    "WeightedEuclidean",
    "choose_dimension",
    "choose_neighbors",
    "choose_radius",
    "co_ranking",
    "compare",
    "continuity",
    "diagnose",
    "explain_space",
    "get_memory",
    "inspect",
    "judge_space",
    "load",
    "neighbor_overlap",
    "progress",
    "reconstruction_error",
    "save",
    "scan",
    "set_memory",
    "shepard",
    "stress",
    "trustworthiness",
    "verify",
    "write_report",
]

if TYPE_CHECKING:
    from nearfold.blocks import get_memory, scan, set_memory
    from nearfold.methods.classical_mds import ClassicalMDS
    from nearfold.methods.incremental_pca import IncrementalPCA
    from nearfold.methods.isomap import Isomap
    from nearfold.methods.kernel_pca import KernelPCA
    from nearfold.methods.knn import KNeighborsClassifier, KNeighborsRegressor
    from nearfold.methods.lda import LinearDiscriminantAnalysis
    from nearfold.methods.lle import LocallyLinearEmbedding
    from nearfold.methods.mds import MDS
    from nearfold.methods.neighbor_search import (
        KNeighborsTransformer,
        NearestNeighbors,
        RadiusNeighborsTransformer,
    )
    from nearfold.methods.pca import PCA
    from nearfold.methods.radius_knn import RadiusNeighborsClassifier, RadiusNeighborsRegressor
    from nearfold.metrics.covariance import Covariance
    from nearfold.metrics.itml import ITML, ITML_Supervised
    from nearfold.metrics.lfda import LFDA
    from nearfold.metrics.lmnn import LMNN
    from nearfold.metrics.lsml import LSML, LSML_Supervised
    from nearfold.metrics.mlkr import MLKR
    from nearfold.metrics.mmc import MMC, MMC_Supervised
    from nearfold.metrics.nca import NCA, NeighborhoodComponentsAnalysis
    from nearfold.metrics.rca import RCA, RCA_Supervised
    from nearfold.metrics.scml import SCML, SCML_Supervised
    from nearfold.metrics.sdml import SDML, SDML_Supervised
    from nearfold.metrics.weighted_euclidean import WeightedEuclidean
    from nearfold.quality import (
        co_ranking,
        continuity,
        judge_space,
        neighbor_overlap,
        reconstruction_error,
        shepard,
        stress,
        trustworthiness,
    )
    from nearfold.report.display import (
        CurveDisplay,
        EmbeddingDisplay,
        ScreeDisplay,
        ShepardDisplay,
    )
    from nearfold.report.doctor import diagnose
    from nearfold.report.study_report import write_report
    from nearfold.run import progress
    from nearfold.store.model_file import inspect, load, save, verify
    from nearfold.study.choose import choose_dimension
    from nearfold.study.choose_graph import choose_neighbors, choose_radius
    from nearfold.study.compare import compare
    from nearfold.study.explain import explain_space


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nearfold' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
