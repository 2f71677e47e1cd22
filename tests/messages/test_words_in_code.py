"""What a command can say is in the catalogues: no sentence is written into the code."""

import ast
from pathlib import Path

import pytest

import nearfold
from nearfold.messages import catalogue

PACKAGE = Path(nearfold.__file__).parent
SPOKEN = ("app", "columns", "report", "store", "study")
# For programmers: figures, packed arrays and pages that no command makes of what a user gives.
FOR_PROGRAMMERS = {
    "curves.py",
    "display.py",
    "figure.py",
    "groups.py",
    "packing.py",
    "page_file.py",
}
SAYING = {"InputError", "ModelFileError", "NonFiniteError", "MemoryBudgetError", "warn"}
WRITTEN = ast.Constant | ast.JoinedStr | ast.BinOp


def sources(*folders):
    for folder in folders:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            if path.name not in FOR_PROGRAMMERS:
                yield path, ast.parse(path.read_text("utf-8"))


def calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", "")
            yield name, node


def is_text(node):
    if isinstance(node, ast.IfExp):
        return is_text(node.body) or is_text(node.orelse)
    return isinstance(node, WRITTEN)


@pytest.mark.parametrize("folder", SPOKEN)
def test_errors_and_warnings_are_messages(folder):
    found = [
        f"{path.name}:{call.lineno}"
        for path, tree in sources(folder)
        for name, call in calls(tree)
        if name in SAYING and call.args and is_text(call.args[0])
    ]
    assert found == []


@pytest.mark.parametrize("folder", SPOKEN)
def test_no_value_of_a_message_is_a_sentence(folder):
    found = []
    for path, tree in sources(folder):
        for name, call in calls(tree):
            texts = [k.value for k in call.keywords] if name == "Message" else []
            texts += call.args[1:] if name == "require_memory" else []
            found += [f"{path.name}:{t.lineno}" for t in texts if has_words(t)]
    assert found == []


def has_words(node):
    """A constant of several words, or words around a value; one word alone is an option's name."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and " " in node.value.strip()
    parts = node.values if isinstance(node, ast.JoinedStr) else []
    texts = [part.value for part in parts if isinstance(part, ast.Constant)]
    return any(word.isalpha() and len(word) > 2 for text in texts for word in text.split())


def test_every_label_of_progress_is_translated():
    labels = set()
    for _, tree in sources("."):
        for name, call in calls(tree):
            given = [k.value for k in call.keywords if k.arg == "label"]
            given += (
                call.args[1:2] if name == "steps" else call.args[:1] if name == "report" else []
            )
            labels |= {g.value for g in given if isinstance(g, ast.Constant)} - {None}
    names = {id.removeprefix("method.") for id in catalogue("zh") if id.startswith("method.")}
    assert {f"progress.{label}" for label in labels - names} <= set(catalogue("zh"))
