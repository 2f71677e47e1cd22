"""Learning from quadruplets (a, b, c, d): a and b are nearer than c and d."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.metaestimators import available_if

from nearfold.errors import InputError
from nearfold.metrics.drawing import default_count, draw_quadruplets
from nearfold.metrics.labels import read_labels
from nearfold.metrics.pairs import judges_tuples
from nearfold.metrics.tuples import Tuples, read_tuples
from nearfold.notation import Floats, Ints
from nearfold.run import random_state, reporting


def quadruplets_from_labels(estimator: Any, X: Any, y: Any) -> Tuples:
    """`n_constraints` quadruplets, drawn from class labels."""
    X, label = read_labels(estimator, X, y, skip_unlabelled=True)
    count = default_count(len(estimator.classes_), estimator.n_constraints)
    return draw_quadruplets(X, label, count, random_state(estimator.random_state))


def check_quadruplet_weights(weights: Any, n: int) -> Floats:
    """Weights that sum to 1; None: all equal."""
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (n,) or not (w >= 0).all() or not 0 < w.sum() < np.inf:
        raise InputError(
            f"weights are {n} finite numbers, one per quadruplet, none negative and not all 0; "
            f"these have shape {w.shape}."
        )
    return np.asarray(w / w.sum())


class QuadrupletsMixin:
    """Learns from quadruplets with the function `learn`, and says which pair is nearer."""

    draw = quadruplets_from_labels
    map_tuples: Any
    verbose: Any = False

    def learn(self, quadruplets: Tuples, weights: Any = None) -> None:
        """Learn the metric from quadruplets."""
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any = None,
        y: Any = None,
        weights: Any = None,
        *,
        quadruplets: Any = None,
        ids: Any = None,
    ) -> Any:
        """Learn from quadruplets of vectors, of rows of X, or from labels.

        Parameters
        ----------
        X : array-like of shape (n_quadruplets, 4, n_features) or (n_samples, n_features)
            Quadruplets of vectors, or a table; quadruplets of row numbers if there is a
            `preprocessor`.
        y : array-like of shape (n_samples,), default=None
            Class labels of a table, if it is to be learned from those. Beside quadruplets it is
            another name for `weights`, which are metric-learn's second argument.
        weights : array-like of shape (n_quadruplets,), default=None
            How much each quadruplet counts.
        quadruplets : array-like, frame or path of a CSV file, default=None
            Ids of rows of X, four columns.
        ids : array-like of shape (n_samples,), default=None
            What the rows of X are called; None: their positions.

        Returns
        -------
        self : object
            The fitted learner.
        """
        found = read_tuples(self, X, y, 4, quadruplets, ids)
        self.learned_from_labels_ = found is None
        if found is not None and weights is None:
            weights = y
        with reporting(self.verbose):
            self.learn(self.draw(X, y) if found is None else found, weights)
        return self

    @available_if(judges_tuples)
    def decision_function(self, quadruplets: Any) -> Floats:
        """How much farther apart c and d are than a and b."""
        Z = self.map_tuples(quadruplets, 4)
        far, near = Z[:, 2] - Z[:, 3], Z[:, 0] - Z[:, 1]
        return np.asarray(np.linalg.norm(far, axis=1) - np.linalg.norm(near, axis=1))

    @available_if(judges_tuples)
    def predict(self, quadruplets: Any) -> Ints:
        """1 where a and b are nearer than c and d, -1 elsewhere."""
        return np.where(self.decision_function(quadruplets) > 0, 1, -1)

    @available_if(judges_tuples)
    def score(self, quadruplets: Any, y: Any = None) -> float:
        """The share of quadruplets in which a and b are nearer than c and d."""
        return float(np.mean(self.predict(quadruplets) > 0))
