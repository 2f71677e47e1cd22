"""Neighbours under any metric that scikit-learn knows, dense or sparse, and precomputed ones.

Few columns and a metric its trees support: scikit-learn's KD-tree or ball tree (external.py has
the rule for ties). Otherwise brute force in tiles of distances, of which only the k best per query
are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import DistanceMetric
from sklearn.neighbors import VALID_METRICS_SPARSE, BallTree, KDTree

from nearfold.blocks import require_memory, spans
from nearfold.errors import InputError, warn
from nearfold.inputs import refuse_nonfinite
from nearfold.neighbors.cosine import CosineIndex
from nearfold.neighbors.distances import Distances, effective_metric
from nearfold.neighbors.external import nearest_from, within_from
from nearfold.neighbors.metric_state import check_metric_rows
from nearfold.neighbors.pairs import Pairs, radii
from nearfold.neighbors.selection import nearest_in_tiles
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order
from nearfold.state import (
    State,
    any_of,
    array,
    dict_of,
    matrix,
    names,
    number,
    optional,
    text,
)

_NO_TRIANGLES = ("braycurtis", "dice")  # a tree would leave out neighbours
_TREE_COLUMNS = 15  # beyond it scikit-learn's trees visit too much
_TREE_QUERIES = 1024  # of one task
_CELLS = 2**18  # values of a tile of rows
_QUERIES, _ROWS = 256, 1024  # of a tile of distances, at the most


class SklearnTree:
    """A tree of scikit-learn, as a backend of external.py."""

    def __init__(self, X: Array, tree: Any, metric: DistanceMetric, n_jobs: int | None) -> None:
        self.X = X
        self.n_rows = len(X)
        self.tree = tree
        self.metric = metric
        self.n_jobs = n_jobs

    def query(self, Q: Array, k: int) -> tuple[Floats, Ints]:
        """The k nearest, equal distances in any order."""
        parts = self._blocks(lambda rows: self.tree.query(rows, k), Q)
        distance, row = (np.concatenate(part) for part in zip(*parts, strict=True))
        return distance.astype(np.float64), row.astype(np.int64)

    def count_within(self, Q: Array, radius: Floats) -> Ints:
        """Number of rows within one radius per query, or slightly more."""
        reach = radius * (1 + 1e-12)
        return np.asarray(self.tree.query_radius(Q, reach, count_only=True), dtype=np.int64)

    def pairs_within(self, Q: Array, radius: Floats) -> tuple[Ints, Ints, Floats]:
        """(query, row, distance) of all pairs within one radius per query."""
        reach = radius * (1 + 1e-12)
        rows, distances = self.tree.query_radius(Q, reach, return_distance=True)
        query = np.repeat(np.arange(len(Q)), [len(part) for part in rows])
        row = np.concatenate([*rows, np.empty(0)]).astype(np.int64)
        distance = np.concatenate([*distances, np.empty(0)]).astype(np.float64)
        keep = distance <= radius[query]
        return query[keep], row[keep], distance[keep]

    def distances(self, Q: Array, rows: slice) -> Floats:
        """Distances (m, rows)."""
        return np.asarray(
            self.metric.pairwise(Q.astype(np.float64), self.X[rows].astype(np.float64))
        )

    def _blocks(self, ask: Callable[[Array], Any], Q: Array) -> list[Any]:
        tiles = [Q[span] for span in spans(len(Q), _TREE_QUERIES)]
        return list(map_in_order(ask, tiles, n_jobs=self.n_jobs if len(tiles) > 1 else 1))


class MetricIndex:
    """Rows under any metric of scikit-learn's or a callable of two rows."""

    fitted_state = State(
        check_metric_rows,
        X=any_of(array("n d", finite=False), matrix("n d", finite=False)),
        metric=text(),
        p=number(least=0, finite=False),
        metric_params=optional(dict_of(lambda value, sizes: None)),
        algorithm=text("auto", "ball_tree", "kd_tree", "brute"),
        leaf_size=number(least=1, whole=True),
        n_jobs=optional(number(whole=True)),
        names=optional(names("d")),
    )

    def __init__(
        self,
        X: Any,
        *,
        metric: Any,
        p: float = 2,
        metric_params: dict[str, Any] | None = None,
        algorithm: str = "auto",
        leaf_size: int = 30,
        n_jobs: int | None = None,
        names: Any = None,
    ) -> None:
        self.X = X
        self.metric = metric
        self.p = p
        self.metric_params = metric_params
        self.algorithm = algorithm
        self.leaf_size = leaf_size
        self.n_jobs = n_jobs
        self.names = names
        if metric != "nan_euclidean":
            refuse_nonfinite(X, names)
        self._check()
        _ = self._tree  # built now, so that a metric that does not suit the rows is refused by fit

    @property
    def n_rows(self) -> int:
        """Number of rows searched."""
        return int(self.X.shape[0])

    def part(self, rows: Any) -> MetricIndex:
        """An index of some of the rows under the same metric."""
        measure = self._measure  # with what it learned from all rows, such as variances
        options = {"metric": measure.metric, "metric_params": measure.params, "X": self.X[rows]}
        return MetricIndex(**{**self.__getstate__(), **options})

    def nearest(self, Q: Any, k: int) -> tuple[Floats, Ints]:
        """Distances (m, k) and rows (m, k), nearest first. Q None: the rows, self excluded."""
        queries = self._queries(Q)
        if self._tree is not None:
            return nearest_from(self._tree, queries, k, exclude_self=Q is None)
        if self._angles is not None:
            return self._angles.nearest(None if Q is None else queries, k)
        m = queries.shape[0]
        distance, row = np.empty((m, k)), np.empty((m, k), dtype=np.int64)

        def search(span: slice) -> None:
            block = self._like_rows(queries[span])
            own = np.arange(span.start, span.stop) if Q is None else None
            distance[span], row[span] = nearest_in_tiles(
                lambda tile: self._measure.between(block, self.X[tile]),
                block.shape[0], self.n_rows, k, min(_ROWS, self._tile()), own,
            )  # fmt: skip

        for _ in self._over_queries(search, m):
            pass
        return distance, row

    def within(self, Q: Any, radius: float | Floats) -> tuple[Ints, Ints, Floats]:
        """All pairs within the radius: (query, row, distance), sorted by query, distance, row."""
        queries = self._queries(Q)
        if self._tree is not None:
            return within_from(self._tree, queries, radius, exclude_self=Q is None)
        if self._angles is not None:
            return self._angles.within(None if Q is None else queries, radius)
        reach = radii(radius, queries.shape[0])
        pairs = Pairs(queries.shape[0])

        def search(span: slice) -> list[tuple[Ints, Ints, Floats]]:
            block = self._like_rows(queries[span])
            pieces = []
            for tile in spans(self.n_rows, min(_ROWS, self._tile())):
                D = self._measure.between(block, self.X[tile])
                q, x = np.nonzero(reach[span, None] >= D)
                distance = np.asarray(D[q, x], dtype=np.float64)
                q, x = q + span.start, x + tile.start
                keep = q != x if Q is None else slice(None)
                pieces.append((q[keep], x[keep], distance[keep]))
                pairs.reserve(len(pieces[-1][0]))
            return pieces

        for pieces in self._over_queries(search, queries.shape[0]):
            pairs.add(*pieces)
        return pairs.sorted()

    def _check(self) -> None:
        metric, params = effective_metric(self.metric, self.p, self.metric_params)
        if metric == "minkowski" and params["p"] < 1:
            if self.algorithm in ("kd_tree", "ball_tree"):
                raise InputError(
                    f'algorithm="{self.algorithm}" does not support 0 < p < 1 for the Minkowski '
                    'metric. To resolve this problem either set p >= 1 or algorithm="brute".'
                )
            warn(
                "Mind that for 0 < p < 1, Minkowski metrics are not distance metrics. Continuing "
                "the execution with `algorithm='brute'`."
            )
        if sparse.issparse(self.X) and not (
            callable(metric) or metric in VALID_METRICS_SPARSE["brute"]
        ):
            raise InputError(
                f"Metric '{metric}' not valid for sparse input. Use one of "
                f"{sorted(VALID_METRICS_SPARSE['brute'])}, a callable, or X.toarray()."
            )
        if sparse.issparse(self.X) and self.algorithm in ("kd_tree", "ball_tree"):
            warn("cannot use tree with sparse input: using brute force")
        if self.algorithm == "kd_tree" and "w" in params:
            raise InputError(
                "algorithm='kd_tree' is not valid for metric='minkowski' with a weight parameter "
                "'w': try algorithm='ball_tree' or algorithm='brute' instead."
            )

    @cached_property
    def _measure(self) -> Distances:
        return Distances(self.X, self.metric, self.metric_params, self.p)

    @cached_property
    def _tree(self) -> SklearnTree | None:
        kind = self._tree_kind()
        if kind is None:
            return None
        n, d = self.X.shape
        require_memory(8.0 * n * (d + 2), "A tree of the rows", 'Use algorithm="brute".')
        metric = self._measure.metric
        if not isinstance(metric, DistanceMetric):
            metric = DistanceMetric.get_metric(metric, **self._measure.params)
        tree = kind(self.X, leaf_size=self.leaf_size, metric=metric)
        return SklearnTree(self.X, tree, metric, self.n_jobs)

    @cached_property
    def _angles(self) -> CosineIndex | None:
        by_angle = self._measure.metric == "cosine" and not sparse.issparse(self.X)
        return CosineIndex(self.X, self.n_jobs) if by_angle else None

    def _tile(self) -> int:
        """Rows that may be made dense, in float64, at a time."""
        wide = self.X.nnz // max(1, self.n_rows) if sparse.issparse(self.X) else self.X.shape[1]
        return max(16, _CELLS // max(1, wide))

    def _tree_kind(self) -> Any:
        """KDTree, BallTree, or None for brute force, as scikit-learn chooses."""
        metric, params = self._measure.metric, self._measure.params
        no_triangles = isinstance(metric, str) and metric in _NO_TRIANGLES
        if sparse.issparse(self.X) or self.algorithm == "brute" or no_triangles:
            return None
        if self.algorithm != "auto":
            return KDTree if self.algorithm == "kd_tree" else BallTree
        semi = metric == "minkowski" and params["p"] < 1
        if self.X.shape[1] > _TREE_COLUMNS or semi or isinstance(metric, DistanceMetric):
            return None
        if metric in KDTree.valid_metrics and "w" not in params:
            return KDTree
        return BallTree if callable(metric) or metric in BallTree.valid_metrics else None

    def _queries(self, Q: Any) -> Any:
        if Q is None:
            return self.X
        if self.metric != "nan_euclidean":
            refuse_nonfinite(Q, self.names)
        dense = self._tree is not None or self._angles is not None
        return Q.toarray() if dense and sparse.issparse(Q) else Q

    def _like_rows(self, Q: Any) -> Any:
        """A block of queries, sparse where the rows are sparse and dense where they are dense."""
        if sparse.issparse(self.X):
            return Q if sparse.issparse(Q) else sparse.csr_array(Q)
        return Q.toarray() if sparse.issparse(Q) else Q

    def _over_queries(self, search: Callable[[slice], Any], m: int) -> Iterator[Any]:
        tiles = spans(m, min(_QUERIES, self._tile()))
        jobs = self.n_jobs if len(tiles) > 1 else 1  # one tile is not worth a pool of threads
        return map_in_order(search, tiles, n_jobs=jobs, label="neighbours", total=len(tiles))

    def __getstate__(self) -> dict[str, Any]:
        """The rows and options; the tree is built again when it is needed."""
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}
