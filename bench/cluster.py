"""On a Dask cluster of this machine: against the same fit in memory, one worker and two, dask-ml.

    python -m bench.cluster [--rows 400000] [--only NAME]

Workers are processes of one thread; each holds its share of the chunks before the clock starts, as
the table in memory is held. Peak memory is the resident high-water mark of the workers and of this
process over the fit, above what they held before, in clusters of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from bench.sets import large
from nearfold import (
    NCA,
    PCA,
    Isomap,
    KernelPCA,
    LinearDiscriminantAnalysis,
    NearestNeighbors,
)
from nearfold.blocks import spans

RESULTS = Path("bench/results/cluster.json")
_CHUNKS = 32
_ROUNDS = 3


@contextlib.contextmanager
def workers(count: int, memory: str = "4GB") -> Iterator[Client]:
    """A cluster of so many workers of one thread, which are ended beyond that memory."""
    with warnings.catch_warnings(), LocalCluster(
        count, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50,
        memory_limit=memory,
    ) as cluster, Client(cluster) as client:  # fmt: skip
        client.run(_warm_up)
        yield client


def _warm_up() -> None:
    """Import what the tasks import, as it is imported here."""
    import nearfold.linalg
    import nearfold.neighbors.partitioned  # noqa: F401


def held(client: Client, X: np.ndarray, chunks: int = _CHUNKS) -> Any:
    """X in the memory of the workers, the same number of chunks in each."""
    names = list(client.scheduler_info(n_workers=-1)["workers"])
    parts = [X[some] for some in spans(len(X), -(-len(X) // chunks))]
    futures = [
        client.scatter(part, workers=[names[i % len(names)]], hash=False)
        for i, part in enumerate(parts)
    ]
    arrays = zip(futures, parts, strict=True)
    return da.concatenate([da.from_delayed(f, part.shape, part.dtype) for f, part in arrays])


def median_time(call: Callable[[], Any]) -> tuple[float, Any]:
    """Median seconds of some rounds, after one that is not measured; the last result."""
    result, seconds = call(), []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def peak() -> float:
    """The resident high-water mark of this process, in MB: not that of the one it came from."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def grown(X: np.ndarray, fit: Callable[[Any], Any]) -> float:
    """MB by which the largest worker and this process grow over a fit, the larger of the two."""
    with workers(2) as client:
        dX = held(client, X)
        before, mine = client.run(peak), peak()
        fit(dX)
        after = client.run(peak)
        return max(max(after[w] - before[w] for w in before), peak() - mine)


def fits(rows: int) -> Iterator[dict[str, Any]]:
    """PCA and LDA: local, one worker, two; dask-ml's PCA on the same cluster."""
    from dask_ml.decomposition import PCA as TheirPCA

    X, y = large(rows, 256)
    jobs: dict[str, tuple[Any, Any]] = {
        "PCA to 50": (lambda A, b: PCA(50).fit(A), lambda m: m.components_),
        "LDA": (lambda A, b: LinearDiscriminantAnalysis().fit(A, b), lambda m: m.scalings_),
    }
    for name, (fit, result) in jobs.items():
        local, here = median_time(lambda fit=fit: fit(X, y))
        seconds, agreement = {}, 0.0
        for count in (1, 2):
            with workers(count) as client:
                dX, dy = held(client, X), held(client, y)
                seconds[count], there = median_time(lambda f=fit, a=dX, b=dy: f(a, b))
                if count == 2 and name.startswith("PCA"):
                    theirs, _ = median_time(lambda a=dX: TheirPCA(50).fit(a))
            agreement = float(
                np.abs(result(there) - result(here)).max() / np.abs(result(here)).max()
            )
        line = {"job": f"{name}, {rows:,} x 256 float32", "local": local, "one": seconds[1],
                "two": seconds[2], "off": agreement}  # fmt: skip
        if name.startswith("PCA"):
            line["dask-ml"] = theirs
            line["peak"] = grown(X, lambda a: PCA(50).fit(a))
            line["dask-ml peak"] = grown(X, lambda a: TheirPCA(50).fit(a))
        yield line


