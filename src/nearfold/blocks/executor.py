"""Who runs a function over blocks: threads of this process, or whatever is handed in.

An executor has one method, `map(task, items)`, whose results come in the order of the items.
`concurrent.futures.ProcessPoolExecutor` is one; so is a thin adapter to a cluster. Tasks and
blocks can be pickled: block functions live at module level and blocks carry their own weights
and targets. (An executor that reads all items before it runs the first, as a process pool does,
holds the whole table.)

    with ProcessPoolExecutor() as pool, use_executor(pool):
        PCA(2).fit("table.parquet")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class Executor(Protocol):
    """Runs a task over items."""

    def map(self, task: Callable[[Any], Any], items: Iterable[Any], /) -> Iterable[Any]:
        """The task's result for each item, in the order of the items."""


_current: ContextVar[Executor | None] = ContextVar("nearfold_executor", default=None)


@contextmanager
def use_executor(executor: Executor) -> Iterator[None]:
    """Let `executor` do all work over blocks inside the `with` block."""
    token = _current.set(executor)
    try:
        yield
    finally:
        _current.reset(token)


def current_executor() -> Executor | None:
    """The executor of the enclosing `use_executor`, or None: threads of this process."""
    return _current.get()
