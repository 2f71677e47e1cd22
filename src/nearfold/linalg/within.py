"""The within-class scatter S_w of labelled rows, and its eigenpairs where they are in doubt.

S_w = sum_c sum_{i in c} w_c (x_i - mu_c)(x_i - mu_c)^T, in blocks (`table_moments` with a
grouping). As a product of the rows with themselves it squares their condition number, so
directions of small variance may be lost in rounding; `remeasure` measures those few again in
float64, and `diagonalise_factor` starts from a triangular factor, which avoids the product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nearfold.blocks import Block, Rows, spans
from nearfold.linalg.eigen import thin_svd, top_eigenpairs
from nearfold.linalg.moments import Grouping, table_moments
from nearfold.linalg.spectrum import whiten
from nearfold.notation import Array, Floats

_MOST_DOUBTFUL = 0.4  # of the columns: more directions are cheaper measured all at once
_ROUNDING = 16  # eps: what float32 products add to a variance of scaled columns (10 was measured)
_IN_CACHE = 512  # rows that stay in cache while they are float64


@dataclass(frozen=True)
class Within:
    """S_w as sd R sd: standard deviations (d,), eigenvalues (r,) and -vectors (d, r) of R."""

    sd: Floats
    lam: Floats
    vectors: Floats

    def whitening(self, floor: float | Floats) -> Floats:
        """A (d, r) with A^T S_w A = I on the directions of variance above `floor`."""
        return whiten(self.lam, self.vectors, floor, self.sd)


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


def diagonalise_factor(R: Floats, sd: Floats) -> Within:
    """The same from a triangular factor R of S_w."""
    _, s, V = thin_svd(R / sd, "the factor of the within-class scatter")
    return Within(sd, s**2, V.T)


def whiten_within(within: Within, rounding: Floats, tol: float) -> Floats:
    """A (d, r) with A^T C A = I on the r directions in which C is more than rounding."""
    doubt = (within.vectors**2).T @ (rounding / within.sd) ** 2  # what rounding adds to lam
    return within.whitening(np.maximum(tol * within.lam[:1].max(initial=0.0), doubt))


def refine_small_variances(
    within: Within,
    rows: Rows,
    grouping: Grouping,
    means: Floats,
    n: int,
    products: Any,
    tol: float,
) -> Within:
    """Measure again the directions whose variance products in that dtype leave in doubt."""
    eps = float(np.finfo(products).eps)
    if products == np.float32:
        # Scaled columns have variance 1, and rounding is relative to that, not to lam[0].
        doubtful = within.lam < _ROUNDING * np.sqrt(eps)
        if not doubtful.any():
            return within
        if doubtful.sum() <= _MOST_DOUBTFUL * len(doubtful):
            return remeasure(within, doubtful, rows, grouping, means, n)
        return diagonalise(table_moments(rows, np.float64, grouping=grouping).scatter / n)
    largest = within.lam[:1].max(initial=0.0)
    if within.lam.min(initial=np.inf) < np.sqrt(eps) * largest and tol**2 < 100 * eps * largest:
        moments = table_moments(rows, np.float64, grouping=grouping, factor=True)
        return diagonalise_factor(moments.triangle() / np.sqrt(n), within.sd)
    return within


def remeasure(
    within: Within, doubtful: Array, rows: Rows, grouping: Grouping, means: Floats, n: int
) -> Within:
    """Replace doubtful eigenpairs by those of S_w restricted to their span, in float64."""
    span = within.vectors[:, doubtful]
    exact = projected_scatter(rows, grouping, means, span / within.sd[:, None]) / n
    pairs = top_eigenpairs(exact, len(exact), name="the doubtful directions")
    lam, vectors = within.lam.copy(), within.vectors.copy()
    lam[doubtful] = np.maximum(pairs.values, 0.0)
    vectors[:, doubtful] = span @ pairs.vectors
    return Within(within.sd, lam, vectors)


def projected_scatter(rows: Rows, grouping: Grouping, means: Floats, V: Floats) -> Floats:
    """V^T S V in float64, from the projections of the rows."""
    of_block = partial(projected_block, grouping=grouping, means=means, V=V)
    return rows.combined(of_block, np.add)


def projected_block(block: Block, grouping: Grouping, means: Floats, V: Floats) -> Floats:
    """V^T S V of one block."""
    group, weights = grouping.of(block)
    X = block.dense()
    Z = np.empty((len(group), V.shape[1]))
    centre = means.mean(axis=0)  # taken off first: V may cancel what an offset leaves of it
    for part in spans(len(group), _IN_CACHE):
        Z[part] = (X[part] - centre) @ V
    Z -= ((means - centre) @ V)[group]
    if weights is not None:
        Z *= np.sqrt(weights)[:, None]
    return np.asarray(Z.T @ Z)
