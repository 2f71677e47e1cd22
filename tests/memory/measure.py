"""Measure what a piece of work takes: the peak of resident memory above what was there before.

Linux only: the kernel keeps the peak (VmHWM) and resets it when "5" is written to
/proc/self/clear_refs. Memory that was freed before is returned to the system first (malloc_trim),
so that its reuse cannot hide anything.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearfold.blocks.memory import get_memory
from nearfold.errors import MemoryBudgetError

LIMIT = 1.2  # times the budget: more is a defect
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Measured:
    """The peak of one run, in bytes and relative to the budget."""

    peak: int
    budget: int
    refused: str | None = None

    @property
    def ratio(self) -> float:
        return self.peak / self.budget


def can_measure() -> bool:
    """Whether this system keeps and resets the peak."""
    try:
        reset_peak()
    except OSError:
        return False
    return _field("VmHWM") > 0


def reset_peak() -> int:
    """Forget the peak so far; bytes that are resident now."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # another C library has none
        ctypes.CDLL(None).malloc_trim(0)
    _CLEAR.write_text("5")
    return _field("VmRSS")


def peak_above(before: int) -> int:
    """The peak since `reset_peak`, above what was resident then."""
    return max(0, _field("VmHWM") - before)


def measure(prepare: Callable[[], Any], work: Callable[[Any], Any]) -> Measured:
    """The peak of `work(prepare())`, what `prepare` returned not counted.

    A run beyond the limit is repeated: a first run also pays for imports and for the compiler, a
    second one does not.
    """
    measured = _once(prepare, work)
    return measured if measured.ratio <= LIMIT else _once(prepare, work)


def _once(prepare: Callable[[], Any], work: Callable[[Any], Any]) -> Measured:
    given = prepare()
    before = reset_peak()
    refused = None
    try:
        work(given)
    except MemoryBudgetError as error:
        refused = str(error)
    return Measured(peak_above(before), get_memory(), refused)


def _field(name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0
