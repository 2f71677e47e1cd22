"""A model that went through a file is the same model: to the last bit, and in every part of it."""

import functools
import hashlib
import inspect as python_inspect
import json
import os
import re
import subprocess
import sys
import tracemalloc
import warnings

import any_holder
import numpy as np
import pandas as pd
import pytest
from forge_files import put_together, take_apart
from safetensors.numpy import load as load_safetensors
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.covariance import OAS
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_classif
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import nearfold
from nearfold.columns.preparation import TablePreparation
from nearfold.errors import InputError, NearfoldWarning
from nearfold.registry import METHODS
from nearfold.store import model_layout
from nearfold.store.model_allowlist import AllowList
from nearfold.store.model_encode import Encoder
from nearfold.store.model_file import ModelFileError, inspect, load, load_with_card, save, verify
from nearfold.store.model_tensors import pack_arrays

N, D = 53, 6
RANDOM = np.random.RandomState(7)
X = RANDOM.normal(size=(N, D)) * np.arange(1, D + 1)
Y = np.arange(N) % 3
X_NEW = RANDOM.normal(size=(9, D)) * np.arange(1, D + 1)
NAMES = [f"Spalte {i} ü列" for i in range(D)]


@pytest.fixture(autouse=True)
def _a_class_that_holds_anything(monkeypatch):
    any_holder.register(monkeypatch)


ASKED = [
    *("transform", "predict", "predict_proba", "decision_function", "score_samples"),
    *("get_covariance", "get_mahalanobis_matrix", "get_feature_names_out"),
    *("kneighbors", "kneighbors_graph", "radius_neighbors"),
]


def quietly(work, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work(*args, **options)


def answers(model, rows):
    """What a model says of rows, by every method it has."""
    found = {}
    for name in ASKED:
        if not hasattr(model, name):
            continue
        method = getattr(model, name)
        takes = "X" in python_inspect.signature(method).parameters
        try:
            found[name] = quietly(method, rows) if takes else method()
        except (AttributeError, TypeError) as error:  # a pipeline's step may lack a method
            found[name] = str(error)
    return found


def assert_same(a, b, where="model"):
    """Equal in type, and to the last bit; written without a line of the code under test."""
    assert type(a) is type(b), where
    if sparse.issparse(a):
        assert a.format == b.format, where
        for part in ("data", "indices", "indptr") if a.format != "coo" else ("data", "coords"):
            assert_same(getattr(a, part), getattr(b, part), f"{where}.{part}")
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), where
        assert a.flags.f_contiguous == b.flags.f_contiguous or not a.flags.forc, where
        if a.dtype == object:
            assert_same(list(a.ravel()), list(b.ravel()), where)
        else:
            assert a.tobytes() == b.tobytes(), where
    elif isinstance(a, dict):
        assert list(a) == list(b), where
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            assert_same(one, other, f"{where}.{i}")
    elif isinstance(a, np.random.RandomState):
        assert_same(a.get_state(), b.get_state(), where)
    elif isinstance(a, np.random.Generator):
        assert_same(a.bit_generator.state, b.bit_generator.state, where)
    elif isinstance(a, float):
        assert repr(a) == repr(b), where
    elif type(a).__module__.startswith(("nearfold", "sklearn")) and hasattr(a, "__getstate__"):
        assert_same(a.__getstate__(), b.__getstate__(), f"{where}<{type(a).__name__}>")
    else:
        assert a == b, where


def there_and_back(model, tmp_path, rows=X_NEW):
    """Save, load, compare every answer and every part; the loaded model and its card."""
    path = save(model, tmp_path / "m.nearfold")
    again, card = load_with_card(path)
    before = answers(model, rows)
    assert not all(isinstance(answer, str) for answer in before.values())
    assert_same(before, answers(again, rows))
    assert_same(model, again)
    assert re.sub("0x[0-9A-Fa-f]+", "", repr(model)) == re.sub("0x[0-9A-Fa-f]+", "", repr(again))
    return again, card


