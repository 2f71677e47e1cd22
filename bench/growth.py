"""How time and memory grow with the rows, each method beside its peer.

    python -m bench.growth               measures (an hour) and writes bench/results/growth.json
    python -m bench.growth --plot-only   draws docs/growth.svg from it

A call that takes more than the limit ends the curve of its method. Every call has a process of its
own, in which a call on 300 rows goes before: it imports and compiles.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench.child import run_alone

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
LIMIT = 60.0  # seconds of a call
_PEERS = {
    "nearest": "sklearn.neighbors",
    "PCA": "sklearn.decomposition",
    "LDA": "sklearn.discriminant_analysis",
    "KernelPCA": "sklearn.decomposition",
    "ClassicalMDS": "sklearn.manifold",
    "MDS": "sklearn.manifold",
    "Isomap": "sklearn.manifold",
    "LLE": "sklearn.manifold",
    "NCA": "sklearn.neighbors",
}
_CALLS = {
    "nearest": "NearestNeighbors(n_neighbors=15).fit(X).kneighbors()",
    "PCA": "PCA(10).fit(X)",
    "LDA": "LinearDiscriminantAnalysis().fit(X, y)",
    "KernelPCA": "KernelPCA(10, kernel='rbf').fit(X)",
    "ClassicalMDS": "ClassicalMDS(2).fit(X)",
    "MDS": "MDS(2, random_state=0).fit(X)",
    "Isomap": "Isomap(n_neighbors=10).fit(X)",
    "LLE": "LocallyLinearEmbedding(n_neighbors=10).fit(X)",
    "NCA": "NeighborhoodComponentsAnalysis(10, random_state=0).fit(X, y)",
}
# Where the limit ended a curve of ours: its last point, from bench.million.
_MILLION = {
    "nearest": {
        "nearfold": "15-NN graph, exact",
        "nearfold, approximate": "15-NN graph, approximate",
    },
    "PCA": {"nearfold": "PCA to 10"},
    "LDA": {"nearfold": "LDA"},
    "KernelPCA": {"nearfold": "KernelPCA rbf to 10"},
    "ClassicalMDS": {"nearfold": "ClassicalMDS to 2"},
    "MDS": {"nearfold": "MDS to 2"},
    "Isomap": {"nearfold": "Isomap to 2"},
    "LLE": {"nearfold": "LLE to 2"},
    "NCA": {"nearfold": "NCA to 10"},
}
_APPROXIMATE = "NearestNeighbors(n_neighbors=15, algorithm='approximate').fit(X).kneighbors()"


def curves() -> dict[str, dict[str, tuple[str, str]]]:
    """Method -> curve -> (module, call)."""
    found = {
        name: {"nearfold": ("nearfold", call), "scikit-learn": (_PEERS[name], call)}
        for name, call in _CALLS.items()
    }
    found["nearest"]["nearfold, approximate"] = ("nearfold", _APPROXIMATE)
    return found


def measure(module: str, call: str, limit: float) -> list[dict[str, Any]]:
    """The points of one curve, up to the first that takes too long."""
    points: list[dict[str, Any]] = []
    for n in SIZES:
        memory = "nearfold.set_memory('6GB')" if module == "nearfold" else ""
        first = f"X, y = large(300)\n{module}.{call}"  # imports and compiled code: not on the clock
        setup = f"import {module}\n{memory}\n{first}\nX, y = large({n})"
        outcome = run_alone(setup, f"{module}.{call}", limit=limit + 60)
        if outcome.error:
            points.append({"rows": n, "error": outcome.error})
            break
        peak = outcome.peak - outcome.before
        points.append({"rows": n, "seconds": outcome.seconds, "megabytes": peak})
        if outcome.seconds > limit:
            break
    return points


def with_million(found: dict[str, Any], million: Path) -> dict[str, Any]:
    """The curves, with the points of a million rows that were measured on their own."""
    methods = json.loads(million.read_text())["methods"] if million.exists() else {}
    for name, curves_of in _MILLION.items():
        for curve, of_million in curves_of.items():
            points = found.get(name, {}).get(curve, [])
            outcome = methods.get(of_million, {"error": "not measured"})
            if not outcome["error"] and not any(p["rows"] == SIZES[-1] for p in points):
                peak = outcome["peak"] - outcome["before"]
                points.append({"rows": SIZES[-1], "seconds": outcome["seconds"], "megabytes": peak})
    return found


def plot(found: dict[str, Any], path: Path) -> None:
    """One panel of time and one of memory for each method, log-log."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.0 * len(found), 5.6), layout="constrained")
    FigureCanvasSVG(figure)
    panels = figure.subplots(2, len(found), sharex=True, sharey="row", squeeze=False)
    colours = {"nearfold": "#0072B2", "scikit-learn": "#E69F00", "nearfold, approximate": "#009E73"}
    for column, (name, of_method) in enumerate(found.items()):
        for curve, points in of_method.items():
            done = [p for p in points if "seconds" in p]
            rows = [p["rows"] for p in done]
            style = {"color": colours[curve], "marker": "o", "markersize": 3, "label": curve}
            panels[0, column].loglog(rows, [p["seconds"] for p in done], **style)
            # A call that needs less than making its table did is not seen.
            memory = [p["megabytes"] if p["megabytes"] > 1 else float("nan") for p in done]
            panels[1, column].loglog(rows, memory, **style)
        panels[0, column].set_title(name)
        panels[1, column].set_xlabel("rows")
    panels[0, 0].set_ylabel("seconds")
    panels[1, 0].set_ylabel("MB above the data")
    for panel in panels.flat:
        panel.grid(alpha=0.3, linewidth=0.5)
    drawn = {
        name: handle
        for panel in panels.flat
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(drawn.values()), list(drawn), loc="outside lower center", ncols=3, frameon=False
    )
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(_CALLS), help="methods; default: all")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of a call")
    parser.add_argument("--json", default="bench/results/growth.json")
    parser.add_argument("--plot", default="docs/growth.svg")
    parser.add_argument("--plot-only", action="store_true")
    options = parser.parse_args()
    path = Path(options.json)
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name, of_method in curves().items():
        if options.plot_only or name not in (options.only or _CALLS):
            continue
        found[name] = {}
        for curve, (module, call) in of_method.items():
            found[name][curve] = measure(module, call, options.limit)
            print(name, curve, found[name][curve], flush=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(found, indent=2))
    plot(with_million(found, path.with_name("million.json")), Path(options.plot))


if __name__ == "__main__":
    main()
