"""What a fit of a metric learner needs of a table in memory, by the learner's own estimate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearfold.linalg import is_count
from nearfold.messages import Message
from nearfold.metrics import itml, lfda, lmnn, lsml, mlkr, mmc, scml, sdml
from nearfold.metrics.drawing import default_count
from nearfold.metrics.impostors import listed_pairs
from nearfold.metrics.pair_blocks import blocks_bytes
from nearfold.metrics.preparation import matrices_bytes
from nearfold.metrics.scml_bases import bases_bytes, count_bases
from nearfold.study.plan_facts import UNKNOWN, Facts, Need
from nearfold.study.plan_local import MANY, route

_COPIES = 2.0  # of the rows: in the canonical order, and centred


def dimensions(estimator: Any, d: int) -> int:
    """Of the learned map, as far as they are known beforehand."""
    if isinstance(getattr(estimator, "init", None), np.ndarray):
        return len(estimator.init)
    return int(estimator.n_components) if is_count(estimator.n_components) else d


def _all_pairs(f: Facts, rows: int, r: int, way: Message, pairs: float = 0.0) -> Need:
    needed = blocks_bytes(rows, r, f.itemsize, pairs)
    return Need(way, needed, f.copied + _COPIES * f.values, passes=(MANY, MANY))


def nca(estimator: Any, f: Facts) -> Need:
    """All pairs of rows in blocks; beyond a bound on the work, batches against candidates."""
    r = dimensions(estimator, f.d)
    solver, compared = estimator.choose_solver(f.n, r)
    if solver == "lbfgs":
        return _all_pairs(f, compared, r, route("pairs", n=compared))
    way = route("batches", n=estimator.rows_of_passes(f.n), batch=estimator.batch_size)
    return _all_pairs(f, compared, r, way)


def weighted_euclidean(estimator: Any, f: Facts) -> Need:
    """All pairs of rows; from pairs that are given, only those."""
    if f.is_tuples:
        return Need(route("tuples", n=f.n), 0.0, 3 * f.values)
    return _all_pairs(f, f.n, f.d, route("pairs", n=f.n))


def lmnn_need(estimator: Any, f: Facts) -> Need:
    """All pairs of rows, or of a sample of them."""
    n = min(f.n, lmnn.most_rows(estimator.max_samples))
    way = route("pairs" if n == f.n else "sample", n=n)
    return _all_pairs(f, n, dimensions(estimator, f.d), way, listed_pairs(n))


def mlkr_need(estimator: Any, f: Facts) -> Need:
    """The same for the regression."""
    r = dimensions(estimator, f.d)
    asked = estimator.max_samples
    n = min(f.n, mlkr.most_rows(r, estimator.max_iter) if asked is None else asked)
    return _all_pairs(f, n, r, route("pairs" if n == f.n else "sample", n=n))


def lfda_need(estimator: Any, f: Facts) -> Need:
    """Affinities within classes, block by block."""
    if f.sizes is None:
        return Need(route("affinities"), UNKNOWN, notes=(Message("plan.note.labels"),))
    asked = estimator.max_samples
    n = min(f.n, lfda.most_rows(f.sizes, f.d) if asked is None else asked)
    largest = -(-int(f.sizes.max()) * n // f.n)
    way = route("affinities") if n == f.n else route("sample", n=n)
    return Need(way, lfda.lfda_bytes(n, f.d, largest), f.copied)


def from_tuples(matrices: Callable[[int], float], tables: float) -> Callable[[Any, Facts], Need]:
    """The need of a learner whose solver holds matrices (d, d) and tables of its tuples."""

    def need(estimator: Any, f: Facts) -> Need:
        n, notes = _tuples(estimator, f)
        solver = matrices_bytes(f.d, matrices(f.d), n, tables)
        way = route("tuples", n=n) if n else route("pairs_given")
        return Need(way, solver, f.copied + f.values, passes=(MANY, MANY), notes=notes)

    return need


def _tuples(estimator: Any, f: Facts) -> tuple[int, tuple[Message, ...]]:
    """How many tuples are learned from; 0 and a note where only the fit is told."""
    if f.is_tuples:
        return f.n, ()
    if np.isnan(f.classes):
        return 0, (Message("plan.note.pairs"),)
    return 2 * default_count(int(f.classes), estimator.n_constraints), ()


def scml_need(estimator: Any, f: Facts) -> Need:
    """The points along all bases, and linear programs over some triplets."""
    if f.is_tuples:
        n_triplets, points, classes = f.n, 3 * f.n, 0
    elif np.isnan(f.classes) or not hasattr(estimator, "k_genuine"):
        return Need(
            route("bases", n=Message("plan.unknown")), UNKNOWN, notes=(Message("plan.note.pairs"),)
        )
    else:
        classes = int(f.classes)
        K = count_bases(estimator.basis, estimator.n_basis, f.n, f.d, classes)
        asked = estimator.max_samples
        points = min(f.n, scml.most_rows(K) if asked is None else asked)
        n_triplets = points * estimator.k_genuine * estimator.k_impostor
    K = count_bases(estimator.basis, estimator.n_basis, points, f.d, classes)
    needed = bases_bytes(K, points, f.d, n_triplets)
    return Need(route("bases", n=K), needed, f.copied, passes=(MANY, MANY))


_MMC = from_tuples(mmc.matrices_held, mmc.TABLES)
_ITML = from_tuples(lambda d: itml.MATRICES, itml.TABLES)
_LSML = from_tuples(lambda d: lsml.MATRICES, lsml.TABLES)
_SDML = from_tuples(lambda d: sdml.MATRICES, sdml.TABLES)
METRICS: dict[str, Any] = {
    "NeighborhoodComponentsAnalysis": nca,
    "WeightedEuclidean": weighted_euclidean,
    "LMNN": lmnn_need,
    "MLKR": mlkr_need,
    "LFDA": lfda_need,
    "MMC": _MMC,
    "MMC_Supervised": _MMC,
    "ITML": _ITML,
    "ITML_Supervised": _ITML,
    "LSML": _LSML,
    "LSML_Supervised": _LSML,
    "SDML": _SDML,
    "SDML_Supervised": _SDML,
    "SCML": scml_need,
    "SCML_Supervised": scml_need,
}
