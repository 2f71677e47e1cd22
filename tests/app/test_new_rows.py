"""New rows for a saved model, and tables of every kind from end to end."""

import gzip
import json

import numpy as np
import polars as pl
import pytest
from command_runs import mixed_table, refused, run, succeeds

import nearfold

LEFT_OUT = ("--exclude", "kind", "--exclude", "price")
FEW = ("--methods", "PCA", "--repeats", "1", "--folds", "3")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mixed_table().write_csv("t.csv")
    succeeds("fit", "PCA", "t.csv", *LEFT_OUT, "--scale", "-o", "m.nearfold")
    return tmp_path


def rows(text):
    return [line.split(",") for line in text.strip().splitlines()]


def places(*words):
    """The coordinates that transform prints, without copied columns."""
    head, *body = rows(succeeds("transform", *words).stdout)
    first = next(j for j, name in enumerate(head) if name.startswith(("z", "space_z")))
    return np.array([row[first:] for row in body], dtype=float)


# Categories and gaps --------------------------------------------------------------------------


def test_categories_are_used_and_explained_as_columns(here):
    told = json.loads(succeeds("explain", "m.nearfold", "t.csv", "--json").stdout)
    assert set(told["weights"]) == {"colour", "size", "weight", "day"}
    assert sum(told["weights"].values()) == pytest.approx(1)
    assert told["weights"]["colour"] > 0.05
    pair = succeeds("explain", "m.nearfold", "t.csv", "--rows", "0,1", "--json")
    parts = json.loads(pair.stdout)["weights"]
    Z = places("m.nearfold", "t.csv")
    assert sum(parts.values()) == pytest.approx(((Z[0] - Z[1]) ** 2).sum())


def test_a_category_that_training_did_not_have_is_none_of_the_known(here):
    frame = mixed_table()
    frame.with_columns(pl.lit("violet").alias("colour")).write_csv("new.csv")
    told = succeeds("transform", "m.nearfold", "new.csv", "-o", "z.csv")
    assert "'colour': 60 rows have categories that the training rows did not have" in told.stderr
    step = nearfold.load("m.nearfold").steps[0][1]
    X = step.transform(pl.read_csv("new.csv", schema_overrides={"code": pl.String}))
    own = [j for j, name in enumerate(step.get_feature_names_out()) if name.startswith("colour")]
    assert (X[:, own] == 0).all()
    assert np.isfinite(places("m.nearfold", "new.csv")).all()
    assert "'colour'" in succeeds("explain", "m.nearfold", "new.csv").stderr


def test_missing_numbers_of_new_rows_are_filled_as_in_training(here):
    frame = mixed_table()
    middle = float(frame["size"].median())
    heavy = float(frame["weight"].median())  # a column without gaps in training
    gaps = frame.with_columns(size=None, weight=None)
    gaps.write_csv("gaps.csv")
    frame.with_columns(size=pl.lit(middle), weight=pl.lit(heavy)).write_csv("filled.csv")
    np.testing.assert_allclose(places("m.nearfold", "gaps.csv"), places("m.nearfold", "filled.csv"))


def test_a_missing_category_of_new_rows_is_an_unknown_one(here):
    frame = mixed_table()
    frame.with_columns(pl.lit("violet").alias("colour")).write_csv("unknown.csv")
    frame.with_columns(pl.lit(None, dtype=pl.String).alias("colour")).write_csv("missing.csv")
    same = places("m.nearfold", "missing.csv"), places("m.nearfold", "unknown.csv")
    np.testing.assert_array_equal(*same)


def test_rows_that_the_model_leaves_out_keep_the_numbers_of_the_others(here):
    succeeds("fit", "PCA", "t.csv", *LEFT_OUT, "--missing", "drop", "-o", "d.nearfold")
    frame = mixed_table()
    kept = [i for i, size in enumerate(frame["size"]) if size is not None]
    out = rows(succeeds("transform", "d.nearfold", "t.csv").stdout)
    assert [row[0] for row in out[1:]] == [frame["code"][i] for i in kept]
    words = ["explain", "d.nearfold", "t.csv", "--json", "--rows"]
    parts = json.loads(succeeds(*words, "0,59").stdout)["weights"]
    Z = np.array([row[1:] for row in out[1:]], dtype=float)
    assert sum(parts.values()) == pytest.approx(((Z[0] - Z[kept.index(59)]) ** 2).sum())
    refused(*words, "0,4", says="no row 4")


# Decimal commas -------------------------------------------------------------------------------


