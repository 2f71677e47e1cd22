"""The metric learners against metric-learn, which runs in an environment of its own.

metric-learn 0.7 needs scikit-learn < 1.6, Nearfold a later one: `peer_python` makes `.venv-peer`
beside `.venv`, and `fit_peer` runs one fit there. Both sides are timed around `fit` alone, the
best of a few; what they learned is judged here, by the same code. "plain" is the judgement of the
Euclidean distance: a peer that scores just that may have spent its time without learning (its MMC
returns the identity it starts from where its projections do not converge), and then the ratio is
not one of times to the same result. Learners that draw draw differently on the two sides.

    python -m bench.metrics --data iris wine --only lmnn
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from bench.measure import Line, peak_megabytes, timed
from bench.sets import load
from nearfold import PCA
from nearfold.metrics.drawing import draw_pairs

ROOT = Path(__file__).parents[1]
PEER = ROOT / ".venv-peer"
# metric-learn's SDML passes scikit-learn a `cov_init` that 1.5 no longer has.
REQUIREMENTS = ("metric-learn==0.7.0", "scikit-learn==1.4.2")
SECONDS_AT_MOST = 120.0
DATA = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
}


# ---- the peer's environment ----------------------------------------------------------


@cache
def peer_python() -> Path:
    """The Python that has metric-learn; its environment is made if there is none."""
    python = PEER / "bin" / "python"
    if not python.exists():
        venv.create(PEER, with_pip=True)
        (PEER / ".gitignore").write_text("*\n")
    if subprocess.run([str(python), "-c", "import metric_learn"], capture_output=True).returncode:
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *REQUIREMENTS], check=True)
    return python


@dataclass
class PeerFit:
    """What the peer learned and how long it took, or why it did not."""

    components: np.ndarray | None = None
    seconds: float = float("nan")
    error: str = ""


def fit_peer(
    name: str,
    arguments: tuple[np.ndarray, ...],
    params: dict[str, Any],
    repeats: int = 5,
    seconds_at_most: float = SECONDS_AT_MOST,
) -> PeerFit:
    """Fit metric-learn's class of that name to these arguments, in its own process."""
    python = peer_python()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        job = {"name": name, "params": params, "repeats": repeats}
        (folder / "job.json").write_text(json.dumps({**job, "seconds_at_most": seconds_at_most}))
        np.savez(folder / "job.npz", **{f"a{i}": a for i, a in enumerate(arguments)})
        command = [str(python), str(Path(__file__).with_name("metric_learn_worker.py")), place]
        try:  # the worker stops itself; this is for a library that does not let it
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=2 * seconds_at_most + 60
            )
        except subprocess.TimeoutExpired:
            return PeerFit(error=f"> {seconds_at_most:g} s")
        if (folder / "error.txt").exists():
            return PeerFit(error=(folder / "error.txt").read_text())
        if done.returncode != 0:
            return PeerFit(error=(done.stderr.strip().splitlines() or ["no message"])[-1])
        with np.load(folder / "result.npz") as file:
            return PeerFit(file["components"], float(file["seconds"]))


# ---- one line ------------------------------------------------------------------------


@dataclass
class Contest:
    """One line of the table: the same class, parameters and data on both sides."""

    job: str
    name: str
    module: str
    arguments: tuple[np.ndarray, ...]
    judge: Callable[[np.ndarray], float]  # of the learned map; the larger the better
    what: str  # that the judge measures
    params: dict[str, Any] = field(default_factory=dict)
    repeats: int = 5
    bar: float = 5.0  # where the peer takes more than a second

    def ours(self) -> Any:
        learner = getattr(import_module(f"nearfold.metrics.{self.module}"), self.name)
        return learner(**self.params).fit(*self.arguments)


def run_contest(contest: Contest) -> Line:
    """Time both sides; a peer that fails or takes too long is said in the agreement."""
    warnings.simplefilter("ignore")  # of convergence, on both sides
    model = contest.ours()  # it may compile
    seconds = min(timed(contest.ours)[0] for _ in range(contest.repeats))
    mine = contest.judge(model.components_)
    peer = fit_peer(contest.name, contest.arguments, contest.params, contest.repeats)
    if peer.components is not None:
        theirs, said = peer.seconds, _judged(contest, peer.components)
    elif peer.error.startswith(">"):  # the ratio is then a lower bound
        theirs, said = SECONDS_AT_MOST, f"- (stopped, {peer.error})"
    else:
        theirs, said = float("nan"), f"- ({shorten(peer.error)})"
    plain = contest.judge(np.eye(contest.arguments[0].shape[-1]))
    return Line(
        contest.job,
        seconds,
        "metric-learn",
        theirs,
        theirs / seconds,
        contest.bar if theirs > 1 else 1.0 if theirs > 0 else None,
        f"{contest.what} {mine:.4g}, theirs {said}, plain {plain:.4g}",
        peak_megabytes(contest.ours),
    )


def shorten(message: str) -> str:
    """The kind of error, and the end of the message, where metric-learn quotes the cause."""
    kind, _, text = " ".join(message.split()).partition(": ")
    return f"{kind}: {text}" if len(text) <= 90 else f"{kind}: ...{text[-90:]}"


