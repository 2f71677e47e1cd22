"""The first call in a fresh process, with an empty and with a filled cache of compiled code.

CPU seconds of the whole process and of the call alone: what a person waits for at the prompt. The
process begins with imports that scikit-learn's users pay too; the first line says what they cost.
Python may keep its byte code, as it does for an installed package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import Job

_CALLS = {
    "NearestNeighbors": ("", "fit(X).kneighbors(X)", "neighbors"),
    "KNeighborsClassifier": ("", "fit(X, y).predict(X)", "neighbors"),
    "PCA": ("", "fit(X)", "decomposition"),
    "LinearDiscriminantAnalysis": ("", "fit(X, y)", "discriminant_analysis"),
    "KernelPCA": ("n_components=2, kernel='rbf'", "fit(X)", "decomposition"),
    "ClassicalMDS": ("", "fit(X)", "manifold"),
    "MDS": ("max_iter=10, n_init=1", "fit(X)", "manifold"),
    "Isomap": ("", "fit(X)", "manifold"),
    "LocallyLinearEmbedding": ("", "fit(X)", "manifold"),
    "NeighborhoodComponentsAnalysis": ("max_iter=10", "fit(X, y)", "neighbors"),
    "LMNN": ("max_iter=10", "fit(X, y)", None),
    "ITML": ("max_iter=10", "fit(X, y)", None),
    "SCML": ("max_iter=1000", "fit(X, y)", None),
    "RCA": ("", "fit(X, y)", None),
    "LFDA": ("", "fit(X, y)", None),
}
_SCRIPT = """
import importlib, time, warnings, numpy as np
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
y = rng.integers(5, size=3000)
X = rng.normal(size=(3000, 50)) + 0.5 * y[:, None] * (np.arange(50) < 5)
{imports}
started = time.process_time()
getattr(importlib.import_module("{module}"), "{name}")({options}).{call}
print(time.process_time() - started, time.process_time())
"""
_OURS = "import sklearn.base, sklearn.neighbors, nearfold"


def first_call_report(only: str = "") -> str:
    """A line for each estimator: ours twice, then scikit-learn's."""
    lines = ["first call, 3,000 x 50, CPU s of the call (of the process); bars 3 and 1 s"]
    lines.append(f"import sklearn.base, sklearn.neighbors alone: {_imports_alone():.2f}")
    for name, (options, call, peer) in _CALLS.items():
        if only.lower() not in f"first call {name}".lower():
            continue
        with tempfile.TemporaryDirectory() as cache:
            empty, filled = (_run("nearfold", name, options, call, cache) for _ in range(2))
        line = f"{name}: empty cache {empty}, filled {filled}"
        if peer is not None:
            line += f", scikit-learn {_run(f'sklearn.{peer}', name, options, call, None)}"
        lines.append(line)
    return "\n".join(lines)


def _run(module: str, name: str, options: str, call: str, cache: str | None) -> str:
    imports = _OURS if cache else f"import {module}"
    script = _SCRIPT.format(module=module, name=name, options=options, call=call, imports=imports)
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    own, process = map(float, done.stdout.split())
    return f"{own:.2f} ({process:.2f})"


def _imports_alone() -> float:
    script = "import time, sklearn.base, sklearn.neighbors; print(time.process_time())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    return float(done.stdout)


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
