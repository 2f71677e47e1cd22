"""Nearest rows under any metric: indexes, lists and distances."""

from nearfold.neighbors.approximate import ApproximateIndex
from nearfold.neighbors.certificate import Certificate
from nearfold.neighbors.distances import is_euclidean
from nearfold.neighbors.exact import EuclideanIndex, Index, build_index
from nearfold.neighbors.learned import LearnedIndex, is_learner
from nearfold.neighbors.metric import MetricIndex
from nearfold.neighbors.precomputed import PrecomputedIndex

__all__ = [
    "ApproximateIndex",
    "Certificate",
    "EuclideanIndex",
    "Index",
    "LearnedIndex",
    "MetricIndex",
    "PrecomputedIndex",
    "build_index",
    "is_euclidean",
    "is_learner",
]
