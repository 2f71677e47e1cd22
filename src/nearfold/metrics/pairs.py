"""Learning from must-link and cannot-link pairs, and telling which of the two a pair is."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.metrics import roc_auc_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from nearfold.errors import InputError
from nearfold.metrics.drawing import default_count, draw_pairs
from nearfold.metrics.labels import read_labels
from nearfold.metrics.parse_tuples import check_signs
from nearfold.metrics.threshold import check_calibration, choose_threshold
from nearfold.metrics.tuples import Tuples, read_tuples
from nearfold.notation import Floats, Ints
from nearfold.run import random_state, reporting


def pairs_from_labels(estimator: Any, X: Any, y: Any) -> Tuples:
    """`n_constraints` must-link and as many cannot-link pairs, drawn from class labels."""
    X, label = read_labels(estimator, X, y, skip_unlabelled=True)
    count = default_count(len(estimator.classes_), estimator.n_constraints)
    return draw_pairs(X, label, count, random_state(estimator.random_state))


def judges_tuples(learner: Any) -> bool:
    """Not after learning from labels: the learner has then seen rows, not tuples."""
    return not getattr(learner, "learned_from_labels_", False)


class PairsMixin:
    """Learns from pairs with the function `learn`, and judges pairs by a threshold."""

    components_: Any
    pair_distance: Any
    pair_score: Any
    threshold_: float
    verbose: Any = False

    def learn(self, pairs: Tuples) -> None:
        """Learn the metric from pairs."""
        raise NotImplementedError

    def learn_from_labels(self, X: Any, y: Any) -> None:
        """Learn the metric from a table and class labels: from pairs drawn."""
        self.learn(pairs_from_labels(self, X, y))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any = None,
        y: Any = None,
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
        X : array-like of shape (n_pairs, 2, n_features) or (n_samples, n_features)
            Pairs of vectors, or a table; pairs of row numbers if there is a `preprocessor`.
        y : array-like
            1 for must-link and -1 for cannot-link pairs, or the class labels of a table.
        calibration_params : dict, default=None
            Arguments of `calibrate_threshold`, which is called with the given pairs.
        pairs : array-like, frame or path of a CSV file, default=None
            Ids of rows of X: two columns with y = +-1, or three of which the last says +-1.
        must_link, cannot_link : array-like of shape (n_pairs, 2), default=None
            The same as two lists.
        ids : array-like of shape (n_samples,), default=None
            What the rows of X are called; None: their positions.

        Returns
        -------
        self : object
            The fitted learner.
        """
        given = dict(calibration_params or {})
        check_calibration(
            given.get("strategy", "accuracy"), given.get("min_rate"), given.get("beta", 1.0)
        )
        if hasattr(self, "threshold_"):
            del self.threshold_
        found = read_tuples(self, X, y, 2, pairs, ids, (must_link, cannot_link))
        self.learned_from_labels_ = found is None
        with reporting(self.verbose):
            if found is None:
                self.learn_from_labels(X, y)
            else:
                self.learn(found)
        if found is not None:
            distance = np.linalg.norm(found.differences() @ self.components_.T, axis=1)
            self._calibrate(distance, found.sign, **given)
        return self

    @available_if(judges_tuples)
    def decision_function(self, pairs: Any) -> Floats:
        """Minus the distance of each pair."""
        return np.asarray(self.pair_score(pairs))

    @available_if(judges_tuples)
    def predict(self, pairs: Any) -> Ints:
        """1 for pairs at most `threshold_` apart, -1 for the others."""
        check_is_fitted(self, "components_")
        if not hasattr(self, "threshold_"):
            raise AttributeError(
                "A threshold for this estimator has not been set, call its set_threshold or "
                "calibrate_threshold method."
            )
        return np.where(self.pair_distance(pairs) <= self.threshold_, 1, -1)

    @available_if(judges_tuples)
    def score(self, pairs: Any, y: Any) -> float:
        """The area under the ROC curve: how often a must-link pair is the nearer one."""
        return float(roc_auc_score(y, self.decision_function(pairs)))

    @available_if(judges_tuples)
    def set_threshold(self, threshold: float) -> Any:
        """Set the distance up to which a pair is predicted to belong together."""
        check_is_fitted(self, "components_")
        if not isinstance(threshold, Real):
            raise InputError(
                f"Parameter threshold must be a real number. Got {type(threshold)} instead."
            )
        self.threshold_ = float(threshold)
        return self

    @available_if(judges_tuples)
    def calibrate_threshold(
        self,
        pairs_valid: Any,
        y_valid: Any,
        strategy: str = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
    ) -> Any:
        """Choose the threshold on these pairs.

        Parameters
        ----------
        pairs_valid : array-like of shape (n_pairs, 2, n_features)
            Pairs that are known to belong together or not; ids if there is a `preprocessor`.
        y_valid : array-like of shape (n_pairs,)
            1 for must-link, -1 for cannot-link pairs.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}, default="accuracy"
            What to maximise: "max_tpr" and "max_tnr" are the true positive (negative) rate with
            the other one at least `min_rate`.
        min_rate : float in [0, 1], default=None
            Needed by "max_tpr" and "max_tnr".
        beta : float, default=1.0
            The weight of recall against precision in "f_beta".

        Returns
        -------
        self : object
            The learner with its `threshold_`.
        """
        check_calibration(strategy, min_rate, beta)
        distance = self.pair_distance(pairs_valid)
        self._calibrate(distance, check_signs(y_valid, len(distance)), strategy, min_rate, beta)
        return self

    def _calibrate(
        self,
        distance: Floats,
        sign: Ints,
        strategy: str = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
    ) -> None:
        self.threshold_ = choose_threshold(distance, sign, strategy, min_rate, beta)
