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
(soft_neighbors.py).

Departures: `trace_penalty` adds trace_penalty * m * trace(M) * var(y) * v, v the mean variance of
the columns, which draws M towards low rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.inputs import check_table
from nearfold.linalg.row_order import order_by_value
from nearfold.metrics.linear_map import check_map, initial_map
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.pair_blocks import project, pull_back, require_blocks
from nearfold.metrics.preparation import centre_in_order, mean_variance
from nearfold.metrics.soft_neighbors import Regression, soft_neighbors
from nearfold.metrics.tuples import look_up
from nearfold.notation import Array, Floats
from nearfold.optim import minimise, warn_unless_converged
from nearfold.run import one_blas_thread, random_state, reporting


def residuals(X: Array, y: Array, L: Floats) -> tuple[float, Floats]:
    """f(L) and its gradient."""
    f, G = soft_neighbors(project(X, L), Regression(y))
    return f, 2.0 * pull_back(G, X)


class MLKR(MahalanobisMetric):
    """The metric in which kernel regression on neighbours predicts best.

    Parameters are metric-learn's. New: `trace_penalty` >= 0, which draws the metric towards low
    rank; `rank`, a number or a share of the trace to which the learned metric is cut.

    Attributes besides those of all metrics: `objective_`, the mean squared leave-one-out error;
    `n_iter_`, `converged_`, `end_`, `history_`.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import MLKR
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> mlkr = MLKR(n_components=1).fit(X, np.sin(X[:, 0]))
    >>> np.abs(mlkr.components_[0]).argmax()
    np.int64(0)
    """

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

    def fit(self, X: Any, y: Any) -> MLKR:
        """Learn the map from X and its numeric targets y."""
        X, y = check_table(
            self,
            look_up(self.preprocessor, X),
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
        require_blocks(len(X), r, X.dtype.itemsize, "MLKR")
        zero = np.zeros(len(X), dtype=np.int64)
        L = initial_map(init, X, zero, r, random_state(self.random_state))
        order = order_by_value(X, zero)
        X = centre_in_order(X, order)
        targets = y[order] - y.mean()
        scale = float(np.sqrt(np.mean(targets**2))) or 1.0
        targets = (targets / scale).astype(X.dtype)
        penalty = self.trace_penalty * len(X) * mean_variance(X)

        def loss(L: Floats) -> tuple[float, Floats]:
            f, gradient = residuals(X, targets, L)
            return f + penalty * float(np.sum(L**2)), 2 * penalty * L + gradient

        with reporting(self.verbose), one_blas_thread():
            ended = minimise(loss, L, max_iter=self.max_iter, tol=self.tol, label="MLKR")
        self.n_iter_, self.converged_, self.end_ = ended.n_iter, ended.converged, ended.reason
        self.history_ = [value * scale**2 / len(X) for value in ended.history]
        self.objective_ = ended.value * scale**2 / len(X)
        self._set_map(ended.x, X.dtype, self.rank)
        warn_unless_converged(ended, "MLKR", "Raise max_iter or tol, or scale the columns.")
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
