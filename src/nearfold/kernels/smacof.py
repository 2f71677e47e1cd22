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
    """Majorise each row of `placed` (q, k) alone against Z (k, m); how many did not come to rest.

    z <- mean Z + 1/m sum_j D_j / d_j (z - z_j). A step lowers the stress of its row by at least
    m |step|^2, so a row rests when that is below eps of its sum of squares.
    """
    k, m = Z.shape
    distance = np.empty(m)
    mean = np.zeros(k)
    for c in range(k):
        mean[c] = Z[c].mean()
    moving = 0
    for q in range(placed.shape[0]):
        goal = wanted[q]
        z = placed[q]
        resting = False
        for _ in range(max_iter):
            distance[:] = 0.0
            for c in range(k):
                along = Z[c]
                for j in range(m):
                    distance[j] += (along[j] - z[c]) * (along[j] - z[c])
            size = 0.0
            for j in range(m):
                size += distance[j]
                d = np.sqrt(distance[j])
                distance[j] = goal[j] / d if d > 0.0 else 0.0
            step = 0.0
            for c in range(k):
                along = Z[c]
                total = 0.0
                for j in range(m):
                    total += distance[j] * (z[c] - along[j])
                new = mean[c] + total / m
                step += (new - z[c]) * (new - z[c])
                z[c] = new
            if m * step <= eps * size:
                resting = True
                break
        moving += not resting
    return moving
