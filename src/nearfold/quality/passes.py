"""One pass over the rows that are judged, block by block, on all cores.

Each task measures a block of rows against all others, in both spaces; no more than a block of
distances per thread is ever held. Blocks have a fixed size and their results are joined in order;
the memory budget decides how many run at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from nearfold.blocks import get_memory, require_memory, spans
from nearfold.notation import Array, Floats, Ints
from nearfold.quality.spaces import Space, many_pairs
from nearfold.run import map_in_order, thread_count

Result = TypeVar("Result")
_ROW_BYTES = 160  # per row of the table: vectors for the row that is being ranked
_BLOCK = 32  # rows, whatever the budget: the rounding of a product may depend on their number


def over_rows(
    spaces: tuple[Space, ...],
    rows: Ints,
    task: Callable[[Ints, list[Floats]], Result],
    label: str,
    n_jobs: int | None = None,
) -> Iterator[tuple[slice, Result]]:
    """`task(rows of a block, its measure (b, n) in each space)` for all blocks, in order."""
    n = spaces[0].n
    one_task = 10.0 * n * len(spaces) * _BLOCK + _ROW_BYTES * n  # 10: 8 and what a tile takes
    require_memory(
        one_task, f"To judge a space of {n:,} rows", "Judge a subset of the rows of X and Z."
    )
    threads = min(thread_count(n_jobs), max(1, int(get_memory() / 2 // one_task)))
    if not many_pairs(len(rows), n):
        threads = 1  # short calls of NumPy, which wait for each other
    blocks = spans(len(rows), _BLOCK)

    def work(span: slice) -> Result:
        block = rows[span]
        return task(block, [space.measure(block) for space in spaces])

    results = map_in_order(work, blocks, n_jobs=threads, label=label, total=len(blocks))
    yield from zip(blocks, results, strict=True)


def ranks_of(order: Array) -> Array:
    """The place (1 is nearest) of every row in an order of all rows but one; 0 for that one."""
    rank = np.zeros(len(order) + 1, dtype=np.int32)
    rank[order] = np.arange(1, len(order) + 1, dtype=np.int32)
    return rank
