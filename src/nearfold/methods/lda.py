"""Linear discriminant analysis: the axes on which classes lie apart and are compact.

Symbols: C classes with priors pi_c, means mu_c, overall mean mu = sum pi_c mu_c,
    S_w   within-class covariance (of the samples about their class means)
    S_b   between-class covariance, sum pi_c (mu_c - mu)(mu_c - mu)^T, of rank at most C - 1

Maximise w^T S_b w / w^T S_w w: the generalised eigenproblem S_b w = lam S_w w.

Steps
  1. S_w from the moments of the classes, one product over the rows
  2. whiten it: A with A^T S_w A = I. Columns are first scaled to unit variance, so that a nearly
     constant feature neither dominates nor explodes; directions in which S_w vanishes are dropped
  3. the principal axes V of the class means in the whitened space: axes W = A V, at most C - 1
  4. classify by the nearest class mean in the space of W, with log pi_c added

Solvers. `svd` pools the classes as they are; `eigen` and `lsqr` weigh their covariances by the
priors and can shrink them. All three share the steps above, agree on scale, and transform.

Accuracy. Step 1 squares the condition number. Float32 products leave directions of small
variance in doubt; those few are measured again in float64 (`remeasure`). Float64 resolves
variances down to tol^2 for any tol above about 1e-6; for a smaller one the rows are factored
instead (TSQR).

Cost: O(m d^2) time, O(d^2) memory, one pass (two where directions are in doubt).

Departures: S_b is formed from the means. scikit-learn's `eigen` takes S_t - S_w, which is not S_b
once shrinkage or priors enter.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.covariance import ledoit_wolf
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import ArrayRows, Block, Rows, as_rows, is_streamed, require_memory
from nearfold.blocks.rows import NamedRows
from nearfold.errors import InputError
from nearfold.inputs import (
    check_table,
    refuse_bad_blocks,
    refuse_nonfinite,
    refuse_vanishing,
    take_names,
)
from nearfold.linalg import Moments, axis_signs, block_moments, combine_moments, thin_svd
from nearfold.linalg.within import (
    Within,
    class_moments,
    diagonalise,
    factor_within,
    projected_scatter,
    remeasure,
)
from nearfold.notation import Array, Floats, Ints
from nearfold.run import reporting

_MOST_DOUBTFUL = 128  # more directions than this are cheaper measured all at once


def whiten(within: Within, tol: float) -> Floats:
    """A (d, r) with A^T S_w A = I on the r directions whose standard deviation exceeds tol."""
    keep = within.lam > tol**2
    return within.vectors[:, keep] / np.sqrt(within.lam[keep]) / within.sd[:, None]


def separate(means: Floats, priors: Floats, A: Floats, tol: float) -> tuple[Floats, Floats]:
    """The axes W (d, at most C - 1) along which the class means differ, and their strengths."""
    offset = (means - priors @ means) * np.sqrt(priors)[:, None]
    _, s, V = thin_svd(offset @ A, "the class means")
    rank = min(int(np.sum(s > tol * s[0])) if len(s) else 0, len(priors) - 1)
    W = A @ V[:rank].T
    return W * axis_signs(W.T), s**2


def shrink(S: Floats, amount: float) -> Floats:
    """Towards a multiple of the identity with the same trace."""
    target = np.trace(S) / len(S)
    return (1 - amount) * S + amount * target * np.eye(len(S))


def class_covariances(
    X: Array, label: Ints, priors: Floats, estimate: Callable[[Array], Floats]
) -> Floats:
    """sum pi_c S_c, where each class's covariance comes from `estimate`."""
    return np.asarray(sum(p * np.atleast_2d(estimate(X[label == c])) for c, p in enumerate(priors)))


def shrunk_by_ledoit_wolf(X: Array) -> Floats:
    """Ledoit and Wolf's covariance of standardised columns, scaled back."""
    scaler = StandardScaler()
    S = ledoit_wolf(scaler.fit_transform(X))[0]
    return np.asarray(S * np.outer(scaler.scale_, scaler.scale_))