@functools.cache
def fitted(name, dtype=None):
    method = next(method for method in METHODS if method.name == name)
    model = method.load()(**method.check_params)
    if "random_state" in model.get_params():
        model.set_params(random_state=3)
    if name.startswith("SCML"):
        model.set_params(max_iter=500)  # what it learns does not matter here
    table = pd.DataFrame(X, columns=NAMES) if dtype is None else X.astype(dtype)
    return quietly(model.fit, table, Y)


@pytest.mark.parametrize("name", [method.name for method in METHODS])
def test_every_method_comes_back_to_the_last_bit(name, tmp_path):
    model = fitted(name)
    frame = pd.DataFrame(X_NEW, columns=NAMES)
    again, card = there_and_back(model, tmp_path, frame)
    assert list(again.feature_names_in_) == card.feature_names == NAMES
    assert (card.n_features, card.model) == (D, f"nearfold.{name}")
    assert card.seed == (3 if "random_state" in model.get_params() else None)
    fresh = clone(again)
    assert not hasattr(fresh, "n_features_in_")
    assert repr(fresh) == repr(model)
    verify(tmp_path / "m.nearfold")


@pytest.mark.parametrize("name", [method.name for method in METHODS])
def test_float32_comes_back_to_the_last_bit(name, tmp_path):
    there_and_back(fitted(name, "float32"), tmp_path, X_NEW.astype("float32"))


@pytest.mark.parametrize("name", [method.name for method in METHODS])
def test_saved_again_it_is_the_same_file(name, tmp_path):
    one, two = tmp_path / "one.nearfold", tmp_path / "two.nearfold"
    save(fitted(name), one, extra={"score": 0.5})
    save(load(one), two, extra={"score": 0.5})
    cards = inspect(one), inspect(two)
    assert cards[0].payload_sha256 == cards[1].payload_sha256
    manifests = []
    for path in (one, two):
        with model_layout.open_checked(path) as opened:
            manifests.append({**opened.manifest, "created": ""})
    assert json.dumps(manifests[0]) == json.dumps(manifests[1])


# Which methods keep the rows they were fitted on, as their pages say (transform needs them).
KEEPERS = {
    "NearestNeighbors",
    "KNeighborsTransformer",
    "RadiusNeighborsTransformer",
    "KNeighborsClassifier",
    "KNeighborsRegressor",
    "RadiusNeighborsClassifier",
    "RadiusNeighborsRegressor",
    "MDS",
    "KernelPCA",
    "Isomap",
    "LocallyLinearEmbedding",
}


@pytest.mark.parametrize("name", [method.name for method in METHODS])
def test_the_card_says_whether_training_rows_are_inside(name, tmp_path):
    path = save(fitted(name), tmp_path / "m.nearfold")
    card = inspect(path)
    assert card.holds_training_rows == (name in KEEPERS)
    assert ("HOLDS TRAINING ROWS" in str(card)) == (name in KEEPERS)
    assert card.holds_embedding == (
        name in {"ClassicalMDS", "MDS", "Isomap", "LocallyLinearEmbedding"}
    )
    # No claim, a look: rows or columns of the table are in the file or they are not.
    raw = path.read_bytes()
    inside = any(part.tobytes() in raw for part in (*X, *X.T))
    assert inside == card.holds_training_rows
    for array in card.training_rows:
        assert array.shape == (N, D)
    json.dumps(card.as_dict())


def test_rows_given_for_looking_up_ids_are_training_rows(tmp_path):
    pairs, sign = np.array([[0, 3], [1, 4], [0, 1], [2, 3]]), np.array([1, 1, -1, -1])
    learner = nearfold.ITML(preprocessor=X).fit(pairs, sign)
    card = inspect(save(learner, tmp_path / "m.nearfold"))
    assert [array.name for array in card.training_rows] == ["preprocessor"]
    without = nearfold.ITML().fit(X[pairs], sign)
    assert not inspect(save(without, tmp_path / "m.nearfold")).holds_training_rows


def test_rows_known_by_an_innocent_name_first_are_still_found(tmp_path):
    model = nearfold.KernelPCA(2).fit(X)  # which does not say how many rows there were
    holder = any_holder.AnyHolder().fit(X)
    holder.held_, holder.note_ = X, model
    model.X_fit_ = X
    card = inspect(save(holder, tmp_path / "m.nearfold"))
    assert [array.name for array in card.training_rows] == ["held_"]


