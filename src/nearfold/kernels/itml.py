"""The cyclic Bregman projections of ITML: one sweep over all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.kernels.compile import summing_kernel


@summing_kernel
def project_all(A: Any, V: Any, delta: Any, inverse_bound: Any, lam: Any) -> None:
    """Project A (d, d) on the constraint of each row v of V in turn; lam holds the multipliers.

    With p = v^T A v the multiplier changes by delta (1/b - 1/p), but not to below 0, and A by the
    rank-one update A <- A - t / (1 + t p) (A v)(A v)^T that adds t v v^T to its inverse.
    """
    n, d = V.shape
    w = np.empty(d)
    for c in range(n):
        v = V[c]
        p = 0.0
        for i in range(d):
            row = A[i]
            total = 0.0
            for j in range(d):
                total += row[j] * v[j]
            w[i] = total
            p += total * v[i]
        if p <= 0.0:
            continue
        new = max(lam[c] + delta[c] * (inverse_bound[c] - 1.0 / p), 0.0)
        t = delta[c] * (new - lam[c])
        if t == 0.0:
            continue
        lam[c] = new
        beta = t / (1.0 + t * p)
        for i in range(d):
            row = A[i]
            scaled = beta * w[i]
            for j in range(d):
                row[j] -= scaled * w[j]
