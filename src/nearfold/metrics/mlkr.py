"""Metric learning for kernel regression (Weinberger and Tesauro 2007): NCA's sibling for numbers.

Learns the linear map in which the mean of the soft neighbours, each row left out of its own,
predicts the target best.

Symbols: X (m, d), y the targets, L (r, d), Z = X L^T, p_ij the soft neighbours of (10.35).

    yhat_i = sum_j p_ij y_j                          prediction from the others
    f(L)   = sum_i (yhat_i - y_i)^2                  to be minimised
    df     = - sum_ij W_ij d|z_i - z_j|^2,  W_ij = 2 (yhat_i - y_i) p_ij (y_j - yhat_i)

Steps
  1. start from the principal axes, the identity or a given map
  2. L-BFGS
  3. bring the map into the canonical form of mahalanobis.py

Cost: O(m^2 r + m d r) per iteration; memory for a block of rows against all rows per thread
(soft_neighbors.py). The map of so many rows that a hundred steps would take more than some minutes
is learned from a sample of them, with a warning (learning_rows.py).

Departures: `trace_penalty` adds trace_penalty * m * trace(M) * var(y) * v, v the mean variance of
the columns, which draws M towards low rank.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context

from nearfold.errors import InputError
from nearfold.inputs import check_table
from nearfold.linalg.row_order import order_by_value
from nearfold.metrics.learning_rows import choose_rows
from nearfold.metrics.linear_map import check_map, initial_map
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.pair_blocks import project, pull_back, require_blocks
from nearfold.metrics.parameters import (
    COUNT,
    ENDED,
    INITIAL_MAP,
    MAX_SAMPLES,
    NON_NEGATIVE,
    SAMPLED,
    TUPLES,
)
from nearfold.metrics.preparation import centre_in_order, mean_variance, penalised
from nearfold.metrics.soft_neighbors import Regression, soft_neighbors
from nearfold.metrics.tuples import read_points
from nearfold.notation import Array, Floats
from nearfold.optim import minimise, warn_unless_converged
from nearfold.run import one_blas_thread, random_state, reporting

_MOST_WORK = 3e12  # products of all pairs in a hundred steps: some minutes
_LEAST_ROWS = 10_000  # that are always compared in all pairs


def most_rows(r: int, max_iter: int) -> int:
    """How many rows are learned from, unless `max_samples` says so."""
    return max(_LEAST_ROWS, int((_MOST_WORK / (r + 8) / min(max_iter, 100)) ** 0.5))


def residuals(X: Array, y: Array, L: Floats) -> tuple[float, Floats]:
    """f(L) and its gradient."""
    f, G = soft_neighbors(project(X, L), Regression(y))
    return f, 2.0 * pull_back(G, X)


class MLKR(MahalanobisMetric):
    """The metric in which kernel regression on neighbours predicts best.

    Parameters
    ----------
    n_components : int, default=None
        Rank of the map; None: all columns.
    init : {"auto", "pca", "identity", "random"} or ndarray, default="auto"
        The linear map to start from.
    tol : float, default=None
        The relative change of the objective at which to stop; None: that of L-BFGS.
    max_iter : int, default=1000
        Most steps of L-BFGS.
    verbose : bool, default=False
        Show progress.
    preprocessor : array-like or callable, default=None
        Table (or function) in which ids given instead of rows are looked up.
    random_state : int, RandomState instance or None, default=None
        Source of init="random", and of the sample (None is 0).
    trace_penalty : float, default=0.0
        Draws the metric towards low rank.
    rank : int or float in (0, 1], default=None
        Rank to which M is cut, or the share of its trace to keep.
    max_samples : int or None, default=None
        Learn from so many rows, drawn at random. None: all, but at most 10,000 or as many as can be
        compared in all pairs a hundred times in some minutes.

    Attributes
    ----------
    approximation_ : str or None
        What the map was learned from, if not from all rows.
    objective_ : float
        The mean squared leave-one-out error.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether it converged.
    end_ : str
        Why it ended.
    history_ : list of float
        The objective after each step.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import MLKR
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> mlkr = MLKR(n_components=1).fit(X, np.sin(X[:, 0]))
    >>> np.abs(mlkr.components_[0]).argmax()
    np.int64(0)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TUPLES,
        "n_components": [*COUNT, None],
        "init": INITIAL_MAP,
        "tol": [*NON_NEGATIVE, None],
        "max_iter": COUNT,
        "trace_penalty": NON_NEGATIVE,
        "max_samples": MAX_SAMPLES,
    }
    fitted_state = MahalanobisMetric.fitted_state.extended(**ENDED, **SAMPLED)

    def __init__(
        self,
        n_components: int | None = None,
        init: Any = "auto",
        tol: float | None = None,
        max_iter: int = 1000,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        trace_penalty: float = 0.0,
        rank: int | float | None = None,
        max_samples: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
        self.preprocessor = preprocessor
        self.random_state = random_state
        self.trace_penalty = trace_penalty
        self.rank = rank
        self.max_samples = max_samples

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> MLKR:
        """Learn the map from X and its numeric targets y."""
        X, y = check_table(
            self,
            read_points(self, X),
            reset=True,
            y=y,
            y_numeric=True,
            ensure_min_samples=2,
        )
        y = np.asarray(y, dtype=np.float64)
        if isinstance(self.init, str) and self.init == "lda":
            raise InputError("init='lda' needs classes; MLKR learns from numbers: use 'pca'.")
        init, r = check_map(self.init, X, self.n_components)
        if not np.isfinite(y).all():
            raise InputError(
                f"Input y contains NaN or inf (first in row {np.argmin(np.isfinite(y))})."
            )
        zero = np.zeros(len(X), dtype=np.int64)
        most = most_rows(r, self.max_iter)
        chosen = choose_rows(
            order_by_value(X, zero), np.array([0, len(X)]), self.max_samples, most, 2,
            self.random_state, "MLKR",
        )  # fmt: skip
        order, self.approximation_ = chosen.order, chosen.note
        require_blocks(len(order), r, X.dtype.itemsize, "MLKR")
        L = initial_map(init, X, zero, r, random_state(self.random_state))
        X = centre_in_order(X, order)
        targets = y[order] - y.mean()
        spread = float(np.abs(targets).max())
        if not (spread == 0 or 1e-140 < spread < 1e140):
            raise InputError(
                f"the targets differ by about {spread:.1g}, so that their squares overflow or "
                "vanish: multiply or divide them by a constant first."
            )
        scale = float(np.sqrt(np.mean(targets**2))) or 1.0
        targets = (targets / scale).astype(X.dtype)
        penalty = self.trace_penalty * len(X) * mean_variance(X)

        def loss(L: Floats) -> tuple[float, Floats]:
            return penalised(*residuals(X, targets, L), L, penalty)

        with reporting(self.verbose), one_blas_thread():
            ended = minimise(loss, L, max_iter=self.max_iter, tol=self.tol, label="MLKR")
        self.n_iter_, self.converged_, self.end_ = ended.n_iter, ended.converged, ended.reason
        self.history_ = [value * scale**2 / len(X) for value in ended.history]
        self.objective_ = ended.value * scale**2 / len(X)
        self._set_map(ended.x, X.dtype, self.rank)
        warn_unless_converged(ended, "[MLKR] MLKR", "Raise max_iter or tol, or scale the columns.")
        return self
