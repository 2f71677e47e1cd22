"""The Mahalanobis distance that every metric learner ends in (section 10.6, (10.32)-(10.34)).

    dist^2(x, y) = (x - y)^T M (x - y) = |P^T (x - y)|^2,   M = P P^T positive semidefinite

Symbols: M (d, d), P (d, r) with r the rank of M, Z = X P the rows in the learned space, where
the distance is the Euclidean one. `components_` is P^T.

P is known only up to a rotation. Ours is fixed: the columns of P are the eigenvectors of M times
the roots of their eigenvalues, largest first, signs by the package's one rule. So two learners
with the same M give the same Z, and the first columns of P are the best low-rank metric.
Eigenvalues that are rounding beside the largest are dropped, so P has as many columns as M has
rank (end of section 10.6).

Cost: O(d^3) once, to find P; O(m d r) to transform m rows.
"""

from __future__ import annotations

from copy import copy
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh, svd
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import require_output
from nearfold.errors import InputError, SolverError, warn
from nearfold.inputs import check_table
from nearfold.linalg import fix_signs
from nearfold.methods.reduction import COLUMNS, Reduction
from nearfold.metrics.tuples import TableLookup, points_of_tuples, read_points
from nearfold.notation import Array, Floats, Ints
from nearfold.run import one_blas_thread
from nearfold.state import Sizes, array, require, size


def factor_metric(M: Floats) -> Floats:
    """P^T (r, d) in the fixed form, from M."""
    if not np.isfinite(M).all():
        raise SolverError("the learned matrix M is not finite.")
    with one_blas_thread():
        lam, U = eigh((M + M.T) / 2)  # (10.34): M = U diag(lam) U^T
    lam, U = lam[::-1], U[:, ::-1]
    keep = lam > 10 * len(M) * np.finfo(np.float64).eps * max(lam[0], 0.0)
    return _fixed_form(np.sqrt(lam[keep]), U[:, keep].T)


def factor_map(L: Floats) -> Floats:
    """P^T (r, d) in the fixed form, from any L (r', d) with M = L^T L."""
    if not np.isfinite(L).all():
        raise SolverError("the learned linear map is not finite.")
    with one_blas_thread():
        _, s, Vt = svd(L, full_matrices=False)
    keep = s > 10 * max(L.shape) * np.finfo(np.float64).eps * s[:1].max(initial=0.0)
    return _fixed_form(s[keep], Vt[keep])


def _fixed_form(s: Floats, axes: Floats) -> Floats:
    """Axes times their lengths s (largest first), where equal lengths leave no choice either."""
    if len(s) == 0:
        return axes
    groups = np.split(axes, np.flatnonzero(s[:-1] - s[1:] > 1e-9 * s[:-1]) + 1)
    return fix_signs(s[:, None] * np.vstack([_basis_of_span(group) for group in groups]))


def _basis_of_span(axes: Floats) -> Floats:
    """Orthonormal axes that depend on the span of the given ones alone.

    The pivoted Cholesky factor of the projector V V^T: the first has the largest entry there is in
    the span, the second has a 0 there and the largest entry left, and so on.
    """
    if len(axes) == 1:
        return axes
    left, basis = axes.copy(), []
    for _ in range(len(axes)):
        size = np.einsum("ij,ij->j", left, left)
        pivot = int(np.argmax(size >= size.max() * (1 - 1e-9)))
        direction = left[:, pivot] / np.sqrt(size[pivot])
        basis.append(direction @ axes)
        left = left - np.outer(direction, direction @ left)
    return np.array(basis)


def count_kept(P_t: Floats, rank: int | float) -> int:
    """How many rows of P^T to keep: a number, or the fewest that hold a share of the trace of M."""
    if isinstance(rank, Integral) and not isinstance(rank, bool):
        if rank < 1:
            raise InputError(f"rank={rank}: keep at least one dimension.")
        return min(int(rank), len(P_t))
    if isinstance(rank, float) and 0 < rank <= 1:
        share = np.cumsum(np.sum(P_t**2, axis=1))
        return int(np.searchsorted(share, rank * share[-1] * (1 - 1e-12)) + 1)
    raise InputError(f"rank={rank!r}: use a whole number, or a share of the trace in (0, 1].")


class MahalanobisDistance:
    """A learned distance between two vectors: `distance(u, v)`; can be pickled."""

    def __init__(self, components: Array) -> None:
        self.components = components

    def __call__(self, u: Any, v: Any, squared: bool = False) -> float:
        """The distance of u and v, or its square; vectors may have the shape (1, d)."""
        difference = _as_vector(u) - _as_vector(v)
        if len(difference) != self.components.shape[1]:
            raise InputError(
                f"the metric compares vectors of {self.components.shape[1]} values; these have "
                f"shapes {np.shape(u)} and {np.shape(v)}."
            )
        z = self.components @ difference
        square = float(z @ z)  # (10.34), M = P P^T
        return square if squared else float(np.sqrt(square))


