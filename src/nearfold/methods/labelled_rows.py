"""Rows with a class label each: a table and its y, or a file and the name of a column."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from nearfold.blocks import ArrayRows, Block, DaskRows, NamedRows, Rows, as_rows, is_streamed
from nearfold.errors import InputError, warn
from nearfold.inputs import check_table, take_names
from nearfold.notation import Array, Floats


def open_labelled(estimator: Any, X: Any, y: Any) -> tuple[Rows, Array, Floats]:
    """Rows whose blocks carry their labels; the classes, sorted, and their sizes.

    NaN in X is left to `refuse_bad_sums`.
    """
    if is_streamed(X):
        return _open_stream(estimator, X, y)
    X, y = check_table(estimator, X, reset=True, finite=False, y=y, ensure_min_samples=2)
    check_classification_targets(y)
    columns = getattr(estimator, "feature_names_in_", None)
    rows = ArrayRows(X, None if columns is None else list(columns))
    classes, counts = np.unique(y, return_counts=True)
    return rows.with_target(y), classes, counts.astype(np.float64)


def _open_stream(estimator: Any, X: Any, y: Any) -> tuple[Rows, Array, Floats]:
    source = as_rows(X)
    if not isinstance(y, str) and not isinstance(source, DaskRows):
        raise InputError("for a file, give y as the name of its label column.")
    if isinstance(y, str) and not isinstance(source, NamedRows):
        raise InputError(f"{source.describe()} has no column names to take the label by.")
    rows = source.with_target(y)
    sizes: Counter[Any] = Counter()
    for found in rows.mapped(partial(count_labels, name=y if isinstance(y, str) else "y")):
        sizes.update(found)
    take_names(estimator, rows)
    classes = sorted(sizes)
    check_classification_targets(classes)
    return rows, np.array(classes), np.array([sizes[c] for c in classes], np.float64)


def count_labels(block: Block, name: str) -> dict[Any, int]:
    """How many rows of a block have each label."""
    found = np.asarray(block.y)
    missing = np.flatnonzero([v is None or v != v for v in found.tolist()])
    if len(missing):
        raise InputError(
            f"{len(missing)} labels in column {name!r} are missing (first in row "
            f"{block.start + int(missing[0])}): leave those rows out."
        )
    values, counts = np.unique(found, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def open_batch(
    estimator: Any, X: Any, y: Any, known: Array | None, classes: Any
) -> tuple[Array, Array, Array]:
    """A batch of rows, the class numbers of its rows, and the classes.

    Those `known` from the batches before; of the first batch those announced, or in it.
    """
    X, y = check_table(estimator, X, reset=known is None, y=y)
    check_classification_targets(y)
    if known is None:
        known = np.unique(y if classes is None else classes)
    unknown = np.setdiff1d(y, known)
    if len(unknown):
        raise InputError(
            f"classes {unknown.tolist()} were not announced: pass all of them as `classes` "
            "with the first batch."
        )
    return X, np.searchsorted(known, y), known


def class_priors(priors: Any, counts: Floats) -> Floats:
    """The priors given, checked, or the frequencies of the classes."""
    n_classes, n = len(counts), counts.sum()
    if n_classes < 2:
        raise InputError(f"The number of classes has to be greater than one; got {n_classes} class")
    if n <= n_classes:
        raise InputError("The number of samples must be more than the number of classes.")
    if priors is None:
        return np.asarray(counts / n)
    given = np.asarray(priors, np.float64)
    if given.shape != counts.shape:
        raise InputError(f"priors has {given.size} entries, and there are {n_classes} classes.")
    if (given < 0).any():
        raise InputError("priors must be non-negative")
    if abs(given.sum() - 1.0) > 1e-5:
        warn("The priors do not sum to 1. Renormalizing", UserWarning)
        given = given / given.sum()
    return given
