"""What metric learners learn from, one base class each: labels, pairs, triplets, quadruplets.

A learner of tuples takes them in three ways, told apart by what is given:

    fit(tuples, y)              vectors (n, size, d), metric-learn's form; or (n, size) row ids if
                                the constructor was given a `preprocessor` to look them up in
    fit(X, pairs=..., ids=...)  a table, and tuples of its rows: array, frame, list or CSV file
    fit(X, y)                   a table and class labels, from which tuples are drawn

Fitted on tuples it also judges tuples: `predict`, `decision_function`, `score`, as in metric-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from nearfold.errors import InputError
from nearfold.inputs import check_table
from nearfold.metrics.drawing import (
    default_count,
    draw_pairs,
    draw_quadruplets,
)
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.threshold import choose_threshold
from nearfold.metrics.tuples import (
    Tuples,
    from_ids,
    from_links,
    from_lookup,
    from_vectors,
    is_vectors,
    look_up,
    n_dimensions,
    points_of_tuples,
    table_of,
)
from nearfold.notation import Array, Floats, Ints
from nearfold.run import random_state, reporting


class LabelLearner(MahalanobisMetric):
    """Learns from a table and class labels."""

    classes_: Array

    def _labelled(self, X: Any, y: Any) -> tuple[Array, Ints]:
        """The table and the label of each row, a number from 0."""
        X = look_up(getattr(self, "preprocessor", None), X)
        X, y = check_table(self, X, reset=True, y=y, ensure_min_samples=2)
        check_classification_targets(y)
        classes, label = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise InputError(
                f"{type(self).__name__} needs at least two classes; y holds only one class, "
                f"{classes[0]!r}."
            )
        self.classes_ = classes
        return X, label

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _judges_tuples(learner: Any) -> bool:
    """Not after learning from labels: rows are what such a learner knows then."""
    return not getattr(learner, "learned_from_labels_", False)


class TupleLearner(LabelLearner):
    """Learns from tuples of rows, or from labels by drawing tuples."""

    _size: int
    _draw: Callable[..., Tuples]

    def _gather(self, X: Any, y: Any, tuples: Any, ids: Any, links: Any = (None, None)) -> Tuples:
        """The tuples, whichever way they were given."""
        found = self._given(X, y, tuples, ids, links)
        self.learned_from_labels_ = found is None
        if found is not None:
            return found
        self._refuse_bare_ids(X, y)
        table, label = self._labelled(X, y)
        return self._draw(table, label, random_state(getattr(self, "random_state", None)))

    def _given(self, X: Any, y: Any, tuples: Any, ids: Any, links: Any) -> Tuples | None:
        """The tuples, or None if there is only a table and its labels."""
        if X is None and is_vectors(tuples):
            X, tuples = tuples, None
        preprocessor = getattr(self, "preprocessor", None)
        sign = y if self._size == 2 else None
        linked = any(link is not None for link in links)
        if tuples is not None and linked:
            raise InputError("give pairs, or must_link and cannot_link, not both.")
        if tuples is not None and X is None and callable(preprocessor):
            X, tuples = tuples, None
        if tuples is not None or linked:
            if X is None:
                X = preprocessor
            if X is None:
                raise InputError("row ids need the table X whose rows they name.")
            table = check_table(self, X, reset=True, ensure_min_samples=2)
            if tuples is not None:
                return from_ids(table, tuples, self._size, ids, sign)
            return from_links(table, links[0], links[1], ids)
        if X is not None and n_dimensions(X) == 3:
            found = from_vectors(X, self._size, y, preprocessor)
        elif preprocessor is not None and n_dimensions(X) == 2:
            if callable(preprocessor):
                found = from_lookup(preprocessor, X, self._size, sign)
            else:
                found = from_ids(table_of(preprocessor), X, self._size, None, sign)
        else:
            return None
        self.n_features_in_ = found.X.shape[1]
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return found

    def _refuse_bare_ids(self, X: Any, y: Any) -> None:
        """Whole numbers in `size` columns are ids whose table was forgotten, not a table."""
        ids = np.asarray(X)
        if ids.ndim != 2 or ids.shape[1] != self._size or ids.dtype.kind not in "iu":
            return
        if (self._size > 2) == (y is None) and (y is None or np.isin(np.asarray(y), (1, -1)).all()):
            raise InputError(
                f"these look like row ids ({self._size} columns of whole numbers), but there is no "
                "table to look them up in: use fit(X, pairs=...) or the like, or preprocessor=X."
            )


class LabelsOnly:
    """Before a tuple learner among the bases: it then learns from labels and from nothing else."""

    def _given(self, X: Any, *unused: Any) -> None:
        # Not even beside a preprocessor, where a plain learner takes whole numbers for ids.
        if X is not None and n_dimensions(X) == 3:
            name = type(self).__name__
            raise InputError(
                f"{name} learns from a table and class labels; Found array with dim 3. For tuples "
                f"use {name.removesuffix('_Supervised')}."
            )

    def _refuse_bare_ids(self, X: Any, y: Any) -> None:
        """There is nothing to take them for."""


class PairLearner(TupleLearner):
    """Learns from must-link and cannot-link pairs."""

    _size = 2

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

        `pairs`: row ids, two columns with y = +-1, or three of which the last says +-1; an array,
        a frame, a list or the path of a CSV file. `must_link`, `cannot_link`: the same as two
        lists. `ids`: what the rows of X are called, if not by their position.
        `calibration_params` go to `calibrate_threshold`.
        """
        if hasattr(self, "threshold_"):
            del self.threshold_
        found = self._given(X, y, pairs, ids, (must_link, cannot_link))
        self.learned_from_labels_ = found is None
        with reporting(getattr(self, "verbose", False)):
            if found is None:
                self._refuse_bare_ids(X, y)
                self._learn_from_labels(*self._labelled(X, y))
                return self
            self._learn(found)
        distance = np.linalg.norm(found.differences() @ self.components_.T, axis=1)
        self._calibrate(distance, found.sign, **(calibration_params or {}))
        return self

    def _learn_from_labels(self, X: Array, label: Ints) -> None:
        self._learn(self._draw(X, label, random_state(getattr(self, "random_state", None))))

    def _learn(self, pairs: Tuples) -> None:
        raise NotImplementedError

    def _draw(self, X: Array, label: Ints, random: Any) -> Tuples:
        count = default_count(len(self.classes_), getattr(self, "n_constraints", None))
        return draw_pairs(X, label, count, random)

    @available_if(_judges_tuples)
    def decision_function(self, pairs: Any) -> Floats:
        """Minus the distance of each pair."""
        return self.pair_score(pairs)

    @available_if(_judges_tuples)
    def predict(self, pairs: Any) -> Ints:
        """1 for pairs at most `threshold_` apart, -1 for the others."""
        return np.where(self.pair_distance(pairs) <= self.threshold_, 1, -1)

    @available_if(_judges_tuples)
    def score(self, pairs: Any, y: Any) -> float:
        """The area under the ROC curve: how often a must-link pair is the nearer one."""
        return float(roc_auc_score(y, self.decision_function(pairs)))

    def set_threshold(self, threshold: float) -> Any:
        """Set the distance up to which a pair is predicted to belong together."""
        check_is_fitted(self, "components_")
        try:
            self.threshold_ = float(threshold)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"Parameter threshold must be a real number. Got {type(threshold)} instead."
            ) from error
        return self

    def calibrate_threshold(
        self,
        pairs_valid: Any,
        y_valid: Any,
        strategy: str = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
    ) -> Any:
        """Choose the threshold on these pairs.

        `strategy`: "accuracy"; "f_beta"; "max_tpr" or "max_tnr", the largest true positive
        (negative) rate with the other one at least `min_rate`.
        """
        y_valid = np.asarray(y_valid)
        self._calibrate(self.pair_distance(pairs_valid), y_valid, strategy, min_rate, beta)
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


