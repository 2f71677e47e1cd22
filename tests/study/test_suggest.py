"""Suggested pairs teach more than random ones; `python -m bench.suggest` has all figures."""

import numpy as np
import pytest
from bench.suggest import some_digits, trial
from sklearn.datasets import load_wine

from nearfold.errors import InputError
from nearfold.messages import LANGUAGES
from nearfold.study.intake import open_table
from nearfold.study.lessons import read_lesson
from nearfold.study.session import Session
from nearfold.study.suggest import suggest


@pytest.mark.parametrize(
    ("rows", "seeds"), [(some_digits, 3), (lambda: load_wine(return_X_y=True), 20)]
)
def test_forty_suggested_answers_beat_forty_random_ones(rows, seeds):
    X, y = rows()
    found = np.array([trial(X, y, seed, 40) for seed in range(seeds)])
    _, random, suggested = found.mean(axis=0)
    assert suggested[1] > random[1]  # AUC of held-out pairs


def small():
    return open_table(np.random.default_rng(0).standard_normal((6, 2)))


def next_pair(table, session):
    try:
        return suggest(table, session)
    except InputError:
        return None


def test_what_is_known_follows_or_was_skipped_is_not_asked():
    table = small()
    session = Session.start(table, 3)
    asked = set()
    while (found := next_pair(table, session)) is not None:
        assert (found.a, found.b) not in asked
        assert found.a < found.b
        assert 0 <= found.chance <= 1
        assert all(found.rule.text(language) for language in LANGUAGES)
        asked.add((found.a, found.b))
        # Rows 0 to 2 are alike, 3 to 5 are; some pairs are skipped.
        answer = "alike" if (found.a < 3) == (found.b < 3) else "different"
        answer = "skip" if len(asked) == 2 else answer
        session = session.apply({"do": "answer", "a": found.a, "b": found.b, "answer": answer})
    # All 15 pairs are known, and most of them were never asked about.
    assert len(read_lesson(session).pairs) == 15
    assert len(session.links) < 10


def test_the_same_session_gives_the_same_suggestion():
    table = small()
    link = {"do": "link", "a": 0, "b": 1, "alike": True}
    one, two = (suggest(table, Session.start(table, 3).apply(link)) for _ in range(2))
    assert one == two
