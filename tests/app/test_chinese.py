"""A run in Chinese has no English left, but for names: of columns, values, files, methods, options.

In a process of its own: click's help texts are made when the commands are imported.
"""

import gzip
import io
import os
import pickle
import re
import subprocess
import sys
import zipfile

import command_runs
import numpy as np
import polars as pl
import pytest
from command_runs import mixed_table

from nearfold import PCA, set_memory
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
MODULE CLASS TIME DIRECTORY METHOD VALUE OUT SHELL ADDRESS Dask tcp
low high default all uniform distance median euclidean protect dimensions demo share parallel
connectivity cross_validation one_standard_error
space task score_name score interval reference verdict last_check metric seed data rows data_sha
decimal schema PDF XML HDF pickle Feather ASCII shift_jis n_folds n_repeats max_points zip
big raw scaled weighted target coded labl float blue green
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


BROKEN = {
    "empty.csv": lambda f: b"",
    "header.csv": lambda f: b"a,b\n",
    "ragged.csv": lambda f: b"a,b\n1,2\n3\n",
    "cut.csv.gz": lambda f: gzip.compress(b"a,b\n" + b"1,2\n" * 400)[:-20],
    "list.json": lambda f: b'[{"a": 1}]',
    "page.html": lambda f: b"<!doctype html>\n<p>404</p>\n",
    "letter.pdf": lambda f: b"%PDF-1.4",
    "thing.pkl": lambda f: pickle.dumps([1]),
    "one.npy": lambda f: in_npy(np.float64(1)),
    "nothing.npy": lambda f: in_npy(np.zeros((0, 2))),
    "objects.npy": lambda f: in_npy(np.array([{}, []], dtype=object)),
    "short.npy": lambda f: in_npy(np.zeros((9, 2)))[:-8],
    "zip.npz": lambda f: in_zip("x.txt", b"1"),
    "broken.npz": lambda f: in_zip("X.npy", in_npy(np.zeros(3)))[:-30],
    "cut.parquet": lambda f: b"PAR1" + bytes(40),
    "first.feather": lambda f: b"FEA1" + bytes(40),
    "few.csv": lambda f: b"a,b,kind\n1,2,x\n3,5,y\n4,4,x\n",
    "same.csv": lambda f: b"a,b,kind\n" + b"1,2,x\n3,5,x\n" * 9,
    "equal.csv": lambda f: b"a,b\n" + b"1,2\n" * 30,
    "huge.csv": lambda f: b"a,b\n" + b"".join(b"%de300,2\n" % i for i in range(1, 30)),
    "model_cut.nearfold": lambda f: f[:-9],
    "model_long.nearfold": lambda f: f + b"x",
    "model_head.nearfold": lambda f: f[:40],
    "model_turned.nearfold": lambda f: f[:50] + bytes([f[50] ^ 4]) + f[51:],
    "model_manifest.nearfold": lambda f: f[:200] + bytes([f[200] ^ 4]) + f[201:],
    "model_arrays.nearfold": lambda f: f[:-9] + bytes([f[-9] ^ 4]) + f[-8:],
    "model_empty.nearfold": lambda f: b"",
    "model_pickle.nearfold": lambda f: pickle.dumps([1]),
    "bad.toml": lambda f: b"label = ",
    "odd.toml": lambda f: b"labl = 'kind'",
    "no_list.json": lambda f: b'{"columns": 5}',
    "no_kind.json": lambda f: b'{"columns": [{"name": "size"}]}',
    "levels.json": lambda f: b'{"columns": [{"name": "size", "kind": "ordered", "levels": [1]}]}',
    "role.json": lambda f: b'{"columns": [{"name": "size", "kind": "number", "role": "boss"}]}',
    "members.json": lambda f: b'{"columns": [{"name": "size", "kind": "embedding", "width": 0}]}',
}
FAILING = [
    *(["compare", name] for name in BROKEN if not name.startswith("model_") and name != "few.csv"
      and not name.endswith((".toml", "json")) and name != "equal.csv"),
    *(["inspect", name] for name in BROKEN if name.startswith("model_") and "arrays" not in name),
    ["verify", "model_arrays.nearfold"],
    ["compare", "list.json"],
    ["compare", "few.csv", "--label", "kind"],
    ["compare", "same.csv", "--label", "kind"],
    ["compare", "same.csv", "--target", "kind"],
    ["compare", "equal.csv"],
    *(["compare", "t.csv", *LABEL, *more] for more in (
        ["--format", "doc"], ["--encoding", "klingon"], ["--encoding", "utf-16"],
        ["--separator", "ab"], ["--decimal", "x"], ["--score", "beauty"], ["--score", "r2"],
        ["--methods", "PAC"], ["--folds", "1"], ["--folds", "150"], ["--repeats", "0"],
        ["--points", "1"], ["--dimensions", "0"], ["--dimensions", "99"], ["-k", "0"],
        ["-k", "500"], ["--memory", "much"], ["--memory", "1KB"], ["--memory", "20KB"],
        ["--time-column", "colour"], ["--group", "kind"], ["--also", "no.module:X"],
        ["--also", "json:loads"], ["--also", "sklearn.decomposition:PCAA"],
        ["--also", "sklearn.cluster:DBSCAN"], ["--save", "no/x.nearfold"], ["-o", "."],
        ["--open"], ["--space", "PAC"], ["--pairs", "p.csv"], ["--pairs", "t.csv"],
        ["--feature", "note"], ["--feature", "kind"], ["--na", "yes,no"],
        ["--config", "bad.toml"], ["--config", "odd.toml"], ["--config", "none.toml"],
        *(["--schema", name] for name in BROKEN if name.endswith("json")),
        ["--dtype", "size"], ["--dtype", "size=date"], ["--dtype", "colour=ordered:red<green"],
    )),
    ["compare", "t.parquet", "--separator", ";"],
    ["compare", "missing-*.csv"],
    ["compare", "."],
    *(["choose", "t.csv", *BARE, *more] for more in (
        ["--rule", "cross_validation"], ["--rule", "share", "--share", "2"],
        ["--rule", "share", "--method", "Isomap"], ["--rule", "parallel", "--method", "Isomap"],
        ["--rule", "connectivity"], ["--what", "neighbors", "--rule", "share"],
        ["--method", "LDA"],
    )),
    ["choose", "equal.csv", "--what", "radius"],
    ["choose", "t.csv", *LABEL, "-k", "500"],
    ["choose", "t.csv", *LABEL, "--folds", "1"],
    *(["doctor", "t.csv", *more] for more in (
        ["-k", "0"], ["-k", "500"], ["--radius", "-1"], ["--metric", "guess"],
        ["--metric", "haversine"],
    )),
    *(["fit", *more, "-o", "x.nearfold"] for more in (
        ["PCA", "t.csv", *BARE, "--set", "n_components=500"],
        ["PCA", "t.csv", *BARE, "--set", "n_components=many"],
        ["PCA", "t.csv", *BARE, "--set", "colour=red"],
        ["Isomap", "t.csv", *BARE, "--set", "n_neighbors=500"],
        ["Isomap", "t.csv", *BARE, "--set", "metric=guess"],
        ["LDA", "same.csv", "--label", "kind"],
        ["MMC", "t.csv", *BARE],
        ["PCA", "t.csv", *BARE, "--pairs", "p.csv"],
    )),
    *(["transform", "m.nearfold", *more] for more in (
        ["t.csv", "-o", "x.doc"], ["t.csv", "-o", "x.parquet.gz"],
        ["t.csv", "--keep", "colour", "-o", "x.npy"], ["few.csv"], ["spoilt.csv"],
        ["t.csv", "--memory", "1KB"],
    )),
    ["transform", "t.csv", "t.csv"],
    ["transform", "none.nearfold", "t.csv"],
    ["inspect", "."],
    ["explain", "m.nearfold", "t.csv", "--rows", "0,999"],
    ["explain", "i.nearfold", "t.csv", "--rows", "0,1"],
]  # fmt: skip


