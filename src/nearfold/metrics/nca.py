"""Neighbourhood components analysis (section 10.6, (10.35)-(10.38)).

Learns the linear map in which a soft nearest-neighbour vote, each row left out of its own, is
right most often.

Symbols (rows are samples here): X (m, d), L (r, d) the map, P = L^T of the book, Z = X L^T,
y the labels, p_ij the chance that row i takes row j for its neighbour.

    p_ij = exp(-|z_i - z_j|^2) / sum_{l != i} exp(-|z_i - z_l|^2),  p_ii = 0           (10.35)
    p_i  = sum_{j: y_j = y_i} p_ij           the chance that row i is classified right  (10.36)
    f(L) = sum_i p_i                         to be maximised                            (10.37)
    df/dL = 2 sum_ij W_ij (z_i - z_j)(x_i - x_j)^T (-1),  W_ij = p_ij ([y_i = y_j] - p_i) (10.38)

Steps
  1. begin at the principal or discriminant axes, the identity, or a given map
  2. follow the gradient: L-BFGS on all rows (`solver="lbfgs"`), or Adam on batches of rows, each
     compared with some rows drawn anew for every batch, or with all (`solver="stochastic"`)
  3. put the map into the one form of mahalanobis.py

The rows are sorted by class, so that the rows of a class are a slice and no mask of pairs is
needed; distances are never held for more than a block of rows (soft_neighbors.py).

Cost: O(m^2 r + m d r) per iteration, O(m (c + d) r) per pass over batches with c candidates;
memory: O(m) times the block. `solver="auto"` takes the batches where L-BFGS would run for more than
some minutes, and says so.

Departures: (10.38) is written there as a loss, 1 minus the mean of p_i; the maximum is the same.
`trace_penalty` subtracts trace_penalty * m * trace(M) * v, v the mean variance of the columns,
which draws M towards low rank and keeps it from columns that hardly vary. scikit-learn returns L as
the optimiser left it; ours is the same metric, rotated into the fixed form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from nearfold.errors import ApproximationWarning, InputError, warn
from nearfold.linalg.row_order import order_by_value
from nearfold.metrics.labels import read_labels
from nearfold.metrics.linear_map import check_map, fill_up, initial_map
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.parameters import (
    CLASSES,
    COUNT,
    ENDED,
    INITIAL_MAP,
    NON_NEGATIVE,
    TUPLES,
    random_source,
)
from nearfold.metrics.soft_neighbors import (
    Few,
    Points,
    Targets,
    Workspace,
    add_few,
    centred,
    groups_of,
    mean_variance,
    project,
    pull_back,
    require_blocks,
    sum_over_blocks,
    unnormalised,
)
from nearfold.notation import Array, Floats, Ints
from nearfold.optim import OptimizationResult, adam, minimise, warn_unless_converged
from nearfold.run import map_in_order, one_blas_thread, random_state, reporting
from nearfold.state import optional, text

_MOST_WORK = 3e12  # products of all pairs in all iterations; beyond it L-BFGS takes minutes
_SAMPLE, _FIRST_STEPS = 4000, 5  # of L-BFGS, before the batches
_SPLIT = 128  # rows of a batch compared by one task


def votes(Z: Array, starts: Ints) -> tuple[float, Array]:
    """f and half its gradient over the rows of Z, which are sorted by class.

    The rows of class c are starts[c] to starts[c + 1].
    """
    points = Points.of(Z)
    label = np.repeat(np.arange(len(starts) - 1.0), np.diff(starts))

    def dense(E: Array, rows: slice, c: int, onto: Array) -> tuple[float, Array]:
        return _count_dense(points, E, rows, slice(starts[c], starts[c + 1]), onto)

    return sum_over_blocks(points, starts, Targets(label, by_class=True), dense)


def _count_dense(
    points: Points, E: Array, rows: Any, own: slice, onto: Array
) -> tuple[float, Array]:
    """sum of p_i over rows of one class, and what they add to dz of themselves and of others.

    With W = E ([y_i = y_j] - p_i) / s_i, from products with E and with its columns of the class.
    """
    with_one, E_own = points.with_one[rows], E[:, own]
    all_sums, own_sums = E @ points.with_one, E_own @ points.with_one[own]  # sum_j E_ij [z_j, 1]
    s = all_sums[:, -1:]
    p = own_sums[:, -1:] / s  # (10.36)
    onto -= (with_one * (p / s)).T @ E
    onto[:, own] += (with_one / s).T @ E_own
    return float(p.sum(dtype=np.float64)), (own_sums - p * all_sums)[:, :-1] / s


def objective(X: Array, starts: Ints, L: Floats) -> tuple[float, Floats]:
    """f(L) and its gradient; rows sorted by class."""
    f, G = votes(project(X, L), starts)
    return f, 2.0 * pull_back(G, X)  # (10.38)


def batch_objective(
    X: Array, label: Ints, starts: Ints, L: Floats, batch: Ints
) -> tuple[float, Floats]:
    """The same summed over a batch of rows only, each compared with all rows."""
    points = Points.of(project(X, L))
    batch = batch[np.argsort(label[batch], kind="stable")]
    m, r = points.Z.shape
    targets = Targets(label.astype(np.float64), by_class=True)

    def run(rows: Ints) -> tuple[float, Array, Array]:
        E = unnormalised(points, rows, rows, Workspace(len(rows), m, X.dtype))
        if isinstance(E, Few):
            tall = np.zeros((m, r + 1), dtype=X.dtype)
            return *add_few(points, E, targets, rows, tall), tall.T
        value, mine = 0.0, np.empty((len(rows), r), dtype=X.dtype)
        onto = np.zeros((r + 1, m), dtype=X.dtype)
        for c in np.unique(label[rows]):
            part, own = label[rows] == c, slice(starts[c], starts[c + 1])
            v, mine[part] = _count_dense(points, E[part], rows[part], own, onto)
            value += v
        return value, mine, onto

    parts = [batch[a : a + _SPLIT] for a in range(0, len(batch), _SPLIT)]
    f, onto, G = 0.0, np.zeros((r + 1, m), dtype=X.dtype), None
    for rows, (value, mine, theirs) in zip(parts, map_in_order(run, parts), strict=True):
        f += value
        onto += theirs
        G = np.zeros((m, r), dtype=X.dtype) if G is None else G
        G[rows] += mine
    G += onto[:-1].T - onto[-1][:, None] * points.Z
    return f, 2.0 * pull_back(G, X)


class NeighborhoodComponentsAnalysis(MahalanobisMetric):
    """Neighbourhood components analysis: the map in which soft nearest neighbours vote best.

    Parameters
    ----------
    n_components : int, default=None
        Rank of the map; None: all columns.
    init : {"auto", "pca", "lda", "identity", "random"} or ndarray, default="auto"
        The linear map to start from.
    warm_start : bool, default=False
        Start from the result of the last fit; of more than `n_components` rows the largest.
    max_iter : int, default=50
        Most steps of L-BFGS.
    tol : float, default=1e-5
        The relative change of the objective at which to stop; None: that of L-BFGS.
    callback : callable, default=None
        Called after each step with the map, flattened, and the number of the step.
    verbose : int, default=0
        Show progress.
    random_state : int, RandomState instance or None, default=None
        Source of init="random", and of batches.
    solver : {"auto", "lbfgs", "stochastic"}, default="auto"
        All rows in every step, or passes over batches (for tens of thousands of rows).
    batch_size : int, default=512
        Rows in a batch.
    n_candidates : int, default=8192
        Rows drawn anew with which a batch is compared; None: all.
    n_epochs : int, default=10
        Passes over the rows, in batches.
    trace_penalty : float, default=0.0
        Draws the metric towards low rank; it also helps held-out rows where NCA fits the given
        ones too well (try 0.01).
    rank : int or float in (0, 1], default=None
        Rank to which M is cut, or the share of its trace to keep.
    preprocessor : array-like or callable, default=None
        Table (or function) in which ids given instead of rows are looked up.

    Attributes
    ----------
    objective_ : float
        The mean of p_i: the expected leave-one-out accuracy of the soft vote.
    n_iter_ : int
        Number of steps, or of passes over batches.
    converged_ : bool
        Whether it converged.
    end_ : str
        Why it ended.
    history_ : list of float
        The objective after each step.
    solver_ : {"lbfgs", "stochastic"}
        The solver that was used.
    approximation_ : str or None
        What was approximated, if batches were used.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    random_state_ : RandomState
        The source of random numbers during fit.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold import KNeighborsClassifier, NeighborhoodComponentsAnalysis
    >>> X, y = load_iris(return_X_y=True)
    >>> nca = NeighborhoodComponentsAnalysis(n_components=2, random_state=0).fit(X, y)
    >>> KNeighborsClassifier(metric=nca).fit(X, y).score(None, y) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TUPLES,
        "n_components": [*COUNT, None],
        "init": INITIAL_MAP,
        "warm_start": ["boolean"],
        "max_iter": COUNT,
        "tol": [*NON_NEGATIVE, None],
        "callback": [callable, None],
        "solver": [StrOptions({"auto", "lbfgs", "stochastic"})],
        "batch_size": COUNT,
        "n_candidates": [*COUNT, None],
        "n_epochs": COUNT,
        "trace_penalty": NON_NEGATIVE,
    }
    fitted_state = MahalanobisMetric.fitted_state.extended(
        **ENDED,
        **CLASSES,
        solver_=text("lbfgs", "stochastic"),
        approximation_=optional(text()),
        random_state_=random_source,
    )

    def __init__(
        self,
        n_components: int | None = None,
        *,
        init: Any = "auto",
        warm_start: bool = False,
        max_iter: int = 50,
        tol: float | None = 1e-5,
        callback: Callable[[Floats, int], None] | None = None,
        verbose: int = 0,
        random_state: Any = None,
        solver: str = "auto",
        batch_size: int = 512,
        n_candidates: int | None = 8192,
        n_epochs: int = 10,
        trace_penalty: float = 0.0,
        rank: int | float | None = None,
        preprocessor: Any = None,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.warm_start = warm_start
        self.max_iter = max_iter
        self.tol = tol
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state
        self.solver = solver
        self.batch_size = batch_size
        self.n_candidates = n_candidates
        self.n_epochs = n_epochs
        self.trace_penalty = trace_penalty
        self.rank = rank
        self.preprocessor = preprocessor

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> NeighborhoodComponentsAnalysis:
        """Learn the map from X and its labels y."""
        X, label = read_labels(self, X, y)
        init, r = check_map(self.init, X, self.n_components)
        self.random_state_ = random_state(self.random_state)
        with reporting(self.verbose):
            L = self._begin(init, X, label, r)
            require_blocks(len(X), len(L), X.dtype.itemsize, "NCA")
            with one_blas_thread():
                ended = self._solve(X, label, L)
        self.n_iter_, self.converged_, self.end_ = ended.n_iter, ended.converged, ended.reason
        self.history_ = [-value / len(X) for value in ended.history]
        self.objective_ = -ended.value / len(X)
        self._set_map(ended.x, X.dtype, self.rank)
        warn_unless_converged(
            ended, "NCA", "Raise max_iter (or n_epochs), or tol, or scale the columns."
        )
        return self

    def _begin(self, init: Any, X: Array, label: Ints, r: int) -> Floats:
        if not (self.warm_start and hasattr(self, "components_")):
            return initial_map(init, X, label, r, self.random_state_)
        before = np.asarray(self.components_, dtype=np.float64)
        if before.shape[1] != X.shape[1]:
            raise InputError(
                f"The new inputs dimensionality ({X.shape[1]}) does not match the input "
                f"dimensionality of the previously learned transformation ({before.shape[1]})."
            )
        return fill_up(before[:r], r, self.random_state_)  # rows are sorted, the largest first

    def _solve(self, X: Array, label: Ints, L: Floats) -> OptimizationResult:
        m = len(X)
        work = float(m) ** 2 * (len(L) + 8) * self.max_iter
        self.solver_ = self.solver
        if self.solver == "auto":
            self.solver_ = "stochastic" if work > _MOST_WORK else "lbfgs"
        self.approximation_ = None
        # In an order of their own, so that the order of the rows given changes nothing.
        order = order_by_value(X, label)
        X, label = centred(X, order), label[order]
        _, starts = groups_of(label)
        if self.solver_ == "lbfgs":
            return self._by_all_rows(X, starts, L, self.max_iter)
        self.approximation_ = f"{self.n_epochs} passes over batches of {self.batch_size} rows"
        if self.solver == "auto":
            warn(
                f"L-BFGS on all {m} rows would take long, so NCA was learned from "
                f"{self.approximation_}; choose by solver='lbfgs' or solver='stochastic'.",
                ApproximationWarning,
            )
        # A few steps on a sample tell the size of the map, without which a step has no scale. To
        # go on there would fit the sample, and what is fitted too closely is hard to leave.
        some = np.sort(self.random_state_.permutation(m)[: max(2, min(_SAMPLE, m // 4))])
        _, few = groups_of(label[some])
        L = self._by_all_rows(X[some], few, L, min(_FIRST_STEPS, self.max_iter)).x
        return self._by_batches(X, label, starts, L)

    def _by_all_rows(self, X: Array, starts: Ints, L: Floats, max_iter: int) -> OptimizationResult:
        penalty = self.trace_penalty * len(X) * mean_variance(X)

        def loss(L: Floats) -> tuple[float, Floats]:
            f, gradient = objective(X, starts, L)
            return penalty * float(np.sum(L**2)) - f, 2 * penalty * L - gradient

        return minimise(
            loss, L, max_iter=max_iter, tol=self.tol, label="NCA", callback=self._report
        )

    def _by_batches(self, X: Array, label: Ints, starts: Ints, L: Floats) -> OptimizationResult:
        price = self.trace_penalty * mean_variance(X)

        def loss(L: Floats, batch: Ints) -> tuple[float, Floats]:
            if self.n_candidates is None or self.n_candidates >= len(X):
                f, gradient = batch_objective(X, label, starts, L, batch)
            else:
                drawn = self.random_state_.randint(0, len(X), self.n_candidates)
                some = np.union1d(drawn, batch)
                _, few = groups_of(label[some])
                within = np.searchsorted(some, batch)
                f, gradient = batch_objective(X[some], label[some], few, L, within)
            penalty = price * len(batch)
            return penalty * float(np.sum(L**2)) - f, 2 * penalty * L - gradient

        return adam(
            loss,
            L,
            n_rows=len(X),
            batch_size=self.batch_size,
            n_epochs=self.n_epochs,
            random=self.random_state_,
            label="NCA, batches",
            callback=self._report,
        )

    def _report(self, L: Floats, iteration: int) -> None:
        if self.callback is not None:
            self.callback(L.ravel(), iteration)


class NCA(NeighborhoodComponentsAnalysis):
    """The short name of `NeighborhoodComponentsAnalysis`."""
