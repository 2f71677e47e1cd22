"""The exact engine: which rows are nearest, by the cheapest route to the exact answer.

    Euclidean, at most 8 features            SciPy's KD-tree              (external.py)
    Euclidean, a small problem, or one whose
    sketch exceeds the memory budget         tiles of products in NumPy   (plain.py)
    Euclidean, otherwise                     our pruned search            (pruned.py)
    a learned metric                         Euclidean, after the map     (learned.py)
    any other metric, sparse rows            scikit-learn's trees, tiles  (metric.py)
    precomputed distances                                                 (precomputed.py)

The approximate engine, which is asked for by name, is in approximate.py.

All of them return distances and row numbers, nearest first, equal distances in order of row
number; asked for the neighbours of the indexed rows themselves (Q None) they leave each row out of
its own list by its index, so duplicates stay.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy import sparse

from nearfold.blocks import get_memory, spans
from nearfold.errors import InputError
from nearfold.inputs import refuse_nonfinite
from nearfold.neighbors.distances import is_euclidean
from nearfold.neighbors.external import TreeIndex, tree_bytes
from nearfold.neighbors.learned import LearnedIndex, fitted_learner, is_learner, to_learned_space
from nearfold.neighbors.metric import MetricIndex
from nearfold.neighbors.pairs import radii
from nearfold.neighbors.plain import PlainIndex
from nearfold.neighbors.precomputed import PrecomputedIndex
from nearfold.neighbors.pruned import PrunedIndex
from nearfold.neighbors.selection import unfilled
from nearfold.neighbors.sketch import CannotSketch, sketch_bytes
from nearfold.notation import Array, Floats, Ints
from nearfold.state import Sizes, State, any_of, array, names, number, optional, require

if TYPE_CHECKING:
    from nearfold.neighbors.approximate import ApproximateIndex

_TREE_FEATURES = 8  # beyond it the tree visits too much: measured, uniform and low-rank data
_PLAIN_PAIRS = 25_000_000  # below this size JIT compilation would dominate
_LARGE_CELLS = 2**22  # values of a table that is large: few queries at a time add up
_PLAIN_CELLS = 2**32  # values read by such queries before an index is built: its price, roughly
_PASS = 64  # queries answered by one pass over the rows
_LARGE, _SMALL = 1e140, 1e-140  # outside, squares of float64 might overflow or vanish
_DENSE_CELLS = 2**20  # values of sparse queries made dense at a time


class Index(Protocol):
    """Rows under a metric, ready to be searched."""

    X: Any  # the rows as they were given

    @property
    def n_rows(self) -> int:
        """Number of rows searched."""

    def nearest(self, Q: Any, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""

    def within(self, Q: Any, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""

    def part(self, rows: Any) -> Index:
        """An index of some of the rows under the same metric."""


def _check_largest(values: dict[str, Any], sizes: Sizes) -> None:
    X = values["X"]
    size = max(float(X.max(initial=0)), -float(X.min(initial=0)))  # no copy of X
    require(size <= values["largest"] * (1 + 1e-6), "largest is smaller")


class EuclideanIndex:
    """Dense rows under the Euclidean distance; picks plain, tree or pruned search."""

    fitted_state = State(
        _check_largest,
        X=array("n d", large=True),
        n_jobs=optional(number(whole=True)),
        k_hint=number(least=1, whole=True),
        names=optional(any_of(names("d"))),
        largest=number(least=0),
    )

    def __init__(
        self, X: Array, n_jobs: int | None = None, k_hint: int = 5, names: Any = None
    ) -> None:
        self.X = X
        self.n_jobs = n_jobs
        self.k_hint = k_hint
        self.names = names
        self.largest = refuse_nonfinite(X, names)  # no value is larger
        self._forget()

    def _forget(self) -> None:
        self._plain: PlainIndex | None = None
        self._heavy: TreeIndex | PrunedIndex | PlainIndex | None = None
        self._cells_read = 0

    @property
    def n_rows(self) -> int:
        """Number of rows searched."""
        return int(self.X.shape[0])

    def part(self, rows: Any) -> EuclideanIndex:
        """An index of some of the rows."""
        return EuclideanIndex(self.X[rows], self.n_jobs, self.k_hint, self.names)

    def without_structures(self) -> EuclideanIndex:
        """The same index without the sketches and trees that its searches have built."""
        return copy(self)

    def nearest(self, Q: Any, k: int, limit: Floats | None = None) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded.

        With a `limit` (m,), which bounds the k-th distance of each query in a table of which this
        is a part, rows farther than that may be missing: their places have the distance inf.
        """
        if limit is not None and not sparse.issparse(Q) and not self._is_extreme(Q):
            route = self._route(Q)
            if not isinstance(route, TreeIndex):
                return unfilled(*route.nearest(Q, k, limit))
        if sparse.issparse(Q):
            parts = [self.nearest(Q[span].toarray(), k) for span in self._dense_spans(Q)]
            return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
        if self._is_extreme(Q):
            index, queries, (down, up) = self._rescaled(Q)
            distance, row = index.nearest(queries, k)
            return distance / up / down, row
        try:
            return self._route(Q).nearest(Q, k)
        except CannotSketch:
            return self._fallback().nearest(Q, k)

    def within(self, Q: Any, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        if sparse.issparse(Q):
            reach = radii(radius, Q.shape[0])
            tiles = self._dense_spans(Q)
            parts = [self.within(Q[span].toarray(), reach[span]) for span in tiles]
            query, row, distance = (np.concatenate(part) for part in zip(*parts, strict=True))
            first = np.repeat([span.start for span in tiles], [len(p[0]) for p in parts])
            return query + first, row, distance
        if self._is_extreme(Q):
            index, queries, (down, up) = self._rescaled(Q)
            query, row, distance = index.within(queries, np.multiply(radius, down) * up)
            return query, row, distance / up / down
        try:
            return self._route(Q).within(Q, radius)
        except CannotSketch:
            return self._fallback().within(Q, radius)

    def __getstate__(self) -> dict[str, Any]:
        """Sketches and trees are built again when needed; a stored index holds the rows once."""
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _dense_spans(self, Q: Any) -> list[slice]:
        return spans(Q.shape[0], max(1, _DENSE_CELLS // max(1, Q.shape[1])))

    def _route(self, Q: Array | None) -> PlainIndex | TreeIndex | PrunedIndex:
        n, d = self.X.shape
        m = n if Q is None else len(Q)
        if self._heavy is None:
            if d <= _TREE_FEATURES and n > 256:
                self._heavy = TreeIndex(self.X, self.n_jobs)
            elif n * m <= _PLAIN_PAIRS and self._cells_read <= _PLAIN_CELLS:
                if n * d > _LARGE_CELLS:
                    self._cells_read += n * d * -(-m // _PASS)
                return self._plain_index()
            else:
                self._heavy = PrunedIndex(self.X, n_jobs=self.n_jobs, k_hint=self.k_hint)
        if isinstance(self._heavy, PrunedIndex) and self._heavy.held_bytes() > get_memory() / 2:
            raise CannotSketch  # it was built when more of the budget was free
        return self._heavy

    def _plain_index(self) -> PlainIndex:
        """Brute force; on a large table, whose route changes with use, as the pruned search."""
        if self._plain is None:
            if self.X.size > _LARGE_CELLS:
                from nearfold.kernels.screen import measure_pairs

                self._plain = PlainIndex(self.X, self.n_jobs, measure=measure_pairs)
            else:
                self._plain = PlainIndex(self.X, self.n_jobs)
        return self._plain

    def _fallback(self) -> PlainIndex:
        """Brute force that decides as the pruned search does, to the last bit."""
        from nearfold.kernels.screen import measure_pairs

        index = PlainIndex(self.X, self.n_jobs, measure=measure_pairs)
        if self._heavy is None:  # there is no sketch of the rows, so none for other queries either
            self._heavy = index
        return index

    def _is_extreme(self, Q: Array | None) -> bool:
        """Whether squares of the values might overflow or vanish."""
        size = max(self.largest, 0.0 if Q is None else refuse_nonfinite(Q, self.names))
        return size != 0.0 and not _SMALL < size < _LARGE

    def _rescaled(self, Q: Array | None) -> tuple[PlainIndex, Array | None, tuple[float, float]]:
        """Rows and queries about the first row and times powers of two, so that squares are safe.

        Returns an index of the rows so changed, the queries, and the two powers (together they
        might overflow).
        """
        arrays = [self.X] if Q is None else [self.X, Q]
        down = _power_to_one(max(float(np.abs(A).max()) for A in arrays))
        centre = self.X[0] * down
        arrays = [A * down - centre for A in arrays]
        up = _power_to_one(max(float(np.abs(A).max()) for A in arrays))
        arrays = [A * up for A in arrays]
        for A in arrays:
            small = np.abs(A[A != 0.0])
            if small.min(initial=1.0) < _SMALL:
                wild = int(np.abs(A).max(axis=1).argmax())
                raise InputError(
                    "the values span more than 140 orders of magnitude (largest in row "
                    f"{wild}), so that distances between the small ones vanish: scale or leave "
                    "out the rows or columns that are out of range."
                )
        return PlainIndex(arrays[0]), None if Q is None else arrays[1], (down, up)


def _power_to_one(size: float) -> float:
    """The power of two that brings a size to between a half and one; 1 for zero."""
    exponent = int(np.frexp(size)[1]) if size else 0
    return float(np.ldexp(1.0, max(-1022, min(1022, -exponent))))


def index_bytes(n: int, d: int) -> float:
    """The most that the index of n dense rows takes, once they are searched by distance."""
    if d <= _TREE_FEATURES:
        return tree_bytes(n, d)
    return min(sketch_bytes(n, d), get_memory() / 2)  # beyond it the rows are compared as they are


def build_index(
    X: Any,
    *,
    metric: Any = "minkowski",
    p: float = 2,
    metric_params: dict[str, Any] | None = None,
    algorithm: str = "auto",
    leaf_size: int = 30,
    n_jobs: int | None = None,
    k_hint: int = 5,
    names: Any = None,
    y: Any = None,
    recall: float = 0.95,
    random_state: Any = None,
) -> EuclideanIndex | MetricIndex | PrecomputedIndex | LearnedIndex | ApproximateIndex:
    """An index over X under any metric.

    `metric` may be a metric learner: a fitted one is used as it is, another is cloned and fitted
    on (X, y). The index takes and returns raw rows in either case. `recall` and `random_state` are
    for algorithm="approximate".
    """
    if algorithm == "approximate":
        from nearfold.neighbors.approximate import approximate_index

        return approximate_index(
            X, metric, p, metric_params, recall=recall, random_state=random_state, n_jobs=n_jobs,
            names=names, y=y,
        )  # fmt: skip
    if is_learner(metric):
        if metric_params:
            raise InputError(f"a learned metric takes no metric_params; got {metric_params}.")
        learner = fitted_learner(metric, X, y)
        return LearnedIndex(
            X, learner, EuclideanIndex(to_learned_space(learner, X), n_jobs, k_hint)
        )
    if isinstance(metric, str) and metric == "precomputed":
        return PrecomputedIndex(X, names)
    if is_euclidean(metric, p, metric_params) and not sparse.issparse(X):
        return EuclideanIndex(X, n_jobs, k_hint, names)
    return MetricIndex(
        X,
        metric=metric,
        p=p,
        metric_params=metric_params,
        algorithm=algorithm,
        leaf_size=leaf_size,
        n_jobs=n_jobs,
        names=names,
    )
