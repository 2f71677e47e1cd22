"""What every estimator accepts, checked in one place.

scikit-learn's `validate_data` does the shapes, dtypes and column names; the search for NaN and
inf is ours, because a message must say in which columns and rows they are, and because a
method that reads all of X anyway can look at its own result first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight, validate_data

from nearfold.errors import InputError, NonFiniteError
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order

_FLOATS = (np.float64, np.float32)
_CELLS = 2**22  # values looked at by one task


def check_table(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    accept_sparse: bool = False,
    finite: bool = True,
    **options: Any,
) -> Any:
    """X, or (X, y) if y is given: floats, dense or CSR, finite unless `finite` is False."""
    checked = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=_FLOATS,
        accept_sparse="csr" if accept_sparse else False,
        ensure_all_finite=False,
        **options,
    )
    if finite:
        table = checked[0] if isinstance(checked, tuple) else checked
        refuse_nonfinite(table, getattr(estimator, "feature_names_in_", None))
    return checked


def refuse_nonfinite(X: Any, names: Any = None) -> tuple[float, float]:
    """Raise NonFiniteError if X holds NaN or inf; return its least and its largest value."""
    values = X.data if sparse.issparse(X) else X
    if values.size == 0:
        return 0.0, 0.0
    step = max(1, _CELLS // max(1, values[:1].size))
    spans = [slice(a, a + step) for a in range(0, len(values), step)]
    look = map_in_order if len(spans) > 1 else map  # a small table is not worth a pool
    ends = np.array(list(look(lambda span: (values[span].min(), values[span].max()), spans)))
    if not np.isfinite(ends).all():
        raise NonFiniteError(_describe_nonfinite(X, names))
    return float(ends[:, 0].min()), float(ends[:, 1].max())


def _describe_nonfinite(X: Any, names: Any) -> str:
    if sparse.issparse(X):
        found = X.tocoo()
        bad = ~np.isfinite(found.data)
        rows, columns, values = found.row[bad], found.col[bad], found.data[bad]
    else:
        rows, columns = np.nonzero(~np.isfinite(X))
        values = X[rows, columns]
    missing = int(np.isnan(values).sum())
    kinds = [f"{missing} NaN"] * (missing > 0)
    kinds += [f"{len(values) - missing} inf"] * (missing < len(values))
    where, counts = np.unique(columns, return_counts=True)
    shown = ", ".join(
        f"column {names[c] if names is not None else c!r}: {n}"
        for c, n in list(zip(where.tolist(), counts.tolist(), strict=True))[:5]
    )
    more = f" and {len(where) - 5} more columns" if len(where) > 5 else ""
    first = sorted(set(rows.tolist()))[:5]
    return (
        f"Input X contains {' and '.join(kinds)} ({shown}{more}; first rows: {first}). "
        "Drop those rows, or fill them in, for example with sklearn.impute.SimpleImputer."
    )


def check_weights(sample_weight: Any, X: Any) -> Floats | None:
    """Weights as a float64 vector, none negative and not all zero; None stays None."""
    if sample_weight is None:
        return None
    weights: Array = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if not weights.sum() > 0:
        raise InputError("sample_weight is zero for every row: there is nothing to learn from.")
    return weights
