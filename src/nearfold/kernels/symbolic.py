"""What a sparse factorisation would cost, without doing it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.kernels.compile import kernel


@kernel
def factor_cost(first: Any, neighbours: Any, place: Any) -> tuple[int, float]:
    """Entries of L, and multiplications, of a Cholesky factor of a symmetric pattern.

    Node v is eliminated as number `place[v]`. Row i of L has an entry in each column on the paths
    from its neighbours up the elimination tree to i (Liu, 1986): they are walked and counted.
    """
    n = first.shape[0] - 1
    node = np.empty(n, dtype=np.int64)
    for v in range(n):
        node[place[v]] = v
    parent = np.full(n, -1, dtype=np.int64)
    seen = np.full(n, -1, dtype=np.int64)
    count = np.zeros(n, dtype=np.int64)
    for i in range(n):
        seen[i] = i
        v = node[i]
        for e in range(first[v], first[v + 1]):
            j = place[neighbours[e]]
            while j < i and seen[j] != i:
                seen[j] = i
                count[j] += 1
                if parent[j] == -1:
                    parent[j] = i
                j = parent[j]
    entries = n
    work = 0.0
    for j in range(n):
        entries += count[j]
        work += float(count[j]) ** 2
    return entries, work
