"""What PCA and IncrementalPCA share: all that follows once the principal axes are known.

Projecting and reconstructing (10.13)-(10.14), whitening, and the probabilistic model behind
`score`. How the axes are found is in pca.py and incremental_pca.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import Block, MappedRows, as_rows, is_streamed, require_output, spans
from nearfold.errors import InputError, warn
from nearfold.inputs import (
    check_coordinates,
    check_table,
    finite_result,
    match_names,
    refuse_nonfinite,
)
from nearfold.linalg import Principal, fix_signs, is_count, variance_shares
from nearfold.messages import Message
from nearfold.methods.reduction import COLUMNS, Reduction
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order, one_blas_thread
from nearfold.state import array, number, size

_CELLS = 2**19  # of X that one task centres and multiplies

PRINCIPAL_STATE = COLUMNS.extended(
    components_=array("k d"),
    explained_variance_=array("k", least=0),
    explained_variance_ratio_=array("k", least=0),
    singular_values_=array("k", least=0),
    mean_=array("d"),
    noise_variance_=number(0),
    n_components_=size("k"),
)


@np.errstate(over="ignore", invalid="ignore")  # looked for in the result
def center_and_project(
    X: Any, mu: Floats, W: Floats, scale: Floats | None = None, dtype: Any = None
) -> Array:
    """Z = (X - mu) W, divided by `scale`; in parts, and sparse X is not densified.

    The result is in `dtype`, or in that of X and W.
    """
    dtype = np.result_type(X, W) if dtype is None else dtype
    require_output(X.shape[0], W.shape[1], dtype)
    if sparse.issparse(X):
        Z = np.asarray(X @ W - mu @ W)
        return finite_result(Z if scale is None else Z / scale, Z.dtype)
    Z = np.empty((X.shape[0], W.shape[1]), dtype)

    def fill(part: slice) -> None:
        Z[part] = (X[part] - mu) @ W  # (10.13)
        if scale is not None:
            Z[part] /= scale

    over_parts(fill, X)
    return finite_result(Z, dtype)


def project_rows(
    estimator: Any,
    X: Any,
    mu: Floats,
    W: Floats,
    scale: Floats | None = None,
    *,
    same_dtype: bool = False,
    **accepted: Any,
) -> Any:
    """Z of the rows X of an estimator; a streamed table gives `Rows`, projected as iterated.

    The result is in the dtype of the rows (`same_dtype`), or in that of X and W.
    """
    if is_streamed(X):
        rows = match_names(estimator, as_rows(X))
        dtype = rows.dtype if same_dtype else np.result_type(rows.dtype, W)
        columns = rows.feature_names
        of_block = partial(_of_block, mu=mu, W=W, scale=scale, columns=columns, dtype=dtype)
        return MappedRows(rows, of_block, W.shape[1], dtype)
    X = check_table(estimator, X, reset=False, **accepted)
    return center_and_project(X, mu, W, scale, X.dtype if same_dtype else None)


def _of_block(
    block: Block,
    mu: Floats,
    W: Floats,
    scale: Floats | None,
    columns: list[str] | None,
    dtype: Any,
) -> Array:
    refuse_nonfinite(block.X, columns, block.start)
    return center_and_project(block.X, mu, W, scale, dtype)


def over_parts(task: Any, X: Any) -> list[Any]:
    """The task's results for parts of X, cut by its shape alone, on all threads."""
    parts = spans(X.shape[0], max(1, _CELLS // max(1, X.shape[1])))
    if len(parts) > 1:
        return list(map_in_order(task, parts))
    with one_blas_thread():  # a small table is not worth a pool, whose tasks have one thread, too
        return [task(part) for part in parts]


def log_likelihood(X: Array, mu: Floats, W: Floats, variance: Floats, noise: float) -> Floats:
    """Log density of each row under N(mu, W diag(variance) W^T + noise on all other directions).

    Through the axes W (d, k): neither the covariance nor its inverse is formed.
    """
    d, k = W.shape
    constant = d * np.log(2 * np.pi) + np.sum(np.log(variance))
    if k < d:
        constant += (d - k) * np.log(noise)

    @np.errstate(over="ignore", invalid="ignore")  # looked for in the result
    def of_part(part: slice) -> Floats:
        C = X[part].astype(np.float64) - mu
        Z = C @ W
        square = np.sum(Z**2 / variance, axis=1)
        if k < d:
            C -= Z @ W.T  # what lies off the axes, without a difference of squares
            square += np.einsum("ij,ij->i", C, C) / noise
        return np.asarray(-0.5 * (square + constant))

    return finite_result(np.concatenate(over_parts(of_part, X)), np.float64)


class PrincipalComponents(Reduction):
    """What PCA and IncrementalPCA share: all that follows once the axes are known."""

    n_components: Any
    whiten: bool

    def _keep(self, found: Principal, k: int, dtype: Any) -> None:
        """Store k axes and what scikit-learn derives from them."""
        if found.count <= 1.0 < found.n_rows:
            raise InputError(
                f"the sample weights sum to {found.count:g}: they say how often each row counts, "
                "so together they must exceed 1. Multiply them by a constant."
            )
        rank = found.rank(dtype)
        # m centred rows never vary in more than m - 1 directions: that is no surprise.
        if rank < min(k, found.n_rows - 1) and is_count(self.n_components):
            warn(Message("warn.rank", k=str(k), rank=str(rank), rest=str(k - rank)))
        degrees = max(found.count - 1.0, np.finfo(np.float64).tiny)
        kept = found.completed(k, dtype)
        left = min(found.n_rows, len(found.mean)) - k
        self.noise_variance_ = float(_rest(found, k, dtype) / left / degrees) if left > 0 else 0.0
        self.components_ = fix_signs(kept.axes).astype(dtype)
        self.explained_variance_ = (kept.lam / degrees).astype(dtype)
        self.explained_variance_ratio_ = variance_shares(kept.lam, found.total, dtype)
        self.singular_values_ = np.sqrt(kept.lam).astype(dtype)
        self.mean_ = found.mean.astype(dtype)
        self.n_components_ = k

    def _settle(self) -> None:
        """Nothing to compute first, unless a subclass says so."""

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _scale(self) -> Floats | None:
        """Standard deviations to whiten by; a direction without variance is left as it is."""
        if not self.whiten:
            return None
        scale = np.sqrt(self.explained_variance_)
        return np.where(scale > np.finfo(scale.dtype).eps * scale.max(initial=0.0), scale, 1.0)

    def transform(self, X: Any) -> Any:
        """Project rows onto the axes.

        Parameters
        ----------
        X : array, sparse matrix, frame, or a path, `Rows` or LazyFrame to be read in blocks
            The rows, with the columns of the fit.

        Returns
        -------
        Z : array of shape (n_samples, n_components_), or Rows
            `Rows` for a table that is read in blocks: its blocks are projected as they are
            iterated (`Z.blocks()`); `Z.to_array()` or `np.asarray(Z)` holds all of it.
        """
        check_is_fitted(self)
        self._settle()
        W = np.ascontiguousarray(self.components_.T)
        return project_rows(self, X, self.mean_, W, self._scale(), accept_sparse=True)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, then project the same rows; the result is that of `transform`."""
        return self.fit(X, y, **fit_params).transform(X)

    def inverse_transform(self, X: Any) -> Array:
        """Back into the original space: the nearest points on the plane of the axes."""
        check_is_fitted(self)
        self._settle()
        Z, scale = check_coordinates(X, len(self.components_)), self._scale()
        axes = self.components_ if scale is None else self.components_ * scale[:, None]
        dtype = np.result_type(Z, axes)
        require_output(len(Z), axes.shape[1], dtype)
        back = np.asarray(Z @ axes)  # (10.14)
        back += self.mean_
        return back

    def _model(self) -> tuple[Floats, Floats, float]:
        """Axes (d, k), variances along them and noise of the probabilistic model, in float64.

        A noise that is zero, because the rows span fewer directions than there are columns,
        counts as the rounding of the largest variance: the density then stays finite, and rows
        off the span of the data are very improbable.
        """
        variance = self.explained_variance_.astype(np.float64)
        largest = float(variance.max(initial=self.noise_variance_)) or 1.0
        noise = max(self.noise_variance_, float(np.finfo(self.mean_.dtype).eps) * largest)
        if self.components_.shape[0] == self.components_.shape[1]:
            floor = 0.0 if variance.min() > 0 else noise
        else:
            floor = noise
        return self.components_.T.astype(np.float64), np.maximum(variance, floor), noise

    def get_covariance(self) -> Floats:
        """The covariance of the probabilistic model: axes kept, equal noise on the others."""
        check_is_fitted(self)
        self._settle()
        W = self.components_
        excess = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0)
        C = (W.T * excess) @ W
        C.flat[:: len(C) + 1] += self.noise_variance_
        return np.asarray(C)

    def get_precision(self) -> Floats:
        """The inverse of `get_covariance`, through the axes.

        Where the covariance is singular its zero variances count as rounding of the largest.
        """
        check_is_fitted(self)
        self._settle()
        W, variance, noise = self._model()
        d, k = W.shape
        if k == d:
            return np.asarray((W / variance) @ W.T)
        P = (W * (1.0 / variance - 1.0 / noise)) @ W.T
        P.flat[:: d + 1] += 1.0 / noise
        return np.asarray(P)

    def score_samples(self, X: Any) -> Floats:
        """Log-likelihood of each row under the probabilistic model."""
        check_is_fitted(self)
        self._settle()
        X = check_table(self, X, reset=False)
        W, variance, noise = self._model()
        return log_likelihood(X, self.mean_.astype(np.float64), W, variance, noise)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the rows."""
        return float(np.mean(self.score_samples(X)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _rest(found: Principal, k: int, dtype: Any) -> float:
    """The scatter outside the first k axes, 0 where it is rounding."""
    if len(found.lam) == min(found.n_rows, len(found.mean)):
        # All eigenvalues are known: their sum is more accurate than a difference.
        return float(found.lam[k : max(found.rank(dtype), k)].sum())
    rest = found.total - float(found.lam[:k].sum())
    return rest if rest > 10 * float(np.finfo(dtype).eps) * found.total else 0.0
