"""Every method of the chapter on 1,000,000 x 100 float32 within 8 GB, each in its own process.

    python -m bench.million --json bench/results/million.json

The peak is that of the whole process: imports, compiled code, the table and the result included.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from bench.child import CELLS, Outcome, run_alone

_HOW = (
    "said['how'] = str(getattr(model, 'approximation_', None) or getattr(model, 'solver_', None)"
    " or getattr(model, 'route_', None) or 'exact')"
)
_SCORE = """
from nearfold import KNeighborsClassifier
rows = np.random.default_rng(1).permutation(len(X))[:60_000]
A, B = np.split(rows, [len(rows) * 5 // 6])
near = KNeighborsClassifier(5).fit(model.transform(X[A]), y[A])
said["5-NN"] = float(near.score(model.transform(X[B]), y[B]))
"""
_CERTIFIED = "said['certificate'] = str(model.certificate_)"
_GRAPH = "model = nearfold.NearestNeighbors(n_neighbors=15{}).fit(X); model.kneighbors()"
_PAIRS = """
a, b = np.random.default_rng(2).integers(len(X), size=(2, 20_000))
pairs = np.column_stack([a, b, np.where(y[a] == y[b], 1, -1)])
"""
METHODS: dict[str, tuple[str, str]] = {  # name -> call, what is said of it afterwards
    "15-NN graph, approximate": (
        _GRAPH.format(', algorithm="approximate", recall=0.95, random_state=0'),
        _CERTIFIED,
    ),
    "15-NN graph, exact": (_GRAPH.format(""), "said['how'] = 'exact'"),
    "KNeighborsClassifier, 1,000 queries": (
        "model = nearfold.KNeighborsClassifier(5).fit(X[1000:], y[1000:])\n"
        "right = model.predict(X[:1000]) == y[:1000]",
        "said['5-NN'] = float(right.mean())",
    ),
    "PCA to 10": ("model = nearfold.PCA(10).fit(X)", _HOW),
    "IncrementalPCA to 10": ("model = nearfold.IncrementalPCA(10).fit(X)", _HOW),
    "LDA": ("model = nearfold.LinearDiscriminantAnalysis().fit(X, y)", _SCORE),
    "ClassicalMDS to 2": ("model = nearfold.ClassicalMDS(2).fit(X)", _HOW),
    "MDS to 2": ("model = nearfold.MDS(2, random_state=0).fit(X)", _HOW),
    "KernelPCA rbf to 10": (
        "model = nearfold.KernelPCA(10, kernel='rbf', random_state=0).fit(X)",
        _HOW,
    ),
    "Isomap to 2": ("model = nearfold.Isomap(n_neighbors=10).fit(X)", _HOW),
    "Isomap to 2, approximate graph": (
        "model = nearfold.Isomap(n_neighbors=10, neighbors_algorithm='approximate').fit(X)",
        _HOW,
    ),
    "LLE to 2": ("model = nearfold.LocallyLinearEmbedding(n_neighbors=10).fit(X)", _HOW),
    "LLE to 2, approximate graph": (
        "model = nearfold.LocallyLinearEmbedding("
        "n_neighbors=10, neighbors_algorithm='approximate').fit(X)",
        _HOW,
    ),
    "NCA to 10": ("model = nearfold.NCA(10, random_state=0).fit(X, y)", _SCORE + _HOW),
    "MMC, 20,000 pairs": (_PAIRS + "model = nearfold.MMC().fit(X, pairs=pairs)", _SCORE),
    "ITML, 20,000 pairs": (_PAIRS + "model = nearfold.ITML().fit(X, pairs=pairs)", _SCORE),
    "RCA": ("model = nearfold.RCA().fit(X, y)", _SCORE),
    "LFDA": ("model = nearfold.LFDA().fit(X, y)", _SCORE),
    "LMNN": ("model = nearfold.LMNN(random_state=0).fit(X, y)", _SCORE + _HOW),
    "MLKR to 5": ("model = nearfold.MLKR(5, random_state=0).fit(X, y)", _SCORE + _HOW),
    "Covariance": ("model = nearfold.Covariance().fit(X)", _SCORE),
    "SDML, 20,000 pairs": (_PAIRS + "model = nearfold.SDML().fit(X, pairs=pairs)", _SCORE),
    "LSML": ("model = nearfold.LSML(random_state=0).fit(X, y)", _SCORE),
    "SCML": ("model = nearfold.SCML(random_state=0).fit(X, y)", _SCORE),
}


def setup(rows: int) -> str:
    return f"import nearfold\nX, y = large({rows})\nnearfold.set_memory('6GB')"


def head_of(rows: int) -> str:
    return f"| {rows:,} x 100 float32 | {CELLS} | how |\n|---|---:|---:|---:|---|"


def row_of(name: str, found: Outcome) -> str:
    said = "; ".join(f"{k} {v:.4f}" if isinstance(v, float) else v for k, v in found.said.items())
    return f"| {name} | {found.cells} | {found.error or said} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.million", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="*", choices=list(METHODS), help="methods; default: all")
    parser.add_argument("--limit", type=float, default=3600, help="seconds for each")
    parser.add_argument("--json", default="bench/results/million.json")
    options = parser.parse_args()
    print(head_of(options.rows), flush=True)
    path = Path(options.json)
    found = json.loads(path.read_text())["methods"] if options.only and path.exists() else {}
    for name in options.only or METHODS:
        call, after = METHODS[name]
        outcome = run_alone(setup(options.rows), call, after, options.limit)
        found[name] = asdict(outcome)
        print(row_of(name, outcome), flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"rows": options.rows, "methods": found}, indent=2))


if __name__ == "__main__":
    main()