class LinearDiscriminantAnalysis(
    ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator
):
    """Reduce to at most C - 1 axes, and classify.

    Parameters are scikit-learn's. All solvers transform. `partial_fit` takes the rows in batches,
    and `fit("table.parquet", y="label")` reads a file in blocks with a column as the label.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import LinearDiscriminantAnalysis
    >>> X = np.array([[-1, -1], [-2, -1], [-3, -2], [1, 1], [2, 1], [3, 2]])
    >>> model = LinearDiscriminantAnalysis().fit(X, [1, 1, 1, 2, 2, 2])
    >>> model.predict([[-0.8, -1]])
    array([1])
    """

    def __init__(
        self,
        solver: str = "svd",
        shrinkage: Any = None,
        priors: Any = None,
        n_components: int | None = None,
        store_covariance: bool = False,
        tol: float = 1e-4,
        covariance_estimator: Any = None,
        *,
        verbose: bool = False,
    ) -> None:
        self.solver = solver
        self.shrinkage = shrinkage
        self.priors = priors
        self.n_components = n_components
        self.store_covariance = store_covariance
        self.tol = tol
        self.covariance_estimator = covariance_estimator
        self.verbose = verbose

    # ---- fitting -------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> LinearDiscriminantAnalysis:
        """Find the axes and the classifier. X may be a file, y the name of its label column."""
        self._check_parameters()
        self._moments: Moments | None = None
        with reporting(self.verbose):
            if is_streamed(X):
                return self._fit_stream(X, y)
            return self._fit_table(X, y)

    def _fit_table(self, X: Any, y: Any) -> LinearDiscriminantAnalysis:
        X, y = check_table(self, X, reset=True, finite=False, y=y, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, label = np.unique(y, return_inverse=True)
        rows = ArrayRows(X)

        def blocks() -> Iterable[tuple[Block, Ints]]:
            return ((b, label[b.start : b.start + len(b.X)]) for b in rows.blocks())

        counts = np.bincount(label).astype(np.float64)
        self._set_priors(counts)
        weights = self._class_weights(counts)
        moments = class_moments(blocks(), len(counts), weights, rows.dtype)
        self._refuse_bad(moments, rows)
        if self._estimates_classes():
            refuse_nonfinite(X)
            S_w = class_covariances(X, label, self.priors_, self._estimate)
        else:
            S_w = self._shrunk(moments.scatter / len(y))
        self._solve(moments.mean, S_w, blocks, weights, len(y), rows.dtype)
        return self

    def _fit_stream(self, X: Any, y: Any) -> LinearDiscriminantAnalysis:
        if not isinstance(y, str):
            raise InputError("for a file, give y as the name of its label column.")
        self._refuse_estimates("a file")
        rows = as_rows(X)
        if not isinstance(rows, NamedRows):
            raise InputError(f"{rows.describe()} has no column names to take the label by.")
        seen: set[Any] = set()
        for block in rows.blocks(target=y):
            labels = np.asarray(block.y)
            missing = np.flatnonzero([v is None or v != v for v in labels.tolist()])
            if len(missing):
                raise InputError(
                    f"{len(missing)} labels in column {y!r} are missing (first in row "
                    f"{block.start + int(missing[0])}): leave those rows out."
                )
            seen.update(np.unique(labels).tolist())
        self.classes_ = np.array(sorted(seen))
        take_names(self, rows)

        def blocks() -> Iterable[tuple[Block, Ints]]:
            for block in rows.blocks(target=y):
                yield block, np.searchsorted(self.classes_, np.asarray(block.y))

        moments = class_moments(blocks(), len(self.classes_), None, rows.dtype)
        self._refuse_bad(moments, rows.select(list(self.feature_names_in_)))
        self._set_priors(moments.count)
        S_w = self._shrunk(moments.scatter / moments.n_rows)
        self._solve(moments.mean, S_w, blocks, None, moments.n_rows, rows.dtype)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> LinearDiscriminantAnalysis:
        """Take one more batch. Give all `classes` with the first, or let them appear in it.

        The result is that of `fit` on all rows so far.
        """
        self._check_parameters()
        self._refuse_estimates("partial_fit")
        before: Moments | None = getattr(self, "_moments", None)
        first = before is None
        X, y = check_table(self, X, reset=first, y=y)
        check_classification_targets(y)
        if first:
            self.classes_ = np.unique(y if classes is None else classes)
            self._dtype = X.dtype
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise InputError(
                f"classes {unknown.tolist()} were not announced: pass all of them as `classes` "
                "with the first batch."
            )
        label = np.searchsorted(self.classes_, y)
        fresh = block_moments(X.astype(np.float64), None, label, len(self.classes_))
        self._moments = fresh if before is None else combine_moments(before, fresh)
        n, seen = self._moments.n_rows, self._moments.count > 0
        if n > seen.sum() and seen.sum() > 1:
            self._set_priors(self._moments.count)
            S_w = self._shrunk(self._moments.scatter / n)
            self._solve(self._moments.mean, S_w, None, None, n, self._dtype)
        return self

    def _solve(
        self,
        means: Floats,
        S_w: Floats,
        blocks: Callable[[], Iterable[tuple[Block, Ints]]] | None,
        weights: Floats | None,
        n: int,
        dtype: Any,
    ) -> None:
        """Steps 2 to 4, and scikit-learn's attributes."""
        tol = self.tol if self.solver == "svd" else max(1e-7, 100 * float(np.finfo(dtype).eps))
        within = self._resolve(diagonalise(S_w), means, blocks, weights, n, dtype)
        A = whiten(within, tol)
        if A.shape[1] == 0:
            raise InputError(
                "no column varies within the classes, so there is no scale on which to compare "
                "them: LDA needs some spread inside at least one class."
            )
        W, strength = separate(means, self.priors_, A, self.tol)
        self.means_ = means.astype(dtype)
        self.xbar_ = (self.priors_ @ means).astype(dtype)
        if self.store_covariance or self.solver != "svd":
            self.covariance_ = S_w.astype(dtype)
        most = self._max_components
        total = strength.sum() if strength.sum() > 0 else 1.0
        self.explained_variance_ratio_ = (strength / total)[:most].astype(dtype)
        self.scalings_ = W.astype(dtype)
        self._set_classifier(means, A, W, dtype)
        self._n_features_out = min(most, W.shape[1])

    def _set_classifier(self, means: Floats, A: Floats, W: Floats, dtype: Any) -> None:
        """Linear scores: the log of prior times Gaussian density, up to what classes share."""
        with np.errstate(divide="ignore"):
            log_prior = np.log(self.priors_)
        if self.solver == "svd":
            centre = self.priors_ @ means
            place = (means - centre) @ W
            coef = place @ W.T
            intercept = -0.5 * np.sum(place**2, axis=1) + log_prior - coef @ centre
        else:
            coef = (means @ A) @ A.T
            intercept = -0.5 * np.sum(means * coef, axis=1) + log_prior
        if len(self.classes_) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        self.coef_ = coef.astype(dtype)
        self.intercept_ = intercept.astype(dtype)

    def _resolve(
        self,
        within: Within,
        means: Floats,
        blocks: Callable[[], Iterable[tuple[Block, Ints]]] | None,
        weights: Floats | None,
        n: int,
        dtype: Any,
    ) -> Within:
        """Settle the directions whose variance the products could not tell from rounding."""
        if blocks is None or self._shrinks() or not len(within.lam):
            return within
        eps = float(np.finfo(dtype).eps)
        doubtful = within.lam < np.sqrt(eps) * within.lam[0]
        if dtype == np.float32 and doubtful.any():
            if doubtful.sum() <= _MOST_DOUBTFUL:
                return remeasure(
                    within, doubtful, lambda V: projected_scatter(blocks(), means, weights, V) / n
                )
            S_w = class_moments(blocks(), len(means), weights, np.float64).scatter / n
            return diagonalise(S_w)
        if dtype == np.float64 and self.tol**2 < 100 * eps * within.lam[0] and doubtful.any():
            return factor_within(blocks(), means, weights, within.sd, n)
        return within

    # ---- parameters ----------------------------------------------------------------

    def _check_parameters(self) -> None:
        if self.solver not in ("svd", "lsqr", "eigen"):
            raise InputError(f"solver={self.solver!r}: use 'svd', 'lsqr' or 'eigen'.")
        if self.solver == "svd" and self.shrinkage is not None:
            raise NotImplementedError("shrinkage not supported with 'svd' solver.")
        if self.solver == "svd" and self.covariance_estimator is not None:
            raise InputError(
                "covariance estimator is not supported with svd solver. Try another solver"
            )
        if self._shrinks() and self.covariance_estimator is not None:
            raise InputError(
                "covariance_estimator and shrinkage parameters are not None. Only one of the two "
                "can be set."
            )
        amount = self.shrinkage
        if amount is not None and amount != "auto":
            if isinstance(amount, str) or not 0 <= amount <= 1:
                raise InputError(f"shrinkage={amount!r}: use None, 'auto' or a number in [0, 1].")

    def _shrinks(self) -> bool:
        return self.shrinkage is not None and self.shrinkage != 0

    def _estimates_classes(self) -> bool:
        """Whether each class's covariance must be estimated from its own rows."""
        return self.covariance_estimator is not None or self.shrinkage == "auto"

    def _refuse_estimates(self, where: str) -> None:
        if self._estimates_classes() or (self.priors is not None and self.solver != "svd"):
            raise InputError(
                f"{where} keeps the pooled scatter of the classes, from which shrinkage='auto', a "
                "covariance_estimator, or the priors of 'eigen' and 'lsqr' cannot be had; use "
                "solver='svd' or a fixed shrinkage, or fit all rows at once."
            )

    def _estimate(self, X: Array) -> Floats:
        if self.covariance_estimator is None:
            return shrunk_by_ledoit_wolf(X)
        fitted = clone(self.covariance_estimator).fit(X)
        if not hasattr(fitted, "covariance_"):
            raise InputError(f"{type(fitted).__name__} does not have a covariance_ attribute")
        return np.asarray(fitted.covariance_)

    def _shrunk(self, S_w: Floats) -> Floats:
        return shrink(S_w, float(self.shrinkage)) if self._shrinks() else S_w

    def _set_priors(self, counts: Floats) -> None:
        n_classes, n = len(counts), counts.sum()
        if n_classes < 2:
            raise InputError(
                f"The number of classes has to be greater than one; got {n_classes} class"
            )
        if n <= n_classes:
            raise InputError("The number of samples must be more than the number of classes.")
        priors = counts / n if self.priors is None else np.asarray(self.priors, np.float64)
        if priors.shape != counts.shape:
            raise InputError(
                f"priors has {priors.size} entries, and there are {n_classes} classes."
            )
        if (priors < 0).any():
            raise InputError("priors must be non-negative")
        if abs(priors.sum() - 1.0) > 1e-5:
            warnings.warn("The priors do not sum to 1. Renormalizing", UserWarning, stacklevel=4)
            priors = priors / priors.sum()
        self.priors_ = priors
        most = min(n_classes - 1, self.n_features_in_)
        if self.n_components is not None and self.n_components > most:
            raise InputError("n_components cannot be larger than min(n_features, n_classes - 1).")
        self._max_components = most if self.n_components is None else int(self.n_components)
        d = self.n_features_in_
        require_memory(8.0 * 6 * d * d, f"The scatter of {d} features", "Reduce with PCA first.")

    def _class_weights(self, counts: Floats) -> Floats | None:
        """So that the pooled scatter is sum pi_c S_c, which differs from it for given priors."""
        if self.solver == "svd" or self.priors is None:
            return None
        return self.priors_ * counts.sum() / counts

    def _refuse_bad(self, moments: Moments, rows: Rows) -> None:
        total = moments.scatter.diagonal().sum()
        if not (np.isfinite(total) and np.isfinite(moments.mean).all()):
            refuse_bad_blocks(rows, getattr(self, "feature_names_in_", None))
        if total <= 1e10 * np.finfo(rows.dtype).tiny:
            for block in rows.blocks():
                refuse_vanishing(total, block.X, rows.dtype)

    # ---- use -----------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """Project onto the axes; within classes the result has unit variance."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        W = self.scalings_[:, : self._max_components]
        # As in scikit-learn, only `svd` centres.
        return np.asarray((X - self.xbar_) @ W if self.solver == "svd" else X @ W)

    def decision_function(self, X: Any) -> Array:
        """Log of prior times density of each class, up to a term they share; one column for two."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        scores = X @ self.coef_.T + self.intercept_
        return np.asarray(scores.ravel() if len(self.classes_) == 2 else scores)

    def predict(self, X: Any) -> Array:
        """The most probable class of each row."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, columns as `classes_`."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return np.asarray(softmax(scores, axis=1))

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithms of `predict_proba`, accurate where those vanish."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return np.asarray(log_softmax(scores, axis=1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
