"""Who is near whom."""

from nearfold.neighbors.exact import EuclideanIndex, build_index, is_euclidean

__all__ = ["EuclideanIndex", "build_index", "is_euclidean"]
