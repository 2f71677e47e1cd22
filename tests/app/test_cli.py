"""The command line as a person and as a machine meet it."""

import csv
import errno
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from command_runs import run
from sklearn.datasets import load_wine, make_swiss_roll

import nearfold
from nearfold.app.cli import _COMMANDS
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.registry import METHODS
from nearfold.study.question import as_seconds


def fails_in_one_line(result, *words):
    assert result.exit_code == 2, result.output
    line = result.stderr.strip().splitlines()[-1]
    assert line.startswith("nearfold: ")
    assert "Traceback" not in result.output
    assert len(line) < 500
    for word in words:
        assert word in line
    return line


def wine_frame():
    wine = load_wine()
    frame = pl.DataFrame(wine.data, schema=[n.split("/")[0] for n in wine.feature_names])
    return frame.with_columns(pl.Series("cultivar", np.array(["a", "b", "c"])[wine.target]))


def tilted_frame():
    """Two classes apart along a direction of small variance: LDA finds it, scaling does not."""
    rng = np.random.default_rng(3)
    n = 240
    side = np.arange(n) % 2
    along, across = 10 * rng.normal(size=(2, n)), side + 0.2 * rng.normal(size=n)
    columns = {"left": along[0] + across, "right": along[0] - across, "other": along[1]}
    return pl.DataFrame(columns | {"side": np.array(["down", "up"])[side]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables and models under the names that the examples use."""
    path = tmp_path_factory.mktemp("examples")
    wine_frame().write_csv(path / "wine.csv")
    tilted_frame().write_csv(path / "tilted.csv")
    rng = np.random.default_rng(0)
    houses = pl.DataFrame(rng.normal(size=(120, 4)), schema=["rooms", "age", "north", "west"])
    price = houses["rooms"] * 2 + houses["age"] ** 2 + rng.normal(size=120) * 0.1
    houses.with_columns(price.alias("price")).write_parquet(path / "houses.parquet")
    roll = make_swiss_roll(150, random_state=0)[0]
    pl.DataFrame(roll, schema=["x", "y", "z"]).write_csv(path / "points.csv")
    before = os.getcwd()
    os.chdir(path)
    try:
        for words in (
            ["fit", "PCA", "points.csv", "-o", "pca.nearfold", "--set", "n_components=2"],
            ["fit", "LDA", "wine.csv", "--label", "cultivar", "-o", "lda.nearfold"],
        ):
            result = run(*words)
            assert result.exit_code == 0, result.output
    finally:
        os.chdir(before)
    return path


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def examples():
    found = []
    for name in _COMMANDS:
        text = run(name, "--help").output
        lines = [line.strip() for line in text.splitlines()]
        mine = [line for line in lines if line.startswith(f"nearfold {name}")]
        assert mine, f"{name} --help has no example"
        found += [line for line in mine if "--scheduler" not in line]  # run in tests/cluster
    return found


@pytest.mark.parametrize("line", examples())
def test_every_example_of_every_help_runs(line, here):
    result = run(*line.partition(" >> ")[0].split()[1:])
    assert result.exit_code == 0, result.output + result.stderr
    assert result.stdout.strip() or "-o" in line


def test_help_lists_every_command():
    text = run("--help").output
    for command in ("compare", "fit", "transform", "choose", "doctor", "explain", "inspect",
                    "verify", "methods", "completion", "demo"):  # fmt: skip
        assert f"  {command} " in text


def test_version():
    assert nearfold.__version__ in run("--version").output


def test_methods_lists_the_registry():
    text = run("methods").output
    for method in METHODS:
        assert method.name in text
    assert [m["name"] for m in json.loads(run("methods", "--json").stdout)] == [
        m.name for m in METHODS
    ]


def test_methods_are_summed_up_in_one_way():
    for method in METHODS:
        assert str(Message(f"summary.{method.name}")) == method.summary


def test_compare_shows_schema_leaderboard_and_reason(here):
    words = ["compare", "tilted.csv", "--label", "side", "--methods", "LDA"]
    result = run(*words)
    assert "240 rows x 4 columns" in result.stderr
    assert "3 features: left, right, other" in result.stderr
    assert "label: side" in result.stderr
    assert result.stdout.splitlines()[1].startswith("LDA")
    assert "LDA in 1 dimension predicts side best: " in result.stdout
    assert "against " in result.stdout
    assert "better" in result.stdout
    chinese = run(*words, "--lang", "zh")
    assert "留出准确率" in chinese.stdout
    assert "线性判别分析（LDA）（1 维）" in chinese.stdout


def test_a_gain_that_is_not_shown_is_not_called_noise(here):
    result = run("compare", "wine.csv", "--label", "cultivar", "--methods", "LDA")
    assert "not shown with this many rows" in result.stdout
    assert "noise" not in result.stdout
    assert "better than the scaled columns" in result.stdout  # the better of raw and scaled


def test_compare_json_is_one_document(here):
    words = ["compare", "tilted.csv", "--label", "side", "--methods", "LDA", "--json"]
    result = run(*words, "--save", "j.nearfold", "-o", "j.html", "--repeats", "1")
    found = json.loads(result.stdout)
    assert found["winner"] == found["best"] == "LDA"
    assert found["reference"] in ("raw", "scaled")
    assert {row["space"] for row in found["leaderboard"]} == {"raw", "scaled", "LDA"}
    assert {row["verdict"] for row in found["leaderboard"]} >= {"reference", "better"}
    assert found["headline"]["zh"]
    assert found["task"] == "classification"
    assert found["data"] == "tilted.csv"
    assert (found["report"], found["model"]) == ("j.html", "j.nearfold")
    assert (here / "j.html").stat().st_size > 10_000
    card = nearfold.inspect(here / "j.nearfold")
    assert card.extra["space"] == "LDA"
    assert card.extra["last_check"] == found["last_check"]
    assert card.extra["schema"]["columns"][0]["name"] == "left"


def test_the_saved_winner_places_rows_as_the_comparison_did(here):
    run("compare", "tilted.csv", "--label", "side", "--methods", "LDA", "--repeats", "1",
        "--save", "w.nearfold")  # fmt: skip
    result = run("transform", "w.nearfold", "tilted.csv")
    Z = np.array(list(csv.reader(io.StringIO(result.stdout)))[1:], dtype=float)
    assert Z.shape == (240, 1)
    model = nearfold.load("w.nearfold")
    np.testing.assert_array_equal(Z, model.transform(tilted_frame()))


def test_without_a_winner_the_reference_is_saved_and_said(here):
    words = ["compare", "wine.csv", "--label", "cultivar", "--methods", "PCA", "--repeats", "1"]
    result = run(*words, "--save", "reference.nearfold")
    assert "the saved model is the reference: scaled" in result.stdout
    assert nearfold.inspect("reference.nearfold").extra["verdict"] == "reference"


def test_transform_matches_columns_by_name_and_lists_what_is_missing(here, tmp_path):
    frame = wine_frame()
    shuffled = frame.select(frame.columns[::-1]).with_columns(pl.lit(1).alias("more"))
    shuffled.write_csv(tmp_path / "shuffled.csv")
    one = run("transform", "lda.nearfold", "wine.csv").stdout
    assert run("transform", "lda.nearfold", tmp_path / "shuffled.csv").stdout == one
    frame.drop("ash").write_csv(tmp_path / "less.csv")
    fails_in_one_line(run("transform", "lda.nearfold", tmp_path / "less.csv"), "'ash'")
    renamed = frame.rename({"ash": "Ash"})
    renamed.write_csv(tmp_path / "renamed.csv")
    fails_in_one_line(run("transform", "lda.nearfold", tmp_path / "renamed.csv"), "ash", "Ash")


def test_stdin_stdout_gzip_and_formats(here, tmp_path):
    text = (here / "points.csv").read_bytes()
    expected = run("transform", "pca.nearfold", "points.csv").stdout
    assert run("transform", "pca.nearfold", "-", input=text).stdout == expected
    (tmp_path / "p.csv.gz").write_bytes(gzip.compress(text))
    assert run("transform", "pca.nearfold", tmp_path / "p.csv.gz").stdout == expected
    frame = pl.read_csv(here / "points.csv")
    frame.write_parquet(tmp_path / "p.parquet")
    frame.write_ipc(tmp_path / "p.arrow")
    np.save(tmp_path / "p.npy", frame.to_numpy())
    for name in ("p.parquet", "p.arrow"):
        assert run("transform", "pca.nearfold", tmp_path / name).stdout == expected
    fit = run("fit", "PCA", tmp_path / "p.npy", "-o", tmp_path / "n.nearfold")
    assert fit.exit_code == 0, fit.stderr
    for name in ("z.csv", "z.tsv.gz", "z.parquet", "z.arrow", "z.npy", "z.npz"):
        out = tmp_path / name
        result = run("transform", tmp_path / "n.nearfold", tmp_path / "p.npy", "-o", out)
        assert result.exit_code == 0, result.stderr
        assert out.stat().st_size > 100


@pytest.mark.parametrize("encoding", ["gbk", "big5", "utf-16", "utf-8-sig"])
def test_tables_in_chinese_encodings_open(encoding, tmp_path):
    rng = np.random.default_rng(0)
    names = ["年齡", "收入", "類別"] if encoding == "big5" else ["年龄", "收入", "类别"]
    kinds = ["好的", "不好"]
    lines = [",".join(names)]
    for i in range(60):
        lines.append(f"{rng.normal() + 3 * (i % 2):.3f},{rng.normal():.3f},{kinds[i % 2]}")
    (tmp_path / "t.csv").write_bytes("\n".join(lines).encode(encoding))
    result = run("compare", tmp_path / "t.csv", "--label", names[2], "--methods", "PCA")
    assert result.exit_code == 0, result.output
    assert "60 rows x 3 columns" in result.stderr


def test_mistakes_are_one_line_and_exit_code_2(here, tmp_path):
    fails_in_one_line(run("compare", "nothing.csv"), "nothing.csv")
    fails_in_one_line(run("compare", tmp_path), "folder")
    fails_in_one_line(run("compare", "wine.csv", "--label", "cultivr"), "cultivar")
    fails_in_one_line(run("compare", "wine.csv", "--label", "a", "--target", "b"), "not both")
    fails_in_one_line(run("compare", "wine.csv", "-o", "no/such/r.html"), "no folder")
    fails_in_one_line(run("compare", "wine.csv", "--time", "soon"), "time soon", "15m")
    fails_in_one_line(run("compare", "wine.csv", "--also", "nothing:Here"), "nothing")
    fails_in_one_line(run("compare", "wine.csv", "--methods", "PCAA"), "PCAA")
    fails_in_one_line(run("fit", "PAC", "wine.csv", "-o", "x.nearfold"), "pca")
    fails_in_one_line(run("fit", "LDA", "wine.csv", "-o", "x.nearfold"), "--label")
    fails_in_one_line(run("fit", "PCA", "points.csv", "-o", "x.nearfold", "--set", "k=3"), "k=3")
    fails_in_one_line(
        run("fit", "PCA", "points.csv", "-o", "x.nearfold", "--set", "n_components=-1")
    )
    fails_in_one_line(run("inspect", "wine.csv"), "wine.csv")
    fails_in_one_line(run("verify", "nothing.nearfold"), "nothing.nearfold")
    fails_in_one_line(run("transform", "pca.nearfold", "wine.csv"), "x")
    fails_in_one_line(run("explain", "lda.nearfold", "wine.csv", "--rows", "0"), "--rows")
    fails_in_one_line(run("transform", "lda.nearfold", "wine.csv", "--keep", "ashh"), "ash")
    assert not (here / "x.nearfold").exists()
    assert run("compare", "--no-such-option").exit_code == 2


def test_missing_values_are_filled_by_default_and_can_be_refused(here, tmp_path):
    frame = wine_frame()
    values = frame["ash"].to_list()
    values[3] = values[8] = None
    frame.with_columns(pl.Series("ash", values)).write_csv(tmp_path / "gaps.csv")
    words = ["compare", tmp_path / "gaps.csv", "--label", "cultivar", "--methods", "PCA",
             "--repeats", "1"]  # fmt: skip
    fails_in_one_line(run(*words, "--missing", "error"), "'ash' (2)", "4, 9", "--missing")
    assert run(*words).exit_code == 0
    shown = run(*words, "--dry-run").stdout
    assert "2 missing values are filled from the training rows" in " ".join(shown.split())
    assert "2 rows with missing values are left out" in run(*words, "--missing", "drop").stderr
    model = tmp_path / "m.nearfold"
    fit = ["fit", "PCA", tmp_path / "gaps.csv", "--exclude", "cultivar", "-o", model]
    for rule in ("median", "mean", "zero"):
        assert run(*fit, "--missing", rule).exit_code == 0
        known = np.array([v for v in values if v is not None])
        fill = {"median": np.median(known), "mean": known.mean(), "zero": 0}[rule]
        step = nearfold.load(model).steps[0][1]
        assert step.fill_[frame.columns.index("ash")] == pytest.approx(fill)


def test_rows_without_a_label_are_left_out_and_said(tmp_path):
    frame = wine_frame()
    labels = [None, *frame["cultivar"].to_list()[1:]]
    frame.with_columns(pl.Series("cultivar", labels)).write_csv(tmp_path / "t.csv")
    result = run("compare", tmp_path / "t.csv", "--label", "cultivar", "--methods", "PCA")
    assert "1 row without a value in 'cultivar' is left out" in result.stderr


def test_pairs_by_id(tmp_path):
    frame = wine_frame()
    rng = np.random.default_rng(0)
    names = [f"w{i}" for i in range(178)]
    frame.with_columns(pl.Series("name", names)).write_csv(tmp_path / "t.csv")
    kind = frame["cultivar"].to_list()
    a, b = rng.permutation(178).reshape(2, 89)
    lines = [f"w{i},w{j},{1 if kind[i] == kind[j] else -1}" for i, j in zip(a, b, strict=True)]
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    words = ["compare", tmp_path / "t.csv", "--id", "name", "--exclude", "cultivar"]
    result = run(*words, "--pairs", tmp_path / "pairs.csv", "--methods", "MMC", "--repeats", "1")
    assert result.exit_code == 0, result.output
    assert "AUC" in result.stdout
    fit = run("fit", "MMC", tmp_path / "t.csv", "--id", "name", "--exclude", "cultivar", "--scale",
              "--pairs", tmp_path / "pairs.csv", "-o", tmp_path / "m.nearfold")  # fmt: skip
    assert fit.exit_code == 0, fit.output
    placed = run("transform", tmp_path / "m.nearfold", tmp_path / "t.csv").stdout.splitlines()
    assert placed[0].startswith("name,z1")
    assert placed[1].startswith("w0,")


def test_a_learner_predicts(here, tmp_path):
    model = tmp_path / "knn.nearfold"
    assert run("fit", "knn", "wine.csv", "--label", "cultivar", "-o", model).exit_code == 0
    text = run("transform", model, "wine.csv").stdout.splitlines()
    assert text[0] == "predicted"
    assert set(text[1:]) == {"a", "b", "c"}
    assert "HOLDS TRAINING ROWS" in run("inspect", model).stdout
    assert json.loads(run("inspect", model, "--json").stdout)["holds_training_rows"] is True


def test_a_transformer_of_another_package(here):
    result = run("compare", "wine.csv", "--label", "cultivar", "--methods", "PCA", "--repeats", "1",
                 "--also", "sklearn.preprocessing:RobustScaler")  # fmt: skip
    assert "RobustScaler" in result.stdout


REPORT_IT = "Please report it"


@pytest.mark.parametrize(
    ("error", "code", "ours"),
    [
        (InputError("no such thing"), 2, False),
        (PermissionError(errno.EACCES, "Permission denied"), 2, False),
        (OSError(errno.ENOSPC, "No space left on device"), 1, False),
        (MemoryError(), 1, False),
        (ValueError("a plain one\nof ours"), 1, True),
        (KeyError("deep inside"), 1, True),
        (AssertionError(), 1, True),
        (KeyboardInterrupt(), 130, False),
    ],
)
def test_exit_codes(here, monkeypatch, error, code, ours):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("nearfold.study.compare.judge_results", fail)  # deep inside
    result = run("compare", "wine.csv", "--label", "cultivar", "--methods", "PCA",
                 "--repeats", "1", "--quiet")  # fmt: skip
    assert result.exit_code == code, result.output
    lines = result.output.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("nearfold: ")
    assert (REPORT_IT in lines[0]) is ours


def test_an_error_of_ours_has_its_traceback_when_asked(here, monkeypatch):
    monkeypatch.setenv("NEARFOLD_DEBUG", "1")
    monkeypatch.setattr("nearfold.study.compare.make_judge", lambda *_: 1 / 0)
    result = run("compare", "wine.csv", "--label", "cultivar")
    assert isinstance(result.exception, ZeroDivisionError)


def test_ctrl_c_prints_what_is_finished_and_ends_with_130(here):
    """A real signal to a real process, while it tries spaces."""
    words = [sys.executable, "-m", "nearfold.app.cli", "compare", "wine.csv", "--label", "cultivar",
             "--repeats", "200", "-o", "stopped.html"]  # fmt: skip
    process = subprocess.Popen(words, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(12)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err.decode()
    assert b"Traceback" not in err
    assert b"stopped" in err
    if out:  # the signal came after the first space
        assert b"raw" in out
        assert (here / "stopped.html").exists()


def test_times_are_parsed():
    assert [as_seconds(t) for t in ("90", "90s", "15m", "1.5h")] == [90, 90, 900, 5400]
    for wrong in ("", "soon", "-5", "0s"):
        with pytest.raises(InputError):
            as_seconds(wrong)
