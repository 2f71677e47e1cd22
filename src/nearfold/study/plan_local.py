"""What a fit needs of a table in memory or in files, method by method.

Each entry asks the functions by which the method itself decides, under the present budget, and
nothing of the rows. A method that is not listed gets the answer "no estimate".
"""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import Any

from nearfold.linalg import is_count, most_axes, scatter_bytes
from nearfold.linalg.principal_routes import first_route, route_bytes
from nearfold.messages import Message
from nearfold.methods.class_covariance import class_covariance_bytes
from nearfold.methods.classical_mds import distances_bytes
from nearfold.methods.dissimilarities import is_precomputed
from nearfold.methods.isomap_landmarks import graph_bytes, isomap_bytes
from nearfold.methods.kernel_low_rank import factor_bytes, rank_limits
from nearfold.methods.kernel_preimage import pivots_bytes, preimage_bytes
from nearfold.methods.kernel_routes import decide_route, given_bytes, kernel_bytes, linear_bytes
from nearfold.methods.landmark_mds import LandmarkCount
from nearfold.methods.lle_landmarks import MOST_ROWS, count_for_memory, landmark_bytes, lle_bytes
from nearfold.methods.truncated_axes import axes_kept, keeps_axes_only, merge_bytes
from nearfold.metrics.whitening import centred_factor_bytes
from nearfold.neighbors import is_euclidean, is_learner
from nearfold.neighbors.exact import index_bytes
from nearfold.study.plan_facts import FILE, UNKNOWN, Facts, Need, Size

MANY = float("inf")  # passes


def route(name: str, **values: Any) -> Message:
    """A route in words."""
    return Message(f"plan.route.{name}", **values)


def statistic_task(f: Facts, itemsize: int | None = None) -> float:
    """A block, centred, and its scatter; of a file also the text and columns it is made from."""
    centred = f.block_rows * f.d * (itemsize or f.itemsize)
    read = 3 * f.block_values if f.place == FILE else 0.0
    return read + centred + 8.0 * f.d * f.d


# ---- linear methods --------------------------------------------------------------------


def axes_need(f: Facts, n_components: Any, solver: str = "auto") -> tuple[str, Need]:
    """The first route to the principal axes, and what it needs."""
    if f.place == FILE:
        way, m, k = "factor" if solver == "full" else "scatter", 0, f.d
        most_axes(n_components, None, f.d)  # refuses what the fit refuses
    else:
        m, k = f.n, most_axes(n_components, f.n, f.d)
        way = first_route(m, f.d, f.itemsize, f.is_sparse, n_components, solver)
    size = route_bytes(way, m, f.d, k, f.itemsize)
    if way in ("implicit", "randomized"):  # which no fit compares with the budget
        return way, Need(route(way), 0.0, size + f.copied, f.block_values, passes=(MANY, MANY))
    passes = (1, 2 if way == "scatter" else 1)
    return way, Need(route(way), size, f.copied, statistic_task(f, 8), passes=passes)


def pca(estimator: Any, f: Facts) -> Need:
    """The scatter, or a route without it where the shape is better served by one."""
    return axes_need(f, estimator.n_components, estimator.svd_solver)[1]


def incremental_pca(estimator: Any, f: Facts) -> Need:
    """The scatter, or axes merged batch by batch."""
    if keeps_axes_only(f.d, estimator.truncate):
        kept = axes_kept(f.d, estimator.n_components)
        return Need(route("merged"), merge_bytes(f.d, kept), f.copied, 2 * f.block_values)
    return Need(route("scatter"), scatter_bytes(f.d), f.copied, statistic_task(f, 8), passes=(1, 2))


def lda(estimator: Any, f: Facts) -> Need:
    """The scatter within classes; covariances class by class, where they are shrunk so."""
    first = 2 if f.place == FILE else 1  # labels are counted first
    means = 0.0 if isnan(f.classes) else 32.0 * f.classes * f.d
    notes = (Message("plan.note.classes", each=8 * f.d),) if isnan(f.classes) else ()
    needed, way = scatter_bytes(f.d), "scatter"
    if estimator.shrinkage == "auto" or estimator.covariance_estimator is not None:
        largest = UNKNOWN if f.sizes is None else float(f.sizes.max())
        needed, way = max(needed, class_covariance_bytes(largest * f.d)), "classes"
    task = statistic_task(f, 8)
    return Need(route(way), needed, means + f.copied, task, passes=(first, first + 1), notes=notes)


