"""The memory budget: one number for the whole process, less what enclosing work has reserved.

Set by `nearfold.set_memory("4GB")`, else by the environment variable
NEARFOLD_MEMORY, else half of what the machine or its control group had free when
the process first asked. It is looked at once, because what the budget decides
(landmarks, low rank) must not change with the load of the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import DTypeLike

from nearfold.errors import InputError, MemoryBudgetError, quoted
from nearfold.messages import Message

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_LEAST_SHARE = 4  # of the budget that no reservation takes away
_explicit_budget: int | None = None
_reserved: ContextVar[int] = ContextVar("nearfold_reserved_memory", default=0)


def set_memory(limit: str | int | None) -> None:
    """Set the budget: bytes, or a text such as "4GB" or "512 MiB". None: back to the default."""
    global _explicit_budget
    _explicit_budget = None if limit is None else parse_bytes(limit)


def get_memory() -> int:
    """The budget in bytes, less what callers have reserved."""
    budget, reserved = _whole_budget(), _reserved.get()
    return max(budget - reserved, budget // _LEAST_SHARE) if reserved else budget


def _whole_budget() -> int:
    if _explicit_budget is not None:
        return _explicit_budget
    from_environment = os.environ.get("NEARFOLD_MEMORY")
    if from_environment:
        return parse_bytes(from_environment)
    return _default_budget()


@contextmanager
def reserve_memory(size: int) -> Iterator[None]:
    """Lower the budget of all work inside by what the caller itself keeps in memory."""
    token = _reserved.set(_reserved.get() + size)
    try:
        yield
    finally:
        _reserved.reset(token)


@lru_cache(maxsize=1)
def _default_budget() -> int:
    return max(free_bytes() // 2, 64 * 1024**2)


def parse_bytes(text: str | int) -> int:
    """Bytes from a number or a text: 4000000000, "4GB", "512MiB", "1.5 g" (all powers of 1024)."""
    match = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)(?:I?B)?\s*", str(text).upper())
    try:
        size = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    except (ValueError, OverflowError):
        size = 0
    if size <= 0:
        raise InputError(Message("memory.bad_size", text=repr(text)))
    return size


def show_bytes(size: float) -> str:
    """A size as people read it."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def require_memory(needed: float, what: str | Message, advice: str | Message) -> None:
    """Raise before allocating, if `needed` bytes do not fit the budget."""
    budget = get_memory()
    if needed > budget:
        said = [quoted(words) if isinstance(words, str) else words for words in (what, advice)]
        sizes = {"needed": show_bytes(needed), "budget": show_bytes(budget)}
        raise MemoryBudgetError(Message("memory.needed", what=said[0], advice=said[1], **sizes))


def require_output(n_rows: int, n_columns: int, dtype: DTypeLike) -> None:
    """Raise before work starts if a result of this shape does not fit the budget."""
    require_memory(
        float(n_rows) * n_columns * np.dtype(dtype).itemsize,
        f"A result of {n_rows:,} x {n_columns:,} numbers",
        "Ask for fewer components or take the rows in parts; a file is transformed in blocks.",
    )


def free_bytes() -> int:
    """What this process could still allocate: the least of machine and control group."""
    return min(int(psutil.virtual_memory().available), _cgroup_free())


def _cgroup_free(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Limit minus use of the tightest control group above us (version 2, then version 1)."""
    free = _unlimited = 1 << 62
    for folder in _cgroup_folders(root):
        limit = _read_number(folder / "memory.max", folder / "memory.limit_in_bytes")
        used = _read_number(folder / "memory.current", folder / "memory.usage_in_bytes")
        if limit is not None and used is not None and limit < _unlimited:
            free = min(free, max(limit - used + _reclaimable(folder), 0))
    return free


def _reclaimable(folder: Path) -> int:
    """File cache counts as used, but the kernel gives it back when asked."""
    try:
        for line in (folder / "memory.stat").read_text().splitlines():
            if line.split()[0] in ("inactive_file", "total_inactive_file"):
                return int(line.split()[1])
    except (OSError, IndexError, ValueError):
        pass
    return 0


def _cgroup_folders(root: Path) -> list[Path]:
    folders = [root, root / "memory"]
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                folder = root / controllers / path.strip("/")
                while folder != root and root in folder.parents:
                    folders.append(folder)
                    folder = folder.parent
    except (OSError, ValueError):
        pass
    return folders


def _read_number(*candidates: Path) -> int | None:
    for path in candidates:
        try:
            return int(path.read_text())
        except (OSError, ValueError):  # "max" means no limit
            continue
    return None
