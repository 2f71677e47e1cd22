"""Run all jobs, print the table, write the JSON beside it."""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from rich.console import Console
from rich.table import Table

import nearfold
from bench.first_call import first_call_report
from bench.jobs import jobs
from bench.linear import streaming_report
from bench.lmnn import large_margin_report
from bench.manifolds import bounded_report, landmark_report
from bench.measure import Line, run
from bench.metrics import metric_lines
from bench.nca import all_rows_report
from bench.sets import load
from bench.study import compare_report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--data", help=".npz with X and y, for example MNIST; default: generated")
    parser.add_argument("--only", default="", help="run only jobs whose name contains this")
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
    for job in jobs(options.data):
        if options.only.lower() not in job.name.lower():
            continue
        for line in run(job):
            lines.append(line)
            console.print(told(line), highlight=False)
        write(Path(options.json), versions, lines)
    for line in metric_lines(options.only, path=options.data):
        lines.append(line)
        console.print(told(line), highlight=False)
    streamed = ""
    if options.only.lower() in "pca streamed":
        streamed = streaming_report(options.data is not None)
        console.print(streamed, highlight=False)
    X = load(options.data).all_rows
    bounded = bounded_report(options.data, len(X), "4GB" if options.data else "64MB", options.only)
    if options.only.lower() in "isomap":
        bounded += "\n" + landmark_report(X[: 10_000 if options.data else 2_000].astype("f4"))
    if "nca" in options.only.lower() or not options.only:
        bounded += "\n" + all_rows_report(options.data, "4GB")
    if "lmnn" in options.only.lower() or not options.only:
        bounded += "\n" + large_margin_report(options.data)
    if not options.only or "first" in options.only.lower():
        bounded += "\n" + first_call_report()
    if options.only.lower() in "compare":
        bounded += "\n" + compare_report(options.data, "4GB")
    console.print(bounded, highlight=False)
    console.print(table_of(lines))
    write(Path(options.json), versions, lines, streamed=streamed, bounded=bounded)
    console.print(f"written to {options.json}")


def write(path: Path, versions: dict[str, Any], lines: list[Line], **reports: str) -> None:
    """The results so far: what ends early is not lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"versions": versions, "lines": [asdict(line) for line in lines], **reports}
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