def in_npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def in_zip(name, data):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, data)
    return stream.getvalue()


@pytest.fixture(scope="module")
def broken(folder):
    model = (folder / "m.nearfold").read_bytes()
    for name, make in BROKEN.items():
        (folder / name).write_bytes(make(model))
    frame = mixed_table(200)
    frame.write_parquet(folder / "t.parquet")
    frame.with_columns(pl.lit("x").alias("weight")).write_csv(folder / "spoilt.csv")
    words = ["fit", "Isomap", folder / "t.csv", *LABEL, "-o", folder / "i.nearfold"]
    command_runs.succeeds(*words)
    return folder


# What other packages say is quoted after a sentence of ours.
QUOTED = re.compile("“[^”]*”")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("words", FAILING, ids=lambda words: " ".join(words))
def test_failures_are_explained_in_chinese(broken, monkeypatch, words):
    monkeypatch.chdir(broken)
    result = command_runs.run(words[0], "--lang", "zh", *words[1:])
    set_memory(None)  # --memory stays for the process
    line = result.stderr.strip().splitlines()[-1]
    assert (result.exit_code, line[:10]) == (2, "nearfold: "), result.output
    assert re.search("[\u4e00-\u9fff]", QUOTED.sub("", line)), line
    typed = [part for word in words for part in re.findall(r"[A-Za-z_]+", word)]
    known = [*mixed_table(5).columns, *typed, *PCA().get_params(), "yes", "red", "boss"]
    assert english(QUOTED.sub("", line), known) == []


def test_every_space_has_a_chinese_name(folder):
    table = open_table(folder / "t.csv")
    for candidate in all_candidates(table.cells, Task.CLASSIFICATION):
        assert re.search("[\u4e00-\u9fff]", space_name(candidate.name).text("zh")), candidate.name
