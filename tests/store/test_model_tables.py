"""The preparation of a table in a model file: of every kind of column, of many columns, forged."""

import copy
import json

import any_holder
import numpy as np
import polars as pl
import pytest
from forge_files import Parts
from forge_rows import MANY_KINDS, TABLE, VECTORS, Y
from sklearn.pipeline import make_pipeline

import nearfold
from nearfold.columns.preparation import TablePreparation
from nearfold.columns.schema import infer_schema
from nearfold.errors import InputError
from nearfold.store.model_file import ModelFileError, inspect, load, save


def make(**params):
    return TablePreparation(numbers="scale", **params).fit(MANY_KINDS, Y)


@pytest.mark.parametrize("categories", ["onehot", "target"])
@pytest.mark.parametrize("numbers", ["raw", "scale", "range"])
def test_every_kind_of_column_comes_back(numbers, categories, tmp_path):
    model = TablePreparation(numbers=numbers, categories=categories).fit(MANY_KINDS, Y)
    kinds = {spec["kind"] for spec in model.columns_}
    assert kinds == {"number", "category", "date", "embedding", "ordered"}
    again = load(save(model, tmp_path / "m.nearfold"))
    assert again.columns_ == model.columns_
    np.testing.assert_array_equal(again.transform(MANY_KINDS), model.transform(MANY_KINDS))
    assert again.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(again.origin, model.origin)


def test_numbered_columns_come_back_as_one_vector(tmp_path):
    model = TablePreparation(numbers="scale").fit(VECTORS)
    again = load(save(model, tmp_path / "m.nearfold"))
    assert again.columns_ == model.columns_
    shuffled = VECTORS[VECTORS.columns[::-1]]
    np.testing.assert_array_equal(again.transform(shuffled), model.transform(VECTORS))


def test_a_table_of_sixty_thousand_columns_is_saved(tmp_path):
    """Above some 27,000 columns a model could once not be saved, which showed after the study."""
    rows = np.random.default_rng(0).normal(size=(6, 60_000))
    frame = pl.DataFrame(rows, schema=[f"gene {j}" for j in range(60_000)], orient="row")
    model = make_pipeline(TablePreparation(numbers="scale"), nearfold.PCA(2)).fit(frame)
    extra = {"schema": infer_schema(frame).outline()}
    path = save(model, tmp_path / "m.nearfold", extra=extra)
    again = load(path)
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))
    assert inspect(path).extra == extra
    held = 8 * 60_000 * (3 + 3)  # fills, centres, scales; the mean and the axes of PCA
    assert path.stat().st_size < held + 60_000 * 50


def test_columns_of_many_kinds_among_many_are_saved(tmp_path):
    rows = np.random.default_rng(0).normal(size=(12, 2_000))
    frame = pl.DataFrame(rows, schema=[f"g{j}" for j in range(2_000)], orient="row")
    dates = pl.Series([f"2020-{m + 1:02}-01" for m in range(12)])
    frame = frame.with_columns(
        c=pl.Series(["u", "v", "w"] * 4), d=dates, 名=pl.Series(["x", "y"] * 6)
    )
    model = TablePreparation().fit(frame)
    again = load(save(model, tmp_path / "m.nearfold"))
    assert again.columns_ == model.columns_
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))


@pytest.mark.parametrize(
    "texts",
    [
        ["a"] * 1000,
        [f"n{i}" for i in range(5000)],
        ["", "日本", "\ud800", "x" * 70_000] * 300,
        [""] * 2000,
    ],
    ids=["same", "numbered", "odd", "empty"],
)
def test_many_texts_come_back(texts, tmp_path, monkeypatch):
    any_holder.register(monkeypatch)
    model = any_holder.AnyHolder().fit(np.eye(2))
    model.held_ = [np.array(texts, dtype=object), np.array(texts, dtype=object).reshape(2, -1)]
    path = save(model, tmp_path / "m.nearfold")
    again = load(path)
    for mine, held in zip(again.held_, model.held_, strict=True):
        assert mine.dtype == object
        assert mine.tolist() == held.tolist()
    assert (
        inspect(path).file_bytes
        < 2 * sum(len(t.encode("utf-8", "replace")) + 6 for t in texts) + 9_000
    )


def texts_node(path):
    parts = Parts(path.read_bytes())
    return parts, parts.tree["state"]["names_"]


@pytest.mark.parametrize(
    "change",
    [
        lambda parts, node: node.update(shape=[1999]),
        lambda parts, node: node.update(shape=[2, 2000]),
        lambda parts, node: node.update(bytes=None),
        lambda parts, node: node.update(lengths={"kind": "list", "items": []}),
        lambda parts, node: parts.set_array(node["bytes"], np.full(9000, 255, np.uint8)),
        lambda parts, node: parts.set_array(node["bytes"], np.zeros(9000)),
        lambda parts, node: parts.set_array(node["lengths"], np.zeros(2000, np.uint8)),
        lambda parts, node: parts.set_array(node["lengths"], np.full(2000, -1)),
        lambda parts, node: parts.set_array(node["lengths"], np.full(2000, 2**63, np.uint64)),
        lambda parts, node: parts.set_array(node["lengths"], np.ones((2000, 1), np.uint8)),
        lambda parts, node: parts.set_array(node["lengths"], np.zeros(0, np.uint8)),
    ],
)
def test_texts_that_do_not_fit_are_refused(change, tmp_path):
    frame = pl.DataFrame(np.eye(4, 2000), schema=[f"{j:05}" for j in range(2000)], orient="row")
    specs = [{"name": name, "kind": "number"} for name in frame.columns]
    path = save(TablePreparation(columns=specs).fit(frame).set_params(columns=None), tmp_path / "m")
    parts, node = texts_node(path)
    if node["kind"] == "same":
        node = parts.tree["state"]["feature_names_in_"]
    assert node["kind"] == "texts"
    change(parts, node)
    path.write_bytes(parts.pack())
    with pytest.raises(ModelFileError) as error:
        load(path)
    assert "\n" not in str(error.value)