def test_rows_of_an_unknown_name_are_found_by_their_shape(tmp_path):
    model = any_holder.AnyHolder().fit(X)
    model.n_samples_ = N
    model.held_ = X.copy()
    assert inspect(save(model, tmp_path / "m.nearfold")).holds_training_rows
    square = nearfold.PCA().fit(X[:4])  # as many axes as rows
    assert not inspect(save(square, tmp_path / "m.nearfold")).holds_training_rows


def words(y):
    return np.array(["één", "две", "三"], dtype=object)[y]


CASES = {
    "manhattan": lambda: nearfold.KNeighborsClassifier(metric="manhattan").fit(X, words(Y)),
    "ball tree": lambda: nearfold.KNeighborsRegressor(algorithm="ball_tree", p=3).fit(X, Y * 0.5),
    "kd tree": lambda: nearfold.NearestNeighbors(algorithm="kd_tree", p=1, leaf_size=4).fit(X),
    "cosine": lambda: nearfold.NearestNeighbors(metric="cosine").fit(X),
    "seuclidean": lambda: nearfold.NearestNeighbors(
        metric="seuclidean", metric_params={"V": X.var(axis=0)}
    ).fit(X),
    "several outputs": lambda: nearfold.KNeighborsClassifier(weights="distance").fit(
        X, np.column_stack([words(Y), words(Y[::-1])])
    ),
    "weights": lambda: nearfold.KNeighborsClassifier().fit(X, Y, sample_weight=1.0 + Y),
    "fixed-width text": lambda: nearfold.KNeighborsClassifier().fit(X, words(Y).astype(str)),
    "true and false": lambda: nearfold.LinearDiscriminantAnalysis().fit(X, Y > 0),
    "a learner": lambda: nearfold.KNeighborsClassifier(metric=nearfold.NCA(random_state=0)).fit(
        X, Y
    ),
    "a fitted learner": lambda: nearfold.KNeighborsClassifier(
        metric=nearfold.LFDA(k=3).fit(X, Y)
    ).fit(X, Y),
    "tree": lambda: nearfold.NearestNeighbors().fit(RANDOM.normal(size=(300, D))),
    "no rows near": lambda: nearfold.RadiusNeighborsRegressor(radius=8.0).fit(X, Y),
    "whitened": lambda: nearfold.PCA(0.9, whiten=True).fit(X),
    "randomized": lambda: nearfold.PCA(
        2, svd_solver="randomized", random_state=np.random.RandomState(4)
    ).fit(X),
    "Fortran order": lambda: nearfold.NearestNeighbors(metric="l1").fit(np.asfortranarray(X)),
    "batches": lambda: nearfold.IncrementalPCA(2).partial_fit(X[:30]).partial_fit(X[30:]),
    "rbf and back": lambda: nearfold.KernelPCA(3, kernel="rbf", fit_inverse_transform=True).fit(X),
    "low rank": lambda: nearfold.KernelPCA(2, kernel="rbf", gamma=0.05, low_rank=20).fit(X),
    "cosine kernel": lambda: nearfold.KernelPCA(2, kernel="cosine").fit(X),
    "non-metric": lambda: nearfold.MDS(metric_mds=False, init="classical_mds").fit(X),
    "landmarks of MDS": lambda: nearfold.MDS(n_landmarks=20, init="classical_mds").fit(X),
    "city blocks": lambda: nearfold.ClassicalMDS(metric="cityblock").fit(X),
    "landmarks": lambda: nearfold.ClassicalMDS(metric="cityblock", n_landmarks=20).fit(X),
    "landmark Isomap": lambda: nearfold.Isomap(n_landmarks=15, n_neighbors=8).fit(X),
    "Isomap in pieces": lambda: nearfold.Isomap(disconnected="each").fit(
        np.vstack([X[:26], X[26:] + 500])
    ),
    "Isomap by regression": lambda: nearfold.Isomap(extension="regressor").fit(X),
    "Isomap, cosine": lambda: nearfold.Isomap(metric="cosine").fit(X),
    "LTSA": lambda: nearfold.LocallyLinearEmbedding(method="ltsa", n_neighbors=9).fit(X),
    "LDA by eigen": lambda: nearfold.LinearDiscriminantAnalysis(
        solver="eigen", covariance_estimator=OAS()
    ).fit(X, Y),
    "LDA in batches": lambda: nearfold.LinearDiscriminantAnalysis().partial_fit(
        X[:30], Y[:30], classes=[0, 1, 2]
    ),
    "pairs": lambda: nearfold.MMC().fit(
        np.stack([X[:40], X[13:]], axis=1), np.where(np.arange(40) % 2, 1, -1)
    ),
    "polars output": lambda: nearfold.PCA(2).set_output(transform="polars").fit(X),
}


