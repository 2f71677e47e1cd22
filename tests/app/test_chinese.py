"""A run in Chinese has no English left, but for names: of columns, values, files, methods, options.

In a process of its own: click's help texts are made when the commands are imported.
"""

import os
import re
import subprocess
import sys

import polars as pl
import pytest
from command_runs import mixed_table

from nearfold.app.cli import _COMMANDS
from nearfold.columns.kinds import Kind
from nearfold.registry import METHODS
from nearfold.study.candidates import all_candidates
from nearfold.study.intake import open_table
from nearfold.study.question import Task
from nearfold.study.scores import SCORES
from nearfold.study.showing import space_name

WORD = re.compile(r"(?<![A-Za-z0-9_./-])[A-Za-z][A-Za-z_]{2,}")
NOT_WORDS = re.compile(r"--?[\w-]+|\S+\.(?:csv|html|json|nearfold|png|parquet)|`[^`]*`|/\S+"
                       r"|nearfold \w+ .*|\[[A-Za-z|]+\]")  # fmt: skip
NAMES = """
CSV TSV Excel JSON lines Parquet Arrow HTML PNG TOML AUC ROC NaN UMAP Gower DATA Nearfold Pipeline
nearfold python Python numpy scipy scikit learn sklearn pipeline TablePreparation table steps index_
random_state table__random_state numbers scale n_neighbors n_components radius disconnected
bridge largest each shell bash zsh fish gzip umap utf xlsx jsonl parquet arrow npy npz csv tsv
OPTIONS COMMAND ARGS INTEGER FLOAT TEXT COL KIND FILE FORMAT NAME CHAR WORDS SIZE MODEL LIST
MODULE CLASS TIME DIRECTORY METHOD VALUE OUT SHELL
low high default all uniform distance median euclidean protect dimensions demo share parallel
connectivity cross_validation one_standard_error
space task score_name score interval reference verdict last_check metric seed data rows data_sha
decimal schema
"""  # file formats, packages, parameters, metavariables, values of options, keys of model files


def english(text, more=()):
    """The words of three letters and more that nobody's name is."""
    known = (
        set(NAMES.split())
        | set(more)
        | set(_COMMANDS)
        | {name.value for name in SCORES}
        | set(Kind)
    )
    known |= {word for m in METHODS for name in (m.name, m.shown, *m.names)
              for word in (name, name.lower())}  # fmt: skip
    bare = NOT_WORDS.sub(" ", text)
    return sorted(set(WORD.findall(bare)) - known)


def run(*words, code=0, **environment):
    done = subprocess.run([sys.executable, "-m", "nearfold.app.cli", *map(str, words)],
                          capture_output=True, timeout=300,
                          env={**os.environ, "COLUMNS": "200", **environment})  # fmt: skip
    text = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == code, text
    assert re.search("[\u4e00-\u9fff]", text), text
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("chinese")
    frame = mixed_table(200)
    frame.write_csv(path / "t.csv")
    frame.with_columns(pl.lit("violet").alias("colour")).write_csv(path / "new.csv")
    kind, codes = frame["kind"].to_list(), frame["code"].to_list()
    lines = [f"{codes[i]},{codes[i + 100]},{1 if kind[i] == kind[i + 100] else -1}\n"
             for i in range(100)]  # fmt: skip
    (path / "p.csv").write_text("".join(lines))
    for name, words in {"m": ["PCA", "--set", "n_components=2"], "k": ["knn"]}.items():
        words = ["fit", *words, path / "t.csv", "--label", "kind", "--exclude", "price",
                 "-o", path / f"{name}.nearfold", "--lang", "zh"]  # fmt: skip
        assert english(run(*words), frame.columns) == []
    return path


