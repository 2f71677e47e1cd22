"""How well neighbourhoods are kept: trustworthiness, continuity, overlap.

Symbols: n rows, k neighbours; N_X(i), N_Z(i) the k nearest of row i in the original and in the
new space; r_X(i, j), r_Z(i, j) the place of j among all other rows by distance from i, 1 first.

    trustworthiness  1 - 2 / (n k (2n - 3k - 1)) sum_i sum_{j in N_Z(i)} max(0, r_X(i, j) - k)
    continuity       the same with the spaces exchanged: j in N_X(i), r_Z(i, j)
    overlap          1 / (n k) sum_i |N_X(i) and N_Z(i)|

Trustworthiness falls when rows that were far become neighbours (Venna and Kaski, 2001), continuity
when neighbours are separated. Both are 1 at best and 0 at worst, for every row; about 1/2 by
chance. The scale is valid for k < n / 2 only.

Ties: equal distances by the smaller row number, in both spaces. scikit-learn's `trustworthiness`
leaves their order open, so that on tables with many equal distances its value may differ; without
ties the two are equal.

These functions judge every row: O(n^2 d) time, in blocks. Trustworthiness and continuity take Dask
arrays and frames too (Euclidean distances): parts are compared where they are, with the same value.
`judge_space` has per-row values, and a sample for large tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.blocks import DaskRows, is_dask
from nearfold.errors import InputError
from nearfold.neighbors import build_index
from nearfold.notation import Array, Floats, Ints
from nearfold.quality.passes import over_rows
from nearfold.quality.places import count_places
from nearfold.quality.places_in_parts import dask_spaces, places_of_neighbors
from nearfold.quality.result import check_neighbors
from nearfold.quality.spaces import Space, check_spaces


def trustworthiness(
    X: Any, Z: Any, *, n_neighbors: int = 5, metric: Any = "euclidean", n_jobs: int | None = None
) -> float:
    """How far the neighbours in Z can be believed: 1 if all of them are neighbours in X.

    `metric` is that of X (a name scikit-learn knows, a callable, or "precomputed").

    Examples
    --------
    >>> from nearfold.quality import trustworthiness
    >>> X = [[0, 0], [1, 0], [2, 0], [4, 0], [5, 1], [6, 0]]
    >>> trustworthiness(X, [[x] for x, _ in X], n_neighbors=2)
    1.0
    """
    if is_dask(X) or is_dask(Z):
        return _of_parts(*dask_spaces(X, Z, metric), n_neighbors)
    original, embedded = check_spaces(X, Z, metric)
    k = check_neighbors(n_neighbors, original.n)
    return float(_per_row(original, _nearest(embedded, k, n_jobs), n_jobs).mean())


def continuity(
    X: Any, Z: Any, *, n_neighbors: int = 5, metric: Any = "euclidean", n_jobs: int | None = None
) -> float:
    """How far the neighbours in X stayed together: 1 if all of them are neighbours in Z."""
    if is_dask(X) or is_dask(Z):
        return _of_parts(*dask_spaces(X, Z, metric)[::-1], n_neighbors)
    original, embedded = check_spaces(X, Z, metric)
    k = check_neighbors(n_neighbors, original.n)
    return float(_per_row(embedded, _nearest(original, k, n_jobs), n_jobs).mean())


def neighbor_overlap(
    X: Any, Z: Any, *, n_neighbors: int = 5, metric: Any = "euclidean", n_jobs: int | None = None
) -> float:
    """The mean share of a row's k nearest that are the same in both spaces."""
    original, embedded = check_spaces(X, Z, metric)
    if not 1 <= n_neighbors < original.n:
        raise InputError(
            f"n_neighbors={n_neighbors}: with {original.n} rows it may be from 1 to "
            f"{original.n - 1}."
        )
    a, b = (_nearest(space, int(n_neighbors), n_jobs) for space in (original, embedded))
    first = np.arange(original.n)[:, None] * original.n
    common = np.intersect1d(a + first, b + first, assume_unique=True)
    return len(common) / a.size


def row_trustworthiness(ranks: Array, n: int) -> Any:
    """1 - the scaled sum of max(0, rank - k) over the k neighbours in the other space.

    `ranks`: of one row (k,), or of several (rows, k).
    """
    k = ranks.shape[-1]
    excess = np.maximum(ranks - k, 0).sum(axis=-1)
    return 1.0 - 2.0 * excess / (k * (2.0 * n - 3.0 * k - 1.0))


def _of_parts(rows: DaskRows, others: DaskRows, n_neighbors: int) -> float:
    """The trustworthiness, among `rows`, of neighbours in the space of `others`."""
    n = rows.n_rows or 0
    places = places_of_neighbors(rows, others, check_neighbors(n_neighbors, n))
    return float(row_trustworthiness(places, n).mean())


def _nearest(space: Space, k: int, n_jobs: int | None) -> Ints:
    return build_index(space.X, metric=space.metric, n_jobs=n_jobs, k_hint=k).nearest(None, k)[1]


def _per_row(space: Space, near: Ints, n_jobs: int | None) -> Floats:
    """The trustworthiness of each row, given its neighbours `near` in the other space."""
    places = count_places(space, near, n_jobs)
    if places is not None:
        return np.asarray(row_trustworthiness(places, space.n))

    def judge(rows: Ints, measured: list[Floats]) -> list[float]:
        return [
            row_trustworthiness(space.ranks(int(i), values, near[i]), space.n)
            for i, values in zip(rows, measured[0], strict=True)
        ]

    every = np.arange(space.n)
    blocks = over_rows((space,), every, judge, "ranking neighbours", n_jobs)
    return np.concatenate([part for _, part in blocks])
