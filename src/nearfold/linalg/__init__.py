"""Moments, eigenpairs, singular values, signs: matrices in, matrices out."""

from nearfold.linalg.batches import BatchBuffer, SeenRows, add_batch, class_moments
from nearfold.linalg.dimension import (
    count_by_evidence,
    count_components,
    count_for_share,
    is_count,
    is_share,
    most_axes,
    variance_shares,
)
from nearfold.linalg.distances import (
    accurate_squared_distances,
    pair_squares,
    square_norms,
    squared_distance_error,
    squared_distances,
)
from nearfold.linalg.eigen import (
    EigenPairs,
    bottom_eigenpairs,
    combine_triangles,
    thin_svd,
    top_eigenpairs,
    triangular_factor,
)
from nearfold.linalg.implicit import CentredRows, top_axes_implicit, top_axes_randomized
from nearfold.linalg.merged import merge_truncated
from nearfold.linalg.moments import (
    Grouping,
    Moments,
    Workspaces,
    block_moments,
    combine_moments,
    require_scatter_memory,
    scatter_bytes,
    table_moments,
)
from nearfold.linalg.principal import Principal, from_moments
from nearfold.linalg.signs import axis_signs, fix_signs
from nearfold.linalg.spectrum import clamp_spectrum, whiten

__all__ = [
    "BatchBuffer",
    "CentredRows",
    "EigenPairs",
    "Grouping",
    "Moments",
    "Principal",
    "SeenRows",
    "Workspaces",
    "accurate_squared_distances",
    "add_batch",
    "axis_signs",
    "block_moments",
    "bottom_eigenpairs",
    "clamp_spectrum",
    "class_moments",
    "combine_moments",
    "combine_triangles",
    "count_by_evidence",
    "count_components",
    "count_for_share",
    "fix_signs",
    "from_moments",
    "is_count",
    "is_share",
    "merge_truncated",
    "most_axes",
    "pair_squares",
    "require_scatter_memory",
    "scatter_bytes",
    "square_norms",
    "squared_distance_error",
    "squared_distances",
    "table_moments",
    "thin_svd",
    "top_axes_implicit",
    "top_axes_randomized",
    "top_eigenpairs",
    "triangular_factor",
    "variance_shares",
    "whiten",
]