@pytest.mark.parametrize("case", CASES)
def test_ways_of_fitting_come_back_to_the_last_bit(case, tmp_path):
    model = quietly(CASES[case])
    if case == "polars output":
        again = load(save(model, tmp_path / "m.nearfold"))
        assert again.transform(X_NEW).equals(model.transform(X_NEW))
    else:
        there_and_back(model, tmp_path)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_sparse_rows_come_back(form, kind, tmp_path):
    make = getattr(sparse, f"{form}_{kind}")
    rows = make(np.where(np.abs(X) > 1, X, 0.0))
    for model in (
        nearfold.KNeighborsClassifier(metric="cosine"),
        nearfold.KernelPCA(2, kernel="rbf"),
    ):
        there_and_back(model.fit(rows, Y), tmp_path)


def test_distances_given_come_back(tmp_path):
    D_all = np.sqrt(((X[:, None] - X) ** 2).sum(-1))
    rows = D_all[:9]
    for model in (
        nearfold.NearestNeighbors(metric="precomputed"),
        nearfold.ClassicalMDS(metric="precomputed"),
        nearfold.Isomap(metric="precomputed"),
    ):
        _, card = there_and_back(quietly(model.fit, D_all), tmp_path, rows)
        assert card.holds_training_rows


PREPROCESSORS = [
    Binarizer(),
    FunctionTransformer(),
    FunctionTransformer(np.abs),
    KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"),
    MaxAbsScaler(),
    MinMaxScaler(),
    Normalizer(),
    OneHotEncoder(handle_unknown="ignore"),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    PolynomialFeatures(),
    PowerTransformer(),
    QuantileTransformer(n_quantiles=7),
    RobustScaler(),
    SelectKBest(f_classif, k=3),
    SimpleImputer(add_indicator=True),
    StandardScaler(),
    TruncatedSVD(2, random_state=0),
    VarianceThreshold(),
    FeatureUnion([("a", StandardScaler()), ("b", "passthrough"), ("c", nearfold.PCA(2))]),
]


def test_a_file_older_than_a_parameter_is_read_as_it_was_meant(tmp_path):
    model = nearfold.MDS(2, relax=False).fit(X)
    path = save(model, tmp_path / "new.nearfold")
    manifest, table, data = take_apart(path.read_bytes())
    del manifest["tree"]["state"]["relax"]
    old = tmp_path / "old.nearfold"
    old.write_bytes(put_together(manifest, table, data))
    again = load(old)
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.transform(X_NEW), load(path).transform(X_NEW))
    del manifest["tree"]["state"]["max_iter"]
    old.write_bytes(put_together(manifest, table, data))
    with pytest.raises(ModelFileError, match="max_iter"):
        load(old)


@pytest.mark.parametrize("step", PREPROCESSORS, ids=lambda step: type(step).__name__)
def test_pipelines_with_plain_preprocessors_come_back(step, tmp_path):
    pipeline = make_pipeline(clone(step), nearfold.PCA(2)).fit(X, Y)
    _, card = there_and_back(pipeline, tmp_path)
    assert card.model == "sklearn.pipeline.Pipeline"
    assert not card.holds_training_rows or isinstance(step, FeatureUnion)


