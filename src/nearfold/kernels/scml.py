"""The stochastic dual averaging of SCML."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.kernels.compile import summing_kernel


@summing_kernel
def dual_average(
    F: Any, rows: Any, drawn: Any, beta: Any, gamma: float, done: int, w: Any, sums: Any
) -> None:
    """One step for each row of `drawn`, a batch of triplets, on the weights w (K,) in place.

    F (p, K): the points along the bases. A triplet (a, b, c) has the differences
    D_k = (F_ak - F_bk)^2 - (F_ak - F_ck)^2 and the loss max(1 + D w, 0). `sums` (2, K) holds the
    sums of the gradients and of their squares over the `done` steps before.
    """
    steps, batch = drawn.shape
    K = F.shape[1]
    D = np.empty(K)
    gradient = np.empty(K)
    for step in range(steps):
        gradient[:] = 0.0
        for i in range(batch):
            t = drawn[step, i]
            a = F[rows[t, 0]]
            b = F[rows[t, 1]]
            c = F[rows[t, 2]]
            margin = 1.0
            for k in range(K):
                D[k] = (c[k] - b[k]) * (2.0 * a[k] - b[k] - c[k])
                margin += D[k] * w[k]
            if margin > 0.0:
                for k in range(K):
                    gradient[k] += D[k] / batch
        count = done + step + 1.0
        for k in range(K):
            sums[0, k] += gradient[k]
            sums[1, k] += gradient[k] * gradient[k]
            pull = sums[0, k] + count * beta[k]
            w[k] = max(-pull, 0.0) / (gamma * (0.001 + np.sqrt(sums[1, k])))


@summing_kernel
def margins_of(Z: Any, rows: Any) -> Any:
    """1 + |z_a - z_b|^2 - |z_a - z_c|^2 of each triplet of rows of Z."""
    n = rows.shape[0]
    found = np.empty(n)
    for t in range(n):
        a = Z[rows[t, 0]]
        b = Z[rows[t, 1]]
        c = Z[rows[t, 2]]
        total = 1.0
        for k in range(Z.shape[1]):
            total += (c[k] - b[k]) * (2.0 * a[k] - b[k] - c[k])
        found[t] = total
    return found