def test_a_decimal_comma_that_could_part_thousands_is_asked_about(here):
    rng = np.random.default_rng(0)
    X = (1 + rng.random((40, 2))).round(3) + 0.0004  # three decimals once cut
    pl.DataFrame(X, schema=["a", "b"]).write_csv("dot.csv")
    succeeds("fit", "PCA", "dot.csv", "-o", "dot.nearfold")
    text = "a;b\n" + "".join(f"{x:.3f};{y:.3f}\n".replace(".", ",") for x, y in X)
    (here / "comma.csv").write_text(text)
    (here / "cut.csv").write_text(text.replace(",", ".").replace(";", ","))
    for command in ("transform", "explain"):
        refused(command, "dot.nearfold", "comma.csv", says=("'a', 'b'", "--decimal ,"))
    expected = places("dot.nearfold", "cut.csv")
    np.testing.assert_array_equal(places("dot.nearfold", "comma.csv", "--decimal", ","), expected)
    # A model of such a file reads others of its kind as that one.
    longer = text.replace(";", "5;").replace("\n", "5\n").replace("a5;b5", "a;b")
    (here / "long.csv").write_text(longer)
    succeeds("fit", "PCA", "long.csv", "-o", "comma.nearfold")
    dots = here / "dots.csv"
    dots.write_text(longer.replace(",", ".").replace(";", ","))
    succeeds("fit", "PCA", "dots.csv", "-o", "dots.nearfold")
    same = places("comma.nearfold", "comma.csv"), places("dots.nearfold", "cut.csv")
    np.testing.assert_array_equal(*same)


# Ids and copied columns -----------------------------------------------------------------------

LONG = [f"{10**19 + 7 * i}" for i in range(60)]


@pytest.mark.parametrize("ids", [[f"{i:03d}" for i in range(60)], LONG], ids=["zeros", "20 digits"])
@pytest.mark.parametrize("output", ["-", "z.parquet"])
def test_ids_come_back_exactly(here, ids, output):
    mixed_table().with_columns(pl.Series("code", ids)).write_csv("t.csv")
    succeeds("fit", "PCA", "t.csv", "--id", "code", *LEFT_OUT, "-o", "i.nearfold")
    told = succeeds("transform", "i.nearfold", "t.csv", "-o", output).stdout
    if output == "-":
        assert [row[0] for row in rows(told)[1:]] == ids
    else:
        assert pl.read_parquet(output)["code"].cast(pl.String).to_list() == ids


def test_pairs_name_ids_as_they_are_written(here):
    frame = mixed_table(200)
    frame.write_csv("t.csv")
    kind, codes = frame["kind"].to_list(), frame["code"].to_list()
    lines = [f"{codes[i]},{codes[j]},{1 if kind[i] == kind[j] else -1}\n"
             for i, j in zip(range(100), range(100, 200), strict=True)]  # fmt: skip
    (here / "p.csv").write_text("".join(lines))
    words = ["compare", "t.csv", *LEFT_OUT, "--pairs", "p.csv", *FEW]
    assert "AUC" in succeeds(*words).stdout
    (here / "p.csv").write_text("".join(lines).replace(codes[0], "nobody"))
    refused(*words, says=("p.csv, line 1", "nobody"))


@pytest.mark.parametrize("by_id", [False, True])
def test_pairs_are_of_the_rows_of_the_file(here, monkeypatch, by_id):
    seen = []

    def look(table, question, *, pairs, started):
        seen.append((table, pairs))
        raise KeyboardInterrupt

    monkeypatch.setattr("nearfold.study.compare.compare_table", look)
    frame = mixed_table()
    name = frame["code"].to_list() if by_id else range(60)
    (frame if by_id else frame.drop("code")).write_csv("t.csv")
    pairs = [(0, 5, 1), (59, 8, -1), (4, 7, 1)]  # row 4 has a gap
    (here / "p.csv").write_text("".join(f"{name[a]},{name[b]},{s}\n" for a, b, s in pairs))
    result = run("compare", "t.csv", *LEFT_OUT, "--pairs", "p.csv", "--missing", "drop")
    assert result.exit_code == 130
    ((table, pairs),) = seen
    np.testing.assert_array_equal(table.rows[pairs[:, :2]], [[0, 5], [59, 8]])
    np.testing.assert_array_equal(pairs[:, 2], [1, -1])
    monkeypatch.undo()


def test_copied_columns_and_coordinates_both_stay(here):
    frame = mixed_table().with_columns(pl.Series("z1", [f"@{i}" for i in range(60)]))
    frame.write_csv("new.csv")
    out = rows(succeeds("transform", "m.nearfold", "new.csv", "--keep", "z1").stdout)
    assert out[0][:4] == ["code", "z1", "space_z1", "z2"]
    assert [row[1] for row in out[1:]] == [f"'@{i}" for i in range(60)]
    bare = rows(
        succeeds("transform", "m.nearfold", "new.csv", "--keep", "z1", "--no-protect").stdout
    )
    assert [row[1] for row in bare[1:]] == [f"@{i}" for i in range(60)]


