"""The axes of kernel PCA, and where new rows lie on them.

Not an estimator but what KernelPCA keeps, one class for each way to the eigenpairs:

    LinearAxes   the linear kernel: directions among the features
    RowAxes      sums over all rows: kernel values with each of them
    PivotAxes    sums over the pivots of a factor of low rank: kernel values with these alone
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from nearfold.blocks import spans
from nearfold.inputs import finite_result
from nearfold.linalg import axis_signs
from nearfold.methods.kernel_functions import KernelFunction
from nearfold.methods.principal_components import center_and_project
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order
from nearfold.state import Sizes, State, any_of, array, matrix, nested, optional, require

measured_rows = any_of(array("p d"), matrix("p d"))  # rows that new ones are compared with
_CELLS = 2**18  # kernel values, or values of new rows, that one task works on


def unit_axes(V: Floats, lam: Floats) -> Floats:
    """alpha, with which w_j = sum_i alpha_ij phi(x_i) has unit length; 0 where lam is."""
    return np.asarray(V / np.sqrt(np.where(lam > 0, lam, np.inf)))  # (10.22)


def project(K: Array, row_means: Floats, alpha: Floats) -> Floats:
    """New rows from their kernel values K (b, m), which are overwritten."""
    K -= row_means.astype(K.dtype)
    K -= K.mean(axis=1, keepdims=True)
    return np.asarray(K @ alpha)  # (10.25)


@dataclass(frozen=True)
class KernelAxes:
    """Eigenpairs of the centred kernel; subclasses add what places new rows."""

    lam: Floats  # (k,)
    V: Floats  # (m, k)

    routes: ClassVar[tuple[str, ...]]  # `route_` of the models that keep such axes
    by_axis: ClassVar[tuple[str, ...]] = ()  # fields of subclasses with a column for each axis

    def oriented(self, kept: Array, dtype: Any) -> Any:
        """The axes that are kept, eigenpairs in this dtype, signs by the package's rule."""
        lam, V = (self.lam, self.V) if kept.all() else (self.lam[kept], self.V[:, kept])
        signs = axis_signs(V.T).astype(dtype)
        turned = {name: getattr(self, name)[..., kept] * signs for name in self.by_axis}
        V = V.astype(dtype, copy=False) * signs
        return replace(self, lam=lam.astype(dtype), V=V, **turned)

    def place(self, Q: Any, n_jobs: int | None) -> Floats:
        """Coordinates (q, k) of the rows Q."""
        raise NotImplementedError


@dataclass(frozen=True)
class LinearAxes(KernelAxes):
    """phi(x) = x: coordinates are (x - mean) axes, as in PCA."""

    mean: Floats  # (d,)
    axes: Floats  # (d, k)

    routes, by_axis = ("principal",), ("axes",)
    fitted_state = State(
        lam=array("k", least=0), V=array("n k"), mean=array("d"), axes=array("d k")
    )

    def place(self, Q: Any, n_jobs: int | None) -> Floats:
        """Coordinates (q, k) of the rows Q."""
        return center_and_project(Q, self.mean, self.axes)


def _check_kernel(values: dict[str, Any], sizes: Sizes) -> None:
    """Kernel values of the rows are numbers: no power is too large or the root of a negative one.

    The mean of rows of unit length is no longer, and that of others has a square in their dtype.
    """
    function, X = values["function"], values["X"]
    require(sizes["p"] >= 1, "no rows")
    if function is None or X is None:
        return
    real = np.finfo(X.dtype if X.dtype.kind == "f" else np.float64)
    largest = 1.0 + 1e-6 if function.kernel == "cosine" else float(np.sqrt(real.max))
    centre = float(np.abs(function.centre).max(initial=0))
    require(centre <= largest, "function: a centre far from the rows")
    if function.kernel != "poly":
        return
    cells = X.data if sparse.issparse(X) else X
    low, high = float(cells.min(initial=0)), float(cells.max(initial=0))
    base = function.gamma * sizes["d"] * max(-low, high) ** 2 + abs(function.coef0) + 2
    fits = np.isfinite(base) and function.degree * np.log(base) < 600
    require(bool(fits), "function: powers that overflow")
    positive = low >= 0 and function.coef0 >= 0
    require(positive or function.degree == int(function.degree), "function: roots of products")


def _check_given(values: dict[str, Any], sizes: Sizes) -> None:
    _check_kernel(values, sizes)
    given = values["function"] is None
    require(given == (values["X"] is None), "a kernel without rows, or rows without one")
    require(not given or sizes.get("d", sizes["p"]) == sizes["p"], "kernel values of other rows")


@dataclass(frozen=True)
class RowAxes(KernelAxes):
    """w_j = sum_i alpha_ij phi(x_i) over all rows."""

    function: KernelFunction | None  # None: new rows are given as their kernel values
    X: Any  # (m, d)
    row_means: Floats  # (m,) of the kernel

    routes = ("held", "computed")
    fitted_state = State(
        _check_given,
        lam=array("k", least=0),
        V=array("p k"),
        function=optional(nested(KernelFunction, d="d")),
        X=optional(measured_rows),
        row_means=array("p"),
    )

    def place(self, Q: Any, n_jobs: int | None) -> Floats:
        """Coordinates (q, k) of the rows Q."""
        alpha = unit_axes(self.V, self.lam)

        def place(some: Any) -> Floats:
            return project(self._kernel_values(some), self.row_means, alpha)

        return _in_blocks(place, Q, alpha, n_jobs)

    def _kernel_values(self, Q: Any) -> Array:
        if self.function is None:
            return np.asarray(Q.toarray()) if sparse.issparse(Q) else np.array(Q)
        return _kernel_rows(self.function, Q, self.X)


@dataclass(frozen=True)
class PivotAxes(KernelAxes):
    """Coordinates are k(x, pivots) axes - offset."""

    function: KernelFunction
    X: Any  # (r, d) the pivots
    pivots: Ints  # (r,) their numbers
    axes: Floats  # (r, k)
    offset: Floats  # (k,)

    routes, by_axis = ("low rank",), ("axes", "offset")
    fitted_state = State(
        _check_kernel,
        lam=array("k", least=0),
        V=array("n k"),
        function=nested(KernelFunction, d="d"),
        X=measured_rows,
        pivots=array("p", "i", below="n"),
        axes=array("p k"),
        offset=array("k"),
    )

    def place(self, Q: Any, n_jobs: int | None) -> Floats:
        """Coordinates (q, k) of the rows Q."""

        def place(some: Any) -> Floats:
            return np.asarray(_kernel_rows(self.function, some, self.X) @ self.axes - self.offset)

        return _in_blocks(place, Q, self.axes, n_jobs)


def _kernel_rows(function: KernelFunction, Q: Any, X: Any) -> Array:
    return function.row_block(Q, X, np.empty((Q.shape[0], X.shape[0]), dtype=Q.dtype))


def _in_blocks(place: Callable[[Any], Floats], Q: Any, axes: Floats, n_jobs: int | None) -> Floats:
    """What `place` makes of the rows Q, some at a time."""
    (p, k), (q, width) = axes.shape, Q.shape
    Z = np.empty((q, k), dtype=Q.dtype)

    @np.errstate(over="ignore", invalid="ignore")  # looked for in the result
    def fill(rows: slice) -> None:
        Z[rows] = place(Q[rows])

    step = max(64, _CELLS // max(1, p, width))
    for _ in map_in_order(fill, spans(q, step), n_jobs=n_jobs):
        pass
    return finite_result(Z, Z.dtype)
