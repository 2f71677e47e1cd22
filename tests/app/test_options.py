"""Options: config files, schemas, kinds of columns, missing words, splits, how much is said."""

import json
import logging
import subprocess

import numpy as np
import polars as pl
import pytest
from command_runs import mixed_table, refused, run, succeeds

import nearfold

FEW = ("--methods", "PCA", "--repeats", "1", "--folds", "3")
COMPARE = ("compare", "t.csv", "--label", "kind", "--exclude", "price", *FEW)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mixed_table().write_csv("t.csv")
    return tmp_path


def found(*words):
    return json.loads(succeeds(*words, "--json").stdout)


def columns(*words):
    """Kind and role of each column, as a dry run tells them."""
    told = found(*words, "--dry-run")
    return {c["name"]: (c["kind"], c["role"]) for c in told["schema"]["columns"]}


# Config files ---------------------------------------------------------------------------------


def test_options_of_a_config_file(here):
    (here / "c.toml").write_text(
        'label = "kind"\nrepeats = 1\nlang = "zh"\n'
        '[compare]\nexclude = ["price"]\nmethods = ["PCA", "LDA"]\nfolds = 3\nscale = true\n'
        '[fit]\nset = ["n_components=1"]\n'
    )
    told = found("compare", "t.csv", "--config", "c.toml")
    assert {row["space"] for row in told["leaderboard"]} == {"raw", "scaled", "PCA", "LDA"}
    assert {row["folds"] for row in told["leaderboard"]} == {3}
    assert "标记：kind" in succeeds("compare", "t.csv", "--config", "c.toml").stderr
    # What is typed counts more than what is in the file.
    again = found("compare", "t.csv", "--config", "c.toml", "--folds", "4", "--methods", "PCA")
    assert {row["folds"] for row in again["leaderboard"]} == {4}
    assert "LDA" not in {row["space"] for row in again["leaderboard"]}


def test_a_word_in_a_config_file_stands_for_a_list_of_one(here):
    (here / "c.toml").write_text('[compare]\nlabel = "kind"\nexclude = "price"\n')
    assert columns("compare", "t.csv", "--config", "c.toml")["price"][1] == "excluded"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[compare]\nlabl = 'kind'\n", "labl"),
        ("labl = 'kind'\n", "labl"),
        ("[comparee]\nlabel = 'kind'\n", "comparee"),
        ("[compare.label]\nname = 'kind'\n", "label"),
        ("label = ", "TOML"),
        ("\udcff", "TOML"),
    ],
)
def test_mistakes_in_a_config_file(here, text, says):
    (here / "c.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    refused("compare", "t.csv", "--config", "c.toml", says=("c.toml", says))


def test_a_config_file_that_is_not_there(here):
    refused("compare", "t.csv", "--config", "no.toml", says="no.toml")


# Schemas --------------------------------------------------------------------------------------


def test_a_dry_run_shows_and_stops(here):
    shown = succeeds(*COMPARE, "--dry-run", "-o", "r.html").stdout
    for word in ("colour", "category", "date or time", "label", "left out"):
        assert word in shown
    assert not (here / "r.html").exists()


def test_a_schema_is_written_edited_and_read_back(here):
    succeeds(*COMPARE, "--dry-run", "--schema", "s.json")
    schema = json.loads((here / "s.json").read_text())
    by_name = {column["name"]: column for column in schema["columns"]}
    assert (by_name["colour"]["kind"], by_name["size"]["role"]) == ("category", "feature")
    assert by_name["price"]["role"] == "excluded"
    by_name["size"]["role"] = "excluded"
    by_name["price"]["role"] = "feature"
    by_name["weight"]["kind"] = "category"
    (here / "s.json").write_text(json.dumps(schema))
    words = ["compare", "t.csv", "--schema", "s.json", *FEW]  # the label, too, is in the file
    told = found(*words, "--save", "m.nearfold")
    roles = {c["name"]: (c["kind"], c["role"]) for c in told["schema"]["columns"]}
    assert roles["size"] == ("number", "excluded")
    assert roles["price"] == ("number", "feature")
    assert roles["weight"] == ("category", "feature")
    assert roles["kind"][1] == "label"
    kinds = {c["name"]: c["kind"] for c in nearfold.load("m.nearfold").steps[0][1].columns_}
    assert kinds == {"colour": "category", "weight": "category", "day": "date", "price": "number"}
    # What is typed counts more than what is in the file.
    roles = {c["name"]: c["role"] for c in found(*words, "--exclude", "price")["schema"]["columns"]}
    assert roles["price"] == "excluded"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"columns": [{"name": 1}]}', "\x00", '"x"'])
def test_files_that_are_no_schemas(here, text):
    (here / "s.json").write_text(text)
    refused(*COMPARE, "--schema", "s.json", says=("s.json", "--dry-run"))


def test_kinds_by_hand(here):
    assert columns(*COMPARE)["code"] == ("id", "id")
    words = ["--dtype", "weight=category", "--dtype", "colour=ordered:red<green<blue",
             "--dtype", "day=text", "--dtype", "code=number"]  # fmt: skip
    kinds = columns(*COMPARE, *words)
    assert kinds["weight"] == ("category", "feature")
    assert kinds["colour"] == ("ordered", "feature")
    assert kinds["day"] == ("text", "excluded")
    assert kinds["code"] == ("number", "feature")
    refused(*COMPARE, "--dtype", "weight", says="weight")
    refused(*COMPARE, "--dtype", "weight=heavy", says=("heavy", "category"))
    refused(*COMPARE, "--dtype", "wait=number", says=("wait", "weight"))


# Missing words --------------------------------------------------------------------------------


