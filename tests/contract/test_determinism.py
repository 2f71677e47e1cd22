"""Results depend on the data, the parameters and the seed: not on threads, cores or the budget.

Every method is fitted in processes with different numbers of BLAS threads, budgets (neither so
small that an approximation is needed) and n_jobs; everything fitted is compared bit by bit.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

CHILD = Path(__file__).with_name("determinism_child.py")
SETTINGS = {  # BLAS threads, memory budget, n_jobs
    "base": ("1", "4GB", "1"),
    "threads": ("2", "4GB", "2"),
    "budget": ("1", "256MB", "1"),
}


def test_threads_budget_and_n_jobs_change_no_bit():
    running = {}
    for name, (threads, budget, n_jobs) in SETTINGS.items():
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "NEARFOLD_MEMORY": budget,
        }
        running[name] = subprocess.Popen(
            [sys.executable, str(CHILD), n_jobs], env=environment, stdout=subprocess.PIPE, text=True
        )
    found = {name: json.loads(child.communicate()[0]) for name, child in running.items()}
    base = found.pop("base")
    assert len(base) > 500
    different = {
        f"{key} ({name})"
        for name, others in found.items()
        for key in base
        if others.get(key) != base[key]
    }
    assert not different
