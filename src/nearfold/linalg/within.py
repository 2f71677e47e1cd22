"""The within-class scatter S_w of labelled rows, and its eigenpairs where they are in doubt.

S_w = sum_c sum_{i in c} w_c (x_i - mu_c)(x_i - mu_c)^T, in blocks. As a product of the rows with
themselves it squares their condition number, so directions of small variance may be lost in
rounding; `remeasure` measures those few again in float64 and `factor_within` avoids the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.blocks import Block, combine_blocks
from nearfold.linalg.eigen import combine_triangles, thin_svd, top_eigenpairs, triangular_factor
from nearfold.linalg.moments import Moments, Workspaces, block_moments, combine_moments
from nearfold.notation import Array, Floats, Ints


@dataclass(frozen=True)
class Within:
    """S_w as sd R sd: standard deviations (d,), eigenvalues (r,) and -vectors (d, r) of R."""

    sd: Floats
    lam: Floats
    vectors: Floats


def diagonalise(S_w: Floats) -> Within:
    """Scale to unit variances, then the eigenpairs, largest first; constant columns have none."""
    sd = np.sqrt(np.maximum(np.diag(S_w), 0.0))
    varies = np.flatnonzero(sd > 0)
    unit = np.where(sd > 0, sd, 1.0)
    R = S_w[np.ix_(varies, varies)] / np.outer(sd[varies], sd[varies])
    pairs = top_eigenpairs(R, len(varies), name="the within-class scatter")
    vectors = np.zeros((len(sd), len(varies)))
    vectors[varies] = pairs.vectors
    return Within(unit, np.maximum(pairs.values, 0.0), vectors)


def whiten_within(within: Within, rounding: Floats, tol: float) -> Floats:
    """A (d, r) with A^T C A = I on the r directions in which C is more than rounding."""
    V, lam = within.vectors, within.lam
    doubt = (V**2).T @ (rounding / within.sd) ** 2  # what the rounding of the values adds to lam
    keep = lam > np.maximum(tol * lam[:1].max(initial=0.0), doubt)
    return np.asarray(V[:, keep] / np.sqrt(lam[keep]) / within.sd[:, None])


def class_moments(
    blocks: Iterable[tuple[Block, Ints]], n_classes: int, weights: Floats | None, dtype: Any
) -> Moments:
    """Moments of the classes; `weights` are per class."""

    spaces = Workspaces()

    def of_block(item: tuple[Block, Ints]) -> Moments:
        block, label = item
        w = None if weights is None else weights[label]
        X = block.X if block.X.dtype == dtype else block.X.astype(dtype)
        return block_moments(X, w, label, n_classes, spaces.like(X))

    moments = combine_blocks(blocks, of_block, combine_moments, label="classes")
    moments.scatter = moments.scatter.astype(np.float64, copy=False)
    return moments


def remeasure(within: Within, doubtful: Array, scatter_of: Callable[[Floats], Floats]) -> Within:
    """Replace doubtful eigenpairs by those of S_w restricted to their span, in float64."""
    span = within.vectors[:, doubtful]
    exact = scatter_of(span / within.sd[:, None])
    pairs = top_eigenpairs(exact, len(exact), name="the doubtful directions")
    lam, vectors = within.lam.copy(), within.vectors.copy()
    lam[doubtful] = np.maximum(pairs.values, 0.0)
    vectors[:, doubtful] = span @ pairs.vectors
    return Within(within.sd, lam, vectors)


def projected_scatter(
    blocks: Iterable[tuple[Block, Ints]], means: Floats, weights: Floats | None, V: Floats
) -> Floats:
    """V^T S V in float64, from the projections of the rows."""

    centre = means @ V

    def of_block(item: tuple[Block, Ints]) -> Floats:
        block, label = item
        Z = np.empty((len(label), V.shape[1]))
        for a in range(0, len(label), 512):  # so few rows stay in cache while they are float64
            Z[a : a + 512] = block.X[a : a + 512].astype(np.float64) @ V
        Z -= centre[label]
        if weights is not None:
            Z *= np.sqrt(weights[label])[:, None]
        return np.asarray(Z.T @ Z)

    return combine_blocks(blocks, of_block, np.add)


def factor_within(
    blocks: Iterable[tuple[Block, Ints]],
    means: Floats,
    weights: Floats | None,
    sd: Floats,
    n: int,
) -> Within:
    """The same as `diagonalise`, from the triangular factor of the centred rows."""

    def of_block(item: tuple[Block, Ints]) -> Floats:
        block, label = item
        Z = (block.X - means[label]) / sd
        if weights is not None:
            Z *= np.sqrt(weights[label])[:, None]
        return triangular_factor(Z)

    R = combine_blocks(blocks, of_block, combine_triangles) / np.sqrt(n)
    _, s, V = thin_svd(R, "the factor of the within-class scatter")
    return Within(sd, s**2, V.T)
