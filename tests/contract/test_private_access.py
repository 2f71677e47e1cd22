"""No object touches the private parts of another."""

import ast
import re
from pathlib import Path

import nearfold

SRC = Path(nearfold.__file__).parent
PRIVATE = re.compile(r"_[a-zA-Z]\w*")

# scikit-learn's name for what every class must tell: public in all but its spelling.
PROTOCOL = {"_parameter_constraints"}


def _is_own(node):
    """self, cls, super(), and names of a class inside its own methods."""
    if isinstance(node, ast.Name):
        return node.id in ("self", "cls")
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    )


def private_accesses(path):
    """(line, text) of each `something._name` on anything but one's own self, cls or super()."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        (node.lineno, ast.unparse(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and PRIVATE.fullmatch(node.attr)
        and node.attr not in PROTOCOL
        and not _is_own(node.value)
    ]


def test_nobody_touches_private_parts_of_others():
    found = {str(path.relative_to(SRC)): private_accesses(path) for path in SRC.rglob("*.py")}
    assert {name: accesses for name, accesses in found.items() if accesses} == {}


def test_the_walk_sees_what_it_must(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(
        "self._a\ncls._b\nsuper()._c\nother._d\nself.x._e\nf()._f\na.__g\na.__h__\na._\n"
    )
    assert [text for _, text in private_accesses(path)] == ["other._d", "self.x._e", "f()._f"]
