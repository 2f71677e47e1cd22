"""Forged files that once gave a raw exception, NaN or a list of a billion names, kind by kind."""

import random

import numpy as np
import pandas as pd
import pytest
from forge_files import Parts
from forge_rows import CODES, DISTANCES, GAPS, SPARSE, X, Y
from forge_structures import own_copy
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)

import nearfold as nf
from nearfold.columns.preparation import TablePreparation
from nearfold.errors import InputError
from nearfold.store.model_file import ModelFileError, load, save


def _set(**changes):
    def change(parts):
        parts.tree["state"].update(changes)

    return change


def _drop(name):
    return lambda parts: parts.tree["state"].pop(name)


def _set_array(name, value):
    return lambda parts: parts.set_array(parts.tree["state"][name], value)


def _as_half(parts):
    mean = parts.tree["state"]["_seen"]["state"]["moments"]["state"]["mean"]
    parts.set_array(mean, parts.arrays[mean["tensor"]].astype("f2"))


def _forget_width_of_indicator(parts):
    del parts.tree["state"]["indicator_"]["state"]["n_features_in_"]


def _unnamed_step(parts):
    steps = parts.tree["state"]["regressor"]["state"]["steps"]["items"]
    steps[0]["items"][0] = {"kind": "dtype", "value": "<i4"}


def _no_columns(parts):
    state = parts.tree["state"]
    state["n_features_in_"] = parts.manifest["model"]["n_features"] = 0
    for name in ("components_", "mean_"):
        parts.set_array(state[name], parts.arrays[state[name]["tensor"]][..., :0])


def _one_target(parts):
    y = parts.tree["state"]["regressor_"]["state"]["_y"]
    parts.set_array(y, parts.arrays[y["tensor"]][:, :1])


def _rows_of_index(change):
    def change_rows(parts):
        node = parts.tree["state"]["index_"]["state"]["X"]
        node = node.get("data", node)
        parts.set_array(node, change(parts.arrays[node["tensor"]]))

    return change_rows


def _wide(parts):
    parts.tree["state"]["index_"]["state"]["X"]["shape"][1] = 10**12
    parts.tree["state"]["n_features_in_"] = parts.manifest["model"]["n_features"] = 10**12


def _one_class(parts):
    state = parts.tree["state"]
    for name in ("classes_", "priors_", "means_"):
        parts.set_array(state[name], parts.arrays[state[name]["tensor"]][:1])


def _no_landmarks(parts):
    state = parts.tree["state"]
    for node in (state["landmarks_"], *(state["_map"]["state"][n] for n in ("row_means", "axes"))):
        parts.set_array(node, parts.arrays[node["tensor"]][:0])


def _wider_map(parts):
    piece = parts.tree["state"]["_extension"]["state"]["pieces"]["items"][0]
    place = piece["state"]["place"]["state"]
    for name in ("axes", "offset"):
        parts.set_array(place[name], np.repeat(parts.arrays[place[name]["tensor"]], 2, axis=-1))


def _tiny_scatter(parts):
    scatter = parts.tree["state"]["_moments"]["state"]["scatter"]
    parts.set_array(scatter, np.full((4, 4), 1e-320))


def _large_scatter(parts):
    scatter = parts.tree["state"]["_seen"]["state"]["moments"]["state"]["scatter"]
    parts.set_array(scatter, parts.arrays[scatter["tensor"]] * 1e60)


def _no_classes(parts):
    moments = parts.tree["state"]["_moments"]["state"]
    for node in (parts.tree["state"]["classes_"], moments["count"], moments["mean"]):
        parts.set_array(node, parts.arrays[node["tensor"]][:0])


def _far_centre(parts):
    function = parts.tree["state"]["_axes"]["state"]["function"]
    parts.set_array(function["state"]["centre"], np.full(4, 1e150))


def _ends_in_products(parts):
    """A pipeline has the methods of its steps: PolynomialFeatures cannot be inverted."""
    scaler = parts.tree["state"]["transformer_"]
    poly = own_copy(parts, parts, parts.tree["state"]["regressor_"], random.Random(0))
    poly = poly["state"]["steps"]["items"][0]["items"][1]
    steps = [["scale", scaler], ["poly", poly]]
    items = [{"kind": "tuple", "items": step} for step in steps]
    state = {"steps": {"kind": "list", "items": items}, "transform_input": None}
    state |= {"memory": None, "verbose": False}
    parts.tree["state"]["transformer_"] = {
        "kind": "object",
        "class": "sklearn.pipeline.Pipeline",
        "state": state,
    }


