"""NCA against scikit-learn on some thousand rows, and alone on all of them."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
from sklearn.decomposition import PCA as TheirPCA
from sklearn.neighbors import NeighborhoodComponentsAnalysis as TheirNCA

from bench.measure import Job
from bench.sets import Set
from nearfold import NCA, KNeighborsClassifier
from nearfold.metrics.nca import objective


def nca_job(data: Set, n: int, scale: float, shared: bool, full: bool) -> Job:
    """The same tolerance and most iterations on both sides, on rows divided by `scale`.

    Each side from its own default start, or both from one array, scikit-learn's PCA: starts that
    differ in rounding lead L-BFGS along different paths, and the ratio of times is then one of
    numbers of evaluations, too.
    """
    warnings.simplefilter("ignore")  # of convergence, on both sides
    X, y, Q, r = data.X[:n] / scale, data.y[:n], data.Q / scale, data.r
    options: dict[str, Any] = {"n_components": 32, "random_state": 0}
    if shared:
        options["init"] = TheirPCA(32, random_state=0).fit(X).components_
    order = np.argsort(y, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(y))])

    def judged(L: np.ndarray) -> tuple[float, float]:
        value = objective(X[order], starts, L.astype(np.float64))[0] / len(y)
        near = KNeighborsClassifier(5).fit(X @ L.T, y)
        return value, near.score(Q @ L.T, r)

    def agreement(mine: Any, theirs: Any) -> str:
        (f, a), (g, b) = judged(mine.components_), judged(theirs["scikit-learn"].components_)
        return (
            f"objective {f:.5f}, theirs {g:.5f} ({f / g - 1:+.2%}); 5-NN {a:.4f}, theirs {b:.4f}; "
            f"{mine.n_iter_} iterations"
        )

    return Job(
        f"NCA to 32, {'one start' if shared else 'own starts'}, {data.name} {len(X):,} x "
        f"{X.shape[1]}, {X.dtype}",
        lambda: NCA(**options).fit(X, y),
        {"scikit-learn": lambda: TheirNCA(**options).fit(X, y)},
        agreement,
        {"scikit-learn": 15.0} if full else {},
        rounds=3,
    )


def all_rows_report(path: str | None, budget: str) -> str:
    """NCA on all training rows, in a process of its own, within a memory budget."""
    lines = []
    for options in ("", ", trace_penalty=0.015"):
        script = _SCRIPT.format(path=path, budget=budget, options=options)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        said = done.stdout.strip() or done.stderr.strip().splitlines()[-1]
        lines.append(f"NCA(32{options}), budget {budget}: {said}")
    return "\n".join(lines)


_SCRIPT = """
import re, time, warnings, numpy as np, nearfold
from bench.sets import load
from nearfold import NCA, PCA, KNeighborsClassifier
warnings.simplefilter("ignore")
data = load({path!r})
X, y, Q, r = data.X, data.y, data.Q, data.r
X, Q = ((A / np.float32(255 if X.max() > 100 else 16)).astype(np.float32) for A in (X, Q))
nearfold.set_memory("{budget}")
status = lambda word: int(re.search(word + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
before = status("VmRSS")
started = time.perf_counter()
model = NCA(32, random_state=0{options}).fit(X, y)
seconds = time.perf_counter() - started
peak = (status("VmHWM") - before) / 1024**2
score = lambda m: KNeighborsClassifier(5).fit(m.transform(X), y).score(m.transform(Q), r)
print(f"{{len(X):,}} rows in {{seconds:.0f}} s ({{model.solver_}}), peak {{peak:.2f}} GB above the "
      f"data; held-out 5-NN {{score(model):.4f}}, PCA to 32 {{score(PCA(32).fit(X)):.4f}}")
"""
