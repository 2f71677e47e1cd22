"""One pass over the rows that are judged, block by block, on all cores.

Each task measures a block of rows against all others, in both spaces; no more than a block of
distances per thread is ever held. Blocks are cut by the table and the budget, never by the
number of threads, and their results are joined in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from nearfold.blocks import get_memory, require_memory
from nearfold.notation import Array, Floats, Ints
from nearfold.quality.spaces import Space, many_pairs
from nearfold.run import map_in_order, thread_count

Result = TypeVar("Result")
_ROW_BYTES = 160  # per row of the table: a few vectors for the row that is being ranked
_MOST_ROWS = 64  # of a block: enough for a product to run at full speed


def over_rows(
    spaces: tuple[Space, ...],
    rows: Ints,
    task: Callable[[Ints, list[Floats]], Result],
    label: str,
    n_jobs: int | None = None,
) -> Iterator[tuple[slice, Result]]:
    """`task(rows of a block, its measure (b, n) in each space)` for all blocks, in order."""
    n = spaces[0].n
    budget, per_row = get_memory() / 4, 24.0 * n * len(spaces)  # 24: two temporaries of a tile
    fixed = float(_ROW_BYTES * n)
    require_memory(
        4 * (per_row + fixed), f"To judge a space of {n:,} rows", "Judge a sample of the rows."
    )
    step = int(np.clip((budget - fixed) // per_row, 1, _MOST_ROWS))
    threads = min(thread_count(n_jobs), max(1, int(2 * budget // (step * per_row + fixed))))
    if not many_pairs(len(rows), n):
        threads = 1  # short calls of NumPy, which wait for each other
    spans = [slice(a, min(a + step, len(rows))) for a in range(0, len(rows), step)]

    def work(span: slice) -> Result:
        block = rows[span]
        return task(block, [space.measure(block) for space in spaces])

    results = map_in_order(work, spans, n_jobs=threads, label=label, total=len(spans))
    yield from zip(spans, results, strict=True)


def ranks_of(order: Array) -> Array:
    """The place (1 is nearest) of every row in an order of all rows but one; 0 for that one."""
    rank = np.zeros(len(order) + 1, dtype=np.int32)
    rank[order] = np.arange(1, len(order) + 1, dtype=np.int32)
    return rank
