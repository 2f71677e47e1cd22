"""What PCA and IncrementalPCA share: all that follows once the principal axes are known.

How many axes to keep (10.18), projecting and reconstructing (10.13)-(10.14), whitening, and the
probabilistic model behind `score`. How the axes are found is in pca.py and incremental_pca.py.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.special import gammaln
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import as_rows, is_streamed
from nearfold.errors import InputError
from nearfold.inputs import check_table, match_names, refuse_nonfinite
from nearfold.linalg import Principal, fix_signs
from nearfold.notation import Array, Floats


def count_for_share(lam: Floats, total: float, share: float) -> int:
    """The smallest d' whose eigenvalues sum to more than this share of the variance. (10.18)"""
    kept = np.cumsum(lam) / (total if total > 0 else 1.0)
    return min(int(np.searchsorted(kept, share, side="right")) + 1, len(lam))


def count_by_evidence(lam: Floats, m: int) -> int:
    """Minka's choice (2000): the d' under which the samples are most probable."""
    variance = lam / max(m - 1, 1)
    d = len(variance)
    evidence = [_log_evidence(variance, k, m) for k in range(1, d)]
    return 1 + int(np.argmax(evidence)) if evidence else 1


def _log_evidence(variance: Floats, k: int, m: int) -> float:
    d = len(variance)
    if variance[k - 1] < np.finfo(np.float64).eps:
        return -np.inf
    i = np.arange(1, k + 1)
    orientations = -k * np.log(2.0) + np.sum(
        gammaln((d - i + 1) / 2) - np.log(np.pi) * (d - i + 1) / 2
    )
    noise = max(np.finfo(np.float64).eps, variance[k:].mean())
    spectrum = variance.copy()
    spectrum[k:] = noise
    gaps = 0.0
    for a in range(k):
        b = np.arange(a + 1, d)
        with np.errstate(divide="ignore", invalid="ignore"):
            gaps += np.sum(
                np.log((variance[a] - variance[b]) * (1 / spectrum[b] - 1 / spectrum[a]))
                + np.log(m)
            )
    free = d * k - k * (k + 1) / 2
    value = (
        orientations
        - np.log(variance[:k]).sum() * m / 2
        - np.log(noise) * m * (d - k) / 2
        + np.log(2 * np.pi) * (free + k) / 2
        - gaps / 2
        - k * np.log(m) / 2
    )
    return float(value) if np.isfinite(value) else -np.inf


def count_components(n_components: Any, found: Principal) -> int:
    """How many of the axes found to keep."""
    most = len(found.lam)
    if n_components is None:
        return most
    if n_components == "mle":
        return count_by_evidence(found.lam, found.n_rows)
    if isinstance(n_components, Integral):
        return min(int(n_components), most)
    return count_for_share(found.lam, found.total, float(n_components))


def numerical_rank(found: Principal, shape: tuple[int, int], dtype: Any) -> int:
    """How many eigenvalues are more than rounding, on the route and in the dtype they came by."""
    if len(found.lam) == 0 or found.lam[0] <= 0:
        return 0
    if found.route in ("factor", "svd", "scatter in float64"):  # as accurate as singular values
        tolerance = (float(np.finfo(dtype).eps) * np.sqrt(max(shape))) ** 2
    else:
        tolerance = 10 * float(np.finfo(dtype).eps)
    return int(np.sum(found.lam > tolerance * found.lam[0]))