# Tables of every kind -------------------------------------------------------------------------


def test_a_table_of_categories_only_gets_an_answer(here):
    """Equal rows of few categories are no copies: a fold may judge what others have."""
    rng = np.random.default_rng(0)
    shape, colour = rng.choice(["disc", "box", "star"], 120), rng.choice(["red", "blue"], 120)
    kind = np.where((shape == "disc") == (colour == "red"), "yes", "no")
    pl.DataFrame({"shape": shape, "colour": colour, "kind": kind}).write_csv("c.csv")
    words = ["compare", "c.csv", "--label", "kind", "--methods", "LDA", "--repeats", "1"]
    board = json.loads(succeeds(*words, "--json", "--save", "c.nearfold").stdout)["leaderboard"]
    assert board[0]["score"] > 0.95
    assert len(places("c.nearfold", "c.csv")) == 120


def as_embeddings(frame):
    rng = np.random.default_rng(0)
    shift = np.array([0.0, 2.0])[(frame["kind"] == "yes").to_numpy().astype(int)]
    vectors = rng.normal(size=(len(frame), 5)) + shift[:, None]
    return frame.select("code", "kind").with_columns(pl.Series("vector", vectors.tolist()))


@pytest.mark.parametrize("array", [False, True])
def test_embeddings_of_a_parquet_file(here, array):
    frame = as_embeddings(mixed_table())
    if array:
        frame = frame.with_columns(pl.col("vector").list.to_array(5))
    frame.write_parquet("e.parquet")
    words = ["compare", "e.parquet", "--label", "kind", *FEW, "--save", "e.nearfold"]
    told = json.loads(succeeds(*words, "--json").stdout)
    assert {c["name"]: c["kind"] for c in told["schema"]["columns"]}["vector"] == "embedding"
    assert told["leaderboard"][0]["score"] > 0.85
    assert places("e.nearfold", "e.parquet").shape[0] == 60
    weights = json.loads(succeeds("explain", "e.nearfold", "e.parquet", "--json").stdout)
    assert list(weights["weights"]) == ["vector"]


@pytest.mark.parametrize("kind", ["parquet", "xlsx", "jsonl", "jsonl.gz", "arrow"])
def test_formats_from_end_to_end(here, kind):
    frame, path = mixed_table(), f"t.{kind}"
    if kind == "xlsx":
        pytest.importorskip("xlsxwriter")
        frame.write_excel(path)
    elif kind == "jsonl":
        frame.write_ndjson(path)
    elif kind == "jsonl.gz":
        (here / path).write_bytes(gzip.compress(frame.write_ndjson().encode()))
    else:
        frame.write_parquet(path) if kind == "parquet" else frame.write_ipc(path)
    words = ["--label", "kind", "--exclude", "price", *FEW]
    compared = [json.loads(succeeds("compare", name, *words, "--json").stdout)["leaderboard"]
                for name in ("t.csv", path)]  # fmt: skip
    scores = [[(row["space"], row["score"]) for row in board] for board in compared]
    assert scores[0] == scores[1]
    np.testing.assert_allclose(places("m.nearfold", path), places("m.nearfold", "t.csv"))


def test_sheets_of_a_workbook(here):
    xlsxwriter = pytest.importorskip("xlsxwriter")
    with xlsxwriter.Workbook("b.xlsx") as book:
        mixed_table(20).write_excel(book, "small")
        mixed_table(60).write_excel(book, "large")
    told = succeeds("compare", "b.xlsx#large", "--label", "kind", "--exclude", "price", *FEW)
    assert "60 rows" in told.stderr
    refused("compare", "b.xlsx#none", "--label", "kind", says=("none", "large"))


def test_paths_of_images_lie_beside_the_table_and_stay_as_written(tmp_path):
    from PIL import Image

    shades = np.random.default_rng(0).integers(256, size=40).astype(np.uint8)
    for j, shade in enumerate(shades):
        Image.new("L", (20, 20), int(shade)).save(tmp_path / f"{j}.png")
    names = [f"{j}.png" for j in range(40)]
    table, model = tmp_path / "t.csv", tmp_path / "m.nearfold"
    pl.DataFrame({"photo": names, "bright": np.where(shades > 127, "yes", "no")}).write_csv(table)
    succeeds("fit", "PCA", table, "--label", "bright", "--set", "n_components=1", "-o", model)
    _, *body = rows(succeeds("transform", model, table, "--keep", "photo").stdout)
    assert [row[0] for row in body] == names
    Z = np.array([float(row[1]) for row in body])
    assert np.corrcoef(Z, shades)[0, 1] ** 2 > 1 - 1e-9
