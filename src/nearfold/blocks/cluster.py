"""Tasks on Dask: on the cluster whose client is current, else on Dask's own scheduler.

A task is a pure function of its arguments, so Dask computes it again where a worker was lost, and
no task is bound to a worker. What cannot be computed ends in one `BlockError` that names the
rows; errors of ours (the data hold NaN, say) come through as they are.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nearfold.errors import BlockError, NearfoldError
from nearfold.messages import Message
from nearfold.raw_values import is_dask
from nearfold.run import one_thread, reporter

__all__ = [
    "KilledError",
    "UnreadableError",
    "compute",
    "is_dask",
    "is_elsewhere",
    "keep",
    "shared",
    "task",
]

_LOOK = 0.2  # seconds between two looks at the progress callback, which may cancel the work


class UnreadableError(BlockError):
    """Something that a task reads could not be computed; Dask does not say for which task."""


class KilledError(BlockError):
    """Every worker that tried a task died; `key` is the name that Dask gives it."""

    key = ""


def task(function: Callable[..., Any], *arguments: Any, block: str = "", **named: Any) -> Any:
    """A task, run on one thread; `block` says in words which rows it is about."""
    from dask import delayed

    key = f"nearfold-{getattr(function, '__name__', 'task').strip('_')}-{uuid.uuid4().hex}"
    return delayed(_run)(function, block, *arguments, **named, dask_key_name=key)


def shared(value: Any) -> Any:
    """A value that many tasks take: sent once, not with each of them."""
    from dask import delayed

    return delayed(value, name=f"nearfold-shared-{uuid.uuid4().hex}", traverse=False)


def _run(function: Callable[..., Any], block: str, *arguments: Any, **named: Any) -> Any:
    try:
        with one_thread():
            return function(*arguments, **named)
    except (NearfoldError, MemoryError):
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise BlockError(Message("cluster.failed", block=block, reason=said)) from error


def compute(tasks: Sequence[Any], label: str = "reading") -> list[Any]:
    """The results of the tasks. Progress is reported as `label`, and may cancel the work."""
    import dask

    client = _client()
    with _our_errors():
        if client is None:
            return list(dask.compute(*tasks))
        return _on_cluster(client, list(tasks), label)


@contextmanager
def _our_errors() -> Iterator[None]:
    try:
        yield
    except (NearfoldError, MemoryError):
        raise
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            killed = KilledError(Message("cluster.killed", block="a task"))
            killed.key = str(getattr(error, "task", ""))
            raise killed from error
        said = f"{type(error).__name__}: {error}"
        raise UnreadableError(Message("cluster.unreadable", reason=said)) from error


def is_elsewhere() -> bool:
    """Whether tasks run in other processes, so that what they keep is not in this one's memory."""
    return _client() is not None


def _client() -> Any:
    """The client of the cluster on which Dask would compute now, if there is one."""
    from dask.base import get_scheduler

    owner = getattr(get_scheduler(), "__self__", None)
    return owner if hasattr(owner, "scheduler_info") else None


def _on_cluster(client: Any, tasks: list[Any], label: str) -> list[Any]:
    from distributed import wait

    report = reporter()
    futures = client.compute(tasks)
    try:
        while any(not future.done() for future in futures):
            try:
                wait(futures, timeout=_LOOK)
            except TimeoutError:
                done = sum(future.done() for future in futures)
                report(label, done, len(futures))
        return list(client.gather(futures))
    finally:  # whether finished, failed or left: nothing goes on there
        client.cancel(futures, force=True)


def keep(tasks: Sequence[Any]) -> list[Any]:
    """The tasks begun; their results stay where they are computed, as long as these are held."""
    import dask

    with _our_errors():  # without a cluster they are computed at once
        return list(dask.persist(*tasks))
