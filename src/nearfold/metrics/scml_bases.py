"""The rank-one bases of SCML.

The bases: "lda", axes of the discriminant analyses of regions of the table, around the centres of
clusters, with the nearest 10 and 20 rows of every class (20 and 50 above 50 columns); needs labels.
"triplet_diffs", the eigenvectors of sum (x_a - x_b)(x_a - x_b)^T - sum (x_a - x_c)(x_a - x_c)^T
over d triplets drawn, again and again. Or an array.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular, svd

from nearfold.blocks import require_memory
from nearfold.errors import InputError
from nearfold.metrics.tuples import Tuples
from nearfold.neighbors import build_index
from nearfold.notation import Array, Floats, Ints

LARGEST_PROGRAM = 2_000_000  # entries of a linear program; beyond it HiGHS takes minutes
_PROGRAM_BYTES = 100  # that HiGHS takes per entry, measured
_RIDGE = 1e-2  # of the variance of each column, added to the scatter of a region


@dataclass(frozen=True)
class LabelledTriplets(Tuples):
    """Triplets that were drawn from labels, the labels of the points, and whether of a sample."""

    label: Ints
    approximation: str | None = None


def difference_bases(triplets: Tuples, count: int, random: Any) -> Floats:
    """Eigenvectors of (near scatter - far scatter) of d triplets at a time, `count` of them."""
    n, d = len(triplets.rows), triplets.X.shape[1]
    found, total = list[Floats](), 0
    for _ in range(count):  # each draw gives one basis at least, or none ever will
        drawn = random.permutation(n)[:d] if n < 4 * d else random.randint(0, n, size=d)
        a, b, c = np.moveaxis(triplets.X[triplets.rows[drawn]].astype(np.float64), 1, 0)
        near, far = a - b, a - c
        lam, U = np.linalg.eigh(near.T @ near - far.T @ far)
        size = np.abs(lam)
        keep = size > d * np.finfo(np.float64).eps * size.max(initial=0.0)
        found.append(U[:, keep].T)
        total += int(keep.sum())
        if total >= count:
            break
    if total == 0:
        raise InputError(
            "the points of the triplets do not differ: there is nothing to learn from."
        )
    return np.concatenate(found)[:count]


def region_bases(X: Array, label: Ints, count: int, random: Any) -> Floats:
    """Discriminant axes of regions around the centres of clusters, at two scales."""
    noise = (10 * np.finfo(X.dtype).eps * np.abs(X).max(axis=0).astype(np.float64)) ** 2
    X = X - X.mean(axis=0, dtype=np.float64)
    variance = X.var(axis=0)
    ridge = _RIDGE * np.where(variance > noise, variance, 1.0)  # 1: a constant column has no units
    sizes = np.bincount(label)
    per_region = min(len(sizes) - 1, X.shape[1])
    n_regions = min(-(-count // (2 * per_region)), len(np.unique(X, axis=0)))
    centres = _cluster_centres(X, n_regions, random)
    scales = (20, 50) if X.shape[1] > 50 else (10, 20)
    near = []
    for c in range(len(sizes)):
        own, k = np.flatnonzero(label == c), min(scales[1], int(sizes[c]))
        near.append(own[build_index(X[own], k_hint=k).nearest(centres, k)[1]])
    axes = [
        region_axes([X[rows[i, :scale]] for rows in near], per_region, ridge)
        for scale in scales
        for i in range(n_regions)
    ]
    return np.concatenate(axes)[:count]


def _cluster_centres(X: Floats, count: int, random: Any) -> Floats:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    if count >= len(X) / 2:  # clusters of one or two rows: take the rows
        return X[np.sort(random.permutation(len(X))[:count])]
    clusters = KMeans(count, n_init=1, random_state=random.randint(2**31 - 1))
    with warnings.catch_warnings(), threadpool_limits(1, "openmp"):  # its sums depend on threads
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal centres do no harm here
        return np.asarray(clusters.fit(X).cluster_centers_)


def region_axes(classes: list[Floats], count: int, ridge: Floats) -> Floats:
    """The `count` unit axes along which these classes lie apart, relative to their own scatter."""
    mean = np.stack([rows.mean(axis=0) for rows in classes])
    inside = np.concatenate([rows - m for rows, m in zip(classes, mean, strict=True)])
    weight = np.array([len(rows) for rows in classes])
    between = (mean - weight @ mean / weight.sum()) * np.sqrt(weight / weight.sum())[:, None]
    scatter = inside.T @ inside / len(inside)
    # Some regions have fewer rows than columns: a ridge, in the units of each column.
    scatter[np.diag_indices(len(scatter))] += ridge
    R = cholesky(scatter, lower=True)
    U = svd(solve_triangular(R, between.T, lower=True), full_matrices=False)[0]
    axes = solve_triangular(R, U[:, :count], lower=True, trans="T").T
    return np.asarray(axes / np.linalg.norm(axes, axis=1, keepdims=True))


def count_bases(basis: Any, n_basis: int | None, m: int, d: int, n_classes: int = 0) -> int:
    """How many bases `make_bases` will return at most, for m points in d columns."""
    if not isinstance(basis, str):
        return len(basis)
    if basis == "lda" and n_classes:
        return n_basis or min(20 * d, 2 * min(n_classes - 1, d) * m - 1)
    return n_basis or 80 * d


def bases_bytes(K: int, m: int, d: int, n_triplets: int) -> float:
    """The m points along all K bases, and linear programs over some triplets and bases."""
    program = _PROGRAM_BYTES * min(LARGEST_PROGRAM, float(n_triplets) * K)
    return 8.0 * (m * (K + 2.0 * d) + 3.0 * K * d) + program


def require_bases(
    basis: Any, n_basis: int | None, m: int, d: int, n_triplets: int, n_classes: int = 0
) -> int:
    """The number of bases K, after a check that the solver fits the memory budget."""
    K = count_bases(basis, n_basis, m, d, n_classes)
    require_memory(
        bases_bytes(K, m, d, n_triplets),
        f"SCML of {m:,} points along {K:,} bases",
        "Lower n_basis, or reduce the columns with PCA first.",
    )
    return K


def make_bases(triplets: Tuples, basis: Any, n_basis: int | None, random: Any) -> Floats:
    """B (K, d), by name or as given."""
    (m, d), T = triplets.X.shape, len(triplets.rows)
    if not isinstance(basis, str):
        B = np.asarray(basis, dtype=np.float64)
        if B.ndim == 2 and B.shape[1] != d:
            raise InputError(
                f"The dimensionality ({B.shape[1]}) of the provided bases must match the "
                f"dimensionality of the data ({d})."
            )
        if B.ndim != 2 or not np.isfinite(B).all():
            raise InputError(
                f"basis must be finite numbers of shape (n_basis, {d}); its shape is {B.shape}."
            )
        return B
    if n_basis is not None and n_basis < 1:
        raise InputError(f"n_basis={n_basis}: take at least one.")
    if basis == "triplet_diffs":
        return difference_bases(triplets, require_bases(basis, n_basis, m, d, T), random)
    if basis != "lda":
        raise InputError(f"basis={basis!r}: use 'triplet_diffs', 'lda' or an array (n_basis, {d}).")
    if not isinstance(triplets, LabelledTriplets):
        raise InputError("basis='lda' needs class labels; for triplets use 'triplet_diffs'.")
    n_classes = int(triplets.label.max()) + 1
    most = 2 * min(n_classes - 1, d) * m
    if n_basis is not None and n_basis >= most:
        raise InputError(f"n_basis={n_basis}: from these rows LDA gives fewer than {most} bases.")
    count = require_bases(basis, n_basis, m, d, T, n_classes)
    return region_bases(triplets.X, triplets.label, count, random)
