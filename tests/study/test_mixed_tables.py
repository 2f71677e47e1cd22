"""Tables with categories, gaps, groups and time: used, matched by name, and never leaking."""

import json
import pickle
import sys
import types

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as TheirLDA
from sklearn.metrics import roc_auc_score

import nearfold
from nearfold import compare
from nearfold.errors import InputError
from nearfold.study.intake import TableOptions, open_table

FEW = ["PCA", "LDA"]
EVERY = ["weighted", "Gower", "target-coded", "PCA", "LDA", "NCA"]


def passengers(n=400, seed=0):
    """Survival depends on sex and class, hardly on the numbers."""
    rng = np.random.default_rng(seed)
    sex, deck = rng.choice(["m", "f"], n), rng.choice(["1st", "2nd", "3rd"], n)
    age = np.where(rng.random(n) < 0.2, np.nan, rng.normal(35, 12, n))
    strength = 3 * (sex == "f") - 1.5 + 1.2 * (deck == "1st") - 1.2 * (deck == "3rd")
    alive = np.where(strength + rng.logistic(0, 0.6, n) > 0, "yes", "no")
    return pl.DataFrame({"id": np.arange(n), "sex": sex, "deck": deck, "age": age, "alive": alive})


def test_categories_are_used_and_the_answer_is_far_above_chance():
    found = compare(passengers(), label="alive", methods=FEW, n_repeats=1)
    assert found.verdict.of(found.verdict.reference).score.mean > 0.78
    assert found.columns == ("sex", "deck", "age")
    assert found.verdict.beats_chance


def test_a_table_of_categories_only_has_an_answer():
    found = compare(passengers().select("sex", "deck", "alive"), label="alive", methods=FEW)
    assert found.verdict.of(found.verdict.reference).score.mean > 0.75


@pytest.mark.parametrize("as_frame", [lambda f: f, lambda f: f.to_pandas()])
def test_columns_are_matched_by_name_in_every_model(as_frame):
    frame = passengers()
    found = compare(as_frame(frame), label="alive", methods=EVERY, n_repeats=1)
    backwards = as_frame(frame.select(frame.columns[::-1]).with_columns(more=pl.lit(1)))
    for name in ("raw", "scaled", *EVERY):
        model = found.fit(name)
        np.testing.assert_array_equal(model.transform(backwards), model.transform(as_frame(frame)))
        assert model.transform(frame[:3]).shape == (3, found.result(name).n_dimensions)


def test_a_file_is_compared_by_its_path(tmp_path):
    passengers().write_csv(tmp_path / "t.csv")
    found = compare(str(tmp_path / "t.csv"), label="alive", methods=FEW, n_repeats=1)
    same = compare(passengers(), label="alive", methods=FEW, n_repeats=1)
    assert found.table.answer == "alive"
    np.testing.assert_array_equal(found.result("LDA").scores, same.result("LDA").scores)
    saved = nearfold.save(found.fit("LDA"), tmp_path / "m.nearfold", extra=found.card("LDA"))
    Z = nearfold.load(saved).transform(passengers())
    np.testing.assert_array_equal(Z, found.fit("LDA").transform(passengers()))
    assert nearfold.inspect(saved).extra["n_neighbors"] == found.result("LDA").n_neighbors


@pytest.mark.parametrize("seed", range(3))
def test_random_labels_stay_random_whatever_the_columns_are(seed):
    """A category of many levels, gaps that are filled, copies and target encoding leak nothing."""
    rng = np.random.default_rng(seed)
    n = 300
    frame = pl.DataFrame(
        {
            "level": [f"l{i}" for i in rng.integers(0, 60, n)],
            "kind": rng.choice(["a", "b", "c"], n),
            "x": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
            "z": rng.normal(size=n),
            "label": rng.choice(["yes", "no"], n),
        }
    )
    frame = pl.concat([frame, frame[:60]])  # rows that occur twice
    found = compare(frame, label="label", methods=[*FEW, "NCA"], n_repeats=2)
    assert found.winner is None
    assert not found.verdict.beats_chance
    assert any("copies" in str(n) for n in found.notices)


def test_copies_are_rows_equal_in_every_column_that_was_read():
    frame = passengers(200).drop("age")  # features take few values; ids and a note differ
    table = open_table(frame.with_columns(note=pl.Series([f"note {i}" for i in range(200)])),
                       options=TableOptions(label="alive"))  # fmt: skip
    assert len(np.unique(table.copies)) == 200
    rng = np.random.default_rng(0)
    numbers = pl.DataFrame({"x": rng.normal(size=100), "y": rng.choice(["a", "b"], 100)})
    twice = open_table(pl.concat([numbers, numbers[:30]]).with_row_index("row"),
                       options=TableOptions(label="y"))  # fmt: skip
    assert len(np.unique(twice.copies)) == 100