def test_a_whole_table_to_a_learned_metric_comes_back(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    frame.loc[3, NAMES[0]] = np.nan
    frame["kind"] = words(Y)
    frame.loc[5, "kind"] = None
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    prepare = ColumnTransformer(
        [
            ("numbers", numbers, make_column_selector(dtype_include="number")),
            ("kind", OneHotEncoder(sparse_output=False), ["kind"]),
            ("kept", "passthrough", [NAMES[1]]),
            ("dropped", "drop", [NAMES[2]]),
        ]
    )
    metric = nearfold.LMNN(random_state=5)
    model = Pipeline([("table", prepare), ("knn", nearfold.KNeighborsClassifier(metric=metric))])
    quietly(model.fit, frame, words(Y))
    again, card = there_and_back(model, tmp_path, frame)
    assert card.seed == {"knn__metric__random_state": 5}
    assert list(again.feature_names_in_) == list(frame.columns)
    assert card.training_rows[0].name == "steps.1.1.index_.X"


def test_the_preparation_of_a_table_comes_back(tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({name: X[:, i] for i, name in enumerate(NAMES)})
    prepare = TablePreparation(columns=NAMES[:4])
    pipeline = make_pipeline(prepare, StandardScaler(), nearfold.PCA(2)).fit(frame)
    again, card = there_and_back(pipeline, tmp_path, frame)
    assert card.feature_names == NAMES[:4]
    assert again[0].columns_ == pipeline[0].columns_
    shuffled = frame.select(NAMES[::-1])
    np.testing.assert_array_equal(again.transform(shuffled), pipeline.transform(frame))


def test_every_public_estimator_may_be_in_a_file():
    public = [getattr(nearfold, name) for name in nearfold.__all__]
    estimators = [thing for thing in public if isinstance(thing, type) and hasattr(thing, "fit")]
    assert len(estimators) > len(METHODS)  # NCA is a second name
    for cls in estimators:
        assert AllowList().find(AllowList().name(cls)) is cls


def test_label_encoders_come_back(tmp_path):
    encoder = LabelEncoder().fit(words(Y))
    again = load(save(encoder, tmp_path / "m.nearfold"))
    assert_same(again.transform(words(Y)), encoder.transform(words(Y)))


class _Bag(BaseEstimator):
    """Stands in for an estimator of ours that holds whatever it is given."""

    def fit(self):
        self.fitted_ = True
        return self


def through_a_file(value, tmp_path):
    model = any_holder.AnyHolder().fit(X)
    model.held_ = value
    return load(save(model, tmp_path / "m.nearfold")).held_


VALUES = {
    "numbers": [0, -1, 10**300, True, None, 0.1, -0.0, 5e-324, float("nan"), float("inf"), -1e308],
    "texts": ["", "日本\n\x00", "\ud800", b"\x00\xff"],
    "nests": {1: (2, [3, {"a": ()}]), (1, "x"): {}, None: slice(1, None, -1), 2.5: range(3, 9, 2)},
    "numpy numbers": [np.float32(0.1), np.int8(-3), np.bool_(True), np.str_("é"), np.complex64(1j)],
    "numpy dates": [np.datetime64("2020-01-02", "s"), np.timedelta64(5, "D"), np.bytes_(b"ab")],
    "types": [
        np.float32,
        np.int64,
        int,
        str,
        object,
        np.dtype("f4"),
        np.dtype("O"),
        np.dtype("<U7"),
    ],
    "functions": [np.log1p, np.abs, f_classif],
    "arrays": [np.zeros((0, 4)), np.array(3.5), np.zeros((2, 0, 3), "i2"), np.arange(6.0)[::-2]],
    "kinds": [
        np.arange(4).astype(t) for t in ("?", "u1", "i1", "u2", "f2", "u8", "c8", "c16", ">f8")
    ],
    "text arrays": [np.array(["a", "", "日本語"]), np.array([b"x", b"yz"]), np.array(["", ""])],
    "date arrays": [np.array(["2020-01-01", "NaT"], "M8[ns]"), np.array([1, 2], ">m8[h]")],
    "object arrays": [np.array([["a", None], [1.5, np.nan]], object), np.empty((0, 3), object)],
    "orders": [
        np.asfortranarray(X),
        X[::2, ::-1],
        X.T[1:4],
        X.reshape(53, 2, 3).transpose(2, 1, 0),
    ],
    "generators": [np.random.default_rng(4), np.random.Generator(np.random.MT19937(2))],
    "generators used": [np.random.Generator(np.random.Philox(1)), np.random.RandomState(9)],
}


@pytest.mark.parametrize("case", VALUES)
def test_values_of_every_kind_come_back(case, tmp_path):
    again = through_a_file(VALUES[case], tmp_path)
    for one, other in zip(_each(VALUES[case]), _each(again), strict=True):
        if isinstance(one, np.ndarray) and one.dtype == "<U0":
            other = other.astype(one.dtype)
        assert_same(one, other)


def _each(value):
    return list(value.items()) if isinstance(value, dict) else value


def test_a_generator_goes_on_where_it_was(tmp_path):
    rng, old = np.random.default_rng(3), np.random.RandomState(3)
    rng.normal(size=5), old.normal(size=5)
    new, new_old = through_a_file([rng, old], tmp_path)
    assert_same(new.normal(size=7), rng.normal(size=7))
    assert_same(new_old.normal(size=7), old.normal(size=7))


def test_shared_things_stay_shared_and_others_stay_apart(tmp_path):
    A, inner = np.arange(5.0), [1]
    scaler = StandardScaler().fit(X)
    again = through_a_file([A, A, A.copy(), inner, inner, [1], scaler, (scaler, A)], tmp_path)
    assert again[0] is again[1] is again[7][1] is not again[2]
    assert again[3] is again[4] is not again[5]
    assert again[6] is again[7][0]
    again[0][0] = 7.0  # and they can be written to
    assert again[2][0] == 0.0


def test_a_thing_that_holds_itself_is_refused(tmp_path):
    ring = []
    ring.append(ring)
    with pytest.raises(InputError, match="holds itself"):
        through_a_file(ring, tmp_path)
    deep = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(InputError, match="too deeply"):
        through_a_file(deep, tmp_path)


def half(u, v):
    return float(np.abs(u - v).sum() / 2)


@pytest.mark.parametrize(
    ("model", "place"),
    [
        (nearfold.NearestNeighbors(metric=half), "NearestNeighbors.metric"),
        (
            nearfold.KNeighborsClassifier(weights=lambda d: 1 / (1 + d)),
            "KNeighborsClassifier.weights",
        ),
        (nearfold.KernelPCA(2, kernel=lambda u, v: u @ v), "KernelPCA.kernel"),
        (
            make_pipeline(FunctionTransformer(np.nan_to_num), nearfold.PCA(2)),
            "Pipeline.steps.0.1.func",
        ),
        (nearfold.NearestNeighbors(metric=functools.partial(half)), "NearestNeighbors.metric"),
    ],
)
def test_functions_are_refused_when_saving_and_the_place_is_named(model, place, tmp_path):
    model.fit(X, Y)
    with pytest.raises(InputError, match=rf"^{place} is a function.*never run code"):
        save(model, tmp_path / "m.nearfold")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            make_pipeline(StandardScaler(), Ridge()),
            r"steps\.1\.1 is a sklearn\.linear_model.*Ridge",
        ),
        (_Bag().fit(), "_Bag is a .*_Bag, which a model file cannot hold"),
        (type("PCA", (nearfold.PCA,), {})(2), "PCA, which a model file cannot hold"),
        (
            nearfold.Covariance(preprocessor=pd.DataFrame(X)),
            r"preprocessor is a pandas\S*DataFrame",
        ),
    ],
)
def test_strangers_are_refused_when_saving(model, words, tmp_path):
    model = model if isinstance(model, _Bag) else model.fit(X, Y)
    with pytest.raises(InputError, match=words):
        save(model, tmp_path / "m.nearfold")


