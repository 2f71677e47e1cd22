"""Graphs of many rows: the certified approximate engine against pynndescent and faiss-HNSW.

    python -m bench.approximate --rows 1000000 --json bench/results/approximate.json

Every contestant has a process of its own; the recall is measured here, on a sample of rows whose
neighbours are found by brute force in float64. HNSW is run with several efforts of search, so that
a time at the recall of ours can be read off.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from bench.child import run_alone

_SETUP = """
import nearfold
X, _ = large({rows})
nearfold.set_memory("6GB")
"""
_OURS = """
model = nearfold.NearestNeighbors(n_neighbors=15{options}).fit(X)
rows = model.kneighbors(return_distance=False)
"""
_PYNNDESCENT = """
from pynndescent import NNDescent
rows = NNDescent(X, n_neighbors=16, n_jobs=2, random_state=0).neighbor_graph[0][:, 1:]
"""
_HNSW = """
import faiss
faiss.omp_set_num_threads(2)
index = faiss.IndexHNSWFlat(X.shape[1], 16)
index.hnsw.efConstruction = 40
index.add(X)
index.hnsw.efSearch = {effort}
rows = index.search(X, 16)[1][:, 1:]
"""
_RECALL = """
found = []
norms = np.einsum("ij,ij->i", X, X, dtype=np.float64)
for i in np.random.default_rng(5).choice(len(X), 300, replace=False):
    squares = np.empty(len(X))
    for start in range(0, len(X), 50_000):
        gap = X[start : start + 50_000].astype(np.float64) - X[i]
        squares[start : start + 50_000] = np.einsum("ij,ij->i", gap, gap)
    squares[i] = np.inf
    kth = np.partition(squares, 14)[14]
    mine = rows[i][(rows[i] >= 0) & (rows[i] != i)]
    found.append((squares[mine] <= kth * (1 + 1e-12)).sum() / 15)
said["recall"] = float(np.mean(found))
"""
_CERTIFICATE = "said['certificate'] = str(model.certificate_)"
CONTESTANTS = {
    "nearfold, approximate": (
        _OURS.format(options=', algorithm="approximate", recall=0.95, random_state=0'),
        _RECALL + _CERTIFICATE,
    ),
    "pynndescent": (_PYNNDESCENT, _RECALL),
    "faiss HNSW, efSearch 32": (_HNSW.format(effort=32), _RECALL),
    "faiss HNSW, efSearch 64": (_HNSW.format(effort=64), _RECALL),
    "nearfold, exact": (_OURS.format(options=""), _RECALL),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.approximate", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="contestants whose name contains this")
    parser.add_argument("--limit", type=float, default=7200, help="seconds for each")
    parser.add_argument("--json", default="bench/results/approximate.json")
    options = parser.parse_args()
    found = {}
    for name, (call, after) in CONTESTANTS.items():
        if options.only.lower() not in name.lower():
            continue
        outcome = run_alone(_SETUP.format(rows=options.rows), call, after, options.limit)
        found[name] = asdict(outcome)
        said = "; ".join(f"{key} {value}" for key, value in outcome.said.items())
        took = f"{outcome.seconds:.1f} s, peak {outcome.peak / 1024:.2f} GB; {said}"
        print(f"15-NN graph, {options.rows:,} x 100, {name}: {outcome.error or took}", flush=True)
        path = Path(options.json)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"rows": options.rows, "found": found}, indent=2))


if __name__ == "__main__":
    main()
