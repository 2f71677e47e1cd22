"""How work is run: threads, randomness, progress, cancel.

One rule for threads. Parallel work is a list of independent tasks on a pool of
Python threads; while a task runs BLAS is limited to one thread, and compiled
kernels are serial and release the GIL, so thread counts never multiply. The limit
is lifted whenever no task runs, whatever became of the work. (OpenBLAS has one
thread count per process, so other threads share the limit while a task runs, and
only then.) `n_jobs` is the size of the pool and changes no result: tasks are cut
by the data alone and combined in a fixed order.

One protocol for progress. A callback is called as `callback(label, done, total)`
after each step; it may raise `Cancelled` to stop the work. Ctrl-C does the same.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from contextvars import ContextVar, copy_context
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar

from nearfold.errors import InputError
from nearfold.messages import catalogue

Item = TypeVar("Item")
Result = TypeVar("Result")


class ProgressCallback(Protocol):
    """Called after each step of long work; raise `Cancelled` to stop it."""

    def __call__(self, label: str, done: int, total: int | None) -> None:
        """`done` of `total` steps (None: unknown) of the work called `label` are over."""


def _silent(label: str, done: int, total: int | None) -> None:
    """The default: nobody listens."""


_listener: ContextVar[ProgressCallback] = ContextVar("nearfold_progress", default=_silent)


@contextmanager
def progress(callback: ProgressCallback) -> Iterator[None]:
    """Send the progress of everything inside the `with` block to `callback`."""
    token = _listener.set(callback)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def reporting(verbose: bool | int, language: str = "en") -> Iterator[None]:
    """Show a bar on stderr while inside, if `verbose` and nobody else listens already."""
    if not verbose or _listener.get() is not _silent:
        yield
        return
    with ProgressBar(language=language) as bar, progress(bar):
        yield


class ProgressBar:
    """A bar by rich, on stderr in a terminal and below the cell in a notebook; where stderr is a
    file, one line at the end.
    """

    def __init__(self, console: Any = None, language: str = "en") -> None:
        self._console = console
        self._words = catalogue(language)
        self._bar: Any = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, label: str, done: int, total: int | None) -> None:
        """Show how far the work called `label` is, in place of what was shown before."""
        label = self._words.get(f"progress.{label}", self._words.get(f"method.{label}", label))
        if self._bar is None:
            self._bar = self._new_bar()
            self._bar.add_task(label, total=total, completed=done)
            self._bar.start()
        task = self._bar.tasks[0]
        task.total = total  # `update` takes None for "as before"
        self._bar.update(task.id, description=label, completed=done)

    def _new_bar(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        console = Console(stderr=True) if self._console is None else self._console
        # What others print stays theirs: streams belong to the whole process.
        return Progress(TextColumn("{task.description}", markup=False), BarColumn(),
                        MofNCompleteColumn(), console=console, redirect_stdout=False,
                        redirect_stderr=False)  # fmt: skip


def random_state(seed: Any) -> Any:
    """The source of randomness for a seed, a generator or None; never NumPy's global one unless
    None asks for it, as everywhere in scikit-learn.
    """
    from sklearn.utils import check_random_state

    return check_random_state(seed)


def thread_count(n_jobs: int | None) -> int:
    """Threads for `n_jobs`: -1 means every core this process may use, -2 all but one.

    None follows joblib: the number of an enclosing `joblib.parallel_config`, one thread inside a
    joblib worker (whose siblings have the other cores), and every core otherwise.
    """
    if n_jobs == 0:
        raise InputError("n_jobs=0 has no meaning: use None for all cores, or a positive number.")
    available = _available_cores()
    if n_jobs is None:
        from joblib.parallel import get_active_backend

        backend, n_jobs = get_active_backend()
        if n_jobs is None:
            return 1 if backend.nesting_level else available
    return max(1, n_jobs if n_jobs > 0 else available + 1 + n_jobs)


@lru_cache(maxsize=1)
def _available_cores() -> int:
    # joblib's count also respects cgroup quotas, which os.cpu_count does not.
    from joblib import cpu_count

    return int(cpu_count()) or os.cpu_count() or 1


@lru_cache(maxsize=1)
def _thread_pools() -> list[Any]:
    # Finding the loaded BLAS libraries takes milliseconds; they do not change. Their controllers
    # are spoken to directly: threadpoolctl's `limit` asks each library for all that it tells.
    import scipy.linalg  # noqa: F401  (SciPy may bring a BLAS of its own)
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().lib_controllers)


class _BlasHold:
    """Counts who asks for a single BLAS thread: the first sets the limit, the last lifts it.

    Each of them may be another thread. threadpoolctl lets only the thread that set a limit change
    it (from 3.7 on), so it is told that nobody owns the limit; our count does.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._before: list[int] = []

    def take(self) -> None:
        with self._lock:
            if self._holders == 0:
                pools = _thread_pools()
                self._before = [pool.get_num_threads() for pool in pools]
                _set_threads(pools, [1] * len(pools))
            self._holders += 1

    def give(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                _set_threads(_thread_pools(), self._before)


def _set_threads(pools: list[Any], counts: list[int]) -> None:
    _disown_limits()
    for pool, count in zip(pools, counts, strict=True):
        pool.set_num_threads(count)
    _disown_limits()


def _disown_limits() -> None:
    from threadpoolctl import OpenBLASController

    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


_blas_hold = _BlasHold()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while anyone is inside.

    Not for use around a `yield`: a generator that is left early keeps what it holds for as long
    as some traceback keeps the generator.
    """
    _blas_hold.take()
    try:
        yield
    finally:
        _blas_hold.give()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run everything inside on this thread alone: a task of a cluster has one core."""
    from joblib import parallel_config

    with parallel_config(n_jobs=1), one_blas_thread():
        yield


def reporter() -> ProgressCallback:
    """Who listens to progress now, for work that is not a list of steps."""
    return _listener.get()


def steps(items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
    """The items, one after the other, each reported as a step of the work called `label`."""
    report = _listener.get()
    if total is None and isinstance(items, Sized):
        total = len(items)
    for done, item in enumerate(items, start=1):
        yield item
        report(label, done, total)


def map_in_order(
    task: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    n_jobs: int | None = None,
    label: str | None = None,
    total: int | None = None,
) -> Iterator[Result]:
    """Yield `task(item)` for each item, in order, computed by a pool of threads.

    At most two tasks per thread are under way or waiting to be taken, so a stream of blocks is
    never read far ahead of its use. Progress is reported under `label`, if there is one. An
    error, a `Cancelled` from the progress callback or Ctrl-C drops what has not begun and leaves
    when the running tasks end.
    """
    threads = thread_count(n_jobs)
    report = _listener.get()
    run = partial(_run_task, task)
    results = _serial(run, items) if threads == 1 else _pooled(run, items, threads)
    # Closed at once when the work is left early: a traceback may keep the generator alive.
    with closing(results):
        for done, result in enumerate(results, start=1):
            if label is not None:
                report(label, done, total)
            yield result


def _run_task(task: Callable[[Item], Result], item: Item) -> Result:
    with one_blas_thread():
        return task(item)


def _serial(run: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
    for item in items:
        yield run(item)


def _pooled(
    run: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Generator[Result, None, None]:
    waiting: list[Future[Result]] = []
    with ThreadPoolExecutor(threads, thread_name_prefix="nearfold") as pool:
        try:
            for item in items:
                # In the caller's context: what it has reserved, or who listens, holds there too.
                waiting.append(pool.submit(copy_context().run, run, item))
                if len(waiting) >= 2 * threads:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()


class PerThread:
    """A workspace made once per thread, so that tasks reuse buffers without sharing them."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._local = threading.local()

    def get(self) -> Any:
        """This thread's own workspace."""
        if not hasattr(self._local, "value"):
            self._local.value = self._make()
        return self._local.value