@pytest.mark.parametrize("value", [np.zeros(3, np.longdouble), np.zeros(2, [("a", "f8")]), {1, 2}])
def test_values_without_a_place_in_a_file_are_refused(value, tmp_path):
    with pytest.raises(InputError, match=r"AnyHolder\.held_ is a.*which a model file cannot hold"):
        through_a_file(value, tmp_path)


def test_more_small_parts_than_a_reader_takes_are_refused_when_saving(tmp_path):
    assert len(through_a_file(list(range(100_000)), tmp_path)) == 100_000
    with pytest.raises(InputError, match="too many small parts"):
        through_a_file(list(range(400_000)), tmp_path)


def test_only_fitted_estimators_are_saved(tmp_path):
    for model in (
        nearfold.PCA(),
        make_pipeline(StandardScaler(), nearfold.PCA()),
        StandardScaler(),
    ):
        with pytest.raises(InputError, match="not fitted: call fit first"):
            save(model, tmp_path / "m.nearfold")
    for thing in (X, "PCA", nearfold.PCA, None):
        with pytest.raises(InputError, match="not an estimator"):
            save(thing, tmp_path / "m.nearfold")


def test_what_is_given_besides_comes_back(tmp_path):
    extra = {"schema": {"a": "float"}, "score": [0.25, None], "名": "值"}
    card = inspect(save(nearfold.PCA(2).fit(X), tmp_path / "m.nearfold", extra=extra))
    assert card.extra == extra
    assert "schema, score, 名" in str(card)
    deep = []
    for _ in range(300):
        deep = [deep]
    for bad in ({"a": float("nan")}, {"a": X}, [1], {1: 2, "1": 3}, {"a": 10**999}, {"a": deep}):
        with pytest.raises(InputError, match="extra"):
            save(nearfold.PCA(2).fit(X), tmp_path / "m.nearfold", extra=bad)


