"""Comparison with the reference, row by row."""

import numpy as np
import pytest
from scipy.stats import binomtest

from nearfold.study.scores import SCORES, ScoreName
from nearfold.study.sign_flips import largest_by_chance
from nearfold.study.significance import above_chance, compare_to_reference, score_interval


def folds(n, n_repeats=1, n_folds=5, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(np.arange(n) % n_folds) for _ in range(n_repeats)])


def discordant(gains, losses, n):
    """A reference that is always 0 and a space that gains and loses so many rows."""
    d = np.zeros(n)
    d[:gains], d[gains : gains + losses] = 1, -1
    return np.stack([np.zeros(n), d])[:, None]


def several(n=300, n_spaces=5, n_repeats=2, gain=0.0, seed=0):
    """Right or wrong, correlated between spaces; the last one is better by `gain`."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=n)
    luck = rng.normal(size=(n_spaces, n_repeats, n))
    luck[-1] += 2 * gain
    return (hard + luck > -1).astype(float)


@pytest.mark.parametrize(
    ("gains", "losses", "n"), [(3, 0, 100), (6, 0, 100), (8, 2, 50), (18, 4, 200), (34, 11, 569)]
)
def test_one_space_judged_by_a_fixed_model_is_mcnemars_exact_test(gains, losses, n):
    p = binomtest(gains, gains + losses).pvalue
    psi = discordant(gains, losses, n)
    found = compare_to_reference(psi, 0, folds(n), test_train_ratio=0.0)[1]
    assert found.difference == pytest.approx((gains - losses) / n)
    if gains + losses <= 13:  # all flips
        assert found.p == pytest.approx(p)
    else:
        assert found.p == pytest.approx(p, abs=4 * np.sqrt(p / 10_000) + 2e-4)


def test_one_sided_p_is_that_of_the_binomial_law():
    psi = discordant(8, 2, 50)
    found = above_chance(psi[1:], psi[0], folds(50), test_train_ratio=0.0)[0]
    assert found.p == pytest.approx(binomtest(8, 10, alternative="greater").pvalue)
    worse = above_chance(psi[:1], psi[1], folds(50), test_train_ratio=0.0)[0]
    assert worse.difference < 0
    assert worse.p > 0.9


def test_training_on_judged_rows_makes_the_error_larger():
    psi, fold = several(gain=0.2), folds(300, 2)
    fixed = compare_to_reference(psi, 0, fold, test_train_ratio=0.0)[-1]
    learned = compare_to_reference(psi, 0, fold, test_train_ratio=0.25)[-1]
    assert learned.error**2 >= 1.5 * fixed.error**2 * (1 - 1e-12)
    assert learned.p >= fixed.p
    assert learned.difference == fixed.difference


@pytest.mark.parametrize("seed", range(12))
def test_intervals_exclude_zero_exactly_if_p_is_below_5_percent(seed):
    psi = several(n=150, gain=0.05 * seed, seed=seed)
    for found in compare_to_reference(psi, 0, folds(150, 2), test_train_ratio=0.25, seed=seed):
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
        assert found.low <= found.difference <= found.high
        assert found.detectable >= found.high - found.difference
    for found in above_chance(psi, psi[0] * 0.9, folds(150, 2), test_train_ratio=0.25, seed=seed):
        assert (found.p < 0.05) == (found.low > 0)


def test_the_same_seed_gives_the_same_and_the_order_of_rows_does_not_matter():
    psi, fold = several(gain=0.1), folds(300, 2)
    cluster = np.arange(300) // 2
    options = {"cluster": cluster, "test_train_ratio": 0.25, "seed": 3}
    found = compare_to_reference(psi, 1, fold, **options)
    assert found == compare_to_reference(psi, 1, fold, **options)
    order = np.random.default_rng(1).permutation(300)
    options["cluster"] = 1000 - cluster[order]
    for one, other in zip(
        found, compare_to_reference(psi[:, :, order], 1, fold[:, order], **options), strict=True
    ):
        assert one.p == other.p
        assert [one.error, one.low, one.high] == pytest.approx([other.error, other.low, other.high])


def test_rows_that_are_never_judged_are_left_out():
    psi, fold = several(), folds(300, 2)
    padded = np.concatenate([psi, np.full((*psi.shape[:2], 40), np.nan)], axis=2)
    wider = np.concatenate([fold, np.full((2, 40), -1)], axis=1)
    found = compare_to_reference(psi, 0, fold, test_train_ratio=0.25)
    assert found == compare_to_reference(padded, 0, wider, test_train_ratio=0.25)


def test_copies_of_all_rows_change_nothing_if_they_are_clusters():
    psi, fold = several(gain=0.2), folds(300, 2)
    once = compare_to_reference(psi, 0, fold, test_train_ratio=0.25)[-1]
    twice = compare_to_reference(
        np.tile(psi, 3),
        0,
        np.tile(fold, 3),
        cluster=np.tile(np.arange(300), 3),
        test_train_ratio=0.25,
    )[-1]
    assert twice.p == once.p
    assert twice.error == pytest.approx(once.error)
    once = compare_to_reference(psi, 0, fold, test_train_ratio=0.0)[-1]
    fooled = compare_to_reference(np.tile(psi, 3), 0, np.tile(fold, 3), test_train_ratio=0.0)[-1]
    assert fooled.error < 0.7 * once.error


def test_more_spaces_make_it_harder_unless_they_are_the_same():
    psi, fold = several(n_spaces=2, gain=0.15), folds(300, 2)
    alone = compare_to_reference(psi, 0, fold, test_train_ratio=0.25)[1]
    same = compare_to_reference(
        np.concatenate([psi] + [psi[1:]] * 9), 0, fold, test_train_ratio=0.25
    )
    assert same[1].p == pytest.approx(alone.p, abs=0.01)
    others = np.concatenate([psi, several(n_spaces=9, seed=5)])
    assert compare_to_reference(others, 0, fold, test_train_ratio=0.25)[1].p > 2 * alone.p


def test_unstable_training_is_seen_in_the_folds():
    """A space that is lucky or unlucky fold by fold: its rows do not tell, its folds do."""
    psi, fold = several(n=1000, n_spaces=2, n_repeats=1), folds(1000)
    steady = compare_to_reference(psi, 0, fold, test_train_ratio=0.25)[1]
    psi[1] = np.where(fold == 0, 1.0, np.where(fold == 1, 0.3, psi[1]))
    unstable = compare_to_reference(psi, 0, fold, test_train_ratio=0.25)[1]
    assert unstable.error > 3 * steady.error


def test_an_outlier_does_not_decide():
    """One squared error of 10^6 among errors that favour the other space slightly."""
    rng = np.random.default_rng(0)
    d = rng.normal(0.0, 1.0, 200)
    d[0] = 1e6
    psi = np.stack([np.zeros(200), d])[:, None]
    assert compare_to_reference(psi, 0, folds(200), test_train_ratio=0.25)[1].p > 0.3


@pytest.mark.filterwarnings("error")
def test_degenerate_input():
    fold = folds(20)
    alone = compare_to_reference(np.ones((1, 1, 20)), 0, fold, test_train_ratio=0.25)
    assert [(c.difference, c.p) for c in alone] == [(0.0, 1.0)]
    equal = compare_to_reference(np.ones((3, 1, 20)), 0, fold, test_train_ratio=0.25)
    assert [(c.difference, c.low, c.high, c.p) for c in equal] == [(0.0, 0.0, 0.0, 1.0)] * 3
    psi = np.stack([np.zeros((1, 20)), np.ones((1, 20))])
    one_cluster = compare_to_reference(
        psi, 0, np.zeros((1, 20)), cluster=np.zeros(20), test_train_ratio=0.25
    )
    assert one_cluster[1].p == 1.0
    assert one_cluster[1].low == -np.inf
    unequal = compare_to_reference(
        psi, 0, fold, cluster=np.repeat([0, 1, 2], [18, 1, 1]), test_train_ratio=0.0
    )
    assert unequal[1].p >= 0.25  # three clusters


def test_a_space_that_never_differs_is_not_known_to_be_equal():
    """One more row might differ, as much as rows do in the other spaces."""
    psi = np.concatenate([np.zeros((1, 1, 100)), discordant(12, 9, 100)])
    found = compare_to_reference(psi, 0, folds(100), test_train_ratio=0.0)[1]
    assert (found.difference, found.p) == (0.0, 1.0)
    assert found.error == pytest.approx(0.01)
    assert found.low < 0 < found.high


def test_many_clusters_use_the_normal_law():
    rng = np.random.default_rng(0)
    clusters = rng.normal(size=(4, 6000))
    many = largest_by_chance(clusters, 0)
    few = largest_by_chance(clusters[:, :4000], 0)
    assert len(many.values) == 100_000
    assert many.critical == pytest.approx(few.critical, rel=0.03)


def test_no_more_than_5_percent_are_falsely_better():
    """Six spaces of the same worth, 200 tables; one side of a two-sided test at 5 %."""
    rng = np.random.default_rng(0)
    false = 0
    for i in range(200):
        psi = several(n=120, n_spaces=6, seed=int(rng.integers(2**31)))
        found = compare_to_reference(psi, 0, folds(120, 2, seed=i), test_train_ratio=0.0)
        false += any(c.p < 0.05 and c.difference > 0 for c in found)
    assert false <= 0.05 * 200
    assert false >= 1  # nor is it never


def test_detectable_gain_is_found_four_times_in_five():
    n, times = 400, 300
    rng = np.random.default_rng(1)
    change = 0.1
    d = rng.choice([1.0, -1.0, 0.0], n, p=[change / 2, change / 2, 1 - change])
    psi = np.stack([np.zeros(n), d])[:, None]
    gain = compare_to_reference(psi, 0, folds(n), test_train_ratio=0.0)[1].detectable
    up = (change + gain) / 2
    hits = 0
    for _ in range(times):
        d = rng.choice([1.0, -1.0, 0.0], n, p=[up, change - up, 1 - change])
        psi = np.stack([np.zeros(n), d])[:, None]
        hits += compare_to_reference(psi, 0, folds(n), test_train_ratio=0.0)[1].p < 0.05
    assert 0.7 < hits / times < 0.9


def test_own_interval_of_a_share_is_wilsons():
    right = np.zeros(400)
    right[:320] = 1
    found = score_interval(right[None], folds(400), test_train_ratio=0.0, independent_rows=400)
    wilson = binomtest(320, 400).proportion_ci(0.95, "wilson")
    assert [found.low, found.high] == pytest.approx([wilson.low, wilson.high], abs=1e-3)
    wider = score_interval(right[None], folds(400), test_train_ratio=0.25, independent_rows=400)
    assert wider.error >= 1.5 * found.error * (1 - 1e-12)


def test_certainty_is_not_claimed():
    for n in (10, 100):
        all_right = score_interval(
            np.ones((1, n)), folds(n), test_train_ratio=0.0, independent_rows=n
        )
        assert all_right.high == pytest.approx(1.0)
        assert all_right.low < 1 - 2 / n
    truth = np.repeat([0, 1], [500, 10])
    for name in (ScoreName.ROC_AUC, ScoreName.BALANCED_ACCURACY):
        score = SCORES[name]
        perfect = truth if score.needs == "labels" else np.eye(2)[truth]
        found = score_interval(
            score.influence(truth, perfect)[None],
            folds(510),
            test_train_ratio=0.0,
            independent_rows=score.independent_rows(truth),
            stratum=truth,
        )
        assert found.mean == pytest.approx(1.0)
        assert 0.7 < found.low < 0.9  # ten rows of the smaller class


def test_own_interval_of_balanced_accuracy_is_that_of_its_recalls():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], [900, 100])
    predicted = np.where(rng.random(1000) < 0.8, truth, 1 - truth)
    score = SCORES[ScoreName.BALANCED_ACCURACY]
    psi = score.influence(truth, predicted)[None]
    found = score_interval(psi, folds(1000), test_train_ratio=0.0, stratum=truth)
    recall = [np.mean(predicted[truth == c] == c) for c in (0, 1)]
    variance = sum(r * (1 - r) / n for r, n in zip(recall, (900, 100), strict=True)) / 4
    assert found.error == pytest.approx(np.sqrt(variance), rel=0.02)


def test_intervals_stay_within_limits():
    rng = np.random.default_rng(0)
    y = rng.normal(size=30)
    psi = SCORES[ScoreName.R2].influence(y, y + 0.01 * rng.standard_t(2, 30))[None]
    found = score_interval(psi, folds(30), test_train_ratio=0.25, limits=(-np.inf, 1.0))
    assert found.low < found.mean < found.high <= 1.0
