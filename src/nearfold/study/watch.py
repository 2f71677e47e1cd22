"""Watch one piece of work: its time against a deadline, its memory, its warnings, its threads."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import psutil

from nearfold.columns.cells import Cells
from nearfold.errors import Cancelled
from nearfold.run import ProgressCallback, one_blas_thread

_SMALL = 1_000_000  # cells
_filters = threading.RLock()


class TimeIsUp(Cancelled):
    """The share of the time that this piece of work had is used up."""


class Deadline:
    """A progress callback that stops the work when its time is up.

    Whatever reports progress is stopped at its next step; what reports none (a transformer of
    another library) can only be stopped between folds.
    """

    def __init__(self, seconds: float | None, tell: ProgressCallback) -> None:
        self._start = time.monotonic()
        self._end = None if seconds is None else self._start + seconds
        self._tell = tell
        self._where: tuple[str, int, int | None] = ("", 0, None)

    def at(self, label: str, done: int, total: int) -> None:
        """Where the work is, as told to whoever listens outside."""
        self._where = (label, done, total)
        self(label, done, total)

    def foresee(self, done: int, total: int) -> None:
        """Stop now if the folds that are left would end far beyond the time."""
        if self._end is None or done == total:
            return
        each = (time.monotonic() - self._start) / done
        if time.monotonic() + (total - done) * each > self._end + 0.5 * each:
            raise TimeIsUp

    def __call__(self, label: str, done: int, total: int | None) -> None:
        """A step inside is over."""
        self._tell(*self._where)
        if self._end is not None and time.monotonic() > self._end:
            raise TimeIsUp


class PeakMemory:
    """`with PeakMemory() as peak: ...; peak.bytes`: how much memory the work took at most.

    A thread looks every few milliseconds.
    """

    _EVERY = 0.005

    def __init__(self) -> None:
        self.bytes = 0
        self._process = psutil.Process()
        self._before = self._process.memory_info().rss
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(self._EVERY):
            self.bytes = max(self.bytes, self._process.memory_info().rss - self._before)


@contextmanager
def collect_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Collect warnings instead of showing them, those of other packages, too.

    Filters belong to the whole process: one thread at a time changes them, or two of them would
    hear each other's warnings and leave the filters changed. `errors.hearing` needs no filter, and
    hears ours only.
    """
    with _filters, warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield heard


def threads_for(cells: Cells) -> AbstractContextManager[None]:
    """One BLAS thread for small tables, whose many small products are not worth waking a second."""
    small = len(cells) * cells.width < _SMALL
    return one_blas_thread() if small else nullcontext()