def covariance(estimator: Any, f: Facts) -> Need:
    """Triangular factors of centred blocks."""
    rows = f.n if f.counted else None
    read = 3 * f.block_values if f.place == FILE else 0.0
    return Need(route("tsqr"), centred_factor_bytes(rows, f.d), f.copied, read, passes=(3, 3))


def rca(estimator: Any, f: Facts) -> Need:
    """Scatter and triangular factor within chunklets, and the means of these."""
    means = 0.0 if isnan(f.classes) else 32.0 * f.classes * f.d
    notes = (Message("plan.note.classes", each=8 * f.d),) if isnan(f.classes) else ()
    task = statistic_task(f, 8) + 16.0 * f.block_rows * f.d + 16.0 * f.d * f.d
    first = 5 if f.place == FILE else 3  # of a file the labels are counted first, by two passes
    return Need(route("tsqr"), scatter_bytes(f.d), means + f.copied, task,
                passes=(first, first + 1), notes=notes)  # fmt: skip


# ---- neighbours ------------------------------------------------------------------------


def search(estimator: Any, f: Facts) -> Need:
    """Nothing but the rows; the first search builds an index."""
    notes: tuple[Message, ...] = ()
    if is_learner(estimator.metric):
        notes = (Message("plan.note.learner"),)
    elif is_euclidean(estimator.metric, estimator.p or 2, estimator.metric_params):
        size = index_bytes(f.n, f.d)
        notes = () if f.is_sparse else (Message("plan.note.index", size=Size(size)),)
    labels = 48.0 * f.n if hasattr(estimator, "weights") else 0.0  # their numbers, sorted
    return Need(route("search"), 0.0, f.copied + labels, f.block_values / 2, notes=notes)


# ---- distances, kernels, graphs --------------------------------------------------------


def classical_mds(estimator: Any, f: Facts) -> Need:
    """PCA of the rows where distances are Euclidean; else all distances, or landmarks."""
    k = estimator.n_components
    euclidean = is_learner(estimator.metric) or is_euclidean(
        estimator.metric, 2, estimator.metric_params
    )
    if euclidean and estimator.n_landmarks is None:
        axes = min(k, f.d if f.place == FILE else min(f.n, f.d))
        found, coordinates = axes_need(f, axes)[1], 2.0 * f.m * k * f.itemsize
        beside = found.beside + coordinates
        return replace(found, route=route("coordinates"), beside=beside, passes=(2, 3))
    given = is_precomputed(estimator.metric)
    chosen = LandmarkCount.decide(
        f.n, k, estimator.n_landmarks, needed=distances_bytes(f.n, k, f.itemsize, given),
        itemsize=f.itemsize, method="landmark MDS",
    )  # fmt: skip
    return _landmarks(chosen, "distances", f)


def mds(estimator: Any, f: Facts) -> Need:
    """All distances, or those between landmarks, and steps that look at them again and again."""
    k, sizes = estimator.n_components, estimator.landmark_sizes(f.n, f.dtype)
    chosen = LandmarkCount.decide(f.n, k, estimator.n_landmarks, **sizes)
    return _landmarks(chosen, "stress", f)


def isomap(estimator: Any, f: Facts) -> Need:
    """All geodesics, or those to landmarks, of a graph in one piece."""
    k, near = estimator.n_components, estimator.n_neighbors
    entries = min(2.0 * f.n * (near or 0), float(f.n) * f.n)
    method = "FW" if estimator.path_method == "FW" else "D"
    chosen = LandmarkCount.decide(
        f.n, k, estimator.n_landmarks, itemsize=f.itemsize, method="landmark Isomap",
        needed=isomap_bytes([f.n], k, f.itemsize, method, estimator.n_jobs),
        held=graph_bytes(entries),
    )  # fmt: skip
    notes = [Message("plan.note.one_piece")]
    if near is None:
        notes.append(Message("plan.note.radius"))
    return _landmarks(chosen, "geodesics", f, notes)