def set_details(name, **wrong):
    def change(model):
        model.details_[name] = {**model.details_.get(name, {}), **wrong}

    return change


def set_field(name, value):
    return lambda model: setattr(model, name, value(getattr(model, name)))


WRONG = {
    "a width beyond the numbers": set_details("v", width=10**9),
    "a width of another vector": set_details("v", width=2),
    "a width that is no number": set_details("v", width="3"),
    "members of another number": set_details("v", members=["a", "b"]),
    "an unknown part of dates": set_details("d", parts=["month", "year"]),
    "parts twice": set_details("d", parts=["month", "month"]),
    "another format": set_details("d", format="%Y-%q"),
    "a format that is no text": set_details("d", format=5),
    "levels twice": set_details("o", levels=["a", "a"]),
    "levels that are no texts": set_details("o", levels=[1, 2, 3]),
    "no levels": set_details("o", levels=[]),
    "words that are no texts": set_details("n", words=[None]),
    "an unknown detail": set_details("d", zone="UTC"),
    "details of a category": set_details("w", levels=["a"]),
    "details of no feature": lambda model: model.details_.update(q={"width": 1}),
    "details that are no dict": lambda model: model.details_.update(d=["month"]),
    "missing details": lambda model: model.details_.pop("o"),
    "an unknown kind": set_field("kinds_", lambda k: np.where(k == "date", "moment", k)),
    "a kind that is no feature": set_field("kinds_", lambda k: np.where(k == "ordered", "id", k)),
    "another kind": set_field("kinds_", lambda k: np.where(k == "category", "number", k)),
    "kinds that are missing": set_field("kinds_", lambda k: k[:-1]),
    "names twice": set_field("names_", lambda n: np.where(n == "a", "w", n)),
    "other names": set_field("names_", lambda n: np.where(n == "a", "q", n)),
    "names that are no texts": set_field("names_", lambda n: np.arange(len(n)).astype(object)),
    "a level twice": set_field("levels_", lambda known: [known[0][[0, 0, 2]], known[1]]),
    "levels of one category": set_field("levels_", lambda known: known[:1]),
    "levels of numbers": set_field("levels_", lambda known: [np.arange(3), known[1]]),
    "a row less": set_field("tables_", lambda tables: [tables[0][:-1], tables[1]]),
    "no columns": set_field("tables_", lambda tables: [tables[0][:, :0], tables[1]]),
    "not finite": set_field("tables_", lambda tables: [tables[0] * np.nan, tables[1]]),
    "whole numbers": set_field("tables_", lambda tables: [tables[0].astype(int), tables[1]]),
    "fills of other columns": set_field("fill_", lambda fill: fill[:-1]),
    "fills that are missing": set_field("fill_", lambda fill: fill * np.nan),
    "no scale": set_field("scale_", lambda scale: scale * 0),
    "a scale too small": set_field("scale_", lambda scale: scale * 1e-200),
    "a negative scale": set_field("scale_", lambda scale: -scale),
    "centres of one column more": set_field("centre_", lambda centre: np.append(centre, 0)),
    "another dtype": set_field("dtype_", lambda dtype: "int8"),
    "another number of columns": set_field("n_features_in_", lambda n: n + 1),
    "a column twice": set_field("feature_names_in_", lambda n: np.append(n[:1], n[:-1])),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_neither_saved_nor_loaded(name, tmp_path):
    model = make()
    good = save(model, tmp_path / "good.nearfold")
    wrong = copy.deepcopy(model)
    WRONG[name](wrong)
    with pytest.raises(InputError) as error:
        save(wrong, tmp_path / "m.nearfold")
    assert "\n" not in str(error.value)
    parts = Parts(good.read_bytes())
    forged = encoded(wrong)
    parts.manifest["tree"]["state"] = forged[0]
    parts.arrays.update(forged[1])
    parts.manifest["model"]["n_features"] = wrong.n_features_in_
    parts.manifest["model"]["feature_names"] = [str(n) for n in wrong.feature_names_in_]
    good.write_bytes(parts.pack())
    with pytest.raises(ModelFileError) as error:
        load(good)
    assert "\n" not in str(error.value)


def encoded(model):
    """The state of a model as a file would hold it, unchecked, and its arrays."""
    from nearfold.store.model_encode import Encoder

    encoder = Encoder()
    tree = encoder.encode(model, "model")
    state = json.loads(json.dumps(tree["state"]))
    return state, {str(i): array for i, array in enumerate(encoder.arrays)}


def test_fills_that_float32_cannot_hold_are_refused(tmp_path):
    model = TablePreparation().fit(TABLE.astype("float32"))
    model.fill_ = model.fill_ + 1e300
    with pytest.raises(InputError, match="overflow the dtype"):
        save(model, tmp_path / "m.nearfold")


def test_a_forged_array_model_has_as_many_numbers_as_columns(tmp_path):
    model = TablePreparation().fit(TABLE.to_numpy())
    model.n_features_in_ = 3
    with pytest.raises(InputError, match="numbers that do not fit"):
        save(model, tmp_path / "m.nearfold")