def _judged(contest: Contest, components: np.ndarray) -> str:
    if not np.isfinite(components).all():
        return "- (NaN)"
    return f"{contest.judge(components):.4g}"


# ---- what is measured ----------------------------------------------------------------


def halves(X: np.ndarray, y: np.ndarray, classes: bool = True) -> tuple[np.ndarray, ...]:
    """Train and test rows, standardised by the former, and their y."""
    parts = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y if classes else None)
    A, B, a, b = parts
    scaler = StandardScaler().fit(A)
    return scaler.transform(A), scaler.transform(B), a, b


def neighbours_score(parts: tuple[np.ndarray, ...], learner: Any, L: np.ndarray) -> float:
    """Accuracy (or R^2) of 3-NN on the other half, in the learned space."""
    A, B, a, b = parts
    return float(learner.fit(A @ L.T, a).score(B @ L.T, b))


def separation(points: np.ndarray, sign: np.ndarray, L: np.ndarray) -> float:
    """Sum of distances of cannot-link pairs over the root of the must-link sum of squares."""
    distance = np.linalg.norm((points[:, 0] - points[:, 1]) @ L.T, axis=1)
    return float(distance[sign < 0].sum() / np.sqrt(np.sum(distance[sign > 0] ** 2)))


def pair_contests() -> Iterator[Contest]:
    """MMC on pairs of breast cancer: its own objective, free of scale."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    for count in (200, 2000):
        pairs = draw_pairs(X, y, count // 2, np.random.RandomState(0))
        points = X[pairs.rows]
        yield Contest(
            f"MMC, breast cancer, {count:,} pairs",
            "MMC",
            "mmc",
            (points, pairs.sign),
            partial(separation, points, pairs.sign),
            "objective",
            bar=20.0,
        )


def label_contests(datasets: list[str]) -> Iterator[Contest]:
    """The learners from labels: 3-NN on the half they did not see."""
    for data in datasets:
        X, y = DATA[data](return_X_y=True)
        parts = halves(X, y)
        A, _, a, _ = parts
        judge = partial(neighbours_score, parts, KNeighborsClassifier(3))
        chunks = min(100, int(np.sum(np.bincount(a) // 2)))  # metric-learn fails for more
        seeded = {"random_state": 0}
        learners: list[tuple[str, str, dict[str, Any], np.ndarray]] = [
            ("LMNN", "lmnn", seeded, a),
            ("ITML_Supervised", "itml", seeded, a),
            ("LSML_Supervised", "lsml", seeded, a),
            ("SDML_Supervised", "sdml", seeded, a),
            ("RCA_Supervised", "rca", {**seeded, "n_chunks": chunks}, a),
            ("LFDA", "lfda", {}, a),
            ("MLKR", "mlkr", seeded, a.astype(np.float64)),
            ("SCML_Supervised", "scml", seeded, a),
            ("NCA", "nca", seeded, a),
        ]
        for name, module, params, target in learners:
            job = f"{name}, {data} {A.shape[0]:,} x {A.shape[1]}"
            yield Contest(job, name, module, (A, target), judge, "3-NN", params)


def large_margin_contest(path: str) -> Contest:
    """LMNN on 5,000 rows of a given table, in 64 principal directions."""
    data = load(path)
    X = PCA(64).fit_transform(data.X[:10_000]).astype(np.float64)
    parts = halves(X, data.y[:10_000])
    A, _, a, _ = parts
    judge = partial(neighbours_score, parts, KNeighborsClassifier(3))
    job = f"LMNN, given {A.shape[0]:,} x {A.shape[1]}"
    return Contest(job, "LMNN", "lmnn", (A, a), judge, "3-NN", {"random_state": 0}, repeats=1)


def regression_contests() -> Iterator[Contest]:
    """MLKR where it belongs."""
    X, y = load_diabetes(return_X_y=True)
    parts = halves(X, y, classes=False)
    A, _, a, _ = parts
    judge = partial(neighbours_score, parts, KNeighborsRegressor(3))
    job = f"MLKR, diabetes {A.shape[0]:,} x {A.shape[1]}"
    yield Contest(job, "MLKR", "mlkr", (A, a), judge, "3-NN R^2", {"random_state": 0})


def metric_lines(
    only: str = "", datasets: list[str] | None = None, path: str | None = None
) -> Iterator[Line]:
    """All lines whose name contains `only`, one at a time."""
    contests = [*pair_contests(), *label_contests(datasets or list(DATA)), *regression_contests()]
    contests += [large_margin_contest(path)] if path else []
    for contest in contests:
        if only.lower() in contest.job.lower():
            yield run_contest(contest)


def main() -> None:
    from rich.console import Console

    from bench.__main__ import table_of

    parser = argparse.ArgumentParser(prog="python -m bench.metrics", description=__doc__)
    parser.add_argument("--data", nargs="*", choices=list(DATA), help="default: all")
    parser.add_argument("--only", default="", help="run only jobs whose name contains this")
    options = parser.parse_args()
    lines = []
    for line in metric_lines(options.only, options.data):
        lines.append(line)
        print(f"{line.job}: {line.ratio:.2f}x; {line.agreement}", file=sys.stderr)
    Console(width=200).print(table_of(lines))


if __name__ == "__main__":
    main()
