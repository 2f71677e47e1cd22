"""The command line under a budget: every command that reads a table or a model, on files.

A command is measured in its own process, from the moment its modules are imported and a small
table has been through it; the table it reads counts, as a user's budget does.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from tests.memory.measure import peak_above, reset_peak

ROOT = Path(__file__).resolve().parents[2]
BUDGET = "256MB"
# (rows, columns, format)
FILES = {
    "small.csv": (5_000, 50),
    "large.parquet": (20_000, 2_000),  # 1.1 times the budget: refused
    "wide.parquet": (5_000, 2_000),
    "tall.parquet": (50_000, 200),
    "wide.csv": (4_000, 2_000),
}
_FIT = ["fit", "PCA", "--set", "n_components=10"]
COMMANDS = {
    "fit": [*_FIT, "{data}", "-o", "{folder}/model.nearfold"],
    "transform": ["transform", "{folder}/{kind}.nearfold", "{data}", "-o", "{folder}/out.parquet"],
    "inspect": ["inspect", "{folder}/{kind}.nearfold"],
    "compare": ["compare", "{data}", "--label", "label", "--time", "30s"],
    "choose": ["choose", "{data}", "--label", "label"],
    "explain": ["explain", "{folder}/{kind}.nearfold", "{data}"],
    "doctor": ["doctor", "{data}"],
}


def write_table(path: Path, n: int, d: int) -> None:
    import numpy as np
    import polars as pl

    draw = np.random.default_rng(0)
    label = np.arange(n) % 5
    columns = {
        f"x{j}": (draw.standard_normal(n) + (j < 10) * label).astype(np.float32) for j in range(d)
    }
    frame = pl.DataFrame({**columns, "label": label})
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)


def call(words: list[str]) -> tuple[int, str]:
    """Exit code and the end of what a command wrote, in this process."""
    from nearfold.app.cli import main

    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
        try:
            main(words, standalone_mode=False)
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException as error:
            heard.write(f"{type(error).__name__}: {error}")
            code = 1
    lines = heard.getvalue().strip().splitlines()
    return code, lines[-1] if lines else ""


def run_commands(only: list[str] | None, seconds: float = 90.0) -> list[dict[str, Any]]:
    """Every command on every file, each in a process of its own."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (n, d) in FILES.items():
            data = Path(folder) / name
            write_table(data, n, d)
            warm = data.with_name(f"warm{data.suffix}")
            write_table(warm, 300, min(d, 50))
            for command in COMMANDS:
                if only and command not in only:
                    continue
                job = json.dumps([command, str(data), str(warm), seconds])
                results.append(_in_process(job, command, name))
                shown = {k: results[-1][k] for k in ("ratio", "outcome", "note")}
                print(command, name, shown, file=sys.stderr, flush=True)
            data.unlink()
    return results


def _in_process(job: str, command: str, name: str) -> dict[str, Any]:
    paths = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "tests.memory.commands", job],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "NEARFOLD_MEMORY": BUDGET},
        capture_output=True,
        text=True,
        check=False,
    )
    base = {"estimator": "nearfold", "action": command, "shape": name, "seconds": 0.0}
    for line in done.stdout.splitlines()[::-1]:
        if line.startswith("{"):
            return {**base, **json.loads(line)}
    note = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return {**base, "outcome": "crash", "note": note, "ratio": 99.0}


def _child(command: str, data: str, warm: str, seconds: float) -> None:
    import time

    from nearfold.blocks.memory import get_memory

    folder = str(Path(data).parent)

    def words(path: str, kind: str) -> list[str]:
        return [w.format(data=path, folder=folder, kind=kind) for w in COMMANDS[command]]

    if command in ("transform", "inspect", "explain"):
        for path, kind in ((warm, "warm"), (data, "real")):
            code, said = call([*_FIT, path, "-o", f"{folder}/{kind}.nearfold"])
            if code:
                print(json.dumps({"outcome": "no fit", "note": said, "ratio": 0.0}))
                return
    call(words(warm, "warm"))
    # Kernels that only tables of this size need are compiled once, and what the compiler takes
    # stays (some 270 MB for all of `compare`): that is no part of the budget.
    call(words(data, "real"))
    before, started = reset_peak(), time.monotonic()

    def tell(outcome: str, note: str) -> None:
        ratio = peak_above(before) / get_memory()
        took = time.monotonic() - started
        print(
            json.dumps({"outcome": outcome, "note": note, "ratio": ratio, "seconds": took}),
            file=sys.__stdout__,
            flush=True,
        )

    def end() -> None:
        tell("slow", "")
        os._exit(0)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    code, said = call(words(data, "real"))
    budget = "memory budget" in said
    tell("done" if code == 0 else "refused" if budget else "error", said if code else "")
    os._exit(0)


if __name__ == "__main__":
    _child(*json.loads(sys.argv[1]))
