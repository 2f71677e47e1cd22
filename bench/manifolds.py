"""The jobs of the manifold methods, and the runs on all rows within a memory budget."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.spatial import procrustes
from scipy.spatial.distance import cdist
from sklearn.datasets import make_swiss_roll
from sklearn.decomposition import KernelPCA as TheirKernelPCA
from sklearn.manifold import ClassicalMDS as TheirClassicalMDS
from sklearn.manifold import Isomap as TheirIsomap
from sklearn.manifold import LocallyLinearEmbedding as TheirLLE
from sklearn.manifold import smacof as their_smacof

from bench.measure import Job
from nearfold import MDS, PCA, ClassicalMDS, Isomap, KernelPCA, LocallyLinearEmbedding


def manifold_jobs(X: np.ndarray, full: bool) -> Iterator[Job]:
    """X: all rows, values of 0 to 255 or the like."""
    warnings.simplefilter("ignore")  # peers and ours warn of graphs in pieces and of iterations
    n = 1 if full else 4
    yield classical_job(X[: 5000 // n].astype(np.float64), full)
    yield principal_job(X.astype(np.float32), full)
    yield smacof_job(X[: 2000 // n].astype(np.float64), full)
    yield kernel_job((X[: 10_000 // n] / np.float32(255)).astype(np.float32), full)
    roll = make_swiss_roll(10_000 // n, random_state=0)[0]
    yield isomap_job("swiss roll", roll[: 5000 // n], 5, full)
    yield isomap_job("digits", X[: 10_000 // n].astype(np.float32), 5, full)
    yield lle_job("swiss roll", roll, 12, 6.0, full)
    yield lle_job("digits", X[: 20_000 // n].astype(np.float32), 5, 15.0, full)


def classical_job(X: np.ndarray, full: bool) -> Job:
    D = cdist(X, X)

    def agreement(mine: Any, theirs: Any) -> str:
        off = np.abs(mine.eigenvalues_ / theirs["scikit-learn"].eigenvalues_ - 1).max()
        return f"eigenvalues to {off:.0e}"

    return Job(
        f"ClassicalMDS to 2, {len(D):,} precomputed, float64",
        lambda: ClassicalMDS(2, metric="precomputed").fit(D),
        {"scikit-learn": lambda: TheirClassicalMDS(2, metric="precomputed").fit(D)},
        agreement,
        {"scikit-learn": 60.0} if full else {},
        rounds=3,
    )


def principal_job(X: np.ndarray, full: bool) -> Job:
    return Job(
        f"ClassicalMDS to 2 from features, {len(X):,} x {X.shape[1]}, float32",
        lambda: ClassicalMDS(2).fit(X),
        {"PCA of ours, fit_transform": lambda: PCA(2).fit_transform(X)},
        lambda mine, theirs: (
            f"to PCA: {np.abs(mine.embedding_ - next(iter(theirs.values()))).max():.0e}"
        ),
        {"PCA of ours, fit_transform": 0.8} if full else {},
        rounds=5,
    )


def smacof_job(X: np.ndarray, full: bool) -> Job:
    """From one start to the stress that scikit-learn ends with; ours takes the steps it needs."""
    D = cdist(X, X)
    start = np.random.default_rng(0).uniform(size=(len(D), 2)) * D.max()

    def theirs() -> Any:
        return their_smacof(D, init=start, n_init=1, normalized_stress=False, return_n_iter=True)

    _, goal, steps = theirs()

    def ours(iterations: int) -> Any:
        return MDS(2, metric="precomputed", max_iter=iterations, eps=0).fit(D, init=start)

    needed = next(n for n in range(5, 10 * steps, 5) if ours(n).stress_ <= goal)

    def agreement(mine: Any, _: Any) -> str:
        return f"stress {mine.stress_ / goal - 1:+.1e} after {needed} steps, theirs {steps}"

    return Job(
        f"MDS (SMACOF) to 2, {len(D):,}, to the same stress",
        lambda: ours(needed),
        {"scikit-learn": theirs},
        agreement,
        {"scikit-learn": 20.0} if full else {},
        rounds=3,
    )


def angle(A: np.ndarray, B: np.ndarray) -> float:
    """Sine of the largest angle between two subspaces."""
    A, B = (np.linalg.qr(V.astype(np.float64))[0] for V in (A, B))
    return float(np.linalg.norm(A - B @ (B.T @ A), 2))


def kernel_job(X: np.ndarray, full: bool) -> Job:
    exact = TheirKernelPCA(10, kernel="rbf", eigen_solver="arpack").fit(X.astype(np.float64))

    def their(solver: str) -> Any:
        return TheirKernelPCA(10, kernel="rbf", eigen_solver=solver, random_state=0).fit(X)

    return Job(
        f"KernelPCA rbf to 10, {len(X):,} x {X.shape[1]}, float32",
        lambda: KernelPCA(10, kernel="rbf").fit(X),
        {
            "X @ X.T": lambda: X @ X.T,
            "scikit-learn arpack": lambda: their("arpack"),
            "scikit-learn randomized": lambda: their("randomized"),
        },
        lambda mine, _: (
            f"subspace to {angle(mine.eigenvectors_, exact.eigenvectors_):.0e} of float64"
        ),
        {"scikit-learn arpack": 4.0, "scikit-learn randomized": 4.0} if full else {},
        rounds=3,
    )


def isomap_job(what: str, X: np.ndarray, k: int, full: bool) -> Job:
    def agreement(mine: Any, theirs: Any) -> str:
        other = theirs["scikit-learn"]
        Z, Y = mine.embedding_.astype(np.float64), other.embedding_.astype(np.float64)
        Z = Z * np.sign((Z * Y).sum(axis=0))
        far = other.dist_matrix_.max()
        off = np.abs(mine.dist_matrix_ - other.dist_matrix_).max() / far
        return f"geodesics to {off:.0e}, embedding to {np.abs(Z - Y).max() / np.abs(Y).max():.0e}"

    return Job(
        f"Isomap to 2, k = {k}, {what} {len(X):,} x {X.shape[1]}, {X.dtype}",
        lambda: Isomap(n_neighbors=k).fit(X),
        {"scikit-learn": lambda: TheirIsomap(n_neighbors=k, n_jobs=-1).fit(X)},
        agreement,
        {"scikit-learn": 12.0} if full else {},
        rounds=3 if len(X) <= 5000 else 2,
    )


def lle_job(what: str, X: np.ndarray, k: int, bar: float, full: bool) -> Job:
    def agreement(mine: Any, theirs: Any) -> str:
        Y = theirs["scikit-learn"].embedding_
        return f"bottom subspace to {angle(mine.embedding_, Y - Y.mean(axis=0)):.0e}"

    return Job(
        f"LLE to 2, k = {k}, {what} {len(X):,} x {X.shape[1]}, {X.dtype}",
        lambda: LocallyLinearEmbedding(n_neighbors=k).fit(X),
        {"scikit-learn": lambda: TheirLLE(n_neighbors=k, n_jobs=-1, random_state=0).fit(X)},
        agreement,
        {"scikit-learn": bar} if full else {},
        rounds=3 if len(X) <= 10_000 else 1,
    )


def bounded_report(name: str, path: str | None, budget: str) -> str:
    """A method on all rows within a memory budget, in a process of its own."""
    script = _PREAMBLE.format(path=path, budget=budget) + BOUNDED[name] + _CLOSE
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    said = done.stdout.strip() or done.stderr.strip().splitlines()[-1]
    return f"{name}, budget {budget}: {said}"


def landmark_report(X: np.ndarray) -> str:
    """How far landmark Isomap is from the exact one."""
    exact = Isomap(n_neighbors=5).fit_transform(X)
    near = Isomap(n_neighbors=5, n_landmarks=min(1000, len(X) // 4)).fit_transform(X)
    apart = procrustes(exact, near)[2]
    return f"landmark Isomap against exact, {len(X):,} rows: Procrustes distance {apart:.4f}"


_PREAMBLE = """
import re, time, warnings, numpy as np, nearfold
from bench.sets import load
from nearfold import ClassicalMDS, Isomap, KernelPCA, LocallyLinearEmbedding, MDS
warnings.simplefilter("ignore")
X = load({path!r}).all_rows
nearfold.set_memory("{budget}")
status = lambda word: int(re.search(word + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
before = status("VmRSS")
started = time.perf_counter()
check = ""
"""
_CLOSE = """
how = getattr(model, "approximation_", None) or getattr(model, "route_", "exact")
print(f"{len(X):,} rows, {seconds:.1f} s, peak {peak:.2f} GB above the data; {how}{check}")
"""
_DONE = """
seconds = time.perf_counter() - started
peak = (status("VmHWM") - before) / 1024**2
"""
BOUNDED = {
    "ClassicalMDS": "model = ClassicalMDS(2).fit(X)" + _DONE,
    "MDS": "model = MDS(2).fit(X)" + _DONE,
    "MDS of 10,000 rows": "X = X[:10_000]\nmodel = MDS(2, random_state=0).fit(X)" + _DONE,
    "KernelPCA rbf to 10": """
X /= 255
started = time.perf_counter()
model = KernelPCA(10, kernel="rbf", random_state=0).fit(X)
"""
    + _DONE,
    "Isomap": "model = Isomap(n_neighbors=5).fit(X)" + _DONE,
    "LLE": """
model = LocallyLinearEmbedding(n_neighbors=5).fit(X)
"""
    + _DONE
    + """
check = f"; converged {model.converged_}"
""",
}
