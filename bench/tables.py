"""Does the answer of `nearfold compare` hold? Real tables, a third of the rows held back.

    python -m bench.tables --time 60s --json bench/results/tables.json

Of each table in tables.csv, `nearfold compare` sees two thirds of the rows, as a CSV file on the
command line; the saved model then places the rows held back, and k-NN in that space is scored on
them beside a plain scikit-learn pipeline (table_scores.py) on the same rows.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench import table_scores
from bench.table_sources import Entry, Split, entries, write_split

BETTER, ONE, TWO, WORSE = "better", "within one SE", "within two SE", "worse than two SE"
REFUSED, FAILED = "refused", "failed"
_COMMAND = [sys.executable, "-m", "nearfold.app.cli"]
_LONGEST = 20 * 60  # seconds; what has not ended by then has failed
_HEADINGS = "table rows columns task plain ours difference SE promised space verdict seconds"


@dataclass
class Line:
    """What was found for one table."""

    table: str
    task: str
    rows: int = 0
    columns: int = 0
    numbers: int = 0  # as the plain pipeline takes them
    categories: int = 0
    held_back: int = 0
    score: str = ""
    space: str = ""
    promised: float | None = None  # by the comparison, from its own folds
    plain: float | None = None
    ours: float | None = None
    difference: float | None = None
    error: float | None = None  # standard error of the difference
    verdict: str = FAILED
    message: str = ""
    seconds: float = 0.0
    warnings: int = 0  # Python warnings on stderr
    headline: Any = None

    @property
    def errors(self) -> float | None:
        """The difference in standard errors; None where nothing was scored."""
        if self.difference is None or self.error is None:
            return None
        return self.difference / self.error if self.error else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tables", description=__doc__)
    parser.add_argument("--only", default="", help="tables whose name contains this")
    parser.add_argument("--limit", type=int, help="the first so many tables")
    parser.add_argument("--sample", type=int, help="so many tables at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample and of the split")
    parser.add_argument("--time", default="60s", help="for each comparison, in seconds")
    parser.add_argument("--jobs", type=int, default=1, help="comparisons at a time")
    parser.add_argument("--json", help="where to write the results; rewritten after each table")
    options = parser.parse_args()
    chosen = choose(options.only, options.sample, options.limit, options.seed)
    if not chosen:
        parser.error(f"--only {options.only}: no table has such a name.")
    budget = float(options.time.removesuffix("s"))
    # The stream itself: a table that is being loaded may have sys.stdout redirected.
    console = Console(file=sys.stdout, width=220, highlight=False, markup=False)
    start = timed([*_COMMAND, "methods", "--json"])[1]
    lines: list[Line] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for line in pool.map(lambda e: run(e, budget, options.seed), chosen):
            lines.append(line)
            console.print(f"{len(lines)}/{len(chosen)}  {'  '.join(cells(line))}", soft_wrap=True)
            if options.json:
                write(Path(options.json), lines, budget, start)
    console.print(table_of(lines))
    console.print("\n".join(summary(lines, budget, start)))


def choose(only: str, sample: int | None, limit: int | None, seed: int) -> list[Entry]:
    """The tables asked for, in the order of the list."""
    found = [entry for entry in entries() if only.lower() in entry.name.lower()]
    if sample is not None and sample < len(found):
        places = np.random.default_rng(seed).choice(len(found), sample, replace=False)
        found = [found[i] for i in sorted(places)]
    return found[:limit]


def run(entry: Entry, budget: float, seed: int) -> Line:
    """One table from file to verdict; whatever goes wrong is told in the line."""
    line = Line(entry.name, entry.question)
    with tempfile.TemporaryDirectory(prefix="nearfold-tables-") as folder:
        try:
            split = write_split(entry, Path(folder), seed)
            line.rows, line.columns = len(split.train) + len(split.held), split.train.shape[1]
            line.held_back = len(split.held)
            model = Path(folder) / "model.nearfold"
            answered = compare(entry, split, model, budget, line)
            judge(entry, split, model if answered else None, line)
        except Exception as error:  # the run goes on with the next table
            line.verdict, line.message = FAILED, f"{type(error).__name__}: {one_line(str(error))}"
    return line


def compare(entry: Entry, split: Split, model: Path, budget: float, line: Line) -> bool:
    """Run the command as a person would; whether it gave an answer and a model."""
    option = f"--{entry.question}"
    command = ["compare", str(split.train_file), option, entry.answer, "--time", f"{budget:g}s"]
    done, line.seconds = timed([*_COMMAND, *command, "--save", str(model), "--json"])
    line.score = table_scores.score_named("", entry.question)
    if done is None:
        line.message = f"not ended after {_LONGEST} s"
        return False
    line.warnings = len(re.findall(r"\w*Warning: ", done.stderr))
    if done.returncode == 0 and model.is_file():
        found = json.loads(done.stdout)
        line.score = table_scores.score_named(str(found["score"]), entry.question)
        line.headline = found["headline"]
        return True
    said = [text for text in done.stderr.splitlines() if text.strip()]
    clear = done.returncode == 2 and len(said) == 1 and "Traceback" not in done.stderr
    line.verdict = REFUSED if clear else FAILED
    line.message = one_line(said[-1] if said else f"exit code {done.returncode}")
    if len(said) > 1:
        line.message = f"{len(said)} lines on stderr, the last: {line.message}"
    return False


def judge(entry: Entry, split: Split, model: Path | None, line: Line) -> None:
    """Score the plain pipeline and, if there is a model, ours beside it."""
    truth = table_scores.answers(split.held, entry)
    predicted, kinds = table_scores.predict_plainly(split, entry, line.score)
    line.numbers, line.categories = kinds["numbers"], kinds["categories"]
    plain = table_scores.contributions(truth, predicted, line.score)
    line.plain = float(plain.mean())
    if model is None:
        return
    predicted, card = table_scores.predict_in_space(split, entry, model)
    ours = table_scores.contributions(truth, predicted, line.score)
    line.space, promised = str(card.extra.get("space", "")), card.extra.get("score")
    line.promised = promised if isinstance(promised, float) else None
    line.ours = float(ours.mean())
    line.difference, line.error = table_scores.difference(ours, plain)
    line.verdict = verdict_of(line.difference, line.error)


def verdict_of(difference: float, error: float) -> str:
    """By the sign of the difference, then by its size in standard errors."""
    if difference > 0:
        return BETTER
    if difference >= -error:
        return ONE
    return TWO if difference >= -2 * error else WORSE


def timed(command: list[str]) -> tuple[subprocess.CompletedProcess[str] | None, float]:
    """The finished process (None: it did not end) and its seconds."""
    started = time.perf_counter()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_LONGEST
        )
    except subprocess.TimeoutExpired:
        done = None
    return done, time.perf_counter() - started


def one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def cells(line: Line) -> list[str]:
    """A line as it is printed."""
    values = (line.plain, line.ours, line.difference, line.error, line.promised)
    return [
        line.table,
        f"{line.rows:,}",
        f"{line.columns} ({line.numbers}/{line.categories})",
        line.score,
        *("-" if value is None else f"{value:.3f}" for value in values),
        line.space or "-",
        f"{line.verdict}: {line.message}" if line.message else line.verdict,
        f"{line.seconds:.0f}",
    ]


def table_of(lines: list[Line]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in _HEADINGS.split():
        left = name in ("table", "task", "space", "verdict")
        table.add_column(name, justify="left" if left else "right", overflow="fold")
    for line in lines:
        table.add_row(*cells(line))
    return table


def summary(lines: list[Line], budget: float, start: float) -> Iterator[str]:
    """Each claim with its bar."""
    n = len(lines)
    scored = [x for x in lines if x.errors is not None]
    failed = [x.table for x in lines if x.verdict == FAILED]
    refused = [x.table for x in lines if x.verdict == REFUSED]
    yield f"{n - len(failed)} of {n} tables with an answer or one clear line (bar: all)."
    yield f"{len(refused)} refused{listed(refused)}; {len(failed)} failed{listed(failed)}."
    if scored:
        yield from _about_scores(scored, n)
    taken = [x.seconds for x in lines]
    bar = 1.1 * budget + start
    late = [x.table for x in lines if x.seconds > bar]
    yield (
        f"Seconds: median {np.median(taken):.0f}, worst {max(taken):.0f}; {len(late)} above "
        f"{bar:.0f} (bar: 0; 1.1 x {budget:.0f} and {start:.1f} to start){listed(late)}."
    )
    yield f"{sum(x.warnings > 0 for x in lines)} runs with Python warnings on stderr (bar: 0)."


def _about_scores(scored: list[Line], n_tables: int) -> Iterator[str]:
    n = len(scored)
    z = [x.errors for x in scored if x.errors is not None]
    worse = [x.table for x in scored if x.verdict == WORSE]
    yield (
        f"{len(worse)} of {n} more than two standard errors below the plain pipeline (bar: 0; "
        f"of {n} equally good ones {0.023 * n:.1f} would be by chance){listed(worse)}."
    )
    yield f"{sum(value > 2 for value in z)} more than two standard errors above it."
    for what, least in (("difference >= 0", 0.0), ("difference >= -0.5 SE", -0.5)):
        good = sum(value >= least for value in z)
        yield (
            f"At least as good, {what}: {good} of {n}, {good / n:.0%} (bar: 75 %); "
            f"{good / n_tables:.0%} of all tables, refused and failed ones included."
        )
    gaps = [x.promised - x.ours for x in scored if x.promised is not None and x.ours is not None]
    if gaps:
        yield f"Promised by compare minus held back, median: {np.median(gaps):+.3f}."


def listed(names: list[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def write(path: Path, lines: list[Line], budget: float, start: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "time": budget,
        "start_seconds": start,
        "summary": list(summary(lines, budget, start)),
        "lines": [asdict(line) for line in lines],
    }
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