class TripletLearner(TupleLearner):
    """Learns from triplets (a, b, c): a is nearer to b than to c."""

    _size = 3

    def fit(self, X: Any = None, y: Any = None, *, triplets: Any = None, ids: Any = None) -> Any:
        """Learn from triplets of vectors (n, 3, d), of rows of X (`triplets`), or from labels."""
        with reporting(getattr(self, "verbose", False)):
            self._learn(self._gather(X, y, triplets, ids))
        return self

    def _learn(self, triplets: Tuples) -> None:
        raise NotImplementedError

    @available_if(_judges_tuples)
    def decision_function(self, triplets: Any) -> Floats:
        """How much farther c is from a than b is."""
        check_is_fitted(self, "components_")
        points = points_of_tuples(triplets, 3, getattr(self, "preprocessor", None))
        self._refuse_width(points)
        Z = points @ self.components_.T
        far, near = Z[:, 0] - Z[:, 2], Z[:, 0] - Z[:, 1]
        return np.asarray(np.linalg.norm(far, axis=1) - np.linalg.norm(near, axis=1))

    @available_if(_judges_tuples)
    def predict(self, triplets: Any) -> Ints:
        """1 where a is nearer to b than to c, -1 elsewhere."""
        return np.where(self.decision_function(triplets) > 0, 1, -1)

    @available_if(_judges_tuples)
    def score(self, triplets: Any, y: Any = None) -> float:
        """The share of triplets in which a is nearer to b than to c."""
        return float(np.mean(self.predict(triplets) > 0))


