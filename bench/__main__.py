"""Run all jobs, print the table, write the JSON beside it."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from rich.console import Console
from rich.table import Table

import nearfold
from bench.cluster import cluster_report
from bench.first_call import first_call_report
from bench.jobs import jobs
from bench.linear import streaming_report
from bench.lmnn import large_margin_report
from bench.manifolds import BOUNDED, bounded_report, landmark_report
from bench.measure import Line, run
from bench.metrics import metric_lines
from bench.nca import all_rows_report
from bench.scale import scale_report
from bench.sets import load
from bench.study import compare_report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--data", help=".npz with X and y, for example MNIST; default: generated")
    parser.add_argument("--only", default="", help="run only jobs whose name contains this")
    parser.add_argument("--skip", nargs="*", default=[], help="leave these reports out, by name")
    parser.add_argument("--json", default="bench/results/latest.json", help="where to write")
    options = parser.parse_args()
    console = Console(width=200)
    versions = {
        "nearfold": nearfold.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "cores": os.cpu_count(),
    }
    console.print(" ".join(f"{k} {v}" for k, v in versions.items()))
    lines: list[Line] = []
    said: dict[str, str] = {}
    for line in all_lines(options.data, options.only):
        lines.append(line)
        console.print(told(line), highlight=False)
        write(Path(options.json), versions, lines, said)
    for name, report in reports(options.data).items():
        if options.only.lower() in name.lower() and name not in options.skip:
            said[name] = report()
            console.print(said[name], highlight=False)
            write(Path(options.json), versions, lines, said)
    console.print(table_of(lines))
    console.print(f"written to {options.json}")


def all_lines(path: str | None, only: str) -> Iterator[Line]:
    """What is timed against a peer, one line at a time."""
    for job in jobs(path):
        if only.lower() in job.name.lower():
            yield from run(job)
    yield from metric_lines(only, path=path)


def reports(path: str | None) -> dict[str, Callable[[], str]]:
    """What has no peer, or more than one figure; each gives the text that is printed."""
    full = path is not None
    budget = "4GB" if full else "64MB"
    found: dict[str, Callable[[], str]] = {
        "PCA streamed": lambda: streaming_report(full),
        **{f"{name}, all rows": partial(bounded_report, name, path, budget) for name in BOUNDED},
        "Isomap, landmarks": lambda: landmark_report(
            load(path).all_rows[: 10_000 if full else 2_000].astype("f4")
        ),
        "NCA, all rows": lambda: all_rows_report(path, "4GB"),
        "LMNN, all rows": lambda: large_margin_report(path),
        "first call": first_call_report,
        "cluster": cluster_report,
        "scale": scale_report,
        "compare": lambda: compare_report(path, "4GB"),
    }
    return found


def write(path: Path, versions: dict[str, Any], lines: list[Line], said: dict[str, str]) -> None:
    """The results so far: what ends early is not lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"versions": versions, "lines": [asdict(line) for line in lines], "reports": said}
    path.write_text(json.dumps(content, indent=2))


def told(line: Line) -> str:
    """A line of the table as it comes in."""
    bar = "" if line.bar is None else f" (bar {line.bar:g}, {'met' if line.met else 'MISSED'})"
    return (
        f"{line.job}: {line.seconds:.3f} s, {line.peer} {line.peer_seconds:.3f} s, "
        f"{line.ratio:.2f}x{bar}; {line.agreement}; peak {line.peak_megabytes:.0f} MB"
    )


def table_of(lines: list[Line]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("job", "nearfold", "peer", "time", "ratio", "bar", "agreement", "peak"):
        left = column in ("job", "peer", "agreement")
        table.add_column(column, justify="left" if left else "right", overflow="fold")
    for line in lines:
        bar = "" if line.bar is None else f"{line.bar:g} {'met' if line.met else 'MISSED'}"
        table.add_row(
            line.job,
            f"{line.seconds:.3f} s",
            line.peer,
            f"{line.peer_seconds:.3f} s",
            f"{line.ratio:.2f}x",
            bar,
            line.agreement,
            f"{line.peak_megabytes:.0f} MB",
        )
    return table


if __name__ == "__main__":
    main()
