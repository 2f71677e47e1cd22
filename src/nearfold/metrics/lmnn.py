"""Large margin nearest neighbours (Weinberger and Saul 2009).

Every row's nearest neighbours of its own class, its targets, are pulled towards it; rows of other
classes that come within a margin of them, the impostors, are pushed away.

Symbols: X (m, d), L (r, d), Z = X L^T; j ~> i: row j is one of the k target neighbours of row i,
fixed at the start; d_ij^2 = |z_i - z_j|^2; [t]+ = max(t, 0); mu the weight `regularization`.

    f(L) = mu sum_{j ~> i} d_ij^2 + (1 - mu) sum_{j ~> i} sum_{l: y_l != y_i} [1 + d_ij^2 - d_il^2]+

Steps
  1. the k nearest rows of its own class for every row, in the given space: its targets
  2. L-BFGS on f, from `init`; f is convex in M = L^T L
  3. bring the map into the canonical form of mahalanobis.py

Every evaluation finds all impostors, in blocks of rows against all rows; only pairs inside the
margin are kept, as a sparse block.

Cost: O(m^2 r) time per evaluation; memory: a block of rows x m per thread, and its impostors.

Departures: metric-learn's gradient descent has a step size, `learn_rate`, and `min_iter`; both are
accepted and have no effect on L-BFGS. A class with fewer than k + 1 rows has fewer targets, with a
warning. `trace_penalty` adds trace_penalty * m * trace(M) * v, v the mean variance of
the columns, which draws M towards low rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval

from nearfold.errors import InputError, warn
from nearfold.linalg import square_norms
from nearfold.linalg.row_order import order_by_value
from nearfold.messages import Message
from nearfold.metrics.labels import read_labels
from nearfold.metrics.linear_map import check_map, initial_map
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.pair_blocks import (
    Block,
    augmented,
    block_size,
    groups_of,
    plan_blocks,
    project,
    pull_back,
    require_blocks,
    run_tasks,
)
from nearfold.metrics.parameters import (
    CLASSES,
    COUNT,
    ENDED,
    INITIAL_MAP,
    NON_NEGATIVE,
    POSITIVE,
    SHARE,
    TUPLES,
)
from nearfold.metrics.preparation import centre_in_order, mean_variance, penalised
from nearfold.neighbors import build_index
from nearfold.neighbors.selection import groups_of_counts
from nearfold.notation import Array, Floats, Ints
from nearfold.optim import minimise, warn_unless_converged
from nearfold.run import PerThread, one_blas_thread, random_state, reporting

_IMPOSTORS = 2**17  # pairs of a row and an impostor held at a time


@dataclass(frozen=True)
class Targets:
    """The pairs j ~> i, row after row: row i has those from first[i] to first[i + 1]."""

    i: Ints
    j: Ints
    first: Ints

    def of(self, lo: int, hi: int, values: Array) -> Array:
        """The values of the pairs of rows lo to hi, all of one class, as a table (rows, k)."""
        return values[self.first[lo] : self.first[hi]].reshape(hi - lo, -1)


def target_neighbors(X: Array, starts: Ints, k: int) -> Targets:
    """The k nearest rows of its own class for every row; rows are sorted by class."""
    counts, j = np.zeros(len(X), dtype=np.int64), [np.empty(0, dtype=np.int64)]
    for lo, hi in pairwise(starts.tolist()):
        most = min(k, hi - lo - 1)
        counts[lo:hi] = most
        if most:
            j.append((lo + build_index(X[lo:hi], k_hint=most).nearest(None, most)[1]).ravel())
    first = np.concatenate([[0], np.cumsum(counts)])
    return Targets(np.repeat(np.arange(len(X)), counts), np.concatenate(j), first)


def margin_loss(
    X: Array, starts: Ints, targets: Targets, L: Floats, mu: float
) -> tuple[float, Floats]:
    """f(L) and its gradient; rows sorted by class."""
    Z = project(X, L)
    Z = Z - Z.mean(axis=0, dtype=np.float64).astype(Z.dtype)
    (m, r), (left, right) = Z.shape, augmented(Z)
    norms = right[-1]
    d_near = square_norms(Z[targets.i] - Z[targets.j])
    buffers = PerThread(lambda: np.empty((block_size(m), m), dtype=Z.dtype))

    def run(task: list[Block]) -> tuple[float, list[Floats], Floats]:
        value, counts, G = 0.0, [np.empty(0)], np.zeros(Z.shape)
        for lo, hi, c in task:
            near = targets.of(lo, hi, d_near)
            if near.shape[1]:
                T = np.matmul(left[lo:hi], right, out=buffers.get()[: hi - lo])
                T[:, starts[c] : starts[c + 1]] = -np.inf
                for few in impostor_groups(T, near, norms[lo:hi]):
                    at = slice(lo + few.start, lo + few.stop)
                    part, active, W = impostors(T[few], near[few], norms[at])
                    value += part
                    counts.append(active.ravel())
                    add_pushed(G, Z, at, W)
        return value, counts, G

    push, G, counts = 0.0, np.zeros(Z.shape), []
    for part, active, moved in run_tasks(run, plan_blocks(starts, m), float(m) * m, r):
        push += part
        G += (1 - mu) * moved
        counts += active
    weight = mu + (1 - mu) * np.concatenate(counts)
    pull = sparse.csr_array((weight, targets.j, targets.first), shape=(m, m))
    G += (pull.sum(axis=1) + pull.sum(axis=0))[:, None] * Z - pull @ Z - pull.T @ Z
    return mu * float(d_near.sum(dtype=np.float64)) + (1 - mu) * push, 2.0 * pull_back(G, X)


def impostor_groups(T: Array, near: Array, norms: Array) -> list[slice]:
    """Rows in groups with so few impostors that all pairs with them can be held."""
    if T.size <= _IMPOSTORS:
        return [slice(0, len(T))]
    nearer = T > (norms - 1 - near.max(axis=1))[:, None]  # than the farthest target and a margin
    return groups_of_counts(np.count_nonzero(nearer, axis=1), _IMPOSTORS)


def impostors(T: Array, near: Array, norms: Array) -> tuple[float, Floats, sparse.csr_array]:
    """The loss of a block of rows; per target, and as W (rows, m) per pair, how often it is active.

    T_il = |z_i|^2 - d_il^2, and -inf for rows l of the own class; near (rows, k): d_ij^2.
    """
    b, m = T.shape
    inside = np.flatnonzero(T > (norms - 1 - near.max(axis=1))[:, None])  # d_il^2 < 1 + d_ij^2
    row = inside // m
    rest = 1 - norms[row] + T.ravel()[inside]  # 1 - d_il^2
    value, counts, weight = 0.0, np.zeros(near.shape), np.zeros(len(inside))
    for t in range(near.shape[1]):
        excess = near[row, t] + rest
        active = excess > 0
        value += float(np.sum(excess, where=active, dtype=np.float64))
        counts[:, t] = np.bincount(row, active, b)
        weight += active
    first = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=b))])
    return value, counts, sparse.csr_array((weight, inside - row * m, first), shape=(b, m))


def add_pushed(G: Floats, Z: Array, rows: slice, W: sparse.csr_array) -> None:
    """Add the gradient (halved) of -sum_il W_il |z_i - z_l|^2 over some rows i to G."""
    G += W.T @ Z[rows]
    G -= W.sum(axis=0)[:, None] * Z
    G[rows] += W @ Z - W.sum(axis=1)[:, None] * Z[rows]


class LMNN(MahalanobisMetric):
    """Large margin nearest neighbours: own class near, other classes a margin farther away.

    Parameters
    ----------
    init : {"auto", "pca", "lda", "identity", "random"} or ndarray, default="auto"
        The linear map to start from.
    n_neighbors : int, default=3
        Target neighbours of each row.
    min_iter : int, default=50
        Accepted for compatibility; has no effect, because L-BFGS decides when to stop.
    max_iter : int, default=1000
        Most steps of L-BFGS.
    learn_rate : float, default=1e-7
        Accepted for compatibility; has no effect, because L-BFGS finds its own step lengths.
    regularization : float in [0, 1], default=0.5
        mu, the weight of pulling targets against pushing impostors.
    convergence_tol : float, default=0.001
        The relative decrease of the objective at which to stop, in hundredths (the default stops
        at 1e-5).
    verbose : bool, default=False
        Show progress.
    preprocessor : array-like or callable, default=None
        Table (or function) in which ids given instead of rows are looked up.
    n_components : int, default=None
        Rank of the map; None: all columns.
    random_state : int, RandomState instance or None, default=None
        Source of init="random".
    trace_penalty : float, default=0.0
        Draws the metric towards low rank.
    rank : int or float in (0, 1], default=None
        Rank to which M is cut, or the share of its trace to keep.

    Attributes
    ----------
    objective_ : float
        f at the solution.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether it converged.
    end_ : str
        Why it ended.
    history_ : list of float
        The objective after each step.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    labels_ : ndarray of shape (n_classes,)
        The numbers of the classes, 0, 1, ..., as in metric-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold import KNeighborsClassifier, LMNN
    >>> X, y = load_iris(return_X_y=True)
    >>> KNeighborsClassifier(metric=LMNN()).fit(X, y).score(None, y) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TUPLES,
        "init": INITIAL_MAP,
        "n_neighbors": COUNT,
        "min_iter": [Interval(Integral, 0, None, closed="left")],
        "max_iter": COUNT,
        "learn_rate": POSITIVE,
        "regularization": SHARE,
        "convergence_tol": NON_NEGATIVE,
        "n_components": [*COUNT, None],
        "trace_penalty": NON_NEGATIVE,
    }
    fitted_state = MahalanobisMetric.fitted_state.extended(**ENDED, **CLASSES)

    def __init__(
        self,
        init: Any = "auto",
        n_neighbors: int = 3,
        min_iter: int = 50,
        max_iter: int = 1000,
        learn_rate: float = 1e-7,
        regularization: float = 0.5,
        convergence_tol: float = 0.001,
        verbose: bool = False,
        preprocessor: Any = None,
        n_components: int | None = None,
        random_state: Any = None,
        *,
        trace_penalty: float = 0.0,
        rank: int | float | None = None,
    ) -> None:
        self.init = init
        self.n_neighbors = n_neighbors
        self.min_iter = min_iter
        self.max_iter = max_iter
        self.learn_rate = learn_rate
        self.regularization = regularization
        self.convergence_tol = convergence_tol
        self.verbose = verbose
        self.preprocessor = preprocessor
        self.n_components = n_components
        self.random_state = random_state
        self.trace_penalty = trace_penalty
        self.rank = rank

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> LMNN:
        """Learn the map from X and its labels y."""
        X, label = read_labels(self, X, y)
        init, r = check_map(self.init, X, self.n_components)
        self._warn_of_small_classes(np.bincount(label))
        require_blocks(len(X), r, X.dtype.itemsize, "LMNN")
        order = order_by_value(X, label)
        X = centre_in_order(X, order)
        _, starts = groups_of(label[order])
        L = initial_map(init, X, label[order], r, random_state(self.random_state))
        targets = target_neighbors(X, starts, self.n_neighbors)
        penalty = self.trace_penalty * len(X) * mean_variance(X)

        def loss(L: Floats) -> tuple[float, Floats]:
            return penalised(*margin_loss(X, starts, targets, L, self.regularization), L, penalty)

        with reporting(self.verbose), one_blas_thread():
            ended = minimise(
                loss, L, max_iter=self.max_iter, tol=self.convergence_tol / 100, label="LMNN"
            )
        self.n_iter_, self.converged_, self.end_ = ended.n_iter, ended.converged, ended.reason
        self.objective_, self.history_ = ended.value, ended.history
        self._set_map(ended.x, X.dtype, self.rank)
        warn_unless_converged(ended, "LMNN", "Raise max_iter or convergence_tol.")
        return self

    @property
    def labels_(self) -> Ints:
        """The numbers of the classes, as in metric-learn."""
        return np.arange(len(self.classes_))

    def _warn_of_small_classes(self, counts: Ints) -> None:
        small = self.classes_[counts <= self.n_neighbors]
        if counts.max() < 2:
            raise InputError("not enough class labels: no class has two rows to draw together.")
        if len(small):
            first = str(small[:5].tolist())
            warn(Message("warn.lmnn_small", n=len(small), k=self.n_neighbors, first=first))
