"""The tables of the benchmark: one that is given (MNIST), and generated ones of other shapes.

Nothing is tuned to one of them: a change of the engine has to win on several.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits

Table = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Set:
    """A table in float32, its labels, and rows of the same kind to ask about."""

    name: str
    X: np.ndarray
    y: np.ndarray
    Q: np.ndarray
    r: np.ndarray

    @property
    def all_rows(self) -> np.ndarray:
        """Both parts."""
        return np.vstack([self.X, self.Q])

    @property
    def all_labels(self) -> np.ndarray:
        """Of both parts."""
        return np.concatenate([self.y, self.r])


def cut(name: str, X: np.ndarray, y: np.ndarray) -> Set:
    """Six rows in seven to learn from, as in MNIST."""
    at = len(X) * 6 // 7
    X = np.ascontiguousarray(X, dtype=np.float32)
    return Set(name, X[:at], y[:at], X[at:], y[at:])


def load(path: str | None) -> Set:
    """The given .npz with X and y, or the digits enlarged by noise."""
    if path is not None:
        with np.load(path) as file:
            return cut("given", file["X"], file["y"])
    rng = np.random.default_rng(0)
    X, y = load_digits(return_X_y=True)
    X = np.kron(X.reshape(-1, 8, 8), np.ones((1, 2, 2))).reshape(len(X), -1)
    X = np.vstack([X + rng.normal(scale=1.0, size=X.shape) for _ in range(8)])
    order = rng.permutation(len(X))
    return cut("digits", X[order], np.tile(y, 8)[order])


def clusters(n: int, d: int = 384, n_clusters: int = 200, rank: int = 12) -> Set:
    """Like embeddings: unit vectors in clusters, each of a low dimension of its own."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_clusters, size=n)
    centres = 0.7 * rng.standard_normal((n_clusters, d))
    X = np.empty((n, d), dtype=np.float32)
    for j in range(n_clusters):
        rows = np.flatnonzero(y == j)
        axes = rng.standard_normal((rank, d)) / np.sqrt(rank)
        noise = 0.15 * rng.standard_normal((len(rows), d))
        X[rows] = centres[j] + rng.standard_normal((len(rows), rank)) @ axes + noise
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return cut("clusters", X, y % 20)


def smooth(n: int, d: int = 512, n_classes: int = 8) -> Set:
    """Like signals: variances that fall slowly, in rotated axes; classes overlap."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    scale = 1 / np.arange(1, d + 1) ** 0.8
    means = 0.8 * rng.standard_normal((n_classes, d))
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = ((rng.standard_normal((n, d)) + means[y]) * scale) @ rotation
    return cut("smooth", X, y)


def isotropic(n: int, d: int = 256) -> Set:
    """No structure at all: the worst case of any pruning."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    return cut("isotropic", X, rng.integers(10, size=n))


def large(n: int, d: int = 100) -> Table:
    """Many rows in float32: 500 clusters of about ten dimensions, with noise in all."""
    rng = np.random.default_rng(0)
    y = rng.integers(500, size=n)
    X = 0.6 * rng.standard_normal((500, d), dtype=np.float32)[y]
    for j in range(10):
        rows = np.flatnonzero(y % 10 == j)
        axes = rng.standard_normal((10, d), dtype=np.float32) / np.float32(np.sqrt(10))
        X[rows] += rng.standard_normal((len(rows), 10), dtype=np.float32) @ axes
    X += np.float32(0.1) * rng.standard_normal((n, d), dtype=np.float32)
    return X, y % 20
