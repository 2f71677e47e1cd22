"""Chains of must-link pairs that join rows which cannot link.

Must-link pairs join rows to sets; a cannot-link pair within one of them contradicts those that
join its two rows one after the other. Nothing is raised here: learners refuse such pairs
(reconcile_tuples.py), whoever links points by hand is shown the chain.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from nearfold.notation import Array, Ints


def joined_rows(rows: Ints, sign: Ints) -> tuple[Ints, Ints]:
    """The rows that occur in pairs, and for each the number of the set that must-links join."""
    used, place = np.unique(rows, return_inverse=True)
    place = place.reshape(rows.shape)
    return used, connected_components(_graph(place[sign > 0], len(used)), directed=False)[1]


def contradicted(rows: Ints, sign: Ints) -> Array:
    """Which pairs are cannot-links between rows that must-links join."""
    used, part = joined_rows(rows, sign)
    inside = part[np.searchsorted(used, rows)]
    return np.asarray((sign < 0) & (inside[:, 0] == inside[:, 1]))


def shortest_chain(rows: Ints, sign: Ints, pair: Ints) -> list[int]:
    """The rows from one end of a contradicted pair to the other, by the fewest must-links."""
    used, place = np.unique(rows, return_inverse=True)
    links = _graph(place.reshape(rows.shape)[sign > 0], len(used)).tocsr()
    start, at = np.searchsorted(used, pair).tolist()
    before = breadth_first_order(links, start, directed=False)[1]
    chain = [at]
    while at != start:
        at = int(before[at])
        chain.append(at)
    return [int(row) for row in used[chain[::-1]]]


def _graph(must: Ints, m: int) -> sparse.coo_array:
    return sparse.coo_array((np.ones(len(must)), (must[:, 0], must[:, 1])), shape=(m, m))
