"""Relevant component analysis: distances in units of the spread within small groups of rows.

A. Bar-Hillel, T. Hertz, N. Shental, D. Weinshall, Learning a Mahalanobis metric from equivalence
constraints, JMLR 6 (2005). A chunklet is a group of rows known to be alike. Variation within
chunklets is irrelevant, so a direction counts the less the more it varies there:

    C = 1/p sum_j sum_{i in j} (x_i - mu_j)(x_i - mu_j)^T,      M = C^{-1}

Symbols: p rows in chunklets j with means mu_j; the rows of no chunklet are not used. With
d' = n_components < d, M is instead the best metric of that rank: the d' directions a with the
largest a^T S a / a^T C a, where S is the covariance of the p rows (Fisher's criterion), whitened.

Steps
  1. deviations of the rows from the means of their chunklets
  2. whiten them: A with A^T C A = I, from their singular values (whitening.py)
  3. with n_components, the principal axes V of the rows in the whitened space; M = A V V^T A^T

Cost: O(m d min(m, d)) time, memory for five tables of X's size in float64.

Departures. Directions in which rows differ but no chunklet does have weight 0 instead of an
infinite one (M is the pseudo-inverse of C), and a warning says how many there are. metric-learn's
M is NaN or rounding there. RCA_Supervised draws fewer chunklets where there are not `n_chunks`.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets

from nearfold.blocks import require_memory
from nearfold.errors import InputError, warn
from nearfold.inputs import check_table
from nearfold.linalg import thin_svd, triangular_factor
from nearfold.messages import Message
from nearfold.metrics.drawing import draw_chunks
from nearfold.metrics.labels import read_labels
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.parameters import CLASSES, COMMON, COUNT
from nearfold.metrics.preparation import centre, check_rank, rounding_of
from nearfold.metrics.tuples import read_points
from nearfold.metrics.whitening import whiten_factor
from nearfold.notation import Array, Floats, Ints
from nearfold.run import one_blas_thread, random_state


def number_chunklets(y: Array) -> tuple[Array, Ints]:
    """The names of the chunklets, and each row's number among them; -1 for none."""
    member = y >= 0 if y.dtype.kind in "iuf" else np.ones(len(y), dtype=bool)
    names, number = np.unique(y[member], return_inverse=True)
    if len(number) - len(names) == 0:
        raise InputError(
            f"none of the {len(names)} chunklets has two rows, so nothing is known to be alike: "
            "give rows that belong together the same number (-1: no chunklet)."
        )
    chunk = np.full(len(y), -1)
    chunk[member] = number
    return names, chunk


def deviate(Z: Floats, chunk: Ints) -> Floats:
    """Rows in chunklets minus the mean of their chunklet, one chunklet after the other."""
    order = np.argsort(chunk, kind="stable")
    order = order[chunk[order] >= 0]
    sizes = np.bincount(chunk[order])
    D = Z[order]
    mu = np.add.reduceat(D, np.cumsum(sizes) - sizes, axis=0) / sizes[:, None]
    D -= np.repeat(mu, sizes, axis=0)
    return D


def discriminate(A: Floats, Z: Floats, n_components: int | None) -> Floats:
    """L (r, d) with M = L^T L: all of A, or its directions in which the rows Z vary most."""
    if n_components is None or n_components >= A.shape[1]:
        return np.asarray(A.T)  # A A^T = C^{-1}
    with one_blas_thread():
        R = triangular_factor((Z - Z.mean(axis=0)) @ A)
        V = thin_svd(R, "the whitened rows")[2][:n_components]
    return np.asarray(V @ A.T)


def learn_from_chunklets(X: Array, chunk: Ints, n_chunks: int, n_components: Any) -> Floats:
    """L with M = L^T L, from rows and the number of each row's chunklet."""
    m, d = X.shape
    n_components = check_rank(n_components, d)
    if n_components is not None and n_components < d and n_chunks < 2:
        raise InputError(
            f"n_components={n_components}: the directions that tell chunklets apart can only "
            "be found from at least two chunklets; there is one."
        )
    require_memory(
        8 * (5 * m * d + 4 * d * d),
        f"RCA of {m:,} rows and {d:,} columns",
        "Reduce the columns with PCA first, or give fewer rows.",
    )
    Z, rounding = centre(X), rounding_of(X)
    deviations = deviate(Z, chunk)
    A = whiten_factor(deviations, len(deviations), rounding)
    if A.shape[1] == 0:
        raise InputError("within every chunklet all rows are equal: there is no spread to use.")
    lost = whiten_factor(Z, m, rounding).shape[1] - A.shape[1] if A.shape[1] < d else 0
    if lost > 0:
        warn(Message("warn.rca_lost", n=lost, of=d))
    return discriminate(A, Z[chunk >= 0], n_components)


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
        X, y = check_table(
            self,
            read_points(self, X),
            reset=True,
            y=chunks if y is None else y,
            ensure_min_samples=2,
        )
        check_classification_targets(y)
        names, chunk = number_chunklets(y)
        self._set_map(learn_from_chunklets(X, chunk, len(names), self.n_components), X.dtype)
        self.classes_ = names
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
        chunk = draw_chunks(X, label, n_chunks, self.chunk_size, random)
        self._set_map(learn_from_chunklets(X, chunk, n_chunks, self.n_components), X.dtype)
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
