"""How often the same rows were set aside for a last check.

A check that is made again and again, with other options each time, is no longer a check of rows
that nothing has seen. The number of checks is kept by a hash of the rows, in this process and in a
small file of the user's cache folder.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from nearfold.messages import Message

_OFTEN = 3
_MOST_KEPT = 1000
_seen: dict[str, int] = {}


def warn_of_reuse(found: Any) -> list[Message]:
    """Count the last check of a comparison, and say so if its rows were used often."""
    if found.final is None:
        return []
    times = count_check(found)
    return [Message("study.reused", n=times)] if times >= _OFTEN else []


def count_check(found: Any) -> int:
    """How often these rows were used for a last check, this time included."""
    cells, aside = found.cells, found.judge.split.set_aside
    digest = hashlib.sha256(cells.numbers[aside].tobytes())
    digest.update(cells.codes[aside].tobytes())
    key = digest.hexdigest()
    _seen[key] = times = max(_seen.get(key, 0), _load().get(key, 0)) + 1
    with suppress(OSError):  # a folder that cannot be written: this process remembers
        known = {**_load(), key: times}
        _file().parent.mkdir(parents=True, exist_ok=True)
        _file().write_text(json.dumps(dict(list(known.items())[-_MOST_KEPT:])))
    return times


def _load() -> dict[str, int]:
    with suppress(OSError, ValueError):
        found = json.loads(_file().read_text())
        return {str(k): int(v) for k, v in found.items()} if isinstance(found, dict) else {}
    return {}


def _file() -> Path:
    base = os.environ.get("NEARFOLD_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "nearfold" / "last_checks.json"
