"""Fill the tables of README.md and docs/speed.md from the JSON in bench/results.

    python -m bench.pages

A table stands between `<!-- NAME -->` and `<!-- /NAME -->`; no figure of one is typed by hand.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bench.child import CELLS, Outcome
from bench.cluster import told as told_cluster
from bench.million import head_of, row_of
from bench.scale import told as told_scale

_ROOT = Path(__file__).parents[1]
_RESULTS = _ROOT / "bench" / "results"
_HEAD = """| job | nearfold | peer | peer's time | ratio | bar | agreement |
|---|---:|---|---:|---:|---|---|"""
_README = (  # job, peer: the dozen lines of README.md
    ("5-NN of 10,000 rows, MNIST 60,000 x 784, float32", "scikit-learn brute"),
    ("5-NN of 10,000 rows, MNIST 60,000 x 784, float32", "faiss flat"),
    ("5-NN of 10,000 rows, isotropic 60,000 x 256, float32", "faiss flat"),
    ("PCA to 50, 70,000 x 784, float32", "scikit-learn"),
    ("IncrementalPCA to 50, batches of 1,000, 70,000 x 784, float32", "scikit-learn"),
    ("LDA fit, MNIST 60,000 x 784, float32", "scikit-learn svd"),
    ("ClassicalMDS to 2, 5,000 precomputed, float64", "scikit-learn"),
    ("MDS (SMACOF) to 2, 2,000, to the same stress", "scikit-learn"),
    ("KernelPCA rbf to 10, 10,000 x 784, float32", "scikit-learn arpack"),
    ("Isomap to 2, k = 5, digits 10,000 x 784, float32", "scikit-learn"),
    ("LLE to 2, k = 5, digits 20,000 x 784, float32", "scikit-learn"),
    ("NCA to 32, own starts, MNIST 5,000 x 784, float32", "scikit-learn"),
    ("ITML_Supervised, digits 898 x 64", "metric-learn"),
    ("trustworthiness of 2 axes, MNIST 5,000 x 784, float32", "scikit-learn"),
)


def shown(name: str) -> str:
    """The name of a job, with that of the data that was given."""
    return name.replace("given", "MNIST")


def seconds(value: float) -> str:
    return f"{1000 * value:.1f} ms" if value < 0.05 else f"{value:.2f} s"


def row(line: dict[str, Any], bars: bool) -> str:
    """One line of the table."""
    cells = [
        shown(line["job"]), seconds(line["seconds"]), line["peer"], seconds(line["peer_seconds"]),
        f"{line['ratio']:.2f}x",
    ]  # fmt: skip
    if bars:
        bar = line["bar"]
        cells.append(
            "" if bar is None else f"{bar:.3g} {'met' if line['ratio'] >= bar else 'missed'}"
        )
    return f"| {' | '.join([*cells, line['agreement']])} |"


def full_table(lines: list[dict[str, Any]]) -> str:
    """Every line of the run."""
    return "\n".join([_HEAD, *(row(line, True) for line in lines)])


def short_table(lines: list[dict[str, Any]]) -> str:
    """The lines that README shows."""
    found = {(shown(line["job"]), line["peer"]): row(line, False) for line in lines}
    head = _HEAD.replace(" bar |", "").replace("|---:|---|---|", "|---:|---|")
    return "\n".join([head, *(found[key] for key in _README if key in found)])


def million_table(found: dict[str, Any]) -> str:
    """Every method on a million rows."""
    rows = (row_of(name, Outcome(**outcome)) for name, outcome in found["methods"].items())
    return "\n".join([head_of(found["rows"]), *rows])


def approximate_table(found: dict[str, Any]) -> str:
    """Graphs of many rows."""
    rows = [f"| 15-NN graph | {CELLS} | recall | certificate |\n|---|---:|---:|---:|---:|---|"]
    for name, values in found["found"].items():
        outcome = Outcome(**values)
        recall = f"{outcome.said.get('recall', float('nan')):.3f}"
        said = outcome.error or outcome.said.get("certificate", "")
        rows.append(f"| {name} | {outcome.cells} | {recall} | {said} |")
    return "\n".join(rows)


def cluster_list(lines: list[dict[str, Any]]) -> str:
    """The runs on two worker processes."""
    return "\n".join(f"- {told_cluster(line)}" for line in lines)


def text_block(report: str) -> str:
    """What a report printed."""
    return f"```\n{report.strip()}\n```"


def tables() -> dict[str, str]:
    """Name -> table, of all results that there are."""
    made: dict[str, str] = {}
    latest = _read("latest")
    if latest:
        made["bench"] = full_table(latest["lines"])
        made["bench-short"] = short_table(latest["lines"])
        made["bench-runs"] = text_block("\n".join(latest["reports"].values()))
        made["bench-versions"] = ", ".join(f"{k} {v}" for k, v in latest["versions"].items())
    for name, table in (
        ("million", million_table), ("approximate", approximate_table), ("cluster", cluster_list),
        ("scale", lambda checks: text_block(told_scale(checks))),
    ):  # fmt: skip
        found = _read(name)
        if found:
            made[name] = table(found)
    return made


def _read(name: str) -> Any:
    path = _RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def main() -> None:
    made = tables()
    for page in (_ROOT / "README.md", _ROOT / "docs" / "speed.md", _ROOT / "docs" / "scale.md"):
        text = page.read_text(encoding="utf-8")
        for name, table in made.items():
            pattern = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
            text = re.sub(pattern, lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text, flags=re.DOTALL)
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
