"""A call in a process of its own: its seconds, its peak memory, and what it said of itself."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

_SCRIPT = """
import json, resource, time, warnings
import numpy as np
import sklearn.base
from bench.sets import large, load
warnings.simplefilter("ignore")
{setup}
status = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = status()
started, worked = time.perf_counter(), time.process_time()
{call}
seconds, cpu = time.perf_counter() - started, time.process_time() - worked
said = {{}}
{after}
print(json.dumps({{"seconds": seconds, "cpu": cpu, "peak": status(), "before": before,
                  "said": said}}))
"""


@dataclass
class Outcome:
    """What became of a call; `error` says why there are no figures."""

    seconds: float = float("nan")
    cpu: float = float("nan")  # seconds of all threads
    peak: float = float("nan")  # MB of the whole process at its highest
    before: float = float("nan")  # MB before the call: imports and data
    said: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def cells(self) -> str:
        """Time, CPU and peak, for a line of a table."""
        if self.error:
            return "- | - | -"
        return f"{self.seconds:.0f} s | {self.cpu:.0f} s | {self.peak / 1024:.2f} GB"


CELLS = "time | CPU | peak"  # what `cells` are


def run_alone(setup: str, call: str, after: str = "", limit: float = 3600) -> Outcome:
    """Run `setup`, then `call` against the clock, then `after`, which may fill `said`."""
    script = _SCRIPT.format(setup=setup, call=call, after=after)
    try:
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return Outcome(error=f"not ended after {limit:.0f} s")
    if done.returncode:
        return Outcome(error=(done.stderr.strip().splitlines() or ["killed"])[-1][:300])
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))