def grouped(n_groups=60, seed=0):
    """Labels belong to patients, columns tell patients apart and nothing else."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_groups), 6)
    centre = rng.normal(size=(n_groups, 4)) * 5
    X = centre[patient] + 0.1 * rng.normal(size=(len(patient), 4))
    return X, rng.integers(0, 2, n_groups)[patient], patient


def test_rows_of_a_patient_are_no_evidence_for_each_other():
    X, y, patient = grouped()
    leaky = compare(X, y, methods=FEW, n_repeats=1)
    assert leaky.verdict.of("raw").score.mean > 0.95  # what happens without the group
    found = compare(X, y, group=patient, methods=FEW, n_repeats=2)
    assert not found.verdict.beats_chance
    assert found.winner is None
    named = pl.DataFrame(X, schema=list("abcd")).with_columns(patient=patient, y=y)
    by_name = compare(named, label="y", group="patient", methods=FEW, n_repeats=1)
    assert "patient" not in by_name.columns
    assert not by_name.verdict.beats_chance


def test_the_future_is_predicted_from_the_past():
    rng = np.random.default_rng(0)
    n = 600
    day = np.arange(n)
    x = rng.normal(size=n)
    y = np.where((x > 0) ^ (day >= n // 2), "a", "b")  # the rule turns round half way
    frame = pd.DataFrame({"day": pd.Timestamp("2024-01-01") + pd.to_timedelta(day, "D"),
                          "x": x, "y": y}).sample(frac=1, random_state=0)  # fmt: skip
    found = compare(frame, label="y", time_column="day", methods=["PCA"], n_folds=3)
    assert "day" not in found.columns
    assert found.verdict.of("raw").score.mean < 0.6
    assert any("order of time" in str(n) for n in found.notices)


def unbalanced(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.04).astype(int)
    X = rng.normal(size=(n, 3))
    X[:, 0] += 2.5 * y
    return X, y


def test_unbalanced_labels_are_judged_by_balanced_accuracy_and_it_is_said():
    X, y = unbalanced()
    found = compare(X, y, methods=["PCA"], n_repeats=1, set_aside=False)
    assert str(found.judge.score_name) == "balanced accuracy"
    assert found.verdict.chance == pytest.approx(0.5)
    assert any("96 % of the rows" in str(n) for n in found.notices)


@pytest.mark.parametrize(
    "score", ["accuracy", "balanced_accuracy", "f1_macro", "log_loss", "roc_auc"]
)
def test_every_score_of_labels_has_intervals_and_a_floor(score):
    X, y = unbalanced(400)
    found = compare(X, y, methods=["PCA"], n_repeats=1, score=score)
    for standing in found.verdict.standings:
        assert standing.score.low <= standing.score.mean <= standing.score.high
        assert standing.score.high - standing.score.low > 0
    json.loads(found.to_json())
    shown = found._repr_html_()
    assert "<table>" in shown
    assert shown.count("<circle") == len(found.plan.view_rows)


def test_scores_agree_with_scikit_learn():
    X, y = unbalanced(400)
    found = compare(X, y, methods=["PCA"], n_repeats=1, score="roc_auc", n_neighbors=25)
    result = found.result("raw")
    truth = np.concatenate([y[fold.test] for fold, _ in result.judged])
    shares = np.concatenate([outcome.predicted[:, 1] for _, outcome in result.judged])
    assert found.verdict.of("raw").score.mean == pytest.approx(roc_auc_score(truth, shares))


def test_errors_of_a_target_may_be_absolute():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = 100 * X[:, 0]
    found = compare(X, y, methods=["PCA"], n_repeats=1, score="mae")
    assert found.verdict.of("raw").score.mean < 0  # larger is better inside
    assert "-" not in str(found).splitlines()[0].split("d'")[1][:20]  # shown without a sign


def test_the_reference_is_the_better_of_raw_and_scaled_columns():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    X = np.column_stack([y + 0.3 * rng.normal(size=300), 1000 * rng.normal(size=300)])
    found = compare(X, y, methods=["PCA"], n_repeats=1)
    assert found.verdict.reference == "scaled"
    assert found.verdict.of("raw").verdict == "worse"
    assert found.winner is None  # scaling is no discovery
    assert found.best == "scaled"


def test_the_simplest_of_tied_spaces_wins():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    X = rng.normal(size=(600, 40)) * np.r_[1.0, np.full(39, 4.0)]
    X[:, 0] += 3 * y
    found = compare(X, y, methods=["LDA", "NCA", "KernelPCA", "LMNN"])
    assert found.winner == "LDA"
    assert set(found.verdict.tied) <= {"NCA", "LMNN"}


def test_k_is_chosen_within_folds_and_saved():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = ((X[:, 0] + rng.normal(size=300)) > 0).astype(int)
    found = compare(X, y, methods=["PCA"], n_repeats=2)
    assert found.result("raw").n_neighbors >= 9  # a noisy border wants many neighbours
    assert found.card("raw")["n_neighbors"] == found.result("raw").n_neighbors
    one = compare(X, y, methods=["PCA"], n_repeats=2, n_neighbors=1)
    assert found.verdict.of("raw").score.mean > one.verdict.of("raw").score.mean + 0.03


def test_metric_learners_are_fitted_for_few_dimensions():
    """Two dimensions of a fit for two are better than the first two of a fit for many."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = X[::3], y[::3]
    found = compare(X, y, methods=["NCA"], n_repeats=1, n_folds=3)
    result = found.result("NCA")
    assert result.dimensions.tolist() == [2, 8, 32]
    assert result.scores.mean(axis=0)[0, 0].max() > 0.6  # it was a third
    assert found.fit("NCA").transform(X[:2]).shape == (2, result.n_dimensions)


