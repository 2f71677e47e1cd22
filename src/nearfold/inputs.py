"""What every estimator accepts, checked in one place.

scikit-learn's `validate_data` does the shapes, dtypes and column names; the search for NaN and
inf is ours, because a message must say in which columns and rows they are, and because a
method that reads all of X anyway can look at its own result first.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from nearfold.blocks import ArrayRows, Block, NamedRows, Rows, as_rows, is_dask, is_streamed, spans
from nearfold.errors import InputError, NonFiniteError
from nearfold.messages import Message
from nearfold.notation import Array, Floats
from nearfold.raw_values import read_values, refuse_missing
from nearfold.run import map_in_order

_FLOATS = (np.float64, np.float32)
_CELLS = 2**22  # values looked at by one task
_SIDE = 512  # of a tile of a square matrix


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
    if _is_plain(X, options) and (reset or _has_width_of_fit(estimator, X)):
        checked = (X, options["y"]) if "y" in options else X
        if reset:
            estimator.n_features_in_ = X.shape[1]
            vars(estimator).pop("feature_names_in_", None)
    else:
        checked = _validated(estimator, X, reset, accept_sparse, options)
    if finite:
        table = checked[0] if isinstance(checked, tuple) else checked
        refuse_nonfinite(table, getattr(estimator, "feature_names_in_", None))
    return checked


def _validated(
    estimator: Any, X: Any, reset: bool, accept_sparse: bool, options: dict[str, Any]
) -> Any:
    """X, or (X, y), by scikit-learn's checks and conversions."""
    if is_dask(X):
        raise InputError(Message("cluster.not_fitted", name=type(estimator).__name__))
    if is_streamed(X):
        raise InputError(
            f"{type(estimator).__name__} takes a table in memory here, not a {type(X).__name__}: "
            "load or collect it first."
        )
    if options.get("y") is not None:
        refuse_missing(options["y"])
        if options.get("y_numeric"):
            options["y"] = read_values(options["y"], "y")
    with np.errstate(over="ignore"):  # long doubles; what overflows is found as inf
        return validate_data(
            estimator,
            read_values(X),
            reset=reset,
            dtype=_FLOATS,
            accept_sparse="csr" if accept_sparse else False,
            ensure_all_finite=False,
            **options,
        )


def _is_plain(X: Any, options: dict[str, Any]) -> bool:
    """Whether scikit-learn's checks have nothing to do but to remember the number of columns.

    They take longer than a single query, or than the fit of a few rows.
    """
    return (
        type(X) is np.ndarray
        and X.dtype in _FLOATS
        and X.ndim == 2
        and len(X) >= options.get("ensure_min_samples", 1)
        and X.shape[1] > 0
        and options.keys() <= {"y", "ensure_min_samples"}
        and ("y" not in options or _is_plain_target(options["y"], len(X)))
    )


def _is_plain_target(y: Any, count: int) -> bool:
    """The same of classes: one for each row, numbers or text, of which none can be missing."""
    return (
        type(y) is np.ndarray
        and y.dtype.kind in "biuUS"
        and y.shape == (count,)
        and y.flags.c_contiguous
    )


def _has_width_of_fit(estimator: Any, X: Array) -> bool:
    """Whether X has as many columns as the rows of the fit, whose columns had no names."""
    return X.shape[1] == estimator.n_features_in_ and not hasattr(estimator, "feature_names_in_")


def open_rows(estimator: Any, X: Any, sample_weight: Any = None, **options: Any) -> Rows:
    """X as rows to fit, with their weights: a table is checked, a streamed one is opened.

    NaN and inf are left to `refuse_bad_sums`.
    """
    if is_streamed(X):
        rows = as_rows(X)
        take_names(estimator, rows)
        return rows.with_weights(check_weights(sample_weight, rows))
    table = check_table(estimator, X, reset=True, finite=False, **options)
    names = getattr(estimator, "feature_names_in_", None)
    rows = ArrayRows(table, None if names is None else list(names))
    return rows.with_weights(check_weights(sample_weight, table))


def check_rows(X: Any, finite: bool = True) -> Any:
    """A dense table of floats that no estimator keeps, finite unless told otherwise."""
    names = list(X.columns) if hasattr(X, "columns") else None
    table = check_array(
        read_values(X), dtype=_FLOATS, ensure_all_finite=False, ensure_min_samples=2
    )
    if finite:
        refuse_nonfinite(table, names)
    return table


def check_coordinates(Z: Any, width: int) -> Array:
    """Rows of an embedding with this many columns, to be mapped back."""
    table = check_array(read_values(Z), dtype=_FLOATS, ensure_all_finite=False)
    if table.shape[1] != width:
        raise InputError(f"X has {table.shape[1]} columns, and the embedding has {width}.")
    refuse_nonfinite(table)
    return np.asarray(table)


