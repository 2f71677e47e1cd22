"""Hostile tables and hostile words through the real commands.

Each ends with exit code 0 and a result, or with exit code 2 and one line that says why: never with
a traceback, a warning of another package, a control character on the terminal or NaN as a result.
"""

import json
import re
import string
import subprocess
import sys
import unicodedata
import warnings

import hostile_cases
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hostile_cases import (
    SCRIPT,
    TABLES,
    TARGETS,
    in_npy,
    in_parquet,
    numbers,
    table,
    two_classes,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearfold.app.cli import main
from nearfold.blocks import set_memory
from nearfold.errors import NearfoldWarning

RESULT, REFUSED = "a result", "one line"
FEW = ("--methods", "PCA,LDA", "--repeats", "1")
PLAIN_PCA = ("--methods", "PCA", "--repeats", "1")


def run(*words, **kwargs):
    """A command as a person types it; what it ends in must be one of the two."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            result = CliRunner().invoke(main, [str(w) for w in words], **kwargs)
        finally:
            set_memory(None)  # --memory is for the whole process
    foreign = [w for w in heard if not issubclass(w.category, NearfoldWarning)]
    assert not foreign, f"a warning that is not ours: {foreign[0].message} ({foreign[0].filename})"
    return result


def outcome(result):
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception  # what escaped, with the place it came from
    shown = result.stdout + result.stderr
    assert "Traceback" not in shown
    assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\r\n\t"]
    if result.exit_code == 0:
        assert result.stdout.strip()
        assert not re.search(r"\bnan\b|[,\n]NaN\b", result.stdout)  # "NaN" may be in a reason
        return RESULT
    assert result.exit_code == 2, shown
    line = result.stderr.strip().splitlines()[-1]
    assert line.startswith("nearfold: ")
    assert 20 < len(line) < 600
    assert not line.endswith((": .", ":"))  # a reason that is not there
    return REFUSED


def ends(*words, **kwargs):
    return outcome(run(*words, **kwargs))


def refuses(*words, says="", **kwargs):
    """A mistake: exit code 2, and the line has these words."""
    result = run(*words, **kwargs)
    assert outcome(result) == REFUSED
    line = result.stderr.strip().splitlines()[-1]
    assert says in line, line
    return line


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder with one good table."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_bytes(two_classes(30, 3, id=[f"r{i}" for i in range(30)]))
    return tmp_path


@pytest.fixture
def models(here):
    """Models of the good table, by name."""
    for name in ("PCA", "LDA", "knn"):
        assert ends("fit", name, "good.csv", "--label", "kind", "-o", f"{name}.nearfold") == RESULT
    return here


# Tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_compare_with_a_label(name, here):
    (here / "t").write_bytes(TABLES[name])
    methods = PLAIN_PCA if "10,000" in name else FEW  # LDA has its own test
    ends("compare", "t", "--label", "kind", *methods)


@pytest.mark.parametrize("name", TABLES)
def test_compare_without_a_label(name, here):
    (here / "t").write_bytes(TABLES[name])
    ends("compare", "t", "--exclude", "kind", "--json", *PLAIN_PCA)


@pytest.mark.parametrize("name", TARGETS)
def test_compare_and_choose_with_a_target(name, here):
    (here / "t").write_bytes(TARGETS[name])
    compared = ends("compare", "t", "--target", "y", *PLAIN_PCA)
    assert ends("choose", "t", "--target", "y") == compared


@pytest.mark.parametrize("name", [n for n in TABLES if "10,000" not in n])
def test_choose_and_doctor(name, here):
    (here / "t").write_bytes(TABLES[name])
    ends("choose", "t", "--label", "kind", "--folds", "2")
    ends("choose", "t", "--exclude", "kind", "--rule", "share")
    ends("choose", "t", "--exclude", "kind", "--what", "neighbors")
    ends("doctor", "t", "--exclude", "kind", "-k", "3")


@pytest.mark.parametrize("name", [n for n in TABLES if "10,000" not in n])
def test_fit_transform_inspect_verify_explain(name, here):
    (here / "t").write_bytes(TABLES[name])
    if ends("fit", "PCA", "t", "--exclude", "kind", "--scale", "-o", "m.nearfold") == REFUSED:
        assert not (here / "m.nearfold").exists()
        return
    assert ends("inspect", "m.nearfold") == RESULT
    assert ends("verify", "m.nearfold") == RESULT
    assert ends("transform", "m.nearfold", "t") == RESULT
    ends("explain", "m.nearfold", "t", "--rows", "0,0", "--json")
    told = ends("explain", "m.nearfold", "t")
    assert told == RESULT


def test_what_can_be_answered_is_answered(here):
    """The way out must not be a refusal of everything."""
    for name in ("plain", "label of markup", "label with gaps", "label of floats",
                 "label of booleans", "label of dates", "label of huge numbers", "10 rows",
                 "1 feature", "offset 1e12", "20 rows x 500 columns", "names of markup",
                 "names of 10 KB", "UTF-16", "GBK", "semicolons, decimal commas",
                 "Parquet"):  # fmt: skip
        (here / "t").write_bytes(TABLES[name])
        result = run("compare", "t", "--label", "kind", *PLAIN_PCA, "--json")
        assert outcome(result) == RESULT, name
        board = json.loads(result.stdout)["leaderboard"]
        assert all(space["score"] is not None for space in board), (name, board)


def test_ten_thousand_columns_and_a_label(here):
    """In a process of its own, so that work that cannot be stopped does not stop the tests."""
    (here / "t").write_bytes(TABLES["12 rows x 10,000 columns"])
    words = [sys.executable, "-m", "nearfold.app.cli", "compare", "t", "--label", "kind"]
    words += ["--methods", "LDA", "--repeats", "1", "--folds", "2"]
    done = subprocess.run(words, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert b"LDA" in done.stdout


@pytest.mark.parametrize("name", ["plain", "10 rows", "12 distinct rows"])
def test_every_default_space_on_a_small_table(name, here):
    (here / "t").write_bytes(TABLES[name])
    assert ends("compare", "t", "--label", "kind", "--repeats", "1") == RESULT


# Results that must be right ------------------------------------------------------------------


def score(*words):
    result = run(*words, "--json")
    assert outcome(result) == RESULT
    return next(s for s in json.loads(result.stdout)["leaderboard"] if s["space"] == "raw")["score"]


@pytest.mark.parametrize("size", [1e300, 1e160, 1e-160, 1e-300])
def test_the_size_of_a_target_changes_no_score(size, here):
    y = np.random.default_rng(1).normal(size=24)
    for name, values in (("one", y), ("other", y * size)):
        rng = np.random.default_rng(2)
        X = y[:, None] + 0.1 * rng.normal(size=(24, 2))
        (here / name).write_bytes(table(X, y=values.tolist()))
    known = score("compare", "one", "--target", "y", *PLAIN_PCA)
    assert known > 0.5
    assert score("compare", "other", "--target", "y", *PLAIN_PCA) == pytest.approx(known, rel=1e-6)


def test_choose_takes_a_label_for_a_label_and_a_target_for_a_target(here):
    """As compare does, whatever the numbers look like."""
    X = np.arange(24.0)[:, None] * [1, -1]
    (here / "t").write_bytes(table(X, half=[0.5, 1.5] * 12, whole=list(range(24))))
    told = run("choose", "t", "--label", "half", "--exclude", "whole")
    assert outcome(told) == RESULT
    assert "accuracy" in told.stdout
    told = run("choose", "t", "--target", "whole", "--exclude", "half")
    assert outcome(told) == RESULT
    assert "R²" in told.stdout


def test_one_row_is_left(here):
    (here / "t").write_bytes(b"a,b\n1.5,2.5\n2.5,NA\nNA,1.5\n")
    for command in (["choose", "t", "--rule", "share"], ["choose", "t", "--rule", "parallel"],
                    ["choose", "t", "--what", "neighbors"], ["doctor", "t", "-k", "1"],
                    ["compare", "t"]):  # fmt: skip
        refuses(*command, "--missing", "drop")


def test_choose_refuses_what_compare_refuses(here):
    for name in ("label constant", "label all distinct", "9 rows"):
        (here / "t").write_bytes(TABLES[name])
        refuses("compare", "t", "--label", "kind", *PLAIN_PCA)
        refuses("choose", "t", "--label", "kind")


# Words ---------------------------------------------------------------------------------------

LONG = "x" * 5000
WRONG = {
    "k": [["-k", k] for k in (0, -1, 10_000, 10**30)],
    "folds": [["--folds", n] for n in (-3, 0, 1, 100, 10**30)],
    "dimensions": [["--dimensions", d] for d in (0, -1)],
    "points": [["--points", n, "-o", "r.html"] for n in (0, -1)],
    "memory": [["--memory", size] for size in ("0", "abc", "1", "-1GB", "nan", "1e5")],
    "time": [["--time", t] for t in ("0", "-5s", "soon", "", "1d")],
    "repeats": [["--repeats", n] for n in (0, -1)],
    "seed": [["--seed", "-1"]],
    "methods": [["--methods", m] for m in ("PCA;rm", "[/red]", "\x1b[31m", LONG)],
    "label": [["--label", c] for c in (LONG, "\x1b[31m", "[/red]", "no", "")],
    "columns": [["--exclude", "no"], ["--feature", "no"], ["--feature", "kind"], ["--id", "no"],
                ["--id", "kind"], ["--feature", "id"],
                ["--exclude", "v0", "--exclude", "v1", "--exclude", "v2"]],
    "space": [["--space", "no", "--save", "m.nearfold"]],
    "text": [["--encoding", "klingon"], ["--separator", "abc"], ["--separator", ""],
             ["--separator", "\n"], ["--decimal", "x"], ["--no-header"],
             ["--format", "xlsx"], ["--format", "npy"], ["--format", "parquet"]],
    "output": [["-o", "no/r.html"], ["-o", "."], ["-o", "/proc/r.html"], ["-o", "/dev/full"],
               ["--save", "no/m.nearfold"], ["--save", "."], ["--save", "/proc/m.nearfold"]],
    "also": [["--also", a] for a in ("os", "", ":", "os:getcwd", "no:No", ".x:Y", LONG,
             "sklearn.decomposition:Nope", "sklearn.svm:SVC", "builtins:dict", "builtins:exit",
             "sklearn.pipeline:Pipeline", "sklearn.manifold:TSNE", "operator:truediv")],
    "pairs": [["--pairs", "good.csv"], ["--pairs", "no.csv"], ["--target", "v0"]],
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_compare_refuses_wrong_words(kind, here):
    good = (here / "good.csv").read_bytes()
    for words in WRONG[kind]:
        refuses("compare", "good.csv", "--label", "kind", *PLAIN_PCA, *words)
    assert sorted(p.name for p in here.iterdir()) == ["good.csv"]
    assert (here / "good.csv").read_bytes() == good


ODD = {
    "dimensions beyond the rank": ["--dimensions", 10_000],
    "one point": ["--points", 1, "-o", "r.html"],
    "no time": ["--time", "0.001s", "-o", "r.html"],
    "more time than numbers tell": ["--time", "9" * 400 + "h"],
    "more memory than numbers tell": ["--memory", "9" * 400 + "TB"],
    "little memory": ["--memory", "1MB"],
    "a great seed": ["--seed", 2**40],
    "no methods": ["--methods", ",,"],
    "a method twice": ["--methods", "PCA,PCA"],
    "a space twice": ["--also", "sklearn.decomposition:PCA"],
    "a decimal sign that is not there": ["--decimal", ","],
    "the raw space": ["--space", "raw", "--save", "m.nearfold"],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_words(name, here):
    ends("compare", "good.csv", "--label", "kind", *PLAIN_PCA, *ODD[name])


@pytest.mark.parametrize("option", ["-o", "--save"])
def test_the_table_is_never_written_over(option, here):
    good = (here / "good.csv").read_bytes()
    words = ["compare", "good.csv", "--label", "kind", *PLAIN_PCA]
    refuses(*words, option, "good.csv", says="good.csv")
    refuses(*words, option, f"../{here.name}/good.csv", says="good.csv")
    refuses("fit", "PCA", "good.csv", "-o", "good.csv", says="good.csv")
    assert (here / "good.csv").read_bytes() == good


@pytest.mark.parametrize("what", ["dimensions", "neighbors", "radius"])
@pytest.mark.parametrize(
    "rule", ["share", "parallel", "connectivity", "cross_validation", "one_standard_error"]
)
def test_every_what_and_rule(what, rule, here):
    known = {
        "dimensions": ("share", "parallel", "cross_validation", "one_standard_error"),
        "neighbors": ("connectivity", "cross_validation", "one_standard_error"),
        "radius": ("connectivity", "cross_validation", "one_standard_error"),
    }
    (here / "small").write_bytes(two_classes(12, 2))
    words = ["choose", "small", "--what", what, "--rule", rule, "--folds", "2"]
    by_label = ends(*words, "--label", "kind")
    assert by_label == (RESULT if rule in known[what] else REFUSED)
    alone = ends(*words, "--exclude", "kind")
    assert alone == (REFUSED if rule in ("cross_validation", "one_standard_error") else by_label)


@pytest.mark.parametrize(
    "words",
    [["--share", s, "--rule", "share"] for s in ("2", "0", "-1", "nan", "inf")]
    + [["-k", k] for k in ("0", "-1")]
    + [["--folds", n] for n in ("0", "1", "100")]
    + [["--seed", "-1"], ["--method", "[/x]"], ["--method", LONG], ["--method", "NearestNeighbors"],
       ["--method", "MMC"], ["--method", "LDA", "--what", "radius"],
       ["--method", "LDA", "--what", "neighbors"], ["--method", "Isomap", "--rule", "share"]],
)  # fmt: skip
def test_choose_refuses_wrong_words(words, here):
    refuses("choose", "good.csv", "--label", "kind", *words)


def test_choose_knows_the_short_name_of_the_learner(here):
    words = ["choose", "good.csv", "--label", "kind", "--what", "neighbors", "--method"]
    assert ends(*words, "knn") == ends(*words, "KNeighborsClassifier") == RESULT


@pytest.mark.parametrize(
    "words",
    [["-k", k] for k in ("0", "-1", "30")]
    + [["--radius", r] for r in ("-1", "nan")]
    + [["--metric", m] for m in ("nope", "precomputed", "haversine", LONG)]
    + [["-o", path] for path in ("no/g.png", "g.xyz", "/proc/g.png")],
)
def test_doctor_refuses_wrong_words(words, here):
    refuses("doctor", "good.csv", *words)


def test_doctor_learns_what_a_metric_needs_from_the_table(here):
    assert outcome(run("doctor", "good.csv", "--metric", "mahalanobis")) == RESULT


@pytest.mark.parametrize("words", [["-k", "29"], ["--radius", "0"], ["--radius", "inf"]])
def test_doctor_of_odd_graphs(words, here):
    assert ends("doctor", "good.csv", *words) == RESULT


# Parameters ----------------------------------------------------------------------------------

SETTINGS = [
    ("PCA", f"n_components={value}") for value in (
        "1e999", "-1", "9" * 20, "9" * 5000, "[[1]]", "[" * 5000, "-" * 3000 + "1", LONG, "{}",
        "1j", "b'x'", "\x00", "(1,2)", "True", "nan", "2.5", "1e-400")
] + [
    ("PCA", "=3"), ("PCA", "n_components"), ("PCA", "no=1"), ("PCA", f"{LONG}=1"),
    ("PCA", "svd_solver=[]"),
    ("KernelPCA", "gamma=1e999"), ("KernelPCA", "kernel=no"), ("KernelPCA", "kernel=precomputed"),
    ("Isomap", "n_neighbors=0"), ("Isomap", "n_neighbors=1e999"), ("Isomap", "n_neighbors=10000"),
    ("Isomap", "n_neighbors=None"), ("Isomap", "metric=[]"), ("Isomap", "metric=precomputed"),
    ("LLE", "reg=x"), ("LLE", "method=x"), ("MDS", "max_iter=0"), ("MDS", "n_init=x"),
    ("NearestNeighbors", "p=x"), ("knn", "metric_params=5"), ("KNeighborsTransformer", "mode=x"),
    ("NCA", "init=no"), ("NCA", "tol=x"), ("NCA", "init=[[1]]"), ("LDA", "priors=[1]"),
    ("LDA", "shrinkage=7"), ("LDA", "shrinkage=x"), ("LDA", "solver=x"), ("ITML", "gamma=x"),
    ("MMC", "init=x"), ("[/red]", "a=1"), (LONG, "a=1"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "setting"), SETTINGS, ids=lambda text: repr(text[:30]))
def test_fit_refuses_wrong_parameters(method, setting, here):
    extra = ["--set", "kernel=rbf"] if setting.startswith("gamma=1e999") else []
    words = ["fit", method, "good.csv", "--label", "kind", "-o", "m.nearfold"]
    refuses(*words, "--set", setting, *extra)
    assert not (here / "m.nearfold").exists()


@pytest.mark.parametrize("output", ["no/m.nearfold", ".", "", "/proc/m", "/dev/full", "x" * 300])
def test_fit_refuses_wrong_outputs(output, here):
    refuses("fit", "PCA", "good.csv", "-o", output)
    assert sorted(p.name for p in here.iterdir()) == ["good.csv"]


@pytest.mark.parametrize(
    "method", ["NearestNeighbors", "KNeighborsTransformer", "RadiusNeighborsTransformer", "knn"]
)
def test_models_that_are_not_spaces(method, here):
    assert ends("fit", method, "good.csv", "--label", "kind", "-o", "m.nearfold") == RESULT
    ends("inspect", "m.nearfold")
    ends("transform", "m.nearfold", "good.csv")
    ends("explain", "m.nearfold", "good.csv")
    ends("explain", "m.nearfold", "good.csv", "--rows", "0,1")


# Pairs ---------------------------------------------------------------------------------------

ALIKE = [(f"r{i}", f"r{i + 2}", 1) for i in range(0, 26, 3)]
APART = [(f"r{i}", f"r{i + 1}", -1) for i in range(0, 26, 3)]


def lines(*pairs):
    return "".join(f"{a},{b},{c}\n" for a, b, c in pairs).encode()


PAIRS = {
    "empty": b"",
    "a header": b"a,b,y\n",
    "unknown ids": lines(("q1", "q2", 1), *APART),
    "contradictory": lines(*ALIKE, *APART, ("r0", "r2", -1)),
    "contradictory by a chain": lines(("r0", "r1", 1), ("r1", "r2", 1), ("r0", "r2", -1)),
    "a row with itself": lines(("r1", "r1", 1), ("r0", "r3", -1)),
    "too few": lines(ALIKE[0], APART[0]),
    "no third column": b"r1,r2\nr3,r4\n",
    "a fourth column": b"r1,r2,1,5\n",
    "another number": lines(("r1", "r2", 7), *APART),
    "words": b"r1,r2,yes\n",
    "NaN": b"r1,r2,nan\n",
    "garbage": TABLES["garbage"],
    "markup": b"[/red],r2,1\n",
    "control characters": b"\x1b[31m,r2,1\n",
    "an id of 10 KB": b"x" * 10_000 + b",r2,1\n",
    "Parquet named CSV": in_parquet(a=["r1"], b=["r2"], c=[1]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_that_cannot_be_used(name, here):
    (here / "p.csv").write_bytes(PAIRS[name])
    words = ["good.csv", "--id", "id", "--exclude", "kind", "--pairs", "p.csv"]
    refuses("compare", *words, "--methods", "PCA,MMC", "--repeats", "1", "--folds", "2")
    if name != "too few":  # to be judged by, not to learn from
        refuses("fit", "MMC", *words, "-o", "m.nearfold")


def test_pairs_of_one_kind_end_well_and_are_not_learned_from(here):
    for pairs in (ALIKE, APART):
        (here / "p.csv").write_bytes(lines(*pairs))
        words = ["good.csv", "--id", "id", "--exclude", "kind", "--pairs", "p.csv"]
        ends("compare", *words, "--methods", "PCA,MMC", "--repeats", "1", "--folds", "2")
        refuses("fit", "MMC", *words, "-o", "m.nearfold", says="-link")


def test_pairs_and_ids_that_do_not_fit(here):
    rows = [f"r{i}" for i in range(120)]
    alike = [(rows[i], rows[i + 2], 1) for i in range(0, 120, 4)]
    apart = [(rows[i + 1], rows[i + 3], -1) for i in range(0, 120, 4)]
    (here / "p.csv").write_bytes(lines(*alike, *apart))
    (here / "once.csv").write_bytes(two_classes(120, 3, id=rows))
    (here / "twice.csv").write_bytes(two_classes(120, 3, id=rows[:60] * 2))
    pairs = ["--pairs", "p.csv", "--methods", "MMC", "--repeats", "1", "--folds", "2"]
    ids = ["--id", "id", "--exclude", "kind"]
    assert ends("compare", "once.csv", *ids, *pairs) == RESULT
    refuses("compare", "twice.csv", *ids, *pairs, says="unique")
    refuses("compare", "once.csv", "--exclude", "id", "--exclude", "kind", *pairs, says="r0")
    refuses("compare", "once.csv", *ids, "--pairs", ".")
    refuses("fit", "PCA", "once.csv", *ids, "--pairs", "p.csv", "-o", "m", says="PCA")


# Models --------------------------------------------------------------------------------------

NEW_ROWS = {
    "no rows": b"v0,v1,v2\n",
    "lacking a column": table(numbers(5, 2)),
    "renamed": table(numbers(5, 3), ["V0", "v1", "v2"]),
    "text": b"v0,v1,v2\nx,1,2\n1,2,3\n",
    "NaN": b"v0,v1,v2\n,1,2\n1,nan,3\n",
    "infinity": b"v0,v1,v2\ninf,1,2\n1,2,3\n",
    "500 digits": b"v0,v1,v2\n" + b"9" * 500 + b",1,2\n",
    "empty": b"",
    "garbage": TABLES["garbage"],
    "markup": table(numbers(5, 3), ["[/red]", "v1", "v2"]),
    "control characters": table(numbers(5, 3), ["\x1b[31m", "v1", "v2"]),
    "long names": table(numbers(5, 3), ["v" * 10_000, "v1", "v2"]),
    "dates": b"v0,v1,v2\n2020-01-01,1,2\n",
    "lists": in_parquet(v0=[[1.0]], v1=[1.0], v2=[2.0]),
    "an array": in_npy(numbers(5, 2)),
}


FILLED = ("NaN", "infinity", "500 digits")  # by the median of the training rows, if so fitted


def test_new_rows_that_do_not_fit(models):
    for model in ("PCA", "LDA", "knn"):
        words = ["good.csv", "--label", "kind", "--missing", "error", "-o", f"{model}.strict"]
        assert ends("fit", model, *words) == RESULT
    for name, data in NEW_ROWS.items():
        (models / "n").write_bytes(data)
        kind = "strict" if name in FILLED else "nearfold"
        for model in ("PCA", "LDA", "knn"):
            line = refuses("transform", f"{model}.{kind}", "n")
            assert "--missing" not in line, name  # an option that transform does not have
        refuses("explain", f"PCA.{kind}", "n")


@pytest.mark.parametrize("name", FILLED)
def test_new_rows_with_gaps_are_filled_as_in_training(name, models):
    (models / "n").write_bytes(NEW_ROWS[name])
    middle = np.median(pl.read_csv("good.csv").select("v0", "v1", "v2").to_numpy(), axis=0)
    read = pl.read_csv("n", null_values=["nan", "inf"], infer_schema=False)
    cells = [[float(v) if v and len(v) < 20 else m for v, m in zip(row, middle, strict=True)]
             for row in read.rows()]  # fmt: skip
    (models / "filled").write_bytes(table(np.array(cells)))
    for model in ("PCA", "LDA", "knn"):
        told = run("transform", f"{model}.nearfold", "n")
        assert outcome(told) == RESULT
        assert told.stdout == run("transform", f"{model}.nearfold", "filled").stdout


def test_new_rows_that_are_odd(models):
    for scale in (1e307, 1e-300):
        (models / "n").write_bytes(table(numbers(5, 3, scale)))
        for model in ("PCA", "LDA", "knn"):
            ends("transform", f"{model}.nearfold", "n")
            ends("explain", f"{model}.nearfold", "n")
    (models / "n").write_bytes(b"id,v0,v1,v2,more\n=1+1,1,2,3,4\n@x,4,5,6,4\n")
    placed = run("transform", "PCA.nearfold", "n")
    assert outcome(placed) == RESULT
    assert [row.split(",")[0] for row in placed.stdout.splitlines()] == ["id", "'=1+1", "'@x"]
    (models / "n").write_bytes(b"v0,v1,v2\n1,2,3\n")
    assert ends("transform", "PCA.nearfold", "n") == RESULT
    ends("explain", "PCA.nearfold", "n")
    ends("explain", "PCA.nearfold", "n", "--json")


def test_files_that_are_not_models(models):
    whole = (models / "PCA.nearfold").read_bytes()
    files = {"empty": b"", "zeros": bytes(2000), "cut": whole[:-7], "head": whole[:20],
             "table": two_classes(), "pickle": b"\x80\x04\x95.", "zip": b"PK\x03\x04" + bytes(50),
             "garbage": TABLES["garbage"]}  # fmt: skip
    for name, data in files.items():
        (models / name).write_bytes(data)
    for name in [*files, ".", "-", "no", "x" * 5000, "a\0b", "\x1b[31m"]:
        for command in (["inspect", name], ["verify", name], ["transform", name, "good.csv"],
                        ["explain", name, "good.csv"]):  # fmt: skip
            refuses(*command)


def test_a_model_is_not_a_table(models):
    for command in (["compare"], ["choose"], ["doctor"], ["transform", "PCA.nearfold"],
                    ["explain", "PCA.nearfold"]):  # fmt: skip
        refuses(*command, "PCA.nearfold", says="is a Nearfold model")
    refuses("fit", "PCA", "PCA.nearfold", "-o", "m.nearfold", says="is a Nearfold model")


@pytest.mark.parametrize("output", ["no/z.csv", ".", "", "/proc/z.csv", "z.xlsx", "z", "/dev/full",
                                    "x" * 5000, "a\0b.csv"])  # fmt: skip
def test_transform_refuses_wrong_outputs(output, models):
    refuses("transform", "PCA.nearfold", "good.csv", "-o", output)


@pytest.mark.parametrize("words", [["--keep", "[/x]"], ["--keep", LONG], ["--memory", "1"],
                                   ["--memory", "x"], ["--format", "x"]])  # fmt: skip
def test_transform_refuses_wrong_words(words, models):
    refuses("transform", "PCA.nearfold", "good.csv", *words)


@pytest.mark.parametrize("rows", ["0", "0,99", "-1,2", "٣,1", "9" * 30 + ",1", "9" * 5000 + ",1"])
def test_explain_refuses_wrong_rows(rows, models):
    line = refuses("explain", "PCA.nearfold", "good.csv", "--rows", rows, says="row")
    assert "set_int_max" not in line


def test_explain_of_a_row_and_itself(models):
    assert ends("explain", "PCA.nearfold", "good.csv", "--rows", "5,5") == RESULT


# Names and streams ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["compare", "choose", "doctor"])
@pytest.mark.parametrize("name", ["", ".", "no", "x" * 5000, "a\0b", "\x1b[31m.csv", "[/red]",
                                  "\udcff.csv"])  # fmt: skip
def test_names_of_files_that_are_not_there(command, name, here):
    refuses(command, name)


@pytest.mark.parametrize("data", [b"", b"\n", b"\xff\xfe\x00", TABLES["garbage"]])
def test_hostile_stdin(data, models):
    for command in (["compare", "-"], ["choose", "-"], ["doctor", "-"],
                    ["transform", "PCA.nearfold", "-"], ["explain", "PCA.nearfold", "-"],
                    ["fit", "PCA", "-", "-o", "m.nearfold"]):  # fmt: skip
        refuses(*command, input=data)


@pytest.mark.parametrize("command", [["compare", *PLAIN_PCA], ["choose"], ["doctor"]])
def test_markup_and_control_characters_of_columns_are_shown_as_text(command, here):
    names = ["[red]a[/red]", "b\x1b[31m", "c\x07", "label[/]"]
    texts = {"[/]": ["x", "y"] * 12, "\x1b[2J": ["p", "q"] * 12}
    (here / "t").write_bytes(table(numbers(24, 4), names, **texts))
    result = run(*command, "t")
    assert outcome(result) == RESULT
    assert "[/]" in result.stderr  # the notice that it is text


# The report ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["label of HTML", "label of markup", "label of newlines", "label of control characters",
     "label very long", "names of HTML", "names of newlines", "1 feature"],
)  # fmt: skip
def test_the_report_of_a_hostile_table(name, here):
    (here / "t").write_bytes(TABLES[name])
    words = ["compare", "t", "--label", "kind", *PLAIN_PCA, "-o", "r.html"]
    assert ends(*words, "--lang", "zh" if "HTML" in name else "en") == RESULT
    page = (here / "r.html").read_text(encoding="utf-8")
    assert SCRIPT not in page
    assert "<img src=x" not in page
    assert page.count("<script") == page.count("</script>")


def test_columns_that_colour_the_report_may_hold_anything(here):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({
        "a": rng.normal(size=24), "b": rng.normal(size=24), "kind": ["x", "y"] * 12,
        "html": [SCRIPT, "<b>"] * 12, "none": [None] * 24, "gaps": [None, "z"] * 12,
        "days": pl.Series(range(24)).cast(pl.Date), "bytes": [b"\xff", b"\x00"] * 12,
        "lists": [[1], []] * 12, "booleans": [True, None] * 12, "constant": [1] * 24,
        "long": ["w" * 5000, "v"] * 12,
    })  # fmt: skip
    frame.write_parquet(here / "t")
    words = ["compare", "t", "--label", "kind", "--missing", "zero", *PLAIN_PCA, "-o", "r.html"]
    assert ends(*words) == RESULT
    page = (here / "r.html").read_text(encoding="utf-8")
    assert SCRIPT not in page
    assert page.count("<script") == page.count("</script>")


# Anything ------------------------------------------------------------------------------------

CELL = st.one_of(
    st.sampled_from(["1", "2.5", "-3e5", "0", "7", "NA", "", "inf", "1e308", "1e-308", "true"]),
    st.floats(allow_nan=True).map(str),
    st.text(alphabet=string.printable + "é编号[/]\u2028\0", max_size=4),
)
CALM = st.sampled_from(["1", "2", "2.5", "-3", "1e3", "0"])


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.integers(1, 4).flatmap(
        lambda d: st.lists(st.lists(CALM | CELL, min_size=d, max_size=d), min_size=1, max_size=14)
    ),
    separator=st.sampled_from(",;\t|"),
    missing=st.sampled_from(["error", "drop", "median"]),
)
def test_any_table(rows, separator, missing, here):
    names = [f"v{j}" for j in range(len(rows[0]))]
    text = "\n".join(separator.join(row) for row in [names, *rows])
    (here / "t").write_bytes(text.encode())
    shared = ["--missing", missing]
    ends("compare", "t", *shared, *PLAIN_PCA, "--folds", "2")
    ends("compare", "t", *shared, *FEW, "--folds", "2", "--label", "v0")
    ends("choose", "t", *shared, "--rule", "share")
    ends("doctor", "t", *shared, "-k", "1")
    if ends("fit", "PCA", "t", *shared, "-o", "m.nearfold") == RESULT:
        ends("transform", "m.nearfold", "t")
        ends("explain", "m.nearfold", "t")


def test_there_are_two_hundred():
    tables = len(TABLES) + len(TARGETS) + len(PAIRS) + len(NEW_ROWS)
    words = sum(map(len, WRONG.values())) + len(ODD) + len(SETTINGS)
    assert tables + words >= 200
    assert len(hostile_cases.TABLES) >= 80
