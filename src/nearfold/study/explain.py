"""Which columns make rows near in a space.

A model that maps rows linearly (scaling, PCA, LDA, every metric learner, and pipelines of them) has
a metric M = A A^T on the encoded columns, and each column of the table has its exact share of the
mean squared distance: a category is one column, whatever number of indicators it is encoded as. Any
other model is asked: how many of a row's neighbours are lost when one column is shuffled?
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from nearfold.blocks import spans
from nearfold.columns.cells import Cells, cells_of_array
from nearfold.columns.frames import is_frame
from nearfold.columns.preparation import TablePreparation
from nearfold.errors import InputError
from nearfold.inputs import refuse_extreme
from nearfold.messages import Message
from nearfold.notation import Array, Floats, Ints
from nearfold.run import one_blas_thread, steps
from nearfold.study.learner import nearest
from nearfold.study.plain import AsJson, plain
from nearfold.study.table import largest, read_rows

_SAMPLE = 500  # rows whose neighbours are looked at
_CELLS_AT_ONCE = 2**20  # of the table, in one block
_MOST_COLUMNS = 64  # shuffled; of more, those that vary most
_PARTS = 10  # of the rows, over which intervals are taken


@dataclass(frozen=True)
class Explanation(AsJson):
    """How much each column counts, most first, with a 95 % interval."""

    columns: tuple[str, ...]
    weights: Floats
    exact: bool
    about: Message
    low: Floats | None = None
    high: Floats | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""

        def by_column(values: Floats | None) -> dict[str, float] | None:
            return None if values is None else dict(zip(self.columns, values, strict=True))

        found: dict[str, Any] = plain(
            {"weights": by_column(self.weights), "low": by_column(self.low),
             "high": by_column(self.high), "exact": self.exact, "about": self.about}
        )  # fmt: skip
        return found

    def _repr_html_(self) -> str:
        from nearfold.study.html import paragraph, table

        rows = [
            [name, f"{self.weights[i]:.4g}", self.interval(i)]
            for i, name in enumerate(self.columns[:40])
        ]
        return paragraph(self.about) + table(["column", "weight", "95 % interval"], rows)

    def interval(self, i: int) -> str:
        """The interval of one column as it is written; empty if there is none."""
        if self.low is None or self.high is None:
            return ""
        return f"{self.low[i]:.3g} – {self.high[i]:.3g}"


def explain_space(
    model: Any,
    X: Any,
    columns: tuple[str, ...] | None = None,
    *,
    n_neighbors: int = 5,
    random_state: int = 0,
) -> Explanation:
    """How much each column of X counts in the space of a fitted model.

    Parameters
    ----------
    model : a fitted transformer, or a pipeline as `Comparison.fit` gives it.
    X : the rows to explain on: a frame or array as the model takes it.
    columns : names of the columns, if X has none.
    """
    view = _View.of(model, X, columns)
    A = linear_map(view.space, view.encoded)
    draw = np.random.default_rng(random_state)
    if A is not None:
        return _by_shares(view, A, draw)
    rows = np.sort(draw.permutation(len(view.cells))[:_SAMPLE])
    view = replace(view, cells=view.cells.take(rows), encoded=view.encoded[rows])
    tried = view.most_varied(_MOST_COLUMNS)
    k = max(1, min(n_neighbors, len(rows) - 1))
    before = nearest(view.placed(view.cells), None, k, "euclidean")[1]
    lost, error = [], []
    for j in steps(tried, "Shuffling columns"):
        changed = view.cells.shuffled(view.cells.parts[j], draw.permutation(len(rows)))
        after = nearest(view.placed(changed), None, k, "euclidean")[1]
        per_row = 1 - (after[:, :, None] == before[:, None, :]).any(axis=2).mean(axis=1)
        lost.append(per_row.mean())
        error.append(per_row.std(ddof=1) / np.sqrt(len(per_row)) if len(per_row) > 1 else 0.0)
    about = Message("explain.shuffled")
    return _ordered(view.names, np.array(lost), np.array(error), tried, False, about)


@dataclass(frozen=True)
class _View:
    """A model taken apart: the table's preparation and the space, and rows seen by both."""

    step: TablePreparation | None
    space: Any
    cells: Cells
    encoded: Floats
    origin: Ints  # the column of the table that each encoded one comes from
    names: tuple[str, ...]

    @classmethod
    def of(cls, model: Any, X: Any, columns: tuple[str, ...] | None) -> _View:
        if isinstance(model, Pipeline) and isinstance(model[0], TablePreparation):
            step = model[0]
            cells = X if isinstance(X, Cells) else step.read(X)
            space = model[1:] if len(model) > 1 else None
            encoded = step.encode(cells)
            refuse_extreme(largest(encoded), encoded.dtype)
            return cls(step, space, cells, encoded, step.origin, cells.names)
        names = columns or (tuple(str(c) for c in X.columns) if is_frame(X) else None)
        values = read_rows(X)
        refuse_extreme(largest(values), values.dtype)
        cells = cells_of_array(values, names)
        return cls(None, model, cells, values, np.arange(values.shape[1]), cells.names)

    def placed(self, cells: Cells) -> Floats:
        rows = cells.numbers if self.step is None else self.step.encode(cells)
        return np.asarray(rows if self.space is None else self.space.transform(rows))

    def most_varied(self, most: int) -> Ints:
        variance = np.bincount(self.origin, weights=self.encoded.var(axis=0, dtype=np.float64),
                               minlength=len(self.names))  # fmt: skip
        return np.sort(np.argsort(-variance, kind="stable")[:most])


