"""Classifying by linear scores that are computed about a centre.

score_c(x) = (x - centre) . coef_c + offset_c, in float64. As x . coef_c + intercept_c the two
terms would cancel for rows far from the origin: at an offset of 1e5 nothing is left of float32
scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax

from nearfold.blocks import as_rows, is_streamed
from nearfold.inputs import check_table, finite_result, match_names, refuse_nonfinite
from nearfold.methods.principal_components import over_parts
from nearfold.notation import Array, Floats
from nearfold.state import State, array, optional


@dataclass(frozen=True)
class LinearScores:
    """The scores of C classes, or of the second against the first if there are two.

    Attributes
    ----------
    centre : (d,)
        The point about which scores are computed.
    coef, offset : (C, d) and (C,), or (1, d) and (1,)
        Slopes, and values at the centre.
    shared : (d,) or None
        Slope of a term that all classes share: scikit-learn's solvers "lsqr" and "eigen" report
        it in `decision_function`; classes do not depend on it.
    """

    centre: Floats
    coef: Floats
    offset: Floats
    shared: Floats | None = None

    fitted_state = State(
        centre=array("d"),
        coef=array("c d"),
        offset=array("c", finite=False, most=1e300),
        shared=optional(array("d")),
    )

    def of(self, X: Array, shared: bool = False) -> Floats:
        """The scores (m, C) or (m, 1) of the rows, with the shared term if asked for."""
        S = np.empty((X.shape[0], len(self.offset)))
        common = self.shared if shared else None

        @np.errstate(over="ignore", invalid="ignore")  # looked for in the result
        def fill(part: slice) -> None:
            C = X[part] - self.centre
            S[part] = C @ self.coef.T + self.offset
            if common is not None:
                S[part] += (C @ common + 0.5 * (self.centre @ common))[:, None]

        over_parts(fill, X)
        sure = np.isfinite(self.offset)  # a prior of 0 makes a score infinite
        finite_result(S if sure.all() else S[:, sure], S.dtype)
        return S

    @property
    def intercept(self) -> Floats:
        """The scores at the origin."""
        at_origin = self.offset - self.coef @ self.centre
        if self.shared is not None:
            at_origin = at_origin - 0.5 * (self.centre @ self.shared)
        return np.asarray(at_origin)


def nearest_mean_scores(offset: Floats, mu: Floats, pi: Floats, A: Floats) -> LinearScores:
    """log pi_c - |A^T (x - mu_c)|^2 / 2, without the term that is the same for all classes."""
    with np.errstate(divide="ignore"):
        log_prior = np.log(pi)
    place = offset @ A
    coef, value = place @ A.T, log_prior - 0.5 * np.sum(place**2, axis=1)
    if len(pi) == 2:
        return LinearScores(mu, coef[1:] - coef[:1], value[1:] - value[:1])
    return LinearScores(mu, coef, value)


class LinearScoresMixin:
    """Predictions of an estimator that keeps its `LinearScores` as `scores_`."""

    classes_: Array
    scores_: LinearScores

    def _prepare(self) -> None:
        """Called before anything fitted is read."""

    def _scores(self, X: Any, shared: bool = False) -> Floats:
        self._prepare()
        if is_streamed(X):
            rows = match_names(self, as_rows(X))
            parts = []
            for block in rows.blocks():
                refuse_nonfinite(block.X, rows.feature_names, block.start)
                parts.append(self.scores_.of(block.dense(), shared))
            S = np.vstack(parts)
        else:
            S = self.scores_.of(check_table(self, X, reset=False), shared)
        return S.ravel() if S.shape[1] == 1 else S

    def decision_function(self, X: Any) -> Floats:
        """Log of prior times density of each class, up to a term they share; one column for two.

        In float64 whatever the dtype of X: scores may differ by far less than their size.
        """
        return self._scores(X, shared=True)

    def predict(self, X: Any) -> Array:
        """The most probable class of each row."""
        scores = self._scores(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class in float64, columns as `classes_`."""
        scores = self._scores(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return np.asarray(softmax(scores, axis=1))

    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithms of `predict_proba`, accurate where those vanish."""
        scores = self._scores(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return np.asarray(log_softmax(scores, axis=1))
