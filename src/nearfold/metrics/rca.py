"""Relevant component analysis: distances in units of the spread within small groups of rows.

A. Bar-Hillel, T. Hertz, N. Shental, D. Weinshall, Learning a Mahalanobis metric from equivalence
constraints, JMLR 6 (2005). A chunklet is a group of rows known to be alike, without a name. What
varies within chunklets does not matter, so the more a direction varies there the less it counts:

    C = 1/p sum_j sum_{i in j} (x_i - mu_j)(x_i - mu_j)^T,      M = C^{-1}

Symbols: p rows in chunklets j with means mu_j; the rows of no chunklet are not used. With
d' = n_components < d, M is instead the best metric of that rank: the d' directions a with the
largest a^T S a / a^T C a, where S is the covariance of the p rows (Fisher's criterion), whitened.

Steps
  1. deviations of the rows from the means of their chunklets
  2. whiten them: A with A^T C A = I, from their singular values, which squares no errors
  3. with n_components, the principal axes V of the rows in the whitened space; M = A V V^T A^T

Cost: O(m d min(m, d)) time, memory for five tables of X's size in float64.

Departures. Directions in which rows differ but no chunklet does have weight 0 instead of an
infinite one (M is the pseudo-inverse of C), and a warning says how many there are. metric-learn's
M is NaN or rounding there. RCA_Supervised draws what chunklets there are if `n_chunks` is more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from nearfold.blocks import require_memory
from nearfold.errors import InputError, warn
from nearfold.inputs import check_table
from nearfold.linalg import thin_svd, triangular_factor
from nearfold.metrics.drawing import draw_chunks
from nearfold.metrics.learners import LabelLearner
from nearfold.metrics.preparation import centre, check_rank, rounding_of
from nearfold.metrics.tuples import look_up
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


class ChunkletLearner(LabelLearner):
    """What learning from given and from drawn chunklets share."""

    n_components: int | None

    def _learn(self, X: Array, chunk: Ints, n_chunks: int) -> None:
        m, d = X.shape
        n_components = check_rank(self.n_components, d)
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
            warn(
                f"rows vary in {lost} directions (of {d}) in which no chunklet does; the metric "
                "cannot weigh these and leaves them out. Give more or larger chunklets, or reduce "
                "the columns with PCA first."
            )
        self._set_map(discriminate(A, Z[chunk >= 0], n_components), X.dtype)


class RCA(ChunkletLearner):
    """A metric from chunklets: rows in groups known to be alike.

    Parameters are metric-learn's. `n_components`: rank of the metric; None: all. `preprocessor`: a
    table (or a callable) in which ids given instead of rows are looked up.

    Attributes: `components_`, `rank_`, and `classes_`, the names of the chunklets.

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

    def __init__(self, n_components: int | None = None, preprocessor: Any = None) -> None:
        self.n_components = n_components
        self.preprocessor = preprocessor

    def fit(self, X: Any, y: Any = None, *, chunks: Any = None) -> RCA:
        """Learn from rows and their chunklets: `y`, or `chunks`, which is another name for it.

        Rows of the same number, or text, belong together; a negative number is no chunklet.
        """
        if chunks is not None and y is not None:
            raise InputError("give the chunklets once: as y or as chunks.")
        X, y = check_table(
            self,
            look_up(self.preprocessor, X),
            reset=True,
            y=chunks if y is None else y,
            ensure_min_samples=2,
        )
        check_classification_targets(y)
        names, chunk = number_chunklets(y)
        self._learn(X, chunk, len(names))
        self.classes_ = names
        return self


class RCA_Supervised(ChunkletLearner):
    """RCA from class labels: chunklets are drawn from the classes.

    Parameters are metric-learn's. `n_chunks` chunklets of `chunk_size` rows of one class each are
    drawn by `random_state`, no row twice; fewer, with a warning, if there are fewer.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold.metrics.rca import RCA_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> RCA_Supervised(n_components=2, n_chunks=60, random_state=0).fit_transform(X, y).shape
    (150, 2)
    """

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

    def fit(self, X: Any, y: Any) -> RCA_Supervised:
        """Draw chunklets from the class labels y, and learn from them."""
        X, label = self._labelled(X, y)
        n_chunks = self._count_chunks(label)
        random = random_state(self.random_state)
        self._learn(X, draw_chunks(X, label, n_chunks, self.chunk_size, random), n_chunks)
        return self

    def _count_chunks(self, label: Ints) -> int:
        """How many chunklets to draw: as many as asked for, or as there are."""
        if self.n_chunks < 1 or self.chunk_size < 2:
            raise InputError(
                f"n_chunks={self.n_chunks}, chunk_size={self.chunk_size}: draw at least one "
                "chunklet of at least two rows."
            )
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
