"""Which route to the principal axes a table of a given shape takes, and what some of them hold.

Not the routes themselves (principal.py) but what is decided from shape and parameters alone.
"""

from __future__ import annotations

from typing import Any

from nearfold.linalg.dimension import is_share, most_axes
from nearfold.linalg.krylov import lanczos_bytes
from nearfold.linalg.moments import scatter_bytes
from nearfold.linalg.wide import COLUMNS

_LARGEST_SCATTER = 8192  # columns from which few axes are found without the scatter


def has_no_scatter(m: int, d: int) -> bool:
    """Whether a table is so wide that its scatter is larger than itself, or too large to form."""
    return m < d or d > _LARGEST_SCATTER


def prefers_products(
    m: int, d: int, itemsize: int, is_sparse: bool, n_components: Any, k: int, solver: str
) -> bool:
    """Few axes of a sparse or a large table: products with X cost less than the scatter."""
    if solver != "auto":
        return solver == "arpack"
    least = min(m, d)
    share = is_share(n_components)
    few = share or k <= least // 4
    if is_sparse:
        return bool(least > 500 and few) or has_no_scatter(m, d)
    if share or not few:
        return False
    passes = 3.0 * k + 40  # products with X and X^T that Lanczos takes, as measured
    by_products = passes * m * d * itemsize * 2 / 8e9
    by_scatter = m * d * least / 1.5e11 + 10.0 * least**3 / 1e11
    return by_products < by_scatter or least > _LARGEST_SCATTER


def first_route(
    m: int, d: int, itemsize: int, is_sparse: bool, n_components: Any, solver: str
) -> str:
    """The route that a table in memory begins with; what it finds may ask for a better one."""
    k = most_axes(n_components, m, d)
    if solver == "randomized":
        return "randomized"
    if prefers_products(m, d, itemsize, is_sparse, n_components, k, solver):
        return "implicit"
    if m < d and not is_sparse:
        return "svd" if solver == "full" else "dual"
    return "factor" if solver == "full" else "scatter"


def dual_bytes(m: int, d: int, k: int, itemsize: int) -> float:
    """Inner products of the rows, a few columns centred, and k axes."""
    return 8.0 * 4 * m * m + 8.0 * (k + 3 * m) * min(d, COLUMNS) + itemsize * k * d


def svd_bytes(m: int, d: int) -> float:
    """The centred rows and their singular vectors."""
    return 8.0 * 3 * m * d


def route_bytes(route: str, m: int, d: int, k: int, itemsize: int) -> float:
    """About what a route holds at its peak, beside the table."""
    if route == "dual":
        return dual_bytes(m, d, k, itemsize)
    if route == "svd":
        return svd_bytes(m, d)
    if route in ("implicit", "randomized"):  # a basis of the shorter side, products, the axes
        return lanczos_bytes(min(m, d), k, itemsize) + itemsize * (m + d) * (2.0 * k + 20)
    return scatter_bytes(d)
