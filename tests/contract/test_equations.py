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


# (10.1) and (10.2) bound the error of 1NN; (10.15) and (10.16) state the problem that (10.17)
# solves; (10.20) and (10.21) are steps from (10.19) to (10.24). No line computes them.
NEVER_COMPUTED = {f"10.{i}" for i in (1, 2, 15, 16, 20, 21)}
EXPECTED = {f"10.{i}" for i in range(1, 40)} - NEVER_COMPUTED


def test_every_equation_that_is_computed_is_marked():
    marked = set(equation_marks())
    assert marked == EXPECTED
