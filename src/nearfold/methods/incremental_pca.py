"""Principal component analysis of rows that arrive in batches (section 10.3), exactly.

What is kept between batches is not a truncated basis but the moments of all rows seen (count,
mean, centred scatter; linalg/moments.py), so after any number of batches of any size the axes
are those of PCA on all rows at once. The eigenproblem is solved when a result is first asked
for, not after every batch.

Cost: O(m d^2) time in all and O(d^2) memory. Where d^2 numbers exceed the memory budget the
bounded way is taken: each batch is merged into the d' axes kept so far by an SVD (Ross et al.,
2008), which forgets what lay outside of them; `approximation_` and a warning say so.

Departure from scikit-learn: its IncrementalPCA always takes that bounded way and its result
depends on the batches; `batch_size` here only sets how much is read at a time.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks import ArrayRows, as_rows, combine_blocks, get_memory, is_streamed, show_bytes
from nearfold.errors import ApproximationWarning, InputError
from nearfold.inputs import (
    check_table,
    check_weights,
    refuse_bad_blocks,
    refuse_nonfinite,
    take_names,
)
from nearfold.linalg import (
    Moments,
    Principal,
    block_moments,
    combine_moments,
    from_scatter,
    table_moments,
    thin_svd,
)
from nearfold.methods.principal_components import (
    PrincipalComponents,
    count_components,
    numerical_rank,
)
from nearfold.notation import Array, Floats
from nearfold.run import one_blas_thread, reporting

# Batches wait until there are enough for all threads to run products at full speed on.
_WAIT_BYTES = 64 * 1024**2
_TOGETHER = 4  # blocks that the waiting batches are absorbed in
_RESULTS = (
    "components_",
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
    "mean_",
    "var_",
    "noise_variance_",
    "n_components_",
)


def merge_truncated(kept: Principal, X: Array, weights: Floats | None, k: int) -> Principal:
    """Axes of the rows seen and the rows X, from the k axes kept and X: what else was, is lost."""
    w = np.ones(len(X)) if weights is None else weights
    m, n = float(w.sum()), kept.count
    if m == 0.0:
        return kept
    mean = np.asarray(w @ X, dtype=np.float64) / m
    centred = (X - mean) * np.sqrt(w)[:, None]
    shift = np.sqrt(n * m / (n + m)) * (kept.mean - mean)
    stacked = np.vstack([np.sqrt(kept.lam)[:, None] * kept.axes, centred, shift])
    _, s, axes = thin_svd(stacked, "the merged batch")
    total = kept.total + float(np.sum(centred**2) + shift @ shift)
    merged_mean = (n * kept.mean + m * mean) / (n + m)
    return Principal(
        s[:k] ** 2,
        axes[:k],
        total,
        merged_mean,
        n + m,
        kept.n_rows + len(X),
        "merged",
        kept.approximation,
    )


class IncrementalPCA(PrincipalComponents):
    """PCA of rows that come in batches, equal to PCA on all of them.

    Parameters are scikit-learn's. `n_components` may also be a share of the variance: it is
    decided after the stream. `fit` reads an array, a sparse matrix, a frame or a file in blocks;
    `partial_fit` takes one batch. Both take `sample_weight`.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import PCA, IncrementalPCA
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> model = IncrementalPCA(n_components=2)
    >>> for batch in np.array_split(X, 7):
    ...     model = model.partial_fit(batch)
    >>> bool(np.allclose(model.components_, PCA(n_components=2).fit(X).components_))
    True
    """

    _moments: Moments | None
    n_samples_seen_: int

    def __init__(
        self,
        n_components: Any = None,
        *,
        whiten: bool = False,
        copy: bool = True,
        batch_size: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.copy = copy
        self.batch_size = batch_size
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> IncrementalPCA:
        """Forget what was seen, then read X in blocks."""
        self._forget()
        if is_streamed(X):
            rows = as_rows(X)
            take_names(self, rows)
            weights = check_weights(sample_weight, rows)
        else:
            table = check_table(self, X, reset=True, accept_sparse=True)
            rows = ArrayRows(table)
            weights = check_weights(sample_weight, table)
        self.batch_size_ = self.batch_size or rows.block_rows()
        self._dtype = rows.dtype
        with reporting(self.verbose):
            if self._too_wide(rows.n_features):
                for block in rows.blocks():
                    part = None if weights is None else weights[block.start :][: block.X.shape[0]]
                    self._merge(_dense(block.X), part)
            else:
                self._moments = moments = table_moments(rows.blocks(), weights, rows.dtype)
                if not np.isfinite(moments.scatter.diagonal().sum()):
                    refuse_bad_blocks(rows, getattr(self, "feature_names_in_", None))
        self._finish()
        return self

    def partial_fit(
        self, X: Any, y: Any = None, check_input: bool = True, sample_weight: Any = None
    ) -> IncrementalPCA:
        """Take one more batch. The axes are found when a result is asked for."""
        first = not hasattr(self, "n_samples_seen_")
        if check_input:
            X = check_table(self, X, reset=first, accept_sparse=True)
        if first:
            self._forget()
            self._dtype = X.dtype
        weights = check_weights(sample_weight, X)
        X = _dense(X)
        if self._too_wide(X.shape[1]):
            self._merge(X, weights)
        else:
            self._take(X, weights)
        self.n_samples_seen_ = (0 if first else self.n_samples_seen_) + X.shape[0]
        for name in _RESULTS:
            self.__dict__.pop(name, None)
        return self

    def __getattr__(self, name: str) -> Any:
        # Results are computed when first asked for after a batch.
        if name in _RESULTS and "n_samples_seen_" in self.__dict__:
            self._finish()
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _forget(self) -> None:
        self._room: _WaitingRoom | None = None
        self._moments = None
        self._merged: Principal | None = None
        self._wide: bool | None = None
        self.approximation_: str | None = None
        for name in ("n_samples_seen_", *_RESULTS):
            self.__dict__.pop(name, None)

    def _take(self, X: Array, weights: Floats | None) -> None:
        """A batch into the waiting room, and from there into the moments when it is full."""
        if self._room is None or self._room.X.dtype != X.dtype:
            self._absorb()
            self._room = _WaitingRoom(X.shape[1], X.dtype)
        for start in range(0, len(X), len(self._room.X)):
            part = slice(start, start + len(self._room.X))
            if not self._room.fits(len(X[part])):
                self._absorb()
            self._room.add(X[part], None if weights is None else weights[part])

    def _absorb(self) -> None:
        """The waiting rows into the moments, in a few blocks."""
        if self._room is None or self._room.count == 0:
            return
        step = -(-self._room.count // _TOGETHER)
        X, weights = self._room.empty()
        equal = bool((weights == 1.0).all())  # then there is nothing to multiply with

        def of_part(part: slice) -> Moments:
            w = None if equal else weights[part]
            return block_moments(X[part], w, workspace=X[part])  # ours: centred in place

        parts = [slice(a, a + step) for a in range(0, len(X), step)]
        fresh = combine_blocks(parts, of_part, combine_moments)
        with one_blas_thread():
            self._moments = (
                fresh if self._moments is None else combine_moments(self._moments, fresh)
            )

    def __getstate__(self) -> dict[str, Any]:
        """A stored model holds moments, not waiting rows."""
        if "_room" in self.__dict__:
            self._absorb()
            self._room = None
        state: dict[str, Any] = super().__getstate__()
        return state

    def _too_wide(self, d: int) -> bool:
        if self._wide is not None:
            return self._wide
        needed = 8.0 * 6 * d * d
        self._wide = needed > get_memory()
        if self._wide:
            self.approximation_ = (
                f"only the leading axes are kept between batches: the scatter of {d} features "
                f"would need {show_bytes(needed)}"
            )
            warnings.warn(
                f"IncrementalPCA: {self.approximation_}, and the memory budget is "
                f"{show_bytes(get_memory())} (nearfold.set_memory).",
                ApproximationWarning,
                stacklevel=3,
            )
        return self._wide

    def _merge(self, X: Array, weights: Floats | None) -> None:
        refuse_nonfinite(X, getattr(self, "feature_names_in_", None))
        d = X.shape[1]
        count = isinstance(self.n_components, int | np.integer)
        k = int(self.n_components) if count else min(d, 256)
        if self._merged is None:
            empty = np.zeros((0, d))
            self._merged = Principal(
                np.zeros(0), empty, 0.0, np.zeros(d), 0.0, 0, "merged", self.approximation_
            )
        self._merged = merge_truncated(self._merged, X, weights, k)

    def _finish(self) -> None:
        if self._merged is not None:
            found = self._merged
            self.var_ = np.full(len(found.mean), np.nan)  # not kept on the bounded way
        else:
            self._absorb()
            assert self._moments is not None
            self._moments.scatter = self._moments.scatter.astype(np.float64, copy=False)
            if not np.isfinite(np.trace(self._moments.scatter)):
                raise InputError(
                    "the values are so large that their squares overflow: divide the columns by "
                    "a constant first."
                )
            found = from_scatter(self._moments, self._wanted(self._moments))
            self.var_ = np.maximum(np.diag(self._moments.scatter), 0.0) / found.count
        shape = (found.n_rows, len(found.mean))
        k = count_components(self.n_components, found)
        k = min(k, max(1, numerical_rank(found, shape, self._dtype)))
        self._keep(found, k, shape, self._dtype)
        self.n_samples_seen_ = found.n_rows

    def _wanted(self, moments: Moments) -> int:
        most = min(moments.n_rows, moments.mean.shape[1])
        k = self.n_components
        if isinstance(k, int | np.integer) and not isinstance(k, bool):
            if not 1 <= k <= most:
                raise InputError(
                    f"n_components={k} must be between 1 and min(n_samples, n_features)={most}."
                )
            return int(k)
        if k is None or (isinstance(k, float) and 0 < k < 1):
            return most
        raise InputError(f"n_components={k!r}: give a count, a share between 0 and 1, or None.")


class _WaitingRoom:
    """Rows of batches, copied (the caller may reuse its buffer) until there are enough of them."""

    def __init__(self, d: int, dtype: Any) -> None:
        size = min(_WAIT_BYTES, get_memory() // 8)
        self.X = np.empty((max(64, size // (d * np.dtype(dtype).itemsize)), d), dtype)
        self.weights = np.ones(len(self.X))
        self.count = 0

    def fits(self, m: int) -> bool:
        return self.count + m <= len(self.X)

    def add(self, X: Array, weights: Floats | None) -> None:
        here = slice(self.count, self.count + len(X))
        self.X[here] = X
        self.weights[here] = 1.0 if weights is None else weights
        self.count += len(X)

    def empty(self) -> tuple[Array, Floats]:
        """All that waits, as views: to be used before the room is filled again."""
        count, self.count = self.count, 0
        return self.X[:count], self.weights[:count]


def _dense(X: Any) -> Array:
    return X.toarray() if sparse.issparse(X) else np.asarray(X)
