"""Every equation of chapter 10 that is computed anywhere is marked where it is, as `# (10.x)`."""

import re
from collections import Counter
from pathlib import Path

import nearfold

SRC = Path(nearfold.__file__).parent
MARK = re.compile(r"#.*?\((10\.\d+)\)")


def equation_marks():
    """How often each equation is marked in the source."""
    found = Counter()
    for path in SRC.rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            found.update(MARK.findall(line))
    return found


EXPECTED = {f"10.{i}" for i in range(3, 40)}
MISSING: set[str] = set()  # equations that no line is marked with yet: the set only shrinks


def test_every_equation_that_is_computed_is_marked():
    marked = set(equation_marks())
    assert EXPECTED - marked == MISSING
    assert {mark for mark in marked if not 1 <= int(mark[3:]) <= 39} == set()
