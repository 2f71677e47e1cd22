"""Moments of rows that come in batches and are seen only once.

PCA looks at the spectrum and reads the table again if the scatter was not accurate enough. A
batch cannot be read again later, so each is judged while it is at hand. The error that a batch
adds to S is about u trace(S_batch), and the eigenvalues of S only grow as rows are added: once

    sqrt(u) trace(S_batch) <= lam_k(S so far)

its scatter is accurate enough for the k axes wanted, whatever follows. lam_k is estimated by
the k-th pivot of a Cholesky factor with pivoting, at a small part of the cost of an eigenvalue,
and only when the last estimate does not suffice. Where the test fails float32 batches are
multiplied in float64 from then on; float64 batches are factored (moments.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from nearfold.blocks import combine_pairwise, spans
from nearfold.linalg.moments import Moments, block_moments, combine_moments, product_dtype
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order, one_blas_thread
from nearfold.state import State, flag, nested, number

# Batches wait until there are enough rows for all threads to run products at full speed on.
BUFFER_BYTES = 16 * 1024**2
_TOGETHER = 4  # blocks that a batch is absorbed in,
_FEWEST = 256  # each of at least so many rows


@dataclass(frozen=True)
class SeenRows:
    """Moments of all rows seen, and how accurate they are.

    `floor` is a lower estimate of lam_k, `coarse` the error that float32 products left in the
    scatter, and `doubled` says that further ones would be too coarse.
    """

    moments: Moments
    floor: float = 0.0
    coarse: float = 0.0
    doubled: bool = False

    fitted_state = State(
        moments=nested(Moments, d="d"), floor=number(0), coarse=number(0), doubled=flag()
    )


def add_batch(seen: SeenRows | None, X: Array, weights: Floats | None, k: int) -> SeenRows:
    """The rows seen and these, accurate for k axes. Nothing given is changed."""
    before = None if seen is None else seen.moments
    floor, coarse, doubled = (
        (0.0, 0.0, False) if seen is None else (seen.floor, seen.coarse, seen.doubled)
    )
    factored = before is not None and before.factor is not None
    double = np.dtype(np.float64)
    dtype = double if doubled else product_dtype(X.dtype, *X.shape)
    fresh = batch_moments(X, weights, dtype, factored)
    with one_blas_thread():
        moments = _joined(before, fresh)
        if factored or not np.isfinite(moments.total):
            return SeenRows(moments, floor, coarse, doubled)
        floor, enough = _judge(moments, fresh, dtype, k, floor)
    if enough and dtype == np.float32:
        coarse += float(np.finfo(np.float32).eps) * fresh.total
    if enough or (X.dtype == np.float32 and dtype == np.float64):
        return SeenRows(moments, floor, coarse, doubled)
    fresh = batch_moments(X, weights, double, factor=X.dtype == np.float64)
    with one_blas_thread():
        return SeenRows(_joined(before, fresh), floor, coarse, True)


def _joined(before: Moments | None, fresh: Moments) -> Moments:
    return fresh if before is None else combine_moments(before, fresh)


def _judge(
    moments: Moments, fresh: Moments, dtype: np.dtype, k: int, floor: float
) -> tuple[float, bool]:
    """The estimate of lam_k, and whether the rounding of `fresh` and of the sum is below it."""
    rounding = np.sqrt(np.finfo(np.float64).eps) * moments.total
    if dtype == np.float32:
        rounding = max(rounding, np.sqrt(np.finfo(np.float32).eps) * fresh.total)
    if floor < rounding:
        k = min(k, moments.mean.shape[1], max(moments.n_rows - 1, 1))
        floor = pivot(moments.scatter, k)
    return floor, bool(floor >= rounding)


def pivot(S: Floats, k: int) -> float:
    """The k-th pivot of the Cholesky factor of S with pivoting: an estimate of lam_k."""
    R, _, rank, _ = linalg.lapack.dpstrf(S.astype(np.float64, copy=False), lower=0)
    return float(R[k - 1, k - 1] ** 2) if k <= rank else 0.0


def batch_moments(X: Array, weights: Floats | None, dtype: np.dtype, factor: bool) -> Moments:
    """Moments of one batch, in a few blocks."""

    def of_part(part: slice) -> Moments:
        w = None if weights is None else weights[part]
        return block_moments(X[part], w, workspace=np.empty(X[part].shape, dtype), factor=factor)

    moments = _in_parts(of_part, X)
    return replace(moments, scatter=moments.scatter.astype(np.float64, copy=False))


def class_moments(X: Array, label: Ints, n_classes: int) -> Moments:
    """Moments of the classes of one batch, in float64."""

    def of_part(part: slice) -> Moments:
        space = np.empty(X[part].shape)
        return block_moments(X[part], None, label[part], n_classes, workspace=space)

    return _in_parts(of_part, X)


def _in_parts(of_part: Callable[[slice], Moments], X: Array) -> Moments:
    m, d = X.shape
    most = BUFFER_BYTES // (8 * d)  # centred at a time, where a batch is larger than a buffer
    parts = spans(m, max(_FEWEST, min(-(-m // _TOGETHER), most)))
    with one_blas_thread():
        run = map_in_order if len(parts) > 1 else map
        return combine_pairwise(run(of_part, parts), combine_moments)


class BatchBuffer:
    """Rows of batches, copied (the caller may reuse its buffer) until there are enough of them.

    Each comes with a number of its own: its weight, or its class.
    """

    def __init__(self, d: int, dtype: Any, kind: Any = np.float64) -> None:
        length = max(64, BUFFER_BYTES // (d * np.dtype(dtype).itemsize))
        self.X = np.empty((length, d), dtype)
        self.own = np.empty(length, kind)
        self.count = 0

    def fits(self, m: int) -> bool:
        """Whether m more rows have room."""
        return self.count + m <= len(self.X)

    def add(self, X: Array, own: Array | float) -> None:
        """Copy these rows."""
        here = slice(self.count, self.count + len(X))
        self.X[here], self.own[here] = X, own
        self.count += len(X)

    def rows(self) -> tuple[Array, Array]:
        """All that waits, and the number of each row, as views."""
        return self.X[: self.count], self.own[: self.count]
