"""What the compiled search over groups is given: rows, queries, room to work in.

Plain tuples of arrays, so that importing them does not import the compiler.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Groups(NamedTuple):
    """The rows of an index, group after group."""

    X: Any  # (n, d) as given
    row_of: Any  # (n,) the row of X at each place
    start: Any  # (G + 1,) first place of each group
    psi: Any  # (n, D) float32 global sketches, by place
    tiles: Any  # float32, flat: for each group its local sketches (h + 2, rows)
    basis: Any  # (G, D, h) float32 axes of each group; h = 0: psi itself is scored
    origin: Any  # (G, h) the centre of each group on its axes
    facts: Any  # (G, 6) slack, norm, radius, radius on the axes, least and largest tail
    errors: Any  # growth, of the scores, of |psi - psi|^2, of projections, of |psi - centre|^2


class Queries(NamedTuple):
    """A tile of queries."""

    Q: Any  # all queries, as given
    query_of: Any  # (m,) rows of Q
    own_row: Any  # (m,) the row of X that each of them is, -1 for new rows
    psi: Any  # (m, D) float32
    norm: Any  # (m,) |psi|
    slack: Any  # (m,) how far psi may be from the true sketch
    square: Any  # (m, G) |psi - centre|^2


class Work(NamedTuple):
    """Room for the queries that meet a group."""

    chosen: Any  # (m,)
    gathered: Any  # (m, D) float32
    part: Any  # (m, h) float32
    phi: Any  # (m, h + 2) float32
    sizes: Any  # (m,)
    slack: Any  # (m,)
    scores: Any  # float32, flat
