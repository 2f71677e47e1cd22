"""The description of what fitted objects hold: what passes, and what does not."""

import numpy as np
import pytest
from scipy import sparse

from nearfold import state as s
from nearfold.state import State, StateError

GOOD = {
    "n": 3,
    "X": np.zeros((3, 2)),
    "rows": np.array([0, 2, 1]),
    "first": np.array([0, 1, 1, 3]),
    "M": np.eye(2),
    "share": 0.5,
    "kind": "a",
    "graph": sparse.eye(3).tocsr(),
    "names": np.array(["x", "y"], dtype=object),
}
DESCRIBED = State(
    n=s.size("n"),
    X=s.array("n d"),
    rows=s.array("*", "i", below="n"),
    first=s.array("n+1", "i", least=0, ascending=True),
    M=s.array("d d", symmetric=True),
    share=s.number(0, 1),
    kind=s.text("a", "b"),
    graph=s.optional(s.matrix("n n")),
    names=s.names("d"),
    extra=s.flag(),
    _optional=("extra",),
)


def test_what_fits_passes():
    DESCRIBED.check(GOOD)
    DESCRIBED.check({**GOOD, "graph": None, "extra": True})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 4),
        ("n", True),
        ("n", -1),
        ("X", np.zeros((4, 2))),
        ("M", np.eye(3)),
        ("X", np.full((3, 2), np.nan)),
        ("X", [[0.0, 0.0]] * 3),
        ("X", np.zeros((3, 2), dtype=object)),
        ("rows", np.array([0, 3])),
        ("rows", np.array([-1])),
        ("rows", np.array([0.0])),
        ("first", np.array([0, 1, 1])),
        ("first", np.array([0, 2, 1, 3])),
        ("M", np.array([[1.0, 2.0], [0.0, 1.0]])),
        ("share", 1.5),
        ("share", np.nan),
        ("share", "0.5"),
        ("kind", "c"),
        ("kind", 1),
        ("graph", sparse.eye(4).tocsr()),
        ("names", np.array(["x", 2], dtype=object)),
        ("extra", 1),
        ("unknown", 1),
    ],
)
def test_what_does_not_fit_is_named(field, value):
    with pytest.raises(StateError, match=field):
        DESCRIBED.check({**GOOD, field: value})


def test_a_missing_field_is_named():
    with pytest.raises(StateError, match="share"):
        DESCRIBED.check({name: value for name, value in GOOD.items() if name != "share"})


class Child:
    fitted_state = State(rows=s.array("r", "i", below="m"))

    def __init__(self, rows):
        self.rows = np.asarray(rows)


def test_nested_objects_share_sizes():
    parent = State(n=s.size("n"), children=s.list_of(s.nested(Child, m="n")))
    parent.check({"n": 5, "children": [Child([4]), Child([0, 1])]})
    with pytest.raises(StateError, match="rows"):
        parent.check({"n": 4, "children": [Child([4])]})
    with pytest.raises(StateError, match="Child"):
        parent.check({"n": 4, "children": [object()]})
