"""What a fit on a Dask table needs, method by method: the one place to say it for a new one.

An entry states what a task holds (in a worker), what comes to this process and stays there, and
how often the table is read. The number of rows may be unknown (NaN): then so is what depends on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.linalg import is_count, scatter_bytes
from nearfold.messages import Message
from nearfold.methods.isomap_landmarks import graph_bytes
from nearfold.methods.kernel_low_rank import factor_bytes, rank_limits
from nearfold.methods.landmark_mds import LandmarkCount
from nearfold.methods.lle_landmarks import lle_bytes
from nearfold.metrics.pair_blocks import blocks_bytes
from nearfold.metrics.whitening import centred_factor_bytes
from nearfold.neighbors import is_learner
from nearfold.neighbors.exact import index_bytes
from nearfold.study.plan_facts import UNKNOWN, Facts, Need
from nearfold.study.plan_local import route
from nearfold.study.plan_metrics import dimensions

_BLOCK = 16 * 1024**2  # of a part that is worked on at a time, centred
_COUNTS = 1000.0  # about what the counts of a part's labels take
_SAMPLE = 10  # rows looked at for each landmark


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
    index = UNKNOWN if np.isnan(f.block_rows) else index_bytes(int(f.block_rows), f.d)
    notes: tuple[Message, ...] = (Message("plan.note.parts"),)
    if is_learner(estimator.metric):
        notes = (*notes, Message("plan.note.learner"))
    return Need(route("parts"), labels, centres + 5 * labels, 2 * f.block_values + index,
                centres + labels, (1, 1), notes)  # fmt: skip


def classical_mds(estimator: Any, f: Facts) -> Need:
    """PCA of the rows; their coordinates come here."""
    if estimator.n_landmarks is not None:
        return landmark_mds(estimator, f)
    found, placed = scatter(estimator, f), f.m * estimator.n_components * f.itemsize
    return Need(route("coordinates"), found.checked, 2 * placed, found.task,
                found.moved + placed, (2, 3))  # fmt: skip


def landmark_mds(estimator: Any, f: Facts) -> Need:
    """Landmarks come here and are embedded; all rows are placed where they are."""
    return _landmarks(estimator, f, "distances", 0.0, 0.0)


def isomap(estimator: Any, f: Facts) -> Need:
    """The graph of n k edges comes here, and geodesics (n, L) to landmarks are found here."""
    near = estimator.n_neighbors or 0
    lists = 16.0 * f.m * (near + 1)
    return _landmarks(estimator, f, "geodesics", graph_bytes(2 * f.m * near), lists)


def _landmarks(estimator: Any, f: Facts, what: str, held: float, gathered: float) -> Need:
    k, placed = estimator.n_components, f.m * estimator.n_components * f.itemsize
    task = _part(f) + (0.0 if np.isnan(f.block_rows) else index_bytes(int(f.block_rows), f.d))
    if not f.counted:
        return Need(route(what), UNKNOWN, UNKNOWN, task, UNKNOWN, (2, 3))
    chosen = LandmarkCount.decide(
        f.n, k, estimator.n_landmarks, needed=float("inf"), itemsize=f.itemsize,
        method=type(estimator).__name__, held=held,
    )  # fmt: skip
    rows = _SAMPLE * (chosen.count or 0) * f.d * f.itemsize
    way = route("landmarks", n=chosen.count or 0, m=f.n, what=route(what))
    return Need(way, chosen.needed, rows + gathered, task, rows + gathered + placed, (2, 3))


def lle(estimator: Any, f: Facts) -> Need:
    """Neighbours and weights of n k entries come here; the sparse problem is solved here."""
    k = estimator.n_neighbors
    gathered = 24.0 * f.m * k
    needed = lle_bytes(f.n, k, estimator.method) if f.counted else UNKNOWN
    index = UNKNOWN if np.isnan(f.block_rows) else index_bytes(int(f.block_rows), f.d)
    return Need(route("lle"), needed, gathered, _part(f) + index, gathered, (2, 2),
                (Message("plan.note.fill"),))  # fmt: skip


def kernel_pca(estimator: Any, f: Facts) -> Need:
    """The parts of a factor of low rank stay where the rows are; pivots and V come here."""
    n, d = estimator.n_components, f.d
    if not f.counted or not is_count(n):
        return Need(route("low_rank", n=0), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, (1, 2))
    r = min(f.n, rank_limits(estimator.low_rank, f.n, d, n, f.itemsize).most)
    pivots, V = r * d * f.itemsize, f.m * n * f.itemsize
    needed = factor_bytes(0, d, r, n, f.itemsize) + 4 * V
    task = _part(f) + 1.2 * f.block_rows * r * f.itemsize + 8.0 * r * r
    return Need(route("low_rank", n=r), needed, pivots, task, pivots + V + 8.0 * r * r, (1, 2))


def nca(estimator: Any, f: Facts) -> Need:
    """The rows of each pass over batches, at most 100,000 at a time, come here."""
    r = dimensions(estimator, f.d)
    if not f.counted:
        return Need(route("pairs", n=0), UNKNOWN, UNKNOWN, _part(f), UNKNOWN)
    solver, compared = estimator.choose_solver(f.n, r)
    seen = f.n if solver == "lbfgs" else estimator.rows_of_passes(f.n)
    once = f.n if solver == "lbfgs" else seen / max(1, estimator.n_epochs)
    way = route("pairs", n=compared)
    if solver != "lbfgs":
        way = route("batches", n=seen, batch=estimator.batch_size)
    row = f.d * f.itemsize
    passes = 2.0 if solver == "lbfgs" else 2.0 + estimator.n_epochs
    return Need(way, blocks_bytes(compared, r, f.itemsize) + once * row, once * row, _part(f),
                seen * row + 8.0 * f.m, (passes, passes))  # fmt: skip


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
# Planned, but not fitted on a Dask table yet: a name leaves this set with its fit.
COMING = {
    "MDS", "Isomap", "LocallyLinearEmbedding", "KernelPCA",
    "NeighborhoodComponentsAnalysis",
}  # fmt: skip