def _large_targets(parts):
    y = parts.tree["state"]["regressor_"]["state"]["_y"]
    parts.set_array(y, parts.arrays[y["tensor"]] + 1e9)


def _impossible_class(parts):
    offset = parts.tree["state"]["scores_"]["state"]["offset"]
    parts.set_array(offset, np.array([0.0, -np.inf, 0.0]))


def _another_index(parts):
    X = parts.tree["state"]["index_"]["state"]["X"]
    parts.set_array(X, parts.arrays[X["tensor"]][:4, :4])
    parts.tree["state"]["n_samples_fit_"] = 4


def _batch(rows, labels):
    return nf.LinearDiscriminantAnalysis().partial_fit(rows, labels, classes=[0, 1, 2])


def _indefinite(parts):
    params = parts.tree["state"]["metric_params"]["items"]
    parts.set_array(params[0][1], np.diag([1.0, 1.0, 1.0, -1.0]))


def _inside(*path, **changes):
    def change(parts):
        node = parts.tree
        for name in path:
            node = node["state"][name]
        node["state"].update(changes)

    return change


FRAMES = {"kind": "dict", "items": [["transform", "pandas"]]}
POLY = nf.KernelPCA(2, kernel="poly", degree=2, gamma=0.1)


def _far_apart(parts):
    piece = parts.tree["state"]["_extension"]["state"]["pieces"]["items"][0]["state"]
    parts.set_array(piece["D"], parts.arrays[piece["D"]["tensor"]] * 1e300)


def _no_estimator(parts):
    steps = parts.tree["state"]["steps"]["items"]
    held = steps[1]["items"][1]["state"]["certificate_"]
    last = own_copy(parts, parts, held, random.Random(0))
    steps.append({"kind": "tuple", "items": ["last", last]})


