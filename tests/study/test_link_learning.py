"""The metric that links teach, and the proof of what it gained."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

import nearfold
from nearfold.errors import Cancelled, InputError
from nearfold.messages import LANGUAGES, Message
from nearfold.run import progress
from nearfold.study.intake import open_table
from nearfold.study.lessons import complete_pairs, read_lesson
from nearfold.study.link_judge import judge_learning
from nearfold.study.link_learning import learn
from nearfold.study.session import Session, replay


def link(a, b, alike=True):
    return {"do": "link", "a": int(a), "b": int(b), "alike": bool(alike)}


def by_label(session, y, n, seed=0):
    """A session with n links, half of them alike."""
    draw = np.random.default_rng(seed)
    while len(session.links) < n:
        a, b = draw.choice(len(y), 2, replace=False)
        if (y[a] == y[b]) == (len(session.links) % 2 == 0):
            session = session.apply(link(a, b, y[a] == y[b]))
    return session


def planted(n=600, useless=24):
    """Two columns tell the classes, the others nothing."""
    draw = np.random.default_rng(3)
    y = draw.integers(3, size=n)
    means = np.array([[0, 0], [3, 0], [0, 3]])
    noise = draw.standard_normal((n, useless))
    return np.hstack([means[y] + 0.5 * draw.standard_normal((n, 2)), noise]), y


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return open_table(X, y), y


@pytest.fixture(scope="module")
def taught():
    X, y = planted()
    table = open_table(X, y)
    session = by_label(Session.start(table, 1), y, 80)
    return table, session, learn(table, session)


def test_links_teach_and_the_gain_is_shown(taught):
    table, session, learned = taught
    assert learned.learner == "MMC"  # most columns are useless: a weight for each
    shares = learned.shares()
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["x0"] + shares["x1"] > 0.8
    gain = judge_learning(table, session, learned)
    for part in (gain.links, gain.labels):
        assert part.difference.is_gain
        assert part.before.low <= part.before.mean <= part.before.high < part.after.mean
        assert all(part.told.text(language) for language in LANGUAGES)
    assert gain.labels.n <= len(table) - len(learned.seen)
    assert set(gain.as_dict()) == {"links", "labels"}


def test_random_links_gain_nothing(taught):
    table, _, _ = taught
    noise = np.random.default_rng(8).integers(2, size=len(table))
    session = by_label(Session.start(table, 1), noise, 40)
    gain = judge_learning(table, session, learn(table, session))
    assert not gain.links.difference.is_gain
    assert not gain.labels.difference.is_gain


def test_replay_gives_the_same_bits(wine):
    table, y = wine
    session, before = Session.start(table, 2), None
    for action in by_label(session, y, 6).actions:
        session = session.apply(action)
        before = learn(table, session, before=before)
    again = learn(table, replay(table, session.actions, 2))
    assert before.learner == again.learner == "ITML"
    assert np.array_equal(before.metric.components_, again.metric.components_)
    assert np.array_equal(before.coordinates, again.coordinates)


def test_the_model_is_what_compare_saves(wine, tmp_path):
    table, y = wine
    learned = learn(table, by_label(Session.start(table), y, 10))
    nearfold.save(learned.model, tmp_path / "taught.nearfold")
    loaded = nearfold.load(tmp_path / "taught.nearfold")
    Z = loaded.transform(table.cells.numbers)
    assert np.array_equal(Z, learned.model.transform(table.cells.numbers))
    assert np.array_equal(Z, learned.coordinates)


def test_alike_comes_nearer_and_different_farther(wine):
    table, _ = wine
    learned = learn(table, Session.start(table).after([link(0, 100), link(0, 1, False)]))
    X, Z = learned.ground.X, learned.coordinates

    def ratio(a, b):
        return np.linalg.norm(Z[a] - Z[b]) / np.linalg.norm(X[a] - X[b])

    assert ratio(0, 100) < 0.9 < 1 < ratio(0, 1)


def test_factors_overrule_columns(wine):
    table, y = wine
    session = by_label(Session.start(table), y, 10)
    left_out = session.apply({"do": "weight", "column": "x0", "factor": 0})
    learned = learn(table, left_out)
    assert np.all(learned.metric.components_[:, 0] == 0)
    assert learned.shares()["x0"] == 0
    # A factor on a column and the column multiplied by it are the same problem.
    doubled = learn(table, session.apply({"do": "weight", "column": "x3", "factor": 2}))
    plain = learn(table, session)
    assert doubled.shares()["x3"] > plain.shares()["x3"]
    every = [{"do": "weight", "column": f"x{j}", "factor": 0} for j in range(13)]
    with pytest.raises(InputError, match="factor 0"):
        learn(table, session.after(every))


@pytest.mark.parametrize("learner", ["ITML", "MMC", "LMNN"])
def test_each_learner_can_be_asked_for(wine, learner):
    table, y = wine
    session = by_label(Session.start(table), y, 12).apply({"do": "learner", "name": learner})
    learned = learn(table, session)
    assert type(learned.metric).__name__ == learned.learner == learner
    assert np.isfinite(learned.coordinates).all()
    assert (learned.threshold is None) == (learner == "LMNN")


def test_painted_classes_teach(wine):
    table, y = wine
    paint = [
        {"do": "paint", "rows": np.flatnonzero(y == c)[:6].tolist(), "label": str(c)}
        for c in range(3)
    ]
    session = Session.start(table).after(paint)
    lesson = read_lesson(session)
    assert len(lesson.rows) == 18
    assert set(np.unique(lesson.pairs[:, 2])) == {-1, 1}
    learned = learn(table, session)
    gain = judge_learning(table, session, learned)
    assert gain.labels.after.mean > 0.9
    lmnn = learn(table, session.apply({"do": "learner", "name": "LMNN"}))
    assert len(lmnn.seen) == 18


def test_what_follows_from_links_is_learned_and_contradictions_are_not():
    pairs = np.array([[0, 1, 1], [1, 2, 1], [2, 5, -1], [7, 5, 1]])
    found = {(a, b): s for a, b, s in complete_pairs(pairs, 0).tolist()}
    apart = [(i, j) for i in (0, 1, 2) for j in (5, 7)]
    known = {(min(a, b), max(a, b)): s for (a, b), s in found.items()}
    assert known == {(0, 1): 1, (0, 2): 1, (1, 2): 1, (5, 7): 1, **dict.fromkeys(apart, -1)}
    table = open_table(np.random.default_rng(0).standard_normal((20, 3)))
    session = Session.start(table).after([link(0, 1), link(1, 2), link(2, 0, False)])
    learned = learn(table, session)
    assert learned.lesson.left_out == 1
    assert len(learned.lesson.told) == 2
    assert len(learned.lesson.pairs) == 3
    assert any("contradicted" in str(note) for note in learned.notes)


def test_too_few_links_are_said_to_be_too_few(wine):
    table, y = wine
    session = by_label(Session.start(table), y, 4)
    gain = judge_learning(table, session, learn(table, session))
    assert isinstance(gain.links, Message)
    assert "too few links" in gain.links
    assert gain.labels.n > 100
    with pytest.raises(InputError, match="nothing has been told"):
        learn(table, Session.start(table))


def test_a_newer_link_stops_a_fit(wine):
    table, y = wine
    session = by_label(Session.start(table), y, 20)
    asked, heard = [], []

    def should_stop():
        asked.append(1)
        return len(asked) > 3

    with progress(lambda *step: heard.append(step)), pytest.raises(Cancelled):
        learn(table, session, should_stop=should_stop)
    assert len(asked) == 4
    assert len(heard) == 2  # the first question comes before the first step


def test_wide_tables_are_learned_on_principal_axes():
    draw = np.random.default_rng(0)
    table = open_table(draw.standard_normal((60, 200)))
    learned = learn(table, Session.start(table).after([link(0, 1), link(2, 3, False)]))
    assert learned.metric.components_.shape == (59, 200)
    assert np.isfinite(learned.coordinates).all()


def test_warnings_of_a_fit_are_notes_and_no_filter_is_touched(wine, recwarn):
    table, _ = wine
    paint = [{"do": "paint", "rows": [0, 1, 2, 3], "label": "a"},
             {"do": "paint", "rows": [100], "label": "b"},
             {"do": "learner", "name": "LMNN"}]  # fmt: skip
    learned = learn(table, Session.start(table).after(paint))
    assert learned.notes  # a class of one row has no target neighbour
    assert len(recwarn) == 0
