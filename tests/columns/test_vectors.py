"""Columns of vectors, numbered columns that are one vector, and images."""

import io

import numpy as np
import pandas as pd
import polars as pl
import pytest
from PIL import Image

from nearfold.columns.images import locate_images
from nearfold.columns.kinds import Kind
from nearfold.columns.preparation import TablePreparation
from nearfold.columns.schema import infer_schema
from nearfold.errors import InputError

V = np.random.default_rng(0).normal(size=(30, 8)) * np.arange(1, 9)
WIDE = np.random.default_rng(1).normal(size=(30, 768)) * np.linspace(0.1, 5, 768)


def png(pixels, mode="L", form="PNG"):
    stream = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).convert(mode).save(stream, format=form)
    return stream.getvalue()


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"v": V.tolist()}),
        pl.DataFrame({"v": pl.Series(V.tolist(), dtype=pl.Array(pl.Float64, 8))}),
        pl.DataFrame({"v": V}),
        pd.DataFrame({"v": list(V)}),
        pd.DataFrame({"v": V.tolist()}),
        pl.DataFrame({"v": V.tolist()}).to_arrow(),
    ],
    ids=["list", "array", "numpy", "pandas arrays", "pandas lists", "arrow"],
)
def test_vectors_of_every_kind_are_columns(frame):
    model = TablePreparation()
    assert np.array_equal(model.fit_transform(frame), V)
    assert model.columns_ == [{"name": "v", "kind": "embedding", "width": 8}]
    scaled = TablePreparation(numbers="scale").fit_transform(frame)
    # One scale for all: directions and the ratios of lengths within the vector stay.
    ratio = scaled / (V - V.mean(axis=0))
    assert np.allclose(ratio, ratio[0, 0])
    assert scaled.var(axis=0).mean() == pytest.approx(1)


def test_vectors_of_huge_numbers_have_a_scale():
    frame = pl.DataFrame({"v": [[0.0, 0.0], [0.0, 1e200], [1e200, 1e200]]})
    X = TablePreparation(numbers="scale").fit_transform(frame)
    assert X.var(axis=0).mean() == pytest.approx(1)


def test_missing_vectors_are_filled():
    frame = pl.DataFrame({"v": [*V[:5].tolist(), None]})
    X = TablePreparation().fit_transform(frame)
    assert np.allclose(X[5], np.median(V[:5], axis=0))
    inside = pl.DataFrame({"v": [[1.0, None], [3.0, 4.0], [5.0, 8.0]]})
    assert TablePreparation().fit_transform(inside)[0].tolist() == [1, 6]
    empty = TablePreparation().fit(frame).transform(pl.DataFrame({"v": [None, None]}))
    assert np.allclose(empty, np.median(V[:5], axis=0))


@pytest.mark.parametrize(
    "cells", [[[1.0] * 7], [[1.0] * 8, [1.0]], [1.0], ["text"], [[["a"] * 8]], [[[1.0]] * 8]]
)
def test_other_vectors_in_new_rows_are_refused(cells):
    model = TablePreparation().fit(pl.DataFrame({"v": V.tolist()}))
    with pytest.raises(InputError, match="column 'v' does not hold a vector of 8 numbers"):
        model.transform(pl.DataFrame({"v": cells}))


@pytest.mark.parametrize("cells", [[[1.0], [1.0, 2.0]], [[], []], [["a"], ["b"]], [[[1]], [[2]]]])
def test_what_is_no_vector_is_left_out(cells):
    assert infer_schema(pl.DataFrame({"v": cells})).columns[0].kind == Kind.OTHER


def numbered(order=None, prefix="emb_"):
    columns = {f"{prefix}{j}": WIDE[:, j] for j in range(768)}
    names = list(columns) if order is None else [list(columns)[j] for j in order]
    return pl.DataFrame({name: columns[name] for name in names})


def test_numbered_columns_are_one_vector_of_one_scale():
    model = TablePreparation(numbers="scale")
    X = model.fit_transform(numbered().with_columns(age=pl.Series(np.arange(30) ** 2)))
    assert [spec["name"] for spec in model.columns_] == ["emb", "age"]
    ratio = X[:, :768] / (WIDE - WIDE.mean(axis=0))
    assert np.allclose(ratio, ratio[0, 0])
    assert X[:, 768].var() == pytest.approx(1)
    assert model.n_features_in_ == 769