TEXTS = {"kind": "list", "items": ["a", "b"]}
ROW = {"kind": "list", "items": [{"kind": "list", "items": [0.5] * 4}]}
STEPS = make_pipeline(StandardScaler(), nf.KNeighborsRegressor())
KINDS = {
    "half precision": (nf.IncrementalPCA(2).partial_fit, X, _as_half, "float16"),
    "an indicator that is not whole": (
        SimpleImputer(add_indicator=True).fit, GAPS, _forget_width_of_indicator, "missing"
    ),
    "numbers that None is missing among": (
        SimpleImputer().fit, GAPS, _set(missing_values=None), "missing_values"
    ),
    "texts to look ids up in": (nf.Covariance().fit, X, _set(preprocessor=TEXTS), "of <U1"),
    "one row to look ids up in": (nf.Covariance().fit, X, _set(preprocessor=ROW), "two rows"),
    "kNN without k": (
        nf.KNeighborsClassifier().fit, (X, Y), _set(n_neighbors=None), "n_neighbors"
    ),
    "a graph without k": (nf.KNeighborsTransformer().fit, X, _set(n_neighbors=None), "n_neighbors"),
    "steps without names": (
        TransformedTargetRegressor(STEPS, transformer=MinMaxScaler()).fit,
        (X, Y),
        _unnamed_step,
        "not a name",
    ),
    "a regressor that was not trained": (
        nf.Isomap().fit, X, _set(extension="regressor"), "regressor_"
    ),
    "a scaler that was not fitted": (
        PowerTransformer(standardize=False).fit, X, _set(standardize=True), "_scaler"
    ),
    "more axes than coordinates": (nf.Isomap().fit, X, _wider_map, "more axes"),
    "no way to place rows": (nf.ClassicalMDS().fit, X, _set(_principal=None), "_map or _principal"),
    "half of the disparities": (
        nf.MDS(metric_mds=False, init="classical_mds").fit, X, _inside("_map", levels=None), "scale"
    ),
    "no columns": (nf.PCA(2).fit, X, _no_columns, "n_features_in_"),
    "no landmarks": (
        nf.ClassicalMDS(metric="cityblock", n_landmarks=9).fit, X, _no_landmarks, "no rows"
    ),
    "fewer targets than the scaler's": (
        TransformedTargetRegressor(nf.KNeighborsRegressor(), transformer=MinMaxScaler()).fit,
        (X, CODES[:, :2]),
        _one_target,
        "targets",
    ),
    "a billion columns that nothing proves": (
        StandardScaler(with_mean=False, with_std=False).fit,
        X,
        _set(n_features_in_=10**9, mean_=None, var_=None, scale_=None),
        "more columns",
    ),
    "a sparse matrix of 10^12 columns": (
        nf.NearestNeighbors(metric="cosine").fit, SPARSE, _wide, "more columns"
    ),
    "a metric that takes no sparse rows": (
        nf.NearestNeighbors(metric="cosine").fit,
        SPARSE,
        lambda parts: parts.tree["state"]["index_"]["state"].update(metric="canberra"),
        "sparse rows",
    ),
    "sparse numbers of the other byte order": (
        nf.NearestNeighbors(metric="cosine").fit,
        SPARSE,
        _rows_of_index(lambda data: data.astype(">f8")),
        "kinds it may be",
    ),
    "latitudes beyond the poles": (
        nf.NearestNeighbors(metric="haversine", algorithm="ball_tree").fit,
        X[:, :2] / 4,
        _rows_of_index(lambda rows: rows * 10),
        "latitudes",
    ),
    "a metric that a tree does not know": (
        nf.NearestNeighbors(metric="manhattan", algorithm="ball_tree").fit,
        X,
        _inside("index_", metric="cosine"),
        "not for algorithm",
    ),
    "an infinite power with weights": (
        nf.NearestNeighbors(metric_params={"w": np.ones(4)}, p=3).fit,
        X,
        _inside("index_", p={"kind": "float", "value": "inf"}),
        "weights need a finite",
    ),
    "moments whose scores overflow": (_batch, (X, Y), _tiny_scatter, "overflow"),
    "a radius that is not there": (
        nf.RadiusNeighborsRegressor(9.0).fit, (X, Y), _set(radius=None), "radius"
    ),
    "a power that is not there": (
        nf.NearestNeighbors(algorithm="ball_tree", p=3).fit, X, _inside("index_", p=None), "p:"
    ),
    "a root that overflows": (
        nf.NearestNeighbors(algorithm="brute", p=3).fit, X, _inside("index_", p=1e-6), "roots"
    ),
    "distances that are roots of negative numbers": (
        nf.NearestNeighbors(metric="mahalanobis", metric_params={"VI": np.eye(4)}).fit,
        X,
        _indefinite,
        "negative eigenvalues",
    ),
    "variances in place of a covariance": (
        nf.NearestNeighbors(metric="seuclidean", metric_params={"V": X.var(axis=0)}).fit,
        X,
        _inside("index_", metric="mahalanobis"),
        "1 axes instead of 2",
    ),
    "an infinite threshold": (
        Binarizer().fit, X, _set(threshold={"kind": "float", "value": "inf"}), "threshold"
    ),
    "sparse columns from nowhere": (
        ColumnTransformer([("scale", StandardScaler(), [0, 1])]).fit,
        X,
        _set(sparse_output_=True),
        "sparse_output_",
    ),
    "powers that overflow": (POLY.fit, X, _inside("_axes", "function", gamma=1e300), "overflow"),
    "roots of products": (POLY.fit, X, _inside("_axes", "function", degree=0.5), "roots"),
    "an inner object that gives frames": (
        nf.ClassicalMDS().fit,
        X,
        _inside("_principal", "pca", _sklearn_output_config=FRAMES),
        "frames",
    ),
    "a sparse indicator among dense rows": (
        SimpleImputer(add_indicator=True).fit, GAPS, _inside("indicator_", sparse=True), "form"
    ),
    "a shrinkage that needs the rows": (_batch, (X, Y), _set(shrinkage="auto"), "shrinkage"),
    "geodesics whose squares overflow": (nf.Isomap().fit, X, _far_apart, "overflow"),
    "a step that is no estimator": (
        make_pipeline(StandardScaler(), nf.MMC_Supervised(random_state=0)).fit,
        (X, Y),
        _no_estimator,
        "no fit",
    ),
    "a tolerance whose square overflows": (_batch, (X, Y), _set(tol=1e300), "tol"),
    "no classes": (_batch, (X, Y), _no_classes, "classes_"),
    "variances beyond the dtype": (
        nf.IncrementalPCA(2).partial_fit, X.astype("f4"), _large_scatter, "beyond float32"
    ),
    "a centre far from the rows": (
        nf.KernelPCA(2, kernel="cosine").fit, X, _far_centre, "centre"
    ),
    "targets that cannot be had back": (
        TransformedTargetRegressor(
            make_pipeline(PolynomialFeatures(1), nf.KNeighborsRegressor()),
            transformer=MinMaxScaler(),
        ).fit,
        (X, X),
        _ends_in_products,
        "without inverse_transform",
    ),
    "targets that overflow on the way back": (
        TransformedTargetRegressor(
            nf.KNeighborsRegressor(), func=np.log1p, inverse_func=np.expm1
        ).fit,
        (X, Y),
        _large_targets,
        "overflow",
    ),
    "a class that cannot be": (
        nf.LinearDiscriminantAnalysis().fit, (X, Y), _impossible_class, "infinite"
    ),
    "more columns than distances": (
        nf.NearestNeighbors(metric="precomputed").fit, DISTANCES, _another_index, "kinds it may be"
    ),
    "one class": (nf.LinearDiscriminantAnalysis().fit, (X, Y > 0), _one_class, "classes_"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_refused_in_one_line(kind, tmp_path):
    fit, given, change, words = KINDS[kind]
    model = fit(*given) if isinstance(given, tuple) else fit(given)
    path = save(model, tmp_path / "m.nearfold")
    load(path)
    parts = Parts(path.read_bytes())
    change(parts)
    path.write_bytes(parts.pack())
    with pytest.raises(ModelFileError, match=words) as refusal:
        load(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("scaler", [MinMaxScaler(), MaxAbsScaler(), RobustScaler()])
def test_scalers_of_half_precision_come_back(scaler, tmp_path):
    rows = X.astype("f2")
    again = load(save(scaler.fit(rows), tmp_path / "m.nearfold"))
    np.testing.assert_array_equal(again.transform(rows), scaler.transform(rows))


@pytest.mark.filterwarnings("ignore:Skipping features")
@pytest.mark.parametrize("keep", [True, False])
def test_constants_for_missing_values_come_back(keep, tmp_path):
    """scikit-learn holds such constants as objects, and drops columns that are all empty."""
    rows = np.column_stack([GAPS, np.full(len(GAPS), np.nan)])
    imputer = SimpleImputer(strategy="constant", fill_value=-1.5, keep_empty_features=keep)
    model = make_pipeline(imputer, nf.PCA(2)).fit(rows)
    again = load(save(model, tmp_path / "m.nearfold"))
    np.testing.assert_array_equal(again.transform(rows), model.transform(rows))


def test_a_table_of_ids_of_another_width_is_not_saved(tmp_path):
    model = nf.Covariance().fit(X).set_params(preprocessor=X[:, :3])
    with pytest.raises(InputError, match="size 3"):
        save(model, tmp_path / "m.nearfold")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("parameter", ["metric", "dissimilarity"])
def test_distances_that_are_not_there_never_reach_the_compiled_loop(parameter, tmp_path):
    """It would read 36 distances of each row where the table has four columns."""
    path = save(nf.MDS(init="classical_mds").fit(X), tmp_path / "m.nearfold")
    parts = Parts(path.read_bytes())
    parts.tree["state"][parameter] = "precomputed"
    path.write_bytes(parts.pack())
    with pytest.raises(ModelFileError, match="not as many columns as rows"):
        load(path)


def test_what_a_preparation_gives_the_next_step_must_take(tmp_path):
    table = pd.DataFrame(X, columns=list("abcd"))
    mixed = Pipeline(
        [
            ("table", TablePreparation(columns=["a", "b"]).fit(table)),
            ("scale", StandardScaler().fit(X)),
        ]
    )
    with pytest.raises(InputError, match="size 4 does not fit"):
        save(mixed, tmp_path / "m.nearfold")


def test_one_object_as_two_steps_must_take_what_it_gives(tmp_path):
    step = PolynomialFeatures().fit(X)
    with pytest.raises(InputError, match="size 4 does not fit d = 15"):
        save(Pipeline([("first", step), ("again", step)]), tmp_path / "m.nearfold")


def test_codes_of_categories_are_no_targets_of_a_regressor(tmp_path):
    model = TransformedTargetRegressor(nf.KNeighborsRegressor(), transformer=MinMaxScaler())
    model.fit(X, Y).transformer_ = OrdinalEncoder().fit(Y[:, None])
    with pytest.raises(InputError, match="gives codes"):
        save(model, tmp_path / "m.nearfold")


@pytest.mark.parametrize(
    ("regressor", "words"),
    [
        (nf.LSML_Supervised(random_state=0).fit(X, Y), "no predict"),
        (nf.LSML(random_state=0).fit(X, Y), "no predict"),
        (nf.KNeighborsClassifier().fit(X, Y), "no numbers"),
    ],
)
def test_the_regressor_of_isomap_predicts_numbers(regressor, words, tmp_path):
    model = nf.Isomap(extension="regressor").fit(X)
    model.regressor_ = regressor
    with pytest.raises(InputError, match=words):
        save(model, tmp_path / "m.nearfold")


def test_the_regressor_of_isomap_gives_its_coordinates(tmp_path):
    model = nf.Isomap(extension="regressor").fit(X)
    model.regressor_ = nf.KNeighborsRegressor().fit(X, Y)
    again = load(save(model, tmp_path / "m.nearfold"))
    with pytest.raises(InputError, match="gives 1 coordinates"):
        again.transform(X)