def _landmarks(
    chosen: LandmarkCount, exact: str, f: Facts, notes: list[Message] | None = None
) -> Need:
    way = route(exact)
    if chosen.count is not None:
        way = route("landmarks", n=chosen.count, m=f.n, what=way)
    return Need(way, chosen.needed, f.copied, notes=tuple(notes or ()))


def lle(estimator: Any, f: Facts) -> Need:
    """Lists of neighbours, weights and a sparse factor; or those of landmarks."""
    k, count, method = estimator.n_neighbors, estimator.n_landmarks, estimator.method
    sizes = (f.n, f.d, f.itemsize, k, estimator.n_components, method)
    notes: tuple[Message, ...] = (Message("plan.note.fill"),)
    if count is None and estimator.eigen_solver == "auto":
        count = count_for_memory(*sizes)
        if count is None and f.n > MOST_ROWS:
            notes += (Message("plan.note.lle_time", n=MOST_ROWS),)
    if count is None or count >= f.n:
        return Need(route("lle"), lle_bytes(f.n, k, method), f.copied, notes=notes)
    fixed, each = landmark_bytes(*sizes)
    way = route("landmarks", n=count, m=f.n, what=route("lle"))
    return Need(way, fixed + each * count, f.copied, notes=notes)


def kernel_pca(estimator: Any, f: Facts) -> Need:
    """The kernel held, computed at each pass, or a factor of low rank."""
    m, low_rank = f.n, estimator.low_rank
    k = m if estimator.n_components is None else min(m, int(estimator.n_components))
    back = preimage_bytes(m, f.d) if estimator.fit_inverse_transform else 0.0
    if estimator.kernel == "precomputed":
        return Need(route("given"), given_bytes(m, k, f.itemsize, f.is_sparse), f.copied)
    if estimator.kernel == "linear" and isinstance(low_rank, str):
        k = min(m, f.d) if estimator.n_components is None else k
        found = axes_need(f, min(k, m, f.d))[1]
        needed = max(found.checked, linear_bytes(m, f.d, k, f.itemsize), back)
        return replace(found, route=route("linear"), checked=needed)
    kept = f.values if estimator.copy_X else 0.0
    way = decide_route(m, k, f.itemsize, low_rank, kept)
    if way != "low rank":
        needed = max(kernel_bytes(way, m, k, f.itemsize, kept), back)
        return Need(route(way), needed, f.copied, passes=(1, 1) if way == "held" else (MANY, MANY))
    r = min(rank_limits(low_rank, m, f.d, k, f.itemsize).most, m)
    needed = factor_bytes(m, f.d, r, k, f.itemsize)
    if back:
        needed = max(needed, pivots_bytes(r, f.d))
    return Need(route("low_rank", n=r), needed, f.copied)


def axes_of(n_components: Any, d: int) -> int:
    """Dimensions of a map."""
    return int(n_components) if is_count(n_components) else d


LOCAL: dict[str, Any] = {
    "PCA": pca,
    "IncrementalPCA": incremental_pca,
    "LinearDiscriminantAnalysis": lda,
    "Covariance": covariance,
    "RCA": rca,
    "RCA_Supervised": rca,
    "ClassicalMDS": classical_mds,
    "MDS": mds,
    "Isomap": isomap,
    "LocallyLinearEmbedding": lle,
    "KernelPCA": kernel_pca,
} | dict.fromkeys(
    (
        "NearestNeighbors", "KNeighborsTransformer", "RadiusNeighborsTransformer",
        "KNeighborsClassifier", "KNeighborsRegressor", "RadiusNeighborsClassifier",
        "RadiusNeighborsRegressor",
    ),
    search,
)  # fmt: skip
STREAMED = ("PCA", "IncrementalPCA", "LinearDiscriminantAnalysis", "Covariance", "RCA",
            "ClassicalMDS")  # fmt: skip
