"""Classical MDS of Euclidean distances between features: their inner products are those of PCA.

Not an estimator but ClassicalMDS's way where no distances are needed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from sklearn import config_context

from nearfold.blocks import Rows, is_streamed
from nearfold.errors import NearfoldWarning
from nearfold.linalg import clamp_spectrum
from nearfold.methods.pca import PCA
from nearfold.methods.reduction import padded
from nearfold.notation import Floats
from nearfold.state import State, nested, size


@dataclass(frozen=True)
class PrincipalCoordinates:
    """k coordinates along the axes of PCA, zero beyond the rank of the fitted rows."""

    pca: PCA
    k: int

    fitted_state = State(pca=nested(PCA, d="w"), k=size("k"))

    @classmethod
    def of(cls, rows: Rows, k: int) -> PrincipalCoordinates:
        """Those of rows, wherever they are."""
        most = rows.n_features if rows.n_rows is None else min(rows.n_rows, rows.n_features)
        with warnings.catch_warnings():
            # Coordinates beyond the rank are zero here: nothing is arbitrary, nothing to say.
            warnings.filterwarnings("ignore", "n_components", NearfoldWarning)
            return cls(PCA(min(k, most)).fit(rows), k)

    @property
    def eigenvalues(self) -> Floats:
        """Of the inner products, (k,)."""
        return padded(self.pca.singular_values_**2, self.k)

    def place(self, rows: Any) -> Floats:
        """Coordinates (q, k) of rows."""
        lam = clamp_spectrum(self.pca.singular_values_**2, self.pca.components_.dtype)
        with config_context(transform_output="default"):  # an array, not a frame
            Z = self.pca.transform(rows)
        Z = Z.to_array() if is_streamed(Z) else Z
        Z[:, lam == 0] = 0.0
        return padded(Z, self.k)