def test_the_card_in_words(tmp_path):
    model = make_pipeline(StandardScaler(), nearfold.KNeighborsClassifier(3)).fit(X, Y)
    card = inspect(save(model, tmp_path / "wine.nearfold"))
    text = str(card)
    assert text.startswith("wine.nearfold\n")
    assert "6 columns" in text
    assert "HOLDS TRAINING ROWS: steps.1.1.index_.X (53 x 6)" in text
    assert f"by nearfold {nearfold.__version__}, python" in text
    assert set(card.versions) == {"nearfold", "python", "numpy", "scipy", "scikit-learn"}
    assert card.file_bytes == os.path.getsize(tmp_path / "wine.nearfold")


def test_the_arrays_are_safetensors(tmp_path):
    model = nearfold.KNeighborsClassifier().fit(X, words(Y))
    path = save(model, tmp_path / "m.nearfold")
    with model_layout.open_checked(path) as opened:
        raw = path.read_bytes()[opened.payload_start :]
    read = load_safetensors(raw)
    assert any(np.array_equal(tensor, X) for tensor in read.values())
    assert hashlib.sha256(raw).hexdigest() == inspect(path).payload_sha256
    kinds = [np.asarray(a) for case in ("arrays", "kinds", "orders") for a in VALUES[case]]
    encoder = Encoder()
    encoder.encode(kinds, "kinds")
    payload = pack_arrays(encoder.arrays)
    with (tmp_path / "all").open("wb") as file:
        payload.write(file)
    tensors = load_safetensors((tmp_path / "all").read_bytes())
    assert len(tensors) == len(kinds)
    for i, array in enumerate(kinds):
        if array.dtype.kind in "biuf" and array.dtype.isnative and array.flags.c_contiguous:
            assert_same(tensors[str(i)], array)


def write_version(path, major, minor, change=lambda manifest: None):
    """The same file as a later version would write it."""
    with model_layout.open_checked(path) as opened:
        manifest, start = opened.manifest, opened.payload_start
    payload = path.read_bytes()[start:]
    change(manifest)
    text = json.dumps(manifest).encode()
    head = model_layout._HEADER.pack(
        b"NEARFOLD", major, minor, 0, len(text), len(payload), hashlib.sha256(text).digest()
    )
    path.write_bytes(head + hashlib.sha256(head).digest() + text + payload)


def test_later_minor_versions_open_with_a_warning(tmp_path):
    model = nearfold.PCA(2).fit(X)
    path = save(model, tmp_path / "m.nearfold")

    def newer(manifest):
        manifest["signature"] = {"by": "someone"}
        manifest["model"]["colour"] = "blue"
        manifest["tree"]["hint"] = [1, 2]

    write_version(path, 1, 7, newer)
    with pytest.warns(NearfoldWarning, match=r"format 1\.7.*knows 1\.0"):
        again = load(path)
    assert_same(again.transform(X_NEW), model.transform(X_NEW))
    assert inspect(path).format == (1, 7)


