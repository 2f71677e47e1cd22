"""The majorisation step of SMACOF, each pair of rows once."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.kernels.compile import summing_kernel


@summing_kernel
def guttman_pairs(D: Any, Z: Any, begin: int, end: int, pull: Any) -> tuple[float, float, float]:
    """Add to `pull` (k, m) the terms of m times the Guttman transform of Z (k, m) of some pairs.

    The pairs are those of rows begin..end, and of as many rows from the end, with all rows after
    them: spans of equal length are equal work. Each adds D_ij / d_ij (z_i - z_j) to row i and the
    opposite to row j, where d_ij = |z_i - z_j|; a pair that coincides adds nothing. Returns their
    shares of sum (d - D)^2, sum d^2 and sum (d - D) d over i < j.
    """
    k, m = Z.shape
    ratios = np.empty(m)
    stress = 0.0
    size = 0.0
    excess = 0.0
    for place in range(2 * begin, 2 * end):
        i = place // 2 if place % 2 == 0 else m - 1 - place // 2
        if place % 2 == 1 and i <= place // 2:
            continue  # the middle row of an odd number
        n = m - 1 - i
        wanted = D[i, i + 1 :]
        ratio = ratios[:n]
        ratio[:] = 0.0
        for c in range(k):
            along = Z[c, i + 1 :]
            here = Z[c, i]
            for j in range(n):
                ratio[j] += (along[j] - here) * (along[j] - here)
        for j in range(n):
            d = np.sqrt(ratio[j])
            size += ratio[j]
            stress += (d - wanted[j]) * (d - wanted[j])
            excess += (d - wanted[j]) * d
            ratio[j] = wanted[j] / d if d > 0.0 else 0.0
        for c in range(k):
            along = Z[c, i + 1 :]
            others = pull[c, i + 1 :]
            here = Z[c, i]
            total = 0.0
            for j in range(n):
                one = ratio[j] * (here - along[j])
                total += one
                others[j] -= one
            pull[c, i] += total
    return stress, size, excess


@summing_kernel
def place_rows(Z: Any, wanted: Any, placed: Any, max_iter: int, eps: float) -> int:
    """Move each row of `placed` (q, k) alone to least stress against Z (k, m); how many still move.

    With u_j = z - z_j, d_j = |u_j|: the majorised step mean Z + 1/m sum_j D_j / d_j u_j - z lowers
    the stress of the row by at least m |step|^2, so a row rests when that is below eps of sum d^2.
    It is m times the Newton step of the Hessian H = m I - sum_j D_j / d_j (I - u_j u_j^T / d_j^2)
    set to m I. Newton's own is taken where H is positive definite, and taken back where it raises
    the stress.
    """
    k, m = Z.shape
    ratio, square = np.empty(m), np.empty(m)
    mean, safe, total = np.zeros(k), np.empty(k), np.empty(k)
    H = np.empty((k, k))
    for c in range(k):
        mean[c] = Z[c].mean()
    moving = 0
    for q in range(placed.shape[0]):
        goal, z = wanted[q], placed[q]
        least, resting = np.inf, False
        for _ in range(max_iter):
            square[:] = 0.0
            for c in range(k):
                along = Z[c]
                for j in range(m):
                    square[j] += (z[c] - along[j]) * (z[c] - along[j])
            size, stress, weight = 0.0, 0.0, 0.0
            for j in range(m):
                d = np.sqrt(square[j])
                size += square[j]
                stress += (d - goal[j]) * (d - goal[j])
                inverse = 1.0 / d if d > 0.0 else 0.0
                ratio[j] = goal[j] * inverse
                weight += ratio[j]
                square[j] = ratio[j] * inverse * inverse
            if stress > least:  # Newton's step went too far
                z[:] = safe
                least = np.inf
                continue
            least = stress
            for c in range(k):
                along = Z[c]
                sum_c = 0.0
                for j in range(m):
                    sum_c += ratio[j] * (z[c] - along[j])
                total[c] = m * (mean[c] - z[c]) + sum_c  # m times the step, minus half a gradient
                for b in range(c + 1):
                    other = Z[b]
                    sum_bc = 0.0
                    for j in range(m):
                        sum_bc += square[j] * (z[c] - along[j]) * (z[b] - other[j])
                    H[c, b] = sum_bc
                H[c, c] += m - weight
            step = 0.0
            for c in range(k):
                safe[c] = z[c] + total[c] / m
                step += (total[c] / m) * (total[c] / m)
            if m * step <= eps * size:
                z[:] = safe
                resting = True
                break
            if solve_in_place(H, total):
                z += total
            else:
                z[:] = safe
                least = np.inf
        moving += not resting
    return moving


@summing_kernel
def solve_in_place(H: Any, b: Any) -> bool:
    """Replace b by H^-1 b, by a Cholesky factor in the lower half of H; False: not definite."""
    k = len(b)
    for i in range(k):
        for j in range(i + 1):
            rest = H[i, j]
            for c in range(j):
                rest -= H[i, c] * H[j, c]
            if i > j:
                H[i, j] = rest / H[j, j]
            elif rest <= 0.0:
                return False
            else:
                H[i, i] = np.sqrt(rest)
    for i in range(k):
        for c in range(i):
            b[i] -= H[i, c] * b[c]
        b[i] /= H[i, i]
    for i in range(k - 1, -1, -1):
        for c in range(i + 1, k):
            b[i] -= H[c, i] * b[c]
        b[i] /= H[i, i]
    return True
