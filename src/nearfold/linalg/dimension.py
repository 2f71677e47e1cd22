"""How many axes to keep (10.18), how many mean anything, and what stands in for the others."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import gammaln

from nearfold.errors import InputError
from nearfold.notation import Floats


def is_count(n_components: Any) -> bool:
    """Whether n_components is a whole number."""
    return isinstance(n_components, Integral) and not isinstance(n_components, bool)


def is_share(n_components: Any) -> bool:
    """Whether n_components is a share of the variance."""
    return isinstance(n_components, Real) and not isinstance(n_components, Integral)


def most_axes(n_components: Any, n_rows: int | None, d: int) -> int:
    """How many axes to compute; all of them where the choice needs the whole spectrum."""
    most = d if n_rows is None else min(n_rows, d)
    if isinstance(n_components, bool):
        raise InputError(f"n_components={n_components}: give a number, not a truth value.")
    if n_components == "mle" and n_rows is not None and n_rows < d:
        raise InputError("n_components='mle' is only supported if n_samples >= n_features")
    if not is_count(n_components):
        return most
    if not 0 <= int(n_components) <= most:
        raise InputError(
            f"n_components={n_components} must be between 0 and min(n_samples, n_features)={most}."
        )
    return max(int(n_components), 1)


def count_components(n_components: Any, lam: Floats, total: float, m: int, dtype: Any) -> int:
    """How many of the axes with these eigenvalues to keep."""
    if n_components is None:
        return len(lam)
    if n_components == "mle":
        return count_by_evidence(lam, m)
    if is_count(n_components):
        return min(int(n_components), len(lam))
    return count_for_share(variance_shares(lam, total, dtype), float(n_components))


def variance_shares(lam: Floats, total: float, dtype: Any) -> Floats:
    """The share of the variance along each axis, as reported."""
    return (lam / (total if total > 0 else 1.0)).astype(dtype)


def count_for_share(shares: Floats, t: float) -> int:
    """The smallest d' whose axes hold more than the share t of the variance."""
    kept = np.cumsum(shares)
    return min(int(np.searchsorted(kept, t, side="right")) + 1, len(shares))  # (10.18)


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


def complete_axes(axes: Floats, k: int) -> Floats:
    """k orthonormal rows: those given, and directions orthogonal to them.

    The further directions depend on the span of the given ones alone: a fixed set of vectors,
    orthogonalised against it. The data do not vary along them, so any others would do as well.
    """
    r, d = axes.shape
    if k <= r:
        return axes[:k]
    fixed = np.random.default_rng(0).standard_normal((d, k - r))
    given = axes.T.astype(np.float64)
    for _ in range(2):  # once leaves rounding of the first product behind
        fixed -= given @ (given.T @ fixed)
        fixed = np.linalg.qr(fixed)[0]
    return np.vstack([axes, fixed.T.astype(axes.dtype)])
