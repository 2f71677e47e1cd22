"""The jobs, as the README quotes them: the linear methods here, the others in manifolds.py."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA as TheirPCA
from sklearn.decomposition import IncrementalPCA as TheirIncrementalPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as TheirLDA
from sklearn.neighbors import NearestNeighbors as TheirNeighbors

from bench.manifolds import manifold_jobs
from bench.measure import Job
from bench.nca import nca_job
from bench.study import trust_job
from nearfold import PCA, IncrementalPCA, LinearDiscriminantAnalysis, NearestNeighbors

Table = tuple[np.ndarray, np.ndarray]


def load(path: str | None) -> tuple[Table, Table]:
    """(train, test): the given .npz with X and y, or the digits enlarged by shifts and noise."""
    if path is not None:
        with np.load(path) as file:
            X, y = file["X"], file["y"]
        cut = len(X) * 6 // 7
        return (X[:cut], y[:cut]), (X[cut:], y[cut:])
    rng = np.random.default_rng(0)
    X, y = load_digits(return_X_y=True)
    copies = 8
    X = np.kron(X.reshape(-1, 8, 8), np.ones((1, 2, 2))).reshape(len(X), -1)
    X = np.vstack([X + rng.normal(scale=1.0, size=X.shape) for _ in range(copies)])
    y = np.tile(y, copies)
    order = rng.permutation(len(X))
    X, y = X[order], y[order]
    cut = len(X) * 6 // 7
    return (X[:cut], y[:cut]), (X[cut:], y[cut:])


def jobs(path: str | None) -> Iterator[Job]:
    """All jobs, one at a time, so that each frees its data before the next."""
    (X, y), (Q, r) = load(path)
    full = path is not None
    for dtype in (np.float32, np.float64):
        yield neighbours_job(X.astype(dtype), Q.astype(dtype), full)
    yield gaussian_job(full)
    yield plane_job(full)
    both = np.vstack([X, Q])
    for dtype in (np.float32, np.float64):
        for n_components in (50, 0.95):
            yield pca_job(both.astype(dtype), n_components, full)
    yield incremental_job(both.astype(np.float32), full)
    yield wide_job(full)
    for dtype in (np.float32, np.float64):
        yield lda_job(X.astype(dtype), y, Q.astype(dtype), full)
    yield import_job()
    yield from manifold_jobs(both, full)
    scale = 255.0 if full else 16.0
    n = 5000 if full else 1500
    yield nca_job(X[:n] / scale, y[:n], Q / scale, r, full)
    yield trust_job(both[:n].astype(np.float32))


def name_of(X: np.ndarray, what: str) -> str:
    return f"{what}, {len(X):,} x {X.shape[1]}, {X.dtype}"


def faiss_search(X: np.ndarray, Q: np.ndarray, k: int) -> Any:
    import faiss

    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)
    return index.search(Q, k)[1]


def same_neighbours(X: np.ndarray, Q: np.ndarray, rows: np.ndarray, k: int = 5) -> str:
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


def neighbours_job(X: np.ndarray, Q: np.ndarray, full: bool) -> Job:
    peers: dict[str, Any] = {
        "scikit-learn brute": lambda: (
            TheirNeighbors(n_neighbors=5, algorithm="brute")
            .fit(X)
            .kneighbors(Q, return_distance=False)
        )
    }
    bars = {"scikit-learn brute": 8.0}
    if X.dtype == np.float32:
        peers["faiss flat"] = lambda: faiss_search(X, Q, 5)
        bars["faiss flat"] = 4.0
    return Job(
        name_of(X, f"5-NN of {len(Q):,} rows in"),
        lambda: NearestNeighbors(n_neighbors=5).fit(X).kneighbors(Q, return_distance=False),
        peers,
        lambda mine, _: same_neighbours(X, Q, mine),
        bars if full else {},
        rounds=3 if full else 5,
    )


def gaussian_job(full: bool) -> Job:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60_000 if full else 10_000, 256), dtype=np.float32)
    Q = rng.standard_normal((10_000 if full else 3_000, 256), dtype=np.float32)
    return Job(
        name_of(X, f"5-NN of {len(Q):,} rows, isotropic"),
        lambda: NearestNeighbors(n_neighbors=5).fit(X).kneighbors(Q, return_distance=False),
        {"faiss flat": lambda: faiss_search(X, Q, 5)},
        lambda mine, _: same_neighbours(X, Q, mine),
        {"faiss flat": 0.9} if full else {},
    )


def plane_job(full: bool) -> Job:
    X = np.random.default_rng(0).random((100_000 if full else 20_000, 3))
    return Job(
        name_of(X, "5-NN of the rows themselves"),
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


def axes_agreement(mine: Any, reference: Any) -> str:
    """Largest relative difference of variances, and sine of the angle between the subspaces."""
    k = mine.n_components_
    variance = np.abs(mine.explained_variance_ / reference.explained_variance_[:k] - 1).max()
    A = mine.components_.astype(np.float64)
    B = reference.components_[:k].astype(np.float64)
    outside = np.linalg.norm(A - (A @ B.T) @ B, 2)
    return f"k = {k}; variances to {variance:.0e}, subspace to {outside:.0e}"


def pca_job(X: np.ndarray, n_components: float, full: bool) -> Job:
    reference = TheirPCA(n_components, svd_solver="covariance_eigh").fit(X.astype(np.float64))
    what = f"PCA to {n_components}" if n_components > 1 else f"PCA to {n_components:.0%}"
    return Job(
        name_of(X, what),
        lambda: PCA(n_components).fit(X),
        {"X.T @ X": lambda: X.T @ X, "scikit-learn": lambda: TheirPCA(n_components).fit(X)},
        lambda mine, _: axes_agreement(mine, reference),
        {"X.T @ X": 0.8, "scikit-learn": 1.0} if full else {},
        rounds=9,
    )


def incremental_job(X: np.ndarray, full: bool) -> Job:
    def fit(cls: Any) -> Any:
        model = cls(50)
        for start in range(0, len(X) - 999, 1000):
            model.partial_fit(X[start : start + 1000])
        model.components_  # noqa: B018  (ours finds the axes when they are asked for)
        return model

    batch = PCA(50).fit(X[: len(X) // 1000 * 1000])

    def agreement(mine: Any, theirs: Any) -> str:
        other = axes_agreement(theirs["scikit-learn"], batch)
        return f"to batch PCA: {axes_agreement(mine, batch)} (scikit-learn's: {other})"

    return Job(
        name_of(X, "IncrementalPCA to 50, batches of 1,000"),
        lambda: fit(IncrementalPCA),
        {"scikit-learn": lambda: fit(TheirIncrementalPCA)},
        agreement,
        {"scikit-learn": 20.0} if full else {},
        rounds=3,
    )


def wide_job(full: bool) -> Job:
    rng = np.random.default_rng(0)
    m, d = (2_000, 20_000) if full else (500, 5_000)
    spectrum = np.linspace(3.0, 1.0, 100)
    X = rng.standard_normal((m, d), dtype=np.float32)
    X += (rng.standard_normal((m, 100)) * spectrum @ rng.standard_normal((100, d))).astype("f4")
    exact = TheirPCA(50, svd_solver="full").fit(X.astype(np.float64))
    return Job(
        name_of(X, "PCA to 50, wide"),
        lambda: PCA(50).fit(X),
        {"scikit-learn auto": lambda: TheirPCA(50, random_state=0).fit(X)},
        lambda mine, theirs: (
            f"to float64 SVD: {axes_agreement(mine, exact)}"
            f" (scikit-learn's: {axes_agreement(theirs['scikit-learn auto'], exact)})"
        ),
        {"scikit-learn auto": 1.0} if full else {},
    )


def lda_job(X: np.ndarray, y: np.ndarray, Q: np.ndarray, full: bool) -> Job:
    return Job(
        name_of(X, "LDA fit"),
        lambda: LinearDiscriminantAnalysis().fit(X, y),
        {"scikit-learn svd": lambda: TheirLDA().fit(X, y)},
        lambda mine, theirs: (
            f"{np.mean(mine.predict(Q) == theirs['scikit-learn svd'].predict(Q)):.2%}"
            f" of {len(Q):,} predictions equal"
        ),
        {"scikit-learn svd": 8.0} if full else {},
        rounds=3,
    )


def import_job() -> Job:
    def start(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    return Job(
        "python -c 'import nearfold'",
        lambda: start("import nearfold"),
        {
            "import sklearn": lambda: start("import sklearn"),
            "nearfold --help": lambda: subprocess.run(
                [str(Path(sys.executable).parent / "nearfold"), "--help"],
                check=True,
                capture_output=True,
            ),
        },
        lambda *_: "-",
    )


def streaming_report(full: bool) -> str:
    """PCA of a file four times the budget: a process of its own, its peak and its agreement."""
    rows, d, budget = (400_000, 100, 80) if full else (200_000, 100, 40)
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((d, d)) * np.linspace(1, 0.05, d)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        X = rng.standard_normal((rows, d)) @ mix + 3.0
        reference = PCA(20).fit(X)
        for suffix in ("npy", "parquet", "csv"):
            path = Path(folder) / f"table.{suffix}"
            write_table(path, X)
            code = _STREAM.format(path=str(path), budget=budget)
            done = subprocess.run(
                [sys.executable, "-c", code], check=True, capture_output=True, text=True
            )
            peak, *values = (float(v) for v in done.stdout.split())
            off = np.abs(np.array(values) / reference.explained_variance_ - 1).max()
            lines.append(
                f"PCA streamed from .{suffix}: data {X.nbytes / 2**20:.0f} MB, budget {budget} MB, "
                f"peak {peak:.0f} MB above the imports, variances to {off:.0e} of in-memory"
            )
    return "\n".join(lines)


def write_table(path: Path, X: np.ndarray) -> None:
    import polars as pl

    if path.suffix == ".npy":
        np.save(path, X)
        return
    frame = pl.DataFrame(X, schema=[f"c{i}" for i in range(X.shape[1])])
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path, row_group_size=10_000)


_STREAM = """
import re, numpy as np, polars, nearfold
from nearfold import PCA
nearfold.set_memory("{budget}MB")
PCA(2).fit(np.random.default_rng(0).normal(size=(50, 5)))
status = lambda word: int(re.search(word + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
before = status("VmRSS")
model = PCA(20).fit("{path}")
peak = (status("VmHWM") - before) / 1024
print(peak, *(f"{{v:.17g}}" for v in model.explained_variance_))
"""
