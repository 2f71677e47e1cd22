"""Neighbourhood components analysis (section 10.6, (10.35)-(10.38)).

Learns the linear map in which a soft nearest-neighbour vote, each row left out of its own, is
right most often.

Symbols (rows are samples here): X (m, d), L (r, d) the map, P = L^T of the book, Z = X L^T,
y the labels, p_ij the chance that row i takes row j for its neighbour.

    p_ij = exp(-|z_i - z_j|^2) / sum_{l != i} exp(-|z_i - z_l|^2),  p_ii = 0           (10.35)
    p_i  = sum_{j: y_j = y_i} p_ij           the chance that row i is classified right  (10.36)
    f(L) = sum_i p_i                         to be maximised                            (10.37)
    min over L of 1 - f(L) / m               the same as a loss                         (10.38)

    df/dL = -2 sum_ij W_ij (z_i - z_j)(x_i - x_j)^T,   W_ij = p_ij ([y_i = y_j] - p_i)

Steps
  1. start from the principal or discriminant axes, the identity, or a given map
  2. follow the gradient: L-BFGS on all rows (`solver="lbfgs"`), or Adam on batches of rows, each
     compared with some rows drawn anew for every batch, or with all (`solver="stochastic"`)
  3. bring the map into the canonical form of mahalanobis.py

Probabilities are computed for a block of rows at a time (soft_neighbors.py).

Cost: O(m^2 r + m d r) per iteration; O(n (c + d) r) per pass over batches with c candidates, n all
rows or 100,000 of them drawn anew. Memory: O(m) or O(c) times the block. `solver="auto"` uses
batches where L-BFGS would run for more than some minutes, with a warning.

Of more than 100,000 rows on a Dask cluster those of one pass at a time come to this process, in
which the batches run; fewer rows come whole, and any solver takes them.

Departures: the loss is -f instead of 1 - f / m, which has the same minimum. `trace_penalty`
subtracts trace_penalty * m * trace(M) * v, v the mean variance of the columns,
which draws M towards low rank and keeps it from columns that hardly vary. scikit-learn returns L as
the optimiser left it; ours is the same metric, rotated into the fixed form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.utils._param_validation import StrOptions

from nearfold.blocks import DaskRows, as_rows
from nearfold.errors import ApproximationWarning, InputError, warn
from nearfold.messages import Message
from nearfold.metrics.labels import read_labels
from nearfold.metrics.linear_map import check_map, initial_map
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.ordered_rows import FarRows, HeldRows
from nearfold.metrics.pair_blocks import groups_of, project, pull_back, require_blocks
from nearfold.metrics.parameters import (
    CLASSES,
    COUNT,
    ENDED,
    INITIAL_MAP,
    NON_NEGATIVE,
    TUPLES,
    random_source,
)
from nearfold.metrics.preparation import mean_variance, penalised
from nearfold.metrics.soft_neighbors import ClassVotes, soft_neighbors
from nearfold.notation import Array, Floats, Ints
from nearfold.optim import OptimizationResult, adam, minimise, warn_unless_converged
from nearfold.run import one_blas_thread, random_state, reporting
from nearfold.state import optional, text

_MOST_WORK = 3e12  # products of all pairs in all iterations; beyond it L-BFGS takes minutes
_SAMPLE, _FIRST_STEPS = 4000, 5  # rows and iterations of L-BFGS before the batches
_PASS = 100_000  # most rows of a pass: the steps that a map needs do not grow with the rows


def objective(X: Array, starts: Ints, L: Floats, batch: Ints | None = None) -> tuple[float, Floats]:
    """f(L) and its gradient; rows sorted by class, those of class c at starts[c]:starts[c + 1].

    With a `batch` of row numbers, the sum of p_i over these rows only.
    """
    Z = project(X, L)
    rows = None if batch is None else np.sort(batch)
    f, G = soft_neighbors(Z, ClassVotes(starts), rows)  # p_ij, p_i and f: (10.35)-(10.37)
    return f, 2.0 * pull_back(G, X)


def maximise_votes(
    X: Array, starts: Ints, L: Floats, trace_penalty: float, **options: Any
) -> OptimizationResult:
    """L-BFGS over all rows."""
    penalty = trace_penalty * len(X) * mean_variance(X)

    def loss(L: Floats) -> tuple[float, Floats]:
        f, gradient = objective(X, starts, L)
        return penalised(-f, -gradient, L, penalty)  # (10.38)

    return minimise(loss, L, label="NCA", **options)


def maximise_votes_by_batches(
    rows: HeldRows | FarRows,
    L: Floats,
    trace_penalty: float,
    n_candidates: int | None,
    random: Any,
    **options: Any,
) -> OptimizationResult:
    """Adam over batches, each compared with all rows of its pass or with some drawn for it."""
    m, penalty = len(rows.label), trace_penalty * rows.variance

    def open_pass(places: Ints) -> Callable[[Floats, Ints], tuple[float, Floats]]:
        X, label = rows.take(places), rows.label[places]
        return partial(loss, X, label)

    def loss(X: Array, label: Ints, L: Floats, batch: Ints) -> tuple[float, Floats]:
        some, others = batch, np.arange(len(X))
        if n_candidates is not None and n_candidates < len(X):
            others = np.union1d(random.randint(0, len(X), n_candidates), batch)
            some = np.searchsorted(others, batch)
        _, starts = groups_of(label[others])
        f, gradient = objective(X if len(others) == len(X) else X[others], starts, L, some)
        return penalised(-f, -gradient, L, penalty * len(batch))  # (10.38)

    return adam(open_pass, L, n_rows=m, random=random, most=_PASS, label="NCA, batches", **options)


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
        Rows, of those of the pass, drawn anew with which a batch is compared; None: all of them.
    n_epochs : int, default=10
        Passes over the rows, in batches; a pass visits at most 100,000 rows, drawn anew.
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
        X, label = read_labels(self, X, y, most=_PASS)
        m, dtype = len(label), X.dtype
        init, r = check_map(self.init, X, self.n_components)
        self.random_state_ = random_state(self.random_state)
        with reporting(self.verbose):
            before = vars(self).get("components_") if self.warm_start else None
            self.solver_, compared = self._solver_for(X, m, r)
            if self.solver_ == "stochastic" and m > _PASS:
                X = FarRows(as_rows(X), label, _PASS, self.random_state_)
                L = initial_map(init, X.X, X.y, r, self.random_state_, before)
            else:
                L = initial_map(init, X, label, r, self.random_state_, before)
            require_blocks(compared, len(L), dtype.itemsize, "NCA")
            with one_blas_thread():
                ended = self._solve(X, label, L)
        self.n_iter_, self.converged_, self.end_ = ended.n_iter, ended.converged, ended.reason
        self.history_ = [-value / m for value in ended.history]
        self.objective_ = -ended.value / m
        self._set_map(ended.x, dtype, self.rank)
        warn_unless_converged(
            ended,
            f"[{type(self).__name__}] NCA",
            "Raise max_iter (or n_epochs), or tol, or scale the columns.",
        )
        return self

    def choose_solver(self, m: int, r: int) -> tuple[str, int]:
        """The solver for m rows and r dimensions, and how many rows it compares in all pairs."""
        solver, work = self.solver, float(m) ** 2 * (r + 8) * self.max_iter
        if solver == "auto":
            solver = "stochastic" if work > _MOST_WORK else "lbfgs"
        if solver == "stochastic" and self.n_candidates is not None:
            return solver, min(m, max(_SAMPLE, self.n_candidates + self.batch_size))
        return solver, m

    def rows_of_passes(self, m: int) -> int:
        """How many rows the passes over batches see, those seen again counted again."""
        return self.n_epochs * min(m, _PASS)

    def _solver_for(self, X: Any, m: int, r: int) -> tuple[str, int]:
        """The same for the rows X, which stay on a cluster if they are many there."""
        if not isinstance(X, DaskRows):
            return self.choose_solver(m, r)
        if self.solver == "lbfgs":
            raise InputError(Message("cluster.lbfgs", most=f"{_PASS:,}"))
        batches = clone(self).set_params(solver="stochastic")
        found: tuple[str, int] = batches.choose_solver(m, r)
        return found

    def _solve(self, X: Any, label: Ints, L: Floats) -> OptimizationResult:
        m = len(label)
        self.approximation_ = None
        options = {"tol": self.tol, "callback": self._report}
        if self.solver_ == "lbfgs":
            held = HeldRows(X, label)
            _, starts = groups_of(held.label)
            most = {"max_iter": self.max_iter, **options}
            return maximise_votes(held.X, starts, L, self.trace_penalty, **most)
        drawn = f" of {_PASS:,} rows drawn anew" if m > _PASS else ""
        self.approximation_ = (
            f"{self.n_epochs} passes{drawn} over batches of {self.batch_size} rows"
        )
        if self.solver == "auto":
            warn(
                Message("warn.nca_batches", m=str(m), how=self.approximation_),
                ApproximationWarning,
            )
        # A canonical order, so that the order of the rows given changes nothing.
        rows = X if isinstance(X, FarRows) else HeldRows(X, label)
        return self._solve_by_batches(rows, L, options)

    def _solve_by_batches(
        self, rows: HeldRows | FarRows, L: Floats, options: dict[str, Any]
    ) -> OptimizationResult:
        # A few iterations on a sample find the scale of the map, without which Adam's step has
        # none. More of them would overfit the sample, which is hard to undo.
        m = len(rows.label)
        some = np.sort(self.random_state_.permutation(m)[: max(2, min(_SAMPLE, m // 4))])
        _, few = groups_of(rows.label[some])
        first = {"max_iter": min(_FIRST_STEPS, self.max_iter), **options}
        return maximise_votes_by_batches(
            rows,
            maximise_votes(rows.take(some), few, L, self.trace_penalty, **first).x,
            self.trace_penalty,
            self.n_candidates,
            self.random_state_,
            batch_size=self.batch_size,
            n_epochs=self.n_epochs,
            callback=self._report,
        )

    def _report(self, L: Floats, iteration: int) -> None:
        if self.callback is not None:
            self.callback(L.ravel(), iteration)


class NCA(NeighborhoodComponentsAnalysis):
    """The short name of `NeighborhoodComponentsAnalysis`."""