def _by_shares(view: _View, A: Floats, draw: np.random.Generator) -> Explanation:
    """The exact share of each column, and its interval from random parts of the rows."""
    n = len(view.names)

    def shares(rows: Floats) -> Floats:
        parts = np.bincount(view.origin, weights=_shares(A, rows), minlength=n)
        total = float(parts.sum())
        return parts / total if total > 0 else np.zeros(n)

    whole = shares(view.encoded)
    error = np.zeros(n)
    if len(view.encoded) >= 5 * _PARTS:
        order = np.array_split(draw.permutation(len(view.encoded)), _PARTS)
        spread = np.std([shares(view.encoded[part]) for part in order], axis=0, ddof=1)
        error = spread / np.sqrt(_PARTS)
    return _ordered(view.names, whole, error, np.arange(n), True, Message("explain.exact"))


def explain_rows(
    model: Any, X: Any, columns: tuple[str, ...] | None, a: int, b: int
) -> Explanation:
    """What each column adds to the squared distance of two rows; for linear models."""
    view = _View.of(model, X, columns)
    A = linear_map(view.space, view.encoded)
    if A is None:
        raise InputError(Message("explain.not_linear"))
    rows = view.encoded
    for row in (a, b):
        if not 0 <= row < len(rows):
            raise InputError(Message("explain.no_row", row=row, last=len(rows) - 1))
    difference = rows[a].astype(np.float64) - rows[b].astype(np.float64)
    parts = np.bincount(view.origin, weights=difference * (A @ (A.T @ difference)),
                        minlength=len(view.names))  # fmt: skip
    about = Message("explain.rows", a=a, b=b)
    return _ordered(view.names, parts, None, np.arange(len(parts)), True, about)


def _shares(A: Floats, X: Array) -> Floats:
    """Row sums of (A A^T) o C, with C the covariance of X: sum over axes of A o (C A)."""
    mean, C_A = X.mean(axis=0, dtype=np.float64), np.zeros_like(A)
    for part in spans(len(X), _rows_at_once(X)):
        rows = X[part] - mean
        with one_blas_thread():
            C_A += rows.T @ (rows @ A)
    return np.asarray((A * C_A).sum(axis=1) / max(1, len(X) - 1))


def _deviation(X: Array, centre: Floats) -> Floats:
    """Standard deviation of each column."""
    squares = np.zeros(X.shape[1])
    for part in spans(len(X), _rows_at_once(X)):
        squares += ((X[part] - centre) ** 2).sum(axis=0)
    return np.asarray(np.sqrt(squares / len(X)))


def _rows_at_once(X: Array) -> int:
    return max(1, _CELLS_AT_ONCE // X.shape[1])


def linear_map(model: Any, X: Array) -> Floats | None:
    """A of x -> c + A^T x, (d, d'), if that is what the model does; else None.

    Found by moving one column at a time from the mean, and checked on rows of X. No model: I.
    """
    d = X.shape[1]
    if model is None:
        return np.eye(d)
    centre = X.mean(axis=0, dtype=np.float64)
    # A step that survives rounding, also along a column that is constant.
    least = float(np.finfo(X.dtype).eps) ** 0.5 * (1 + np.abs(centre))
    size = np.maximum(_deviation(X, centre), least)
    start = centre.astype(X.dtype)
    origin = np.asarray(model.transform(start[None]), dtype=np.float64)[0]
    A = np.empty((d, len(origin)))
    for part in spans(d, max(1, _CELLS_AT_ONCE // d)):
        columns = np.arange(part.start, part.stop)
        probes = np.tile(start, (len(columns), 1))
        probes[np.arange(len(columns)), columns] = (centre + size)[columns]
        step = (centre + size)[columns].astype(X.dtype).astype(np.float64) - start[columns]
        images = np.asarray(model.transform(probes), dtype=np.float64)
        A[columns] = (images - origin) / step[:, None]
    rows = X[:: max(1, len(X) // 50)][:50]
    truth = np.asarray(model.transform(rows), dtype=np.float64)
    guess = origin + (rows.astype(np.float64) - start.astype(np.float64)) @ A
    slack = (1e-3 if X.dtype == np.float32 else 1e-7) * max(float(np.abs(truth).max()), 1e-300)
    return A if np.abs(guess - truth).max() <= slack else None


def _ordered(
    names: tuple[str, ...], weights: Floats, error: Floats | None, which: Ints, exact: bool,
    about: Message,
) -> Explanation:  # fmt: skip
    order = np.argsort(-np.abs(weights), kind="stable")
    chosen = tuple(names[int(which[i])] for i in order)
    half = None if error is None else 1.96 * error[order]
    low = None if half is None else weights[order] - half
    high = None if half is None else weights[order] + half
    return Explanation(chosen, weights[order], exact, about, low, high)
