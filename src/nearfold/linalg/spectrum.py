"""Eigenvalues that are rounding, and whitening by those that are not."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.notation import Array, Floats


def clamp_spectrum(lam: Array, dtype: Any = np.float64) -> Floats:
    """Eigenvalues in float64; those that are rounding beside the largest, or negative, become 0.

    A symmetric eigensolver in a dtype of unit roundoff u finds each value to a small multiple of
    u times the largest.
    """
    lam = np.asarray(lam, dtype=np.float64)
    floor = 10 * float(np.finfo(dtype).eps) * max(float(lam.max(initial=0.0)), 0.0)
    return np.where(lam > floor, lam, 0.0)


def whiten(lam: Floats, V: Floats, floor: Any = 0.0, sd: Floats | None = None) -> Floats:
    """A (d, r) with A^T C A = I, where C = sd V diag(lam) V^T sd, on the r directions kept.

    Kept are the eigenvalues above `floor` (a number, or one per eigenvalue), which the caller
    knows: a fraction of the largest, or what the rounding of the data may have added. `sd` are
    scales of the columns that were divided out before the eigenvalues were found.
    """
    keep = lam > floor
    A = V[:, keep] / np.sqrt(lam[keep])
    return np.asarray(A if sd is None else A / sd[:, None])