def test_words_that_mean_missing(here):
    frame = mixed_table()
    words = [["red", "?"][i % 2] if i < 10 else c for i, c in enumerate(frame["colour"])]
    frame.with_columns(pl.Series("colour", words)).write_csv("t.csv")

    def missing(*more):
        told = found(*COMPARE, "--dry-run", *more)
        return {c["name"]: c["n_missing"] for c in told["schema"]["columns"]}["colour"]

    assert missing("--na", "?,none") == 5
    assert missing("--na", "red") > 5


def test_classes_called_none_and_na_are_classes(here):
    frame = mixed_table(120)
    names = np.array(["None", "NA", "-", "other"])[np.arange(120) % 4]
    frame.with_columns(pl.Series("kind", names)).write_csv("t.csv")
    told = succeeds(*COMPARE, "--save", "m.nearfold", "--space", "PCA")
    assert "left out" not in told.stderr.replace("Left out: 'price'", "")
    knn = ["fit", "knn", "t.csv", "--label", "kind", "--exclude", "price", "-o", "k.nearfold"]
    succeeds(*knn, "--set", "n_neighbors=1")
    predicted = succeeds("transform", "k.nearfold", "t.csv").stdout.splitlines()[1:]
    assert {line.split(",")[-1].strip("'") for line in predicted} == {"None", "NA", "-", "other"}
    lost = succeeds(*COMPARE, "--na", "NA").stderr
    assert "30 rows without a value in 'kind' are left out" in lost


# Splits ---------------------------------------------------------------------------------------


def test_groups_stay_together(here):
    """A group's own mark predicts the class, but not that of another group."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(30), 6)
    mark = rng.normal(size=(30, 3))[group] + 0.01 * rng.normal(size=(180, 3))
    kind = rng.permutation(np.arange(30) % 2)[group]
    frame = pl.DataFrame(mark, schema=["a", "b", "c"]).with_columns(
        pl.Series("who", [f"p{g}" for g in group]), pl.Series("kind", kind)
    )
    frame.write_csv("t.csv")
    words = ["compare", "t.csv", "--label", "kind", "--exclude", "who", *FEW]
    apart = ["compare", "t.csv", "--label", "kind", "--group", "who", *FEW]
    scores = [found(*w)["leaderboard"][0]["score"] for w in (words, apart)]
    assert scores[0] > 0.95
    assert scores[1] < 0.75
    assert "Rows of one group stay together: 30 groups" in succeeds(*apart).stdout


def test_the_past_predicts_the_future(here):
    told = succeeds("compare", "t.csv", "--label", "kind", "--exclude", "price", "--time-column",
                    "day", "--methods", "PCA", "--repeats", "1")  # fmt: skip
    assert "in order of time" in told.stdout
    assert "time: day" in told.stderr
    refused(*COMPARE, "--time-column", "colour", says="'colour'")
    refused(*COMPARE, "--group", "colr", says="colour")


# How much is said -----------------------------------------------------------------------------


def test_quiet_prints_the_answer_only(here):
    told = succeeds(*COMPARE, "-o", "r.html", "--quiet")
    assert told.stderr == ""
    assert "verdict" not in told.stdout
    assert len(told.stdout.splitlines()) <= 6
    assert (here / "r.html").exists()


def test_verbose_logs_what_is_done(here, caplog):
    succeeds(*COMPARE, "-o", "r.html")
    assert not caplog.records
    try:
        succeeds(*COMPARE, "-o", "r.html", "-v")
    finally:
        logging.getLogger("nearfold").setLevel(logging.NOTSET)
    logged = [record.getMessage() for record in caplog.records]
    assert logged[0] == "reading t.csv"
    assert any("60 rows" in line and "3 folds" in line for line in logged)
    assert any(line.startswith("PCA: finished") for line in logged)
    assert logged[-1] == "wrote r.html"
    assert {record.name.partition(".")[0] for record in caplog.records} == {"nearfold"}


# Completion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    script = succeeds("completion", shell).stdout
    assert "_NEARFOLD_COMPLETE" in script
    assert "nearfold" in script


def test_completion_completes(tmp_path):
    from click.shell_completion import BashComplete

    from nearfold.app.cli import main

    complete = BashComplete(main, {}, "nearfold", "_NEARFOLD_COMPLETE")
    assert [c.value for c in complete.get_completions([], "comp")] == ["compare", "completion"]
    assert "--label" in [c.value for c in complete.get_completions(["compare"], "--la")]
    (tmp_path / "s").write_text(succeeds("completion", "bash").stdout)
    assert subprocess.run(["bash", "-n", tmp_path / "s"]).returncode == 0


# Choices --------------------------------------------------------------------------------------


def test_choose_of_a_learner_chooses_its_k(here):
    words = ["choose", "t.csv", "--label", "kind", "--exclude", "price", "--folds", "3"]
    told = found(*words, "--what", "neighbors", "--method", "knn")
    assert told["rule"] == "cross_validation"
    assert told["value"] in (3, 4, 5, 7, 10, 14, 20, 28)
    refused(*words, "--method", "knn", says=("KNeighborsClassifier", "n_components"))
    refused("choose", "t.csv", "--what", "neighbors", "--method", "knn", says="--label")


@pytest.mark.parametrize("method", ["PCA", "LDA", "knn"])
def test_a_radius_is_of_a_graph(here, method):
    words = ["choose", "t.csv", "--label", "kind", "--what", "radius", "--method", method]
    refused(*words, says="no radius to choose")


def test_bad_seeds(here):
    for command in (COMPARE, ("choose", "t.csv", "--rule", "parallel")):
        refused(*command, "--seed", "-1", says="--seed -1")
    assert run(*COMPARE, "--seed", "x").exit_code == 2
