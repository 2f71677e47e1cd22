"""Which columns make rows near in a space.

A model that maps rows linearly (scaling, PCA, LDA, every metric learner, and pipelines of them) has
a metric M = A A^T on the columns, and each column has its exact share of the mean squared distance.
Any other model is asked: how many of a row's neighbours are lost when one column is shuffled?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.blocks import spans
from nearfold.errors import InputError
from nearfold.inputs import refuse_extreme
from nearfold.neighbors import build_index
from nearfold.notation import Array, Floats
from nearfold.run import one_blas_thread, steps
from nearfold.study.table import largest, read_rows
from nearfold.study.told import Told

_SAMPLE = 500  # rows whose neighbours are looked at
_CELLS_AT_ONCE = 2**20  # of the table, in one block
_MOST_COLUMNS = 64  # shuffled; of more, those that vary most

_EXACT = Told(
    "Share of each column in the mean squared distance of rows in this space; exact, as the space "
    "is linear in the columns. A share below 0 draws rows nearer.",
    "各列在该空间中样本间平均平方距离里所占的份额;该空间对各列是线性的,故为精确值。"
    "小于 0 的份额使样本更近。",
)
_SHUFFLED = Told(
    "Share of a row's nearest neighbours in this space that are lost when the column is shuffled.",
    "打乱该列后,样本在该空间中的近邻丢失的比例。",
)


@dataclass(frozen=True)
class Explanation:
    """How much each column counts, most first."""

    columns: tuple[str, ...]
    weights: Floats
    exact: bool
    about: Told


def explain_space(
    model: Any,
    X: Any,
    columns: tuple[str, ...] | None = None,
    *,
    n_neighbors: int = 5,
    random_state: int = 0,
) -> Explanation:
    """How much each column of X counts in the space of a fitted model; `columns`: their names."""
    if columns is None:
        columns = (
            tuple(str(c) for c in X.columns)
            if hasattr(X, "columns")
            else tuple(f"x{j}" for j in range(np.shape(X)[1]))
        )
    X = read_rows(X)
    refuse_extreme(largest(X), X.dtype)
    A = linear_map(model, X)
    if A is not None:
        parts = _shares(A, X)
        total = float(parts.sum())
        weights = parts / total if total > 0 else np.zeros(len(A))
        return _ordered(columns, weights, np.arange(len(A)), True)
    draw = np.random.default_rng(random_state)
    rows = X[np.sort(draw.permutation(len(X))[:_SAMPLE])]
    tried = np.sort(np.argsort(-rows.var(axis=0), kind="stable")[:_MOST_COLUMNS])
    k = max(1, min(n_neighbors, len(rows) - 1))
    before = _neighbours(model.transform(rows), k)
    lost = []
    for j in steps(tried, "Shuffling columns"):
        changed = rows.copy()
        changed[:, j] = draw.permutation(changed[:, j])
        after = _neighbours(model.transform(changed), k)
        lost.append(1 - (after[:, :, None] == before[:, None, :]).any(axis=2).mean())
    return _ordered(columns, np.array(lost), tried, False)


def explain_rows(model: Any, X: Array, columns: tuple[str, ...], a: int, b: int) -> Explanation:
    """What each column adds to the squared distance of two rows; for linear models."""
    A = linear_map(model, X)
    if A is None:
        raise InputError(
            "the distance of two rows is divided among the columns only where the space is linear "
            "in them (scaling, PCA, LDA, metric learners)."
        )
    for row in (a, b):
        if not 0 <= row < len(X):
            raise InputError(f"there is no row {row}: rows are numbered from 0 to {len(X) - 1}.")
    difference = X[a].astype(np.float64) - X[b].astype(np.float64)
    about = Told(
        f"What each column adds to the squared distance of rows {a} and {b} in this space.",
        f"各列对第 {a} 行与第 {b} 行在该空间中平方距离的贡献。",
    )
    parts = difference * (A @ (A.T @ difference))
    found = _ordered(columns, parts, np.arange(len(A)), True)
    return Explanation(found.columns, found.weights, True, about)


def _shares(A: Floats, X: Array) -> Floats:
    """Row sums of (A A^T) o C, with C the covariance of X: sum over axes of A o (C A)."""
    mean, C_A = X.mean(axis=0, dtype=np.float64), np.zeros_like(A)
    for part in spans(len(X), _rows_at_once(X)):
        rows = X[part] - mean
        with one_blas_thread():
            C_A += rows.T @ (rows @ A)
    return np.asarray((A * C_A).sum(axis=1) / max(1, len(X) - 1))


def _spread(X: Array, centre: Floats) -> Floats:
    """Standard deviation of each column."""
    squares = np.zeros(X.shape[1])
    for part in spans(len(X), _rows_at_once(X)):
        squares += ((X[part] - centre) ** 2).sum(axis=0)
    return np.asarray(np.sqrt(squares / len(X)))


def _rows_at_once(X: Array) -> int:
    return max(1, _CELLS_AT_ONCE // X.shape[1])


def linear_map(model: Any, X: Array) -> Floats | None:
    """A of x -> c + A^T x, (d, d'), if that is what the model does; else None.

    Found by moving one column at a time from the mean, and checked on rows of X.
    """
    d = X.shape[1]
    centre = X.mean(axis=0, dtype=np.float64)
    # A step that survives rounding, also along a column that is constant.
    least = float(np.finfo(X.dtype).eps) ** 0.5 * (1 + np.abs(centre))
    size = np.maximum(_spread(X, centre), least)
    start = centre.astype(X.dtype)
    origin = np.asarray(model.transform(start[None]), dtype=np.float64)[0]
    A = np.empty((d, len(origin)))
    for part in spans(d, max(1, _CELLS_AT_ONCE // d)):
        columns = np.arange(part.start, part.stop)
        probes = np.tile(start, (len(columns), 1))
        probes[np.arange(len(columns)), columns] = (centre + size)[columns]
        step = (centre + size)[columns].astype(X.dtype).astype(np.float64) - start[columns]
        images = np.asarray(model.transform(probes), dtype=np.float64)
        A[columns] = (images - origin) / step[:, None]
    rows = X[:: max(1, len(X) // 50)][:50]
    truth = np.asarray(model.transform(rows), dtype=np.float64)
    guess = origin + (rows.astype(np.float64) - start.astype(np.float64)) @ A
    slack = (1e-3 if X.dtype == np.float32 else 1e-7) * max(float(np.abs(truth).max()), 1e-300)
    return A if np.abs(guess - truth).max() <= slack else None


def _neighbours(Z: Any, k: int) -> Array:
    Z = np.ascontiguousarray(Z)
    return np.asarray(build_index(Z, metric="euclidean", k_hint=k).nearest(None, k)[1])


def _ordered(columns: tuple[str, ...], weights: Floats, which: Array, exact: bool) -> Explanation:
    order = np.argsort(-np.abs(weights), kind="stable")
    names = tuple(columns[int(which[i])] for i in order)
    return Explanation(names, weights[order], exact, _EXACT if exact else _SHUFFLED)