def searches(rows: int) -> Iterator[dict[str, Any]]:
    """Exact 5-NN of 10,000 queries: one worker, two, and the same in memory."""
    X, _ = large(rows + 10_000, 128)
    X, Q = X[:rows], X[rows:]
    local, here = median_time(lambda: NearestNeighbors(n_neighbors=5).fit(X).kneighbors(Q))
    seconds, same = {}, 0.0
    for count in (1, 2):
        with workers(count) as client:
            dX = held(client, X)

            def search(dX: Any = dX) -> Any:
                return NearestNeighbors(n_neighbors=5).fit(dX).kneighbors(Q)

            seconds[count], there = median_time(search)
        same = float((there[1] == here[1]).mean())
    yield {"job": f"5-NN, 10,000 in {rows:,} x 128 float32, index included", "local": local,
           "one": seconds[1], "two": seconds[2], "same neighbours": same}  # fmt: skip


def manifolds(rows: int) -> Iterator[dict[str, Any]]:
    """Fits of half as many rows on two workers of 1 GB, against those in memory."""
    X, y = large(rows // 2, 64)
    X /= np.float32(X.std())
    jobs: dict[str, tuple[Any, str]] = {
        "NCA to 10": (lambda: NCA(10, solver="stochastic", random_state=0), "components_"),
        "KernelPCA of rank 500": (
            lambda: KernelPCA(10, kernel="rbf", low_rank=500, random_state=0), "eigenvalues_",
        ),
        "Isomap, 500 landmarks": (lambda: Isomap(n_neighbors=10, n_landmarks=500), "embedding_"),
    }  # fmt: skip
    for name, (make, result) in jobs.items():
        arguments = (y,) if name.startswith("NCA") else ()
        started = time.perf_counter()
        here = getattr(make().fit(X, *arguments), result)
        local = time.perf_counter() - started
        with workers(2, "1GB") as client:
            there_arguments = [held(client, X), *(held(client, one) for one in arguments)]
            before = client.run(peak)
            started = time.perf_counter()
            there = getattr(make().fit(*there_arguments), result)
            seconds = time.perf_counter() - started
            most = max(client.run(peak).values())
        off = float(np.abs(there - here).max() / np.abs(here).max())
        yield {"job": f"{name}, {len(X):,} x 64 float32", "local": local, "two": seconds,
               "off": off, "worker": most, "worker before": max(before.values())}  # fmt: skip


def told(line: dict[str, Any]) -> str:
    """A line of the table."""
    text = f"{line['job']}: local {line['local']:.2f} s, "
    if "one" in line:
        gain, share = line["one"] / line["two"], line["two"] / line["local"]
        text += f"one worker {line['one']:.2f} s, two {line['two']:.2f} s (x{gain:.2f}; "
        text += f"{share:.2f} of local)"
    else:
        text += f"two workers {line['two']:.2f} s, the larger at most {line['worker']:.0f} MB"
    if "dask-ml" in line:
        text += f"; dask-ml {line['dask-ml']:.2f} s ({line['dask-ml'] / line['two']:.1f}x), peak "
        text += f"{line['peak']:.0f} MB against {line['dask-ml peak']:.0f} MB"
    if "off" in line:
        text += f"; result to {line['off']:.0e}"
    if "same neighbours" in line:
        text += f"; {line['same neighbours']:.4%} of the neighbours the same"
    return text


def cluster_report(rows: int = 400_000, only: str = "") -> str:
    """All jobs, printed and written as they end."""
    lines: list[dict[str, Any]] = []
    warnings.simplefilter("ignore")
    for make in (fits, searches, manifolds):
        if only not in make.__name__:
            continue
        for line in make(rows):
            lines.append(line)
            print(told(line), flush=True)
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            RESULTS.write_text(json.dumps(lines, indent=1))
    return f"on a cluster of this machine: {len(lines)} jobs, in {RESULTS}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--only", default="", help="fits, searches or manifolds")
    options = parser.parse_args()
    cluster_report(options.rows, options.only)


if __name__ == "__main__":
    main()