class QuadrupletLearner(TupleLearner):
    """Learns from quadruplets (a, b, c, d): a and b are nearer than c and d."""

    _size = 4

    def fit(
        self,
        X: Any = None,
        y: Any = None,
        *,
        quadruplets: Any = None,
        ids: Any = None,
        weights: Any = None,
    ) -> Any:
        """Learn from quadruplets of vectors (n, 4, d), of rows of X, or from labels.

        `weights`: how much each quadruplet counts.
        """
        with reporting(getattr(self, "verbose", False)):
            found = self._gather(X, y, quadruplets, ids)
            w = getattr(self, "weights", None) if weights is None else weights
            w = np.ones(len(found.rows)) if w is None else np.asarray(w, dtype=np.float64)
            if w.shape != (len(found.rows),) or not (w >= 0).all() or not 0 < w.sum() < np.inf:
                raise InputError(
                    f"weights are {len(found.rows)} finite numbers, one per quadruplet, none "
                    f"negative and not all 0; these have shape {w.shape}."
                )
            self._learn(found, w / w.sum())
        return self

    def _learn(self, quadruplets: Tuples, weights: Floats) -> None:
        raise NotImplementedError

    def _draw(self, X: Array, label: Ints, random: Any) -> Tuples:
        count = default_count(len(self.classes_), getattr(self, "n_constraints", None))
        return draw_quadruplets(X, label, count, random)

    @available_if(_judges_tuples)
    def decision_function(self, quadruplets: Any) -> Floats:
        """How much farther apart c and d are than a and b."""
        check_is_fitted(self, "components_")
        points = points_of_tuples(quadruplets, 4, getattr(self, "preprocessor", None))
        self._refuse_width(points)
        Z = points @ self.components_.T
        far, near = Z[:, 2] - Z[:, 3], Z[:, 0] - Z[:, 1]
        return np.asarray(np.linalg.norm(far, axis=1) - np.linalg.norm(near, axis=1))

    @available_if(_judges_tuples)
    def predict(self, quadruplets: Any) -> Ints:
        """1 where a and b are nearer than c and d, -1 elsewhere."""
        return np.where(self.decision_function(quadruplets) > 0, 1, -1)

    @available_if(_judges_tuples)
    def score(self, quadruplets: Any, y: Any = None) -> float:
        """The share of quadruplets in which a and b are nearer than c and d."""
        return float(np.mean(self.predict(quadruplets) > 0))
