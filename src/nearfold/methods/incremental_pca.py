"""Principal component analysis of rows that arrive in batches (section 10.3), exactly.

What is kept between batches is not a truncated basis but the moments of all rows seen (count,
mean, centred scatter, and its triangular factor where the scatter alone would not be accurate;
linalg/batches.py), so after any number of batches of any size the axes are those of PCA on all
rows at once. The eigenproblem is solved when a result is first read, not after every batch.

Cost: O(m d^2) time in all and O(d^2) memory. Where d^2 numbers exceed the memory budget the
memory-bounded fallback is taken: each batch is merged into the d' axes kept so far by an SVD
(Ross et al., 2008), which forgets what lay outside of them; `approximation_` and a warning say
so, and `truncate` pins either way.

Departure from scikit-learn: its IncrementalPCA always truncates, and its result depends on the
batches.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from nearfold.blocks import spans
from nearfold.errors import InputError
from nearfold.inputs import (
    check_table,
    check_weights,
    open_rows,
    refuse_bad_sums,
    refuse_extreme,
    refuse_nonfinite,
)
from nearfold.linalg import (
    BatchBuffer,
    Principal,
    SeenRows,
    add_batch,
    from_moments,
    is_count,
    most_axes,
)
from nearfold.linalg.principal import solve_tall
from nearfold.methods.lazy_results import LazyResults
from nearfold.methods.principal_components import PRINCIPAL_STATE, PrincipalComponents
from nearfold.methods.reduction import COLUMNS
from nearfold.methods.truncated_axes import merge_batch, truncation_note
from nearfold.notation import Array, Floats
from nearfold.run import reporting
from nearfold.state import array, flag, is_whole, nested, number, optional, require, text

_RESULTS = (*(name for name in PRINCIPAL_STATE.fields if name not in COLUMNS.fields), "var_")
_LEAST_COUNT = 1e-100  # sum of the weights of the rows seen


def _check_dtype(total: float, count: float, mean: Array, dtype: str) -> None:
    """Variances and means are numbers of the dtype that results have."""
    largest = float(np.finfo(dtype).max)
    fits = 0 <= total / count <= 0.1 * largest and float(np.abs(mean).max()) ** 2 <= largest
    require(fits, f"moments beyond {dtype}")


def _all_or_none(values: dict[str, Any], sizes: dict[str, int]) -> None:
    """Results are there, or rows from which they can be computed."""
    found = sum(name in values for name in _RESULTS)
    seen = values.get("_seen") is not None or values.get("_merged") is not None
    stale = bool(values.get("_stale"))
    require(found == (0 if stale else len(_RESULTS)), "results that do not belong together")
    require(seen, "no rows to go on from")
    truncated = values["_merged"] is not None
    require(truncated == (values["approximation_"] is not None), "axes of another kind")
    if stale and is_whole(values.get("n_components")):
        require(values["n_components"] <= sizes["d"], "n_components: more than there are columns")
    if values.get("_seen") is not None:
        moments = values["_seen"].moments
        require(moments.mean.shape == (1, sizes["d"]), "moments of another width")
        require(moments.n_rows >= 1 and moments.count[0] > _LEAST_COUNT, "moments of no rows")
        _check_dtype(moments.total, float(moments.count[0]), moments.mean, values["_dtype"])
    if values.get("_merged") is not None:
        merged = values["_merged"]
        require(len(merged.mean) == sizes["d"], "axes of another width")
        require(merged.count > _LEAST_COUNT, "axes of no rows")
        _check_dtype(
            max(merged.total, *merged.lam, 0.0), merged.count, merged.mean, values["_dtype"]
        )


class IncrementalPCA(LazyResults, PrincipalComponents):
    """PCA of rows that come in batches, equal to PCA on all of them.

    Parameters
    ----------
    n_components : int, float or None, default=None
        Number of axes: a count, a share of the variance (0 < t < 1, decided after the stream),
        or min(n_samples, n_features). Axes beyond the rank of the data are an orthonormal
        completion with variance 0.
    whiten : bool, default=False
        Divide the projections by the standard deviations along the axes.
    copy : bool, default=True
        Accepted for compatibility; has no effect, because X is never overwritten.
    batch_size : int or None, default=None
        Accepted for compatibility; has no effect: results do not depend on the batches, and
        `fit` reads blocks whose size follows from the width of the table.
    verbose : bool, default=False
        Show a progress bar in `fit`.
    truncate : {"auto", "never", "always"}, default="auto"
        Whether only the leading axes are kept between batches: where the scatter exceeds the
        memory budget; never (what does not fit is then refused); or always, whatever the budget.

    Attributes
    ----------
    components_, explained_variance_, explained_variance_ratio_, singular_values_, mean_, \
