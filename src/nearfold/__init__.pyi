# Written by `python -m nearfold.public_names` from the registry.

from nearfold.blocks import get_memory as get_memory
from nearfold.blocks import scan as scan
from nearfold.blocks import set_memory as set_memory
from nearfold.blocks.sample import sample as sample
from nearfold.methods.classical_mds import ClassicalMDS as ClassicalMDS
from nearfold.methods.incremental_pca import IncrementalPCA as IncrementalPCA
from nearfold.methods.isomap import Isomap as Isomap
from nearfold.methods.kernel_pca import KernelPCA as KernelPCA
from nearfold.methods.knn import KNeighborsClassifier as KNeighborsClassifier
from nearfold.methods.knn import KNeighborsRegressor as KNeighborsRegressor
from nearfold.methods.lda import LinearDiscriminantAnalysis as LinearDiscriminantAnalysis
from nearfold.methods.lle import LocallyLinearEmbedding as LocallyLinearEmbedding
from nearfold.methods.mds import MDS as MDS
from nearfold.methods.neighbor_search import KNeighborsTransformer as KNeighborsTransformer
from nearfold.methods.neighbor_search import NearestNeighbors as NearestNeighbors
from nearfold.methods.neighbor_search import (
    RadiusNeighborsTransformer as RadiusNeighborsTransformer,
)
from nearfold.methods.pca import PCA as PCA
from nearfold.methods.radius_knn import RadiusNeighborsClassifier as RadiusNeighborsClassifier
from nearfold.methods.radius_knn import RadiusNeighborsRegressor as RadiusNeighborsRegressor
from nearfold.metrics.covariance import Covariance as Covariance
from nearfold.metrics.itml import ITML as ITML
from nearfold.metrics.itml import ITML_Supervised as ITML_Supervised
from nearfold.metrics.lfda import LFDA as LFDA
from nearfold.metrics.lmnn import LMNN as LMNN
from nearfold.metrics.lsml import LSML as LSML
from nearfold.metrics.lsml import LSML_Supervised as LSML_Supervised
from nearfold.metrics.mlkr import MLKR as MLKR
from nearfold.metrics.mmc import MMC as MMC
from nearfold.metrics.mmc import MMC_Supervised as MMC_Supervised
from nearfold.metrics.nca import NCA as NCA
from nearfold.metrics.nca import NeighborhoodComponentsAnalysis as NeighborhoodComponentsAnalysis
from nearfold.metrics.rca import RCA as RCA
from nearfold.metrics.rca import RCA_Supervised as RCA_Supervised
from nearfold.metrics.scml import SCML as SCML
from nearfold.metrics.scml import SCML_Supervised as SCML_Supervised
from nearfold.metrics.sdml import SDML as SDML
from nearfold.metrics.sdml import SDML_Supervised as SDML_Supervised
from nearfold.metrics.weighted_euclidean import WeightedEuclidean as WeightedEuclidean
from nearfold.neighbors.certificate import Certificate as Certificate
from nearfold.quality import co_ranking as co_ranking
from nearfold.quality import continuity as continuity
from nearfold.quality import judge_space as judge_space
from nearfold.quality import neighbor_overlap as neighbor_overlap
from nearfold.quality import reconstruction_error as reconstruction_error
from nearfold.quality import shepard as shepard
from nearfold.quality import stress as stress
from nearfold.quality import trustworthiness as trustworthiness
from nearfold.report.display import CurveDisplay as CurveDisplay
from nearfold.report.display import EmbeddingDisplay as EmbeddingDisplay
from nearfold.report.display import ScreeDisplay as ScreeDisplay
from nearfold.report.display import ShepardDisplay as ShepardDisplay
from nearfold.report.doctor import diagnose as diagnose
from nearfold.report.study_report import write_report as write_report
from nearfold.run import progress as progress
from nearfold.store.model_file import inspect as inspect
from nearfold.store.model_file import load as load
from nearfold.store.model_file import save as save
from nearfold.store.model_file import verify as verify
from nearfold.study.choose import choose_dimension as choose_dimension
from nearfold.study.choose_graph import choose_neighbors as choose_neighbors
from nearfold.study.choose_graph import choose_radius as choose_radius
from nearfold.study.compare import compare as compare
from nearfold.study.explain import explain_space as explain_space
from nearfold.study.plan import plan as plan

__version__: str
__all__: list[str]
