"""What a fit on a Dask table needs, method by method: the one place to say it for a new one.

An entry states what a task holds (in a worker), what comes to this process and stays there, and
how often the table is read. The number of rows may be unknown (NaN): then so is what depends on it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from nearfold.errors import InputError
from nearfold.linalg import is_count, scatter_bytes
from nearfold.messages import Message
from nearfold.methods.kernel_low_rank import factor_bytes, rank_limits
from nearfold.metrics.pair_blocks import blocks_bytes
from nearfold.metrics.whitening import centred_factor_bytes
from nearfold.neighbors import is_learner
from nearfold.neighbors.exact import index_bytes
from nearfold.study.plan_facts import UNKNOWN, Facts, Need
from nearfold.study.plan_local import isomap as isomap_here
from nearfold.study.plan_local import lle as lle_here
from nearfold.study.plan_local import route
from nearfold.study.plan_metrics import dimensions
from nearfold.study.plan_metrics import nca as nca_here

_BLOCK = 16 * 1024**2  # of a part that is worked on at a time, centred
_COUNTS = 1000.0  # about what the counts of a part's labels take
_SAMPLE, _EXTRA = 10, 10  # rows looked at for each landmark; axes beside those asked for


def _part(f: Facts, statistic: float = 0.0) -> float:
    """A part as stored and as floats, a block of it centred, and two statistics being joined."""
    return 2 * f.block_values + _BLOCK + 2 * statistic


def scatter(estimator: Any, f: Facts) -> Need:
    """PCA and IncrementalPCA: one scatter comes here."""
    size = 8.0 * f.d * f.d
    moved = size + 8.0 * f.d
    return Need(route("scatter"), scatter_bytes(f.d), task=_part(f, size), moved=2 * moved,
                passes=(1, 2))  # fmt: skip


def lda(estimator: Any, f: Facts) -> Need:
    """The scatter within classes and the means; counts of labels from each part."""
    size = 8.0 * f.d * f.d
    means, notes = _class_means(f)
    moved = 2 * (size + means) + _COUNTS * f.blocks
    return Need(route("scatter"), scatter_bytes(f.d), 4 * means, _part(f, size + means), moved,
                (2, 3), notes)  # fmt: skip


def triangle(estimator: Any, f: Facts) -> Need:
    """Covariance: the mean, largest values and one triangular factor come here."""
    size, means = 8.0 * f.d * f.d, 16.0 * f.d
    needed = centred_factor_bytes(f.n if f.counted else None, f.d)
    return Need(route("tsqr"), needed, means, _part(f, 3 * size), size + 2 * means, (3, 3))


def rca(estimator: Any, f: Facts) -> Need:
    """Counts of labels, twice; scatter and triangular factor within chunklets, and their means."""
    means, notes = _class_means(f)
    size = 16.0 * f.d * f.d + means
    moved = 2 * size + 24.0 * f.d + 2 * _COUNTS * f.blocks
    return Need(route("tsqr"), scatter_bytes(f.d), 4 * means, _part(f, 3 * size), moved,
                (5, 6), notes)  # fmt: skip


def _class_means(f: Facts) -> tuple[float, tuple[Message, ...]]:
    if np.isnan(f.classes):
        return 0.0, (Message("plan.note.classes", each=8 * f.d),)
    return 8.0 * f.classes * f.d, ()


def search(estimator: Any, f: Facts) -> Need:
    """An index for each part, which stays there; centres, and y of all rows, come here."""
    if estimator.algorithm == "approximate":
        raise InputError(Message("cluster.not_fitted", name=type(estimator).__name__))
    centres = 8.0 * f.blocks * f.d
    labels = 8.0 * f.m if hasattr(estimator, "weights") else 0.0
    notes: tuple[Message, ...] = (Message("plan.note.parts"),)
    if is_learner(estimator.metric):
        notes = (*notes, Message("plan.note.learner"))
    return Need(route("parts"), labels, centres + 5 * labels, _search_task(f),
                centres + labels, (1, 1), notes)  # fmt: skip


def classical_mds(estimator: Any, f: Facts) -> Need:
    """PCA of the rows; their coordinates come here."""
    if estimator.n_landmarks is not None:
        return landmark_mds(estimator, f)
    found, placed = scatter(estimator, f), f.m * estimator.n_components * f.itemsize
    return Need(route("coordinates"), found.checked, 2 * placed, found.task,
                found.moved + placed, (2, 3))  # fmt: skip


def landmark_mds(estimator: Any, f: Facts) -> Need:
    """Ten rows for each landmark come here, then the coordinates of all, placed where they are."""
    L, k = estimator.n_landmarks, estimator.n_components
    if L is None:
        raise InputError(Message("cluster.not_fitted", name=type(estimator).__name__))
    order = 0.0
    if hasattr(estimator, "landmark_sizes"):  # MDS: steps that lower the stress
        order = estimator.landmark_sizes(1, f.dtype)["per_pair"]
    rows, placed = _SAMPLE * L * f.d * f.itemsize, f.m * (k + _EXTRA) * f.itemsize
    needed = (order or 48.0) * L**2 + 24.0 * f.m * (k + _EXTRA)
    way = route("landmarks", n=L, m=f.n if f.counted else Message("plan.unknown"),
                what=route("distances"))  # fmt: skip
    return Need(way, needed, 2 * rows, _part(f), rows + placed, (2, 3))


def isomap(estimator: Any, f: Facts) -> Need:
    """Neighbour lists come here, and geodesics are found here, as of a table in memory."""
    if not f.counted:
        return Need(route("geodesics"), UNKNOWN, UNKNOWN, _search_task(f), UNKNOWN)
    found, lists = isomap_here(estimator, f), 16.0 * f.m * (estimator.n_neighbors or 0)
    return replace(found, checked=max(found.checked, 2 * lists), task=_search_task(f),
                   moved=lists + 8.0 * f.blocks * f.d, passes=(2, 2))  # fmt: skip


def lle(estimator: Any, f: Facts) -> Need:
    """Neighbour lists and weights come here; the sparse problem is solved here."""
    if not f.counted:
        return Need(route("lle"), UNKNOWN, UNKNOWN, _search_task(f), UNKNOWN)
    found, near = lle_here(estimator, f), estimator.n_neighbors
    if found.route.id == "plan.route.landmarks":
        rows = float(found.route.values["n"]) * f.d * f.itemsize
        placed = f.m * estimator.n_components * f.itemsize
        return replace(found, task=_part(f), moved=2 * rows + placed, passes=(2, 3))
    lists = 16.0 * f.m * near
    return replace(found, checked=max(found.checked, 2 * lists), task=_search_task(f),
                   moved=1.5 * lists + 8.0 * f.blocks * f.d, passes=(2, 2))  # fmt: skip


def _search_task(f: Facts) -> float:
    if np.isnan(f.block_rows):
        return UNKNOWN
    return 2 * f.block_values + index_bytes(int(f.block_rows), f.d)


def kernel_pca(estimator: Any, f: Facts) -> Need:
    """The parts of a factor of low rank stay where the rows are; pivots and V come here.

    So do, in each round, the rows that are proposed as pivots and what the diagonal loses.
    """
    n, d = estimator.n_components, f.d
    if not f.counted or not is_count(n):
        return Need(
            route("low_rank", n=Message("plan.unknown")), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, (1, 2)
        )
    r = min(f.n, rank_limits(estimator.low_rank, f.n, d, n, f.itemsize).most)
    pivots, V = r * d * f.itemsize, f.m * n * f.itemsize
    needed = factor_bytes(0, d, r, n, f.itemsize) + 4 * V
    task = _part(f) + 1.2 * f.block_rows * r * f.itemsize + 8.0 * r * r
    rounds = 2 + r / 64  # of at most 128 rows, of which about half become pivots
    moved = 3 * pivots + V + (8.0 + 3 * f.itemsize) * r * r + 8.0 * f.m * rounds
    return Need(route("low_rank", n=r), needed, pivots, task, moved, (3, 3))


def nca(estimator: Any, f: Facts) -> Need:
    """Labels come here, and the rows of each pass over batches: all at once, if they are few."""
    r, row = dimensions(estimator, f.d), float(f.d * f.itemsize)
    if not f.counted:
        return Need(route("pairs", n=Message("plan.unknown")), UNKNOWN, UNKNOWN, _part(f), UNKNOWN)
    seen = estimator.rows_of_passes(f.n)
    at_once = seen // estimator.n_epochs
    if at_once == f.n:
        found = nca_here(estimator, f)
        return replace(found, beside=found.beside + 24.0 * f.m + f.m * row, task=_part(f),
                       moved=f.m * (row + 8.0), passes=(2, 3))  # fmt: skip
    _, compared = clone(estimator).set_params(solver="stochastic").choose_solver(f.n, r)
    way = route("batches", n=seen, batch=estimator.batch_size)
    beside = 2 * at_once * row + 48.0 * f.m  # rows of a pass; labels, and the order of all rows
    passes = 3.0 + estimator.n_epochs
    moved = (seen + at_once) * row + 24.0 * f.m
    return Need(way, blocks_bytes(compared, r, f.itemsize), beside, _part(f), moved,
                (passes, passes))  # fmt: skip


CLUSTER: dict[str, Any] = {
    "PCA": scatter,
    "IncrementalPCA": scatter,
    "LinearDiscriminantAnalysis": lda,
    "Covariance": triangle,
    "RCA": rca,
    "NearestNeighbors": search,
    "KNeighborsTransformer": search,
    "RadiusNeighborsTransformer": search,
    "KNeighborsClassifier": search,
    "KNeighborsRegressor": search,
    "RadiusNeighborsClassifier": search,
    "RadiusNeighborsRegressor": search,
    "ClassicalMDS": classical_mds,
    "MDS": landmark_mds,
    "Isomap": isomap,
    "LocallyLinearEmbedding": lle,
    "KernelPCA": kernel_pca,
    "NeighborhoodComponentsAnalysis": nca,
}
