"""A cost model of fits on a cluster: fed with one worker, checked with two, asked about many.

    python -m bench.scale               measures (some minutes); writes bench/results/scale.json
    python -m bench.scale --plan-only   prints the plan for 1,000,000,000 x 128 rows again

A fit of B blocks on W workers takes

    seconds(B, W) = fixed + each * ceil(B / W)

    fixed    what a fit costs whatever its size: round trips, the eigenproblem in this process
    each     one block in one worker: reading it, its statistic, its share of the joins

Both come from runs of one worker on two numbers of blocks of one size. A search asks every part for
the neighbours of all queries, so its `each` is the index of a part and the search in it.
What is said of the large table adds the time in which a worker reads a block from a disk.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.cluster import held, median_time, workers
from bench.sets import large
from nearfold import PCA, Covariance, LinearDiscriminantAnalysis, NearestNeighbors

RESULTS = Path("bench/results/scale.json")
_ROWS, _WIDTH = 12_500, 256  # of a block that is measured
_BLOCKS = (16, 32)
_LARGE_ROWS, _LARGE_WIDTH = 1_000_000_000, 128
_LARGE_BLOCK = 250_000  # rows: 128 MB
_READ = 200e6  # bytes that a worker reads in a second


@dataclass(frozen=True)
class Cost:
    """What a fit costs, by blocks of the measured size."""

    fixed: float
    each: float

    @classmethod
    def of(cls, seconds: dict[int, float]) -> Cost:
        """From the seconds of one worker on two numbers of blocks."""
        (few, short), (many, long) = sorted(seconds.items())
        each = max(0.0, (long - short) / (many - few))
        return cls(max(0.0, long - each * many), each)

    def seconds(self, blocks: int, count: int) -> float:
        """What a number of workers takes."""
        return self.fixed + self.each * math.ceil(blocks / count)


@dataclass(frozen=True)
class Method:
    """A fit, what grows with its table, and what a large one moves and holds."""

    fit: Callable[[Any, Any], Any]
    passes: int  # over the table
    by_width: float  # power of the number of columns by which the cost of a row grows
    here: str  # what comes to this process, as a formula of n, d, k
    bytes_here: Callable[[int, int], float]


METHODS: dict[str, Method] = {
    "PCA to 50": Method(
        lambda X, y: PCA(50).fit(X), 1, 2.0, "d^2 numbers", lambda n, d: 8.0 * d * d
    ),
    "Covariance": Method(
        lambda X, y: Covariance().fit(X), 3, 2.0, "d^2 numbers", lambda n, d: 8.0 * d * d
    ),
    "LDA": Method(
        lambda X, y: LinearDiscriminantAnalysis().fit(X, y), 2, 2.0, "d^2 + C d numbers",
        lambda n, d: 8.0 * d * (d + 20),
    ),
    "5-NN of 10,000 queries": Method(
        lambda X, y: NearestNeighbors(n_neighbors=5).fit(X).kneighbors(queries(X.shape[1])), 1, 1.0,
        "the lists, 16 k bytes a query", lambda n, d: 16.0 * 5 * 10_000,
    ),
}  # fmt: skip


def queries(width: int) -> np.ndarray:
    return large(10_000, width)[0]


def measure(method: Method, blocks: int, count: int) -> float:
    """Median seconds of a fit of so many blocks on so many workers."""
    X, y = large(blocks * _ROWS, _WIDTH)
    with workers(count) as client:
        dX, dy = held(client, X, blocks), held(client, y, blocks)
        return median_time(lambda: method.fit(dX, dy))[0]


def check(name: str) -> dict[str, Any]:
    """The model from one worker, and what two take against what it says."""
    method = METHODS[name]
    cost = Cost.of({blocks: measure(method, blocks, 1) for blocks in _BLOCKS})
    two, said = measure(method, _BLOCKS[-1], 2), cost.seconds(_BLOCKS[-1], 2)
    return {"method": name, **asdict(cost), "two": two, "predicted": said, "off": said / two - 1}


def plan(found: dict[str, Any], count: int) -> dict[str, Any]:
    """The large table on so many workers."""
    method = METHODS[found["method"]]
    blocks = math.ceil(_LARGE_ROWS / _LARGE_BLOCK)
    wider = (_LARGE_WIDTH / _WIDTH) ** method.by_width * (_LARGE_BLOCK / _ROWS)
    bytes_of_block = 4.0 * _LARGE_BLOCK * _LARGE_WIDTH
    reading = method.passes * bytes_of_block / _READ
    cost = Cost(found["fixed"], found["each"] * wider + reading)
    return {
        "method": found["method"], "workers": count, "hours": cost.seconds(blocks, count) / 3600,
        "read": method.passes * bytes_of_block * blocks,
        "here": method.bytes_here(_LARGE_ROWS, _LARGE_WIDTH), "what": method.here,
    }  # fmt: skip


def told_check(found: dict[str, Any]) -> str:
    two = f"two workers {found['two']:.2f} s, predicted {found['predicted']:.2f} s"
    each = f"a block {1000 * found['each']:.0f} ms, fixed {found['fixed']:.2f} s"
    return f"{found['method']}: {each}; {two} ({found['off']:+.0%})"


def told_plan(found: dict[str, Any]) -> str:
    return (
        f"{found['method']}: {found['workers']} workers, {found['hours']:.1f} h, "
        f"{found['read'] / 1e12:.1f} TB read, {found['here'] / 1e6:.1f} MB here ({found['what']})"
    )


def scale_report(only: str = "") -> str:
    """Every check, and the plan that follows from it; written as they end."""
    checks: list[dict[str, Any]] = []
    for name in METHODS:
        if only.lower() in name.lower():
            checks.append(check(name))
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            RESULTS.write_text(json.dumps(checks, indent=1))
    return told(checks)


def told(checks: list[dict[str, Any]]) -> str:
    """The checks, and the plan of the large table."""
    plans = [told_plan(plan(found, count)) for found in checks for count in (10, 100)]
    head = f"{_LARGE_ROWS:,} x {_LARGE_WIDTH} float32, {_READ / 1e6:.0f} MB/s read by each worker:"
    return "\n".join([*map(told_check, checks), head, *plans])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--only", default="", help="methods whose name contains this")
    parser.add_argument("--plan-only", action="store_true")
    options = parser.parse_args()
    if options.plan_only:
        print(told(json.loads(RESULTS.read_text())))
    else:
        print(scale_report(options.only))


if __name__ == "__main__":
    main()
