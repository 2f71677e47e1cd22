"""The variants of LLE: one short recipe each, from the neighbours of a row to its block of M.

Not an estimator but what LocallyLinearEmbedding adds up when `method` is not "standard". All take
patches of rows: P (b, s, d), b rows each with its neighbours, and return blocks (b, s, s); M is the
sum of all blocks, each in the rows and columns of its members, and its bottom eigenvectors are the
embedding. For "modified" P are the neighbours about their row, which the blocks have as their first
member.
"""

from __future__ import annotations

import numpy as np

from nearfold.errors import InputError
from nearfold.notation import Floats


def require_neighbours(method: str, k: int, axes: int) -> None:
    """Raise if k neighbours are too few for this variant with so many axes."""
    least = axes * (axes + 3) // 2
    if method == "hessian" and k <= least:
        raise InputError(
            "for method='hessian', n_neighbors must be greater than "
            f"[n_components * (n_components + 3) / 2] = {least}"
        )
    if method == "modified" and k < axes:
        raise InputError("modified LLE requires n_neighbors >= n_components")
    if method == "ltsa" and k <= axes:
        raise InputError(
            "for method='ltsa', n_neighbors must be greater than n_components: a row and so "
            "few neighbours always lie on a plane"
        )


def local_spectrum(P: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues (b, s), largest first, and vectors (b, s, s) of the inner products P P^T."""
    lam, V = np.linalg.eigh(P @ P.transpose(0, 2, 1))
    return np.maximum(lam[:, ::-1], 0.0), V[:, :, ::-1]


def tangent_axes(P: Floats, k: int) -> Floats:
    """The k main directions (b, s, k) of patches about their means, orthogonal to the constant.

    The constant vector is moved below all others: in a patch of lower rank than k it would be as
    good a direction as any.
    """
    C = P - P[:, :1]  # first about a member, so that data far from the origin keep their digits
    C -= C.mean(axis=1, keepdims=True)
    G = C @ C.transpose(0, 2, 1)
    below = np.trace(G, axis1=1, axis2=2)[:, None, None]
    G -= np.where(below > 0, below, 1.0) / P.shape[1]
    return np.linalg.eigh(G)[1][:, :, ::-1][:, :, :k]


def ltsa_blocks(P: Floats, k: int) -> Floats:
    """Local tangent space alignment (Zhang and Zha, 2004): I - G G^T, G = [1, tangent axes].

    What is left of the coordinates of a patch when a plane is fitted to it.
    """
    s = P.shape[1]
    G = np.concatenate([np.full((len(P), s, 1), 1.0 / np.sqrt(s)), tangent_axes(P, k)], axis=2)
    return np.eye(s) - G @ G.transpose(0, 2, 1)


def hessian_blocks(P: Floats, k: int, tol: float) -> Floats:
    """Hessian eigenmaps (Donoho and Grimes, 2003): H H^T, H the quadratic part of a patch.

    The basis 1, t, t t^T of the tangent coordinates is made orthonormal; its last k (k + 1) / 2
    members measure curvature, and are scaled to sum to one where they do not sum to zero.
    """
    s = P.shape[1]
    t = tangent_axes(P, k)
    i, j = np.triu_indices(k)
    basis = np.concatenate([np.ones((len(P), s, 1)), t, t[:, :, i] * t[:, :, j]], axis=2)
    H = np.linalg.qr(basis)[0][:, :, k + 1 :]
    sums = H.sum(axis=1, keepdims=True)
    H = H / np.where(np.abs(sums) < tol, 1.0, sums)
    return H @ H.transpose(0, 2, 1)


def spread_of_patches(P: Floats, k: int) -> Floats:
    """For "modified": how much of each patch lies outside its k main directions, per row."""
    lam, _ = local_spectrum(P)
    inside = lam[:, :k].sum(axis=1)
    return lam[:, k:].sum(axis=1) / np.where(inside > 0, inside, 1.0)


def modified_blocks(P: Floats, k: int, eta: float, tol: float) -> Floats:
    """Modified LLE (Zhang and Wang, 2007): several weight vectors per row instead of one.

    P (b, s, d) are the neighbours about their row. The directions in which a patch hardly extends,
    as many as together stay below `eta` of the rest but never the k main ones, all reconstruct the
    row nearly as well; a reflection turns them into weights that sum to one.
    """
    b, s = P.shape[:2]
    lam, V = local_spectrum(P)
    reg = 1e-3 * lam.sum(axis=1, keepdims=True)
    reg = np.where(reg > 0, reg, 1e-3)
    w = np.einsum("bij,bj->bi", V, V.sum(axis=1) / (lam + reg))
    w /= w.sum(axis=1, keepdims=True)
    blocks = np.zeros((b, s + 1, s + 1))
    for i, count in enumerate(_almost_null(lam, P.shape[2], k, eta)):
        N = V[i, :, s - count :]
        alpha = np.linalg.norm(N.sum(axis=0)) / np.sqrt(count)
        h = alpha - N.sum(axis=0)
        length = np.linalg.norm(h)
        h = h / length if length >= tol else np.zeros_like(h)
        weights = N - 2 * np.outer(N @ h, h) + (1 - alpha) * w[i][:, None]
        full = np.vstack([-np.ones(count), weights])
        blocks[i] = full @ full.T
    return blocks


def _almost_null(lam: Floats, d: int, k: int, eta: float) -> list[int]:
    """How many of the smallest eigenvalues of each patch together stay below eta of the others."""
    s = lam.shape[1]
    known = min(d, s)
    total = np.cumsum(lam[:, :known], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.nan_to_num(total[:, -1:] / total[:, :-1] - 1, nan=0.0, posinf=np.inf)
    counts = [int(np.searchsorted(row[::-1], eta)) for row in rest]
    return [max(1, min(count + s - known, s - k)) for count in counts]
