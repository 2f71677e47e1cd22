"""All measures at once: the same as one by one, on a sample, in little memory."""

import tracemalloc

import numpy as np
import pytest
import quality_oracle as oracle

import nearfold
import nearfold.quality.result as result
import nearfold.quality.spaces as spaces_module
from nearfold.errors import Cancelled, InputError, MemoryBudgetError, NearfoldWarning
from nearfold.quality import (
    co_ranking,
    continuity,
    judge_space,
    neighbor_overlap,
    shepard,
    stress,
    trustworthiness,
)


@pytest.fixture
def budget(monkeypatch):
    """Set the memory budget; back to the default afterwards."""
    monkeypatch.delenv("NEARFOLD_MEMORY", raising=False)
    yield nearfold.set_memory
    nearfold.set_memory(None)


@pytest.mark.parametrize("compiled", [False, True])
def test_all_at_once_is_one_by_one(compiled, monkeypatch):
    monkeypatch.setattr(spaces_module, "_PLAIN_PAIRS", 0 if compiled else 10**9)
    X, Z = oracle.two_spaces(n=100, d=12)
    found = judge_space(X, Z, n_neighbors=8)
    options = {"n_neighbors": 8}
    assert found.trustworthiness.value == pytest.approx(trustworthiness(X, Z, **options))
    assert found.continuity.value == pytest.approx(continuity(X, Z, **options))
    assert found.overlap.value == pytest.approx(neighbor_overlap(X, Z, **options))
    alone = co_ranking(X, Z)
    np.testing.assert_array_equal(found.co_ranking.q_nx, alone.q_nx)
    assert found.co_ranking.auc.value == alone.auc.value
    assert found.stress.value == pytest.approx(stress(X, Z).value, rel=1e-12)
    assert found.shepard.spearman == shepard(X, Z).spearman
    assert found.notice is found.trustworthiness.interval is found.stress.interval is None


def test_each_row_is_judged():
    X, Z = oracle.two_spaces()
    rank_x, rank_z = (oracle.ranks(oracle.distances(A)) for A in (X, Z))
    found = judge_space(X, Z, n_neighbors=4)
    trusted, kept = oracle.trust(rank_x, rank_z, 4), oracle.trust(rank_z, rank_x, 4)
    np.testing.assert_allclose(found.trustworthiness.per_row, trusted, atol=1e-14)
    np.testing.assert_allclose(found.continuity.per_row, kept, atol=1e-14)
    common = oracle.overlap(rank_x, rank_z, 4)
    np.testing.assert_allclose(found.overlap.per_row, common, atol=1e-14)
    for quality in (found.trustworthiness, found.continuity, found.overlap):
        assert quality.n_judged == 40
        assert quality.n_neighbors == 4
        assert float(quality) == quality.value == pytest.approx(quality.per_row.mean())


def test_a_perfect_space_is_perfect_in_all():
    X, _ = oracle.two_spaces(n=60, d=12)
    summary = judge_space(X, X).summary()
    assert summary.pop("stress") == 0.0
    assert all(value == pytest.approx(1.0, abs=1e-12) for value in summary.values())


def test_a_sample_judges_its_rows_against_all():
    X, Z = oracle.two_spaces(n=300)
    whole, part = judge_space(X, Z), judge_space(X, Z, sample=100)
    assert part.n_judged == 100 == len(part.rows)
    assert part.notice == part.trustworthiness.notice == part.stress.notice
    assert "100 of 300 rows were judged" in str(part)
    for name in ("trustworthiness", "continuity", "overlap"):
        a, b = getattr(whole, name), getattr(part, name)
        np.testing.assert_array_equal(b.per_row[part.rows], a.per_row[part.rows])
        assert np.isnan(np.delete(b.per_row, part.rows)).all()
        assert b.interval[0] < b.value < b.interval[1]


def test_sampled_values_hold_the_true_ones_at_the_nominal_rate():
    X, Z = oracle.two_spaces(n=200, d=3)
    whole = judge_space(X, Z, n_neighbors=15, n_pairs=50)
    names = ("trustworthiness", "continuity", "overlap")
    hits = dict.fromkeys(names, 0)
    for seed in range(100):
        part = judge_space(X, Z, n_neighbors=15, n_pairs=50, sample=70, random_state=seed)
        for name in names:
            low, high = getattr(part, name).interval
            hits[name] += low <= getattr(whole, name).value <= high
    assert all(86 <= count for count in hits.values()), hits  # 95, with an error of 2.2


