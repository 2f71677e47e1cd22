"""Classical MDS of Euclidean distances between features: their inner products are those of PCA.

Not an estimator but ClassicalMDS's way where no distances are needed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.blocks import is_streamed
from nearfold.errors import NearfoldWarning
from nearfold.linalg import clamp_spectrum
from nearfold.methods.pca import PCA
from nearfold.notation import Floats
from nearfold.state import State, nested, size


def pad_columns(Z: Floats, k: int) -> Floats:
    """Z with columns of zeros up to k."""
    missing = k - Z.shape[1]
    return np.pad(Z, ((0, 0), (0, missing))) if missing > 0 else Z


@dataclass(frozen=True)
class PrincipalCoordinates:
    """k coordinates along the axes of PCA, zero beyond the rank of the fitted rows."""

    pca: PCA
    k: int

    fitted_state = State(pca=nested(PCA, d="w"), k=size("k"))

    @classmethod
    def of(cls, rows: Any, k: int) -> PrincipalCoordinates:
        """Those of a table, or of rows that are read in blocks."""
        most = min(rows.shape) if isinstance(rows, np.ndarray) else rows.n_features
        with warnings.catch_warnings():
            # Coordinates beyond the rank are zero here: nothing is arbitrary, nothing to say.
            warnings.filterwarnings("ignore", "n_components", NearfoldWarning)
            return cls(PCA(min(k, most)).fit(rows), k)

    @property
    def eigenvalues(self) -> Floats:
        """Of the inner products, (k,)."""
        return pad_columns(self.pca.singular_values_[None] ** 2, self.k)[0]

    def place(self, rows: Any) -> Floats:
        """Coordinates (q, k) of rows."""
        lam = clamp_spectrum(self.pca.singular_values_**2, self.pca.components_.dtype)
        Z = self.pca.transform(rows)
        Z = Z.to_array() if is_streamed(Z) else Z
        Z[:, lam == 0] = 0.0
        return pad_columns(Z, self.k)
