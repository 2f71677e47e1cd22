"""A comparison as a payload and as a file."""

import json
import re

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_swiss_roll
from unpacking import read_codes

from nearfold import compare, write_report
from nearfold.report.page_file import write_page
from nearfold.report.study_points import SizeBudget, how_many_spaces, pack_column
from nearfold.report.study_report import report_payload


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return compare(X, names, methods=["PCA", "LDA", "Isomap"], n_repeats=1)


@pytest.fixture(scope="module")
def payload(iris):
    return report_payload(iris)


def test_leaderboard_and_spaces_belong_together(iris, payload):
    names = [row["name"] for row in payload["leaderboard"]]
    assert set(names) == {"raw", "scaled", "PCA", "LDA", "Isomap"}
    for row in payload["leaderboard"]:
        space = payload["spaces"][row["space"]]
        assert space["name"] == row["name"]
        assert space["n_dimensions"] == row["n_dimensions"]
        assert row["low"] <= row["score"] <= row["high"]
        result = iris.result(row["name"])
        assert row["fit_seconds"] == pytest.approx(result.fit_seconds / len(result.scores))
    assert payload["headline"] == iris.headline.as_dict()
    assert payload["spaces"][0]["name"] == iris.best


def test_neighbours_are_those_of_the_whole_space(iris, payload):
    lda = next(s for s in payload["spaces"] if s["name"] == "LDA")
    Z = iris.result("LDA").view
    D = np.linalg.norm(Z[:, None] - Z[None], axis=2)
    np.fill_diagonal(D, np.inf)
    found = read_codes(lda["neighbors"])
    rows = np.arange(len(Z))[:, None]
    np.testing.assert_allclose(D[rows, found], np.sort(D, axis=1)[:, :5])


def test_points_have_the_label_first_and_then_the_columns(payload):
    columns = payload["points"]["columns"]
    assert columns[0]["name"] == "label"
    assert columns[0]["categories"] == ["setosa", "versicolor", "virginica"]
    assert np.bincount(read_codes(columns[0]["values"])).tolist() == [50, 50, 50]
    assert [c["name"] for c in columns[1:]] == ["x0", "x1", "x2", "x3"]
    assert payload["points"]["n"] == payload["points"]["of"] == 150


def test_confusion_counts_every_held_out_row_once(iris, payload):
    for table in payload["confusion"]:
        counts = np.asarray(table["counts"])
        assert counts.sum() == 150
        psi = iris.judge.contributions(iris.result(table["space"]).judged)
        assert np.trace(counts) == psi.sum()


def test_curves_scree_weights_and_manifest(iris, payload):
    series = {s["name"]: s for s in payload["curves"][0]["series"]}
    assert series["LDA"]["chosen"] == iris.result("LDA").n_dimensions
    by_k = iris.result("PCA").scores[:, 0].mean(axis=0)
    np.testing.assert_allclose(series["PCA"]["y"], by_k.max(axis=1))
    scree = payload["scree"][0]
    assert scree["cumulative"][-1] == pytest.approx(1.0)
    (weights,) = payload["weights"]
    assert weights["space"] == iris.best  # the space that was chosen, and no other
    assert sum(weights["weights"]) == pytest.approx(1.0)
    assert sorted(weights["columns"]) == ["x0", "x1", "x2", "x3"]
    assert np.all(weights["low"] <= weights["weights"])
    manifest = {k if isinstance(k, str) else k["en"]: v for k, v in payload["manifest"]}
    assert manifest["seed"] == "0"
    assert manifest["rows x columns"] == "150 x 4"
    held_out = read_codes(payload["spaces"][0]["held_out"])
    assert held_out.sum() == 30


def test_the_file_is_one_and_holds_the_payload(iris, tmp_path):
    path = write_report(
        iris,
        tmp_path / "r.html",
        title="</script><b>",
        lang="zh",
        command="nearfold compare iris.csv",
    )
    text = path.read_text(encoding="utf-8")
    assert "src=" not in re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert "</script><b>" not in text
    embedded = re.search(r"<script[^>]*application/json[^>]*>(.*?)</script>", text, re.S)[1]
    found = json.loads(embedded)
    assert found["lang"] == "zh"
    assert found["command"] == "nearfold compare iris.csv"


def test_every_task_has_a_report(tmp_path):
    X, t = make_swiss_roll(120, random_state=0)
    rng = np.random.default_rng(0)
    a, b = rng.permutation(120).reshape(2, 60)
    pairs = np.column_stack([a, b, np.where(np.abs(t[a] - t[b]) < 3, 1, -1)])
    for name, found in {
        "target": compare(X, t, methods=["PCA"], n_repeats=1),
        "none": compare(X, methods=["Isomap"], n_repeats=1),
        "pairs": compare(X, pairs=pairs, methods=["MMC"], n_repeats=1, n_folds=3),
    }.items():
        path = write_report(found, tmp_path / f"{name}.html")
        assert path.stat().st_size > 10_000
        assert not report_payload(found)["confusion"]


def test_a_hundred_thousand_points_stay_below_five_megabytes(tmp_path):
    rng = np.random.default_rng(0)
    n = 100_000
    y = rng.integers(0, 7, n)
    X = rng.normal(size=(n, 3)).astype(np.float32) + y[:, None]
    found = compare(X, y, methods=["PCA"], n_folds=2, n_repeats=1, set_aside=False, scale=False)
    payload = report_payload(found, columns={f"c{j}": rng.normal(size=n) for j in range(20)})
    assert payload["points"]["n"] == n
    assert payload["original_neighbors"] is not None
    assert len(payload["spaces"]) >= 2
    assert any("left out" in n["en"] for n in payload["notices"])
    assert not any(re.search("[a-z]{4,}", n["zh"]) for n in payload["notices"])
    path = write_page(payload, tmp_path / "big.html")
    assert 4_000_000 < path.stat().st_size < 5_000_000


def test_many_classes_share_the_last_colour(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 3)), np.repeat(np.arange(300), 2)
    found = compare(X, y, task="classification", methods=["PCA"], n_repeats=1, n_folds=2)
    columns = report_payload(found)["points"]["columns"]
    assert [c["name"] for c in columns] == ["label", "x0", "x1", "x2"]
    assert len(columns[0]["categories"]) == 250
    assert columns[0]["categories"][-1] == "…"


def test_what_does_not_fit_is_left_out_and_named():
    budget = SizeBudget(100)
    assert budget.take({"a": "x" * 50}, "small") is not None
    assert budget.take({"a": "x" * 50}, "large") is None
    assert budget.left_out == ["large"]
    assert how_many_spaces(100_000) == 4
    assert how_many_spaces(10**7) == 2
    gaps = pack_column("text", np.array(["a", None, "b"], dtype=object), 3)
    assert gaps["categories"] == ["a", "b"]  # a gap is no class called None
    assert read_codes(gaps["values"]).tolist() == [0, gaps["values"]["missing"], 1]
