"""Predictions from neighbourhoods, for any estimator that finds them.

An estimator with `_neighborhoods(Q)` (blocks of neighbours with weights) becomes a classifier by
`VotingMixin` or a regressor by `AveragingMixin`. Predictions are made block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array

from nearfold.blocks import collect_vector, is_dask, require_memory
from nearfold.errors import InputError, warn
from nearfold.methods.neighbor_base import NeighborsEstimator
from nearfold.methods.voting import Neighborhoods, average, class_shares, count_votes, most_voted
from nearfold.notation import Array, Floats, Ints
from nearfold.raw_values import read_values, refuse_missing
from nearfold.run import reporting
from nearfold.state import Sizes, any_of, array, flag, labels, list_of, optional, require


def labels_in_range(values: dict[str, Any], sizes: Sizes) -> None:
    """One column of codes per output, each the number of a class."""
    classes = values["classes_"] if values["outputs_2d_"] else [values["classes_"]]
    codes = values["_label"]
    require(codes.shape[1] == len(classes), "_label: not one column per output")
    for output, known in enumerate(classes):
        require(codes[:, output].max(initial=0) < len(known), "_label: unknown classes")


CLASSIFIER_STATE = NeighborsEstimator.fitted_state.extended(
    _also=labels_in_range,
    classes_=any_of(labels("*"), list_of(labels("*"))),
    outputs_2d_=flag(),
    _label=array("n *", "i", least=0),
    _row_weight=optional(array("n", least=0)),
)
REGRESSOR_STATE = NeighborsEstimator.fitted_state.extended(
    _y=any_of(array("n"), array("n *")),
    _row_weight=optional(array("n", least=0)),
)


if TYPE_CHECKING:

    class _Host(NeighborsEstimator):
        """What the mixins are mixed into."""

        _row_weight: Floats | None

        def _neighborhoods(self, Q: Any) -> Iterator[Neighborhoods]: ...

else:
    _Host = object


class VotingMixin(_Host):
    """The class with the most weight among the neighbours."""

    @_fit_context(prefer_skip_nested_validation=False)  # the metric may be an estimator
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Store the rows, their classes and, if given, their weights."""
        self._fit_index(X, y)
        y = check_target(self, y, numeric=False)
        check_classification_targets(y)
        self.outputs_2d_ = y.ndim == 2
        found = [np.unique(column, return_inverse=True) for column in y.reshape(len(y), -1).T]
        self._label = np.column_stack([label for _, label in found])
        self.classes_: Any = [classes for classes, _ in found]
        if not self.outputs_2d_:
            self.classes_ = self.classes_[0]
        self._row_weight = self._check_row_weights(sample_weight)
        return self

    def predict(self, X: Any) -> Array:
        """Predict the class of each row of X; of each fitted row, by the others, if X is None."""
        Q = self._queries(X)
        lists = self._class_lists()
        m = self.n_samples_fit_ if Q is None else Q.shape[0]
        found = np.empty((m, len(lists)), dtype=np.int64)
        with reporting(self.verbose):
            for near in self._neighborhoods(Q):
                for output, classes in enumerate(lists):
                    for span, votes in count_votes(near, self._label[:, output], len(classes)):
                        found[span, output] = most_voted(votes)
        winners = [self._label_unreached(found[:, i], known, i) for i, known in enumerate(lists)]
        return np.column_stack(winners) if self.outputs_2d_ else winners[0]

    def predict_proba(self, X: Any) -> Any:
        """Return the share of the neighbours' weight of each class, columns as in `classes_`."""
        Q = self._queries(X)
        lists = self._class_lists()
        m = self.n_samples_fit_ if Q is None else Q.shape[0]
        width = sum(len(classes) for classes in lists)
        require_memory(
            8.0 * m * width, f"{m} rows of {width} probabilities", "Predict them in parts."
        )
        shares = [np.empty((m, len(classes))) for classes in lists]
        with reporting(self.verbose):
            for near in self._neighborhoods(Q):
                for output, classes in enumerate(lists):
                    for span, votes in count_votes(near, self._label[:, output], len(classes)):
                        shares[output][span] = class_shares(votes)
        for output, share in enumerate(shares):
            self._fill_unreached(share, lists[output], output)
        return shares if self.outputs_2d_ else shares[0]

    def _class_lists(self) -> list[Array]:
        return list(self.classes_) if self.outputs_2d_ else [self.classes_]

    def _label_unreached(self, found: Ints, classes: Array, output: int) -> Array:
        """The labels of class numbers, of which -1 means that nobody voted."""
        raise NotImplementedError

    def _fill_unreached(self, share: Floats, classes: Array, output: int) -> None:
        """Complete the shares of rows that nobody voted for."""
        self._label_unreached(np.where(share.sum(axis=1) == 0, -1, 0), classes, output)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on X and y; leave-one-out accuracy on the fitted rows if X is None."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags


class AveragingMixin(_Host):
    """The weighted mean of the neighbours' targets."""

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Store the rows, their targets and, if given, their weights."""
        self._fit_index(X, y)
        self._y = check_target(self, y, numeric=True)
        self._row_weight = self._check_row_weights(sample_weight)
        return self

    def predict(self, X: Any) -> Floats:
        """Predict the mean target of each row's neighbours; of the fitted rows' if X is None."""
        Q = self._queries(X)
        y = self._y.reshape(len(self._y), -1)
        m = self.n_samples_fit_ if Q is None else Q.shape[0]
        means = np.empty((m, y.shape[1]))
        with reporting(self.verbose):
            for near in self._neighborhoods(Q):
                means[near.queries] = average(near, y)
        empty = int(np.isnan(means).any(axis=1).sum())
        if empty:
            warn(
                "One or more samples have no neighbors within specified radius; predicting NaN. "
                f"({empty} of {m} rows, which no row with a weight is near.)",
                UserWarning,
            )
        return means if self._y.ndim == 2 else means[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 on X and y; leave-one-out R^2 on the fitted rows if X is None."""
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def check_target(estimator: Any, y: Any, *, numeric: bool) -> Array:
    """y as a vector or a table, one entry or row per fitted row, none of them missing."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target "
            "y is None."
        )
    if is_dask(y):
        y = collect_vector(y, estimator.n_samples_fit_, "y")
    refuse_missing(y)
    if numeric:
        y = read_values(y, "y")
    y = check_array(y, ensure_2d=False, dtype=np.float64 if numeric else None, input_name="y")
    if len(y) != estimator.n_samples_fit_:
        # scikit-learn's words, which its users match.
        raise InputError(
            "Found input variables with inconsistent numbers of samples: "
            f"{[estimator.n_samples_fit_, len(y)]}"
        )
    if y.ndim == 2 and y.shape[1] == 1 and not numeric:
        warn(
            "A column-vector y was passed when a 1d array was expected; it is taken as one "
            "target. Use y.ravel().",
            DataConversionWarning,
        )
        y = y.ravel()
    return np.asarray(y)
