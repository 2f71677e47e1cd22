"""A session is a function of its table, its seed and its actions."""

import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfold.errors import InputError
from nearfold.messages import LANGUAGES
from nearfold.study.intake import TableOptions, open_table
from nearfold.study.session import MOST_GROUPED, Session, replay
from nearfold.study.session_log import read_options, replay_log, session_log

N = 12
TABLE = open_table(np.random.default_rng(0).standard_normal((N, 3)), np.arange(N) % 3)
FIRST = Session.start(TABLE, 5)

rows = st.integers(0, N - 1)
groups = st.lists(rows, min_size=1, max_size=6)
telling = st.one_of(
    st.fixed_dictionaries({"do": st.just("link"), "a": rows, "b": rows, "alike": st.booleans()}),
    st.fixed_dictionaries(
        {
            "do": st.just("link_groups"),
            "a": groups,
            "b": st.none() | groups,
            "alike": st.booleans(),
        }
    ),
    st.fixed_dictionaries({"do": st.just("unlink"), "a": rows, "b": rows}),
    st.fixed_dictionaries(
        {
            "do": st.just("answer"),
            "a": rows,
            "b": rows,
            "answer": st.sampled_from(["alike", "different", "skip"]),
        }
    ),
    st.fixed_dictionaries(
        {
            "do": st.just("paint"),
            "rows": groups,
            "label": st.none() | st.sampled_from(["one", "two", "三"]),
        }
    ),
    st.fixed_dictionaries(
        {
            "do": st.just("import_links"),
            "pairs": st.lists(
                st.tuples(rows, rows, st.sampled_from([1, -1])).map(list), min_size=1, max_size=4
            ),
        }
    ),
    st.fixed_dictionaries(
        {"do": st.just("learner"), "name": st.sampled_from(["auto", "ITML", "MMC", "LMNN"])}
    ),
    st.fixed_dictionaries(
        {
            "do": st.just("weight"),
            "column": st.sampled_from(["x0", "x1", "x2"]),
            "factor": st.sampled_from([0, 0.5, 1, 2.0]),
        }
    ),
)
looking = st.one_of(
    st.fixed_dictionaries(
        {"do": st.just("show"), "space": st.sampled_from(["raw", "PCA", "learned"])}
    ),
    st.fixed_dictionaries(
        {
            "do": st.just("view"),
            "space": st.sampled_from(["raw", "PCA"]),
            "axes": st.sampled_from(["main", "classes"]),
            "dimensions": st.sampled_from([2, 3]),
        }
    ),
)
turning = st.sampled_from([{"do": "undo"}, {"do": "redo"}])
logs = st.lists(st.one_of(telling, telling, looking, turning), max_size=25)


def played(actions):
    """The session after those of the actions that can be done."""
    session = FIRST
    for action in actions:
        with suppress(InputError):  # a refusal changes nothing
            session = session.apply(action)
    return session


@settings(max_examples=200, deadline=None)
@given(logs)
def test_replay_gives_the_same_state(actions):
    session = played(actions)
    assert replay(TABLE, session.actions, 5) == session
    log = json.loads(json.dumps(session_log(session, TABLE)))
    again = replay_log(log, TABLE)
    assert again == session
    assert list(again.told.links) == list(session.told.links)  # the order, too
    assert json.loads(json.dumps(session_log(again, TABLE))) == log


@settings(max_examples=200, deadline=None)
@given(logs)
def test_undo_of_everything_gives_the_first_and_redo_restores(actions):
    session = played(actions)
    while session.future:  # to the end
        session = session.apply({"do": "redo"})
    last, n = session.told, len(session.past)
    for _ in range(n):
        session = session.apply({"do": "undo"})
    assert session.told == FIRST.told
    assert session.links == () == session.conflicts
    with pytest.raises(InputError, match="nothing to undo"):
        session.apply({"do": "undo"})
    for _ in range(n):
        session = session.apply({"do": "redo"})
    assert session.told == last
    assert list(session.told.links.items()) == list(last.links.items())
    with pytest.raises(InputError, match="nothing to redo"):
        session.apply({"do": "redo"})


def link(a, b, alike=True):
    return {"do": "link", "a": a, "b": b, "alike": alike}


def test_apply_changes_no_session():
    one = FIRST.apply(link(3, 1))
    two = one.apply(link(1, 2, False))
    assert FIRST.links == ()
    assert len(one.links) == 1
    assert [(k.a, k.b, k.alike, k.action) for k in two.links] == [(1, 3, True, 0), (1, 2, False, 1)]
    assert two.pairs.tolist() == [[1, 3, 1], [1, 2, -1]]


def test_a_new_action_ends_redo_but_a_look_does_not():
    session = FIRST.after([link(0, 1), link(1, 2), {"do": "undo"}, {"do": "show", "space": "PCA"}])
    assert session.shown == ("PCA",)
    assert session.future
    assert len(session.apply({"do": "redo"}).links) == 2
    assert session.apply(link(4, 5)).future == ()


def test_the_last_word_on_a_pair_counts():
    session = FIRST.after([link(0, 1), link(2, 3), link(1, 0, False)])
    assert session.pairs.tolist() == [[2, 3, 1], [0, 1, -1]]
    assert session.conflicts == ()