noise_variance_, n_components_, n_features_in_, feature_names_in_
        As in `PCA`. They are computed when first read after a batch.
    var_ : ndarray of shape (n_features_in_,)
        Variance of each column (divided by n, as in scikit-learn); NaN in the fallback.
    n_samples_seen_ : int
        Rows seen.
    batch_size_ : int
        Rows read at a time by `fit`.
    approximation_ : str or None
        What was approximated, and under which memory budget.

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

    lazy_results = _RESULTS
    fitted_state = PRINCIPAL_STATE.extended(
        _all_or_none,
        (*_RESULTS, "batch_size_"),
        var_=array("d", finite=False, least=None),
        n_samples_seen_=number(1, whole=True),
        batch_size_=number(1, whole=True),
        approximation_=optional(text()),
        _dtype=text("float32", "float64"),
        _stale=flag(),
        _seen=optional(nested(SeenRows)),
        _merged=optional(nested(Principal)),
    )

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
            None,
        ],
        "whiten": ["boolean"],
        "copy": ["boolean"],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "verbose": ["verbose"],
        "truncate": [StrOptions({"auto", "never", "always"})],
    }

    # Waiting rows, the moments of those absorbed, or the axes kept by the fallback.
    _buffer: BatchBuffer | None = None
    _seen: SeenRows | None
    _merged: Principal | None

    def __init__(
        self,
        n_components: Any = None,
        *,
        whiten: bool = False,
        copy: bool = True,
        batch_size: int | None = None,
        verbose: bool = False,
        truncate: str = "auto",
    ) -> None:
        self.truncate = truncate
        self.n_components = n_components
        self.whiten = whiten
        self.copy = copy
        self.batch_size = batch_size
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> IncrementalPCA:
        """Forget what was seen, then read X in blocks: an array, a frame, or a file."""
        self._forget()
        rows = open_rows(self, X, sample_weight, accept_sparse=True)
        d = rows.n_features
        self._check_count(rows.n_rows, d)
        self.batch_size_ = self.batch_size or rows.block_rows()
        self._begin(d, rows.dtype)
        with reporting(self.verbose):
            if self.approximation_ is not None:
                for block in rows.blocks():
                    refuse_nonfinite(block.X, rows.feature_names, block.start)
                    self._merge(block.dense(), block.weights)
                assert self._merged is not None
                self.n_samples_seen_ = self._merged.n_rows
            else:
                found, moments = solve_tall(rows, self.n_components, "auto")
                refuse_bad_sums(rows, found.total)
                single = rows.dtype == np.float32 and found.route == "scatter"
                coarse = float(np.finfo(np.float32).eps) * found.total if single else 0.0
                self._seen = SeenRows(moments, 0.0, coarse, doubled=not single)
                self.n_samples_seen_ = moments.n_rows
        self._outdate()
        self._settle()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: Any = None, check_input: bool = True, sample_weight: Any = None
    ) -> IncrementalPCA:
        """Take one more batch. The axes are found when a result is read."""
        first = not hasattr(self, "n_samples_seen_")
        if check_input:
            X = check_table(self, X, reset=first, accept_sparse=True, finite=False)
        largest = refuse_nonfinite(X, getattr(self, "feature_names_in_", None))
        if largest > 1.0:  # an overflow would only be seen when the batch is absorbed
            refuse_extreme(largest, X.dtype)
        weights = check_weights(sample_weight, X, may_vanish=not first)
        if first:
            self._check_count(X.shape[0], X.shape[1], " for the first partial_fit call")
            self._forget()
            self._begin(X.shape[1], X.dtype)
        X = X.toarray() if sparse.issparse(X) else np.asarray(X)
        if self.approximation_ is not None:
            self._merge(X, weights)
        else:
            self._take(X, weights)
        self.n_samples_seen_ = (0 if first else self.n_samples_seen_) + X.shape[0]
        self._outdate()
        return self

    def _check_count(self, n_rows: int | None, d: int, when: str = "") -> None:
        k = self.n_components
        if not is_count(k):
            return
        if k > d:
            raise InputError(
                f"n_components={k} invalid for n_features={d}, need more rows than columns for "
                "IncrementalPCA processing"
            )
        if n_rows is not None and k > n_rows:
            raise InputError(
                f"n_components={k} must be less or equal to the batch number of samples "
                f"{n_rows}{when}."
            )

    def _forget(self) -> None:
        for name in ("n_samples_seen_", "batch_size_", "_stale", "_buffer", *_RESULTS):
            self.__dict__.pop(name, None)
        self._seen = self._merged = None

    def _begin(self, d: int, dtype: Any) -> None:
        """Decide once whether the scatter is kept."""
        self._dtype = np.dtype(dtype).name
        self.approximation_ = truncation_note(d, self.truncate)

    def _take(self, X: Array, weights: Floats | None) -> None:
        """A batch into the buffer, and from there into the moments when it is full."""
        if self._buffer is None or self._buffer.X.dtype != X.dtype:
            self._absorb()
            self._buffer = BatchBuffer(X.shape[1], X.dtype)
        for part in spans(len(X), len(self._buffer.X)):
            if not self._buffer.fits(part.stop - part.start):
                self._absorb()
                self._buffer = BatchBuffer(X.shape[1], X.dtype)
            self._buffer.add(X[part], 1.0 if weights is None else weights[part])

    def _absorb(self) -> None:
        """The waiting rows into the moments."""
        if self._buffer is None or self._buffer.count == 0:
            return
        X, own = self._buffer.rows()
        weights = None if (own == 1.0).all() else own
        k = int(self.n_components) if is_count(self.n_components) else X.shape[1]
        seen = add_batch(self._seen, X, weights, k)
        # Nothing is lost if add_batch is interrupted: the rows still wait.
        self._seen, self._buffer.count = seen, 0

    def __getstate__(self) -> dict[str, Any]:
        """A copied or stored model holds moments, not waiting rows."""
        self._absorb()
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_buffer", None)
        return state

    def _merge(self, X: Array, weights: Floats | None) -> None:
        assert self.approximation_ is not None
        self._merged = merge_batch(self._merged, X, weights, self.n_components, self.approximation_)

    def _finish(self) -> None:
        """The axes and all that follows from them."""
        if self._merged is not None:
            found = self._merged
            self.var_ = np.full(len(found.mean), np.nan)
        else:
            self._absorb()
            assert self._seen is not None
            moments = self._seen.moments
            k = most_axes(self.n_components, moments.n_rows, moments.mean.shape[1])
            route = "scatter in float64" if self._dtype == "float32" else "scatter"
            found = replace(from_moments(moments, k, route), error=self._seen.coarse)
            self.var_ = np.maximum(np.diag(moments.scatter), 0.0) / found.count
        dtype = np.dtype(self._dtype)
        self._keep(found, found.kept(self.n_components, dtype), dtype)