def test_what_a_later_minor_version_added_is_refused_with_advice(tmp_path):
    path = save(nearfold.PCA(2).fit(X), tmp_path / "m.nearfold")

    def newer(manifest, added):
        manifest["versions"]["nearfold"] = "9.9"
        manifest["tree"]["state"]["spline_"] = added

    for added, words in (({"kind": "spline"}, r"unknown kind \('spline'\)"), (5, "spline_")):
        path = save(nearfold.PCA(2).fit(X), tmp_path / "m.nearfold")
        write_version(path, 1, 1, functools.partial(newer, added=added))
        with pytest.raises(ModelFileError, match=words + r".*Nearfold 9\.9.*update"):
            load(path)


@pytest.mark.parametrize(("major", "words"), [(2, "update Nearfold"), (0, "the one that wrote it")])
def test_other_major_versions_are_refused(major, words, tmp_path):
    path = save(nearfold.PCA(2).fit(X), tmp_path / "m.nearfold")
    write_version(path, major, 0)
    for read in (load, inspect, verify):
        with pytest.raises(ModelFileError, match=words):
            read(path)


def test_another_version_of_scikit_learn_is_told(tmp_path):
    path = save(make_pipeline(StandardScaler(), nearfold.PCA(2)).fit(X), tmp_path / "m.nearfold")

    def older(manifest):
        steps = manifest["tree"]["state"]["steps"]["items"]
        steps[0]["items"][1]["state"]["_sklearn_version"] = "1.2.0"

    write_version(path, 1, 0, older)
    with pytest.warns(UserWarning, match=r"StandardScaler from version 1\.2\.0"):
        load(path)


def test_verify_refuses_a_model_that_is_not_fitted(tmp_path):
    path = save(nearfold.PCA(2).fit(X), tmp_path / "m.nearfold")

    def emptied(manifest):
        state = manifest["tree"]["state"]
        for name in [name for name in state if name.endswith("_")]:
            del state[name]

    write_version(path, 1, 0, emptied)
    for read in (load, verify):
        with pytest.raises(ModelFileError, match=r"missing|not fitted"):
            read(path)


def test_loading_takes_the_memory_of_the_arrays_and_little_more(tmp_path):
    rows = np.random.RandomState(0).normal(size=(40_000, 25))  # 8 MB
    path = save(nearfold.NearestNeighbors().fit(rows), tmp_path / "m.nearfold")
    size = path.stat().st_size
    load(path)  # imports are not what is measured
    tracemalloc.start()
    model = load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    held = tracemalloc.get_traced_memory()[0]
    save(model, tmp_path / "again.nearfold")
    saving = tracemalloc.get_traced_memory()[1] - held
    tracemalloc.stop()
    assert size < peak < size + 2 * 1024**2
    assert saving < 1024**2


def test_a_model_over_the_budget_is_refused_before_it_is_read(tmp_path):
    path = save(nearfold.NearestNeighbors().fit(np.ones((2000, 25))), tmp_path / "m.nearfold")
    nearfold.set_memory("100KB")
    try:
        with pytest.raises(MemoryError, match=r"m\.nearfold needs about"):
            load(path)
    finally:
        nearfold.set_memory(None)


def test_another_process_reads_the_same(tmp_path):
    model = nearfold.Isomap(metric="cosine").fit(X)
    path = save(model, tmp_path / "m.nearfold")
    np.save(tmp_path / "new.npy", X_NEW)
    code = (
        "import sys, numpy as np\nfrom nearfold.store.model_file import load\n"
        "Z = load(sys.argv[1]).transform(np.load(sys.argv[2]))\n"
        "np.save(sys.argv[3], Z)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, path, tmp_path / "new.npy", tmp_path / "Z.npy"], check=True
    )
    assert_same(np.load(tmp_path / "Z.npy"), model.transform(X_NEW))
