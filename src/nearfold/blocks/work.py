"""Work over blocks: a block function, a pairwise combine, a finish.

    statistic = combine_blocks(rows, block_function, combine)
    result = finish(statistic)

The block function sees one block and returns a small statistic; `combine` joins two of
them. They are joined pairwise, neighbours first, in a tree whose shape depends on the
number of blocks alone: rounding errors grow with its depth (a logarithm) rather than with
the number of blocks, and the result is the same however many threads, or machines, did
the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from nearfold.blocks.executor import Executor, current_executor
from nearfold.errors import InputError
from nearfold.run import map_in_order, one_blas_thread, reporter

Item = TypeVar("Item")
Statistic = TypeVar("Statistic")


def spans(n: int, step: int) -> list[slice]:
    """0..n in consecutive slices of `step` (the last may be shorter)."""
    return [slice(a, min(a + step, n)) for a in range(0, n, max(step, 1))]


def combine_blocks(
    blocks: Iterable[Item],
    block_function: Callable[[Item], Statistic],
    combine: Callable[[Statistic, Statistic], Statistic],
    *,
    n_jobs: int | None = None,
    label: str = "reading",
    total: int | None = None,
    executor: Executor | None = None,
) -> Statistic:
    """The combined statistic of all blocks, by threads or by the executor given or in use."""
    executor = executor or current_executor()
    if executor is None and isinstance(blocks, list) and len(blocks) == 1:
        with one_blas_thread():  # not worth a pool of threads
            only = block_function(blocks[0])
        reporter()(label, 1, total)
        return only
    statistics: Iterable[Statistic] = (
        map_in_order(block_function, blocks, n_jobs=n_jobs, label=label, total=total)
        if executor is None
        else executor.map(block_function, blocks)
    )
    # The last joins come after the last block: they too must not wake BLAS's threads, which would
    # then spin beside whatever is next.
    with one_blas_thread():
        return combine_pairwise(statistics, combine)


def combine_pairwise(
    statistics: Iterable[Statistic], combine: Callable[[Statistic, Statistic], Statistic]
) -> Statistic:
    """Join statistics as a binary counter carries: at most log2(count) are kept at a time."""
    waiting: list[tuple[int, Statistic]] = []  # (how many blocks it stands for, statistic)
    for statistic in statistics:
        weight = 1
        while waiting and waiting[-1][0] == weight:
            statistic = combine(waiting.pop()[1], statistic)
            weight *= 2
        waiting.append((weight, statistic))
    if not waiting:
        raise InputError("the table has no rows.")
    _, result = waiting.pop()
    while waiting:
        result = combine(waiting.pop()[1], result)
    return result