def test_a_contradiction_shows_its_chain_and_is_not_raised():
    session = FIRST.after([link(0, 1), link(1, 2), link(2, 3), link(5, 6), link(3, 0, False)])
    (found,) = session.conflicts
    assert {found.a, found.b} == {0, 3}
    assert found.chain in ((0, 1, 2, 3), (3, 2, 1, 0))
    assert session.apply({"do": "unlink", "a": 2, "b": 1}).conflicts == ()


def test_answers_are_links_and_skipped_pairs_are_kept():
    session = FIRST.after(
        [
            {"do": "answer", "a": 4, "b": 2, "answer": "skip"},
            {"do": "answer", "a": 1, "b": 2, "answer": "different"},
        ]
    )
    assert session.told.skipped == {(2, 4)}
    assert session.pairs.tolist() == [[1, 2, -1]]
    assert session.apply(link(2, 4)).told.skipped == frozenset()


def test_groups_give_all_pairs_or_a_bounded_draw():
    within = FIRST.apply({"do": "link_groups", "a": [1, 2, 3, 1], "b": None, "alike": True})
    assert within.pairs[:, :2].tolist() == [[1, 2], [1, 3], [2, 3]]
    between = FIRST.apply({"do": "link_groups", "a": [1, 2], "b": [2, 5], "alike": False})
    assert between.pairs[:, :2].tolist() == [[1, 2], [1, 5], [2, 5]]
    big = open_table(np.arange(600.0).reshape(300, 2))
    action = {"do": "link_groups", "a": list(range(300)), "b": None, "alike": True}
    drawn = [Session.start(big, seed).apply(action).pairs for seed in (0, 0, 1)]
    assert len(drawn[0]) == MOST_GROUPED
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def test_factors_and_classes():
    session = FIRST.after(
        [
            {"do": "weight", "column": "x1", "factor": 0},
            {"do": "weight", "column": "x2", "factor": 3},
            {"do": "weight", "column": "x2", "factor": 1},
            {"do": "paint", "rows": [5, 1], "label": " red "},
            {"do": "paint", "rows": [5], "label": None},
        ]
    )
    assert dict(session.told.factors) == {"x1": 0.0}
    assert session.factor("x2") == 1.0
    assert dict(session.told.painted) == {1: "red"}


@pytest.mark.parametrize(
    "action",
    [
        None,
        [],
        {},
        {"do": 3},
        {"do": ["link"]},
        {"do": "__init__"},
        {"do": "link", "a": 0, "b": 1},
        {"do": "link", "a": 0, "b": 1, "alike": True, "path": "/etc/passwd"},
        {"do": "link", "a": 0, "b": N, "alike": True},
        {"do": "link", "a": -1, "b": 1, "alike": True},
        {"do": "link", "a": True, "b": 0, "alike": True},
        {"do": "link", "a": 0.0, "b": 1, "alike": True},
        {"do": "link", "a": 0, "b": 1, "alike": 1},
        {"do": "link", "a": 2, "b": 2, "alike": True},
        {"do": "link_groups", "a": [], "b": None, "alike": True},
        {"do": "link_groups", "a": [3], "b": None, "alike": True},
        {"do": "link_groups", "a": "12", "b": None, "alike": True},
        {"do": "unlink", "a": 0, "b": 1},
        {"do": "answer", "a": 0, "b": 1, "answer": "maybe"},
        {"do": "paint", "rows": [0], "label": ""},
        {"do": "paint", "rows": [0], "label": "x" * 201},
        {"do": "paint", "rows": [0], "label": 7},
        {"do": "import_links", "pairs": [[0, 1, 0]]},
        {"do": "import_links", "pairs": [[0, 1]]},
        {"do": "import_links", "pairs": [[0, 0, 1]]},
        {"do": "learner", "name": "PCA"},
        {"do": "weight", "column": "salary", "factor": 1},
        {"do": "weight", "column": "x0", "factor": float("nan")},
        {"do": "weight", "column": "x0", "factor": -1},
        {"do": "weight", "column": "x0", "factor": True},
        {"do": "show", "space": "os.system"},
        {"do": "view", "space": "PCA", "axes": "main", "dimensions": 4},
        {"do": "view", "space": "PCA", "axes": "main", "dimensions": True},
        {"do": "undo", "n": 2},
    ],
)
def test_what_is_not_listed_is_refused_in_both_languages(action):
    with pytest.raises(InputError) as error:
        FIRST.apply(action)
    assert all(error.value.args[0].text(language) for language in LANGUAGES)


def test_the_log_belongs_to_one_table():
    session = FIRST.apply(link(0, 1))
    options = TableOptions(label="y", na=("-",), missing="mean")
    log = json.loads(json.dumps(session_log(session, TABLE, options)))
    assert read_options(log) == options
    other = open_table(TABLE.cells.numbers + 1.0, TABLE.y)
    with pytest.raises(InputError, match="another table"):
        replay_log(log, other)
    for broken in (None, {}, {**log, "version": 2}, {**log, "seed": "0"}, {**log, "actions": {}}):
        with pytest.raises(InputError):
            replay_log(broken, TABLE)
    with pytest.raises(InputError):
        read_options({**log, "reading": {"path": "/etc"}})