def test_large_tables_are_sampled_with_notice(monkeypatch):
    monkeypatch.setattr(result, "EXACT_ROWS", 100)
    monkeypatch.setattr(result, "_LEAST", 10)
    X, Z = oracle.two_spaces(n=200)
    found = judge_space(X, Z)
    assert found.n_judged == 50  # 100^2 / 200
    assert found.notice.startswith("50 of 200 rows")
    assert judge_space(X, Z, sample=200).notice is None
    assert judge_space(X[:100], Z[:100]).notice is None


def test_the_order_of_rows_does_not_matter():
    X, Z = oracle.two_spaces(n=150)
    order = np.random.default_rng(0).permutation(150)
    for sample in (None, 60):
        a = judge_space(X, Z, sample=sample)
        b = judge_space(X[order], Z[order], sample=sample)
        np.testing.assert_array_equal(np.sort(order[b.rows]), a.rows)
        assert a.summary() == pytest.approx(b.summary(), abs=1e-12)


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(spaces_module, "_PLAIN_PAIRS", 0)  # small tables take one thread
    X, Z = oracle.two_spaces(n=300, d=12)
    a, b = judge_space(X, Z, n_jobs=1), judge_space(X, Z, n_jobs=4)
    assert a.summary() == b.summary()
    np.testing.assert_array_equal(a.stress.per_row, b.stress.per_row)


def test_memory_is_bounded(budget):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(3000, 20)), rng.normal(size=(3000, 2))
    judge_space(X[:50], Z[:50])  # modules loaded, kernels compiled
    for megabytes, sample in ((16, None), (4, 500)):  # one matrix of distances would be 72 MB
        budget(f"{megabytes}MB")
        tracemalloc.start()
        judge_space(X, Z, sample=sample)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < megabytes * 2**20
    budget("1MB")
    with pytest.raises(MemoryBudgetError, match="judge a space of 3,000 rows"):
        judge_space(X, Z)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_memory_budget_changes_no_bit(budget, order):
    random = np.random.default_rng(0)
    X = np.asarray(random.normal(size=(700, 60)) + 10, order=order)
    Z = X[:, :12] + random.normal(size=(700, 12))
    found = []
    for size in ("2GB", "1MB"):  # the centred tables are kept, or not
        budget(size)
        found.append(judge_space(X, Z))
    assert found[0].summary() == found[1].summary()
    np.testing.assert_array_equal(found[0].stress.per_row, found[1].stress.per_row)
    np.testing.assert_array_equal(found[0].co_ranking.q_nx, found[1].co_ranking.q_nx)


def test_too_many_neighbours_are_lowered_and_said():
    X, Z = oracle.two_spaces(n=15)
    with pytest.warns(NearfoldWarning, match="n_neighbors=10 is not less than half of the 15"):
        assert judge_space(X, Z).n_neighbors == 7
    with pytest.raises(InputError, match="from 1 to 7"):
        judge_space(X, Z, n_neighbors=0)
    with pytest.raises(InputError, match="at least two rows"):
        judge_space(X, Z, n_neighbors=3, sample=1)


@pytest.mark.parametrize(
    ("X", "Z"),
    [
        (np.arange(3.0)[:, None], np.arange(3.0)[:, None]),
        (np.arange(8.0)[:, None], np.ones((8, 2))),
        (np.ones((8, 3)), np.ones((8, 1))),
        (np.ones((8, 3)), np.arange(8.0)[:, None]),
        (np.repeat(np.arange(4.0), 2)[:, None], np.arange(8.0)[:, None]),
        (np.full((8, 12), 0.1), np.ones((8, 12))),
    ],
    ids=["three rows", "one spot", "constant both", "constant X", "duplicates", "wide"],
)
def test_degenerate_tables_have_finite_answers(X, Z):
    found = judge_space(X, Z, n_neighbors=1)
    assert all(np.isfinite(value) for value in found.summary().values())
    assert np.isfinite(found.stress.per_row).all()
    assert str(found)


def test_float32_is_judged_as_it_is():
    X, Z = (A.astype(np.float32) for A in oracle.two_spaces(n=80, d=12))
    want = judge_space(X.astype(np.float64), Z.astype(np.float64)).summary()
    assert judge_space(X, Z).summary() == pytest.approx(want, rel=1e-9)


def test_progress_is_told_and_can_stop_the_work():
    X, Z = oracle.two_spaces(n=300)
    seen = []

    def stop(label, done, total):
        seen.append((label, done, total))
        if done == 2:
            raise Cancelled

    with nearfold.progress(stop), pytest.raises(Cancelled):
        judge_space(X, Z)
    assert seen == [("judging the space", 1, 10), ("judging the space", 2, 10)]
