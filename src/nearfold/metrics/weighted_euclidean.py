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

from typing import Any, ClassVar

import numpy as np

from nearfold.errors import InputError
from nearfold.linalg.row_order import order_by_value
from nearfold.metrics.labels import keep_parameters, read_labels
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.mmc import learn_metric
from nearfold.metrics.mmc_solver import SOLVED, Certificate
from nearfold.metrics.pair_blocks import groups_of, require_blocks
from nearfold.metrics.pairs import PairsMixin
from nearfold.metrics.parameters import COUNT, FROM_PAIRS, ITERATED, NON_NEGATIVE, TUPLES
from nearfold.metrics.preparation import refuse_extreme_spread
from nearfold.metrics.soft_neighbors import ClassVotes, soft_neighbors
from nearfold.metrics.tuples import Tuples
from nearfold.notation import Array, Floats, Ints
from nearfold.optim import OptimizationResult, minimise, warn_unless_converged
from nearfold.run import one_blas_thread
from nearfold.state import nested

_VANISHED = 1e-8  # weights below this share of the largest, in units of the columns' spread


def learn_votes(
    X: Array, label: Ints, penalty: float, max_iter: int, tol: float
) -> tuple[Floats, OptimizationResult]:
    """The roots of the weights in which soft neighbours vote best, and how the search ended."""
    m = len(X)
    require_blocks(m, X.shape[1], X.dtype.itemsize, "WeightedEuclidean")
    refuse_extreme_spread(X, X.dtype)
    order, unit = order_by_value(X, label), column_spreads(X)
    if not (unit > 0).any():
        raise InputError("all rows are equal: there is nothing to weigh.")
    scaled = (X[order] - X.mean(axis=0, dtype=np.float64)) / np.where(unit > 0, unit, 1.0)
    scaled = np.ascontiguousarray(scaled, dtype=X.dtype)
    _, starts = groups_of(label[order])

    def loss(a: Floats) -> tuple[float, Floats]:
        f, G = soft_neighbors(scaled * a.astype(X.dtype), ClassVotes(starts))
        gradient = 2.0 * np.einsum("ij,ij->j", G, scaled, dtype=np.float64)
        return penalty * m * float(a @ a) - f, 2 * penalty * m * a - gradient

    start = np.where(unit > 0, 1.0, 0.0) / np.sqrt(max(1, int((unit > 0).sum())))
    with one_blas_thread():
        ended = minimise(loss, start, max_iter=max_iter, tol=tol, label="WeightedEuclidean")
    a = np.where(ended.x**2 > _VANISHED * np.max(ended.x**2), np.abs(ended.x), 0.0)
    return a / np.where(unit > 0, unit, 1.0), ended


def column_spreads(X: Array) -> Floats:
    """The standard deviation of each column; squares of small deviations do not vanish."""
    centred = X - X.mean(axis=0, dtype=np.float64)
    largest = np.abs(centred).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)
    return np.asarray(largest * np.sqrt(np.mean((centred / unit) ** 2, axis=0)))


class WeightedEuclidean(PairsMixin, MahalanobisMetric):
    """A weight for each column, learned from labels or from pairs.

    Fit on labels, `fit(X, y)`, or on pairs, as `MMC`.

    Parameters
    ----------
    max_iter : int, default=200
        Most steps of the optimiser.
    tol : float, default=1e-6
        The relative change of the objective at which to stop, when learned from labels.
    penalty : float, default=0.0
        Price of the weights, when learned from labels.
    smoothing : float, default=0.0
        When learned from pairs: draws the weights towards all columns, as in `MMC`.
    verbose : bool, default=False
        Show progress.
    preprocessor : array-like or callable, default=None
        Table (or function) in which ids given instead of rows are looked up.
    random_state : int, RandomState instance or None, default=None
        Accepted for compatibility; has no effect, because nothing is random.
    rank : int or float in (0, 1], default=None
        How many columns to keep, or which share of the weights.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features,)
        The weight of each column of X.
    unused_columns_ : ndarray of int
        Columns without weight; learned from pairs often most of them.
    objective_ : float
        The mean of p_i (labels) or the objective of (10.39) (pairs).
    certificate_ : Certificate
        Proof of optimality, when learned from pairs.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether it converged.
    threshold_ : float
        The distance up to which `predict` says must-link, when learned from pairs.
    learned_from_labels_ : bool
        Whether it was learned from labels; then there is no `predict`.
    classes_ : ndarray of shape (n_classes,)
        The labels, if learned from labels.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import WeightedEuclidean
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> WeightedEuclidean().fit(X, X[:, 1] > 0).weights_.argmax()
    np.int64(1)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TUPLES,
        "max_iter": COUNT,
        "tol": NON_NEGATIVE,
        "penalty": NON_NEGATIVE,
        "smoothing": NON_NEGATIVE,
    }
    fitted_state = MahalanobisMetric.fitted_state.extended(
        _optional=("threshold_", "classes_", "certificate_"),
        certificate_=nested(Certificate),
        **ITERATED,
        **FROM_PAIRS,
    )

    def __init__(
        self,
        *,
        max_iter: int = 200,
        tol: float = 1e-6,
        penalty: float = 0.0,
        smoothing: float = 0.0,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        rank: int | float | None = None,
    ) -> None:
        keep_parameters(self, locals())

    @property
    def weights_(self) -> Floats:
        """The weight of each column of X: the diagonal of M."""
        if "components_" not in vars(self):
            raise AttributeError("weights_ are there once the learner is fitted.")
        return np.asarray(np.sum(self.components_.astype(np.float64) ** 2, axis=0))  # (10.33)

    def learn_from_labels(self: Any, X: Any, y: Any) -> None:
        """Learn the weights in which soft neighbours vote best."""
        vars(self).pop("certificate_", None)  # of pairs learned from before
        X, label = read_labels(self, X, y)
        roots, ended = learn_votes(X, label, self.penalty, self.max_iter, self.tol)
        self.n_iter_, self.converged_ = ended.n_iter, ended.converged
        self.objective_ = -ended.value / len(X)
        self._keep_roots(roots, X.dtype)
        warn_unless_converged(ended, "WeightedEuclidean", "Raise max_iter or tol.")

    def learn(self: Any, pairs: Tuples) -> None:
        """Solve (10.39) for a diagonal M."""
        start = np.eye(pairs.X.shape[1])
        L, self.certificate_, self.n_iter_ = learn_metric(
            pairs, start, self.max_iter, diagonal=True, smoothing=self.smoothing
        )
        self.converged_ = self.certificate_.gap <= SOLVED
        self.objective_ = self.certificate_.objective
        self._keep_roots(np.abs(np.diagonal(L)), pairs.X.dtype)

    def _keep_roots(self, a: Floats, dtype: Any) -> None:
        """W = diag(a^2) in the fixed form: one axis per column, heaviest first."""
        heaviest = np.argsort(-a, kind="stable")[: int((a > 0).sum())]
        P_t = np.zeros((len(heaviest), len(a)))
        P_t[np.arange(len(heaviest)), heaviest] = a[heaviest]  # w = a^2, (10.33)
        self._keep(P_t, dtype, self.rank)
