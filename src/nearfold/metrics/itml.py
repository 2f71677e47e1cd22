"""Information-theoretic metric learning (Davis, Kulis, Jain, Sra and Dhillon 2007).

Of all metrics that keep must-link pairs within u and cannot-link pairs at least l apart, the one
nearest to a prior A0 in the LogDet divergence; slack, priced by gamma, makes it always solvable:

    min   D(A, A0) + gamma sum_c (xi_c / b_c - log(xi_c / b_c) - 1)
    s.t.  v_c^T A v_c <= xi_c  (must-link, b_c = u^2),   >= xi_c  (cannot-link, b_c = l^2)

    D(A, A0) = tr(A A0^-1) - logdet(A A0^-1) - d

Steps
  1. the bounds u and l, percentiles of the distances of the points
  2. the optimal A, to a certified gap (itml_solver.py)

Cost: O(n d^2 + d^3) per step or sweep for n pairs; memory O(n d + d^2).

Departures. From the paper: with slack, quasi-Newton steps instead of projections, which need
thousands of sweeps where pairs contradict each other (digits: 1,000 sweeps do not do what 30 steps
do). From metric-learn: the bounds are distances and are squared where they meet squared distances,
while it compares percentiles of distances with squared ones; the percentiles are taken under the
prior, where the metric begins (the same thing for the identity), and of at most 1,500 points; `tol`
bounds the distance to the optimum, not the change of lam in a sweep.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cholesky
from scipy.spatial.distance import pdist
from sklearn.utils._param_validation import Interval

from nearfold.errors import InputError
from nearfold.linalg.row_order import order_by_value
from nearfold.metrics.itml_solver import learn_map
from nearfold.metrics.labels import SupervisedMixin, keep_parameters
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.pairs import PairsMixin, pairs_from_labels
from nearfold.metrics.parameters import CLASSES, COUNT, DRAWN, FROM_PAIRS, POSITIVE, PRIOR, RECORDED
from nearfold.metrics.preparation import refuse_extreme_spread, require_matrices
from nearfold.metrics.prior import initial_metric
from nearfold.metrics.tuples import Tuples
from nearfold.notation import Array, Floats
from nearfold.optim import warn_unless_converged
from nearfold.run import random_state
from nearfold.state import array

MATRICES, TABLES = 46, 6  # (d, d) and (n, d) that the solver holds at its peak
_SAMPLE = 1500  # points whose distances give the bounds: about a million pairs
_CANDIDATES = 6000  # points of which these are drawn, without repeats


def percentile_bounds(points: Array, prior: Floats) -> Floats:
    """(u, l): the 5th and 95th percentile of the distances of different points under the prior."""
    if len(points) > _CANDIDATES:  # so that no large table is copied and sorted
        order = order_by_value(points, np.zeros(len(points), dtype=np.int64))
        drawn = np.random.RandomState(0).permutation(len(points))[:_CANDIDATES]
        points = points[order[drawn]]
    unique = np.unique(points, axis=0)
    if len(unique) < 2:
        raise InputError("all points are equal: there are no distances to take bounds from.")
    if len(unique) > _SAMPLE:
        kept = np.random.RandomState(0).permutation(len(unique))[:_SAMPLE]
        unique = unique[np.sort(kept)]
    centred = unique - unique.mean(axis=0, dtype=np.float64)
    distance = pdist(centred @ cholesky(prior, lower=True))
    distance = distance[distance > 0]
    return np.asarray(np.percentile(distance, (5, 95), overwrite_input=True))


def check_bounds(bounds: Any) -> Floats:
    """(u, l) as given."""
    try:
        found = np.ravel(np.asarray(bounds, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(f"bounds={bounds!r}: `bounds` are two distances.") from error
    if found.shape != (2,) or not (np.isfinite(found) & (found > 0)).all():
        raise InputError(
            "`bounds` should be an array-like of two elements, both positive: the distance within "
            f"which must-link pairs belong and the one beyond which cannot-link pairs do; "
            f"they are {bounds!r}."
        )
    return found


_SHARED: dict[str, Any] = {
    **DRAWN,
    "gamma": [Interval(Real, 0, None, closed="right")],  # inf: no slack
    "max_iter": COUNT,
    "tol": POSITIVE,
    "prior": PRIOR,
}
_STATE = MahalanobisMetric.fitted_state.extended(
    _optional=("classes_",),
    bounds_=array("2", above=0),
    multipliers_=array("p", least=0),
    **RECORDED,
    **CLASSES,
)


class ITML(PairsMixin, MahalanobisMetric):
    """Information-theoretic metric learning, from must-link and cannot-link pairs.

    Parameters
    ----------
    gamma : float, default=1.0
        The price of slack; inf allows none.
    max_iter : int, default=1000
        Most steps (sweeps over the pairs for gamma=inf).
    tol : float, default=1e-3
        The norm of the scaled gradient at which to stop (the objective is then within about
        tol^2 / 2 of its minimum); for gamma=inf the relative duality gap and violation of bounds.
    prior : {"identity", "covariance", "random"} or array-like, default="identity"
        The metric to stay near to; "covariance" is the inverse covariance of the points. It must
        be positive definite.
    verbose : bool, default=False
        Show progress.
    preprocessor : array-like or callable, default=None
        Table (or function) in which ids given instead of rows are looked up.
    random_state : int, RandomState instance or None, default=None
        Source of the pairs drawn from labels, and of prior="random".
    n_constraints : int, default=None
        Pairs of each kind drawn when fitted on labels; None: 20 times the classes squared.
    rank : int or float in (0, 1], default=None
        Rank to which M is cut, or the share of its trace to keep.

    Attributes
    ----------
    bounds_ : ndarray of shape (2,)
        (u, l), distances, unsquared.
    multipliers_ : ndarray of shape (n_pairs,)
        Of each pair, 0 where the pair did not matter.
    objective_ : float
        The objective at the solution.
    history_ : list of float
        The objective after each step.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether `tol` was reached.
    threshold_ : float
        The distance up to which `predict` says must-link.
    learned_from_labels_ : bool
        Whether pairs were drawn from labels; then there is no `predict`.
    classes_ : ndarray of shape (n_classes,)
        The labels, if learned from labels.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold.metrics.itml import ITML
    >>> X = np.array([[0.0, 0.0], [0.5, 6.0], [4.0, 1.0], [4.5, 7.0]])
    >>> learner = ITML().fit(X, must_link=[[0, 1], [2, 3]], cannot_link=[[0, 2], [1, 3]])
    >>> learner.column_weights().round(2)  # the first column tells them apart
    array([1.91, 0.56])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = _SHARED
    fitted_state = _STATE.extended(_optional=("threshold_",), **FROM_PAIRS)

    def __init__(
        self,
        gamma: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-3,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        n_constraints: int | None = None,
        rank: int | float | None = None,
    ) -> None:
        keep_parameters(self, locals())

    def fit(  # metric-learn's order of arguments
        self,
        X: Any = None,
        y: Any = None,
        bounds: Any = None,
        calibration_params: dict[str, Any] | None = None,
        *,
        pairs: Any = None,
        must_link: Any = None,
        cannot_link: Any = None,
        ids: Any = None,
    ) -> Any:
        """Learn from pairs of vectors and y = +-1, from pairs of rows of X, or from labels.

        Parameters
        ----------
        X, y, calibration_params, pairs, must_link, cannot_link, ids
            As in `MMC.fit`.
        bounds : array-like of two numbers, default=None
            (u, l), the distances within which must-link and beyond which cannot-link pairs are to
            be; None: the 5th and 95th percentile of the distances of the given points.

        Returns
        -------
        self : object
            The fitted learner.
        """
        self.bounds_ = None if bounds is None else check_bounds(bounds)
        links = {"must_link": must_link, "cannot_link": cannot_link}
        return super().fit(X, y, calibration_params, pairs=pairs, ids=ids, **links)

    def learn(self: Any, pairs: Tuples) -> None:
        """Find the metric nearest to the prior that keeps the bounds of these pairs."""
        require_matrices("ITML", pairs.X.shape[1], MATRICES, len(pairs.rows), TABLES)
        refuse_extreme_spread(pairs.X)
        prior = initial_metric(pairs.X, self.prior, random_state(self.random_state))
        if self.bounds_ is None:
            self.bounds_ = percentile_bounds(pairs.X, prior)
        ended, L, self.multipliers_ = learn_map(
            pairs.differences(),
            pairs.sign,
            prior,
            self.bounds_,
            float(self.gamma),
            self.tol,
            self.max_iter,
        )
        self.n_iter_ = max(ended.n_iter, 1)  # a look at the start is one
        self.converged_ = ended.converged
        self.objective_, self.history_ = ended.value, ended.history
        self._set_map(L, pairs.X.dtype, self.rank)
        warn_unless_converged(ended, type(self).__name__, "Raise max_iter or tol, or lower gamma.")


class ITML_Supervised(SupervisedMixin, MahalanobisMetric):
    """ITML from class labels: `n_constraints` must-link and cannot-link pairs are drawn.

    Parameters and attributes are those of `ITML`, the parameters in metric-learn's order; without
    `threshold_`, because it judges no pairs.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold.metrics.itml import ITML_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> ITML_Supervised(random_state=0).fit(X, y).transform(X).shape
    (150, 4)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = _SHARED
    fitted_state = _STATE
    draw, learn = pairs_from_labels, ITML.learn

    def __init__(
        self,
        gamma: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-3,
        n_constraints: int | None = None,
        prior: Any = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        rank: int | float | None = None,
    ) -> None:
        keep_parameters(self, locals())

    def fit(self, X: Any, y: Any, bounds: Any = None) -> Any:
        """Draw pairs from the labels y of the rows of X and learn from them; bounds as in ITML."""
        self.bounds_ = None if bounds is None else check_bounds(bounds)
        return super().fit(X, y)
