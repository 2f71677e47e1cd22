"""The principal axes of a table: eigenpairs of its scatter S = sum w (x - mu)(x - mu)^T.

`solve` picks one of four exact routes, or the approximate one; all end in a `Principal`:

    scatter     S in blocks, then its eigenpairs: O(m d^2), the product runs at BLAS speed
    factor      R of the QR of the centred rows in blocks (TSQR), then the SVD of R: the same
                order, a few times slower, but does not square the condition number
    dual        m < d: eigenpairs of the inner products of the rows, O(m^2 d)
    implicit    few axes of a large or sparse table, by Lanczos on products with X alone
    randomized  the approximate one, only when asked for

Accuracy. Eigenvalues of S carry an error of about u lam_1 (u: unit roundoff of the products), so
the scatter and dual routes keep half the digits of lam_k as long as lam_k >= sqrt(u) lam_1.
`reliable` tests that; below it float32 input is accumulated again in float64, and float64 input
takes the factor route (the SVD of the rows, if there are fewer of them than columns).

The routes look at the table and the parameters only: a memory budget that the chosen one does
not fit is an error, never another route with other rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks import ArrayRows, Rows, require_memory
from nearfold.errors import InputError
from nearfold.linalg.dimension import (
    complete_axes,
    count_components,
    is_count,
    is_share,
    most_axes,
    variance_shares,
)
from nearfold.linalg.eigen import thin_svd, top_eigenpairs
from nearfold.linalg.implicit import CentredRows, top_axes_implicit, top_axes_randomized
from nearfold.linalg.moments import (
    Moments,
    product_dtype,
    require_scatter_memory,
    table_moments,
    table_spread,
)
from nearfold.linalg.principal_routes import (
    dual_bytes,
    first_route,
    has_no_scatter,
    svd_bytes,
)
from nearfold.linalg.wide import axes_by_inner_products, axes_by_svd
from nearfold.notation import Array, Floats
from nearfold.run import random_state
from nearfold.state import State, array, number, optional, text

ROUTES = ("scatter", "scatter in float64", "factor", "dual", "svd", "implicit", "randomized")

_quiet = np.errstate(over="ignore", invalid="ignore")  # the caller looks at the total


@dataclass(frozen=True)
class Principal:
    """Eigenvalues lam (k,) of the scatter, largest first, and axes (k, d); what they come from.

    `total` is the trace of the scatter: all the variance there is, kept or not. Where it is not
    finite the values overflow or are not finite themselves, and there are no axes.
    """

    lam: Floats
    axes: Floats
    total: float
    mean: Floats
    count: float  # sum of weights
    n_rows: int
    route: str
    approximation: str | None = None
    error: float = 0.0  # of the eigenvalues, beyond what the route explains

    fitted_state = State(
        lam=array("k", least=0),
        axes=array("k d"),
        total=number(0),
        mean=array("d"),
        count=number(0),
        n_rows=number(0, whole=True),
        route=text(*ROUTES, "merged"),
        approximation=optional(text()),
        error=number(0),
    )

    def head(self, k: int) -> Principal:
        """The first k of them."""
        return replace(self, lam=self.lam[:k], axes=self.axes[:k])

    def rank(self, dtype: Any) -> int:
        """How many eigenvalues are more than rounding, on the route and in the dtype used."""
        if len(self.lam) == 0 or self.lam[0] <= 0:
            return 0
        eps = float(np.finfo(dtype).eps)
        if self.route in ("factor", "svd", "scatter in float64"):  # as good as singular values
            tolerance = eps**2 * max(self.n_rows, len(self.mean)) * self.lam[0]
        else:
            tolerance = 10 * eps * self.lam[0]
        return int(np.sum(self.lam > max(tolerance, 10 * self.error)))

    def kept(self, n_components: Any, dtype: Any) -> int:
        """How many axes n_components asks for.

        None: one per row or column, whichever are fewer. Weights count rows, so with them the
        rows are the sum of the weights (but no direction along which the data vary is dropped).
        """
        if n_components is None and self.count != self.n_rows:
            rows = int(np.round(self.count, 6))
            return min(max(self.rank(dtype), rows), len(self.mean))
        return count_components(n_components, self.lam, self.total, self.n_rows, dtype)

    def completed(self, k: int, dtype: Any) -> Principal:
        """Exactly k axes: beyond the rank, others orthogonal to them with eigenvalue 0."""
        rank = min(self.rank(dtype), k)
        if rank == k:
            return self.head(k)
        lam = np.concatenate([self.lam[:rank], np.zeros(k - rank)])
        return replace(self, lam=lam, axes=complete_axes(self.axes[:rank], k))


def solve(
    rows: Rows,
    n_components: Any = None,
    solver: str = "auto",
    *,
    tol: float = 0.0,
    iterated_power: Any = "auto",
    n_oversamples: int = 10,
    seed: Any = None,
) -> Principal:
    """The principal axes of the rows, by the cheapest accurate route or the solver asked for.

    `n_components` is a count, a share of the variance, "mle" or None. At least as many axes come
    back as it needs; `count_components` says how many that is. `tol` is Lanczos's; the last
    three parameters belong to the randomized solver.
    """
    X = rows.X if isinstance(rows, ArrayRows) else None
    k = most_axes(n_components, rows.n_rows, rows.n_features)
    if solver in ("arpack", "randomized"):
        _refuse_truncation(n_components, solver)
    if solver == "arpack" and X is not None:
        k = _below_all(n_components, k, min(X.shape))
    if solver == "randomized":
        return _randomized(rows, X, k, iterated_power, n_oversamples, seed)
    if X is not None and _begins_with(X, n_components, solver) == "implicit":
        found = _implicit(rows, X, n_components, k, tol)
        # A wide sparse table has no other route: all others would densify it.
        stays = solver == "arpack" or (sparse.issparse(X) and has_no_scatter(*X.shape))
        if stays or not np.isfinite(found.total) or _settles(found, n_components, X.dtype):
            return found
    if X is not None and X.shape[0] < X.shape[1] and not sparse.issparse(X):
        return _wide(X, rows.weights, n_components, k, solver)
    return solve_tall(rows, n_components, solver)[0]


def _refuse_truncation(n_components: Any, solver: str) -> None:
    """A truncated solver finds some axes, not none, and never the whole spectrum."""
    if n_components == "mle":
        raise InputError(f"n_components='mle' cannot be a string with svd_solver='{solver}'")
    if is_count(n_components) and n_components == 0:
        raise InputError(
            f"n_components=0 must be between 1 and min(n_samples, n_features) with "
            f"svd_solver='{solver}'."
        )


def reliable(lam: Floats, k: int, dtype: Any) -> bool:
    """Whether the k-th eigenvalue of a scatter computed in `dtype` has half its digits."""
    if k == 0 or len(lam) == 0 or lam[0] <= 0:
        return True
    return bool(lam[min(k, len(lam)) - 1] >= np.sqrt(np.finfo(dtype).eps) * lam[0])


def _settles(found: Principal, n_components: Any, dtype: Any) -> bool:
    """Whether the axes that will be kept are reliable. m centred rows have m - 1 directions."""
    needed = found.kept(n_components, dtype)
    return reliable(found.lam, min(needed, max(found.n_rows - 1, 1)), dtype)


# ---- tall tables and streams ----------------------------------------------------------


def solve_tall(rows: Rows, n_components: Any, solver: str) -> tuple[Principal, Moments]:
    """Scatter and eigenpairs; the factor route where those would not be accurate."""
    d, dtype = rows.n_features, rows.dtype
    require_scatter_memory(d)
    # A file's blocks are cut as it is read: their number is not known before.
    known = isinstance(rows, ArrayRows) and rows.n_rows is not None
    steps = len(rows.spans(rows.n_rows or 0)) if known else None
    if solver == "full":
        moments = table_moments(rows, np.float64, factor=True, total=steps)
        return from_moments(moments, most_axes(n_components, moments.n_rows, d)), moments
    products = product_dtype(dtype, rows.n_rows, d)
    moments = table_moments(rows, products, total=steps)
    k = most_axes(n_components, moments.n_rows, d)
    route = "scatter" if products == dtype else "scatter in float64"
    found = from_moments(moments, k, route)
    if solver == "covariance_eigh" or not np.isfinite(found.total):
        return found, moments
    if route != "scatter" or _settles(found, n_components, dtype):
        return found, moments
    if dtype == np.float32:
        # Products in float64 leave float32 input more digits than its own SVD would.
        moments = table_moments(rows, np.float64, total=steps)
        return from_moments(moments, k, "scatter in float64"), moments
    moments = table_moments(rows, np.float64, factor=True, total=steps)
    return from_moments(moments, k), moments


def from_moments(moments: Moments, k: int, route: str = "scatter") -> Principal:
    """The k leading axes (all of them, where there is a factor) from the moments."""
    mean, count = moments.mean[0], float(moments.count[0])
    if not np.isfinite(moments.total):
        return _unusable(mean, count, moments.n_rows, route)
    if moments.factor is not None:
        _, s, axes = thin_svd(moments.factor, "the triangular factor")
        return Principal(s**2, axes, float(s @ s), mean, count, moments.n_rows, "factor")
    pairs = top_eigenpairs(moments.scatter, k, name="the scatter matrix")  # (10.17)
    lam = np.maximum(pairs.values, 0.0)  # rounding may leave a zero slightly negative
    axes = np.ascontiguousarray(pairs.vectors.T)
    return Principal(lam, axes, moments.total, mean, count, moments.n_rows, route)


def _unusable(mean: Floats, count: float, n_rows: int, route: str) -> Principal:
    return Principal(np.zeros(0), np.zeros((0, len(mean))), np.inf, mean, count, n_rows, route)


# ---- wide tables -----------------------------------------------------------------------


def _wide(X: Array, weights: Floats | None, n_components: Any, k: int, solver: str) -> Principal:
    m, d = X.shape
    w = np.ones(m) if weights is None else weights
    count = float(w.sum())
    if solver != "full":
        needed = dual_bytes(m, d, k, X.itemsize)
        require_memory(needed, f"The inner products of {m} rows", "Use fewer rows.")
        found = Principal(*axes_by_inner_products(X, w, k), count, m, "dual")
        if not np.isfinite(found.total) or _settles(found, n_components, X.dtype):
            return found
    require_memory(
        svd_bytes(m, d), f"The singular vectors of {m} x {d} values", "Ask for fewer components."
    )
    return Principal(*axes_by_svd(X, w), count, m, "svd")


# ---- products with X alone -------------------------------------------------------------


def _begins_with(X: Any, n_components: Any, solver: str) -> str:
    m, d = X.shape
    return first_route(m, d, X.dtype.itemsize, sparse.issparse(X), n_components, solver)


def _below_all(n_components: Any, k: int, least: int) -> int:
    """Lanczos finds all axes but one."""
    if is_count(n_components) and k >= least:
        raise InputError(
            f"n_components={k} must be strictly less than min(n_samples, n_features)={least} "
            "with svd_solver='arpack'."
        )
    return max(min(k, least - 1), 1)


def _implicit(rows: Rows, X: Any, n_components: Any, k: int, tol: float) -> Principal:
    A, found = _centred(rows, X, "implicit")
    if not np.isfinite(found.total):
        return found
    share = is_share(n_components)
    tried = min(16, k) if share else k
    while True:
        lam, axes = top_axes_implicit(A, tried, tol)
        lam = np.maximum(lam.astype(np.float64), 0.0)
        held = float(np.sum(variance_shares(lam, found.total, rows.dtype)))
        if not share or held > float(n_components) or tried >= k:
            return replace(found, lam=lam, axes=axes)
        tried = min(2 * tried, k)


def _randomized(
    rows: Rows, X: Any, k: int, iterated_power: Any, n_oversamples: int, seed: Any
) -> Principal:
    if X is None:
        raise InputError("svd_solver='randomized' needs the table in memory; use 'auto'.")
    A, found = _centred(rows, X, "randomized")
    if not np.isfinite(found.total):
        return found
    power = iterated_power
    if power == "auto":
        power = 7 if k < 0.1 * min(X.shape) else 4
    lam, axes = top_axes_randomized(
        A, k, oversamples=n_oversamples, iterations=int(power), rng=random_state(seed)
    )
    note = f"randomized: {n_oversamples} extra axes, {power} power iterations"
    return replace(found, lam=lam, axes=axes, approximation=note)


@_quiet
def _centred(rows: Rows, X: Any, route: str) -> tuple[CentredRows, Principal]:
    """The implicit centred table; its total scatter, mean and count without axes so far."""
    count, mean, total = table_spread(rows)
    spread = float(np.sqrt(total / count)) if count > 0 and np.isfinite(total) else np.inf
    found = replace(_unusable(mean, count, X.shape[0], route), total=total)
    return CentredRows(X, mean, rows.weights, spread), found
