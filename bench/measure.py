"""How a job is timed: peers alternate, rounds repeat, and each call runs in quiet.

The time of a contestant is the median over rounds; a ratio is the median of the per-round ratios,
so that a slow spell of the machine hits both sides of it. A peer that takes more than 20 s is
called once, and compared with the median of ours. Peak memory is the resident high-water mark over
the call, above what was resident before it, from a process that runs that call alone.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SLOW = 20.0  # seconds beyond which a peer is not called again


@dataclass
class Job:
    """One line of the table: ours, the peers, and how to tell whether the results agree."""

    name: str
    ours: Callable[[], Any]
    peers: dict[str, Callable[[], Any]]
    agreement: Callable[[Any, dict[str, Any]], str]
    bars: dict[str, float] = field(default_factory=dict)  # peer -> ratio that must be reached
    rounds: int = 5
    seconds: Callable[[Any], float] | None = None  # of a result that is itself a time


@dataclass
class Line:
    """What was measured."""

    job: str
    seconds: float
    peer: str
    peer_seconds: float
    ratio: float
    bar: float | None
    agreement: str
    peak_megabytes: float

    @property
    def met(self) -> bool | None:
        """Whether the bar was reached; None if there is none."""
        return None if self.bar is None else self.ratio >= self.bar


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result; a pause first lets the previous call's idle threads stop spinning."""
    gc.collect()
    time.sleep(0.5)
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def run(job: Job) -> list[Line]:
    """Alternate ours and the peers, after one unmeasured call of ours (it may compile)."""
    job.ours()
    ours: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name in job.peers}
    results: dict[str, Any] = {}
    result = None
    for _ in range(job.rounds):
        seconds, result = timed(job.ours)
        ours.append(job.seconds(result) if job.seconds else seconds)
        for name, call in job.peers.items():
            if theirs[name] and theirs[name][0] > _SLOW:
                continue
            seconds, results[name] = timed(call)
            theirs[name].append(job.seconds(results[name]) if job.seconds else seconds)
    agreement = job.agreement(result, results)
    peak = peak_megabytes(job.ours)
    return [
        Line(
            job.name,
            statistics.median(ours),
            name,
            statistics.median(times),
            ratio_of(times, ours),
            job.bars.get(name),
            agreement,
            peak,
        )
        for name, times in theirs.items()
    ]


def ratio_of(theirs: list[float], ours: list[float]) -> float:
    """How many times as long theirs takes."""
    if len(theirs) < len(ours):
        ours = [statistics.median(ours)]
    return statistics.median(t / o for t, o in zip(theirs, ours, strict=True))


def peak_megabytes(call: Callable[[], Any]) -> float:
    """Memory that the call adds at its highest, measured in a forked process of its own."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_watch, args=(call, send))
    process.start()
    send.close()
    try:
        peak = float(receive.recv())
    except EOFError:
        peak = float("nan")
    process.join()
    return peak


def _watch(call: Callable[[], Any], send: Any) -> None:
    ctypes.CDLL(None).malloc_trim(0)  # what the parent freed would be reused unseen
    before = resident_bytes()
    highest = before
    done = threading.Event()

    def look() -> None:
        nonlocal highest
        while not done.wait(0.002):
            highest = max(highest, resident_bytes())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    call()
    done.set()
    watcher.join()
    send.send((max(highest, resident_bytes()) - before) / 1024**2)
    send.close()


def resident_bytes() -> int:
    """What this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