def center_and_project(X: Any, mean: Floats, W: Floats) -> Array:
    """Z = (X - mu) W, in blocks; sparse X is not densified. (10.13)"""
    if sparse.issparse(X):
        return np.asarray(X @ W - mean @ W)
    Z = np.empty((X.shape[0], W.shape[1]), dtype=np.result_type(X, W))
    step = max(1, 2**20 // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        np.matmul(X[start : start + step] - mean, W, out=Z[start : start + step])
    return Z


class PrincipalComponents(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What PCA and IncrementalPCA share: all that follows once the axes are known."""

    def _keep(self, found: Principal, k: int, shape: tuple[int, int], dtype: Any) -> None:
        """Store the first k axes and what scikit-learn derives from them."""
        if found.count <= 1.0 < found.n_rows:
            raise InputError(
                f"the sample weights sum to {found.count:g}: they say how often each row counts, "
                "so together they must exceed 1. Multiply them by a constant."
            )
        degrees = max(found.count - 1.0, np.finfo(np.float64).tiny)
        kept = found.head(k)
        total = found.total if found.total > 0 else 1.0
        left = min(shape) - k
        # Where all eigenvalues are known their sum is more accurate than a difference.
        known = len(found.lam) == min(shape)
        rest = found.lam[k:].sum() if known else max(found.total - kept.lam.sum(), 0.0)
        noise = rest / left / degrees if left > 0 else 0.0
        self.components_ = fix_signs(kept.axes).astype(dtype)
        self.explained_variance_ = (kept.lam / degrees).astype(dtype)
        self.explained_variance_ratio_ = (kept.lam / total).astype(dtype)
        self.singular_values_ = np.sqrt(kept.lam).astype(dtype)
        self.mean_ = found.mean.astype(dtype)
        self.noise_variance_ = float(noise)
        self.n_components_ = k

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _scales(self) -> Floats:
        """Standard deviations to whiten by; a direction without variance is left as it is."""
        scale = np.sqrt(self.explained_variance_)
        return np.where(scale > np.finfo(scale.dtype).eps * scale.max(initial=0.0), scale, 1.0)

    def transform(self, X: Any) -> Array:
        """Project rows onto the axes. A file or other `Rows` is read in blocks."""
        check_is_fitted(self)
        if is_streamed(X):
            rows = match_names(self, as_rows(X))
            parts = []
            for block in rows.blocks():
                refuse_nonfinite(block.X, rows.feature_names, block.start)
                parts.append(self._project(block.X))
            return np.vstack(parts)
        return self._project(check_table(self, X, reset=False, accept_sparse=True))

    def _project(self, X: Any) -> Array:
        Z = center_and_project(X, self.mean_, np.ascontiguousarray(self.components_.T))
        if self.whiten:
            Z /= self._scales()
        return Z

    def inverse_transform(self, X: Any) -> Array:
        """Back into the original space: the nearest points on the plane of the axes. (10.14)"""
        check_is_fitted(self)
        Z = np.asarray(X)
        if self.whiten:
            Z = Z * self._scales()
        return np.asarray(Z @ self.components_ + self.mean_)

    def get_covariance(self) -> Floats:
        """The covariance of the probabilistic model: axes kept, equal noise on the others."""
        check_is_fitted(self)
        W = self.components_
        excess = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0)
        C = (W.T * excess) @ W
        C.flat[:: len(C) + 1] += self.noise_variance_
        return np.asarray(C)

    def get_precision(self) -> Floats:
        """The inverse of `get_covariance`, through the axes where there are few."""
        check_is_fitted(self)
        d = self.components_.shape[1]
        noise = self.noise_variance_
        if self.n_components_ == 0:
            return np.eye(d) / noise
        if noise == 0.0:
            return np.asarray(linalg.inv(self.get_covariance()))
        W = self.components_
        excess = np.maximum(self.explained_variance_ - noise, 0.0)
        shrink = excess / (excess + noise)
        P = -(W.T * shrink) @ W / noise
        P.flat[:: d + 1] += 1.0 / noise
        return np.asarray(P)

    def score_samples(self, X: Any) -> Floats:
        """Log-likelihood of each row under the probabilistic model."""
        X = check_table(self, X, reset=False)
        offset = X - self.mean_
        P = self.get_precision()
        d = X.shape[1]
        log_det = np.linalg.slogdet(P)[1]
        quadratic = np.einsum("ij,ij->i", offset @ P, offset)
        return np.asarray(-0.5 * (quadratic + d * np.log(2 * np.pi) - log_det))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the rows."""
        return float(np.mean(self.score_samples(X)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
