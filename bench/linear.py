"""The linear methods: PCA, IncrementalPCA and LDA; files larger than the budget."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA as TheirPCA
from sklearn.decomposition import IncrementalPCA as TheirIncrementalPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as TheirLDA

from bench.measure import Job
from bench.sets import Set
from nearfold import PCA, IncrementalPCA, LinearDiscriminantAnalysis


def linear_jobs(sets: list[Set], full: bool) -> Iterator[Job]:
    """All jobs, one at a time, so that each frees its data before the next."""
    X = sets[0].all_rows
    for dtype in (np.float32, np.float64):
        for n_components in (50, 0.95):
            yield pca_job(X.astype(dtype), n_components, full)
    yield incremental_job(X, full)
    yield wide_job(full)
    for data in sets:
        yield lda_job(data, np.float32, full)
    yield lda_job(sets[0], np.float64, full)
    yield lda_batches_job(sets[0], full)


def name_of(X: np.ndarray, what: str, where: str = "") -> str:
    return f"{what}, {where}{len(X):,} x {X.shape[1]}, {X.dtype}"


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


def lda_job(data: Set, dtype: Any, full: bool) -> Job:
    X, Q = data.X.astype(dtype), data.Q.astype(dtype)
    return Job(
        name_of(X, "LDA fit", f"{data.name} "),
        lambda: LinearDiscriminantAnalysis().fit(X, data.y),
        {"scikit-learn svd": lambda: TheirLDA().fit(X, data.y)},
        lambda mine, theirs: (
            f"{np.mean(mine.predict(Q) == theirs['scikit-learn svd'].predict(Q)):.2%}"
            f" of {len(Q):,} predictions equal"
        ),
        {"scikit-learn svd": 8.0} if full else {},
        rounds=3,
    )


def lda_batches_job(data: Set, full: bool) -> Job:
    """Batches of 1,000 rows against one fit of ours."""
    X, y = data.X, data.y
    classes = np.unique(y)

    def in_batches() -> Any:
        model = LinearDiscriminantAnalysis()
        for start in range(0, len(X), 1000):
            rows = slice(start, start + 1000)
            model.partial_fit(X[rows], y[rows], classes=classes)
        model.coef_  # noqa: B018  (found when it is asked for)
        return model

    def agreement(mine: Any, theirs: Any) -> str:
        same = np.mean(mine.predict(data.Q) == theirs["one fit of ours"].predict(data.Q))
        return f"{same:.2%} of {len(data.Q):,} predictions equal"

    return Job(
        name_of(X, "LDA partial_fit, batches of 1,000", f"{data.name} "),
        in_batches,
        {"one fit of ours": lambda: LinearDiscriminantAnalysis().fit(X, y)},
        agreement,
        {"one fit of ours": 1 / 1.5} if full else {},
        rounds=3,
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
