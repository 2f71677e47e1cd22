"""The routes of kernel PCA: what each needs, which one is taken, and the one that needs no kernel.

Not an estimator but what KernelPCA decides by. What a route holds is counted before any work; the
memory budget decides between routes that agree in every bit, or between exact and low rank, which
the model then says.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks import (
    Block,
    DaskRows,
    MappedRows,
    get_memory,
    is_dask,
    require_memory,
    show_bytes,
    spans,
)
from nearfold.errors import ApproximationWarning, InputError, NearfoldWarning, warn
from nearfold.inputs import check_table, refuse_bad_blocks, refuse_overflow, take_names
from nearfold.linalg import clamp_spectrum
from nearfold.linalg.krylov import lanczos_bytes
from nearfold.linalg.moments import table_extremes
from nearfold.messages import Message
from nearfold.methods.kernel_axes import KernelAxes, LinearAxes
from nearfold.methods.kernel_functions import tile_side
from nearfold.methods.pca import PCA
from nearfold.methods.principal_components import center_and_project
from nearfold.methods.reduction import padded
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order

_SIDE = 512  # of a tile of a given kernel
_DENSE_BYTES = 36.0  # per entry of a kernel all of whose eigenpairs are found at once


@dataclass(frozen=True)
class FoundAxes:
    """What a route ends in."""

    axes: KernelAxes
    trace: float  # of the centred kernel
    route: str
    left: float = 0.0  # of the trace, not in the eigenpairs: none is short by more
    approximation: str | None = None


def refuse_options(X: Any, kernel: Any, low_rank: Any, back: bool) -> None:
    """Raise for parameters that do not go together; `back`: with a pre-image."""
    if isinstance(low_rank, bool):  # which an interval of integers lets through
        raise InputError(
            "The 'low_rank' parameter of KernelPCA must be 'auto', 'never', a rank or a share."
        )
    if back and kernel == "precomputed":
        raise InputError("Cannot fit_inverse_transform with a precomputed kernel.")
    if back and sparse.issparse(X):
        raise NotImplementedError("Inverse transform not implemented for sparse matrices!")


def open_table(estimator: Any, X: Any) -> Any:
    """The rows that a KernelPCA is fitted on, checked: in memory, or in parts on a cluster."""
    if not is_dask(X):
        return check_table(estimator, X, reset=True, accept_sparse=True)
    asked = estimator.kernel == "precomputed" or estimator.low_rank == "never"
    if asked or estimator.fit_inverse_transform:
        raise InputError(Message("cluster.kernel"))
    rows = DaskRows(X)
    take_names(estimator, rows)
    if not np.isfinite(rows.combined(_squares_of_block, add)):
        refuse_bad_blocks(rows)
    return rows


@np.errstate(over="ignore", invalid="ignore")
def _squares_of_block(block: Block) -> float:
    values = block.dense().ravel(order="K")
    return float(np.einsum("i,i->", values, values))


def solved_densely(m: int, k: int) -> bool:
    """Whether all eigenpairs at once are the better way to k of them."""
    return m <= 200 or k > m // 5


def choose_route(X: Any, k: int, low_rank: Any, copy: bool) -> str:
    """ "held", "computed" or "low rank" for k axes of the rows X, kept as a copy if `copy`."""
    if isinstance(X, DaskRows):
        if isinstance(low_rank, str):
            warn(Message("warn.kernel_far", m=f"{X.n_rows:,}"), ApproximationWarning)
        return "low rank"
    m, itemsize = X.shape[0], X.dtype.itemsize
    kept = float(X.data.nbytes) if copy else 0.0
    route = decide_route(m, k, itemsize, low_rank, kept)
    if route != "low rank" or not isinstance(low_rank, str):
        return route
    needed = kernel_bytes("held", m, k, itemsize, kept)
    warn(
        f"the kernel of {m:,} rows and its eigenvectors need {show_bytes(needed)}, more than "
        "the memory budget: a factor of low rank is used (see approximation_; low_rank='never' "
        "computes the kernel at each pass instead, and low_rank=r pins the rank).",
        ApproximationWarning,
    )
    return "low rank"


def kernel_bytes(route: str, m: int, k: int, itemsize: int, kept: float = 0.0) -> float:
    """What k axes of the kernel of m rows need, if it is "held", or "computed" at each pass.

    `kept`: bytes of the rows, if a copy of them is.
    """
    basis = lanczos_bytes(m, k, itemsize) + kept
    if route == "computed":
        return basis
    return itemsize * m * m + (_DENSE_BYTES * m * m + kept if solved_densely(m, k) else basis)


def decide_route(m: int, k: int, itemsize: int, low_rank: Any, kept: float) -> str:
    """The route under the present budget."""
    if not isinstance(low_rank, str):
        return "low rank"
    if kernel_bytes("held", m, k, itemsize, kept) <= get_memory():
        return "held"
    if low_rank == "never":
        basis = kernel_bytes("computed", m, k, itemsize, kept)
        require_memory(basis, f"A basis for {k} axes", "Ask for fewer axes.")
        return "computed"
    return "low rank"


def given_bytes(m: int, k: int, itemsize: int, is_sparse: bool) -> float:
    """What k axes of a kernel need that is given, and filled in if it is sparse."""
    work = _DENSE_BYTES * m * m if solved_densely(m, k) else lanczos_bytes(m, k, itemsize)
    return work + (float(itemsize * m * m) if is_sparse else 0.0)


def given_kernel(X: Any, k: int, n_jobs: int | None) -> Array:
    """A precomputed kernel as a dense symmetric matrix: X itself where it is one."""
    m, itemsize = X.shape[0], X.dtype.itemsize
    if m != X.shape[1]:
        raise InputError(
            f"Kernel matrix must be a square matrix. Input is a {m}x{X.shape[1]} matrix."
        )
    needed = given_bytes(m, k, itemsize, sparse.issparse(X))
    advice = "Ask for fewer components, or give features instead of the kernel."
    require_memory(needed, f"{k} axes of a kernel of {m:,} rows", advice)
    return _symmetric_part(X.toarray() if sparse.issparse(X) else X, n_jobs)


def _symmetric_part(K: Array, n_jobs: int | None) -> Array:
    """K itself if it is symmetric up to rounding."""
    pieces = spans(len(K), _SIDE)
    pairs = [(a, b) for i, a in enumerate(pieces) for b in pieces[i:]]

    def compare(pair: tuple[slice, slice]) -> tuple[float, float]:
        upper, lower = K[pair], K[pair[::-1]].T
        return float(np.abs(upper - lower).max()), float(np.abs(upper).max())

    off, largest = np.max(list(map_in_order(compare, pairs, n_jobs=n_jobs)), axis=0)
    if not off > 1e-6 * largest:
        return K
    require_memory(1.2 * K.nbytes, "The symmetric part of the kernel", "Give a symmetric kernel.")
    S = K + K.T
    S /= 2
    return np.asarray(S)


def linear_bytes(m: int, d: int, k: int, itemsize: int) -> float:
    """Axes and coordinates: found, in order, and the padded ones."""
    return 3.0 * itemsize * (m + d) * k


def linear_route(X: Any, k: int) -> FoundAxes:
    """phi(x) = x: the axes are PCA's, and V lam^(1/2) its projections."""
    m, d = X.shape
    needed = linear_bytes(m, d, k, X.dtype.itemsize)
    require_memory(needed, f"{k:,} axes of {m:,} rows", "Ask for fewer components.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearfoldWarning)  # axes beyond the rank: zeros here
        pca = PCA(min(k, m, d)).fit(X)
    lam = pca.singular_values_.astype(np.float64) ** 2
    lam = clamp_spectrum(lam, X.dtype)
    axes = pca.components_.T * (lam > 0).astype(X.dtype)  # (10.19)
    project = partial(_coordinates_of_block, mean=pca.mean_, axes=axes)
    if isinstance(X, DaskRows):
        V = MappedRows(X, project, axes.shape[1], X.dtype).to_array()
    else:
        V = center_and_project(X, pca.mean_, axes)
    V /= np.where(lam > 0, np.sqrt(lam), 1.0).astype(V.dtype)
    ratio = float(pca.explained_variance_ratio_.sum())
    trace = float(lam.sum()) / ratio if ratio > 0 else 0.0
    # Beyond the rank eigenvalues and coordinates are zero.
    lam, V, axes = (padded(A, min(k, m)) for A in (lam, V, axes))
    return FoundAxes(LinearAxes(lam, V, pca.mean_, axes), trace, "principal")


def _coordinates_of_block(block: Block, mean: Array, axes: Array) -> Array:
    return center_and_project(block.X, mean, axes)


def clamp_and_warn(lam: Floats, dtype: Any) -> Floats:
    """Eigenvalues with rounding and negative ones set to zero, the latter with a warning."""
    largest = max(float(lam.max(initial=0.0)), 0.0)
    negative = lam[lam < -(float(np.finfo(dtype).eps) ** 0.5) * largest]
    if len(negative):
        least = f"{negative.min():.3g}"
        warn(Message("warn.kernel", n=len(negative), least=least, largest=f"{largest:.3g}"))
    return clamp_spectrum(lam, dtype)


@np.errstate(over="ignore")
def refuse_overflowing(X: Any, column_names: Any) -> None:
    """Raise if the squares of the values of X overflow."""
    if isinstance(X, DaskRows):
        return  # looked at as they were opened
    values = X.data if sparse.issparse(X) else X.ravel(order="K")
    refuse_overflow(float(np.einsum("i,i->", values, values)), X, column_names)


def warn_of_no_variation(X: Any) -> None:
    """Warn, unless the rows of X are all equal, that their kernel shows no difference."""
    if isinstance(X, DaskRows):
        low, high = table_extremes(X)
        vary = bool((low != high).any())
    elif sparse.issparse(X):
        vary = bool((X.max(axis=0) - X.min(axis=0)).count_nonzero())
    else:
        vary = any((X[rows] != X[:1]).any() for rows in spans(len(X), tile_side(X.shape[1])))
    if vary:
        warn(Message("warn.kernel_constant"))