def refuse_nonfinite(X: Any, names: Any = None, first_row: int = 0) -> float:
    """Raise NonFiniteError if X holds NaN or inf; return a size that no value exceeds.

    One pass: a sum of squares is finite only if all values are, and its root bounds them. Where
    squares overflow or vanish the values themselves are looked at.
    """
    values = X.data if sparse.issparse(X) else X
    if values.size == 0:
        return 0.0
    step = max(1, _CELLS // max(1, values[:1].size))
    parts = spans(len(values), step)
    look = map_in_order if len(parts) > 1 else map  # a small table is not worth a pool
    total = sum(look(lambda part: _sum_of_squares(values[part]), parts))
    if 1e-30 < total < np.inf:
        return float(np.sqrt(total))
    low, high = float(values.min()), float(values.max())
    if not np.isfinite([low, high]).all():
        where, column, value = _nonfinite_cells(X, first_row)
        raise NonFiniteError(_describe_cells(where, column, value, names))
    return max(-low, high)


@np.errstate(over="ignore", invalid="ignore")
def _sum_of_squares(values: Array) -> float:
    flat = values.ravel(order="K")
    return float(np.einsum("i,i->", flat, flat))  # not BLAS, whose threads would be woken for it


def refuse_bad_blocks(rows: Rows, names: Any = None) -> None:
    """Look through all blocks for what spoilt their sums, and raise the error that says it."""
    spoilt = rows.mapped(_cells_of_block)
    where, column, value = (np.concatenate(part) for part in zip(*spoilt, strict=True))
    if len(where):
        known = rows.feature_names if names is None else names
        raise NonFiniteError(_describe_cells(where, column, value, known))
    raise InputError(
        "the values are so large that their squares overflow "
        f"{rows.dtype}: divide the columns by a constant first."
    )


def refuse_bad_sums(rows: Rows, total: float) -> None:
    """Raise if the total scatter of the rows shows NaN, inf, overflow or underflow in them.

    The rows are looked at again only then.
    """
    limits = np.finfo(rows.dtype)
    if not total <= float(limits.max):
        refuse_bad_blocks(rows)
    if total <= 1e10 * float(limits.tiny):
        for _ in rows.mapped(partial(_vanishing_in_block, total=total, dtype=rows.dtype)):
            pass


def _cells_of_block(block: Block) -> tuple[Array, Array, Array]:
    return _nonfinite_cells(block.X, block.start)


def _vanishing_in_block(block: Block, total: float, dtype: Any) -> None:
    refuse_vanishing(total, block.X, dtype)


def refuse_vanishing(total: float, X: Any, dtype: Any) -> None:
    """Raise if the scatter is (nearly) zero only because squares of small values vanish."""
    if total > 1e10 * float(np.finfo(dtype).tiny):
        return
    spread = X.max(axis=0) - X.min(axis=0)
    if (spread.max() if not sparse.issparse(spread) else spread.toarray().max()) > 0:
        raise InputError(
            f"the values vary so little that their squares vanish in {np.dtype(dtype)}: multiply "
            "the columns by a constant first."
        )


def refuse_extreme(distance: float, dtype: Any) -> None:
    """Raise if the square of a typical distance overflows or vanishes in this dtype."""
    limits = np.finfo(dtype)
    about = {"distance": f"{distance:.1g}", "dtype": str(np.dtype(dtype))}
    if distance > float(limits.max) ** 0.5 / 1e3:
        raise InputError(Message("rows.too_large", **about))
    if 0 < distance < float(limits.tiny) ** 0.5 * 1e3 / float(limits.eps) ** 0.5:
        raise InputError(Message("rows.too_small", **about))


def refuse_overflow(total: float, X: Any, names: Any = None) -> None:
    """Raise if the total scatter of X is not finite, saying why."""
    if not np.isfinite(total):
        refuse_nonfinite(X, names)
        raise InputError(Message("rows.overflow", dtype=str(X.dtype)))


def finite_result(result: Floats, dtype: Any) -> Array:
    """What was computed for rows that were finite, in their dtype; refused where it overflows."""
    with np.errstate(over="ignore"):
        cast = result.astype(dtype, copy=False)
    bad = np.flatnonzero(~np.isfinite(cast.reshape(len(cast), -1)).all(axis=1))
    if len(bad):
        raise InputError(
            f"{len(bad)} rows are so far from the fitted ones that their result overflows "
            f"{np.dtype(dtype)} (first rows: {bad[:5].tolist()}): leave them out, or scale them."
        )
    return cast


def _nonfinite_cells(X: Any, first_row: int = 0) -> tuple[Array, Array, Array]:
    """Row, column and value of every NaN and inf."""
    if sparse.issparse(X):
        found = X.tocoo()
        bad = ~np.isfinite(found.data)
        return found.row[bad] + first_row, found.col[bad], found.data[bad]
    rows, columns = np.nonzero(~np.isfinite(X))
    return rows + first_row, columns, X[rows, columns]


def _describe_cells(rows: Array, columns: Array, values: Array, names: Any) -> str:
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


def check_distances(D: Array) -> None:
    """Raise unless D is a square, symmetric, finite matrix of distances with a zero diagonal."""
    if D.ndim != 2 or D.shape[0] != D.shape[1]:
        raise InputError(
            "Precomputed distances: array must be 2-dimensional and square, one row and one column "
            f"per sample; this one is {D.shape[0]} x {D.shape[1]}."
        )
    pieces = spans(len(D), _SIDE)
    pairs = [(a, b) for i, a in enumerate(pieces) for b in pieces[i:]]

    @np.errstate(invalid="ignore")  # inf - inf, looked for below
    def extremes(pair: tuple[slice, slice]) -> tuple[float, float, float]:
        upper, lower = D[pair], D[pair[::-1]].T
        apart = upper - lower
        off = max(float(apart.max()), -float(apart.min()))
        return off, min(float(upper.min()), float(lower.min())), float(upper.max())

    found = np.array(list(map_in_order(extremes, pairs)))
    if not np.isfinite(found).all():
        refuse_nonfinite(D)
    slack = 1e-6 * max(float(found[:, 2].max()), 0.0)
    if found[:, 0].max() > slack:
        rows, columns = pairs[int(found[:, 0].argmax())]
        off = np.abs(D[rows, columns] - D[columns, rows].T)
        i, j = (int(v) for v in np.unravel_index(off.argmax(), off.shape))
        i, j = i + rows.start, j + columns.start
        raise InputError(
            f"Array must be symmetric: the distance from row {i} to row {j} is {D[i, j]:g}, back "
            f"it is {D[j, i]:g}. Use (D + D.T) / 2 if that is what you mean."
        )
    if found[:, 1].min() < 0:
        i, j = (int(v) for v in np.unravel_index(D.argmin(), D.shape))
        raise InputError(f"distances are not negative: the one from row {i} to {j} is {D[i, j]:g}.")
    if np.abs(np.diagonal(D)).max() > slack:
        i = int(np.abs(np.diagonal(D)).argmax())
        raise InputError(
            f"the distance of row {i} to itself is {D[i, i]:g}, not 0. A similarity or a kernel "
            "is not a distance."
        )


def take_names(estimator: Any, rows: Rows) -> None:
    """What `validate_data` does for a table, for rows that are read in blocks."""
    estimator.n_features_in_ = rows.n_features
    estimator.__dict__.pop("feature_names_in_", None)
    if rows.feature_names is not None:
        estimator.feature_names_in_ = np.asarray(rows.feature_names, dtype=object)


def match_names(estimator: Any, rows: Rows) -> Rows:
    """Rows with the columns of the fit, by name where both have names, else by number."""
    wanted = getattr(estimator, "feature_names_in_", None)
    if wanted is not None and isinstance(rows, NamedRows):
        names = rows.feature_names or []
        missing = [name for name in wanted if name not in names]
        if missing:
            extra = [name for name in names if name not in set(wanted)]
            raise InputError(
                f"{rows.describe()} lacks columns the model was fitted on: {missing}"
                f" (and has others: {extra})."
            )
        return rows.select(list(wanted))
    if rows.n_features != estimator.n_features_in_:
        raise InputError(
            f"{rows.describe()} has {rows.n_features} columns, and the model was fitted on "
            f"{estimator.n_features_in_}."
        )
    return rows


def check_weights(sample_weight: Any, X: Any, *, may_vanish: bool = False) -> Floats | None:
    """Weights as a float64 vector of their own, none negative; None stays None.

    They must not all be zero unless they `may_vanish`, as those of one batch among others.
    """
    if sample_weight is None or is_dask(sample_weight):
        return sample_weight  # workers look at their own
    refuse_missing(sample_weight, "sample_weight")
    sample_weight = read_values(sample_weight, "sample_weight")
    if isinstance(X, Rows):
        weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64)
        if weights.ndim != 1 or (weights < 0).any():
            raise InputError("sample_weight must be a vector without negative entries.")
    else:
        weights = _check_sample_weight(
            sample_weight,
            X,
            dtype=np.float64,
            ensure_non_negative=True,
            copy=True,
            allow_all_zero_weights=may_vanish,
        )
    if not (weights.sum() > 0 or may_vanish):
        raise InputError("sample_weight is zero for every row: there is nothing to learn from.")
    return weights
