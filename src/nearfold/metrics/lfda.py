"""Local Fisher discriminant analysis: classes apart, near rows of a class together.

M. Sugiyama, Dimensionality reduction of multimodal labeled data by local Fisher discriminant
analysis, JMLR 8 (2007). As LDA, but far rows of a class are not pulled together, so a class may
lie in several clusters, and there may be more than C - 1 axes.

    A_ij = exp(-|x_i - x_j|^2 / (sigma_i sigma_j))    sigma_i: distance of x_i to its k-th
                                                      neighbour in its class (local scaling)
    S_w = 1/2 sum_ij W_ij (x_i - x_j)(x_i - x_j)^T    W_ij = A_ij / m_c in a class c, else 0
    S_b = the same with W_ij = A_ij (1/m - 1/m_c) in a class, else 1/m

    S_b phi = lam S_w phi,  phi^T S_w phi = 1, lam_1 >= lam_2 >= ...

Symbols: m rows, m_c of class c with mean mu_c; d columns; embedding_type says what L has as rows:
"weighted" sqrt(lam) phi^T, "plain" phi^T, "orthonormalized" an orthonormal basis of their span.

Steps
  1. G_c = 1/2 sum_{i,j in c} A_ij (x_i - x_j)(x_i - x_j)^T = X_c^T (diag(A 1) - A) X_c,
     in blocks of rows of A
  2. S_w = sum_c G_c / m_c;  S_b = S + sum_c (1/m - 1/m_c) G_c, where S are the pairs of different
     classes: S = sum_c (1 - m_c / m) S_c + m_c (mu_c - mu)(mu_c - mu)^T, S_c the scatter of c
  3. whiten S_w; the axes are the eigenvectors of S_b there

Cost: O(d sum m_c^2) time; memory for a few blocks of rows of A, never all of it, and O(d^2).
Where that is too much, S_w and S_b are those of a sample of each class.

Departures. Directions in which rows differ but S_w vanishes (fewer rows than columns) are left out,
with a warning; constant columns are left out without one. Where the k-th neighbour is a copy of the
row, sigma is the distance to the nearest different row: the paper divides by 0, metric-learn gives
such rows no affinity to any other. A class of at most k rows uses all of them; in metric-learn its
smaller k also applies to later classes, and k is always below d.
k = None is metric-learn's min(7, d - 1), at least 1. Results differ from metric-learn 0.7's in any
case: it takes the sorted distances of its k-th row for all sigma, and adds S_w to S_b + S_w instead
of subtracting it; with both corrected it agrees with ours to rounding.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import qr
from scipy.spatial.distance import cdist
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from nearfold.blocks import require_memory, spans
from nearfold.errors import InputError, warn
from nearfold.linalg import square_norms, squared_distances, top_eigenpairs
from nearfold.linalg.row_order import order_by_value
from nearfold.messages import Message
from nearfold.metrics.labels import read_labels
from nearfold.metrics.learning_rows import LearningRows, choose_rows
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.pair_blocks import groups_of
from nearfold.metrics.parameters import CLASSES, COMMON, COUNT, MAX_SAMPLES, SAMPLED
from nearfold.metrics.preparation import centre, check_rank, rounding_of
from nearfold.metrics.whitening import whiten_scatter
from nearfold.neighbors import build_index
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order, one_blas_thread, thread_count

_CELLS = 2**20  # of the affinities, held by one task
_FEW = 2**20  # products for all distances in a class: fewer are done before an index is built
_MOST_WORK = 2**40  # products for the affinities of all pairs in a class: a minute or two
_PER_PAIR = 100  # products that take as long as the exponential of one affinity
_CLOSE = 1e-4  # of the largest |x|^2: a square of scales for which a product is accurate enough
EMBEDDINGS = ("weighted", "orthonormalized", "plain")


def local_scales(X: Floats, k: int, product: Floats | None = None) -> Floats:
    """sigma (m_c,) of the rows of one class; 0 only if they are all equal.

    `product`: their squared distances from a product, for where its error does not count.
    """
    if len(X) < 2:
        return np.zeros(len(X))
    k = min(k, len(X) - 1)
    if len(X) * X.size <= _FEW:
        kth = np.zeros(1) if product is None else np.partition(product, k, axis=1)[:, k]
        if not kth.min() > _CLOSE * square_norms(X).max():
            kth = np.partition(cdist(X, X, "sqeuclidean"), k, axis=1)[:, k]
        sigma = np.sqrt(kth)
    else:
        sigma = build_index(X, k_hint=k).nearest(None, k)[0][:, -1]
    copies = sigma == 0
    if copies.any():
        different, which = np.unique(X, axis=0, return_inverse=True)
        if len(different) > 1:
            apart = build_index(different, k_hint=1).nearest(None, 1)[0][:, 0]
            sigma = np.where(copies, apart[which.ravel()], sigma)
    return np.asarray(sigma, dtype=np.float64)


def affinities(
    X: Floats, square: Floats, sigma: Floats, rows: slice, product: Floats | None = None
) -> Floats:
    """Some rows of A, of one class; they take the place of `product`, if that is given."""
    D2 = product
    if not sigma[rows].min() * sigma.min() > _CLOSE * square.max():
        # Beside scales as small as these the error of a product would count.
        D2 = cdist(X[rows], X, "sqeuclidean")
    elif D2 is None:
        D2 = squared_distances(X[rows], X, square[rows], square)
    D2 /= -sigma[rows, None]
    D2 /= sigma
    np.minimum(D2, 0.0, out=D2)
    return np.asarray(np.exp(D2, out=D2))


def scatter_of_rows(
    X: Floats, square: Floats, sigma: Floats, rows: slice, product: Floats | None = None
) -> tuple[Floats, float]:
    """The contribution of some rows to G_c, and the sum of their affinities."""
    A = affinities(X, square, sigma, rows, product)
    own, degree = X[rows], A.sum(axis=1)
    return own.T @ (degree[:, None] * own - A @ X), float(degree.sum())


def local_scatter(X: Floats, sigma: Floats, product: Floats | None = None) -> tuple[Floats, float]:
    """G_c of the centred rows of one class, and the sum of A."""
    m, d = X.shape
    if sigma.max(initial=0.0) == 0:
        return np.zeros((d, d)), 0.0
    square = square_norms(X)
    blocks = spans(m, max(1, _CELLS // m))
    if len(blocks) == 1:  # a small class is not worth a pool
        G, total = scatter_of_rows(X, square, sigma, blocks[0], product)
        return (G + G.T) / 2, total
    task = partial(scatter_of_rows, X, square, sigma)
    G, total = np.zeros((d, d)), 0.0
    for part, weight in map_in_order(task, blocks, label="affinities", total=len(blocks)):
        G, total = G + part, total + weight
    return (G + G.T) / 2, total


def local_scatters(Z: Floats, label: Ints, k: int) -> tuple[Floats, Floats, float]:
    """S_w and S_b of centred rows, and the sum of the weights of S_w."""
    m, d = Z.shape
    S_w, S_b, weight = np.zeros((d, d)), np.zeros((d, d)), 0.0
    for c in range(int(label.max()) + 1):
        X = Z[label == c]
        m_c, mu_c = len(X), X.mean(axis=0)
        X -= mu_c
        # Of a small class one product gives the scales and the affinities.
        product = squared_distances(X, X) if m_c * X.size <= _FEW else None
        G, total = local_scatter(X, local_scales(X, k, product), product)
        S_w += G / m_c
        weight += total / m_c
        S_b += (1 / m - 1 / m_c) * G + (1 - m_c / m) * (X.T @ X) + m_c * np.outer(mu_c, mu_c)
    return S_w, S_b, weight


def local_axes(S_w: Floats, S_b: Floats, rounding: Floats, n: int) -> tuple[Floats, Floats]:
    """The n largest lam, and their phi as columns (d, n): S_b phi = lam S_w phi.

    `rounding`: the root of what the rounding of each column may add to S_w.
    """
    tol = 100 * len(S_w) * float(np.finfo(np.float64).eps)  # S_w is a product: errors are squared
    Q = whiten_scatter(S_w, rounding, tol)
    if Q.shape[1] == 0:
        raise InputError(
            "no column varies within the classes, so there is no scale on which to compare them: "
            "LFDA needs some spread inside at least one class."
        )
    lost = 0
    if Q.shape[1] < len(Q):
        lost = whiten_scatter(S_w + S_b, rounding, tol).shape[1] - Q.shape[1]
    if lost > 0:
        warn(Message("warn.lfda_lost", n=lost, of=len(Q)))
    pairs = top_eigenpairs(Q.T @ S_b @ Q, min(n, Q.shape[1]), name="S_b, whitened by S_w")
    return pairs.values, Q @ pairs.vectors


def map_of_axes(lam: Floats, phi: Floats, embedding_type: str) -> Floats:
    """L with M = L^T L."""
    if embedding_type == "weighted":  # lam >= 0 but for rounding: A_ij <= 1 makes S_b >= 0
        return np.asarray((phi * np.sqrt(np.maximum(lam, 0.0))).T)
    if embedding_type == "orthonormalized":
        return np.asarray(qr(phi, mode="economic")[0].T)
    return np.asarray(phi.T)


def most_rows(sizes: Ints, d: int) -> int:
    """How many rows of classes of these sizes are learned from, unless `max_samples` says so."""
    m, work = int(sizes.sum()), float(np.sum(sizes.astype(np.float64) ** 2)) * (d + _PER_PAIR)
    return m if work <= _MOST_WORK else int(m * (_MOST_WORK / work) ** 0.5)


def lfda_bytes(m: int, d: int, most: int) -> float:
    """What LFDA of m rows and d columns holds, if the largest class has `most` rows."""
    tasks = min(2 * thread_count(None), max(1, most * most // _CELLS))
    return 8.0 * (2 * m * d + 3 * tasks * max(_CELLS, most) * (most > 1) + 6 * d * d)


class LFDA(MahalanobisMetric):
    """Local Fisher discriminant analysis, for classes that may lie in several clusters.

    Parameters
    ----------
    n_components : int, default=None
        Rank of the metric; None: all.
    k : int, default=None
        The neighbour whose distance is a row's scale; None: min(7, n_features - 1).
    embedding_type : {"weighted", "orthonormalized", "plain"}, default="weighted"
        What the axes are: scaled by the roots of their eigenvalues, orthonormal, or as they are.
    preprocessor : array-like or callable, default=None
        Table (or function) in which ids given instead of rows are looked up.
    max_samples : int or None, default=None
        Learn from so many rows, drawn at random from each class. None: all, but at most as many as
        can be compared in all pairs of a class in a minute or two.
    random_state : int, RandomState instance or None, default=None
        Source of the sample (None is 0).

    Attributes
    ----------
    approximation_ : str or None
        What the axes were learned from, if not from all rows.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    Notes
    -----
    `components_` is the fixed form of the metric (see mahalanobis.py), so its rows are a rotation
    of the axes of the paper; distances and M are the same.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold.metrics.lfda import LFDA
    >>> x = np.array([0.0, 1, 2, 10, 11, 12, 20, 21, 22])  # the second class is in the middle
    >>> X = np.column_stack([np.tile([0.0, 2, 1], 3), x])
    >>> M = LFDA(n_components=1, k=1).fit(X, [0, 0, 0, 1, 1, 1, 0, 0, 0]).get_mahalanobis_matrix()
    >>> bool(M[1, 1] > 5 * M[0, 0])
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **COMMON,
        "n_components": [*COUNT, None],
        "k": [*COUNT, None],
        "embedding_type": [StrOptions(set(EMBEDDINGS))],
        "max_samples": MAX_SAMPLES,
        "random_state": ["random_state"],
    }
    fitted_state = MahalanobisMetric.fitted_state.extended(**CLASSES, **SAMPLED)

    def __init__(
        self,
        n_components: int | None = None,
        k: int | None = None,
        embedding_type: str = "weighted",
        preprocessor: Any = None,
        *,
        max_samples: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.k = k
        self.embedding_type = embedding_type
        self.preprocessor = preprocessor
        self.max_samples = max_samples
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> LFDA:
        """Find the axes from rows and their class labels."""
        X, label = read_labels(self, X, y)
        d = X.shape[1]
        n = check_rank(self.n_components, d) or d
        chosen = self._learning_rows(X, label)
        self.approximation_ = chosen.note
        if chosen.note is not None:
            X, label = X[chosen.order], label[chosen.order]
        k = self._check_k(d, label)
        self._require(X, label)
        with one_blas_thread():  # small classes do not go through a pool, whose tasks have one
            S_w, S_b, weight = local_scatters(centre(X), label, k)
            lam, phi = local_axes(S_w, S_b, rounding_of(X) * weight**0.5, n)
            self._set_map(map_of_axes(lam, phi, self.embedding_type), X.dtype)
        return self

    def _learning_rows(self, X: Array, label: Ints) -> LearningRows:
        m, d = X.shape
        most = most_rows(np.bincount(label), d)
        if m <= (most if self.max_samples is None else self.max_samples):
            return LearningRows(np.arange(m))  # in their order: sorting costs more than small fits
        return choose_rows(
            order_by_value(X, label), groups_of(label)[1], self.max_samples, most, 2,
            self.random_state, "LFDA",
        )  # fmt: skip

    def _check_k(self, d: int, label: Ints) -> int:
        if self.k is None:
            return max(1, min(7, d - 1))
        counts = np.bincount(label)
        short = np.flatnonzero((counts <= self.k) & (counts > 1))
        if len(short):
            warn(
                f"{len(short)} classes have at most k={self.k} rows (the first: "
                f"{self.classes_[short[0]]!r}, {counts[short[0]]}); all of their rows are used."
            )
        return int(self.k)

    def _require(self, X: Array, label: Ints) -> None:
        m, d = X.shape
        most = int(np.bincount(label).max())
        require_memory(
            lfda_bytes(m, d, most),
            f"LFDA of {m:,} rows and {d:,} columns",
            "Reduce the columns with PCA first, or give fewer rows.",
        )
