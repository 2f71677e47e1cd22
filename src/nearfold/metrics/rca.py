"""Relevant component analysis: distances in units of the spread within small groups of rows.

A. Bar-Hillel, T. Hertz, N. Shental, D. Weinshall, Learning a Mahalanobis metric from equivalence
constraints, JMLR 6 (2005). A chunklet is a group of rows known to be alike. Variation within
chunklets is irrelevant, so a direction counts the less the more it varies there:

    C = 1/p sum_j sum_{i in j} (x_i - mu_j)(x_i - mu_j)^T,      M = C^{-1}

Symbols: p rows in chunklets j with means mu_j; the rows of no chunklet are not used. With
d' = n_components < d, M is instead the best metric of that rank: the d' directions a with the
largest a^T S a / a^T C a, where S is the covariance of the p rows (Fisher's criterion), whitened.

Steps
  1. a triangular factor R of p C, from the deviations of the rows from the means of their
     chunklets, block by block (linalg/moments.py)
  2. whiten: A with A^T C A = I, from the singular values of R (whitening.py)
  3. with n_components, the principal axes V of the rows in the whitened space; M = A V V^T A^T

Cost: O(m d^2) time, O(d^2) memory beside some blocks of rows; files and Dask tables are read in
blocks.

Departures. Directions in which rows differ but no chunklet does have weight 0 instead of an
infinite one (M is the pseudo-inverse of C), and a warning says how many there are. metric-learn's
M is NaN or rounding there. RCA_Supervised draws fewer chunklets where there are not `n_chunks`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval

from nearfold.blocks import ArrayRows, Block, Rows, is_streamed
from nearfold.errors import InputError, warn
from nearfold.inputs import refuse_bad_sums
from nearfold.linalg import combine_triangles, require_scatter_memory, thin_svd
from nearfold.linalg.moments import (
    Grouping,
    Moments,
    Workspaces,
    combine_moments,
    combine_spreads,
    moments_of_block,
    spread_of_block,
)
from nearfold.messages import Message
from nearfold.methods.labelled_rows import count_labels, open_labelled
from nearfold.metrics.drawing import draw_chunks
from nearfold.metrics.labels import read_labels
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.parameters import CLASSES, COMMON, COUNT
from nearfold.metrics.preparation import check_rank
from nearfold.metrics.tuples import read_points
from nearfold.metrics.whitening import (
    centred_factor,
    largest_of_block,
    rounding_at,
    whiten_factor,
)
from nearfold.notation import Array, Floats, Ints
from nearfold.run import one_blas_thread, random_state

Sums = tuple[tuple[float, Floats, float], Floats, Moments]


def count_chunklets(rows: Rows) -> tuple[Array, Ints]:
    """The names of the chunklets and their sizes; a negative number is no chunklet."""
    sizes: Counter[Any] = Counter()
    for found in rows.mapped(partial(count_labels, name="y")):
        sizes.update(found)
    names = np.array(sorted(name for name in sizes if isinstance(name, str) or not name < 0))
    count = np.array([sizes[name] for name in names.tolist()], dtype=np.int64)
    if len(names) == 0 or count.max() < 2:
        raise InputError(
            f"none of the {len(names)} chunklets has two rows, so nothing is known to be alike: "
            "give rows that belong together the same number (-1: no chunklet)."
        )
    return names, count


class Chunklets(Grouping):
    """How the targets of a block become chunklets: rows of no chunklet have weight 0."""

    def of(self, block: Block) -> tuple[Ints, Floats | None]:
        """The chunklet of each row, and its weight."""
        y = np.asarray(block.y)
        number = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
        member = self.classes[number] == y
        return number, None if member.all() else member.astype(np.float64)


def discriminate(A: Floats, within: Moments, n_components: int | None) -> Floats:
    """L (r, d) with M = L^T L: all of A, or its directions in which the rows vary most."""
    if n_components is None or n_components >= A.shape[1]:
        return np.asarray(A.T)  # A A^T = C^{-1}
    V = thin_svd(between_factor(within) @ A, "the whitened rows")[2][:n_components]
    return np.asarray(V @ A.T)


def learn_from_chunklets(rows: Rows, names: Array, n_components: Any) -> Floats:
    """L with M = L^T L, from rows whose targets name their chunklets."""
    d = rows.n_features
    n_components = check_rank(n_components, d)
    if n_components is not None and n_components < d and len(names) < 2:
        raise InputError(
            f"n_components={n_components}: the directions that tell chunklets apart can only "
            "be found from at least two chunklets; there is one."
        )
    require_scatter_memory(d)
    of_block = partial(sums_of_block, grouping=Chunklets(names), spaces=Workspaces())
    (n, mean, total), largest, within = rows.combined(of_block, combine_sums, label="scatter")
    refuse_bad_sums(rows, total)
    rounding = rounding_at(largest, rows.dtype)
    A = whiten_factor(within.triangle(), within.count.sum(), rounding)
    if A.shape[1] == 0:
        raise InputError("within every chunklet all rows are equal: there is no spread to use.")
    if A.shape[1] < d:
        varies = whiten_factor(centred_factor(rows, mean, "RCA"), n, rounding).shape[1]
        if varies > A.shape[1]:
            warn(Message("warn.rca_lost", n=varies - A.shape[1], of=d))
    return discriminate(A, within, n_components)


def sums_of_block(block: Block, grouping: Grouping, spaces: Workspaces) -> Sums:
    """Spread and largest magnitudes of the rows of one block, and their moments in chunklets."""
    within = moments_of_block(block, np.float64, grouping, factor=True, spaces=spaces)
    return spread_of_block(block), largest_of_block(block), within


def combine_sums(a: Sums, b: Sums) -> Sums:
    """The same for the rows of both."""
    return combine_spreads(a[0], b[0]), np.maximum(a[1], b[1]), combine_moments(a[2], b[2])


def between_factor(within: Moments) -> Floats:
    """A triangular factor of the scatter of all rows in chunklets about their common mean."""
    share = within.count / within.count.sum()
    between = np.sqrt(within.count)[:, None] * (within.mean - share @ within.mean)
    return combine_triangles(within.triangle(), between)


_STATE = MahalanobisMetric.fitted_state.extended(**CLASSES)


class RCA(MahalanobisMetric):
    """A metric from chunklets: rows in groups known to be alike.

    Parameters
    ----------
    n_components : int, default=None
        Rank of the metric; None: all.
    preprocessor : array-like or callable, default=None
        Table (or function) in which ids given instead of rows are looked up.

    Attributes
    ----------
    classes_ : ndarray of shape (n_chunks,)
        The names of the chunklets.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold.metrics.rca import RCA
    >>> X = np.array([[0.0, 0.0], [0.0, 4.0], [1.0, 4.0], [1.0, 0.0], [4.0, 1.0], [5.0, 1.0]])
    >>> rca = RCA().fit(X, [0, 0, 1, 1, 2, 2])  # alike rows differ in the second column
    >>> rca.get_mahalanobis_matrix().round(3)
    array([[12.   ,  0.   ],
           [ 0.   ,  0.375]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {**COMMON, "n_components": [*COUNT, None]}
    fitted_state = _STATE

    def __init__(self, n_components: int | None = None, preprocessor: Any = None) -> None:
        self.n_components = n_components
        self.preprocessor = preprocessor

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, chunks: Any = None) -> RCA:
        """Learn from rows and their chunklets: `y`, or `chunks`, which is another name for it.

        Rows of the same number, or text, belong together; a negative number is no chunklet.
        """
        if chunks is not None and y is not None:
            raise InputError("give the chunklets once: as y or as chunks.")
        y = chunks if y is None else y
        given = X if is_streamed(X) and self.preprocessor is None else read_points(self, X)
        rows, _, _ = open_labelled(self, given, y)
        self.classes_, _ = count_chunklets(rows)
        with one_blas_thread():
            L = learn_from_chunklets(rows, self.classes_, self.n_components)
            self._set_map(L, rows.dtype)
        return self


class RCA_Supervised(MahalanobisMetric):
    """RCA from class labels: chunklets are drawn from the classes.

    Parameters
    ----------
    n_components : int, default=None
        Rank of the metric; None: all.
    n_chunks : int, default=100
        Chunklets to draw, no row twice; fewer, with a warning, if there are fewer.
    chunk_size : int, default=2
        Rows of one class in each chunklet.
    preprocessor : array-like or callable, default=None
        Table (or function) in which ids given instead of rows are looked up.
    random_state : int, RandomState instance or None, default=None
        Source of the draws.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold.metrics.rca import RCA_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> RCA_Supervised(n_components=2, n_chunks=60, random_state=0).fit_transform(X, y).shape
    (150, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **COMMON,
        "n_components": [*COUNT, None],
        "n_chunks": COUNT,
        "chunk_size": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
    }
    fitted_state = _STATE

    def __init__(
        self,
        n_components: int | None = None,
        n_chunks: int = 100,
        chunk_size: int = 2,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_chunks = n_chunks
        self.chunk_size = chunk_size
        self.preprocessor = preprocessor
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> RCA_Supervised:
        """Draw chunklets from the class labels y (-1: unlabelled), and learn from them."""
        X, label = read_labels(self, X, y, skip_unlabelled=True)
        n_chunks = self._count_chunks(label)
        random = random_state(self.random_state)
        with one_blas_thread():  # once, instead of for every step of a small fit
            chunk = draw_chunks(X, label, n_chunks, self.chunk_size, random)
            rows = ArrayRows(X).with_target(chunk)
            L = learn_from_chunklets(rows, np.arange(n_chunks), self.n_components)
            self._set_map(L, X.dtype)
        return self

    def _count_chunks(self, label: Ints) -> int:
        """How many chunklets to draw: as many as asked for, or as there are."""
        available = int(np.sum(np.bincount(label) // self.chunk_size))
        if available == 0:
            raise InputError(
                f"no class has {self.chunk_size} rows, so no chunklet of chunk_size="
                f"{self.chunk_size} can be drawn."
            )
        if available < self.n_chunks:
            warn(
                f"there are only {available} chunklets of {self.chunk_size} rows to be drawn, "
                f"fewer than n_chunks={self.n_chunks}."
            )
        return min(available, int(self.n_chunks))
