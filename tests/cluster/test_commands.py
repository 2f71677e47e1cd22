"""fit and transform with --scheduler against the same commands on this machine."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner

import nearfold
from nearfold.app.cli import main
from nearfold.columns.learned import learn_from_parts


def run(*words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CliRunner().invoke(main, [str(w) for w in words])


def succeeds(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


def refused(*words, says):
    result = run(*words)
    assert result.exit_code == 2, result.output
    line = result.stderr.strip().splitlines()[-1]
    assert line.startswith("nearfold: "), result.output
    assert "Traceback" not in result.output
    assert says in line, line


def mixed(n=700, seed=0):
    """Numbers with gaps, a category, a truth value, a date, an id; two classes."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n) * 3 + 5
    kind = np.where((size > 5) | (rng.random(n) < 0.1), "yes", "no")
    size[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame({
        "code": [f"r{i:05d}" for i in rng.permutation(n)],
        "size": size,
        "weight": rng.normal(size=n).round(2) * 1000,
        "count": rng.integers(0, 50, n),
        "colour": rng.choice(["red", "green", "blue", None], n),
        "day": [str(np.datetime64("2024-01-01") + d) for d in rng.integers(0, 300, n)],
        "kind": kind,
    })  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One table as one CSV file, as three, and as three Parquet files."""
    path = tmp_path_factory.mktemp("tables")
    table = mixed()
    table.to_csv(path / "all.csv", index=False)
    table.to_parquet(path / "all.parquet")
    for i, part in enumerate(np.array_split(np.arange(len(table)), 3)):
        table.iloc[part].to_csv(path / f"part-{i}.csv", index=False)
        table.iloc[part].to_parquet(path / f"part-{i}.parquet")
    return path


def steps(path):
    model = nearfold.load(path)
    return model.steps[0][1], model.steps[1][1]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("scale", ["--scale", "--no-scale"])
def test_a_fit_and_a_transform_there_are_those_here(kind, scale, folder, cluster, tmp_path):
    given = ("--label", "kind", scale)
    here, there = tmp_path / "here.nearfold", tmp_path / "there.nearfold"
    succeeds("fit", "LDA", folder / f"all.{kind}", *given, "-o", here)
    at = ("--scheduler", cluster.scheduler_address)
    succeeds("fit", "LDA", folder / f"part-*.{kind}", *given, "-o", there, *at)
    (one, lda), (other, far) = steps(here), steps(there)
    assert one.names_.tolist() == other.names_.tolist()
    assert one.kinds_.tolist() == other.kinds_.tolist()
    np.testing.assert_array_equal(other.fill_, one.fill_)
    np.testing.assert_allclose(other.scale_, one.scale_, rtol=1e-12)
    assert [list(words) for words in one.levels_] == [list(words) for words in other.levels_]
    for mine, its in zip(one.tables_, other.tables_, strict=True):
        np.testing.assert_array_equal(its, mine)
    assert far.classes_.tolist() == lda.classes_.tolist()
    np.testing.assert_allclose(far.scalings_, lda.scalings_, rtol=1e-7, atol=1e-10)
    keep = ("--keep", "kind")
    succeeds("transform", there, folder / f"all.{kind}", *keep, "-o", tmp_path / "a.csv")
    wanted = pl.read_csv(tmp_path / "a.csv")
    for output in ("b.csv", "b.parquet", "b/"):
        data = folder / f"part-*.{kind}"
        succeeds("transform", there, data, *keep, "-o", f"{tmp_path}/{output}", *at)
    found = [pl.read_csv(tmp_path / "b.csv"), pl.read_parquet(tmp_path / "b.parquet")]
    found.append(pl.read_parquet(tmp_path / "b" / "part-*.parquet"))
    for table in found:
        assert table.columns == wanted.columns == ["code", "kind", "z1"]
        assert table["code"].to_list() == wanted["code"].to_list()
        np.testing.assert_allclose(table["z1"], wanted["z1"], rtol=1e-9)


def test_a_regressor_of_neighbours_there(folder, cluster, tmp_path):
    at = ("--scheduler", cluster.scheduler_address)
    given = ("--target", "weight", "--exclude", "kind")
    for name, data, more in (("a", "all.parquet", ()), ("b", "part-*.parquet", at)):
        model = tmp_path / f"{name}.nearfold"
        method = "KNeighborsRegressor"
        succeeds("fit", method, folder / data, *given, "-o", model, *more)
        succeeds("transform", model, folder / data, "-o", tmp_path / f"{name}.csv", *more)
    here, there = pl.read_csv(tmp_path / "a.csv"), pl.read_csv(tmp_path / "b.csv")
    np.testing.assert_allclose(there["predicted"], here["predicted"], rtol=1e-9)


def test_the_examples_of_the_help_run(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("rows").mkdir()
    for i in range(2):
        mixed(200, i)[["weight", "count"]].to_parquet(f"rows/{i}.parquet")
    for command in ("fit", "transform"):
        (line,) = [
            line.split() for line in succeeds(command, "--help").output.splitlines()
            if line.strip().startswith(f"nearfold {command}") and "--scheduler" in line
        ]  # fmt: skip
        words = [word.strip("'") for word in line[1:]]
        words[words.index("--scheduler") + 1] = cluster.scheduler_address
        succeeds(*words)
    assert pl.read_parquet("places/*.parquet").columns == ["z1", "z2"]


def test_medians_of_parts_are_exact(folder):
    import dask
    import dask.dataframe as dd

    rng = np.random.default_rng(3)
    n = 20_001
    frame = pd.DataFrame({
        "normal": rng.normal(size=n),
        "ties": rng.integers(-1, 2, n) * 1.5,
        "wide": rng.normal(size=n) * 10.0 ** rng.integers(-200, 200, n),
        "none": np.full(n, np.nan),
        "one": np.where(np.arange(n) == 7, -3.25, np.nan),
        "even": np.where(np.arange(n) == 7, np.nan, rng.exponential(size=n)),
    })  # fmt: skip
    specs = [{"name": name, "kind": "number"} for name in frame.columns]
    with dask.config.set(scheduler="synchronous"):
        for rows in (n, 900, 2):
            some = frame.iloc[:rows]
            found = learn_from_parts(dd.from_pandas(some, npartitions=4), specs)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wanted = np.nan_to_num(np.nanmedian(some.to_numpy(), axis=0))
            np.testing.assert_array_equal(found.fill, wanted)


def test_a_plan_reads_a_sample_only(folder, cluster):
    result = succeeds("fit", "PCA", folder / "part-*.parquet", "--exclude", "kind", "--plan",
                      "--scheduler", cluster.scheduler_address)  # fmt: skip
    assert "PCA on a Dask table of unknown rows" in result.stdout
    assert "bytes moved to it" in result.stdout
    assert "Chunk sizes are not known" in result.stdout
    here = succeeds("fit", "Isomap", folder / "all.csv", "--exclude", "kind", "--plan", "--json")
    assert '"bytes_here"' in here.stdout


def test_mistakes_are_one_line(folder, cluster, tmp_path, monkeypatch):
    at = ("--scheduler", cluster.scheduler_address)
    model = tmp_path / "m.nearfold"
    fit = ("fit", "PCA", folder / "part-*.parquet", "-o", model, "--exclude", "kind")
    monkeypatch.setattr("nearfold.store.dask_tables._PATIENCE", "1s")
    refused(*fit, "--scheduler", "tcp://127.0.0.1:1", says="no Dask scheduler answers at")
    refused(*fit, "--scheduler", "nonsense://x", says="no Dask scheduler answers at")
    monkeypatch.setattr("nearfold.store.dask_tables._PATIENCE", "10s")
    refused(*fit, *at, "--missing", "drop", says="--missing drop does not work on a cluster")
    refused(*fit, *at, "--missing", "error", says="numbers are missing")
    rows = ("fit", "LMNN", folder / "part-*.parquet", "-o", model, "--label", "kind")
    refused(*rows, *at, says="nearfold.sample(X, n)")
    refused("fit", "LDA", *fit[2:5], "--label", "colour", *at, says="nothing in column 'colour'")
    refused("fit", "PCA", folder / "x-*.csv", "-o", model, *at, says="x-*.csv")
    (tmp_path / "t.npy").write_bytes(b"")
    refused("fit", "PCA", tmp_path / "t.npy", "-o", model, *at, says="Parquet, CSV and TSV")
    succeeds(*fit, *at)
    there = ("transform", model, folder / "part-*.parquet", *at, "-o")
    refused(*there, tmp_path / "z.npy", says="a folder of Parquet files")
    refused(*there, f"{tmp_path}/", says="is not empty")
    assert not Path(tmp_path / "z.npy").exists()


def test_without_dask_it_says_how_to_install_it(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    refused("fit", "PCA", folder / "all.csv", "-o", tmp_path / "m.nearfold", "--scheduler",
            "tcp://127.0.0.1:8786", says="pip install 'nearfold[dask]'")  # fmt: skip