def _as_vector(u: Any) -> Floats:
    vector = np.atleast_1d(np.asarray(u, dtype=np.float64).squeeze())
    if vector.ndim > 1:
        raise InputError(f"Input vector should be 1-D; this one has shape {np.shape(u)}.")
    return vector


def _check_preprocessor(values: dict[str, Any], sizes: Sizes) -> None:
    """The rows that ids are looked up in have as many columns as the metric."""
    table = values.get("preprocessor")
    if table is not None and not callable(table):
        array("* d", "number")(np.asarray(table), sizes)
        require(len(table) >= 2, "preprocessor: a table of fewer than two rows")


class MahalanobisMetric(Reduction):
    """A learned M = P P^T and what can be done with it: the base of all metric learners.

    Attributes
    ----------
    components_ : ndarray of shape (rank_, n_features)
        P^T, in the fixed form of this module.
    rank_ : int
        The rank of M.
    unused_columns_ : ndarray of int
        Columns that do not enter the metric.
    preprocessor_ : callable or None
        Looks up ids; there if the constructor was given a `preprocessor`.
    n_features_in_ : int
        Number of columns of the rows.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if the rows came in a frame.
    """

    fitted_state = COLUMNS.extended(
        _check_preprocessor, components_=array("r d"), rank_=size("r", 1)
    )
    _parameter_constraints: ClassVar[dict[str, Any]] = {}
    needs_target = True  # what scikit-learn's tags say of y
    components_: Array
    preprocessor: Any = None

    @property
    def preprocessor_(self) -> Any:
        """The function that looks up ids, None without a preprocessor."""
        if "components_" not in vars(self):
            raise AttributeError("preprocessor_ is there once the learner is fitted.")
        if self.preprocessor is None or callable(self.preprocessor):
            return self.preprocessor
        return TableLookup(self.preprocessor)

    def _set_metric(self, M: Floats, dtype: Any, rank: Any = None) -> None:
        """Keep the learned M."""
        self._keep(factor_metric(np.asarray(M, dtype=np.float64)), dtype, rank)

    def _set_map(self, L: Floats, dtype: Any, rank: Any = None) -> None:
        """Keep the learned map L, M = L^T L."""
        self._keep(factor_map(np.asarray(L, dtype=np.float64)), dtype, rank)

    def _keep(self, P_t: Floats, dtype: Any, rank: Any) -> None:
        if len(P_t) == 0:
            raise SolverError(
                f"{type(self).__name__} learned the metric 0, in which all rows are equal: what it "
                "learned from does not tell any rows apart."
            )
        with np.errstate(over="ignore", under="ignore"):
            entries = np.sum(P_t**2, axis=0)  # the diagonal of M
            fits = np.isfinite(entries).all() and np.isfinite(P_t.astype(dtype)).all()
        if not fits or not entries.max() > np.finfo(np.float64).tiny:
            raise InputError(
                f"the learned matrix M, whose root has entries of about {np.abs(P_t).max():.1g}, "
                "overflows or vanishes: multiply the columns by a constant first, so that rows "
                "differ by about 1."
            )
        kept = P_t if rank is None else P_t[: count_kept(P_t, rank)]
        self.components_ = np.ascontiguousarray(kept, dtype=dtype)
        self.rank_ = len(kept)

    @property
    def unused_columns_(self) -> Ints:
        """The numbers of the columns that do not enter the metric."""
        if "components_" not in vars(self):
            raise AttributeError("unused_columns_ are known once the learner is fitted.")
        return np.flatnonzero(~self.components_.any(axis=0))

    def transform(self, X: Any) -> Array:
        """The rows in the learned space, Z = X P: there the distance is the Euclidean one."""
        check_is_fitted(self, "components_")
        X = check_table(self, read_points(self, X), reset=False)
        require_output(len(X), len(self.components_), X.dtype)
        return np.asarray(X @ self.components_.T)

    def get_mahalanobis_matrix(self) -> Floats:
        """M, symmetric and positive semidefinite."""
        check_is_fitted(self, "components_")
        P_t = self.components_.astype(np.float64)
        return np.asarray(P_t.T @ P_t)  # (10.34)

    def get_metric(self) -> MahalanobisDistance:
        """The distance of two vectors as a callable, for whatever takes a metric.

        For nearest neighbours give the learner itself, `KNeighborsClassifier(metric=learner)`:
        the rows are then transformed once, and the search is the fast Euclidean one.
        """
        check_is_fitted(self, "components_")
        return MahalanobisDistance(np.atleast_2d(self.components_).astype(np.float64))

    def pair_distance(self, pairs: Any) -> Floats:
        """The learned distance of each pair: (n, 2, d) vectors, or row ids if there is a
        preprocessor.
        """
        check_is_fitted(self, "components_")
        points = self._points(pairs, 2)
        z = (points[:, 0] - points[:, 1]) @ self.components_.T
        return np.asarray(np.linalg.norm(z, axis=1))  # the root of (10.32) in the learned space

    def pair_score(self, pairs: Any) -> Floats:
        """Minus the distance of each pair: the larger, the more alike."""
        return -self.pair_distance(pairs)

    def score_pairs(self, pairs: Any) -> Floats:
        """The distance of each pair: a deprecated name of `pair_distance`, as in metric-learn."""
        warn(
            "score_pairs will be deprecated in release 0.7.0. Use pair_score to compute similarity "
            "scores, or pair_distances to compute distances.",
            FutureWarning,
        )
        return self.pair_distance(pairs)

    def map_tuples(self, tuples: Any, members: int) -> Array:
        """The points of tuples in the learned space, (n, members, rank_)."""
        check_is_fitted(self, "components_")
        return np.asarray(self._points(tuples, members) @ self.components_.T)

    def _points(self, tuples: Any, members: int) -> Array:
        points = points_of_tuples(tuples, members, self.preprocessor, type(self).__name__)
        d = self.components_.shape[1]
        if points.shape[2] != d:
            raise InputError(
                f"the points of these tuples have {points.shape[2]} features, but "
                f"{type(self).__name__} is expecting {d} features as input."
            )
        return points

    def truncate(self, rank: int | float) -> Any:
        """A copy whose metric has at most this rank, or holds this share of the trace of M.

        Of all metrics of that rank it is the nearest to M.
        """
        check_is_fitted(self, "components_")
        shorter = copy(self)
        kept = count_kept(self.components_.astype(np.float64), rank)
        shorter.components_ = self.components_[:kept].copy()
        shorter.rank_ = len(shorter.components_)
        return shorter

    def before(self, A: Floats) -> Any:
        """A copy for rows that a linear map A (q, d) has still to take to the metric's q columns.

        Its M is A^T M A: the distance of rows x is this metric's distance of rows A x.
        """
        check_is_fitted(self, "components_")
        earlier: MahalanobisMetric = copy(self)
        P_t = factor_map(self.components_.astype(np.float64) @ A)
        if len(P_t) == 0:
            raise InputError("the linear map leaves no column that the metric uses.")
        P_t[:, ~A.any(axis=0)] = 0.0  # not rounding: these columns do not enter
        earlier.components_ = np.ascontiguousarray(P_t, dtype=self.components_.dtype)
        earlier.rank_, earlier.n_features_in_ = P_t.shape
        if hasattr(earlier, "feature_names_in_"):
            del earlier.feature_names_in_
        return earlier

    def column_weights(self, X: Any = None) -> Floats:
        """How much each column counts: the diagonal of M; with X, its share of the distances.

        A column's share is its part in the mean squared distance of the rows of X, cross terms
        halved between the two columns; the shares sum to 1, and one below 0 draws rows nearer.
        """
        return (
            np.asarray(np.sum(self.column_pair_weights(X), axis=1))
            if X is not None
            else (np.diagonal(self.get_mahalanobis_matrix()).copy())
        )

    def column_pair_weights(self, X: Any = None) -> Floats:
        """How much each pair of columns counts: M; with X, shares of the mean squared distance."""
        M = self.get_mahalanobis_matrix()
        if X is None:
            return M
        X = check_table(self, X, reset=False, ensure_min_samples=2).astype(np.float64)
        parts = M * np.atleast_2d(np.cov(X, rowvar=False))
        if not parts.sum() > 0:
            raise InputError("the rows of X are equal in this metric: no column tells them apart.")
        return np.asarray(parts / parts.sum())

    def explain_pairs(self, pairs: Any) -> Floats:
        """What each column adds to the squared distance of each pair, (n, d): rows sum to it."""
        check_is_fitted(self, "components_")
        points = self._points(pairs, 2)
        difference = (points[:, 0] - points[:, 1]).astype(np.float64)
        return np.asarray(difference * (difference @ self.get_mahalanobis_matrix()))  # (10.34)

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.needs_target
        return tags
