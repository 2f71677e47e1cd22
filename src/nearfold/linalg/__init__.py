"""Moments, eigenpairs, singular values, signs: matrices in, matrices out."""

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

__all__ = [
    "CentredRows",
    "EigenPairs",
    "Moments",
    "Principal",
    "Workspaces",
    "axis_signs",
    "block_moments",
    "bottom_eigenpairs",
    "combine_moments",
    "combine_triangles",
    "fix_signs",
    "from_factor",
    "from_inner_products",
    "from_scatter",
    "from_svd",
    "reliable",
    "table_moments",
    "thin_svd",
    "top_axes_implicit",
    "top_axes_randomized",
    "top_eigenpairs",
    "total_moments",
    "triangular_factor",
]
