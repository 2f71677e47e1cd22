"""The weighted Euclidean distance (10.33): one non-negative weight for each column, learned.

    dist^2(x, y) = sum_k w_k (x_k - y_k)^2 = (x - y)^T W (x - y),   W = diag(w), w_k >= 0    (10.33)

From labels: the weights in which the soft nearest-neighbour vote of NCA (10.35)-(10.37) is right
most often; w = a^2 with a free, by L-BFGS. From pairs: the weights that solve (10.39) for a
diagonal M, with a certificate, as in mmc.py.

A column that does not help gets a weight near 0. `penalty` subtracts penalty * m * sum_k w_k s_k^2
(s_k the spread of column k) from the objective of the labels, which takes useless columns to 0
sooner.

Cost: O(m^2 d) per iteration from labels, O(n d) from n pairs.

Departure: the columns of P are in the order of their weights, as for every metric here, so
`transform` returns the columns with the largest weight first; `weights_` is in the order of X.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.inputs import refuse_extreme
from nearfold.linalg.row_order import order_by_value
from nearfold.metrics.learners import PairLearner
from nearfold.metrics.mmc import MMC
from nearfold.metrics.mmc_solver import Certificate
from nearfold.metrics.pair_blocks import groups_of, require_blocks
from nearfold.metrics.soft_neighbors import ClassVotes, soft_neighbors
from nearfold.metrics.tuples import Tuples
from nearfold.notation import Array, Floats, Ints
from nearfold.optim import minimise, warn_unless_converged
from nearfold.run import one_blas_thread

_VANISHED = 1e-8  # weights below this share of the largest, in units of the columns' spread


class WeightedEuclidean(PairLearner):
    """A weight for each column, learned from labels or from pairs.

    Parameters: `max_iter`, `tol` of the optimiser; `penalty` >= 0 on the weights, when learned from
    labels; `rank`, how many columns to keep (or which share of the weights). Fit on labels,
    `fit(X, y)`, or on pairs, as `MMC`.

    Attributes besides those of all metrics: `weights_`, one per column of X; `objective_`, the mean
    of p_i (labels) or that of (10.39) (pairs, with `certificate_`); `n_iter_`, `converged_`.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import WeightedEuclidean
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> WeightedEuclidean().fit(X, X[:, 1] > 0).weights_.argmax()
    np.int64(1)
    """

    def __init__(
        self,
        *,
        max_iter: int = 200,
        tol: float = 1e-6,
        penalty: float = 0.0,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        rank: int | float | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.penalty = penalty
        self.verbose = verbose
        self.preprocessor = preprocessor
        self.random_state = random_state
        self.rank = rank

    def _learn_from_labels(self, X: Array, label: Ints) -> None:
        if hasattr(self, "certificate_"):
            del self.certificate_  # of pairs learned from before
        with one_blas_thread():
            self._learn_votes(X, label)

    def _learn_votes(self, X: Array, label: Ints) -> None:
        m, d = X.shape
        require_blocks(m, d, X.dtype.itemsize, "WeightedEuclidean")
        refuse_extreme(float(np.ptp(X, axis=0).max()), X.dtype)
        order = order_by_value(X, label)
        spread = X.std(axis=0, dtype=np.float64)
        if not (spread > 0).any():
            raise InputError("all rows are equal: there is nothing to weigh.")
        unit = np.where(spread > 0, spread, 1.0)
        scaled = (X[order] - X.mean(axis=0, dtype=np.float64)) / unit
        scaled = np.ascontiguousarray(scaled, dtype=X.dtype)
        _, starts = groups_of(label[order])
        penalty = self.penalty * m

        def loss(a: Floats) -> tuple[float, Floats]:
            f, G = soft_neighbors(scaled * a.astype(X.dtype), ClassVotes(starts))
            gradient = 2.0 * np.einsum("ij,ij->j", G, scaled, dtype=np.float64)
            return penalty * float(a @ a) - f, 2 * penalty * a - gradient

        start = np.where(spread > 0, 1.0, 0.0) / np.sqrt(max(1, int((spread > 0).sum())))
        ended = minimise(
            loss, start, max_iter=self.max_iter, tol=self.tol, label="WeightedEuclidean"
        )
        self.n_iter_, self.converged_, self.end_ = ended.n_iter, ended.converged, ended.reason
        self.objective_ = -ended.value / m
        a = np.where(ended.x**2 > _VANISHED * np.max(ended.x**2), np.abs(ended.x), 0.0)
        self._keep_weights((a / unit) ** 2, X.dtype)
        warn_unless_converged(ended, "WeightedEuclidean", "Raise max_iter or tol.")

    def _learn(self, pairs: Tuples) -> None:
        mmc = MMC(diagonal=True, max_iter=self.max_iter)
        mmc._learn(pairs)
        self.certificate_: Certificate = mmc.certificate_
        self.n_iter_, self.converged_ = mmc.n_iter_, mmc.converged_
        self.objective_ = mmc.objective_
        self._keep_weights(np.diagonal(mmc.get_mahalanobis_matrix()), pairs.X.dtype)

    def _keep_weights(self, w: Floats, dtype: Any) -> None:
        """W = diag(w) in the fixed form: one axis per column, heaviest first."""
        heaviest = np.argsort(-w, kind="stable")[: int((w > 0).sum())]
        P_t = np.zeros((len(heaviest), len(w)))
        P_t[np.arange(len(heaviest)), heaviest] = np.sqrt(w[heaviest])
        self._keep(P_t, dtype, self.rank)
        self.weights_ = np.sum(self.components_.astype(np.float64) ** 2, axis=0)
