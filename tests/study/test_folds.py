"""Which rows are held out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfold.errors import InputError
from nearfold.study.folds import groups_of_equal_rows, split_rows
from nearfold.study.question import Question
from nearfold.study.table import sample_by_class


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(12, 90), st.integers(2, 5), st.integers(1, 4))
def test_every_row_is_held_out_once_per_repeat_and_copies_stay_together(seed, n, n_folds, classes):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, 2)).astype(float)  # many copies
    y = rng.integers(0, classes, n)
    try:
        group = groups_of_equal_rows(X)
        split = split_rows(
            group, y, n_folds=n_folds, n_repeats=2, set_aside=False, random_state=seed
        )
    except InputError:
        return
    for repeat in (0, 1):
        folds = [f for f in split.folds if f.repeat == repeat]
        held_out = np.concatenate([f.test for f in folds])
        assert len(np.unique(held_out)) == len(held_out)
        for fold in folds:
            assert not np.isin(group[fold.test], group[fold.train]).any()
            assert np.array_equal(np.sort(np.r_[fold.train, fold.test]), np.arange(n))


def test_each_class_has_its_share_in_each_fold():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [400, 100, 30])
    for fold in split_rows(rng.permutation(530), y, n_repeats=1, set_aside=False).folds:
        assert np.bincount(y[fold.test]).tolist() == [80, 20, 6]


def test_a_class_with_one_distinct_row_is_never_held_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X[58] = X[59]  # the same row twice is one distinct row
    y = np.r_[np.zeros(57), 1, 2, 2]
    split = split_rows(groups_of_equal_rows(X), y, n_repeats=3)
    assert not np.isin(np.concatenate([f.test for f in split.folds]), [57, 58, 59]).any()
    assert any("single distinct row" in str(n) for n in split.notices)
    assert any("copies" in str(n) for n in split.notices)


def test_rows_set_aside_are_in_no_fold():
    rng = np.random.default_rng(0)
    rows, y = np.arange(1500), rng.integers(0, 2, 1500)
    split = split_rows(rows, y)
    assert len(split.set_aside) == 300
    for fold in split.folds:
        assert not np.isin(split.set_aside, np.r_[fold.train, fold.test]).any()
    assert np.array_equal(np.sort(np.r_[split.set_aside, split.development]), np.arange(1500))
    assert len(split_rows(rows[:900], y[:900]).set_aside) == 0


def test_minus_zero_is_zero_and_signs_matter():
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0]])
    group = groups_of_equal_rows(X)
    assert group[0] == group[1] != group[2]


def test_folds_that_cannot_be_made_are_refused():
    with pytest.raises(InputError, match="fold"):
        split_rows(np.arange(30), None, n_folds=20)
    for n_folds in (0, 1, 2.5):
        with pytest.raises(InputError, match="n_folds"):
            Question(n_folds=n_folds)
    with pytest.raises(InputError, match="3 groups, too few for 5"):
        split_rows(np.arange(30), None, group=np.arange(30) % 3)


def test_the_same_seed_gives_the_same_folds():
    one, same, other = (split_rows(np.arange(100), None, random_state=s).folds for s in (1, 1, 2))
    assert all(np.array_equal(a.test, b.test) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a.test, b.test) for a, b in zip(one, other, strict=True))


def test_a_sample_keeps_every_class_and_its_share():
    label = np.repeat([0, 1, 2], [9000, 990, 10])
    chosen = sample_by_class(label, 10_000, 1000, np.random.default_rng(0))
    counts = np.bincount(label[chosen])
    assert counts.sum() == 1000
    np.testing.assert_allclose(counts, [900, 99, 1], atol=2)
    assert counts[2] >= 1
    assert np.array_equal(sample_by_class(label, 10_000, 10_000, None), np.arange(10_000))


def test_rows_of_one_group_are_never_on_both_sides():
    rng = np.random.default_rng(0)
    patient = rng.integers(0, 150, 1200)
    copies = np.arange(1200)
    copies[:2] = 0  # equal rows of two patients tie these together
    split = split_rows(copies, rng.integers(0, 2, 1200), group=patient)
    for fold in split.folds:
        assert not np.isin(patient[fold.test], patient[fold.train]).any()
        assert (0 in fold.test) == (1 in fold.test)
    assert not np.isin(patient[split.set_aside], patient[split.development]).any()
    assert any("150 groups" in str(n) for n in split.notices)


def test_the_past_predicts_the_future():
    rng = np.random.default_rng(0)
    when = rng.permutation(np.repeat(np.arange(400.0), 3))  # three rows of each moment
    split = split_rows(np.arange(1200), None, time=when)
    assert split.in_time
    assert split.n_repeats == 1
    for i, fold in enumerate(split.folds):
        assert when[fold.train].max() < when[fold.test].min()
        assert fold.judged == (i > 0)
        assert split.choosing(i, 5).tolist() == list(range(i))
    assert when[split.development].max() < when[split.set_aside].min()
    assert 200 <= len(split.set_aside) <= 280
    held_out = np.concatenate([fold.test for fold in split.folds])
    assert len(np.unique(held_out)) == len(held_out)


def test_settings_are_chosen_by_the_other_folds_of_the_repeat():
    split = split_rows(np.arange(60), None, n_folds=3, n_repeats=2)
    assert split.choosing(1, 6).tolist() == [0, 2]
    assert split.choosing(3, 6).tolist() == [4, 5]
    assert split.choosing(0, 2).tolist() == [1]  # the trial was stopped after two folds


def test_in_time_no_group_is_on_both_sides():
    rng = np.random.default_rng(0)
    when = np.arange(1200.0)
    patient = (when // 8 + rng.integers(0, 4, 1200)).astype(int)  # each seen for a while
    split = split_rows(np.arange(1200), None, group=patient, time=when)
    for fold in split.folds:
        assert when[fold.train].max() < when[fold.test].min()
        assert not np.isin(patient[fold.test], patient[fold.train]).any()
    assert not np.isin(patient[split.set_aside], patient[split.development]).any()
    assert any(n.id == "study.groups_in_time" for n in split.notices)
    with pytest.raises(InputError, match="every group lasts too long"):
        split_rows(np.arange(120), None, group=np.arange(120) % 3, time=np.arange(120.0))


def test_times_of_which_one_holds_most_rows():
    late = np.r_[np.arange(10.0), np.full(110, 99.0)]
    split = split_rows(np.arange(120), None, time=late)
    assert [fold.judged for fold in split.folds] == [True]
    assert not any(n.id == "study.first_step" for n in split.notices)
    with pytest.raises(InputError, match="earliest time"):
        split_rows(np.arange(120), None, time=-late)
