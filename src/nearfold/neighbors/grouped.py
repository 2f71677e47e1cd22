"""What the compiled search over groups is given: rows, queries, room to work in.

Plain tuples of arrays, so that importing them does not import the compiler. A place is where a row
lies in the index, group after group; groups begin at multiples of sixteen, and the places left over
hold no row.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Groups(NamedTuple):
    """The rows of an index, group after group."""

    X: Any  # (n, d) as given
    row_of: Any  # (P,) the row of X at each place, -1 for none
    start: Any  # (G + 1,) first place of each group
    size: Any  # (G,) its rows
    psi: Any  # (P, D) float32 sketches, by place; (P, 0) if they are the rows themselves
    digits: Any  # uint8, flat, as kernels/digits.py has them
    square: Any  # (P,) int32 sums of squared digits
    centres: Any  # (G, D) float32
    facts: Any  # (G, 4) step, slack of psi, slack of its digits, radius
    levels: Any  # the largest digit
    errors: Any  # growth, of |psi - psi|^2 in float32


class Queries(NamedTuple):
    """A tile of queries."""

    Q: Any  # all queries, as given
    query_of: Any  # (m,) rows of Q
    own_row: Any  # (m,) the row of X that each of them is, -1 for new rows
    psi: Any  # (m, D) float32
    slack: Any  # (m,) how far psi may be from the true sketch
    square: Any  # (m, G) |psi - centre|^2


class Marked(NamedTuple):
    """Room for the queries that meet a group."""

    near: Any  # (m,) numbers of queries, as they come
    doubled: Any  # (m,) how often the step is doubled for each
    first: Any  # (30,) where those of each count begin
    chosen: Any  # (m,) numbers of queries, in order of that count, as are all that follow
    digits: Any  # (m, depth) int8
    sizes: Any  # (m,) squared length of the rounded query
    unit: Any  # (m,) what one of score counts in a squared distance
    offset: Any  # (m,) of the scores
    slack: Any  # (m,) how far, with the rows', rounding may have moved it
    start: Any  # int32, scores to begin with
    cuts: Any  # (m,) int32, least scores
    scores: Any  # (m, places) int32
    bits: Any  # (m, places / 16) uint16: scores that reach the cut
