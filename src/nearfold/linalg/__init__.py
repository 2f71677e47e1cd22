"""Moments, eigenpairs, singular values, signs: matrices in, matrices out."""

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
from nearfold.linalg.moments import (
    Moments,
    Workspaces,
    block_moments,
    combine_moments,
    require_scatter_memory,
    total_moments,
)
from nearfold.linalg.principal import (
    Principal,
    from_factor,
    from_inner_products,
    from_scatter,
    from_svd,
    reliable,
    table_moments,
)
from nearfold.linalg.signs import axis_signs, fix_signs
from nearfold.linalg.spectrum import clamp_spectrum, whiten

__all__ = [
    "CentredRows",
    "EigenPairs",
    "Moments",
    "Principal",
    "Workspaces",
    "accurate_squared_distances",
    "axis_signs",
    "block_moments",
    "bottom_eigenpairs",
    "clamp_spectrum",
    "combine_moments",
    "combine_triangles",
    "fix_signs",
    "from_factor",
    "from_inner_products",
    "from_scatter",
    "from_svd",
    "pair_squares",
    "reliable",
    "require_scatter_memory",
    "square_norms",
    "squared_distance_error",
    "squared_distances",
    "table_moments",
    "thin_svd",
    "top_axes_implicit",
    "top_axes_randomized",
    "top_eigenpairs",
    "total_moments",
    "triangular_factor",
    "whiten",
]
