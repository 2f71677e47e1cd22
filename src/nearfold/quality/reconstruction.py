"""The reconstruction error: rows against `inverse_transform` of their coordinates.

    value    sum_i |x_i - x^_i|^2 / sum_i |x_i - mean|^2     the share of variance lost
    per row  n |x_i - x^_i|^2 / sum |x - mean|^2             their mean is the value

0: nothing is lost; 1: no better than the mean row. For PCA on its own rows it is
1 - sum of `explained_variance_ratio_`. Rows that do not vary at all have an error of 0 where they
are reconstructed exactly, else an infinite one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from nearfold.blocks import spans
from nearfold.errors import InputError
from nearfold.inputs import check_rows
from nearfold.quality.result import Quality
from nearfold.run import steps

_CELLS = 2**19  # values of a block


def reconstruction_error(model: Any, X: Any) -> Quality:
    """The share of the variance of X that a fitted model loses, and of each row."""
    if not hasattr(model, "inverse_transform"):
        raise InputError(
            f"{type(model).__name__} has no inverse_transform, so there is no reconstruction to "
            "compare. PCA, IncrementalPCA and KernelPCA with "
            "fit_inverse_transform=True can."
        )
    table = check_rows(X)
    n, d = table.shape
    mean = table.mean(axis=0, dtype=np.float64)
    lost, total = np.empty(n), 0.0
    for span in steps(spans(n, max(1, _CELLS // d)), "reconstructing"):
        given = _safe_indexing(X, np.arange(span.start, span.stop))  # frames keep their names
        back = np.asarray(model.inverse_transform(model.transform(given)), dtype=np.float64)
        if back.shape != table[span].shape:
            raise InputError(
                f"{type(model).__name__}.inverse_transform gives {back.shape[1]} columns and X has "
                f"{d}: it must lead back to the columns of X."
            )
        difference = table[span] - back
        lost[span] = np.einsum("ij,ij->i", difference, difference)  # (10.14)
        centred = table[span] - mean
        total += float(np.einsum("ij,ij->", centred, centred))
    if total > 0:
        per_row = lost * (n / total)
    else:
        per_row = np.where(lost > 0, np.inf, 0.0)
    return Quality(float(per_row.mean()), per_row, None, n)
