"""Who is near whom."""

from nearfold.neighbors.exact import EuclideanIndex, build_index, is_euclidean
from nearfold.neighbors.learned import LearnedIndex, is_learner

__all__ = ["EuclideanIndex", "LearnedIndex", "build_index", "is_euclidean", "is_learner"]
