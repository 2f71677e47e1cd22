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

Up to some thousand rows every evaluation of f finds all impostors (margin.py). Beyond, L-BFGS works
on lists of the pairs that may be impostors (impostors.py), which are renewed as the map moves and
checked against all pairs at the end (lmnn_solver.py); the objective is the same. There the start is
`init` times a factor, that of the smallest f.

Cost: O(m^2 r) time to find all impostors, O(n r) for a step with n pairs listed; memory: a block of
rows x m per thread, and some million pairs. The map of more than 100,000 rows is learned from so
many of them, with a warning (learning_rows.py).

Departures: metric-learn's gradient descent has a step size, `learn_rate`, and `min_iter`; both are
accepted and have no effect on L-BFGS. A class with fewer than k + 1 rows has fewer targets, with a
warning. `trace_penalty` adds trace_penalty * m * trace(M) * v, v the mean variance of
the columns, which draws M towards low rank.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval

from nearfold.errors import InputError, warn
from nearfold.linalg.row_order import order_by_value
from nearfold.messages import Message
from nearfold.metrics.impostors import LISTED, Candidates, find_candidates, listed_pairs
from nearfold.metrics.labels import read_labels
from nearfold.metrics.learning_rows import choose_rows
from nearfold.metrics.linear_map import check_map, initial_map
from nearfold.metrics.lmnn_solver import minimise_in_rounds
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.margin import (
    best_scale,
    map_rows,
    margin_loss,
    reach_of_rows,
    target_neighbors,
)
from nearfold.metrics.pair_blocks import groups_of, require_blocks
from nearfold.metrics.parameters import (
    CLASSES,
    COUNT,
    ENDED,
    INITIAL_MAP,
    MAX_SAMPLES,
    NON_NEGATIVE,
    POSITIVE,
    SAMPLED,
    SHARE,
    TUPLES,
)
from nearfold.metrics.preparation import centre_in_order, mean_variance, penalised
from nearfold.notation import Array, Floats, Ints
from nearfold.optim import OptimizationResult, minimise, warn_unless_converged
from nearfold.run import one_blas_thread, random_state, reporting

_MOST_ROWS = 100_000  # compared in all pairs: some minutes


def most_rows(max_samples: int | None) -> int:
    """How many rows are learned from, about."""
    return _MOST_ROWS if max_samples is None else max_samples


def learn_map(
    X: Array, starts: Ints, L: Floats, k: int, mu: float, penalty: float, **options: Any
) -> OptimizationResult:
    """L-BFGS on f plus penalty |L|^2, from L; rows sorted by class."""
    targets = target_neighbors(X, starts, k)

    def loss(L: Floats, listed: Candidates | None = None) -> tuple[float, Floats]:
        return penalised(*margin_loss(X, starts, targets, L, mu, listed), L, penalty)

    def find(L: Floats) -> Candidates | None:
        Z, near = map_rows(X, targets, L)
        return find_candidates(Z, starts, reach_of_rows(starts, targets, near))

    if len(X) < LISTED:
        return minimise(loss, L, label="LMNN", **options)
    # A start of about the right size has about as many impostors as the end, so that lists last.
    L = L * best_scale(X, starts, targets, L, mu, penalty)
    return minimise_in_rounds(loss, find, L, **options)


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
        Source of init="random", and of the sample (None is 0).
    trace_penalty : float, default=0.0
        Draws the metric towards low rank.
    rank : int or float in (0, 1], default=None
        Rank to which M is cut, or the share of its trace to keep.
    max_samples : int or None, default=None
        Learn from so many rows, drawn at random, of each class in proportion. None: all, but at
        most 100,000.

    Attributes
    ----------
    approximation_ : str or None
        What the map was learned from, if not from all rows.
    objective_ : float
        f at the solution.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether it converged.
    end_ : str
        Why it ended.
    history_ : list of float
        The objective after each step, as far as impostors were known then; the last is exact.
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
        "max_samples": MAX_SAMPLES,
    }
    fitted_state = MahalanobisMetric.fitted_state.extended(**ENDED, **CLASSES, **SAMPLED)

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
        max_samples: int | None = None,
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
        self.max_samples = max_samples

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> LMNN:
        """Learn the map from X and its labels y."""
        X, label = read_labels(self, X, y)
        init, r = check_map(self.init, X, self.n_components)
        self._warn_of_small_classes(np.bincount(label))
        order = order_by_value(X, label)
        chosen = choose_rows(
            order, groups_of(label)[1], self.max_samples, _MOST_ROWS, self.n_neighbors + 1,
            self.random_state, "LMNN",
        )  # fmt: skip
        order, self.approximation_ = chosen.order, chosen.note
        n = len(order)
        require_blocks(n, r, X.dtype.itemsize, "LMNN", pairs=listed_pairs(n))
        X = centre_in_order(X, order)
        _, starts = groups_of(label[order])
        L = initial_map(init, X, label[order], r, random_state(self.random_state))
        penalty = self.trace_penalty * len(X) * mean_variance(X)
        options = {"max_iter": self.max_iter, "tol": self.convergence_tol / 100}
        with reporting(self.verbose), one_blas_thread():
            ended = learn_map(
                X, starts, L, self.n_neighbors, self.regularization, penalty, **options
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
