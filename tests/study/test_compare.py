"""Spaces compared: right on planted tables, honest on noise, and never stopped by one of them."""

import time

import numpy as np
import polars as pl
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits, load_iris, make_swiss_roll
from sklearn.metrics import roc_auc_score

import nearfold
from nearfold import compare
from nearfold.columns.cells import cells_of_array
from nearfold.errors import Cancelled, InputError, NearfoldWarning
from nearfold.run import reporter
from nearfold.study import learner
from nearfold.study.candidates import all_candidates, pick_candidates
from nearfold.study.folds import split_rows
from nearfold.study.question import Question, Status, Task
from nearfold.study.trial import SpaceResult
from nearfold.study.verdict import judge_results


class Spy(TransformerMixin, BaseEstimator):
    """Leaves rows as they are, and remembers which it was fitted on."""

    fitted_on: list = []  # noqa: RUF012  (clones share it)

    def fit(self, X, y=None):
        Spy.fitted_on.append(X[:, 0].copy())
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


class Broken(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        raise RuntimeError("it is broken\nin two lines")

    def transform(self, X):
        return X


class Slow(TransformerMixin, BaseEstimator):
    """Never ends, but tells every hour that it goes on."""

    hours: list = []  # noqa: RUF012

    def fit(self, X, y=None):
        while True:
            Slow.hours.append(1)
            reporter()("going on", 0, None)

    def transform(self, X):
        return X


class Interrupted(Broken):
    def fit(self, X, y=None):
        raise KeyboardInterrupt


def planted(seed=0, n=400, noise=40):
    """Two classes apart along one axis, drowned in louder columns of noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 1 + noise)) * np.r_[1.0, np.full(noise, 4.0)]
    X[:, 0] += 5.0 * y
    return X, y


FEW = ["PCA", "LDA"]


def test_the_space_that_helps_wins_with_its_reason():
    found = compare(*planted(), methods=["PCA", "LDA", "NCA"])
    assert found.winner in ("LDA", "NCA")
    assert found.result("LDA").n_dimensions == 1
    standing = found.verdict.of("LDA")
    assert standing.verdict == "better"
    assert standing.score.mean > 0.97
    assert standing.score.low <= standing.score.mean <= standing.score.high
    assert found.verdict.reference == "scaled"  # the better one of the raw and the scaled columns
    base = found.verdict.of("scaled").score.mean
    assert standing.difference.difference == pytest.approx(standing.score.mean - base)
    assert found.winner in str(found.headline)
    assert "标准化列" in found.headline.text("zh")
    assert any("slightly optimistic" in str(line) for line in found.details)  # no last check


@pytest.mark.parametrize("seed", range(4))
def test_on_noise_nothing_is_declared_better_than_chance(seed):
    """More columns than the supervised methods can resist: on training rows they are near 100 %."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(160, 40)), rng.integers(0, 3, 160)
    found = compare(X, y, methods=["PCA", "LDA", "NCA", "LFDA", "MMC", "ITML"], n_repeats=2)
    assert found.winner is None
    assert not found.verdict.beats_chance
    assert "no evidence that these columns predict" in str(found.headline)
    assert "guessing" in str(found.details[0])
    # d' and k are not chosen by what they are judged by: in hindsight some is always above chance.
    pca = found.result("PCA")
    assert pca.fold_scores.mean() < pca.scores.mean(axis=0).max() + 1e-12


def test_a_leak_would_be_seen():
    """The noise test can fail: a space that looks up held-out labels is declared better."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(160, 40)), rng.integers(0, 3, 160)
    known = {row.tobytes(): label for row, label in zip(X, y, strict=True)}

    class Leak(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            return self

        def transform(self, X):
            return np.array([[float(known[row.tobytes()])] for row in X])

    found = compare(X, y, methods=["PCA"], spaces={"leak": Leak()}, n_repeats=2, scale=False)
    assert found.winner == "leak"


def test_no_space_beats_the_raw_one_is_said():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    X = rng.normal(size=(200, 2)) * 0.4 + y[:, None]
    found = compare(X, y, methods=FEW)
    assert found.winner is None
    assert found.best == found.verdict.reference
    assert found.best in ("raw", "scaled")
    assert "no space is shown to be better" in str(found.headline)
    assert any("would have shown a gain" in str(line) for line in found.details)
    assert "noise" not in str(found)


def test_held_out_rows_are_never_fitted_on():
    X, y = planted(n=1200)
    X[:, 0] += np.arange(1200) * 1e-9  # rows can be told apart by it
    Spy.fitted_on = []
    found = compare(X, y, methods=["PCA"], spaces={"spy": Spy()}, n_repeats=1, scale=False)
    split = found.judge.split
    assert len(split.set_aside) == 240
    assert len(Spy.fitted_on) == len(split.folds)
    for fold, seen in zip(split.folds, Spy.fitted_on, strict=True):
        assert set(seen) == set(X[fold.train, 0])
        assert not np.isin(X[np.r_[fold.test, split.set_aside], 0], seen).any()


def test_the_winner_is_checked_on_rows_set_aside():
    found = compare(*planted(n=1200), methods=FEW)
    final = found.final
    assert final.n == 240
    assert final.winner > 0.95 > final.reference
    assert final.p < 1e-3
    assert "holds" in str(final.told)


def test_dimensions_are_chosen_by_the_other_folds():
    split = split_rows(np.arange(60), None, n_folds=3, n_repeats=2)
    candidate = all_candidates(cells_of_array(np.zeros((60, 2))), Task.CLASSIFICATION)[0]
    result = SpaceResult("made up", candidate, split, ks=(1, 5))
    result.dimensions = np.array([1, 2])
    by_d = [[0.9, 0.1], [0.2, 0.8], [0.2, 0.8], [0.0, 0.5], [0.6, 0.5], [0.6, 0.5]]
    scores = np.array(by_d)[:, None, :, None] + np.array([0.0, 0.01])  # k = 5 is a little better
    result.scores = scores
    # Fold 0 likes one dimension, but the others of its repeat like two, and so on.
    assert [result.chosen_for(i).dimension for i in range(6)] == [1, 0, 0, 0, 0, 0]
    assert [result.chosen_for(i).k for i in range(6)] == [1] * 6
    assert result.n_neighbors == 5


def test_one_space_that_fails_does_not_stop_the_others():
    found = compare(*planted(n=200), methods=FEW, spaces={"broken": Broken()})
    assert found.verdict.of("broken").verdict == "failed"
    assert str(found.result("broken").trouble) == "RuntimeError: it is broken"
    assert found.winner == "LDA"
    assert "it is broken" in str(found)


def test_a_transformer_of_another_package_gets_classes_by_number():
    class Particular(TransformerMixin, BaseEstimator):
        """Takes numbers only, as UMAP does."""

        def fit(self, X, y=None):
            assert y.dtype.kind == "i"
            self.fitted_ = True
            return self

        def transform(self, X):
            return X[:, :1]

    X, y = planted(n=200)
    found = compare(
        X,
        np.array(["no", "yes"])[y],
        methods=FEW,
        spaces={"other": Particular()},
        supervised=["other"],
    )
    assert found.verdict.of("other").verdict == "better", found.result("other").trouble
    assert found.fit("LDA")[-1].classes_.tolist() == ["no", "yes"]  # ours keep the words


def test_a_space_beyond_its_time_is_stopped_and_said(monkeypatch):
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 3600 * len(Slow.hours))
    found = compare(*planted(n=200), methods=FEW, spaces={"slow": Slow()}, time_budget=3000)
    assert found.verdict.of("slow").verdict == "unfinished"
    assert "0 of" in str(found.result("slow").trouble)
    assert found.winner == "LDA"


def test_the_reference_has_no_deadline_and_without_it_nothing_is_compared(monkeypatch):
    found = compare(*planted(n=200), methods=FEW, time_budget=1e-9)
    assert found.verdict.of(found.verdict.reference).verdict == "reference"
    assert found.verdict.of("PCA").verdict == "unfinished"
    results = list(compare(*planted(n=200), methods=FEW, n_repeats=1).results)
    results[0].status = results[1].status = Status.FAILED
    verdict = judge_results(results, compare(*planted(n=200), methods=FEW, n_repeats=1).judge)
    assert verdict.of("PCA").verdict == "uncompared"
    assert verdict.winner is None


def test_a_last_check_that_fails_loses_nothing():
    class TooLarge(Spy):
        def fit(self, X, y=None):
            if len(X) > 900:
                raise RuntimeError("too large")
            self.mean_ = [X[y == c].mean(axis=0) for c in np.unique(y)]
            return self

        def transform(self, X):
            return X[:, :1]

    found = compare(
        *planted(n=1200),
        methods=["PCA"],
        spaces={"first": TooLarge()},
        n_repeats=1,
        supervised=["first"],
    )
    assert found.winner == "first"
    assert found.final is None
    assert any("too large" in str(n) for n in found.notices)


def test_ctrl_c_in_the_last_check_keeps_what_was_found():
    class Impatient(Spy):
        def fit(self, X, y=None):
            if len(X) > 900:
                raise KeyboardInterrupt
            self.fitted_ = True
            return self

        def transform(self, X):
            return X[:, :1]

    found = compare(*planted(n=1200), methods=["PCA"], spaces={"first": Impatient()}, n_repeats=1)
    assert found.winner == "first"
    assert found.stopped
    assert found.final is None


def test_a_width_that_changes_from_fold_to_fold_is_judged_whole():
    class Wider(TransformerMixin, BaseEstimator):
        """Zeros first; the one good column is the last, the second or the third."""

        fits: list = []  # noqa: RUF012

        def fit(self, X, y=None):
            self.n_ = 2 + len(Wider.fits) % 2
            Wider.fits.append(1)
            return self

        def transform(self, X):
            return np.hstack([np.zeros((len(X), self.n_ - 1)), X[:, :1]])

    X, y = planted(n=200, noise=3)
    found = compare(X, y, methods=["PCA"], spaces={"wider": Wider()}, n_repeats=2)
    assert len(set(found.result("wider").widths)) == 2
    assert found.result("wider").scores.min() > 0.85  # some k are worse than others


def test_whole_numbers_that_are_many_are_a_target():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.round(100 * X[:, 0])
    with pytest.warns(NearfoldWarning, match="taken as a target"):
        found = compare(X, y, methods=["PCA"], n_repeats=1)
    assert found.judge.task == "regression"
    objects = np.array([str(v) for v in rng.integers(0, 3, 200)], dtype=object)
    assert compare(X, objects, methods=["PCA"], n_repeats=1).judge.task == "classification"


def test_a_class_that_lost_a_row_to_the_last_check_is_not_judged():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1200, 3)), rng.integers(0, 2, 1200)
    y[:2] = -1
    for seed in range(5):
        split = split_rows(np.arange(len(X)), y, random_state=seed)
        for fold in split.folds:
            assert np.isin(y[fold.test], y[fold.train]).all()


def test_ctrl_c_gives_what_is_finished():
    X, y = planted(n=200)
    found = compare(X, y, methods=FEW, spaces={"interrupted": Interrupted()})
    assert found.stopped
    assert [r.name for r in found.results] == ["raw", "scaled", "PCA", "LDA"]
    assert found.winner == "LDA"

    def cancel(label, done, total):
        if label.startswith("PCA"):
            raise Cancelled

    def interrupt(label, done, total):
        raise KeyboardInterrupt

    with nearfold.progress(cancel):
        assert [r.name for r in compare(X, y, methods=FEW).results] == ["raw", "scaled"]
    with pytest.raises(KeyboardInterrupt), nearfold.progress(interrupt):
        compare(X, y, methods=FEW)


def test_progress_tells_space_and_fold():
    said = []
    with nearfold.progress(lambda *step: said.append(step)):
        compare(*planted(n=100), methods=["PCA"], n_repeats=1)
    assert ("PCA", 12, 15) in said
    assert said[-1] == ("Spaces tried", 15, 15)


def test_the_same_seed_gives_the_same_numbers():
    X, y = load_iris(return_X_y=True)
    one, two = (compare(X, y, methods=["PCA", "NCA"], n_repeats=1) for _ in range(2))
    for a, b in zip(one.results, two.results, strict=True):
        assert np.array_equal(a.scores, b.scores)


def test_columns_of_different_units_are_scaled_by_the_held_out_score():
    X, y = planted(n=300, noise=3)
    X[:, 1:] *= 1e3
    found = compare(X, y, methods=["PCA"], n_repeats=1)
    assert found.recipe.scaled
    assert all(recipe.scaled for (recipe,) in found.result("PCA").recipes)
    assert not compare(X, y, methods=["PCA"], n_repeats=1, scale=False).recipe.scaled


def test_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = np.sin(2 * X[:, 0]) + 0.05 * rng.normal(size=400)
    found = compare(X, y, methods=["PCA", "MLKR"], n_repeats=1, scale=False)
    assert found.judge.task == "regression"
    assert found.winner == "MLKR"
    assert found.verdict.of("MLKR").score.mean > found.verdict.of("raw").score.mean + 0.2


def test_pairs_are_judged_by_the_area_under_the_curve():
    rng = np.random.default_rng(0)
    X, y = planted(n=300, noise=5)
    a, b = rng.permutation(300).reshape(2, 150)
    pairs = np.column_stack([a, b, np.where(y[a] == y[b], 1, -1)])
    found = compare(X, pairs=pairs, methods=["PCA", "MMC"], n_repeats=1, scale=False)
    assert found.verdict.of("MMC").score.mean > 0.95
    assert found.winner == "MMC"
    fold, judge = found.judge.split.folds[0], found.judge
    i, j = judge.pairs[fold.test].T
    expected = roc_auc_score(judge.alike[fold.test], -np.linalg.norm(X[i] - X[j], axis=1))
    assert found.result("raw").scores[0, 0, 0, 0] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_noise_pairs_that_share_rows_are_not_learned_by_heart(seed):
    """400 pairs among 40 rows: a metric could know every row of the held-out pairs."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(150, 20)), rng.integers(0, 2, 150)
    a, b = rng.integers(0, 40, (2, 400))
    a, b = a[a != b], b[a != b]
    pairs = np.unique(np.sort(np.column_stack([a, b]), axis=1), axis=0)
    sign = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    found = compare(X, pairs=np.column_stack([pairs, sign]), methods=["PCA", "MMC", "ITML"])
    assert found.winner is None
    for fold in found.judge.split.folds:
        known, held_out = (set(found.judge.pairs[p].ravel()) for p in (fold.train, fold.test))
        assert not known & held_out
    assert any("halves" in str(n) for n in found.notices)


def test_pairs_and_labels_belong_to_the_rows_given_whatever_is_dropped():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 4)) + 2 * y[:, None]
    X[::9, 0] = np.nan
    whole = np.isfinite(X).all(axis=1)
    options = {"methods": ["PCA"], "n_repeats": 1}
    dropped = compare(X, y, group=np.arange(90) // 2, missing="drop", **options)
    by_hand = compare(X[whole], y[whole], group=(np.arange(90) // 2)[whole], **options)
    assert dropped.result("PCA").fold_scores.tolist() == by_hand.result("PCA").fold_scores.tolist()
    assert any("10 rows with missing values" in str(n) for n in dropped.notices)
    a, b = np.triu_indices(90, 1)
    pairs = rng.permutation(np.column_stack([a, b, np.where(y[a] == y[b], 1, -1)]))[:300]
    for table in (X, pl.DataFrame(X, schema=["p", "q", "r", "s"])):
        found = compare(table, pairs=pairs, missing="drop", **options)
        rows = found.judge.table.rows[found.judge.pairs]
        assert whole[rows].all()
        assert ((y[rows[:, 0]] == y[rows[:, 1]]) == found.judge.alike).all()
        assert any("pairs name rows that were left out" in str(n) for n in found.notices)


def test_too_few_pairs_are_refused():
    X = np.random.default_rng(0).normal(size=(30, 3))
    with pytest.raises(InputError, match="bring more pairs"):
        compare(X, pairs=[[0, 1, 1], [2, 3, -1], [4, 5, 1], [6, 7, -1]], n_folds=2)


def test_without_labels_the_space_that_keeps_neighbours_wins():
    X, _ = make_swiss_roll(600, random_state=0)
    found = compare(X, methods=["PCA", "Isomap"], n_repeats=2, n_neighbors=10)
    assert found.judge.task == "none"
    assert found.winner == "Isomap"
    assert found.result("Isomap").n_dimensions == 2
    assert "scaled" not in [r.name for r in found.results]  # it is what the others are judged by
    assert "keeps" in str(found.headline)


def test_the_neighbours_kept_are_counted_right():
    X, _ = make_swiss_roll(100, random_state=0)
    found = compare(X, methods=["PCA"], n_repeats=1, scale=False)
    fold, k = found.judge.split.folds[0], 5
    Z = nearfold.PCA(2).fit(X[fold.train]).transform(X)
    shares = []
    for q in fold.test:
        near = [
            set(fold.train[np.argsort(np.linalg.norm(T[fold.train] - T[q], axis=1))[:k]])
            for T in (X, Z)
        ]
        shares.append(len(near[0] & near[1]) / k)
    assert found.result("PCA").scores[0, 0, 0, 0] == pytest.approx(np.mean(shares))


def test_the_fitted_winner_has_the_chosen_dimensions():
    X, y = load_iris(return_X_y=True)
    found = compare(X, y, methods=["PCA", "NCA", "LDA", "Isomap"], n_repeats=1)
    for name in ("PCA", "NCA", "LDA", "Isomap", "raw", "scaled"):
        model = found.fit(name)
        assert model.transform(X[:3]).shape == (3, found.result(name).n_dimensions)


def test_every_candidate_finishes_on_an_ordinary_table():
    X, y = load_iris(return_X_y=True)
    found = compare(X, y, methods="all", n_repeats=1)
    assert {r.name: r.trouble for r in found.results if r.status != "finished"} == {}
    by_target = compare(X[:, :3], X[:, 3] + 0.01, methods="all", n_repeats=1)
    assert all(r.status == "finished" for r in by_target.results)


def test_samples_of_large_tables_are_said(monkeypatch):
    from nearfold.study import candidates

    def small(*about):
        return [
            c if c.name != "Isomap" else candidates.Candidate(**{**vars(c), "most_rows": 60})
            for c in all_candidates(*about)
        ]

    monkeypatch.setattr(candidates, "all_candidates", small)
    X, y = load_iris(return_X_y=True)
    found = compare(X, y, methods=["Isomap"], n_repeats=1)
    assert found.result("Isomap").fit_rows == 60
    assert any("Isomap (60)" in str(n) for n in found.notices)
    assert len(found.result("Isomap").outcomes[0].predicted) == 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": np.zeros(50, dtype=int)}, "same label"),
        ({"y": np.zeros(3)}, "one value for each"),
        ({"y": np.full(50, 1.5)}, "same target"),
        ({"y": np.r_[np.nan, np.arange(49) % 2]}, "1 NaN"),
        ({"y": np.array([None, *"ab" * 24, "a"], dtype=object)}, "1 rows"),
        ({"y": np.arange(50) % 2, "n_components": 0}, "give 1 or more"),
        ({"y": np.arange(50) % 2, "weights": "cosine"}, "uniform"),
        ({"y": np.arange(50) % 2, "max_points": 0}, "give 3 or more"),
        ({"y": np.arange(50) % 2, "n_repeats": 0}, "give 1 or more"),
        ({"y": np.arange(50) % 2, "time_budget": 0}, "90s"),
        ({"y": np.arange(50) % 2, "n_components": 4}, "from 1 to 3"),
        ({"y": np.arange(50) % 2, "score": "r2"}, "for a target, not for a label"),
        ({"y": np.arange(50) % 2, "score": "kappa"}, "use one of accuracy"),
        ({"y": np.arange(50) % 2, "spaces": ["PCA"]}, "methods="),
        ({"y": np.arange(50) % 2, "group": np.arange(3)}, "one value for each"),
        ({"y": np.arange(50) % 2, "spaces": {"raw": Broken()}}, "cannot be called"),
        ({"y": np.arange(50) % 2, "methods": ["UMAP"]}, "there is no space 'UMAP'"),
        ({"y": np.arange(50) % 2, "n_neighbors": 0}, "from 1 to 39"),
        ({"y": np.arange(50) % 2, "n_neighbors": 40}, "from 1 to 39"),
        ({"y": np.arange(50) % 2, "task": "ranking"}, "classification, regression"),
        ({"y": np.arange(50) % 2, "missing": "mode"}, "one of median"),
        ({"y": np.arange(50) % 2, "random_state": None}, "0 or more"),
        ({"y": "label"}, "label='label'"),
        ({"y": np.arange(50) % 2, "pairs": [[0, 1, 1]]}, "not both"),
        ({"y": np.arange(50) % 2, "spaces": {"t": object()}}, "no fit and transform"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(arguments, message):
    X = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(InputError, match=message):
        compare(X, **arguments)


def test_few_rows_lower_the_neighbours_that_nobody_asked_for():
    X, y = planted(n=6)
    found = compare(X, y, methods=["PCA"], n_repeats=1, n_folds=3)
    assert found.judge.ks == (1,)  # of four training rows
    with pytest.warns(NearfoldWarning, match="3 nearest"):
        found = compare(X, methods=["PCA"], n_repeats=1, n_folds=3)
    assert found.judge.ks == (3,)


def test_a_space_that_is_not_there_is_named():
    found = compare(*planted(n=100), methods=["PCA"], n_repeats=1)
    assert found.result("pca") is found.result("PCA")
    with pytest.raises(InputError, match="no space 'UMAP'"):
        found.fit("UMAP")
    assert "Comparison of 3 spaces" in repr(found)


def test_names_of_methods_are_understood():
    question = Question(methods=["LinearDiscriminantAnalysis", "nca"])
    cells = cells_of_array(np.zeros((9, 2)))
    names = [c.name for c in pick_candidates(question, cells, Task.CLASSIFICATION)]
    assert names == ["raw", "scaled", "LDA", "NCA"]


def test_headlines_without_an_answer_say_what_was_judged():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    found = compare(X, methods=["PCA"], n_repeats=1)
    assert str(found.headline).startswith("No space is shown to keep the neighbours better than")
    a, b = np.triu_indices(80, 1)
    y = rng.integers(0, 2, 80)
    pairs = rng.permutation(np.column_stack([a, b, np.where(y[a] == y[b], 1, -1)]))[:300]
    told = " ".join(map(str, compare(X, pairs=pairs, methods=["PCA"]).details))
    assert "pairs" in told
    assert "rows." not in told


def test_words_for_missing_values_can_be_given_in_python(tmp_path):
    lines = [f"{i % 7},{'none' if i % 9 == 0 else 'ab'[i % 2]}" for i in range(90)]
    (tmp_path / "t.csv").write_text("\n".join(["a,y", *lines]))
    found = compare(tmp_path / "t.csv", label="y", na=["none"], methods=["PCA"], n_repeats=1)
    assert set(found.judge.classes) == {"a", "b"}


def test_neighbours_can_be_searched_approximately(monkeypatch):
    asked = []
    exact = learner.build_index

    def noted(X, **how):
        asked.append(how.get("recall"))
        return exact(X, **how)

    monkeypatch.setattr(learner, "build_index", noted)
    X, y = load_digits(return_X_y=True)
    options = {"methods": ["PCA", "Isomap"], "n_components": 8, "n_repeats": 1, "set_aside": False}
    plain = compare(X[:600], y[:600], **options)
    assert set(asked) == {None}
    asked.clear()
    near = compare(X[:600], y[:600], recall=0.9, **options)
    assert set(asked) == {0.9}
    assert any("certified recall of 0.9" in str(note) for note in near.notices)
    before, after = (found.leaderboard()["score"] for found in (plain, near))
    np.testing.assert_allclose(after, before, atol=0.03)
    with pytest.raises(InputError, match="between 0 and 1"):
        compare(X, y, recall=1.5)
