"""Approximate neighbours with a certificate, for graphs and searches on large tables.

Steps
  1. cells of about 128 near rows each, by two levels of k-means                      (cells.py)
  2. a random sample of the queries is searched exactly. Some of them show how many cells must be
     probed; the others are kept for the certificate
  3. every query probes its nearest cells by dense products, and keeps the best      (probing.py)
  4. the graph of the rows themselves: rounds of neighbour descent, each row trying the neighbours
     of its neighbours                                                        (kernels/walk.py)
  5. the true distances of the candidates in float64 decide
  6. the certificate: the lists proven exact, and the recall of the sample       (certificate.py)
  7. three times as many cells until the recall asked for is certified; in the end all of them

New rows are searched by their cells alone: a walk over the graph of the fitted rows would make the
answer depend on whether that graph had been asked for. Few rows or columns, few queries, and values
that float32 cannot hold are left to the exact engine, and the certificate says that all is proven.

Cost: 128 p products per row for p cells, some hundreds in each round of descent. Memory: 4 n d
bytes (twice that while cells are built) and about 40 per neighbour asked for.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks import require_memory, spans
from nearfold.errors import ApproximationWarning, InputError, warn
from nearfold.inputs import refuse_nonfinite
from nearfold.messages import Message
from nearfold.neighbors.approximate_search import Search, candidates_of, sample_count
from nearfold.neighbors.cells import Cells, make_cells
from nearfold.neighbors.certificate import Certificate, exact_certificate
from nearfold.neighbors.cosine import angle_squares, unit_rows
from nearfold.neighbors.distances import is_euclidean
from nearfold.neighbors.exact import EuclideanIndex
from nearfold.neighbors.learned import LearnedIndex, fitted_learner, is_learner, to_learned_space
from nearfold.neighbors.metric import MetricIndex
from nearfold.neighbors.probing import WALK
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order
from nearfold.run import random_state as make_random_state
from nearfold.state import Sizes, State, array, names, number, optional, require, text

_FEW_ROWS = 10_000  # up to here the exact engine is as fast
_FEW_COLUMNS = 8  # up to here it has a tree
_LARGEST = 1e15  # beyond it float32 scores might overflow
_BLOCK = 4096


def _check_recall(values: dict[str, Any], sizes: Sizes) -> None:
    require(0 < values["recall"] < 1, "recall: not between 0 and 1")


class ApproximateIndex:
    """Dense rows under the Euclidean or cosine distance, searched approximately.

    `certificate(k)` is that of the lists of the rows themselves, `query_certificate` that of the
    last search for other queries.
    """

    fitted_state = State(
        _check_recall,
        X=array("n d", large=True),
        metric=text("euclidean", "cosine"),
        recall=number(),
        seed=number(least=0, whole=True),
        n_jobs=optional(number(whole=True)),
        names=optional(names("d")),
    )

    searches_at_once = True  # queries are not to be cut into blocks

    def __init__(
        self,
        X: Array,
        metric: str = "euclidean",
        recall: float = 0.95,
        seed: int = 0,
        n_jobs: int | None = None,
        names: Any = None,
    ) -> None:
        self.X = X
        self.metric = metric
        self.recall = recall
        self.seed = seed
        self.n_jobs = n_jobs
        self.names = names
        refuse_nonfinite(X, names)
        self._forget()

    def _forget(self) -> None:
        self.certificates: dict[int, Certificate] = {}
        self.query_certificate: Certificate | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows searched."""
        return int(self.X.shape[0])

    def certificate(self, k: int) -> Certificate:
        """That of the k nearest of the rows themselves, which are searched if they were not yet."""
        if k not in self.certificates:
            self.nearest(None, k)
        return self.certificates[k]

    def part(self, rows: Any) -> ApproximateIndex:
        """An index of some of the rows."""
        return ApproximateIndex(**{**self.__getstate__(), "X": self.X[rows]})

    def without_structures(self) -> ApproximateIndex:
        """The same index without what its searches have built, but with what they certified."""
        fresh = copy(self)
        fresh.certificates = dict(self.certificates)
        return fresh

    def within(self, Q: Any, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius, exactly: (query, row, distance), sorted."""
        return self.exact.within(Q, radius)

    def nearest(self, Q: Any, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        if sparse.issparse(Q):
            Q = Q.toarray()
        m = self.n_rows if Q is None else len(Q)
        few = m <= sample_count(self.recall)
        if few or self._is_small(k) or not self._fits_float32(Q):
            found = self.exact.nearest(Q, k)
            certificate = exact_certificate(m, k, self.recall)
        else:
            self._require_memory(m, k)
            found, certificate = Search(self, Q, k).run()
        if Q is None:
            self.certificates[k] = certificate
        else:
            self.query_certificate = certificate
        if not certificate.holds:
            warn(
                Message("warn.recall", asked=f"{self.recall:g}", low=f"{certificate.low:.3f}",
                        high=f"{certificate.high:.3f}"),
                ApproximationWarning,
            )  # fmt: skip
        return found

    def squares(self, Q: Array, i: Ints, j: Ints) -> Floats:
        """The squared distances that decide, of some pairs of queries and rows."""
        if self.metric == "cosine":
            return angle_squares(Q, self.X, i, j)
        from nearfold.kernels.screen import measure_pairs

        return np.asarray(measure_pairs(Q, self.X, i, j))

    def distances(self, squares: Floats) -> Floats:
        """Distances from squared ones."""
        return squares / 2 if self.metric == "cosine" else np.sqrt(squares)

    @cached_property
    def cells(self) -> Cells:
        """The rows in cells."""
        return make_cells(self.placed(self.X, True), self.seed, self.n_jobs)

    @cached_property
    def scale(self) -> tuple[Floats, float]:
        """The centre of the rows, and the power of two that brings values about it to one."""
        if self.metric == "cosine":
            return np.zeros(self.X.shape[1] + 2), 1.0
        centre = self.X.mean(axis=0, dtype=np.float64).astype(self.X.dtype)
        width = max(float((self.X.max(axis=0) - centre).max()),
                    float((centre - self.X.min(axis=0)).max()))  # fmt: skip
        return centre, float(np.ldexp(1.0, -int(np.frexp(width)[1]))) if width else 1.0

    def placed(self, A: Array, is_row: bool) -> Array:
        """Rows or queries in float32, where scores are computed."""
        centre, scale = self.scale
        placed = np.empty((len(A), len(centre)), dtype=np.float32)

        def place(span: slice) -> None:
            rows = unit_rows(A[span], is_row) if self.metric == "cosine" else A[span]
            np.multiply(rows - centre, scale, out=placed[span], casting="same_kind")

        for _ in map_in_order(place, spans(len(A), _BLOCK), n_jobs=self.n_jobs):
            pass
        return placed

    @cached_property
    def exact(self) -> EuclideanIndex | MetricIndex:
        """The exact engine over the same rows."""
        if self.metric == "cosine":
            return MetricIndex(self.X, metric="cosine", n_jobs=self.n_jobs, names=self.names)
        return EuclideanIndex(self.X, self.n_jobs, names=self.names)

    def _is_small(self, k: int) -> bool:
        n, d = self.X.shape
        return n <= max(_FEW_ROWS, 64 * k) or d <= _FEW_COLUMNS

    def _fits_float32(self, Q: Any) -> bool:
        if self.metric == "cosine":  # rows without an angle have no place
            return all((A != 0).any(axis=1).all() for A in (self.X, Q) if A is not None)
        sizes = [refuse_nonfinite(A, self.names) for A in (self.X, Q) if A is not None]
        if not all(size == 0 or 1e-140 < size < 1e140 for size in sizes):
            return False
        return Q is None or float(np.abs(Q - self.scale[0]).max()) * self.scale[1] < _LARGEST

    def _require_memory(self, m: int, k: int) -> None:
        width = candidates_of(k)
        # Points twice while they are put in order; scores, places and two rounds of lists.
        needed = 8.0 * self.X.size + m * (17.0 * width + 5.0 * WALK + 16.0 * k + 64)
        needed += 0.0 if m == self.n_rows else 8.0 * m * self.X.shape[1]
        require_memory(needed, f"An approximate search of {m:,} rows", 'Use algorithm="auto".')

    def __getstate__(self) -> dict[str, Any]:
        """The rows and options: cells are built again, from the same seed."""
        return {name: getattr(self, name) for name in self.fitted_state.fields}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()


def approximate_index(
    X: Any,
    metric: Any,
    p: float,
    metric_params: dict[str, Any] | None,
    *,
    recall: float,
    random_state: Any,
    n_jobs: int | None,
    names: Any,
    y: Any,
) -> ApproximateIndex | LearnedIndex:
    """An approximate index under the Euclidean, the cosine or a learned metric; refuses others.

    No random state is the seed 0: the answer is the same every time.
    """
    seed = 0 if random_state is None else random_state
    if not isinstance(seed, int | np.integer):
        seed = make_random_state(seed).randint(2**31 - 1)
    options: dict[str, Any] = {"recall": float(recall), "seed": int(seed), "n_jobs": n_jobs}
    if is_learner(metric) and not metric_params:
        learner = fitted_learner(metric, X, y)
        index = ApproximateIndex(to_learned_space(learner, X), **options)
        return LearnedIndex(X, learner, index)
    kind = "euclidean" if is_euclidean(metric, p, metric_params) else metric
    known = isinstance(kind, str) and kind in ("euclidean", "cosine") and not metric_params
    if not known or sparse.issparse(X):
        raise InputError(Message("warn.not_approximate"))
    return ApproximateIndex(X, kind, **options, names=names)
