"""Is the memory budget kept? Run every case in a process of its own and print a table.

    python -m tests.memory.harness --only KNeighborsClassifier --shape wide
    python -m tests.memory.harness --budget 64MB --seconds 60        (everything, worst first)
    python -m tests.memory.harness --commands                        (the command line)

The peak counts from after the imports, a small warm-up and the input; the output counts. More than
1.2 times the budget is a defect, whether the work was done or refused. A case that takes longer
than --seconds is stopped and reported as slow, with its peak so far.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

from tests.memory.cases import (
    FAST,
    SHAPES,
    Case,
    all_cases,
    cached_table,
    make_table,
    prepare_and_work,
)
from tests.memory.measure import LIMIT, can_measure, measure, peak_above, reset_peak

from nearfold.errors import InputError
from nearfold.graph import paths
from nearfold.linalg import inverse_iteration
from nearfold.methods import smacof
from nearfold.metrics import soft_neighbors
from nearfold.neighbors import exact
from nearfold.quality import spaces

ROOT = Path(__file__).resolve().parents[2]
_WARM_ROWS = 600


def run_case(case: Case, seconds: float | None = None) -> dict[str, Any]:
    """Measure one case in this process; end the process if it takes longer than `seconds`."""
    warm_up(case)
    if seconds is not None:
        _watch(seconds)
    started = time.monotonic()
    X, y = cached_table(case.shape)
    prepare, work = prepare_and_work(case, X, y)
    _running["before"] = reset_peak()
    result: dict[str, Any] = {**asdict(case), "outcome": "done", "note": ""}
    try:
        measured = measure(prepare, work)
        result["ratio"] = measured.ratio
        if measured.refused is not None:
            result.update(outcome="refused", note=measured.refused)
    except NotImplementedError:
        result.update(outcome="absent", ratio=0.0)
    except InputError as error:  # such as a graph that no number of neighbours connects
        ratio = peak_above(_running["before"]) / _running["budget"]
        result.update(outcome="refused", note=str(error), ratio=ratio)
    except MemoryError as error:  # in what comes before: no fit, nothing to transform with
        result.update(outcome="no fit", note=str(error), ratio=0.0)
    except Exception as error:
        ratio = peak_above(_running["before"]) / _running["budget"]
        result.update(outcome="error", note=f"{type(error).__name__}: {error}", ratio=ratio)
    result["seconds"] = time.monotonic() - started
    return result


# Sizes below which a method does without a compiled kernel.
_COMPILED_FROM = (
    (exact, "_PLAIN_PAIRS"),
    (inverse_iteration, "_SURE_ROWS"),
    (spaces, "_PLAIN_PAIRS"),
    (paths, "_SMALL"),
    (smacof, "_SMALL"),
    (soft_neighbors, "_COMPILED"),
)


def warm_up(case: Case) -> None:
    """Small tables of the same kind: imports, and every kernel that a large one may need."""
    prepare, work = prepare_and_work(case, *make_table(SHAPES[case.shape], _WARM_ROWS))
    for least in (False, True):
        with contextlib.ExitStack() as stack:
            for module, name in _COMPILED_FROM if least else ():
                stack.enter_context(mock.patch.object(module, name, 0))
            with contextlib.suppress(Exception):  # the case itself will say so
                work(prepare())


_running: dict[str, Any] = {"before": 0, "budget": 1, "case": None}


def _watch(seconds: float) -> None:
    """End the process when its time is up, with what is known by then."""

    def end() -> None:
        ratio = peak_above(_running["before"]) / _running["budget"] if _running["before"] else 0.0
        slow = {**asdict(_running["case"]), "outcome": "slow", "note": "", "ratio": ratio}
        print(json.dumps({**slow, "seconds": seconds}), flush=True)
        os._exit(0)

    def wait() -> None:
        until = time.process_time() + seconds  # of work, however busy the machine is
        while time.process_time() < until:
            time.sleep(0.2)
        end()

    threading.Thread(target=wait, daemon=True).start()


def child(cases: list[Case], budget: str, seconds: float) -> None:
    """Run cases one after the other in this process, one line of JSON each."""
    import nearfold

    nearfold.set_memory(budget)
    _running["budget"] = nearfold.get_memory()
    warnings.simplefilter("ignore")
    for case in cases:
        _running.update(case=case, before=0)
        print(json.dumps(run_case(case, seconds if len(cases) == 1 else None)), flush=True)
    os._exit(0)  # nothing is left to do, and threads may still run


def run_child(cases: list[Case], budget: str, seconds: float) -> list[dict[str, Any]]:
    """Run cases in another process."""
    words = [sys.executable, "-m", "tests.memory.harness", "--child"]
    words += ["--budget", budget, "--seconds", str(seconds)]
    paths = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        input=json.dumps([asdict(case) for case in cases]),
        capture_output=True,
        text=True,
        check=False,
    )
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(results) < len(cases):
        lost = asdict(cases[len(results)])
        note = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        results.append({**lost, "outcome": "crash", "note": note, "ratio": 99.0, "seconds": 0.0})
    return results


def show(results: list[dict[str, Any]]) -> str:
    """The table, worst first."""
    lines = [f"{'ratio':>6} {'seconds':>8}  {'outcome':8} case"]
    for r in sorted(results, key=lambda r: -r["ratio"]):
        mark = "!" if r["ratio"] > LIMIT or r["outcome"] in ("error", "crash") else " "
        name = f"{r['estimator']}.{r['action']} {r['shape']}"
        note = f"  ({r['note'][:110]})" if r["note"] else ""
        lines.append(f"{r['ratio']:6.2f}{mark}{r['seconds']:8.1f}  {r['outcome']:8} {name}{note}")
    over = sum(r["ratio"] > LIMIT for r in results)
    lines.append(f"{over} of {len(results)} cases exceed {LIMIT} times the budget.")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", help="names of estimators (or of commands)")
    parser.add_argument("--action", nargs="*", help="fit, transform, predict, ...")
    parser.add_argument("--shape", nargs="*", choices=list(SHAPES), help="names of shapes")
    parser.add_argument("--budget", default="64MB")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit per case")
    parser.add_argument("--commands", action="store_true", help="the command line instead")
    parser.add_argument("--json", metavar="FILE", help="write the results here as well")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        cases = [Case(**case) for case in json.load(sys.stdin)]
        child(cases, options.budget, options.seconds)
    if not can_measure():
        sys.exit("The peak of resident memory can be reset on Linux only.")
    if options.commands:
        from tests.memory.commands import run_commands

        results = run_commands(options.only)
    else:
        shapes = tuple(options.shape or (name for name in SHAPES if name not in FAST))
        results = []
        for case in all_cases(shapes):
            if options.only and case.estimator not in options.only:
                continue
            if options.action and case.action not in options.action:
                continue
            results += run_child([case], options.budget, options.seconds)
            print(show(results[-1:]).splitlines()[1], file=sys.stderr, flush=True)
    print(show(results))
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    sys.exit(any(r["ratio"] > LIMIT or r["outcome"] in ("error", "crash") for r in results))


if __name__ == "__main__":
    main()
