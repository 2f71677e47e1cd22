"""The majorisation step of SMACOF, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.kernels.compile import summing_kernel


@summing_kernel
def guttman_rows(D: Any, Z: Any, begin: int, end: int, new: Any) -> tuple[float, float]:
    """Rows begin..end of the Guttman transform of Z (k, m) for dissimilarities D, into `new`.

    new_i = 1/m sum_j D_ij / d_ij (z_i - z_j), where d_ij = |z_i - z_j|; a pair that coincides adds
    nothing. Returns the rows' share of sum (d - D)^2 and of sum d^2.
    """
    k, m = Z.shape
    distance = np.empty(m)
    stress = 0.0
    size = 0.0
    for i in range(begin, end):
        distance[:] = 0.0
        for c in range(k):
            along = Z[c]
            here = along[i]
            for j in range(m):
                distance[j] += (along[j] - here) * (along[j] - here)
        wanted = D[i]
        for j in range(m):
            d = np.sqrt(distance[j])
            size += distance[j]
            stress += (d - wanted[j]) * (d - wanted[j])
            distance[j] = wanted[j] / d if d > 0.0 else 0.0
        for c in range(k):
            along = Z[c]
            here = along[i]
            total = 0.0
            for j in range(m):
                total += distance[j] * (here - along[j])
            new[c, i] = total / m
    return stress, size


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
