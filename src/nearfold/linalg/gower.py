"""Gower's formula: coordinates of new rows from their distances to the rows of a classical MDS.

With B = V diag(lam) V^T = -1/2 J (D o D) J and Z = V lam^(1/2), a row whose distances to the
fitted ones are dist lies at

    z = lam^(-1/2) V^T (a - mean a),    a = -1/2 dist^2,

where the mean is that of the rows of A = -1/2 D o D. Applied to the fitted rows it returns Z.
"""

from __future__ import annotations

import numpy as np

from nearfold.blocks import spans
from nearfold.linalg.krylov import TopPairs
from nearfold.linalg.spectrum import clamp_spectrum
from nearfold.notation import Array, Floats
from nearfold.run import one_blas_thread
from nearfold.state import State, array

_CELLS = 2**20  # squared distances held at a time


def coordinates(lam: Floats, V: Floats) -> Floats:
    """Z = V lam^(1/2), zero where an eigenvalue is not positive."""
    return V * np.sqrt(np.maximum(lam, 0.0))  # (10.12); with all positive eigenvalues (10.11)


def positive_pairs(pairs: TopPairs) -> tuple[Floats, Floats]:
    """Eigenvalues clamped at rounding level, and vectors, zero where the value is."""
    lam = clamp_spectrum(pairs.values, pairs.vectors.dtype)
    return lam, pairs.vectors.astype(np.float64) * (lam > 0)


class GowerMap:
    """Rows from their distances to the rows of a classical MDS: linear in the squares.

    Parameters
    ----------
    row_means : array of shape (n,)
        Means of the rows of A = -1/2 D o D.
    axes : array of shape (n, k)
        V lam^(-1/2), a column of zeros where lam is zero.
    offset : array of shape (k,)
        Subtracted from the coordinates.
    """

    fitted_state = State(row_means=array("n"), axes=array("n k"), offset=array("k"))

    def __init__(self, row_means: Floats, axes: Floats, offset: Floats) -> None:
        self.row_means = row_means
        self.axes = axes
        self.offset = offset

    @classmethod
    def from_eigenpairs(cls, row_means: Floats, lam: Floats, V: Floats) -> GowerMap:
        """The map of a classical MDS with these eigenpairs."""
        return cls(row_means, V / np.sqrt(np.where(lam > 0, lam, 1.0)), np.zeros(V.shape[1]))

    def place(self, distances: Array) -> Floats:
        """Coordinates (q, k) of rows with these distances (q, n)."""
        Z = np.empty((len(distances), self.axes.shape[1]))
        for few in spans(len(distances), max(1, _CELLS // max(1, distances.shape[1]))):
            A = np.square(distances[few], dtype=np.float64)
            A *= -0.5
            A -= self.row_means
            with one_blas_thread():
                Z[few] = A @ self.axes - self.offset
        return Z

    def rotated(self, centre: Floats, rotation: Floats) -> GowerMap:
        """The same map followed by Z -> (Z - centre) rotation."""
        return GowerMap(self.row_means, self.axes @ rotation, (self.offset + centre) @ rotation)
