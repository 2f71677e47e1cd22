"""Learning from triplets (a, b, c): a is nearer to b than to c."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.metaestimators import available_if

from nearfold.metrics.pairs import judges_tuples
from nearfold.metrics.tuples import Tuples, read_tuples
from nearfold.notation import Floats, Ints
from nearfold.run import reporting


class TripletsMixin:
    """Learns from triplets with the function `learn`, and says which of b and c is nearer.

    `draw` draws triplets where only labels are given.
    """

    draw: Any
    map_tuples: Any
    verbose: Any = False

    def learn(self, triplets: Tuples) -> None:
        """Learn the metric from triplets."""
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any = None, y: Any = None, *, triplets: Any = None, ids: Any = None) -> Any:
        """Learn from triplets of vectors, of rows of X, or from labels.

        Parameters
        ----------
        X : array-like of shape (n_triplets, 3, n_features) or (n_samples, n_features)
            Triplets of vectors, or a table; triplets of row numbers if there is a `preprocessor`.
        y : array-like of shape (n_samples,), default=None
            Class labels of a table, if it is to be learned from those.
        triplets : array-like, frame or path of a CSV file, default=None
            Ids of rows of X, three columns.
        ids : array-like of shape (n_samples,), default=None
            What the rows of X are called; None: their positions.

        Returns
        -------
        self : object
            The fitted learner.
        """
        found = read_tuples(self, X, y, 3, triplets, ids)
        self.learned_from_labels_ = found is None
        with reporting(self.verbose):
            self.learn(self.draw(X, y) if found is None else found)
        return self

    @available_if(judges_tuples)
    def decision_function(self, triplets: Any) -> Floats:
        """How much farther c is from a than b is."""
        Z = self.map_tuples(triplets, 3)
        far, near = Z[:, 0] - Z[:, 2], Z[:, 0] - Z[:, 1]
        return np.asarray(np.linalg.norm(far, axis=1) - np.linalg.norm(near, axis=1))

    @available_if(judges_tuples)
    def predict(self, triplets: Any) -> Ints:
        """1 where a is nearer to b than to c, -1 elsewhere."""
        return np.where(self.decision_function(triplets) > 0, 1, -1)

    @available_if(judges_tuples)
    def score(self, triplets: Any, y: Any = None) -> float:
        """The share of triplets in which a is nearer to b than to c."""
        return float(np.mean(self.predict(triplets) > 0))
