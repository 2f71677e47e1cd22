"""Intervals and tests over folds."""

import numpy as np
import pytest
from scipy import stats

from nearfold.quality.held_out import share_error
from nearfold.study.statistics import (
    discordant_error,
    estimate,
    fold_errors,
    holm,
    one_standard_error,
)


def test_estimate_is_nadeau_and_bengios():
    scores = np.array([0.9, 0.92, 0.88, 0.95, 0.91])
    found = estimate(scores, odds=0.25)
    error = np.sqrt((1 / 5 + 0.25) * np.var(scores, ddof=1))
    assert found.mean == pytest.approx(scores.mean())
    assert found.error == pytest.approx(error)
    assert found.high - found.mean == pytest.approx(stats.t.ppf(0.975, 4) * error)
    assert found.p == pytest.approx(2 * stats.t.sf(scores.mean() / error, 4))
    # Without the correction it is the plain t-test.
    assert estimate(scores, odds=0.0).p == pytest.approx(stats.ttest_1samp(scores, 0).pvalue)


def test_equal_scores_are_not_certainty():
    assert estimate(np.ones(5), 0.25, floor=share_error(1.0, 100)).low < 0.99
    assert estimate(np.zeros(5), 0.25).p == 1.0
    assert estimate(np.array([0.5]), 0.25).p == 1.0  # one fold tells nothing of its spread


def test_the_corrected_test_holds_its_level_on_folds_that_share_rows():
    """Differences of two coin-flipping learners over 5 folds, 400 times."""
    rng = np.random.default_rng(0)
    false = 0
    for _ in range(400):
        ours, theirs = rng.random((2, 100)) < 0.6
        d = (ours.astype(float) - theirs).reshape(5, 20).mean(axis=1)
        false += estimate(d, 0.25, discordant_error(ours, theirs)).p < 0.05
    assert false <= 0.07 * 400


def test_share_error():
    assert share_error(1.0, 100) > 0.005
    assert share_error(0.8, 400) < share_error(0.8, 100)
    np.testing.assert_allclose(share_error(0.5, 10_000), 0.005, rtol=1e-3)


def test_holm_by_hand():
    # Sorted 0.01, 0.03, 0.04 times 3, 2, 1, never falling.
    np.testing.assert_allclose(holm([0.03, 0.01, 0.04]), [0.06, 0.03, 0.06])
    assert holm([0.6, 0.7]).max() == 1.0
    assert len(holm([])) == 0


def test_one_standard_error_takes_the_first_that_is_good_enough():
    base = np.array([0.7, 0.8, 0.9, 0.6])[:, None]
    offset = np.array([[-0.3, -0.02, 0.0], [-0.3, 0.02, 0.0], [-0.3, -0.01, 0.0], [-0.3, 0.0, 0.0]])
    # Behind by 0.0025 +- 0.0085 and by 0.3 +- 0: the second is good enough, the first is not.
    assert one_standard_error(base + offset) == 1
    assert one_standard_error(base + offset * [1, 0, 1] - [0, 0.001, 0]) == 2
    assert one_standard_error(np.array([[0.1, 0.9, 0.5]])) == 1


def test_repeats_do_not_shrink_the_standard_error():
    scores = np.random.default_rng(0).normal(size=(5, 3))
    once, often = fold_errors(scores, 5), fold_errors(np.tile(scores, (20, 1)), 5)
    np.testing.assert_allclose(once, scores.std(axis=0, ddof=1) / np.sqrt(5))
    np.testing.assert_allclose(often, once, rtol=0.12)
    assert fold_errors(scores[:1], 5).tolist() == [0, 0, 0]
