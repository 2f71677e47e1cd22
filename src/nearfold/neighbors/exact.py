"""The exact engine: who is near whom, by the cheapest way that gives the exact answer.

    Euclidean, at most 8 features       SciPy's KD-tree            (borrowed.py)
    Euclidean, a small problem, or one
    whose sketch exceeds the budget     plain NumPy                (plain.py)
    Euclidean, otherwise                our pruned search          (pruned.py)
    any other metric, sparse, precomputed    scikit-learn          (borrowed.py)

All of them return distances and row numbers, nearest first, equal distances in order of row
number; asked for the neighbours of the indexed rows themselves they leave each row out of its
own list by its index, so duplicates stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks import get_memory
from nearfold.errors import InputError
from nearfold.inputs import refuse_nonfinite
from nearfold.neighbors.borrowed import SklearnIndex, TreeIndex
from nearfold.neighbors.learned import LearnedIndex, fitted_learner, is_learner, to_learned_space
from nearfold.neighbors.plain import PlainIndex
from nearfold.neighbors.plan import SKETCH_WIDTH
from nearfold.neighbors.pruned import OutOfRange, PrunedIndex
from nearfold.notation import Array, Floats, Ints

_TREE_FEATURES = 8  # beyond it the tree visits too much: measured, uniform and low-rank data
_PLAIN_PAIRS = 25_000_000  # below it NumPy is done before a compiler would be
_LARGE, _SMALL = 1e140, 1e-140  # outside, squares of float64 might overflow or vanish


class EuclideanIndex:
    """Dense rows under the Euclidean distance; picks plain, tree or pruned search."""

    def __init__(
        self, X: Array, n_jobs: int | None = None, k_hint: int = 5, names: Any = None
    ) -> None:
        self.X = X
        self.n_jobs = n_jobs
        self.k_hint = k_hint
        self.names = names
        self._size = refuse_nonfinite(X, names)
        self._plain: PlainIndex | None = None
        self._heavy: TreeIndex | PrunedIndex | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows searched."""
        return int(self.X.shape[0])

    def part(self, rows: Any) -> EuclideanIndex:
        """An index of some of the rows."""
        return EuclideanIndex(self.X[rows], self.n_jobs, self.k_hint, self.names)

    def nearest(self, Q: Array | None, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        if self._is_extreme(Q):
            index, queries, (down, up) = self._rescaled(Q)
            distance, row = index.nearest(queries, k)
            return distance / up / down, row
        try:
            return self._route(Q).nearest(Q, k)
        except OutOfRange:
            return self._plain_index().nearest(Q, k)

    def within(self, Q: Array | None, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        if self._is_extreme(Q):
            index, queries, (down, up) = self._rescaled(Q)
            query, row, distance = index.within(queries, np.multiply(radius, down) * up)
            return query, row, distance / up / down
        try:
            return self._route(Q).within(Q, radius)
        except OutOfRange:
            return self._plain_index().within(Q, radius)

    def __getstate__(self) -> dict[str, Any]:
        """Sketches and trees are built again when needed; a stored index holds the rows once."""
        return {**self.__dict__, "_plain": None, "_heavy": None}

    def _route(self, Q: Array | None) -> PlainIndex | TreeIndex | PrunedIndex:
        n, d = self.X.shape
        m = n if Q is None else len(Q)
        if d <= _TREE_FEATURES and n > 256:
            if self._heavy is None:
                self._heavy = TreeIndex(self.X, self.n_jobs)
            return self._heavy
        if self._heavy is None and (n * m <= _PLAIN_PAIRS or self._too_large_to_sketch()):
            return self._plain_index()
        if self._heavy is None:
            self._heavy = PrunedIndex(self.X, n_jobs=self.n_jobs, k_hint=self.k_hint)
        return self._heavy

    def _too_large_to_sketch(self) -> bool:
        n, d = self.X.shape
        return 8.0 * n * min(d + 1, SKETCH_WIDTH) > get_memory()

    def _plain_index(self) -> PlainIndex:
        if self._plain is None:
            self._plain = PlainIndex(self.X)
        return self._plain

    def _is_extreme(self, Q: Array | None) -> bool:
        """Whether squares of the values might overflow or vanish."""
        size = max(self._size, 0.0 if Q is None else refuse_nonfinite(Q, self.names))
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
) -> EuclideanIndex | SklearnIndex | LearnedIndex:
    """An index over X: ours for dense Euclidean rows, scikit-learn's for all else.

    `metric` may be a metric learner: a fitted one is used as it is, another is cloned and fitted
    on (X, y). The index takes and returns raw rows in either case.
    """
    if is_learner(metric):
        if metric_params:
            raise InputError(f"a learned metric takes no metric_params; got {metric_params}.")
        learner = fitted_learner(metric, X, y)
        Z = to_learned_space(learner, X)
        return LearnedIndex(X, learner, EuclideanIndex(Z, n_jobs, k_hint))
    if is_euclidean(metric, p, metric_params) and not sparse.issparse(X):
        return EuclideanIndex(X, n_jobs, k_hint, names)
    if metric != "nan_euclidean":
        refuse_nonfinite(X, names)
    return SklearnIndex(
        X,
        n_jobs,
        names,
        metric=metric,
        p=p,
        metric_params=metric_params,
        algorithm=algorithm,
        leaf_size=leaf_size,
    )


def is_euclidean(metric: Any, p: float, metric_params: dict[str, Any] | None) -> bool:
    """Whether these parameters mean the plain Euclidean distance."""
    named = metric in ("euclidean", "l2") if isinstance(metric, str) else False
    return (named or (metric == "minkowski" and p == 2)) and not metric_params