LABEL = ["--label", "kind", "--exclude", "price"]
BARE = ["--exclude", "kind", "--exclude", "price"]
QUICK = ["--repeats", "1", "--folds", "3"]
RUNS = [
    [
        "compare",
        "t.csv",
        *LABEL,
        *QUICK,
        "--methods",
        "all",
        "-o",
        "r.html",
        "--save",
        "b.nearfold",
    ],
    ["compare", "t.csv", "--target", "price", "--exclude", "kind", *QUICK, "--methods", "MLKR,PCA"],
    ["compare", "t.csv", *BARE, "--pairs", "p.csv", *QUICK, "--methods", "MMC,PCA"],
    ["compare", "t.csv", *BARE, *QUICK, "--methods", "PCA,Isomap"],
    ["compare", "t.csv", *LABEL, *QUICK, "--methods", "PCA", "--time", "0.001s"],
    ["compare", "t.csv", *LABEL, "--time-column", "day", "--methods", "PCA"],
    ["compare", "t.csv", "--label", "kind", "--group", "colour", *QUICK, "--methods", "PCA"],
    ["compare", "t.csv", *LABEL, "--missing", "drop", "--dry-run", "--schema", "s.json"],
    ["choose", "t.csv", *LABEL, "--folds", "3"],
    ["choose", "t.csv", *BARE, "--rule", "share"],
    ["choose", "t.csv", *BARE, "--rule", "parallel"],
    ["choose", "t.csv", *BARE, "--what", "neighbors"],
    ["choose", "t.csv", *BARE, "--what", "radius"],
    ["choose", "t.csv", *LABEL, "--what", "neighbors", "--method", "knn", "--folds", "3"],
    ["doctor", "t.csv", "-k", "3", "-o", "g.png"],
    ["doctor", "t.csv", "--scale", "-k", "12"],
    ["explain", "m.nearfold", "t.csv"],
    ["explain", "m.nearfold", "t.csv", "--rows", "0,1"],
    ["transform", "m.nearfold", "new.csv", "-o", "z.csv"],
    ["inspect", "m.nearfold"],
    ["inspect", "k.nearfold"],
    ["verify", "m.nearfold"],
    ["methods"],
]


@pytest.mark.parametrize("words", RUNS, ids=lambda words: " ".join(words[:1] + words[2:6]))
def test_a_run_in_chinese(folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    known = [*mixed_table(5).columns, "red", "green", "blue", "yes", "violet"]
    assert english(run(*words, "--lang", "zh"), known) == []


def test_the_saved_model_of_a_comparison_is_described_in_chinese(folder, monkeypatch):
    monkeypatch.chdir(folder)
    words = ["compare", "t.csv", *LABEL, *QUICK, "--methods", "LDA", "--save", "c.nearfold"]
    run(*words, "--lang", "zh")
    assert english(run("inspect", "c.nearfold", "--lang", "zh"), mixed_table(5).columns) == []


@pytest.mark.parametrize("command", [None, *_COMMANDS])
def test_help_in_chinese(command):
    words = [command, "--help"] if command else ["--help"]
    shown = run(*words, NEARFOLD_LANG="zh")
    assert english(shown) == []
    assert "用法：" in shown


MISTAKES = [
    ["compar"],
    ["compare"],
    ["compare", "no.csv"],
    ["compare", "t.csv", "--labl", "x"],
    ["compare", "t.csv", "--folds", "x"],
    ["compare", "t.csv", "--label", "knd"],
    ["compare", "t.csv", "--label", "kind", "--target", "price"],
    ["compare", "t.csv", "--time", "soon"],
    ["compare", "t.csv", "--seed", "-1"],
    ["compare", "t.csv", "-o", "t.csv"],
    ["compare", "t.csv", "--missing", "error"],
    ["compare", "t.csv", "--dtype", "size=huge"],
    ["fit", "PAC", "t.csv", "-o", "x"],
    ["fit", "LDA", "t.csv", "-o", "x"],
    ["transform", "m.nearfold", "p.csv"],
    ["transform", "m.nearfold", "t.csv", "--keep", "siz"],
    ["explain", "k.nearfold", "t.csv"],
    ["explain", "m.nearfold", "t.csv", "--rows", "1"],
    ["choose", "t.csv", "--what", "radius", "--method", "PCA"],
    ["doctor", "t.csv", "-o", "g.jpg"],
]


@pytest.mark.parametrize("words", MISTAKES, ids=lambda words: " ".join(words))
def test_mistakes_are_explained_in_chinese(folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    typed = [part for word in words for part in re.findall(r"[A-Za-z_]+", word)]
    told = run(*words, code=2, NEARFOLD_LANG="zh")
    known = [*mixed_table(5).columns, *typed, "missing", "mean", "zero", "drop", "zip", "integer"]
    assert english(told, known) == []


def test_every_space_has_a_chinese_name(folder):
    table = open_table(folder / "t.csv")
    for candidate in all_candidates(table.cells, Task.CLASSIFICATION):
        assert re.search("[\u4e00-\u9fff]", space_name(candidate.name).text("zh")), candidate.name