def test_numbered_columns_are_read_by_name():
    model = TablePreparation()
    X = model.fit_transform(numbered())
    assert np.array_equal(X, WIDE)
    shuffled = np.random.default_rng(2).permutation(768)
    assert np.array_equal(model.transform(numbered(shuffled)), WIDE)
    assert np.array_equal(TablePreparation().fit_transform(numbered(shuffled)), WIDE)
    with pytest.raises(InputError, match="lacks 1 of 768 columns: 'emb_5'"):
        model.transform(numbered().drop("emb_5"))


def test_numbered_columns_may_be_named_as_features():
    names = [f"emb_{j}" for j in range(20)]
    model = TablePreparation(columns=["age", *names])
    frame = numbered().with_columns(age=pl.Series(np.arange(30) * 1.5))
    model.fit(frame)
    assert [spec["name"] for spec in model.columns_] == ["age", "emb"]


def test_a_name_that_is_taken_is_not_used_twice():
    frame = numbered().with_columns(emb=pl.Series(np.arange(30) * 1.5))
    names = [column.name for column in infer_schema(frame).features()]
    assert len(set(names)) == len(names) == 2


def test_whole_numbers_and_few_columns_are_no_vector():
    frame = pl.DataFrame({f"dim{j}": WIDE[:, j] for j in range(15)})
    assert len(infer_schema(frame).features()) == 15
    pixels = pl.DataFrame({f"z{j}": (WIDE[:, j] * 9).astype(int) for j in range(20)})
    assert len(infer_schema(pixels).features()) == 20


@pytest.mark.parametrize(
    ("mode", "form"), [("L", "PNG"), ("RGB", "PNG"), ("L", "JPEG"), ("P", "GIF")]
)
def test_images_are_grey_thumbnails(mode, form):
    side = np.arange(64)
    ramp = np.add.outer(side * 0, side * 4)
    frame = pl.DataFrame({"i": [png(ramp, mode, form), png(ramp.T, mode, form), None]})
    assert infer_schema(frame).columns[0].kind == Kind.IMAGE
    X = TablePreparation(missing="zero").fit_transform(frame)
    assert X.shape == (3, 256)
    first = X[0].reshape(16, 16)
    assert np.allclose(first, X[1].reshape(16, 16).T, atol=0.05)
    assert np.allclose(first[0], (np.arange(16) * 16 + 6) / 255, atol=0.05)
    assert (X[2] == 0).all()


def test_images_of_pandas_and_damaged_ones():
    good = png(np.arange(256).reshape(16, 16))
    model = TablePreparation().fit(pd.DataFrame({"i": [good, png(np.zeros((9, 9)))]}))
    for bad in (good[:40], b"", b"\x89PNG nothing", good[:-30]):
        with pytest.raises(InputError) as error:
            model.transform(pl.DataFrame({"i": [good, bad]}))
        assert "column 'i': row 2 is not an image" in str(error.value)
    with pytest.raises(InputError, match="column 'i' holds"):
        model.transform(pl.DataFrame({"i": [1, 2]}))
    with pytest.raises(InputError, match="column 'i': row 1: there is no file 'a'"):
        model.transform(pl.DataFrame({"i": ["a", "b"]}))
    assert infer_schema(pl.DataFrame({"i": [b"abc", b"d"]})).columns[0].kind == Kind.OTHER


def test_a_bomb_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    frame = pl.DataFrame({"i": [png(np.eye(16))] * 2})
    with pytest.raises(InputError, match="column 'i': row 1"):
        TablePreparation(columns=[{"name": "i", "kind": "image"}]).fit(frame)


def test_paths_of_images_are_read_as_the_bytes_are(tmp_path, monkeypatch):
    bytes_ = [png(np.add.outer(np.arange(20) * j, np.arange(20))) for j in range(6)]
    (tmp_path / "pics").mkdir()
    for j, held in enumerate(bytes_):
        (tmp_path / "pics" / f"{j}.png").write_bytes(held)
    frame = pl.DataFrame({"i": [f"pics/{j}.png" for j in range(6)]})
    assert infer_schema(frame).columns[0].kind == Kind.TEXT  # no such files from here
    located = locate_images(frame, tmp_path / "table.csv")
    monkeypatch.chdir(tmp_path)
    assert locate_images(frame, "table.csv") is frame
    expected = TablePreparation().fit_transform(pl.DataFrame({"i": bytes_}))
    for paths in (frame, located):
        assert infer_schema(paths).columns[0].kind == Kind.IMAGE
        assert (TablePreparation().fit_transform(paths) == expected).all()
    (tmp_path / "pics" / "3.png").unlink()
    with pytest.raises(InputError, match=r"row 4: there is no file 'pics/3.png'"):
        TablePreparation(columns=[{"name": "i", "kind": "image"}]).fit(frame)
