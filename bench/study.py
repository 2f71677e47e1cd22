"""Judging against scikit-learn; a whole comparison and its report against the clock."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
from sklearn.manifold import trustworthiness as theirs

from bench.measure import Job
from nearfold import PCA, trustworthiness


def trust_job(X: np.ndarray, where: str, full: bool) -> Job:
    """Trustworthiness of PCA's plane, every row against all."""
    Z = PCA(2).fit_transform(X)

    def agreement(mine: Any, other: Any) -> str:
        return f"{mine:.6f}, theirs {other['scikit-learn']:.6f}"

    return Job(
        f"trustworthiness of 2 axes, {where} {len(X):,} x {X.shape[1]}, {X.dtype}",
        lambda: trustworthiness(X, Z, n_neighbors=10),
        {"scikit-learn": lambda: theirs(X, Z, n_neighbors=10)},
        agreement,
        {"scikit-learn": 8.0} if full else {},
        rounds=3,
    )


def compare_report(path: str | None, budget: str) -> str:
    """`nearfold compare` on all rows, with its report, in a process of its own."""
    script = _SCRIPT.format(path=path, budget=budget)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


_SCRIPT = """
import re, tempfile, time, numpy as np, nearfold
from pathlib import Path
from bench.sets import load
data = load({path!r})
X, y = data.all_rows, data.all_labels
nearfold.set_memory("{budget}")
status = lambda word: int(re.search(word + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
before = status("VmRSS")
started = time.perf_counter()
found = nearfold.compare(X, y, time_budget=900)
compared = time.perf_counter() - started
report = Path(tempfile.mkdtemp()) / "report.html"
nearfold.write_report(found, report)
seconds = time.perf_counter() - started
peak = (status("VmHWM") - before) / 1024**2
print(found)
print(f"compare, {{len(X):,}} x {{X.shape[1]}}, budget {budget}: {{compared:.0f}} s, "
      f"with the report {{seconds:.0f}} s, peak {{peak:.2f}} GB above the data; report "
      f"{{report.stat().st_size / 1e6:.2f}} MB")
"""
