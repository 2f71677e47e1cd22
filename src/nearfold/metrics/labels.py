"""Learning from a table and class labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from nearfold.blocks import DaskRows, collect_vector, is_dask
from nearfold.errors import InputError
from nearfold.inputs import check_table, refuse_nonfinite, take_names
from nearfold.messages import Message
from nearfold.metrics.tuples import n_dimensions, read_points
from nearfold.notation import Array, Ints
from nearfold.raw_values import refuse_missing
from nearfold.run import reporting


def read_labels(
    estimator: Any, X: Any, y: Any, *, skip_unlabelled: bool = False, most: int | None = None
) -> tuple[Any, Ints]:
    """The table and the label of each row, a number from 0; sets `classes_`.

    With `skip_unlabelled` rows labelled -1 are left out if labels are whole numbers, as unknown in
    metric-learn and scikit-learn. Where only one class would be left, -1 is a class (-1 and +1).
    Of a Dask table up to `most` rows come here, as an array; of a longer one only the labels.
    """
    if most is not None and is_dask(X) and estimator.preprocessor is None:
        X, y = open_dask_table(estimator, X, y, most)
    else:
        table = read_points(estimator, X)
        X, y = check_table(estimator, table, reset=True, y=y, ensure_min_samples=2)
    if y.dtype.kind not in "biuUS":  # these are classes without a closer look
        check_classification_targets(y)
    classes, label = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"{type(estimator).__name__} needs at least two classes; y holds only one class, "
            f"{classes.tolist()[0]!r}."
        )
    if skip_unlabelled and len(classes) > 2 and y.dtype.kind in "if" and -1 in classes:
        known = y != -1
        X = X[known]
        classes, label = np.unique(y[known], return_inverse=True)
    estimator.classes_ = classes
    return X, label


def open_dask_table(estimator: Any, X: Any, y: Any, most: int) -> tuple[Array | DaskRows, Array]:
    """A Dask table, or its values if it has up to `most` rows, and the labels, which come here."""
    rows: Any = DaskRows(X)
    if isinstance(y, str):
        rows, y = rows.with_target(y), X[y]
    take_names(estimator, rows)
    m = int(rows.n_rows)
    if is_dask(y):
        y = collect_vector(y, m, "y")
    if y is None:
        raise InputError(f"{type(estimator).__name__} learns from labels: y is None.")
    refuse_missing(y)
    y = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"), warn=True)
    if len(y) != m:
        raise InputError(Message("cluster.lengths", name="y", n=len(y), rows=m))
    if m > most:
        return rows, y
    X = rows.take(np.arange(m))
    refuse_nonfinite(X, rows.feature_names)
    return X, y


def keep_parameters(estimator: Any, given: dict[str, Any]) -> None:
    """Store the constructor's arguments (its `locals()`), as scikit-learn's conventions ask."""
    for name, value in given.items():
        if name != "self":
            setattr(estimator, name, value)


class SupervisedMixin:
    """Learns from a table and class labels alone, by drawing tuples from them.

    A class that uses it has two functions: `draw(self, X, y)`, which reads the labels and draws
    tuples, and `learn(self, tuples)`, shared with the learner of given tuples. It does not judge
    tuples: there is no `predict`.
    """

    draw: Any
    learn: Any
    verbose: Any = False

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Any:
        """Draw tuples from the labels y of the rows of X and learn from them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or ids if there is a `preprocessor`
            The table.
        y : array-like of shape (n_samples,)
            Class labels. Rows labelled -1 are unlabelled and left out (unless the classes are -1
            and one other).

        Returns
        -------
        self : object
            The fitted learner.
        """
        refuse_vectors(self, X)
        with reporting(self.verbose):
            self.learn(self.draw(X, y))
        return self


def refuse_vectors(estimator: Any, X: Any) -> None:
    """Raise if a learner from labels is given tuples of vectors."""
    if X is not None and n_dimensions(X) == 3:
        name = type(estimator).__name__
        raise InputError(
            f"{name} learns from a table and class labels; Found array with dim 3. For tuples use "
            f"{name.removesuffix('_Supervised')}."
        )
