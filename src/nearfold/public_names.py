"""Where the public names live: the methods of the registry, and the functions below.

`python -m nearfold.public_names` writes what is made from them: the stub that tells type checkers
the names (src/nearfold/__init__.pyi) and the table of methods (docs/methods.md). Tests compare
both with what would be written.
"""

from __future__ import annotations

from pathlib import Path

import nearfold.registry as registry

_FUNCTIONS = {
    "blocks": "get_memory scan set_memory",
    "blocks.sample": "sample",
    "neighbors.certificate": "Certificate",
    "quality": "co_ranking continuity judge_space neighbor_overlap reconstruction_error shepard "
    "stress trustworthiness",
    "report.display": "CurveDisplay EmbeddingDisplay ScreeDisplay ShepardDisplay",
    "report.doctor": "diagnose",
    "report.study_report": "write_report",
    "run": "progress",
    "store.model_file": "inspect load save verify",
    "study.choose": "choose_dimension",
    "study.choose_graph": "choose_neighbors choose_radius",
    "study.compare": "compare",
    "study.explain": "explain_space",
    "study.plan": "plan",
}
_LONGEST_LINE = 100


def homes() -> dict[str, str]:
    """Public name -> module inside nearfold."""
    found = {name: method.module for method in registry.METHODS for name in method.names}
    for module, names in _FUNCTIONS.items():
        found |= dict.fromkeys(names.split(), module)
    return found


def stub() -> str:
    """The names for type checkers, as imports."""
    where = homes()
    lines = ["# Written by `python -m nearfold.public_names` from the registry.", ""]
    for module in sorted(set(where.values())):
        for name in sorted(name for name, home in where.items() if home == module):
            line = f"from nearfold.{module} import {name} as {name}"
            wrapped = line.replace("import ", "import (\n    ", 1) + ",\n)"
            lines.append(line if len(line) <= _LONGEST_LINE else wrapped)
    return "\n".join([*lines, "", "__version__: str", "__all__: list[str]", ""])


def methods_table() -> str:
    """The methods as a page of the documentation."""
    lines = [
        "# Methods",
        "",
        "Written by `python -m nearfold.public_names` from `src/nearfold/registry.py`.",
        "",
        "| method | kind | book | what it does | compared by default |",
        "|---|---|---|---|---|",
    ]
    for method in registry.METHODS:
        space = method.space
        tried = "" if space is None else f"as {method.shown}" if space.by_default else "if named"
        names = ", ".join(f"`{name}`" for name in method.names)
        lines.append(f"| {names} | {method.kind} | {method.section} | {method.summary} | {tried} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    home = Path(__file__).parent
    (home / "__init__.pyi").write_text(stub(), encoding="utf-8")
    (home.parents[1] / "docs" / "methods.md").write_text(methods_table(), encoding="utf-8")