class Nosy(TransformerMixin, BaseEstimator):
    """Remembers whether it was shown y."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y=None):
        Nosy.seen.append(y is not None)
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


def test_spaces_that_are_handed_in_do_not_see_labels_unless_asked():
    X, y = grouped()[:2]
    Nosy.seen = []
    found = compare(X, y, methods=["PCA"], spaces={"nosy": Nosy()}, n_repeats=1)
    assert not any(Nosy.seen)
    assert "does not see labels" in str(found.result("nosy").candidate.label)
    found = compare(
        X, y, methods=["PCA"], spaces={"nosy": Nosy()}, supervised=["nosy"], n_repeats=1
    )
    assert Nosy.seen[-1]
    assert "sees the labels" in str(found.result("nosy").candidate.label)
    needs = compare(X, y, methods=["PCA"], spaces={"theirs": TheirLDA()}, n_repeats=1)
    assert needs.result("theirs").status == "finished"


def test_guests_are_found_where_they_are_installed(monkeypatch):
    class UMAP(Nosy):
        def __init__(self, n_components=2, n_neighbors=15, random_state=0, n_jobs=1):
            self.n_components = n_components
            self.n_neighbors = n_neighbors
            self.random_state = random_state
            self.n_jobs = n_jobs

    module = types.ModuleType("umap")
    module.UMAP = UMAP
    module.__spec__ = types.SimpleNamespace(name="umap")
    monkeypatch.setitem(sys.modules, "umap", module)
    X, y = grouped()[:2]
    Nosy.seen = []
    found = compare(X, y, methods=["PCA", "UMAP"], n_repeats=1)
    assert found.result("UMAP").status == "finished", found.result("UMAP").trouble
    assert not any(Nosy.seen)
    assert "neighbour embedding" in str(found.result("UMAP").candidate.label)


def test_using_the_same_rows_for_check_after_check_is_warned_of(tmp_path, monkeypatch):
    from nearfold.study import reuse

    monkeypatch.setenv("NEARFOLD_CACHE", str(tmp_path))
    monkeypatch.setattr(reuse, "_seen", {})
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1200)
    X = rng.normal(size=(1200, 40)) * np.r_[1.0, np.full(39, 4.0)]
    X[:, 0] += 3 * y
    found = compare(X, y, methods=["LDA"], n_repeats=1)
    assert found.final is not None
    said = [reuse.warn_of_reuse(found) for _ in range(3)]
    assert [len(lines) for lines in said] == [0, 0, 1]
    monkeypatch.setattr(reuse, "_seen", {})  # another process
    assert "4 last checks" in str(reuse.warn_of_reuse(found)[0])
    assert found.card()["last_check"]["holds"]


def test_missing_labels_are_no_class():
    frame = passengers(100).with_columns(
        alive=pl.when(pl.int_range(pl.len()) < 5).then(None).otherwise(pl.col("alive"))
    )
    found = compare(frame, label="alive", methods=["PCA"], n_repeats=1)
    assert found.judge.classes.tolist() == ["no", "yes"]
    assert any("5 rows without a value in 'alive'" in str(n) for n in found.notices)
    assert found.table.rows[0] == 5
    with pytest.raises(InputError, match="missing values in 1 rows"):
        compare(np.zeros((4, 2)), np.array(["a", np.nan, "b", "a"], dtype=object))


def test_missing_numbers_of_an_array_are_filled_inside_folds():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = rng.normal(size=(200, 3)) + 3 * y[:, None]
    X[rng.random(X.shape) < 0.1] = np.nan
    found = compare(X, y, methods=["PCA"], n_repeats=1)
    assert found.verdict.of("raw").score.mean > 0.9
    assert any("filled from the training rows" in str(n) for n in found.notices)
    with pytest.raises(InputError, match="NaN"):
        compare(X, y, missing="error")


def test_a_result_is_shown_kept_and_handed_on():
    found = compare(passengers(), label="alive", methods=FEW, n_repeats=1, time_budget="2m")
    board = found.leaderboard()
    assert board["space"][0] == found.verdict.standings[0].name
    assert set(found.to_dict()["headline"]) == {"en", "zh"}
    copy = pickle.loads(pickle.dumps(found.headline))
    assert copy == found.headline
    again = pickle.loads(pickle.dumps(found.fit()))
    np.testing.assert_array_equal(
        again.transform(passengers()), found.fit().transform(passengers())
    )


def test_ten_pairs_told_apart_are_no_certainty():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = rng.normal(size=(80, 2)) * 0.01 + y[:, None]
    a, b = rng.permutation(80).reshape(2, 40)
    pairs = np.column_stack([a, b, np.where(y[a] == y[b], 1, -1)])
    found = compare(X, pairs=pairs, methods=["PCA"], n_repeats=1, n_folds=2)
    score = found.verdict.of("raw").score
    assert score.mean == 1.0
    assert score.low < 0.97  # of a few dozen pairs


@pytest.mark.parametrize("make", ["choice", "explanation", "diagnosis", "comparison"])
def test_every_result_is_html_and_json(make):
    X, y = grouped()[:2]
    result = {
        "choice": lambda: nearfold.choose_dimension(nearfold.PCA(), X, rule="share"),
        "explanation": lambda: nearfold.explain_space(nearfold.PCA(2).fit(X), X),
        "diagnosis": lambda: nearfold.diagnose(X[:80]),
        "comparison": lambda: compare(X, y, methods=["PCA"], n_repeats=1),
    }[make]()
    assert json.loads(result.to_json()) == json.loads(json.dumps(result.to_dict()))
    assert "<" in result._repr_html_()


def test_times_beside_a_table_are_read_like_a_column():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    y, days = rng.integers(0, 2, 60), pd.date_range("2021-03-01", periods=60, tz="Europe/Paris")
    options = {"methods": ["PCA"], "n_repeats": 1}
    wanted = compare(frame, y, time_column=np.arange(60), **options).result("PCA").fold_scores
    for when in (pd.Series(days), list(days.strftime("%Y-%m-%d")), [day.date() for day in days]):
        found = compare(frame, y, time_column=when, **options)
        assert found.result("PCA").fold_scores.tolist() == wanted.tolist()
    with pytest.raises(InputError, match="cannot order rows in time"):
        compare(frame, y, time_column=["early", "late"] * 30, **options)


@pytest.mark.parametrize("gap", [None, np.nan])
def test_a_missing_group_is_no_group(gap):
    group = [gap, gap, *range(58)]
    with pytest.raises(InputError, match="group"):
        compare(np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2, group=group)


def test_columns_that_are_numbered_can_be_named_by_number():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)))
    frame[3], frame[4] = np.arange(60) % 2, np.arange(60) // 4
    found = compare(frame, label=3, kinds={4: "category"}, methods=["PCA"], n_repeats=1)
    assert found.judge.table.answer == "3"
    assert found.judge.table.cells.codes.shape == (60, 1)
    with pytest.raises(InputError, match="one of classification"):
        compare(frame, label=3, task="clf")


def test_rows_without_a_target_are_left_out_however_that_is_written():
    frame = pl.DataFrame({"a": np.arange(60.0), "y": np.arange(60.0) * 2})
    words = frame.with_columns(pl.Series("y", ["?", "inf", *map(str, range(58))]))
    for table, lost in ((words, 2), (frame.with_columns(pl.Series("y", [np.inf, *range(59)])), 1)):
        found = open_table(table, options=TableOptions(target="y"))
        assert len(found) == 60 - lost
        assert any(n.id == "study.rows_without" and n.values["n"] == lost for n in found.notices)


def test_a_label_that_is_a_quantity_is_told():
    frame = pl.DataFrame({"a": np.arange(60.0), "y": np.random.default_rng(0).normal(size=60)})
    found = open_table(frame, options=TableOptions(label="y"))
    assert any("--target" in str(n) for n in found.notices)
    found = open_table(frame.with_columns(y=pl.col("y").round()), options=TableOptions(label="y"))
    assert not any("--target" in str(n) for n in found.notices)


def test_answers_beside_a_frame_count_for_copies_like_a_column():
    half = np.random.default_rng(0).normal(size=(40, 2))
    frame = pl.DataFrame(np.vstack([half, half]), schema=["a", "b"])
    y = pl.Series("y", np.arange(80) // 40)  # each row twice, with both answers
    beside = open_table(frame, y)
    inside = open_table(frame.with_columns(y), options=TableOptions(label="y"))
    assert len(np.unique(beside.copies)) == len(np.unique(inside.copies)) == 80
    assert len(np.unique(open_table(frame, np.arange(80) % 40 % 2).copies)) == 40
