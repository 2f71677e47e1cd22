"""Payloads of the report with known contents, small or large, friendly or hostile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from nearfold.report.packing import pack_floats, pack_integers, pack_points

HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror=window.hacked=1>",
    "=1+1",
    'say "hello", {{script}} {n}',
    "<!-- <script> \u2028 \x00 \ud800",
)


@dataclass
class Synthetic:
    """A payload and the arrays it was made from."""

    payload: dict[str, Any]
    spaces: list[np.ndarray]
    label: np.ndarray
    height: np.ndarray
    original: np.ndarray  # nearest rows in the data


def both(en: str, zh: str) -> dict[str, str]:
    return {"en": en, "zh": zh}


def nearest_rows(X: np.ndarray, k: int) -> np.ndarray:
    """The k nearest other rows of each row."""
    _, rows = cKDTree(X).query(X, k + 1)
    self_out = rows != np.arange(len(X))[:, None]
    self_out[self_out.all(axis=1), -1] = False  # a duplicate took the row's own place
    return rows[self_out].reshape(len(X), k)


def make_synthetic(
    n: int = 400, classes: int = 4, n_spaces: int = 3, k: int = 5, search: bool = True
) -> Synthetic:
    """Clusters in six dimensions; the spaces are projections of them, the last one the best.

    Without `search` the neighbours are drawn by lot, which is fast and compresses worst.
    """
    rng = np.random.default_rng(0)
    label = rng.integers(0, classes, n)
    X = 4.0 * rng.normal(size=(classes, 6))[label] + rng.normal(size=(n, 6))
    spaces = [X @ rng.normal(size=(6, 2)) / (1 + i) for i in range(n_spaces)]
    height = np.round(rng.normal(170, 10, n), 1)
    original = nearest_rows(X, k) if search else rng.integers(0, n, (n, k))
    payload = {
        "version": 1,
        "title": "clusters.csv",
        "task": "classification",
        "score": {"name": "accuracy", "k": k, "chance": 1 / classes, "reference": "space 0"},
        "headline": both("Space 2 is best: 0.97 of rows.", "空间 2 最好：97% 的行判对。"),
        "final": both("On 80 rows set aside: 0.96.", "在留出的 80 行上：0.96。"),
        "notices": [both("Two columns were left out.", "已排除两列。")],
        "source": f"clusters.csv: {n:,} rows x 6 columns",
        "schema": [
            {"name": "height", "role": "feature", "kind": "number", "reason": ""},
            {"name": "class", "role": "label", "kind": "text", "reason": "named by --label"},
        ],
        "leaderboard": _leaderboard(n_spaces),
        "winner": f"space {n_spaces - 1}",
        "points": _points(n, label, height, classes, rng),
        "spaces": [_space(i, Z, rng, k if search else 0) for i, Z in enumerate(spaces)],
        "original_neighbors": pack_integers(original),
        **_charts(label, classes, rng),
        "manifest": [["Nearfold", "0.1.0"], ["seed", 0], ["data hash", "sha256 0123456789abcdef"]],
    }
    return Synthetic(payload, spaces, label, height, original)


def _points(
    n: int, label: np.ndarray, height: np.ndarray, classes: int, rng: np.random.Generator
) -> dict[str, Any]:
    names = [f"class {i}" for i in range(classes)]
    other = rng.normal(size=n)
    other[:3] = np.nan
    return {
        "n": n,
        "of": n,
        "ids": [f"row-{i}" for i in range(n)],
        "columns": [
            {
                "name": "class",
                "kind": "category",
                "values": pack_integers(label),
                "categories": names,
            },
            {"name": "height", "kind": "number", "values": pack_floats(height)},
            {"name": "other", "kind": "number", "values": pack_floats(other)},
        ],
        "default_color": "class",
    }


def _space(i: int, Z: np.ndarray, rng: np.random.Generator, k: int) -> dict[str, Any]:
    return {
        "name": f"space {i}",
        "n_dimensions": 2,
        "shown": both("both of 2 axes", "全部 2 个轴"),
        "xy": pack_points(Z),
        # The first space does not know its neighbours: the page finds them in the picture.
        "neighbors": None if i == 0 or not k else pack_integers(nearest_rows(Z, k)),
        "quality": {"trustworthiness": 0.91, "continuity": 0.93, "overlap": 0.4, "stress": 0.2},
        "per_row": [
            {
                "name": both("Trustworthiness", "可信度"),
                "values": pack_floats(rng.random(len(Z)), levels=255),
            }
        ],
        "held_out": pack_integers((rng.random(len(Z)) < 0.2).astype(int)) if i == 1 else None,
    }


def _leaderboard(n_spaces: int) -> list[dict[str, Any]]:
    lines = []
    for i in range(n_spaces):
        score = 0.8 + 0.17 * i / max(1, n_spaces - 1)
        lines.append(
            {
                "name": f"space {i}",
                "n_dimensions": 2 + i,
                "score": score,
                "low": score - 0.02,
                "high": score + 0.02,
                "difference": score - 0.8,
                "difference_low": score - 0.81,
                "difference_high": score - 0.79,
                "p": 0.003,
                "verdict": "reference" if i == 0 else "better",
                "folds": 5,
                "fit_seconds": 0.01 * 10**i,
                "score_seconds": 0.1,
                "peak_bytes": 12_345_678,
                "note": None,
                "about": f"Projection(n_components={2 + i})",
                "space": i,
            }
        )
    slow = {
        "name": "slow",
        "verdict": "unfinished",
        "note": both("over the time budget", "超出时间预算"),
        "space": None,
    }
    return [*reversed(lines), slow]


def _charts(label: np.ndarray, classes: int, rng: np.random.Generator) -> dict[str, Any]:
    d = np.arange(1, 9)
    score = 1 - 0.6 / d
    far = rng.random(500) * 10
    counts = np.diag(np.bincount(label, minlength=classes)) + 1
    return {
        "curves": [
            {
                "title": both("Accuracy against d'", "准确率与维数"),
                "x_name": both("dimensions d'", "维数 d'"),
                "y_name": both("accuracy", "准确率"),
                "series": [
                    {
                        "name": "PCA",
                        "x": d.tolist(),
                        "y": score.tolist(),
                        "low": (score - 0.03).tolist(),
                        "high": (score + 0.03).tolist(),
                        "chosen": 5,
                        "best": 8,
                    }
                ],
                "reason": both("d' = 5 is within one standard error.", "d' = 5 在一个标准误内。"),
            }
        ],
        "scree": [
            {
                "name": "PCA",
                "share": [0.5, 0.3, 0.1, 0.06, 0.04],
                "cumulative": [0.5, 0.8, 0.9, 0.96, 1.0],
                "noise": [0.25, 0.22, 0.2, 0.18, 0.15],
                "reason": both("Two axes stand out of the noise.", "两个轴高于噪声。"),
            }
        ],
        "shepard": [
            {
                "space": "space 1",
                "original": pack_floats(far),
                "embedded": pack_floats(far + rng.normal(size=500)),
                "correlation": 0.93,
            }
        ],
        "confusion": [
            {
                "space": f"space {i}",
                "labels": [f"class {j}" for j in range(classes)],
                "counts": counts.tolist(),
            }
            for i in (1, 2)
        ],
        "graph": {
            "lines": [both("The graph is in 2 pieces.", "图分为 2 块。")],
            "sizes": [390, 10],
        },
        "weights": [
            {
                "space": "space 1",
                "columns": ["height", "other"],
                "weights": [0.7, -0.2],
                "about": both("Weights of the first axis.", "第一轴的权重。"),
            }
        ],
    }


def make_hostile() -> Synthetic:
    """Names, labels and ids that would like to be markup, formulas or templates."""
    made = make_synthetic(n=120, classes=len(HOSTILE))
    payload = made.payload
    payload["title"] = HOSTILE[0]
    payload["headline"] = both(HOSTILE[1], HOSTILE[1])
    payload["source"] = HOSTILE[3]
    payload["points"]["columns"][0]["categories"] = list(HOSTILE)
    payload["points"]["columns"][1]["name"] = HOSTILE[2]
    payload["points"]["ids"] = [HOSTILE[i % 5] for i in range(120)]
    payload["spaces"][0]["name"] = HOSTILE[1]
    payload["confusion"][0]["labels"] = list(HOSTILE)
    payload["confusion"][0]["space"] = HOSTILE[0]
    payload["weights"][0]["columns"] = list(HOSTILE[:2])
    payload["leaderboard"][0]["name"] = HOSTILE[0]
    payload["leaderboard"][0]["about"] = HOSTILE[1]
    payload["schema"][0]["name"] = HOSTILE[1]
    payload["manifest"][0] = [HOSTILE[0], HOSTILE[1]]
    return made


def make_large(n: int = 100_000, n_spaces: int = 4, k: int = 5) -> Synthetic:
    """As many points as a report may show, with six columns."""
    made = make_synthetic(n=n, classes=10, n_spaces=n_spaces, k=k, search=False)
    rng = np.random.default_rng(1)
    columns = made.payload["points"]["columns"]
    for name, values in (
        ("pressure", rng.normal(size=n)),
        ("price", np.round(rng.exponential(40.0, n), 2)),
        ("count", rng.poisson(30, n)),
    ):
        columns.append({"name": name, "kind": "number", "values": pack_floats(values)})
    return made
