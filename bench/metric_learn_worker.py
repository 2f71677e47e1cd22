"""Fit one learner of metric-learn, in the environment it needs; started by bench/metrics.py.

    python metric_learn_worker.py folder

reads folder/job.json (name, params, repeats, seconds_at_most) and folder/job.npz (the arguments of
fit, in order: X, then y or nothing) and writes folder/result.npz (components, seconds: the best of
the repeats, of fit alone) or folder/error.txt. It imports nothing of Nearfold.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import metric_learn
import numpy as np

warnings.simplefilter("ignore")


class TooLong(BaseException):
    """The alarm: no library catches it by mistake."""


def ring(*_: Any) -> None:
    raise TooLong


def fit_once(job: dict[str, Any], arguments: list[np.ndarray]) -> tuple[float, np.ndarray]:
    """Seconds of fit, and the learned map."""
    learner = getattr(metric_learn, job["name"])(**job["params"])
    gc.collect()
    time.sleep(0.5)  # as for ours: threads of the call before stop spinning
    signal.setitimer(signal.ITIMER_REAL, job["seconds_at_most"])
    start = time.perf_counter()
    learner.fit(*arguments)
    seconds = time.perf_counter() - start
    signal.setitimer(signal.ITIMER_REAL, 0)
    return seconds, np.asarray(learner.components_)


def main(folder: Path) -> None:
    job = json.loads((folder / "job.json").read_text())
    with np.load(folder / "job.npz") as file:
        arguments = [file[name] for name in file.files]
    signal.signal(signal.SIGALRM, ring)
    best, components, spent = np.inf, np.empty(0), 0.0
    try:
        for _ in range(job["repeats"]):
            seconds, components = fit_once(job, arguments)
            best, spent = min(best, seconds), spent + seconds
            if spent > job["seconds_at_most"] / 4:  # long enough to be told without repeats
                break
    except TooLong:
        if best == np.inf:
            (folder / "error.txt").write_text(f"> {job['seconds_at_most']:g} s")
            return
    except Exception as error:
        (folder / "error.txt").write_text(f"{type(error).__name__}: {error}")
        return
    np.savez(folder / "result.npz", components=components, seconds=best)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
