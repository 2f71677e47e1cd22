"""Nearest neighbours: many queries, one query, small tables, graphs; exact and approximate."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier as TheirClassifier
from sklearn.neighbors import NearestNeighbors as TheirNeighbors

from bench.measure import Job
from bench.sets import Set
from nearfold import KNeighborsClassifier, NearestNeighbors


def neighbor_jobs(sets: list[Set], full: bool) -> Iterator[Job]:
    """All jobs, set by set."""
    for data in sets:
        yield batch_job(data, np.float32, full)
    yield batch_job(sets[0], np.float64, full)
    yield plane_job(full)
    for data in sets:
        yield graph_job(data, full)
    yield one_query_job(sets[0].name, sets[0].X, sets[0].Q, full)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8_000, 100)) * np.linspace(1, 0.1, 100)
    yield one_query_job("decaying", X, X[:200] + 0.1, full)
    for shape in ((1_000, 20), (3_000, 50)):
        yield predict_job(*shape, full)


def described(X: np.ndarray, what: str, where: str) -> str:
    return f"{what}, {where} {len(X):,} x {X.shape[1]}, {X.dtype}"


def faiss_flat(X: np.ndarray, Q: np.ndarray, k: int) -> Any:
    import faiss

    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)
    return index.search(Q, k)[1]


def faiss_panorama(X: np.ndarray, Q: np.ndarray, k: int) -> Any:
    import faiss

    levels = max(2, min(16, X.shape[1] // 32))
    index = faiss.IndexFlatL2Panorama(X.shape[1], levels)
    index.add(X)
    return index.search(Q, k)[1]


def as_in_brute_force(X: np.ndarray, Q: np.ndarray, rows: np.ndarray, k: int) -> str:
    """Against a float64 brute force, ties aside: equal if every chosen row is as near."""
    different = 0
    X64 = X.astype(np.float64)
    norms = np.einsum("ij,ij->i", X64, X64)
    for start in range(0, len(Q), 500):
        block = Q[start : start + 500].astype(np.float64)
        rough = norms - 2 * block @ X64.T
        candidates = np.argpartition(rough, k + 15, axis=1)[:, : k + 16]
        true = np.sqrt(((block[:, None] - X64[candidates]) ** 2).sum(axis=2))
        kth = np.sort(true, axis=1)[:, :k]
        found = rows[start : start + 500]
        mine = np.sort(np.sqrt(((block[:, None] - X64[found]) ** 2).sum(axis=2)), axis=1)
        different += int((~np.isclose(mine, kth, rtol=1e-12, atol=0)).sum())
    total = len(Q) * k
    return f"{total - different:,} of {total:,} neighbours as in float64 brute force"


def batch_job(data: Set, dtype: Any, full: bool) -> Job:
    """Many queries, the index built each time."""
    X, Q = data.X.astype(dtype), data.Q.astype(dtype)
    peers: dict[str, Any] = {}
    bars: dict[str, float] = {}
    if data.name in ("given", "digits"):
        peers["scikit-learn brute"] = lambda: (
            TheirNeighbors(n_neighbors=5, algorithm="brute")
            .fit(X)
            .kneighbors(Q, return_distance=False)
        )
        bars["scikit-learn brute"] = 8.0
    if dtype == np.float32:
        peers |= {
            "faiss flat": lambda: faiss_flat(X, Q, 5),
            "faiss Panorama": lambda: faiss_panorama(X, Q, 5),
        }
        bars |= {"faiss flat": 7.0, "faiss Panorama": 2.0} if data.name == "given" else {}
    if data.name == "isotropic":
        bars["faiss flat"] = 0.9
    return Job(
        described(X, f"5-NN of {len(Q):,} rows", data.name),
        lambda: NearestNeighbors(n_neighbors=5).fit(X).kneighbors(Q, return_distance=False),
        peers,
        lambda mine, _: as_in_brute_force(X, Q, mine, 5),
        bars if full else {},
        rounds=3 if full else 5,
    )


def plane_job(full: bool) -> Job:
    """Few columns, where trees are at home."""
    X = np.random.default_rng(0).random((100_000 if full else 20_000, 3))
    return Job(
        described(X, "5-NN of the rows themselves", "cube"),
        lambda: NearestNeighbors(n_neighbors=5).fit(X).kneighbors(return_distance=False),
        {
            "scikit-learn tree": lambda: (
                TheirNeighbors(n_neighbors=5, n_jobs=-1).fit(X).kneighbors(return_distance=False)
            )
        },
        lambda mine, theirs: (
            f"{np.mean(mine == theirs['scikit-learn tree']):.4%} of neighbours equal"
        ),
        {"scikit-learn tree": 1.0} if full else {},
    )


def graph_job(data: Set, full: bool) -> Job:
    """The 15 nearest of every row among the others."""
    X = data.all_rows
    some = np.random.default_rng(1).choice(len(X), min(1_000, len(X)), replace=False)

    def agreement(mine: Any, _: Any) -> str:
        return as_in_brute_force_without_itself(X, some, mine[some])

    return Job(
        described(X, "15-NN graph of the rows themselves", data.name),
        lambda: NearestNeighbors(n_neighbors=15).fit(X).kneighbors(return_distance=False),
        {"faiss flat": lambda: faiss_flat(X, X, 16)},
        agreement,
        {"faiss flat": 8.0} if full and data.name == "given" else {},
        rounds=1 if full else 3,
    )


def as_in_brute_force_without_itself(X: np.ndarray, some: np.ndarray, rows: np.ndarray) -> str:
    """A sample of rows, each against all others, in float64."""
    wrong = 0
    k = rows.shape[1]
    X64 = X.astype(np.float64)
    for i, found in zip(some, rows, strict=True):
        squares = ((X64 - X64[i]) ** 2).sum(axis=1)
        mine = np.sort(squares[found])
        squares[i] = np.inf
        kth = np.sort(np.partition(squares, k)[:k])
        wrong += int((~np.isclose(mine, kth, rtol=1e-12, atol=0)).sum() or i in found)
    total = len(some) * k
    return f"{total - wrong:,} of {total:,} sampled neighbours as in float64 brute force"


def median_of_single(ask: Callable[[np.ndarray], Any], Q: np.ndarray) -> tuple[float, Any]:
    """Seconds of one call with one row, the median of as many as there are."""
    seconds, found = [], []
    for row in Q:
        started = time.perf_counter()
        found.append(ask(row[None]))
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), np.vstack(found)


def one_query_job(name: str, X: np.ndarray, Q: np.ndarray, full: bool) -> Job:
    """One query on a fitted index; the job's time is the median of 200."""
    Q = np.ascontiguousarray(Q[:200])
    mine = NearestNeighbors(n_neighbors=5).fit(X)
    brute = TheirNeighbors(n_neighbors=5, algorithm="brute").fit(X)
    default = TheirNeighbors(n_neighbors=5).fit(X)
    peers: dict[str, Any] = {
        "scikit-learn brute": lambda q: brute.kneighbors(q, return_distance=False),
        "scikit-learn": lambda q: default.kneighbors(q, return_distance=False),
    }
    bars = {"scikit-learn brute": 2.0, "scikit-learn": 2.0}
    if X.dtype == np.float32:
        import faiss

        flat = faiss.IndexFlatL2(X.shape[1])
        flat.add(X)
        peers["faiss flat"] = lambda q: flat.search(q, 5)[1]
        bars = {"scikit-learn brute": 10.0, "faiss flat": 10.0}
    return Job(
        described(X, "one query, fitted index", name),
        lambda: median_of_single(lambda q: mine.kneighbors(q, return_distance=False), Q),
        {peer: lambda ask=ask: median_of_single(ask, Q) for peer, ask in peers.items()},
        lambda ours, _: as_in_brute_force(X, Q, ours[1], 5),
        bars if full else {},
        rounds=3,
        seconds=lambda result: result[0],
    )


def predict_job(n: int, d: int, full: bool) -> Job:
    """A small table: fit and predict all rows."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=n)
    X = rng.standard_normal((n, d)) + y[:, None] * rng.standard_normal(d)
    return Job(
        described(X, "KNeighborsClassifier fit and predict", "small"),
        lambda: KNeighborsClassifier().fit(X, y).predict(X),
        {"scikit-learn": lambda: TheirClassifier().fit(X, y).predict(X)},
        lambda mine, theirs: f"{np.mean(mine == theirs['scikit-learn']):.2%} of predictions equal",
        {"scikit-learn": 1.0} if full else {},
        rounds=9,
    )
