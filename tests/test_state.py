"""The description of what fitted objects hold: what passes, and what does not."""

import numpy as np
import pytest
from scipy import sparse

from nearfold import ITML
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
        ("X", np.full((3, 2), 1e200)),
        ("X", np.full((3, 2), 1e20, dtype=np.float32)),
        ("X", np.zeros((3, 2), dtype=">f8")),
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


def test_values_that_are_squares_or_may_be_large_have_no_such_limit():
    for check in (s.array("n", large=True), s.array("n", least=0), s.array("n", finite=False)):
        check(np.array([1e200]), {})


def test_a_value_may_have_to_be_above_a_bound():
    s.array("n", above=0)(np.array([1e-9]), {})
    with pytest.raises(StateError, match="above 0"):
        s.array("n", above=0)(np.array([0.0]), {})


def test_labels_are_distinct_ascending_and_of_one_kind():
    s.labels("c")(np.array(["a", "b"], dtype=object), {})
    for wrong in (["b", "a"], ["a", "a"], ["a", 1], [None, "a"]):
        with pytest.raises(StateError):
            s.labels("c")(np.array(wrong, dtype=object), {})


def test_fitted_objects_from_outside_need_their_methods_and_a_description():
    parent = State(n=s.size("n"), child=s.fitted("count", m="n"))
    with pytest.raises(StateError, match="no count"):
        parent.check({"n": 5, "child": Child([4])})
    with pytest.raises(StateError, match="does not describe"):
        parent.check({"n": 5, "child": type("Other", (), {"count": print})()})
    Counted = type("Counted", (Child,), {"count": print})
    parent.check({"n": 5, "child": Counted([4])})
    with pytest.raises(StateError, match="rows"):
        parent.check({"n": 4, "child": Counted([4])})


def test_a_description_tells_its_classes_and_itself_in_words():
    held = State(
        rows=s.array("n", "i", below="n", ascending=True),
        parts=s.list_of(s.optional(s.nested(Child))),
        _optional=("rows",),
    )
    assert held.classes() == (Child,)
    assert held.describe()["rows"] == "i (n), below n, ascending, optional"
    assert held.describe()["parts"] == "list (*) of None or Child"


def test_a_check_of_several_fields_sees_the_parameters():
    def also(values, sizes):
        s.require(values["k"] <= sizes["n"], "too many")

    described = State(also, X=s.array("n d"))
    described.check({"X": np.zeros((3, 2))}, {}, {"k": 3})
    with pytest.raises(StateError, match="too many"):
        described.check({"X": np.zeros((3, 2))}, {}, {"k": 4})


def test_a_fitted_object_has_the_methods_that_its_fit_gave_it():
    X = np.random.default_rng(0).standard_normal((30, 2))
    learned = ITML(random_state=0).fit(X, np.arange(30) % 2)  # from classes: no pairs to predict
    s.fitted("transform")(learned, {})
    with pytest.raises(StateError, match="has no predict"):
        s.fitted("predict")(learned, {})
